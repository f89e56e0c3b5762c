//! TDH: what the payloads of events mean (`tdh.h`).

mod event;
mod format;
mod info;
mod map;
mod out;
mod property;
mod providers;

pub use event::*;
pub use format::*;
pub use map::*;
pub use property::*;
pub use providers::*;
