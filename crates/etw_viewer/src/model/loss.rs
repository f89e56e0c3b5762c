//! Times in which a session lost events.

use openetw::etl::{BufferFlags, EtlFile};
use openetw::{FileTime, Trace};

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

/// Returns the losses that the headers of buffers mark.
pub(crate) fn losses(trace: &Trace) -> Vec<Loss> {
    let mut losses = Vec::new();
    let mut scratch = Vec::new();
    for input in trace.inputs() {
        let Ok(file) = EtlFile::open(input.bytes()) else { continue };
        let clock = file.clock();
        // The first time of the last buffer of each processor.
        let mut last: Vec<Option<FileTime>> = Vec::new();
        for buffer in file.buffers().flatten() {
            let flags = buffer.header.buffer_flag;
            let processor = usize::from(buffer.header.processor());
            let Some(time) = buffer.first_time(&mut scratch) else { continue };
            let time = clock.to_filetime(time);
            if last.len() <= processor {
                last.resize(processor + 1, None);
            }
            let before = last[processor].replace(time);
            if flags.intersects(BufferFlags::EVENTS_LOST | BufferFlags::BUFFER_LOST)
                && losses.len() < MAX_LOSSES
            {
                losses.push(Loss {
                    from: before.unwrap_or(trace.start_time()).min(time),
                    to: time,
                    processor: buffer.header.processor(),
                    of_buffers: flags.contains(BufferFlags::BUFFER_LOST),
                });
            }
        }
    }
    losses.sort_by_key(|loss| (loss.from, loss.processor));
    losses
}
