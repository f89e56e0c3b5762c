//! Traces at URLs, which the program `etw-sql` fetches as a whole.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use openetw::Spooled;
use serde::{Deserialize, Serialize};

use crate::beside::Program;
use crate::pipes;

/// The option of `etw-sql` that fetches objects; its words are URLs.
pub const FETCH: &str = "fetch";

/// What `etw-sql` says of an object, as a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub enum FetchReport {
    /// It was fetched.
    Fetched {
        /// Number of the word that means it.
        word: usize,
        /// Its URL, without what only its owner should see.
        shown: String,
        /// The file that has its bytes until the program ends.
        path: PathBuf,
    },
    /// It was not fetched.
    Failed {
        /// Number of the word that means it.
        word: usize,
        /// Its URL, without what only its owner should see.
        shown: String,
        /// Why.
        reason: String,
    },
    /// That was all.
    Done,
}

/// Whether a path is a URL and not a file.
pub fn is_url(path: &Path) -> bool {
    path.to_str()
        .is_some_and(|path| ["http://", "https://", "s3://"].iter().any(|scheme| path.starts_with(scheme)))
}

/// Fetches the traces at URLs among the inputs of a command. From then on, they are opened by the URLs that replace these.
/// What cannot be fetched is an input that cannot be opened.
///
/// # Errors
///
/// Fails if there are URLs and the program that fetches is missing, or fails altogether.
pub fn fetch(files: &mut Vec<PathBuf>) -> Result<()> {
    if !files.iter().any(|file| is_url(file)) {
        return Ok(());
    }
    let program = Program::Sql.path().context("traces at URLs are fetched by another program")?;
    let mut command = Command::new(&program);
    command.arg(format!("--{FETCH}")).args(files.iter().filter(|file| is_url(file)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    etw_sys::end_with_parent(&mut command);
    let mut child = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
    let output = child.stdout.take().context("no output")?;
    let said = said(BufReader::new(output));
    // Closing its input ends it.
    drop(child.stdin.take());
    let status = child.wait()?;
    let said = match said {
        Ok(said) => said,
        // It has said why.
        Err(_) if !status.success() => bail!("the traces at URLs were not fetched"),
        Err(error) => return Err(error),
    };
    let mut taken = BTreeSet::new();
    let mut words = 0;
    let mut inputs = Vec::new();
    for file in files.drain(..) {
        if !is_url(&file) {
            inputs.push(file);
            continue;
        }
        for (_, shown, bytes) in said.iter().filter(|(word, ..)| *word == words) {
            // URLs may differ in what is not shown.
            let mut name = shown.clone();
            while !taken.insert(name.clone()) {
                name.push('\'');
            }
            let path = PathBuf::from(name);
            pipes::keep(&path, bytes.clone());
            inputs.push(path);
        }
        words += 1;
    }
    *files = inputs;
    Ok(())
}

/// An object: the number of its word, its URL, and its bytes or why there are none.
type Object = (usize, String, Result<Spooled, String>);

/// Reads what the program says, and opens the files.
fn said(lines: impl BufRead) -> Result<Vec<Object>> {
    let mut objects = Vec::new();
    for line in lines.lines() {
        objects.push(match serde_json::from_str(&line?)? {
            FetchReport::Done => return Ok(objects),
            FetchReport::Failed { word, shown, reason } => (word, shown, Err(reason)),
            FetchReport::Fetched { word, shown, path } => {
                let file = File::open(&path).with_context(|| path.display().to_string())?;
                let bytes = Spooled::read(&shown, file)?;
                (word, shown, Ok(bytes))
            }
        });
    }
    bail!("the program that fetches traces from URLs has ended")
}
