//! Comparison of kernel events of this machine: independent readers must decode them to the same values.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use openetw::Trace;
use openetw::kernel::EnableFlags;
use openetw::session::{ErrorKind, Instance, Runtime, SessionBuilder};
use serde_json::Value;

use super::{Reading, compare_one};
use peers::Peer;
use shell::output;

/// Recorded flags; etl-parser knows these classes.
const FLAGS: &str = "PROC_THREAD+LOADER+DISK_IO+FILENAME";
const SESSION: &str = "Peers";

/// Fields of an event by name, as texts.
type Fields = BTreeMap<String, String>;
/// An event: raw time, group and type of its class.
type Key = (i64, u64, u64);

/// DiskIo/FlushBuffers, whose request etl-parser reads as 32 bits on 64-bit systems too.
const MISREAD: (u64, u64) = (1, 14);

/// Compares; returns the number of differences.
pub(super) fn compare(directory: &Path) -> Result<usize> {
    fs::create_dir_all(directory)?;
    let file = directory.join("kernel.etl");
    let mut runtime = Runtime::connect_or_host_at(&Instance::at(directory))?;
    let session = SessionBuilder::new(SESSION).file(&file).enable_flags(EnableFlags::parse(FLAGS)?.flags.0);
    match session.start(runtime.controller()) {
        Err(error) if error.kind() == Some(ErrorKind::NotSupported) => {
            eprintln!("kernel: skipped: {error}");
            return Ok(0);
        }
        started => drop(started?),
    }
    let copy = directory.join("copy");
    output(Command::new("cp").arg(std::env::current_exe()?).arg(&copy))?;
    output(Command::new("sync").arg(&copy))?;
    let status = runtime.controller().stop(SESSION)?;
    ensure!(status.events_lost + status.log_events_lost == 0, "events were lost: {status:?}");

    let ours = Reading::parse(&fs::read(&file)?)?;
    let mut differences = 0;
    for peer in Peer::ALL {
        let found = compare_one(&ours, peer, &file).with_context(|| format!("kernel: {}", peer.name()))?;
        found.iter().for_each(|difference| eprintln!("kernel: {} {difference}", peer.name()));
        differences += found.len();
    }
    differences += compare_values(&file)?;
    Ok(differences)
}

/// Compares the values of the fields that both have.
fn compare_values(file: &Path) -> Result<usize> {
    let ours = events_of(file)?;
    let report = Peer::EtlParser.read(file, &["--values"], None)?;
    let theirs = report["values"].as_array().context("no list of values")?;
    let mut classes: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    let mut differences = 0;
    for event in theirs {
        let number = |index: usize| event.get(index).and_then(Value::as_u64).context("an odd event");
        let key = (number(0)? as i64, number(1)?, number(2)?);
        let fields = event.get(3).and_then(Value::as_object).context("an event without fields")?;
        if (key.1, key.2) == MISREAD {
            continue;
        }
        *classes.entry((key.1, key.2)).or_default() += 1;
        let is_same = |ours: &Fields| {
            fields
                .iter()
                .all(|(name, value)| ours.get(name).is_none_or(|ours| Some(&**ours) == value.as_str()))
        };
        // Events of one class may have one time, on several processors.
        let candidates = ours.get(&key).map_or(&[][..], Vec::as_slice);
        if !candidates.iter().any(is_same) {
            eprintln!("kernel: etl-parser has {event}, we have {candidates:?}");
            differences += 1;
        }
    }
    let all: usize = classes.values().sum();
    ensure!(classes.contains_key(&(3, 1)) && classes.contains_key(&(5, 1)), "no process: {classes:?}");
    eprintln!("kernel: etl-parser decodes {all} events of {} types as we do", classes.len());
    Ok(differences)
}

fn events_of(file: &Path) -> Result<HashMap<Key, Vec<Fields>>> {
    let mut events: HashMap<Key, Vec<Fields>> = HashMap::new();
    let mut undecoded = 0;
    let mut trace = Trace::open_file(file)?;
    trace.for_each_event(|event| {
        let record = event.record;
        let Some(hook) = record.hook_id() else { return };
        let Ok(properties) = &event.properties else {
            undecoded += 1;
            return;
        };
        let text = |value: openetw::schema::Value<'_>| match value.as_integer() {
            Some(number) => Some(number.to_string()),
            None => value.as_text().map(|text| text.into_owned()),
        };
        let fields =
            properties.iter().filter_map(|field| Some((field.name().to_owned(), text(field.value())?)));
        let key = (record.raw_time().0, u64::from(hook.group()), u64::from(hook.event_type()));
        events.entry(key).or_default().push(fields.collect());
    })?;
    ensure!(undecoded == 0, "{undecoded} events were not decoded");
    Ok(events)
}
