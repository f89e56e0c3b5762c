//! Conversion of `tracelog` options to sessions and enable requests.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use etw_app::paths::path;
use etw_app::providers::{Known, enable, kernel_flags, level};
use etw_app::status::{Failed, code, usage};
use etw_app::text::wide_number;
use openetw::kernel::EnableFlags;
use openetw::session::{
    Controller, EnableBuilder, EnableProperties, Filter, LogFileMode, SessionBuilder, SessionClock,
    SessionUpdate,
};
use openetw::{Guid, Level, classes};

use crate::options::{Given, Options, millis_of, number_of};
use crate::session::{self, KERNEL_LOGGER, Plan};
use etw_app::enabling::kernel_flags as flags_by_name;

/// The default output file.
const DEFAULT_FILE: &str = "LogFile.etl";

/// A provider of `-guid`, with the keywords and level from its line in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) guid: Guid,
    any: Option<u64>,
    level: Option<Level>,
}

/// Returns the session that the options describe.
pub(super) fn plan(
    name: &str,
    options: &Options,
    known: &Known,
    controller: Option<&mut Controller>,
) -> Result<Plan> {
    let mode = mode(options)?;
    let number = |name: &str| Ok::<_, anyhow::Error>(options.number(name)?.unwrap_or(0));
    let mut builder = SessionBuilder::new(name)
        .mode(mode)
        .buffers(number("min")?, number("max")?)
        .flush_threshold(number("bt")?)
        .flush_timer_millis(flush_timer(options)?.unwrap_or(0))
        .clock(clock(options, mode))
        .stack_tracing(&stacks(options)?.unwrap_or_default())
        .sample_interval(interval(options)?.unwrap_or(0));
    if let Some(size) = options.number("b")? {
        builder = builder.buffer_size_kib(size);
    }
    for size in ["seq", "cir", "newfile"] {
        if let Some(size) = options.number(size)? {
            builder = builder.maximum_file_size_mib(size);
        }
    }
    let is_in_memory = mode.contains(LogFileMode::BUFFERING);
    if is_in_memory && options.last("f").is_some() {
        return Err(usage(format_args!(
            "-buffering keeps events in memory; `tracelog -flush {name} -f FILE` writes them"
        )));
    }
    if let Some(file) = file(options)?.or_else(|| {
        let needs_one = !is_in_memory && !mode.contains(LogFileMode::REAL_TIME);
        needs_one.then(|| PathBuf::from(DEFAULT_FILE))
    }) {
        builder = builder.file(file);
    }
    let asked = asked(options, known, controller)?;
    let is_kernel = name.eq_ignore_ascii_case(KERNEL_LOGGER)
        || asked.iter().any(|asked| asked.guid == classes::SYSTEM_TRACE);
    if let Some(flags) = flags(options, is_kernel)? {
        builder = builder.enable_flags(flags.0);
    }
    Ok(Plan { builder, enables: enables(&asked, options)? })
}

/// Returns the enable requests for the providers of `-guid`.
pub(super) fn enables(asked: &[Asked], options: &Options) -> Result<Vec<EnableBuilder>> {
    let mask = |name: &str| {
        let mask = options.value(name).map(|text| {
            wide_number(text).ok_or_else(|| usage(format_args!("-{name}: '{text}' is not a keyword mask")))
        });
        mask.transpose()
    };
    let any = mask("matchanykw")?.or(mask("flag")?);
    let (all, wanted_level) =
        (mask("matchallkw")?.unwrap_or(0), options.value("level").map(level).transpose()?);
    let properties = EnableProperties(options.number("enableproperty")?.unwrap_or(0));
    let filters = filters(options)?;
    // The kernel's classic events are enabled by flags.
    let asked = asked.iter().filter(|asked| asked.guid != classes::SYSTEM_TRACE);
    let enables = asked.map(|asked| {
        // A provider's own line takes precedence over the options for all.
        let (any, level) = (asked.any.or(any).unwrap_or(0), asked.level.or(wanted_level).unwrap_or(Level(0)));
        let enable = enable(asked.guid, level, any, all).properties(properties);
        filters.iter().cloned().fold(enable, EnableBuilder::filter)
    });
    Ok(enables.collect())
}

/// Returns the providers of all `-guid` options.
pub(super) fn asked(
    options: &Options,
    known: &Known,
    mut controller: Option<&mut Controller>,
) -> Result<Vec<Asked>> {
    let mut all = Vec::new();
    for text in options.all("guid").flat_map(|given| &given.values) {
        if let Some(guid) = text.strip_prefix('#') {
            all.push(Asked { guid: known.find(guid_text(guid)?, None)?.guid, any: None, level: None });
        } else if let Some(name) = text.strip_prefix('*') {
            all.push(Asked {
                guid: known.find(name, controller.as_deref_mut())?.guid,
                any: None,
                level: None,
            });
        } else if text.parse::<Guid>().is_ok() && !Path::new(text).exists() {
            // The `#` or `*` mark may have been removed by a shell.
            all.push(Asked { guid: known.find(text, None)?.guid, any: None, level: None });
        } else {
            all.extend(guid_file(Path::new(&path(text)?))?);
        }
    }
    Ok(all)
}

fn guid_text(text: &str) -> Result<&str> {
    match text.parse::<Guid>() {
        Ok(_) => Ok(text),
        Err(error) => Err(Failed::new(code::INVALID_PARAMETER, format!("-guid #{text}: {error}")).into()),
    }
}

/// Reads a provider file: `GUID;keywords;level` on each line, or separated by blanks; `;` starts a comment.
fn guid_file(file: &Path) -> Result<Vec<Asked>> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("-guid {}: cannot be read", file.display()))?;
    let wrong =
        |number: usize, what: String| usage(format_args!("{}: line {}: {what}", file.display(), number + 1));
    let mut all = Vec::new();
    for (number, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with([';', '/']) {
            continue;
        }
        let mut parts = line.split([';', ',', ' ', '\t']).map(str::trim).filter(|part| !part.is_empty());
        let guid = parts.next().unwrap_or_default().trim_start_matches('#');
        let guid: Guid = guid.parse().map_err(|error| wrong(number, format!("{error}")))?;
        // Names after the GUID are comments.
        let mut numbers = parts.map_while(wide_number);
        let any = numbers.next();
        let level = match numbers.next().map(u8::try_from) {
            Some(Ok(level)) => Some(Level(level)),
            Some(Err(_)) => return Err(wrong(number, "the level must be a number from 0 to 255".to_owned())),
            None => None,
        };
        all.push(Asked { guid, any, level });
    }
    Ok(all)
}

/// Returns filters by event, process and program.
fn filters(options: &Options) -> Result<Vec<Filter>> {
    let mut filters = Vec::new();
    for (index, given) in options.given.iter().enumerate() {
        match given.name {
            "eventidfilter" | "stackwalkfilter" => {
                let ids = options.given.get(index + 1).filter(|next| matches!(next.name, "in" | "out"));
                let ids = ids.ok_or_else(|| {
                    usage(format_args!(
                        "-{} needs -in or -out with the number of ids and the ids",
                        given.name
                    ))
                })?;
                let include = ids.name == "in";
                let ids = counted(ids)?.into_iter().map(|id| {
                    u16::try_from(id).map_err(|_| usage(format_args!("'{id}' is not an event id")))
                });
                let ids = ids.collect::<Result<Vec<u16>>>()?;
                filters.push(match given.name {
                    "eventidfilter" => Filter::EventIds { include, ids },
                    _ => Filter::StackWalkIds { include, ids },
                });
            }
            "pidfilter" => filters.push(Filter::Pids(counted(given)?)),
            "exefilter" => {
                let names =
                    given.values.iter().flat_map(|names| names.split(';')).map(|name| name.trim().to_owned());
                filters.push(Filter::ExecutableNames(names.filter(|name| !name.is_empty()).collect()));
            }
            _ => {}
        }
    }
    Ok(filters)
}

/// Returns the numbers after their count.
fn counted(given: &Given) -> Result<Vec<u32>> {
    let numbers =
        given.values.iter().map(|text| number_of(given.name, text)).collect::<Result<Vec<u32>>>()?;
    match numbers.split_first() {
        Some((count, rest)) if usize::try_from(*count) == Ok(rest.len()) => Ok(rest.to_vec()),
        _ => Err(usage(format_args!("-{}: the first number must be the count of the others", given.name))),
    }
}

/// Returns the kernel flags that the options select, including the defaults of the kernel session.
pub(super) fn flags(options: &Options, is_kernel: bool) -> Result<Option<EnableFlags>> {
    let mut flags = EnableFlags::empty();
    let defaults = [
        ("noprocess", EnableFlags::PROCESS),
        ("nothread", EnableFlags::THREAD),
        ("nodisk", EnableFlags::DISK_IO | EnableFlags::DISK_FILE_IO),
        ("nonet", EnableFlags::NETWORK_TCPIP),
    ];
    for (not, flag) in defaults {
        if is_kernel && options.last("eflag").is_none() && options.last(not).is_none() {
            flags |= flag;
        }
    }
    for (name, flag) in [
        ("img", EnableFlags::IMAGE_LOAD),
        ("fio", EnableFlags::FILE_IO | EnableFlags::FILE_IO_INIT | EnableFlags::DISK_FILE_IO),
        ("hf", EnableFlags::MEMORY_HARD_FAULTS),
        ("pf", EnableFlags::MEMORY_PAGE_FAULTS),
        (
            "dpcisr",
            EnableFlags::DPC | EnableFlags::INTERRUPT | EnableFlags::IMAGE_LOAD | EnableFlags::CSWITCH,
        ),
    ] {
        if options.last(name).is_some() {
            flags |= flag;
        }
    }
    for given in options.all("eflag") {
        // The number of flags comes first, if given.
        let names = match given.values.split_first() {
            Some((count, rest)) if count.parse() == Ok(rest.len()) && !rest.is_empty() => rest,
            _ => &given.values,
        };
        for name in names {
            flags |= if wide_number(name).is_some() { kernel_flags(name)? } else { flags_by_name(name)? };
        }
    }
    if is_kernel && let Some(text) = options.value("flag").or(options.value("matchanykw")) {
        flags = kernel_flags(text)?;
    }
    Ok((!flags.is_empty()).then_some(flags))
}

fn mode(options: &Options) -> Result<LogFileMode> {
    let mut mode = LogFileMode::empty();
    for (name, bit) in [
        ("rt", LogFileMode::REAL_TIME),
        ("seq", LogFileMode::SEQUENTIAL),
        ("cir", LogFileMode::CIRCULAR),
        ("newfile", LogFileMode::NEW_FILE),
        ("kb", LogFileMode::KBYTES_FOR_SIZE),
        ("append", LogFileMode::APPEND),
        ("prealloc", LogFileMode::PREALLOCATE),
        ("buffering", LogFileMode::BUFFERING),
        ("secure", LogFileMode::SECURE),
        ("paged", LogFileMode::USE_PAGED_MEMORY),
        ("lowcapacity", LogFileMode::NO_PER_PROCESSOR_BUFFERING),
        ("independent", LogFileMode::INDEPENDENT_SESSION),
    ] {
        if options.last(name).is_some() {
            mode |= bit;
        }
    }
    if mode.contains(LogFileMode::BUFFERING) && mode.contains(LogFileMode::REAL_TIME) {
        return Err(usage("-rt and -buffering exclude each other"));
    }
    Ok(mode)
}

fn clock(options: &Options, mode: LogFileMode) -> SessionClock {
    if options.last("usesystemtime").is_some() {
        SessionClock::SystemTime
    } else if options.last("usecpucycle").is_some() {
        SessionClock::CpuCycle
    } else if mode.contains(LogFileMode::APPEND) && options.last("useperfcounter").is_none() {
        // An appended session has no clock anchor of its own in the header.
        SessionClock::SystemTime
    } else {
        SessionClock::Qpc
    }
}

/// Returns the file of `-f`, if given.
pub(super) fn file(options: &Options) -> Result<Option<PathBuf>> {
    let given = options.last("f").map(|given| given.values.first().map_or(DEFAULT_FILE, String::as_str));
    given.map(|text| Ok(PathBuf::from(path(text)?))).transpose()
}

fn flush_timer(options: &Options) -> Result<Option<u32>> {
    options.value("ft").map(|text| millis_of("ft", text)).transpose()
}

fn stacks(options: &Options) -> Result<Option<Vec<u16>>> {
    options.value("stackwalk").map(session::stacks).transpose()
}

fn interval(options: &Options) -> Result<Option<u32>> {
    if let Some(source) =
        options.value("profilesource").filter(|source| !source.eq_ignore_ascii_case("timer"))
    {
        return Err(usage(format_args!("-ProfileSource {source}: only Timer is supported")));
    }
    options.value("setprofint").map(session::sample_interval).transpose()
}

/// Returns the changes to a running session.
pub(super) fn update(options: &Options, is_kernel: bool) -> Result<SessionUpdate> {
    for name in [
        "b",
        "min",
        "bt",
        "cir",
        "seq",
        "newfile",
        "append",
        "prealloc",
        "buffering",
        "usecpucycle",
        "usesystemtime",
    ] {
        if options.last(name).is_some() {
            return Err(usage(format_args!(
                "-{name} cannot be changed while a session runs; stop it and start it again"
            )));
        }
    }
    if options.last("guid").is_some() {
        return Err(usage(
            "-guid: `tracelog -enable` and `-disable` change the providers of a running session",
        ));
    }
    let named = ["eflag", "img", "fio", "hf", "pf", "dpcisr", "noprocess", "nothread", "nodisk", "nonet"];
    let names_flags = named.iter().any(|name| options.last(name).is_some());
    let flags = if names_flags { flags(options, is_kernel)? } else { None };
    let file = file(options)?.map(std::path::absolute).transpose()?;
    let update = SessionUpdate {
        maximum_buffers: options.number("max")?,
        flush_timer_millis: flush_timer(options)?,
        log_file_name: file.map(|file| file.to_string_lossy().into_owned()),
        real_time: options.last("rt").map(|_| true),
        enable_flags: flags.map(|flags| flags.0),
        stack_tracing: stacks(options)?,
        sample_interval: interval(options)?,
    };
    match update == SessionUpdate::default() {
        true => Err(usage("nothing to change: -f, -max, -ft, -rt and the kernel's flags can be changed")),
        false => Ok(update),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::table::{ACTIONS, OPTIONS};
    use super::*;

    fn options(line: &str) -> Result<Options> {
        let words: Vec<OsString> =
            line.split(' ').filter(|word| !word.is_empty()).map(OsString::from).collect();
        Options::read(&words, &[ACTIONS, OPTIONS].concat())
    }

    fn read(line: &str) -> Result<Plan> {
        plan("S", &options(line)?, &Known::load()?, None)
    }

    #[test]
    fn options_say_what_a_session_is_to_be() {
        let plan = read(
            "-f /tmp/x%d.etl -b 128 -min 8 -max 64 -ft 2 -newfile 10 -kb -UseSystemTime -lowcapacity -bt 3 \
             -guid #{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} -guid *Shop.Orders -matchanykw 0x10 -matchallkw 0x10 -level 4 \
             -EnableProperty 4 -EventIdFilter -in 2 1 2 -PidFilter 1 4711 -ExeFilter shop;pay.exe -StackWalkFilter -out 1 9",
        );
        let plan = plan.unwrap();
        let p = plan.builder.properties();
        assert_eq!((p.buffer_size, p.minimum_buffers, p.maximum_buffers, p.flush_threshold), (128, 8, 64, 3));
        assert_eq!(
            (p.maximum_file_size, p.flush_timer_millis, p.clock),
            (10, 2000, SessionClock::SystemTime)
        );
        let modes =
            [LogFileMode::NEW_FILE, LogFileMode::KBYTES_FOR_SIZE, LogFileMode::NO_PER_PROCESSOR_BUFFERING];
        assert_eq!(p.log_file_mode, modes.into_iter().collect::<LogFileMode>());
        let (guid, enable) = plan.enables[1].build().unwrap();
        assert_eq!(guid, Guid::from_provider_name("Shop.Orders"));
        assert_eq!((enable.any.0, enable.all.0, enable.level, enable.properties.0), (16, 16, Level(4), 4));
        let expected = [
            Filter::EventIds { include: true, ids: vec![1, 2] },
            Filter::Pids(vec![4711]),
            Filter::ExecutableNames(vec!["shop".to_owned(), "pay.exe".to_owned()]),
            Filter::StackWalkIds { include: false, ids: vec![9] },
        ];
        assert_eq!(enable.filters, expected);
        assert_eq!(plan.enables.len(), 2);
    }

    #[test]
    fn files_of_providers() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("p.guid");
        let text = "; providers\n22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716;0x10;4\n{12345678-1234-1234-1234-123456789abc} MyProvider\n\n";
        std::fs::write(&file, text).unwrap();
        let plan = read(&format!("-guid {} -flag 0xff -rt", file.display())).unwrap();
        let masks: Vec<_> = plan.enables.iter().map(|enable| enable.build().unwrap().1).collect();
        assert_eq!((masks[0].any.0, masks[0].level.0, masks[1].any.0, masks[1].level.0), (0x10, 4, 0xff, 0));
        std::fs::write(&file, "no guid").unwrap();
        let error = read(&format!("-guid {}", file.display())).unwrap_err().to_string();
        assert!(error.contains("p.guid: line 1: "), "{error}");
    }

    #[test]
    fn the_kernels_flags() {
        let check = |line: &str, is_kernel: bool, expected: u32| {
            let flags = flags(&options(line).unwrap(), is_kernel).unwrap().unwrap_or_default();
            assert_eq!(flags, EnableFlags(expected), "{line}");
        };
        check("-f x.etl", true, 0x10303);
        check("-nodisk -nonet -img", true, 0x7);
        check("-noprocess -nothread -nodisk -nonet -dpcisr", true, 0x74);
        check("-eflag 2 PROC_THREAD CSWITCH", true, 0x13);
        check("-eflag 1 0x10001", true, 0x10001);
        check("-eflag Latency", false, 0x0100_0000 | 0x0000_2377);
        check("-flag 0x3", true, 3);
        check("-f x.etl", false, 0);
        assert!(flags(&options("-eflag 1 REGISTRY").unwrap(), true).is_err());
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let check = |line: &str, expected: &str| {
            let error = read(line).expect_err(line).to_string();
            assert!(error.contains(expected), "{line}: {error}");
        };
        check("-guid #1234", "-guid #1234");
        check("-guid /nowhere/x.guid", "-guid /nowhere/x.guid: cannot be read");
        check("-level loud", "is not a level");
        check("-guid *A -flag round", "-flag: 'round'");
        check("-PidFilter 2 5 -guid *A", "must be the count of the others");
        check("-EventIdFilter -guid *A", "needs -in or -out");
        check("-rt -buffering", "exclude each other");
        check("-buffering -f x.etl", "`tracelog -flush S -f FILE`");
        check("-f c:\\x.etl", "is a Windows path");
        check("-SetProfInt 1", "from 1000");
        check("-ProfileSource CacheMisses", "only Timer is supported");
        assert!(update(&options("-b 4").unwrap(), false).is_err());
        assert!(update(&options("-lp").unwrap(), false).is_err());
    }
}
