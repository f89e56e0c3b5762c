//! The records of one buffer, in order, with the damage among them.

use etw_event::{Fields, HeaderKind, Origin, Record, RecordError, Ticks};

use crate::{BufferHeader, Damage, DamageKind};

/// The dword after the last record of a buffer.
const END_MARK: u32 = 0xFFFF_FFFF;

/// The origin of a buffer's bytes, so that damage can be reported with its offset in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Offset of the buffer in the file.
    pub buffer_offset: u64,
    /// Whether the bytes were derived from those of the file, by decompression or otherwise.
    pub is_derived: bool,
    /// Whether only the end mark ends the records (files of systems before Vista).
    pub ends_at_mark: bool,
}

impl Place {
    /// Returns the damage at an offset in the buffer's events.
    pub fn damage(&self, at: usize, kind: DamageKind) -> Damage {
        let within = at + BufferHeader::LEN_BYTES;
        if self.is_derived {
            Damage { offset: self.buffer_offset, within: Some(count(within)), kind }
        } else {
            Damage { offset: self.buffer_offset.saturating_add(within as u64), within: None, kind }
        }
    }
}

/// A number of bytes in the events of a buffer, which are far below 4 GiB.
fn count(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Iterates over the records of a buffer. Costs a few nanoseconds per record and allocates nothing.
///
/// Bytes that are not a record are skipped up to the next place where records follow, and reported once. A record with
/// damaged extended data is first reported and then delivered.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    data: &'a [u8],
    origin: &'a Origin,
    place: Place,
    cursor: RecordCursor,
}

/// The position of an iteration, from which it can be resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordCursor {
    /// Offset of the next record in the buffer's events.
    pub at: usize,
    /// Offset of the record delivered last.
    pub last: usize,
    /// Its time.
    pub previous: Ticks,
    /// Offset of a record whose damaged parts have been reported.
    reported: usize,
    /// Offset of a record that has been searched for records that it swallowed. Each is searched once, which bounds
    /// going back: what is found there may be refused by a closer look, and would be found again.
    searched: usize,
}

impl RecordCursor {
    /// The start of a buffer; a record without a time there takes `time`.
    #[inline]
    pub const fn start(time: Ticks) -> RecordCursor {
        RecordCursor { at: 0, last: 0, previous: time, reported: usize::MAX, searched: usize::MAX }
    }
}

impl<'a> Records<'a> {
    /// Iterates over the records of `data`, the events of a buffer without its header.
    #[inline]
    pub fn new(data: &'a [u8], origin: &'a Origin, place: Place) -> Records<'a> {
        Records { data, origin, place, cursor: RecordCursor::start(origin.clock.anchor) }
    }

    /// Resumes at a cursor returned by an iterator over the same data.
    #[inline]
    pub fn resume(data: &'a [u8], origin: &'a Origin, place: Place, cursor: RecordCursor) -> Records<'a> {
        Records { data, origin, place, cursor }
    }

    /// Returns the current position.
    #[inline]
    pub fn cursor(&self) -> RecordCursor {
        self.cursor
    }

    /// Returns the offset in the data of the next record: the sum of all bytes that have been passed.
    #[inline]
    pub fn position(&self) -> usize {
        self.cursor.at
    }

    /// Handles a place without a record: the end, or damage.
    #[cold]
    fn no_record(&mut self, error: RecordError) -> Option<Result<Record<'a>, Damage>> {
        let at = self.cursor.at;
        let rest = self.data.get(at..).unwrap_or_default();
        let ended = rest.u32_at(0) == Some(END_MARK);
        if ended && (self.place.ends_at_mark || rest.iter().all(|byte| *byte == 0xFF)) {
            self.cursor.at = self.data.len();
            let kind = DamageKind::EndMark { missing: count(rest.len()) };
            return if self.place.ends_at_mark { None } else { Some(Err(self.place.damage(at, kind))) };
        }
        let (from, skipped) = match self.inside_of_last() {
            Some(next) => {
                self.cursor.at = next;
                (self.cursor.last, next - self.cursor.last)
            }
            None => {
                self.cursor.at = self.find_row(at + 8, self.data.len(), 2).unwrap_or(self.data.len());
                (at, self.cursor.at - at)
            }
        };
        // A size that is wrong by more than the buffer swallows everything that is left: one report.
        Some(Err(self.place.damage(from, DamageKind::Record { error, skipped: count(skipped) })))
    }

    /// Looks for records inside the one delivered last: if its size was too large, it has swallowed some.
    ///
    /// A payload may contain images of records, so only a sequence of records that leads out of the last record counts.
    fn inside_of_last(&mut self) -> Option<usize> {
        if self.cursor.searched == self.cursor.last {
            return None;
        }
        self.cursor.searched = self.cursor.last;
        let header = Record::parse(self.data.get(self.cursor.last..)?, self.origin, self.cursor.previous)
            .ok()?
            .kind()
            .len_bytes();
        let start = (self.cursor.last + header).next_multiple_of(8);
        let found = self.find_row(start, self.cursor.at, 3)?;
        (found < self.cursor.at).then_some(found)
    }

    /// Returns the first offset in `start..end` where a sequence of `count` plausible records starts, or fewer that
    /// reach the end of the data.
    fn find_row(&self, start: usize, end: usize, count: usize) -> Option<usize> {
        (start..end.min(self.data.len())).step_by(8).find(|at| self.is_row(*at, count))
    }

    fn is_row(&self, start: usize, count: usize) -> bool {
        let mut at = start;
        // WPP messages have few header fields that could be implausible, so more of them are required.
        let mut wanted = count;
        let mut seen = 0;
        while at < self.data.len() {
            let Some(rest) = self.data.get(at..) else { return false };
            if seen > 0 && rest.u32_at(0) == Some(END_MARK) {
                return true;
            }
            let Ok(record) = Record::parse(rest, self.origin, self.cursor.previous) else { return false };
            if !record.is_intact() || matches!(record.kind(), HeaderKind::Wnode | HeaderKind::Timed) {
                return false;
            }
            if seen == 0 && record.kind() == HeaderKind::Message {
                wanted = count + 2;
            }
            seen += 1;
            if seen == wanted {
                return true;
            }
            at += record.stride_bytes();
        }
        true
    }

    /// Whether a record is likely real, for kinds whose header nearly any bytes could be.
    #[cold]
    fn is_likely(&self, record: Record<'a>) -> bool {
        let elapsed = record.raw_time().0.checked_sub(self.cursor.previous.0);
        // The time increases: a tick is 100 ns or less, so this is at most a day.
        let goes_on = elapsed.is_some_and(|elapsed| (0..1 << 40).contains(&elapsed));
        if goes_on && record.kind() == HeaderKind::Message && record.message_flags().0 <= 0xFF {
            return true;
        }
        let next = self.cursor.at + record.stride_bytes();
        let follows = |at: usize| {
            let record = Record::parse(self.data.get(at..)?, self.origin, self.cursor.previous).ok()?;
            Some(at + record.stride_bytes())
        };
        next >= self.data.len()
            || follows(next).is_some_and(|next| next >= self.data.len() || follows(next).is_some())
    }

    /// Whether damage in the parts of the record at `at` has to be reported before the record.
    #[cold]
    fn report_parts(&mut self, size: usize) -> Option<Damage> {
        if self.cursor.reported == self.cursor.at {
            return None;
        }
        self.cursor.reported = self.cursor.at;
        Some(self.place.damage(self.cursor.at, DamageKind::RecordParts { size: count(size) }))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Damage>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.data.get(self.cursor.at..)?;
        if rest.is_empty() {
            return None;
        }
        match Record::parse(rest, self.origin, self.cursor.previous) {
            Ok(record) => {
                if matches!(record.kind(), HeaderKind::Wnode | HeaderKind::Timed | HeaderKind::Message)
                    && !self.is_likely(record)
                {
                    return self.no_record(RecordError::UnknownHeader(rest.u32_at(0).unwrap_or(0)));
                }
                if !record.is_intact()
                    && let Some(damage) = self.report_parts(record.as_bytes().len())
                {
                    return Some(Err(damage));
                }
                self.cursor.last = self.cursor.at;
                self.cursor.at += record.stride_bytes();
                self.cursor.previous = record.raw_time();
                Some(Ok(record))
            }
            Err(error) => self.no_record(error),
        }
    }
}

impl std::iter::FusedIterator for Records<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A PERFINFO64 record with its number as time and payload.
    fn record(number: u8, payload: usize) -> Vec<u8> {
        let mut bytes =
            vec![2, 0, 0x11, 0xC0, 16 + payload as u8, 0, 0x2E, 0x0F, number, 0, 0, 0, 0, 0, 0, 0];
        bytes.resize(16 + payload, number);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    /// What reading gives: record numbers, or the offset and kind of damage.
    fn read(data: &[u8], place: Place) -> Vec<Result<u8, (u64, &'static str, u32)>> {
        let origin = Origin::default();
        Records::new(data, &origin, place)
            .map(|item| match item {
                Ok(record) => Ok(record.raw_time().0 as u8),
                Err(damage) => Err(match damage.kind {
                    DamageKind::Record { skipped, .. } => (damage.offset, "record", skipped),
                    DamageKind::EndMark { missing } => (damage.offset, "end", missing),
                    DamageKind::RecordParts { size } => (damage.offset, "parts", size),
                    other => panic!("{other}"),
                }),
            })
            .collect()
    }

    #[test]
    fn reading_continues_after_damage() {
        let good = [record(1, 4), record(2, 9), record(3, 0), record(4, 16), record(5, 1)].concat();
        let check = |change: &dyn Fn(&mut Vec<u8>), expected: &[Result<u8, (u64, &'static str, u32)>]| {
            let mut data = good.clone();
            change(&mut data);
            assert_eq!(read(&data, Place::default()), expected);
        };
        // Records lie at 0, 24, 56, 72, 104; the file offsets are 72 more.
        check(&|_| {}, &[Ok(1), Ok(2), Ok(3), Ok(4), Ok(5)]);
        check(&|data| data[27] = 0xDD, &[Ok(1), Err((96, "record", 32)), Ok(3), Ok(4), Ok(5)]);
        check(&|data| data[28] = 3, &[Ok(1), Err((96, "record", 32)), Ok(3), Ok(4), Ok(5)]);
        check(&|data| data[0..8].fill(0), &[Err((72, "record", 24)), Ok(2), Ok(3), Ok(4), Ok(5)]);
        check(&|data| data[107] = 1, &[Ok(1), Ok(2), Ok(3), Ok(4), Err((176, "record", 24))]);
        check(&|data| data.truncate(110), &[Ok(1), Ok(2), Ok(3), Ok(4), Err((176, "record", 6))]);
        // A size too large hides the next records until they are found inside.
        check(&|data| data[4] = 60, &[Ok(1), Err((72, "record", 24)), Ok(2), Ok(3), Ok(4), Ok(5)]);
        check(&|data| data.extend([0xFF; 20]), &[Ok(1), Ok(2), Ok(3), Ok(4), Ok(5), Err((200, "end", 20))]);
        check(&|data| data[56..72].fill(0xFF), &[Ok(1), Ok(2), Err((128, "record", 16)), Ok(4), Ok(5)]);
        check(&|data| data[57] = 0x83, &[Ok(1), Ok(2), Err((128, "parts", 16)), Ok(3), Ok(4), Ok(5)]);
        check(&|data| data.fill(0), &[Err((72, "record", 128))]);
    }

    #[test]
    fn old_files_end_at_the_mark() {
        let mut data = [record(1, 4), record(2, 9)].concat();
        data.extend([0xFF; 8]);
        data.extend(record(7, 0));
        assert_eq!(read(&data, Place { ends_at_mark: true, ..Place::default() }), [Ok(1), Ok(2)]);
    }

    #[test]
    fn damage_of_derived_bytes_names_both_offsets() {
        let origin = Origin::default();
        let place = Place { buffer_offset: 1000, is_derived: true, ends_at_mark: false };
        let damage = Records::new(&[0x80; 24], &origin, place).next().unwrap().unwrap_err();
        assert_eq!((damage.offset, damage.within), (1000, Some(0x48)));
    }
}
