//! Measures the levels of reading: `cargo run --release -p etw_consumer --example levels -- FILE…`.
//!
//! Prints the best of five passes for each level and for the scan for schemas and processes, and the memory besides
//! the file map. `LEVEL=1` measures that level alone (0: the scan). `generate PATH MEGABYTES [random]` writes a file
//! of eight processors with events of about 100 bytes; `random` changes the processor with nearly every event.

use std::fs::File;
use std::io::BufWriter;
use std::time::Instant;

use etw_consumer::Trace;
use etw_etl::encode::RecordBuilder;
use etw_etl::{EtlWriter, WriterOptions};
use etw_event::{Clock, ClockType, FileTime, Guid, PointerSize, Ticks};
use etw_schema::{EventSchema, Layout, builtin};

/// Microsoft-Windows-Kernel-Process, whose schemas are built in.
const PROVIDER: Guid = Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["generate", path, megabytes] => generate(path, megabytes.parse()?, false),
        ["generate", path, megabytes, "random"] => generate(path, megabytes.parse()?, true),
        [] => Err("name a trace file".into()),
        paths => measure(paths),
    }
}

fn measure(paths: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    let mut trace = Trace::open_files(paths)?;
    let only = std::env::var("LEVEL").ok().and_then(|level| level.parse::<u32>().ok());
    for level in (0..=4).filter(|level| only.is_none_or(|only| only == *level)) {
        let mut best = f64::MAX;
        let mut records = 0u64;
        for _ in 0..5 {
            let mut sum = 0i64;
            let begin = Instant::now();
            match level {
                0 => {
                    trace = Trace::open_files(paths)?;
                    sum ^= trace.processes()?.is_empty() as i64;
                }
                1 => trace.for_each_record(|record| sum ^= record.raw_time().0)?,
                2 => trace.for_each_schema(|event| sum ^= event.schema.is_ok() as i64)?,
                3 => trace.for_each_event(|event| sum ^= event.properties.map_or(0, |p| p.len() as i64))?,
                _ => trace.for_each_owned_event(|event| {
                    sum ^= std::hint::black_box(&event).properties().map_or(0, |owned| owned.len() as i64)
                })?,
            }
            best = best.min(begin.elapsed().as_secs_f64());
            std::hint::black_box(sum);
            records = trace.statistics().records;
        }
        if level == 0 {
            println!("looking through: {:.1} ms", best * 1e3);
            continue;
        }
        let rate = records as f64 / best / 1e6;
        println!("level {level}: {records} records, {rate:.1} M/s, {:.1} ns", 1e3 / rate);
    }
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        status
            .lines()
            .filter(|line| line.starts_with("RssAnon") || line.starts_with("VmHWM"))
            .for_each(|line| println!("{line}"));
    }
    Ok(())
}

fn generate(path: &str, megabytes: u64, random: bool) -> Result<(), Box<dyn std::error::Error>> {
    let clock = Clock::new(ClockType::Qpc, Ticks(1_000_000), FileTime(133_000_000_000_000_000), 10_000_000);
    let options = WriterOptions::new(clock, 64 << 10, 8);
    let mut writer = EtlWriter::new(BufWriter::with_capacity(1 << 20, File::create(path)?), options)?;
    // The events of at most 24 bytes that the provider has, one after the other.
    let known = builtin::BuiltIn.provider(&PROVIDER).ok_or("no built-in provider")?;
    let fixed = |event: &EventSchema| Layout::new(event).fixed_len_bytes(PointerSize::Eight);
    let small = known.events.iter().filter_map(|event| Some((event.descriptor, fixed(event)?)));
    let small: Vec<_> = small.filter(|(_, len)| (4..=24).contains(len)).collect();
    small.first().ok_or("no small event")?;
    let (mut time, mut state, mut processor, mut bytes) = (1_000_000i64, 1u64, 0u16, Vec::new());
    let count = (megabytes << 20) / 104;
    for _ in 0..count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        time += (state >> 60) as i64;
        if random || state >> 32 & 31 == 0 {
            processor = (state >> 40) as u16 & 7;
        }
        let (descriptor, len) = small[(state >> 48) as usize % small.len()];
        let record = RecordBuilder::event(PointerSize::Eight, PROVIDER, &descriptor);
        bytes.clear();
        record.time(Ticks(time)).process(4, 8).payload(&[1; 24][..len as usize]).build_into(&mut bytes)?;
        writer.write(processor, &bytes)?;
    }
    writer.finish(clock.to_filetime(Ticks(time)))?;
    Ok(())
}
