//! The kernel's records of executable mappings: the side-band records of `perf_event_open`.

use std::io;
use std::os::fd::OwnedFd;

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_DUMMY, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE, perf_event_attr,
};

use super::perf_ring::{PerfRing, open_event};

/// The ring of one processor, into which the kernel writes a record whenever a thread on that processor creates an
/// executable mapping or changes its name.
///
/// The records are those of `perf_event_open(2)`: `PERF_RECORD_MMAP2`, with the build id in place of the inode if both
/// kernel and file have one, `PERF_RECORD_COMM` and `PERF_RECORD_LOST`. Process, thread and time (`PERF_SAMPLE_TID`,
/// `PERF_SAMPLE_TIME`) follow at the end of each, the time by `CLOCK_MONOTONIC`.
#[derive(Debug)]
pub struct MappingRing {
    ring: PerfRing,
    /// Keeps the kernel writing.
    _event: OwnedFd,
}

impl MappingRing {
    /// Opens the ring of a processor. Its size is `bytes`, rounded up to a power of two of pages. It gets the mappings
    /// that are created from now on.
    ///
    /// # Errors
    ///
    /// Returns `PermissionDenied` without `CAP_PERFMON`, or if all rings together are larger than 512 KiB per processor
    /// without `CAP_IPC_LOCK`; and other errors of the system, such as `ENODEV` for a processor that is offline.
    pub fn open(processor: u32, bytes: usize) -> io::Result<MappingRing> {
        let event = match open(processor, true) {
            // Linux has build ids in these records since 5.12.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => open(processor, false),
            event => event,
        }?;
        Ok(MappingRing { ring: PerfRing::map(&event, bytes)?, _event: event })
    }

    /// Passes each available record to `each`, including its header, and frees the records' space.
    pub fn read(&mut self, each: impl FnMut(&[u8])) {
        self.ring.read(each);
    }
}

fn open(processor: u32, has_build_ids: bool) -> io::Result<OwnedFd> {
    let mut attributes = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        // Counts nothing.
        config: PERF_COUNT_SW_DUMMY.into(),
        sample_type: (PERF_SAMPLE_TID | PERF_SAMPLE_TIME).into(),
        clockid: libc::CLOCK_MONOTONIC,
        ..perf_event_attr::default()
    };
    attributes.set_mmap(1);
    attributes.set_comm(1);
    attributes.set_sample_id_all(1);
    attributes.set_mmap2(1);
    attributes.set_comm_exec(1);
    attributes.set_use_clockid(1);
    attributes.set_build_id(has_build_ids.into());
    open_event(attributes, processor)
}
