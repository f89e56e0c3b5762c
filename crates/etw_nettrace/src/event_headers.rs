//! The headers of events, in each format.

use etw_event::Guid;

use crate::Damage;
use crate::cursor::Cursor;

/// An event as it is in the file, with references to other rows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RawEvent<'a> {
    /// Offset of the event in the file.
    pub(crate) offset: u64,
    pub(crate) metadata_id: u32,
    pub(crate) sequence: u32,
    /// Id of the thread, or in format 6 its index.
    pub(crate) thread: u64,
    /// The thread that wrote the event, which counts its events.
    pub(crate) capture_thread: u64,
    pub(crate) processor: u32,
    pub(crate) stack_id: u32,
    pub(crate) time: u64,
    pub(crate) activity_id: Guid,
    pub(crate) related_activity_id: Guid,
    pub(crate) label_list: u32,
    /// Whether no later event of the file is earlier.
    pub(crate) is_sorted: bool,
    /// Stack within the event (format 3).
    pub(crate) stack: &'a [u8],
    pub(crate) payload: &'a [u8],
    payload_len: u32,
}

/// The notation of headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    /// Format 3.
    WithStack,
    /// Formats 4 and 5, or 6, without compression.
    Plain { is_six: bool },
    /// Formats 4 and 5, or 6, relative to the event before.
    Compressed { is_six: bool },
}

/// Iterator over the events of a block.
#[derive(Debug, Clone)]
pub(crate) struct RawEvents<'a> {
    cursor: Cursor<'a>,
    /// Offset of the block's bytes in the file.
    offset: u64,
    notation: Notation,
    previous: RawEvent<'a>,
    is_metadata: bool,
}

impl<'a> RawEvents<'a> {
    /// Starts a block of events, or up to format 5 of metadata.
    pub(crate) fn new(
        bytes: &'a [u8],
        offset: u64,
        version: u32,
        is_metadata: bool,
    ) -> Result<RawEvents<'a>, Damage> {
        let mut cursor = Cursor::new(bytes);
        let notation = match version {
            ..=3 => Notation::WithStack,
            _ => {
                let flags = block_flags(&mut cursor).ok_or(Damage {
                    offset,
                    what: "a block of events has no header",
                    skipped: bytes.len() as u64,
                })?;
                let is_six = version >= 6;
                match flags & 1 {
                    0 => Notation::Plain { is_six },
                    _ => Notation::Compressed { is_six },
                }
            }
        };
        Ok(RawEvents { cursor, offset, notation, previous: RawEvent::default(), is_metadata })
    }

    fn read(&mut self) -> Option<RawEvent<'a>> {
        match self.notation {
            Notation::WithStack => self.with_stack(),
            Notation::Plain { is_six } => self.plain(is_six),
            Notation::Compressed { is_six } => self.compressed(is_six),
        }
    }

    fn with_stack(&mut self) -> Option<RawEvent<'a>> {
        let size = self.cursor.u32()?;
        let mut event = Cursor::new(self.cursor.take(size as usize)?);
        let metadata_id = event.u32()?;
        let thread = event.u32()?.into();
        let time = event.u64()?;
        let (activity_id, related_activity_id) = (event.guid()?, event.guid()?);
        let payload_len = event.u32()?;
        let payload = event.take(payload_len as usize)?;
        let stack_len = event.u32()?;
        let stack = event.take(stack_len as usize)?;
        Some(RawEvent {
            metadata_id,
            thread,
            capture_thread: thread,
            processor: u32::MAX,
            time,
            activity_id,
            related_activity_id,
            is_sorted: true,
            stack,
            payload,
            ..RawEvent::default()
        })
    }

    fn plain(&mut self, is_six: bool) -> Option<RawEvent<'a>> {
        let size = self.cursor.u32()?;
        let mut event = Cursor::new(self.cursor.take(size as usize)?);
        let metadata_id = event.u32()? & 0x7FFF_FFFF;
        let sequence = event.u32()?;
        let (thread, capture_thread) = (event.u64()?, event.u64()?);
        let (processor, stack_id) = (event.u32()?, event.u32()?);
        let time = event.u64()?;
        let mut read = RawEvent {
            metadata_id,
            sequence,
            thread,
            capture_thread,
            processor,
            stack_id,
            time,
            ..RawEvent::default()
        };
        if is_six {
            read.label_list = event.u32()?;
        } else {
            (read.activity_id, read.related_activity_id) = (event.guid()?, event.guid()?);
        }
        read.payload_len = event.u32()?;
        read.payload = event.take(read.payload_len as usize)?;
        if !is_six {
            // Blocks start at a multiple of four in the file, and so do events.
            let padding = self.cursor.at().next_multiple_of(4) - self.cursor.at();
            self.cursor.take(padding.min(self.cursor.rest().len()));
        }
        Some(read)
    }

    #[inline]
    fn compressed(&mut self, is_six: bool) -> Option<RawEvent<'a>> {
        let cursor = &mut self.cursor;
        let mut event = self.previous;
        let flags = cursor.u8()?;
        if flags & 0x01 != 0 {
            event.metadata_id = cursor.var_u32()?;
        }
        if flags & 0x02 != 0 {
            event.sequence = event.sequence.wrapping_add(cursor.var_u32()?);
            event.capture_thread = cursor.var_u64()?;
            event.processor = cursor.var_u32()?;
        }
        if !self.is_metadata {
            event.sequence = event.sequence.wrapping_add(1);
        }
        if flags & 0x04 != 0 {
            event.thread = cursor.var_u64()?;
        }
        if flags & 0x08 != 0 {
            event.stack_id = cursor.var_u32()?;
        }
        event.time = event.time.wrapping_add(cursor.var_u64()?);
        if is_six {
            if flags & 0x10 != 0 {
                event.label_list = cursor.var_u32()?;
            }
        } else {
            if flags & 0x10 != 0 {
                event.activity_id = cursor.guid()?;
            }
            if flags & 0x20 != 0 {
                event.related_activity_id = cursor.guid()?;
            }
        }
        event.is_sorted = flags & 0x40 != 0;
        if flags & 0x80 != 0 {
            event.payload_len = cursor.var_u32()?;
        }
        event.payload = cursor.take(event.payload_len as usize)?;
        self.previous = event;
        Some(event)
    }
}

impl<'a> Iterator for RawEvents<'a> {
    type Item = Result<RawEvent<'a>, Damage>;

    #[inline]
    fn next(&mut self) -> Option<Result<RawEvent<'a>, Damage>> {
        if self.cursor.is_empty() {
            return None;
        }
        let offset = self.offset + self.cursor.at() as u64;
        if let Some(event) = self.read() {
            return Some(Ok(RawEvent { offset, ..event }));
        }
        let end = self.offset + (self.cursor.at() + self.cursor.rest().len()) as u64;
        self.cursor = Cursor::new(&[]);
        Some(Err(Damage { offset, what: "an event does not fit in its block", skipped: end - offset }))
    }
}

/// Reads the header of a block of events, whose size includes its own two bytes.
fn block_flags(cursor: &mut Cursor<'_>) -> Option<u16> {
    let size = usize::from(cursor.u16()?);
    let flags = cursor.u16()?;
    let (_first_time, _last_time) = (cursor.u64()?, cursor.u64()?);
    cursor.take(size.checked_sub(cursor.at())?)?;
    Some(flags)
}
