//! Providers: registering, and writing events.

mod classic;
mod cve;
mod events;
mod pieces;
mod registration;
mod tracelogging;

pub use classic::*;
pub use cve::*;
pub use events::*;

pub(crate) use events::from_descriptor;
pub(crate) use registration::catch_up;
pub use tracelogging::*;
