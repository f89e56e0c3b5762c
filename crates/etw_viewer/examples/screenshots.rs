//! Takes the pictures of docs/viewer.md and docs/viewer-tutorial.md:
//! `cargo run -p etw_viewer --example screenshots -- OUTPUT-DIRECTORY TRACE GPU-TRACE PROFILE`.
//!
//! For each picture the page is opened with a state in its URL, as a link from another person would open it.

#![expect(clippy::expect_used, reason = "a script for the documentation")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use etw_testkit::browser::Browser;
use etw_testkit::problems::Problem;
use etw_viewer::{Options, Viewer};

/// A picture: its name, the number of its trace, the state of the page, and what is done before it is taken.
struct Picture(&'static str, usize, &'static str, &'static str);

const PICTURES: &[Picture] = &[
    Picture("viewer", 0, "theme=\"light\"", ""),
    Picture(
        "viewer-table",
        0,
        "table=\"cpu_sampled\"&select=[QUARTER,HALF]&theme=\"light\"",
        "for (const key of ['ArrowDown', 'ArrowDown', 'Enter', 'ArrowDown', 'Enter', 'ArrowDown', 'Enter']) { \
         const host = document.querySelector('.virtual'); host.focus(); \
         host.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })); \
         await new Promise((done) => setTimeout(done, 600)); }",
    ),
    Picture("viewer-stacks", 0, "table=\"cpu_sampled\"&tab=\"stacks\"&theme=\"light\"", ""),
    Picture(
        "viewer-flame",
        0,
        "table=\"cpu_sampled\"&tab=\"stacks\"&stack={\"graph\":true}&theme=\"dark\"",
        "",
    ),
    Picture("viewer-events", 0, "table=\"events\"&flat=true&event=1200&theme=\"light\"", ""),
    Picture(
        "viewer-compare",
        0,
        "table=\"cpu_sampled\"&keys=[\"thread.process\",\"frame.module\"]&values=[\"sum(count)\",\"sum(weight)\"]\
         &select=[HALF,ALL]&stack={\"base\":[0,HALF]}&theme=\"light\"",
        "",
    ),
    Picture(
        "viewer-presets",
        0,
        "table=\"disk\"&theme=\"light\"",
        "[...document.querySelectorAll('.titlebar button')].find((one) => one.textContent === 'Presets').click(); \
         await new Promise((done) => setTimeout(done, 500)); \
         document.querySelectorAll('.presets details').forEach((one, at) => (one.open = at < 2));",
    ),
    Picture(
        "viewer-sql",
        0,
        "table=\"disk\"&tab=\"sql\"&theme=\"light\"",
        "const run = document.querySelector('.sql .run'); run.click(); \
         do { await new Promise((done) => setTimeout(done, 200)); } while (run.disabled);",
    ),
    Picture(
        "viewer-gc",
        0,
        "table=\"gc\"&closed=[\"samples_process\",\"samples_processor\",\"disk\",\"disk_bytes\",\"hard_faults\",\
         \"network\"]&theme=\"light\"",
        "",
    ),
    Picture("viewer-gpu", 1, "table=\"gpu_dma_packets\"&view=[MIDDLE,NEAR]&theme=\"light\"", ""),
    Picture(
        "viewer-providers",
        0,
        "page=\"providers\"&explorer={\"text\":\"DiskIo\"}&theme=\"light\"",
        "await new Promise((done) => setTimeout(done, 1500));",
    ),
];

/// The pictures of the tutorials, by the number of their problem.
const TUTORIALS: &[Picture] = &[
    Picture(
        "tutorial-cpu",
        0,
        "tab=\"stacks\"&table=\"cpu_sampled\"&select=[20500000,34500000]&theme=\"light\"",
        "",
    ),
    Picture(
        "tutorial-cpu-mine",
        0,
        "tab=\"stacks\"&table=\"cpu_sampled\"&select=[20500000,34500000]&stack={\"mine\":true}&theme=\"light\"",
        "",
    ),
    Picture(
        "tutorial-disk",
        1,
        "table=\"disk\"&select=[16000000,34000000]&theme=\"light\"",
        "for (const name of ['SATA disk', 'Write', 'Read', 'backup.exe (6400)']) { \
         const cell = [...document.querySelectorAll('.virtual td[data-toggle=closed]')].find((one) => one.textContent === name); \
         const box = cell.getBoundingClientRect(); const x = box.left + Number.parseFloat(cell.style.paddingLeft) + 5; \
         cell.dispatchEvent(new MouseEvent('mousedown', { bubbles: true, button: 0, clientX: x, clientY: box.top + 5 })); \
         await new Promise((done) => setTimeout(done, 800)); }",
    ),
    Picture(
        "tutorial-lock",
        2,
        "table=\"cpu_precise\"&tab=\"stacks\"&filters=[{\"column\":\"new_wait_reason\",\"op\":\"is\",\"value\":\"sUserRequest\",\"label\":\"UserRequest\"}]\
         &theme=\"light\"",
        "",
    ),
    Picture(
        "tutorial-lock-arrows",
        2,
        "table=\"cpu_precise\"&view=[25000000,25300000]&select=[25000000,25300000]&tab=\"stacks\"\
         &closed=[\"cpu_processor\",\"cpu_process\"]&theme=\"light\"",
        "",
    ),
    Picture(
        "viewer-threads",
        2,
        "table=\"cpu_precise\"&view=[25000000,25300000]&closed=[\"cpu_processor\",\"cpu_process\"]&theme=\"light\"",
        "",
    ),
    Picture(
        "tutorial-gc",
        3,
        "table=\"gc\"&closed=[\"samples_process\",\"samples_processor\"]&theme=\"light\"",
        "for (const name of ['Orders.exe (4720)', '2']) { \
         const cell = [...document.querySelectorAll('.virtual td[data-toggle=closed]')].find((one) => one.textContent === name); \
         const box = cell.getBoundingClientRect(); const x = box.left + Number.parseFloat(cell.style.paddingLeft) + 5; \
         cell.dispatchEvent(new MouseEvent('mousedown', { bubbles: true, button: 0, clientX: x, clientY: box.top + 5 })); \
         await new Promise((done) => setTimeout(done, 800)); }",
    ),
    Picture(
        "tutorial-gc-allocations",
        3,
        "table=\"allocations\"&tab=\"stacks\"&closed=[\"samples_process\",\"samples_processor\"]&theme=\"light\"",
        "",
    ),
];

/// The picture of a live session of the program `live_events`.
const LIVE: Picture = Picture(
    "viewer-live",
    0,
    "page=\"live\"&rules=[{\"column\":\"detail\",\"relation\":\"contains\",\"value\":\"parity=even\",\
     \"action\":\"highlight\"}]&theme=\"light\"",
    "document.querySelector('.live input[name=providers]').value = 'Example.Live'; \
     document.querySelector('.live .start').click(); \
     await new Promise((done) => setTimeout(done, 3000)); \
     [...document.querySelectorAll('.live button')].find((one) => one.textContent === 'Pause').click(); \
     await new Promise((done) => setTimeout(done, 500));",
);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [out, traces @ .., profile] = &words[..] else {
        eprintln!("usage: screenshots OUTPUT-DIRECTORY TRACE GPU-TRACE PROFILE");
        std::process::exit(2);
    };
    let Some(mut browser) = Browser::start() else { return };
    for (number, trace) in traces.iter().enumerate() {
        let options =
            Options { files: vec![trace.into()], profiles: vec![profile.into()], ..Options::default() };
        let viewer = Viewer::start(options).expect("a trace");
        browser.open(&viewer.url());
        wait(&mut browser, "!!document.querySelector('.virtual td')");
        let length = browser
            .value("fetch('/api/catalog').then((answer) => answer.json()).then((catalog) => catalog.length)");
        let length = length.as_i64().unwrap_or(1);
        for picture in PICTURES.iter().filter(|picture| picture.1 == number) {
            take(&mut browser, &viewer, picture, length, Path::new(out));
        }
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    for (number, (name, problem)) in Problem::ALL.iter().enumerate() {
        let path = folder.path().join(format!("{name}.etl"));
        std::fs::write(&path, problem.bytes().expect("a trace")).expect("the temporary directory");
        let options = Options { files: vec![path], ..Options::default() };
        let viewer = Viewer::start(options).expect("a trace");
        browser.open(&viewer.url());
        wait(&mut browser, "!!document.querySelector('.virtual td')");
        for picture in TUTORIALS.iter().filter(|picture| picture.1 == number) {
            take(&mut browser, &viewer, picture, 1, Path::new(out));
        }
    }
    take_live(&mut browser, Path::new(out));
}

/// Takes the picture of a live session. The script gives it a host of its own, so that no other program is in it.
fn take_live(browser: &mut Browser, out: &Path) {
    if std::env::var_os("OPENETW_RUNTIME_DIR").is_none() {
        println!("no picture of a live session: OPENETW_RUNTIME_DIR is not set");
        return;
    }
    let own = std::env::current_exe().expect("the path of this program");
    let viewer = Viewer::start(Options { is_live: true, ..Options::default() }).expect("a server");
    let writer = Command::new(own.with_file_name("live_events")).stdin(std::process::Stdio::piped()).spawn();
    let mut writer = writer.expect("the example live_events is built");
    browser.open(&viewer.url());
    take(browser, &viewer, &LIVE, 1, out);
    writer.kill().and_then(|()| writer.wait()).expect("the writer ends");
}

fn take(browser: &mut Browser, viewer: &Viewer, picture: &Picture, length: i64, out: &Path) {
    let Picture(name, _, state, script) = picture;
    let mut state = (*state).to_owned();
    for (word, time) in [
        ("QUARTER", length / 4),
        ("HALF", length / 2),
        ("ALL", length),
        ("MIDDLE", length / 2),
        ("NEAR", length / 2 + 50_000),
    ] {
        state = state.replace(word, &time.to_string());
    }
    browser.open("about:blank");
    browser.open(&format!("http://{}/#{}", viewer.address(), escape(&state)));
    wait(
        browser,
        "!!document.querySelector('.virtual td, .flame div, .message, .sql textarea, .providers, .explorerpage, main')",
    );
    settle(browser);
    if !script.is_empty() {
        browser.value(&format!("(async () => {{ {script} }})()"));
    }
    settle(browser);
    let path = out.join(format!("{name}.png"));
    let picture = browser.picture();
    let mut decode = Command::new("base64");
    let mut decode = decode
        .arg("-d")
        .stdin(std::process::Stdio::piped())
        .stdout(std::fs::File::create(&path).expect("the output directory"))
        .spawn()
        .expect("base64 is installed");
    let mut pipe = decode.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut pipe, picture.as_bytes()).expect("base64 reads");
    drop(pipe);
    assert!(decode.wait().expect("base64 ends").success());
    println!("{}", path.display());
    for error in browser.errors() {
        println!("error: {error}");
    }
}

/// Writes a state as `URLSearchParams` reads it.
fn escape(text: &str) -> String {
    text.replace('"', "%22").replace('{', "%7B").replace('}', "%7D").replace('[', "%5B").replace(']', "%5D")
}

fn wait(browser: &mut Browser, condition: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    while browser.value(condition) != true {
        assert!(Instant::now() < end, "{condition}: {}", browser.value("document.body.innerText"));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until tiles have arrived and are drawn.
fn settle(browser: &mut Browser) {
    browser.value("new Promise((done) => setTimeout(done, 900))");
}
