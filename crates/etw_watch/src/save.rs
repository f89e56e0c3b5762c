//! A file with the kept events, followed by all new events.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::Result;
use etw_app::output;
use openetw::etl::{EtlWriter, LogFileHeader, WriterOptions};
use openetw::{FileTime, Record, classes};

/// Buffer size in bytes; the largest possible record fits.
const BUFFER_BYTES: u32 = 128 << 10;

/// A file being written.
#[derive(Debug)]
pub(super) struct Saving {
    pub(super) path: PathBuf,
    writer: Option<EtlWriter<BufWriter<File>>>,
    /// Number of events written.
    pub(super) events: u64,
    /// Number of events that could not be written, and the reason.
    pub(super) failed: Option<(u64, String)>,
}

impl Saving {
    /// Creates a file for a session with this header.
    pub(super) fn begin(path: &Path, header: &LogFileHeader) -> Result<Saving> {
        let file = output::create(path)?;
        let mut options = WriterOptions::relog(header);
        options.header.buffer_size = options.header.buffer_size.max(BUFFER_BYTES);
        // Earlier losses of the session do not affect this file.
        (options.header.events_lost, options.header.buffers_lost) = (0, 0);
        let writer = Some(EtlWriter::new(BufWriter::new(file), options)?);
        Ok(Saving { path: path.to_owned(), writer, events: 0, failed: None })
    }

    /// Appends a record; a failure is counted.
    pub(super) fn write(&mut self, record: &Record<'_>) {
        let Some(writer) = &mut self.writer else { return };
        if record.is_log_file_header() {
            return;
        }
        let written = match openetw::etl::loss_of(record) {
            Some(_) => {
                let lost = u32::try_from(openetw::etl::lost_count(record)).unwrap_or(u32::MAX);
                writer.lose_events(record.processor(), lost)
            }
            None => writer.write(record.processor(), record.as_bytes()),
        };
        match written {
            // Do not count the session's own events.
            Ok(()) => self.events += u64::from(record.provider_id() != classes::EVENT_TRACE),
            Err(error) => {
                let (count, _) = self.failed.get_or_insert_with(|| (0, error.to_string()));
                *count += 1;
            }
        }
    }

    /// Completes the file.
    pub(super) fn finish(&mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as i128);
        let written = writer.finish(FileTime::from_unix_nanos(now))?;
        written.out.into_inner().map_err(|error| error.into_error())?.sync_data()?;
        Ok(())
    }
}
