//! Message counts by kind.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;

use openetw::schema::text::is_disruptive;
use openetw::schema::{Decoding, EventSchema};
use openetw::{Event, FileTime, Guid, Statistics, Trace};

/// Kinds counted separately; further ones are counted together.
const MAX_KINDS: usize = 1 << 16;

/// The key that distinguishes kinds of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    guid: Guid,
    id: u16,
    opcode: u8,
    version: u8,
    schema: usize,
}

/// The messages of one kind.
#[derive(Debug)]
struct Kind {
    count: u64,
    name: String,
    kind: String,
    /// Kept alive so that its address stays unique.
    _schema: Option<Arc<EventSchema>>,
}

/// Counts messages.
#[derive(Debug, Default)]
pub(super) struct Summary {
    kinds: HashMap<Key, Kind>,
    others: u64,
    /// Messages whose payload does not match their format.
    errors: u64,
    /// Messages without a format.
    unknown: u64,
    last: FileTime,
    files: Vec<String>,
    statistics: Statistics,
    seconds: i64,
}

impl Summary {
    /// Counts a message.
    pub(super) fn add(&mut self, event: &Event<'_>) {
        let record = event.record;
        self.last = self.last.max(record.time());
        let schema = event.schema();
        match &event.properties {
            Ok(properties) => self.errors += u64::from(properties.error().is_some()),
            Err(_) => {
                self.unknown += 1;
                return;
            }
        }
        let descriptor = record.descriptor();
        let key = Key {
            guid: record.provider_id(),
            id: descriptor.id,
            opcode: descriptor.opcode.0,
            version: descriptor.version,
            schema: schema.map_or(0, |schema| std::ptr::from_ref(schema) as usize),
        };
        if let Some(kind) = self.kinds.get_mut(&key) {
            kind.count += 1;
            return;
        }
        if self.kinds.len() >= MAX_KINDS {
            self.others += 1;
            return;
        }
        let names = event.names();
        let wpp = schema.filter(|schema| schema.decoding == Decoding::Wpp);
        let kind = match wpp.and_then(|schema| schema.name.as_deref()) {
            Some(tag) => tag.to_owned(),
            None => names
                .opcode()
                .filter(|_| record.kind().is_classic())
                .map_or_else(|| names.event().into_owned(), str::to_owned),
        };
        let name = match names.task().filter(|_| record.kind().is_classic() && wpp.is_none()) {
            Some(class) => class.to_owned(),
            None => names.provider().unwrap_or_default().to_owned(),
        };
        let schema = event.properties.as_ref().ok().map(|properties| properties.compiled().schema.clone());
        self.kinds.insert(key, Kind { count: 1, name, kind, _schema: schema });
    }

    /// Adds the statistics of the trace, once it has been read.
    pub(super) fn finish(&mut self, trace: &Trace) {
        let end =
            trace.headers().iter().map(|header| header.end_time).max().unwrap_or_default().max(self.last);
        self.seconds = end.0.saturating_sub(trace.start_time().0).max(0) / FileTime::PER_SECOND;
        self.files = trace.source_names().map(str::to_owned).collect();
        self.statistics = trace.statistics().clone();
    }

    fn lost(&self) -> u64 {
        self.statistics.events_lost().max(self.statistics.loss_records[0])
    }

    /// Returns the contents of the summary file.
    pub(super) fn text(&self) -> String {
        let mut text = "Files Processed:\n".to_owned();
        for file in &self.files {
            line(&mut text, format_args!("\t{file}"));
        }
        line(&mut text, format_args!("Total Buffers Processed {}", self.statistics.buffers));
        line(&mut text, format_args!("Total Events  Processed {}", self.statistics.records));
        line(&mut text, format_args!("Total Events  Lost      {}", self.lost()));
        line(&mut text, format_args!("Total Format  Errors    {}", self.errors));
        line(&mut text, format_args!("Total Formats Unknown   {}", self.unknown));
        line(&mut text, format_args!("Elapsed Time            {} sec", self.seconds));
        let head = row("EventCount", "EventName", "EventType", "TMF");
        let rule = format!("+{}+", "-".repeat(head.len() - 2));
        line(&mut text, format_args!("{rule}\n{head}\n{rule}"));
        let mut rows: BTreeMap<(&str, &str, Guid), u64> = BTreeMap::new();
        for (key, Kind { count, name, kind, .. }) in &self.kinds {
            *rows.entry((name, kind, key.guid)).or_default() += count;
        }
        for ((name, kind, guid), count) in rows {
            let guid = guid.to_string();
            line(
                &mut text,
                format_args!("{}", row(&count.to_string(), name, kind, guid.trim_matches(['{', '}']))),
            );
        }
        if self.others > 0 {
            line(&mut text, format_args!("{}", row(&self.others.to_string(), "(all other kinds)", "", "")));
        }
        line(&mut text, format_args!("{rule}"));
        text
    }

    /// Returns the summary in one line.
    pub(super) fn line(&self) -> String {
        format!(
            "Processing completed   Buffers: {}, Events: {}, EventsLost: {} :: Format Errors: {}, Unknowns: {}",
            self.statistics.buffers,
            self.statistics.records,
            self.lost(),
            self.errors,
            self.unknown
        )
    }

    /// Returns one line of statistics for each file.
    pub(super) fn sources(&self) -> impl Iterator<Item = String> {
        self.statistics.sources.iter().map(|source| {
            format!(
                "{}: {} buffers, {} events, {} events and {} buffers lost",
                source.name, source.buffers, source.records, source.events_lost, source.buffers_lost
            )
        })
    }
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{content}");
}

fn row(count: &str, name: &str, kind: &str, guid: &str) -> String {
    let plain = |text: &str| text.replace(is_disruptive, " ");
    format!("|{count:>10}    {:<20} {:<10}  {guid:<36}|", plain(name), plain(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_laid_out_as_documented() {
        assert_eq!(
            row("EventCount", "EventName", "EventType", "TMF"),
            "|EventCount    EventName            EventType   TMF                                 |"
        );
        assert_eq!(
            row("36", "ikeext", "ike_addr_utils_c844", "a0c064ca-d954-350a-8b2f-1a7464eef8b6"),
            "|        36    ikeext               ike_addr_utils_c844  a0c064ca-d954-350a-8b2f-1a7464eef8b6|"
        );
    }
}
