//! What the targets run, in one file for each part of the project.

#[cfg(target_os = "linux")]
pub(crate) mod capi;
pub(crate) mod configuration;
pub(crate) mod consumer;
pub(crate) mod decoder;
pub(crate) mod export;
pub(crate) mod file;
pub(crate) mod index;
mod output;
pub(crate) mod profile;
pub(crate) mod record;
pub(crate) mod rows;
pub(crate) mod runtime;
pub(crate) mod shared;
pub(crate) mod sources;
pub(crate) mod store;
pub(crate) mod symbols;
pub(crate) mod wpa;
