//! Saved sessions, and source lines.

use etw_viewer::{Options, Session, Viewer};
use serde_json::json;

use crate::{Client, PERFVIEW, Page, real, small, start};

#[test]
fn a_session_is_saved_and_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = start(small(folder.path()));
    let client = Client::enter(&viewer);
    let state = "table=%22events%22&flat=true";
    let text = client.ask("/api/session", &json!({ "state": state })).text();
    let path = folder.path().join("s.etwsession");
    std::fs::write(&path, text).unwrap();
    let session = Session::read(&path).unwrap();
    let options = Options { files: session.paths.files, page_state: session.state, ..Options::default() };
    let again = Viewer::start(options).unwrap();
    assert!(again.url().ends_with(&format!("#{state}")), "{}", again.url());
    let Some(mut page) = Page::from_viewer(again, "") else { return };
    page.wait("document.querySelector('.virtual thead th')?.textContent.startsWith('Time')");
    // The button of the page makes such a file.
    page.browser.value(
        "URL.createObjectURL = (blob) => { blob.text().then((text) => (window.saved = text)); return 'blob:x'; }; \
         HTMLAnchorElement.prototype.click = function () { window.named = this.download; }",
    );
    page.click_on("[...document.querySelectorAll('.top button')].find((one) => one.textContent === 'Save')");
    page.wait("window.saved && window.named === 'small.etwsession'");
    let saved = page.browser.value("JSON.parse(window.saved).state");
    assert!(saved.as_str().unwrap().contains("flat=true"), "{saved}");
    page.check();
}

#[test]
fn source_lines_need_symbols_that_have_them() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path);
    let client = Client::enter(&viewer);
    let question = json!({ "table": "cpu_sampled", "filters": [], "function": "ntoskrnl.exe!none" });
    let answer = client.ask("/api/source", &question);
    assert_eq!(answer.status, 422);
    assert!(answer.text().contains("no symbols say"), "{}", answer.text());
}

#[test]
fn a_trace_that_grows_or_vanishes_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    let viewer = start(path.clone());
    let client = Client::enter(&viewer);
    assert_eq!(client.get("/api/status").json()["changed"], json!(null));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(&[0; 512]);
    std::fs::write(&path, bytes).unwrap();
    let changed = client.get("/api/status").json()["changed"].clone();
    assert!(changed.as_str().unwrap().contains("has changed"), "{changed}");
    let Some(mut page) = Page::from_viewer(viewer, "table=\"events\"&flat=true") else { return };
    std::fs::remove_file(&path).unwrap();
    page.wait("document.querySelector('.gone')?.textContent.includes('is gone')");
    // Tables are still there; a single event says why it is not.
    page.wait("document.querySelector('.virtual tbody td')");
    page.browser.click(".virtual tbody td");
    page.key("Enter");
    page.wait("document.querySelector('.details .message')?.textContent.length > 0");
    let said = page.browser.value("document.querySelector('.details .message').textContent");
    assert!(said.as_str().unwrap().contains("small.etl"), "{said}");
}

#[test]
fn a_shortened_trace_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    let viewer = start(path.clone());
    let client = Client::enter(&viewer);
    assert_eq!(client.get("/api/event/1").status, 200);
    // Another program cuts the file short, within a buffer and to nothing.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    for length in [10_000, 0] {
        file.set_len(length).unwrap();
        for answer in [client.get("/api/event/1"), client.get("/report")] {
            assert_eq!(answer.status, 422);
            assert!(
                answer.text().contains("small.etl is shorter than when it was opened"),
                "{}",
                answer.text()
            );
        }
        let filter = json!([{ "column": "", "op": "where", "value": format!("id == {length}") }]);
        let view =
            json!({ "table": "events", "keys": [], "values": [], "columns": ["time"], "filters": filter });
        let answer = client.ask("/api/rows", &json!({ "view": view, "limit": 10 }));
        assert!(answer.status == 422 && answer.text().contains("is shorter"), "{}", answer.text());
        client.ask("/api/symbols/look", &json!({}));
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !client.get("/api/symbols").json()["error"].to_string().contains("is shorter") {
            assert!(std::time::Instant::now() < end, "{}", client.get("/api/symbols").text());
        }
    }
    // The tables do not need the file.
    let view = json!({ "table": "events", "keys": ["kind.provider"], "values": ["rows"], "filters": [] });
    assert_eq!(client.ask("/api/rows", &json!({ "view": view, "limit": 10 })).status, 200);
    assert!(client.get("/api/status").json()["changed"].as_str().unwrap().contains("has changed"));
}
