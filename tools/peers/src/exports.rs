//! Comparison of our exports with the counts of independent readers.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use etw_timeline::{Format, Selection, Summary};
use openetw::export::{ColumnFormat, ColumnsWriter, PcapngWriter};
use openetw::symbols::Symbolizer;
use openetw::{Event, Trace};
use serde_json::Value;

use peers::python;
use shell::{output, root};

/// A trace with samples, stacks, switches and events of many providers, and one with packets.
const TRACE: &str = "etl/microsoft-perfview/net.4.5.2.x64.etl";
const PACKETS: &str = "etl/microsoft-demikernel/PktMon.etl";

/// Compares; returns the number of differences.
pub(super) fn compare(directory: &Path) -> Result<usize> {
    let Some(data) = etw_testkit::data::data_dir() else { return Ok(0) };
    fs::create_dir_all(directory)?;
    let mut differences = 0;
    for (name, format) in [
        ("perfetto", Format::Perfetto),
        ("chrome", Format::Chrome),
        ("firefox", Format::Firefox),
        ("speedscope", Format::Speedscope),
    ] {
        let path = directory.join(name);
        let summary = timeline(&data.join(TRACE), format, &path).context(name)?;
        let mut expected = vec![("samples", summary.samples), ("problems", 0)];
        match format {
            Format::Perfetto => {
                expected = vec![
                    ("perf_sample", summary.samples),
                    ("sched_switch", summary.switches),
                    ("sched_waking", summary.wakeups),
                    ("begin", summary.slices),
                    ("end", summary.slices - summary.unfinished),
                    ("instant", summary.instants),
                    ("problems", 0),
                ];
            }
            Format::Chrome => expected.push(("i", summary.instants + summary.wakeups)),
            Format::Firefox => expected.push(("markers", summary.instants + summary.of_slices)),
            _ => {}
        }
        differences += check(name, &path, &expected)?;
    }
    let path = directory.join("pcapng");
    let mut writer = PcapngWriter::new(BufWriter::new(File::create(&path)?))?;
    for_each(&data.join(PACKETS), |event| Ok(writer.put(event)?))?;
    differences += check("pcapng", &path, &[("packets", writer.finish()?.packets)])?;
    for (name, format) in [("parquet", ColumnFormat::Parquet), ("arrow", ColumnFormat::Arrow)] {
        differences += columns(name, format, &data.join(TRACE), &directory.join(name))?;
    }
    Ok(differences)
}

fn timeline(trace: &Path, format: Format, path: &Path) -> Result<Summary> {
    let mut trace = Trace::open_file(trace)?;
    let mut out = BufWriter::new(File::create(path)?);
    let symbolizer = Symbolizer::new();
    Ok(etw_timeline::write(&mut trace, format, &Selection::default(), &symbolizer, &mut out, &|_| ())?)
}

fn columns(name: &str, format: ColumnFormat, trace: &Path, directory: &PathBuf) -> Result<usize> {
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    let mut writer = ColumnsWriter::new(format, 1, |name| {
        let path = directory.join(name);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        Ok(BufWriter::new(File::create(path)?))
    });
    for_each(trace, |event| Ok(writer.put(event)?))?;
    let summary = writer.finish()?;
    check(name, directory, &[("rows", summary.events), ("files", summary.files)])
}

fn for_each(trace: &Path, mut put: impl FnMut(&Event<'_>) -> Result<()>) -> Result<()> {
    let mut trace = Trace::open_file(trace)?;
    let mut result = Ok(());
    trace.for_each_event(|event| {
        if result.is_ok() {
            result = put(event);
        }
    })?;
    result
}

/// Returns the number of counts that differ.
fn check(format: &str, path: &Path, expected: &[(&str, u64)]) -> Result<usize> {
    let script = root().join("bench/peers/export_check.py");
    let text = output(Command::new(python()).arg(script).arg(format).arg(path))?;
    let found: Value = serde_json::from_str(&text).with_context(|| format!("{format}: no JSON: {text}"))?;
    let mut differences = 0;
    for (what, expected) in expected {
        // A missing item is not counted.
        let count = found[*what].as_u64().unwrap_or(0);
        if count != *expected {
            eprintln!("export: {format}: the reader finds {count} {what}, not {expected}: {found}");
            differences += 1;
        }
    }
    if differences == 0 {
        eprintln!("export: {format}: the reader agrees");
    }
    Ok(differences)
}
