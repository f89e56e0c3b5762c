//! Presets as files, and profiles of Windows Performance Analyzer.

use std::path::PathBuf;

use etw_viewer::{Options, Viewer};
use serde_json::{Value, json};

use crate::{Client, PERFVIEW, Page, arrow, number, question, real, report, small};

/// A profile with a graph that is known, and one that is not.
const PROFILE: &str = r#"<WpaProfileContainer Version="2"><Content><Views><View Title="Disks"><Graphs>
<Graph Guid="12c5387c-58ca-45d4-a5c6-450475c30e06"><Preset Name="By type" KeyColumnCount="2" GraphColumnCount="6">
<Columns><Column Name="IO Type" IsVisible="true"/><Column Name="Disk" IsVisible="true"/>
<Column Name="Size" AggregationMode="Sum" SortOrder="Descending" SortPriority="0" IsVisible="true"/>
<Column Name="Boredom" IsVisible="true"/></Columns></Preset></Graph>
<Graph Guid="12c5387c-58ca-45d4-a5c6-450475c30e06"><Preset Name="By disk" KeyColumnCount="1" GraphColumnCount="6">
<Columns><Column Name="Disk" IsVisible="true"/></Columns></Preset></Graph>
<Graph Guid="00000000-1111-2222-3333-444444444444"><Preset Name="Other" KeyColumnCount="0"/></Graph>
</Graphs></View></Views></Content></WpaProfileContainer>"#;

fn start(path: PathBuf, presets: PathBuf, profiles: Vec<PathBuf>) -> Viewer {
    let options = Options { files: vec![path], presets: Some(presets), profiles, ..Options::default() };
    Viewer::start(options).unwrap()
}

fn preset(name: &str) -> Value {
    json!({ "name": name, "table": "events", "keys": ["kind.provider"], "values": ["rows"], "columns": [],
        "flat": false, "sort": null, "filters": [{ "column": "process", "op": "is", "value": "c3" }] })
}

#[test]
fn presets_are_saved_listed_shared_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let presets = folder.path().join("presets");
    let viewer = start(small(folder.path()), presets.clone(), Vec::new());
    let client = Client::enter(&viewer);
    assert_eq!(client.get("/api/presets").json()["saved"], json!([]));
    // The filter means a row of this trace.
    let saved = client.ask("/api/presets/save", &json!([preset("Events & more")])).json();
    assert_eq!(saved["left_out"], 1);
    let listed = client.get("/api/presets").json();
    assert_eq!(listed["saved"][0]["name"], "Events & more");
    assert_eq!(listed["saved"][0]["filters"], json!([]));
    assert_eq!(std::fs::read_dir(&presets).unwrap().count(), 1);
    // What another person gets.
    let file = client.ask("/api/presets/file", &json!([preset("Events & more")]));
    let opened =
        client.ask("/api/presets/open", &json!({ "name": "x.etwpresets", "text": file.text() })).json();
    assert_eq!(opened["presets"][0]["keys"], json!(["kind.provider"]));
    let wrong = client.ask("/api/presets/open", &json!({ "name": "x.txt", "text": "hello" }));
    assert_eq!(wrong.status, 422);
    assert!(wrong.text().contains("x.txt: neither a file of presets"), "{}", wrong.text());
    let outside = client.ask("/api/presets/delete", &json!({ "file": "../small.etl", "name": "" }));
    assert_eq!(outside.status, 422);
    let deletion = json!({ "file": listed["saved"][0]["file"], "name": "Events & more" });
    client.ask("/api/presets/delete", &deletion).json();
    assert_eq!(client.get("/api/presets").json()["saved"], json!([]));
}

#[test]
fn presets_that_cannot_be_written_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = start(small(folder.path()), folder.path().join("small.etl"), Vec::new());
    let client = Client::enter(&viewer);
    let answer = client.ask("/api/presets/save", &json!([preset("a")]));
    assert_eq!(answer.status, 422);
    assert!(answer.text().starts_with("cannot write"), "{}", answer.text());
}

#[test]
fn every_preset_of_the_published_profiles_can_be_shown() {
    let Some(folder) = etw_testkit::data::data_dir() else { return };
    let Some(path) = real(PERFVIEW) else { return };
    let mut profiles = Vec::new();
    for folder in std::fs::read_dir(folder.join("wpa-profiles")).unwrap().flatten() {
        let files = std::fs::read_dir(folder.path()).into_iter().flatten().flatten().map(|file| file.path());
        profiles.extend(files.filter(|path| path.extension().is_some_and(|name| name == "wpaProfile")));
    }
    let own = tempfile::tempdir().unwrap();
    let viewer = start(path, own.path().to_owned(), profiles.clone());
    let client = Client::enter(&viewer);
    let listed = client.get("/api/presets").json();
    let files = listed["named"].as_array().unwrap();
    assert_eq!(files.len(), profiles.len());
    let mut count = 0;
    for preset in files.iter().flat_map(|file| file["presets"].as_array().unwrap()) {
        let flat = preset["flat"] == true;
        let mut view = preset.clone();
        view["expanded"] = json!([]);
        view[if flat { "keys" } else { "columns" }] = json!([]);
        let answer = client.ask("/api/rows", &json!({ "view": view, "offset": 0, "limit": 10 }));
        assert_eq!(answer.status, 200, "{preset}: {}", answer.text());
        count += 1;
    }
    assert!(count >= 40, "{count}");
    // Highlights and selections are listed.
    let missing = files.iter().flat_map(|file| file["presets"].as_array().unwrap());
    let missing = missing.flat_map(|preset| preset["missing"].as_array().unwrap());
    let missing: Vec<&str> = missing.map(|one| one["what"].as_str().unwrap()).collect();
    assert!(missing.contains(&"the highlight of Start Time"), "{missing:?}");
    assert!(missing.iter().any(|what| what.starts_with("the selection ([Series Name]")), "{missing:?}");
    // The disk's preset has what a report of the same columns has.
    let path = real(PERFVIEW).unwrap();
    let by_size = "Path / Size";
    let preset = files.iter().flat_map(|file| file["presets"].as_array().unwrap());
    let preset = preset.into_iter().find(|preset| preset["name"] == by_size).unwrap();
    let keys: Vec<&str> =
        preset["keys"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
    let expected = report(&path, "disk", &keys[..1], &["sum(size)"], None);
    let mut view = question("disk", &keys[..1], &["sum(size)"]);
    view["filters"] = preset["filters"].clone();
    let (_, rows) = arrow(&client.ask("/api/rows", &json!({ "view": view, "offset": 0, "limit": 5 })));
    assert_eq!(number(&rows[0]["sum(size)"]), number(&expected[0]["sum(size)"]));
}

#[test]
fn expressions_over_columns_filter_groups() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = crate::start(path.clone());
    let client = Client::enter(&viewer);
    let mut view = question("disk", &["operation"], &["sum(size)"]);
    view["filters"] = json!([{ "column": "", "op": "rows", "value": "size > 16384 and operation == Read" }]);
    let (info, rows) = arrow(&client.ask("/api/rows", &json!({ "view": view, "offset": 0, "limit": 5 })));
    let all = report(&path, "disk", &["operation", "size"], &[], None);
    let wanted: Vec<f64> = all
        .iter()
        .filter(|row| row["operation"] == "Read" && number(&row["size"]) > 16384.0)
        .map(|row| number(&row["size"]))
        .collect();
    assert!(!wanted.is_empty());
    assert_eq!(info["rows"], wanted.len());
    assert_eq!(number(&rows[0]["sum(size)"]), wanted.iter().sum::<f64>());
    view["filters"][0]["value"] = "nonsense > 4".into();
    let answer = client.ask("/api/rows", &json!({ "view": view, "offset": 0, "limit": 5 }));
    assert_eq!(answer.status, 422);
    assert!(answer.text().contains("nonsense"), "{}", answer.text());
}

#[test]
fn a_profile_is_opened_applied_saved_and_deleted_in_the_page() {
    let Some(path) = real(PERFVIEW) else { return };
    let folder = tempfile::tempdir().unwrap();
    let viewer = start(path.clone(), folder.path().join("presets"), Vec::new());
    let Some(mut page) = Page::from_viewer(viewer, "table=\"cpu_sampled\"") else { return };
    page.click_on(
        "[...document.querySelectorAll('.titlebar button')].find((one) => one.textContent === 'Presets')",
    );
    page.wait("document.querySelector('.presets form')");
    // As if the file were chosen in the dialog of the browser.
    page.browser.value(&format!(
        "(() => {{ const data = new DataTransfer(); data.items.add(new File([{}], 'my.wpaProfile')); \
         const input = document.querySelector('.presets input[type=file]'); input.files = data.files; \
         input.dispatchEvent(new Event('change', {{ bubbles: true }})); }})()",
        json!(PROFILE)
    ));
    page.wait("document.querySelector('.presets .apply')");
    let text = page.browser.value("document.querySelector('.presets').textContent");
    let text = text.as_str().unwrap();
    assert!(text.contains("my.wpaProfile") && text.contains("Boredom"), "{text}");
    assert!(text.contains("00000000-1111-2222-3333-444444444444 is not known"), "{text}");
    page.click_on("document.querySelector('.presets .apply')");
    page.wait("document.querySelector('.virtual thead th')?.textContent.startsWith('Operation')");
    // The tab of the profile has the preset, and another one that a click shows.
    let tab = |name: &str| {
        format!(
            "[...document.querySelectorAll('.profiletab [role=tab]')].find((one) => one.textContent === '{name}')"
        )
    };
    page.wait(&format!(
        "document.querySelector('.profiletab b').textContent === 'Disks' && {}.ariaSelected === 'true'",
        tab("By type")
    ));
    page.click_on(&tab("By disk"));
    page.wait("document.querySelector('.virtual thead th')?.textContent.startsWith('Disk')");
    page.wait(&format!("{}.ariaSelected === 'true'", tab("By disk")));
    page.click_on(&tab("By type"));
    page.wait("document.querySelector('.virtual thead th')?.textContent.startsWith('Operation')");
    page.click_on("document.querySelector('.profiletab .close')");
    page.wait("!document.querySelector('.profiletab')");
    let expected = report(&path, "disk", &["operation"], &["sum(size)"], None);
    page.wait("!document.querySelector('.busy')");
    let cells = page.cells();
    assert_eq!(cells[0][0], expected[0]["operation"]);
    assert_eq!(cells.len(), expected.len());
    // Saved under a name, and applied again after another table was shown.
    page.browser.value("document.querySelector('.presets form input').focus()");
    page.browser.type_text("Mine");
    page.key("Enter");
    page.wait("[...document.querySelectorAll('.presets .apply')].some((one) => one.textContent === 'Mine')");
    page.click_on("document.querySelector('[data-table=cpu_sampled]')");
    page.wait("document.querySelector('.virtual thead th')?.textContent.startsWith('Process')");
    page.click_on(
        "[...document.querySelectorAll('.presets .apply')].find((one) => one.textContent === 'Mine')",
    );
    page.wait("document.querySelector('.virtual thead th')?.textContent.startsWith('Operation')");
    page.click_on("document.querySelector('[aria-label=\"Delete Mine\"]')");
    page.wait("![...document.querySelectorAll('.presets .apply')].some((one) => one.textContent === 'Mine')");
    page.key("Escape");
    page.wait("!document.querySelector('.presets')");
    page.check();
}
