//! System calls, one module per operating system: memory maps of files, cache hints, and what live sessions need: on Linux
//! shared memory, clocks, ids and sockets, on Windows the functions of ETW.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! This is the only crate of the workspace with `unsafe` code. Everything it exports is safe to call, on one condition
//! that no system enforces: a file must not change while it is mapped ([`FileMap`]).
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! let file = std::fs::File::open("Cargo.toml")?;
//! let map = etw_sys::FileMap::new(&file)?;
//! assert!(map.starts_with(b"[package]"));
//! # Ok(())
//! # }
//! ```

mod atomic_ref;
mod child;
mod files;
mod heap;
#[cfg(target_os = "linux")]
mod linux;
mod map;
pub mod output;
mod page_errors;
mod prefetch;
mod programs;
pub mod vdso;
#[cfg(windows)]
mod windows;
mod words;

pub use atomic_ref::AtomicRef;
pub use child::end_with_parent;
pub use files::{DiskRoom, Root, names_in, open_regular};
pub use heap::{Memory, keep_little_heap, trim_heap};
#[cfg(target_os = "linux")]
pub use linux::*;
pub use map::{FileMap, release_file_maps};
pub use page_errors::exit_on_page_error;
pub use prefetch::{prefetch, prefetch_for_writing};
pub use programs::{
    is_descriptor, is_of_wine, is_thread_name, name_of_start, program_file, program_file_name, program_name,
    program_of_wine,
};
#[cfg(windows)]
pub use windows::*;
pub use words::{bytes_of, bytes_of_atomics, bytes_of_mut};
