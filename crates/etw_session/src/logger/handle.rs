//! The handle of a logger: starting, querying and stopping it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use etw_buffer::ring::{POSITION_WORDS, RingWriter};
use etw_buffer::{Geometry, RegionReader};
use etw_etl::LogFileMode;
use etw_event::Guid;
use etw_protocol::UserStatus;
use etw_sys::clock::ClockSource;
use etw_sys::credentials::{Identity, effective_uid};
use etw_sys::{Bell, EventFd, SharedWords};

use super::budget::Budget;
use super::command::{Command, NewConsumer, NewRegion, Reply};
use super::rights::{Checker, Rights};
use super::shared::Shared;
use super::statistics::Counters;
use super::system::SystemBells;
use super::threads::Threads;
use super::users::Users;
use super::worker::Worker;
use super::{ConsumerId, LoggerError, RegionId, SessionConfig, SessionUpdate, Statistics, SystemRegion};

/// Distinguishes a session's regions in general; here each region belongs to one session.
const EPOCH: u8 = 1;
/// Maximum time by which an event may be ahead of the current time, in seconds.
const HORIZON_SECONDS: u64 = 1;

/// A session's logger. All methods may be called from any thread; dropping it stops the session.
#[derive(Debug)]
pub struct Logger {
    commands: Sender<Command>,
    shared: Arc<Shared>,
    next_id: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The owner of a region.
#[derive(Debug)]
pub struct RegionOwner {
    /// The process id in this process's namespace, which all records of the region receive.
    pub process_id: u32,
    /// What the system says of the process, which its records receive where they say it.
    pub identity: Identity,
    /// Whether it is bound to its user's share of the session; see [`UserStatus`].
    pub is_bound: bool,
    /// What the process may write.
    pub rights: Rights,
    /// Raised by the process on request; several sessions may wait for it, and it is never reset. Without a doorbell, a
    /// sleeping session sees events after 10 ms.
    pub doorbell: Option<Arc<EventFd>>,
}

/// A new region.
#[derive(Debug)]
pub struct RegionFile {
    /// The number of the region in its session.
    pub id: RegionId,
    /// The memory, for `SharedWords::map` and `Region::attach` in the process that writes to it.
    pub file: OwnedFd,
    /// The epoch that the writer passes when it reserves.
    pub epoch: u8,
}

/// The files of a new consumer.
#[derive(Debug)]
pub struct ConsumerFiles {
    /// The number of the consumer in its session.
    pub id: ConsumerId,
    /// Buffer 0 of the session with its log file header.
    pub header: Vec<u8>,
    /// Size of the ring in bytes.
    pub ring_bytes: u32,
    /// The ring's data, for the consumer to map for reading.
    pub ring: OwnedFd,
    /// The ring's position, for the consumer to map for writing.
    pub position: OwnedFd,
    /// Rung by the logger for a consumer that sleeps.
    pub data_ready: Bell,
}

/// Words of a ring that are populated at the start: 16 MiB, and at most a quarter of the ring.
const READY_WORDS: usize = 2 << 20;

impl Logger {
    /// Starts a session: creates its file, if it has one, and its thread.
    ///
    /// # Errors
    ///
    /// Fails if the configuration is contradictory, the file cannot be created, or the system refuses a thread.
    pub fn start(config: SessionConfig) -> Result<Logger, LoggerError> {
        let geometry = config.geometry()?;
        let clock = config.clock.source();
        let (start, start_filetime) = clock.anchor();
        let event = || EventFd::new().map_err(LoggerError::system("cannot create an eventfd"));
        let keeps = config.has(LogFileMode::BUFFERING);
        let shared = Arc::new(Shared {
            counters: Counters::default(),
            budget: Budget::new(config.maximum_buffers, keeps),
            minimum_buffers: config.minimum_buffers.min(config.maximum_buffers),
            users: Users::default(),
            enabled: Arc::default(),
            bell: event()?,
            ended: event()?,
            geometry,
            clock,
            start,
            start_filetime,
        });
        let (commands, receiver) = channel();
        let name = format!("etw-{}", config.logger_name.replace('\0', " "));
        let (begun, has_begun) = sync_channel(1);
        let of_thread = shared.clone();
        let run = move || match Worker::new(config, of_thread, receiver) {
            Ok(worker) => {
                // The starter waits for this reply.
                let _ = begun.send(Ok(()));
                worker.run();
            }
            Err(error) => {
                let _ = begun.send(Err(error));
            }
        };
        let thread = thread::Builder::new()
            .name(name)
            .spawn(run)
            .map_err(LoggerError::system("cannot start a thread"))?;
        has_begun.recv().map_err(|_| LoggerError::Ended)??;
        Ok(Logger { commands, shared, next_id: AtomicU64::new(1), thread: Mutex::new(Some(thread)) })
    }

    /// Creates a region for a process, which may write as soon as it has the file.
    ///
    /// # Errors
    ///
    /// Fails if there is no memory, or the session has ended.
    pub fn add_region(&self, owner: RegionOwner) -> Result<RegionFile, LoggerError> {
        let RegionOwner { process_id, identity, is_bound, rights, doorbell } = owner;
        let (place, buffers) = self
            .shared
            .users
            .place(identity.uid, process_id, is_bound, self.shared.geometry)
            .ok_or(LoggerError::Regions { uid: identity.uid })?;
        let checker = Checker::new(rights, self.shared.enabled.clone(), identity);
        let threads = Threads::from_process(process_id);
        self.make_region(Some(process_id), buffers, |reader| NewRegion {
            reader,
            doorbell,
            checker: Some(checker),
            place,
            threads,
            late: None,
        })
    }

    /// Creates a region for this program itself, for system events.
    ///
    /// # Errors
    ///
    /// Fails if there is no memory, or the session has ended.
    pub fn add_system_region(&self) -> Result<SystemRegion, LoggerError> {
        let bell = || EventFd::new().map_err(LoggerError::system("cannot create an eventfd"));
        let bells = SystemBells { logger: bell()?, writer: bell()? };
        let other =
            |bell: &EventFd| bell.try_clone().map_err(LoggerError::system("cannot create an eventfd"));
        let (doorbell, late) = (Some(Arc::new(other(&bells.logger)?)), Some(other(&bells.writer)?));
        let uid = effective_uid();
        let place = self.shared.users.place(uid, std::process::id(), false, self.shared.geometry);
        let (place, buffers) = place.ok_or(LoggerError::Regions { uid })?;
        let region = self.make_region(None, buffers, |reader| NewRegion {
            reader,
            doorbell,
            checker: None,
            place,
            threads: None,
            late,
        })?;
        SystemRegion::new(region, self.shared.clock, bells)
    }

    fn make_region(
        &self,
        process_id: Option<u32>,
        buffers: u16,
        region: impl FnOnce(RegionReader<SharedWords>) -> NewRegion,
    ) -> Result<RegionFile, LoggerError> {
        let shared = &self.shared;
        let geometry = Geometry { buffers, ..shared.geometry };
        let (words, file) = SharedWords::create("openetw-region", geometry.len_words())
            .map_err(LoggerError::system("cannot create shared memory for a region"))?;
        let horizon = shared.clock.frequency().saturating_mul(HORIZON_SECONDS);
        let reader = RegionReader::format(
            words,
            geometry,
            shared.clock as u8,
            EPOCH,
            process_id,
            shared.start,
            horizon,
        )?;
        let mut region = region(reader);
        let user = &region.place.user;
        // A first share, so that the process need not wait for the logger's thread.
        let share = shared.budget.take_first_share(usize::from(buffers), user.is_bound());
        let granted = region.reader.grant(share);
        shared.budget.give_back(share - granted, user.is_bound());
        user.granted.fetch_add(granted as u32, Relaxed);
        let id = RegionId(self.next_id.fetch_add(1, Relaxed));
        self.send(Command::AddRegion(id, Box::new(region)))?;
        Ok(RegionFile { id, file, epoch: EPOCH })
    }

    /// Closes a region whose process is alive: later records are rejected, and earlier ones are read.
    pub fn close_region(&self, id: RegionId) {
        // If the session has ended, so has the region.
        let _ = self.send(Command::CloseRegion(id));
    }

    /// Reports the end of a region's process: its committed events are read, uncommitted ones are counted as lost.
    pub fn process_ended(&self, id: RegionId) {
        let _ = self.send(Command::ProcessEnded(id));
    }

    /// Says which providers the session has enabled, so that no process writes classic events of others' providers.
    pub fn set_enabled(&self, mut providers: Vec<Guid>) {
        providers.sort_unstable();
        *self.shared.enabled.lock().unwrap_or_else(PoisonError::into_inner) = providers;
    }

    /// Must be called after [`Rights`] of a region have been withdrawn or reduced: what the process wrote before is read
    /// before that holds.
    pub fn settle(&self) {
        let _ = self.send(Command::Settle);
    }

    /// Returns what each user has in the session.
    pub fn users(&self) -> Vec<UserStatus> {
        self.shared.users.list()
    }

    /// Creates a ring of `ring_bytes` for a consumer, which receives all later events.
    ///
    /// # Errors
    ///
    /// Fails if there is no memory, the ring is too small for a buffer, or the session has ended.
    pub fn add_consumer(&self, ring_bytes: usize) -> Result<ConsumerFiles, LoggerError> {
        let memory = |words| {
            SharedWords::create("openetw-ring", words)
                .map_err(LoggerError::system("cannot create shared memory for a consumer"))
        };
        // Room for two buffers at least, of which each must fit into somewhat less than half of the ring.
        let least = 4 * self.shared.geometry.buffer_bytes as usize;
        let ring_bytes = ring_bytes.max(least);
        let (data, ring) = memory(ring_bytes / 8)?;
        // Most rings are repeatedly empty and restart at the beginning; that part is populated in advance.
        data.populate(0..(ring_bytes / 4 / 8).min(READY_WORDS));
        let (words, position) = memory(POSITION_WORDS)?;
        let (ours, data_ready) = etw_sys::bell().map_err(LoggerError::system("cannot create a bell"))?;
        let consumer = NewConsumer { ring: RingWriter::format(data, words)?, data_ready: ours };
        let ring_bytes = u32::try_from(ring_bytes).unwrap_or(u32::MAX);
        let id = ConsumerId(self.next_id.fetch_add(1, Relaxed));
        let header = self.ask(|reply| Command::AddConsumer(id, consumer, reply))?;
        Ok(ConsumerFiles { id, header, ring_bytes, ring, position, data_ready })
    }

    /// Removes a consumer.
    pub fn remove_consumer(&self, id: ConsumerId) {
        let _ = self.send(Command::RemoveConsumer(id));
    }

    /// Delivers everything that providers have written so far, from full and partly filled buffers. Blocks until that
    /// is done.
    ///
    /// # Errors
    ///
    /// Fails if the session has ended. [`Logger::statistics`] reports failures to write the file.
    pub fn flush(&self) -> Result<(), LoggerError> {
        self.ask(Command::Flush)
    }

    /// Changes properties of the session.
    ///
    /// # Errors
    ///
    /// Fails if the new file cannot be created, in which case nothing has changed, or if the session has ended.
    pub fn update(&self, update: SessionUpdate) -> Result<(), LoggerError> {
        self.ask(|reply| Command::Update(update, reply))
    }

    /// Completes the file and continues in the next one of its pattern.
    ///
    /// # Errors
    ///
    /// Fails if the session has no file with a pattern, or the new one cannot be created.
    pub fn increment_file(&self) -> Result<(), LoggerError> {
        self.ask(Command::IncrementFile)
    }

    /// Continues without a file: the file is completed, and events go to consumers only.
    ///
    /// # Errors
    ///
    /// Fails if the session has ended.
    pub fn convert_to_real_time(&self) -> Result<(), LoggerError> {
        self.update(SessionUpdate { real_time: Some(true), ..SessionUpdate::default() })?;
        self.ask(Command::CloseFile)
    }

    /// Writes the events in memory to a file, the oldest first, and returns their number. The session continues.
    ///
    /// # Errors
    ///
    /// Fails if the session keeps nothing in memory, the file cannot be written, or the session has ended.
    pub fn dump(&self, path: &Path) -> Result<u64, LoggerError> {
        self.ask(|reply| Command::Dump(path.to_owned(), reply))
    }

    /// Returns the current statistics, without disturbing the session.
    pub fn statistics(&self) -> Statistics {
        self.shared.counters.read(self.shared.budget.used(), self.shared.minimum_buffers)
    }

    /// Returns a descriptor that is readable once the session has ended, also without a stop (its file is full).
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.shared.ended.as_fd()
    }

    /// Returns the clock of the time stamps.
    pub fn clock(&self) -> ClockSource {
        self.shared.clock
    }

    /// Stops the session: reads everything that providers have written, waits up to a second for events being written,
    /// and completes the file. Returns the final statistics; so does every later call.
    ///
    /// # Errors
    ///
    /// None at present; the statistics report a file that could not be completed.
    pub fn stop(&self) -> Result<Statistics, LoggerError> {
        let _ = self.send(Command::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The thread does not panic; if it did, its counters are still there.
            let _ = thread.join();
        }
        Ok(self.statistics())
    }

    fn send(&self, command: Command) -> Result<(), LoggerError> {
        self.commands.send(command).map_err(|_| LoggerError::Ended)?;
        self.shared.bell.signal();
        Ok(())
    }

    fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, LoggerError> {
        let (reply, answer) = sync_channel(1);
        self.send(command(reply))?;
        answer.recv().map_err(|_| LoggerError::Ended)?
    }
}

impl RegionOwner {
    /// This process itself, without a doorbell. It may write what `rights` say.
    pub fn this_process(rights: Rights) -> RegionOwner {
        RegionOwner {
            process_id: std::process::id(),
            identity: Identity::from_process(None),
            is_bound: false,
            rights,
            doorbell: None,
        }
    }
}

impl Drop for Logger {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
