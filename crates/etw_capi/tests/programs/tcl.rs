//! The Tcl package: built against this library, tested by its own tests, and used in sessions that are typed line by line.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::Workshop;

/// Time limit of one shell.
const PATIENCE: Duration = Duration::from_secs(120);

/// A shell with the package.
struct Shell {
    workshop: Workshop,
    tclsh: &'static str,
}

impl Shell {
    /// Builds the package. Returns `None` with a message if this machine lacks the shell or its headers.
    fn new(tclsh: &'static str) -> Option<Shell> {
        let probe = "puts [::tcl::pkgconfig get libdir,runtime]";
        let found = run(Command::new("sh").args(["-c", "echo \"$1\" | $0", tclsh, probe]))?;
        if !found.0 {
            etw_testkit::skip!("no {tclsh}; apt-get install tcl tcl-dev");
            return None;
        }
        let workshop = Workshop::new();
        let mut build = Command::new(tclsh);
        build.arg(source().join("build.tcl"));
        build.args(["-into".as_ref(), workshop.path("tcl").as_os_str()]);
        build.args(["-library".as_ref(), workshop.path("libopenetw.so").as_os_str()]);
        let (is_built, text) = run(&mut build)?;
        if !is_built && text.contains("no tclConfig.sh") {
            etw_testkit::skip!("{text}");
            return None;
        }
        assert!(is_built && !text.contains("warning"), "{text}");
        // What a user puts there: the package is loaded when the shell starts.
        fs::write(workshop.path(".tclshrc"), "package require twapi\n").unwrap();
        Some(Shell { workshop, tclsh })
    }

    fn prepare<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .current_dir(self.workshop.path("."))
            .env("HOME", self.workshop.path("."))
            .env("TCLLIBPATH", self.workshop.path("tcl"))
            .env("OPENETW_RUNTIME_DIR", self.workshop.runtime())
            .env("OPENETW_SCHEMAS", self.workshop.path("schemas"))
            .env("TERM", "dumb")
    }

    /// Types lines into a shell with a terminal, and returns what it shows.
    fn type_lines(&self, lines: &[String]) -> Option<String> {
        let mut command = Command::new("script");
        self.prepare(command.args(["-qec", self.tclsh, "/dev/null"]));
        let mut text = lines.join("\n");
        text.push_str("\nexit\n");
        let done = run_with_input(&mut command, text)?;
        assert!(done.0, "{}", done.1);
        Some(done.1.replace('\r', ""))
    }
}

/// The folder of the package.
fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/tcl")
}

/// Runs a program; returns whether it succeeded, and its output with its errors. `None` if there is no such program.
fn run(command: &mut Command) -> Option<(bool, String)> {
    run_with_input(command, String::new())
}

fn run_with_input(command: &mut Command, input: String) -> Option<(bool, String)> {
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = spawned else {
        etw_testkit::skip!("{} does not run", command.get_program().display());
        return None;
    };
    let mut stdin = child.stdin.take().unwrap();
    // A program that ends early reads nothing.
    let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let text = Arc::new(Mutex::new(Vec::new()));
    fn collect(
        mut from: impl Read + Send + 'static,
        to: &Arc<Mutex<Vec<u8>>>,
    ) -> std::thread::JoinHandle<()> {
        let to = to.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = from.read(&mut bytes) {
                to.lock().unwrap().extend_from_slice(&bytes[..len]);
            }
        })
    }
    let readers =
        [collect(child.stdout.take().unwrap(), &text), collect(child.stderr.take().unwrap(), &text)];
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("no end within {PATIENCE:?}:\n{}", String::from_utf8_lossy(&text.lock().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    writer.join().unwrap();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    let text = String::from_utf8_lossy(&text.lock().unwrap()).into_owned();
    Some((status.success(), text))
}

fn runs_its_tests(tclsh: &'static str) {
    let Some(shell) = Shell::new(tclsh) else { return };
    let mut command = Command::new(tclsh);
    let (is_ok, text) = run(shell.prepare(command.arg(source().join("tests/all.tcl")))).unwrap();
    assert!(is_ok && text.contains(" passed, 0 failed"), "{text}");
}

#[test]
fn tests_of_the_tcl_package() {
    runs_its_tests("tclsh");
}

#[test]
fn tests_of_the_tcl_package_with_tcl_9() {
    runs_its_tests("tclsh9.0");
}

/// A web server that answers every request with a page, in the place of one on the internet. Returns its address.
fn web_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let mut bytes = [0; 1024];
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut bytes) {
                    Ok(len @ 1..) => request.extend_from_slice(&bytes[..len]),
                    _ => break,
                }
            }
            let page = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nHello\n";
            let _ = stream.write_all(page.as_bytes());
        }
    });
    address
}

/// Types a session that records one call of `http::geturl`, and checks what it shows and writes.
fn session_of(lines: &[String]) {
    let Some(shell) = Shell::new("tclsh") else { return };
    let address = web_server();
    let port = address.rsplit(':').next().unwrap().to_owned();
    let page = format!("http://{address}/");
    let of_the_internet = ["http://www.example.com", "http://www.google.com"];
    let local =
        |line: &String| of_the_internet.iter().fold(line.clone(), |line, other| line.replace(other, &page));
    let lines: Vec<String> = lines.iter().map(local).collect();
    assert!(lines.iter().any(|line| line.contains(&address)), "{lines:?}");
    let Some(shown) = shell.type_lines(&lines) else { return };
    // The shell shows results after its prompt: a token of http, the trace's last state, and no error.
    let start = shown.find("logfile /").unwrap_or_else(|| panic!("{shown}"));
    assert!(shown[..start].contains("::http::1"), "{shown}");
    let state = shown[start..].lines().next().unwrap();
    let keys = [
        "logfile /",
        "/http.etl trace_name MyHttpTrace trace_guid {{",
        "}} buffer_size 64 min_buffers",
        "max_buffers",
        "max_file_size 1 logfile_mode 2 flush_timer",
        "enable_flags 0 clock_resolution 2 age_limit",
        "buffer_count",
        "free_buffers",
        "events_lost 0 buffers_written",
        "log_buffers_lost 0 real_time_buffers_lost 0 logger_tid",
    ];
    let mut rest = state;
    for key in keys {
        rest = rest.split_once(key).unwrap_or_else(|| panic!("no {key}: {state}")).1;
    }

    let text = fs::read_to_string(shell.workshop.path("http.txt")).unwrap_or_else(|_| panic!("{shown}"));
    assert!(text.starts_with("-timecreated,-taskname,-opcodename,-properties\n"), "{text}");
    // A command of several lines goes on in lines without a time.
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.splitn(4, ',').collect()).collect();
    let is_start = |row: &&Vec<&str>| row.len() == 4 && row[0].len() == 18;
    let rows: Vec<&Vec<&str>> = rows.iter().filter(is_start).collect();
    let times: Vec<i64> = rows.iter().filter_map(|row| row[0].parse().ok()).collect();
    assert!(times.is_sorted(), "{text}");
    let now = 116_444_736_000_000_000 + (std::time::UNIX_EPOCH.elapsed().unwrap().as_micros() as i64) * 10;
    assert!(times.iter().all(|time| (now - time).abs() < 600_000_000), "{text}");
    let steps: Vec<&str> = rows
        .iter()
        .filter(|row| row[1..3] == ["0", "ExecutionTrace"])
        .map(|row| row[3].trim_matches('"'))
        .collect();
    let call = format!("Command {{{{http::geturl http://{address}/}}}}");
    assert_eq!(steps[0], format!("Operation enter {call} Code {{{{}}}} Result {{{{}}}} Context {{{{}}}}"));
    let last = steps.last().unwrap();
    assert_eq!(*last, format!("Operation leave {call} Code 0 Result ::http::1 Context {{{{}}}}"));
    assert!(
        steps.iter().any(|step| step.starts_with("Operation leavestep Command {{return ::http::1}} Code 2"))
    );
    assert!(steps.len() > 100, "{} steps", steps.len());

    // The kernel's events of the connection are between the steps.
    let network: Vec<_> = rows.iter().filter(|row| row[1] == "KERNEL_NETWORK_TASK_TCPIP").collect();
    if network.is_empty() && lacks_the_kernel() {
        eprintln!(
            "left out: the kernel's events, for which this process lacks rights or the kernel its types"
        );
        return;
    }
    let position = |name: &str, fields: &[&str]| {
        let is_it = |row: &&Vec<&str>| {
            let words: Vec<&str> = row[3].split(' ').collect();
            let keys: Vec<&str> = words.iter().step_by(2).copied().collect();
            row[1..3] == ["KERNEL_NETWORK_TASK_TCPIP", name] && words.get(9) == Some(&&*port) && {
                assert_eq!(keys, fields, "{row:?}");
                assert!(words[5] == "127.0.0.1" && words[7] == "127.0.0.1", "{row:?}");
                true
            }
        };
        rows.iter().position(is_it).unwrap_or_else(|| panic!("no {name} in\n{text}"))
    };
    let common = ["PID", "size", "daddr", "saddr", "dport", "sport"];
    let with = |more: &[&'static str]| [&common[..], more].concat();
    let window =
        ["mss", "sackopt", "tsopt", "wsopt", "rcvwin", "rcvwinscale", "sndwinscale", "seqnum", "connid"];
    let attempt = position("Connection attempted.", &with(&window));
    let sent = position("Data sent.", &with(&["startime", "endtime", "seqnum", "connid"]));
    let received = position("Data received.", &with(&["seqnum", "connid"]));
    assert!(0 < attempt && attempt < sent && sent < received && received < rows.len() - 1, "{text}");
}

/// Whether this machine has no kernel events for this process.
fn lacks_the_kernel() -> bool {
    use std::os::unix::fs::MetadataExt;
    let is_root = fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0);
    !is_root || !Path::new("/sys/kernel/btf/vmlinux").exists()
}

/// Returns the lines that a document shows after the shell's prompt.
fn typed(document: &str) -> Vec<String> {
    let after_prompt = |line: &str| Some(line.strip_prefix("(tcl) ")?.split_once(" % ")?.1.to_owned());
    document.lines().filter_map(after_prompt).collect()
}

#[test]
fn the_session_of_the_manual() {
    let manual = fs::read_to_string(source().join("../../docs/tcl.md")).unwrap();
    let lines: Vec<String> =
        manual.lines().filter_map(|line| line.strip_prefix("% ").map(str::to_owned)).collect();
    assert!(lines.len() >= 9, "{lines:?}");
    session_of(&lines);
}

#[test]
fn the_session_of_the_document() {
    let Some(data) = etw_testkit::data::data_dir() else { return };
    let document = fs::read_to_string(data.join("reference/twapi-etw.txt")).unwrap();
    let lines = typed(&document);
    assert_eq!(lines.len(), 10, "{lines:?}");
    session_of(&lines);
}

#[test]
fn the_example_runs() {
    let Some(shell) = Shell::new("tclsh") else { return };
    let mut command = Command::new("tclsh");
    let (is_ok, text) = run(shell.prepare(command.arg(source().join("examples/hello.tcl")))).unwrap();
    assert!(is_ok, "{text}");
    assert!(text.contains("Message Hello from Tcl") && text.contains("VariableTrace count = 3"), "{text}");
}
