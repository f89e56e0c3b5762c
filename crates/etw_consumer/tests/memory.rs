//! Memory besides the file map stays bounded in the worst case: many processors with compressed buffers of 16 MiB.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::fs::File;
use std::io::BufWriter;

use etw_consumer::Trace;
use etw_etl::encode::RecordBuilder;
use etw_etl::{EtlWriter, WriterOptions};
use etw_event::{Clock, ClockType, EventDescriptor, FileTime, Guid, PointerSize, Ticks};

const PROCESSORS: u16 = 12;
const BUFFER_BYTES: u32 = 16 << 20;
const LIMIT_KIB: u64 = 64 << 10;

/// Returns the anonymous memory of this process in KiB.
fn anonymous_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn many_large_compressed_buffers() {
    if std::env::var_os("RUN_SLOW_TESTS").is_none() {
        etw_testkit::skip!("RUN_SLOW_TESTS is not set");
        return;
    }
    let path = std::env::temp_dir().join(format!("openetw-memory-{}.etl", std::process::id()));
    let clock = Clock::new(ClockType::Qpc, Ticks(0), FileTime(133_000_000_000_000_000), 10_000_000);
    let options = WriterOptions::new(clock, BUFFER_BYTES, PROCESSORS.into()).compressed();
    let mut writer = EtlWriter::new(BufWriter::new(File::create(&path).unwrap()), options).unwrap();
    let payload: Vec<u8> = (0..60_000u32).map(|number| (number % 7 + number / 1000) as u8).collect();
    let records = u64::from(PROCESSORS) * 600;
    for number in 0..records {
        let record =
            RecordBuilder::event(PointerSize::Eight, Guid::from_u128(1), &EventDescriptor::default());
        let bytes = record.time(Ticks(number as i64)).payload(&payload).build().unwrap();
        writer.write(number as u16 % PROCESSORS, &bytes).unwrap();
    }
    writer.finish(clock.to_filetime(Ticks(records as i64))).unwrap();
    let file_len = std::fs::metadata(&path).unwrap().len();
    assert!(file_len < records * 60_000 / 4, "the buffers are compressed: {file_len} bytes");
    let before = anonymous_kib();
    let mut trace = Trace::open_file(&path).unwrap();
    let (mut seen, mut most, mut last) = (0, 0, i64::MIN);
    trace
        .for_each_record(|record| {
            assert!(record.raw_time().0 >= last);
            last = record.raw_time().0;
            seen += u64::from(!record.is_log_file_header());
            if seen % 64 == 0 {
                most = most.max(anonymous_kib());
            }
        })
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(seen >= records, "{seen} of {records}");
    assert_eq!(trace.statistics().damage_count, 0);
    let above = most.saturating_sub(before);
    eprintln!("{above} KiB above the map, {before} KiB before");
    assert!(above < LIMIT_KIB, "{above} KiB");
}
