//! The schemas suite: what the built-in schemas of Windows' providers cost when they are used.

use std::fs;
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use etw_schema_windows::Pack;
use etw_testkit::traces::{self, Kind, Recipe};

use super::packaged::packaged_etw;
use super::row::Row;
use super::{Effort, median};
use shell::process::{MINUTES_15, Process};
use shell::root;

/// Look-ups per round of layouts that are known already.
const LOOK_UPS: u32 = 100_000;

/// Measures the pack by itself, then commands that start, use it and end.
pub(crate) fn rows(effort: &Effort) -> Result<Vec<Row>> {
    let file = fs::read(root().join("crates/etw_schema_windows/data/windows.pack"))?;
    let (mut opened, mut first, mut known) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..effort.rounds {
        let start = Instant::now();
        let pack = Pack::open(&file)?;
        opened.push(start.elapsed().as_secs_f64() * 1e9);

        // Another provider in each round, whose group is not yet unpacked.
        let at = (round * 97 + 13) % pack.providers().len();
        let guid = pack.providers().get(at).context("the pack is empty")?.guid;
        let start = Instant::now();
        let block = pack.block(&guid)?.context("no such provider")?;
        let layout = block.layouts().next().context("no event")?.schema;
        let (id, version) = (layout.descriptor.id, layout.descriptor.version);
        black_box(block.event(id, version, u32::MAX));
        first.push(start.elapsed().as_secs_f64() * 1e9);

        let start = Instant::now();
        for _ in 0..LOOK_UPS {
            let block = pack.block(black_box(&guid))?.context("no such provider")?;
            black_box(block.event(id, version, u32::MAX));
        }
        known.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(LOOK_UPS));
    }
    let mut rows = vec![
        Row::new("open the pack", median(&mut opened) / 1e6, "ms"),
        Row::new("first event of a provider", median(&mut first) / 1e6, "ms"),
        Row::new("an event of a provider in use", median(&mut known), "ns"),
    ];

    let etw = packaged_etw(effort)?;
    let directory = tempfile::Builder::new().prefix("openetw-schemas-").tempdir()?;
    let trace = directory.path().join("small.etl");
    fs::write(&trace, traces::bytes(&Recipe::new(Kind::Mixed, 100))?.0)?;
    let trace = trace.to_string_lossy();
    for arguments in [&["info", &trace][..], &["provider", "search", "dns"]] {
        let mut times = Vec::new();
        for _ in 0..effort.rounds {
            let mut command = Command::new(&etw);
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let start = Instant::now();
            let status = Process::spawn(&mut command, MINUTES_15)?.wait()?;
            anyhow::ensure!(status.success(), "etw {} failed: {status}", arguments.join(" "));
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let what = if arguments.contains(&"info") { "info of a small trace" } else { "provider search dns" };
        rows.push(Row::new(format!("etw {what}"), median(&mut times), "ms"));
    }
    Ok(rows)
}
