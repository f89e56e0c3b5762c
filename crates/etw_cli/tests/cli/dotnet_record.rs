//! `etw record --dotnet` against a server that behaves as a .NET runtime: it checks the requests and replays traces.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Output;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use etw_testkit::nettrace::{self, Row, Writer};
use serde_json::Value;

use crate::record::program;
use crate::{Etw, json_lines};

const NUMBERS: &str = "Example.Numbers";
const MAGIC: &[u8] = b"DOTNET_IPC_V1\0";
const SESSION: u64 = 0x0012_3456_789A;
/// Start the session, with a rundown; stop it.
const COLLECT: [u8; 2] = [2, 3];
const STOP: [u8; 2] = [2, 1];

/// What the server does.
enum Server {
    /// Sends the first part at once, and the rest after the request to stop.
    Sends(Vec<u8>, Vec<u8>),
    /// Sends these bytes, and ends.
    Dies(Vec<u8>),
    /// Answers the request with these bytes instead.
    Answers(Vec<u8>),
}

fn answer(command: u8, payload: &[u8]) -> Vec<u8> {
    let len = (20 + payload.len()) as u16;
    [MAGIC, &len.to_le_bytes(), &[0xFF, command, 0, 0], payload].concat()
}

/// Reads a request; returns its command and its payload.
fn read_request(stream: &mut UnixStream) -> ([u8; 2], Vec<u8>) {
    let mut header = [0; 20];
    stream.read_exact(&mut header).unwrap();
    assert!(header.starts_with(MAGIC) && header[18..] == [0, 0], "{header:x?}");
    let len = u16::from_le_bytes([header[14], header[15]]);
    let mut payload = vec![0; usize::from(len) - header.len()];
    stream.read_exact(&mut payload).unwrap();
    ([header[16], header[17]], payload)
}

/// Runs the server in this process, whose socket is in the directory. Returns the payload of the request to start.
fn serve(etw: &Etw, server: Server) -> JoinHandle<Vec<u8>> {
    let name = format!("dotnet-diagnostic-{}-99-socket", std::process::id());
    let listener = UnixListener::bind(etw.dir.path().join(name)).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (command, request) = read_request(&mut stream);
        assert_eq!(command, COLLECT);
        let started = answer(0, &SESSION.to_le_bytes());
        match server {
            Server::Sends(first, rest) => {
                // In pieces, as a socket may deliver them.
                stream.write_all(&started[..7]).unwrap();
                std::thread::sleep(Duration::from_millis(20));
                stream.write_all(&started[7..]).unwrap();
                stream.write_all(&first).unwrap();
                let (mut other, _) = listener.accept().unwrap();
                assert_eq!(read_request(&mut other), (STOP, SESSION.to_le_bytes().to_vec()));
                other.write_all(&started).unwrap();
                stream.write_all(&rest).unwrap();
            }
            Server::Dies(bytes) => {
                stream.write_all(&started).unwrap();
                stream.write_all(&bytes).unwrap();
            }
            Server::Answers(bytes) => stream.write_all(&bytes).unwrap(),
        }
        request
    })
}

/// Records the program `numbered_events` and this process.
fn record(etw: &Etw, args: &[&str]) -> Output {
    let own = std::process::id().to_string();
    let always = ["record", "-o", "t.etl", "--dotnet", &own];
    let program = program();
    let args = [&always[..], args, &["--", &program, "100"]].concat();
    etw.session_command(&args).env("TMPDIR", etw.dir.path()).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn events(etw: &Etw, args: &[&str]) -> Vec<Value> {
    json_lines(&etw.ok(&[&["dump"][..], args, &["--format", "json"]].concat()))
}

/// Returns the numbers of events by provider and id.
fn counts(events: &[Value]) -> BTreeMap<(String, u64), u64> {
    let mut counts = BTreeMap::new();
    for event in events {
        let provider = event["System"]["Provider"]["Name"].as_str().unwrap_or_default().to_owned();
        // The images that name the addresses of stacks are of the recording.
        if !["Windows Kernel Trace", "KernelTraceControl"].contains(&provider.as_str()) {
            *counts.entry((provider, event["System"]["EventID"].as_u64().unwrap())).or_default() += 1;
        }
    }
    counts
}

/// Asserts that the program's own events are there.
fn has_numbers(etw: &Etw) {
    let found = counts(&events(etw, &["t.etl", "-p", NUMBERS]));
    assert_eq!(found.values().sum::<u64>(), 100, "{found:?}");
}

/// The text of a request.
fn text(text: &str) -> Vec<u8> {
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    let len = (units.len() as u32).to_le_bytes();
    len.into_iter().chain(units.into_iter().flat_map(u16::to_le_bytes)).collect()
}

/// Returns a trace of one event of the provider `My`, whose clock is that of a runtime on this machine.
fn generated(time: u64) -> Vec<u8> {
    let fields = nettrace::fields(&[(&[9], "number")]);
    let row = Row {
        metadata: 1,
        sequence: 1,
        thread: 5,
        capture_thread: 5,
        time,
        is_sorted: true,
        payload: 7_u32.to_le_bytes().to_vec(),
        ..Row::default()
    };
    let definitions = [(1, nettrace::definition("My", 3, "Seven", &fields))];
    let mut bytes = Writer::new(4).definitions(&definitions).events(true, &[row]).finish();
    let clock = [nettrace::START, nettrace::FREQUENCY].map(u64::to_le_bytes).concat();
    let at = bytes.windows(clock.len()).position(|bytes| bytes == clock).unwrap();
    bytes[at..at + clock.len()]
        .copy_from_slice(&[time - 1_000, 1_000_000_000].map(u64::to_le_bytes).concat());
    bytes
}

#[test]
fn the_events_of_a_runtime_are_merged_into_the_recording() {
    let Some(traces) = etw_testkit::data::nettraces() else { return };
    let trace = traces.iter().find(|trace| trace.name.contains("objver4")).unwrap();
    let etw = Etw::new();
    let (first, rest) = trace.bytes.split_at(trace.bytes.len() / 3);
    let server = serve(&etw, Server::Sends(first.to_vec(), rest.to_vec()));
    let output = record(&etw, &["-p", NUMBERS]);
    let message = stderr(&output);
    assert!(output.status.success() && !message.contains("warning"), "{message}");
    let request = server.join().unwrap();
    // Buffer of 256 MiB, format `nettrace`, rundown, two providers.
    let mut expected = [&[0, 1, 0, 0, 1, 0, 0, 0, 1, 2, 0, 0, 0][..]].concat();
    expected.extend(0x10_0003_C019_u64.to_le_bytes());
    expected.extend([5, 0, 0, 0]);
    expected.extend(text("Microsoft-Windows-DotNETRuntime"));
    expected.extend([0; 4]);
    expected.extend([0; 8]);
    expected.extend([4, 0, 0, 0]);
    expected.extend(text("Microsoft-DotNETCore-SampleProfiler"));
    expected.extend([0; 4]);
    assert_eq!(request, expected);
    // Every event of the runtime is there, and every event of the recording.
    std::fs::write(etw.path("alone.nettrace"), &trace.bytes).unwrap();
    let wanted = counts(&events(&etw, &["alone.nettrace"]));
    let merged = events(&etw, &["t.etl"]);
    let mut found = counts(&merged);
    assert_eq!(found.remove(&(NUMBERS.to_owned(), 0)), Some(100));
    assert_eq!(found, wanted);
    let times: Vec<&str> =
        merged.iter().map(|event| event["System"]["TimeCreated"]["SystemTime"].as_str().unwrap()).collect();
    assert!(times.is_sorted());
    // Their payloads and stacks are the same.
    let values = |file: &str| {
        let events = events(&etw, &[file, "-p", "Microsoft-Windows-DotNETRuntime"]);
        let value = |event: Value| (event["EventData"].to_string(), event["ExtendedData"].to_string());
        let mut values: Vec<_> = events.into_iter().map(value).collect();
        values.sort();
        values
    };
    assert_eq!(values("t.etl"), values("alone.nettrace"));
    let info = |file: &str| {
        let info = json_lines(&etw.ok(&["info", file, "--format", "json"])).remove(0);
        [info["complete"].clone(), info["events_lost"].clone()]
    };
    assert_eq!(info("t.etl"), info("alone.nettrace"));
    let left: Vec<_> =
        std::fs::read_dir(etw.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_str().unwrap().contains("etw-dotnet")), "{left:?}");
}

#[test]
fn times_of_a_runtime_are_those_of_the_recording() {
    let etw = Etw::new();
    let time = etw_sys::clock::monotonic_nanos();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros();
    let server = serve(&etw, Server::Sends(generated(time), Vec::new()));
    // Without any other provider; one of .NET is named.
    let output = record(&etw, &["--dotnet-provider", "My:0x1F:2:a=b"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let mut expected = [&[0, 1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0][..]].concat();
    expected.extend(0x1F_u64.to_le_bytes());
    expected.extend([2, 0, 0, 0]);
    expected.extend([text("My"), text("a=b")].concat());
    assert_eq!(server.join().unwrap(), expected);
    let found = events(&etw, &["t.etl", "-p", "My"]);
    assert_eq!(found[0]["EventData"]["number"], 7, "{found:?}");
    // The trace itself says 2024, in whole milliseconds.
    let at = found[0]["System"]["TimeCreated"]["SystemTime"].as_str().unwrap();
    let micros = micros_of(at);
    assert!(micros.abs_diff(now) < 2_000, "{at} {micros} {now}");
}

/// Returns the microseconds since 1970 of a time of today or a day near it: `YYYY-MM-DDTHH:MM:SS.FFFFFFFZ`.
fn micros_of(time: &str) -> u128 {
    let output = std::process::Command::new("date").args(["-u", "-d", time, "+%s%6N"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

#[test]
fn a_runtime_that_ends_early_costs_only_its_end() {
    let Some(traces) = etw_testkit::data::nettraces() else { return };
    let trace = traces.iter().find(|trace| trace.name.contains("objver4")).unwrap();
    let etw = Etw::new();
    let server = serve(&etw, Server::Dies(trace.bytes[..trace.bytes.len() / 2].to_vec()));
    let output = record(&etw, &["-p", NUMBERS]);
    server.join().unwrap();
    let message = stderr(&output);
    assert!(output.status.success(), "{message}");
    assert!(message.contains("damaged places in its trace") && message.contains("INCOMPLETE"), "{message}");
    has_numbers(&etw);
    let found = events(&etw, &["t.etl", "-p", "Microsoft-Windows-DotNETRuntime"]);
    assert!(!found.is_empty());
}

#[test]
fn programs_that_cannot_be_recorded_are_named() {
    let refused = answer(0xFF, &0x8013_1385_u32.to_le_bytes());
    let cases: [(Option<Server>, &str); 7] = [
        (None, "no .NET runtime"),
        (Some(Server::Answers(refused)), "the runtime refused the request: it does not know the command"),
        (Some(Server::Answers(Vec::new())), "the connection ended before the answer"),
        (Some(Server::Answers(answer(0, &[1, 2, 3]))), "the answer is too short"),
        (Some(Server::Answers(vec![b'x'; 64])), "the answer is not one of the diagnostics protocol"),
        (Some(Server::Dies(Vec::new())), "it sent no events"),
        (Some(Server::Dies(b"Nettrace, but not one".to_vec())), "no events of .NET"),
    ];
    for (server, expected) in cases {
        let etw = Etw::new();
        let server = server.map(|server| serve(&etw, server));
        let output = record(&etw, &["-p", NUMBERS]);
        server.map(JoinHandle::join);
        let message = stderr(&output);
        assert!(output.status.success() && message.contains(expected), "{expected}: {message}");
        assert!(message.contains(&format!("process {}: ", std::process::id())), "{message}");
        has_numbers(&etw);
    }
    let etw = Etw::new();
    for (args, expected) in [
        (&["--dotnet-provider", "My:xyz"][..], "NAME[:KEYWORDS[:LEVEL[:ARGUMENTS]]]"),
        (&["--dotnet", "some"], "expected a process id, or 'all'"),
    ] {
        let output = record(&etw, args);
        assert!(output.status.code() == Some(2) && stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

#[test]
fn all_programs_are_recorded_those_too_that_start_later() {
    let etw = Etw::new();
    let trace = generated(etw_sys::clock::monotonic_nanos());
    let command = ["record", "-o", "t.etl", "--dotnet", "all", "--for", "3s"];
    let child = etw.session_command(&command).env("TMPDIR", etw.dir.path()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let server = serve(&etw, Server::Sends(trace, Vec::new()));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    server.join().unwrap();
    assert_eq!(events(&etw, &["t.etl", "-p", "My"]).len(), 1);
}
