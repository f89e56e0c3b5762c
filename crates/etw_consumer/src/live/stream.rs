//! One stream: the buffers of one processor of one session.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use etw_etl::{Place, RecordCursor, Records};
use etw_event::{Fields, HeaderKind, Origin, Record, Ticks};

use super::Sink;
use super::session::{Data, Pending, Session};
use crate::merge::scale::Scale;

/// A stream with its buffers; the first one is open.
#[derive(Debug)]
pub(super) struct Stream {
    /// Number of the session.
    pub(super) session: usize,
    pub(super) origin: Origin,
    pub(super) pending: VecDeque<Pending>,
    cursor: RecordCursor,
    /// Key of the next record of the open buffer; `None` at its end.
    pub(super) first_key: Option<i64>,
}

impl Stream {
    /// Returns a stream without buffers.
    pub(super) fn new(session: usize, origin: Origin) -> Stream {
        let cursor = RecordCursor::start(origin.clock.anchor);
        Stream { session, origin, pending: VecDeque::new(), cursor, first_key: None }
    }

    /// Starts with the buffer at the front, of which it takes a copy into one of `spare`.
    pub(super) fn open(&mut self, session: &Session, spare: &mut Vec<Vec<u64>>) {
        self.cursor = RecordCursor::start(self.cursor.previous);
        self.first_key = None;
        let Some(pending) = self.pending.front_mut() else { return };
        if let Data::Ring(words) = &pending.data {
            let mut copy = spare.pop().unwrap_or_default();
            session.channel.copy(words.clone(), &mut copy);
            pending.data = Data::Open(copy);
        }
        self.first_key = next_key(pending.data.bytes(), &self.cursor, session.scale);
    }

    /// Visits the records of the open buffer whose keys are at most `last`, and skips those before `from`.
    #[inline]
    pub(super) fn take_turn(
        &mut self,
        session: &Session,
        from: i64,
        last: i64,
        (last_key, inversions): (&mut i64, &mut u64),
        sink: &mut impl Sink,
    ) -> ControlFlow<()> {
        let Some(pending) = self.pending.front() else {
            self.first_key = None;
            return ControlFlow::Continue(());
        };
        let data = pending.data.bytes();
        let (origin, scale) = (self.origin, session.scale);
        let mut cursor = self.cursor;
        loop {
            let rest = data.get(cursor.at..).unwrap_or_default();
            let record = match Record::parse(rest, &origin, cursor.previous) {
                Ok(record) if is_plain(&record) => {
                    cursor.last = cursor.at;
                    cursor.at += record.stride_bytes();
                    cursor.previous = record.raw_time();
                    Some(record)
                }
                _ => passed(data, &origin, pending, &mut cursor, sink),
            };
            let mut flow = ControlFlow::Continue(());
            if let Some(record) = record {
                let key = scale.key(record.raw_time());
                *inversions += u64::from(key < *last_key);
                *last_key = key;
                if key >= from {
                    flow = sink.record(&record);
                }
            }
            match next_key(data, &cursor, scale) {
                Some(key) if key <= last && flow.is_continue() => {}
                next => {
                    (self.cursor, self.first_key) = (cursor, next);
                    return flow;
                }
            }
        }
    }
}

/// Whether a record is intact and of a kind whose header other bytes do not resemble.
#[inline(always)]
fn is_plain(record: &Record<'_>) -> bool {
    record.is_intact()
        && !matches!(record.kind(), HeaderKind::Wnode | HeaderKind::Timed | HeaderKind::Message)
}

/// Returns the key of the record at a cursor, or `None` at the end of the data. Damage gets the time of the record
/// before it, so that it is handled next.
#[inline(always)]
fn next_key(data: &[u8], cursor: &RecordCursor, scale: Scale) -> Option<i64> {
    let rest = data.get(cursor.at..).filter(|rest| !rest.is_empty())?;
    // Offset of the time in the frequent kinds of headers.
    let time = match rest.u32_at(0)? >> 16 {
        0xC012..=0xC013 | 0xC001..=0xC002 | 0xC014 | 0xC00A => rest.i64_at(0x10),
        0xC010..=0xC011 => rest.i64_at(0x08),
        _ => time_of_rare(rest, cursor.previous),
    };
    Some(scale.key(time.map_or(cursor.previous, Ticks)))
}

#[cold]
fn time_of_rare(rest: &[u8], previous: Ticks) -> Option<i64> {
    Record::parse(rest, &Origin::default(), previous).ok().map(|record| record.raw_time().0)
}

/// Returns what is at a cursor without an intact record of the usual kinds: a record after a closer check, or damage.
#[cold]
fn passed<'d>(
    data: &'d [u8],
    origin: &'d Origin,
    pending: &Pending,
    cursor: &mut RecordCursor,
    sink: &mut impl Sink,
) -> Option<Record<'d>> {
    let place = Place { buffer_offset: pending.offset, ..Place::default() };
    let mut records = Records::resume(data, origin, place, *cursor);
    let item = records.next();
    *cursor = records.cursor();
    match item {
        Some(Ok(record)) => return Some(record),
        Some(Err(damage)) => sink.damage(origin.source, damage),
        // The end, which the caller did not notice.
        None => cursor.at = data.len(),
    }
    None
}
