//! What threads and processors do over time, beside `etw report`.

use std::path::Path;

use etw_testkit::problems::Problem;
use openetw::etl::encode::RecordBuilder;
use openetw::etl::{EtlWriter, WriterOptions};
use openetw::{Clock, ClockType, FileTime, HookId, PointerSize, Ticks};
use serde_json::{Value, json};

use crate::timeline::{BUCKETS, tile};
use crate::{Client, Page, number, report, start};

/// Returns the lanes of a group.
fn group(client: &Client, name: &str) -> Value {
    let lanes = client.get("/api/lanes").json();
    let found = lanes.as_array().unwrap().iter().find(|one| one["name"] == name);
    found.unwrap_or_else(|| panic!("no lanes {name}: {lanes}")).clone()
}

/// Returns the length of a bucket of the whole trace in nanoseconds, and the part of the addresses of tiles.
fn whole(client: &Client) -> (f64, String) {
    let catalog = client.get("/api/catalog").json();
    (number(&catalog["length"]) * 100.0 / BUCKETS as f64, catalog["run"].as_str().unwrap().to_owned())
}

/// Returns the sum of a lane of a part over the whole trace, in nanoseconds.
fn sum(client: &Client, part: &str, lane: usize) -> f64 {
    let (bucket_ns, run) = whole(client);
    let weights = tile(client, &run, part, 0, 0).weights;
    weights[lane * BUCKETS..(lane + 1) * BUCKETS].iter().copied().map(f64::from).sum::<f64>() * bucket_ns
}

#[test]
fn threads_run_are_ready_and_wait() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("convoy.etl");
    std::fs::write(&path, Problem::LockConvoy.bytes().unwrap()).unwrap();
    let viewer = start(path.clone());
    let client = Client::enter(&viewer);
    let threads = group(&client, "cpu_thread");
    assert_eq!(
        threads["parts"],
        json!([
            { "name": "cpu_thread", "title": "running" },
            { "name": "thread_ready", "title": "ready" },
            { "name": "thread_waits", "title": "waiting" },
        ])
    );
    let groups = client.get("/api/lanes").json();
    assert!(groups.as_array().unwrap().iter().all(|one| one["name"] != "thread_ready"), "{groups}");
    let lanes = threads["lanes"].as_array().unwrap();
    let id_of =
        |lane: &Value| lane["label"].as_str().unwrap().rsplit("/ ").next().unwrap().parse::<i64>().ok();
    let mut all = 0.0;
    for (part, thread, value) in [
        ("cpu_thread", "old_thread.thread_id", "sum(ran)"),
        ("thread_ready", "new_thread.thread_id", "sum(ready)"),
        ("thread_waits", "new_thread.thread_id", "sum(waits)"),
    ] {
        let expected = report(&path, "cpu_precise", &[thread], &[value], None);
        for (place, lane) in lanes.iter().enumerate() {
            let row = expected.iter().find(|row| row[thread].as_i64() == id_of(lane));
            let wanted = row.and_then(|row| row[value].as_f64()).unwrap_or(0.0);
            let shown = sum(&client, part, place);
            assert!((shown - wanted).abs() <= wanted * 0.01 + 1e3, "{part} {lane}: {shown} {wanted}");
            all += shown;
        }
    }
    assert!(all > 0.0);
    // What a thread did at a time, and why.
    let columns = [
        "time",
        "new_thread.thread_id",
        "old_thread.thread_id",
        "readying_thread.thread_id",
        "processor",
        "ran",
        "waits",
        "new_wait_reason",
    ];
    let rows = report(&path, "cpu_precise", &columns, &[], None);
    let row = rows.iter().skip(rows.len() / 2).find(|row| row["waits"].as_f64().unwrap_or(0.0) > 1e6);
    let row = row.unwrap();
    let ticks = |name: &str| (number(&row[name]) / 100.0) as i64;
    let key_of = |thread: &Value| {
        let lane = lanes.iter().find(|lane| id_of(lane) == thread.as_i64());
        lane.unwrap_or_else(|| panic!("{thread}"))["key"].clone()
    };
    let ask = |thread: &str, at: i64| {
        client.ask("/api/slice", &json!({ "thread": key_of(&row[thread]), "at": at })).json()
    };
    let waiting = ask("new_thread.thread_id", ticks("time") - ticks("waits") / 2);
    assert_eq!((&waiting["state"], &waiting["reason"]), (&json!("waiting"), &row["new_wait_reason"]));
    assert_eq!(waiting["to"].as_i64().unwrap() - waiting["from"].as_i64().unwrap(), ticks("waits"));
    let by = waiting["by"].as_str().unwrap();
    assert!(by.ends_with(&row["readying_thread.thread_id"].to_string()), "{waiting} {row}");
    let ran = rows.iter().find(|row| {
        row["ran"].as_f64().unwrap_or(0.0) > 1e5 && row["old_thread.thread_id"].as_i64() > Some(0)
    });
    let ran = ran.unwrap();
    let at = (number(&ran["time"]) - number(&ran["ran"]) / 2.0) as i64 / 100;
    let question = json!({ "thread": key_of(&ran["old_thread.thread_id"]), "at": at });
    let running = client.ask("/api/slice", &question).json();
    assert_eq!(
        (&running["state"], number(&running["processor"])),
        (&json!("running"), number(&ran["processor"]))
    );
    assert_eq!(client.ask("/api/slice", &json!({ "thread": "x", "at": 0 })).status, 422);

    // The page draws the parts, and says on hover what the thread did.
    let (from, to) = (waiting["from"].as_i64().unwrap(), waiting["to"].as_i64().unwrap());
    let state =
        format!("table=\"cpu_precise\"&view=[{from},{to}]&closed=[\"cpu_processor\",\"cpu_process\"]");
    let Some(mut page) = Page::from_viewer(viewer, &state) else { return };
    page.wait("window.etwFrame.parts >= 6");
    let label = lanes.iter().find(|lane| lane["key"] == key_of(&row["new_thread.thread_id"])).unwrap();
    let place = page.browser.value(&format!(
        "(() => {{ const lane = [...document.querySelectorAll('.lanes .lane')].find((one) => one.textContent === {}); \
         lane.scrollIntoView({{ block: 'center' }}); const box = lane.getBoundingClientRect(); \
         const canvas = document.querySelector('.lanes canvas').getBoundingClientRect(); \
         return [canvas.left + canvas.width / 2, box.top + box.height / 2]; }})()",
        label["label"]
    ));
    page.browser.move_to((number(&place[0]), number(&place[1])));
    let reason = row["new_wait_reason"].as_str().unwrap();
    page.wait(&format!("document.querySelector('.tip')?.textContent.includes('waiting ({reason}) for')"));
    page.wait("document.querySelector('.tip').textContent.includes('made ready by')");
    page.check();
}

/// Writes a trace of two processors with times in idle states.
fn write_idle(path: &Path) {
    const ENTER: HookId = HookId(0x1239);
    const EXIT: HookId = HookId(0x123A);
    let clock = Clock::new(ClockType::Qpc, Ticks(0), FileTime(133_000_000_000_000_000), 10_000_000);
    let file = std::fs::File::create(path).unwrap();
    let mut writer = EtlWriter::new(file, WriterOptions::new(clock, 0x10000, 2)).unwrap();
    let mut put = |micros: i64, processor: u16, hook: HookId, words: &[u32], flags: &[u64]| {
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        let payload: Vec<u8> = words.chain(flags.iter().flat_map(|flags| flags.to_le_bytes())).collect();
        let record = RecordBuilder::system(PointerSize::Eight, hook, 0).time(Ticks(micros * 10));
        writer.write(processor, &record.payload(&payload).build().unwrap()).unwrap();
    };
    for (processor, state, from, to) in
        [(0, 1, 100, 180), (0, 2, 200, 320), (1, 3, 100, 400), (0, 4, 500, 700), (1, 1, 800, 900)]
    {
        put(from, processor, ENTER, &[state, 0], &[0]);
        put(to, processor, EXIT, &[state, 0], &[]);
    }
    put(1000, 0, ENTER, &[1, 0], &[0]);
    writer.finish(clock.to_filetime(Ticks(10_000))).unwrap();
}

#[test]
fn processors_have_their_idle_states() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("idle.etl");
    write_idle(&path);
    let viewer = start(path.clone());
    let client = Client::enter(&viewer);
    let processors = group(&client, "core_processor");
    let lanes = processors["lanes"].as_array().unwrap();
    assert_eq!((&lanes[0]["label"], &lanes[1]["label"]), (&json!("CPU 0"), &json!("CPU 1")));
    let expected = report(&path, "cpu_idle_states", &["processor", "state"], &["sum(duration)"], None);
    for (part, states) in [("core_processor", 0..=1), ("core_second", 2..=2), ("core_deeper", 3..=100)] {
        for processor in 0..2_usize {
            let of = expected.iter().filter(|row| {
                number(&row["processor"]) == processor as f64
                    && states.contains(&(number(&row["state"]) as u32))
            });
            let wanted: f64 = of.map(|row| row["sum(duration)"].as_f64().unwrap_or(0.0)).sum();
            let shown = sum(&client, part, processor);
            assert!((shown - wanted).abs() <= 1e3, "{part} {processor}: {shown} {wanted}");
        }
    }
    assert!(sum(&client, "core_deeper", 1) > 2e5);
    let Some(mut page) = Page::from_viewer(viewer, "table=\"cpu_idle_states\"") else { return };
    page.wait("window.etwFrame.parts >= 4");
    page.click_on(
        "[...document.querySelectorAll('.lanes .lane')].find((one) => one.textContent === 'CPU 1')",
    );
    page.wait(
        "JSON.parse(new URLSearchParams(location.hash.slice(1)).get('filters'))[0].column === 'processor'",
    );
    let rows = expected.iter().filter(|row| number(&row["processor"]) == 1.0);
    let count: u64 = rows.map(|row| row["rows"].as_u64().unwrap()).sum();
    page.wait(&format!("document.querySelector('.status').textContent.includes('{count} rows')"));
    page.check();
}
