//! The tables of a report, and the code to build them.

pub(crate) mod cpu;
pub(crate) mod dotnet;
pub(crate) mod functions;
pub(crate) mod latency;
pub(crate) mod named;
pub(crate) mod processes;
pub(crate) mod shaped;
pub(crate) mod switches;
pub(crate) mod table;
pub(crate) mod wait_chains;
