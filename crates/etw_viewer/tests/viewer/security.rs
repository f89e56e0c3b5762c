//! A test for each line of what the server refuses.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};

use etw_testkit::browser::Browser;
use etw_viewer::{Options, Viewer};
use serde_json::json;

use crate::{Client, question, small, start};

const POST: &[&str] = &[
    "/api/rows",
    "/api/find",
    "/api/csv",
    "/api/source",
    "/api/sql",
    "/api/strip",
    "/api/stacks",
    "/api/arrows",
    "/api/compare/rows",
];
/// What changes something, or needs no trace.
const CHANGES: &[&str] = &[
    "/api/symbols/look",
    "/api/symbols/fetch",
    "/api/live/start",
    "/api/live/stop",
    "/api/live/rules",
    "/api/live/lines",
    "/api/providers/search",
    "/api/providers/show",
    "/api/providers/choice",
    "/api/presets/open",
    "/api/presets/save",
    "/api/presets/delete",
    "/api/presets/file",
    "/api/session",
    "/login",
];
const GET: &[&str] = &[
    "/",
    "/app.js",
    "/app.css",
    "/enter.js",
    "/icon.svg",
    "/licenses.txt",
    "/report",
    "/login.js",
    "/api/status",
    "/api/preview",
    "/api/presets",
    "/api/compare/lanes",
    "/api/base/tile/a/events/0/0",
    "/api/catalog",
    "/api/lanes",
    "/api/tile/a/events/0/0",
    "/api/event/0",
    "/api/symbols",
    "/api/live",
    "/api/live/event/0",
    "/api/live/trace/all.etl",
    "/none",
    "/../../etc/passwd",
];

#[test]
fn the_server_listens_on_loopback_and_a_random_port() {
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    let (one, other) = (start(path.clone()), start(path));
    assert_eq!(one.address().ip(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    assert_ne!(one.address().port(), other.address().port());
    assert_ne!(one.url(), other.url());
}

#[test]
fn a_token_lets_one_in() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = start(small(folder.path()));
    let stranger = Client::stranger(&viewer);
    for path in GET {
        assert_eq!(stranger.get(path).status, 401, "{path}");
    }
    for wrong in
        ["/enter", "/enter?token=", "/enter?token=0123456789abcdef0123456789abcdef", "/enter?other=1"]
    {
        assert_eq!(stranger.get(wrong).status, 401, "{wrong}");
    }
    let url = viewer.url();
    let path = url.split_once(&viewer.address().to_string()).unwrap().1;
    let entered = stranger.get(path);
    assert_eq!(entered.status, 200);
    let cookie = &entered.headers["set-cookie"];
    assert!(cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict"), "{cookie}");
    assert!(cookie.starts_with(&format!("etw-view-{}=", viewer.address().port())), "{cookie}");
    // Once.
    assert_eq!(stranger.get(path).status, 401);
    assert_ne!(viewer.url(), url);
    let host = stranger.host();
    let forged = format!("etw-view-{}=0123456789abcdef0123456789abcdef", viewer.address().port());
    assert_eq!(stranger.send("GET", "/", &[("Host", &host), ("Cookie", &forged)], "").status, 401);
}

#[test]
fn foreign_hosts_are_refused_on_every_route() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = start(small(folder.path()));
    let client = Client::enter(&viewer);
    let port = viewer.address().port();
    let hosts = [
        "rebinding.example".to_owned(),
        format!("rebinding.example:{port}"),
        format!("localhost.example:{port}"),
        format!("0.0.0.0:{port}"),
        "127.0.0.1:80:80".to_owned(),
    ];
    for host in &hosts {
        for path in GET.iter().chain(&["/enter?token=1"]) {
            assert_eq!(client.send("GET", path, &[("Host", host)], "").status, 403, "{host} {path}");
        }
        for path in POST.iter().chain(CHANGES) {
            let headers = [("Host", &**host), ("X-OpenETW", "1"), ("Content-Type", "application/json")];
            assert_eq!(client.send("POST", path, &headers, "{}").status, 403, "{host} {path}");
        }
    }
    assert_eq!(client.send("GET", "/", &[], "").status, 400);
    let own = client.host();
    assert_eq!(client.send("GET", "/", &[("Host", &own), ("Host", "rebinding.example")], "").status, 400);
    // A tunnel has another port.
    assert_eq!(client.send("GET", "/", &[("Host", "localhost:8000")], "").status, 200);
}

#[test]
fn other_origins_are_refused_on_every_route() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = start(small(folder.path()));
    let client = Client::enter(&viewer);
    let host = client.host();
    let port = viewer.address().port();
    let origins = [
        "https://evil.example".to_owned(),
        "null".to_owned(),
        format!("http://127.0.0.1:{}", port.wrapping_add(1).max(1)),
        format!("http://localhost:{port}"),
        format!("https://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port}.evil.example"),
    ];
    for origin in &origins {
        for path in GET {
            let answer = client.send("GET", path, &[("Host", &host), ("Origin", origin)], "");
            assert_eq!(answer.status, 403, "{origin} {path}");
        }
        for path in POST.iter().chain(CHANGES) {
            let headers = [
                ("Host", &*host),
                ("Origin", &**origin),
                ("X-OpenETW", "1"),
                ("Content-Type", "application/json"),
            ];
            assert_eq!(client.send("POST", path, &headers, "{}").status, 403, "{origin} {path}");
        }
    }
    let own = format!("http://{host}");
    assert_eq!(client.send("GET", "/api/status", &[("Host", &host), ("Origin", &own)], "").status, 200);
    for site in ["cross-site", "same-site", "other"] {
        for path in GET {
            let answer = client.send("GET", path, &[("Host", &host), ("Sec-Fetch-Site", site)], "");
            assert_eq!(answer.status, 403, "{site} {path}");
        }
    }
    // A token in an image of another page is not used up.
    let url = viewer.url();
    let path = url.split_once(&host).unwrap().1;
    let image = [("Host", &*host), ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")];
    assert_eq!(client.send("GET", path, &image, "").status, 403);
    assert_eq!(viewer.url(), url);
}

#[test]
fn nothing_is_shared_with_other_origins() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = start(small(folder.path()));
    let client = Client::enter(&viewer);
    let host = client.host();
    let asked = [
        ("Host", &*host),
        ("Origin", "https://evil.example"),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "x-openetw"),
    ];
    let answers = [
        client.send("OPTIONS", "/api/rows", &asked, ""),
        client.get("/api/status"),
        client.get("/"),
        client.get("/none"),
    ];
    assert_eq!(answers[0].status, 403);
    for answer in &answers {
        assert!(
            !answer.headers.keys().any(|name| name.starts_with("access-control-")),
            "{:?}",
            answer.headers
        );
        let policy = &answer.headers["content-security-policy"];
        for part in
            ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]
        {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["cross-origin-resource-policy"], "same-origin");
        assert_eq!(answer.headers["cache-control"], "no-store");
    }
}

#[test]
fn questions_need_the_header_of_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = start(small(folder.path()));
    let client = Client::enter(&viewer);
    let host = client.host();
    let body = json!({ "view": question("events", &["kind.provider"], &["rows"]), "limit": 10 }).to_string();
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let json = [("Host", &*host), ("Content-Type", "application/json")];
        assert_eq!(client.send(method, "/api/rows", &json, &body).status, 403, "{method}");
        let wrong = [("Host", &*host), ("Content-Type", "application/json"), ("X-OpenETW", "0")];
        assert_eq!(client.send(method, "/api/rows", &wrong, &body).status, 403, "{method}");
    }
    for path in CHANGES {
        let json = [("Host", &*host), ("Content-Type", "application/json")];
        assert_eq!(client.send("POST", path, &json, "{}").status, 403, "{path}");
        assert_ne!(client.get(path).status, 200, "{path}");
    }
    // A form can have this type without a question of the browser before.
    let form = [("Host", &*host), ("X-OpenETW", "1"), ("Content-Type", "text/plain")];
    assert_eq!(client.send("POST", "/api/rows", &form, &body).status, 415);
    assert_eq!(client.ask("/api/rows", &serde_json::from_str(&body).unwrap()).status, 200);
}

#[test]
fn upgrades_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = start(small(folder.path()));
    let client = Client::enter(&viewer);
    let host = client.host();
    for path in GET {
        let headers = [
            ("Host", &*host),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("Sec-WebSocket-Version", "13"),
        ];
        assert_eq!(client.send("GET", path, &headers, "").status, 400, "{path}");
    }
}

#[test]
fn only_the_opened_traces_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = start(small(folder.path()));
    let client = Client::enter(&viewer);
    for path in [
        "/etc/passwd",
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/small.etl",
        "/api",
        "//etc/passwd",
    ] {
        assert_eq!(client.get(path).status, 404, "{path}");
    }
    for table in ["/etc/passwd", "", "none"] {
        let view = question(table, &["kind.provider"], &["rows"]);
        let answer = client.ask("/api/rows", &json!({ "view": view, "limit": 10 }));
        assert_eq!(answer.status, 422, "{table}");
    }
}

#[test]
fn damaged_questions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = start(small(folder.path()));
    let client = Client::enter(&viewer);
    for path in POST {
        for body in [
            json!(null),
            json!([]),
            json!({}),
            json!({ "table": 5 }),
            json!({ "view": { "table": "events" } }),
        ] {
            let status = client.ask(path, &body).status;
            assert!(status == 422 || (status == 200 && !body["view"].is_null()), "{path} {body}: {status}");
        }
    }
    let many: Vec<&str> = std::iter::repeat_n("kind.provider", 40).collect();
    let mut deep = question("events", &["kind.provider"], &["rows"]);
    for (name, value) in [
        ("keys", json!(many)),
        ("keys", json!(["kind.kind.kind"])),
        ("values", json!(["sum(kind)"])),
        ("values", json!(["percent(percent(rows))"])),
        ("filters", json!([{ "column": "time", "op": "is", "value": "" }])),
        ("filters", json!([{ "column": "time", "op": "is", "value": "ü" }])),
        ("filters", json!([{ "column": "size", "op": "less", "value": "much" }])),
        ("from", json!("now")),
    ] {
        let before = deep[name].take();
        deep[name] = value;
        assert_eq!(client.ask("/api/rows", &json!({ "view": deep, "limit": 10 })).status, 422, "{deep}");
        deep[name] = before;
    }
    // Times at the ends of what numbers hold, and more rows than there are.
    for (from, to) in [(i64::MIN, i64::MAX), (i64::MAX, i64::MIN), (0, 0)] {
        let mut view = question("events", &["kind.provider"], &["rows"]);
        (view["from"], view["to"]) = (json!(from), json!(to));
        assert_eq!(client.ask("/api/rows", &json!({ "view": view, "limit": 10 })).status, 200);
        let strip =
            json!({ "table": "events", "filters": [], "from": from, "to": to, "buckets": usize::MAX });
        assert_eq!(client.ask("/api/strip", &strip).status, 200);
    }
    let view = question("events", &[], &[]);
    let far = json!({ "view": view, "offset": u64::MAX, "limit": u64::MAX });
    assert_eq!(client.ask("/api/rows", &far).status, 200);
    let large = format!("{{\"view\":\"{}\"}}", "x".repeat(3 << 20));
    let headers = [("Host", &*client.host()), ("X-OpenETW", "1"), ("Content-Type", "application/json")];
    assert_eq!(client.send("POST", "/api/rows", &headers, &large).status, 413);
    for tile in
        ["events/0/1", "events/41/0", "events/64/0", "events/-1/0", "none/0/0", "events/40/1099511627775"]
    {
        let run = client.get("/api/catalog").json()["run"].as_str().unwrap().to_owned();
        let status = client.get(&format!("/api/tile/{run}/{tile}")).status;
        assert_ne!(status, 500, "{tile}");
    }
    assert_eq!(client.get("/api/event/18446744073709551615").status, 422);
    assert_eq!(client.get("/api/status").status, 200);
}

/// A page of another port of this machine, which is of the same site, in a browser that has the cookie: the strongest
/// attacker that a browser lets run.
#[test]
fn a_hostile_page_gets_nothing() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let viewer = start(small(folder.path()));
    browser.open(&viewer.url());
    let status = browser.value("fetch('/api/status').then((answer) => answer.status)");
    assert_eq!(status, 200);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let hostile = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            serve(stream.unwrap());
        }
    });
    browser.open(&format!("http://{hostile}/"));
    let address = viewer.address();
    let results = browser.value(&format!(
        r"(async () => {{
            const at = 'http://{address}';
            const found = {{}};
            const attempt = async (name, run) => {{
                try {{ found[name] = await run(); }} catch {{ found[name] = 'refused'; }}
            }};
            const cookies = {{ credentials: 'include' }};
            await attempt('read', async () => (await fetch(at + '/api/catalog', cookies)).text());
            await attempt('ask', async () => (await fetch(at + '/api/rows', {{ ...cookies, method: 'POST',
                headers: {{ 'X-OpenETW': '1', 'Content-Type': 'application/json' }}, body: '{{}}' }})).text());
            await attempt('opaque', async () => (await fetch(at + '/api/csv', {{ ...cookies, method: 'POST',
                mode: 'no-cors', body: '{{}}' }})).type);
            const loaded = (element) => new Promise((done) => {{
                element.onload = () => done('loaded');
                element.onerror = () => done('refused');
                document.body.append(element);
            }});
            await attempt('script', () => loaded(Object.assign(document.createElement('script'), {{ src: at + '/app.js' }})));
            await attempt('image', () => loaded(Object.assign(document.createElement('img'), {{ src: at + '/icon.svg' }})));
            await attempt('socket', () => new Promise((done) => {{
                const socket = new WebSocket(at.replace('http', 'ws') + '/api/status');
                socket.onopen = () => done('open');
                socket.onerror = () => done('refused');
            }}));
            await attempt('window', async () => {{
                const frame = document.createElement('iframe');
                frame.src = at + '/';
                document.body.append(frame);
                await new Promise((done) => setTimeout(done, 500));
                return frame.contentDocument?.body.textContent || 'refused';
            }});
            return found;
        }})()"
    ));
    for name in ["read", "ask", "script", "image", "socket", "window", "opaque"] {
        assert!(results[name] == "refused" || results[name] == "opaque", "{name}: {results}");
    }
    // The page itself still works.
    browser.open(&format!("http://{address}/"));
    assert_eq!(browser.value("fetch('/api/status').then((answer) => answer.status)"), 200);
}

/// Serves an empty page.
fn serve(mut stream: TcpStream) {
    let mut request = [0; 4096];
    let _read = stream.read(&mut request);
    let page = "<!doctype html><title>x</title><body>hello</body>";
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n", page.len());
    let _written = stream.write_all(format!("{head}Connection: close\r\n\r\n{page}").as_bytes());
}

fn with_password(folder: &std::path::Path, host_names: &[&str]) -> Viewer {
    Viewer::start(Options {
        files: vec![small(folder)],
        listen: Some(Ipv4Addr::UNSPECIFIED.into()),
        password: Some("correct horse battery".to_owned()),
        host_names: host_names.iter().map(|name| (*name).to_owned()).collect(),
        ..Options::default()
    })
    .unwrap()
}

#[test]
fn other_machines_need_a_password() {
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    let refused = |options: Options| format!("{:#}", Viewer::start(options).unwrap_err());
    let options = Options { files: vec![path], ..Options::default() };
    let open = Options { listen: Some(Ipv4Addr::UNSPECIFIED.into()), ..options.clone() };
    assert!(refused(open.clone()).contains("needs a password"));
    assert!(refused(Options { password: Some("short".to_owned()), ..open }).contains("at least 12"));
    assert!(refused(Options { host_names: vec!["a.example".to_owned()], ..options }).contains("password"));

    let viewer = with_password(folder.path(), &[]);
    assert!(viewer.url().starts_with("http://127.0.0.1:"), "{}", viewer.url());
    let address = (Ipv4Addr::LOCALHOST, viewer.address().port()).into();
    let stranger = Client { address, cookie: String::new() };
    // Without the cookie there is the page of the password, and nothing else.
    let page = stranger.get("/");
    assert_eq!(page.status, 401);
    assert!(page.text().contains("type=\"password\"") && !page.text().contains("small"), "{}", page.text());
    for path in GET.iter().filter(|path| !matches!(**path, "/" | "/login.js")) {
        assert_eq!(stranger.get(path).status, 401, "{path}");
    }
    for path in POST {
        assert_eq!(stranger.ask(path, &question("events", &[], &[])).status, 401, "{path}");
    }
    let start = std::time::Instant::now();
    for wrong in ["", "correct horse battery!", "Correct horse battery"] {
        let answer = stranger.ask("/login", &json!({ "password": wrong }));
        assert_eq!(answer.status, 403, "{wrong}");
        assert!(!answer.headers.contains_key("set-cookie"));
    }
    assert!(start.elapsed() >= std::time::Duration::from_secs(3), "guesses are not slowed down");
    // A form of another page cannot send the password.
    let host = stranger.host();
    let body = json!({ "password": "correct horse battery" }).to_string();
    let form = [("Host", &*host), ("Content-Type", "application/json")];
    assert_eq!(stranger.send("POST", "/login", &form, &body).status, 403);
    let answer = stranger.ask("/login", &json!({ "password": "correct horse battery" }));
    assert_eq!(answer.status, 200);
    let cookie = answer.headers["set-cookie"].clone();
    assert!(cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let client = Client { address, cookie };
    assert_eq!(client.get("/api/status").status, 200);
}

#[test]
fn names_are_those_that_the_server_was_started_with() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = with_password(folder.path(), &["viewer.example"]);
    let address = (Ipv4Addr::LOCALHOST, viewer.address().port()).into();
    let client = Client::let_in(address, &viewer.url());
    let status = |host: &str, origin: Option<&str>| {
        let mut headers = vec![("Host", host)];
        headers.extend(origin.map(|origin| ("Origin", origin)));
        client.send("GET", "/api/status", &headers, "").status
    };
    for host in ["viewer.example", "VIEWER.example:443", "192.168.1.7:8000", "10.0.0.1", "[fe80::1]:80"] {
        assert_eq!(status(host, None), 200, "{host}");
    }
    for host in ["rebinding.example", "viewer.example.evil", "evil.viewer.example", "1.2.3.4:80:80", "[x]"] {
        assert_eq!(status(host, None), 403, "{host}");
    }
    assert_eq!(status("viewer.example", Some("https://viewer.example")), 200);
    assert_eq!(status("viewer.example", Some("https://evil.example")), 403);
}

#[test]
fn the_password_opens_the_page_in_a_browser() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = with_password(folder.path(), &[]);
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&format!("http://127.0.0.1:{}/#table=%22events%22", viewer.address().port()));
    let wait = |browser: &mut Browser, condition: &str| {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while browser.value(&format!("!!({condition})")) != true {
            assert!(
                std::time::Instant::now() < end,
                "{condition}: {}",
                browser.value("document.body.innerText")
            );
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
    };
    wait(&mut browser, "document.activeElement?.type === 'password'");
    browser.type_text("wrong password");
    browser.press("Enter");
    wait(&mut browser, "document.querySelector('[role=alert]')?.textContent.includes('wrong')");
    browser.value("document.querySelector('input').value = ''");
    browser.type_text("correct horse battery");
    browser.press("Enter");
    wait(&mut browser, "document.querySelector('.virtual td')");
    // The state of the link is kept.
    let hash = browser.value("location.hash");
    assert!(hash.as_str().unwrap().starts_with("#table=%22events%22"), "{hash}");
}

#[test]
fn half_requests_do_not_keep_the_owner_out() {
    let folder = tempfile::tempdir().unwrap();
    let viewer = start(small(folder.path()));
    // The test has both ends of all connections.
    assert!(etw_sys::raise_handle_limit().unwrap() > 2500);
    let half = |number: usize| {
        let mut stream = TcpStream::connect(viewer.address()).unwrap();
        let body = "POST /login HTTP/1.1\r\nHost: localhost\r\nX-OpenETW: 1\r\nContent-Length: 99\r\n\r\n{";
        let texts = ["", "G", "GET / HTTP/1.1\r\nHost: localhost\r\n", body];
        stream.write_all(texts[number % texts.len()].as_bytes()).unwrap();
        stream
    };
    let mut open: Vec<TcpStream> = (0..1000).map(half).collect();
    let begin = std::time::Instant::now();
    let owner = Client::enter(&viewer);
    assert_eq!(owner.get("/api/catalog").status, 200);
    assert!(begin.elapsed() < std::time::Duration::from_secs(10), "{:?}", begin.elapsed());
    // All end, also those that send a byte now and then.
    let mut slow = half(1);
    let sending = std::thread::spawn(move || {
        for _ in 0..60 {
            std::thread::sleep(std::time::Duration::from_millis(500));
            if slow.write_all(b"E").is_err() {
                return true;
            }
        }
        false
    });
    for stream in &mut open {
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        // An end, a reset or a response to what was sent, but no timeout.
        let ended = stream.read_to_end(&mut Vec::new());
        assert!(!ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    }
    assert!(sending.join().unwrap());
    // Who was let in may take any time.
    let mut stream = TcpStream::connect(viewer.address()).unwrap();
    let head = format!("GET /api/status HTTP/1.1\r\nHost: localhost\r\nCookie: {}\r\n\r\n", owner.cookie);
    for pause in [0, 11] {
        std::thread::sleep(std::time::Duration::from_secs(pause));
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        std::thread::sleep(std::time::Duration::from_millis(200));
        stream.set_nonblocking(true).unwrap();
        while stream.read(&mut [0; 4096]).is_ok_and(|len| len > 0) {}
        stream.set_nonblocking(false).unwrap();
    }
}
