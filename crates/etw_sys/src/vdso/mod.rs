//! The vDSO: the code that Linux maps into every process.
//!
//! ```
//! use etw_sys::vdso;
//!
//! // Fails where there is no vDSO.
//! if let Ok(image) = vdso::own() {
//!     assert!(image.starts_with(b"\x7FELF"));
//! }
//! ```

#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod system;
#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;

pub use system::own;

/// The path that mappings of the vDSO have in `/proc` and in traces.
pub const NAME: &str = "[vdso]";
