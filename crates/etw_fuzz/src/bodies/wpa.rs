//! Fuzz bodies for files of Windows Performance Analyzer: stack tags and regions of interest.

use std::hint::black_box;
use std::io::Cursor;

use etw_columns::IndexWriter;
use etw_consumer::Trace;
use etw_etl::encode::RecordBuilder;
use etw_etl::{EtlWriter, WriterOptions};
use etw_event::{Clock, ClockType, EventDescriptor, FileTime, Guid, Opcode, PointerSize, Ticks};
use etw_stacks::{NamedStacks, StackFrame, StackTags, WeightSum, WeightUnit};
use etw_symbols::Symbolizer;
use etw_tables::{Regions, RowTables};

/// Parses a file of stack tags, and names stacks whose functions it may know.
pub fn stack_tags(bytes: &[u8]) {
    let mut tags = StackTags::default();
    if let Err(error) = tags.add_file(bytes) {
        return drop(black_box(error.to_string()));
    }
    // The last of two files has priority over the first.
    drop(black_box(tags.add_file(bytes)));
    let mut stacks = NamedStacks::new(WeightUnit::Count);
    let function = |module, name| StackFrame::function(Some(module), Some(name), false);
    for inner in [("ntdll.dll", "RtlAllocateHeap"), ("clr.dll", "gc_heap"), ("app.exe", "WinMain")] {
        let frames = [
            StackFrame::process(Some("app.exe")),
            function("ntdll.dll", "RtlUserThreadStart"),
            function("rpcrt4.dll", "Invoke"),
            function(inner.0, inner.1),
            function(inner.0, inner.1),
        ];
        stacks.add(frames, WeightSum { weight: 1, count: 1 });
    }
    assert_eq!(tags.name_frames(&stacks).total(), stacks.total());
    assert_eq!(tags.name_stacks(&stacks).total(), stacks.total());
}

/// Parses a file of regions of interest, and finds the regions in a trace.
pub fn wpa_regions(bytes: &[u8]) {
    let mut regions = Regions::default();
    if let Err(error) = regions.add_file("fuzz", bytes) {
        return drop(black_box(error.to_string()));
    }
    let rows = || -> Option<u64> {
        let trace = Trace::builder().bytes("fuzz", regions_trace()?);
        let mut trace = trace.open().ok()?;
        let stacks = trace.stacks().ok()?;
        let mut tables = RowTables::new(IndexWriter::in_memory()).ok()?.of_regions(regions);
        trace.for_each_event(|event| tables.add(event, &stacks.of(event.record))).ok()?;
        let index = tables.finish(&Symbolizer::new()).ok()?;
        Some(index.table("regions_of_interest")?.rows())
    };
    assert!(rows().is_some());
}

/// Returns a trace with events of each id that the seed's regions name, of two threads and two activities.
fn regions_trace() -> Option<Vec<u8>> {
    let clock = Clock::new(ClockType::Qpc, Ticks(0), FileTime(133_000_000_000_000_000), 10_000_000);
    let mut writer = EtlWriter::new(Cursor::new(Vec::new()), WriterOptions::new(clock, 0x20000, 1)).ok()?;
    for (id, time) in [2, 4, 4, 5, 5, 3, 2, 37, 5, 3].into_iter().zip(100_i64..) {
        let opcode = Opcode(if id == 3 { 2 } else { 1 });
        let descriptor = EventDescriptor { id, opcode, ..EventDescriptor::default() };
        let provider =
            Guid::from_u128(if id == 37 { 0x8c416c79_d49b_4f01_a467_e56d3aa8234c } else { 0x1234 });
        let record = RecordBuilder::event(PointerSize::Eight, provider, &descriptor)
            .process(10, 10 + time as u32 % 2)
            .activity_id(Guid::from_u128(7 + (time as u128 / 4)))
            .time(Ticks(time));
        writer.write(0, &record.build().ok()?).ok()?;
    }
    Some(writer.finish(FileTime(133_000_000_000_100_000)).ok()?.out.into_inner())
}
