//! Two traces, and two times of one, beside each other.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use etw_testkit::traces::{Kind, Recipe};
use etw_viewer::{Options, Viewer};
use serde_json::{Value, json};

use crate::{Client, PERFVIEW, Page, arrow, number, question, real, report, small};

fn generated(folder: &Path, name: &str, events: u64) -> PathBuf {
    let path = folder.join(name);
    let (bytes, _) = etw_testkit::traces::bytes(&Recipe::new(Kind::Mixed, events)).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

fn start(path: PathBuf, base: PathBuf) -> Viewer {
    Viewer::start(Options { files: vec![path], base: vec![base], ..Options::default() }).unwrap()
}

/// Waits until the tables of both traces are complete.
fn enter(viewer: &Viewer) -> Client {
    let client = Client::enter(viewer);
    let end = Instant::now() + Duration::from_secs(120);
    while client.get("/api/status").json()["base"]["is_ready"] != true {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(20));
    }
    client
}

fn compared(client: &Client, view: &Value, more: &Value) -> (Value, Vec<HashMap<String, Value>>) {
    let mut body = json!({ "view": view, "offset": 0, "limit": 100 });
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    arrow(&client.ask("/api/compare/rows", &body))
}

#[test]
fn groups_of_two_traces_have_the_values_of_both() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (generated(folder.path(), "old.etl", 2000), generated(folder.path(), "new.etl", 3000));
    let viewer = start(new.clone(), old.clone());
    let client = enter(&viewer);
    let view = question("events", &["kind.event", "process"], &["rows", "sum(size)"]);
    let (info, rows) = compared(&client, &view, &json!({}));
    let sums = |path: &Path| -> HashMap<String, f64> {
        let rows = report(path, "events", &["kind.event"], &["sum(size)"], None);
        rows.iter()
            .map(|row| (row["kind.event"].as_str().unwrap_or("(none)").to_owned(), number(&row["sum(size)"])))
            .collect()
    };
    let (before, after) = (sums(&old), sums(&new));
    assert!(!rows.is_empty());
    for row in &rows {
        let name = row["label"].as_str().unwrap();
        let of = |sums: &HashMap<String, f64>| sums.get(name).copied().unwrap_or(0.0);
        assert_eq!(row["before:sum(size)"].as_f64().unwrap_or(0.0), of(&before), "{name}");
        assert_eq!(row["sum(size)"].as_f64().unwrap_or(0.0), of(&after), "{name}");
        assert_eq!(number(&row["change:sum(size)"]), of(&after) - of(&before), "{name}");
    }
    let names: Vec<&str> =
        info["values"].as_array().unwrap().iter().map(|value| value["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["before:rows", "rows", "change:rows", "before:sum(size)", "sum(size)", "change:sum(size)"]
    );
    // Processes are joined by name.
    assert_eq!(info["keys"][1]["name"], "process.name");
    // Those with the greatest change come first.
    let changes: Vec<f64> = rows.iter().map(|row| number(&row["change:rows"]).abs()).collect();
    assert!(changes.windows(2).all(|pair| pair[0] >= pair[1]), "{changes:?}");
    // An open group has those in it, whose sums are its own.
    let mut open = view.clone();
    open["expanded"] = json!([serde_json::from_str::<Value>(rows[0]["path"].as_str().unwrap()).unwrap()]);
    open["sort"] = json!({ "by": "change:rows", "descending": true });
    let (_, opened) = compared(&client, &open, &json!({}));
    for column in ["before:rows", "rows"] {
        let inner = opened.iter().filter(|row| number(&row["depth"]) == 1.0);
        let inner: f64 = inner.map(|row| row[column].as_f64().unwrap_or(0.0)).sum();
        assert_eq!(inner, rows[0][column].as_f64().unwrap_or(0.0), "{column}");
    }
    let csv = client.ask("/api/compare/csv", &json!({ "view": view }));
    assert!(csv.text().starts_with("kind.event,process.name,before:rows,"), "{}", csv.text());
    let found =
        client.ask("/api/compare/find", &json!({ "view": view, "text": rows[1]["label"], "offset": 1 }));
    assert_eq!(found.json()["place"], 1);
}

#[test]
fn a_trace_is_the_same_as_itself() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path.clone(), path);
    let client = enter(&viewer);
    let mut view = question("cpu_sampled", &["thread.process", "thread", "frame.module"], &["sum(weight)"]);
    let (_, all) = compared(&client, &view, &json!({}));
    assert!(all.len() > 3);
    assert!(all.iter().all(|row| number(&row["change:sum(weight)"]) == 0.0), "{all:?}");
    // A filter to a process has its id in this trace only.
    let process =
        report(&real(PERFVIEW).unwrap(), "cpu_sampled", &["thread.process"], &["sum(weight)"], Some(1));
    let name = process[0]["thread.process"].as_str().unwrap();
    view["filters"] = json!([{ "column": "thread.process", "op": "is", "value": format!("s{name}") }]);
    let (info, one) = compared(&client, &view, &json!({}));
    assert_eq!(one.len(), 1);
    assert_eq!(info["rows"], info["before"]);
    let mut wrong = view.clone();
    wrong["keys"] = json!(["stack"]);
    let answer = client.ask("/api/compare/rows", &json!({ "view": wrong, "offset": 0, "limit": 5 }));
    assert_eq!(answer.status, 422);
    assert!(answer.text().contains("stacks are compared"), "{}", answer.text());
    // Stacks of both.
    let request = json!({ "table": "cpu_sampled", "filters": [], "weight": "weight",
        "view": "top-down", "with_trace": true });
    let (info, nodes) = arrow(&client.ask("/api/stacks", &request));
    assert!(nodes.len() > 10);
    assert_eq!(info["before"], info["total"]);
    assert!(nodes.iter().all(|node| node["before"] == node["inclusive"]));
    // Lanes are joined.
    let lanes = client.get("/api/compare/lanes").json();
    for group in lanes["groups"].as_array().unwrap() {
        for lane in group["lanes"].as_array().unwrap() {
            assert_eq!(lane["own"], lane["base"], "{group}");
        }
    }
    let run = client.get("/api/catalog").json()["run"].as_str().unwrap().to_owned();
    let tile = |base: &str| client.get(&format!("/api/{base}tile/{run}/samples_process/0/0")).body;
    assert_eq!(tile("base/"), tile(""));
    assert_eq!(client.get("/api/base/tile/other/samples_process/0/0").status, 404);
}

#[test]
fn two_times_of_a_trace_are_compared() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = crate::start(path);
    let client = Client::enter(&viewer);
    let half = client.get("/api/catalog").json()["length"].as_i64().unwrap() / 2;
    let mut view = question("disk", &["operation"], &["rows"]);
    let count = |from: i64, to: i64| {
        let mut view = view.clone();
        (view["from"], view["to"]) = (from.into(), to.into());
        let (info, _) = arrow(&client.ask("/api/rows", &json!({ "view": view, "offset": 0, "limit": 9 })));
        number(&info["rows"])
    };
    let (first, second) = (count(0, half), count(half, half * 2));
    (view["from"], view["to"]) = (half.into(), (half * 2).into());
    let (info, _) = compared(&client, &view, &json!({ "base": [0, half], "is_same_trace": true }));
    assert_eq!((number(&info["before"]), number(&info["rows"])), (first, second));
    assert_ne!(first, second);
    // Without another trace there is nothing else to compare with.
    let answer = client.ask("/api/compare/rows", &json!({ "view": view, "offset": 0, "limit": 9 }));
    assert_eq!(answer.status, 422);
    assert!(answer.text().contains("--compare"), "{}", answer.text());
}

#[test]
fn the_page_shows_two_traces_beside_each_other_and_their_difference() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (generated(folder.path(), "old.etl", 2000), generated(folder.path(), "new.etl", 3000));
    let viewer = start(new.clone(), old.clone());
    let Some(mut page) =
        Page::from_viewer(viewer, "table=\"events\"&keys=[\"kind.event\"]&values=[\"rows\"]")
    else {
        return;
    };
    let headings = "[...document.querySelectorAll('.virtual thead th')].map((one) => one.textContent).join()";
    page.wait(&format!("{headings} === 'Event,Count before,Count,Count change'"));
    page.wait("!document.querySelector('.busy')");
    let cells = page.cells();
    let rows = |path: &Path| report(path, "events", &["kind.event"], &["unique(size)"], None);
    let of = |rows: &[Value]| {
        rows.iter()
            .find(|row| row["kind.event"] == cells[0][0].as_str())
            .map_or(0.0, |row| number(&row["rows"]))
    };
    let (before, after) = (of(&rows(&old)), of(&rows(&new)));
    let shown = |text: &str| text.replace([',', '+'], "").parse::<f64>().unwrap_or(0.0);
    assert_eq!((shown(&cells[0][1]), shown(&cells[0][2])), (before, after));
    assert_eq!(shown(&cells[0][3]), after - before);
    assert_eq!(page.browser.value("!!document.querySelector('.virtual td.more')"), true);
    // The lanes of both, and their difference.
    page.wait("window.etwFrame.lanes > 0");
    let button = |name: &str| {
        format!(
            "[...document.querySelectorAll('.compare button')].find((one) => one.textContent === '{name}')"
        )
    };
    page.click_on(&button("Difference"));
    page.wait("JSON.parse(new URLSearchParams(location.hash.slice(1)).get('compare')) === 'difference'");
    page.wait("(() => { const canvas = document.querySelector('.lanes canvas'); const data = canvas.getContext('2d')\
        .getImageData(0, 0, canvas.width, canvas.height).data; for (let at = 0; at < data.length; at += 4) \
        if (data[at] === 0xd5 && data[at + 1] === 0x5e) return true; return false; })()");
    page.click_on(&button("Off"));
    page.wait(&format!("{headings} === 'Event,Count ▾'"));
    page.check();
}

#[test]
fn a_trace_to_compare_with_that_cannot_be_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        files: vec![small(folder.path())],
        base: vec![folder.path().join("none.etl")],
        ..Options::default()
    };
    let error = format!("{:#}", Viewer::start(options).unwrap_err());
    assert!(error.contains("none.etl"), "{error}");
}
