//! Output to standard output or a file, and detection of a closed pipe.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::{Context, Result, bail};
use openetw::etl::EtlFile;
use openetw::export::{PlainWriter, plain_line};

use crate::input::is_trace_name;

/// Opens a file for text, or standard output if `path` is `None` or `-`. What could disrupt a terminal is escaped
/// ([`PlainWriter`]).
///
/// # Errors
///
/// Fails if the file cannot be created; the error names it.
pub fn open(path: Option<&Path>) -> Result<Box<dyn Write + Send>> {
    Ok(Box::new(PlainWriter::new(open_data(path)?)))
}

/// Opens a file for CSV, or standard output: a terminal gets text ([`open`]), a file or pipe the data as it is.
///
/// # Errors
///
/// Fails if the file cannot be created; the error names it.
pub fn open_csv(path: Option<&Path>) -> Result<Box<dyn Write + Send>> {
    if is_terminal(path) { open(path) } else { open_data(path) }
}

/// Opens a file for what is written as it is, or standard output if `path` is `None` or `-`.
///
/// # Errors
///
/// Fails if the file cannot be created; the error names it.
pub fn open_data(path: Option<&Path>) -> Result<Box<dyn Write + Send>> {
    match path {
        Some(path) if path != Path::new("-") => {
            let file = create(path)?;
            Ok(Box::new(Named { name: path.display().to_string(), inner: file }))
        }
        _ => Ok(Box::new(Named { name: "standard output".to_owned(), inner: io::stdout() })),
    }
}

/// Creates a file, or truncates an existing one that is not a trace. Only its owner can read a new file
/// ([`etw_sys::output::OutputOptions`]).
///
/// # Errors
///
/// Fails if the file cannot be created, or if it is a trace; the error names it.
pub fn create(path: &Path) -> Result<File> {
    check_no_trace(path)?;
    etw_sys::output::create(path)
        .with_context(|| format!("{}: cannot be written; check the directory and its rights", path.display()))
}

/// Writes a file that holds nothing of traces, so that other users may read it.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn write_public(path: &Path, contents: &[u8]) -> io::Result<()> {
    etw_sys::output::OutputOptions::new().public().open(path)?.write_all(contents)
}

/// What is read of a file to see whether it is a trace.
const HEAD_BYTES: u64 = 1 << 20;

/// Checks that a file is not a trace, so that no report of a trace replaces it. Its name or its content tells.
///
/// # Errors
///
/// Fails if it is a trace.
pub fn check_no_trace(path: &Path) -> Result<()> {
    // What does not exist, or is no file, or cannot be read, is reported when it is written.
    let Ok(file) = std::fs::metadata(path).and_then(|found| match found.is_file() && found.len() > 0 {
        true => File::open(path),
        false => Err(io::ErrorKind::NotFound.into()),
    }) else {
        return Ok(());
    };
    let mut head = Vec::new();
    let is_read = file.take(HEAD_BYTES).read_to_end(&mut head).is_ok();
    let is_named = path.file_name().and_then(|name| name.to_str()).is_some_and(is_trace_name);
    if is_named || is_read && (EtlFile::open(&head).is_ok() || is_of_other_format(&head)) {
        bail!("{}: is a trace, which is not overwritten; name another output file", path.display());
    }
    Ok(())
}

/// Returns whether these are the first bytes of a trace that is converted when it is read.
fn is_of_other_format(head: &[u8]) -> bool {
    [&b"Nettrace"[..], b"PERFILE2", b"2ELIFREP"].iter().any(|magic| head.starts_with(magic))
}

/// Output whose errors name the file or stream.
struct Named<W> {
    name: String,
    inner: W,
}

impl<W> Named<W> {
    fn named(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: cannot be written: {error}", self.name))
    }
}

impl<W: Write> Write for Named<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes).map_err(|error| self.named(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush().map_err(|error| self.named(&error))
    }
}

/// Returns whether text written to `path` appears on a terminal.
pub fn is_terminal(path: Option<&Path>) -> bool {
    path.is_none_or(|path| path == Path::new("-")) && io::stdout().is_terminal()
}

/// Returns whether standard output is a file.
pub fn is_file() -> bool {
    let stdout = io::stdout();
    #[cfg(unix)]
    let file = std::os::fd::AsFd::as_fd(&stdout).try_clone_to_owned().map(File::from);
    #[cfg(windows)]
    let file = std::os::windows::io::AsHandle::as_handle(&stdout).try_clone_to_owned().map(File::from);
    file.and_then(|file| file.metadata()).is_ok_and(|metadata| metadata.is_file())
}

/// Returns whether an error is a broken pipe: the reader of standard output has closed it.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// Prints a line to standard error, as [`say!`](crate::say) does.
pub fn say_line(text: std::fmt::Arguments<'_>) {
    // A closed standard error is ignored.
    let _ = writeln!(io::stderr(), "{}", plain_line(&text.to_string()));
}

/// Prints a formatted line to standard error. What could disrupt a terminal is escaped.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {
        $crate::output::say_line(::std::format_args!($($text)*))
    };
}

/// Prints one warning to standard error.
pub fn warn(text: &dyn std::fmt::Display) {
    say!("etw: warning: {text}");
}

/// Returns the number of threads to use: `asked`, at most 256, or one per processor if it is 0.
pub fn threads(asked: usize) -> NonZeroUsize {
    match NonZeroUsize::new(asked.min(256)) {
        Some(asked) => asked,
        None => std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
    }
}

/// Prints an error to standard error, in one line.
pub fn report(error: &anyhow::Error) {
    say!("etw: {}", one_line(error));
}

/// Returns an error and its causes in one line.
pub fn one_line(error: &anyhow::Error) -> String {
    with_causes(error).replace('\n', " ")
}

/// Returns an error and its causes, each once: some errors already include their cause.
pub fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
