//! The provider explorer.

use serde_json::{Value, json};

use crate::{Client, Page, small, start};

const FILE: &str = "{edd08927-9cc4-4e65-b970-c2560fb5c289}";

#[test]
fn names_are_found_and_providers_shown_by_release() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = start(small(folder.path()));
    let client = Client::enter(&viewer);
    let found =
        client.ask("/api/providers/search", &json!({ "text": "kernel-file", "kinds": ["provider"] })).json();
    assert!(found["found"].as_array().unwrap().iter().any(|one| one["Guid"] == FILE), "{found}");
    let fields =
        client.ask("/api/providers/search", &json!({ "text": "kernel-file irp", "kinds": ["field"] })).json();
    assert!(fields["found"].as_array().unwrap().iter().all(|one| one["Kind"] == "field"));
    assert_eq!(fields["count"].as_u64().unwrap(), fields["found"].as_array().unwrap().len() as u64);
    let events = |answer: &Value| answer["providers"][0]["Events"].as_array().unwrap().len();
    let all = client.ask("/api/providers/show", &json!({ "name": FILE })).json();
    let release = all["releases"].as_array().unwrap().last().unwrap().clone();
    let one = client.ask("/api/providers/show", &json!({ "name": FILE, "release": release })).json();
    assert!(events(&one) > 5 && events(&one) <= events(&all), "{} {}", events(&one), events(&all));
    for (path, body, part) in [
        ("/api/providers/search", json!({ "text": " " }), "name a part"),
        ("/api/providers/show", json!({ "name": "None-At-All" }), "unknown provider"),
        ("/api/providers/show", json!({ "name": FILE, "release": "1066" }), ""),
        ("/api/providers/show", json!({ "name": FILE, "release": "never" }), "unknown release"),
    ] {
        let answer = client.ask(path, &body);
        assert!(
            part.is_empty() || (answer.status == 422 && answer.text().contains(part)),
            "{}",
            answer.text()
        );
    }
}

#[test]
fn the_page_searches_shows_and_generates() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut page) = Page::open(small(folder.path()), "") else { return };
    page.click_on(
        "[...document.querySelectorAll('.top .tabs button')].find((one) => one.textContent === 'Providers')",
    );
    page.wait("document.querySelector('.providers input[type=search]')");
    page.browser.click(".providers input[type=search]");
    page.browser.type_text("kernel-file");
    page.wait(
        "[...document.querySelectorAll('.results button')].some((one) => one.textContent.includes('Microsoft-Windows-Kernel-File'))",
    );
    page.click_on(
        "[...document.querySelectorAll('.results button')].find((one) => one.textContent === 'provider Microsoft-Windows-Kernel-File')",
    );
    page.wait("document.querySelectorAll('.shownprovider tbody tr').length > 5");
    page.click_on("document.querySelector('[aria-label=\"Choose event 12\"]')");
    page.wait("document.querySelector('.choice pre').textContent.includes('etw record -p Microsoft-Windows-Kernel-File::12 ')");
    page.click_on(
        "[...document.querySelectorAll('.choice .tabs button')].find((one) => one.textContent === '.wprp')",
    );
    page.wait("document.querySelector('.choice pre').textContent.includes('<EventId Value=\"12\"/>')");
    page.check();
}
