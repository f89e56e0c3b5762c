//! The cases, apart from those with files of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use object::read::pe::{ExportTarget, PeFile64};
use serde_json::Value;

use super::place::{Host, Place};
use shell::process::{MINUTES_2, Process};
use shell::{output, output_within};

/// The DLLs that an installation replaces.
const DLLS: [&str; 4] = ["advapi32", "kernelbase", "sechost", "tdh"];

/// The provider of the tests' program.
pub(super) const PROVIDER: &str = "5a0e3a5c-0c0d-4a3e-9b8a-1b2c3d4e5f60";

/// Checks that the DLLs have all functions.
pub(super) fn functions(place: &Place) -> Result<String> {
    let host = place.without_daemon()?;
    let mut count = 0;
    for dll in DLLS {
        let file = format!("{dll}.dll");
        let names = forwarded(&fs::read(place.system().join(&file))?)?;
        ensure!(!names.is_empty(), "{file} forwards no function");
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let printed = host.run_client(&[&["functions", &file][..], &names].concat())?;
        ensure!(printed.trim() == format!("found {}", names.len()), "{printed}");
        count += names.len();
    }
    Ok(format!("{count} functions of {} DLLs", DLLS.len()))
}

/// Returns the functions of a DLL that lead to the library.
fn forwarded(dll: &[u8]) -> Result<Vec<String>> {
    let table = PeFile64::parse(dll)?.export_table()?.context("no exports")?;
    let is_ours = |target: ExportTarget<'_>| matches!(target, ExportTarget::ForwardByName(b"etw_win32", _));
    let exports = table.exports()?.into_iter().filter(|export| is_ours(export.target));
    Ok(exports.filter_map(|export| Some(String::from_utf8_lossy(export.name?).into_owned())).collect())
}

/// Records and reads events in a Windows program that knows ETW only by the names of API sets.
pub(super) fn api_sets(place: &Place) -> Result<String> {
    let host = place.host()?;
    let mut program = host.program(&place.programs.join("api_sets.exe"), &[&host.windows_path("sets.etl")]);
    ensure!(output_within(&mut program, MINUTES_2)?.trim() == "done");
    let printed = host.run_etw(&["info", "--format", "json", &host.path("sets.etl")])?;
    let info: Value = serde_json::from_str(printed.lines().next().context("no information")?)?;
    ensure!(info["complete"] == true && info["events_lost"] == 0, "{info}");
    Ok("100 events written and read through six API sets".into())
}

/// Records a Windows provider from Linux.
pub(super) fn provider(place: &Place) -> Result<String> {
    let host = place.without_daemon()?;
    let file = host.path("provider.etl");
    let mut record = host.etw(&["record", "-p", &format!("{PROVIDER}:4::0x1"), "-o", &file, "--"]);
    record.arg("wine").arg(place.programs.join("client.exe")).args(["provide", PROVIDER, "1000", "0"]);
    record.env("WINEPREFIX", &place.prefix).env("WINEDEBUG", "-all");
    let printed = output(&mut record)?;
    ensure!(printed.contains("callback: code 1 level 4 any 0x1 all 0x0 context 0x1234"), "{printed}");
    let wrote = Wrote::parse(&printed)?;
    ensure!(wrote.lost == 0, "{printed}");
    let events = host.events("provider.etl")?;
    let found = numbers(&events)?;
    ensure!(found.len() == 1, "events of {} processes", found.len());
    let (process, numbers) = found.first_key_value().context("no events")?;
    ensure!(numbers.iter().copied().eq(0..1000), "{} events", numbers.len());
    ensure!(*process != wrote.process, "process {process} is that of Windows");
    Ok(format!("1000 events; process {process} on Linux is {} on Windows", wrote.process))
}

/// Records a Windows and a Linux provider in one session.
pub(super) fn shared_session(place: &Place) -> Result<String> {
    let host = place.host()?;
    let file = host.path("shared.etl");
    host.run_etw(&["session", "start", "Shared", "-o", &file, "-p", PROVIDER, "-p", "OpenETW.Wine.Linux"])?;
    let both = Wrote::parse(&host.run_client(&["provide", PROVIDER, "100", "0"])?)?;
    for number in 0..10 {
        host.run_etw(&["write", "OpenETW.Wine.Linux", "Event", &format!("number={number}")])?;
    }
    host.run_etw(&["session", "stop", "Shared"])?;
    let events = host.events("shared.etl")?;
    let windows = numbers(&events)?;
    let linux = events.iter().filter(|event| event["System"]["EventType"] == "Event").count();
    ensure!(both.lost == 0 && windows.values().map(Vec::len).sum::<usize>() == 100, "{windows:?}");
    ensure!(linux == 10, "{linux} events of Linux programs");
    Ok("100 events of a Windows and 10 of ten Linux programs".into())
}

/// Consumes a session of Linux in a Windows program, with a Windows and a Linux provider.
pub(super) fn consumer(place: &Place) -> Result<String> {
    let host = place.host()?;
    host.run_etw(&["session", "start", "Live", "--real-time", "-p", PROVIDER])?;
    let (mut consumer, mut lines) = consume(&host, "Live", 2000)?;
    let first = Wrote::parse(&host.run_client(&["provide", PROVIDER, "1000", "0"])?)?;
    let second = Wrote::parse(&host.run_client(&["provide", PROVIDER, "1000", "0"])?)?;
    let line = end(&mut consumer, &mut lines)?;
    let writers = format!("{:?}", BTreeSet::from([first.ids(), second.ids()]));
    let wanted = format!("code 0 missing 0 gaps 0 buffers true writers {writers}");
    ensure!(line == wanted, "{line}\nnot {wanted}");
    Ok(format!("2000 events of the Windows threads {writers}"))
}

/// Controls a session and reads its file in a Windows program.
pub(super) fn controller(place: &Place) -> Result<String> {
    let host = place.host()?;
    ensure!(host.run_client(&["control", &host.windows_directory()])?.trim() == "done");
    let events = host.events("control.etl")?;
    ensure!(events.len() > 1000, "{} events", events.len());
    Ok(format!("{} events in a file that Linux reads too", events.len()))
}

/// Rewrites a file in a Windows program.
pub(super) fn relogger(place: &Place) -> Result<String> {
    let host = place.host()?;
    let directory = host.windows_directory();
    ensure!(host.run_client(&["control", &directory])?.trim() == "done");
    ensure!(host.run_client(&["relog", &directory])?.trim() == "done");
    let events = host.events("relogged.etl")?;
    let with_id = |id: u64| events.iter().filter(|event| event["System"]["EventID"] == id).count();
    ensure!((with_id(7), with_id(99)) == (500, 1), "{} and {} events", with_id(7), with_id(99));
    Ok("every other event of 1000, and one that was added".into())
}

/// Writes and reads classic events and messages in a Windows program.
pub(super) fn classic(place: &Place) -> Result<String> {
    let host = place.host()?;
    ensure!(host.run_client(&["classic", &host.windows_directory()])?.trim() == "done");
    let printed = host.run_etw(&["info", "--format", "json", &host.path("classic.etl")])?;
    let info: Value = serde_json::from_str(printed.lines().next().context("no information")?)?;
    ensure!(info["complete"] == true && info["events_lost"] == 0, "{info}");
    Ok(format!("{} records", info["records"]))
}

/// Starts a session in a Windows program without a host; the session outlives it.
pub(super) fn without_daemon(place: &Place) -> Result<String> {
    let host = place.without_daemon()?;
    ensure!(host.run_client(&["control", &host.windows_directory()])?.trim() == "done");
    // The host that was started ends with its last session.
    let socket = host.directory.path().join("etwd.lock");
    for _ in 0..500 {
        if host.run_etw(&["session", "list"]).is_err() {
            return Ok(format!("a host was started and has ended ({})", socket.exists()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    bail!("the host still runs");
}

/// Calls functions with wrong arguments, while another process writes and a third one reads.
pub(super) fn hostile(place: &Place) -> Result<String> {
    let host = place.host()?;
    host.run_etw(&["session", "start", "Bystander", "--real-time", "-p", PROVIDER])?;
    let (mut consumer, mut lines) = consume(&host, "Bystander", 100_000)?;
    let mut writer = host.client(&["provide", PROVIDER, "100000", "20000"]);
    let mut writer = Process::spawn(writer.stdout(Stdio::null()).stderr(Stdio::null()), MINUTES_2)?;
    ensure!(host.run_client(&["hostile"])?.trim() == "done");
    ensure!(writer.wait()?.success(), "the writer failed");
    let line = end(&mut consumer, &mut lines)?;
    ensure!(line.starts_with("code 0 missing 0 gaps 0"), "{line}");
    Ok("error codes, and 100000 events of a bystander".into())
}

/// Delivers 100,000 events per second in real time.
pub(super) fn rate(place: &Place) -> Result<String> {
    let host = place.host()?;
    host.run_etw(&["session", "start", "Rate", "--real-time", "-p", PROVIDER])?;
    let (mut consumer, mut lines) = consume(&host, "Rate", 500_000)?;
    let wrote = Wrote::parse(&host.run_client(&["provide", PROVIDER, "500000", "100000"])?)?;
    let line = end(&mut consumer, &mut lines)?;
    ensure!(line.starts_with("code 0 missing 0 gaps 0"), "{line}");
    ensure!(wrote.lost == 0, "{} of 500000 were not written", wrote.lost);
    let query = host.run_etw(&["session", "query", "Rate", "--format", "json"])?;
    let query: Value = serde_json::from_str(query.lines().next().context("no session")?)?;
    ensure!(query["EventsLost"] == 0 && query["RealTimeBuffersLost"] == 0, "{query}");
    Ok(format!("500000 events in {} s, none lost", wrote.seconds))
}

/// Measures the check of a disabled provider.
pub(super) fn disabled(place: &Place) -> Result<String> {
    let host = place.without_daemon()?;
    let printed = host.run_client(&["bench"])?;
    Ok(printed.trim().replace('\n', ", "))
}

/// Removes OpenETW from the prefix: its files are those of Wine again. Then it is installed again.
pub(super) fn removal(place: &Place) -> Result<String> {
    let run = |action: &str| output(Command::new(&place.etw).args(["wine", action]).arg(&place.prefix));
    let installed = files(&place.system())?;
    run("remove")?;
    let removed = files(&place.system())?;
    run("remove").context("a second removal")?;
    ensure!(files(&place.system())? == removed, "a second removal changes files");
    run("install")?;
    run("install").context("a second installation")?;
    let again = files(&place.system())?;
    ensure!(again == installed, "another installation has other files");
    for dll in DLLS {
        let (own, renamed) = (format!("{dll}.dll"), format!("wine{dll}.dll"));
        ensure!(removed.get(&own) == installed.get(&renamed), "{own} is not Wine's");
        ensure!(!removed.contains_key(&renamed), "{renamed} stays after the removal");
    }
    let ours = ["etw_win32.dll", "etw_win32.path"];
    ensure!(ours.iter().all(|name| !removed.contains_key(*name)), "files stay after the removal");
    let host = place.without_daemon()?;
    host.run_client(&["functions", "advapi32.dll", "TraceQueryInformation"])?;
    Ok("the files are Wine's after it".into())
}

/// Returns the sizes of the files in a directory.
fn files(directory: &Path) -> Result<BTreeMap<String, u64>> {
    fs::read_dir(directory)?
        .map(|entry| {
            let entry = entry?;
            Ok((entry.file_name().to_string_lossy().into_owned(), entry.metadata()?.len()))
        })
        .collect()
}

/// What the task `provide` printed.
pub(super) struct Wrote {
    pub(super) lost: u64,
    pub(super) seconds: String,
    pub(super) process: u64,
    pub(super) thread: u64,
}

impl Wrote {
    pub(super) fn parse(printed: &str) -> Result<Wrote> {
        let line =
            printed.lines().find(|line| line.starts_with("wrote")).with_context(|| printed.to_owned())?;
        let word = |name: &str| {
            let mut words = line.split_whitespace().skip_while(|word| *word != name);
            words.nth(1).with_context(|| format!("no {name} in: {line}"))
        };
        let number = |name| Ok::<u64, anyhow::Error>(word(name)?.parse()?);
        Ok(Wrote {
            lost: number("lost")?,
            seconds: word("seconds")?.to_owned(),
            process: number("process")?,
            thread: number("thread")?,
        })
    }

    fn ids(&self) -> (u64, u64) {
        (self.process, self.thread)
    }
}

/// Returns the numbers in the events of the program's provider, by process.
pub(super) fn numbers(events: &[Value]) -> Result<BTreeMap<u64, Vec<u64>>> {
    let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for event in events {
        let system = &event["System"];
        let is_ours = system["Provider"]["Guid"].as_str().is_some_and(|guid| guid.contains(PROVIDER));
        if !is_ours || system["EventID"] != 1 {
            continue;
        }
        let payload = event["Undecoded"]["Payload"].as_str().context("no payload")?;
        let number = u64::from_str_radix(payload.trim_start_matches("0x"), 16)?.swap_bytes();
        found
            .entry(system["Execution"]["ProcessID"].as_u64().context("no process")?)
            .or_default()
            .push(number);
    }
    Ok(found)
}

type Lines = BufReader<std::process::ChildStdout>;

/// Starts a Windows consumer, and waits until it has opened the session.
fn consume(host: &Host<'_>, session: &str, count: u64) -> Result<(Process, Lines)> {
    let mut command = host.client(&["consume", session, PROVIDER, &count.to_string()]);
    let mut consumer = Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()), MINUTES_2)?;
    let mut lines = BufReader::new(consumer.take_stdout().context("no output")?);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    ensure!(line.trim() == "open", "the consumer cannot open the session: {line}");
    Ok((consumer, lines))
}

/// Returns the consumer's last line.
fn end(consumer: &mut Process, lines: &mut Lines) -> Result<String> {
    let mut rest = String::new();
    lines.read_to_string(&mut rest)?;
    ensure!(consumer.wait()?.success(), "the consumer failed: {rest}");
    Ok(rest.trim().to_owned())
}
