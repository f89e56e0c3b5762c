//! A real browser (Chromium) that a test drives by the Chrome DevTools protocol.

#![expect(clippy::expect_used, reason = "a helper that fails is a test that fails")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The names under which Chromium is installed.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// Maximum time for an answer of the browser.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum time for the browser and its helpers to end.
const FAREWELL: Duration = Duration::from_secs(10);

/// A browser without a window, with one page.
///
/// Messages go through pipes, each ended by a zero byte, so there is no port.
pub struct Browser {
    process: Child,
    requests: ChildStdin,
    messages: Receiver<Value>,
    next: u64,
    session: String,
    /// What the page has asked for and what went wrong in it.
    events: Vec<Value>,
    /// The profile and every temporary file of the browser.
    folder: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser. `None` if none is installed, which is printed.
    ///
    /// # Panics
    ///
    /// Panics if the browser does not start.
    pub fn start() -> Option<Browser> {
        let has = |program: &&str| {
            let version = Command::new(program).arg("--version").stdin(Stdio::null()).output();
            version.is_ok_and(|version| version.status.success())
        };
        let Some(program) = PROGRAMS.into_iter().find(has) else {
            crate::skip!("needs Chromium ({})", PROGRAMS.join(", "));
            return None;
        };
        // The browser's own temporary directories stay behind if it is killed, so they are in here.
        let folder =
            tempfile::Builder::new().prefix("etw-browser-").tempdir().expect("a temporary directory");
        let mut process = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 >/dev/null 2>&1", "sh", program, "--headless"])
            .args(["--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking", "--window-size=1280,900"])
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .env("TMPDIR", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let requests = process.stdin.take().expect("a pipe");
        let answers = process.stdout.take().expect("a pipe");
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(answers).split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { continue };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let (session, events) = (String::new(), Vec::new());
        let mut browser = Browser { process, requests, messages, next: 1, session, events, folder };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", &attach);
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Opens a page and waits until it is loaded.
    ///
    /// # Panics
    ///
    /// Panics if the page is not loaded within a minute.
    pub fn open(&mut self, url: &str) {
        self.events.clear();
        let opened = self.call("Page.navigate", &json!({"url": url}));
        assert!(opened["errorText"].is_null(), "{url}: {opened}");
        let end = Instant::now() + PATIENCE;
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            self.receive(end);
        }
    }

    /// Returns the value of an expression in the page; of a promise, what it resolves to.
    ///
    /// # Panics
    ///
    /// Panics if the expression throws.
    pub fn value(&mut self, expression: &str) -> Value {
        let request = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.call("Runtime.evaluate", &request);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Clicks the middle of the first element that a CSS selector finds.
    ///
    /// # Panics
    ///
    /// Panics if there is no such element.
    pub fn click(&mut self, selector: &str) {
        let selector = serde_json::to_string(selector).expect("text");
        let place = self.value(&format!(
            "(() => {{ const element = document.querySelector({selector}); if (!element) return null; \
             element.scrollIntoView({{block: 'center'}}); const box = element.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ));
        let at = |number: usize| place[number].as_f64();
        let (Some(x), Some(y)) = (at(0), at(1)) else { panic!("no element {selector}") };
        self.click_at((x, y));
    }

    /// Moves the pointer to a point of the window.
    pub fn move_to(&mut self, (x, y): (f64, f64)) {
        self.call(
            "Input.dispatchMouseEvent",
            &json!({"type": "mouseMoved", "x": x, "y": y, "button": "none"}),
        );
    }

    /// Clicks at a point of the window.
    pub fn click_at(&mut self, (x, y): (f64, f64)) {
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let event = json!({"type": kind, "x": x, "y": y, "button": button, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Gives the browser a cookie (`name=value`) of an address.
    ///
    /// # Panics
    ///
    /// Panics if the text is no cookie.
    pub fn set_cookie(&mut self, url: &str, cookie: &str) {
        let (name, value) = cookie.split_once('=').expect("a name and a value");
        self.call("Network.setCookie", &json!({"url": url, "name": name, "value": value}));
    }

    /// Makes the browser accept every certificate, such as one that no known authority has signed.
    pub fn accept_certificates(&mut self) {
        self.call("Security.setIgnoreCertificateErrors", &json!({"ignore": true}));
    }

    /// Presses the left button at a point of the window, moves to another one in steps, and lets it go.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        let mut send = |kind: &str, (x, y): (f64, f64), button: &str, buttons: u32| {
            let event =
                json!({"type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", &event);
        };
        send("mouseMoved", from, "none", 0);
        send("mousePressed", from, "left", 1);
        for step in 1..=8 {
            let part = |from: f64, to: f64| from + (to - from) * f64::from(step) / 8.0;
            send("mouseMoved", (part(from.0, to.0), part(from.1, to.1)), "left", 1);
        }
        send("mouseReleased", to, "left", 0);
    }

    /// Presses a key, named as in `KeyboardEvent.key`.
    pub fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let text = if key.chars().count() == 1 && kind == "keyDown" { key } else { "" };
            let text = if key == "Enter" && kind == "keyDown" { "\r" } else { text };
            self.call("Input.dispatchKeyEvent", &json!({"type": kind, "key": key, "text": text}));
        }
    }

    /// Types text into the element that has the focus.
    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", &json!({"text": text}));
    }

    /// Gives the window a size in pixels of the page, each of which is `scale` pixels of the screen wide: a screen of
    /// 1280×720 has 640×360 of them at a zoom of 200 %.
    pub fn resize(&mut self, (width, height): (u32, u32), scale: f64) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Returns the picture of the window as PNG, in base64.
    pub fn picture(&mut self) -> String {
        let answer = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        answer["data"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the addresses that the page has asked for since it was opened.
    pub fn requested(&self) -> Vec<String> {
        let of = |event: &Value| event["params"]["request"]["url"].as_str().map(str::to_owned);
        self.events
            .iter()
            .filter(|event| event["method"] == "Network.requestWillBeSent")
            .filter_map(of)
            .collect()
    }

    /// Returns what went wrong in the page since it was opened: exceptions, and messages of the browser such as refusals
    /// by the content security policy.
    pub fn errors(&self) -> Vec<String> {
        let is_error = |event: &&Value| {
            event["method"] == "Runtime.exceptionThrown"
                || event["method"] == "Log.entryAdded" && event["params"]["entry"]["level"] == "error"
        };
        self.events.iter().filter(is_error).map(|event| event["params"].to_string()).collect()
    }

    /// Sends a request and returns its result.
    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        let id = self.next;
        self.next += 1;
        let mut request = json!({"id": id, "method": method, "params": parameters});
        if !self.session.is_empty() {
            request["sessionId"] = json!(self.session);
        }
        self.requests.write_all(format!("{request}\0").as_bytes()).expect("the browser runs");
        let end = Instant::now() + PATIENCE;
        loop {
            let Some(mut answer) = self.receive(end) else { continue };
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
        }
    }

    /// Returns the next message if it is an answer, and keeps it if it is an event.
    fn receive(&mut self, end: Instant) -> Option<Value> {
        let left = end.saturating_duration_since(Instant::now());
        let message = self.messages.recv_timeout(left).expect("the browser answers within a minute");
        if message["id"].is_null() {
            self.events.push(message);
            return None;
        }
        Some(message)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A browser that closes ends its child processes, which would otherwise write to the folder while it is removed.
        let close = json!({"id": self.next, "method": "Browser.close"});
        let _told = self.requests.write_all(format!("{close}\0").as_bytes());
        let end = Instant::now() + FAREWELL;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ended = self.process.kill();
        let _status = self.process.wait();
        while remove(self.folder.path()).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Removes a folder; one that is gone counts as removed.
fn remove(folder: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
