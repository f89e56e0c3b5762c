//! One live session: what has arrived of it.

use std::collections::VecDeque;
use std::ops::Range;

use etw_etl::{BufferFlags, BufferHeader, BufferType, Damage, DamageKind};
use etw_event::{Clock, FileTime, Origin};

use super::channel::Awaited;
use super::{Channel, SessionError, Sink};
use crate::merge::scale::Scale;

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) channel: Channel,
    name: String,
    clock: Clock,
    pub(super) scale: Scale,
    logger_id: u16,
    source: u32,
    /// The key up to which everything has been sent.
    pub(super) watermark: i64,
    /// Whether others have waited for it too long; until its next watermark they do not.
    pub(super) is_late: bool,
    /// Entries that have been taken and not given back, in the order of the ring: their ends, and whether they are
    /// done with.
    held: VecDeque<(u64, bool)>,
    /// Number of the first of them.
    first_held: u64,
    /// Bytes of all buffers so far, which is how damage is placed.
    bytes: u64,
    /// Whether it has ended and everything has been taken in.
    pub(super) is_at_end: bool,
    pub(super) error: Option<SessionError>,
    /// Buffers, most of them parts of buffers, as they arrived.
    pub(super) buffers: u64,
    /// Buffers before which events were lost.
    pub(super) buffers_after_lost_events: u64,
}

/// A buffer whose records have not all been delivered.
#[derive(Debug)]
pub(super) struct Pending {
    /// Number of its entry.
    pub(super) number: u64,
    /// Its events, without the buffer's header.
    pub(super) data: Data,
    /// Where the buffer would lie if all buffers of the session lay in a file.
    pub(super) offset: u64,
}

/// Where the events of a buffer are.
#[derive(Debug)]
pub(super) enum Data {
    /// In these words of the ring.
    Ring(Range<usize>),
    /// Copied out of it.
    Copied(Vec<u8>),
}

impl Data {
    #[inline]
    pub(super) fn bytes<'b>(&'b self, channel: &'b Channel) -> &'b [u8] {
        match self {
            Data::Ring(words) => channel.bytes(words.clone()),
            Data::Copied(bytes) => bytes,
        }
    }
}

impl Awaited for Session {
    fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    fn is_at_end(&self) -> bool {
        self.is_at_end
    }
}

impl Session {
    /// A session that has been opened; `source` is its number among all that is read together.
    pub(crate) fn new(channel: Channel, name: String, clock: Clock, scale: Scale, source: u32) -> Session {
        let logger_id = BufferHeader::parse(channel.header()).map_or(0, |header| header.logger_id);
        Session {
            logger_id,
            channel,
            name,
            clock,
            scale,
            source,
            watermark: i64::MIN,
            is_late: false,
            held: VecDeque::new(),
            first_held: 0,
            bytes: 0,
            is_at_end: false,
            error: None,
            buffers: 0,
            buffers_after_lost_events: 0,
        }
    }

    /// The key of a time.
    pub(super) fn key(&self, time: FileTime) -> i64 {
        self.scale.key(self.clock.to_ticks(time))
    }

    /// The session's first buffer and its processor: what a file of the session would begin with.
    pub(super) fn header(&self) -> Option<(u16, Pending)> {
        let bytes = self.channel.header();
        let header = BufferHeader::parse(bytes)?;
        let end = (header.offset as usize).min(bytes.len());
        let events = bytes.get(BufferHeader::LEN_BYTES..end)?.to_vec();
        Some((header.processor(), Pending { number: u64::MAX, data: Data::Copied(events), offset: 0 }))
    }

    /// What records of a processor have in common.
    pub(super) fn origin(&self, processor: u16) -> Origin {
        Origin { clock: self.clock, processor, logger_id: self.logger_id, source: self.source }
    }

    /// The next buffer that has arrived, with its processor. Takes in watermarks on the way, and the session's end.
    pub(super) fn next_buffer(&mut self, arrived: &mut bool, sink: &mut impl Sink) -> Option<(u16, Pending)> {
        while !self.is_at_end {
            // The end is looked for before the ring, so that what was sent before it is not missed.
            let had_ended = self.channel.has_ended();
            let entry = match self.channel.next_entry() {
                Ok(Some(entry)) => entry,
                Ok(None) if had_ended => {
                    self.end(None);
                    break;
                }
                Ok(None) => break,
                Err(source) => {
                    let session = self.name.clone();
                    self.end(Some(SessionError::Ring { session, source }));
                    break;
                }
            };
            *arrived = true;
            let number = self.first_held + self.held.len() as u64;
            self.held.push_back((entry.end, false));
            let words = entry.words();
            let bytes = self.channel.bytes(words.clone());
            let offset = self.bytes;
            self.bytes += entry.len_bytes as u64;
            let Some(header) = BufferHeader::parse(bytes) else {
                let kind = DamageKind::BufferHeaderCut { available: entry.len_bytes as u32 };
                sink.damage(self.source, Damage { offset, within: None, kind });
                self.give_back(number);
                continue;
            };
            if header.buffer_type == BufferType::REFERENCE_TIME {
                self.watermark = self.watermark.max(self.scale.key(header.time_stamp));
                self.is_late = false;
                self.give_back(number);
                continue;
            }
            self.buffers += 1;
            self.buffers_after_lost_events += u64::from(header.buffer_flag.has(BufferFlags::EVENTS_LOST));
            let sizes = BufferHeader::LEN_BYTES..=entry.len_bytes;
            let end = header.offset as usize;
            if !sizes.contains(&end) {
                let kind = DamageKind::EventsEnd { end: header.offset, size: entry.len_bytes as u32 };
                sink.damage(self.source, Damage { offset, within: None, kind });
            }
            let end = end.clamp(*sizes.start(), *sizes.end());
            let words = words.start + BufferHeader::LEN_BYTES / 8..words.start + end.div_ceil(8);
            return Some((header.processor(), Pending { number, data: Data::Ring(words), offset }));
        }
        None
    }

    /// Says that an entry is done with. The ring gets back what has nothing before it that is not.
    #[inline]
    pub(super) fn give_back(&mut self, number: u64) {
        let index = number.checked_sub(self.first_held).and_then(|index| usize::try_from(index).ok());
        if let Some((_, done)) = index.and_then(|index| self.held.get_mut(index)) {
            *done = true;
        }
        let mut released = None;
        while let Some((end, true)) = self.held.front().copied() {
            released = Some(end);
            self.held.pop_front();
            self.first_held += 1;
        }
        if let Some(end) = released {
            self.channel.release(end);
        }
    }

    #[cold]
    fn end(&mut self, error: Option<SessionError>) {
        (self.is_at_end, self.error) = (true, error);
        self.watermark = i64::MAX;
        self.is_late = false;
    }
}
