//! The server as a hostile page meets it, and the page in a real browser beside `etw report`.

#![expect(clippy::unwrap_used, reason = "tests")]

mod compare;
mod events;
mod live;
mod page;
mod presets;
mod providers;
mod report;
mod screens;
mod security;
mod session;
mod sql;
mod stacks;
mod states;
mod symbols;
mod tables;
mod timeline;
mod tls;
mod trouble;
mod tutorial;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use etw_testkit::browser::Browser;
use etw_testkit::traces::{Kind, Recipe};
use etw_viewer::{Options, Viewer};
use serde_json::{Value, json};

/// Returns the path of a real trace.
fn real(name: &str) -> Option<PathBuf> {
    let traces = etw_testkit::data::traces()?;
    Some(traces.into_iter().find(|trace| trace.name == name).unwrap().path)
}

/// A trace of Windows with samples and their stacks, waits, disks and files.
const PERFVIEW: &str = "microsoft-perfview/net.4.5.2.x64.etl";

/// A trace of Windows with garbage collections of .NET.
const GC: &str = "microsoft-perfview/gcevents.etl";

/// Writes a small trace.
fn small(folder: &Path) -> PathBuf {
    let path = folder.join("small.etl");
    let (bytes, _) = etw_testkit::traces::bytes(&Recipe::new(Kind::Mixed, 2000)).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

fn start(path: PathBuf) -> Viewer {
    Viewer::start(Options { files: vec![path], ..Options::default() }).unwrap()
}

/// An answer of the server.
struct Answer {
    status: u16,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

impl Answer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A program that sends any request.
struct Client {
    address: SocketAddr,
    cookie: String,
}

impl Client {
    /// A client without the cookie.
    fn stranger(viewer: &Viewer) -> Client {
        Client { address: viewer.address(), cookie: String::new() }
    }

    /// A client that a URL lets in.
    fn let_in(address: SocketAddr, url: &str) -> Client {
        let mut client = Client { address, cookie: String::new() };
        let path = url.split_once(&address.to_string()).unwrap().1.to_owned();
        let entered = client.get(&path);
        assert_eq!(entered.status, 200);
        client.cookie = entered.headers["set-cookie"].split(';').next().unwrap().to_owned();
        client
    }

    /// A client that was let in, when the tables are complete.
    fn enter(viewer: &Viewer) -> Client {
        let client = Client::let_in(viewer.address(), &viewer.url());
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let status = client.get("/api/status").json();
            assert!(status["error"].is_null(), "{status}");
            if status["is_ready"] == true {
                return client;
            }
            assert!(Instant::now() < end, "{status}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a request with exactly these headers, besides the cookie.
    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut text =
            format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.cookie.is_empty() {
            text.push_str(&format!("Cookie: other=1; {}\r\n", self.cookie));
        }
        stream.write_all(format!("{text}\r\n{body}").as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let end = bytes.windows(4).position(|part| part == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: HashMap<String, String> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        assert!(!headers.contains_key("transfer-encoding"));
        Answer { status, headers, body: bytes[end + 4..].to_vec() }
    }

    fn host(&self) -> String {
        self.address.to_string()
    }

    fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[("Host", &self.host())], "")
    }

    fn ask(&self, path: &str, body: &Value) -> Answer {
        let headers = [("Host", &*self.host()), ("X-OpenETW", "1"), ("Content-Type", "application/json")];
        self.send("POST", path, &headers, &body.to_string())
    }
}

/// Rows of `etw report` with these groups and sums.
fn report(path: &Path, table: &str, columns: &[&str], values: &[&str], top: Option<usize>) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("rows.json");
    let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    etw_report::rows::run(&etw_report::rows::RowsRequest {
        files: vec![path.to_owned()],
        table: table.to_owned(),
        columns: own(columns),
        is_grouped: !values.is_empty(),
        values: own(values),
        condition: None,
        sort: None,
        top,
        from: None,
        to: None,
        regions: Vec::new(),
        symbols: etw_app::symbols::SymbolOptions::default(),
        index: etw_app::index::IndexOptions::default(),
        format: etw_report::rows::RowsFormat::Json,
        output: Some(output.clone()),
    })
    .unwrap();
    let value: Value = serde_json::from_slice(&std::fs::read(output).unwrap()).unwrap();
    value["rows"].as_array().unwrap().clone()
}

/// A browser on the page of a trace, with a state in the URL.
struct Page {
    browser: Browser,
    address: SocketAddr,
    /// The server, unless it is a program of its own.
    _viewer: Option<Viewer>,
}

impl Page {
    fn open(path: PathBuf, state: &str) -> Option<Page> {
        Page::from_viewer(start(path), state)
    }

    /// Opens the page of a server.
    fn from_viewer(viewer: Viewer, state: &str) -> Option<Page> {
        let mut browser = Browser::start()?;
        let state = if state.is_empty() { String::new() } else { format!("#{}", escape(state)) };
        browser.open(&format!("{}{state}", viewer.url()));
        let mut page = Page { browser, address: viewer.address(), _viewer: Some(viewer) };
        page.wait("!!document.querySelector('.virtual td, .flame div')");
        Some(page)
    }

    /// Waits until an expression is true.
    fn wait(&mut self, condition: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.browser.value(&format!("!!({condition})")) != true {
            let text = self.browser.value("document.body.innerText");
            assert!(Instant::now() < end, "{condition}\n{text}\n{:?}", self.browser.errors());
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Returns the texts of the visible cells, row by row.
    fn cells(&mut self) -> Vec<Vec<String>> {
        let rows = self.browser.value(
            "[...document.querySelectorAll('.virtual tbody tr')].map((row) => \
             [...row.querySelectorAll('td')].map((cell) => cell.textContent))",
        );
        serde_json::from_value(rows).unwrap()
    }

    fn key(&mut self, key: &str) {
        self.browser.press(key);
    }

    /// Does what a click on the element does that a function of the page finds.
    fn click_on(&mut self, element: &str) {
        let clicked = self
            .browser
            .value(&format!("(() => {{ const one = {element}; one?.click(); return !!one; }})()"));
        assert_eq!(clicked, true, "{element}");
    }

    /// Asserts that nothing went wrong in the page, and that it asked only its own server.
    fn check(&self) {
        assert_eq!(self.browser.errors(), Vec::<String>::new());
        let own = format!("http://{}/", self.address);
        let strange: Vec<String> =
            self.browser.requested().into_iter().filter(|url| !url.starts_with(&own)).collect();
        assert_eq!(strange, Vec::<String>::new());
    }
}

/// Writes a state as `URLSearchParams` reads it.
fn escape(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'=' | b'&' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// A question for rows.
fn question(table: &str, keys: &[&str], values: &[&str]) -> Value {
    json!({ "table": table, "keys": keys, "values": values, "columns": [], "filters": [], "expanded": [], "sort": null })
}

/// Decodes an Arrow stream: what its schema says of it, and its rows.
fn arrow(answer: &Answer) -> (Value, Vec<HashMap<String, Value>>) {
    use arrow_array::Array;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let reader = arrow_ipc::reader::StreamReader::try_new(&*answer.body, None).unwrap();
    let info = serde_json::from_str(&reader.schema().metadata()["info"]).unwrap();
    let mut rows = Vec::new();
    for batch in reader {
        let batch = batch.unwrap();
        for row in 0..batch.num_rows() {
            let mut values = HashMap::new();
            for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
                let texts = column.as_any().downcast_ref::<arrow_array::StringArray>();
                let numbers = column.as_any().downcast_ref::<arrow_array::Float64Array>();
                let value = match (column.is_null(row), texts, numbers) {
                    (true, ..) => Value::Null,
                    (_, Some(texts), _) => json!(texts.value(row)),
                    (_, _, Some(numbers)) => json!(numbers.value(row)),
                    _ => panic!("{field}"),
                };
                values.insert(field.name().clone(), value);
            }
            rows.push(values);
        }
    }
    (info, rows)
}

/// Returns a number of JSON, which is written as a whole one or not.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}
