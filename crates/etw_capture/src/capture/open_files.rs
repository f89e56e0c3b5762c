//! The files that processes have open.

use std::fs;
use std::io::Read;

use aya::programs::{Iter, ProgramError};
use aya::{Btf, Ebpf};

use super::programs::with_causes;

/// Number of files per step, chosen so that a ring has room for all their names.
const FILES_AT_ONCE: usize = 1024;

/// A walk over the files that processes have open, which reports names that were not reported before.
///
/// They are delivered as events ([`FileName`](crate::records::FileName)) of the processors that the walk runs on.
#[derive(Debug)]
pub struct OpenFiles(fs::File);

impl OpenFiles {
    pub(super) fn start(object: &mut Ebpf, types: &Btf) -> Result<OpenFiles, String> {
        let attach = |program: &mut Iter| program.attach().and_then(|link| program.take_link(link));
        let link = load(object, types).and_then(attach).map_err(|error| with_causes(&error))?;
        link.into_file().map(OpenFiles).map_err(|error| with_causes(&error))
    }

    /// Walks about a thousand files further, and returns whether there may be more. The rings must be read between
    /// calls.
    pub fn go_on(&mut self) -> bool {
        // The program writes a byte for each file.
        self.0.read(&mut [0; FILES_AT_ONCE]).is_ok_and(|files| files > 0)
    }
}

/// Returns the program, and loads it if needed.
pub(super) fn load<'a>(object: &'a mut Ebpf, types: &Btf) -> Result<&'a mut Iter, ProgramError> {
    let program: &mut Iter =
        object.program_mut("open_files").ok_or(ProgramError::UnexpectedProgramType)?.try_into()?;
    if program.fd().is_err() {
        program.load("task_file", types)?;
    }
    Ok(program)
}
