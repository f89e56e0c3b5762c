//! Event Tracing for Windows as an open system: the crate that programs depend on.
