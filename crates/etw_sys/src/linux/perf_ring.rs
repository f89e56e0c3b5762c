//! Events of `perf_event_open`, and the rings that the kernel writes their records to.

// UNSAFETY: a system call that rustix has not, and a map, which is a raw pointer.
#![expect(unsafe_code)]

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::{
    PERF_FLAG_FD_CLOEXEC, perf_event_attr, perf_event_header, perf_event_mmap_page,
};
use perf_event_open_sys::perf_event_open;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

/// A ring of records, mapped into this process.
#[derive(Debug)]
pub(super) struct PerfRing {
    /// The control page, followed by the data.
    start: NonNull<u8>,
    page: usize,
    data: usize,
    record: Vec<u8>,
}

// SAFETY: the map belongs to this value alone.
unsafe impl Send for PerfRing {}

/// Size of a record's header in bytes.
const HEADER: u64 = size_of::<perf_event_header>() as u64;

impl PerfRing {
    /// Maps the ring of an event, which must be kept open for the kernel to write. Its size is `bytes`, rounded up to a
    /// power of two of pages.
    ///
    /// # Errors
    ///
    /// Returns the system's error: `PermissionDenied` if the rings are larger than the kernel allows this process.
    pub(super) fn map(event: &OwnedFd, bytes: usize) -> io::Result<PerfRing> {
        let page = page_size();
        let data = bytes.max(page).next_power_of_two();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new map at an address chosen by the kernel overlaps no other memory.
        let start =
            unsafe { mmap(ptr::null_mut(), page + data, protection, MapFlags::SHARED, event.as_fd(), 0)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(PerfRing { start, page, data, record: Vec::new() })
    }

    /// Passes each available record to `each`, including its header, and frees the records' space.
    pub(super) fn read(&mut self, mut each: impl FnMut(&[u8])) {
        let head = self.word(offset_of!(perf_event_mmap_page, data_head)).load(Ordering::Acquire);
        let mut tail = self.word(offset_of!(perf_event_mmap_page, data_tail)).load(Ordering::Relaxed);
        while head.wrapping_sub(tail) >= HEADER {
            let mut header = [0; HEADER as usize];
            self.copy(tail, &mut header);
            let size = u16::from_ne_bytes([header[6], header[7]]);
            if u64::from(size) < HEADER || u64::from(size) > head.wrapping_sub(tail) {
                // The kernel writes no such record.
                tail = head;
                break;
            }
            let mut record = std::mem::take(&mut self.record);
            record.resize(size.into(), 0);
            self.copy(tail, &mut record);
            each(&record);
            self.record = record;
            tail = tail.wrapping_add(size.into());
        }
        self.word(offset_of!(perf_event_mmap_page, data_tail)).store(tail, Ordering::Release);
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the control page is mapped while `self` lives, the words are aligned, and the kernel writes each in
        // one store.
        unsafe { &*self.start.as_ptr().add(at).cast::<AtomicU64>() }
    }

    /// Copies bytes of the data, which wraps around at its end.
    fn copy(&self, from: u64, to: &mut [u8]) {
        let from = from as usize % self.data;
        let (first, second) = to.split_at_mut(to.len().min(self.data - from));
        for (part, at) in [(first, from), (second, 0)] {
            // SAFETY: a record is shorter than the data, so both parts lie in the map; the kernel does not write there
            // before the space is freed.
            unsafe {
                let data = self.start.as_ptr().add(self.page + at);
                ptr::copy_nonoverlapping(data, part.as_mut_ptr(), part.len());
            }
        }
    }
}

impl Drop for PerfRing {
    fn drop(&mut self) {
        // SAFETY: the map is this value's own, and no reference to it outlives it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.page + self.data) };
    }
}

/// Opens an event of all threads on a processor. `attributes` must have no field with an address.
pub(super) fn open_event(mut attributes: perf_event_attr, processor: u32) -> io::Result<OwnedFd> {
    attributes.size = size_of::<perf_event_attr>() as u32;
    const ALL_THREADS: libc::pid_t = -1;
    const NO_GROUP: libc::c_int = -1;
    // SAFETY: the structure lives during the call and has its size in it; what it asks for touches no memory but the
    // ring that is mapped later.
    let file = unsafe {
        perf_event_open(
            &raw mut attributes,
            ALL_THREADS,
            processor as libc::c_int,
            NO_GROUP,
            PERF_FLAG_FD_CLOEXEC.into(),
        )
    };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created the file, for this process alone.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}
