//! Trace files as byte slices: plain ones are memory-mapped, compressed ones unpacked to unnamed temporary files, and
//! traces of .NET and of perf converted to such.

mod container;
mod conversion;
mod error;
mod limited;
mod limits;
mod nettrace;
mod perf;
mod sequence;
mod spooled;
mod temporary;

use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etw_etl::Damage;
use etw_sys::FileMap;

pub use conversion::Converted;
pub use error::InputError;
pub use limits::InputLimits;
pub use sequence::file_sequence;
pub use spooled::Spooled;
use temporary::Room;

/// The bytes and the name of one trace file.
#[derive(Debug)]
pub struct Input {
    name: String,
    bytes: Bytes,
    converted: Option<Converted>,
}

/// Storage of an input's bytes.
#[derive(Debug)]
enum Bytes {
    File(FileMap),
    Memory(Arc<[u8]>),
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::File(map) => map,
            Bytes::Memory(bytes) => bytes,
        }
    }
}

impl Input {
    /// Opens a trace file, or the traces in a `.zst`, `.gz` or `.zip` file; the content decides, not the name.
    ///
    /// A zip with several traces (`*.etl`, `*.nettrace`, `*.netperf`, `*perf.data`, in the archive's order) opens them all.
    /// `archive.zip!member.etl` opens one member, whatever its extension. Compressed traces are unpacked to an unnamed
    /// temporary file that exists as long as the `Input`, so memory does not grow with the trace. Its size is limited, and it
    /// leaves a twentieth of the file system, at most 1 GiB, free. What is packed twice is not unpacked twice. Traces of .NET
    /// (`.nettrace`, `.netperf`) and files of perf (`perf.data`) are converted to such a file; [`Input::converted`] says so.
    ///
    /// Pipes are refused; [`Spooled`] reads them.
    ///
    /// The file is mapped, so it must not change as long as the `Input` exists; see [`FileMap`](FileMap#contract) for what
    /// happens otherwise. To read a file that is still being written, copy it first.
    ///
    /// # Errors
    ///
    /// Fails if the file, or one of the traces in it, cannot be read.
    pub fn open(path: &Path, limits: &InputLimits) -> Result<Vec<Input>, InputError> {
        Input::open_each(path, limits)?.into_iter().collect()
    }

    /// As [`Input::open`], but returns an error for each trace that cannot be unpacked and opens the others.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or is an archive without traces.
    pub fn open_each(
        path: &Path,
        limits: &InputLimits,
    ) -> Result<Vec<Result<Input, InputError>>, InputError> {
        let (path, member) = split_member(path);
        let file = match etw_sys::open_regular(&path) {
            Ok(file) => file,
            Err(_) if path.is_dir() => return Err(InputError::Directory { path }),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Err(InputError::NoFile { path });
            }
            Err(source) => return Err(InputError::Io { path, source }),
        };
        let bytes = limits.map(&file).map_err(|source| InputError::Io { path: path.clone(), source })?;
        container::open(&path, member.as_deref(), Bytes::File(bytes), limits)
    }

    /// Returns the file that [`Input::open`] opens for a path, which is the archive for `archive.zip!member.etl`.
    pub fn file_of(path: &Path) -> PathBuf {
        split_member(path).0
    }

    /// As [`Input::open`], for a file that is in memory already; `name` is used in messages.
    ///
    /// # Errors
    ///
    /// Fails if the file, or one of the traces in it, cannot be read.
    pub fn from_bytes(name: &str, bytes: Arc<[u8]>, limits: &InputLimits) -> Result<Vec<Input>, InputError> {
        container::open(Path::new(name), None, Bytes::Memory(bytes), limits)?.into_iter().collect()
    }

    /// As [`Input::open_each`], for the bytes of a pipe.
    ///
    /// # Errors
    ///
    /// Fails if the bytes cannot be read, or are an archive without traces.
    pub fn open_spooled(
        spooled: &Spooled,
        limits: &InputLimits,
    ) -> Result<Vec<Result<Input, InputError>>, InputError> {
        let path = Path::new(&spooled.name);
        let bytes =
            limits.map(&spooled.file).map_err(|source| InputError::Io { path: path.to_owned(), source })?;
        container::open(path, None, Bytes::File(bytes), limits)
    }

    /// Returns the file's path, or `archive.zip!member.etl`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the bytes of the trace.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns what the trace was converted from, if the file is of another format than `.etl`.
    pub fn converted(&self) -> Option<&Converted> {
        self.converted.as_ref()
    }

    /// Opens the bytes of a trace, which is converted if it is of another format.
    fn convert(name: String, bytes: Bytes, room: &mut Room) -> Result<Input, InputError> {
        let (map, converted) = match () {
            () if nettrace::is_nettrace(&bytes) => nettrace::convert(&name, &bytes, room)?,
            () if perf::is_perf_data(&bytes) => perf::convert(&name, &bytes, room)?,
            () => return Ok(Input { name, bytes, converted: None }),
        };
        Ok(Input { name, bytes: Bytes::File(map), converted: Some(converted) })
    }

    /// Returns the damage of the file that the trace was converted from, and its total number.
    pub(crate) fn source_damage(&self) -> (&[Damage], u64) {
        self.converted.as_ref().map_or((&[], 0), |source| (&source.damage, source.damage_count))
    }
}

/// Splits `archive.zip!member`, unless a file has the whole name.
fn split_member(path: &Path) -> (PathBuf, Option<String>) {
    if let Some(text) = path.to_str()
        && !path.exists()
    {
        // Both the archive's path and the member's name may contain `!`.
        for (place, _) in text.match_indices('!') {
            let (archive, member) = text.split_at(place);
            if Path::new(archive).is_file() {
                return (PathBuf::from(archive), Some(member[1..].to_owned()));
            }
        }
    }
    (path.to_owned(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_named() {
        let error = Input::open(Path::new("/nowhere/x.zip!y.etl"), &InputLimits::default()).unwrap_err();
        assert!(error.to_string().starts_with("cannot open '/nowhere/x.zip!y.etl'"), "{error}");
        let error = Input::open(&std::env::temp_dir(), &InputLimits::default()).unwrap_err();
        assert!(error.to_string().contains("is a directory"), "{error}");
        if cfg!(unix) {
            let error = Input::open(Path::new("/dev/null"), &InputLimits::default()).unwrap_err();
            assert!(error.to_string().contains("is a pipe or a device"), "{error}");
        }
    }

    #[test]
    fn members_are_split_from_archives() {
        let directory = std::env::temp_dir().join(format!("openetw-members-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("a!.zip"), "").unwrap();
        let check = |path: &str, archive: &str, member: Option<&str>| {
            let expected = (directory.join(archive), member.map(str::to_owned));
            assert_eq!(split_member(&directory.join(path)), expected);
        };
        check("a!.zip", "a!.zip", None);
        check("a!.zip!b.etl", "a!.zip", Some("b.etl"));
        check("a!.zip!d/b!.etl", "a!.zip", Some("d/b!.etl"));
        check("none.zip!b.etl", "none.zip!b.etl", None);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
