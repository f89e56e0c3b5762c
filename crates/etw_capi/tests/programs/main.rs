//! Programs in C and C++, compiled with the compilers of this machine against the headers and the library, and run; and the
//! Tcl package.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod activity;
mod arguments;
mod constants;
mod controller;
mod document;
mod fields;
mod functions;
mod headers;
mod layout;
mod manifest;
mod memory;
mod messages;
mod payload;
mod private;
mod relog;
mod roundtrip;
mod support;
mod system;
mod tcl;
mod windows_programs;
