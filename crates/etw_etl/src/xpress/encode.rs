//! The encoder of plain XPRESS.

/// Compresses buffers one after the other with the same tables.
#[derive(Debug, Default)]
pub struct Compressor {}
