//! Live sessions, with a host simulated by the tests.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use etw_buffer::ring::{POSITION_WORDS, Push, RingWriter};
use etw_etl::encode::RecordBuilder;
use etw_etl::{BufferHeader, BufferType, EtlFile, Loss, Records, WriterOptions, loss_of};
use etw_event::{Clock, ClockType, EventDescriptor, FileTime, Guid, PointerSize, Record, Ticks};
use etw_sys::socket::Connection;
use etw_sys::{Ringer, SharedWords};
use etw_testkit::traces::{self, Kind, Recipe};

use super::channel::Parts;
use super::{Address, BufferFeed, Channel, Opened, SessionError};
use crate::testing::EventBuilder;
use crate::{Trace, TraceBuilder, TraceError};

const PROVIDER: Guid = Guid::from_u128(0x11223344_5566_7788_99aa_bbccddeeff00);

/// A host with one session.
struct Host {
    ring: RingWriter<SharedWords, SharedWords>,
    data: SharedWords,
    data_ready: Ringer,
    connection: Connection,
}

impl Host {
    /// A host, and the consumer's channel to its session.
    fn new(ring_bytes: usize, header: &[u8]) -> (Host, Channel) {
        let (data, data_file) = SharedWords::create("ring", ring_bytes / 8).unwrap();
        let (position, position_file) = SharedWords::create("position", POSITION_WORDS).unwrap();
        let (data_ready, bell) = etw_sys::bell().unwrap();
        let (connection, theirs) = Connection::pair().unwrap();
        let parts = Parts {
            data: SharedWords::map_for_reading(&data_file).unwrap(),
            position: SharedWords::map(&position_file).unwrap(),
            data_ready: bell,
        };
        let channel = Channel::new(etw_protocol::Channel::new(theirs), header.to_vec(), parts).unwrap();
        let ring = RingWriter::format(data, position).unwrap();
        (Host { ring, data: SharedWords::map(&data_file).unwrap(), data_ready, connection }, channel)
    }

    fn push(&mut self, processor: u16, buffer_type: BufferType, time: i64, events: &[u8]) -> Push {
        let used = (BufferHeader::LEN_BYTES + events.len()) as u32;
        let header = BufferHeader {
            buffer_size: used,
            saved_offset: used,
            offset: used,
            processor_index: processor,
            time_stamp: Ticks(time),
            buffer_flag: etw_etl::BufferFlags::PROC_INDEX,
            buffer_type,
            ..BufferHeader::default()
        };
        self.ring.try_push(&[&header.to_bytes(), events]).unwrap()
    }

    /// Sends records of a processor; the next watermark makes them visible.
    fn send(&mut self, processor: u16, events: &[u8]) -> Push {
        self.push(processor, BufferType::GENERIC, 0, events)
    }

    /// Sends a watermark: everything up to `time` has been sent.
    fn reach(&mut self, time: i64) {
        while self.push(0, BufferType::REFERENCE_TIME, time, &[]) == Push::Full {
            thread::yield_now();
        }
        if self.ring.publish() {
            self.data_ready.ring();
        }
    }

    fn end(self) {
        drop(self.connection);
    }
}

fn clock() -> Clock {
    Clock::new(ClockType::Qpc, Ticks(1000), traces::START, 10_000_000)
}

/// Returns the first buffer of a session with this clock.
fn header(clock: Clock) -> Vec<u8> {
    let writer =
        etw_etl::EtlWriter::new(std::io::Cursor::new(Vec::new()), WriterOptions::new(clock, 65_536, 8))
            .unwrap();
    let bytes = writer.finish(FileTime(0)).unwrap().out.into_inner();
    let file = EtlFile::open(&bytes).unwrap();
    file.buffers().next().unwrap().unwrap().file_bytes().to_vec()
}

/// Returns a padded record with the id `number` and the time `time`.
fn event(number: u16, time: i64) -> Vec<u8> {
    let descriptor = EventDescriptor { id: number, ..EventDescriptor::default() };
    let builder = RecordBuilder::event(PointerSize::Eight, PROVIDER, &descriptor);
    let mut bytes = builder.time(Ticks(time)).payload(&u64::from(number).to_le_bytes()).build().unwrap();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn opened(channel: Channel, name: &str) -> Opened {
    Opened::new(Address { name: name.to_owned(), directory: None }, channel).unwrap()
}

fn open(builder: TraceBuilder, channels: Vec<Channel>) -> Trace {
    let channels = channels.into_iter().zip(["one", "two", "three"]);
    builder.open_with(channels.map(|(channel, name)| opened(channel, name)).collect()).unwrap()
}

/// Returns the ids of the events that a trace delivers, without those of the log file header's buffer.
fn ids(trace: &mut Trace) -> Vec<u16> {
    let mut ids = Vec::new();
    trace
        .for_each_record(|record: &Record<'_>| {
            if record.provider_id() == PROVIDER {
                ids.push(record.descriptor().id);
            }
        })
        .unwrap();
    ids
}

/// What a trace shows of an event.
type Shown = (FileTime, u16, Vec<u8>, Result<usize, String>);

fn shown(trace: &mut Trace) -> Vec<Shown> {
    let mut shown = Vec::new();
    trace
        .for_each_event(|event| {
            let record = event.record;
            let values = event.properties.as_ref().map(|properties| properties.iter().count());
            let values = values.map_err(ToString::to_string);
            shown.push((record.time(), record.processor(), record.as_bytes().to_vec(), values));
        })
        .unwrap();
    shown
}

#[test]
fn buffers_that_a_program_brings_show_what_their_file_would() {
    for (name, kind) in Kind::ALL.iter().filter(|(_, kind)| *kind != Kind::Compressed) {
        let (bytes, _) = traces::bytes(&Recipe { buffer_size: 4096, ..Recipe::new(*kind, 5000) }).unwrap();
        let mut file_trace = Trace::builder().bytes(name, bytes.clone()).open().unwrap();
        let expected = shown(&mut file_trace);
        let file = EtlFile::open(&bytes).unwrap();
        let buffers: Vec<_> = file.buffers().map(Result::unwrap).collect();
        let (mut trace, mut feed) = Trace::builder().open_feed(name, buffers[0].file_bytes()).unwrap();
        let shown = thread::scope(|scope| {
            let reads = scope.spawn(|| shown(&mut trace));
            for buffer in buffers.iter().skip(1) {
                while !feed.try_push(buffer.file_bytes()).unwrap() {
                    thread::yield_now();
                }
            }
            drop(feed);
            reads.join().unwrap()
        });
        assert_eq!(shown.len(), expected.len(), "{name}");
        for (shown, expected) in shown.iter().zip(&expected) {
            assert_eq!(shown, expected, "{name}");
        }
    }
}

#[test]
fn what_is_no_buffer_is_not_fed() {
    let (mut trace, mut feed) = Trace::builder().open_feed("feed", &header(clock())).unwrap();
    let refused = |feed: &mut BufferFeed, bytes: &[u8]| feed.try_push(bytes).unwrap_err().to_string();
    assert_eq!(
        refused(&mut feed, &[1; 20]),
        "this is no buffer of a trace: its header states 0 bytes with events, and there are 20"
    );
    let mut buffer = BufferHeader { offset: 80, ..BufferHeader::default() }.to_bytes().to_vec();
    assert_eq!(
        refused(&mut feed, &buffer),
        "this is no buffer of a trace: its header states 80 bytes with events, and there are 72"
    );
    buffer.resize(80, 0);
    buffer[0x34] |= etw_etl::BufferFlags::COMPRESSED.0 as u8;
    assert_eq!(refused(&mut feed, &buffer), "compressed buffers must be unpacked first");
    drop(feed);
    assert!(ids(&mut trace).is_empty());
    let error = Trace::builder().open_feed("feed", &[0; 100]).unwrap_err();
    assert!(matches!(error, TraceError::Session(SessionError::Protocol { .. })), "{error}");
}

#[test]
fn a_live_session_shows_what_its_file_would() {
    for (name, kind) in Kind::ALL.iter().filter(|(_, kind)| *kind != Kind::Compressed) {
        let (bytes, _) = traces::bytes(&Recipe { buffer_size: 4096, ..Recipe::new(*kind, 5000) }).unwrap();
        let mut file_trace = Trace::builder().bytes(name, bytes.clone()).open().unwrap();
        let expected = shown(&mut file_trace);
        let file = EtlFile::open(&bytes).unwrap();
        let buffers: Vec<_> = file.buffers().map(Result::unwrap).collect();
        let (mut host, channel) = Host::new(64 << 10, buffers[0].file_bytes());
        let mut trace = open(Trace::builder(), vec![channel]);
        let mut scratch = Vec::new();
        let firsts: Vec<_> =
            buffers.iter().map(|buffer| buffer.first_time(&mut scratch).unwrap().0).collect();
        let seen = thread::scope(|scope| {
            let reads = scope.spawn(|| shown(&mut trace));
            for (number, buffer) in buffers.iter().enumerate().skip(1) {
                let data = buffer.data(&mut scratch).bytes;
                while host.send(buffer.header.processor(), data) == Push::Full {
                    thread::yield_now();
                }
                let rest = firsts[number + 1..].iter().min();
                host.reach(rest.map_or(i64::MAX, |first| first - 1));
            }
            host.end();
            reads.join().unwrap()
        });
        assert_eq!(seen.len(), expected.len(), "{name}");
        for (seen, expected) in seen.iter().zip(&expected) {
            assert_eq!(seen, expected, "{name}");
        }
        let (live, file) = (trace.statistics(), file_trace.statistics());
        assert_eq!((live.records, live.inversions), (file.records, 0), "{name}");
        assert_eq!(live.damage_count, 0);
        assert_eq!(live.buffers as usize, buffers.len() - 1);
    }
}

#[test]
fn sessions_and_files_are_read_in_the_order_of_time() {
    // The same clock with another anchor, and a clock that ticks twice as fast.
    let clocks = [
        clock(),
        Clock::new(ClockType::SystemTime, Ticks(traces::START.0), traces::START, 0),
        Clock::new(ClockType::Qpc, Ticks(0), traces::START, 20_000_000),
    ];
    // Ticks of each clock `time` * 100 ns after the start.
    let at = |clock: usize, time: i64| [1000 + time, traces::START.0 + time, 2 * time][clock];
    let mut writer =
        etw_etl::EtlWriter::new(std::io::Cursor::new(Vec::new()), WriterOptions::new(clocks[0], 4096, 2))
            .unwrap();
    for time in (0..300).step_by(3) {
        writer.write((time % 2) as u16, &event(time as u16, at(0, time))).unwrap();
    }
    let file = writer.finish(FileTime(0)).unwrap().out.into_inner();
    let hosts = [1, 2].map(|clock| Host::new(16 << 10, &header(clocks[clock])));
    let [(mut one, first), (mut two, second)] = hosts;
    let mut trace = open(Trace::builder().bytes("file", file), vec![first, second]);
    assert_eq!(trace.source_names().collect::<Vec<_>>(), ["file", "one", "two"]);
    let seen = thread::scope(|scope| {
        let reads = scope.spawn(|| ids(&mut trace));
        for time in (0..300).step_by(3) {
            assert_eq!(one.send(3, &event(time as u16 + 1, at(1, time + 1))), Push::Done);
            one.reach(at(1, time + 1));
            // The other session is late, and sometimes very late.
            if time % 60 == 0 {
                thread::sleep(Duration::from_millis(2));
            }
            assert_eq!(two.send(0, &event(time as u16 + 2, at(2, time + 2))), Push::Done);
            two.reach(at(2, time + 2));
        }
        one.end();
        two.end();
        reads.join().unwrap()
    });
    assert_eq!(seen, (0..300).collect::<Vec<_>>());
    assert_eq!(trace.statistics().inversions, 0);
}

#[test]
fn a_host_cannot_change_a_record_that_is_being_delivered() {
    let (mut host, channel) = Host::new(16 << 10, &header(clock()));
    let mut trace = open(Trace::builder(), vec![channel]);
    host.send(0, &[event(1, 2000), event(2, 2001)].concat());
    host.reach(3000);
    let data = host.data;
    drop(host.connection);
    let mut seen = Vec::new();
    trace
        .for_each_record(|record: &Record<'_>| {
            if record.provider_id() == PROVIDER {
                // A size that does not fit, other ids, another time.
                data.iter().for_each(|word| word.store(u64::MAX, Relaxed));
                seen.push((record.descriptor().id, record.raw_time().0, record.payload().to_vec()));
            }
        })
        .unwrap_err();
    let expected = |number: u16, time| (number, time, u64::from(number).to_le_bytes().to_vec());
    assert_eq!(seen, [expected(1, 2000), expected(2, 2001)]);
}

#[test]
fn records_wait_for_the_watermark() {
    let (mut host, channel) = Host::new(16 << 10, &header(clock()));
    let mut trace = open(Trace::builder().limit(5), vec![channel]);
    host.send(0, &[event(1, 2000), event(4, 5000)].concat());
    host.reach(2500);
    host.send(1, &[event(2, 3000), event(3, 4000)].concat());
    host.reach(4500);
    host.reach(6000);
    // The first record is that of the header's buffer.
    assert_eq!(ids(&mut trace), [1, 2, 3], "the limit ends reading");
    // The next pass delivers the events after the limit.
    host.end();
    assert_eq!(ids(&mut trace), [4]);
    assert_eq!(ids(&mut trace), [0u16; 0]);
}

#[test]
fn a_pass_ends_when_stopped() {
    let (mut host, channel) = Host::new(16 << 10, &header(clock()));
    let idle = Arc::new(AtomicU64::new(0));
    let calls = idle.clone();
    let builder = Trace::builder().on_idle(move || {
        calls.fetch_add(1, Relaxed);
    });
    let mut trace = open(builder, vec![channel]);
    let stop = trace.stop_handle();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(20));
            stop.stop();
        });
        assert_eq!(ids(&mut trace), [0u16; 0], "stopped while it waits");
    });
    assert!(idle.load(Relaxed) > 0);
    stop.reset();
    host.send(0, &[event(1, 2000), event(2, 2001)].concat());
    host.reach(3000);
    let mut seen = 0;
    trace
        .for_each_record(|record: &Record<'_>| {
            seen = record.descriptor().id;
            if seen == 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(seen, 1, "ended by the callback");
    host.end();
    assert_eq!(ids(&mut trace), [2]);
}

#[test]
fn times_limit_what_is_delivered() {
    let (mut host, channel) = Host::new(16 << 10, &header(clock()));
    let second = |number: i64| 1000 + 10_000_000 * number;
    let builder = Trace::builder().from("1".parse().unwrap()).to("3".parse().unwrap());
    let mut trace = open(builder, vec![channel]);
    host.send(0, &(0..5).map(|number| event(number as u16, second(number))).collect::<Vec<_>>().concat());
    host.reach(second(4));
    assert_eq!(ids(&mut trace), [1, 2], "and the session goes on");
    drop(host);
}

#[test]
fn what_a_slow_consumer_misses_is_counted_and_delivered() {
    let (mut host, channel) = Host::new(32 << 10, &header(clock()));
    let mut trace = open(Trace::builder(), vec![channel]);
    const EVENTS: u64 = 60_000;
    let (mut told, mut seen) = (0, 0);
    let longest = thread::scope(|scope| {
        let writes = scope.spawn(move || {
            let (mut lost, mut longest) = (0u64, Duration::ZERO);
            for number in 0..EVENTS as i64 {
                let before = Instant::now();
                let mut bytes = Vec::new();
                let time = 2000 + number;
                if lost > 0 {
                    let record = RecordBuilder::lost_events(lost).time(Ticks(time)).build().unwrap();
                    bytes.extend(record);
                    bytes.resize(bytes.len().next_multiple_of(8), 0);
                }
                bytes.extend(event(number as u16, time));
                match host.send(0, &bytes) {
                    Push::Done => lost = 0,
                    _ => lost += 1,
                }
                let header = host.push(0, BufferType::REFERENCE_TIME, time, &[]);
                if header == Push::Done && host.ring.publish() {
                    host.data_ready.ring();
                }
                longest = longest.max(before.elapsed());
            }
            while lost > 0 {
                let record =
                    RecordBuilder::lost_events(lost).time(Ticks(2000 + EVENTS as i64)).build().unwrap();
                match host.send(0, &record) {
                    Push::Done => lost = 0,
                    _ => thread::yield_now(),
                }
            }
            host.reach(i64::MAX - 1);
            host.end();
            longest
        });
        trace
            .for_each_record(|record: &Record<'_>| {
                if loss_of(record) == Some(Loss::Events) {
                    told += etw_etl::lost_count(record);
                } else if record.provider_id() == PROVIDER {
                    seen += 1;
                }
                if seen % 1000 == 0 {
                    thread::sleep(Duration::from_millis(2));
                }
            })
            .unwrap();
        writes.join().unwrap()
    });
    assert!(told > 0, "the consumer was fast enough");
    assert_eq!(seen + told, EVENTS);
    assert_eq!(trace.statistics().events_lost(), told);
    assert!(!trace.statistics().is_complete());
    assert!(longest < Duration::from_secs(1), "the writer was stalled for {longest:?}");
}

#[test]
fn a_session_that_is_silent_does_not_block_another_for_ever() {
    let hosts = [(); 2].map(|()| Host::new(256 << 10, &header(clock())));
    let [(mut silent, first), (mut busy, second)] = hosts;
    let mut trace = open(Trace::builder(), vec![first, second]);
    let buffer: Vec<u8> = (0..1000).map(|number| event(number, 2000)).collect::<Vec<_>>().concat();
    // More than the limit for copies out of rings.
    let buffers = super::MAX_COPIED_BYTES / buffer.len() + 10;
    let count = thread::scope(|scope| {
        let reads = scope.spawn(|| ids(&mut trace).len());
        silent.reach(1500);
        for _ in 0..buffers {
            while busy.send(0, &buffer) == Push::Full {
                thread::yield_now();
            }
            busy.reach(2500);
        }
        silent.send(0, &event(1, 1600));
        silent.reach(2500);
        busy.end();
        silent.end();
        reads.join().unwrap()
    });
    assert_eq!(count, 1000 * buffers + 1);
}

#[test]
fn damage_is_reported_and_a_broken_ring_ends_the_session() {
    let (mut host, channel) = Host::new(16 << 10, &header(clock()));
    let mut trace = open(Trace::builder(), vec![channel]);
    host.send(0, &[event(1, 2000), vec![0x55; 64], event(2, 2001), event(3, 2002)].concat());
    assert_eq!(host.ring.try_push(&[&[1; 20]]), Ok(Push::Done));
    let header = BufferHeader { offset: 7, ..BufferHeader::default() };
    assert_eq!(host.ring.try_push(&[&header.to_bytes(), &event(4, 2003)]), Ok(Push::Done));
    host.reach(3000);
    host.data[0].store(u64::MAX, Relaxed);
    let mut seen = 0;
    let result = trace.for_each_record(|record: &Record<'_>| {
        seen += u32::from(record.provider_id() == PROVIDER);
    });
    assert_eq!(seen, 0, "nothing is shown of a ring that was broken before it was looked at");
    assert!(matches!(result, Err(TraceError::Session(SessionError::Ring { .. }))), "{result:?}");

    let (mut host, channel) = Host::new(16 << 10, &self::header(clock()));
    let mut trace = open(Trace::builder(), vec![channel]);
    host.send(0, &[event(1, 2000), vec![0x55; 64], event(2, 2001), event(3, 2002)].concat());
    assert_eq!(host.ring.try_push(&[&[1; 20]]), Ok(Push::Done));
    assert_eq!(host.ring.try_push(&[&header.to_bytes(), &event(4, 2003)]), Ok(Push::Done));
    host.reach(3000);
    host.end();
    assert_eq!(ids(&mut trace), [1, 2, 3]);
    assert_eq!(trace.statistics().damage_count, 3, "{:?}", trace.statistics().damage);
}

#[test]
fn what_is_observed_live_decodes_what_comes_after() {
    let (bytes, _) = traces::bytes(&Recipe::new(Kind::Mixed, 10)).unwrap();
    let file = EtlFile::open(&bytes).unwrap();
    let buffer = file.buffers().next().unwrap().unwrap();
    let mut scratch = Vec::new();
    let origin = buffer.origin(file.clock(), 0);
    let header_records = Records::new(buffer.data(&mut scratch).bytes, &origin, buffer.place()).count();
    let (host, channel) = Host::new(16 << 10, buffer.file_bytes());
    let mut trace = open(Trace::builder().process_names(true), vec![channel]);
    host.end();
    let mut seen = 0;
    trace.for_each_owned_event(|_| seen += 1).unwrap();
    assert_eq!(seen, header_records, "the header's buffer is delivered as in a file");
}

/// The names of processes are kept as long as events may refer to them, and only if they are wanted.
#[test]
fn process_names_do_not_pile_up() {
    let names_left = |builder: TraceBuilder| {
        let (mut host, channel) = Host::new(64 << 10, &header(clock()));
        let mut trace = open(builder, vec![channel]);
        for number in 0..100 {
            let start = 1000 + i64::from(number) * 20 * FileTime::PER_SECOND;
            let about = |id, version, time| {
                let event = EventBuilder::built_in("Microsoft-Windows-Kernel-Process", id, version).unwrap();
                let event = event.property("ProcessID", 5_000_000 + number).property("ImageName", "a.exe");
                let event = event.time(FileTime(time)).process(5_000_000 + number, 1);
                let mut bytes = event.pack_incomplete().unwrap().as_bytes().to_vec();
                bytes.resize(bytes.len().next_multiple_of(8), 0);
                bytes
            };
            let (starts, ends) = (about(1, 0, start), about(2, 0, start + FileTime::PER_SECOND));
            assert_eq!(host.send(0, &[starts, ends].concat()), Push::Done);
        }
        host.reach(i64::MAX);
        host.end();
        let mut named = 0;
        trace.for_each_event(|event| named += u32::from(event.process == Some("a.exe"))).unwrap();
        (named, trace.processes().unwrap().iter().count())
    };
    assert_eq!(names_left(Trace::builder().process_names(true)), (200, 1));
    assert_eq!(names_left(Trace::builder()), (0, 0));
}
