//! Writes a trace file with TraceLogging events on several processors.
//!
//! `cargo run -p etw_etl --example generate_trace -- OUT.etl [EVENTS [qpc|system|cycles] [compressed] [layout32]]`

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;

use etw_etl::encode::{EventMetadata, RecordBuilder, provider_traits};
use etw_etl::{EtlWriter, WriterOptions};
use etw_event::{
    Clock, ClockType, EventDescriptor, ExtendedType, FileTime, Guid, Keyword, Level, PointerSize,
};

/// In-type of an unsigned 32-bit integer.
const UINT32: u8 = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(path) = arguments.first() else {
        return Err(
            "usage: generate_trace OUT.etl [EVENTS] [qpc|system|cycles] [compressed] [layout32]".into()
        );
    };
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let events: u32 = arguments.get(1).map_or(Ok(1000), |count| count.parse())?;

    let start = FileTime::from_civil(2026, 1, 2, 3, 4, 5, 0).ok_or("no such time")?;
    let clock = match () {
        () if has("system") => Clock::new(ClockType::SystemTime, etw_event::Ticks(start.0), start, 0),
        () if has("cycles") => {
            Clock::new(ClockType::CpuCycle, etw_event::Ticks(9_000_000_000), start, 3_000_000_000)
        }
        () => Clock::new(ClockType::Qpc, etw_event::Ticks(1_000_000_000), start, 10_000_000),
    };
    let mut options = WriterOptions::new(clock, 64 << 10, 8);
    options.header.logger_name = "Generated".to_owned();
    options.header.log_file_name = path.clone();
    if has("layout32") {
        options.header.layout = PointerSize::Four;
        options.header.pointer_size = 4;
    }
    if has("compressed") {
        options = options.compressed();
    }

    let provider = Guid::from_provider_name("OpenETW.Example");
    let descriptor =
        EventDescriptor { channel: 11, level: Level::INFORMATION, keyword: Keyword(1), ..Default::default() };
    let event = RecordBuilder::event(PointerSize::Eight, provider, &descriptor)
        .item(ExtendedType::PROVIDER_TRAITS, &provider_traits("OpenETW.Example"))
        .item(ExtendedType::EVENT_SCHEMA_TL, &EventMetadata::new("Step").field("number", UINT32).build());
    let mut writer = EtlWriter::new(BufWriter::new(File::create(path)?), options)?;
    for number in 0..events {
        let time = FileTime(start.0 + i64::from(number) * 1_000);
        let record = event
            .clone()
            .time(clock.to_ticks(time))
            .process(4711, 4712 + number % 8)
            .payload(&number.to_le_bytes())
            .build()?;
        writer.write((number % 8) as u16, &record)?;
    }
    let written = writer.finish(FileTime(start.0 + i64::from(events) * 1_000))?;
    println!("{path}: {events} events in {} buffers, {} bytes", written.buffers, written.len_bytes);
    Ok(())
}
