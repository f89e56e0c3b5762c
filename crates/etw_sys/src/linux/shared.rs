//! Memory shared between processes, as atomic words.

// UNSAFETY: a map is a raw pointer.
#![expect(unsafe_code)]

use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// Words of memory that other processes may read and write at the same time.
///
/// The memory is an unnamed file (`memfd_create`) with a sealed size, so that no process can shorten it under the map.
/// Peers may be hostile: read a word once and use the copy; never read it again to check it. The memory is never shown as
/// bytes, since a plain read of memory that another process writes is undefined behaviour.
#[derive(Debug)]
pub struct SharedWords {
    start: NonNull<AtomicU64>,
    len_words: usize,
}

// SAFETY: the memory is only reached as atomic words, and the map belongs to this value alone.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Creates `len_words` words of memory, all zero. Returns it with its file, which gives other processes access.
    /// `name` appears in `/proc/PID/maps`.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the file cannot be created, sized or mapped.
    pub fn create(name: &str, len_words: usize) -> io::Result<(SharedWords, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
            // Kernels before 6.3 do not know the flag.
            Err(Errno::INVAL) => memfd_create(name, flags)?,
            file => file?,
        };
        ftruncate(&file, len_bytes(len_words)? as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((SharedWords::map(&file)?, file))
    }

    /// Maps the memory of a file that another process created, for reading and writing.
    ///
    /// # Errors
    ///
    /// Returns `InvalidData` if the file's size is not sealed, and the system's error if it cannot be mapped.
    pub fn map(file: impl AsFd) -> io::Result<SharedWords> {
        SharedWords::map_as(file, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// As [`SharedWords::map`], for reading only. Storing to a word ends this process (`SIGSEGV`).
    ///
    /// # Errors
    ///
    /// Fails like [`SharedWords::map`].
    pub fn map_for_reading(file: impl AsFd) -> io::Result<SharedWords> {
        SharedWords::map_as(file, ProtFlags::READ)
    }

    fn map_as(file: impl AsFd, protection: ProtFlags) -> io::Result<SharedWords> {
        let seals = fcntl_get_seals(&file)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "shared memory whose size is not sealed"));
        }
        let len_words = usize::try_from(fstat(&file)?.st_size).unwrap_or(0) / size_of::<u64>();
        SharedWords::map_words(file, len_words, protection)
    }

    /// Maps memory that the kernel shares, such as a BPF map, for reading and writing. Such files have no size of their
    /// own.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the file cannot be mapped.
    pub fn map_of_kernel(file: impl AsFd, len_words: usize) -> io::Result<SharedWords> {
        SharedWords::map_words(file, len_words, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn map_words(file: impl AsFd, len_words: usize, protection: ProtFlags) -> io::Result<SharedWords> {
        let bytes = len_bytes(len_words)?;
        // SAFETY: a new map at an address chosen by the kernel overlaps no other memory.
        let start = unsafe { mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, &file, 0)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedWords { start, len_words })
    }

    /// Returns the pages of a range of words to the system. The words read as zero afterwards. The range is rounded
    /// inwards to whole pages.
    ///
    /// # Errors
    ///
    /// Returns the system's error if it refuses.
    pub fn discard(&self, words: std::ops::Range<usize>) -> io::Result<()> {
        const PAGE: usize = 4096 / size_of::<u64>();
        let (start, end) = (words.start.next_multiple_of(PAGE), words.end.min(self.len_words) / PAGE * PAGE);
        if start < end {
            let bytes = (end - start) * size_of::<u64>();
            // SAFETY: the range lies in the map, and atomic words of shared memory may change to zero at any time.
            unsafe { madvise(self.start.as_ptr().add(start).cast(), bytes, Advice::LinuxRemove)? };
        }
        Ok(())
    }

    /// Detaches from the file. The words become private memory of this process, all zero, that takes no room until it
    /// is written. Threads may store words meanwhile; what they store may be lost.
    ///
    /// May be called in the child of a fork.
    ///
    /// # Errors
    ///
    /// Returns the system's error if it has no memory for the change.
    pub fn detach(&self) -> io::Result<()> {
        let bytes = self.len_words * size_of::<u64>();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: the new map replaces exactly this value's own, at one instant, and atomic words of shared memory may
        // change to zero at any time.
        unsafe { mmap_anonymous(self.start.as_ptr().cast(), bytes, protection, flags)? };
        Ok(())
    }

    /// Asks the system to populate the pages of a range of words, so that writing to them does not fault. Only a hint.
    pub fn populate(&self, words: std::ops::Range<usize>) {
        const PAGE: usize = 4096 / size_of::<u64>();
        let (start, end) = (words.start / PAGE * PAGE, words.end.min(self.len_words));
        if start < end {
            let bytes = (end - start) * size_of::<u64>();
            // SAFETY: the range lies in the map; populating changes no byte.
            let _ =
                unsafe { madvise(self.start.as_ptr().add(start).cast(), bytes, Advice::LinuxPopulateWrite) };
        }
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    #[inline(always)]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the map has this many words, is aligned to pages, and lives as long as `self`; atomic words may be
        // changed by others at any time.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len_words) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the map is this value's own, and no reference to it outlives it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len_words * size_of::<u64>()) };
    }
}

fn len_bytes(len_words: usize) -> io::Result<usize> {
    let bytes = len_words.checked_mul(size_of::<u64>()).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no size for shared memory"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn two_maps_show_the_same_words() {
        let (ours, file) = SharedWords::create("test", 1024).unwrap();
        let theirs = SharedWords::map(&file).unwrap();
        assert_eq!(theirs.len(), 1024);
        theirs[1000].store(7, Relaxed);
        let reading = SharedWords::map_for_reading(&file).unwrap();
        assert_eq!([999, 1000].map(|at: usize| reading[at].load(Relaxed)), [0, 7]);
        assert_eq!(ours[1000].load(Relaxed), 7);
        ours.populate(0..1024);
        assert_eq!(ours[1000].load(Relaxed), 7);
        ours.discard(1..1024).unwrap();
        assert_eq!(theirs[1000].load(Relaxed), 0);
        assert!(ftruncate(&file, 8).is_err(), "the size is sealed");
    }

    #[test]
    fn detached_words_are_private() {
        let (ours, file) = SharedWords::create("test", 1024).unwrap();
        ours[5].store(1, Relaxed);
        let theirs = SharedWords::map(&file).unwrap();
        theirs.detach().unwrap();
        assert_eq!(theirs[5].load(Relaxed), 0);
        theirs[5].store(2, Relaxed);
        assert_eq!((ours[5].load(Relaxed), theirs[5].load(Relaxed)), (1, 2));
    }

    #[test]
    fn a_file_that_could_be_shortened_is_refused() {
        let file = memfd_create("open", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 8192).unwrap();
        assert_eq!(SharedWords::map(&file).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(SharedWords::create("none", 0).is_err());
    }
}
