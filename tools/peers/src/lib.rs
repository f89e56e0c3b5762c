//! Independent readers to compare with, run by the scripts in `bench/peers`.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use shell::{output, root, succeeds, target_dir};

/// An independent reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// `dissect.etl`.
    Dissect,
    /// `etl-parser`.
    EtlParser,
}

impl Peer {
    /// All readers.
    pub const ALL: [Peer; 2] = [Peer::Dissect, Peer::EtlParser];

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Peer::Dissect => "dissect.etl",
            Peer::EtlParser => "etl-parser",
        }
    }

    const fn script(self) -> &'static str {
        match self {
            Peer::Dissect => "dissect_read.py",
            Peer::EtlParser => "etl_parser_read.py",
        }
    }

    /// Returns what is missing to run the peers, and how to install it.
    pub fn missing() -> Option<&'static str> {
        let found = succeeds(
            Command::new(python())
                .args(["-c", "import dissect.etl, etl.etl, Evtx.Evtx, pyarrow, perfetto, dpkt, duckdb"]),
        );
        if found { None } else { Some("the independent readers are missing: ./test.sh installs them") }
    }

    /// Reads a file and returns the script's output. Each pass stops after `limit`, if given.
    ///
    /// # Errors
    ///
    /// Fails if the script fails, or prints no JSON.
    pub fn read(self, file: &Path, options: &[&str], limit: Option<Duration>) -> Result<Value> {
        let mut command = Command::new(python());
        command.arg(root().join("bench/peers").join(self.script())).arg(file).args(options);
        if let Some(limit) = limit {
            command.arg("--seconds").arg(limit.as_secs_f64().to_string());
        }
        let text = output(&mut command)?;
        serde_json::from_str(&text).with_context(|| format!("{} printed no JSON: {text}", self.script()))
    }

    /// Returns the events per second that a pass (`iterate` or `decode`) read without failure, from the output of
    /// [`Peer::read`]; `None` if there were none.
    pub fn rate(report: &Value, pass: &str) -> Option<f64> {
        let pass = &report[pass];
        let (events, seconds) = (pass["events"].as_f64()?, pass["seconds"].as_f64()?);
        let failures = pass["failures"].as_object()?.values().filter_map(Value::as_f64).sum::<f64>();
        (events > failures && seconds > 0.0).then(|| (events - failures) / seconds)
    }
}

/// Returns the Python interpreter with the peers.
pub fn python() -> PathBuf {
    target_dir().join("peers/venv/bin/python")
}
