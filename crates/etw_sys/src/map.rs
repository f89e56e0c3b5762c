//! Files as byte slices.

// UNSAFETY: mapping a file is unsafe because others can change the file while the slice is alive.
#![expect(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Deref;

use memmap2::Mmap;

/// A read-only memory map of a whole file. An empty file gives an empty slice.
///
/// The file must not change while it is mapped. If another process shortens it, touching the missing pages ends this
/// process (`SIGBUS`), as in every program that maps files; with [`exit_on_page_error`](crate::exit_on_page_error) it
/// ends with a message. Bytes that are changed are read as they are; all parsers of this project check what they read.
#[derive(Debug)]
pub struct FileMap(Option<Mmap>);

impl FileMap {
    /// Maps `file` from its start to its current end.
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` if the file is longer than the address space, and the system's error if it cannot be
    /// mapped.
    pub fn new(file: &File) -> io::Result<FileMap> {
        let length = file.metadata()?.len();
        if length == 0 {
            return Ok(FileMap(None));
        }
        if usize::try_from(length).is_err() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the file is longer than the address space",
            ));
        }
        // SAFETY: the map is private to this value and read-only, so no Rust code writes through it. That other
        // processes leave the file alone cannot be guaranteed; the type's documentation makes it the caller's part.
        let map = unsafe { Mmap::map(file)? };
        Ok(FileMap(Some(map)))
    }

    /// Advises the system that the file will be read once from start to end.
    pub fn advise_sequential(&self) {
        #[cfg(unix)]
        if let Some(map) = &self.0 {
            let _ = map.advise(memmap2::Advice::Sequential);
        }
    }
}

impl Deref for FileMap {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_map_shows_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        assert!(FileMap::new(&file).unwrap().is_empty());
        file.write_all(b"buffers").unwrap();
        let map = FileMap::new(&file).unwrap();
        map.advise_sequential();
        assert_eq!(&*map, b"buffers");
        drop(file);
        assert_eq!(&*map, b"buffers", "the map outlives the handle");
    }
}
