//! Tiles and histograms, beside `etw report` and each other.

use serde_json::{Value, json};

use crate::{Client, PERFVIEW, number, real, report, start};

const BUCKETS: usize = 512;

struct Tile {
    weights: Vec<f32>,
    counts: Vec<u32>,
}

fn tile(client: &Client, run: &str, group: &str, level: u32, index: u64) -> Tile {
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
        let is_busy = group["measure"] == "busy";
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
