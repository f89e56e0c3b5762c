//! Measures reading, writing and compression on one core.
//!
//! `cargo run --release -p etw_etl --example speed [-- FILE.etl…]`: without files a generated one is taken, of events
//! of about a hundred bytes.

use std::error::Error;
use std::hint::black_box;
use std::io::Cursor;
use std::time::{Duration, Instant};

use etw_etl::encode::RecordBuilder;
use etw_etl::xpress::{Compressor, decompress};
use etw_etl::{EtlFile, EtlWriter, Records, WriterOptions};
use etw_event::{Clock, EventDescriptor, FileTime, Guid, PointerSize, Ticks};

const EVENTS: i64 = 500_000;
const ROUNDS: u32 = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    if paths.is_empty() {
        let records = records()?;
        let plain = fastest(|| write(&records, false));
        let compressed = fastest(|| write(&records, true));
        for (what, (file, time)) in [("plain", plain), ("compressed", compressed)] {
            let file = file?;
            let mib = file.len() as f64 / (1 << 20) as f64;
            println!("write {what}: {:.1} ns/event, {mib:.1} MiB", per(time, records.len()));
            read(what, &file)?;
        }
        compress(&records);
    }
    for path in &paths {
        read(path, &std::fs::read(path)?)?;
    }
    Ok(())
}

fn records() -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let provider = Guid::from_provider_name("Speed");
    let event = RecordBuilder::event(PointerSize::Eight, provider, &EventDescriptor::default()).process(4, 8);
    let record = |number: i64| {
        let payload = [number.to_le_bytes(), (number * 7919).to_le_bytes(), [0; 8]].concat();
        Ok(event.clone().time(Ticks(number)).payload(&payload).build()?)
    };
    (0..EVENTS).map(record).collect()
}

fn write(records: &[Vec<u8>], is_compressed: bool) -> Result<Vec<u8>, Box<dyn Error>> {
    let clock = Clock::new(Default::default(), Ticks(0), FileTime(133_000_000_000_000_000), 10_000_000);
    let options = WriterOptions::new(clock, 64 << 10, 8);
    let options = if is_compressed { options.compressed() } else { options };
    let mut writer = EtlWriter::new(Cursor::new(Vec::new()), options)?;
    for (number, record) in records.iter().enumerate() {
        writer.write((number % 8) as u16, record)?;
    }
    Ok(writer.finish(FileTime(0))?.out.into_inner())
}

fn read(what: &str, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    let file = EtlFile::open(bytes)?;
    let mut scratch = Vec::new();
    let (count, time) = fastest(|| {
        let mut count = 0;
        for buffer in file.buffers().flatten() {
            let origin = buffer.origin(file.clock(), 0);
            let data = buffer.data(&mut scratch).bytes;
            for record in Records::new(data, &origin, buffer.place()).flatten() {
                black_box((record.raw_time(), record.payload()));
                count += 1;
            }
        }
        count
    });
    let million = count as f64 / time.as_secs_f64() / 1e6;
    println!("read {what}: {count} records, {:.2} ns each, {million:.0} M/s", per(time, count));
    let (bytes, time) = fastest(|| {
        let compressed = file.buffers().flatten().filter(|buffer| buffer.header.is_compressed());
        compressed.map(|buffer| buffer.data(&mut scratch).bytes.len()).sum::<usize>()
    });
    if bytes > 0 {
        println!("decompress {what}: {:.0} MB/s", bytes as f64 / time.as_secs_f64() / 1e6);
    }
    Ok(())
}

fn compress(records: &[Vec<u8>]) {
    let bytes = records.concat();
    let (mut compressor, mut out) = (Compressor::default(), Vec::new());
    let ((), time) = fastest(|| {
        out.clear();
        bytes.chunks(64 << 10).for_each(|chunk| compressor.compress(chunk, &mut out));
    });
    let ratio = bytes.len() as f64 / out.len() as f64;
    println!("compress: {:.0} MB/s, to one {ratio:.1}th", bytes.len() as f64 / time.as_secs_f64() / 1e6);
    let mut first = Vec::new();
    compressor.compress(&bytes[..64 << 10], &mut first);
    let mut back = vec![0; 64 << 10];
    let (result, time) = fastest(|| decompress(&first, &mut back));
    result.unwrap_or_else(|error| println!("{error}"));
    println!("decompress: {:.0} MB/s", back.len() as f64 / time.as_secs_f64() / 1e6);
}

/// The result of the last round, and the time of the fastest.
fn fastest<T>(mut work: impl FnMut() -> T) -> (T, Duration) {
    let mut round = || {
        let start = Instant::now();
        (work(), start.elapsed())
    };
    let mut best = round();
    for _ in 1..ROUNDS {
        let (result, time) = round();
        best = (result, time.min(best.1));
    }
    best
}

fn per(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e9 / count as f64
}
