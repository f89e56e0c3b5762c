//! `etw stats`: counts, sizes and rates by provider, event, process or another key.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::sync::Arc;

use anyhow::Result;
use etw_app::index;
use etw_app::input::Opened;
use etw_app::output;
use etw_app::schemas::Schemas;
use etw_app::survey::{MAX_SCHEMA_BYTES, schema_bytes};
use etw_app::text::csv_field;
use foldhash::fast::RandomState;
use openetw::schema::Names;
use openetw::schema::{CompiledSchema, Resolver};
use openetw::{FileTime, ProcessTable, Record};
use serde_json::{Map, Value};

use crate::args::{Key, StatsArgs, TableFormat};

/// Maximum number of rows per thread; further rows are combined in the row `(others)`.
const MAX_ROWS: usize = 1 << 18;

/// Number of events between updates of the progress bar.
const PROGRESS_EVERY: u64 = 1 << 14;

/// Runs the command.
pub(crate) fn run(args: &StatsArgs) -> Result<()> {
    let schemas = Schemas::load(&args.input.schemas.options())?;
    let threads = output::threads(args.input.threads);
    let (filters, stacks) = (args.filter.filters(), args.symbols.stacks(false));
    let files = &args.input.files;
    let overview = index::overview(files, &args.index.options());
    let mut opened = Opened::open(files, &filters, None, &schemas, threads, &stacks, overview.as_ref())?;
    let files: Vec<String> = opened.trace.source_names().map(str::to_owned).collect();
    let start = opened.trace.start_time();
    let mut counters: Vec<Counter> = (0..threads.get())
        .map(|_| Counter {
            resolver: opened.resolver.clone(),
            processes: opened.processes.clone(),
            keys: args.by.clone(),
            files: files.clone(),
            start,
            rows: HashMap::default(),
            schemas: Vec::new(),
            schema_bytes: 0,
            all: Row::default(),
            key: Vec::new(),
        })
        .collect();
    let progress = opened.progress(true);
    opened.trace.for_each_record_unordered(&mut counters, |counter, record| {
        counter.count(record);
        // Neighboring buffers have similar times, so the bar rarely moves back.
        if counter.all.count % PROGRESS_EVERY == 0 {
            progress.reach(record.time());
        }
    })?;
    progress.finish();
    let mut all = Row::default();
    let mut rows: BTreeMap<Vec<String>, Row> = BTreeMap::new();
    for counter in counters {
        all.add(&counter.all);
        for (labels, row) in counter.rows.into_values() {
            rows.entry(labels).or_default().add(&row);
        }
    }
    let mut rows: Vec<(Vec<String>, Row)> = rows.into_iter().collect();
    rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.count));
    let hidden = rows.len().saturating_sub(args.top.unwrap_or(usize::MAX));
    rows.truncate(args.top.unwrap_or(usize::MAX));
    let mut out = Vec::new();
    match args.format {
        TableFormat::Text => put_text(&mut out, args, &rows, &all, hidden)?,
        TableFormat::Json => put_json(&mut out, args, &rows, &all)?,
        TableFormat::Csv => put_csv(&mut out, args, &rows, &all)?,
    }
    let mut stdout = match args.format {
        TableFormat::Csv => output::open_csv(None)?,
        TableFormat::Text | TableFormat::Json => output::open(None)?,
    };
    stdout.write_all(&out)?;
    stdout.flush()?;
    opened.close()
}

/// Totals of the events in a row.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    count: u64,
    bytes: u64,
    first: Option<FileTime>,
    last: Option<FileTime>,
}

impl Row {
    #[inline]
    fn event(&mut self, bytes: u64, time: FileTime) {
        self.count += 1;
        self.bytes += bytes;
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = Some(self.last.map_or(time, |last| last.max(time)));
    }

    fn add(&mut self, other: &Row) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.first = self.first.into_iter().chain(other.first).min();
        self.last = self.last.into_iter().chain(other.last).max();
    }

    /// Seconds from the first to the last event.
    fn seconds(&self) -> f64 {
        match (self.first, self.last) {
            (Some(first), Some(last)) => last.0.saturating_sub(first.0) as f64 / FileTime::PER_SECOND as f64,
            _ => 0.0,
        }
    }
}

/// Counter of the events that one thread reads.
struct Counter {
    resolver: Resolver,
    processes: Arc<ProcessTable>,
    keys: Vec<Key>,
    files: Vec<String>,
    start: FileTime,
    rows: HashMap<Vec<u128>, (Vec<String>, Row), RandomState>,
    /// Keeps schemas alive, because their addresses identify rows.
    schemas: Vec<Arc<CompiledSchema>>,
    /// Approximate size of the schemas in bytes.
    schema_bytes: usize,
    all: Row,
    /// Buffer for the row key of an event, reused between events.
    key: Vec<u128>,
}

impl Counter {
    fn count(&mut self, record: &Record<'_>) {
        let mut key = std::mem::take(&mut self.key);
        self.count_by(record, &mut key);
        self.key = key;
    }

    fn count_by(&mut self, record: &Record<'_>, key: &mut Vec<u128>) {
        let (bytes, time) = (record.as_bytes().len() as u64, record.time());
        self.all.event(bytes, time);
        key.clear();
        for part in &self.keys {
            key.push(number(*part, record, &mut self.resolver, &self.processes, self.start));
        }
        if let Some((_, row)) = self.rows.get_mut(key.as_slice()) {
            return row.event(bytes, time);
        }
        let mut labels = Vec::new();
        if self.rows.len() >= MAX_ROWS || self.schema_bytes >= MAX_SCHEMA_BYTES {
            key.fill(u128::MAX);
            labels.resize(self.keys.len(), "(others)".to_owned());
        } else {
            let info = self.resolver.provider_info(&record.provider_id());
            let schema = self.resolver.resolve(record).ok().cloned();
            self.schema_bytes += schema.as_deref().map_or(0, schema_bytes);
            self.schemas.extend(schema.clone());
            let names = Names::new(record, schema.as_ref().map(|schema| &*schema.schema), info.as_deref());
            labels.extend(self.keys.iter().map(|part| self.label(*part, record, &names)));
        }
        self.rows.entry(key.clone()).or_insert((labels, Row::default())).1.event(bytes, time);
    }

    fn label(&self, key: Key, record: &Record<'_>, names: &Names<'_>) -> String {
        let descriptor = record.descriptor();
        let or_none =
            |id: Option<u32>| id.map_or_else(|| "(not in the header)".to_owned(), |id| id.to_string());
        let named = |number: u64, name: Option<&str>| match name {
            Some(name) => format!("{number} {name}"),
            None => number.to_string(),
        };
        match key {
            Key::Provider => names.provider_text().into_owned(),
            Key::Event if names.event_guid().is_some() && descriptor.id == 0 => names.event().into_owned(),
            Key::Event => {
                let id = if descriptor.id == 0 { String::new() } else { format!(" ({})", descriptor.id) };
                format!("{}/{}{id}", names.provider_text(), names.event())
            }
            Key::Process => match record.process_id() {
                Some(id) => match self.processes.name_of(record) {
                    Some(name) => format!("{id} {name}"),
                    None => id.to_string(),
                },
                None => "(not in the header)".to_owned(),
            },
            Key::Thread => or_none(record.thread_id()),
            Key::Processor => record.processor().to_string(),
            Key::Level => named(descriptor.level.0.into(), names.level()),
            Key::Opcode => named(descriptor.opcode.0.into(), names.opcode()),
            Key::Keyword => {
                let mask = format!("{:#x}", descriptor.keyword.0);
                names.keywords().fold(mask, |label, name| label + " " + name)
            }
            Key::File => self.files.get(record.origin().source as usize).cloned().unwrap_or_default(),
            Key::Second => (time_since(record, self.start) / FileTime::PER_SECOND).to_string(),
        }
    }
}

fn time_since(record: &Record<'_>, start: FileTime) -> i64 {
    record.time().0.saturating_sub(start.0)
}

/// Returns a number that is different for each value of a key.
#[inline]
fn number(
    key: Key,
    record: &Record<'_>,
    resolver: &mut Resolver,
    processes: &ProcessTable,
    start: FileTime,
) -> u128 {
    let id = |id: Option<u32>| id.map_or(u128::MAX, u128::from);
    match key {
        Key::Provider => record.provider_id().to_u128(),
        Key::Event | Key::Opcode => {
            let descriptor = record.descriptor();
            let schema = resolver.resolve(record).map_or(0, |schema| Arc::as_ptr(schema) as usize);
            // Without a schema, the provider identifies the event; a collision would combine two rows.
            let owner =
                if schema == 0 { record.provider_id().to_u128() << 32 } else { (schema as u128) << 32 };
            owner
                ^ u128::from(descriptor.id) << 16
                ^ u128::from(descriptor.version) << 8
                ^ u128::from(descriptor.opcode.0)
        }
        // Process ids are reused; machine and start distinguish the processes.
        Key::Process => {
            let source = record.origin().source;
            let process = record.process_id().and_then(|id| processes.find(source, id, record.time()));
            let start = process.map_or(0, |process| process.from.0 as u64);
            id(record.process_id()) ^ u128::from(start) << 32 ^ u128::from(processes.machine_of(source)) << 96
        }
        Key::Thread => id(record.thread_id()),
        Key::Processor => record.processor().into(),
        Key::Level => record.descriptor().level.0.into(),
        Key::Keyword => {
            u128::from(record.descriptor().keyword.0) ^ record.provider_id().to_u128().rotate_left(64)
        }
        Key::File => record.origin().source.into(),
        Key::Second => time_since(record, start).div_euclid(FileTime::PER_SECOND) as u128,
    }
}

/// Returns the column name of a key.
fn column(key: Key) -> &'static str {
    match key {
        Key::Provider => "provider",
        Key::Event => "event",
        Key::Process => "process",
        Key::Thread => "thread",
        Key::Processor => "processor",
        Key::Level => "level",
        Key::Opcode => "opcode",
        Key::Keyword => "keyword",
        Key::File => "file",
        Key::Second => "second",
    }
}

fn rate(row: &Row, all: &Row) -> f64 {
    let seconds = all.seconds();
    if seconds > 0.0 { row.count as f64 / seconds } else { 0.0 }
}

fn put_text(
    out: &mut Vec<u8>,
    args: &StatsArgs,
    rows: &[(Vec<String>, Row)],
    all: &Row,
    hidden: usize,
) -> Result<()> {
    let columns: Vec<&str> = args.by.iter().map(|key| column(*key)).collect();
    writeln!(out, "{:>12} {:>7} {:>14} {:>12}  {}", "events", "%", "bytes", "events/s", columns.join("  "))?;
    for (labels, row) in rows {
        let percent = row.count as f64 * 100.0 / all.count.max(1) as f64;
        let labels = labels.join("  ");
        writeln!(
            out,
            "{:>12} {percent:>7.2} {:>14} {:>12.1}  {labels}",
            row.count,
            row.bytes,
            rate(row, all)
        )?;
    }
    if hidden > 0 {
        writeln!(out, "{:>12}", format!("… {hidden} more"))?;
    }
    writeln!(
        out,
        "{:>12} {:>7} {:>14} {:>12.1}  in {:.7} s",
        all.count,
        "",
        all.bytes,
        rate(all, all),
        all.seconds()
    )?;
    Ok(())
}

fn put_json(out: &mut Vec<u8>, args: &StatsArgs, rows: &[(Vec<String>, Row)], all: &Row) -> Result<()> {
    for (labels, row) in rows {
        let mut object = Map::new();
        for (key, label) in args.by.iter().zip(labels) {
            object.insert(column(*key).to_owned(), label.as_str().into());
        }
        object.insert("events".to_owned(), row.count.into());
        object.insert("bytes".to_owned(), row.bytes.into());
        object
            .insert("events_per_second".to_owned(), Value::from((rate(row, all) * 1000.0).round() / 1000.0));
        let time = |time: Option<FileTime>| time.map(|time| time.to_string()).into();
        object.insert("first".to_owned(), time(row.first));
        object.insert("last".to_owned(), time(row.last));
        writeln!(out, "{}", Value::Object(object))?;
    }
    Ok(())
}

fn put_csv(out: &mut Vec<u8>, args: &StatsArgs, rows: &[(Vec<String>, Row)], all: &Row) -> Result<()> {
    let columns: Vec<&str> = args.by.iter().map(|key| column(*key)).collect();
    write!(out, "{},events,bytes,events_per_second,first,last\r\n", columns.join(","))?;
    for (labels, row) in rows {
        for label in labels {
            write!(out, "{},", csv_field(label))?;
        }
        let time = |time: Option<FileTime>| time.map_or_else(String::new, |time| time.to_string());
        let (first, last) = (time(row.first), time(row.last));
        write!(out, "{},{},{:.3},{first},{last}\r\n", row.count, row.bytes, rate(row, all))?;
    }
    Ok(())
}
