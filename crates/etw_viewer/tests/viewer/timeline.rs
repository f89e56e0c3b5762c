//! Tiles and histograms, beside `etw report` and each other.

use etw_testkit::problems::Problem;
use etw_viewer::{Options, Viewer};
use serde_json::{Value, json};

use crate::{Client, GC, PERFVIEW, Page, number, real, report, small, start};

pub(super) const BUCKETS: usize = 512;

pub(super) struct Tile {
    pub(super) weights: Vec<f32>,
    counts: Vec<u32>,
}

pub(super) fn tile(client: &Client, run: &str, group: &str, level: u32, index: u64) -> Tile {
    let answer = client.get(&format!("/api/tile/{run}/{group}/{level}/{index}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.headers["cache-control"].contains("immutable"), "{:?}", answer.headers);
    let (weights, counts) = answer.body.split_at(answer.body.len() / 2);
    let (weights, rest) = weights.as_chunks::<4>();
    assert!(rest.is_empty());
    Tile {
        weights: weights.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
        counts: counts.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect(),
    }
}

#[test]
fn lanes_have_what_reports_count() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path.clone());
    let client = Client::enter(&viewer);
    let catalog = client.get("/api/catalog").json();
    let run = catalog["run"].as_str().unwrap();
    let length = number(&catalog["length"]);
    let lanes = client.get("/api/lanes").json();
    let groups = lanes.as_array().unwrap();
    assert!(groups.len() >= 4, "{lanes}");
    let bucket_ns = length * 100.0 / BUCKETS as f64;
    for (group, table, key, value) in [
        ("samples_process", "cpu_sampled", "thread.process", "sum(weight)"),
        ("disk_bytes", "disk", "operation", "sum(size)"),
        ("disk", "disk", "disk", "sum(duration)"),
        ("events", "events", "kind.provider", "sum(size)"),
    ] {
        let expected = report(&path, table, &[key], &[value], None);
        let lanes = groups.iter().find(|one| one["name"] == group).unwrap();
        let top = tile(&client, run, group, 0, 0);
        for (number_of_lane, lane) in lanes["lanes"].as_array().unwrap().iter().enumerate() {
            let part = number_of_lane * BUCKETS..(number_of_lane + 1) * BUCKETS;
            let label = lane["label"].as_str().unwrap();
            let wanted = expected
                .iter()
                .find(|row| row[key].as_str().unwrap_or("(none)") == label && row["rows"] == lane["rows"]);
            let wanted = wanted.unwrap_or_else(|| panic!("{group} {lane}"));
            let count: u64 = top.counts[part.clone()].iter().copied().map(u64::from).sum();
            assert_eq!(Some(count), wanted["rows"].as_u64(), "{group} {lane}");
            let weight: f64 = top.weights[part].iter().copied().map(f64::from).sum();
            let expected = match &*lanes["measure"].as_str().unwrap().to_owned() {
                "busy" => number(&wanted[value]) / bucket_ns,
                "bytes" => number(&wanted[value]),
                _ => count as f64,
            };
            // What began before the trace has a part outside.
            let tolerance = if group.starts_with("disk") { 0.2 } else { 1e-3 };
            assert!(
                (weight - expected).abs() <= expected * tolerance + 1e-6,
                "{group} {label}: {weight} {expected}"
            );
        }
    }
}

#[test]
fn deeper_tiles_have_the_same_rows() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path);
    let client = Client::enter(&viewer);
    let catalog = client.get("/api/catalog").json();
    let run = catalog["run"].as_str().unwrap().to_owned();
    let lanes = client.get("/api/lanes").json();
    for group in lanes.as_array().unwrap() {
        let name = group["name"].as_str().unwrap();
        let count = group["lanes"].as_array().unwrap().len();
        let all = |level: u32| {
            let mut sums = vec![(0_u64, 0.0_f64); count];
            for index in 0..1 << level {
                let tile = tile(&client, &run, name, level, index);
                for (lane, sum) in sums.iter_mut().enumerate() {
                    let part = lane * BUCKETS..(lane + 1) * BUCKETS;
                    sum.0 += tile.counts[part.clone()].iter().copied().map(u64::from).sum::<u64>();
                    sum.1 += tile.weights[part].iter().copied().map(f64::from).sum::<f64>();
                }
            }
            sums
        };
        let (top, base, deep) = (all(0), all(4), all(6));
        let is_busy = group["measure"] == "busy" || group["measure"] == "level";
        for (lane, ((top, base), deep)) in top.iter().zip(&base).zip(&deep).enumerate() {
            assert_eq!((top.0, top.0), (base.0, deep.0), "{name}");
            // Busy time is per bucket, of which there are 2^level times as many.
            for (level, other) in [(4, base), (6, deep)] {
                let scale = if is_busy { f64::from(1 << level) } else { 1.0 };
                let (one, other) = (top.1, other.1 / scale);
                assert!(
                    (one - other).abs() <= one.abs() * 1e-3 + 1e-6,
                    "{name} {lane} {level}: {one} {other}"
                );
            }
        }
    }
}

#[test]
fn tiles_are_kept_by_the_browser() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path);
    let client = Client::enter(&viewer);
    let run = client.get("/api/catalog").json()["run"].as_str().unwrap().to_owned();
    let name = format!("/api/tile/{run}/events/0/0");
    let tag = client.get(&name).headers["etag"].clone();
    let again = client.send("GET", &name, &[("Host", &client.host()), ("If-None-Match", &tag)], "");
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(client.get("/api/tile/0000000000000000/events/0/0").status, 404);
}

#[test]
fn histograms_count_the_rows_of_the_table() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path);
    let client = Client::enter(&viewer);
    let length = client.get("/api/catalog").json()["length"].as_i64().unwrap();
    let strip = |filters: Value, from: i64, to: i64| -> u64 {
        let question =
            json!({ "table": "events", "filters": filters, "from": from, "to": to, "buckets": 300 });
        let counts = client.ask("/api/strip", &question).json()["counts"].clone();
        assert_eq!(counts.as_array().unwrap().len(), 300);
        counts.as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum()
    };
    let catalog = client.get("/api/catalog").json();
    let tables = catalog["tables"].as_array().unwrap();
    let events = tables.iter().find(|table| table["name"] == "events").unwrap();
    assert_eq!(Some(strip(json!([]), 0, length)), events["rows"].as_u64());
    assert_eq!(
        strip(json!([]), 0, length / 2) + strip(json!([]), length / 2, length),
        strip(json!([]), 0, length)
    );
    let filter = |op: &str| json!([{ "column": "kind.event", "op": op, "value": "CSwitch" }]);
    let (with, without) = (strip(filter("contains"), 0, length), strip(filter("lacks"), 0, length));
    assert_eq!(with + without, strip(json!([]), 0, length));
}

/// Returns the sums of the lanes of a group over the whole trace, with the labels of the lanes.
fn sums(client: &Client, group: &str) -> Vec<(String, f64, u64)> {
    let run = client.get("/api/catalog").json()["run"].as_str().unwrap().to_owned();
    let lanes = client.get("/api/lanes").json();
    let found = lanes.as_array().unwrap().iter().find(|one| one["name"] == group);
    let found = found.unwrap_or_else(|| panic!("no lanes {group}"));
    let top = tile(client, &run, group, 0, 0);
    let lanes = found["lanes"].as_array().unwrap().iter().enumerate();
    lanes
        .map(|(number, lane)| {
            let part = number * BUCKETS..(number + 1) * BUCKETS;
            let weight = top.weights[part.clone()].iter().copied().map(f64::from).sum();
            let count = top.counts[part].iter().copied().map(u64::from).sum();
            (lane["label"].as_str().unwrap().to_owned(), weight, count)
        })
        .collect()
}

#[test]
fn lanes_of_dotnet_have_what_reports_count() {
    let Some(path) = real(GC) else { return };
    let viewer = start(path.clone());
    let client = Client::enter(&viewer);
    let length = number(&client.get("/api/catalog").json()["length"]);
    let bucket_ns = length * 100.0 / BUCKETS as f64;
    let expected = report(&path, "gc", &["process"], &["sum(pause)"], None);
    assert!(!expected.is_empty());
    let pauses = sums(&client, "gc_pause");
    for row in &expected {
        let label = row["process"].as_str().unwrap();
        let (_, weight, count) = pauses.iter().find(|(name, ..)| name == label).unwrap();
        assert_eq!(Some(*count), row["rows"].as_u64());
        let wanted = number(&row["sum(pause)"]) / bucket_ns;
        assert!((weight - wanted).abs() <= wanted * 1e-2 + 1e-6, "{weight} {wanted}");
    }
    // The heap after a collection holds until the next one, so its mean is between the least and the greatest.
    let sizes = report(&path, "gc", &["process"], &["min(size_after)", "max(size_after)"], None);
    let heap = sums(&client, "gc_heap");
    let row = &sizes[0];
    let (_, weight, _) = heap.iter().find(|(name, ..)| Some(&**name) == row["process"].as_str()).unwrap();
    let mean = weight / BUCKETS as f64;
    assert!(mean > 0.0 && mean <= number(&row["max(size_after)"]), "{mean} {row}");
}

#[test]
fn lanes_of_memory_and_waits_have_what_reports_count() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path.clone());
    let client = Client::enter(&viewer);
    let length = number(&client.get("/api/catalog").json()["length"]);
    let bucket_ns = length * 100.0 / BUCKETS as f64;
    let names = client.get("/api/lanes").json();
    let has = |group: &str| names.as_array().unwrap().iter().any(|one| one["name"] == group);
    let mut checked = 0;
    for (group, table, key) in [
        ("page_faults", "page_faults", "type"),
        ("registry", "registry", "thread.process"),
        ("exceptions", "exceptions", "type"),
        ("activities", "activities", "kind"),
        ("jit", "jit", "process"),
    ] {
        if !has(group) {
            continue;
        }
        let expected = report(&path, table, &[key], &["unique(process)"], None);
        let all: u64 = expected.iter().map(|row| row["rows"].as_u64().unwrap()).sum();
        let counted: u64 = sums(&client, group).iter().map(|(.., count)| count).sum();
        assert!(counted > 0 && counted <= all, "{group}: {counted} {all}");
        checked += 1;
    }
    if has("ready_process") {
        let ready: f64 = sums(&client, "ready_process").iter().map(|(_, weight, _)| weight * bucket_ns).sum();
        let expected = report(&path, "cpu_precise", &["new_thread.process"], &["sum(ready)"], None);
        let all: f64 = expected.iter().map(|row| row["sum(ready)"].as_f64().unwrap_or(0.0)).sum();
        assert!(ready > 0.0 && ready <= all * 1.001, "{ready} {all}");
        checked += 1;
    }
    assert!(checked > 0, "{names}");
}

#[test]
fn arrows_lead_from_who_readied_to_who_ran() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("convoy.etl");
    std::fs::write(&path, Problem::LockConvoy.bytes().unwrap()).unwrap();
    let viewer = start(path.clone());
    let client = Client::enter(&viewer);
    let length = client.get("/api/catalog").json()["length"].as_i64().unwrap();
    let rows = report(&path, "cpu_precise", &["time", "readying_thread", "ready"], &[], None);
    // All of it has too many.
    let whole = client.ask("/api/arrows", &json!({ "from": 0, "to": length })).json();
    assert_eq!((&whole["is_complete"], whole["arrows"].as_array().unwrap().len()), (&json!(false), 0));
    let middle = number(&rows[rows.len() / 2]["time"]) as i64 / 100;
    let (from, to) = (middle - 20_000, middle + 20_000);
    let found = client.ask("/api/arrows", &json!({ "from": from, "to": to })).json();
    assert_eq!(found["is_complete"], true, "{found}");
    let arrows = found["arrows"].as_array().unwrap();
    assert!(!arrows.is_empty(), "{found}");
    for arrow in arrows {
        let (ready, run) = (arrow["ready"].as_i64().unwrap(), arrow["run"].as_i64().unwrap());
        assert!(ready <= run && (from..to).contains(&run), "{arrow}");
        let row = rows.iter().find(|row| number(&row["time"]) as i64 / 100 == run && !row["ready"].is_null());
        let row = row.unwrap_or_else(|| panic!("{arrow}"));
        assert!((number(&row["ready"]) / 100.0 - (run - ready) as f64).abs() <= 1.0, "{arrow} {row}");
    }
    // The page draws them.
    let state = format!("table=\"cpu_precise\"&view=[{from},{to}]");
    let Some(mut page) = Page::from_viewer(viewer, &state) else { return };
    page.wait("window.etwFrame.arrows > 0");
    page.key("0");
    page.wait("window.etwFrame.arrows === 0");
    page.check();
}

#[test]
fn headers_of_buffers_are_the_first_picture() {
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    let size = std::fs::metadata(&path).unwrap().len() as f64;
    let viewer = start(path);
    let client = Client::enter(&viewer);
    let preview = client.get("/api/preview").json();
    assert_eq!(preview["is_complete"], true);
    let lanes = preview["lanes"].as_array().unwrap();
    assert_eq!(lanes.len(), 8);
    let bytes = lanes.iter().flat_map(|lane| lane["bytes"].as_array().unwrap());
    let bytes: f64 = bytes.map(number).sum();
    assert!(bytes > size * 0.5 && bytes <= size, "{bytes} {size}");
}

#[test]
fn the_page_shows_the_first_picture_before_the_tables_are_there() {
    use etw_testkit::traces::{Kind, Recipe};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.etl");
    let file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    etw_testkit::traces::write(file, &Recipe::new(Kind::Losses, 300_000)).unwrap();
    let viewer = start(path);
    let Some(mut browser) = etw_testkit::browser::Browser::start() else { return };
    browser.open(&viewer.url());
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while browser.value("window.etwPicture > 0") != true {
        assert!(std::time::Instant::now() < end, "{}", browser.value("document.body.innerText"));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // The losses are red, whether the timeline is there by now or not.
    let told = browser.value("document.querySelector('canvas.preview')?.ariaLabel ?? ''");
    assert!(told == "" || told.as_str().unwrap().contains("8 processors"), "{told}");
}

/// A file with the times for which .NET suspends a program.
const REGIONS: &str = r#"<InstrumentationManifest><Instrumentation><Regions>
  <RegionRoot Guid="{00000000-0000-0000-0000-000000000001}" Name="GC">
    <Region Guid="{00000000-0000-0000-0000-000000000002}" Name="Suspension">
      <Match><Event PID="true" /></Match>
      <Start><Event Provider="{e13c0d23-ccbc-4e12-931b-d9cc2eee27e4}" Id="9" /></Start>
      <Stop><Event Provider="{e13c0d23-ccbc-4e12-931b-d9cc2eee27e4}" Id="3" /></Stop>
    </Region>
  </RegionRoot>
</Regions></Instrumentation></InstrumentationManifest>"#;

#[test]
fn regions_are_lanes() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, file) = (folder.path().join("gc.etl"), folder.path().join("gc.regions.xml"));
    std::fs::write(&trace, Problem::GarbageCollections.bytes().unwrap()).unwrap();
    std::fs::write(&file, REGIONS).unwrap();
    // Without the file there are none.
    let viewer = start(trace.clone());
    let client = Client::enter(&viewer);
    let has_lanes = |client: &Client| {
        let lanes = client.get("/api/lanes").json();
        lanes.as_array().unwrap().iter().any(|one| one["name"] == "regions")
    };
    assert!(!has_lanes(&client));
    let options = Options { files: vec![trace.clone()], regions: vec![file.clone()], ..Options::default() };
    let viewer = Viewer::start(options.clone()).unwrap();
    let client = Client::enter(&viewer);
    let length = number(&client.get("/api/catalog").json()["length"]);
    let bucket_ns = length * 100.0 / BUCKETS as f64;
    let found = sums(&client, "regions");
    let (label, weight, count) = &found[0];
    // The suspensions are the pauses of the collections.
    let pauses = report(&trace, "gc", &["process"], &["sum(pause)"], None);
    let pause = number(&pauses[0]["sum(pause)"]);
    assert_eq!((&**label, *count), ("Suspension", pauses[0]["rows"].as_u64().unwrap()));
    assert!((weight * bucket_ns - pause).abs() < pause * 1e-3, "{weight} {pause}");
    // The page has the lane, and its rows.
    let Some(mut page) = Page::from_viewer(viewer, "") else { return };
    page.click_on(
        "[...document.querySelectorAll('.lanes .lane')].find((one) => one.textContent === 'Suspension')",
    );
    page.wait("new URLSearchParams(location.hash.slice(1)).get('table') === '\"regions_of_interest\"'");
    page.wait("document.querySelector('.virtual td')?.textContent.includes('Suspension')");
    let cells = page.cells();
    assert!(cells[0].contains(&count.to_string()), "{cells:?}");
    page.check();
    // A file that does not define regions is refused.
    std::fs::write(&file, "<InstrumentationManifest>").unwrap();
    let refused = format!("{:#}", Viewer::start(options).unwrap_err());
    assert!(refused.contains("gc.regions.xml"), "{refused}");
}
