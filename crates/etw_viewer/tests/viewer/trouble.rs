//! A tab that is closed, a server that is killed, a disk that is full: each leaves a clear state.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use etw_testkit::browser::Browser;
use serde_json::json;

use crate::{Client, PERFVIEW, Page, real, small, start};

/// Maximum time for a program to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// The program `etw-view`.
struct Program {
    process: Child,
    url: String,
    address: SocketAddr,
}

impl Program {
    /// Starts a command that runs it, and waits for its URL.
    fn start(mut command: Command) -> Option<Program> {
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        let Some(address) = url.strip_prefix("http://") else {
            let mut program = Program { process, url, address: ([127, 0, 0, 1], 0).into() };
            etw_testkit::skip!("{}", program.end());
            return None;
        };
        let address = address.split('/').next().unwrap().parse().unwrap();
        Some(Program { process, url, address })
    }

    /// Ends the program; returns what it printed as errors.
    fn end(&mut self) -> String {
        let _ended = self.process.kill().and_then(|()| self.process.wait());
        let mut text = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ended = self.process.kill().and_then(|()| self.process.wait());
    }
}

fn view(files: &[&Path]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_etw-view"));
    command.arg("--no-browser").args(files);
    command
}

#[test]
fn a_closed_tab_leaves_the_server_as_it_was() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path);
    let client = Client::enter(&viewer);
    let Some(mut browser) = Browser::start() else { return };
    // The tab is closed while it asks for everything.
    browser.open(&viewer.url());
    drop(browser);
    let asked = Instant::now();
    let view = json!({ "table": "events", "keys": ["kind.provider"], "values": ["rows"], "filters": [] });
    assert_eq!(client.ask("/api/rows", &json!({ "view": view, "limit": 10 })).status, 200);
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    // Another one is let in by a new URL, and shows the same.
    let Some(mut page) = Page::from_viewer(viewer, "table=\"events\"") else { return };
    page.wait("document.querySelector('.virtual td')");
    page.check();
}

#[test]
fn a_killed_server_is_said_and_another_one_opens_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    let mut program = Program::start(view(&[&path])).unwrap();
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&format!("{}#table=events&flat=true", program.url));
    let mut page = Page { browser, address: program.address, _viewer: None };
    page.wait("document.querySelector('.virtual td')");
    program.end();
    page.wait("document.querySelector('.gone')?.textContent.includes('etw view has ended')");
    // What was shown stays; what is asked for then is said to be missing.
    assert_ne!(page.cells().len(), 0);
    page.browser.click(".virtual tbody td");
    page.key("Enter");
    page.wait("document.querySelector('.details .message')?.textContent.includes('etw view has ended')");
    let state = page.browser.value("location.hash");
    let again = Program::start(view(&[&path])).unwrap();
    page.browser.open(&format!("{}{}", again.url, state.as_str().unwrap()));
    page.wait("document.querySelector('.details .hex')");
}

/// Runs `etw-view` with a disk of 64 KiB, which is full, for its index, its presets and its temporary files.
fn view_on_full_disk(disk: &Path, trace: &Path) -> Command {
    let script = "mount -t tmpfs -o size=64k none \"$1\" && shift && disk=$1 && shift; \
                  head -c 65536 /dev/zero > \"$disk/filler\"; TMPDIR=$disk exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-c", script, "sh"]).args([disk, disk]);
    command.arg(env!("CARGO_BIN_EXE_etw-view")).arg("--no-browser");
    command.arg("--index-dir").arg(disk).arg("--presets-dir").arg(disk).arg(trace);
    command
}

#[test]
fn a_full_disk_is_said() {
    let works = Command::new("unshare").args(["-Urm", "true"]).stderr(Stdio::null()).status();
    if !works.is_ok_and(|status| status.success()) {
        etw_testkit::skip!("needs the right to mount in a namespace of its own (unshare -Urm)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let path = small(folder.path());
    // Only of large traces an index is made; what follows the last buffer is no event.
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(65 << 20).unwrap();
    let Some(mut program) = Program::start(view_on_full_disk(&disk, &path)) else { return };
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&program.url);
    let mut page = Page { browser, address: program.address, _viewer: None };
    // The tables are there without an index.
    page.wait("document.querySelector('.virtual td')");
    // What cannot be saved is said, and nothing else changes.
    page.click_on(
        "[...document.querySelectorAll('.titlebar button')].find((one) => one.textContent === 'Presets')",
    );
    page.wait("document.activeElement.matches('.presets input')");
    page.browser.type_text("Mine");
    page.key("Enter");
    page.wait("document.querySelector('.presets .problem')?.textContent.includes('No space left')");
    page.wait("document.querySelector('.presets').textContent.includes('None yet.')");
    page.key("Escape");
    page.wait("!document.querySelector('.presets') && document.querySelector('.virtual td')");
    let said = program.end();
    assert!(said.contains("No space left"), "{said}");
}

#[test]
fn a_trace_that_is_no_trace_is_said_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no.etl");
    std::fs::write(&path, "no trace").unwrap();
    let mut process = view(&[&path]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let end = Instant::now() + PATIENCE;
    while process.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(process.wait().unwrap().code(), Some(1));
    let mut said = String::new();
    process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("no.etl") && said.trim().lines().count() == 1, "{said}");
}
