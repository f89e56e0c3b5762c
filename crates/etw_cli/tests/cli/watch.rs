//! `etw watch` as users run it, on sessions and on files: in a terminal, and as text.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::generated::write_trace;
use crate::record::program;
use crate::{Etw, json_lines};

const NUMBERS: &str = "Example.Numbers";
const COLUMNS: usize = 140;
const LINES: usize = 40;

/// A terminal in which a command runs.
struct Terminal {
    child: Child,
    keys: File,
    /// The user's end, and how it was before.
    line: OwnedFd,
    before: Termios,
    screen: Arc<Mutex<Screen>>,
}

/// What a terminal shows, and all that was sent to it.
struct Screen {
    cells: Vec<Vec<char>>,
    row: usize,
    column: usize,
    sent: Vec<u8>,
    /// How much of it is on the screen.
    shown: usize,
}

impl Screen {
    fn new() -> Screen {
        Screen { cells: vec![vec![' '; COLUMNS]; LINES], row: 0, column: 0, sent: Vec::new(), shown: 0 }
    }

    /// Puts what was sent on the screen: texts, moves of the cursor, erasing; colours are not seen.
    fn receive(&mut self, bytes: &[u8]) {
        self.sent.extend_from_slice(bytes);
        while let Some(length) = self.next_length() {
            let item = self.sent[self.shown..self.shown + length].to_vec();
            self.shown += length;
            if item[0] != 0x1b {
                let character = std::str::from_utf8(&item).unwrap().chars().next().unwrap();
                self.put(character);
            } else if item[1] == b'[' {
                self.control(&item[2..]);
            }
        }
    }

    /// Bytes of the next character or control sequence, if it is there as a whole.
    fn next_length(&self) -> Option<usize> {
        let rest = &self.sent[self.shown..];
        let first = *rest.first()?;
        let length = match first {
            0x1b if *rest.get(1)? == b'[' => {
                3 + rest[2..].iter().position(|byte| (0x40..=0x7e).contains(byte))?
            }
            0x1b => 2,
            0xf0.. => 4,
            0xe0.. => 3,
            0xc0.. => 2,
            _ => 1,
        };
        (rest.len() >= length).then_some(length)
    }

    fn put(&mut self, character: char) {
        match character {
            '\r' => self.column = 0,
            '\n' => self.row = (self.row + 1).min(LINES - 1),
            _ if self.column < COLUMNS => {
                self.cells[self.row][self.column] = character;
                self.column += 1;
            }
            _ => {}
        }
    }

    fn control(&mut self, sequence: &[u8]) {
        let (numbers, command) = sequence.split_at(sequence.len() - 1);
        let numbers = String::from_utf8_lossy(numbers).into_owned();
        let mut numbers = numbers.split(';').map(|number| number.parse::<usize>().unwrap_or(1));
        match command {
            b"H" => {
                self.row = numbers.next().unwrap_or(1).clamp(1, LINES) - 1;
                self.column = numbers.next().unwrap_or(1).clamp(1, COLUMNS) - 1;
            }
            b"J" => self.cells = vec![vec![' '; COLUMNS]; LINES],
            _ => {}
        }
    }

    fn lines(&self) -> Vec<String> {
        self.cells.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect()
    }
}

impl Terminal {
    fn start(etw: &Etw, args: &[&str]) -> Terminal {
        Terminal::run(etw.session_command(args))
    }

    fn run(mut command: Command) -> Terminal {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let name = ptsname(&user, Vec::new()).unwrap();
        let open = || File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let line = open();
        let size = Winsize { ws_row: LINES as u16, ws_col: COLUMNS as u16, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&line, size).unwrap();
        let before = tcgetattr(&line).unwrap();
        command.stdin(open()).stdout(open()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let screen = Arc::new(Mutex::new(Screen::new()));
        let (shown, mut output) = (screen.clone(), File::from(user.try_clone().unwrap()));
        std::thread::spawn(move || {
            let mut bytes = [0; 65_536];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().receive(&bytes[..count]);
            }
        });
        Terminal { child, keys: File::from(user), line: line.into(), before, screen }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen is as it should be; `false` if the command has ended before.
    fn wait_for(&mut self, what: &str, is_so: impl Fn(&[String]) -> bool) -> bool {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let lines = self.screen.lock().unwrap().lines();
            if is_so(&lines) {
                return true;
            }
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(Instant::now() < end, "{what}:\n{}", lines.join("\n"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for the exit; returns standard error, and whether the terminal was restored.
    fn end(&mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        let status = self.child.wait().unwrap();
        let after = tcgetattr(&self.line).unwrap();
        assert_eq!(after.local_modes, self.before.local_modes);
        assert_eq!(after.input_modes, self.before.input_modes);
        assert_eq!(after.output_modes, self.before.output_modes);
        (status.code(), text)
    }

    /// Waits for a text: another thread reads what the program sends, also after its end.
    fn has_sent(&self, text: &str) -> bool {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let screen = self.screen.lock().unwrap();
            if screen.sent.windows(text.len()).any(|part| part == text.as_bytes()) {
                return true;
            }
            drop(screen);
            if Instant::now() > end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn has(lines: &[String], text: &str) -> bool {
    lines.iter().any(|line| line.contains(text))
}

#[test]
fn the_system_is_watched_in_a_terminal() {
    let etw = Etw::new();
    let mut terminal = Terminal::start(&etw, &["watch", "-k", "PROC_THREAD+CSWITCH"]);
    if !terminal.wait_for("switches", |lines| has(lines, "Thread/CSwitch")) {
        let (_, text) = terminal.end();
        assert!(
            text.contains("which this process lacks") || text.contains("/sys/kernel/btf/vmlinux"),
            "{text}"
        );
        etw_testkit::skip!("{text}");
        return;
    }
    terminal.press("f~no such text\r");
    terminal
        .wait_for("no event", |lines| !has(lines, "Thread/CSwitch") && has(lines, "filter: ~no such text"));
    terminal.press("F2");
    terminal.wait_for("processes", |lines| has(lines, "CPU %") && has(lines, "etw"));
    terminal.press("3");
    terminal.wait_for("what files need", |lines| has(lines, "-k FILE_IO+FILE_IO_INIT"));
    terminal.press("s\x15kept.etl\r");
    terminal.wait_for("saving", |lines| has(lines, "saving to kept.etl"));
    terminal.press("1");
    terminal.wait_for("switches", |lines| has(lines, "Thread/CSwitch"));
    terminal.press("q");
    let (status, text) = terminal.end();
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("kept.etl: "), "{text}");
    // Back from the other screen, with a cursor.
    assert!(terminal.has_sent("\x1b[?1049l") && terminal.has_sent("\x1b[?25h"));
    let events = json_lines(&etw.ok(&["dump", "kept.etl", "--format", "json"]));
    let count = |kind: &str| events.iter().filter(|event| event["System"]["EventType"] == kind).count();
    assert!(count("Thread/CSwitch") > 0 && count("Process/DCStart") > 0 && count("Thread/DCStart") > 0);
    let info = json_lines(&etw.ok(&["info", "kept.etl", "--format", "json"])).remove(0);
    assert_eq!((&info["damage_count"], &info["undecoded"]), (&0.into(), &serde_json::json!([])), "{info}");
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    let etw = Etw::new();
    let mut terminal = Terminal::start(&etw, &["watch", "-p", NUMBERS]);
    assert!(terminal.wait_for("the view", |lines| has(lines, "1 Events")));
    let pid = terminal.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let (status, text) = terminal.end();
    assert_eq!((status, text.as_str()), (Some(0), ""));
    assert!(terminal.has_sent("\x1b[?1049l"));
}

/// A watch as text, whose first table has been printed.
struct Batch {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    text: String,
}

impl Batch {
    fn start(etw: &Etw, args: &[&str]) -> Batch {
        let mut command = etw.session_command(&[&["watch"], args].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let text = lines.next().unwrap().unwrap();
        Batch { child, lines, text }
    }

    /// All that was printed, and standard error.
    fn end(mut self) -> (String, String) {
        for line in self.lines {
            self.text.push('\n');
            self.text.push_str(&line.unwrap());
        }
        let output = self.child.wait_with_output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{error}");
        (self.text, error)
    }
}

/// `arguments` is how many numbers, and the microseconds after each hundred.
fn write_numbers(etw: &Etw, arguments: &str) {
    let mut command = Command::new(program());
    let output = command
        .args(arguments.split(' '))
        .env("OPENETW_RUNTIME_DIR", etw.dir.path().join("run"))
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("lost 0\n"));
}

/// The numbers of a file's events, in their order.
fn numbers(etw: &Etw, file: &str) -> Vec<u64> {
    let events = json_lines(&etw.ok(&["dump", file, "--provider", NUMBERS, "--format", "json"]));
    events.iter().map(|event| event["EventData"]["number"].as_u64().unwrap()).collect()
}

#[test]
fn tables_are_printed_and_everything_is_saved() {
    let etw = Etw::new();
    let batch = Batch::start(&etw, &["--batch", "4", "-p", NUMBERS, "--view", "processes", "-o", "t.etl"]);
    // Runs for a second, so that its name is read from the system while it exists.
    write_numbers(&etw, "10000 10000");
    let (text, error) = batch.end();
    assert_eq!(text.lines().filter(|line| line.trim() == "Processes").count(), 4);
    assert!(text.contains("10,000 events  0 lost"), "{text}");
    let row = text.lines().find(|line| line.contains("numbered_events")).unwrap();
    assert!(row.contains('K') || row.contains("000"), "events of a second: {row}");
    assert!(error.contains("t.etl: 10,000 events, complete"), "{error}");
    assert_eq!(numbers(&etw, "t.etl"), (0..10_000).collect::<Vec<u64>>());
}

#[test]
fn a_session_that_runs_is_watched_and_left_alone() {
    let etw = Etw::new();
    let _daemon = etw.start(&["daemon"]);
    let run = |args: &[&str]| etw.session_command(args).output().unwrap();
    assert!(run(&["session", "start", "Live", "--real-time", "-p", NUMBERS]).status.success());
    let batch = Batch::start(&etw, &["--batch", "4", "-s", "Live", "-o", "s.etl"]);
    write_numbers(&etw, "5000");
    let (text, error) = batch.end();
    assert!(
        text.contains("5,000 events  0 lost") && text.contains("saving to s.etl: 5,000 events"),
        "{text}"
    );
    assert!(error.contains("s.etl: 5,000 events, complete"), "{error}");
    assert_eq!(numbers(&etw, "s.etl"), (0..5000).collect::<Vec<u64>>());
    let listed = String::from_utf8(run(&["session", "list"]).stdout).unwrap();
    assert!(listed.contains("Live") && !listed.contains("etw-watch"), "{listed}");
    // A session of its own goes with it.
    Batch::start(&etw, &["--batch", "1", "-p", NUMBERS]).end();
    let listed = String::from_utf8(run(&["session", "list"]).stdout).unwrap();
    assert!(!listed.contains("etw-watch"), "{listed}");
}

#[test]
fn without_a_terminal_it_says_what_to_use() {
    let etw = Etw::new();
    let (status, text) = etw.fails(&["watch"]);
    assert_eq!(status, 2);
    assert!(text.contains("--batch") && text.contains("etw dump -s") && text.lines().count() == 1, "{text}");
    assert_eq!(etw.fails(&["watch", "--batch", "1", "-s", "None", "-k", "CSWITCH"]).0, 2);
    assert_eq!(etw.fails(&["watch", "--batch", "1", "--where", "id =="]).0, 2);
}

/// Packs a file with gzip.
fn pack(from: &str, to: &str) {
    let mut encoder = flate2::write::GzEncoder::new(File::create(to).unwrap(), flate2::Compression::fast());
    encoder.write_all(&std::fs::read(from).unwrap()).unwrap();
    encoder.finish().unwrap();
}

#[test]
fn a_file_is_shown_to_its_end_and_kept_open() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 4000, 7);
    pack(&etw.path("a.etl"), &etw.path("a.etl.gz"));
    // Standard input takes the place of the keyboard, so keys come from the controlling terminal.
    let mut from_pipe = Command::new("setsid");
    let program = env!("CARGO_BIN_EXE_etw");
    from_pipe.args(["--ctty", "--wait", "sh", "-c", "cat a.etl.gz | \"$0\" watch -", program]);
    from_pipe.current_dir(etw.dir.path()).env("OPENETW_SCHEMAS", etw.path("schemas"));
    for command in [etw.session_command(&["watch", "a.etl.gz"]), from_pipe] {
        let mut terminal = Terminal::run(command);
        terminal.wait_for("the end", |lines| has(lines, "end of the trace"));
        terminal.wait_for("the last event", |lines| has(lines, "Number=3999") && !has(lines, "Number=3900"));
        terminal.wait_for("counts", |lines| has(lines, "4,000 events") && has(lines, "7 lost"));
        terminal.press("s");
        terminal.wait_for("no saving", |lines| has(lines, "etw relog"));
        terminal.press("g");
        terminal.wait_for("the first event", |lines| has(lines, "Number=0 "));
        // It has ended long ago, and stays.
        std::thread::sleep(Duration::from_millis(600));
        assert!(terminal.child.try_wait().unwrap().is_none());
        terminal.press("q");
        let (status, text) = terminal.end();
        assert_eq!(status, Some(0), "{text}");
        assert!(text.contains("lost 7 events") && text.lines().count() == 1, "{text}");
        assert!(terminal.has_sent("\x1b[?1049l"));
    }
}

#[test]
fn a_file_is_replayed_at_a_speed() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 4000, 0);
    // Four seconds would take an hour.
    let mut terminal = Terminal::start(&etw, &["watch", "a.etl", "--speed", "0.001"]);
    terminal.wait_for("the first event", |lines| has(lines, "Number=0 ") && has(lines, "0.001x"));
    terminal.press(" ");
    terminal.wait_for("a pause", |lines| has(lines, "PAUSED"));
    terminal.press(" ");
    terminal.press(&"+".repeat(30));
    terminal.wait_for("the end", |lines| has(lines, "end of the trace") && has(lines, "Number=3999"));
    terminal.press("q");
    assert_eq!(terminal.end(), (Some(0), String::new()));
}

#[test]
fn a_file_is_printed_second_by_second() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 3500, 0);
    let run = |args: &[&str]| etw.ok(&[&["watch", "a.etl", "--view", "processes", "--batch"], args].concat());
    let statuses = |text: &str| {
        let lines = text.lines().filter(|line| line.contains("events/s")).map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    let all = run(&["0"]);
    // The seconds begin with the trace, whose first event comes after a millisecond.
    let expected = [("999", "999"), ("1,000", "1,999"), ("1,000", "2,999"), ("501", "3,500")];
    let expected = expected.map(|(rate, events)| format!("{rate} events/s  {events} events  0 lost"));
    assert_eq!(statuses(&all), expected);
    let rows = all.lines().filter(|line| line.trim_start().starts_with("100 "));
    assert_eq!(rows.count(), 4, "{all}");
    assert_eq!(run(&["9"]), all);
    assert_eq!(statuses(&run(&["2"])), expected[..2]);
    assert!(run(&["1", "--pid", "101"]).lines().all(|line| !line.trim_start().starts_with("100 ")));
    let mut piped = etw.command(&["watch", "-", "--view", "processes", "--batch", "0"]);
    let output = piped.stdin(File::open(etw.path("a.etl")).unwrap()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), all);
}

#[test]
fn files_that_cannot_be_watched_are_refused() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 5, 0);
    let check = |args: &[&str], status: i32, part: &str| {
        let (code, text) = etw.fails(&[&["watch"], args].concat());
        assert!(code == status && text.contains(part), "{args:?}: {text}");
    };
    check(&["a.etl"], 2, "etw dump FILE");
    check(&["a.etl", "--batch", "1", "-k", "CSWITCH"], 2, "--kernel");
    check(&["a.etl", "--batch", "1", "-s", "Session"], 2, "--session");
    check(&["a.etl", "--batch", "1", "--buffer-size", "1MB"], 2, "--buffer-size");
    check(&["--speed", "2"], 2, "<FILE>");
    check(&["a.etl", "--speed", "0"], 2, "not a number above 0");
    check(&["none.etl", "--batch", "1"], 1, "none.etl");
    crate::machines::write(&etw.path("b.etl"), 1000, "server", "/file", 5);
    check(&["a.etl", "b.etl", "--batch", "1"], 2, "a.etl and b.etl are of different machines");
    assert!(etw.ok(&["watch", "a.etl", "a.etl", "--batch", "1"]).contains("10 events  0 lost"));
}
