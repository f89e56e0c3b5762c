//! Providers: registering, and writing events.

mod events;
mod pieces;
mod registration;
mod tracelogging;

pub use events::*;

pub(crate) use events::from_descriptor;
pub use tracelogging::*;
