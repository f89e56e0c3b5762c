//! The decode suite: reading and decoding of files and of the five reference events.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use etw_etl::{EtlFile, Records};
use etw_event::{Origin, Record, Ticks};
use etw_schema::{CompiledSchema, Located};
use etw_testkit::traces::{self, Kind, Recipe};
use etw_testkit::{data, reference};

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
        rows.extend(file_rows(effort, peers, "real file", &place("real.etl", &bytes)?, &bytes)?);
    }
    for (name, kind) in [("generated file", Kind::Mixed), ("generated switches", Kind::Switches)] {
        let (bytes, _) = traces::bytes(&Recipe::new(kind, effort.events))?;
        rows.extend(file_rows(effort, peers, name, &place("generated.etl", &bytes)?, &bytes)?);
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

/// Rates of reading a file, with the peers' beside them, measured in turns.
fn file_rows(effort: &Effort, peers: &[Peer], what: &str, path: &Path, bytes: &[u8]) -> Result<Vec<Row>> {
    let events = count_in_file_order(bytes)?;
    let mut ours = Vec::new();
    let mut theirs: Vec<(Peer, Vec<f64>)> = peers.iter().map(|peer| (*peer, Vec::new())).collect();
    for _ in 0..effort.rounds.min(3) {
        let seconds = effort.seconds(|| {
            black_box(count_in_file_order(bytes).unwrap_or(0));
        });
        ours.push(events as f64 / seconds);
        for (peer, rates) in &mut theirs {
            match peer.read(path, &[], Some(effort.peer_time)) {
                Ok(report) => rates.extend(Peer::rate(&report, "iterate")),
                Err(error) => eprintln!("{} cannot read the {what}: {error}", peer.name()),
            }
        }
    }
    let value = median(&mut ours);
    let name = format!("{what}: records in file order");
    let mut rows = vec![Row::new(name.clone(), value, "events/s")];
    rows.extend(theirs.into_iter().filter(|(_, rates)| !rates.is_empty()).map(|(peer, mut rates)| {
        let row = Row::new(name.clone(), value, "events/s");
        Row { peer: Some((peer.name(), median(&mut rates))), ..row }
    }));
    // The row without a peer says nothing more than those with one.
    if rows.len() > 1 {
        rows.remove(0);
    }
    Ok(rows)
}

/// Reads every record of a file in the order of the file, without merging.
fn count_in_file_order(bytes: &[u8]) -> Result<u64> {
    let file = EtlFile::open(bytes)?;
    let mut scratch = Vec::new();
    let mut count = 0;
    for buffer in file.buffers().flatten() {
        let data = buffer.data(&mut scratch);
        let origin = buffer.origin(file.clock(), 0);
        for record in Records::new(data.bytes, &origin, buffer.place()).flatten() {
            black_box((record.raw_time(), record.payload()));
            count += 1;
        }
    }
    Ok(count)
}
