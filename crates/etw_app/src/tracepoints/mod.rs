//! Tracepoints of the Linux kernel in provider strings: `tracepoint:sched:sched_switch where prev_pid != 0`.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(windows)]
pub(crate) use elsewhere::wanted;
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{find, list};
#[cfg(target_os = "linux")]
pub(crate) use linux::wanted;
#[cfg(target_os = "linux")]
pub use linux::{find, list};

/// The provider string of all tracepoints.
pub const ALL: &str = PREFIX;

/// What a provider string of tracepoints starts with.
const PREFIX: &str = "tracepoint:";

/// Returns the pattern of names if a provider string names tracepoints.
pub fn pattern_text(text: &str) -> Option<&str> {
    text.strip_prefix(PREFIX)
}
