//! Schemas of every kind, read from real and generated data.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod builtin_traces;
mod dotnet_manifest;
mod event_source;
mod files;
mod hostile;
mod manifests;
mod mof;
mod publishers;
mod real_traces;
mod sawbuck;
mod store;
mod unknown_layouts;
mod wevt;
mod wpp;
