//! The decode suite: reading and decoding of files and of the five reference events.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use etw_consumer::Trace;
use etw_event::{Origin, Record, Ticks};
use etw_schema::{CompiledSchema, Located};
use etw_testkit::traces::{self, Kind, Recipe};
use etw_testkit::{data, reference};
use serde_json::Value;

use super::row::Row;
use super::{Effort, Peer, median};
use crate::shell::target_dir;

/// A real file with kernel and .NET events, most of them decoded by what is built in; its buffers are compressed.
const REAL_FILE: &str = "microsoft-perfview/net.4.5.2.x64.etl";

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
        rows.extend(file_rows(effort, peers, "real file", &place("real.etl", &bytes)?)?);
    }
    for (name, kind) in [("generated file", Kind::Mixed), ("generated switches", Kind::Switches)] {
        let (bytes, _) = traces::bytes(&Recipe::new(kind, effort.events))?;
        rows.extend(file_rows(effort, peers, name, &place("generated.etl", &bytes)?)?);
    }
    Ok(rows)
}

/// Writes a file where the peers can read it.
fn place(name: &str, bytes: &[u8]) -> Result<PathBuf> {
    let directory = target_dir().join("bench");
    fs::create_dir_all(&directory)?;
    let path = directory.join(name);
    fs::write(&path, bytes)?;
    Ok(path)
}

/// Time to locate and read all fields of each reference event.
fn reference_rows(effort: &Effort) -> Result<Vec<Row>> {
    /// Events in one timed call, so that reading the clock costs nothing.
    const BATCH: usize = 1000;
    let origin = Origin::default();
    let mut rows = Vec::new();
    for event in reference::events() {
        let record = Record::parse(&event.record, &origin, Ticks(0))?;
        let compiled = CompiledSchema::new(event.schema);
        let mut located = Located::new();
        let mut rounds: Vec<f64> = (0..effort.rounds)
            .map(|_| {
                effort.seconds(|| {
                    for _ in 0..BATCH {
                        for property in compiled.locate(black_box(&record), &mut located).iter() {
                            black_box(property.value());
                        }
                    }
                })
            })
            .collect();
        let nanos = median(&mut rounds) * 1e9 / BATCH as f64;
        rows.push(Row::new(format!("all fields of {}", event.name), nanos, "ns/event"));
    }
    Ok(rows)
}

/// A level of reading, and the pass of the peers that does the like.
struct Level {
    name: &'static str,
    peer_pass: &'static str,
    /// Reads all of a trace once; answers the number of events.
    read: fn(&mut Trace) -> Result<u64>,
}

const LEVELS: &[Level] = &[Level {
    name: "level 1, records in time order",
    peer_pass: "iterate",
    read: |trace| {
        let mut count = 0;
        trace.for_each_record(|record| {
            black_box((record.raw_time(), record.payload()));
            count += 1;
        })?;
        Ok(count)
    },
}];

/// Rates of reading a file on each level, with the peers' beside them, measured in turns.
fn file_rows(effort: &Effort, peers: &[Peer], what: &str, path: &Path) -> Result<Vec<Row>> {
    let mut ours: Vec<Vec<f64>> = LEVELS.iter().map(|_| Vec::new()).collect();
    let mut reports: Vec<(Peer, Vec<Value>)> = peers.iter().map(|peer| (*peer, Vec::new())).collect();
    let mut trace = Trace::open_file(path)?;
    for _ in 0..effort.rounds {
        for (level, rates) in LEVELS.iter().zip(&mut ours) {
            let mut events = Ok(0);
            let seconds = effort.seconds(|| events = (level.read)(&mut trace));
            rates.push(events? as f64 / seconds);
        }
        // A peer's pass takes seconds; three of them tell enough.
        for (peer, reports) in reports.iter_mut().filter(|(_, reports)| reports.len() < 3) {
            match peer.read(path, &["--decode"], Some(effort.peer_time)) {
                Ok(report) => reports.push(report),
                Err(error) => eprintln!("{} cannot read the {what}: {error}", peer.name()),
            }
        }
    }
    let mut rows = Vec::new();
    for (level, rates) in LEVELS.iter().zip(&mut ours) {
        let value = median(rates);
        let row = || Row::new(format!("{what}: {}", level.name), value, "events/s");
        let before = rows.len();
        for (peer, reports) in &reports {
            let mut theirs: Vec<f64> =
                reports.iter().filter_map(|report| Peer::rate(report, level.peer_pass)).collect();
            if !theirs.is_empty() {
                rows.push(Row { peer: Some((peer.name(), median(&mut theirs))), ..row() });
            }
        }
        if rows.len() == before {
            rows.push(row());
        }
        rows.push(Row::new(format!("{what}: {}", level.name), 1e9 / value, "ns/event"));
    }
    Ok(rows)
}
