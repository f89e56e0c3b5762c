//! The kernel's records of tracepoints: samples of `perf_event_open`.

// UNSAFETY: requests to events that rustix has not.
#![expect(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use perf_event_open_sys::bindings::{
    PERF_FORMAT_LOST, PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_RAW, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
    PERF_TYPE_TRACEPOINT, perf_event_attr,
};
use perf_event_open_sys::ioctls::{ENABLE, SET_FILTER, SET_OUTPUT};

use super::perf_ring::{PerfRing, open_event};

/// Smallest ring that is tried, in bytes.
const LEAST_RING_BYTES: usize = 64 << 10;

/// A tracepoint, and which of its events are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracepointEvent {
    /// The number that the kernel gives to the tracepoint (`events/SYSTEM/NAME/id`).
    pub id: u32,
    /// The condition that the kernel evaluates before it writes a record, in its own filter language; `None` for all
    /// events.
    pub filter: Option<CString>,
}

/// The ring of one processor, into which the kernel writes a record for each event of some tracepoints on that processor.
///
/// The records are those of `perf_event_open(2)`: `PERF_RECORD_SAMPLE` with process, thread, time by `CLOCK_MONOTONIC`, the
/// stack if it is wanted, and the tracepoint's raw record (`PERF_SAMPLE_TID`, `PERF_SAMPLE_TIME`, `PERF_SAMPLE_CALLCHAIN`,
/// `PERF_SAMPLE_RAW`), and `PERF_RECORD_LOST`.
#[derive(Debug)]
pub struct TracepointRing {
    ring: PerfRing,
    /// One for each tracepoint. They share the ring, which belongs to the first.
    events: Vec<OwnedFd>,
    /// Whether the kernel counts the lost records of each event.
    is_counted: bool,
    has_stacks: bool,
}

impl TracepointRing {
    /// Opens the ring of a processor. Its size is `bytes`, rounded up to a power of two of pages, or less if the kernel
    /// allows less to this process. Records are written from [`TracepointRing::enable`] on. Also returns the tracepoints
    /// that cannot be opened, by their places in the list; without a ring if there is none left.
    ///
    /// The errors are those of the system: `PermissionDenied` without `CAP_PERFMON`, `ENODEV` for a processor that is
    /// offline, `EMFILE` if this process has too many open files, `EINVAL` for a filter that the kernel does not accept.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the ring cannot be mapped.
    pub fn open(
        processor: u32,
        tracepoints: &[TracepointEvent],
        bytes: usize,
        has_stacks: bool,
    ) -> io::Result<(Option<TracepointRing>, Vec<(usize, io::Error)>)> {
        let (mut ring, mut failed) = (None::<TracepointRing>, Vec::new());
        for (tracepoint, at) in tracepoints.iter().zip(0..) {
            let (event, is_counted) = match open(processor, tracepoint, true, has_stacks) {
                // Linux counts lost records since 6.0.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    (open(processor, tracepoint, false, has_stacks), false)
                }
                event => (event, true),
            };
            match (event, &mut ring) {
                (Err(error), _) => failed.push((at, error)),
                (Ok(event), None) => {
                    let own = map_largest(&event, bytes)?;
                    ring = Some(TracepointRing { ring: own, events: vec![event], is_counted, has_stacks });
                }
                (Ok(event), Some(ring)) => {
                    ring.is_counted &= is_counted;
                    failed.extend(ring.add(event).err().map(|error| (at, error)));
                }
            }
        }
        Ok((ring, failed))
    }

    /// Makes an event write to the ring.
    fn add(&mut self, event: OwnedFd) -> io::Result<()> {
        if let Some(first) = self.events.first() {
            // SAFETY: the request takes a file, and both live.
            check(unsafe { SET_OUTPUT(event.as_raw_fd(), first.as_raw_fd()) })?;
        }
        self.events.push(event);
        Ok(())
    }

    /// Checks a tracepoint's filter, without any event.
    ///
    /// # Errors
    ///
    /// Those that [`TracepointRing::open`] returns for a tracepoint.
    pub fn check(processor: u32, tracepoint: &TracepointEvent) -> io::Result<()> {
        open(processor, tracepoint, false, false).map(drop)
    }

    /// Returns whether the records have stacks.
    pub fn has_stacks(&self) -> bool {
        self.has_stacks
    }

    /// Makes the kernel write records from now on.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    pub fn enable(&self) -> io::Result<()> {
        // SAFETY: the request takes no address.
        self.events.iter().try_for_each(|event| check(unsafe { ENABLE(event.as_raw_fd(), 0) }))
    }

    /// Passes each available record to `each`, including its header, and frees the records' space.
    pub fn read(&mut self, each: impl FnMut(&[u8])) {
        self.ring.read(each);
    }

    /// Returns the number of records that found no room so far. Those after the last `PERF_RECORD_LOST` are included.
    /// `None` if the kernel does not count them, which Linux does since 6.0.
    pub fn lost(&self) -> Option<u64> {
        let count = |event: &OwnedFd| {
            // The event's own count, and that of lost records.
            let mut counts = [0; 16];
            let read = rustix::io::read(event, &mut counts).ok()?;
            let lost = counts.get(8..read)?.first_chunk()?;
            Some(u64::from_ne_bytes(*lost))
        };
        self.is_counted.then(|| self.events.iter().filter_map(count).sum())
    }
}

/// Opens a tracepoint's event, which is not enabled yet.
fn open(
    processor: u32,
    tracepoint: &TracepointEvent,
    is_counted: bool,
    has_stacks: bool,
) -> io::Result<OwnedFd> {
    let stack = if has_stacks { PERF_SAMPLE_CALLCHAIN } else { 0 };
    let mut attributes = perf_event_attr {
        type_: PERF_TYPE_TRACEPOINT,
        config: tracepoint.id.into(),
        sample_type: (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW | stack).into(),
        read_format: if is_counted { PERF_FORMAT_LOST.into() } else { 0 },
        clockid: libc::CLOCK_MONOTONIC,
        ..perf_event_attr::default()
    };
    // Every event is a record.
    attributes.__bindgen_anon_1.sample_period = 1;
    attributes.set_disabled(1);
    attributes.set_use_clockid(1);
    let event = open_event(attributes, processor)?;
    if let Some(filter) = &tracepoint.filter {
        // SAFETY: the text lives during the call and ends with a zero; the kernel copies it.
        check(unsafe { SET_FILTER(event.as_raw_fd(), filter.as_ptr().cast_mut()) })?;
    }
    Ok(event)
}

/// Maps a ring of `bytes`, or the largest one that this process may have.
fn map_largest(event: &OwnedFd, bytes: usize) -> io::Result<PerfRing> {
    let mut bytes = bytes;
    loop {
        match PerfRing::map(event, bytes) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && bytes > LEAST_RING_BYTES => {
                bytes /= 2;
            }
            ring => return ring,
        }
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
