//! Takes the pictures of docs/viewer.md: `cargo run -p etw_viewer --example screenshots -- TRACE OUTPUT-DIRECTORY`.
//!
//! For each picture the page is opened with a state in its URL, as a link from another person would open it.

#![expect(clippy::expect_used, reason = "a script for the documentation")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use etw_testkit::browser::Browser;
use etw_viewer::{Options, Viewer};

/// Name of a picture, the state of the page, and what is done in it before the picture is taken.
const PICTURES: &[(&str, &str, &str)] = &[
    ("viewer", "theme=\"light\"", ""),
    (
        "viewer-table",
        "table=\"cpu_sampled\"&select=[QUARTER,HALF]&theme=\"light\"",
        "for (const key of ['ArrowDown', 'ArrowDown', 'Enter', 'ArrowDown', 'Enter', 'ArrowDown', 'Enter']) { \
         const host = document.querySelector('.virtual'); host.focus(); \
         host.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })); \
         await new Promise((done) => setTimeout(done, 600)); }",
    ),
    ("viewer-stacks", "table=\"cpu_sampled\"&tab=\"stacks\"&theme=\"light\"", ""),
    ("viewer-flame", "table=\"cpu_sampled\"&tab=\"stacks\"&stack={\"graph\":true}&theme=\"dark\"", ""),
    ("viewer-events", "table=\"events\"&flat=true&event=1200&theme=\"light\"", ""),
];

fn main() {
    let mut words = std::env::args().skip(1);
    let (Some(trace), Some(out)) = (words.next(), words.next()) else {
        eprintln!("usage: screenshots TRACE OUTPUT-DIRECTORY");
        std::process::exit(2);
    };
    let viewer = Viewer::start(Options { files: vec![trace.into()], ..Options::default() }).expect("a trace");
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&viewer.url());
    wait(&mut browser, "!!document.querySelector('.virtual td')");
    let length = browser
        .value("fetch('/api/catalog').then((answer) => answer.json()).then((catalog) => catalog.length)");
    let length = length.as_i64().unwrap_or(1);
    for (name, state, script) in PICTURES {
        let state =
            state.replace("QUARTER", &(length / 4).to_string()).replace("HALF", &(length / 2).to_string());
        browser.open("about:blank");
        browser.open(&format!("http://{}/#{}", viewer.address(), escape(&state)));
        wait(&mut browser, "!!document.querySelector('.virtual td, .flame canvas, .message')");
        settle(&mut browser);
        if !script.is_empty() {
            browser.value(&format!("(async () => {{ {script} }})()"));
        }
        settle(&mut browser);
        let path = Path::new(&out).join(format!("{name}.png"));
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
