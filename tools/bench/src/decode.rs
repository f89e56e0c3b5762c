//! The decode suite: reading and decoding of files and of the five reference events.

use std::fs;
use std::hint::black_box;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use etw_testkit::traces::{self, Kind, Recipe};
use etw_testkit::{data, reference};
use openetw::etl::{EtlFile, EtlWriter, LogFileHeader, WriterOptions};
use openetw::export::{CsvWriter, JsonWriter, Options, Source, TracerptCsvWriter};
use openetw::schema::{CompiledSchema, Located};
use openetw::{Event, Origin, Record, Ticks, Trace};
use serde_json::Value;

use super::row::Row;
use super::{Effort, median};
use crate::reference::schema;
use peers::Peer;
use shell::target_dir;

/// A real file with kernel and .NET events, most of them decoded by what is built in; its buffers are compressed.
const REAL_FILE: &str = "microsoft-perfview/net.4.5.2.x64.etl";

/// Events of one processor in a row, where its turns are long.
const LONG_TURN: u64 = 32;

/// Measures everything that can be measured here.
pub(crate) fn rows(effort: &Effort) -> Result<Vec<Row>> {
    let peers = match Peer::missing() {
        Some(missing) => {
            eprintln!("without peers: {missing}");
            &[][..]
        }
        None => &Peer::ALL,
    };
    let mut rows = reference_rows(effort)?;
    if let Some(real) = data::trace(REAL_FILE) {
        let bytes = real.read().map_err(|error| anyhow!(error))?;
        rows.extend(file_rows(effort, peers, "real file, compressed", &place("real.etl", &bytes)?)?);
        let path = place("uncompressed.etl", &uncompressed(&bytes)?)?;
        rows.extend(file_rows(effort, &[], "real file, rewritten uncompressed", &path)?);
    }
    for (name, kind) in [("generated mix", Kind::Mixed), ("generated switches", Kind::Switches)] {
        for (turn, peers) in [(1, peers), (LONG_TURN, &[][..])] {
            let (bytes, _) = traces::bytes(&Recipe { turn, ..Recipe::new(kind, effort.events) })?;
            let what = format!(
                "{name}, {} bytes an event, turns of {turn}",
                bytes.len() as u64 / effort.events.max(1)
            );
            rows.extend(file_rows(effort, peers, &what, &place("generated.etl", &bytes)?)?);
        }
    }
    Ok(rows)
}

/// The trace in buffers that are not compressed.
fn uncompressed(bytes: &[u8]) -> Result<Vec<u8>> {
    let file = EtlFile::open(bytes)?;
    let header = file.header();
    let options = WriterOptions::new(file.clock(), header.buffer_size, header.number_of_processors);
    let mut writer = EtlWriter::new(Cursor::new(Vec::new()), options)?;
    let mut scratch = Vec::new();
    for buffer in file.buffers().flatten() {
        let data = buffer.data(&mut scratch);
        writer.write_buffer(&buffer.header, data.bytes)?;
    }
    Ok(writer.finish(header.end_time)?.out.into_inner())
}

/// Writes a file where the peers can read it.
fn place(name: &str, bytes: &[u8]) -> Result<PathBuf> {
    let directory = target_dir().join("bench");
    fs::create_dir_all(&directory)?;
    let path = directory.join(name);
    fs::write(&path, bytes)?;
    Ok(path)
}

/// Time to locate the fields of each reference event, and to read them all as values.
fn reference_rows(effort: &Effort) -> Result<Vec<Row>> {
    /// Events in one timed call, so that reading the clock costs nothing.
    const BATCH: usize = 1000;
    let origin = Origin::default();
    let mut rows = Vec::new();
    for event in reference::events() {
        let record = Record::parse(&event.record, &origin, Ticks(0))?;
        let compiled = CompiledSchema::new(schema(&event));
        let mut located = Located::new();
        let mut rounds = [Vec::new(), Vec::new()];
        for _ in 0..effort.rounds {
            let seconds = effort.seconds(|| {
                for _ in 0..BATCH {
                    black_box(compiled.locate(black_box(&record), &mut located));
                }
            });
            rounds[0].push(seconds);
            let seconds = effort.seconds(|| {
                for _ in 0..BATCH {
                    for property in compiled.locate(black_box(&record), &mut located).iter() {
                        // By reference: handing the value itself over would measure a copy that no user makes.
                        black_box(&property.value());
                    }
                }
            });
            rounds[1].push(seconds);
        }
        for (what, rounds) in ["all fields located", "all fields read as values"].iter().zip(&mut rounds) {
            let nanos = median(rounds) * 1e9 / BATCH as f64;
            rows.push(Row::new(format!("{}: {what}", event.name), nanos, "ns/event"));
        }
    }
    Ok(rows)
}

/// What a pass over a file did.
#[derive(Default)]
struct Work {
    events: u64,
    /// Bytes of text that were made.
    text_bytes: u64,
}

/// A way of reading, and the pass of the peers that does the like.
struct Level {
    name: &'static str,
    peer_pass: Option<&'static str>,
    /// Reads all of a trace once.
    read: fn(&mut Trace) -> Result<Work>,
}

const LEVELS: &[Level] = &[
    Level {
        name: "level 1, records in time order",
        peer_pass: Some("iterate"),
        read: |trace| {
            let mut work = Work::default();
            trace.for_each_record(|record| {
                black_box((record.raw_time(), record.payload()));
                work.events += 1;
            })?;
            Ok(work)
        },
    },
    Level {
        name: "level 2, with schemas",
        peer_pass: None,
        read: |trace| {
            let mut work = Work::default();
            trace.for_each_schema(|event| {
                black_box(event);
                work.events += 1;
            })?;
            Ok(work)
        },
    },
    Level {
        name: "level 3, every property located",
        peer_pass: None,
        read: |trace| {
            let mut work = Work::default();
            trace.for_each_event(|event| {
                black_box(event);
                work.events += 1;
            })?;
            Ok(work)
        },
    },
    Level {
        name: "level 4, owned events",
        peer_pass: Some("decode"),
        read: |trace| {
            let mut work = Work::default();
            trace.for_each_owned_event(|event| {
                black_box(event);
                work.events += 1;
            })?;
            Ok(work)
        },
    },
    Level {
        name: "to JSON",
        peer_pass: Some("decode"),
        read: |trace| {
            let mut writer = JsonWriter::new(&export_options(trace));
            write_all(trace, |out, event| writer.put(out, event))
        },
    },
    Level {
        name: "to CSV",
        peer_pass: None,
        read: |trace| {
            let mut writer = CsvWriter::new(&export_options(trace));
            write_all(trace, |out, event| writer.put(out, event))
        },
    },
    Level {
        name: "to tracerpt's CSV",
        peer_pass: None,
        read: |trace| {
            let mut writer = TracerptCsvWriter::new(&export_options(trace));
            write_all(trace, |out, event| writer.put(out, event))
        },
    },
];

fn export_options(trace: &Trace) -> Options {
    let source =
        |header: &LogFileHeader| Source { timer_resolution: header.timer_resolution, ..Source::default() };
    Options { sources: trace.headers().iter().map(source).collect(), ..Options::default() }
}

/// Makes the text of every event, as `etw dump` does on one core.
fn write_all(trace: &mut Trace, mut put: impl FnMut(&mut Vec<u8>, &Event<'_>)) -> Result<Work> {
    let mut work = Work::default();
    let mut out = Vec::new();
    trace.for_each_event(|event| {
        put(&mut out, event);
        work.events += 1;
        if out.len() > 1 << 16 {
            work.text_bytes += black_box(&out).len() as u64;
            out.clear();
        }
    })?;
    work.text_bytes += out.len() as u64;
    Ok(work)
}

/// What the rounds measured on one level.
#[derive(Default)]
struct Rates {
    events: Vec<f64>,
    megabytes: Vec<f64>,
}

/// Rates of reading a file on each level, with the peers' beside them, measured in turns.
fn file_rows(effort: &Effort, peers: &[Peer], what: &str, path: &Path) -> Result<Vec<Row>> {
    let mut ours: Vec<Rates> = LEVELS.iter().map(|_| Rates::default()).collect();
    let mut reports: Vec<(Peer, Vec<Value>)> = peers.iter().map(|peer| (*peer, Vec::new())).collect();
    let mut trace = Trace::open_file(path)?;
    for _ in 0..effort.rounds {
        for (level, rates) in LEVELS.iter().zip(&mut ours) {
            let mut work = Ok(Work::default());
            let seconds = effort.seconds(|| work = (level.read)(&mut trace));
            let work = work?;
            rates.events.push(work.events as f64 / seconds);
            rates.megabytes.push(work.text_bytes as f64 / 1e6 / seconds);
        }
        // A peer's pass takes seconds; three are enough.
        for (peer, reports) in reports.iter_mut().filter(|(_, reports)| reports.len() < 3) {
            match peer.read(path, &["--decode"], Some(effort.peer_time)) {
                Ok(report) => reports.push(report),
                Err(error) => eprintln!("{} cannot read the {what}: {error}", peer.name()),
            }
        }
    }
    let mut rows = Vec::new();
    for (level, rates) in LEVELS.iter().zip(&mut ours) {
        let value = median(&mut rates.events);
        let row = || Row::new(format!("{what}: {}", level.name), value, "events/s");
        let before = rows.len();
        for (peer, reports) in &reports {
            let rate = |report| Peer::rate(report, level.peer_pass?);
            let mut theirs: Vec<f64> = reports.iter().filter_map(rate).collect();
            if !theirs.is_empty() {
                rows.push(Row { peer: Some((peer.name(), median(&mut theirs))), ..row() });
            }
        }
        if rows.len() == before {
            rows.push(row());
        }
        rows.push(Row::new(format!("{what}: {}", level.name), 1e9 / value, "ns/event"));
        let megabytes = median(&mut rates.megabytes);
        if megabytes > 0.0 {
            rows.push(Row::new(format!("{what}: {}", level.name), megabytes, "MB/s"));
        }
    }
    Ok(rows)
}
