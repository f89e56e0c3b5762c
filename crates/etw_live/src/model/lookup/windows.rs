//! Lookup of running processes of Windows.

use std::path::Path;

use etw_sys::process;
use openetw::{FileTime, ProcessTable};

use super::Found;

/// Lookup on this machine, or in the trace of another one; the default knows nothing.
#[derive(Debug, Default)]
pub(crate) struct Lookup {
    is_here: bool,
    /// The processes of a trace.
    trace: ProcessTable,
}

impl Lookup {
    pub(crate) fn of_this_machine() -> Lookup {
        Lookup { is_here: true, ..Lookup::default() }
    }

    /// Returns a lookup in the processes of a trace, whose files are all of one machine.
    pub(crate) fn of_trace(processes: ProcessTable) -> Lookup {
        Lookup { trace: processes, ..Lookup::default() }
    }

    /// Returns the process of a thread: unknown here.
    pub(crate) fn process_of(&self, _: u32) -> Option<u32> {
        None
    }

    /// Returns the name of a disk, which on Windows is its number.
    pub(crate) fn disk(&self, _: u32) -> Option<String> {
        None
    }

    /// Returns the properties of a process that runs at a time.
    pub(crate) fn process(&self, process_id: u32, time: FileTime) -> Option<Found> {
        if let Some(image) = self.trace.name(0, process_id, time) {
            return Some(Found { image: image.to_owned(), ..Found::default() });
        }
        let path = process::image(process_id).ok().filter(|_| self.is_here)?;
        let image = Path::new(&path).file_name()?.to_string_lossy().into_owned();
        let started = process::start(process_id).ok().flatten();
        let started = started.and_then(|start| i64::try_from(start).ok()).map(FileTime);
        Some(Found { image, started, ..Found::default() })
    }

    /// Returns the functions of a stack: unknown while the events arrive.
    pub(crate) fn functions(&self, _: Option<u32>, frames: &[u64]) -> Vec<Option<String>> {
        vec![None; frames.len()]
    }

    /// Returns a user: the SID.
    pub(crate) fn user(&self, sid: &str) -> String {
        sid.to_owned()
    }
}
