//! Python's interpreter, from version 3.11 on: where it keeps its frames, which the kernel's programs follow
//! (`bpf/python.h`), and what native frames stand for them.
//!
//! The offsets are those of CPython's headers (`cpython/pystate.h`, `internal/pycore_frame.h`, `cpython/code.h`); from 3.13 on
//! the interpreter has them itself (`_Py_DebugOffsets`).
//!
//! ```
//! use etw_capture::python::PythonFile;
//!
//! let program = std::fs::File::open(std::env::current_exe()?)?;
//! assert!(PythonFile::from_file(program).is_none(), "this program is no interpreter");
//! # Ok::<(), std::io::Error>(())
//! ```

mod file;
mod lines;
mod merge;

pub use file::PythonFile;
pub use lines::{CodeLine, code_lines};
pub(crate) use merge::merge;

/// Where an interpreter keeps what: addresses and offsets in bytes, as `bpf/python.h` describes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interpreter {
    pub(crate) first: u64,
    pub(crate) next_interpreter: u32,
    pub(crate) first_thread: u32,
    pub(crate) next_thread: u32,
    pub(crate) thread_id: u32,
    pub(crate) frame: u32,
    pub(crate) frame_through: Option<u32>,
    pub(crate) code: u32,
    pub(crate) caller: u32,
    pub(crate) instruction: u32,
    pub(crate) mark: u32,
    pub(crate) mark_of_entry: u32,
    pub(crate) entry_runs_code: bool,
    pub(crate) name: u32,
    pub(crate) file: u32,
    pub(crate) lines: u32,
    pub(crate) first_line: u32,
    pub(crate) first_instruction: u32,
    pub(crate) ascii: u32,
    pub(crate) characters: u32,
}

impl Interpreter {
    /// Number of words in the form of the kernel's programs.
    pub(crate) const LEN_WORDS: usize = 11;

    /// Returns the form of the kernel's programs.
    pub(crate) fn words(&self) -> [u64; Self::LEN_WORDS] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [
            self.first,
            pair(self.next_interpreter, self.first_thread),
            pair(self.next_thread, self.thread_id),
            pair(self.frame, self.frame_through.unwrap_or(u32::MAX)),
            pair(self.code, self.caller),
            pair(self.instruction, self.mark),
            pair(self.mark_of_entry, self.entry_runs_code.into()),
            pair(self.name, self.file),
            pair(self.lines, self.first_line),
            pair(self.first_instruction, self.ascii),
            pair(self.characters, 0),
        ]
    }
}
