//! Actions that list or count events.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use anyhow::Result;
use etw_app::machine;
use openetw::analysis::disk_label;
use openetw::kernel_events::ids::{self, Class, EventId};
use openetw::kernel_events::read;
use openetw::schema::text::is_disruptive;
use openetw::{Event, FileTime, Trace};
use serde_json::json;

use super::{Request, finish, tables};
use crate::options::Options;

/// Event names counted separately; further ones are counted together.
const MAX_NAMES: usize = 1 << 16;
/// Maximum number of files whose names are kept.
const MAX_FILES: usize = 1 << 20;
/// Maximum number of disks whose names are kept.
const MAX_DISKS: usize = 1 << 12;

/// Returns the name of an event: class and type for classic events, provider and event for others.
pub(super) fn name(event: &Event<'_>) -> String {
    let names = event.names();
    match event.record.kind().is_classic() {
        true => names.event().into_owned(),
        false => format!("{}/{}", names.provider_text(), names.event()),
    }
}

/// Returns the time in microseconds since the start.
pub(super) fn micros(event: &Event<'_>, start: FileTime) -> i64 {
    (event.record.time().0 - start.0).div_euclid(10)
}

/// Formats the properties of an event as `Name = value`.
fn properties(event: &Event<'_>) -> String {
    let Ok(properties) = &event.properties else { return String::new() };
    let shown = properties.iter().map(|property| format!("{} = {}", property.name(), property.text()));
    shown.collect::<Vec<_>>().join(", ").replace(is_disruptive, " ")
}

pub(super) fn tracestats(request: &Request, options: &Options, out: &mut dyn Write) -> Result<()> {
    let mut trace = request.open(options)?;
    let mut all: HashMap<String, (u64, u64)> = HashMap::new();
    let (mut count, mut bytes) = (0_u64, 0_u64);
    let has_detail = options.last("detail").is_some();
    let mut last = trace.start_time();
    trace.for_each_event(|event| {
        let size = event.record.as_bytes().len() as u64;
        (count, bytes, last) = (count + 1, bytes + size, last.max(event.record.time()));
        if has_detail {
            let mut key = name(event);
            if all.len() >= MAX_NAMES && !all.contains_key(&key) {
                "(others)".clone_into(&mut key);
            }
            let row = all.entry(key).or_default();
            *row = (row.0 + 1, row.1 + size);
        }
    })?;
    let start = trace.start_time();
    let mut resolver = trace.resolver().clone();
    let machines = machine::machines(trace.inputs(), None, &mut resolver);
    for ((file, header), machine) in trace.source_names().zip(trace.headers()).zip(machines) {
        // The header's version is that of Windows; other systems record their own in an event.
        let windows = || format!("{}.{}", header.major_version, header.minor_version);
        let is_windows = machine.system.is_none();
        let build = if is_windows { header.provider_version.to_string() } else { "-".to_owned() };
        let lines = [
            ("Trace", file.to_owned()),
            ("Logger", header.logger_name.clone()),
            ("OS version", machine.system.unwrap_or_else(windows)),
            ("OS build", build),
            ("Processors", header.number_of_processors.to_string()),
            ("Processor speed (MHz)", header.cpu_speed_in_mhz.to_string()),
            ("Pointer size", header.pointer_size.to_string()),
            ("Clock frequency", header.perf_freq.to_string()),
            ("Start", header.start_time.to_string()),
            ("End", header.end_time.to_string()),
            ("Buffer size", header.buffer_size.to_string()),
            ("Buffers written", header.buffers_written.to_string()),
            ("Events lost", header.events_lost.to_string()),
            ("Buffers lost", header.buffers_lost.to_string()),
        ];
        for (what, value) in lines {
            writeln!(out, "{what:<22}: {value}")?;
        }
    }
    let seconds = (last.0 - start.0).max(0) as f64 / FileTime::PER_SECOND as f64;
    writeln!(out, "{:<22}: {seconds:.6} s", "Time of the events")?;
    writeln!(out, "{:<22}: {count}", "Events")?;
    writeln!(out, "{:<22}: {bytes}", "Bytes of events")?;
    if has_detail {
        let mut rows: Vec<_> = all.into_iter().collect();
        rows.sort_by(|(one, of_one), (other, of_other)| {
            of_other.0.cmp(&of_one.0).then_with(|| one.cmp(other))
        });
        writeln!(out, "\n{:>12} {:>14}  Event", "Count", "Bytes")?;
        for (name, (count, bytes)) in rows {
            writeln!(out, "{count:>12} {bytes:>14}  {name}")?;
        }
    }
    finish(&trace)
}

/// Lists events, one per line, and returns their number.
fn list(
    request: &Request,
    options: &Options,
    out: &mut dyn Write,
    mut line: impl FnMut(&Event<'_>, FileTime) -> Option<String>,
) -> Result<(u64, Trace)> {
    let mut trace = request.open(options)?;
    let start = trace.start_time();
    let (mut count, mut result) = (0, Ok(()));
    trace.for_each_event(|event| {
        if let (Some(line), Ok(())) = (line(event, start), &result) {
            count += 1;
            result = writeln!(out, "{line}");
        }
    })?;
    result?;
    finish(&trace)?;
    Ok((count, trace))
}

pub(super) fn sysconfig(request: &Request, options: &Options, out: &mut dyn Write) -> Result<()> {
    let (count, _) = list(request, options, out, |event, _| {
        let id = EventId::from_record(event.record)?;
        let is_build = matches!(id, ids::EventTrace::BUILD_INFO | ids::EventTrace::PARTITION_INFO_EXTENSION);
        (id.class() == Class::SystemConfig || is_build)
            .then(|| format!("{}: {}", name(event), properties(event)))
    })?;
    match count {
        0 => Ok(writeln!(out, "the trace does not describe its machine; traces of kernel sessions do")?),
        _ => Ok(()),
    }
}

pub(super) fn marks(request: &Request, options: &Options, out: &mut dyn Write) -> Result<()> {
    let mut before = None;
    if !request.is_for_machines {
        writeln!(out, "{:>12} {:>12}  Mark", "Time (us)", "Since (us)")?;
    }
    let (count, _) = list(request, options, out, |event, start| {
        if EventId::from_record(event.record)? != ids::PerfInfo::MARK {
            return None;
        }
        let time = micros(event, start);
        let since = time - before.replace(time).unwrap_or(time);
        let text = event.properties.as_ref().ok().and_then(|properties| properties.iter().next());
        let text = text.map_or_else(String::new, |text| text.text().to_string().replace(is_disruptive, " "));
        Some(match request.is_for_machines {
            true => json!({ "time_us": time, "since_us": since, "mark": text }).to_string(),
            false => format!("{time:>12} {since:>12}  {text}"),
        })
    })?;
    match count {
        0 if !request.is_for_machines => Ok(writeln!(out, "no marks; `xperf -m TEXT` sets them")?),
        _ => Ok(()),
    }
}

pub(super) fn registry(request: &Request, options: &Options, out: &mut dyn Write) -> Result<()> {
    let (count, _) = list(request, options, out, |event, start| {
        let id = EventId::from_record(event.record)?;
        let process = event.record.process_id().map_or_else(|| "-".to_owned(), |id| id.to_string());
        (id.class() == Class::Registry).then(|| {
            format!("{:>12}, {process:>7}, {}, {}", micros(event, start), name(event), properties(event))
        })
    })?;
    match count {
        0 => Ok(writeln!(out, "no registry events; Windows records them with REGISTRY")?),
        _ => Ok(()),
    }
}

pub(super) fn filename(request: &Request, options: &Options, out: &mut dyn Write) -> Result<()> {
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut left_out = 0_u64;
    list(request, options, out, |event, _| {
        if read::FileName::reads(EventId::from_record(event.record)?)
            && let (Ok(key), Ok(name)) = (event.get::<u64>("FileObject"), event.get::<String>("FileName"))
        {
            if names.len() < MAX_FILES || names.contains_key(&key) {
                names.insert(key, name);
            } else {
                left_out += 1;
            }
        }
        None
    })?;
    for (key, name) in &names {
        match request.is_for_machines {
            true => writeln!(out, "{}", json!({ "key": format!("{key:#x}"), "name": name }))?,
            false => writeln!(out, "{key:#018x}, {}", name.replace(is_disruptive, " "))?,
        }
    }
    match (names.is_empty(), left_out) {
        (true, _) => Ok(writeln!(out, "no file names; FILENAME records them")?),
        (_, 0) => Ok(()),
        _ => Ok(writeln!(out, "{left_out} more names left out")?),
    }
}

pub(super) fn diskio(request: &Request, options: &Options, out: &mut dyn Write) -> Result<()> {
    let [summary, detail] = ["summary", "detail"].map(|name| options.last(name).is_some());
    if summary || !detail {
        tables::diskio(request, options, out)?;
    }
    if !detail {
        return Ok(());
    }
    writeln!(
        out,
        "{:>6}, {:>12}, {:>12}, {:>10}, {:>10}, {:>14}, {:>5}, {:>7}, File",
        "Type", "Start (us)", "End (us)", "Took (us)", "Bytes", "Offset", "Disk", "Thread"
    )?;
    let mut names: HashMap<u64, String> = HashMap::new();
    let mut disks: HashMap<u32, String> = HashMap::new();
    list(request, options, out, |event, start| {
        let id = EventId::from_record(event.record)?;
        if let ids::FileIo::NAME | ids::FileIo::FILE_CREATE | ids::FileIo::FILE_RUNDOWN = id
            && names.len() < MAX_FILES
            && let (Ok(key), Ok(name)) = (event.get::<u64>("FileObject"), event.get::<String>("FileName"))
        {
            names.insert(key, name.replace(is_disruptive, " "));
        }
        if id == ids::SystemConfig::PHY_DISK
            && disks.len() < MAX_DISKS
            && let (Ok(number), Ok(name)) =
                (event.get::<u32>("DiskNumber"), event.get::<String>("Manufacturer"))
            && let Some(name) = name.split_ascii_whitespace().next()
        {
            disks.insert(number, name.replace(is_disruptive, " "));
        }
        let kind = match id {
            ids::DiskIo::READ => "Read",
            ids::DiskIo::WRITE => "Write",
            ids::DiskIo::FLUSH_BUFFERS => "Flush",
            _ => return None,
        };
        let number = |name: &str| event.get::<u64>(name).unwrap_or(0);
        let ticks = i64::try_from(number("HighResResponseTime")).unwrap_or(i64::MAX);
        let (took, end) = (event.record.origin().clock.to_100ns(ticks) / 10, micros(event, start));
        let disk = event.get::<u32>("DiskNumber").unwrap_or(0);
        // On Windows the description is the model of the disk, which is no shorter name.
        let named = disks.get(&disk).filter(|_| disk >> 20 != 0).cloned();
        let disk = named.unwrap_or_else(|| disk_label(disk));
        let file = names.get(&number("FileObject")).map_or("", String::as_str);
        Some(format!(
            "{kind:>6}, {:>12}, {end:>12}, {took:>10}, {:>10}, {:#14x}, {disk:>5}, {:>7}, {file}",
            end - took,
            number("TransferSize"),
            number("ByteOffset"),
            number("IssuingThreadId"),
        ))
    })
    .map(drop)
}
