//! Published results for real traces, read into comparable values.

pub(crate) mod baseline;
pub(crate) mod compare;
pub(crate) mod events;
pub(crate) mod names;
pub(crate) mod volumes;
