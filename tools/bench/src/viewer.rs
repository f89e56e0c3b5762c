//! The viewer suite: a large trace in a real browser, as a person opens it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use etw_testkit::browser::Browser;
use etw_testkit::data;
use etw_testkit::traces::{self, Kind, Recipe};

use super::packaged::packaged;
use super::row::Row;
use super::{Effort, memory};
use shell::process::{MINUTES_15, Process};

/// The trace has this many times the events of other suites: about 10 GB.
const LARGER: u64 = 100;
/// A real trace with many lanes.
const LANES: &str = "microsoft-perfview/net.4.5.2.x64.etl";
/// Height of a window in which its lanes are all visible.
const TALL: u32 = 14_000;
/// Whether something of the trace is drawn.
const PICTURE: &str = "window.etwPicture > 0";
/// Whether the timeline and the table are there.
const COMPLETE: &str = "window.etwFrame?.lanes > 0 && !!document.querySelector('.virtual td')";

/// Times 200 tiles of all lanes at twelve levels, one after the other, and returns that of the 95th percentile.
const TILES: &str = "(async () => { \
    const ask = async (path) => (await fetch(path)).json(); \
    const [lanes, { run }] = [await ask('/api/lanes'), await ask('/api/catalog')]; \
    const times = []; let random = 1; \
    for (let number = 0; number < 200; number += 1) { \
        random = (random * 16807) % 2147483647; \
        const level = number % 12; const index = random % 2 ** level; \
        const start = performance.now(); \
        const path = `/api/tile/${run}/${lanes[number % lanes.length].name}/${level}/${index}`; \
        await (await fetch(path, { cache: 'no-store' })).arrayBuffer(); \
        times.push(performance.now() - start); \
    } \
    return times.sort((a, b) => a - b)[Math.floor(times.length * 0.95)]; })()";

/// Times the first level of a pivot that was not asked for before, several times, and returns the median.
const PIVOT: &str = "(async () => { \
    const { length } = await (await fetch('/api/catalog')).json(); \
    const times = []; \
    for (let number = 0; number < 6; number += 1) { \
        const view = { table: 'events', keys: ['kind'], values: ['rows', 'sum(size)'], columns: [], filters: [], \
            expanded: [], sort: null, from: null, to: length - number }; \
        const headers = { 'Content-Type': 'application/json', 'X-OpenETW': '1' }; \
        const body = JSON.stringify({ view, offset: 0, limit: 100 }); \
        const start = performance.now(); \
        const answer = await fetch('/api/rows', { method: 'POST', headers, body }); \
        await answer.arrayBuffer(); \
        if (!answer.ok) return 'the pivot failed'; \
        if (number > 0) times.push(performance.now() - start); \
    } \
    return times.sort((a, b) => a - b)[2]; })()";

/// Measures a generated trace, which is removed afterwards, and the frames of a real one.
pub(crate) fn rows(effort: &Effort) -> Result<Vec<Row>> {
    let viewer = packaged(effort, "etw_viewer", "etw-view")?;
    if !viewer.exists() {
        eprintln!("skipped: {} is not built", viewer.display());
        return Ok(Vec::new());
    }
    let Some(mut browser) = Browser::start() else { return Ok(Vec::new()) };
    let directory = tempfile::Builder::new().prefix("openetw-viewer-").tempdir_in(shell::target_dir())?;
    let file = directory.path().join("large.etl");
    let events = effort.events * if effort.is_smoke() { 1 } else { LARGER };
    traces::write(BufWriter::new(File::create(&file)?), &Recipe::new(Kind::Recording, events))?;
    let gigabytes = fs::metadata(&file)?.len() as f64 / 1e9;
    let mut rows = Vec::new();
    let name = |what: &str| format!("{what} of a trace of {gigabytes:.1} GB");
    let (server, first) = opened(&viewer, &file, &mut browser)?;
    rows.push(Row::new(name("first picture"), first, "s"));
    let complete = Instant::now();
    wait(&mut browser, COMPLETE)?;
    rows.push(Row::new(name("timeline and tables"), first + complete.elapsed().as_secs_f64(), "s"));
    let peak = server.end();
    rows.push(Row::new("server while the index is made: peak memory without mapped files", peak, "MiB"));
    let mut again = Vec::new();
    for _ in 1..effort.rounds {
        // Other processes of the browser end meanwhile.
        let (server, seconds) = opened(&viewer, &file, &mut browser)?;
        drop(server);
        again.push(seconds);
    }
    let (server, seconds) = opened(&viewer, &file, &mut browser)?;
    again.push(seconds);
    rows.push(Row::new(name("first picture, opened again,"), super::median(&mut again), "s"));
    let complete = Instant::now();
    wait(&mut browser, COMPLETE)?;
    rows.push(Row::new(
        name("timeline and tables, opened again,"),
        seconds + complete.elapsed().as_secs_f64(),
        "s",
    ));
    rows.push(Row::new("tile: 95th percentile", number(&mut browser, TILES)?, "ms"));
    let millions = number(
        &mut browser,
        "fetch('/api/catalog').then((answer) => answer.json()).then((catalog) => \
        catalog.tables.find((table) => table.name === 'events').rows / 1e6)",
    )?;
    let pivot = number(&mut browser, PIVOT)? / 1000.0;
    rows.push(Row::new(format!("first level of a pivot over {millions:.1} M rows"), pivot, "s"));
    let heap = number(&mut browser, "performance.memory.usedJSHeapSize / 1e6")?;
    rows.push(Row::new("browser: heap of the page", heap, "MB"));
    let peak = server.end();
    rows.push(Row::new("server with an index: peak memory without mapped files", peak, "MiB"));
    rows.extend(frames(&viewer, &mut browser)?);
    Ok(rows)
}

/// Measures the script of a frame while the timeline of a real trace moves.
fn frames(viewer: &Path, browser: &mut Browser) -> Result<Option<Row>> {
    let Some(traces) = data::traces() else { return Ok(None) };
    let Some(trace) = traces.into_iter().find(|trace| trace.name == LANES) else { return Ok(None) };
    let server = Server::start(viewer, &trace.path)?;
    browser.resize((1280, TALL), 1.0);
    browser.open(&server.url);
    wait(browser, COMPLETE)?;
    browser.value("document.querySelectorAll('.lanes .more').forEach((one) => one.textContent !== 'fewer' && one.click())");
    let moved = "(async () => { const times = []; \
        document.activeElement?.blur(); \
        for (const key of ['w', 'w', ...'dadadadadadadadadada']) { \
            document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })); \
            await new Promise((done) => setTimeout(done, 120)); \
            times.push(window.etwFrame.ms); \
        } \
        return times.slice(2).sort((a, b) => a - b)[10]; })()";
    // The tiles of all lanes arrive.
    std::thread::sleep(Duration::from_secs(3));
    let milliseconds = number(browser, moved)?;
    let lanes = number(browser, "window.etwFrame.lanes")?;
    let name = format!("script of a frame, for each 200 of its {lanes} lanes");
    Ok(Some(Row::new(name, milliseconds * 200.0 / lanes, "ms")))
}

/// A running `etw-view`.
struct Server {
    process: Process,
    memory: JoinHandle<f64>,
    url: String,
}

impl Server {
    fn start(viewer: &Path, file: &Path) -> Result<Server> {
        let mut command = Command::new(viewer);
        command.arg(file).arg("--no-browser").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Process::spawn(&mut command, MINUTES_15)?;
        let mut url = String::new();
        BufReader::new(process.take_stdout().context("no output")?).read_line(&mut url)?;
        Ok(Server { memory: memory::watch(process.id()), process, url: url.trim().to_owned() })
    }

    /// Ends the server and returns its greatest memory in MiB, besides mapped files.
    fn end(self) -> f64 {
        drop(self.process);
        memory::peak_of(self.memory)
    }
}

/// Starts the viewer and opens its page; returns the seconds until something of the trace is drawn.
fn opened(viewer: &Path, file: &Path, browser: &mut Browser) -> Result<(Server, f64)> {
    browser.open("about:blank");
    let start = Instant::now();
    let server = Server::start(viewer, file)?;
    browser.open(&server.url);
    wait(browser, &format!("{PICTURE} || ({COMPLETE})"))?;
    Ok((server, start.elapsed().as_secs_f64()))
}

fn wait(browser: &mut Browser, condition: &str) -> Result<()> {
    let end = Instant::now() + MINUTES_15;
    while browser.value(&format!("!!({condition})")) != true {
        if Instant::now() > end {
            bail!("the page shows: {}", browser.value("document.body.innerText"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn number(browser: &mut Browser, expression: &str) -> Result<f64> {
    let value = browser.value(expression);
    value.as_f64().with_context(|| format!("the page answered {value}"))
}
