//! What others published of real traces, read into values that can be compared.

pub(crate) mod baseline;
pub(crate) mod compare;
pub(crate) mod events;
pub(crate) mod names;
pub(crate) mod volumes;
