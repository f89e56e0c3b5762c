//! Generated traces: kinds that the real files do not cover, and large ones. Equal recipes give equal bytes.

use std::io::{Cursor, Seek, Write};

use etw_etl::encode::{EventMetadata, RecordBuilder, provider_traits};
use etw_etl::{EtlWriter, LogFileMode, WriteError, WriterOptions};
use etw_event::{
    Clock, ClockType, EventDescriptor, ExtendedType, FileTime, Guid, HookId, Instance, Level, Opcode,
    PointerSize, Ticks,
};

use crate::mutate::Numbers;
use crate::reference;

/// Contents of a generated trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Process and thread starts, files, registry keys, and TraceLogging events; all are decodable.
    Mixed,
    /// Like `Mixed`, with the start of a process or thread in every thousandth event at most, as recordings have them.
    Recording,
    /// Like `Mixed`, in compressed buffers.
    Compressed,
    /// Context switches, the smallest of the frequent kernel events.
    Switches,
    /// Headers that the real files lack: COMPACT, PERFINFO32, INSTANCE; and FULL.
    Headers,
    /// ERROR records, another header that the real files lack.
    Errors,
    /// WPP messages.
    Messages,
    /// Like `Mixed`, with the system time as clock.
    SystemTime,
    /// Like `Mixed`, with CPU cycles as clock.
    CpuCycles,
    /// Like `Mixed`, in a circular file of eight buffers; older events are overwritten.
    Circular,
    /// Like `Mixed`, with events and buffers reported lost.
    Losses,
    /// Like `Mixed`, in a file that was never closed.
    Unclosed,
}

impl Kind {
    /// Names of all kinds.
    pub const ALL: &[(&str, Kind)] = &[
        ("mixed", Kind::Mixed),
        ("recording", Kind::Recording),
        ("compressed", Kind::Compressed),
        ("switches", Kind::Switches),
        ("headers", Kind::Headers),
        ("errors", Kind::Errors),
        ("messages", Kind::Messages),
        ("system-time", Kind::SystemTime),
        ("cpu-cycles", Kind::CpuCycles),
        ("circular", Kind::Circular),
        ("losses", Kind::Losses),
        ("unclosed", Kind::Unclosed),
    ];

    /// Returns the kind with a name.
    pub fn of_name(name: &str) -> Option<Kind> {
        Kind::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }
}

/// Parameters of a generated trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipe {
    /// Contents of the trace.
    pub kind: Kind,
    /// Number of events.
    pub events: u64,
    /// Number of processors that log events; at least 1.
    pub processors: u16,
    /// Number of events that a processor logs before the next one; 0 means 1.
    pub turn: u64,
    /// Buffer size in bytes, a multiple of 1024.
    pub buffer_size: u32,
}

impl Recipe {
    /// Returns the parameters of a trace on eight processors that alternate with every event, in buffers of 64 KiB.
    pub fn new(kind: Kind, events: u64) -> Recipe {
        Recipe { kind, events, processors: 8, turn: 1, buffer_size: 65_536 }
    }
}

/// Properties of a generated trace, to compare with the results of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Number of written events; a circular file contains only the last of them.
    pub events: u64,
    /// Number of events that the file reports lost.
    pub events_lost: u32,
    /// Number of buffers that the file reports lost.
    pub buffers_lost: u32,
    /// Time of the first event.
    pub first: FileTime,
    /// Time of the last event.
    pub last: FileTime,
}

/// Start time of every generated trace: 2026-01-02T03:04:05Z.
pub const START: FileTime = FileTime(134_117_966_450_000_000);
/// In [`Kind::Recording`], the last templates are those of starts, and one event in so many may be one.
const STARTS: usize = 2;
const START_EVERY: u64 = 1000;
/// Provider of the TraceLogging events.
pub const PROVIDER_NAME: &str = "OpenETW-Generated";

/// Writes a trace to the start of `out`.
///
/// # Errors
///
/// Fails if the writer fails.
pub fn write<W: Write + Seek>(out: W, recipe: &Recipe) -> Result<Summary, WriteError> {
    let clock = match recipe.kind {
        Kind::SystemTime => Clock::new(ClockType::SystemTime, Ticks(START.0), START, 0),
        Kind::CpuCycles => Clock::new(ClockType::CpuCycle, Ticks(5_000_000_000), START, 2_400_000_000),
        _ => Clock::new(ClockType::Qpc, Ticks(36_000_000_000), START, 10_000_000),
    };
    let mut options = WriterOptions::new(clock, recipe.buffer_size, recipe.processors.into());
    options.process_id = 4711;
    options.thread_id = 5150;
    options.header.logger_name = "OpenETW generated".to_owned();
    options.header.log_file_name = r"C:\generated.etl".to_owned();
    match recipe.kind {
        Kind::Compressed => options = options.compressed(),
        Kind::Circular => {
            options.header.log_file_mode = LogFileMode::CIRCULAR.union(LogFileMode::KBYTES_FOR_SIZE);
            options.header.maximum_file_size = 8 * (recipe.buffer_size / 1024);
        }
        _ => {}
    }
    let mut writer = EtlWriter::new(out, options)?;
    let mut templates = templates(recipe.kind)?;
    let count = templates.len();
    let usual = if recipe.kind == Kind::Recording { count - STARTS } else { count };
    let mut numbers = Numbers::new(recipe.events);
    // About a million events per second.
    let step = (clock.frequency() / 500_000).max(1) as usize;
    let mut ticks = clock.anchor.0;
    let (mut first, mut events_lost, mut buffers_lost, mut processor) = (None, 0, 0, 0);
    for index in 0..recipe.events {
        ticks += 1 + numbers.below(step) as i64;
        first.get_or_insert(ticks);
        if index % recipe.turn.max(1) == 0 {
            processor = numbers.below(recipe.processors.max(1).into()) as u16;
        }
        let choices = if index % START_EVERY == 0 { count } else { usual };
        let template = &mut templates[numbers.below(choices)];
        template.stamp(Ticks(ticks), index as u32);
        writer.write(processor, &template.bytes)?;
        if recipe.kind == Kind::Losses && index % 100 == 99 {
            writer.lose_events(processor, 3)?;
            events_lost += 3;
            if index % 1000 == 999 {
                writer.lose_buffers(processor, 1)?;
                buffers_lost += 1;
            }
        }
    }
    let last = clock.to_filetime(Ticks(ticks));
    if recipe.kind == Kind::Unclosed {
        writer.flush()?;
    } else {
        writer.finish(FileTime(last.0 + 10_000))?;
    }
    let first = clock.to_filetime(Ticks(first.unwrap_or(ticks)));
    Ok(Summary { events: recipe.events, events_lost, buffers_lost, first, last })
}

/// Returns a trace in memory.
///
/// # Errors
///
/// Fails if the writer fails.
pub fn bytes(recipe: &Recipe) -> Result<(Vec<u8>, Summary), WriteError> {
    let mut out = Cursor::new(Vec::new());
    let summary = write(&mut out, recipe)?;
    Ok((out.into_inner(), summary))
}

/// Template of records that differ only in their times.
struct Template {
    bytes: Vec<u8>,
    time_at: usize,
    sequence_at: Option<usize>,
}

impl Template {
    fn stamp(&mut self, time: Ticks, sequence: u32) {
        self.bytes[self.time_at..self.time_at + 8].copy_from_slice(&time.0.to_le_bytes());
        if let Some(at) = self.sequence_at {
            self.bytes[at..at + 4].copy_from_slice(&sequence.to_le_bytes());
        }
    }
}

fn templates(kind: Kind) -> Result<Vec<Template>, WriteError> {
    let plain = |bytes: Vec<u8>| Template { bytes, time_at: 0x10, sequence_at: None };
    let builders = match kind {
        Kind::Switches => {
            let payload = [[8, 0, 0, 0, 4, 0, 0, 0], [8, 0, 0, 0, 15, 0, 5, 0], [0; 8]].concat();
            let bytes = perf_info(PointerSize::Eight).payload(&payload).build()?;
            return Ok(vec![Template { bytes, time_at: 0x08, sequence_at: None }]);
        }
        Kind::Messages => {
            let guid = Guid::from_u128(0xa1b2c3d4_0001_4002_8003_000000000004);
            let mut templates = Vec::new();
            for number in 10..14 {
                let message =
                    RecordBuilder::message(number, PointerSize::Eight).message_guid(guid).message_sequence(0);
                let bytes = message.time(Ticks(0)).process(4711, 5150).payload(&[7, 0, 0, 0]).build()?;
                templates.push(Template { bytes, time_at: 28, sequence_at: Some(8) });
            }
            return Ok(templates);
        }
        Kind::Headers => headers(),
        Kind::Errors => {
            let error =
                RecordBuilder::error(Guid::from_provider_name(PROVIDER_NAME), &EventDescriptor::default());
            vec![(error.process(4711, 5150).payload(b"error"), 0x10)]
        }
        _ => {
            // The RPC call is omitted: its schema is not built in.
            let mut references = reference::events();
            references.retain(|event| event.provider != reference::RPC);
            let is_start = |event: &reference::ReferenceEvent| {
                [reference::KERNEL_PROCESS, reference::THREAD].contains(&event.provider)
            };
            let mut templates: Vec<Template> = Vec::new();
            if kind == Kind::Recording {
                templates.push(plain(trace_logging().build()?));
                references.sort_by_key(is_start);
            }
            templates.extend(references.into_iter().map(|event| plain(event.record)));
            if kind != Kind::Recording {
                templates.push(plain(trace_logging().build()?));
            }
            return Ok(templates);
        }
    };
    let mut templates = Vec::new();
    for (builder, time_at) in builders {
        templates.push(Template { bytes: builder.build()?, time_at, sequence_at: None });
    }
    Ok(templates)
}

/// Returns a context switch.
fn perf_info(pointer_size: PointerSize) -> RecordBuilder {
    RecordBuilder::perf_info(pointer_size, HookId(0x0524), 4)
}

/// Returns records with headers that the real files lack, and the offsets of their times.
fn headers() -> Vec<(RecordBuilder, usize)> {
    let descriptor =
        EventDescriptor { version: 2, opcode: Opcode(1), level: Level(4), ..EventDescriptor::default() };
    let class = Guid::from_u128(0xa1b2c3d4_0002_4002_8003_000000000004);
    let instance = Instance { id: 1, parent_id: 2, parent_guid: class };
    let mut all = Vec::new();
    for size in [PointerSize::Four, PointerSize::Eight] {
        let process = |builder: RecordBuilder| builder.process(4711, 5150).payload(&[3; 24]);
        all.push((process(RecordBuilder::compact(size, HookId(0x0524), 4)), 0x10));
        all.push((perf_info(size).payload(&[3; 24]), 0x08));
        all.push((perf_info(size).counters(&[1, 2]).payload(&[3; 24]), 0x08));
        all.push((process(RecordBuilder::full(size, class, &descriptor)), 0x10));
        all.push((process(RecordBuilder::instance(size, class, &descriptor, instance)), 0x10));
    }
    all
}

/// Returns a TraceLogging event with numbers, text, an address and a structure.
fn trace_logging() -> RecordBuilder {
    const IN_UTF16: u8 = 1;
    const IN_U32: u8 = 8;
    const IN_F64: u8 = 12;
    const OUT_IPV4: u8 = 8;
    let metadata = EventMetadata::new("Transfer")
        .field("File", IN_UTF16)
        .field("Bytes", IN_U32)
        .formatted_field("Peer", IN_U32, OUT_IPV4)
        .structure("Timing", 2)
        .field("Milliseconds", IN_F64)
        .field("Attempts", IN_U32)
        .build();
    let mut payload = reference::Payload::default();
    payload.text("report.txt").u32(65_536).bytes(&[10, 0, 0, 1]).u64(1.5f64.to_bits()).u32(2);
    let descriptor = EventDescriptor { channel: 11, level: Level(4), ..EventDescriptor::default() };
    RecordBuilder::event(PointerSize::Eight, Guid::from_provider_name(PROVIDER_NAME), &descriptor)
        .process(4711, 5150)
        .item(ExtendedType::PROVIDER_TRAITS, &provider_traits(PROVIDER_NAME))
        .item(ExtendedType::EVENT_SCHEMA_TL, &metadata)
        .payload(&payload.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_etl::{EtlFile, Records};

    #[test]
    fn every_kind_reads_back_with_its_counts_and_times() {
        for (name, kind) in Kind::ALL {
            let recipe = Recipe { processors: 3, buffer_size: 4096, ..Recipe::new(*kind, 2000) };
            let (bytes, summary) = bytes(&recipe).unwrap();
            let file = EtlFile::open(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
            let (mut scratch, mut count, mut times) = (Vec::new(), 0, Vec::new());
            for buffer in file.buffers() {
                let buffer = buffer.unwrap_or_else(|damage| panic!("{name}: {damage}"));
                let data = buffer.data(&mut scratch);
                let origin = buffer.origin(file.clock(), 0);
                for record in Records::new(data.bytes, &origin, buffer.place()) {
                    let record = record.unwrap_or_else(|damage| panic!("{name}: {damage}"));
                    if !matches!(record.hook_id(), Some(HookId::LOG_FILE_HEADER | HookId(0x0050))) {
                        assert!(record.is_intact(), "{name}");
                        count += 1;
                        times.push(record.time());
                    }
                }
            }
            if *kind == Kind::Circular {
                assert!((1..summary.events).contains(&count), "{name}: {count}");
            } else {
                assert_eq!(count, summary.events, "{name}");
                assert_eq!(times.iter().min(), Some(&summary.first), "{name}");
            }
            assert_eq!(times.iter().max(), Some(&summary.last), "{name}");
            let header = file.header();
            assert_eq!(
                (header.events_lost, header.buffers_lost),
                (summary.events_lost, summary.buffers_lost)
            );
            assert_eq!(header.is_closed(), *kind != Kind::Unclosed, "{name}");
        }
    }
}
