//! Live sessions, started from the page by a program of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use etw_testkit::browser::Browser;
use openetw::Trace;
use serde_json::{Value, json};

use crate::{Client, Page, small, start};

/// `etw view --live` and a program that writes events, in an instance of their own.
struct Machine {
    viewer: Child,
    writer: Child,
    /// Its end is the end of the writer.
    _input: ChildStdin,
    url: String,
    address: SocketAddr,
    folder: tempfile::TempDir,
}

impl Machine {
    fn start(per_millisecond: u32) -> Machine {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let mut viewer = Command::new(env!("CARGO_BIN_EXE_etw-view"))
            .args(["--live", "--no-browser"])
            .env("OPENETW_RUNTIME_DIR", &run)
            .env("OPENETW_SCHEMAS", folder.path().join("schemas"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(viewer.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap().parse().unwrap();
        let directory = std::env::current_exe().unwrap();
        let directory = directory.ancestors().find(|path| path.join("examples").is_dir()).unwrap().to_owned();
        let mut writer = Command::new(directory.join("examples/live_events"))
            .arg(per_millisecond.to_string())
            .env("OPENETW_RUNTIME_DIR", &run)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let _input = writer.stdin.take().unwrap();
        Machine { viewer, writer, _input, url, address, folder }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for child in [&mut self.viewer, &mut self.writer] {
            let _ended = child.kill().and_then(|()| child.wait());
        }
    }
}

fn until(client: &Client, is_so: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let live = client.get("/api/live").json();
        if is_so(&live["session"]) {
            return live["session"].clone();
        }
        assert!(Instant::now() < end, "{live}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Opens the page with the cookie of a client.
fn look(client: &Client) -> Option<Page> {
    let mut browser = Browser::start()?;
    let url = format!("http://{}/", client.address);
    browser.set_cookie(&url, &client.cookie);
    browser.open(&url);
    Some(Page { browser, address: client.address, _viewer: None })
}

#[test]
fn sessions_are_started_filtered_saved_and_stopped() {
    let machine = Machine::start(1);
    let client = Client::let_in(machine.address, &machine.url);
    let ask = |path: &str, body: Value| client.ask(path, &body);
    assert_eq!(client.get("/api/live").json()["session"], Value::Null);
    for (path, body, part) in [
        ("/api/live/start", json!({}), "name kernel flags or a provider"),
        ("/api/live/start", json!({ "providers": ["a:b:c:d:e"] }), ""),
        ("/api/live/stop", json!({}), "no session is running"),
        ("/api/live/lines", json!({ "limit": 1 }), "no session is running"),
        (
            "/api/live/rules",
            json!({ "rules": [{ "column": "x", "relation": "is", "value": "", "action": "include" }] }),
            "no column",
        ),
    ] {
        let answer = ask(path, body);
        assert!(answer.status == 422 && answer.text().contains(part), "{path} {}", answer.text());
    }
    assert_eq!(ask("/api/live/start", json!({ "providers": ["Example.Live"] })).status, 200);
    assert_eq!(ask("/api/live/start", json!({ "providers": ["Example.Live"] })).status, 422);
    let session = until(&client, |session| session["shown"].as_u64() > Some(200));
    assert_eq!((&session["lost"], &session["not_kept"]), (&json!(0), &json!(0)));
    // Of the last lines, one has details.
    let lines = ask("/api/live/lines", json!({ "limit": 10 })).json();
    let line = &lines["lines"][9];
    assert!(line["cells"][5].as_str().unwrap().contains("parity="), "{line}");
    let details = client.get(&format!("/api/live/event/{}", line["number"])).json();
    assert!(
        details["lines"].as_array().unwrap().iter().any(|one| one.as_str().unwrap().contains("Example.Live"))
    );
    // Filters: of these in memory and of new ones.
    let rule = |column: &str, relation: &str, value: &str, action: &str| json!({ "column": column, "relation": relation, "value": value, "action": action });
    let rules = [
        rule("detail", "contains", "parity=even", "include"),
        rule("detail", "contains", "number=1", "highlight"),
    ];
    let asked = Instant::now();
    assert_eq!(ask("/api/live/rules", json!({ "rules": rules })).status, 200);
    assert!(asked.elapsed() < Duration::from_secs(2));
    let even = ask("/api/live/lines", json!({ "from": 0, "limit": 100 })).json();
    let shown = even["lines"].as_array().unwrap();
    assert!(shown.len() > 50);
    for line in shown {
        let detail = line["cells"][5].as_str().unwrap();
        assert!(detail.contains("parity=even"), "{detail}");
        assert_eq!(line["is_lit"], detail.contains("number=1"), "{detail}");
    }
    // What is saved is what is shown, or all.
    let count = |which: &str| {
        let saved = client.get(&format!("/api/live/trace/{which}"));
        assert_eq!(saved.status, 200, "{}", saved.text());
        assert!(saved.headers["content-disposition"].starts_with("attachment"));
        let path = machine.folder.path().join(which);
        std::fs::write(&path, &saved.body).unwrap();
        let (mut even, mut odd) = (0, 0);
        let mut trace = Trace::open_file(&path).unwrap();
        trace
            .for_each_event(|event| match event.get::<String>("parity").as_deref() {
                Ok("even") => even += 1,
                Ok("odd") => odd += 1,
                _ => {}
            })
            .unwrap();
        (even, odd)
    };
    let (even, odd) = count("shown.etl");
    assert!(even > 50 && odd == 0, "{even} {odd}");
    let (even, odd) = count("all.etl");
    assert!(even > 50 && odd > 50, "{even} {odd}");
    assert_eq!(client.get("/api/live/trace/other").status, 422);
    assert_eq!(ask("/api/live/stop", json!({})).json()["session"], Value::Null);
    // It can be started again.
    assert_eq!(ask("/api/live/start", json!({ "providers": ["Example.Live"] })).status, 200);
    until(&client, |session| session["shown"].as_u64() > Some(20));
}

#[test]
fn memory_is_bounded_and_what_is_dropped_is_told() {
    // Over 100,000 events per second, as far as the machine can.
    let machine = Machine::start(400);
    let client = Client::let_in(machine.address, &machine.url);
    assert_eq!(client.ask("/api/live/start", &json!({ "providers": ["Example.Live"] })).status, 200);
    let session = until(&client, |session| session["events"].as_u64() > Some(700_000));
    assert!(session["shown"].as_u64().unwrap() <= 510_000, "{session}");
    // A filter's answer at this rate.
    let rules = json!([{ "column": "process", "relation": "is", "value": "none", "action": "include" }]);
    let asked = Instant::now();
    assert_eq!(client.ask("/api/live/rules", &json!({ "rules": rules })).status, 200);
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    assert_eq!(client.ask("/api/live/lines", &json!({ "limit": 5 })).json()["count"], 0);
    let status = std::fs::read_to_string(format!("/proc/{}/status", machine.viewer.id())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(resident < 1 << 20, "{resident} kB");
}

#[test]
fn events_fill_the_tables_of_the_machine() {
    let machine = Machine::start(1);
    let client = Client::let_in(machine.address, &machine.url);
    let ask = |body: Value| client.ask("/api/live/tables", &body);
    assert_eq!(ask(json!({ "view": "processes" })).status, 422);
    assert_eq!(client.ask("/api/live/start", &json!({ "providers": ["Example.Live"] })).status, 200);
    until(&client, |session| session["shown"].as_u64() > Some(200));
    let wrong = ask(json!({ "view": "x" }));
    assert!(wrong.status == 422 && wrong.text().contains("no view 'x'"), "{}", wrong.text());
    // The writer is a process, as a tree or in an order.
    let of_writer = |found: &Value| {
        let table = &found["tables"][0];
        let columns = table["columns"].as_array().unwrap();
        let column = |name: &str| columns.iter().position(|one| one["name"] == name).unwrap();
        let (pid, parent) = (column("PID"), column("Parent"));
        let rows = table["rows"].as_array().unwrap().clone();
        let id = machine.writer.id().to_string();
        let row = rows.iter().find(|row| row["cells"][pid].as_str() == Some(&id));
        let row = row.unwrap_or_else(|| panic!("{found}"));
        assert_eq!(row["cells"][parent], std::process::id().to_string());
        assert!(row["cells"][column("Process")].as_str().unwrap().starts_with("live_events"), "{row}");
        table["sorted"].clone()
    };
    assert_eq!(of_writer(&ask(json!({ "view": "processes" })).json()), Value::Null);
    let sorted = ask(json!({ "view": "processes", "sort": 0, "descending": true })).json();
    assert_eq!(of_writer(&sorted), json!([0, true]));
    let nothing = ask(json!({ "view": "processes", "text": "no such process" })).json();
    assert_eq!(nothing["tables"][0]["count"], 0);
    for view in ["threads", "images", "files", "network", "machine"] {
        let found = ask(json!({ "view": view })).json();
        assert!(!found["tables"].as_array().unwrap().is_empty(), "{view} {found}");
        assert!(
            found["note"].as_str().unwrap().contains("-k") || found["note"].as_str().unwrap().contains("yet")
        );
    }
    // A person sees the tree, and goes from a process to its events.
    let Some(mut page) = look(&client) else { return };
    page.wait("document.querySelector('.live [role=tab]')");
    page.click_on(
        "[...document.querySelectorAll('.live [role=tab]')].find((one) => one.textContent === 'Processes')",
    );
    page.wait("[...document.querySelectorAll('.livetables td')].some((one) => one.textContent.startsWith('live_events'))");
    let cell = "[...document.querySelectorAll('.livetables td')].find((one) => one.textContent.startsWith('live_events'))";
    page.browser.value(&format!(
        "{cell}.dispatchEvent(new MouseEvent('contextmenu', {{ bubbles: true, cancelable: true, button: 2, clientX: 300, clientY: 300 }}))"
    ));
    page.wait("document.querySelector('.menu button')");
    page.click_on("[...document.querySelectorAll('.menu button')].find((one) => one.textContent.startsWith('Events: include pid'))");
    page.wait(&format!(
        "document.querySelector('.live .filter.include')?.textContent.includes('pid is {}')",
        machine.writer.id()
    ));
    page.wait("document.querySelectorAll('.live .virtual tbody tr').length > 5");
    // A session outlives its tab; another one shows it, and ends it.
    drop(page);
    assert!(client.get("/api/live").json()["session"].is_object());
    let Some(mut page) = look(&client) else { return };
    page.wait("document.querySelectorAll('.live .virtual tbody tr').length > 5");
    page.click_on("[...document.querySelectorAll('.live button')].find((one) => one.textContent === 'Stop')");
    page.wait("document.querySelector('.live .message')?.textContent.includes('No session')");
    // A question that was on its way when the session ended is no trouble.
    page.wait("!document.querySelector('.live .gone')");
}

#[test]
fn profiles_are_started_and_stacks_have_names_of_programs() {
    let machine = Machine::start(1);
    let client = Client::let_in(machine.address, &machine.url);
    let built_in = client.ask("/api/live/profiles", &json!({})).json();
    assert!(built_in.as_array().unwrap().iter().any(|one| one["name"] == "CPU.Light"), "{built_in}");
    const PROFILE: &str = "<WindowsPerformanceRecorder Version='1.0'><Profiles><EventCollector Id='C' Name='C'>
        <BufferSize Value='64'/><Buffers Value='16'/></EventCollector>
        <EventProvider Id='P' Name='*Example.Live' Stack='true'/>
        <Profile Id='Live.Verbose.File' Name='Live' Description='The example' DetailLevel='Verbose' LoggingMode='File'>
        <Collectors><EventCollectorId Value='C'><EventProviders><EventProviderId Value='P'/></EventProviders>
        </EventCollectorId></Collectors></Profile></Profiles></WindowsPerformanceRecorder>";
    let named = client.ask("/api/live/profiles", &json!({ "text": PROFILE })).json();
    assert_eq!(named, json!([{ "name": "Live.Verbose", "description": "The example" }]));
    for (profile, part) in [
        (json!({ "name": "Nothing" }), "no profile 'Nothing'"),
        (json!({ "name": "Registry.Light" }), "Linux has no registry"),
        (json!({ "name": "Live", "text": "<a/>" }), ""),
        (json!({ "name": "Other", "text": PROFILE }), "Other"),
    ] {
        let refused = client.ask("/api/live/start", &json!({ "profile": profile }));
        assert!(refused.status == 422 && refused.text().contains(part), "{profile} {}", refused.text());
    }
    // A person opens the file, and starts it.
    let Some(mut page) = look(&client) else { return };
    page.wait("document.querySelectorAll('.live select[name=profile] option').length > 5");
    page.browser.value(&format!(
        "(() => {{ const input = document.querySelector('.live input[type=file]'); const files = new DataTransfer(); \
         files.items.add(new File([{}], 'live.wprp')); input.files = files.files; \
         input.dispatchEvent(new Event('change', {{ bubbles: true }})); }})()",
        json!(PROFILE)
    ));
    page.wait("document.querySelector('.live select[name=profile]').value === 'Live.Verbose'");
    page.click_on(
        "[...document.querySelectorAll('.live button')].find((one) => one.textContent === 'Start')",
    );
    page.wait("document.querySelectorAll('.live .virtual tbody tr').length > 5");
    // The stack of an event has the functions of the program that wrote it.
    let line = client.ask("/api/live/lines", &json!({ "limit": 1 })).json()["lines"][0].clone();
    let details = client.get(&format!("/api/live/event/{}", line["number"])).json();
    let details: Vec<&str> =
        details["lines"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    let stack = details.iter().position(|line| *line == "stack").unwrap_or_else(|| panic!("{details:?}"));
    assert!(details[stack..].iter().any(|line| line.contains("live_events live_events::")), "{details:?}");
    page.check();
}

#[test]
fn only_a_live_server_starts_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = start(small(folder.path()));
    let client = Client::enter(&viewer);
    assert_eq!(client.get("/api/status").json()["is_live"], false);
    let refused = client.ask("/api/live/start", &json!({ "providers": ["Example.Live"] }));
    assert!(refused.status == 422 && refused.text().contains("--live"), "{}", refused.text());
}

#[test]
fn the_page_watches_a_session() {
    let machine = Machine::start(1);
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&machine.url);
    let mut page = Page { browser, address: machine.address, _viewer: None };
    page.wait("document.querySelector('.live input[name=providers]')");
    page.browser.click(".live input[name=providers]");
    page.browser.type_text("Example.Live");
    page.key("Enter");
    page.wait("document.querySelectorAll('.live .virtual tbody tr').length > 10");
    page.wait("/[1-9]\\d* shown/.test(document.querySelector('.live .status').textContent)");
    // Following shows newer events.
    let last = "[...document.querySelectorAll('.live .virtual tbody tr td:first-child')].at(-1).textContent";
    let before = page.browser.value(last);
    page.wait(&format!("{last} !== {before}"));
    // A filter by the menu of a cell.
    page.click_on(
        "[...document.querySelectorAll('.live button')].find((one) => one.textContent === 'Pause')",
    );
    page.wait("document.querySelector('.live .status').textContent.includes('paused')");
    for (name, value) in [("column", "detail"), ("relation", "contains"), ("action", "exclude")] {
        page.browser.value(&format!(
            "document.querySelector('.live .newfilter select[name={name}]').value = '{value}'"
        ));
    }
    page.browser.click(".live .newfilter input");
    page.browser.type_text("parity=odd");
    page.key("Enter");
    page.wait("document.querySelector('.live .filter.exclude')");
    page.wait(
        "(() => { const all = [...document.querySelectorAll('.live .virtual tbody tr')].map((one) => one.textContent); \
         return all.length > 5 && all.every((one) => one.includes('even')); })()",
    );
    // Details.
    // A click while the list is drawn anew may hit nothing.
    let end = Instant::now() + Duration::from_secs(20);
    while page.browser.value("!!document.querySelector('.live .virtual tr:nth-child(3) td.cursor')") != true {
        assert!(Instant::now() < end);
        page.browser.click(".live .virtual tbody tr:nth-child(3) td");
        std::thread::sleep(Duration::from_millis(300));
    }
    page.key("Enter");
    page.wait("document.querySelector('.live .details pre')?.textContent.includes('Example.Live')");
    page.click_on("[...document.querySelectorAll('.live button')].find((one) => one.textContent === 'Stop')");
    page.wait("document.querySelector('.live .message')?.textContent.includes('No session')");
    page.check();
}
