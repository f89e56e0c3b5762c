//! Links between the page and the report of `etw report --format html`.

use serde_json::json;

use crate::{Client, PERFVIEW, Page, real, report, small, start};

#[test]
fn the_report_leads_into_the_page() {
    let Some(path) = real(PERFVIEW) else { return };
    let Some(mut page) = Page::open(path.clone(), "table=\"disk\"") else { return };
    page.wait("document.querySelector('.top a[href=\"/report\"]')");
    let origin = format!("http://{}", page.address);
    page.browser.open(&format!("{origin}/report"));
    // The policy of the report lets its own scripts draw, and no other run.
    page.wait("document.querySelector('#flame-functions .flame')?.childElementCount > 0");
    assert_eq!(page.browser.errors(), Vec::<String>::new());
    let links = page
        .browser
        .value("[...document.querySelectorAll('.viewer a')].map((one) => one.getAttribute('href'))");
    let links: Vec<String> = serde_json::from_value(links).unwrap();
    for wanted in ["/#table=disk", "/#table=events", "/#table=cpu_sampled&tab=stacks&stack="] {
        assert!(links.iter().any(|link| link.starts_with(wanted)), "{wanted}: {links:?}");
    }
    // Each link shows its table, with rows that the report has too.
    for link in &links {
        page.browser.open("about:blank");
        page.browser.open(&format!("{origin}{link}"));
        page.wait("document.querySelector('.virtual td, .flame div')");
        let table = link.split(['=', '&']).nth(1).unwrap();
        let shown =
            page.browser.value("JSON.parse(new URLSearchParams(location.hash.slice(1)).get('table'))");
        assert_eq!(shown, json!(table), "{link}");
        if link.contains("tab=stacks") {
            assert_eq!(page.browser.value("!!document.querySelector('.stacks')"), true, "{link}");
        }
    }
    page.browser.open("about:blank");
    page.browser.open(&format!("{origin}/#table=hard_faults"));
    page.wait("document.querySelector('.virtual td')");
    let expected = report(&path, "hard_faults", &["thread.process"], &["sum(size)"], None);
    let rows = page.cells();
    for wanted in expected.iter().take(3) {
        let name = wanted["thread.process"].as_str().unwrap();
        // Process, file, and the number of rows.
        let row = rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{name}: {rows:?}"));
        assert_eq!(row[2].replace(',', ""), wanted["rows"].to_string());
    }
}

#[test]
fn a_report_has_a_policy_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = start(small(folder.path()));
    let client = Client::enter(&viewer);
    let report = client.get("/report");
    assert_eq!(report.status, 200, "{}", report.text());
    let policy = &report.headers["content-security-policy"];
    for part in ["default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(
        !policy.contains("script-src 'unsafe-inline'") && !policy.contains("script-src 'self'"),
        "{policy}"
    );
    assert!(report.text().contains("href=\"/#table=events\""));
    // The next one is the same, without reading the trace again: one of a changed trace is read again.
    let path = folder.path().join("small.etl");
    let bytes = std::fs::read(&path).unwrap();
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    let put = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    };
    put(&vec![0; bytes.len()]);
    let kept = client.get("/report");
    assert_eq!((kept.status, &kept.body), (200, &report.body));
    assert_eq!(kept.headers["content-security-policy"], report.headers["content-security-policy"]);
    let mut longer = vec![0; bytes.len()];
    longer.extend_from_slice(&[0; 512]);
    put(&longer);
    assert_eq!(client.get("/report").status, 422);
    put(&bytes);
    assert_eq!(client.get("/report").body, report.body);
    // A trace that is gone is not read.
    std::fs::remove_file(folder.path().join("small.etl")).unwrap();
    let gone = client.get("/report");
    assert!(gone.status == 422 && gone.text().contains("is gone"), "{}", gone.text());
}
