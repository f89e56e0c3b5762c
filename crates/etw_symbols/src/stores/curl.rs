//! One download, by the program `curl`.
//!
//! It brings TLS with the system's certificates, proxies and redirections, without any of them in this program.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::file::MAX_LEN_BYTES;

/// Time between looks at a running download.
const POLL: Duration = Duration::from_millis(20);

/// Time limits of downloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// Time to connect to a server.
    pub connect: Duration,
    /// Time in which a server must send at least a kilobyte per second on average.
    pub stall: Duration,
}

impl Default for TimeLimits {
    /// 10 s to connect, 20 s of a stall.
    fn default() -> TimeLimits {
        TimeLimits { connect: Duration::from_secs(10), stall: Duration::from_secs(20) }
    }
}

/// How a download ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The file is complete according to the server.
    Done,
    /// The server does not have the file.
    NotFound,
    /// The server refuses the request; another request may be answered.
    Refused(String),
    /// The connection ended or stalled. The part is kept.
    Interrupted(String),
    /// The file cannot be continued from where it was.
    NoResume,
    /// The server cannot be used at all.
    Unusable(String),
}

/// Downloads a file, continuing the part that exists already. `progress` gets the length of the part in bytes.
pub(super) fn download(url: &str, part: &Path, limits: TimeLimits, progress: impl Fn(u64)) -> Outcome {
    let from = len_bytes(part);
    let mut command = Command::new("curl");
    // The user's settings (.curlrc) may change what is written.
    command.args(["--disable", "--silent", "--show-error", "--fail", "--globoff", "--location"]);
    command.args(["--max-redirs", "5", "--proto", "=http,https", "--proto-redir", "=http,https"]);
    command.args(["--connect-timeout", &seconds(limits.connect)]);
    command.args(["--speed-limit", "1024", "--speed-time", &seconds(limits.stall)]);
    command.args(["--max-filesize", &MAX_LEN_BYTES.to_string(), "--write-out", "%{http_code}"]);
    command.args(["--user-agent", concat!("openetw/", env!("CARGO_PKG_VERSION"))]);
    if from > 0 {
        command.args(["--continue-at", &from.to_string()]);
    }
    command.arg("--output").arg(part).args(["--url", url]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Outcome::Unusable("downloads need the program 'curl'".to_owned());
        }
        Err(error) => return Outcome::Unusable(format!("curl: {error}")),
    };
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(error) => return Outcome::Unusable(format!("curl: {error}")),
        }
        let len = len_bytes(part);
        progress(len);
        // curl checks the limit only if the server states the length.
        if len > MAX_LEN_BYTES {
            let _ = child.kill();
        }
        std::thread::sleep(POLL);
    };
    progress(len_bytes(part));
    let (http, message) = output(&mut child);
    outcome(status.code(), &http, message)
}

/// Returns the HTTP status and the last line of the messages.
fn output(child: &mut Child) -> (String, String) {
    let (mut http, mut messages) = (String::new(), String::new());
    let _ = child.stdout.take().map(|mut out| out.read_to_string(&mut http));
    let _ = child.stderr.take().map(|mut out| out.read_to_string(&mut messages));
    let message = messages.lines().last().unwrap_or_default();
    // "curl: (28) Operation too slow."
    let message = message.split_once(") ").map_or(message, |(_, message)| message);
    (http, message.trim().to_owned())
}

/// Returns the outcome for curl's exit status; its manual lists them.
fn outcome(status: Option<i32>, http: &str, message: String) -> Outcome {
    match (status, http) {
        (Some(0), _) => Outcome::Done,
        (Some(22), "416") | (Some(33 | 36), _) => Outcome::NoResume,
        (Some(22), "404" | "410") => Outcome::NotFound,
        (Some(22), "429" | "500" | "502" | "503" | "504") => Outcome::Interrupted(message),
        (Some(22 | 47 | 63), _) => Outcome::Refused(message),
        (Some(18 | 28 | 52 | 55 | 56 | 92), http) if http != "000" => Outcome::Interrupted(message),
        (Some(23), _) => Outcome::Refused(format!("cannot write: {message}")),
        (Some(_), _) => Outcome::Unusable(message),
        (None, _) => Outcome::Refused("the file is too large".to_owned()),
    }
}

pub(super) fn len_bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn seconds(time: Duration) -> String {
    time.as_secs().max(1).to_string()
}
