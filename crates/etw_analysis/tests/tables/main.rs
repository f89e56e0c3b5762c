//! Tables over generated traces with known numbers.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod by_stack;
mod cpu;
mod dotnet;
mod io;
mod machine;
mod samples;
#[cfg(target_os = "linux")]
mod symbols;
mod timeline;
mod windows;
