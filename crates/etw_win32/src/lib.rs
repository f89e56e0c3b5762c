//! ETW's functions for Windows programs under Wine: a library that Wine loads as a DLL.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! It is an ELF library with the headers of a DLL (module `image`): Wine maps it into a Windows process, where its functions
//! have the calling convention of Windows and run on the threads of the program. They call those of `etw_capi`, so a
//! Windows program uses the same runtime as a Linux program, and both share sessions.
//!
//! `etw wine install` copies the library to a prefix as `etw_win32.dll`, and makes `advapi32.dll`, `kernelbase.dll`,
//! `sechost.dll` and `tdh.dll` forward ETW's functions to it.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(non_snake_case, reason = "the functions have the names of Windows")]

mod arguments;
mod decoding;
mod functions;
mod guest;
mod ids;
mod image;
mod messages;
mod nt;
mod relogger;
mod special;
mod system;
mod threads;
