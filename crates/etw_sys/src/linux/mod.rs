//! What live sessions need from Linux.

mod bell;
pub mod clock;
pub mod control_groups;
pub mod cpu;
pub mod credentials;
mod doorbell;
mod event_fd;
pub mod ids;
mod limits;
mod mappings;
mod of_thread;
mod perf_ring;
pub mod poll;
pub mod rights;
mod shared;
pub mod signals;
pub mod socket;
pub mod stack;
mod tracepoints;
pub mod watch;

pub use bell::{Bell, Ringer, bell};
pub use doorbell::Doorbell;
pub use event_fd::EventFd;
pub use limits::{is_writable_file, prefer_this_thread, raise_handle_limit};
pub use mappings::MappingRing;
pub use shared::SharedWords;
pub use tracepoints::{TracepointEvent, TracepointRing};
