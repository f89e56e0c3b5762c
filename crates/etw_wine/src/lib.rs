//! Prefixes of Wine in which Windows programs use OpenETW: DLLs that forward functions, and settings.
//!
//! [`install`] changes a prefix so that programs in it find ETW's functions in `etw_win32.dll`, and [`remove`] undoes it.
//! Nothing of Wine is needed to build this, and nothing of it is copied out of the prefix.
//!
//! | file in `drive_c/windows/system32` | after the installation |
//! |---|---|
//! | `etw_win32.dll` | the library of the crate `etw_win32` |
//! | `etw_win32.path` | the path of `etw`, which programs start as the host of their sessions |
//! | `wineadvapi32.dll`, `winekernelbase.dll`, `winesechost.dll`, `winetdh.dll` | Wine's DLLs, renamed |
//! | `advapi32.dll`, `kernelbase.dll`, `sechost.dll`, `tdh.dll` | exports of the same names: ETW's functions lead to `etw_win32.dll`, all others to the renamed DLLs |
//! | `bcryptprimitives.dll` | if Wine has none: its random numbers, which programs in Rust need |

#![forbid(unsafe_code)]

mod forwarder;
mod functions;
mod prefix;
mod registry;

pub use functions::{DLLS, functions_of};
pub use prefix::{Error, Installation, install, remove};
