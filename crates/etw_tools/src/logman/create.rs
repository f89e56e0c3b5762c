//! Conversion of `logman` options to a collector, or to changes of a session.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use etw_app::paths::path;
use etw_app::providers::{Known, kernel_flags, level};
use etw_app::status::{Failed, code, usage};
use openetw::kernel::EnableFlags;
use openetw::session::{Controller, EnableBuilder, LogFileMode, SessionClock, SessionUpdate};
use openetw::{Guid, Level, classes};

use super::collector::{Collector, Version, Wanted};
use crate::options::{Given, Options, millis_of, number_of};

/// Default kernel flags, as on Windows: processes, threads, disks and the network.
const DEFAULT_FLAGS: EnableFlags = EnableFlags::PROCESS
    .union(EnableFlags::THREAD)
    .union(EnableFlags::DISK_IO)
    .union(EnableFlags::DISK_FILE_IO)
    .union(EnableFlags::NETWORK_TCPIP);

/// Changes to a running session.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) update: SessionUpdate,
    pub(super) enables: Vec<EnableBuilder>,
    pub(super) disables: Vec<Guid>,
}

/// Returns the collector that the options describe.
pub(super) fn collector(
    name: &str,
    options: &Options,
    known: &Known,
    controller: Option<&mut Controller>,
) -> Result<Collector> {
    let mut collector = Collector { session: name.to_owned(), ..Collector::default() };
    apply(&mut collector, options, known, controller)?;
    Ok(collector)
}

/// Sets the defaults of sets, which sessions do not have: a file, and a suffix of its name.
pub(super) fn save_defaults(collector: &mut Collector, options: &Options) -> Result<()> {
    let goes_on =
        collector.overwrites || collector.changes_files || collector.mode.contains(LogFileMode::APPEND);
    if options.last("v").is_none() && !goes_on {
        collector.version = Version::Serial;
    }
    if collector.file.is_none() && !collector.mode.contains(LogFileMode::REAL_TIME) {
        collector.file = Some(std::path::absolute(format!("{}.etl", collector.session.replace('/', "_")))?);
    }
    Ok(())
}

/// Applies the options to a collector.
pub(super) fn apply(
    collector: &mut Collector,
    options: &Options,
    known: &Known,
    mut controller: Option<&mut Controller>,
) -> Result<()> {
    if let Some(session) = options.value("ln") {
        collector.session = session.to_owned();
    }
    if let Some(text) = options.value("o") {
        collector.file = Some(output_file(text)?);
    }
    format(collector, options)?;
    buffers(collector, options)?;
    let mut listed = Vec::new();
    if let Some(file) = options.value("pf") {
        listed = provider_file(Path::new(&path(file)?))?;
    }
    let named = options.all("p").filter(|given| !given.is_negated).map(|given| given.values.clone());
    for parts in listed.into_iter().chain(named) {
        let wanted = wanted(&parts, known, controller.as_deref_mut())?;
        collector.providers.retain(|other| other.guid != wanted.guid);
        collector.providers.push(wanted);
    }
    for given in options.all("p").filter(|given| given.is_negated) {
        match given.values.first() {
            Some(name) => {
                let guid = known.find(name, controller.as_deref_mut())?.guid;
                collector.providers.retain(|wanted| wanted.guid != guid);
            }
            None => collector.providers.clear(),
        }
    }
    Ok(())
}

/// Returns the file of `-o`, with the extension `etl` if it has none.
fn output_file(text: &str) -> Result<PathBuf> {
    let file = std::path::absolute(path(text)?)?;
    let has_extension = file.extension().is_some();
    Ok(if has_extension { file } else { file.with_extension("etl") })
}

fn format(collector: &mut Collector, options: &Options) -> Result<()> {
    let mut mode = collector.mode;
    let set = |mode: &mut LogFileMode, bit: LogFileMode, is_on: bool| {
        mode.0 = if is_on { mode.0 | bit.0 } else { mode.0 & !bit.0 };
    };
    match options.value("f").map(str::to_lowercase).as_deref() {
        None => {}
        Some("bin") => set(&mut mode, LogFileMode::CIRCULAR, false),
        Some("bincirc") => set(&mut mode, LogFileMode::CIRCULAR, true),
        Some(format @ ("csv" | "tsv" | "sql")) => {
            return Err(usage(format_args!(
                "-f {format}: sessions write .etl files; `etw dump --format csv FILE` or `tracerpt FILE -of CSV` converts one"
            )));
        }
        Some(other) => return Err(usage(format_args!("-f {other}: expected bin or bincirc"))),
    }
    for name in options.all("mode").flat_map(|given| &given.values).flat_map(|names| names.split([',', '+']))
    {
        let bit = mode_of(name).ok_or_else(|| usage(format_args!("-mode {name} is not a session mode")))?;
        match bit {
            LogFileMode::GLOBAL_SEQUENCE | LogFileMode::LOCAL_SEQUENCE => {
                let text = format!(
                    "-mode {name}: only WPP messages have sequence numbers, and messages are recorded without them here"
                );
                return Err(Failed::new(code::NOT_SUPPORTED, text).into());
            }
            LogFileMode::NEW_FILE => collector.changes_files = true,
            bit => set(&mut mode, bit, true),
        }
    }
    if let Some(is_on) = options.is_set("rt") {
        set(&mut mode, LogFileMode::REAL_TIME, is_on);
    }
    if let Some(is_on) = options.is_set("a") {
        set(&mut mode, LogFileMode::APPEND, is_on);
    }
    collector.mode = mode;
    collector.overwrites = options.is_set("ow").unwrap_or(collector.overwrites);
    match options.last("max") {
        Some(given) if given.is_negated => collector.maximum_mib = 0,
        Some(given) => {
            let text = given.values.first().ok_or_else(|| usage("-max needs a size in MB"))?;
            collector.maximum_mib = number_of("max", text)?;
        }
        None => {}
    }
    match options.last("cnf") {
        Some(given) if !given.is_negated && !given.values.is_empty() => {
            return Err(usage(
                "-cnf with a time is not supported; files change at a size, `-cnf -max MB`, or on `etw session increment-file NAME`, which `systemd-run --user --on-active=TIME --on-unit-active=TIME` repeats",
            ));
        }
        Some(given) => collector.changes_files = !given.is_negated,
        None => {}
    }
    let needs_size = mode.contains(LogFileMode::CIRCULAR) || collector.changes_files;
    if needs_size && collector.maximum_mib == 0 {
        return Err(usage("circular and new-file modes need -max MB"));
    }
    collector.version = match options.last("v") {
        Some(given) if given.is_negated => Version::None,
        Some(given) => match given.values.first().map(String::as_str) {
            None | Some("nnnnnn") => Version::Serial,
            Some("mmddhhmm") => Version::MonthDayHourMinute,
            Some(other) => return Err(usage(format_args!("-v {other}: expected nnnnnn or mmddhhmm"))),
        },
        None => collector.version,
    };
    Ok(())
}

fn buffers(collector: &mut Collector, options: &Options) -> Result<()> {
    collector.buffer_size = options.number("bs")?.unwrap_or(collector.buffer_size);
    if let Some(given) = options.last("nb") {
        (collector.minimum_buffers, collector.maximum_buffers) = numbers_of_buffers(given)?;
    }
    if let Some(text) = options.value("ft") {
        collector.flush_timer_millis = millis_of("ft", text)?;
    }
    collector.clock = match options.value("ct").map(str::to_lowercase).as_deref() {
        None => collector.clock,
        Some("perf") => Some(SessionClock::Qpc),
        Some("system") => Some(SessionClock::SystemTime),
        Some("cycle") => Some(SessionClock::CpuCycle),
        Some(other) => return Err(usage(format_args!("-ct {other}: expected perf, system or cycle"))),
    };
    Ok(())
}

fn numbers_of_buffers(given: &Given) -> Result<(u32, u32)> {
    let number = |index: usize| given.values.get(index).map_or(Ok(0), |text| number_of("nb", text));
    let (least, most) = (number(0)?, number(1)?);
    // Scripts from Windows give small maximums; every session gets at least two buffers.
    Ok((least, if most == 0 { 0 } else { most.max(2) }))
}

/// Returns the changes to a running session.
pub(super) fn changes(options: &Options, known: &Known, controller: &mut Controller) -> Result<Changes> {
    for name in ["f", "max", "cnf", "ow", "a", "v", "bs", "ct", "mode", "ln"] {
        // Scripts repeat the start options with each provider that they add.
        let repeats = options.last("p").is_some();
        if options.last(name).is_some() && !repeats {
            return Err(usage(format_args!(
                "-{name} cannot be changed while a session runs; stop it and start it again"
            )));
        }
    }
    let mut changes = Changes::default();
    let mut listed = Collector::default();
    apply_providers(&mut listed, options, known, controller)?;
    for wanted in &listed.providers {
        match wanted.guid == classes::SYSTEM_TRACE {
            true => changes.update.enable_flags = Some(wanted.any as u32),
            false => changes.enables.push(wanted.enable()),
        }
    }
    for given in options.all("p").filter(|given| given.is_negated) {
        let name = given.values.first().ok_or_else(|| usage("--p needs the provider to disable"))?;
        let guid = known.find(name, Some(controller))?.guid;
        match guid == classes::SYSTEM_TRACE {
            true => changes.update.enable_flags = Some(0),
            false => changes.disables.push(guid),
        }
    }
    if let Some(text) = options.value("o") {
        changes.update.log_file_name = Some(output_file(text)?.to_string_lossy().into_owned());
    }
    if let Some(given) = options.last("nb") {
        changes.update.maximum_buffers = Some(numbers_of_buffers(given)?.1).filter(|most| *most != 0);
    }
    changes.update.flush_timer_millis = options.value("ft").map(|text| millis_of("ft", text)).transpose()?;
    changes.update.real_time = options.is_set("rt");
    Ok(changes)
}

fn apply_providers(
    collector: &mut Collector,
    options: &Options,
    known: &Known,
    controller: &mut Controller,
) -> Result<()> {
    let only = Options {
        given: options
            .given
            .iter()
            .filter(|given| matches!(given.name, "p" | "pf") && !given.is_negated)
            .cloned()
            .collect(),
        ..Options::default()
    };
    apply(collector, &only, known, Some(controller))
}

/// Parses the values of `-p`, or a line of a file.
fn wanted(parts: &[String], known: &Known, controller: Option<&mut Controller>) -> Result<Wanted> {
    let part = |index: usize| parts.get(index).map(String::as_str).filter(|text| !text.trim().is_empty());
    let found = known.find(part(0).unwrap_or_default(), controller)?;
    let any = match part(1) {
        Some(text) if found.guid == classes::SYSTEM_TRACE => kernel_flags(text)?.0.into(),
        None if found.guid == classes::SYSTEM_TRACE => DEFAULT_FLAGS.0.into(),
        Some(text) => known.keywords(&found, text)?,
        None => 0,
    };
    let level = part(2).map_or(Ok(Level(0)), level)?;
    Ok(Wanted { name: found.name, guid: found.guid, level, any, all: 0, properties: 0 })
}

/// Reads the file of `-pf`: on each line a provider's name or GUID, flags and level.
fn provider_file(file: &Path) -> Result<Vec<Vec<String>>> {
    let text = super::read_text(file).with_context(|| format!("-pf {}", file.display()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with([';', '#']));
    Ok(lines.map(parts_of_line).collect())
}

/// Splits a line; quotation marks and braces keep blanks together.
fn parts_of_line(line: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut end = None;
    for letter in line.chars() {
        let part = parts.last_mut();
        match (letter, end) {
            (letter, Some(mark)) if letter == mark => end = None,
            (letter, Some(_)) => part.into_iter().for_each(|part| part.push(letter)),
            ('"', None) => end = Some('"'),
            ('(', None) => end = Some(')'),
            (letter, None) if letter.is_whitespace() || matches!(letter, ';') => {
                if parts.last().is_some_and(|part| !part.is_empty()) {
                    parts.push(String::new());
                }
            }
            (letter, None) => part.into_iter().for_each(|part| part.push(letter)),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns the mode with a `-mode` name or an `evntrace.h` name.
fn mode_of(name: &str) -> Option<LogFileMode> {
    let squeeze = |name: &str| name.to_lowercase().replace(['-', '_'], "");
    let wanted = squeeze(name.strip_prefix("EVENT_TRACE_").unwrap_or(name));
    Some(match wanted.as_str() {
        "globalsequence" => LogFileMode::GLOBAL_SEQUENCE,
        "localsequence" => LogFileMode::LOCAL_SEQUENCE,
        "pagedmemory" => LogFileMode::USE_PAGED_MEMORY,
        wanted => LogFileMode::all().iter_names().find(|(known, _)| squeeze(known) == wanted)?.1,
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::table::TABLE;
    use super::*;

    fn read(line: &str) -> Result<Collector> {
        let words: Vec<OsString> =
            line.split(' ').filter(|word| !word.is_empty()).map(OsString::from).collect();
        collector("S", &Options::read(&words, TABLE)?, &Known::load()?, None)
    }

    #[test]
    fn options_say_what_a_session_is_to_be() {
        let c = read(
            "-o /tmp/x -ow -f bincirc -max 100 -bs 1024 -nb 16 256 -ft 1:30 -ct system -rt -mode Circular",
        );
        let c = c.unwrap();
        assert_eq!(
            (c.maximum_mib, c.buffer_size, c.minimum_buffers, c.maximum_buffers),
            (100, 1024, 16, 256)
        );
        assert_eq!(
            (c.flush_timer_millis, c.clock, c.overwrites),
            (90_000, Some(SessionClock::SystemTime), true)
        );
        assert_eq!(c.mode, LogFileMode::CIRCULAR.union(LogFileMode::REAL_TIME));
        assert_eq!(c.file.unwrap(), Path::new("/tmp/x.etl"));
        let c = read("-p Microsoft-Windows-Kernel-Process 0x10 win:Warning -cnf -max 9");
        let c = c.unwrap();
        assert!(c.changes_files);
        let process = c.providers.last().unwrap();
        assert_eq!(
            (process.any, process.level, process.name.as_str()),
            (0x10, Level(3), "Microsoft-Windows-Kernel-Process")
        );
        let c = read("-p {9e814aad-3204-11d2-9a82-006008a86939} (process,thread,img) -v mmddhhmm").unwrap();
        assert_eq!((c.providers[0].any, c.version), (7, Version::MonthDayHourMinute));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let check = |line: &str, expected: &str| {
            let error = read(line).expect_err(line).to_string();
            assert!(error.contains(expected), "{line}: {error}");
        };
        check("-f csv", "`etw dump --format csv FILE`");
        check("-f text", "expected bin or bincirc");
        check("-f bincirc", "need -max MB");
        check("-cnf 10:00", "etw session increment-file");
        check("-cnf", "need -max MB");
        check("-mode globalsequence", "only WPP messages have sequence numbers");
        check("-mode round", "-mode round is not a session mode");
        check("-ct sun", "expected perf, system or cycle");
        check("-ft soon", "-ft soon");
        check("-ft 1:2:3:4", "-ft 1:2:3:4");
        check("-nb few", "-nb: 'few'");
        check("-v x", "expected nnnnnn");
        check("-o c:\\trace.etl", "a Windows path");
        check("-p {1234}", "is not a provider name or GUID");
        check("-p Windows-Kernel 0 loud", "is not a level");
        check("-pf /nowhere/providers.txt", "-pf /nowhere/providers.txt");
    }

    #[test]
    fn files_of_providers_are_read() {
        let check = |line: &str, expected: &[&str]| assert_eq!(parts_of_line(line), expected, "{line}");
        check(
            "{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} 0x10 5",
            &["{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}", "0x10", "5"],
        );
        check("\"Windows Kernel Trace\"\t(process, thread)", &["Windows Kernel Trace", "process, thread"]);
        check("A;0xff;4", &["A", "0xff", "4"]);
        check("  ", &[]);
    }
}
