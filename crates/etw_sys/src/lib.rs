//! System calls, one module per operating system: memory maps of files, files without a name, and hints to caches.
//!
//! The only crate of the workspace with `unsafe` code; everything it offers is safe to call.

mod map;
mod prefetch;
mod temporary;

pub use map::FileMap;
pub use prefetch::prefetch;
pub use temporary::temporary_file;
