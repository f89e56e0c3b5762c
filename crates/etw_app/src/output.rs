//! Output to standard output or a file, and detection of a closed pipe.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::{Context, Result};

/// Opens a file for writing, or standard output if `path` is `None` or `-`.
///
/// # Errors
///
/// Fails if the file cannot be created; the error names it.
pub fn open(path: Option<&Path>) -> Result<Box<dyn Write + Send>> {
    match path {
        Some(path) if path != Path::new("-") => {
            let file = create(path)?;
            Ok(Box::new(Named { name: path.display().to_string(), inner: file }))
        }
        _ => Ok(Box::new(Named { name: "standard output".to_owned(), inner: io::stdout() })),
    }
}

/// Creates a file, or truncates an existing one.
///
/// # Errors
///
/// Fails if the file cannot be created; the error names it.
pub fn create(path: &Path) -> Result<File> {
    File::create(path)
        .with_context(|| format!("{}: cannot be written; check the directory and its rights", path.display()))
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
    path.is_none() && io::stdout().is_terminal()
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

/// Prints one warning to standard error.
pub fn warn(text: &dyn std::fmt::Display) {
    eprintln!("etw: warning: {text}");
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
    eprintln!("etw: {}", one_line(error));
}

/// Returns an error and its causes in one line.
pub fn one_line(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        // Some errors already include their cause.
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text.replace('\n', " ")
}
