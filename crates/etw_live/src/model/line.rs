//! Events as lines and as details.

use std::fmt::Write;

use openetw::schema::text::ntstatus_name;
use openetw::{Event, FileTime};

use super::lookup::Lookup;
use super::rows::{printable, span};
use super::store::Known;

/// An event as a line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Line {
    /// Number of the event.
    pub number: u64,
    /// Time of day in UTC.
    pub time: String,
    /// Image name of the process.
    pub process: String,
    /// Process id; `-` if it is unknown.
    pub process_id: String,
    /// Thread id; `-` if it is unknown.
    pub thread_id: String,
    /// Name of the event.
    pub operation: String,
    /// Path, message or fields.
    pub detail: String,
    /// Result of the operation that the event starts.
    pub result: String,
    /// Duration of that operation.
    pub duration: String,
    /// Level, from 1 (critical) to 5 (verbose).
    pub level: u8,
}

/// Fields omitted from lines: kernel keys, and values that other columns show.
const LEFT_OUT: [&str; 17] = [
    "IrpPtr",
    "Irp",
    "FileObject",
    "FileKey",
    "TTID",
    "OpenPath",
    "FileName",
    "IssuingThreadId",
    "HighResResponseTime",
    "IoFlags",
    "IrpFlags",
    "Reserved",
    "connid",
    "seqnum",
    "startime",
    "endtime",
    "PID",
];

/// Names of numbers in fields.
pub(crate) struct Names<T, D> {
    /// Returns the process of a thread.
    pub(crate) thread: T,
    /// Returns the name of a disk.
    pub(crate) disk: D,
}

impl<T: Fn(u32) -> Option<String>, D: Fn(u32) -> Option<String>> Names<T, D> {
    /// Returns the name of a number, by the name of its field.
    fn of(&self, field: &str, number: u32) -> Option<String> {
        match field {
            "DiskNumber" => (self.disk)(number),
            field if field.ends_with("ThreadId") => (self.thread)(number),
            _ => None,
        }
    }
}

impl Line {
    pub(crate) fn new(
        number: u64,
        event: &Event<'_>,
        known: &Known,
        names: Names<impl Fn(u32) -> Option<String>, impl Fn(u32) -> Option<String>>,
    ) -> Line {
        let record = event.record;
        Line {
            number,
            time: time_of_day(record.time()),
            operation: operation(event),
            detail: detail(event, known, &names),
            result: known.end.and_then(|end| end.status).map_or_else(String::new, status),
            duration: known.end.map_or_else(String::new, |end| span(end.took as f64)),
            level: record.descriptor().level.0,
            ..Line::without_event(known)
        }
    }

    /// Returns the part of a line that needs no decoding: process and thread.
    pub(crate) fn without_event(known: &Known) -> Line {
        let id = |id: Option<u32>| id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        Line {
            process: known.process.as_deref().unwrap_or("-").to_owned(),
            process_id: id(known.process_id),
            thread_id: id(known.thread_id),
            ..Line::default()
        }
    }

    /// Whether a column contains the text, which must be in lower case.
    pub(crate) fn contains(&self, text: &str) -> bool {
        let columns =
            [&self.detail, &self.operation, &self.process, &self.result, &self.process_id, &self.thread_id];
        columns.iter().any(|column| column.to_lowercase().contains(text))
    }
}

/// Formats a time as hours to microseconds, in UTC like all times of `etw`.
pub(crate) fn time_of_day(time: FileTime) -> String {
    let (.., hour, minute, second, hundred_nanos) = time.to_civil();
    format!("{hour:02}:{minute:02}:{second:02}.{:06}", hundred_nanos / 10)
}

/// Returns the name of the operation: `FileIo/Read`, with the provider's name for other providers than the kernel.
fn operation(event: &Event<'_>) -> String {
    let record = event.record;
    let names = event.names();
    if names.event_guid().is_some() && record.kind().is_classic() {
        return printable(&names.event());
    }
    printable(&format!("{}/{}", names.provider_text(), names.event()))
}

fn status(status: u32) -> String {
    match ntstatus_name(status) {
        _ if status == 0 => "SUCCESS".to_owned(),
        Some(name) => name.strip_prefix("STATUS_").unwrap_or(name).replace('_', " "),
        None => format!("{status:#010x}"),
    }
}

/// Returns the detail column: the event's message if it has one, otherwise the path and the fields.
fn detail(
    event: &Event<'_>,
    known: &Known,
    names: &Names<impl Fn(u32) -> Option<String>, impl Fn(u32) -> Option<String>>,
) -> String {
    let properties = match &event.properties {
        Ok(properties) => properties,
        Err(reason) => return printable(&format!("({reason})")),
    };
    let mut text = known.path.as_deref().unwrap_or_default().to_owned();
    if let Some(ends) = ends(event) {
        text = ends;
    }
    if properties.schema().message.is_some() {
        let mut message = String::new();
        properties.write_message(&mut message);
        return printable(&message);
    }
    let is_class = event.record.kind().is_classic();
    for property in properties.iter().filter(|property| !property.is_hidden()) {
        let name = property.name();
        // Show a name without a known path.
        let is_path = matches!(name, "OpenPath" | "FileName") && known.path.is_none();
        let is_end = matches!(name, "daddr" | "saddr" | "dport" | "sport");
        if is_class && !is_path && (is_end || LEFT_OUT.contains(&name)) {
            continue;
        }
        let joint = if text.is_empty() { "" } else { " " };
        let value = property.text().to_string();
        let _ = match value.contains(' ') && !value.starts_with(['[', '{']) {
            true => write!(text, "{joint}{name}={value:?}"),
            false => write!(text, "{joint}{name}={value}"),
        };
        // Show the process of a thread, and the name of a disk, besides their numbers.
        if matches!(name, "DiskNumber") || name.ends_with("ThreadId") {
            let number = property.value().as_integer().and_then(|number| u32::try_from(number).ok());
            if let Some(shown) = number.and_then(|number| names.of(name, number)) {
                let _ = write!(text, " ({shown})");
            }
        }
    }
    printable(&text)
}

/// Returns the endpoints of a socket operation: `local -> remote`.
fn ends(event: &Event<'_>) -> Option<String> {
    let shown = |name: &str| event.find(name).map(|property| property.text().to_string());
    let (source, destination) = (shown("saddr")?, shown("daddr")?);
    Some(format!("{source}:{} -> {destination}:{}", shown("sport")?, shown("dport")?))
}

/// Returns all details of an event, one per line.
pub(crate) fn details(event: &Event<'_>, known: &Known, lookup: &Lookup) -> Vec<String> {
    let record = event.record;
    let descriptor = record.descriptor();
    let names = event.names();
    let id = |id: Option<u32>| id.map_or_else(|| "-".to_owned(), |id| id.to_string());
    let process = known.process.as_deref().unwrap_or("-");
    let mut lines = vec![
        format!("{}  {}", operation(event), record.time()),
        format!(
            "process {} {process}  thread {}  processor {}  header {:?}",
            id(known.process_id),
            id(known.thread_id),
            record.processor(),
            record.kind()
        ),
        format!(
            "provider {} {}  id {} version {} opcode {} {} level {} task {} keyword {:#x}",
            names.provider_guid(),
            names.provider().unwrap_or("-"),
            descriptor.id,
            descriptor.version,
            descriptor.opcode.0,
            names.opcode().unwrap_or_default(),
            descriptor.level.0,
            descriptor.task,
            descriptor.keyword.0
        ),
    ];
    if let Some(activity) = record.activity_id() {
        lines.push(format!("activity {activity}"));
    }
    if let Some(path) = &known.path {
        lines.push(format!("file {path}"));
    }
    if let Some(end) = known.end {
        let result = end.status.map(|code| format!("{} ({code:#x}), ", status(code))).unwrap_or_default();
        lines.push(format!("ended: {result}after {}", span(end.took as f64)));
    }
    match &event.properties {
        Ok(properties) => {
            let width = properties.iter().map(|property| property.name().len()).max().unwrap_or(0);
            for property in properties.iter() {
                lines.push(format!("  {:width$}  {}", property.name(), property.text()));
            }
            lines.extend(properties.error().map(|error| format!("  ({error})")));
        }
        Err(reason) => lines.push(format!("  ({reason}; {} bytes)", record.payload().len())),
    }
    let stack = record.stack_trace();
    lines.extend(stack.iter().flat_map(|stack| stack_lines(stack.addresses(), known.process_id, lookup)));
    lines.iter().map(|line| printable(line)).collect()
}

/// Formats a stack, one line per frame.
pub(crate) fn stack_lines(
    addresses: impl Iterator<Item = u64>,
    process_id: Option<u32>,
    lookup: &Lookup,
) -> Vec<String> {
    let addresses: Vec<u64> = addresses.collect();
    let names = lookup.functions(process_id, &addresses).into_iter();
    let frame = |(address, name): (&u64, Option<String>)| {
        format!("  {address:#018x}  {}", name.as_deref().unwrap_or("user"))
    };
    std::iter::once("stack".to_owned()).chain(addresses.iter().zip(names).map(frame)).collect()
}
