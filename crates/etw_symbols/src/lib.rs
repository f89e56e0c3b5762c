//! Addresses to names: functions and lines of programs, libraries and the kernel.
//!
//! A trace has addresses, and the images that they lie in, each with its path and build id. [`Symbolizer`] looks for
//! the files on this machine and resolves many addresses of one image at a time, so that no file stays open and memory
//! holds what one file needs. A file with another build id than the trace has is not used, and the error says so.
//!
//! [`KernelSymbols`] are those of the kernel: `/proc/kallsyms` of the running system, or a `System.map`.
//!
//! Not in this crate: PDB files of Windows, unwinding.
//!
//! ```no_run
//! use etw_symbols::{Module, Symbolizer};
//!
//! let module = Module { path: "/usr/bin/make", build_id: &[] };
//! for symbol in Symbolizer::new().resolve(&module, &[0x1234])?.into_iter().flatten() {
//!     println!("{}", symbol.function());
//! }
//! # Ok::<(), etw_symbols::SymbolError>(())
//! ```

#![forbid(unsafe_code)]

mod debug_files;
mod demangle;
mod dwarf;
mod elf;
mod error;
mod kernel;
mod symbolizer;

pub use demangle::demangle;
pub use error::SymbolError;
pub use kernel::{KernelSymbol, KernelSymbols};
pub use symbolizer::{Frame, Module, Symbol, Symbolizer};
