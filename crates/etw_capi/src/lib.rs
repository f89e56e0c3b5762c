//! ETW's functions for C and C++: `libopenetw`, with headers named and shaped as those of the Windows SDK.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! The headers are in `include`, and document what differs from Windows. `etw install-dev` installs them with the
//! library. Rust programs use the crate `openetw` instead.
//!
//! Functions return the error codes that Windows documents. Wrong numbers, handles and null pointers are refused; a
//! pointer to memory of the wrong kind cannot be recognised.
//!
//! Names with wide text have two symbols: `OpenTraceW` takes UTF-16, and `OpenTraceW32` takes characters of 32 bits,
//! which are `wchar_t` on Linux unless a program is compiled with `-fshort-wchar`. The headers choose.

#![cfg(target_os = "linux")]
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(clippy::missing_safety_doc, reason = "the rules for pointers are those of the functions of Windows")]
#![allow(non_upper_case_globals, reason = "the constants have the names of Windows")]
#![allow(non_snake_case, reason = "the functions have the names of Windows")]

mod consume;
mod control;
pub mod development;
mod error;
#[doc(hidden)]
pub mod guest;
mod guid;
mod own;
mod provide;
mod relogger;
mod schemas;
mod system;
mod tdh;
mod time;
mod wide;

pub use consume::*;
pub use control::*;
pub use error::{GetLastError, SetLastError};
pub use own::*;
pub use provide::*;
pub use relogger::*;
pub use schemas::*;
pub use system::*;
pub use tdh::*;
pub use time::*;
