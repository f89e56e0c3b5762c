//! Comparison of our event logs with python-evtx: checksums, counts, providers, ids, and the texts of all fields.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use etw_testkit::traces::{self, Kind, Recipe};
use openetw::Trace;
use openetw::export::{EvtxWriter, Options};
use openetw::schema::Value as Field;
use serde_json::Value;

use peers::python;
use shell::{output, root};

/// Number of events per log; enough for several chunks, and few enough for a reader in Python.
const EVENTS: u64 = 300;

/// Compares; returns the number of differences.
pub(super) fn compare(directory: &Path) -> Result<usize> {
    fs::create_dir_all(directory)?;
    let mut differences = 0;
    for (name, kind) in Kind::ALL {
        let (bytes, _) = traces::bytes(&Recipe { processors: 2, ..Recipe::new(*kind, EVENTS) })?;
        let path = directory.join(format!("{name}.evtx"));
        let ours = write(&path, bytes)?;
        let mut command = Command::new(python());
        let text = output(command.arg(root().join("bench/peers/evtx_read.py")).arg(&path))?;
        let theirs: Value = serde_json::from_str(&text).context("evtx_read.py printed no JSON")?;
        let found = differ(&ours, &theirs);
        match found.as_deref() {
            None => eprintln!("{name}: python-evtx agrees on {} records", ours.len()),
            Some(difference) => eprintln!("{name}: python-evtx {difference}"),
        }
        differences += usize::from(found.is_some());
    }
    Ok(differences)
}

/// A record as we read it.
struct Written {
    provider: String,
    id: u16,
    /// Fields that are texts in the log as they are here.
    fields: Vec<(String, String)>,
}

fn write(path: &Path, bytes: Vec<u8>) -> Result<Vec<Written>> {
    let mut trace = Trace::builder().bytes("generated", bytes).open()?;
    let mut log = EvtxWriter::new(File::create(path)?, &Options::default())?;
    let (mut written, mut failed) = (Vec::new(), None);
    trace.for_each_event(|event| {
        if let Err(error) = log.put(event) {
            failed.get_or_insert(error);
        }
        let texts = event.properties.iter().flat_map(|properties| properties.iter());
        let texts = texts.filter(|field| matches!(field.value(), Field::Utf16(_) | Field::U32(_)));
        written.push(Written {
            provider: event.names().provider_guid().to_string(),
            id: event.record.descriptor().id,
            fields: texts.map(|field| (field.name().to_owned(), field.text().to_string())).collect(),
        });
    })?;
    match failed {
        Some(error) => Err(error.into()),
        None => {
            log.finish()?;
            Ok(written)
        }
    }
}

/// Describes the first difference.
fn differ(ours: &[Written], theirs: &Value) -> Option<String> {
    if theirs["valid"] != true {
        return Some("finds wrong checksums".to_owned());
    }
    let records = theirs["records"].as_array()?;
    if records.len() != ours.len() {
        return Some(format!("has {} records, we have {}", records.len(), ours.len()));
    }
    for (number, (ours, theirs)) in ours.iter().zip(records).enumerate() {
        let same =
            theirs["number"] == number + 1 && theirs["provider"] == *ours.provider && theirs["id"] == ours.id;
        if !same {
            return Some(format!("has as record {}: {theirs}", number + 1));
        }
        let fields = theirs["fields"].as_array()?;
        for (name, text) in &ours.fields {
            let is_it = |field: &&Value| {
                let found = field[1].as_str().unwrap_or_default();
                field[0] == **name && is_same(found, text)
            };
            if !fields.iter().any(|field| is_it(&field)) {
                return Some(format!("has not {name}={text} in record {}: {theirs}", number + 1));
            }
        }
    }
    None
}

/// Whether two texts are of the same value; python-evtx writes hexadecimal numbers with all their digits.
fn is_same(one: &str, other: &str) -> bool {
    let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let is_number = || number(one).is_some_and(|one| number(other) == Some(one));
    one.eq_ignore_ascii_case(other) || is_number()
}
