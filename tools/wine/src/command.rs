//! The command `etw`, built for Windows.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use etw_testkit::data;
use etw_testkit::traces::{self, Kind, Recipe};

use super::cases::{PROVIDER, Wrote, numbers};
use super::place::{Host, Place, json_lines, windows_name};
use shell::process::{MINUTES_2, Process};

/// Events that a writer writes for a case.
const EVENTS: u64 = 1000;
/// Size of the largest real trace that is decoded.
const MAX_TRACE_BYTES: u64 = 1 << 20;
/// Providers whose descriptions are compared.
const SHOWN: [&str; 3] =
    ["Microsoft-Windows-Kernel-Process", "Microsoft-Windows-Kernel-File", "Microsoft-Windows-DotNETRuntime"];

/// Controls sessions, and reads one in real time.
pub(super) fn control(place: &Place) -> Result<String> {
    let host = place.host()?;
    let enabled = format!("{PROVIDER}:4::0x1");
    host.run_etw_exe(&["session", "start", "File", "-o", &host.windows_path("file.etl"), "-p", &enabled])?;
    let twice = host.run_etw_exe(&["session", "start", "File", "--real-time"]);
    ensure!(twice.is_err_and(|error| error.to_string().contains("Windows error 183")), "started twice");
    host.run_etw_exe(&["session", "start", "Live", "--real-time", "-p", &enabled])?;
    let live = host.path("live.json");
    let mut dump = host.etw_exe(&["dump", "-s", "Live", "--format", "json"]);
    let mut dump = Process::spawn(dump.stdout(File::create(&live)?).stderr(Stdio::null()), MINUTES_2)?;
    host.wait_for_consumer("Live")?;
    let wrote = write(&host)?;
    let list = host.run_etw_exe(&["session", "list", "--format", "json"])?;
    let names: Vec<_> = json_lines(&list)?.iter().map(|one| one["Name"].clone()).collect();
    ensure!(names == ["File", "Live"], "{list}");
    host.run_etw_exe(&["session", "update", "File", "--flush-timer", "5"])?;
    host.run_etw_exe(&["session", "flush", "File"])?;
    host.run_etw_exe(&["session", "disable", "File", PROVIDER])?;
    for session in ["Live", "File"] {
        let stopped = host.run_etw_exe(&["session", "stop", session, "--format", "json"])?;
        ensure!(json_lines(&stopped)?.iter().all(|one| one["EventsLost"] == 0), "{stopped}");
    }
    ensure!(host.run_etw_exe(&["session", "query", "File"]).is_err(), "a stopped session is found");
    ensure!(dump.wait()?.success(), "`etw.exe dump -s` failed");
    let all = |process, printed: &str| -> Result<()> {
        let found = numbers(&json_lines(printed)?)?;
        let numbers = found.get(&process).with_context(|| format!("no events of process {process}"))?;
        ensure!(found.len() == 1 && numbers.iter().copied().eq(0..EVENTS), "{} events", numbers.len());
        Ok(())
    };
    // In real time, programs for Windows see the ids of Windows; files have those of Linux.
    all(wrote.process, &std::fs::read_to_string(live)?)?;
    let linux = host.run_etw(&["dump", "--format", "json", &host.path("file.etl")])?;
    let (process, _) = numbers(&json_lines(&linux)?)?.pop_first().context("no events")?;
    all(process, &linux)?;
    let dumped = host.run_etw_exe(&["dump", "--format", "json", &host.windows_path("file.etl")])?;
    ensure!(dumped == linux, "the events differ:\n{dumped}\n{linux}");
    Ok(format!("{EVENTS} events in real time and in a file"))
}

/// Records with the tools that `etw.exe` has, and describes providers.
pub(super) fn tools(place: &Place) -> Result<String> {
    let host = place.host()?;
    let run = |arguments: &[&str]| host.run_etw_exe(arguments);
    let (logman, xperf, tracelog) =
        (host.windows_path("logman.etl"), host.windows_path("xperf.etl"), host.windows_path("tracelog.etl"));
    let guid = format!("{{{PROVIDER}}}");
    run(&["logman", "start", "OfLogman", "-p", &guid, "0x1", "4", "-o", &logman, "-ets"])?;
    run(&["xperf", "-start", "OfXperf", "-on", &format!("{guid}:0x1:4"), "-f", &xperf])?;
    run(&[
        "tracelog",
        "-start",
        "OfTracelog",
        "-f",
        &tracelog,
        "-guid",
        &format!("#{PROVIDER}"),
        "-level",
        "4",
    ])?;
    for (tool, arguments) in
        [("logman", &["query", "-ets"][..]), ("xperf", &["-loggers"]), ("tracelog", &["-l"])]
    {
        let listed = run(&[&[tool], arguments].concat())?;
        for session in ["OfLogman", "OfXperf", "OfTracelog"] {
            ensure!(listed.contains(session), "`{tool}` does not list {session}:\n{listed}");
        }
    }
    write(&host)?;
    run(&["logman", "stop", "OfLogman", "-ets"])?;
    run(&["xperf", "-stop", "OfXperf"])?;
    run(&["tracelog", "-stop", "OfTracelog"])?;
    for file in ["logman.etl", "xperf.etl", "tracelog.etl"] {
        let found = numbers(&host.events(file)?)?;
        ensure!(found.values().flatten().copied().eq(0..EVENTS), "{file} has other events");
    }
    let same = |linux: &[&str], windows: &[&str]| -> Result<()> {
        // The output names the file.
        let (linux, windows) = (host.run_etw(linux)?, run(windows)?.replace(&xperf, &host.path("xperf.etl")));
        ensure!(linux == windows, "on Windows:\n{windows}\non Linux:\n{linux}");
        Ok(())
    };
    for provider in SHOWN {
        same(&["provider", "show", provider], &["provider", "show", provider])?;
    }
    same(
        &["xperf", "-i", &host.path("xperf.etl"), "-a", "dumper"],
        &["xperf", "-i", &xperf, "-a", "dumper"],
    )?;
    Ok(format!("logman, xperf and tracelog recorded {EVENTS} events each; {} providers shown", SHOWN.len()))
}

/// Decodes generated traces, and real ones where there are any, and compares the JSON with that of Linux.
pub(super) fn decode(place: &Place) -> Result<String> {
    let host = place.without_daemon()?;
    let mut files = Vec::new();
    for (name, kind) in Kind::ALL {
        let path = PathBuf::from(host.path(&format!("{name}.etl")));
        let recipe = Recipe { processors: 3, buffer_size: 4096, ..Recipe::new(*kind, 2000) };
        traces::write(BufWriter::new(File::create(&path)?), &recipe)?;
        files.push(path);
    }
    let generated = files.len();
    let real = data::traces().unwrap_or_default();
    files.extend(real.into_iter().filter(|one| one.len_bytes <= MAX_TRACE_BYTES).map(|one| one.path));
    let mut events = 0;
    for file in &files {
        let linux = host.run_etw(&["dump", "--format", "json", &file.display().to_string()])?;
        let windows = host.run_etw_exe(&["dump", "--format", "json", &windows_name(file)])?;
        let differs = linux.lines().zip(windows.lines()).find(|(linux, windows)| linux != windows);
        ensure!(differs.is_none(), "{}: an event differs: {differs:?}", file.display());
        ensure!(linux == windows, "{}: the number of events differs", file.display());
        events += linux.lines().count();
    }
    Ok(format!("{events} events of {generated} generated and {} real traces", files.len() - generated))
}

/// Runs the program of the tests, which writes events.
fn write(host: &Host<'_>) -> Result<Wrote> {
    let wrote = Wrote::parse(&host.run_client(&["provide", PROVIDER, &EVENTS.to_string(), "0"])?)?;
    ensure!(wrote.lost == 0, "{} events were not written", wrote.lost);
    Ok(wrote)
}
