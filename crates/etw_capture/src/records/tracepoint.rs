//! Events of tracepoints.

use perf_event_open_sys::bindings::PERF_RECORD_SAMPLE;

use super::{Body, Fields};

/// An event of a tracepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tracepoint<'a> {
    /// The session whose rings it came from.
    pub session: u64,
    /// The tracepoint's number ([`TracepointFormat::id`](crate::tracepoints::TracepointFormat)).
    pub id: u32,
    /// The tracepoint's record, to which the offsets of its fields refer. Up to seven bytes follow it.
    pub record: &'a [u8],
}

/// The kind of events of tracepoints.
pub(super) const TRACEPOINT: u32 = 70;

/// Offset of the thread in the header of every tracepoint's record (`common_pid`).
const THREAD_AT: usize = 4;

/// Converts a sample of `perf_event_open` into a record of the capture.
///
/// Returns whether it is a sample with a tracepoint's record.
pub(crate) fn of_tracepoint_ring(sample: &[u8], session: u64, to: &mut Vec<u8>) -> bool {
    let fields = Fields(sample);
    if fields.u32(0) != Some(PERF_RECORD_SAMPLE) {
        return false;
    }
    // Header, process, thread, time, the length of the raw record, and that.
    let raw = || {
        let len = fields.u32(24)?;
        fields.bytes(28, len as usize)
    };
    let (Some(process), Some(time), Some(raw)) = (fields.bytes(8, 4), fields.bytes(16, 8), raw()) else {
        return false;
    };
    // The kernel has no process and thread of a thread that it has released, but its records have the thread.
    let (Some(thread), Some(id)) = (Fields(raw).bytes(THREAD_AT, 4), Fields(raw).u16(0)) else {
        return false;
    };
    to.extend_from_slice(time);
    to.extend_from_slice(&TRACEPOINT.to_ne_bytes());
    to.extend_from_slice(process);
    to.extend_from_slice(thread);
    to.extend_from_slice(&u32::from(id).to_ne_bytes());
    to.extend_from_slice(&session.to_ne_bytes());
    to.extend_from_slice(raw);
    true
}

pub(super) fn body(id: u32, fields: Fields<'_>) -> Option<Body<'_>> {
    let (session, record) = (fields.u64(0)?, fields.0.get(8..)?);
    Some(Body::Tracepoint(Tracepoint { session, id, record }))
}

#[cfg(test)]
mod tests {
    use super::super::Event;
    use super::*;

    #[test]
    fn samples_are_read() {
        let raw = [&365_u16.to_ne_bytes()[..], &[0, 0], &11_u32.to_ne_bytes(), b"fields"].concat();
        let mut sample = [9_u32, 0, 10, u32::MAX].map(u32::to_ne_bytes).concat();
        sample.extend(7_u64.to_ne_bytes());
        sample.extend((raw.len() as u32).to_ne_bytes());
        sample.extend(&raw);
        let mut own = Vec::new();
        assert!(of_tracepoint_ring(&sample, 5, &mut own));
        let event = Event::parse(&own, 1).unwrap();
        assert_eq!((event.time, event.process_id, event.thread_id), (7, 10, 11));
        assert_eq!(event.body, Body::Tracepoint(Tracepoint { session: 5, id: 365, record: &raw }));
        for len in 0..sample.len() {
            assert!(!of_tracepoint_ring(&sample[..len], 5, &mut Vec::new()), "{len}");
        }
    }
}
