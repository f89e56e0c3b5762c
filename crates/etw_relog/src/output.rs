//! The output file, which has a temporary name until it is complete.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use etw_etl::encode::RecordBuilder;
use etw_etl::{EtlWriter, WriteError, WriterOptions};
use etw_event::{FileTime, Record, Ticks};
use tempfile::NamedTempFile;

use super::RelogError;
use super::behind::Behind;

/// A file being written. It is removed if dropped before it is complete.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) path: PathBuf,
    writer: Option<EtlWriter<Behind>>,
    /// After the writer, so that the file is closed before it is removed.
    temporary: NamedTempFile,
}

impl Output {
    /// Creates a file.
    pub(super) fn create(path: &Path, options: WriterOptions) -> Result<Output, RelogError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        let failed = |source| RelogError::Io { path: path.into(), source };
        // Only the owner can read the file, and nobody can prepare its name.
        let temporary = tempfile::Builder::new()
            .prefix(&format!(".{name}."))
            .suffix(".part")
            .tempfile_in(directory.unwrap_or(Path::new(".")))
            .map_err(failed)?;
        let file = temporary.as_file().try_clone().and_then(Behind::new).map_err(failed)?;
        let mut output = Output { path: path.to_owned(), temporary, writer: None };
        output.writer = Some(EtlWriter::new(file, options).map_err(|source| output.error(source))?);
        Ok(output)
    }

    /// Calls `write` with the writer.
    pub(super) fn with<T>(
        &mut self,
        write: impl FnOnce(&mut EtlWriter<Behind>) -> Result<T, WriteError>,
    ) -> Result<T, RelogError> {
        let Some(writer) = &mut self.writer else { return Err(RelogError::Stopped) };
        write(writer).map_err(|source| RelogError::Write { path: self.path.clone(), source })
    }

    /// Writes a record of another file. Returns whether it fit in a buffer.
    #[inline]
    pub(super) fn put(&mut self, record: &Record<'_>) -> Result<bool, RelogError> {
        let written = self.writer.as_mut().map(|writer| writer.relog(record));
        match written {
            Some(Ok(())) => Ok(true),
            Some(Err(WriteError::RecordTooLarge { .. })) => Ok(false),
            Some(Err(source)) => Err(self.error(source)),
            None => Err(RelogError::Stopped),
        }
    }

    /// Writes a new record, which is not earlier than the others. Returns whether it fit in a buffer.
    pub(super) fn append(&mut self, record: &RecordBuilder, time: Ticks) -> Result<bool, RelogError> {
        let Some(writer) = &mut self.writer else { return Err(RelogError::Stopped) };
        let Ok(bytes) = record.clone().time(time).build() else { return Ok(false) };
        match writer.write(0, &bytes) {
            Ok(()) => Ok(true),
            Err(WriteError::RecordTooLarge { .. }) => Ok(false),
            Err(source) => Err(self.error(source)),
        }
    }

    #[cold]
    fn error(&self, source: WriteError) -> RelogError {
        RelogError::Write { path: self.path.clone(), source }
    }

    /// Returns the minimum size of the file in bytes, which is also the maximum if nothing more is written.
    pub(super) fn len_bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, |writer| writer.len_bytes() + writer.open_bytes())
    }

    /// Completes the file. Without an end time, the file is left marked as unclosed.
    pub(super) fn complete(mut self, end: Option<FileTime>) -> Result<Complete, RelogError> {
        let Some(writer) = self.writer.take() else { return Err(RelogError::Stopped) };
        let written = match end {
            Some(end) => writer.finish(end),
            None => writer.finish_unclosed(),
        };
        let len_bytes = written.map_err(|source| self.error(source))?.len_bytes;
        Ok(Complete { output: self, len_bytes })
    }
}

/// A complete file that does not have its name yet. It is removed if dropped before that.
#[derive(Debug)]
pub(super) struct Complete {
    output: Output,
    pub(super) len_bytes: u64,
}

impl Complete {
    /// Renames the file to its name.
    pub(super) fn publish(self) -> Result<(), RelogError> {
        let Output { temporary, path, .. } = self.output;
        let published = temporary.persist(&path);
        published.map(drop).map_err(|error| RelogError::Io { path, source: error.error })
    }
}

/// Checks that a file may be written.
pub(super) fn check(path: &Path, inputs: &[String], overwrite: bool) -> Result<(), RelogError> {
    if inputs.iter().any(|input| is_same(path, input)) {
        return Err(RelogError::IsInput { path: path.to_owned() });
    }
    if path.is_dir() {
        let source = io::Error::from(io::ErrorKind::IsADirectory);
        return Err(RelogError::Io { path: path.to_owned(), source });
    }
    if !overwrite && fs::symlink_metadata(path).is_ok() {
        return Err(RelogError::Exists { path: path.to_owned() });
    }
    Ok(())
}

/// Whether an output path is the same file as an input.
fn is_same(path: &Path, name: &str) -> bool {
    let Ok(output) = fs::canonicalize(path) else { return false };
    let archives = name.match_indices('!').map(|(at, _)| &name[..at]);
    archives.chain([name]).any(|name| {
        let Ok(input) = fs::canonicalize(name) else { return false };
        input == output || is_linked(&input, &output)
    })
}

#[cfg(unix)]
fn is_linked(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    id(one).is_some() && id(one) == id(other)
}

#[cfg(not(unix))]
fn is_linked(_: &Path, _: &Path) -> bool {
    false
}
