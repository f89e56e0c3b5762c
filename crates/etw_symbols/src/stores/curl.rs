//! One download, by the program `curl`.
//!
//! It brings TLS with the system's certificates, proxies and redirections, without any of them in this program.

use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::kind::{FileKind, START_LEN_BYTES};
use super::limits::Budget;
use super::redirect;

/// Time between looks at a running download.
const POLL: Duration = Duration::from_millis(20);

/// How a download ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The file is complete according to the server.
    Done,
    /// The server does not have the file.
    NotFound,
    /// The server refuses the request; another request may be answered.
    Refused(String),
    /// The server sends what the file cannot be, or more than the limits allow.
    Unwanted(String),
    /// The connection ended or stalled. The part is kept.
    Interrupted(String),
    /// The file cannot be continued from where it was.
    NoResume,
    /// The server cannot be used at all.
    Unusable(String),
}

/// How a request ended: as a download, or with another place of the file.
enum Answer {
    Outcome(Outcome),
    Redirected { url: String, address: Option<IpAddr> },
}

/// A program that is killed when it is no longer waited for.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Downloads a file, continuing the part that exists already. `progress` gets the length of the part in bytes.
pub(super) fn download(
    url: &str,
    part: &Path,
    kind: FileKind,
    budget: &Budget,
    progress: impl Fn(u64),
) -> Outcome {
    let (mut next, mut pinned) = (url.to_owned(), None);
    let mut is_private = None;
    for _ in 0..=redirect::MAX_REDIRECTS {
        let (target, address) = match request(&next, pinned.as_deref(), part, kind, budget, &progress) {
            Answer::Outcome(outcome) => return outcome,
            Answer::Redirected { url, address } => (url, address),
        };
        // What the first server is, which the user named, decides for all redirections.
        let is_private = *is_private.get_or_insert_with(|| redirect::is_private_server(url, address));
        pinned = match redirect::check(url, is_private, &target) {
            Ok(pinned) => pinned,
            Err(reason) => return Outcome::Refused(reason),
        };
        next = target;
    }
    Outcome::Refused(format!("it redirects more than {} times", redirect::MAX_REDIRECTS))
}

fn request(
    url: &str,
    pinned: Option<&str>,
    part: &Path,
    kind: FileKind,
    budget: &Budget,
    progress: &impl Fn(u64),
) -> Answer {
    let limits = &budget.limits;
    let time_left = match budget.time_left() {
        Ok(left) => left,
        Err(reason) => return Answer::Outcome(Outcome::Unwanted(reason)),
    };
    let from = len_bytes(part);
    let mut command = Command::new("curl");
    // The user's settings (.curlrc) may change what is written.
    command.args(["--disable", "--silent", "--show-error", "--fail", "--globoff"]);
    // The body of a redirection is not written, and its target is only reported.
    command.args(["--location", "--max-redirs", "0", "--proto", "=http,https"]);
    command.args(["--connect-timeout", &seconds(limits.connect), "--max-time", &seconds(time_left)]);
    command.args(["--speed-limit", "1024", "--speed-time", &seconds(limits.stall)]);
    // Refused before the first byte if the server states the length.
    command.args(["--max-filesize", &limits.file_bytes.min(budget.bytes_left()).to_string()]);
    command.args(["--write-out", "%{http_code} %{remote_ip} %{redirect_url}"]);
    command.args(["--user-agent", concat!("openetw/", env!("CARGO_PKG_VERSION"))]);
    if let Some(pinned) = pinned {
        command.args(["--resolve", pinned]);
    }
    if from > 0 {
        command.args(["--continue-at", &from.to_string()]);
    }
    command.arg("--output").arg(part).args(["--url", url]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    etw_sys::end_with_parent(&mut command);
    let mut child = match command.spawn() {
        Ok(child) => Running(child),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Answer::Outcome(Outcome::Unusable("downloads need the program 'curl'".to_owned()));
        }
        Err(error) => return Answer::Outcome(Outcome::Unusable(format!("curl: {error}"))),
    };
    let (mut len, mut grown) = (from, Instant::now());
    let status = loop {
        let status = child.0.try_wait();
        let now = len_bytes(part);
        if now != len {
            progress(now);
            if let Err(reason) = allowed(part, kind, now, budget, now.saturating_sub(len)) {
                return Answer::Outcome(Outcome::Unwanted(reason));
            }
            (len, grown) = (now, Instant::now());
        }
        match status {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(error) => return Answer::Outcome(Outcome::Unusable(format!("curl: {error}"))),
        }
        // The body of a redirection may be endless, and curl reads it without writing it.
        if grown.elapsed() > limits.connect + limits.stall + POLL {
            return Answer::Outcome(Outcome::Interrupted("it sends nothing".to_owned()));
        }
        std::thread::sleep(POLL);
    };
    let (written, message) = output(&mut child.0);
    let mut written = written.split(' ');
    let http = written.next().unwrap_or_default();
    let address = written.next().and_then(|address| address.parse().ok());
    match written.next().filter(|url| !url.is_empty()) {
        Some(url) if status.code() == Some(47) => Answer::Redirected { url: url.to_owned(), address },
        _ => Answer::Outcome(outcome(status.code(), http, message)),
    }
}

/// Checks the length of a part against its first bytes and the limits, and takes what is new from the budget.
fn allowed(part: &Path, kind: FileKind, len: u64, budget: &Budget, new: u64) -> Result<(), String> {
    budget.spend(new)?;
    let mut start = Vec::new();
    // Without the file there is nothing to check.
    let _ = File::open(part).map(|file| file.take(START_LEN_BYTES as u64).read_to_end(&mut start));
    let stated = kind.max_len(&start)?.unwrap_or(u64::MAX);
    match len {
        _ if len > stated => Err(format!("it is longer than the {stated} bytes that it should have")),
        _ if len > budget.limits.file_bytes => {
            Err(format!("it is longer than {} bytes", budget.limits.file_bytes))
        }
        _ => Ok(()),
    }
}

/// Returns what curl wrote, and the last line of its messages.
fn output(child: &mut Child) -> (String, String) {
    let (mut written, mut messages) = (String::new(), String::new());
    let _ = child.stdout.take().map(|mut out| out.read_to_string(&mut written));
    let _ = child.stderr.take().map(|mut out| out.read_to_string(&mut messages));
    let message = messages.lines().last().unwrap_or_default();
    // "curl: (28) Operation too slow."
    let message = message.split_once(") ").map_or(message, |(_, message)| message);
    (written, message.trim().to_owned())
}

/// Returns the outcome for curl's exit status; its manual lists them.
fn outcome(status: Option<i32>, http: &str, message: String) -> Outcome {
    match (status, http) {
        (Some(0), _) => Outcome::Done,
        (Some(22), "416") | (Some(33 | 36), _) => Outcome::NoResume,
        (Some(22), "404" | "410") => Outcome::NotFound,
        (Some(22), "429" | "500" | "502" | "503" | "504") => Outcome::Interrupted(message),
        (Some(22 | 47), _) => Outcome::Refused(message),
        (Some(63), _) => Outcome::Unwanted("the file is too large".to_owned()),
        (Some(18 | 28 | 52 | 55 | 56 | 92), http) if http != "000" => Outcome::Interrupted(message),
        (Some(23), _) => Outcome::Refused(format!("cannot write: {message}")),
        (Some(_), _) => Outcome::Unusable(message),
        (None, _) => Outcome::Refused("curl was killed".to_owned()),
    }
}

pub(super) fn len_bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn seconds(time: Duration) -> String {
    time.as_secs().max(1).to_string()
}
