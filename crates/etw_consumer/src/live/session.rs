//! The state of one live session.

use std::collections::VecDeque;
use std::ops::Range;

use etw_etl::{BufferFlags, BufferHeader, BufferType, Damage, DamageKind};
use etw_event::{Clock, FileTime, Origin};
use etw_sys::{bytes_of, bytes_of_mut};

use super::changes::{Address, Opened, SessionEnd};
use super::channel::{Awaited, broken};
use super::now::now;
use super::{Channel, Sink};
use crate::merge::scale::Scale;

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) channel: Channel,
    pub(super) address: Address,
    clock: Clock,
    pub(super) scale: Scale,
    logger_id: u16,
    pub(super) source: u32,
    /// The key up to which the session has sent everything.
    pub(super) watermark: i64,
    /// The time up to which the session has sent everything.
    reached: FileTime,
    /// Whether the session is late, so that others do not wait for it until its next watermark.
    pub(super) is_late: bool,
    /// Entries that have been read but not released, in ring order: their ends, and whether they are done.
    held: VecDeque<(u64, bool)>,
    /// Number of the first held entry.
    first_held: u64,
    /// The start of the entry that is being read.
    start: Vec<u64>,
    /// Bytes of all buffers so far, used to give damage an offset.
    bytes: u64,
    /// Whether the session's first buffer has been passed to [`Sink::raw_buffer`].
    has_begun: bool,
    /// Whether the session has ended and everything has been read.
    pub(super) is_at_end: bool,
    /// Why it ended; set when it is at its end.
    pub(super) reason: SessionEnd,
}

/// A buffer whose records have not all been delivered.
#[derive(Debug)]
pub(super) struct Pending {
    /// Number of the entry.
    pub(super) number: u64,
    /// The events, without the buffer header.
    pub(super) data: Data,
    /// Offset that the buffer would have in a file with all buffers of the session.
    pub(super) offset: u64,
}

/// Storage of a buffer's events.
///
/// They are parsed only in a copy, which the process that writes the ring cannot change.
#[derive(Debug)]
pub(super) enum Data {
    /// In these words of the ring.
    Ring(Range<usize>),
    /// Copied out of the ring, in which their entry is still held.
    Open(Vec<u64>),
    /// Copied out of the ring, and their entry released.
    Copied(Vec<u64>),
}

impl Data {
    /// Returns the events; nothing while they are in the ring.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Data::Ring(_) => &[],
            Data::Open(words) | Data::Copied(words) => bytes_of(words),
        }
    }
}

impl Awaited<Channel> for Session {
    fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    fn source(&self) -> u32 {
        self.source
    }

    fn is_at_end(&self) -> bool {
        self.is_at_end
    }
}

impl Session {
    /// Returns an open session; `clock` is the one to use for it, and `source` its number among all sources of the
    /// trace.
    pub(super) fn new(opened: Opened, clock: Clock, scale: Scale, source: u32) -> Session {
        let Opened { address, channel, .. } = opened;
        let logger_id = BufferHeader::parse(channel.header()).map_or(0, |header| header.logger_id);
        Session {
            logger_id,
            channel,
            address,
            clock,
            scale,
            source,
            watermark: i64::MIN,
            reached: clock.start,
            is_late: false,
            held: VecDeque::new(),
            first_held: 0,
            start: Vec::new(),
            bytes: 0,
            has_begun: false,
            is_at_end: false,
            reason: SessionEnd::Stopped,
        }
    }

    /// Returns the key of a time.
    pub(super) fn key(&self, time: FileTime) -> i64 {
        self.scale.key(self.clock.to_ticks(time))
    }

    /// Returns the session's first buffer and its processor, with which a file of the session would start.
    pub(super) fn header(&self) -> Option<(u16, Pending)> {
        let bytes = self.channel.header();
        let header = BufferHeader::parse(bytes)?;
        let end = (header.offset as usize).min(bytes.len());
        let events = bytes.get(BufferHeader::LEN_BYTES..end)?;
        let mut words = vec![0; events.len().div_ceil(8)];
        bytes_of_mut(&mut words).get_mut(..events.len())?.copy_from_slice(events);
        Some((header.processor(), Pending { number: u64::MAX, data: Data::Copied(words), offset: 0 }))
    }

    /// Returns what records of a processor have in common.
    pub(super) fn origin(&self, processor: u16) -> Origin {
        // A private session has no real-time consumers.
        let (clock, logger_id, source) = (self.clock, self.logger_id, self.source);
        Origin { clock, processor, logger_id, source, is_private: false, buffer: None }
    }

    /// Returns the next buffer and its processor. Handles watermarks and the end of the session on the way.
    pub(super) fn next_buffer(&mut self, arrived: &mut bool, sink: &mut impl Sink) -> Option<(u16, Pending)> {
        if !std::mem::replace(&mut self.has_begun, true) {
            let header = self.channel.header();
            sink.raw_buffer(self.source, |copy| {
                copy.resize(header.len().div_ceil(8), 0);
                let bytes = bytes_of_mut(copy);
                bytes.get_mut(..header.len()).unwrap_or_default().copy_from_slice(header);
                header.len()
            });
        }
        while !self.is_at_end {
            // Checked before the ring is read, so that nothing sent before the end is missed.
            let had_ended = self.channel.has_ended();
            let entry = match self.channel.next_entry() {
                Ok(Some(entry)) => entry,
                Ok(None) if had_ended => {
                    self.end(match self.channel.is_host_gone() {
                        true => SessionEnd::HostGone,
                        false => SessionEnd::Stopped,
                    });
                    break;
                }
                Ok(None) => break,
                Err(source) => {
                    let session = self.address.name.clone();
                    self.end(SessionEnd::Broken(broken(session, source)));
                    break;
                }
            };
            *arrived = true;
            let number = self.first_held + self.held.len() as u64;
            self.held.push_back((entry.end, false));
            let words = entry.words();
            sink.raw_buffer(self.source, |copy| {
                self.channel.copy(words.clone(), copy);
                entry.len_bytes
            });
            let header_words = words.end.min(words.start + BufferHeader::LEN_BYTES / 8);
            self.channel.copy(words.start..header_words, &mut self.start);
            let offset = self.bytes;
            self.bytes += entry.len_bytes as u64;
            let Some(header) = BufferHeader::parse(bytes_of(&self.start)) else {
                let kind = DamageKind::BufferHeaderCut { available: entry.len_bytes as u32 };
                sink.damage(self.source, Damage { offset, within: None, kind });
                self.give_back(number);
                continue;
            };
            if header.buffer_type == BufferType::REFERENCE_TIME {
                self.watermark = self.watermark.max(self.scale.key(header.time_stamp));
                self.reached = self.reached.max(self.clock.to_filetime(header.time_stamp));
                self.is_late = false;
                self.give_back(number);
                continue;
            }
            sink.buffer(self.source, header.buffer_flag.contains(BufferFlags::EVENTS_LOST));
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

    /// Marks an entry as done. Releases all entries before the first that is not.
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

    /// Returns the time up to which everything that the session sent was read.
    pub(super) fn read_until(&self) -> FileTime {
        // The last watermark of a session that was stopped may be any later time.
        self.reached.min(now())
    }

    /// Ends reading from the session; what has arrived from it is still delivered.
    #[cold]
    pub(super) fn end(&mut self, reason: SessionEnd) {
        if !self.is_at_end {
            (self.is_at_end, self.reason) = (true, reason);
            self.watermark = i64::MAX;
            self.is_late = false;
        }
    }
}
