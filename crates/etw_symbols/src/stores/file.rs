//! Files that symbol stores keep.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Cursor, Read, Write};
use std::path::{Path, PathBuf};

use super::kind::{FileKind, START_LEN_BYTES};
use super::limits::MAX_LEN_BYTES;
use crate::elf::MappedFile;
use crate::file_bytes::{FileBytes, max_expanded};
use crate::guard::guarded;
use crate::windows::{PdbId, WindowsImage, pdb_identity, pe};

/// Maximum length in bytes of `file.ptr`.
pub(super) const MAX_POINTER_LEN_BYTES: u64 = 4096;
/// Start of a cabinet.
pub(super) const CABINET: &[u8] = b"MSCF";
/// The file that refers to another place.
pub(crate) const POINTER: &str = "file.ptr";

/// A symbol file and the build that it must be of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum StoredFile {
    Pdb(PdbId),
    /// An image, and the name of its file.
    Image(String, WindowsImage),
}

/// What a `file.ptr` says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pointer {
    /// The place of the file.
    Path(String),
    /// A text for the user.
    Message(String),
}

impl StoredFile {
    /// Returns the file of an image, or `None` if the trace does not say which build it is.
    pub(crate) fn image(path: &str, image: &WindowsImage) -> Option<StoredFile> {
        image.key()?;
        let name = path.rsplit(['/', '\\']).next().filter(|name| PdbId::is_name(name))?;
        Some(StoredFile::Image(name.to_owned(), image.clone()))
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            StoredFile::Pdb(id) => id.name(),
            StoredFile::Image(name, _) => name,
        }
    }

    /// Returns the name with which stores keep the compressed file: its last character is `_`.
    pub(crate) fn compressed_name(&self) -> String {
        let mut chars = self.name().chars();
        chars.next_back();
        format!("{}_", chars.as_str())
    }

    pub(crate) fn key(&self) -> String {
        match self {
            StoredFile::Pdb(id) => id.key(),
            StoredFile::Image(_, image) => image.key().unwrap_or_default(),
        }
    }

    pub(super) fn kind(&self) -> FileKind {
        match self {
            StoredFile::Pdb(_) => FileKind::Pdb,
            StoredFile::Image(_, image) => FileKind::Image(image.len_bytes),
        }
    }

    /// Returns the file's directory in a store: name and key.
    pub(crate) fn directory(&self) -> PathBuf {
        [self.name(), &self.key()].iter().collect()
    }

    /// Checks that a file is of the right build.
    ///
    /// # Errors
    ///
    /// Returns the reason if it is not.
    pub(crate) fn check(&self, bytes: &FileBytes) -> Result<(), String> {
        let found: Cow<'static, str> = match self {
            StoredFile::Pdb(wanted) => match pdb_identity(bytes)? {
                found if found == (wanted.guid, wanted.age) => return Ok(()),
                (guid, age) => format!("{:032X}{age:x}", guid.to_u128()).into(),
            },
            StoredFile::Image(_, wanted) => {
                let found = pe::id(bytes)?;
                if (found.time_stamp, found.len_bytes) == (wanted.time_stamp, wanted.len_bytes) {
                    return Ok(());
                }
                found.key().map_or("unknown".into(), Cow::Owned)
            }
        };
        Err(format!("it is the file of another build ({found} instead of {})", self.key()))
    }

    /// Maps a file if it is of the right build, unpacked if it is compressed.
    pub(crate) fn open(&self, path: &Path) -> Option<MappedFile> {
        let file = MappedFile::open(path).ok()?;
        let file = match is_cabinet(file.bytes()) {
            true => {
                let mut unpacked = tempfile::tempfile().ok()?;
                unpack(file.bytes(), self.kind(), &mut unpacked, MAX_LEN_BYTES).ok()?;
                MappedFile::from_unpacked(path, &unpacked).ok()?
            }
            false => file,
        };
        self.check(file.bytes()).is_ok().then_some(file)
    }
}

/// Unpacks the first file of a cabinet, and returns its length in bytes.
///
/// # Errors
///
/// Returns the reason if the cabinet is damaged, if its file is not of the kind or too long, or if there is no room.
pub(crate) fn unpack(packed: &[u8], kind: FileKind, out: &mut File, max: u64) -> Result<u64, String> {
    guarded(|| {
        let mut cabinet = cab::Cabinet::new(Cursor::new(packed)).map_err(|error| error.to_string())?;
        let first = cabinet.folder_entries().flat_map(|folder| folder.file_entries()).next();
        let name = first.map(|file| file.name().to_owned()).ok_or("the cabinet is empty")?;
        let expanded = max_expanded(packed.len());
        let mut file = cabinet.read_file(&name).map_err(|error| error.to_string())?;
        copy(&mut file, out, kind, max.min(expanded))
    })
}

/// Copies a file of a kind, and returns its length in bytes.
fn copy(from: &mut impl Read, out: &mut File, kind: FileKind, max: u64) -> Result<u64, String> {
    let text = |error: io::Error| error.to_string();
    let mut start = Vec::new();
    from.take(START_LEN_BYTES as u64).read_to_end(&mut start).map_err(text)?;
    let max = kind.max_len(&start)?.unwrap_or(u64::MAX).min(max);
    out.write_all(&start).map_err(text)?;
    let rest = max.saturating_sub(start.len() as u64);
    let len = io::copy(&mut from.take(rest.saturating_add(1)), out).map_err(text)?;
    match len <= rest {
        true => Ok(start.len() as u64 + len),
        false => Err(format!("it unpacks to more than {max} bytes")),
    }
}

/// Returns whether a file is a cabinet, as compressed files of symbol stores are.
pub(crate) fn is_cabinet(bytes: &[u8]) -> bool {
    bytes.starts_with(CABINET)
}

/// Reads `file.ptr`: `PATH:` and a path, `MSG:` and a text, or only a path.
pub(crate) fn read_pointer(path: &Path) -> Option<Pointer> {
    let mut text = Vec::new();
    etw_sys::open_regular(path).ok()?.take(MAX_POINTER_LEN_BYTES).read_to_end(&mut text).ok()?;
    pointer(&String::from_utf8_lossy(&text))
}

fn pointer(text: &str) -> Option<Pointer> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    match text.split_once(':') {
        _ if text.is_empty() => None,
        Some((kind, rest)) if kind.eq_ignore_ascii_case("path") => {
            Some(Pointer::Path(rest.trim().to_owned()))
        }
        Some((kind, rest)) if kind.eq_ignore_ascii_case("msg") => {
            Some(Pointer::Message(rest.trim().to_owned()))
        }
        _ => Some(Pointer::Path(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers() {
        let check = |text: &str, expected: Option<Pointer>| assert_eq!(pointer(text), expected, "{text:?}");
        check(r"PATH:\\server\share\a.pdb", Some(Pointer::Path(r"\\server\share\a.pdb".to_owned())));
        check("path:/a/b.pdb\r\n", Some(Pointer::Path("/a/b.pdb".to_owned())));
        check("MSG: Not Found", Some(Pointer::Message("Not Found".to_owned())));
        check("/a/b.pdb", Some(Pointer::Path("/a/b.pdb".to_owned())));
        check("  \0", None);
    }

    #[test]
    fn damaged_cabinets() {
        for bytes in [&b""[..], b"MSCF", &[b'M', b'S', b'C', b'F', 0xFF, 0xFF, 0xFF, 0xFF]] {
            assert!(unpack(bytes, FileKind::Any, &mut tempfile::tempfile().unwrap(), u64::MAX).is_err());
        }
    }
}
