//! Traces written anew, compared with what they were made from event by event, as JSON.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod filters;
mod parts;
mod redactions;

use std::collections::HashMap;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use etw_testkit::data;
use etw_testkit::traces::{self, Kind, Recipe};
use openetw::export::{Event, JsonWriter, Options};
use openetw::{EventFilter, HookId, Record, Trace, TraceBuilder, classes};

/// How often each line stands in a trace.
type Lines = HashMap<String, u32>;

/// Files of every kind that can be made, and the real ones where they are, each where it can be read.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for (name, kind) in Kind::ALL {
        let recipe = Recipe { processors: 3, buffer_size: 4096, ..Recipe::new(*kind, 3000) };
        let path = directory.join(format!("{name}.etl"));
        fs::write(&path, traces::bytes(&recipe).unwrap().0).unwrap();
        files.push(path);
    }
    let real = data::traces().unwrap_or_default().into_iter();
    files.extend(real.filter(|file| file.records < 100_000).map(|file| file.path));
    files
}

fn builder(files: &[&Path]) -> TraceBuilder {
    files.iter().fold(Trace::builder(), |builder, path| builder.file(path)).process_names(true)
}

/// Every event that the filter wants, as JSON, with whatever `key` says of it; log file headers and what the relogger
/// embeds are left out.
fn lines<K>(
    files: &[&Path],
    filter: &EventFilter,
    mut key: impl FnMut(&Record<'_>) -> K,
) -> Vec<(String, K)> {
    let mut trace = builder(files).filter(filter).open().unwrap();
    let mut writer = JsonWriter::new(&Options::default());
    let mut all = Vec::new();
    trace
        .for_each_layout(|event| {
            let is_embedded = event.record.provider_id() == classes::EVENT_METADATA;
            if event.record.hook_id() == Some(HookId::LOG_FILE_HEADER) || is_embedded {
                return;
            }
            let properties = event.properties.map_err(|undecoded| undecoded as &dyn Display);
            let mut out = Vec::new();
            let parts =
                Event { record: event.record, properties, provider: event.provider, process: event.process };
            writer.put(&mut out, &parts);
            all.push((String::from_utf8(out).unwrap(), key(event.record)));
        })
        .unwrap();
    all
}

fn counted(lines: impl IntoIterator<Item = String>) -> Lines {
    let mut counted = Lines::new();
    lines.into_iter().for_each(|line| *counted.entry(line).or_default() += 1);
    counted
}

/// Fails with the first line that `part` has more often than `whole`.
fn assert_within(part: &Lines, whole: &Lines, what: &str) {
    for (line, count) in part {
        let found = whole.get(line).copied().unwrap_or(0);
        assert!(found >= *count, "{what}: {count} times, not {found}: {line}");
    }
}
