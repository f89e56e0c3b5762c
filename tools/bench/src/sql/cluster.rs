//! How much faster a query is with more executors, each of which has half a processor, and what a cluster costs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::{Bench, KIND, run, text, write_files};
use crate::effort::median;
use crate::row::Row;
use shell::process::{HOUR, Process};

/// Numbers of executors.
const EXECUTORS: [usize; 3] = [1, 2, 4];
const TRACES: u64 = 8;
/// Time that one executor may run, in microseconds, of the period.
const QUOTA: u32 = 50_000;
const PERIOD: u32 = 100_000;
const TOKEN: &str = "a-token-for-one-bench-only";

impl Bench<'_> {
    /// Measures a sum over eight traces in one process, and in clusters of different sizes.
    pub(super) fn clusters(&self, directory: &Path, events: u64) -> Result<Vec<Row>> {
        let folder = directory.join("cluster");
        fs::create_dir(&folder)?;
        for number in 0..TRACES {
            let file = folder.join(format!("{number}.etl"));
            write_files(&file, events / TRACES)?;
            run(&self.etw, &["index", "--force", text(&file)?])?;
        }
        let query = format!("select sum(CreateOptions) from \"{KIND}\"");
        let millions = events as f64 / 1e6;
        let row = |who: &str, mut seconds: Vec<f64>| {
            let name = format!(
                "sum of a field of {millions:.0} M events in {TRACES} traces, {who} of half a processor"
            );
            Row::new(name, millions / median(&mut seconds), "M events/s")
        };
        let mut rows = Vec::new();
        let Some(alone) = Limit::new(0) else {
            eprintln!("skipped the clusters: control groups cannot be made");
            return Ok(rows);
        };
        let words = ["--threads", "1", text(&folder)?, &query];
        rows.push(row("one process", self.rounds(&words, Some(&alone))?));
        for count in EXECUTORS {
            // The scheduler has a limit too: with one executor, there is nothing to divide, and it reads the traces itself.
            let limits = (0..=count).map(|_| Limit::new(count)).collect::<Option<Vec<Limit>>>();
            let cluster = self.cluster(&limits.context("no more control groups")?, text(&folder)?)?;
            let words = ["--cluster", &cluster.address, text(&folder)?, &query];
            rows.push(row(&format!("{count} executors"), self.rounds(&words, None)?));
        }
        fs::remove_dir_all(&folder)?;
        Ok(rows)
    }

    /// Returns the seconds of each round of a query. One round before them is not counted: in it, the scheduler and the
    /// executors open the traces, which they keep.
    fn rounds(&self, words: &[&str], limit: Option<&Limit>) -> Result<Vec<f64>> {
        let mut seconds = Vec::new();
        for _ in 0..=self.effort.rounds {
            let start = Instant::now();
            let mut command = Command::new(&self.sql);
            command.args(words).env("OPENETW_CLUSTER_TOKEN", TOKEN).stdout(Stdio::null());
            let mut process = Process::spawn(&mut command, HOUR)?;
            limit.map_or(Ok(()), |limit| limit.add(process.id()))?;
            let status = process.wait()?;
            ensure!(status.success(), "the query fails: {status}");
            seconds.push(start.elapsed().as_secs_f64());
        }
        Ok(seconds.split_off(1))
    }

    fn cluster(&self, limits: &[Limit], root: &str) -> Result<Cluster> {
        let start = |words: &[&str], wanted: &str| -> Result<(Process, String)> {
            let mut command = Command::new(&self.sql);
            command.arg("cluster").args(words).env("OPENETW_CLUSTER_TOKEN", TOKEN).stdout(Stdio::piped());
            let mut process = Process::spawn(&mut command, HOUR)?;
            let out = process.take_stdout().context("the process has an output")?;
            let mut lines = BufReader::new(out).lines().map_while(Result::ok);
            let line = lines.find(|line| line.starts_with(wanted));
            // The rest is not read, but the pipe has to stay.
            std::thread::spawn(move || lines.for_each(drop));
            Ok((process, line.with_context(|| format!("{words:?} does not say '{wanted}'"))?))
        };
        let (scheduler, line) =
            start(&["scheduler", "--listen", "127.0.0.1:0", "--root", root], "listening on ")?;
        let address = line.trim_start_matches("listening on ").to_owned();
        let mut processes = Vec::new();
        let Some((of_scheduler, limits)) = limits.split_first() else { bail!("no limits") };
        of_scheduler.add(scheduler.id())?;
        for limit in limits {
            let words = ["executor", "--scheduler", &address, "--threads", "1", "--root", root];
            let (executor, _) = start(&words, "joined")?;
            limit.add(executor.id())?;
            processes.push(executor);
        }
        processes.push(scheduler);
        Ok(Cluster { address, _processes: processes })
    }
}

struct Cluster {
    address: String,
    /// They are killed when this is dropped.
    _processes: Vec<Process>,
}

/// A control group whose processes have half a processor.
struct Limit {
    group: PathBuf,
}

impl Limit {
    /// Makes a group; `None` without the rights, or without control groups.
    fn new(seed: usize) -> Option<Limit> {
        let root = Path::new("/sys/fs/cgroup");
        let is_unified = root.join("cgroup.controllers").exists();
        let parent = if is_unified { root.to_owned() } else { root.join("cpu") };
        let free = (0..1000)
            .map(|number| parent.join(format!("openetw-bench-{}-{seed}-{number}", std::process::id())));
        let group = free.into_iter().find(|group| !group.exists())?;
        fs::create_dir(&group).ok()?;
        let limit = Limit { group };
        let files: &[(&str, String)] = match is_unified {
            true => &[("cpu.max", format!("{QUOTA} {PERIOD}"))],
            false => &[("cpu.cfs_period_us", PERIOD.to_string()), ("cpu.cfs_quota_us", QUOTA.to_string())],
        };
        files.iter().try_for_each(|(name, value)| fs::write(limit.group.join(name), value)).ok()?;
        Some(limit)
    }

    fn add(&self, process: u32) -> Result<()> {
        fs::write(self.group.join("cgroup.procs"), process.to_string()).context("the control group")
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        // A group with processes stays; they have been killed before.
        let _ = fs::remove_dir(&self.group);
    }
}
