//! Addresses to names: functions and lines of programs, libraries and the kernel.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! A trace has addresses, and the images that they lie in, each with its path and identity. [`Symbolizer`] looks for
//! the files on this machine and resolves many addresses of one image at a time, so that no file stays open and memory
//! holds what one file needs. A file of another build than the trace has is not used, and the error says so.
//!
//! Images of Linux are identified by build ids; their names come from ELF and DWARF. Images of Windows are identified by
//! time stamp and size, and their PDB by GUID and age ([`WindowsImage`]); names come from PDB files in the
//! [`SymbolPath`], or from the image's exports. [`Symbolizer::fetch`] gets missing files from symbol servers.
//!
//! Functions of JIT compilers come from the files that runtimes write for `perf` ([`jit`]).
//!
//! Methods of .NET are named by the trace. [`Symbolizer::lines`] finds lines of their IL code in portable PDBs, alone or
//! in the assembly, and in PDBs of Windows.
//!
//! [`KernelSymbols`] are those of the Linux kernel: `/proc/kallsyms` of the running system, or a `System.map`.
//!
//! Not in this crate: unwinding, names of managed code.
//!
//! ```no_run
//! use etw_symbols::{Module, Symbolizer};
//!
//! let module = Module { path: "/usr/bin/make", ..Module::default() };
//! for symbol in Symbolizer::new().resolve(&module, &[0x1234])?.into_iter().flatten() {
//!     println!("{}", symbol.function());
//! }
//! # Ok::<(), etw_symbols::SymbolError>(())
//! ```

#![forbid(unsafe_code)]
// The files that are read here are untrusted: no cast and no index may depend on them unchecked.
#![warn(clippy::cast_possible_truncation, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation, clippy::indexing_slicing))]

mod debug_files;
mod debuginfod;
mod demangle;
mod downloads;
mod dwarf;
mod elf;
mod error;
mod file_bytes;
mod frame;
mod guard;
pub mod jit;
mod kernel;
mod managed_files;
pub mod memory;
mod stores;
mod symbolizer;
mod windows;
mod windows_files;

pub use debuginfod::Debuginfod;
pub use demangle::demangle;
pub use downloads::{FetchStep, Fetched};
pub use error::SymbolError;
pub use frame::{Frame, IlPlace, SourceLine, Symbol, is_function_name};
pub use kernel::{KernelSymbol, KernelSymbols};
pub use stores::{FetchLimits, SymbolPath, SymbolPathError};
pub use symbolizer::{Module, Symbolizer};
pub use windows::{PdbId, WindowsImage};
