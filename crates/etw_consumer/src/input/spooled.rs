//! Traces from pipes, copied to temporary files.

use std::fs::File;
use std::io::Seek;
use std::path::PathBuf;
use std::sync::Arc;

use etw_event::Clock;

use super::temporary::{self, CopyError, Room};
use super::{Converted, InputError, InputLimits, container, nettrace};

/// The bytes of a pipe in a temporary file without a name, so that they can be read at several positions, and more than
/// once. Clones share the file, which exists as long as one of them or an [`Input`](super::Input) of it.
///
/// ```no_run
/// use std::os::fd::AsFd;
///
/// let stdin = std::io::stdin().as_fd().try_clone_to_owned()?;
/// let spooled = etw_consumer::Spooled::read("standard input", stdin.into())?;
/// let mut trace = etw_consumer::Trace::builder().spooled(&spooled).open()?;
/// trace.for_each_record(|record| println!("{}", record.time()))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Spooled {
    pub(super) name: String,
    pub(super) file: Arc<File>,
}

impl Spooled {
    /// Reads a pipe to its end. A regular file at its start is used as it is. `name` is used in messages.
    ///
    /// The bytes are copied to the directory for temporary files (on Unix `TMPDIR`); only its free space limits them, of which a twentieth
    /// of the file system, at most 1 GiB, is left to others.
    ///
    /// # Errors
    ///
    /// Fails if reading or writing fails. Large data that is not a trace is refused after its first bytes.
    pub fn read(name: &str, mut pipe: File) -> Result<Spooled, InputError> {
        let is_regular = pipe.metadata().is_ok_and(|metadata| metadata.is_file());
        let file = match is_regular && pipe.stream_position().is_ok_and(|position| position == 0) {
            true => pipe,
            false => copy(name, pipe)?,
        };
        Ok(Spooled { name: name.to_owned(), file: Arc::new(file) })
    }

    /// Converts a trace of .NET to an `.etl` file whose times are the system time, so that it can be merged with a trace
    /// that was recorded meanwhile. `clock` says when its readings were; a trace of its own states that only in whole
    /// milliseconds.
    ///
    /// A trace that was cut off becomes a complete file with a lost event.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not such a trace, or if the file cannot be written.
    pub fn from_nettrace(
        name: &str,
        bytes: &[u8],
        clock: &Clock,
        limits: &InputLimits,
    ) -> Result<(Spooled, Converted), InputError> {
        let (file, converted) = nettrace::convert_on(name, bytes, &mut Room::new(limits), Some(*clock))?;
        Ok((Spooled { name: name.to_owned(), file: Arc::new(file) }, converted))
    }

    /// Returns the name used in messages.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn copy(name: &str, pipe: File) -> Result<File, InputError> {
    let no_limit = InputLimits { decompressed_bytes: u64::MAX, is_writable: false };
    let copied =
        temporary::copy(pipe, &mut Room::new(&no_limit), |start| container::check_start(name, start));
    copied.map_err(|error| match error {
        CopyError::Refused(error) => error,
        CopyError::Read(source) => InputError::Io { path: PathBuf::from(name), source },
        CopyError::Write(source) => InputError::Spool { name: name.to_owned(), source },
        CopyError::TooLarge => InputError::TooLarge { name: name.to_owned(), limit: u64::MAX },
    })
}
