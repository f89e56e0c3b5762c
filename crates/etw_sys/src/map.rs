//! Files as byte slices.

// UNSAFETY: mapping a file is unsafe because others can change the file while the slice is alive; pages are given back by
// their addresses.
#![expect(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use memmap2::{Mmap, MmapMut, MmapOptions};

/// Addresses and sizes of all maps that are there.
static MAPS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

fn maps() -> MutexGuard<'static, Vec<(usize, usize)>> {
    MAPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the pages of all [`FileMap`]s out of this process's memory. The system still has them as long as it has room, and
/// they come back when they are touched. For processes whose memory is to be bounded; on Linux only.
pub fn release_file_maps() {
    #[cfg(target_os = "linux")]
    for (address, len_bytes) in maps().iter() {
        // SAFETY: these bytes are mapped, as a map is removed from the list, under the lock, before it ends. They are
        // those of a file, which nobody writes through the map, so they are the same when they are read again.
        unsafe {
            libc::madvise(*address as *mut libc::c_void, *len_bytes, libc::MADV_DONTNEED);
        }
    }
}

/// A read-only memory map of a whole file. An empty file gives an empty slice.
///
/// # Contract
///
/// No process may change or shorten the file while it is mapped. No operating system enforces this for files in general,
/// so it is a condition on whoever names the file: functions of other crates that map a file by its path repeat it in
/// their documentation.
///
/// - Rust assumes that borrowed bytes do not change. If they do, the behaviour is undefined; checks of the parsers that
///   were made before the change no longer hold.
/// - If the file is shortened, touching the missing pages ends this process (`SIGBUS`). With
///   [`exit_on_page_error`](crate::exit_on_page_error) it ends with a message.
///
/// Unnamed temporary files meet the contract, since no other process can open them. To read a file that may change, copy
/// it first. One exception is relied on: of a sparse file that is filled part by part, as traces at URLs are, pages that no
/// code has read yet may be written while the file is mapped.
#[derive(Debug)]
pub struct FileMap(Map);

#[derive(Debug)]
enum Map {
    Empty,
    Shared(Mmap),
    Private(MmapMut),
}

impl FileMap {
    /// Maps `file` from its start to its current end. The caller ensures that nobody changes the file meanwhile, as the
    /// [contract](FileMap#contract) requires.
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` if the file is longer than the address space, and the system's error if it cannot be
    /// mapped.
    pub fn new(file: &File) -> io::Result<FileMap> {
        if is_empty(file)? {
            return Ok(FileMap(Map::Empty));
        }
        // SAFETY: the map is private to this value and read-only, so no Rust code writes through it. That nobody changes
        // the file is the contract of the type.
        let map = unsafe { Mmap::map(file)? };
        maps().push((map.as_ptr() as usize, map.len()));
        Ok(FileMap(Map::Shared(map)))
    }

    /// As [`FileMap::new`], in memory that may be written, for programs in other languages that get its address and change
    /// what they read. Pages that are written are copied, so the file stays as it is, and [`release_file_maps`] leaves such
    /// maps alone. No code in Rust writes there; the programs write only what nobody else reads meanwhile.
    ///
    /// # Errors
    ///
    /// Fails as [`FileMap::new`] does.
    pub fn writable(file: &File) -> io::Result<FileMap> {
        if is_empty(file)? {
            return Ok(FileMap(Map::Empty));
        }
        // SAFETY: as above; what is written to the map is not written to the file.
        let map = unsafe { MmapOptions::new().no_reserve_swap().map_copy(file)? };
        Ok(FileMap(Map::Private(map)))
    }

    /// Advises the system that the file will be read once from start to end.
    pub fn advise_sequential(&self) {
        #[cfg(unix)]
        match &self.0 {
            Map::Empty => {}
            Map::Shared(map) => drop(map.advise(memmap2::Advice::Sequential)),
            Map::Private(map) => drop(map.advise(memmap2::Advice::Sequential)),
        }
    }
}

/// Whether a file has no bytes.
fn is_empty(file: &File) -> io::Result<bool> {
    let length = file.metadata()?.len();
    match usize::try_from(length) {
        Ok(length) => Ok(length == 0),
        Err(_) => {
            let text = "the file is longer than the address space";
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        if let Map::Shared(map) = &self.0 {
            let mut maps = maps();
            if let Some(place) = maps.iter().position(|(address, _)| *address == map.as_ptr() as usize) {
                maps.swap_remove(place);
            }
        }
    }
}

impl Deref for FileMap {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Map::Empty => &[],
            Map::Shared(map) => map,
            Map::Private(map) => map,
        }
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
        release_file_maps();
        assert_eq!(&*map, b"buffers");
        drop(file);
        assert_eq!(&*map, b"buffers", "the map outlives the handle");
    }

    #[test]
    fn what_is_written_to_a_writable_map_is_not_in_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        assert!(FileMap::writable(&file).unwrap().is_empty());
        file.write_all(b"buffers").unwrap();
        let map = FileMap::writable(&file).unwrap();
        // SAFETY: the map is writable, and nobody else reads it.
        unsafe { map.as_ptr().cast_mut().write_volatile(b'B') };
        release_file_maps();
        assert_eq!(map.to_vec(), b"Buffers");
        assert_eq!(&*FileMap::new(&file).unwrap(), b"buffers");
    }
}
