//! Constant tables.

pub(crate) mod errors;
