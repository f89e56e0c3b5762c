//! `etw dump -s` against a host that the test plays, so that it decides what the consumer meets.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use etw_buffer::ring::{POSITION_WORDS, Push, RingWriter};
use etw_protocol::{Channel, ErrorKind, Failure, FromConsumer, Hello, Instance, PacketBuffer, ToConsumer};
use etw_sys::socket::Listener;
use etw_sys::{Ringer, SharedWords};
use etw_testkit::traces::START;
use openetw::etl::encode::{EventMetadata, RecordBuilder};
use openetw::etl::{BufferFlags, BufferHeader, BufferType, EtlFile, EtlWriter, WriterOptions};
use openetw::{Clock, ClockType, EventDescriptor, ExtendedType, FileTime, Guid, PointerSize, Ticks};

use crate::{Etw, json_lines};

const SESSION: &str = "Played";

/// A host that has one session.
struct Host {
    listener: Listener,
}

/// The host's side of one consumer.
struct Consumer {
    channel: Channel,
    ring: RingWriter<SharedWords, SharedWords>,
    data_ready: Ringer,
}

impl Host {
    fn new(directory: &Path) -> Host {
        Host { listener: Listener::bind(&Instance::at(directory).socket()).unwrap() }
    }

    /// Waits for a consumer, and gives it a ring.
    fn accept(&self, ring_bytes: usize) -> Consumer {
        let connection = loop {
            if let Some(connection) = self.listener.accept().unwrap() {
                break connection;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        connection.set_nonblocking(false).unwrap();
        let channel = Channel::new(connection);
        let mut buffer = PacketBuffer::default();
        channel.receive::<Hello>(&mut buffer).unwrap().unwrap();
        let (FromConsumer::Open { session }, _) = channel.receive(&mut buffer).unwrap().unwrap();
        let (data, data_file) = SharedWords::create("ring", ring_bytes / 8).unwrap();
        let (position, position_file) = SharedWords::create("position", POSITION_WORDS).unwrap();
        let (data_ready, bell) = etw_sys::bell().unwrap();
        if session == SESSION {
            let opened = ToConsumer::Opened { header: header(), ring_bytes: ring_bytes as u32 };
            let files = [data_file.as_fd(), position_file.as_fd(), bell.as_fd()];
            channel.send(&opened, &files).unwrap();
        } else {
            let failure = Failure::new(ErrorKind::NotFound, "there is no such session");
            channel.send(&ToConsumer::Refused(failure), &[]).unwrap();
        }
        Consumer { channel, ring: RingWriter::format(data, position).unwrap(), data_ready }
    }
}

impl Consumer {
    fn push(&mut self, buffer_type: BufferType, time: i64, events: &[u8]) -> bool {
        let used = (BufferHeader::LEN_BYTES + events.len()) as u32;
        let header = BufferHeader {
            buffer_size: used,
            saved_offset: used,
            offset: used,
            time_stamp: Ticks(time),
            buffer_flag: BufferFlags::PROC_INDEX,
            buffer_type,
            ..BufferHeader::default()
        };
        self.ring.try_push(&[&header.to_bytes(), events]).unwrap() == Push::Done
    }

    /// Sends records and the watermark after them; returns whether there was room.
    fn send(&mut self, time: i64, events: &[u8]) -> bool {
        let sent = self.push(BufferType::GENERIC, 0, events);
        self.push(BufferType::REFERENCE_TIME, time, &[]);
        if self.ring.publish() {
            self.data_ready.ring();
        }
        sent
    }
}

fn header() -> Vec<u8> {
    let clock = Clock::new(ClockType::Qpc, Ticks(1000), START, 10_000_000);
    let out = std::io::Cursor::new(Vec::new());
    let writer = EtlWriter::new(out, WriterOptions::new(clock, 65_536, 8)).unwrap();
    let bytes = writer.finish(FileTime(0)).unwrap().out.into_inner();
    let file = EtlFile::open(&bytes).unwrap();
    let buffer = file.buffers().next().unwrap().unwrap();
    buffer.file_bytes()[..buffer.header.offset as usize].to_vec()
}

/// A TraceLogging event with the field `number`.
fn event(number: u32, time: i64) -> Vec<u8> {
    let descriptor = EventDescriptor { channel: 11, ..EventDescriptor::default() };
    let metadata = EventMetadata::new("Numbered").field("number", 8).build();
    let builder = RecordBuilder::event(PointerSize::Eight, Guid::from_provider_name("Played"), &descriptor);
    let builder = builder.time(Ticks(time)).process(std::process::id(), 1);
    padded(builder.item(ExtendedType::EVENT_SCHEMA_TL, &metadata).payload(&number.to_le_bytes()))
}

fn lost(count: u64, time: i64) -> Vec<u8> {
    padded(RecordBuilder::lost_events(count).time(Ticks(time)))
}

fn padded(builder: RecordBuilder) -> Vec<u8> {
    let mut bytes = builder.build().unwrap();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// `etw dump -s Played --format json` with more arguments.
fn dump(etw: &Etw, more: &[&str]) -> Child {
    let mut args = vec!["dump", "-s", SESSION, "--format", "json"];
    args.extend(more);
    let mut command = etw.command(&args);
    command.env("OPENETW_RUNTIME_DIR", etw.dir.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args([name, &pid]).status().unwrap().success());
}

/// The numbers of the events in a JSON text.
fn numbers(text: &str) -> Vec<u64> {
    json_lines(text).iter().filter_map(|event| event["EventData"]["number"].as_u64()).collect()
}

#[test]
fn a_session_is_shown_as_it_goes_on_until_it_ends() {
    let etw = Etw::new();
    let host = Host::new(etw.dir.path());
    let mut child = dump(&etw, &[]);
    let mut consumer = host.accept(64 << 10);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The header's records are shown with the first watermark.
    for number in 0..20 {
        let time = 2000 + i64::from(number);
        assert!(consumer.send(time, &event(number, time)));
        // Each is there before the next is sent: nothing waits for more.
        let shown = lines.by_ref().map(Result::unwrap).find(|line| line.contains("number")).unwrap();
        assert_eq!(numbers(&shown), [u64::from(number)]);
        let own = std::env::current_exe().unwrap();
        let value = &json_lines(&shown)[0];
        assert_eq!(value["System"]["Execution"]["ProcessID"], std::process::id(), "{own:?}");
    }
    assert!(consumer.send(3000, &[lost(7, 2500), event(20, 2600), lost(5, 2700)].concat()));
    drop(consumer);
    assert_eq!(lines.map(Result::unwrap).map(|line| numbers(&line).len()).sum::<usize>(), 1);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    // The second warning waits for losses that might follow, at most until the end.
    assert!(stderr.contains("Played: 7 events lost up to 2026-"), "{stderr}");
    assert!(stderr.contains("Played: 5 events lost up to 2026-"), "{stderr}");
    assert!(stderr.contains("Played: 12 events lost in total"), "{stderr}");
}

#[test]
fn ctrl_c_ends_cleanly_and_limits_and_filters_apply() {
    let etw = Etw::new();
    let host = Host::new(etw.dir.path());
    let child = dump(&etw, &["--where", "number >= 3", "-o", "out.json"]);
    let mut consumer = host.accept(64 << 10);
    let events: Vec<u8> = (0..10).flat_map(|number| event(number, 2000 + i64::from(number))).collect();
    assert!(consumer.send(3000, &[lost(2, 1500), events.clone()].concat()));
    let path = etw.dir.path().join("out.json");
    let start = Instant::now();
    while numbers(&std::fs::read_to_string(&path).unwrap()).len() < 7 {
        assert!(start.elapsed() < Duration::from_secs(20), "the events are not written");
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("Played: 2 events lost"), "a filter does not hide losses: {stderr}");
    assert_eq!(numbers(&std::fs::read_to_string(&path).unwrap()), (3..10).collect::<Vec<_>>());

    let child = dump(&etw, &["--limit", "4", "--event", "0", "--provider", "Played"]);
    let mut consumer = host.accept(64 << 10);
    assert!(consumer.send(3000, &events));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(numbers(&String::from_utf8(output.stdout).unwrap()), [0, 1, 2, 3]);
}

#[test]
fn what_a_stopped_consumer_missed_is_counted_exactly() {
    let etw = Etw::new();
    let host = Host::new(etw.dir.path());
    let mut child = dump(&etw, &["-o", "out.json"]);
    // A line for each loss is more than a pipe holds.
    let mut errors = child.stderr.take().unwrap();
    let stderr = std::thread::spawn(move || {
        let mut text = String::new();
        errors.read_to_string(&mut text).map(|_| text)
    });
    let mut consumer = host.accept(64 << 10);
    assert!(consumer.send(1500, &[]));
    signal(&child, "-STOP");
    const EVENTS: u32 = 100_000;
    let (mut missed, mut longest) = (0, Duration::ZERO);
    for number in 0..EVENTS {
        let before = Instant::now();
        let time = 2000 + i64::from(number);
        let told = if missed > 0 { lost(missed, time) } else { Vec::new() };
        match consumer.send(time, &[told, event(number, time)].concat()) {
            true => missed = 0,
            false => missed += 1,
        }
        longest = longest.max(before.elapsed());
        if number == EVENTS / 2 {
            signal(&child, "-CONT");
        }
    }
    assert!(longest < Duration::from_secs(1), "the host was stalled for {longest:?}");
    while missed > 0 {
        if consumer.send(i64::from(EVENTS) + 3000, &lost(missed, i64::from(EVENTS) + 3000)) {
            missed = 0;
        }
        std::thread::yield_now();
    }
    drop(consumer);
    assert!(child.wait().unwrap().success());
    let shown = numbers(&std::fs::read_to_string(etw.dir.path().join("out.json")).unwrap());
    assert!(shown.is_sorted());
    let stderr = stderr.join().unwrap().unwrap();
    let total = stderr.lines().find_map(|line| line.strip_suffix(" were shown")).unwrap_or_default();
    let words: Vec<&str> = total.split_whitespace().collect();
    let lost: usize =
        words.iter().position(|word| *word == "events").map_or(0, |at| words[at - 1].parse().unwrap());
    assert!(lost > 0, "the consumer missed nothing: {stderr}");
    assert_eq!(shown.len() + lost, EVENTS as usize, "{stderr}");
}

#[test]
fn a_killed_consumer_leaves_the_host_alone() {
    let etw = Etw::new();
    let host = Host::new(etw.dir.path());
    for round in 0..20u64 {
        let mut child = dump(&etw, &["-o", "out.json"]);
        let mut consumer = host.accept(256 << 10);
        let start = Instant::now();
        let mut number = 0;
        while start.elapsed() < Duration::from_millis(5 * round) {
            number += 1;
            consumer.send(2000 + i64::from(number), &event(number, 2000 + i64::from(number)));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // The consumer no longer releases entries, so the ring fills up.
        while consumer.send(2000 + i64::from(number), &event(number, 2000 + i64::from(number))) {}
        let mut buffer = PacketBuffer::default();
        assert!(consumer.channel.receive::<FromConsumer>(&mut buffer).unwrap().is_none(), "its end is seen");
    }
}

#[test]
fn what_cannot_be_opened_is_said() {
    let etw = Etw::new();
    let run = |name: &str| {
        let mut command = etw.command(&["dump", "-s", name]);
        command.env("OPENETW_RUNTIME_DIR", etw.dir.path()).output().unwrap()
    };
    let none = run(SESSION);
    assert_eq!(none.status.code(), Some(1));
    let stderr = String::from_utf8(none.stderr).unwrap();
    assert!(stderr.contains("no session host is running at") && stderr.contains("etw daemon"), "{stderr}");
    let host = Host::new(etw.dir.path());
    let refused = std::thread::scope(|scope| {
        let refused = scope.spawn(|| run("Other"));
        host.accept(64 << 10);
        refused.join().unwrap()
    });
    assert_eq!(refused.status.code(), Some(1));
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(stderr, "etw: session 'Other': there is no such session\n");
    let usage = etw.run(&["dump"]);
    assert_eq!(usage.status.code(), Some(2));
}
