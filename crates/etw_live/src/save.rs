//! A file with the kept events, followed by all new events.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::Result;
use etw_app::output;
use etw_app::recording::verdict;
use etw_app::schemas::Schemas;
use etw_app::text::grouped;
use openetw::etl::{EtlWriter, LogFileHeader, WriterOptions};
use openetw::recording::{Contents, Processes};
use openetw::{FileTime, Record, classes};

/// Buffer size in bytes; the largest possible record fits.
const BUFFER_BYTES: u32 = 128 << 10;

/// A trace file being written.
#[derive(Debug)]
pub struct Saving {
    /// The file.
    pub path: PathBuf,
    writer: Option<EtlWriter<BufWriter<File>>>,
    /// Number of events written.
    pub events: u64,
    /// Number of events that could not be written, and the reason.
    pub failed: Option<(u64, String)>,
}

impl Saving {
    /// Creates a file for a session with this header.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created.
    pub fn begin(path: &Path, header: &LogFileHeader) -> Result<Saving> {
        let file = output::create(path)?;
        let mut options = WriterOptions::relog(header);
        options.header.buffer_size = options.header.buffer_size.max(BUFFER_BYTES);
        // Earlier losses of the session do not affect this file.
        (options.header.events_lost, options.header.buffers_lost) = (0, 0);
        let writer = Some(EtlWriter::new(BufWriter::new(file), options)?);
        Ok(Saving { path: path.to_owned(), writer, events: 0, failed: None })
    }

    /// Appends a record; a failure is counted.
    pub fn write(&mut self, record: &Record<'_>) {
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
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn finish(&mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as i128);
        let written = writer.finish(FileTime::from_unix_nanos(now))?;
        written.out.into_inner().map_err(|error| error.into_error())?.sync_data()?;
        Ok(())
    }
}

/// Adds schemas and processes to a file, so that it can be read on other machines; returns a summary of the file.
///
/// # Errors
///
/// Fails if the file cannot be read.
pub fn make_readable(path: &Path, schemas: &Schemas, processes: &Processes) -> Result<String> {
    let contents = Contents::of_file(path, &schemas.sources())?;
    let added = contents.embed(path, processes);
    let missing = added.err().map(|error| format!("; without schemas and processes: {error}"));
    let (events, verdict) = (grouped(contents.events), verdict(&contents));
    Ok(format!("{}: {events} events, {verdict}{}", path.display(), missing.unwrap_or_default()))
}
