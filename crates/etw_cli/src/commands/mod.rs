//! The commands.

pub(crate) mod dump;
pub(crate) mod generate;
pub(crate) mod info;
pub(crate) mod provider;
pub(crate) mod schema;
pub(crate) mod stats;
