//! Formatting of messages as lines of text.

use std::fmt::Write;

use openetw::schema::text::{TextOut, is_disruptive};
use openetw::schema::{Decoding, Properties};
use openetw::{Event, FileTime};

use super::args::Options;
use super::prefix::{self, Prefix, Values};

/// Environment variable with the prefix.
const PREFIX: &str = "TRACE_FORMAT_PREFIX";
/// Columns before the message in `-csv`.
const COLUMNS: &str = "Processor,Process ID,Thread ID,Time,Kernel Time,User Time,Sequence,GUID,Number,Name,Type,Level,\
                       Flags,Component,Function,Message";
/// Maximum length of a message in bytes, since schema names repeat for each element of an array.
const MAX_MESSAGE: usize = 16 << 20;

/// Formats messages as lines.
pub(super) struct Lines<'o> {
    options: &'o Options,
    prefix: Prefix,
    message: Plain,
    time: String,
    flags: String,
}

impl<'o> Lines<'o> {
    pub(super) fn new(options: &'o Options) -> Lines<'o> {
        let default = if options.sequence { prefix::WITH_SEQUENCE } else { prefix::DEFAULT };
        let asked = std::env::var(PREFIX).ok().filter(|text| !text.is_empty());
        Lines {
            options,
            prefix: Prefix::parse(asked.as_deref().unwrap_or(default)),
            message: Plain::default(),
            time: String::new(),
            flags: String::new(),
        }
    }

    /// Returns the text before the first message.
    pub(super) fn head(&self) -> String {
        if self.options.csv_header { format!("{COLUMNS}\n") } else { String::new() }
    }

    /// Appends a message with its line break.
    pub(super) fn put(&mut self, out: &mut String, event: &Event<'_>) {
        let record = event.record;
        let schema = event.schema();
        let names = event.names();
        self.time.clear();
        put_time(&mut self.time, record.time().max(FileTime(0)), self.options);
        self.flags.clear();
        match schema {
            Some(schema) if schema.decoding == Decoding::Wpp => {
                self.flags.push_str(schema.keyword_names.first().map_or("", |name| name));
            }
            _ => {
                for (index, keyword) in names.keywords().enumerate() {
                    self.flags.push_str(if index == 0 { "" } else { "|" });
                    self.flags.push_str(keyword);
                }
            }
        }
        let is_wpp = schema.is_some_and(|schema| schema.decoding == Decoding::Wpp);
        let kind = match schema {
            Some(schema) if is_wpp => schema.name.as_deref().unwrap_or_default().to_owned(),
            _ => names.event().into_owned(),
        };
        let (kernel, user) = record.cpu_times().unwrap_or_default();
        let values = Values {
            name: match names.provider() {
                Some(_) if record.kind().is_classic() && !is_wpp => names.task().unwrap_or_default(),
                Some(name) => name,
                None => "Unknown",
            },
            kind: &kind,
            thread: record.thread_id().unwrap_or(0),
            time: &self.time,
            kernel,
            user,
            sequence: record.message_sequence().unwrap_or(0),
            process: record.process_id().unwrap_or(0),
            processor: record.processor().into(),
            function: schema
                .filter(|_| is_wpp)
                .and_then(|schema| schema.opcode_name.as_deref())
                .unwrap_or_default(),
            flags: &self.flags,
            level: schema
                .and_then(|schema| schema.level_name.as_deref())
                .or(names.level())
                .unwrap_or_default(),
            component: schema
                .filter(|_| is_wpp)
                .and_then(|schema| schema.channel_name.as_deref())
                .unwrap_or_default(),
        };
        if self.options.csv {
            let number = record.descriptor().id;
            put_columns(out, &values, record.provider_id(), number);
        }
        self.message.0.clear();
        if !self.options.no_prefix {
            self.prefix.put(&mut self.message.0, &values);
        }
        match &event.properties {
            Ok(properties) => put_message(&mut self.message, properties, &kind),
            Err(_) => {
                let (number, guid) = (record.descriptor().id, record.provider_id());
                let guid = guid.to_string();
                let guid = guid.trim_matches(['{', '}']);
                let _ = write!(
                    self.message.0,
                    "Unknown({number:>4}): GUID={guid} (No Format Information found)."
                );
            }
        }
        match self.options.csv {
            true => put_quoted(out, &self.message.0),
            false => out.push_str(&self.message.0),
        }
        out.push('\n');
    }
}

/// Text without control characters except line breaks and tabs.
#[derive(Default)]
struct Plain(String);

impl TextOut for Plain {
    fn put(&mut self, part: &str) {
        let is_spoiling = |c: char| is_disruptive(c) && !matches!(c, '\n' | '\t');
        match part.contains(is_spoiling) {
            false => self.0.push_str(part),
            true => self.0.extend(part.chars().map(|c| if is_spoiling(c) { '\u{FFFD}' } else { c })),
        }
    }
}

/// Writes the message of the schema, or the event's name and fields if it has none.
fn put_message(out: &mut Plain, properties: &Properties<'_>, kind: &str) {
    let has_message = properties.schema().message.is_some();
    if has_message {
        properties.write_message(out);
    } else {
        out.put(kind);
        let end = out.0.len() + MAX_MESSAGE;
        for property in properties.iter().filter(|property| !property.is_hidden()) {
            if out.0.len() > end {
                break;
            }
            out.put(" ");
            out.put(property.name());
            out.put("=");
            property.text().write_to(out);
        }
    }
    if let Some(error) = properties.error() {
        out.put(&format!(" *****{error}*****"));
    }
}

/// Writes the time in UTC: `07/25/2003-14:55:39.998`.
fn put_time(out: &mut String, time: FileTime, options: &Options) {
    // The input has the form 2003-07-25T14:55:39.9981234Z.
    let text = time.to_string();
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    let (year, month, day) = (part(0..4), part(5..7), part(8..10));
    let clock = part(if options.all_digits { 11..27 } else { 11..23 });
    // Writing to a string does not fail.
    let _ = match options.sortable_time {
        true => write!(out, "{year}/{month}/{day}-{clock}"),
        false => write!(out, "{month}/{day}/{year}-{clock}"),
    };
}

fn put_columns(out: &mut String, values: &Values<'_>, guid: openetw::Guid, number: u16) {
    let guid = guid.to_string();
    let guid = guid.trim_matches(['{', '}']);
    let _ = write!(
        out,
        "{},{:04X},{:04X},{},{},{},{},{guid},{number},",
        values.processor,
        values.process,
        values.thread,
        values.time,
        values.kernel,
        values.user,
        values.sequence
    );
    for text in [values.name, values.kind, values.level, values.flags, values.component, values.function] {
        put_quoted(out, text);
        out.push(',');
    }
}

fn put_quoted(out: &mut String, text: &str) {
    out.push('"');
    out.push_str(&text.replace('"', "\"\""));
    out.push('"');
}
