//! Fuzz bodies for the host's untrusted input: messages, and regions that other processes write to.

use std::hint::black_box;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use etw_buffer::{Geometry, Region, RegionReader, Reserve};
use etw_consumer::Trace;
use etw_etl::{DamageKind, LogFileMode};
use etw_event::{Clock, Fields, Guid, Keyword, Level, Origin, Record, Ticks};
use etw_protocol::{
    FromConsumer, FromProvider, Hello, Message, Request, Response, ToConsumer, ToProvider, decode, encode,
};
use etw_session::logger::{Logger, RegionOwner, Rights, SessionConfig};
use etw_sys::SharedWords;

/// Size of the region; small, so that inputs reach all of it.
const GEOMETRY: Geometry = Geometry { processors: 2, buffers: 4, buffer_bytes: 1024 };
const PROCESS: u32 = 7;
const EPOCH: u8 = 1;
/// Start time of the session, and the largest accepted lead of timestamps over the present.
const START: u64 = 1000;
const HORIZON: u64 = 1 << 30;

/// Size of a step in bytes: an action, a position and a value.
const STEP: usize = 11;

/// Decodes a message; the first byte selects its type.
pub fn protocol(bytes: &[u8]) {
    let Some((kind, packet)) = bytes.split_first() else { return };
    match kind % 8 {
        0 => message::<Hello>(packet),
        1 => message::<FromProvider>(packet),
        2 => message::<ToProvider>(packet),
        3 => message::<Request>(packet),
        4 => message::<Response>(packet),
        5 => message::<FromConsumer>(packet),
        6 => message::<ToConsumer>(packet),
        // What a host does with the first packet of a connection and the second.
        _ => {
            let (first, second) = packet.split_at(packet.len().min(2));
            if decode::<Hello>(first).is_ok() {
                message::<Request>(second);
            }
        }
    }
}

/// Checks that an accepted message is within all limits and can be encoded again.
fn message<M: Message + PartialEq + std::fmt::Debug>(packet: &[u8]) {
    let Ok(taken) = decode::<M>(packet) else { return };
    match encode(&taken) {
        Ok(again) => assert_eq!(decode::<M>(&again).as_ref().ok(), Some(&taken)),
        Err(error) => panic!("{taken:?}: {error}"),
    }
}

/// Runs steps of honest and hostile writers, and of the reader: one after the other, and with a hostile writer that runs at the
/// same time.
pub fn region(bytes: &[u8]) {
    steps_of_region(bytes, false);
    steps_of_region(bytes, true);
}

fn steps_of_region(bytes: &[u8], at_once: bool) {
    let words: Arc<[AtomicU64]> = (0..GEOMETRY.len_words()).map(|_| AtomicU64::new(0)).collect();
    let formatted = RegionReader::format(words.clone(), GEOMETRY, 1, EPOCH, PROCESS, START, HORIZON);
    let (Ok(mut reader), Ok(writer)) = (formatted, Region::attach(words.clone())) else { return };
    reader.grant(3);
    let parts = |step: &[u8]| {
        let what = step.first().copied().unwrap_or(0);
        (what, usize::from(step.u16_at(1).unwrap_or(0)), step.u64_at(3).unwrap_or(0))
    };
    let is_over = AtomicBool::new(!at_once);
    thread::scope(|scope| {
        if at_once {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    for (what, at, value) in bytes.chunks(STEP).take(2000).map(parts) {
                        let most = if what % 2 == 0 { words.len() } else { 128 };
                        words[at % most].store(value, Relaxed);
                    }
                }
            });
        }
        read_and_write(bytes.chunks(STEP).take(2000).map(parts), &words, &writer, &mut reader);
        is_over.store(true, Relaxed);
    });
}

fn read_and_write(
    steps: impl Iterator<Item = (u8, usize, u64)>,
    words: &[AtomicU64],
    writer: &Region<Arc<[AtomicU64]>>,
    reader: &mut RegionReader<Arc<[AtomicU64]>>,
) {
    let mut now = START;
    let mut last = [START; 2];
    for (what, at, value) in steps {
        let processor = at % 2;
        now += 10;
        match what % 16 {
            0..=3 => words[at % words.len()].store(value, Relaxed),
            4 => words[at % 128].store(value, Relaxed),
            5..=8 => honest(writer, at as u32, value, now),
            9 => drop(writer.reserve(EPOCH, at as u32 % 2, value as u16, || now)),
            10 => reader.skip_pending(processor),
            11 => reader.retire(processor),
            12 => {
                black_box((reader.reclaim(at % 5), reader.grant(at / 5 % 5), reader.free(), reader.lost()));
                reader.release_quarantine();
            }
            13 if what == 13 => reader.close(),
            14 if what == 14 => reader.process_ended(),
            _ => take(reader, processor, now, &mut last[processor]),
        }
        assert!(reader.granted() <= usize::from(GEOMETRY.buffers));
    }
    reader.close();
    reader.process_ended();
    (0..2).for_each(|processor| take(reader, processor, now, &mut last[processor]));
}

/// Returns a record like those of providers, with a size from `value` and a possibly wrong first word.
fn honest<W: Deref<Target = [AtomicU64]>>(writer: &Region<W>, processor: u32, value: u64, now: u64) {
    let len_bytes = 80 + (value % 200) as u16;
    let Reserve::Slot(slot) = writer.reserve(EPOCH, processor % 2, len_bytes, || now) else { return };
    for index in 1..usize::from(len_bytes).div_ceil(8) {
        slot.put(index, value);
    }
    slot.put(2, slot.time);
    let lie = if value >> 60 == 0 { value >> 8 & 0xFFFF } else { len_bytes.into() };
    slot.commit(0xC013_0000 | lie);
}

/// Checks that the accepted records are whole, of this process, and in time order.
fn take<W: Deref<Target = [AtomicU64]>>(
    reader: &mut RegionReader<W>,
    processor: usize,
    now: u64,
    last: &mut u64,
) {
    let mut out = Vec::new();
    let taken = reader.read(processor, now, u64::MAX, 4096, &mut out);
    let bytes: Vec<u8> = out.iter().flat_map(|word| word.to_le_bytes()).collect();
    let origin = Origin { clock: Clock::system_time(), ..Origin::default() };
    let (mut rest, mut records) = (&bytes[..], 0);
    while !rest.is_empty() {
        let record = match Record::parse(rest, &origin, Ticks(0)) {
            Ok(record) => record,
            Err(error) => panic!("{error:?}, record {records} of {taken:?}"),
        };
        assert!(record.process_id().is_none_or(|id| id == PROCESS), "{record:?}");
        let time = record.raw_time().0 as u64;
        assert!(*last <= time && time <= now + HORIZON, "{last} {time} {now}");
        *last = time;
        rest = rest.get(record.stride_bytes()..).unwrap_or_default();
        records += 1;
    }
    assert_eq!(records, taken.records);
}

/// Runs a session whose only process has written the input into its region, at the position in the first word.
pub fn logger(bytes: &[u8]) {
    let directory = std::env::temp_dir();
    let path =
        directory.join(format!("openetw-fuzz-{}-{:?}", std::process::id(), std::thread::current().id()));
    let config = SessionConfig {
        buffer_bytes: 0x1000,
        maximum_buffers: 8,
        log_file_mode: LogFileMode::BUFFERING,
        process_id: PROCESS,
        ..SessionConfig::new("fuzz")
    };
    let Ok(session) = Logger::start(config) else { return };
    let rights = Rights::default();
    rights.allow(Guid::ZERO, Level(0), Keyword(0), Keyword(0));
    let owner = RegionOwner { process_id: PROCESS, is_bound: true, ..RegionOwner::this_process(rights) };
    let Ok(file) = session.add_region(owner) else { return };
    let Ok(words) = SharedWords::map(&file.file) else { return };
    let Ok(writer) = SharedWords::map(&file.file).map(Region::attach) else { return };
    for number in 0..20 {
        if let Ok(writer) = &writer {
            honest(writer, number, 0xF000_0000_0000_0000 | u64::from(number), session.clock().now());
        }
    }
    let at = bytes.u64_at(0).unwrap_or(0) as usize % words.len();
    for (index, word) in bytes.get(8..).unwrap_or_default().chunks(8).enumerate() {
        if let Some(place) = words.get(at + index) {
            place.store(word.u64_at(0).unwrap_or(0), Relaxed);
        }
    }
    session.process_ended(file.id);
    let dumped = session.dump(&path);
    black_box(session.statistics());
    drop(session);
    assert!(dumped.is_ok(), "{dumped:?}");
    let mut trace = match Trace::open_file(&path) {
        Ok(trace) => trace,
        Err(error) => panic!("{error}"),
    };
    let read = trace.for_each_event(|event| {
        let id = event.record.process_id();
        assert!(id.is_none_or(|id| id == PROCESS), "{id:?}");
        // The session itself writes the log file header, of group 0.
        let of_kernel = event.record.hook_id().is_some_and(|id| id.group() != 0);
        assert!(!of_kernel, "an event of the kernel: {:?}", event.record);
    });
    let _ = std::fs::remove_file(&path);
    assert!(read.is_ok(), "{read:?}");
    // The bytes between a record's header and its payload are up to its writer.
    for (_, damage) in &trace.statistics().damage {
        assert!(matches!(damage.kind, DamageKind::RecordParts { .. }), "{damage:?}");
    }
}
