//! The kernel suite: the overhead of tracing for traced programs, compared with perf, ftrace and bpftrace in the same run.

pub(crate) mod load;
mod tracer;

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use openetw::kernel::{EnableFlags, Flag, Support};
use openetw::session::{ControllerError, ErrorKind, LogFileMode, SessionBuilder};

use super::session::Hosted;
use super::{Effort, Row, median};
use load::Load;
use shell::output;
use shell::process::{MINUTES_15, Process};
use tracer::{OTHER, PerfRuns, SESSION, Tracer, What, check};

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
        name: "added to a system call by its tracepoint",
        unit: "ns/call",
        load: Load::SystemCalls,
        count: 300_000,
        times: 1,
        what: What {
            tracepoint: "syscalls:sys_enter_getppid",
            perf: &[("perf record", &["-e", "syscalls:sys_enter_getppid"])],
            ftrace: &["syscalls/sys_enter_getppid"],
            bpftrace: r#"tracepoint:syscalls:sys_enter_getppid { printf("%d %d\n", tid, cpu); }"#,
            ..What::NOTHING
        },
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

/// Sampling interval while a program computes; shorter than the default, so that the overhead is visible.
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

/// A typical recording of a build, and the equivalent for perf.
const BUILD: Case = Case {
    name: "a build takes longer by",
    unit: "%",
    load: Load::Build,
    count: 1,
    times: 1,
    what: What {
        flags: "PROC_THREAD+LOADER+CSWITCH+PROFILE",
        // Ours copies stacks like the second one, and uses frame pointers where the copies do not suffice.
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
        rows.push(Row::new(name, nanos.untraced() / divisor, case.unit));
        rows.extend(nanos.rows(case, |base, value| (value - base) / divisor));
    }
    let count = if effort.is_smoke() { SAMPLES.count / 100 } else { SAMPLES.count };
    let nanos = compare(effort, &host, &SAMPLES, count)?;
    let interval = SAMPLES_INTERVAL.as_nanos() as f64;
    rows.push(Row::new("computing, not traced", nanos.untraced() / 1e9, "s"));
    rows.extend(nanos.rows(&SAMPLES, |base, value| (value - base) / (value / interval)));
    if !effort.is_smoke() {
        let nanos = compare(effort, &host, &BUILD, 1)?;
        rows.push(Row::new("build, not traced", nanos.untraced() / 1e9, "s"));
        rows.extend(nanos.rows(&BUILD, |base, value| (value / base - 1.0) * 100.0));
        rows.extend(host_in_build(&host)?);
    }
    rows.extend(busy(&host, seconds)?);
    Ok(rows)
}

/// Durations of the runs in nanoseconds, by round.
struct Nanos {
    base: Vec<f64>,
    ours: Vec<f64>,
    events_lost: u64,
    peers: Vec<(&'static str, Vec<f64>)>,
}

impl Nanos {
    /// Returns the median of the rounds' times without tracing.
    fn untraced(&self) -> f64 {
        median(&mut self.base.clone())
    }

    /// A row for each peer with what tracing adds, `of` the time without it and with it. The two are those of one round,
    /// since machines are not equally fast at all times; then the median is taken.
    fn rows(&self, case: &Case, of: impl Fn(f64, f64) -> f64) -> Vec<Row> {
        let added = |values: &[f64]| {
            median(
                &mut self.base.iter().zip(values).map(|(base, value)| of(*base, *value)).collect::<Vec<_>>(),
            )
        };
        let ours = added(&self.ours);
        let row = |peer| Row { peer, events_lost: self.events_lost, ..Row::new(case.name, ours, case.unit) };
        match self.peers.as_slice() {
            [] => vec![row(None)],
            peers => peers.iter().map(|(peer, values)| row(Some((*peer, added(values))))).collect(),
        }
    }
}

/// Runs a load under each tracer in turn, round by round.
fn compare(effort: &Effort, host: &Hosted, case: &Case, count: u64) -> Result<Nanos> {
    let mut nanos = Nanos { base: Vec::new(), ours: Vec::new(), events_lost: 0, peers: Vec::new() };
    let perf = case.what.perf.iter().map(|(name, arguments)| (*name, Tracer::Perf(arguments)));
    let ftrace = Some(("ftrace, unread", Tracer::Ftrace)).filter(|_| !case.what.ftrace.is_empty());
    let mut tracers = Vec::new();
    let bpftrace = Some(("bpftrace, printing", Tracer::Bpftrace(case.what.bpftrace)));
    let bpftrace = bpftrace.filter(|_| !case.what.bpftrace.is_empty());
    for (name, tracer) in perf.chain(ftrace).chain(bpftrace) {
        match check(tracer) {
            Ok(()) => {
                tracers.push(tracer);
                nanos.peers.push((name, Vec::new()));
            }
            Err(error) => eprintln!("without {name}: {error:#}"),
        }
    }
    let run = |tracer: Tracer, events_lost: &mut u64| {
        let (printed, lost) = tracer.run(&case.what, host, &mut command(case.load, count, host))?;
        *events_lost += lost;
        printed.trim().parse::<f64>().context("a load printed no time")
    };
    for _ in 0..effort.rounds {
        nanos.base.push(run(Tracer::Nobody, &mut nanos.events_lost)?);
        nanos.ours.push(run(Tracer::Ours, &mut nanos.events_lost)?);
        for (tracer, (_, values)) in tracers.iter().zip(&mut nanos.peers) {
            values.push(run(*tracer, &mut nanos.events_lost)?);
        }
    }
    Ok(nanos)
}

fn command(load: Load, count: u64, host: &Hosted) -> Command {
    let mut command = host.part("load");
    command.arg(load.name()).arg(count.to_string()).arg("--directory").arg(host.path(""));
    command
}

/// Records a build again, and reports the cost for the host and the quality of stacks.
fn host_in_build(host: &Hosted) -> Result<Vec<Row>> {
    let mut controller = host.controller()?;
    let file = host.path("build.etl");
    let flags = EnableFlags::parse(BUILD.what.flags)?.flags.0;
    SessionBuilder::new(SESSION).file(&file).enable_flags(flags).start(&mut controller)?;
    let (start, cpu, waits) = (Instant::now(), host.cpu_seconds()?, host.waits()?);
    output(&mut command(Load::Build, 1, host))?;
    let elapsed = start.elapsed().as_secs_f64();
    let (cpu, waits) = (host.cpu_seconds()? - cpu, host.waits()? - waits);
    let status = controller.stop(SESSION)?;
    fs::remove_file(&file)?;
    let lost = status.events_lost + status.log_events_lost;
    let row = |name: &str, value, unit| Row {
        events_lost: lost,
        ..Row::new(format!("a recorded build, {name}"), value, unit)
    };
    let mut rows = vec![
        row("the host's CPU", cpu / elapsed * 100.0, "% of one"),
        row("the host is woken", waits / elapsed, "times/s"),
    ];
    // `N of M stacks of programs are cut`; printed only if some are.
    if let Some(line) = status.system_missing.iter().find(|line| line.contains("stacks of programs are cut"))
    {
        let mut numbers = line.split(' ').filter_map(|word| word.parse::<f64>().ok());
        let (cut, all) = numbers.next().zip(numbers.next()).context("how many stacks were cut")?;
        rows.push(row("stacks of programs that were cut", cut / all * 100.0, "%"));
    }
    Ok(rows)
}

/// Numbers of idle processes, and of sessions that start and stop during a recording.
const IDLE: usize = 500;
const OTHERS: u32 = 10;

/// Records everything that there is of two busy programs, and says what that takes; then for a while with other sessions
/// beside it.
fn busy(host: &Hosted, seconds: f64) -> Result<Vec<Row>> {
    let captured = |flag: &&Flag| matches!(flag.support, Support::Captured(_));
    let flags = EnableFlags::KNOWN.iter().filter(captured).fold(0, |flags, flag| flags | flag.bit);
    let of_everything = |name: &str| {
        let session = SessionBuilder::new(SESSION).file(host.path(name)).enable_flags(flags);
        session.mode(LogFileMode::CIRCULAR).maximum_file_size_mib(512)
    };
    let mut controller = host.controller()?;
    of_everything("busy.etl").start(&mut controller)?;
    let (start, before) = (Instant::now(), host.cpu_seconds()?);
    Programs::start(host, seconds)?.wait()?;
    let (cpu, elapsed) = (host.cpu_seconds()? - before, start.elapsed().as_secs_f64());
    let memory = host.most_memory_mib()?;
    let status = controller.stop(SESSION)?;
    fs::remove_file(host.path("busy.etl"))?;
    let row = |name: &str, value, unit| Row {
        events_lost: status.events_lost + status.log_events_lost,
        ..Row::new(format!("everything of a busy machine for {elapsed:.0} s, {name}"), value, unit)
    };
    let mut rows = vec![
        row("events", status.events_written as f64 / elapsed, "events/s"),
        row("the host's CPU", cpu / elapsed * 100.0, "% of one"),
        row("the host's memory", memory, "MiB"),
    ];

    let seconds = seconds / 4.0;
    let mut idle = Programs(Vec::new());
    for _ in 0..IDLE {
        idle.0.push(Process::spawn(Command::new("sleep").arg("1000"), MINUTES_15)?);
    }
    of_everything("beside.etl").start(&mut controller)?;
    let start = Instant::now();
    let programs = Programs::start(host, seconds)?;
    let flags = EnableFlags::parse(BUILD.what.flags)?.flags.0;
    for _ in 0..OTHERS {
        thread::sleep(Duration::from_secs_f64(seconds / f64::from(OTHERS + 1)));
        SessionBuilder::new(OTHER).file(host.path("other.etl")).enable_flags(flags).start(&mut controller)?;
        controller.stop(OTHER)?;
        fs::remove_file(host.path("other.etl"))?;
    }
    programs.wait()?;
    let elapsed = start.elapsed().as_secs_f64();
    let status = controller.stop(SESSION)?;
    fs::remove_file(host.path("beside.etl"))?;
    rows.push(Row {
        events_lost: status.events_lost + status.log_events_lost,
        ..Row::new(
            format!(
                "the same for {elapsed:.0} s with {IDLE} idle processes, {OTHERS} sessions begin and end"
            ),
            status.events_written as f64 / elapsed,
            "events/s",
        )
    });
    Ok(rows)
}

/// Programs that run; killed with this value if they do.
struct Programs(Vec<Process>);

impl Programs {
    /// Two busy ones.
    fn start(host: &Hosted, seconds: f64) -> Result<Programs> {
        let millis = (seconds * 1e3) as u64;
        let mut programs = Programs(Vec::new());
        for _ in 0..2 {
            let mut command = command(Load::Busy, millis, host);
            programs.0.push(Process::spawn(command.stdout(Stdio::null()), MINUTES_15)?);
        }
        Ok(programs)
    }

    fn wait(mut self) -> Result<()> {
        self.0.iter_mut().try_for_each(|program| {
            ensure!(program.wait()?.success(), "a busy program failed");
            Ok(())
        })
    }
}
