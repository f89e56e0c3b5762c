//! The tables of a report, and the code to build them.

pub(crate) mod context;
pub(crate) mod cpu;
pub(crate) mod disk;
pub(crate) mod dotnet;
pub(crate) mod faults;
pub(crate) mod file_io;
pub(crate) mod functions;
pub(crate) mod http;
pub(crate) mod interrupts;
mod io_names;
pub(crate) mod latency;
pub(crate) mod named;
pub(crate) mod network;
pub(crate) mod processes;
pub(crate) mod shaped;
pub(crate) mod switches;
pub(crate) mod syscalls;
pub(crate) mod table;
pub(crate) mod wait_chains;
pub(crate) mod waits;
mod windows_http;
