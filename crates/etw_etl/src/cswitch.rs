//! Packed context switches: buffers of type 2, and the event Thread/CompCS (hook id 0x0525).

use etw_event::{Fields, HeaderKind, HookId, Ticks};
use etw_kernel_events::ids;

/// Hook id of the event whose payload is a sequence of packed context switches.
const COMP_CS: HookId = ids::Thread::COMP_CS.hook_id();

/// Size in bytes of the tables before the switches: a time, sixteen thread ids, sixteen priorities.
const TABLES: usize = 8 + 16 * 4 + 16;

/// Largest payload of a record of 65535 bytes, rounded down to a multiple of 8.
const MAX_PAYLOAD: usize = 0xFFF8 - HeaderKind::PerfInfo64.len_bytes();

/// Packed context switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextSwitch {
    /// Time on the session's raw clock.
    pub time: Ticks,
    /// Thread that was switched out; `None` for the idle thread.
    pub switched_out: Option<SwitchedOut>,
}

/// Thread that a context switch removed from its processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchedOut {
    /// Thread id.
    pub thread_id: u32,
    /// Priority.
    pub priority: i8,
    /// State and wait reason, packed in six bits.
    pub state_wait_reason: u8,
    /// Wait time of the new thread, if it was recorded.
    pub new_thread_wait_time: Option<u32>,
}

/// Iterator over the packed context switches in a payload of Thread/CompCS.
///
/// Layout: `i64` first time, `u32` thread ids ×16, `i8` base priorities ×16, then switches of 2, 4 or 8 bytes whose
/// lowest two bits are their type. Source: structures published for the kernel debugger; no public trace contains them.
///
/// | type | bytes | from the lowest bit |
/// |---|---|---|
/// | 0 | 2 | type:2, time:14 (idle thread out) |
/// | 1 | 4 | type:2, time:30 (idle thread out) |
/// | 2 | 4 | type:2, thread:4, priority increment:3, state:6, time:17 |
/// | 3 | 8 | type:2, time:30, thread:4, state:6, priority:5, wait time:17 |
#[derive(Debug, Clone)]
pub struct ContextSwitches<'a> {
    tables: &'a [u8],
    rest: &'a [u8],
    time: i64,
}

impl<'a> ContextSwitches<'a> {
    /// Returns the switches in `payload`; the iterator is empty if the payload is shorter than its tables.
    pub fn new(payload: &'a [u8]) -> ContextSwitches<'a> {
        let (tables, rest) = payload.split_at_checked(TABLES).unwrap_or_default();
        ContextSwitches { tables, rest, time: tables.i64_at(0).unwrap_or(0) }
    }

    fn thread(&self, index: u8) -> u32 {
        self.tables.u32_at(8 + 4 * usize::from(index)).unwrap_or(0)
    }

    fn base_priority(&self, index: u8) -> i8 {
        self.tables.u8_at(8 + 16 * 4 + usize::from(index)).unwrap_or(0) as i8
    }
}

impl Iterator for ContextSwitches<'_> {
    type Item = ContextSwitch;

    /// Returns the next switch. A truncated switch ends the iteration.
    #[expect(clippy::cast_possible_truncation, reason = "each field is cast to a type that has its bits")]
    fn next(&mut self) -> Option<ContextSwitch> {
        let field = |word: u64, shift: u32, bits: u32| word >> shift & ((1 << bits) - 1);
        let (len, elapsed, switched_out) = match self.rest.first()? & 3 {
            0 => (2, field(self.rest.u16_at(0)?.into(), 2, 14), None),
            1 => (4, field(self.rest.u32_at(0)?.into(), 2, 30), None),
            2 => {
                let word = self.rest.u32_at(0)?.into();
                let index = field(word, 2, 4) as u8;
                let out = SwitchedOut {
                    thread_id: self.thread(index),
                    priority: self.base_priority(index).saturating_add(field(word, 6, 3) as i8),
                    state_wait_reason: field(word, 9, 6) as u8,
                    new_thread_wait_time: None,
                };
                (4, field(word, 15, 17), Some(out))
            }
            _ => {
                let word = self.rest.u64_at(0)?;
                let out = SwitchedOut {
                    thread_id: self.thread(field(word, 32, 4) as u8),
                    priority: field(word, 42, 5) as i8,
                    state_wait_reason: field(word, 36, 6) as u8,
                    new_thread_wait_time: Some(field(word, 47, 17) as u32),
                };
                (8, field(word, 2, 30), Some(out))
            }
        };
        self.rest = self.rest.get(len..)?;
        self.time = self.time.saturating_add(elapsed as i64);
        Some(ContextSwitch { time: Ticks(self.time), switched_out })
    }
}

/// Appends the body of a buffer of packed context switches to `out` as records of Thread/CompCS, so that readers
/// handle only one form.
///
/// If one record would be too large, several records repeat the tables.
#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "the tables have their size, and no record is above MAX_PAYLOAD and its header together, 0xFFF8"
)]
pub(crate) fn as_records(body: &[u8], out: &mut Vec<u8>) {
    let Some((tables, mut rest)) = body.split_at_checked(TABLES) else { return };
    let mut switches = ContextSwitches::new(body);
    let mut start = switches.time;
    loop {
        // Count the switches that fit by reading them.
        let before = switches.rest.len();
        let mut taken = 0;
        let mut next_start = start;
        while let Some(switch) = switches.next() {
            let end = before - switches.rest.len();
            if TABLES + end > MAX_PAYLOAD - 8 {
                next_start = switch.time.0;
                taken = end;
                break;
            }
            (next_start, taken) = (switch.time.0, end);
        }
        let (chunk, behind) = rest.split_at_checked(taken).unwrap_or_default();
        if chunk.is_empty() {
            return;
        }
        let size = HeaderKind::PerfInfo64.len_bytes() + TABLES + chunk.len();
        out.extend_from_slice(&[2, 0, HeaderKind::PerfInfo64 as u8, 0xC0]);
        out.extend_from_slice(&(size as u16).to_le_bytes());
        out.extend_from_slice(&COMP_CS.0.to_le_bytes());
        out.extend_from_slice(&start.to_le_bytes());
        out.extend_from_slice(&start.to_le_bytes());
        out.extend_from_slice(&tables[8..]);
        out.extend_from_slice(chunk);
        out.resize(out.len().next_multiple_of(8), 0);
        (rest, start) = (behind, next_start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body with one switch of each type, repeated.
    fn body(rounds: usize) -> Vec<u8> {
        let mut body = 1000i64.to_le_bytes().to_vec();
        (0..16u32).for_each(|index| body.extend((100 + index).to_le_bytes()));
        body.extend([8; 16]);
        for _ in 0..rounds {
            body.extend((5u16 << 2).to_le_bytes());
            body.extend((70_000u32 << 2 | 1).to_le_bytes());
            body.extend((2 | 3u32 << 2 | 2 << 6 | 33 << 9 | 9 << 15).to_le_bytes());
            body.extend((3 | 11u64 << 2 | 15 << 32 | 7 << 36 | 31 << 42 | 99 << 47).to_le_bytes());
        }
        body
    }

    #[test]
    fn each_type() {
        let out = |thread_id, priority, state_wait_reason, new_thread_wait_time| {
            Some(SwitchedOut { thread_id, priority, state_wait_reason, new_thread_wait_time })
        };
        let switches: Vec<_> = ContextSwitches::new(&body(1)).map(|s| (s.time.0, s.switched_out)).collect();
        let expected = [
            (1005, None),
            (71_005, None),
            (71_014, out(103, 10, 33, None)),
            (71_025, out(115, 31, 7, Some(99))),
        ];
        assert_eq!(switches, expected);
        let cut = body(1);
        assert_eq!(ContextSwitches::new(&cut[..cut.len() - 1]).count(), 3);
        assert_eq!(ContextSwitches::new(&cut[..50]).count(), 0);
    }

    #[test]
    fn a_body_becomes_records_with_the_same_switches() {
        use etw_event::{Origin, Record};
        for rounds in [0, 1, 3000, 9000] {
            let body = body(rounds);
            let expected: Vec<_> = ContextSwitches::new(&body).collect();
            let mut bytes = Vec::new();
            as_records(&body, &mut bytes);
            let origin = Origin::default();
            let (mut at, mut switches) = (0, Vec::new());
            while at < bytes.len() {
                let record = Record::parse(&bytes[at..], &origin, Ticks(0)).unwrap();
                assert_eq!(record.hook_id(), Some(COMP_CS));
                let payload: Vec<_> = ContextSwitches::new(record.payload()).collect();
                assert!(payload[0].time >= record.raw_time());
                switches.extend(payload);
                at += record.stride_bytes();
            }
            assert_eq!(switches, expected);
        }
    }
}
