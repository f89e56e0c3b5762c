//! The vDSO: the code that Linux maps into every process.

#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod system;
#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;

pub use system::own;

/// The path that mappings of the vDSO have in `/proc` and in traces.
pub const NAME: &str = "[vdso]";
