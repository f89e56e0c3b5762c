//! Functions that a JIT compiler has made, as runtimes on Linux list them for `perf`: perf maps and jitdump files.
//!
//! Both are parsed from bytes, one function at a time. Damage costs the functions that it hits.
//!
//! ```
//! use etw_symbols::jit::PerfMap;
//!
//! let functions: Vec<_> = PerfMap::new(b"7f0012340000 40 JS:*add /srv/app.js:3\n").collect();
//! assert_eq!((functions[0].address, functions[0].len_bytes), (0x7f00_1234_0000, 0x40));
//! assert_eq!(functions[0].name, b"JS:*add /srv/app.js:3");
//! ```

mod dump;
mod lines;
mod perf_map;

pub use dump::{JitDump, JitDumpError};
pub use lines::{JitLine, JitLines};
pub use perf_map::PerfMap;

/// A function in memory.
#[derive(Debug, Clone, Copy)]
pub struct JitCode<'a> {
    /// When its code was there, on the clock of its file; `None` if the file has no times.
    pub time: Option<u64>,
    /// Address of its first byte.
    pub address: u64,
    /// Length of its code in bytes, at least 1.
    pub len_bytes: u64,
    /// Name, usually UTF-8.
    pub name: &'a [u8],
    /// Its source lines, if the file has them.
    pub lines: JitLines<'a>,
}

impl<'a> JitCode<'a> {
    /// Returns a function, or `None` if it has no code or exceeds the address space.
    fn new(address: u64, len_bytes: u64, name: &'a [u8]) -> Option<JitCode<'a>> {
        address.checked_add(len_bytes).filter(|_| len_bytes > 0 && !name.is_empty())?;
        Some(JitCode { time: None, address, len_bytes, name, lines: JitLines::default() })
    }

    /// Returns the address after its last byte.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.len_bytes)
    }
}
