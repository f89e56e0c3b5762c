//! Rewritten traces, compared with their sources event by event, as JSON.

#![cfg(not(windows))]
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod edits;
mod filters;
mod merges;
mod parts;
mod redactions;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use etw_testkit::data;
use etw_testkit::mutate::Numbers;
use etw_testkit::traces::{self, Kind, Recipe};
use openetw::etl::encode::RecordBuilder;
use openetw::etl::{EtlWriter, WriterOptions};
use openetw::export::{JsonWriter, Options};
use openetw::{
    Clock, ClockType, EventFilter, FileTime, HookId, PointerSize, Record, Ticks, Trace, TraceBuilder, classes,
};

/// Number of occurrences of each line in a trace.
type Lines = HashMap<String, u32>;

/// Generated files of every kind, and the real ones that are available, each where it can be read.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for (name, kind) in Kind::ALL {
        let recipe = Recipe { processors: 3, buffer_size: 4096, ..Recipe::new(*kind, 1500) };
        let path = directory.join(format!("{name}.etl"));
        fs::write(&path, traces::bytes(&recipe).unwrap().0).unwrap();
        files.push(path);
    }
    files.push(directory.join("stacks.etl"));
    write_stacks(&directory.join("stacks.etl"));
    let real = data::traces().unwrap_or_default().into_iter();
    files.extend(real.filter(|file| file.records < 20_000).map(|file| file.path));
    files
}

/// Returns a trace of the kernel: processes, and samples and switches whose stacks come later on any processor, some in
/// two parts, some as keys whose frames come later still, or after the key has been reused for another stack.
fn write_stacks(path: &Path) {
    let clock = Clock::new(ClockType::Qpc, Ticks(1000), FileTime(133_000_000_000_000_000), 10_000_000);
    let file = fs::File::create(path).unwrap();
    let mut writer = EtlWriter::new(file, WriterOptions::new(clock, 4096, 3)).unwrap();
    let mut numbers = Numbers::new(11);
    let mut put = |numbers: &mut Numbers, time: i64, hook: u16, thread: Option<u32>, words: &[u64]| {
        let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let builder = match thread {
            Some(thread) => {
                RecordBuilder::system(PointerSize::Eight, HookId(hook), 2).process(thread / 10, thread)
            }
            None => RecordBuilder::perf_info(PointerSize::Eight, HookId(hook), 2),
        };
        let record = builder.time(Ticks(time)).payload(&payload).build().unwrap();
        writer.write(numbers.below(3) as u16, &record).unwrap();
    };
    let of = |time: i64, thread: u32| [time as u64, u64::from(thread / 10) | u64::from(thread) << 32];
    let (mut pending, mut called) = (Vec::<(i64, u32)>::new(), 0);
    for step in 0..800i64 {
        let time = 2000 + step * 10;
        let thread = 40 + numbers.below(8) as u32;
        match step % 4 {
            // System calls, whose headers have a thread id; samples, whose headers do not.
            0 => put(&mut numbers, time, 0x0F33, Some(thread), &[0xFFFF_8000_0000_1000]),
            1 => put(&mut numbers, time, 0x0F2E, None, &[0x40_1000, u64::from(thread) | 1 << 32]),
            2 => {
                put(&mut numbers, time, 0x1820, None, &[&of(time - 20, called)[..], &[0x10, 0x20]].concat());
                if let Some((time_of, thread)) = pending.pop() {
                    let key = 0xABC0 + numbers.below(4) as u64;
                    put(&mut numbers, time + 1, 0x1826, None, &[&of(time_of, thread)[..], &[key]].concat());
                    if numbers.below(3) == 0 {
                        put(&mut numbers, time + 2, 0x1823, None, &[key, 0x30, 0x40 + step as u64]);
                    }
                }
            }
            _ => put(&mut numbers, time, 0x0F2E, None, &[0x40_2000, u64::from(thread) | 1 << 32]),
        }
        if step % 4 == 0 {
            called = thread;
            pending.insert(numbers.below(pending.len() + 1), (time, thread));
        }
    }
    for key in 0xABC0..0xABC4u64 {
        put(&mut numbers, 20_000, 0x1824, None, &[key, 0x50, 0x60]);
    }
    writer.finish(FileTime(0)).unwrap();
}

fn builder(files: &[&Path]) -> TraceBuilder {
    files.iter().fold(Trace::builder(), |builder, path| builder.file(path)).process_names(true)
}

/// Returns every event that passes the filter as JSON, with the text that `key` adds; log file headers and events
/// embedded by the relogger are left out.
fn lines<K>(
    files: &[&Path],
    filter: &EventFilter,
    mut key: impl FnMut(&Record<'_>) -> K,
) -> Vec<(String, K)> {
    let mut trace = builder(files).filter(filter).open().unwrap();
    let mut writer = JsonWriter::new(&Options::default());
    let mut all = Vec::new();
    trace
        .for_each_event(|event| {
            let is_embedded = event.record.provider_id() == classes::EVENT_METADATA;
            if event.record.hook_id() == Some(HookId::LOG_FILE_HEADER) || is_embedded {
                return;
            }
            let mut out = Vec::new();
            writer.put(&mut out, event);
            all.push((String::from_utf8(out).unwrap(), key(event.record)));
        })
        .unwrap();
    all
}

fn counted(lines: impl IntoIterator<Item = String>) -> Lines {
    let mut counted = Lines::new();
    lines.into_iter().for_each(|line| *counted.entry(line).or_default() += 1);
    counted
}

/// Fails with the first line that occurs more often in `part` than in `whole`.
fn assert_within(part: &Lines, whole: &Lines, what: &str) {
    for (line, count) in part {
        let found = whole.get(line).copied().unwrap_or(0);
        assert!(found >= *count, "{what}: {count} times, not {found}: {line}");
    }
}
