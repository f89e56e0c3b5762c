//! What programs log by other means, as events of a provider.
//!
//! Each is a feature of this crate: `tracing` and `log`. The values of an event are looked at only if a session wants
//! it. How an event is described is worked out once for each place in the program that logs, and its values are
//! collected in memory of the thread that is used again, so that events take no memory and no lock of their own.

#[cfg(feature = "tracing")]
mod descriptions;
#[cfg(feature = "log")]
mod log;
#[cfg(feature = "tracing")]
mod tracing;
#[cfg(any(feature = "log", feature = "tracing"))]
#[cfg_attr(
    not(feature = "tracing"),
    allow(dead_code, reason = "records of `log` have the same fields always")
)]
mod values;

#[cfg(feature = "log")]
pub use self::log::Logger;
#[cfg(feature = "tracing")]
pub use self::tracing::TracingLayer;
