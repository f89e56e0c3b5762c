//! `etw-sql` against DuckDB, which answers the same queries over the exported tables.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use etw_testkit::data::{self, TraceFile};
use etw_testkit::problems::Problem;
use openetw::Trace;
use openetw::tables::EventKinds;
use peers::python;
use serde_json::Value as Json;
use shell::{built, output, root};

/// Traces of Windows with many kinds of tables.
const TRACES: [&str; 5] = [
    "microsoft-perfview/net.4.5.2.x64.etl",
    "airbus-cert-etl-parser/ShutdownPerfDiagLogger.etl",
    "mikesart-gpuvis/wintracecmd.etl.zst",
    "microsoft-Tx/KernelNetwork.etl",
    "microsoft-perfview/diaghub/diaghub.kernel.1.etl",
];
/// Kinds of events that queries name.
const KINDS: [&str; 4] = ["Thread/CSwitch", "DiskIo/Read", "Process/DCStart", "Image/DCStart"];
/// Least number of queries that have rows on one of the traces.
const ANSWERED: usize = 50;

/// Compares the answers to the queries of `sql/tests/queries.sql`.
pub(super) fn compare(directory: &Path, all: bool) -> Result<usize> {
    let real = data::traces();
    let (mut differences, mut answered) = (0, BTreeSet::new());
    fs::create_dir_all(directory)?;
    let mut traces: Vec<(&str, PathBuf)> = Vec::new();
    let chosen = |trace: &&TraceFile| all || TRACES.contains(&&*trace.name);
    for (name, problem) in Problem::ALL {
        let file = directory.join(format!("{name}.etl"));
        fs::write(&file, problem.bytes()?)?;
        traces.push((name, file));
    }
    traces.extend(real.iter().flatten().filter(chosen).map(|trace| (&*trace.name, trace.path.clone())));
    for (number, (name, trace)) in traces.iter().enumerate() {
        let folder = directory.join(number.to_string());
        export(trace, &folder).with_context(|| (*name).to_owned())?;
        let mut command = Command::new(python());
        command.arg(root().join("bench/peers/queries.py"));
        command.arg(built("etw-sql")?).arg(trace).arg(&folder).arg(root().join("sql/tests/queries.sql"));
        let text = output(&mut command)?;
        let found: Json = serde_json::from_str(&text).with_context(|| format!("no JSON: {text}"))?;
        for difference in found["differences"].as_array().into_iter().flatten() {
            eprintln!("queries: {name}: {difference}");
            differences += 1;
        }
        answered.extend(found["some"].as_array().into_iter().flatten().filter_map(Json::as_u64));
        eprintln!("queries: {name}: {} queries with {} rows", found["queries"], found["rows"]);
    }
    eprintln!("queries: {} have rows on one of the traces", answered.len());
    if real.is_some() && answered.len() < ANSWERED {
        bail!("only {} queries have rows", answered.len());
    }
    Ok(differences)
}

/// Writes the tables of a trace, and those of kinds of its events, as Parquet files.
fn export(trace: &Path, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    let mut kinds = EventKinds::default();
    Trace::open_file(trace)?.for_each_event(|event| kinds.add(event))?;
    let mut command = Command::new(built("etw")?);
    command.arg("export").arg(trace).arg("-o").arg(folder).args(["--format", "parquet"]);
    command.args(["--table", "all"]);
    output(&mut command)?;
    for kind in KINDS.iter().filter(|kind| kinds.find(kind).is_some()) {
        let file = folder.join(format!("{kind}.parquet"));
        fs::create_dir_all(file.parent().unwrap_or(folder))?;
        let mut command = Command::new(built("etw")?);
        command.arg("export").arg(trace).arg("-o").arg(file).args(["--table", kind]);
        output(&mut command)?;
    }
    Ok(())
}
