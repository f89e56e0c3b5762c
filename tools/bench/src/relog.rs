//! The relog suite: traces written anew, in bytes of input a second.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use etw_testkit::data;
use etw_testkit::traces::{self, Kind, Recipe};
use openetw::relog::{Compression, Relogger};
use openetw::{EventFilter, Trace};

use super::row::Row;
use super::{Effort, median};
use shell::target_dir;

/// A real file with kernel and .NET events, in compressed buffers.
const REAL_FILE: &str = "microsoft-perfview/net.4.5.2.x64.etl";
/// Inputs are some hundred megabytes: this many times the events of other suites.
const LARGER: u64 = 4;

/// What is done with which files.
struct Job {
    what: &'static str,
    inputs: Vec<PathBuf>,
    filter: EventFilter,
    relogger: Relogger,
}

/// Measures everything that can be measured here.
pub(crate) fn rows(effort: &Effort) -> Result<Vec<Row>> {
    let directory = target_dir().join("bench");
    fs::create_dir_all(&directory)?;
    let events = effort.events * LARGER;
    let write = |name: &str, recipe: Recipe| -> Result<PathBuf> {
        let path = directory.join(name);
        fs::write(&path, traces::bytes(&recipe)?.0)?;
        Ok(path)
    };
    let mixed = write("mixed.etl", Recipe::new(Kind::Mixed, events))?;
    // Of other events, at the same times and on the same processors.
    let beside = write("beside.etl", Recipe::new(Kind::Mixed, events - 1))?;
    let switches = write("switches.etl", Recipe::new(Kind::Switches, 2 * events))?;
    let compressed = write("compressed.etl", Recipe::new(Kind::Compressed, events))?;
    let job = |what, inputs: &[&PathBuf], filter: &str, relogger| -> Result<Job> {
        let filter = match filter {
            "" => EventFilter::default(),
            text => EventFilter::default().expression(text)?,
        };
        Ok(Job { what, inputs: inputs.iter().map(|path| (*path).clone()).collect(), filter, relogger })
    };
    let plain = || Relogger::new().compression(Compression::Plain).overwrite(true);
    let keep = || Relogger::new().overwrite(true);
    let mut jobs = vec![
        job("merge: one file of mixed events", &[&mixed], "", keep())?,
        job("merge: two, event by event in turns", &[&mixed, &beside], "", keep())?,
        job("merge: one file of context switches", &[&switches], "", keep())?,
        job("merge: compressed, as it is", &[&compressed], "", keep())?,
        job("merge: compressed to plain", &[&compressed], "", plain())?,
        job("merge: plain to compressed", &[&mixed], "", keep().compression(Compression::Compressed))?,
        job("relog: a filter on the header that all pass", &[&mixed], "pid >= 0 or cpu >= 0", keep())?,
        job("relog: by process", &[&mixed], "pid == 4711", keep())?,
        job("relog: context switches of one processor", &[&switches], "cpu == 3", keep())?,
        job("relog: by a field of the payload", &[&mixed], "Bytes > 5", keep())?,
        job(
            "relog: with a field redacted",
            &[&mixed],
            "",
            keep().redact("OpenETW-Generated/Transfer.File".parse()?),
        )?,
    ];
    if let Some(real) = data::trace(REAL_FILE) {
        let path = directory.join("real.etl");
        fs::write(&path, real.read().map_err(|error| anyhow!(error))?)?;
        jobs.push(job("merge: real file, compressed, as it is", &[&path], "", keep())?);
        jobs.push(job("merge: real file, compressed to plain", &[&path], "", plain())?);
    }
    let output = directory.join("relogged.etl");
    let rows = jobs.iter().map(|job| measure(effort, job, &output)).collect();
    // The files are as large as a disk's cache.
    for path in jobs.iter().flat_map(|job| &job.inputs).chain([&output]) {
        let _ = fs::remove_file(path);
    }
    rows
}

fn measure(effort: &Effort, job: &Job, output: &Path) -> Result<Row> {
    let mut bytes = 0;
    for path in &job.inputs {
        bytes += fs::metadata(path)?.len();
    }
    let mut rates = Vec::new();
    for _ in 0..effort.rounds {
        let mut result = Ok(());
        // A file that replaces another is brought to the disk before it gets the name, by ext4 at least.
        let remove = || drop(fs::remove_file(output));
        let seconds = effort.seconds_after(remove, || {
            if let Err(error) = run(job, output) {
                result = Err(error);
            }
        });
        result?;
        rates.push(bytes as f64 / seconds / 1e6);
    }
    Ok(Row::new(format!("{} ({} MB)", job.what, bytes >> 20), median(&mut rates), "MB/s"))
}

fn run(job: &Job, output: &Path) -> Result<()> {
    let files = job.inputs.iter().fold(Trace::builder(), |builder, path| builder.file(path));
    let mut trace = files.filter(&job.filter).open()?;
    job.relogger.write(&mut trace, output)?;
    Ok(())
}
