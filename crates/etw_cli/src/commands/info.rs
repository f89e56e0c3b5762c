//! `etw info`: the contents of traces, and whether they are complete.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use etw_app::machine::Machine;
use etw_app::progress::Progress;
use etw_app::schemas::Schemas;
use etw_app::survey::{self, EventCount, Survey};
use etw_app::{input, output};
use openetw::etl::{EtlFile, LogFileHeader};
use openetw::{ClockType, Input, PartLosses};
use serde_json::{Map, Value, json};

use crate::args::{Format, InfoArgs};

/// Maximum number of rows per list without `--all`.
const TOP: usize = 10;

/// Runs the command.
pub(crate) fn run(args: &InfoArgs) -> Result<()> {
    let schemas = Schemas::load(&args.input.schemas.options())?;
    let mut out = output::open(None)?;
    let (mut files, mut failures, mut headers) = (0, Vec::new(), Vec::new());
    for path in &args.input.files {
        let inputs = match input::open_each(path) {
            Ok(inputs) => inputs,
            Err(error) => {
                files += 1;
                failures.push(error);
                continue;
            }
        };
        // Other files and other members of an archive may be readable.
        for input in inputs {
            files += 1;
            match input.map_err(Into::into).and_then(|input| show(&input, args, &schemas, &mut headers)) {
                Ok(text) => out.write_all(&text)?,
                Err(error) => failures.push(error),
            }
        }
    }
    out.flush()?;
    match failures.as_slice() {
        [] => Ok(()),
        [_] if files == 1 => Err(failures.remove(0)),
        _ => {
            failures.iter().for_each(output::report);
            Err(anyhow!("{} of {files} files could not be read", failures.len()))
        }
    }
}

/// Returns what is to be said of a file; `headers` are those of the files before it.
fn show(
    input: &Input,
    args: &InfoArgs,
    schemas: &Schemas,
    headers: &mut Vec<LogFileHeader>,
) -> Result<Vec<u8>> {
    let file =
        EtlFile::open(input.bytes()).with_context(|| format!("'{}' is not a trace file", input.name()))?;
    headers.push(file.header().clone());
    let progress = Progress::of_bytes(input.name(), input.bytes().len() as u64);
    let mut resolver = schemas.sources().resolver();
    resolver.set_builds(vec![file.header().provider_version]);
    let mut problems = Vec::new();
    survey::learn(&file, &mut resolver, &mut problems);
    let threads = output::threads(args.input.threads).get();
    let mut survey = survey::survey(&file, &resolver, threads, &|bytes| progress.add(bytes));
    progress.finish();
    survey.machine = Machine::from_file(&file, &mut resolver);
    survey.losses = PartLosses::among(file.header(), headers);
    if let Some(source) = input.converted() {
        survey.add_source_damage(&source.damage, source.damage_count);
    }
    survey.schema_problems = problems;
    let mut out = Vec::new();
    match args.format {
        Format::Text => put_text(&mut out, input, &file, &survey, args.all)?,
        Format::Json => writeln!(out, "{}", to_json(input, &file, &survey))?,
    }
    Ok(out)
}

fn put_text(out: &mut Vec<u8>, input: &Input, file: &EtlFile<'_>, survey: &Survey, all: bool) -> Result<()> {
    let header = file.header();
    let top = if all { usize::MAX } else { TOP };
    writeln!(out, "{}", input.name())?;
    if let Some(source) = input.converted() {
        writeln!(out, "  format      {}, {} bytes, read as .etl", source.format, source.len_bytes)?;
        source.notes.iter().try_for_each(|note| writeln!(out, "  note        {note}"))?;
    }
    writeln!(out, "  session     {}, mode {:?}", or_none(&header.logger_name), header.log_file_mode)?;
    if !header.log_file_name.is_empty() {
        writeln!(out, "  written to  {}", header.log_file_name)?;
    }
    writeln!(out, "  machine     {}", machine_text(file, &survey.machine))?;
    let clock = file.clock();
    writeln!(out, "  clock       {}, {} ticks/s", clock_name(header.clock_type()), clock.frequency())?;
    let end = if header.is_closed() { header.end_time.to_string() } else { "not closed".to_owned() };
    writeln!(out, "  session ran {} to {end}", header.start_time)?;
    if let Some((first, last)) = survey.span(file) {
        writeln!(out, "  events      {first} to {last}, {} s", seconds(last.0 - first.0))?;
    }
    writeln!(
        out,
        "  buffers     {} of {} bytes{}, {} bytes in the file",
        survey.buffers,
        header.buffer_size,
        match survey.compressed_buffers {
            0 => String::new(),
            count => format!(", {count} compressed"),
        },
        input.bytes().len()
    )?;
    writeln!(out, "  records     {}, {} bytes", survey.records, survey.record_bytes)?;
    writeln!(
        out,
        "  decoded     {} of {} ({}){}{}{}{}",
        survey.decoded,
        survey.records,
        percent(survey.decoded, survey.records),
        match survey.inferred {
            0 => String::new(),
            count => format!(", {count} of them by inference"),
        },
        match survey.partial {
            0 => String::new(),
            count => format!("; {count} in part only"),
        },
        match survey.opaque {
            0 => String::new(),
            count => format!("; {count} without a field, though their schema is known"),
        },
        match survey.cut {
            0 => String::new(),
            count => format!("; {count} have a payload that ends early"),
        }
    )?;
    let PartLosses { events, buffers, since_start } = survey.losses;
    let part = match since_start {
        true => " since the session's start: this is a part of its files".to_owned(),
        false if (events, buffers) != (header.events_lost, header.buffers_lost) => {
            format!(
                " in this part; {} and {} since the session's start",
                header.events_lost, header.buffers_lost
            )
        }
        false => String::new(),
    };
    writeln!(out, "  lost        {events} events, {buffers} buffers{part}")?;
    let gaps = survey.gaps(file);
    match gaps.as_slice() {
        [] => writeln!(out, "  verdict     complete")?,
        gaps => writeln!(out, "  verdict     incomplete: {}", gaps.join(", "))?,
    }
    put_providers(out, survey, top)?;
    put_events(out, survey, top)?;
    put_undecoded(out, survey, top)?;
    put_list(out, "Damage", survey.damage.iter(), survey.damages as usize, top)?;
    put_list(
        out,
        "Schemas in the trace that could not be read",
        survey.schema_problems.iter(),
        survey.schema_problems.len(),
        top,
    )?;
    writeln!(out)?;
    Ok(())
}

fn put_providers(out: &mut Vec<u8>, survey: &Survey, top: usize) -> Result<()> {
    let mut providers: Vec<(String, u64, u64)> = Vec::new();
    for event in &survey.events {
        let name = event.provider.clone().unwrap_or_else(|| event.guid.to_string());
        let decoded = event.decoded;
        match providers.iter_mut().find(|(other, ..)| *other == name) {
            Some((_, count, sum)) => {
                *count += event.count;
                *sum += decoded;
            }
            None => providers.push((name, event.count, decoded)),
        }
    }
    providers.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    writeln!(out, "\n  Providers ({}): records, decoded", providers.len())?;
    for (name, count, decoded) in providers.iter().take(top) {
        writeln!(out, "  {count:>10}  {:>6}  {name}", percent(*decoded, *count))?;
    }
    rest(out, providers.len(), top)
}

fn put_events(out: &mut Vec<u8>, survey: &Survey, top: usize) -> Result<()> {
    // Kinds that differ only in details not shown, such as the pointer size, share a row.
    let rows = sums(survey.events.iter().map(|event| {
        let decoding = event.decoding.as_ref().map_or("not decoded", |decoding| decoding);
        (format!("{} [{decoding}]", event_text(event)), event.count)
    }));
    writeln!(out, "\n  Events ({}) [schema from]", rows.len())?;
    put_sums(out, &rows, top)
}

fn put_undecoded(out: &mut Vec<u8>, survey: &Survey, top: usize) -> Result<()> {
    let reason = |event: &EventCount| Some((event.decoding.as_ref().err()?.clone(), event.count));
    let rows = sums(survey.events.iter().filter_map(reason));
    if rows.is_empty() {
        return Ok(());
    }
    let count: u64 = rows.iter().map(|(_, count)| count).sum();
    writeln!(out, "\n  Not decoded ({count})")?;
    put_sums(out, &rows, top)?;
    writeln!(
        out,
        "              `etw schema add PATH…` adds the schemas they need: manifests (.man), programs and"
    )?;
    writeln!(
        out,
        "              drivers (.dll, .exe, .sys), MOF, .tmf and .pdb files, or directories of these"
    )?;
    Ok(())
}

/// Sums counts by text; the largest sum comes first.
fn sums(counts: impl Iterator<Item = (String, u64)>) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (text, count) in counts {
        *sums.entry(text).or_default() += count;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    sums
}

fn put_sums(out: &mut Vec<u8>, sums: &[(String, u64)], top: usize) -> Result<()> {
    for (text, count) in sums.iter().take(top) {
        writeln!(out, "  {count:>10}  {text}")?;
    }
    rest(out, sums.len(), top)
}

fn put_list(
    out: &mut Vec<u8>,
    title: &str,
    items: impl Iterator<Item = impl std::fmt::Display>,
    count: usize,
    top: usize,
) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    writeln!(out, "\n  {title} ({count})")?;
    for item in items.take(top) {
        writeln!(out, "    {item}")?;
    }
    rest(out, count, top)
}

fn rest(out: &mut Vec<u8>, count: usize, top: usize) -> Result<()> {
    if count > top {
        writeln!(out, "              … {} more, shown with --all", count - top)?;
    }
    Ok(())
}

/// Returns the display name of an event kind: `Provider/Event id 1 version 2` or `Class/Type`.
fn event_text(event: &EventCount) -> String {
    let d = &event.descriptor;
    let provider = event.provider.clone().unwrap_or_else(|| event.guid.to_string());
    match event.event_guid {
        _ if event.name == format!("Event({})", d.id) => {
            format!("{provider} id {} version {}", d.id, d.version)
        }
        Some(_) if d.id == 0 => format!("{} version {}", event.name, d.version),
        _ if d.id == 0 && d.version == 0 => format!("{provider}/{}", event.name),
        _ => format!("{provider}/{} id {} version {}", event.name, d.id, d.version),
    }
}

fn machine_text(file: &EtlFile<'_>, machine: &Machine) -> String {
    let header = file.header();
    let mut parts = Vec::new();
    match (&machine.computer, &machine.domain) {
        (Some(computer), Some(domain)) => parts.push(format!("{computer} ({domain})")),
        (Some(computer), None) => parts.push(computer.clone()),
        _ => {}
    }
    parts.push(machine.system_text(header));
    parts.push(match header.cpu_speed_in_mhz {
        0 => format!("{} processors", header.number_of_processors),
        mhz => format!("{} processors at {mhz} MHz", header.number_of_processors),
    });
    parts.extend(machine.memory_mb.map(|megabytes| format!("{megabytes} MB memory")));
    parts.push(format!("{}-bit", header.pointer_size * 8));
    parts.join(", ")
}

const fn clock_name(clock: ClockType) -> &'static str {
    match clock {
        ClockType::Qpc => "performance counter",
        ClockType::SystemTime => "system time",
        ClockType::CpuCycle => "CPU cycles",
    }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "(no name)" } else { text }
}

fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        // Rounds down, so that 100 % means all.
        _ if part == whole => "100 %".to_owned(),
        _ => format!("{:.1} %", (part as f64 / whole as f64 * 1000.0).floor() / 10.0),
    }
}

fn seconds(units_100ns: i64) -> String {
    let duration = Duration::from_nanos(u64::try_from(units_100ns).unwrap_or(0).saturating_mul(100));
    format!("{}.{:07}", duration.as_secs(), duration.subsec_nanos() / 100)
}

fn to_json(input: &Input, file: &EtlFile<'_>, survey: &Survey) -> Value {
    let header = file.header();
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            object.insert(name.to_owned(), value);
        }
    };
    let gaps = survey.gaps(file);
    put("file", input.name().into());
    put("file_bytes", input.bytes().len().into());
    let source = input.converted();
    put("source_format", source.map(|source| source.format.clone()).into());
    put("source_bytes", source.map(|source| source.len_bytes).into());
    put("source_notes", source.map(|source| source.notes.clone()).filter(|notes| !notes.is_empty()).into());
    put("records", survey.records.into());
    put("events_lost", survey.losses.events.into());
    put("buffers_lost", survey.losses.buffers.into());
    put("lost_since_session_start", survey.losses.since_start.into());
    put("loss_records", survey.loss_records.iter().sum::<u64>().into());
    put("decoded", survey.decoded.into());
    put("payload_cut", survey.cut.into());
    put("decoded_by_inference", survey.inferred.into());
    put("decoded_in_part", survey.partial.into());
    put("decoded_without_field", survey.opaque.into());
    let undecoded = survey.events.iter().filter_map(|event| {
        let reason = event.decoding.as_ref().err()?;
        let mut row = event_json(event);
        row.insert("reason".to_owned(), reason.as_str().into());
        Some(Value::Object(row))
    });
    put("undecoded", undecoded.collect());
    put(
        "damage",
        survey
            .damage
            .iter()
            .map(|damage| {
                let mut row = Map::new();
                row.insert("offset".to_owned(), damage.offset.into());
                if let Some(within) = damage.within {
                    row.insert("offset_in_buffer".to_owned(), within.into());
                }
                row.insert("what".to_owned(), damage.kind.to_string().into());
                Value::Object(row)
            })
            .collect(),
    );
    put("damage_count", survey.damages.into());
    put("complete", gaps.is_empty().into());
    put("incomplete_because", gaps.into());
    put(
        "session",
        json!({
            "name": header.logger_name,
            "log_file": header.log_file_name,
            "mode": format!("{:#x}", header.log_file_mode.0),
            "mode_names": format!("{:?}", header.log_file_mode),
            "start": header.start_time.to_string(),
            "end": header.is_closed().then(|| header.end_time.to_string()),
            "closed": header.is_closed(),
        }),
    );
    put(
        "machine",
        json!({
            "system": survey.machine.system,
            "computer": survey.machine.computer,
            "domain": survey.machine.domain,
            "memory_mb": survey.machine.memory_mb,
            "os": format!("{}.{}.{}", header.major_version, header.minor_version, header.provider_version),
            "processors": header.number_of_processors,
            "cpu_mhz": header.cpu_speed_in_mhz,
            "pointer_size": header.pointer_size,
            "boot_time": header.boot_time.to_string(),
            "utc_bias_minutes": header.time_zone.bias,
        }),
    );
    put(
        "clock",
        json!({"type": clock_name(header.clock_type()), "ticks_per_second": file.clock().frequency()}),
    );
    if let Some((first, last)) = survey.span(file) {
        put("first_event", first.to_string().into());
        put("last_event", last.to_string().into());
    }
    put(
        "buffers",
        json!({
            "count": survey.buffers,
            "size": header.buffer_size,
            "compressed": survey.compressed_buffers,
            "written": header.buffers_written,
        }),
    );
    put("record_bytes", survey.record_bytes.into());
    let events = survey.events.iter().map(|event| {
        let mut row = event_json(event);
        row.insert("decoded".to_owned(), event.decoded.into());
        row.insert("schema".to_owned(), event.decoding.as_ref().ok().copied().into());
        Value::Object(row)
    });
    put("events", events.collect());
    put("schema_problems", survey.schema_problems.clone().into());
    Value::Object(object)
}

fn event_json(event: &EventCount) -> Map<String, Value> {
    let d = &event.descriptor;
    let mut row = Map::new();
    let mut put = |name: &str, value: Value| {
        row.insert(name.to_owned(), value);
    };
    put("provider", event.provider.clone().into());
    put("guid", event.guid.to_string().into());
    put("class", event.event_guid.map(|guid| guid.to_string()).into());
    put("id", d.id.into());
    put("version", d.version.into());
    put("opcode", d.opcode.0.into());
    put("name", event.name.as_str().into());
    put("count", event.count.into());
    put("bytes", event.bytes.into());
    put("payload_cut", event.cut.into());
    row
}
