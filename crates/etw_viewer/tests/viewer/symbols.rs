//! Symbols: what is missing, and getting it from the servers that the user named.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use etw_app::symbols::SymbolOptions;
use etw_viewer::{Options, Viewer};
use serde_json::{Value, json};

use crate::{Client, PERFVIEW, Page, real, start};

/// A symbol server of this machine that has `ntdll.pdb` of every build, and the paths that it was asked for.
fn server() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/symbols", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let log = Arc::clone(&log);
            std::thread::spawn(move || serve(stream, &log));
        }
    });
    (url, asked)
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let path = lines.next().and_then(|line| line.split(' ').nth(1).map(str::to_owned)).unwrap_or_default();
    let _headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    log.lock().unwrap().push(path.clone());
    let parts: Vec<&str> = path.split('/').collect();
    let (status, body) = match parts[..] {
        ["", "symbols", "ntdll.pdb", key, "ntdll.pdb"] => (200, pdb(key)),
        _ => (404, Vec::new()),
    };
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}

/// Returns a PDB without symbols, with the GUID and age of a key of symbol stores.
fn pdb(key: &str) -> Vec<u8> {
    const BLOCK: usize = 512;
    let (guid, age) = key.split_at(32);
    let guid = openetw::Guid::from_u128(u128::from_str_radix(guid, 16).unwrap());
    let age = u32::from_str_radix(age, 16).unwrap();
    let information =
        [&20_000_404_u32.to_le_bytes()[..], &[0; 4], &age.to_le_bytes(), &guid.to_bytes(), &[0; 4]];
    let information = information.concat();
    // Streams: the old directory, the information.
    let directory = [2, 0, information.len() as u32, 5].map(u32::to_le_bytes).concat();
    let header = [BLOCK as u32, 1, 8, directory.len() as u32, 0, 3].map(u32::to_le_bytes).concat();
    let mut bytes = vec![0; 8 * BLOCK];
    let mut put = |block: usize, part: &[u8]| bytes[block * BLOCK..][..part.len()].copy_from_slice(part);
    put(0, &[&b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0"[..], &header].concat());
    put(3, &4_u32.to_le_bytes());
    put(4, &directory);
    put(5, &information);
    bytes
}

fn has_curl() -> bool {
    let found = std::process::Command::new("curl").arg("--version").output().is_ok();
    if !found {
        etw_testkit::skip!("curl is not installed");
    }
    found
}

fn with_server(store: &std::path::Path, url: &str) -> Option<Viewer> {
    let symbols =
        SymbolOptions { paths: vec![format!("srv*{}*{url}", store.display())], ..SymbolOptions::default() };
    let options = Options { files: vec![real(PERFVIEW)?], symbols, ..Options::default() };
    Some(Viewer::start(options).unwrap())
}

/// Waits until nothing is done about symbols.
fn idle(client: &Client) -> Value {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let now = client.get("/api/symbols").json();
        if now["is_busy"] == false {
            return now;
        }
        assert!(Instant::now() < end, "{now}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ntdll(state: &Value) -> &Value {
    let mut modules = state["modules"].as_array().unwrap().iter();
    modules.find(|module| module["name"] == "ntdll.dll").unwrap()
}

#[test]
fn missing_symbols_are_listed_and_fetched_from_the_named_server_only() {
    let store = tempfile::tempdir().unwrap();
    let (url, asked) = server();
    if !has_curl() {
        return;
    }
    let Some(viewer) = with_server(store.path(), &url) else { return };
    let client = Client::enter(&viewer);
    let at_first = client.get("/api/symbols").json();
    assert_eq!((&at_first["samples"], &at_first["servers"][0]), (&Value::Null, &json!(url)));
    assert_eq!(client.ask("/api/symbols/look", &json!({})).status, 200);
    let found = idle(&client);
    // As `etw symbols` says.
    assert_eq!(found["samples"], 79_528);
    let missing = found["missing"].as_u64().unwrap();
    let sum: u64 = found["modules"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["is_missing"] == true && one["is_managed"] == false)
        .map(|one| one["samples"].as_u64().unwrap())
        .sum();
    assert_eq!(found["would_name"], sum);
    assert!(missing > 5 && ntdll(&found)["is_missing"] == true, "{found}");
    assert_eq!(*asked.lock().unwrap(), Vec::<String>::new());
    let run = client.get("/api/catalog").json()["run"].clone();
    assert_eq!(client.ask("/api/symbols/fetch", &json!({})).status, 200);
    let fetched = idle(&client);
    assert!(fetched["error"].is_null(), "{fetched}");
    assert_eq!(ntdll(&fetched)["is_missing"], false, "{}", ntdll(&fetched));
    assert_eq!(fetched["missing"], missing - 1);
    assert!(asked.lock().unwrap().iter().any(|path| path.starts_with("/symbols/ntdll.pdb/")));
    // The tables were built again, and tiles have other addresses.
    assert_eq!(client.get("/api/status").json()["generation"], 1);
    assert_ne!(client.get("/api/catalog").json()["run"], run);
    let old = format!("/api/tile/{}/events/0/0", run.as_str().unwrap());
    assert_eq!(client.get(&old).status, 404);
}

#[test]
fn nothing_is_fetched_without_a_named_server() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path);
    let client = Client::enter(&viewer);
    if client.get("/api/symbols").json()["servers"] != json!([]) {
        etw_testkit::skip!("the environment names a server");
        return;
    }
    let refused = client.ask("/api/symbols/fetch", &json!({ "server": "http://127.0.0.1:1" }));
    assert!(refused.status == 422 && refused.text().contains("no server"), "{}", refused.text());
    assert_eq!(client.ask("/api/symbols/other", &json!({})).status, 422);
}

#[test]
fn the_page_fetches_symbols_by_a_button() {
    let store = tempfile::tempdir().unwrap();
    let (url, _asked) = server();
    if !has_curl() {
        return;
    }
    let Some(viewer) = with_server(store.path(), &url) else { return };
    let Some(mut page) = Page::from_viewer(viewer, "table=\"cpu_sampled\"&tab=\"stacks\"") else { return };
    page.click_on("document.querySelector('.stacks .symbols')");
    page.wait("/Symbols of \\d+ of \\d+ modules are missing/.test(document.querySelector('.symbolpanel .state')?.textContent)");
    let text = page.browser.value("document.querySelector('.symbolpanel').innerText");
    assert!(text.as_str().unwrap().contains("of 79,528 samples"), "{text}");
    assert!(text.as_str().unwrap().contains(&url), "{text}");
    page.click_on(
        "[...document.querySelectorAll('.symbolpanel button')].find((one) => one.textContent.startsWith('Fetch'))",
    );
    // The page shows the same again, with the new names.
    page.wait("performance.getEntriesByType('navigation')[0].type === 'reload'");
    page.wait("!!document.querySelector('.virtual td')");
    let tab = page.browser.value("new URLSearchParams(location.hash.slice(1)).get('tab')");
    assert_eq!(tab, "\"stacks\"");
    page.check();
}
