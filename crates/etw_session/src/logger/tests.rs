//! A logger with writers in this process: what they write is in the files or counted as lost.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use etw_buffer::ring::RingReader;
use etw_buffer::{Region, Reserve, Wanted};
use etw_etl::{BufferFlags, BufferHeader, BufferType, EtlFile, LogFileMode, Records, loss_of, lost_count};
use etw_event::{Guid, Keyword, Level, Origin};
use etw_sys::{EventFd, SharedWords, bytes_of, cpu, ids};

use super::*;

/// The first word of an event, without its size.
const EVENT: u64 = 0xC013_0000;
/// Every word of the writers' headers after the time is 0x11.
const PROVIDER: Guid = Guid::from_u128(0x00000011_0000_0000_1100_000000000000);
/// Such records fill the output buffers of `EXACT_BYTES` to their last word.
const LEN_BYTES: u16 = 104;
const EXACT_BYTES: u32 = 0x3C00;

/// Takes the place of a writer's number: system events, whose number is their time.
const LATE: u64 = 99;

/// The writing side of a region.
pub(super) struct Writer {
    region: Region<SharedWords>,
    doorbell: EventFd,
    id: RegionId,
    source: etw_sys::clock::ClockSource,
}

impl Writer {
    pub(super) fn new(logger: &Logger, process_id: u32) -> Writer {
        let doorbell = EventFd::new().unwrap();
        let theirs = doorbell.try_clone().unwrap();
        let rights = Rights::default();
        rights.allow(PROVIDER, Level(0), Keyword(0), Keyword(0));
        let doorbell_of_owner = Some(Arc::new(theirs));
        let owner =
            RegionOwner { process_id, doorbell: doorbell_of_owner, ..RegionOwner::this_process(rights) };
        let file = logger.add_region(owner).unwrap();
        let region = Region::attach(SharedWords::map(&file.file).unwrap()).unwrap();
        Writer { region, doorbell, id: file.id, source: logger.clock() }
    }

    /// Writes an event with its number and that of the writer.
    pub(super) fn write(&self, number: u64, writer: u64) -> bool {
        self.write_on(cpu::current(), number, writer)
    }

    /// Writes an event as if the thread ran on `processor`.
    fn write_on(&self, processor: u32, number: u64, writer: u64) -> bool {
        let source = self.source;
        let Reserve::Slot(slot) = self.region.reserve(1, processor, LEN_BYTES, || source.now()) else {
            return false;
        };
        slot.put(1, ids::thread_and_process());
        slot.put(2, slot.time);
        for index in 3..10 {
            slot.put(index, 0x11);
        }
        slot.put(10, number);
        slot.put(11, writer);
        let opens = slot.opens_buffer;
        slot.commit(0xC013_0000 | u64::from(LEN_BYTES));
        match self.region.wanted() {
            Wanted::Event => self.doorbell.signal(),
            Wanted::FullBuffer if opens => self.doorbell.signal(),
            _ => {}
        }
        true
    }
}

/// The contents of a file.
#[derive(Debug, Default)]
struct Found {
    /// The numbers of each writer, in the order of the file's processors.
    numbers: HashMap<u64, Vec<u64>>,
    processes: Vec<u32>,
    events: u64,
    buffers: u32,
    lost: u32,
    last_flags: BufferFlags,
}

/// Reads a file; the times of a processor must not run backwards, in the order of sequence numbers.
fn read(path: &Path) -> Found {
    let bytes = std::fs::read(path).unwrap();
    let file = EtlFile::open(&bytes).unwrap();
    let header = file.header();
    let mut found = Found { lost: header.events_lost, ..Found::default() };
    let mut buffers: Vec<_> = file.buffers().map(Result::unwrap).collect();
    assert_eq!(buffers.len() as u32, header.buffers_written, "{}", path.display());
    found.buffers = header.buffers_written;
    found.last_flags = buffers.last().unwrap().header.buffer_flag;
    if header.log_file_mode.contains(LogFileMode::CIRCULAR) {
        buffers.sort_by_key(|buffer| buffer.header.sequence_number);
    }
    let mut last = HashMap::new();
    let mut scratch = Vec::new();
    for buffer in buffers.iter().skip(1) {
        let processor = buffer.header.processor();
        let data = buffer.data(&mut scratch);
        assert!(data.damage.is_none());
        let origin = buffer.origin(file.clock(), 0);
        for record in Records::new(data.bytes, &origin, buffer.place()) {
            let record = record.unwrap();
            let time = record.raw_time();
            let last = last.entry(processor).or_insert(time);
            assert!(*last <= time, "times of a processor run backwards");
            assert!(time <= buffer.header.time_stamp);
            *last = time;
            take(&record, &mut found);
        }
    }
    found
}

fn take(record: &etw_event::Record<'_>, found: &mut Found) {
    let word = |at: usize| u64::from_le_bytes(record.payload()[at..at + 8].try_into().unwrap());
    if word(8) == LATE {
        assert_eq!(record.raw_time().0 as u64, word(0), "an event of the system has another time");
    }
    found.numbers.entry(word(8)).or_default().push(word(0));
    found.events += 1;
    let process = record.process_id().unwrap();
    if !found.processes.contains(&process) {
        found.processes.push(process);
    }
}

impl Found {
    /// Checks that each number below `count` of a writer occurs once.
    fn assert_complete(&mut self, writer: u64, count: u64) {
        let mut numbers = self.numbers.remove(&writer).unwrap_or_default();
        numbers.sort_unstable();
        assert_eq!(numbers.len() as u64, count, "writer {writer}");
        assert!(numbers.iter().zip(0..).all(|(found, expected)| *found == expected));
    }
}

fn config(path: &Path) -> SessionConfig {
    SessionConfig { log_file_name: Some(path.to_owned()), ..SessionConfig::new("Test") }
}

/// Writes `count` events, and returns how many were accepted.
fn write(writer: &Writer, number: u64, count: u64) -> u64 {
    (0..count).filter(|value| writer.write(*value, number)).count() as u64
}

#[test]
fn events_of_several_processes_are_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    for (name, mode) in [("sequential", LogFileMode(0)), ("single", LogFileMode::NO_PER_PROCESSOR_BUFFERING)]
    {
        let path = directory.path().join(name);
        // Enough buffers for all events, in case the logger gets no processor time.
        let config = SessionConfig {
            log_file_mode: mode,
            buffer_bytes: EXACT_BYTES,
            maximum_buffers: 4094,
            ..config(&path)
        };
        let logger = Logger::start(config).unwrap();
        let writers: Vec<Arc<Writer>> = (1..=3).map(|pid| Arc::new(Writer::new(&logger, pid))).collect();
        let threads: Vec<_> = (0..6)
            .map(|number| {
                let writer = writers[number % 3].clone();
                thread::spawn(move || {
                    (0..20_000).for_each(|value| {
                        writer.write(value, number as u64);
                        if value % 500 == 0 {
                            thread::sleep(Duration::from_micros(200));
                        }
                    });
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let statistics = logger.stop().unwrap();
        assert_eq!(statistics.events_lost, 0, "{statistics:?}");
        assert_eq!(statistics.state, LoggerState::Ended(EndReason::Stopped));
        let mut found = read(&path);
        assert_eq!((found.events, found.lost), (statistics.events_written, 0));
        assert_eq!(u64::from(found.buffers), statistics.buffers_written);
        assert!(found.last_flags.contains(BufferFlags::FLUSH_MARKER));
        found.processes.sort_unstable();
        assert_eq!(found.processes, [1, 2, 3], "process ids are the host's");
        (0..6).for_each(|number| found.assert_complete(number, 20_000));
    }
}

#[test]
fn events_of_the_system_come_late_and_keep_their_times_and_processes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("late.etl");
    let mode = LogFileMode::NO_PER_PROCESSOR_BUFFERING;
    let config = SessionConfig {
        log_file_mode: mode,
        flush_timer: Duration::from_millis(5),
        buffer_bytes: 0x1000,
        ..config(&path)
    };
    let logger = Logger::start(config).unwrap();
    let system = logger.add_system_region().unwrap();
    let writer = Writer::new(&logger, 7);
    let now = || system.clock().now();
    system.set_complete(now());
    for round in 0..100 {
        let times = [now(), now(), now()];
        // The program's own records have later times and arrive earlier.
        (0..20).for_each(|value| assert!(writer.write(round * 20 + value, 0)));
        let complete = now();
        thread::sleep(Duration::from_millis(3));
        for time in times {
            let ids = 4242 << 32 | 17;
            let mut record = [EVENT, ids, time, 0, 0, 0, 0, 0, 0, 0, time, LATE];
            record[0] |= 96;
            assert!(system.write(round as u32 % 2, time, &record));
        }
        system.set_complete(complete);
    }
    system.lose(0, 5);
    logger.close_region(system.id());
    let statistics = logger.stop().unwrap();
    assert_eq!((statistics.events_written, statistics.events_lost), (2300, 5));
    assert!(!system.write(0, now(), &[EVENT | 96, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), "it is over");
    let mut found = read(&path);
    found.assert_complete(0, 2000);
    assert_eq!(found.numbers[&LATE].len(), 300);
    found.processes.sort_unstable();
    assert_eq!(found.processes, [7, 4242]);
}

#[test]
fn the_system_writer_is_woken_when_other_events_wait() {
    let directory = tempfile::tempdir().unwrap();
    let config = SessionConfig { maximum_buffers: 64, ..config(&directory.path().join("waiting.etl")) };
    let logger = Logger::start(config).unwrap();
    let system = logger.add_system_region().unwrap();
    let writer = Writer::new(&logger, 7);
    system.set_complete(system.clock().now());
    assert!(writer.write(0, 0));
    thread::sleep(Duration::from_millis(30));
    assert_eq!(system.bell().drain(), 0, "a few events wait");
    let (mut number, begun) = (1, Instant::now());
    while system.bell().drain() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody asked");
        // Bursts, with room for all of them.
        number += write(&writer, 0, 500);
        thread::sleep(Duration::from_millis(2));
    }
    logger.close_region(system.id());
    let statistics = logger.stop().unwrap();
    assert_eq!((statistics.events_written, statistics.events_lost), (number, 0));
}

#[test]
fn few_events_wake_the_logger_rarely() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("few.etl");
    let logger = Logger::start(config(&path)).unwrap();
    let (system, writer) = (logger.add_system_region().unwrap(), Writer::new(&logger, 7));
    let status = format!("/proc/self/task/{}/status", logger.statistics().logger_thread_id);
    let wakes = || {
        let status = std::fs::read_to_string(&status).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    for number in 0..400 {
        assert!(writer.write(number, 0));
        let now = system.clock().now();
        let record = [EVENT | 96, 0, now, 0, 0, 0, 0, 0, 0, 0, now, LATE];
        assert!(system.write(0, now, &record));
        system.set_complete(now);
        thread::sleep(Duration::from_millis(1));
    }
    let wakes = wakes();
    assert!(wakes < 100, "{wakes} wakes for 800 events");
    logger.close_region(system.id());
    assert_eq!(logger.stop().unwrap().events_lost, 0);
    let mut found = read(&path);
    found.assert_complete(0, 400);
    assert_eq!(found.numbers[&LATE].len(), 400);
}

#[test]
fn what_is_lost_is_counted_everywhere() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lost.etl");
    let logger =
        Logger::start(SessionConfig { maximum_buffers: 4, buffer_bytes: 0x1000, ..config(&path) }).unwrap();
    let writer = Writer::new(&logger, 7);
    let written = write(&writer, 0, 1_000_000);
    let statistics = logger.stop().unwrap();
    assert!(written < 1_000_000, "four small buffers do not suffice");
    assert_eq!((statistics.events_written, statistics.events_lost), (written, 1_000_000 - written));
    let found = read(&path);
    assert_eq!((found.events, u64::from(found.lost)), (written, 1_000_000 - written));
    assert!(!writer.write(0, 0), "the session is over");
    assert_eq!(logger.statistics().events_lost, 1_000_000 - written);
    assert!(statistics.number_of_buffers <= 4 + u32::from(cpu::possible() as u16), "{statistics:?}");
}

#[test]
fn a_file_that_is_full_ends_the_session() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("full.etl");
    let mode = LogFileMode::KBYTES_FOR_SIZE.union(LogFileMode::PREALLOCATE);
    let config =
        SessionConfig { log_file_mode: mode, maximum_file_size: 256, buffer_bytes: 0x1000, ..config(&path) };
    let logger = Logger::start(config).unwrap();
    let writer = Writer::new(&logger, 7);
    let begun = Instant::now();
    let mut written = 0;
    while !etw_sys::poll::wait_any(&[logger.ended()], Some(Duration::ZERO)).unwrap() {
        written += write(&writer, 0, 100);
        thread::sleep(Duration::from_micros(100));
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    let statistics = logger.stop().unwrap();
    assert_eq!(statistics.state, LoggerState::Ended(EndReason::FileFull));
    let found = read(&path);
    assert_eq!(found.buffers, 64);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 256 << 10);
    assert_eq!(found.events + statistics.log_events_lost, statistics.events_written);
    assert_eq!(statistics.events_written, written);
    assert!(statistics.log_buffers_lost > 0);
    assert_eq!(u64::from(found.lost), statistics.events_lost + statistics.log_events_lost);
}

#[test]
fn a_full_file_has_the_first_events_of_every_processor() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("full.etl");
    let mode = LogFileMode::KBYTES_FOR_SIZE;
    let config =
        SessionConfig { log_file_mode: mode, maximum_file_size: 64, buffer_bytes: 0x1000, ..config(&path) };
    let logger = Logger::start(config).unwrap();
    let processors = cpu::possible();
    let writer = Writer::new(&logger, 7);
    // A few of each processor, long before the file is full; the last ones do not fill a buffer.
    let busy = processors / 2;
    let few = |processor: u32| 10 + 40 * u64::from(processor);
    for processor in 0..processors {
        (0..few(processor)).for_each(|number| assert!(writer.write_on(processor, number, processor.into())));
        thread::sleep(Duration::from_millis(5));
    }
    let mut number = few(busy);
    while !etw_sys::poll::wait_any(&[logger.ended()], Some(Duration::ZERO)).unwrap() {
        // The session may stop meanwhile.
        number +=
            (number..number + 20).filter(|number| writer.write_on(busy, *number, busy.into())).count() as u64;
        thread::sleep(Duration::from_micros(200));
        assert!(number < 1_000_000);
    }
    let statistics = logger.stop().unwrap();
    let found = read(&path);
    assert_eq!(found.events + statistics.log_events_lost, statistics.events_written);
    for processor in 0..u64::from(processors) {
        let numbers = &found.numbers[&processor];
        assert!(numbers.len() as u64 >= few(processor as u32), "{processor}: {numbers:?}");
        assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{processor}: {numbers:?}");
    }
    assert!(found.numbers[&busy.into()].len() > 200);
}

#[test]
fn a_circular_file_has_the_newest() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("circular.etl");
    let mode = LogFileMode::KBYTES_FOR_SIZE.union(LogFileMode::CIRCULAR);
    let config =
        SessionConfig { log_file_mode: mode, maximum_file_size: 128, buffer_bytes: 0x1000, ..config(&path) };
    let logger = Logger::start(config).unwrap();
    let writer = Writer::new(&logger, 7);
    for round in 0..200 {
        (0..100).for_each(|value| assert!(writer.write(round * 100 + value, 0)));
        thread::sleep(Duration::from_micros(500));
    }
    let statistics = logger.stop().unwrap();
    assert_eq!((statistics.events_written, statistics.events_lost), (20_000, 0));
    let found = read(&path);
    assert_eq!(found.buffers, 32);
    let mut numbers = found.numbers[&0].clone();
    numbers.sort_unstable();
    let first = 20_000 - numbers.len() as u64;
    // The buffers of processors differ in age, so the older ones may have gaps.
    assert_eq!(*numbers.last().unwrap(), 19_999);
    assert!(numbers.len() > 500 && first > 1000);
}

#[test]
fn files_follow_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("part%d.etl");
    let mode = LogFileMode::KBYTES_FOR_SIZE.union(LogFileMode::NEW_FILE);
    let config =
        SessionConfig { log_file_mode: mode, maximum_file_size: 64, buffer_bytes: 0x1000, ..config(&path) };
    let logger = Logger::start(config).unwrap();
    let writer = Writer::new(&logger, 7);
    for round in 0..50 {
        (0..100).for_each(|value| assert!(writer.write(round * 100 + value, 0)));
        thread::sleep(Duration::from_micros(500));
    }
    logger.increment_file().unwrap();
    (5000..5010).for_each(|value| assert!(writer.write(value, 0)));
    let statistics = logger.stop().unwrap();
    let (mut all, mut files, mut buffers) = (Found::default(), 0, 0);
    while let path = directory.path().join(format!("part{}.etl", files + 1))
        && path.exists()
    {
        let found = read(&path);
        all.numbers.entry(0).or_default().extend(found.numbers.get(&0).into_iter().flatten());
        buffers += u64::from(found.buffers);
        files += 1;
    }
    assert!(files > 5, "{files} files");
    assert_eq!(buffers, statistics.buffers_written);
    all.assert_complete(0, 5010);
    assert!(matches!(
        Logger::start(SessionConfig { log_file_mode: mode, ..SessionConfig::new("no pattern") }),
        Err(LoggerError::NewFile)
    ));
}

#[test]
fn sessions_are_appended() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("append.etl");
    let config = SessionConfig {
        log_file_mode: LogFileMode::APPEND,
        clock: SessionClock::SystemTime,
        ..config(&path)
    };
    for round in 0..3 {
        let logger = Logger::start(config.clone()).unwrap();
        let writer = Writer::new(&logger, 7);
        (0..100).for_each(|value| assert!(writer.write(round * 100 + value, 0)));
        assert_eq!(logger.stop().unwrap().events_written, 100);
    }
    read(&path).assert_complete(0, 300);
    let other = SessionConfig { clock: SessionClock::Qpc, ..config };
    assert!(matches!(Logger::start(other), Err(LoggerError::File { .. })));
}

#[test]
fn a_flush_brings_everything_to_the_file_which_reads_without_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flush.etl");
    let logger = Logger::start(SessionConfig { flush_timer: Duration::ZERO, ..config(&path) }).unwrap();
    let writer = Writer::new(&logger, 7);
    assert_eq!(write(&writer, 0, 10), 10);
    logger.flush().unwrap();
    read(&path).assert_complete(0, 10);
    let other = directory.path().join("other.etl");
    logger.update(SessionUpdate { log_file_name: Some(other.clone()), ..SessionUpdate::default() }).unwrap();
    assert_eq!(write(&writer, 1, 20), 20);
    logger
        .update(SessionUpdate { flush_timer: Some(Duration::from_millis(20)), ..SessionUpdate::default() })
        .unwrap();
    thread::sleep(Duration::from_millis(600));
    read(&other).assert_complete(1, 20);
    std::fs::remove_file(&other).unwrap();
    assert_eq!(write(&writer, 2, 30), 30);
    thread::sleep(Duration::from_millis(600));
    let statistics = logger.statistics();
    assert_eq!(statistics.state, LoggerState::Failing, "{statistics:?}");
    assert!(statistics.last_error.contains("deleted"), "{statistics:?}");
    assert_eq!(write(&writer, 3, 40), 40);
    let statistics = logger.stop().unwrap();
    let mut found = read(&other);
    found.assert_complete(3, 40);
    assert_eq!(found.events + statistics.log_events_lost + 10 + 20, statistics.events_written);
    read(&path).assert_complete(0, 10);
}

#[test]
fn a_flight_recorder_keeps_the_newest() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dump.etl");
    let config = SessionConfig {
        log_file_mode: LogFileMode::BUFFERING,
        buffer_bytes: 0x1000,
        maximum_buffers: 32,
        ..SessionConfig::new("Recorder")
    };
    let logger = Logger::start(config).unwrap();
    let writer = Writer::new(&logger, 7);
    for round in 0..100 {
        for value in 0..50 {
            // Events lost on a busy machine are written again.
            while !writer.write(round * 50 + value, 0) {
                thread::sleep(Duration::from_millis(1));
            }
        }
        thread::sleep(Duration::from_micros(500));
        assert!(logger.statistics().number_of_buffers <= 32);
    }
    let events = logger.dump(&path).unwrap();
    let numbers = &read(&path).numbers[&0];
    assert_eq!(numbers.len() as u64, events);
    assert_eq!(numbers.iter().max(), Some(&4999));
    assert!(events >= 400, "{events}");
    assert!((0..10).all(|value| writer.write(5000 + value, 0)), "it goes on");
    assert!(logger.dump(&path).unwrap() >= 10);
    assert_eq!(read(&path).numbers[&0].iter().max(), Some(&5009));
    logger.stop().unwrap();
}

/// Reads a ring until the watermark has passed everything, or the time limit.
fn consume(files: &ConsumerFiles, stop: &AtomicBool, slow: bool) -> (Found, u64) {
    let data = SharedWords::map_for_reading(&files.ring).unwrap();
    let mut reader = RingReader::attach(data, SharedWords::map(&files.position).unwrap()).unwrap();
    let (mut found, mut lost, mut watermark) = (Found::default(), 0, 0);
    let (mut last, mut copy) = (HashMap::new(), Vec::new());
    loop {
        let is_stopped = stop.load(Relaxed);
        while let Some(entry) = reader.next_entry().unwrap() {
            reader.copy(entry.words(), &mut copy);
            let bytes = bytes_of(&copy);
            let header = BufferHeader::parse(bytes).unwrap();
            assert_eq!(header.offset as usize, entry.len_bytes);
            if header.buffer_type == BufferType::REFERENCE_TIME {
                assert!(header.time_stamp.0 >= watermark);
                watermark = header.time_stamp.0;
            }
            let origin = Origin { processor: header.processor(), ..Origin::default() };
            let events = &bytes[BufferHeader::LEN_BYTES..header.offset as usize];
            let mut at = 0;
            while at < events.len() {
                let record = etw_event::Record::parse(&events[at..], &origin, Default::default()).unwrap();
                at += record.as_bytes().len().next_multiple_of(8);
                let time = record.raw_time().0;
                assert!(time > watermark, "an event of {time} behind the watermark {watermark}");
                let last = last.entry(header.processor()).or_insert(time);
                assert!(*last <= time);
                *last = time;
                match loss_of(&record) {
                    Some(_) => lost += lost_count(&record),
                    None => take(&record, &mut found),
                }
            }
            reader.release(entry.end);
            if slow {
                thread::sleep(Duration::from_millis(1));
            }
        }
        if is_stopped {
            return (found, lost);
        }
        thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn consumers_get_everything_or_a_loss_report() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("both.etl");
    let config =
        SessionConfig { log_file_mode: LogFileMode::REAL_TIME, buffer_bytes: 0x4000, ..config(&path) };
    let logger = Logger::start(config).unwrap();
    let quick = logger.add_consumer(8 << 20).unwrap();
    let slow = logger.add_consumer(0).unwrap();
    let dead = logger.add_consumer(0).unwrap();
    let stop = AtomicBool::new(false);
    let (quick, slow) = thread::scope(|scope| {
        let quick = scope.spawn(|| consume(&quick, &stop, false));
        let slow = scope.spawn(|| consume(&slow, &stop, true));
        let writer = Writer::new(&logger, 7);
        for round in 0..200 {
            (0..500).for_each(|value| assert!(writer.write(round * 500 + value, 0)));
            thread::sleep(Duration::from_micros(300));
        }
        logger.close_region(writer.id);
        assert_eq!(logger.statistics().consumers, 3);
        logger.remove_consumer(dead.id);
        // Time to notify the slow one.
        thread::sleep(Duration::from_millis(500));
        assert_eq!(logger.statistics().consumers, 2);
        assert_eq!(logger.statistics().regions, 0);
        logger.stop().unwrap();
        stop.store(true, Relaxed);
        (quick.join().unwrap(), slow.join().unwrap())
    });
    let statistics = logger.statistics();
    assert_eq!((statistics.events_written, statistics.events_lost), (100_000, 0));
    read(&path).assert_complete(0, 100_000);
    assert_eq!(quick.0.events + quick.1, 100_000);
    assert_eq!(slow.0.events + slow.1, 100_000);
    assert!(slow.1 > 0, "a ring of four buffers does not hold all that a slow reader leaves");
    assert!(statistics.real_time_events_lost >= slow.1 + quick.1);
    let header = EtlFile::open(&dead.header).unwrap().header().clone();
    assert_eq!(header.logger_name, "Test");
}

#[test]
fn events_are_kept_for_the_first_consumer() {
    let config = SessionConfig { log_file_mode: LogFileMode::REAL_TIME, ..SessionConfig::new("Kept") };
    let logger = Logger::start(config).unwrap();
    let writer = Writer::new(&logger, 7);
    assert_eq!(write(&writer, 0, 10_000), 10_000);
    thread::sleep(Duration::from_millis(50));
    let files = logger.add_consumer(8 << 20).unwrap();
    assert_eq!(write(&writer, 1, 10), 10);
    let stop = AtomicBool::new(false);
    let mut found = thread::scope(|scope| {
        let consumer = scope.spawn(|| consume(&files, &stop, false));
        logger.stop().unwrap();
        stop.store(true, Relaxed);
        consumer.join().unwrap().0
    });
    found.assert_complete(0, 10_000);
    found.assert_complete(1, 10);
    assert_eq!(logger.statistics().real_time_events_lost, 0);
}

#[test]
fn a_writer_that_stalls_does_not_stall_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stall.etl");
    let logger = Logger::start(SessionConfig { buffer_bytes: 0x1000, ..config(&path) }).unwrap();
    let (stalled, other) = (Writer::new(&logger, 7), Writer::new(&logger, 8));
    let slots: Vec<_> = (0..cpu::possible())
        .map(|processor| match stalled.region.reserve(1, processor, LEN_BYTES, || stalled.source.now()) {
            Reserve::Slot(slot) => slot,
            _ => panic!("no room"),
        })
        .collect();
    for round in 0..100 {
        (0..100).for_each(|value| assert!(other.write(round * 100 + value, 0), "round {round}"));
        thread::sleep(Duration::from_millis(1));
    }
    logger.process_ended(stalled.id);
    let statistics = logger.stop().unwrap();
    drop(slots);
    assert_eq!(statistics.events_lost, u64::from(cpu::possible()));
    read(&path).assert_complete(0, 10_000);
}

#[test]
fn files_are_readable_by_their_owner_and_the_group_only() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let mode = |name: &str| std::fs::metadata(directory.path().join(name)).unwrap().mode() & 0o777;
    let start = |log_file_mode, name: &str, file_group| {
        let config = config(&directory.path().join(name));
        let config = SessionConfig { log_file_mode, maximum_file_size: 1, file_group, ..config };
        Logger::start(config).unwrap()
    };
    let logger = start(LogFileMode::NEW_FILE, "part%d.etl", None);
    logger.increment_file().unwrap();
    logger.stop().unwrap();
    assert_eq!((mode("part1.etl"), mode("part2.etl")), (0o600, 0o600));
    let logger = start(LogFileMode::BUFFERING, "memory.etl", None);
    logger.dump(&directory.path().join("dump.etl")).unwrap();
    logger.stop().unwrap();
    assert_eq!(mode("dump.etl"), 0o600);
    start(LogFileMode::empty(), "group.etl", Some(etw_sys::credentials::effective_gid())).stop().unwrap();
    assert_eq!(mode("group.etl"), 0o640);
}

#[test]
fn a_file_with_a_lease_is_refused_at_once() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    // The kernel asks the holder by a signal to give the lease up, and waits for 45 seconds.
    const HOLDER: &str = "import fcntl, signal, sys, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(0, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('held', flush=True)
time.sleep(60)";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("leased.etl");
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let holder = Command::new("python3").args(["-c", HOLDER]).stdin(file).stdout(Stdio::piped()).spawn();
    let Ok(mut holder) = holder else {
        etw_testkit::skip!("python3 is not installed");
        return;
    };
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");
    let started = Instant::now();
    let error = Logger::start(config(&path)).unwrap_err().to_string();
    assert!(error.contains("another process holds a lease on it"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(10));
    holder.kill().unwrap();
    holder.wait().unwrap();
}
