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
    /// The addresses of its stack, with marks between those of the kernel and the program.
    stack: &'a [u8],
}

impl Tracepoint<'_> {
    /// Returns the addresses of its stack: those of the kernel, then those of the program by frame pointers, innermost
    /// first. None if the session wants no stacks.
    pub fn frames(&self) -> impl Iterator<Item = u64> {
        let addresses = self.stack.as_chunks().0.iter().map(|chunk| u64::from_ne_bytes(*chunk));
        addresses.filter(|address| *address < FIRST_MARK)
    }
}

/// The kind of events of tracepoints.
pub(super) const TRACEPOINT: u32 = 70;

/// The first of the marks in a stack (`PERF_CONTEXT_MAX`), which are no addresses.
const FIRST_MARK: u64 = -4095_i64 as u64;

/// Offset of the thread in the header of every tracepoint's record (`common_pid`).
const THREAD_AT: usize = 4;

/// Converts a sample of `perf_event_open` into a record of the capture.
///
/// Returns whether it is a sample with a tracepoint's record.
pub(crate) fn of_tracepoint_ring(sample: &[u8], session: u64, has_stack: bool, to: &mut Vec<u8>) -> bool {
    let fields = Fields(sample);
    if fields.u32(0) != Some(PERF_RECORD_SAMPLE) {
        return false;
    }
    // Header, process, thread, time; the number of addresses and these; the length of the raw record, and that.
    let stack = || {
        let len = usize::try_from(fields.u64(24)?).ok()?.checked_mul(8)?;
        fields.bytes(32, len)
    };
    let stack = if has_stack { stack() } else { Some(&[][..]) };
    let Some(stack) = stack else { return false };
    let raw = || {
        let at = if has_stack { 32 + stack.len() } else { 24 };
        let len = fields.u32(at)?;
        fields.bytes(at + 4, len as usize)
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
    to.extend_from_slice(&(stack.len() as u64).to_ne_bytes());
    to.extend_from_slice(stack);
    to.extend_from_slice(raw);
    true
}

pub(super) fn body(id: u32, fields: Fields<'_>) -> Option<Body<'_>> {
    let (session, len) = (fields.u64(0)?, usize::try_from(fields.u64(8)?).ok()?);
    let (stack, record) = fields.0.get(16..)?.split_at_checked(len)?;
    Some(Body::Tracepoint(Tracepoint { session, id, record, stack }))
}

#[cfg(test)]
mod tests {
    use super::super::Event;
    use super::*;

    #[test]
    fn samples_are_read() {
        let raw = [&365_u16.to_ne_bytes()[..], &[0, 0], &11_u32.to_ne_bytes(), b"fields"].concat();
        let check = |stack: &[u64], expected: &[u64]| {
            let has_stack = !stack.is_empty();
            let mut sample = [9_u32, 0, 10, u32::MAX].map(u32::to_ne_bytes).concat();
            sample.extend(7_u64.to_ne_bytes());
            if has_stack {
                sample.extend((stack.len() as u64).to_ne_bytes());
                sample.extend(stack.iter().flat_map(|address| address.to_ne_bytes()));
            }
            sample.extend((raw.len() as u32).to_ne_bytes());
            sample.extend(&raw);
            let mut own = Vec::new();
            assert!(of_tracepoint_ring(&sample, 5, has_stack, &mut own));
            let event = Event::parse(&own, 1).unwrap();
            assert_eq!((event.time, event.process_id, event.thread_id), (7, 10, 11));
            let Body::Tracepoint(tracepoint) = event.body else { panic!("{event:?}") };
            assert_eq!((tracepoint.session, tracepoint.id, tracepoint.record), (5, 365, &raw[..]));
            assert_eq!(tracepoint.frames().collect::<Vec<_>>(), expected);
            for len in 0..sample.len() {
                assert!(!of_tracepoint_ring(&sample[..len], 5, has_stack, &mut Vec::new()), "{len}");
            }
        };
        check(&[], &[]);
        let [of_kernel, of_user] = [-128_i64, -512].map(i64::cast_unsigned);
        check(&[of_kernel, 0xFFFF_FFFF_8100_0000, of_user, 0x1000], &[0xFFFF_FFFF_8100_0000, 0x1000]);
    }
}
