//! Tables over generated traces with known numbers.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod by_stack;
mod cpu;
mod dotnet;
mod embedding;
mod http;
mod index;
mod io;
mod jit;
mod known;
mod machine;
mod parts;
mod rows;
mod samples;
mod stack_names;
mod summaries;
mod sums;
#[cfg(target_os = "linux")]
mod symbols;
mod timeline;
mod wait_chains;
mod windows;
