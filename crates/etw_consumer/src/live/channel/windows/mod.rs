//! The connection to a session of Windows: a thread that receives its events, and batches of them.
//!
//! Windows delivers the events of a session in time order, one call for each. They are put into buffers like those of files,
//! one for each processor, since the merge with other sessions and files needs whole records that stay in place.

mod batches;
mod rebuild;

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use etw_etl::{BufferHeader, EtlWriter, HeaderRecords, LogFileHeader, LogFileMode, WriterOptions};
use etw_event::{Clock, ClockType, FileTime, Ticks};
use etw_sys::consumer::{Closer, Consumer, LogHeader};
use etw_sys::session::{self, Action};

use super::super::SessionError;
use super::super::now::now;
use super::awaited::Awaited;
use batches::{Batches, Receiver, watermark};

/// Limit for bytes that were taken from Windows and not delivered.
const MAX_HELD_BYTES: usize = 64 << 20;
/// Events arrive at most this much late: Windows flushes the buffers of real-time sessions each second.
const MAX_DELAY: i64 = 3 * FileTime::PER_SECOND;
/// Time between two watermarks of a session without events.
const IDLE: Duration = Duration::from_millis(100);

/// An entry that has been read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    start: usize,
    /// Length of the entry in bytes.
    pub(crate) len_bytes: usize,
    /// The argument of [`Channel::release`] once this entry and all before it are no longer needed.
    pub(crate) end: u64,
}

impl Entry {
    /// Returns the words of the entry, counted from the session's start.
    pub(crate) fn words(&self) -> Range<usize> {
        self.start..self.start + self.len_bytes / 8
    }
}

/// The connection to one session.
#[derive(Debug)]
pub(crate) struct Channel {
    batches: Arc<Batches>,
    closer: Closer,
    /// The session's first buffer, with its log file header.
    header: Vec<u8>,
    /// Entries that were taken: the word at which each starts, and its words.
    entries: VecDeque<(usize, Vec<u64>)>,
    /// Number of entries at the front that have been returned.
    returned: usize,
    next_word: usize,
    held_bytes: usize,
    /// The last watermark.
    reached: i64,
    last_mark: Instant,
    has_ended: bool,
}

/// Returns the error of a session that Windows stopped delivering.
pub(crate) fn broken(session: String, source: io::Error) -> SessionError {
    SessionError::Io { session, what: "Windows ended the delivery of events", source }
}

impl Channel {
    /// Opens a session by its name. Windows has one place for sessions, so no directory may be given.
    pub(crate) fn open(session: &str, directory: Option<&Path>) -> Result<Channel, SessionError> {
        let refused = |reason: String| SessionError::Refused { session: session.to_owned(), reason };
        if directory.is_some() {
            return Err(refused("sessions of Windows have no directory".to_owned()));
        }
        let failed = |error: io::Error| {
            let code = error.raw_os_error().unwrap_or(0);
            refused(match code {
                5 => "access is denied; it needs an administrator, or a member of the group Performance Log Users (Windows error 5)".to_owned(),
                4201 => "there is no such session (Windows error 4201)".to_owned(),
                _ => format!("cannot be read: {error}"),
            })
        };
        // Opening succeeds without a session, and reading fails only later.
        let query = etw_sys::Properties { logger_name: session.to_owned(), ..Default::default() };
        let mode = match session::control(Action::Query, &query) {
            Ok(found) => found.log_file_mode,
            Err(error) if error.raw_os_error() == Some(4201) => return Err(failed(error)),
            // Reading may be allowed where querying is not.
            Err(_) => LogFileMode::REAL_TIME.0,
        };
        if !LogFileMode(mode).contains(LogFileMode::REAL_TIME) {
            return Err(refused("it is not a real-time session".to_owned()));
        }
        let batches = Arc::new(Batches::default());
        let consumer = Consumer::open(session, Receiver::new(batches.clone())).map_err(failed)?;
        let header = first_buffer(session, consumer.header()).map_err(|error| SessionError::Protocol {
            session: session.to_owned(),
            what: error.to_string(),
        })?;
        let closer = consumer.closer();
        let receive = {
            let batches = batches.clone();
            move || batches.end(consumer.process().1)
        };
        thread::Builder::new().name("etw-consumer".into()).spawn(receive).map_err(|source| {
            SessionError::Io { session: session.to_owned(), what: "no thread to receive events", source }
        })?;
        Ok(Channel {
            batches,
            closer,
            header,
            entries: VecDeque::new(),
            returned: 0,
            next_word: 0,
            held_bytes: 0,
            reached: 0,
            last_mark: Instant::now(),
            has_ended: false,
        })
    }

    /// Returns the session's first buffer.
    pub(crate) fn header(&self) -> &[u8] {
        &self.header
    }

    /// Whether the session has ended; entries may still be left.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Sessions of Windows have no host that could vanish.
    pub(crate) fn is_host_gone(&self) -> bool {
        false
    }

    /// Returns the next entry.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, io::Error> {
        if self.returned == self.entries.len() {
            self.take()?;
        }
        let Some((start, words)) = self.entries.get(self.returned) else { return Ok(None) };
        self.returned += 1;
        Ok(Some(Entry { start: *start, len_bytes: size_of_val(&**words), end: (start + words.len()) as u64 }))
    }

    /// Takes what has arrived since the last call.
    fn take(&mut self) -> Result<(), io::Error> {
        if self.held_bytes > MAX_HELD_BYTES {
            return Ok(());
        }
        let taken = self.batches.take();
        let has_events = !taken.buffers.is_empty();
        for buffer in taken.buffers {
            self.push(buffer);
        }
        if has_events || self.last_mark.elapsed() > IDLE {
            let reached = match has_events {
                true => taken.last_time,
                false => now().0 - MAX_DELAY,
            };
            self.last_mark = Instant::now();
            if reached > self.reached {
                self.reached = reached;
                self.push(watermark(Ticks(reached)));
            }
        }
        self.has_ended |= taken.has_ended;
        taken.error.map_or(Ok(()), Err)
    }

    fn push(&mut self, words: Vec<u64>) {
        let start = self.next_word;
        self.next_word += words.len();
        self.held_bytes += size_of_val(&*words);
        self.entries.push_back((start, words));
    }

    /// Replaces the contents of `to` by words of an entry.
    pub(crate) fn copy(&self, words: Range<usize>, to: &mut Vec<u64>) {
        to.clear();
        let index = self.entries.partition_point(|(start, _)| *start <= words.start);
        let entry = index.checked_sub(1).and_then(|index| self.entries.get(index));
        if let Some((start, all)) = entry
            && let Some(part) = all.get(words.start - start..words.end - start)
        {
            to.extend_from_slice(part);
        }
    }

    /// Releases entries, up to the one with this end.
    pub(crate) fn release(&mut self, end: u64) {
        while let Some((start, words)) = self.entries.front()
            && (start + words.len()) as u64 <= end
        {
            self.held_bytes -= size_of_val(&**words);
            self.entries.pop_front();
            self.returned -= 1;
        }
    }

    /// Whether unreleased entries take half of the memory that they may.
    pub(crate) fn is_half_full(&self) -> bool {
        self.held_bytes > MAX_HELD_BYTES / 2
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.batches.close();
        self.closer.close();
    }
}

/// Returns the buffer with which a file of the session would start.
fn first_buffer(session: &str, log: &LogHeader) -> Result<Vec<u8>, etw_etl::WriteError> {
    let start = if log.start_time == 0 { now() } else { FileTime(log.start_time) };
    // Windows converts the times of events to UTC.
    let clock = Clock::new(ClockType::SystemTime, Ticks(start.0), start, FileTime::PER_SECOND);
    let mut header = LogFileHeader::new(clock, 0x1_0000, log.processors.max(1));
    (header.major_version, header.minor_version) = log.version;
    header.provider_version = log.build;
    header.timer_resolution = log.timer_resolution;
    header.cpu_speed_in_mhz = log.cpu_speed_in_mhz;
    header.boot_time = FileTime(log.boot_time);
    header.log_file_mode = LogFileMode::REAL_TIME;
    session.clone_into(&mut header.logger_name);
    let records = HeaderRecords::default();
    let options = WriterOptions { header, logger_id: 0, process_id: 0, thread_id: 0, records };
    let mut out = io::Cursor::new(Vec::new());
    EtlWriter::new(&mut out, options)?;
    let mut buffer = out.into_inner();
    // Its events are followed only by padding.
    if let Some(header) = BufferHeader::parse(&buffer) {
        buffer.truncate(header.offset as usize);
    }
    Ok(buffer)
}

/// The waiter for sessions.
#[derive(Debug)]
pub(crate) struct Waiter {
    signal: Arc<Signal>,
}

/// What sessions raise when something has arrived.
#[derive(Debug, Default)]
struct Signal {
    is_raised: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    fn raise(&self) {
        *lock(&self.is_raised) = true;
        self.changed.notify_one();
    }
}

impl Waiter {
    /// Returns a waiter without sessions.
    pub(crate) fn new() -> io::Result<Waiter> {
        Ok(Waiter { signal: Arc::default() })
    }

    /// Adds the session of a source.
    pub(crate) fn add(&self, channel: &Channel, _: u32) -> io::Result<()> {
        channel.batches.set_signal(Some(self.signal.clone()));
        Ok(())
    }

    /// Removes a session.
    pub(crate) fn remove(&self, channel: &Channel) {
        channel.batches.set_signal(None);
    }

    /// Blocks until a session has delivered something or has ended, or until `longest` has passed.
    pub(crate) fn wait(&mut self, sessions: &mut [impl Awaited<Channel>], longest: Duration) {
        let is_raised = lock(&self.signal.is_raised);
        let waited = self.signal.changed.wait_timeout_while(is_raised, longest, |is_raised| !*is_raised);
        let (mut is_raised, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *is_raised = false;
        drop(is_raised);
        for session in sessions.iter_mut() {
            let channel = session.channel();
            channel.has_ended |= channel.batches.has_ended_empty();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
