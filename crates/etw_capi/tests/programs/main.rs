//! Programs in C and C++, compiled with the compilers of this machine against the headers and the library, and run.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod activity;
mod arguments;
mod constants;
mod document;
mod headers;
mod layout;
mod manifest;
mod roundtrip;
mod support;
