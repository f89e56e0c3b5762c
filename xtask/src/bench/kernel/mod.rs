//! What tracing the kernel costs those who are traced, beside perf and ftrace in the same run.

pub(crate) mod load;
mod tracer;

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use openetw::kernel::{EnableFlags, Flag, Support};
use openetw::session::{ControllerError, ErrorKind, LogFileMode, SessionBuilder};

use super::session::Hosted;
use super::{Effort, Row, median};
use load::Load;
use tracer::{PerfRuns, SESSION, Tracer, What, check};

/// A comparison.
struct Case {
    /// What one of it is called.
    name: &'static str,
    unit: &'static str,
    load: Load,
    /// How often the load does what it does, and how many of the unit each time is.
    count: u64,
    times: u64,
    what: What,
}

const SWITCH_EVENTS: &[&str] = &["sched/sched_switch"];
const READY_EVENTS: &[&str] = &["sched/sched_switch", "sched/sched_waking"];
const SYSTEM_CALL_EVENTS: &[&str] = &["raw_syscalls/sys_enter", "raw_syscalls/sys_exit"];
const PERF_SYSTEM_CALLS: PerfRuns =
    &[("perf record", &["-e", "raw_syscalls:sys_enter", "-e", "raw_syscalls:sys_exit"])];

const CASES: &[Case] = &[
    Case {
        name: "added to a context switch",
        unit: "ns/switch",
        load: Load::Switches,
        count: 100_000,
        times: 2,
        what: What {
            flags: "CSWITCH",
            perf: &[("perf record", &["-e", "sched:sched_switch"])],
            ftrace: SWITCH_EVENTS,
            ..What::NOTHING
        },
    },
    Case {
        name: "added to a context switch with its ready thread",
        unit: "ns/switch",
        load: Load::Switches,
        count: 100_000,
        times: 2,
        what: What {
            flags: "CSWITCH+DISPATCHER",
            perf: &[("perf record", &["-e", "sched:sched_switch", "-e", "sched:sched_waking"])],
            ftrace: READY_EVENTS,
            ..What::NOTHING
        },
    },
    Case {
        name: "added to a system call",
        unit: "ns/call",
        load: Load::SystemCalls,
        count: 1_000_000,
        times: 1,
        what: What { flags: "SYSCALL", perf: PERF_SYSTEM_CALLS, ftrace: SYSTEM_CALL_EVENTS, ..What::NOTHING },
    },
    Case {
        name: "added to open, read and close (peers: bare system calls)",
        unit: "ns/file",
        load: Load::Files,
        count: 100_000,
        times: 1,
        what: What { flags: "FILE_IO", perf: PERF_SYSTEM_CALLS, ftrace: SYSTEM_CALL_EVENTS, ..What::NOTHING },
    },
    Case {
        name: "added to a send and its receive (peers: socket lengths)",
        unit: "ns/message",
        load: Load::Network,
        count: 50_000,
        times: 2,
        what: What {
            flags: "NETWORKTRACE",
            perf: &[("perf record", &["-e", "sock:sock_send_length", "-e", "sock:sock_recv_length"])],
            ftrace: &["sock/sock_send_length", "sock/sock_recv_length"],
            ..What::NOTHING
        },
    },
];

/// How often is sampled while a program computes: more often than by default, for the sake of what is seen.
const SAMPLES_INTERVAL: Duration = Duration::from_micros(200);

const SAMPLES: Case = Case {
    name: "added to a sample with its stack",
    unit: "ns/sample",
    load: Load::Computing,
    count: 2_000_000_000,
    times: 1,
    what: What {
        flags: "PROFILE",
        perf: &[
            ("perf record -g", &["-e", "cpu-clock/call-graph=fp/", "-F", "5000"]),
            (
                "perf record --call-graph dwarf",
                &["-e", "cpu-clock/call-graph=dwarf,stack-size=32768/", "-F", "5000"],
            ),
            // The program is never in the kernel.
            ("the interrupt alone", &["-e", "cpu-clock:k", "-F", "5000"]),
        ],
        sample_interval: (SAMPLES_INTERVAL.as_nanos() / 100) as u32,
        ..What::NOTHING
    },
};

/// What a person records of a build, and the like of perf.
const BUILD: Case = Case {
    name: "a build takes longer by",
    unit: "%",
    load: Load::Build,
    count: 1,
    times: 1,
    what: What {
        flags: "PROC_THREAD+LOADER+CSWITCH+PROFILE",
        // Ours copies stacks as the second does, and leaves frame pointers for what the copies do not tell.
        perf: &[
            ("perf record -g", &["-e", "cpu-clock/call-graph=fp/", "-F", "1000", "-e", "sched:sched_switch"]),
            (
                "perf record --call-graph dwarf",
                &[
                    "-e",
                    "cpu-clock/call-graph=dwarf,stack-size=32768/",
                    "-F",
                    "1000",
                    "-e",
                    "sched:sched_switch",
                ],
            ),
        ],
        ftrace: SWITCH_EVENTS,
        ..What::NOTHING
    },
};

/// Measures everything; `seconds` is for the recording of a busy machine.
pub(super) fn rows(effort: &Effort, seconds: f64) -> Result<Vec<Row>> {
    let host = Hosted::start()?;
    if let Err(error) = Tracer::Ours.run(&BUILD.what, &host, &mut Command::new("true")) {
        let kind = error.downcast_ref().and_then(ControllerError::kind);
        if kind != Some(ErrorKind::NotSupported) {
            return Err(error);
        }
        eprintln!("the kernel cannot be traced here: {error:#}");
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for case in CASES {
        let count = if effort.is_smoke() { case.count / 100 } else { case.count };
        let divisor = (count * case.times) as f64;
        let nanos = compare(effort, &host, case, count)?;
        let name = format!("{}, not traced", case.load.name());
        rows.push(Row::new(name, nanos.base / divisor, case.unit));
        rows.extend(nanos.rows(case, |base, value| (value - base) / divisor));
    }
    let count = if effort.is_smoke() { SAMPLES.count / 100 } else { SAMPLES.count };
    let nanos = compare(effort, &host, &SAMPLES, count)?;
    let interval = SAMPLES_INTERVAL.as_nanos() as f64;
    rows.push(Row::new("computing, not traced", nanos.base / 1e9, "s"));
    rows.extend(nanos.rows(&SAMPLES, |base, value| (value - base) / (value / interval)));
    if !effort.is_smoke() {
        let nanos = compare(effort, &host, &BUILD, 1)?;
        rows.push(Row::new("build, not traced", nanos.base / 1e9, "s"));
        rows.extend(nanos.rows(&BUILD, |base, value| (value / base - 1.0) * 100.0));
    }
    rows.extend(busy(&host, seconds)?);
    Ok(rows)
}

/// Medians of what the runs took, in nanoseconds.
struct Nanos {
    base: f64,
    ours: f64,
    events_lost: u64,
    peers: Vec<(&'static str, f64)>,
}

impl Nanos {
    /// A row for each peer with what tracing adds, `of` the time without it and with it.
    fn rows(&self, case: &Case, of: impl Fn(f64, f64) -> f64) -> Vec<Row> {
        let ours = of(self.base, self.ours);
        let row = |peer| Row { peer, events_lost: self.events_lost, ..Row::new(case.name, ours, case.unit) };
        match self.peers.as_slice() {
            [] => vec![row(None)],
            peers => peers.iter().map(|(peer, value)| row(Some((*peer, of(self.base, *value))))).collect(),
        }
    }
}

/// Runs a load under each tracer in turn, round by round.
fn compare(effort: &Effort, host: &Hosted, case: &Case, count: u64) -> Result<Nanos> {
    let mut tracers = vec![("", Tracer::Nobody), ("", Tracer::Ours)];
    let perf = case.what.perf.iter().map(|(name, arguments)| (*name, Tracer::Perf(arguments)));
    let ftrace = Some(("ftrace, unread", Tracer::Ftrace)).filter(|_| !case.what.ftrace.is_empty());
    for (name, tracer) in perf.chain(ftrace) {
        match check(tracer) {
            Ok(()) => tracers.push((name, tracer)),
            Err(error) => eprintln!("without {name}: {error:#}"),
        }
    }
    let mut values = vec![Vec::new(); tracers.len()];
    let mut events_lost = 0;
    for _ in 0..effort.rounds {
        for ((_, tracer), values) in tracers.iter().zip(&mut values) {
            let mut program = command(case.load, count, host);
            let (printed, lost) = tracer.run(&case.what, host, &mut program)?;
            values.push(printed.trim().parse::<f64>().context("a load printed no time")?);
            events_lost += lost;
        }
    }
    let mut medians = values.iter_mut().map(|values| median(values));
    let (base, ours) = (medians.next().unwrap_or(0.0), medians.next().unwrap_or(0.0));
    let names = tracers.iter().skip(2).map(|(name, _)| *name);
    Ok(Nanos { base, ours, events_lost, peers: names.zip(medians).collect() })
}

fn command(load: Load, count: u64, host: &Hosted) -> Command {
    let mut command = host.part("load");
    command.arg(load.name()).arg(count.to_string()).arg("--directory").arg(host.path(""));
    command
}

/// Records everything that there is of two busy programs, and says what that takes.
fn busy(host: &Hosted, seconds: f64) -> Result<Vec<Row>> {
    let captured = |flag: &&Flag| matches!(flag.support, Support::Captured(_));
    let flags = EnableFlags::KNOWN.iter().filter(captured).fold(0, |flags, flag| flags | flag.bit);
    let mut controller = host.controller()?;
    let file = host.path("busy.etl");
    SessionBuilder::new(SESSION)
        .file(&file)
        .mode(LogFileMode::CIRCULAR)
        .maximum_file_size_mib(512)
        .enable_flags(flags)
        .start(&mut controller)?;
    let (start, before) = (Instant::now(), host.cpu_seconds()?);
    let millis = (seconds * 1e3) as u64;
    let mut programs = Vec::new();
    for _ in 0..2 {
        programs.push(command(Load::Busy, millis, host).stdout(Stdio::null()).spawn()?);
    }
    for mut program in programs {
        ensure!(program.wait()?.success(), "a busy program failed");
    }
    let (cpu, elapsed) = (host.cpu_seconds()? - before, start.elapsed().as_secs_f64());
    let memory = host.most_memory_mib()?;
    let status = controller.stop(SESSION)?;
    fs::remove_file(&file)?;
    let lost = status.events_lost + status.log_events_lost;
    let row = |name: &str, value, unit| Row {
        events_lost: lost,
        ..Row::new(format!("everything of a busy machine for {elapsed:.0} s, {name}"), value, unit)
    };
    Ok(vec![
        row("events", status.events_written as f64 / elapsed, "events/s"),
        row("the host's CPU", cpu / elapsed * 100.0, "% of one"),
        row("the host's memory", memory, "MiB"),
    ])
}
