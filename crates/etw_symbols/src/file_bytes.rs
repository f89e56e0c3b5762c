//! Bytes of files, shared by those who read them.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

use etw_sys::FileMap;

/// Compressed bytes may become this many times their length, and [`MAX_EXPANSION_LEN_BYTES`] more. PDBs have 4 to 10 times
/// their compressed length.
const MAX_EXPANSION: u64 = 32;
const MAX_EXPANSION_LEN_BYTES: u64 = 64 << 20;

/// Returns the maximum length in bytes of what this many compressed bytes become.
pub(crate) fn max_expanded(packed: usize) -> u64 {
    MAX_EXPANSION_LEN_BYTES.saturating_add(packed as u64 * MAX_EXPANSION)
}

/// A mapped file, or bytes in memory.
#[derive(Clone)]
pub(crate) enum FileBytes {
    Map(Arc<FileMap>),
    Copy(Arc<[u8]>),
}

impl FileBytes {
    pub(crate) fn map(file: &File) -> io::Result<FileBytes> {
        Ok(FileBytes::Map(Arc::new(FileMap::new(file)?)))
    }
}

impl From<Vec<u8>> for FileBytes {
    fn from(bytes: Vec<u8>) -> FileBytes {
        FileBytes::Copy(bytes.into())
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            FileBytes::Map(map) => map,
            FileBytes::Copy(bytes) => bytes,
        }
    }
}
