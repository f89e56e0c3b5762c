//! TDH: what the payloads of events mean (`tdh.h`).

mod classes;
mod decoding;
mod event;
mod fields;
mod format;
mod hostile;
mod info;
mod map;
mod out;
mod payload;
mod property;
mod providers;
mod wpp;

pub use decoding::*;
pub use event::*;
pub use fields::*;
pub use format::*;
#[doc(hidden)]
pub use hostile::decode_hostile_record;
pub use map::*;
pub use payload::*;
pub use property::*;
pub use providers::*;
