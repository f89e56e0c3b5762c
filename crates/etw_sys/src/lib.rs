//! System calls, one module per operating system: memory maps of files, and files without a name.
//!
//! The only crate of the workspace with `unsafe` code; everything it offers is safe to call.

mod map;
mod temporary;

pub use map::FileMap;
pub use temporary::temporary_file;
