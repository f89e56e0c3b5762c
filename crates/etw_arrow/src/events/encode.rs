//! The files of tables. Rows are encoded by threads beside the one that collects them, or by that one.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::concat::concat_batches;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::ColumnFormat;

/// Number of jobs that wait for each thread, which bounds the rows in memory. When the rows of all tables are written at
/// once, the reader goes on while they are encoded.
const AHEAD: usize = 8;

/// A step of writing a table's file. A table has at most one open file.
pub(super) enum Job<W> {
    /// Begins a file.
    Open { table: usize, schema: SchemaRef, file: W },
    /// Writes a row group, which is in pieces.
    Rows { table: usize, pieces: Vec<RecordBatch> },
    /// Completes the file.
    Close { table: usize },
}

/// Writes the files of all tables.
pub(super) struct Encoders<W: Write + Send + 'static> {
    /// Threads, each with the tables whose numbers have the same remainder.
    lanes: Vec<Lane<W>>,
    /// The files, if there are no threads.
    own: Files<W>,
}

struct Lane<W> {
    jobs: SyncSender<Job<W>>,
    thread: JoinHandle<Result<(), EncodeError>>,
}

/// The open files of one thread.
struct Files<W: Write + Send> {
    format: ColumnFormat,
    /// By table.
    open: HashMap<usize, File<W>>,
}

enum File<W: Write + Send> {
    Parquet(Box<ArrowWriter<W>>),
    Arrow(Box<FileWriter<W>>),
}

/// The error of writing a file.
#[derive(Debug, thiserror::Error)]
enum EncodeError {
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// Rows after an error, which would be lost without a word.
    #[error("the table's file could not be written")]
    Failed,
}

impl<W: Write + Send + 'static> Encoders<W> {
    /// Starts up to `threads` threads; with none, the caller's thread does the work.
    pub(super) fn new(format: ColumnFormat, threads: usize) -> Encoders<W> {
        let start = |_| {
            let (jobs, taken) = sync_channel(AHEAD);
            let body = move || encode(format, &taken);
            let thread = thread::Builder::new().name("encode".into()).spawn(body).ok()?;
            Some(Lane { jobs, thread })
        };
        Encoders { lanes: (0..threads).map_while(start).collect(), own: Files::new(format) }
    }

    /// Takes a job. Waits while too many are unfinished.
    ///
    /// # Errors
    ///
    /// Fails if a file could not be written: this one, or an earlier one of the same thread.
    pub(super) fn take(&mut self, job: Job<W>) -> io::Result<()> {
        if self.lanes.is_empty() {
            return self.own.take(job).map_err(io::Error::other);
        }
        let table = match &job {
            Job::Open { table, .. } | Job::Rows { table, .. } | Job::Close { table } => *table,
        };
        let lane = table % self.lanes.len();
        match self.lanes[lane].jobs.send(job) {
            Ok(()) => Ok(()),
            Err(_) => self.lanes.swap_remove(lane).finish(),
        }
    }

    /// Waits until all jobs are done.
    ///
    /// # Errors
    ///
    /// Fails if a file could not be written.
    pub(super) fn finish(self) -> io::Result<()> {
        self.lanes.into_iter().map(Lane::finish).fold(Ok(()), io::Result::and)
    }
}

impl<W> Lane<W> {
    fn finish(self) -> io::Result<()> {
        drop(self.jobs);
        let ended = self.thread.join().map_err(|_| io::Error::other("an encoding thread panicked"))?;
        ended.map_err(io::Error::other)
    }
}

/// Does the jobs of one thread, up to the first error.
fn encode<W: Write + Send>(format: ColumnFormat, jobs: &Receiver<Job<W>>) -> Result<(), EncodeError> {
    let mut files = Files::new(format);
    jobs.iter().try_for_each(|job| files.take(job))
}

impl<W: Write + Send> Files<W> {
    fn new(format: ColumnFormat) -> Files<W> {
        Files { format, open: HashMap::new() }
    }

    fn take(&mut self, job: Job<W>) -> Result<(), EncodeError> {
        match job {
            Job::Open { table, schema, file } => {
                let file = match self.format {
                    ColumnFormat::Parquet => {
                        let snappy = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                        File::Parquet(Box::new(ArrowWriter::try_new(file, schema, Some(snappy))?))
                    }
                    ColumnFormat::Arrow => File::Arrow(Box::new(FileWriter::try_new(file, &schema)?)),
                };
                self.open.insert(table, file);
            }
            Job::Rows { table, pieces } => {
                let Some(first) = pieces.first() else { return Ok(()) };
                // A file whose writing fails is not put back, so that later rows fail too.
                let mut file = self.open.remove(&table).ok_or(EncodeError::Failed)?;
                match &mut file {
                    File::Parquet(writer) => {
                        pieces.iter().try_for_each(|rows| writer.write(rows))?;
                        writer.flush()?;
                    }
                    File::Arrow(writer) => writer.write(&concat_batches(&first.schema(), &pieces)?)?,
                }
                self.open.insert(table, file);
            }
            Job::Close { table } => match self.open.remove(&table) {
                Some(File::Parquet(writer)) => drop(writer.close()?),
                Some(File::Arrow(mut writer)) => writer.finish()?,
                None => {}
            },
        }
        Ok(())
    }
}
