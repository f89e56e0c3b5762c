//! Live sessions whose buffers a program brings, instead of a session's logger: those of another machine, for instance.

use std::collections::HashMap;

use etw_buffer::ring::{POSITION_WORDS, Push, RingError, RingWriter};
use etw_etl::{BufferFlags, BufferHeader, BufferType, LogFileMode};
use etw_event::Ticks;
use etw_sys::socket::Connection;
use etw_sys::{Ringer, SharedWords};

use super::channel::{Parts, broken};
use super::{Address, Channel, Opened, SessionError};

/// Bytes that may wait to be read. Takes memory only as far as it is used.
const CAPACITY_BYTES: usize = 64 << 20;

/// The source of a live session's buffers; made by [`TraceBuilder::open_feed`](crate::TraceBuilder::open_feed).
///
/// The session ends when this is dropped; what was pushed before is still delivered.
#[derive(Debug)]
pub struct BufferFeed {
    ring: RingWriter<SharedWords, SharedWords>,
    data_ready: Ringer,
    /// Tells the reader the end when it is dropped.
    _connection: Connection,
    /// The end of each processor's last buffer.
    ends: HashMap<u16, Ticks>,
    /// Number of processors that have buffers of their own.
    processors: usize,
    /// The time up to which everything was pushed, unless the buffers themselves say that.
    reached: Option<Ticks>,
    has_watermarks: bool,
}

/// The reason why a buffer was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// The bytes are not a buffer: its header is cut, or states more events than there are bytes.
    #[error(
        "this is no buffer of a trace: its header states {stated} bytes with events, and there are {available}"
    )]
    NotABuffer {
        /// Bytes up to the end of the events that the header states; 0 without a header.
        stated: u32,
        /// Bytes there are.
        available: usize,
    },
    /// The buffer is compressed.
    #[error("compressed buffers must be unpacked first")]
    Compressed,
    /// The buffer is larger than the room for all of them.
    #[error("a buffer of {bytes} bytes is too large")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The reader is broken.
    #[error(transparent)]
    Ring(#[from] RingError),
}

impl BufferFeed {
    /// Returns a feed, and the session that it feeds. `first` is the session's first buffer, with its log file header.
    pub(crate) fn new(name: &str, first: &[u8]) -> Result<(BufferFeed, Opened), SessionError> {
        let io = |what| move |source| SessionError::Io { session: name.to_owned(), what, source };
        let memory = io("has no memory for its buffers");
        let (data, data_file) = SharedWords::create("feed", CAPACITY_BYTES / 8).map_err(&memory)?;
        let (position, position_file) =
            SharedWords::create("feed-position", POSITION_WORDS).map_err(&memory)?;
        let (data_ready, bell) = etw_sys::bell().map_err(io("cannot be waited for"))?;
        let (connection, theirs) = Connection::pair().map_err(io("cannot be waited for"))?;
        let parts = Parts {
            data: SharedWords::map_for_reading(&data_file).map_err(&memory)?,
            position: SharedWords::map(&position_file).map_err(&memory)?,
            data_ready: bell,
        };
        let of_ring = |source| broken(name.to_owned(), source);
        let ring = RingWriter::format(data, position).map_err(of_ring)?;
        let connection_of_reader = etw_protocol::Channel::new(theirs);
        let channel = Channel::new(connection_of_reader, first.to_vec(), parts).map_err(of_ring)?;
        let opened = Opened::new(Address { name: name.to_owned(), directory: None }, channel)?;
        let header = &opened.header;
        let processors = match header.log_file_mode.contains(LogFileMode::NO_PER_PROCESSOR_BUFFERING) {
            true => 1,
            false => header.number_of_processors as usize,
        };
        let feed = BufferFeed {
            ring,
            data_ready,
            _connection: connection,
            ends: HashMap::new(),
            processors,
            reached: None,
            has_watermarks: false,
        };
        Ok((feed, opened))
    }

    /// Takes a buffer with its header, as [`TraceBuilder::on_buffer`](crate::TraceBuilder::on_buffer) delivers it and an
    /// uncompressed file has it. Returns false if there is no room for it until the reader has read more.
    ///
    /// The buffers of a processor must come in the order of time. Records are delivered up to the time that a buffer of type
    /// `REFERENCE_TIME` states; without such buffers, up to the time at which each processor's last buffer ends. If none comes
    /// from a processor, they wait until 64 MiB have piled up or the feed ends.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are no uncompressed buffer that fits.
    pub fn try_push(&mut self, buffer: &[u8]) -> Result<bool, FeedError> {
        let available = buffer.len();
        let header = BufferHeader::parse(buffer).ok_or(FeedError::NotABuffer { stated: 0, available })?;
        let stated = header.offset;
        let filled = buffer.get(..stated as usize).filter(|filled| filled.len() >= BufferHeader::LEN_BYTES);
        let filled = filled.ok_or(FeedError::NotABuffer { stated, available })?;
        if header.buffer_flag.contains(BufferFlags::COMPRESSED) {
            return Err(FeedError::Compressed);
        }
        // The watermark that follows finds room too.
        match self.ring.try_push_leaving(2 * BufferHeader::LEN_BYTES, &[filled])? {
            Push::Done => {}
            Push::Full => return Ok(false),
            Push::TooLarge => return Err(FeedError::TooLarge { bytes: filled.len() }),
        }
        if header.buffer_type == BufferType::REFERENCE_TIME {
            self.has_watermarks = true;
        } else if !self.has_watermarks {
            let end = self.ends.entry(header.processor()).or_insert(header.time_stamp);
            *end = header.time_stamp.max(*end);
            let reached = self.ends.values().min().copied();
            if reached > self.reached && self.ends.len() >= self.processors {
                self.reached = reached;
                self.push_watermark(reached.unwrap_or_default())?;
            }
        }
        if self.ring.publish() {
            self.data_ready.ring();
        }
        Ok(true)
    }

    fn push_watermark(&mut self, time: Ticks) -> Result<(), FeedError> {
        let used = BufferHeader::LEN_BYTES as u32;
        let header = BufferHeader {
            buffer_size: used,
            saved_offset: used,
            offset: used,
            time_stamp: time,
            buffer_type: BufferType::REFERENCE_TIME,
            ..BufferHeader::default()
        };
        self.ring.try_push(&[&header.to_bytes()])?;
        Ok(())
    }
}
