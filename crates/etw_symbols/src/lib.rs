//! Addresses to names: functions and lines of programs, libraries and the kernel.
//!
//! A trace tells of addresses, and of the images that lie around them, each by its path and its build id.
//! [`Symbolizer`] looks for these files on this machine, and answers for many addresses of one image at a time, so that
//! no file stays open, and memory holds what one file needs. A file that has another build id than the trace says is not
//! used, and the error says so.
//!
//! [`KernelSymbols`] are the kernel's own: `/proc/kallsyms` of the boot that runs, or a `System.map`.
//!
//! Not here: PDB files of Windows, unwinding.
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
