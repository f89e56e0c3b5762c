//! Tracers to compare: none, our session, perf, or ftrace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Error, Result, bail};
use openetw::kernel::EnableFlags;
use openetw::kernel::tracepoints::{TRACEPOINT_PROVIDER, TracepointSelection, filters_of};
use openetw::session::{EnableBuilder, ProviderKey, ProviderSpec, SessionBuilder};

use crate::session::Hosted;
use shell::output;

/// The session of the bench.
pub(super) const SESSION: &str = "bench";
/// Another one beside it.
pub(super) const OTHER: &str = "other";
/// Where the kernel's own tracing is.
const TRACEFS: &str = "/sys/kernel/tracing";

/// A tracer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tracer {
    Nobody,
    Ours,
    /// With these arguments of `perf record`.
    Perf(&'static [&'static str]),
    Ftrace,
    /// With this program of bpftrace, which prints a line for each event.
    Bpftrace(&'static str),
}

/// Runs of `perf record`: what each is called, and its arguments.
pub(super) type PerfRuns = &'static [(&'static str, &'static [&'static str])];

/// What is traced: the same by each tracer's names.
#[derive(Debug, Clone, Copy)]
pub(super) struct What {
    /// Flags of ours.
    pub(super) flags: &'static str,
    pub(super) perf: PerfRuns,
    /// A tracepoint that ours records, `SYSTEM:NAME`; empty for none.
    pub(super) tracepoint: &'static str,
    /// Directories of ftrace's events.
    pub(super) ftrace: &'static [&'static str],
    /// A program of bpftrace; empty for none.
    pub(super) bpftrace: &'static str,
    /// The time between two samples of ours, in units of 100 ns; 0 is the default.
    pub(super) sample_interval: u32,
}

impl What {
    pub(super) const NOTHING: What =
        What { flags: "", perf: &[], tracepoint: "", ftrace: &[], bpftrace: "", sample_interval: 0 };
}

impl Tracer {
    /// Runs a program while tracing; what it printed, and how many events were lost.
    pub(super) fn run(self, what: &What, host: &Hosted, program: &mut Command) -> Result<(String, u64)> {
        match self {
            Tracer::Nobody => Ok((output(program)?, 0)),
            Tracer::Ours => with_session(what, host, program),
            Tracer::Perf(arguments) => Ok((with_perf(arguments, host, program)?, 0)),
            Tracer::Ftrace => Ok((with_ftrace(what.ftrace, program)?, 0)),
            Tracer::Bpftrace(script) => Ok((with_bpftrace(script, host, program)?, 0)),
        }
    }
}

fn with_session(what: &What, host: &Hosted, program: &mut Command) -> Result<(String, u64)> {
    let mut controller = host.controller()?;
    let file = host.path("bench.etl");
    let flags = EnableFlags::parse(what.flags)?.flags.0;
    let session = SessionBuilder::new(SESSION).file(&file).enable_flags(flags);
    session.sample_interval(what.sample_interval).start(&mut controller)?;
    if !what.tracepoint.is_empty() {
        let patterns = vec![(what.tracepoint.parse().map_err(Error::msg)?, None)];
        let provider = EnableBuilder::new(ProviderSpec::new(ProviderKey::Guid(TRACEPOINT_PROVIDER)));
        let filters = filters_of(&TracepointSelection { patterns });
        controller.enable(SESSION, &filters.into_iter().fold(provider, EnableBuilder::filter))?;
    }
    let printed = output(program);
    let status = controller.stop(SESSION)?;
    fs::remove_file(&file)?;
    Ok((printed?, status.events_lost + status.log_events_lost))
}

/// Runs perf with rings large enough to lose nothing, like ours, and without collecting build ids afterwards, which
/// has crashed some versions of perf.
fn with_perf(arguments: &[&str], host: &Hosted, program: &mut Command) -> Result<String> {
    let file = host.path("perf.data");
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-a", "-B", "-m", "16M", "-o"]).arg(&file).args(arguments).arg("--");
    command.arg(program.get_program()).args(program.get_args());
    let printed = output(&mut command);
    // Nothing is there if perf could not start.
    let _ = fs::remove_file(&file);
    printed
}

/// Runs bpftrace, whose lines go to a file in memory.
fn with_bpftrace(script: &str, host: &Hosted, program: &mut Command) -> Result<String> {
    let file = host.path("bpftrace.txt");
    let words = std::iter::once(program.get_program()).chain(program.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let mut command = Command::new("bpftrace");
    command.args(["-q", "-e", script, "-c", &words.join(" "), "-o"]).arg(&file);
    let printed = output(&mut command);
    let _ = fs::remove_file(&file);
    printed
}

/// Writes events to ftrace's rings without a reader, its minimum cost.
fn with_ftrace(events: &[&str], program: &mut Command) -> Result<String> {
    let instance = Instance::new()?;
    for event in events {
        instance.set(&format!("events/{event}/enable"), "1")?;
    }
    output(program)
}

/// A separate instance of ftrace.
struct Instance(PathBuf);

impl Instance {
    fn new() -> Result<Instance> {
        let path = Path::new(TRACEFS).join("instances").join(format!("bench-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let instance = Instance(path);
        instance.set("buffer_size_kb", "16384")?;
        Ok(instance)
    }

    fn set(&self, name: &str, value: &str) -> Result<()> {
        let path = self.0.join(name);
        fs::write(&path, value).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // What stays is a directory in the kernel's memory.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Whether the tracer can run here; if not, one line that says why.
pub(super) fn check(tracer: Tracer) -> Result<()> {
    match tracer {
        Tracer::Nobody | Tracer::Ours => Ok(()),
        Tracer::Perf(_) => output(Command::new("perf").arg("--version")).map(drop),
        Tracer::Bpftrace(_) => output(Command::new("bpftrace").arg("--version")).map(drop),
        Tracer::Ftrace => match Path::new(TRACEFS).join("instances").is_dir() {
            true => Ok(()),
            false => bail!("{TRACEFS} is not mounted"),
        },
    }
}
