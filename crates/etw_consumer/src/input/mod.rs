//! Trace files as byte slices: plain ones by memory map, compressed ones through a file without a name.

mod container;
mod error;
mod sequence;

use std::fs::File;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etw_sys::FileMap;

pub use error::InputError;
pub use sequence::file_sequence;

/// The bytes of one trace file, and what to call it.
#[derive(Debug)]
pub struct Input {
    name: String,
    bytes: Bytes,
}

/// Where the bytes of an input are.
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

/// What opening files may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputLimits {
    /// Bytes that one compressed file may unfold to on disk. The default is 64 GiB.
    pub decompressed_bytes: u64,
}

impl Default for InputLimits {
    fn default() -> InputLimits {
        InputLimits { decompressed_bytes: 64 << 30 }
    }
}

impl Input {
    /// Opens a file. What it is shows its content, not its name: a trace, or `.zst`, `.gz` or `.zip` around one.
    ///
    /// A zip with several traces (`*.etl`, in the archive's order) opens them all; `archive.zip!member.etl` opens
    /// one member, whatever its name ends in. Compressed traces are unpacked into a temporary file that has no name
    /// and vanishes with the `Input`; memory does not grow with the trace.
    ///
    /// # Errors
    /// The file, or one of the traces in it, cannot be read.
    pub fn open(path: &Path, limits: &InputLimits) -> Result<Vec<Input>, InputError> {
        Input::open_each(path, limits)?.into_iter().collect()
    }

    /// As [`Input::open`], where one trace of an archive that cannot be unpacked does not keep the others from being
    /// opened.
    ///
    /// # Errors
    /// The file cannot be read, or is an archive without traces.
    pub fn open_each(
        path: &Path,
        limits: &InputLimits,
    ) -> Result<Vec<Result<Input, InputError>>, InputError> {
        let (path, member) = split_member(path);
        let io = |source| InputError::Io { path: path.clone(), source };
        // Before it is opened, since opening a pipe waits for its writer.
        let kind = std::fs::metadata(&path).map_err(io)?.file_type();
        if kind.is_dir() {
            return Err(InputError::Directory { path });
        }
        if !kind.is_file() {
            return Err(InputError::NoFile { path });
        }
        let file = File::open(&path).map_err(io)?;
        let bytes = FileMap::new(&file).map_err(io)?;
        container::open(&path, member.as_deref(), Bytes::File(bytes), limits)
    }

    /// As [`Input::open`], of a file that is in memory already; `name` is what messages call it.
    pub fn from_bytes(name: &str, bytes: Arc<[u8]>, limits: &InputLimits) -> Result<Vec<Input>, InputError> {
        container::open(Path::new(name), None, Bytes::Memory(bytes), limits)?.into_iter().collect()
    }

    /// The file's path, or `archive.zip!member.etl`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bytes of the trace.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Splits `archive.zip!member` where no file has the whole name.
fn split_member(path: &Path) -> (PathBuf, Option<String>) {
    if let Some(text) = path.to_str()
        && !path.exists()
    {
        // Both the archive's path and the member's name may contain the sign.
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
