//! `-a dumper`: one line per event, after a head that lists the columns of each kind of event.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;

use anyhow::Result;
use etw_app::status::usage;
use etw_app::text::csv_field;
use openetw::schema::text::is_disruptive;
use openetw::{Event, FileTime, Guid};

use super::events::{micros, name};
use super::{Request, finish};
use crate::options::Options;

/// xperf's names of kernel events, by class and type.
const NAMES: &[(&str, &str)] = &[
    ("Process/Start", "P-Start"),
    ("Process/End", "P-End"),
    ("Process/DCStart", "P-DCStart"),
    ("Process/DCEnd", "P-DCEnd"),
    ("Thread/Start", "T-Start"),
    ("Thread/End", "T-End"),
    ("Thread/DCStart", "T-DCStart"),
    ("Thread/DCEnd", "T-DCEnd"),
    ("Image/Load", "I-Start"),
    ("Image/Unload", "I-End"),
    ("Image/DCStart", "I-DCStart"),
    ("Image/DCEnd", "I-DCEnd"),
    ("Thread/CSwitch", "CSwitch"),
    ("Thread/ReadyThread", "ReadyThread"),
    ("PerfInfo/SampleProfile", "SampledProfile"),
    ("PerfInfo/CollectionStart", "SampledProfileIntervalCollectionStart"),
    ("PerfInfo/CollectionEnd", "SampledProfileIntervalCollectionEnd"),
    ("PerfInfo/ISR", "Interrupt"),
    ("PerfInfo/DPC", "Dpc"),
    ("PerfInfo/TimerDPC", "TimerDpc"),
    ("PerfInfo/SysClEnter", "SysCallEnter"),
    ("PerfInfo/SysClExit", "SysCallExit"),
    ("PerfInfo/Mark", "Mark"),
    ("StackWalk/Stack", "Stack"),
    ("DiskIo/Read", "DiskRead"),
    ("DiskIo/Write", "DiskWrite"),
    ("DiskIo/FlushBuffers", "DiskFlush"),
    ("DiskIo/ReadInit", "DiskReadInit"),
    ("DiskIo/WriteInit", "DiskWriteInit"),
    ("DiskIo/FlushInit", "DiskFlushInit"),
    ("FileIo/Create", "FileIoCreate"),
    ("FileIo/Cleanup", "FileIoCleanup"),
    ("FileIo/Close", "FileIoClose"),
    ("FileIo/Read", "FileIoRead"),
    ("FileIo/Write", "FileIoWrite"),
    ("FileIo/SetInfo", "FileIoSetInfo"),
    ("FileIo/Delete", "FileIoDelete"),
    ("FileIo/Rename", "FileIoRename"),
    ("FileIo/DirEnum", "FileIoDirEnum"),
    ("FileIo/Flush", "FileIoFlush"),
    ("FileIo/QueryInfo", "FileIoQueryInfo"),
    ("FileIo/OperationEnd", "FileIoOpEnd"),
    ("FileIo/Name", "FileName"),
    ("FileIo/FileCreate", "FileNameCreate"),
    ("FileIo/FileDelete", "FileNameDelete"),
    ("FileIo/FileRundown", "FileNameRundown"),
    ("PageFault/HardFault", "HardFault"),
];

/// Kinds of events listed in the head; the columns of further ones are listed where they occur.
const MAX_KINDS: usize = 1 << 16;

/// Dumps the events.
pub(super) fn dumper(request: &Request, options: &Options, out: &mut dyn Write) -> Result<()> {
    let wanted = options.last("provider").map(|given| &given.values[..]).unwrap_or_default();
    let wanted: Vec<Guid> = wanted
        .iter()
        .map(|text| text.parse().map_err(|_| usage(format_args!("-provider: '{text}' is not a GUID"))))
        .collect::<Result<_>>()?;
    let is_wanted = |event: &Event<'_>| wanted.is_empty() || wanted.contains(&event.record.provider_id());
    let mut kinds: BTreeMap<String, String> = BTreeMap::new();
    request.open(options)?.for_each_event(|event| {
        if is_wanted(event) && kinds.len() < MAX_KINDS {
            kinds.entry(short_name(event)).or_insert_with(|| columns(event));
        }
    })?;
    writeln!(out, "BeginHeader")?;
    for (name, columns) in &kinds {
        writeln!(out, "{name:>23},  TimeStamp,     Process Name ( PID),   ThreadID, CPU{columns}")?;
    }
    writeln!(out, "EndHeader")?;
    let mut trace = request.open(options)?;
    put_trace(&trace, out)?;
    let has_bytes = options.last("add_rawdata").is_some();
    let (processes, start) = (trace.processes()?.clone(), trace.start_time());
    let (mut line, mut result) = (String::new(), Ok(()));
    trace.for_each_event(|event| {
        if result.is_err() || !is_wanted(event) {
            return;
        }
        let record = event.record;
        line.clear();
        let process_id = record.process_id();
        let process = processes.name_of(record).unwrap_or("Unknown");
        let id = |id: Option<u32>| id.map_or_else(|| "-1".to_owned(), |id| id.to_string());
        // Writing to a string does not fail.
        let _ = write!(
            line,
            "{:>23}, {:>10}, {:>24}, {:>10}, {:>3}",
            short_name(event),
            micros(event, start),
            format!("{process} ({:>4})", id(process_id)),
            id(record.thread_id()),
            record.processor()
        );
        match &event.properties {
            Ok(properties) => {
                for property in properties.iter() {
                    let _ = write!(line, ", {}", field(&property.text().to_string()));
                }
            }
            Err(reason) => {
                let _ = write!(line, ", {}", field(&reason.to_string()));
            }
        }
        if has_bytes || event.properties.is_err() {
            line.push_str(", 0x");
            for byte in record.payload() {
                let _ = write!(line, "{byte:02x}");
            }
        }
        result = writeln!(out, "{line}");
    })?;
    result?;
    finish(&trace)
}

fn short_name(event: &Event<'_>) -> String {
    let name = name(event);
    match NAMES.iter().find(|(long, _)| *long == name) {
        Some((_, short)) if event.record.kind().is_classic() => (*short).to_owned(),
        _ => name,
    }
}

/// Returns the names of the event's own columns.
fn columns(event: &Event<'_>) -> String {
    let Some(schema) = event.schema() else { return String::new() };
    schema
        .properties
        .iter()
        .take(schema.top_level.into())
        .fold(String::new(), |columns, property| format!("{columns}, {}", property.name))
}

/// Formats a value as a column, in quotation marks if it contains a comma or a line break.
fn field(text: &str) -> String {
    csv_field(text).replace(is_disruptive, " ")
}

/// Writes the line after the head, which describes the trace.
fn put_trace(trace: &openetw::Trace, out: &mut dyn Write) -> Result<()> {
    for (file, header) in trace.source_names().zip(trace.headers()) {
        let length = (header.end_time.0 - header.start_time.0).max(0) as f64 / FileTime::PER_SECOND as f64;
        writeln!(
            out,
            "OS Version: {}.{}.{}, Trace Size: {}KB, Events Lost: {}, Buffers lost: {}, Trace Start: {}, \
             Trace Length: {length:.0} sec, PointerSize: {}, Trace Name: {}",
            header.major_version,
            header.minor_version,
            header.provider_version,
            u64::from(header.buffers_written) * u64::from(header.buffer_size) / 1024,
            header.events_lost,
            header.buffers_lost,
            header.start_time.0,
            header.pointer_size,
            field(file),
        )?;
    }
    Ok(())
}
