//! Times in which a session lost events.

use openetw::FileTime;
use openetw::etl::BufferFlags;

use super::buffers::BufferOutline;

/// Maximum number of times that are listed.
const MAX_LOSSES: usize = 10_000;

/// A time in which events of a processor were lost: between two of its buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loss {
    /// Time of the first event of the buffer before the loss.
    pub(crate) from: FileTime,
    /// Time of the first event after the loss.
    pub(crate) to: FileTime,
    /// Processor whose events were lost.
    pub(crate) processor: u16,
    /// Whether whole buffers were lost.
    pub(crate) of_buffers: bool,
}

/// Collects the losses that the headers of buffers mark.
#[derive(Debug)]
pub(super) struct Losses {
    start: FileTime,
    found: Vec<Loss>,
    file: usize,
    /// The first time of the last buffer of each processor.
    last: Vec<Option<FileTime>>,
}

impl Losses {
    pub(super) fn new(start: FileTime) -> Losses {
        Losses { start, found: Vec::new(), file: 0, last: Vec::new() }
    }

    /// Adds a buffer, in the order of its file.
    pub(super) fn add(&mut self, seen: BufferOutline) {
        if seen.file != self.file {
            self.file = seen.file;
            self.last.clear();
        }
        let processor = usize::from(seen.processor);
        if self.last.len() <= processor {
            self.last.resize(processor + 1, None);
        }
        let before = self.last.get_mut(processor).and_then(|last| last.replace(seen.time));
        if seen.flags.intersects(BufferFlags::EVENTS_LOST | BufferFlags::BUFFER_LOST)
            && self.found.len() < MAX_LOSSES
        {
            self.found.push(Loss {
                from: before.unwrap_or(self.start).min(seen.time),
                to: seen.time,
                processor: seen.processor,
                of_buffers: seen.flags.contains(BufferFlags::BUFFER_LOST),
            });
        }
    }

    pub(super) fn found(&self) -> &[Loss] {
        &self.found
    }

    pub(super) fn finish(mut self) -> Vec<Loss> {
        self.found.sort_by_key(|loss| (loss.from, loss.processor));
        self.found
    }
}
