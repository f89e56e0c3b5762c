//! Records kept in an unnamed temporary file: the context of several output files.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use etw_event::{Clock, Fields, Origin, Record, Ticks};
use etw_sys::FileMap;
use tempfile::tempfile;

/// Size of the data before each record: its length, processor and time.
const HEAD_BYTES: usize = 16;

/// Records being written to the file, in time order.
#[derive(Debug)]
pub(super) struct Spool {
    file: BufWriter<File>,
}

/// The records in the file.
#[derive(Debug)]
pub(super) struct Spooled {
    map: FileMap,
    clock: Clock,
}

impl Spool {
    pub(super) fn new() -> io::Result<Spool> {
        Ok(Spool { file: BufWriter::with_capacity(1 << 16, tempfile()?) })
    }

    pub(super) fn push(&mut self, record: &Record<'_>) -> io::Result<()> {
        let bytes = record.as_bytes();
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        head[4..6].copy_from_slice(&record.processor().to_le_bytes());
        head[8..].copy_from_slice(&record.raw_time().0.to_le_bytes());
        self.file.write_all(&head)?;
        self.file.write_all(bytes)?;
        self.file.write_all(&[0; 8][..bytes.len().next_multiple_of(8) - bytes.len()])
    }

    pub(super) fn finish(self, clock: Clock) -> io::Result<Spooled> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(Spooled { map: FileMap::new(&file)?, clock })
    }
}

impl Spooled {
    /// Returns the number of bytes of all records.
    pub(super) fn len_bytes(&self) -> u64 {
        self.map.len() as u64
    }

    /// Returns the time of the record at an offset, or `None` at the end.
    pub(super) fn time(&self, at: usize) -> Option<Ticks> {
        self.map.get(at..)?.i64_at(8).map(Ticks)
    }

    /// Calls `visit` with the record at an offset; returns the offset of the next one.
    pub(super) fn visit<E>(
        &self,
        at: usize,
        visit: impl FnOnce(&Record<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let rest = self.map.get(at..).unwrap_or_default();
        let len = rest.u32_at(0).unwrap_or(0) as usize;
        let end = HEAD_BYTES + len.next_multiple_of(8);
        let processor = rest.u16_at(4).unwrap_or(0);
        let origin = Origin { clock: self.clock, processor, ..Origin::default() };
        let time = Ticks(rest.i64_at(8).unwrap_or(0));
        let bytes = rest.get(HEAD_BYTES..HEAD_BYTES + len).unwrap_or_default();
        if let Ok(record) = Record::parse(bytes, &origin, time) {
            visit(&record)?;
        }
        Ok(at + end)
    }
}
