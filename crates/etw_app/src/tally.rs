//! Event counts by kind: tracerpt's summary, the kinds for reports, and their schemas.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;

use openetw::schema::text::is_disruptive;
use openetw::schema::{Decoding, EventSchema, Provider};
use openetw::{Event, FileTime, Guid, Statistics};

/// Kinds of events counted separately; further ones are counted together.
const MAX_KINDS: usize = 1 << 15;
/// Limit of the approximate size of these kinds' schemas, since a crafted trace can put thousands of properties in each
/// event.
const MAX_SCHEMA_BYTES: usize = 64 << 20;

/// The key that distinguishes kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    provider: Guid,
    id: u16,
    version: u8,
    opcode: u8,
    /// The address of the schema.
    schema: usize,
}

/// The events of one kind.
#[derive(Debug, Clone)]
struct Kind {
    count: u64,
    /// Name in tracerpt's summary: the class or the provider.
    name: String,
    provider: String,
    event: String,
    task: u16,
    opcode: String,
    /// Kept alive so that its address stays unique.
    schema: Option<Arc<EventSchema>>,
}

/// Counts events by kind.
#[derive(Debug, Default)]
pub struct Tally {
    kinds: HashMap<Key, Kind>,
    schema_bytes: usize,
    /// Events of the kinds not counted separately.
    others: u64,
    /// Number of events without a schema.
    pub undecoded: u64,
    /// Number of events whose payload does not match their schema.
    pub misfits: u64,
    /// The time of the last event.
    pub last: FileTime,
}

/// The number of events with one provider and event name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Name of the provider.
    pub provider: String,
    /// Name of the event.
    pub event: String,
    /// Number of events.
    pub count: u64,
}

impl Tally {
    /// Counts an event.
    pub fn add(&mut self, event: &Event<'_>) {
        let record = event.record;
        let schema = event.schema();
        self.last = self.last.max(record.time());
        match &event.properties {
            Ok(properties) => self.misfits += u64::from(properties.error().is_some()),
            Err(_) => self.undecoded += 1,
        }
        let descriptor = record.descriptor();
        let key = Key {
            provider: record.provider_id(),
            id: descriptor.id,
            version: descriptor.version,
            opcode: descriptor.opcode.0,
            schema: schema.map_or(0, |schema| Arc::as_ptr(schema) as usize),
        };
        if let Some(kind) = self.kinds.get_mut(&key) {
            kind.count += 1;
            return;
        }
        let bytes = schema.map_or(0, |schema| 1024 + 256 * schema.properties.len());
        if self.kinds.len() >= MAX_KINDS || self.schema_bytes + bytes > MAX_SCHEMA_BYTES {
            self.others += 1;
            return;
        }
        self.schema_bytes += bytes;
        let names = event.names();
        let is_known = names.provider().is_some() || names.task().is_some();
        let kind = Kind {
            count: 1,
            name: if is_known { names.column_name() } else { String::new() },
            provider: names.provider_text().into_owned(),
            event: names.event().into_owned(),
            task: descriptor.task,
            opcode: names.opcode().map_or_else(|| descriptor.opcode.0.to_string(), str::to_owned),
            schema: schema.cloned(),
        };
        self.kinds.insert(key, kind);
    }

    /// Adds the counts of another thread.
    pub fn merge(&mut self, other: Tally) {
        self.others += other.others;
        self.undecoded += other.undecoded;
        self.misfits += other.misfits;
        self.last = self.last.max(other.last);
        for (key, kind) in other.kinds {
            match self.kinds.get_mut(&key) {
                Some(known) => known.count += kind.count,
                None => drop(self.kinds.insert(key, kind)),
            }
        }
    }

    /// Returns tracerpt's summary.
    pub fn text(&self, files: &[String], statistics: &Statistics, span: (FileTime, FileTime)) -> String {
        let mut text = "\r\nFiles Processed:\r\n".to_owned();
        for file in files {
            line(&mut text, format_args!("\t{file}"));
        }
        let (start, end) = span;
        let lost = statistics.events_lost().max(statistics.loss_records[0]);
        let seconds = end.0.saturating_sub(start.0).max(0) / FileTime::PER_SECOND;
        line(&mut text, format_args!("Total Buffers Processed {}", statistics.buffers));
        line(&mut text, format_args!("Total Events  Processed {}", statistics.records));
        line(&mut text, format_args!("Total Events  Lost      {lost}"));
        line(&mut text, format_args!("Start Time              {}", day(start)));
        line(&mut text, format_args!("End Time                {}", day(end)));
        line(&mut text, format_args!("Elapsed Time            {seconds} sec"));
        self.by_opcode(&mut text);
        self.by_id(&mut text);
        text
    }

    fn by_opcode(&self, text: &mut String) {
        let mut rows: BTreeMap<_, u64> = BTreeMap::new();
        for (key, kind) in &self.kinds {
            let row = (&*kind.name, key.provider, kind.task, key.opcode, &*kind.opcode, key.version);
            *rows.entry(row).or_default() += kind.count;
        }
        let head = row("Event Count", "Event Name", &["Task", "Opcode", "Version"], "Guid");
        let rows = rows.into_iter().map(|((name, guid, task, _, opcode, version), count)| {
            let columns = [&*task.to_string(), opcode, &*version.to_string()];
            row(&count.to_string(), name, &columns, &guid.to_string())
        });
        table(text, head, rows.chain(self.row_of_others(3)));
    }

    fn by_id(&self, text: &mut String) {
        let mut rows: BTreeMap<_, u64> = BTreeMap::new();
        for (key, kind) in &self.kinds {
            *rows.entry((&*kind.name, key.provider, key.id, key.version)).or_default() += kind.count;
        }
        let head = row("Event Count", "Event Name", &["Event ID", "Version"], "Guid");
        let rows = rows.into_iter().map(|((name, guid, id, version), count)| {
            row(&count.to_string(), name, &[&id.to_string(), &version.to_string()], &guid.to_string())
        });
        table(text, head, rows.chain(self.row_of_others(2)));
    }

    fn row_of_others(&self, columns: usize) -> Option<String> {
        let columns: Vec<&str> = std::iter::repeat_n("", columns).collect();
        (self.others > 0).then(|| row(&self.others.to_string(), "(all other kinds)", &columns, ""))
    }

    /// Returns the counts by provider and event name, most frequent first.
    pub fn counted(&self) -> Vec<Counted> {
        let mut counts: HashMap<(&str, &str), u64> = HashMap::new();
        for kind in self.kinds.values() {
            *counts.entry((&kind.provider, &kind.event)).or_default() += kind.count;
        }
        if self.others > 0 {
            counts.insert(("", "(all other kinds)"), self.others);
        }
        let counted = |((provider, event), count): ((&str, &str), u64)| Counted {
            provider: provider.to_owned(),
            event: event.to_owned(),
            count,
        };
        let mut counted: Vec<Counted> = counts.into_iter().map(counted).collect();
        counted.sort_by(|a, b| {
            b.count.cmp(&a.count).then_with(|| (&a.provider, &a.event).cmp(&(&b.provider, &b.event)))
        });
        counted
    }

    /// Returns the events' schemas by provider, without self-describing (TraceLogging) events.
    pub fn providers(&self) -> Vec<Provider> {
        let mut providers: BTreeMap<(String, Guid), Provider> = BTreeMap::new();
        let mut kinds: Vec<&Kind> = self.kinds.values().collect();
        kinds.sort_by_key(|kind| {
            let descriptor = kind.schema.as_ref().map(|schema| schema.descriptor);
            descriptor.map(|descriptor| (descriptor.id, descriptor.version, descriptor.opcode.0))
        });
        for schema in kinds.into_iter().filter_map(|kind| kind.schema.as_ref()) {
            if schema.decoding == Decoding::TraceLogging {
                continue;
            }
            let info = &schema.provider;
            let provider = providers
                .entry((info.name.to_string(), info.guid))
                .or_insert_with(|| Provider { info: info.clone(), events: Vec::new() });
            let key = |schema: &EventSchema| {
                let descriptor = schema.descriptor;
                (descriptor.id, descriptor.version, info.class_of.as_ref().map(|_| descriptor.opcode))
            };
            if !provider.events.iter().any(|known| key(known) == key(schema)) {
                provider.events.push(schema.clone());
            }
        }
        providers.into_values().collect()
    }
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = write!(text, "{content}\r\n");
}

fn row(count: &str, name: &str, columns: &[&str], guid: &str) -> String {
    let plain = |text: &str| text.replace(is_disruptive, " ");
    let mut row = format!("|{count:>11}   {:<20} ", plain(name));
    for column in columns {
        let _ = write!(row, "{:<15} ", plain(column));
    }
    let _ = write!(row, "{guid:<38}|");
    row
}

fn table(text: &mut String, head: String, rows: impl Iterator<Item = String>) {
    let rule = format!("+{}+", "-".repeat(head.len() - 2));
    line(text, format_args!("{rule}\r\n{head}\r\n{rule}"));
    for row in rows {
        line(text, format_args!("{row}"));
    }
    line(text, format_args!("{rule}"));
}

/// Formats a date: `Sunday, January 23, 2011`.
fn day(time: FileTime) -> String {
    // 1601-01-01 was a Monday.
    const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let text = time.to_string();
    let mut date = text.split('T').next().unwrap_or_default().splitn(3, '-');
    let mut next = || date.next().unwrap_or_default();
    let (year, month, day) = (next().to_owned(), next().to_owned(), next().to_owned());
    let weekday = DAYS[(time.0.div_euclid(FileTime::PER_SECOND * 86400)).rem_euclid(7) as usize];
    let month = month.parse::<usize>().ok().and_then(|month| MONTHS.get(month.wrapping_sub(1)));
    format!("{weekday}, {} {}, {year}", month.unwrap_or(&""), day.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days() {
        let day = |year, month, date| day(FileTime::from_civil(year, month, date, 12, 0, 0, 0).unwrap());
        assert_eq!(day(2011, 1, 23), "Sunday, January 23, 2011");
        assert_eq!(day(2025, 12, 23), "Tuesday, December 23, 2025");
        assert_eq!(day(1601, 1, 1), "Monday, January 1, 1601");
    }

    #[test]
    fn rows_stand_under_their_headings() {
        let head = row("Event Count", "Event Name", &["Event ID", "Version"], "Guid");
        assert_eq!(
            head,
            "|Event Count   Event Name           Event ID        Version         Guid                                  |"
        );
        let guid = "{c4859ff3-8549-54e3-adc3-dfcb805b4146}";
        let line = row("143003", "", &["1", "5"], guid);
        assert_eq!(line.find('1'), Some(6));
        assert_eq!(line.len(), head.len());
        assert!(line.ends_with(&format!("5               {guid}|")));
    }
}
