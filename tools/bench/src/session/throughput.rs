//! Throughput of a session in events per second.

use std::process::Stdio;

use anyhow::Result;
use openetw::session::{EnableBuilder, LogFileMode, SessionBuilder, SessionStatus};

use super::host::{Hosted, Lines};
use super::{PROVIDER, Row, manifest};
use shell::process::{MINUTES_15, Process};

/// A session of the bench.
pub(super) const SESSION: &str = "bench";

/// 1.5 trillion events a day.
const REAL_TIME_RATE: u64 = 17_400_000;
/// Required rate to a file from one thread.
const FILE_RATE: u64 = 15_000_000;

/// Where the events go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// A consumer in another process that decodes every field.
    RealTime,
    /// A file in memory whose newest 512 MiB are kept.
    CircularFile,
    /// A file in memory.
    File,
}

/// Results of a run.
struct Outcome {
    /// Events a second that arrived.
    rate: f64,
    lost: u64,
}

pub(super) fn rows(seconds: f64) -> Result<Vec<Row>> {
    let host = Hosted::start()?;
    let mut rows = Vec::new();
    let mut row = |name: String, outcome: &Outcome| {
        rows.push(Row { events_lost: outcome.lost, ..Row::new(name, outcome.rate, "events/s") });
    };
    for (target, name, rate) in [
        (Target::RealTime, "session to a consumer that decodes every field", REAL_TIME_RATE),
        (Target::CircularFile, "session to a file in memory, circular", FILE_RATE),
    ] {
        let outcome = run(&host, target, rate, seconds)?;
        row(format!("{name}, {:.1} M/s for {seconds:.0} s", rate as f64 / 1e6), &outcome);
    }
    // A file that keeps everything takes the machine's memory.
    let outcome = run(&host, Target::File, FILE_RATE, seconds.min(4.0))?;
    row(
        format!(
            "session to a file in memory, {:.1} M/s for {:.0} s",
            FILE_RATE as f64 / 1e6,
            seconds.min(4.0)
        ),
        &outcome,
    );
    for (target, name) in [
        (Target::RealTime, "the same to a consumer, most without loss"),
        (Target::CircularFile, "the same to a file, most without loss"),
    ] {
        let mut best = Outcome { rate: 0.0, lost: 0 };
        for step in 1..=16 {
            let outcome = run(&host, target, 5_000_000 * step, (seconds / 20.0).min(3.0))?;
            if outcome.lost > 0 {
                break;
            }
            best = outcome;
        }
        row(name.to_owned(), &best);
    }
    Ok(rows)
}

fn run(host: &Hosted, target: Target, rate: u64, seconds: f64) -> Result<Outcome> {
    let mut controller = host.controller()?;
    let mut session = SessionBuilder::new(SESSION);
    let file = host.path("bench.etl");
    session = match target {
        Target::RealTime => session.real_time(),
        Target::CircularFile => session.file(&file).mode(LogFileMode::CIRCULAR).maximum_file_size_mib(512),
        Target::File => session.file(&file),
    };
    session.start(&mut controller)?;
    controller.enable(SESSION, &EnableBuilder::new(PROVIDER.parse()?))?;
    let mut consumer = match target {
        Target::RealTime => Some(consumer(host, false)?),
        _ => None,
    };
    let mut writer = writer(host, rate, seconds)?;
    let [written, refused, nanos, _] = Lines::from_process(&mut writer)?.numbers()?;
    writer.wait()?;
    let status = controller.stop(SESSION)?;
    anyhow::ensure!(
        status.events_written + status.events_lost == written && status.events_lost == refused,
        "{written} events written, {refused} refused, but the session says {status:?}"
    );
    let (mut arrived, mut nanos_taken) = (status.events_written - status.log_events_lost, nanos);
    if let Some((process, lines)) = &mut consumer {
        let [events, between] = lines.numbers()?;
        process.wait()?;
        anyhow::ensure!(
            events + status.real_time_events_lost == status.events_written,
            "{events} events arrived, but the session says {status:?}"
        );
        (arrived, nanos_taken) = (events, between);
    }
    std::fs::remove_file(&file).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    Ok(Outcome { rate: arrived as f64 / (nanos_taken.max(1) as f64 / 1e9), lost: lost(&status) })
}

fn lost(status: &SessionStatus) -> u64 {
    status.events_lost + status.log_events_lost + status.real_time_events_lost
}

/// A consumer that listens, and what it prints.
pub(super) fn consumer(host: &Hosted, latencies: bool) -> Result<(Process, Lines)> {
    let file = host.path("bench.man");
    std::fs::write(&file, manifest())?;
    let mut command = host.part("consumer");
    command.arg(SESSION).arg(&file).stdout(Stdio::piped());
    if latencies {
        command.arg("--latencies");
    }
    let mut process = Process::spawn(&mut command, MINUTES_15)?;
    let mut lines = Lines::from_process(&mut process)?;
    // It says when it listens.
    lines.next()?;
    Ok((process, lines))
}

/// A process that writes `rate` events a second.
pub(super) fn writer(host: &Hosted, rate: u64, seconds: f64) -> Result<Process> {
    let mut command = host.part("writer");
    command.args(["--rate", &rate.to_string(), "--seconds", &seconds.to_string()]);
    Process::spawn(command.stdout(Stdio::piped()), MINUTES_15)
}
