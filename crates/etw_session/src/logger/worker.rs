//! The logger's thread: cycles of reading, and sleeps between them.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use etw_buffer::Wanted;
use etw_etl::LogFileMode;
use etw_sys::ids;
use etw_sys::poll::{Interest, Poller};

use super::command::{Command, NewConsumer, NewRegion};
use super::file::{FileOptions, FileSink};
use super::merge::{Heads, Merged, Pass, Source, merge, needed_by};
use super::output::Output;
use super::regions::{GRACE, RegionEntry, rebalance, set_wanted};
use super::shared::Shared;
use super::sinks::Sinks;
use super::{
    ConsumerId, EndReason, LoggerError, LoggerState, RegionId, SessionConfig, SessionUpdate, machine,
    real_time,
};

/// The poller's token of the bell; regions use their ids, which start at 1.
const BELL: u64 = 0;
/// Sleep of a busy logger between cycles.
const NAP: Duration = Duration::from_millis(1);
/// Sleep of a busy logger with real-time consumers.
const SHORT_NAP: Duration = Duration::from_micros(500);
/// Time without events after which the logger requests to be woken.
const BUSY: Duration = Duration::from_millis(50);
/// The longest sleep if an event may go unnoticed: just after the logger requested to be woken (writers have no fence),
/// and while consumers wait for watermarks of an idle session.
const DOZE: Duration = Duration::from_millis(10);
/// How long records of other processes wait for an interrupted writer.
const HOLD: Duration = Duration::from_millis(20);
/// How long they wait in a session with real-time consumers.
const SHORT_HOLD: Duration = Duration::from_millis(5);
/// Rings of doorbells in a second after which the logger no longer wakes for each.
const MOST_RINGS: u32 = 4000;
/// Number of buffers read in a cycle from which the next cycle follows at once.
const MANY_BUFFERS: u64 = 64;
/// If filling a buffer takes longer than this, full buffers wake the logger; otherwise it polls.
const SLOWLY: Duration = Duration::from_millis(4);
/// Size of a typical event (96 bytes) in words.
const EVENT_WORDS: u64 = 12;
/// How long delayed events are awaited before their writer is woken, if the session has consumers or regions fill up.
const PATIENCE: Duration = Duration::from_millis(2);

/// How long events wait for those of a delayed writer.
const LONGEST_DELAY: Duration = Duration::from_millis(200);

/// The state of the logger's thread.
#[derive(Debug)]
pub(super) struct Worker {
    shared: Arc<Shared>,
    commands: Receiver<Command>,
    poller: Poller,
    regions: Vec<RegionEntry>,
    outputs: Vec<Output>,
    /// For each output, the regions and processors from which it takes records.
    sources: Vec<Vec<Source>>,
    heads: Heads,
    sinks: Sinks,
    flush_timer: Duration,
    /// When partly filled buffers must be written; `None` if there are no events.
    flush_at: Option<Instant>,
    last_records: Instant,
    last_cycle: Instant,
    last_complete: Instant,
    wanted: Wanted,
    has_mute_region: bool,
    is_stopped: bool,
    /// Rings of doorbells in this second, and when it began.
    rings: (u32, Instant),
    /// When the next process may no longer write something that it may write now.
    rights_end: Option<Instant>,
    /// [`LONGEST_DELAY`] and [`PATIENCE`] in ticks of the session's clock.
    longest_delay: u64,
    patience: u64,
}

impl Worker {
    pub(super) fn new(
        config: SessionConfig,
        shared: Arc<Shared>,
        commands: Receiver<Command>,
    ) -> Result<Worker, LoggerError> {
        // The thread that makes the worker runs it. Who started the session sees its number from the beginning.
        shared.counters.logger_thread_id.store(ids::thread_and_process() as u32, Relaxed);
        let poller = Poller::new().map_err(LoggerError::system("cannot create a poller"))?;
        poller
            .add(&shared.bell, BELL, Interest::Read)
            .map_err(LoggerError::system("cannot create a poller"))?;
        let options = FileOptions::new(&config, machine::header(&config, &shared));
        let keeps = config.has(LogFileMode::BUFFERING);
        let file = match &config.log_file_name {
            Some(path) if !keeps => Some(FileSink::new(options.clone(), path, &shared.counters)?),
            _ => None,
        };
        let single = config.has(LogFileMode::NO_PER_PROCESSOR_BUFFERING);
        let count = if single { 1 } else { shared.geometry.processors };
        let outputs: Vec<Output> = (0..count).map(|processor| Output::new(processor, shared.start)).collect();
        let mode = config.log_file_mode;
        let sinks = Sinks::new(shared.clone(), mode, options, file, config.flush_threshold);
        let now = Instant::now();
        let ticks = |time: Duration| (shared.clock.frequency() as f64 * time.as_secs_f64()) as u64;
        Ok(Worker {
            commands,
            poller,
            regions: Vec::new(),
            sources: vec![Vec::new(); outputs.len()],
            outputs,
            heads: Heads::new(),
            sinks,
            flush_timer: config.flush_timer,
            flush_at: None,
            last_records: now,
            last_cycle: now,
            last_complete: now,
            wanted: Wanted::Nothing,
            has_mute_region: false,
            longest_delay: ticks(LONGEST_DELAY),
            patience: ticks(PATIENCE),
            is_stopped: false,
            rights_end: None,
            rings: (0, now),
            shared,
        })
    }

    pub(super) fn run(mut self) {
        loop {
            self.obey();
            if self.sinks.is_file_full && self.sinks.mode.contains(LogFileMode::REAL_TIME) {
                // Consumers continue without the file.
                self.write_partial();
                self.sinks.close_file();
                self.sinks.is_file_full = false;
            }
            if self.is_stopped || self.sinks.is_file_full {
                break;
            }
            let instant = Instant::now();
            let is_flush = self.flush_at.is_some_and(|at| at <= instant);
            let listens = !self.sinks.consumers.is_empty();
            let ends_rights = self.rights_end.is_some_and(|at| at <= instant);
            let is_complete = is_flush
                || ends_rights
                || listens && instant.saturating_duration_since(self.last_complete) >= SHORT_NAP
                || self.regions.iter().any(|region| region.closed_since.is_some());
            let records = self.cycle(instant, is_complete);
            if ends_rights {
                self.regions.iter_mut().filter_map(|region| region.checker.as_mut()).for_each(|checker| {
                    checker.expire(instant);
                });
            }
            if is_flush {
                self.write_partial();
                self.flush_at = None;
            }
            if records > 0 {
                if listens || self.is_fast(records, instant) {
                    self.last_records = instant;
                }
                self.arm(instant);
            }
            self.last_cycle = instant;
            self.sleep(records, instant);
        }
        self.finish();
    }

    /// Reads the pending records into the outputs, sends them to consumers, and returns their number.
    fn cycle(&mut self, instant: Instant, is_complete: bool) -> u64 {
        let now = self.shared.clock.now();
        let hold = match self.sinks.consumers.is_empty() {
            // Holding records back must not make a process lose events.
            _ if self.regions.iter().any(RegionEntry::is_short) => Duration::ZERO,
            true => HOLD,
            false => SHORT_HOLD,
        };
        let limit = self.limit(now);
        let merged = self.read(&Pass { now, limit, instant, is_complete, hold });
        self.collect_losses(is_complete);
        if !self.sinks.consumers.is_empty() {
            for output in &mut self.outputs {
                self.sinks.send(output);
            }
            let mut watermark = 0;
            if is_complete {
                watermark = match merged.held_from {
                    Some(time) => time.saturating_sub(1),
                    // The system time may have been set back; records already sent are the lower limit.
                    None => self.outputs.iter().map(|output| output.floor).fold(limit, u64::max),
                };
                for output in &mut self.outputs {
                    // Later records must have later times.
                    output.floor = output.floor.max(watermark.saturating_add(1));
                }
            }
            let floor = self.outputs.first().map_or(0, |output| output.floor);
            if self.sinks.consumers.publish(watermark, floor) {
                real_time::count(&self.sinks.consumers, &self.shared.counters);
            }
        }
        if is_complete {
            self.last_complete = instant;
            self.remove_done(now, instant);
        }
        if merged.records > 0 {
            rebalance(&mut self.regions, &self.shared.budget, &self.shared.counters);
        }
        merged.records
    }

    /// Returns the latest time to read: the current time, or the progress of delayed writers. A writer that makes no
    /// progress is not awaited.
    fn limit(&self, now: u64) -> u64 {
        let complete = self.regions.iter().filter_map(RegionEntry::complete_until).min();
        complete.map_or(now, |time| time.clamp(now.saturating_sub(self.longest_delay), now))
    }

    fn read(&mut self, pass: &Pass) -> Merged {
        let mut total = Merged::NOTHING;
        let geometry = self.shared.geometry;
        self.rights_end = self.regions.iter_mut().filter_map(RegionEntry::begin_pass).min();
        let is_limited = self.sinks.room().is_some();
        let mut needed = 0;
        if is_limited {
            for (output, sources) in self.outputs.iter_mut().zip(&self.sources) {
                output.needed = needed_by(output, &mut self.regions, sources, pass);
                needed += output.needed;
            }
        }
        for (output, sources) in self.outputs.iter_mut().zip(&self.sources) {
            if is_limited {
                needed -= output.needed;
                self.sinks.reserved = needed;
            }
            let sinks = &mut self.sinks;
            let full = |output: &mut Output| sinks.turn(output);
            let merged = merge(&mut self.regions, sources, output, pass, &geometry, &mut self.heads, full);
            if is_limited {
                needed += needed_by(output, &mut self.regions, sources, pass);
            }
            total.records += merged.records;
            total.refused += merged.refused;
            merged.held_from.into_iter().for_each(|time| total.hold(time));
        }
        super::statistics::add(&self.shared.counters.events_written, total.records);
        super::statistics::add(&self.shared.counters.events_refused, total.refused);
        total
    }

    fn collect_losses(&mut self, is_complete: bool) {
        let mut lost = 0;
        for region in &mut self.regions {
            lost += region.lost();
            if is_complete {
                region.reader.release_quarantine();
            }
        }
        self.sinks.lose(lost);
    }

    /// Returns a time that is not before that of any record.
    fn latest(&self) -> u64 {
        self.outputs.iter().map(|output| output.floor).fold(self.shared.clock.now(), u64::max)
    }

    /// Removes regions that were closed and read to the end.
    fn remove_done(&mut self, now: u64, instant: Instant) {
        let shared = &self.shared;
        let lost = Cell::new(0);
        let before = self.regions.len();
        let poller = &self.poller;
        self.regions.retain_mut(|region| {
            if !region.is_done(now, instant) {
                return true;
            }
            lost.set(lost.get() + region.lost());
            region.end(&shared.budget);
            if let Some(doorbell) = &region.doorbell {
                // It is closed right after this; a failure means that it is gone already.
                let _ = poller.remove(&**doorbell);
            }
            false
        });
        self.sinks.lose(lost.get());
        if self.regions.len() < before {
            self.list_sources();
        }
    }

    fn list_sources(&mut self) {
        self.sources.iter_mut().for_each(Vec::clear);
        self.has_mute_region = false;
        for region in 0..self.regions.len() {
            self.list_region(region);
        }
        self.shared.counters.regions.store(self.regions.len() as u32, Relaxed);
    }

    /// Adds a region, the last one, to the sources of the outputs.
    fn list_region(&mut self, region: usize) {
        let processors = self.shared.geometry.processors;
        let is_single = self.outputs.len() == 1;
        for (index, sources) in self.sources.iter_mut().enumerate() {
            match is_single {
                true => sources.extend((0..processors).map(|processor| (region as u32, processor))),
                false => sources.push((region as u32, index as u16)),
            }
        }
        self.has_mute_region |= self.regions.get(region).is_some_and(|region| region.doorbell.is_none());
        self.shared.counters.regions.store(self.regions.len() as u32, Relaxed);
    }

    /// Schedules the next write of partly filled buffers.
    fn arm(&mut self, instant: Instant) {
        if self.flush_at.is_none() && self.flush_timer > Duration::ZERO {
            self.flush_at = instant.checked_add(self.flush_timer);
        }
    }

    /// Writes partly filled outputs and updates the file's header.
    fn write_partial(&mut self) {
        let writes = self.sinks.file.is_some() || self.sinks.mode.contains(LogFileMode::BUFFERING);
        if !writes {
            return;
        }
        if self.sinks.file.is_some() {
            for output in self.outputs.iter_mut().filter(|output| output.records > 0) {
                self.sinks.send(output);
                self.sinks.take_partial(output);
            }
        }
        self.sinks.write_waiting(true);
        self.sinks.flush_file();
    }

    /// Reads everything up to now and writes it.
    fn flush(&mut self) {
        let instant = Instant::now();
        self.cycle(instant, true);
        self.write_partial();
        self.flush_at = None;
    }

    /// Returns whether this number of records since the last cycle fills buffers quickly.
    fn is_fast(&self, records: u64, instant: Instant) -> bool {
        let elapsed = instant.saturating_duration_since(self.last_cycle);
        let buffers = records as f64 / self.records_of_buffer() as f64;
        buffers * SLOWLY.as_secs_f64() >= elapsed.as_secs_f64()
    }

    fn records_of_buffer(&self) -> u64 {
        (u64::from(self.shared.geometry.buffer_bytes) / 8 / EVENT_WORDS).max(1)
    }

    /// Sleeps until there may be work.
    fn sleep(&mut self, records: u64, instant: Instant) {
        let many = MANY_BUFFERS * self.records_of_buffer();
        if records >= many || self.regions.iter().any(RegionEntry::is_pressing) {
            return;
        }
        let listens = !self.sinks.consumers.is_empty();
        let is_filling = self.regions.iter().any(RegionEntry::is_filling);
        let is_busy = is_filling || instant.saturating_duration_since(self.last_records) < BUSY;
        if listens || is_filling {
            let time = self.shared.clock.now().saturating_sub(self.patience);
            self.regions.iter().for_each(|region| region.hurry(time));
        }
        let to_flush = self.flush_at.map(|at| at.saturating_duration_since(instant));
        let shortest = |one: Duration, other: Option<Duration>| other.map_or(one, |other| one.min(other));
        if is_busy || self.regions.iter().any(|region| region.closed_since.is_some()) {
            self.want(Wanted::Nothing);
            self.wait(Some(shortest(if listens { SHORT_NAP } else { NAP }, to_flush)));
            return;
        }
        let wanted = match (listens, to_flush) {
            (false, Some(_)) => Wanted::FullBuffer,
            (false, None) if self.flush_timer == Duration::ZERO => Wanted::FullBuffer,
            _ => Wanted::Event,
        };
        let is_new = self.wanted != wanted;
        self.want(wanted);
        let dozes = is_new || listens || self.has_mute_region && !self.regions.is_empty();
        self.wait(if dozes { Some(shortest(DOZE, to_flush)) } else { to_flush });
    }

    fn want(&mut self, wanted: Wanted) {
        if self.wanted != wanted {
            self.wanted = wanted;
            set_wanted(&self.regions, wanted);
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        let rights = self.rights_end.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = timeout.into_iter().chain(rights).min();
        if self.rings.0 > MOST_RINGS {
            // Somebody rings without end: the others are looked after as often as in a busy session.
            std::thread::sleep(timeout.map_or(NAP, |timeout| timeout.min(NAP)));
        }
        let (mut commands, mut events) = (false, false);
        match self.poller.wait(timeout) {
            Ok(ready) => {
                for ready in ready {
                    commands |= ready.token == BELL;
                    events |= ready.token != BELL;
                }
            }
            // This cannot fail while the file is open; otherwise cycles continue at the slowest rate.
            Err(_) => std::thread::sleep(DOZE),
        }
        if commands {
            self.shared.bell.drain();
        }
        if events {
            let now = Instant::now();
            if now.saturating_duration_since(self.rings.1) > Duration::from_secs(1) {
                self.rings = (0, now);
            }
            self.rings.0 += 1;
        }
        if events && self.wanted == Wanted::Event {
            let now = Instant::now();
            self.arm(now);
            if !self.sinks.consumers.is_empty() {
                self.last_records = now;
            }
        }
    }

    /// Handles the commands of handles.
    fn obey(&mut self) {
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.obey_one(command),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.is_stopped = true;
                    return;
                }
            }
            if self.is_stopped {
                return;
            }
        }
    }

    fn obey_one(&mut self, command: Command) {
        // The requester may have gone, in which case the reply is dropped.
        match command {
            Command::AddRegion(id, region) => self.add_region(id, *region),
            Command::CloseRegion(id) => {
                if let Some(region) = self.regions.iter_mut().find(|region| region.id == id) {
                    region.close(Instant::now());
                }
            }
            Command::ProcessEnded(id) => {
                if let Some(region) = self.regions.iter_mut().find(|region| region.id == id) {
                    region.close(Instant::now());
                    region.reader.process_ended();
                }
            }
            Command::AddConsumer(id, consumer, reply) => {
                let _ = reply.send(self.add_consumer(id, consumer));
            }
            Command::RemoveConsumer(id) => {
                self.sinks.consumers.remove(id);
                real_time::count(&self.sinks.consumers, &self.shared.counters);
            }
            // The next cycle takes it over.
            Command::Settle => self.rights_end = Some(Instant::now()),
            Command::Flush(reply) => {
                self.flush();
                let _ = reply.send(Ok(()));
            }
            Command::Update(update, reply) => {
                let _ = reply.send(self.update(&update));
            }
            Command::IncrementFile(reply) => {
                let _ = reply.send(self.increment_file());
            }
            Command::CloseFile(reply) => {
                self.flush();
                self.sinks.close_file();
                let _ = reply.send(Ok(()));
            }
            Command::Dump(path, reply) => {
                let _ = reply.send(self.dump(&path));
            }
            Command::Stop => self.is_stopped = true,
        }
    }

    fn add_region(&mut self, id: RegionId, region: NewRegion) {
        let mut region = region;
        region.doorbell =
            region.doorbell.filter(|bell| self.poller.add(&**bell, id.0, Interest::Arrival).is_ok());
        region.reader.set_wanted(self.wanted);
        self.regions.push(RegionEntry::new(id, region));
        self.list_region(self.regions.len() - 1);
        // The process may have written before the logger polled the region.
        let now = Instant::now();
        self.last_records = now;
        self.arm(now);
    }

    fn add_consumer(&mut self, id: ConsumerId, consumer: NewConsumer) -> Result<Vec<u8>, LoggerError> {
        let header = self
            .sinks
            .options
            .first_buffer()
            .map_err(|error| LoggerError::File { path: Default::default(), error })?;
        let is_first = self.sinks.consumers.is_empty();
        if !is_first {
            // Earlier events belong to the existing consumers.
            self.cycle(Instant::now(), true);
        }
        self.sinks.consumers.add(id, consumer.ring, consumer.data_ready);
        real_time::count(&self.sinks.consumers, &self.shared.counters);
        if is_first {
            match self.sinks.file.is_some() || self.sinks.mode.contains(LogFileMode::BUFFERING) {
                // The events have been recorded.
                true => {
                    for output in &mut self.outputs {
                        (output.sent_words, output.sent_records) =
                            (output.words.len().max(output.sent_words), output.records);
                    }
                }
                // No other consumer has received them.
                false => self.sinks.send_kept(),
            }
        }
        self.last_records = Instant::now();
        Ok(header)
    }

    fn update(&mut self, update: &SessionUpdate) -> Result<(), LoggerError> {
        if let Some(path) = &update.log_file_name {
            self.flush();
            let file = FileSink::new(self.sinks.options.clone(), path, &self.shared.counters)?;
            self.sinks.close_file();
            self.sinks.file = Some(file);
        }
        if let Some(maximum) = update.maximum_buffers {
            self.shared.budget.set_maximum(maximum.max(2));
        }
        if let Some(flush_timer) = update.flush_timer {
            self.flush_timer = flush_timer;
            self.flush_at = None;
            self.arm(Instant::now());
        }
        if let Some(threshold) = update.flush_threshold {
            self.sinks.flush_threshold = threshold;
        }
        match update.real_time {
            Some(true) => self.sinks.mode |= LogFileMode::REAL_TIME,
            Some(false) => {
                self.sinks.mode -= LogFileMode::REAL_TIME;
                self.sinks.consumers.end(self.latest());
                self.sinks.consumers.clear();
                real_time::count(&self.sinks.consumers, &self.shared.counters);
            }
            None => {}
        }
        Ok(())
    }

    fn increment_file(&mut self) -> Result<(), LoggerError> {
        self.flush();
        let sinks = &mut self.sinks;
        match &mut sinks.file {
            Some(file) if file.is_pattern() => file.increment(&self.shared, &sinks.reference),
            _ => Err(LoggerError::NotNewFile),
        }
    }

    fn dump(&mut self, path: &Path) -> Result<u64, LoggerError> {
        if !self.sinks.mode.contains(LogFileMode::BUFFERING) {
            return Err(LoggerError::NotBuffering);
        }
        self.cycle(Instant::now(), true);
        for output in self.outputs.iter_mut().filter(|output| output.records > 0) {
            self.sinks.turn(output);
        }
        let sinks = &self.sinks;
        let frequency = sinks.reference.frequency(&self.shared);
        sinks.options.write_copy(path, sinks.memory.iter(), sinks.losses(), frequency)
    }

    /// Reads the remaining records, completes the file, and signals the end.
    fn finish(mut self) {
        let begun = Instant::now();
        for region in &mut self.regions {
            region.close(begun);
        }
        loop {
            let instant = Instant::now();
            // Records with times in the future are not awaited.
            let now = self.shared.clock.now();
            let hold = GRACE;
            self.read(&Pass { now, limit: u64::MAX, instant, is_complete: true, hold });
            self.collect_losses(true);
            self.remove_done(now, instant);
            if self.regions.is_empty() {
                break;
            }
            std::thread::sleep(NAP);
        }
        for output in &mut self.outputs {
            self.sinks.send(output);
        }
        if self.sinks.mode.contains(LogFileMode::BUFFERING) {
            for output in self.outputs.iter_mut().filter(|output| output.records > 0) {
                self.sinks.turn(output);
            }
        }
        self.write_partial();
        let reason = match self.is_stopped {
            true => EndReason::Stopped,
            false => EndReason::FileFull,
        };
        let had_file = self.sinks.file.is_some();
        self.sinks.close_file();
        self.sinks.lose_kept(&self.outputs, had_file);
        self.sinks.consumers.end(self.latest());
        self.shared.counters.set_state(LoggerState::Ended(reason));
        self.shared.ended.signal();
    }
}
