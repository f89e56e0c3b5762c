//! Parsing of the `xperf` command line into actions, in order.

use std::path::PathBuf;

use anyhow::{Context, Result};
use etw_app::output;
use etw_app::paths::path;
use etw_app::providers::{Known, enable, is_kernel};
use etw_app::status::{Failed, code, usage};
use etw_app::text::wide_number;
use openetw::Level;
use openetw::kernel::{EnableFlags, FlagError};
use openetw::session::{
    Controller, EnableBuilder, EnableProperties, LogFileMode, SessionBuilder, SessionClock, SessionUpdate,
};

use crate::host;
use crate::options::{Given, Options, millis_of, number_of};
use crate::session::{KERNEL_LOGGER, Plan, sample_interval};

/// An action to perform.
#[derive(Debug)]
pub(super) enum Act {
    Start(Box<Segment>),
    Update(Box<Segment>),
    Stop(String),
    Flush(String, Option<PathBuf>),
    CaptureState(String, Vec<EnableBuilder>),
    /// The sampling interval of the running kernel session, in units of 100 ns.
    Interval(u32),
    Mark(String),
    Loggers,
    Providers(Vec<String>),
    Merge(Vec<PathBuf>, PathBuf),
}

/// The options of one session.
#[derive(Debug, Default)]
pub(super) struct Segment {
    pub(super) name: String,
    pub(super) enables: Vec<EnableBuilder>,
    flags: Option<EnableFlags>,
    file: Option<PathBuf>,
    stacks: Option<Vec<u16>>,
    interval: Option<u32>,
    mode: LogFileMode,
    buffer_size: Option<u32>,
    minimum_buffers: u32,
    maximum_buffers: u32,
    maximum_mib: u32,
    flush_timer_millis: Option<u32>,
    clock: Option<SessionClock>,
}

/// The action whose options are being parsed.
enum Open {
    None,
    Start(Segment),
    Update(Segment),
    Flush(String, Option<PathBuf>),
}

/// Parses the command line, except the options of merging, which [`merged`] parses.
pub(super) fn acts(options: &Options, known: &Known) -> Result<Vec<Act>> {
    if let Some(word) = options.words.first() {
        return Err(usage(format_args!("'{word}' does not belong to an option")));
    }
    let mut reader = Reader { acts: Vec::new(), open: Open::None, known, running: None };
    options.given.iter().try_for_each(|given| reader.take(given))?;
    reader.close()?;
    Ok(reader.acts)
}

/// Returns the file that the stopped sessions are merged into.
pub(super) fn merged(options: &Options) -> Result<Option<PathBuf>> {
    options.value("d").map(|text| Ok(PathBuf::from(path(text)?))).transpose()
}

struct Reader<'k> {
    acts: Vec<Act>,
    open: Open,
    known: &'k Known,
    /// The connection for provider look-ups, if a host runs.
    running: Option<Controller>,
}

impl Reader<'_> {
    fn take(&mut self, given: &Given) -> Result<()> {
        let value = || given.values.first().cloned().unwrap_or_default();
        let name =
            || Some(value()).filter(|name| !name.is_empty()).unwrap_or_else(|| KERNEL_LOGGER.to_owned());
        let segment = |name: String| Segment { name, ..Segment::default() };
        match given.name {
            "start" | "update" | "stop" | "flush" | "capturestate" | "m" | "loggers" | "providers"
            | "merge" | "d" => {
                self.close()?;
                match given.name {
                    "start" => self.open = Open::Start(segment(name())),
                    "update" => self.open = Open::Update(segment(name())),
                    "flush" => self.open = Open::Flush(name(), None),
                    "stop" => self.acts.push(Act::Stop(name())),
                    "m" => self.acts.push(Act::Mark(value())),
                    "loggers" => self.acts.push(Act::Loggers),
                    "providers" => self.acts.push(Act::Providers(given.values.clone())),
                    "merge" => self.merge(given)?,
                    "capturestate" => self.capture_state(given)?,
                    _ => {}
                }
            }
            "on" => {
                let has_on = |segment: &Segment| segment.flags.is_some() || !segment.enables.is_empty();
                // Without -start, it applies to the kernel session.
                if !matches!(&self.open, Open::Start(open) | Open::Update(open) if !has_on(open)) {
                    self.close()?;
                    self.open = Open::Start(segment(KERNEL_LOGGER.to_owned()));
                }
                self.on(&value())?;
            }
            "f" => match &mut self.open {
                Open::Flush(_, file) => *file = Some(path(&value())?.into()),
                open => session_of(open, "f")?.file = Some(path(&value())?.into()),
            },
            "setprofint" => {
                let units = sample_interval(&value())?;
                match session_of(&mut self.open, "setprofint") {
                    Ok(segment) => segment.interval = Some(units),
                    Err(_) => self.acts.push(Act::Interval(units)),
                }
            }
            // Parsed with the merge.
            "compress" => {}
            option => session_of(&mut self.open, option)?.set(option, &value())?,
        }
        Ok(())
    }

    fn merge(&mut self, given: &Given) -> Result<()> {
        let mut files =
            given.values.iter().map(|file| Ok(PathBuf::from(path(file)?))).collect::<Result<Vec<_>>>()?;
        if let Some(merged) = files.pop() {
            self.acts.push(Act::Merge(files, merged));
        }
        Ok(())
    }

    fn capture_state(&mut self, given: &Given) -> Result<()> {
        let providers = given.values.get(1).map(String::as_str).unwrap_or_default();
        let enables = providers.split('+').map(|provider| self.provider(provider)).collect::<Result<_>>()?;
        let name = given.values.first().cloned().unwrap_or_default();
        self.acts.push(Act::CaptureState(name, enables));
        Ok(())
    }

    /// Parses kernel flags and groups, and providers, joined by `+`.
    fn on(&mut self, text: &str) -> Result<()> {
        for part in text.split('+').map(str::trim).filter(|part| !part.is_empty()) {
            let flags = match EnableFlags::parse(part) {
                Ok(selection) => {
                    if !selection.left_out.is_empty() {
                        let lines: Vec<String> = selection.left_out.iter().map(ToString::to_string).collect();
                        output::warn(&format_args!("left out of {part}: {}", lines.join("; ")));
                    }
                    Some(selection.flags)
                }
                Err(FlagError::Unknown(_)) if wide_number(part).is_none() => {
                    if is_like_flag(part) {
                        let hint = "`xperf -providers K` lists them; using it as a provider name";
                        output::warn(&format_args!("{part} is not a kernel flag or group: {hint}"));
                    }
                    None
                }
                Err(error @ FlagError::Refused { .. }) => {
                    return Err(Failed::new(code::NOT_SUPPORTED, format!("-on {error}")).into());
                }
                Err(error) => return Err(usage(format_args!("-on {error}"))),
            };
            let provider = if flags.is_none() { Some(self.provider(part)?) } else { None };
            let segment = session_of(&mut self.open, "on")?;
            segment.enables.extend(provider);
            if let Some(flags) = flags {
                segment.flags = Some(segment.flags.unwrap_or_default() | flags);
            }
        }
        Ok(())
    }

    /// Parses `(NAME|{GUID})[:Flags[:Level[:'stack|sid|tsid']]]`.
    fn provider(&mut self, text: &str) -> Result<EnableBuilder> {
        let mut parts = text.splitn(4, ':');
        let name = parts.next().unwrap_or_default();
        if is_kernel(name) {
            return Err(usage("kernel events are enabled by flags: -on PROC_THREAD+LOADER+…"));
        }
        if self.running.is_none() {
            self.running = host::running()?;
        }
        let found = self.known.find(name, self.running.as_mut())?;
        let any = match parts.next().map(str::trim).filter(|flags| !flags.is_empty()) {
            Some(flags) => self.known.keywords(&found, flags)?,
            None => 0,
        };
        let level = match parts.next().map(str::trim).filter(|level| !level.is_empty()) {
            Some(level) => etw_app::providers::level(level)?,
            None => Level(0),
        };
        let properties = parts.next().map_or(Ok(EnableProperties::empty()), properties)?;
        Ok(enable(found.guid, level, any, 0).properties(properties))
    }

    /// Completes the current action.
    fn close(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.open, Open::None) {
            Open::None => {}
            Open::Start(segment) if segment.flags.is_none() && segment.enables.is_empty() => {
                return Err(usage(format_args!("-start {}: name what to record with -on", segment.name)));
            }
            Open::Start(segment) => self.acts.push(Act::Start(Box::new(segment))),
            Open::Update(segment) => self.acts.push(Act::Update(Box::new(segment))),
            Open::Flush(name, file) => self.acts.push(Act::Flush(name, file)),
        }
        Ok(())
    }
}

/// Returns the session that an option applies to.
fn session_of<'o>(open: &'o mut Open, option: &str) -> Result<&'o mut Segment> {
    match open {
        Open::Start(segment) | Open::Update(segment) => Ok(segment),
        _ => Err(usage(format_args!("-{option} must follow -on or -start"))),
    }
}

/// Parses `'stack|sid|tsid'` in any quotation marks, or the bits as a number.
fn properties(text: &str) -> Result<EnableProperties> {
    let bare = text.trim_matches(|letter: char| "'\"‘’“”".contains(letter));
    let mut properties = EnableProperties::empty();
    for name in bare.split(['|', ',']).map(str::trim).filter(|name| !name.is_empty()) {
        properties |= match name.to_lowercase().as_str() {
            "stack" => EnableProperties::STACK_TRACE,
            "sid" => EnableProperties::SID,
            "tsid" => EnableProperties::TS_ID,
            other => wide_number(other)
                .and_then(|bits| u32::try_from(bits).ok().map(EnableProperties))
                .ok_or_else(|| usage(format_args!("'{other}' is not stack, sid, tsid or a number")))?,
        };
    }
    Ok(properties)
}

/// Parses the events of `-stackwalk`, or those in a file: separated by blanks, `+` and lines; `!` starts a comment.
fn stacks(text: &str) -> Result<Vec<u16>> {
    let names = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some(file) => {
            let text = std::fs::read_to_string(path(file)?).with_context(|| format!("-stackwalk {text}"))?;
            let lines = text.lines().map(|line| line.split('!').next().unwrap_or_default());
            lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join("+")
        }
    };
    crate::session::stacks(&names)
}

impl Segment {
    /// Sets an option with one value, or without.
    fn set(&mut self, option: &str, value: &str) -> Result<()> {
        match option {
            "stackwalk" => self.stacks.get_or_insert_default().extend(stacks(value)?),
            "buffersize" => self.buffer_size = Some(number_of(option, value)?),
            "minbuffers" => self.minimum_buffers = number_of(option, value)?,
            "maxbuffers" => self.maximum_buffers = number_of(option, value)?,
            "maxfile" => self.maximum_mib = number_of(option, value)?,
            "filemode" => self.mode |= file_mode(value)?,
            "flushtimer" | "ft" => self.flush_timer_millis = Some(millis_of(option, value)?),
            "clocktype" => self.clock = Some(clock(value)?),
            "buffering" => self.mode |= LogFileMode::BUFFERING,
            "realtime" => self.mode |= LogFileMode::REAL_TIME,
            other => return Err(usage(format_args!("-{other} is not valid here"))),
        }
        Ok(())
    }

    /// Returns the session to start.
    pub(super) fn plan(self) -> Result<Plan> {
        // An appended session has no clock anchor of its own in the header.
        let appends = self.mode.contains(LogFileMode::APPEND);
        let clock = if appends { SessionClock::SystemTime } else { SessionClock::Qpc };
        let mut builder = SessionBuilder::new(&self.name)
            .mode(self.mode)
            .buffers(self.minimum_buffers, self.maximum_buffers)
            .maximum_file_size_mib(self.maximum_mib)
            .flush_timer_millis(self.flush_timer_millis.unwrap_or(0))
            .clock(self.clock.unwrap_or(clock))
            .enable_flags(self.flags.unwrap_or_default().0)
            .stack_tracing(&self.stacks.unwrap_or_default())
            .sample_interval(self.interval.unwrap_or(0));
        if let Some(size) = self.buffer_size {
            builder = builder.buffer_size_kib(size);
        }
        match (self.mode.contains(LogFileMode::BUFFERING), self.file) {
            (true, Some(_)) => {
                return Err(usage(format_args!(
                    "-buffering keeps events in memory; `xperf -flush {} -f FILE` writes them",
                    self.name
                )));
            }
            (true, None) => {}
            (false, file) => {
                let is_kernel = self.name.eq_ignore_ascii_case(KERNEL_LOGGER);
                let default = if is_kernel { "kernel.etl" } else { "user.etl" };
                builder = builder.file(file.unwrap_or_else(|| default.into()));
            }
        }
        Ok(Plan { builder, enables: self.enables })
    }

    /// Returns the changes to a running session.
    pub(super) fn update(&self) -> Result<SessionUpdate> {
        if !self.mode.is_empty()
            || self.buffer_size.is_some()
            || self.maximum_mib != 0
            || self.minimum_buffers != 0
        {
            return Err(usage(
                "-BufferSize, -MinBuffers, -MaxFile, -FileMode, -buffering and -realtime cannot be changed while a session runs",
            ));
        }
        let file = self.file.as_ref().map(std::path::absolute).transpose()?;
        Ok(SessionUpdate {
            maximum_buffers: Some(self.maximum_buffers).filter(|count| *count != 0),
            flush_timer_millis: self.flush_timer_millis,
            log_file_name: file.map(|file| file.to_string_lossy().into_owned()),
            enable_flags: self.flags.map(|flags| flags.0),
            stack_tracing: self.stacks.clone(),
            sample_interval: self.interval,
            ..SessionUpdate::default()
        })
    }
}

fn file_mode(name: &str) -> Result<LogFileMode> {
    match name.to_lowercase().as_str() {
        "sequential" => Ok(LogFileMode::SEQUENTIAL),
        "circular" => Ok(LogFileMode::CIRCULAR),
        "append" => Ok(LogFileMode::APPEND),
        "newfile" => Ok(LogFileMode::NEW_FILE),
        "preallocate" => Ok(LogFileMode::PREALLOCATE),
        other => {
            Err(usage(format_args!("-FileMode {other}: expected sequential, circular, append or newfile")))
        }
    }
}

fn clock(name: &str) -> Result<SessionClock> {
    match name.to_lowercase().as_str() {
        "perfcounter" | "1" => Ok(SessionClock::Qpc),
        "systemtime" | "2" => Ok(SessionClock::SystemTime),
        "cycle" | "3" => Ok(SessionClock::CpuCycle),
        other => Err(usage(format_args!("-ClockType {other}: expected PerfCounter, SystemTime or Cycle"))),
    }
}

/// Returns whether an unknown name may be a misspelt flag, such as `CSWICTH`.
fn is_like_flag(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::table::TABLE;
    use super::*;

    fn read(line: &str) -> Result<Vec<Act>> {
        let words: Vec<OsString> =
            line.split(' ').filter(|word| !word.is_empty()).map(OsString::from).collect();
        acts(&Options::read(&words, TABLE)?, &Known::load()?)
    }

    /// Returns the only session that a command line starts.
    fn started(line: &str) -> Plan {
        match read(line).unwrap().pop() {
            Some(Act::Start(segment)) => segment.plan().unwrap(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_kernels_session() {
        let plan = started(
            "–on PROC_THREAD+LOADER+CSWITCH -stackwalk CSwitch+ReadyThread -BufferSize 1024 -MinBuffers 64 -MaxBuffers 320 \
             -MaxFile 256 -FileMode Circular -f /tmp/k.etl -setprofint 1221 cached",
        );
        let p = plan.builder.properties();
        assert_eq!((p.logger_name.as_str(), p.enable_flags, p.buffer_size), (KERNEL_LOGGER, 0x17, 1024));
        assert_eq!((p.minimum_buffers, p.maximum_buffers, p.maximum_file_size), (64, 320, 256));
        assert_eq!((p.log_file_mode, p.log_file_name.as_str()), (LogFileMode::CIRCULAR, "/tmp/k.etl"));
        assert_eq!((p.stack_tracing.as_slice(), p.sample_interval), (&[0x0524, 0x0532][..], 1221));
        let p = started("-on latency+NETWORKTRACE -ft 0.5");
        assert!(p.builder.properties().log_file_name.ends_with("/kernel.etl"));
        assert_eq!((p.builder.properties().flush_timer_millis, p.enables.len()), (500, 0));
        assert_eq!(p.builder.properties().enable_flags & 0x0101_0010, 0x0101_0010);
    }

    #[test]
    fn sessions_beside_it() {
        let line = "-on Base -start User -on Microsoft-Windows-Kernel-Process:0x10:5:'stack|sid'+{12345678-1234-1234-1234-123456789abc} -f u.etl";
        let acts = read(line).unwrap();
        assert_eq!(acts.len(), 2, "{acts:?}");
        let plan = started(line);
        let enables: Vec<_> = plan.enables.iter().map(|enable| enable.build().unwrap()).collect();
        assert_eq!((enables[0].1.any.0, enables[0].1.level.0, enables[0].1.properties.0), (0x10, 5, 5));
        assert_eq!((enables[1].1.any.0, enables.len()), (0, 2));
        // A name that is not a flag is a provider, even in the kernel session.
        assert_eq!(started("-on ProviderName -f trace.etl").enables.len(), 1);
        for (text, bits) in [("’stack’", 4), ("0x14", 0x14), ("stack,sid,tsid", 7), ("", 0)] {
            assert_eq!(properties(text).unwrap().0, bits, "{text}");
        }
    }

    #[test]
    fn what_else_there_is_to_do() {
        let acts = read("-stop -stop User -d merged.etl").unwrap();
        let names = |act: &Act| if let Act::Stop(name) = act { name.clone() } else { panic!("{act:?}") };
        assert_eq!(acts.iter().map(names).collect::<Vec<_>>(), [KERNEL_LOGGER, "User"]);
        assert!(
            matches!(&read("-flush X -f x.etl").unwrap()[..], [Act::Flush(name, Some(_))] if name == "X")
        );
        assert!(matches!(&read("-merge a b c").unwrap()[..], [Act::Merge(files, _)] if files.len() == 2));
        assert!(matches!(read("-setprofint 10000").unwrap()[..], [Act::Interval(10_000)]));
        assert!(matches!(&read("-m hello").unwrap()[..], [Act::Mark(text)] if text == "hello"));
        let Act::Update(segment) = read("-update User -on A.B -MaxBuffers 9").unwrap().remove(0) else {
            panic!()
        };
        assert_eq!(segment.update().unwrap().maximum_buffers, Some(9));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let check = |line: &str, expected: &str| {
            let error = read(line).and_then(|acts| match acts.into_iter().next() {
                Some(Act::Start(segment)) => segment.plan().map(drop),
                Some(Act::Update(segment)) => segment.update().map(drop),
                other => panic!("{line}: {other:?}"),
            });
            let error = error.expect_err(line).to_string();
            assert!(error.contains(expected), "{line}: {error}");
        };
        check("-on REGISTRY", "REGISTRY: Linux has no registry");
        check("-on 0x20000", "REGISTRY");
        check("-on PROC_THREAD -stackwalk RegOpenKey", "`RegOpenKey` is not an event");
        check("-on PROC_THREAD -stackwalk @/nowhere", "-stackwalk @/nowhere");
        check("-start User -f x.etl", "name what to record with -on");
        check("-buffersize 64", "must follow -on or -start");
        check("-on Base -FileMode round", "expected sequential, circular");
        check("-on Base -f c:\\x.etl", "is a Windows path");
        check("-on Base -buffering -f x.etl", "`xperf -flush NT Kernel Logger -f FILE`");
        check("-on A:loud", "has no keyword 'loud'");
        check("-on A:0x1:9999", "is not a level");
        check("-on A:0x1:5:'heap'", "is not stack, sid, tsid");
        check("-on Base stray", "'stray' does not belong to an option");
        check("-on Base -setprofint 5", "from 1000");
        check("-update -BufferSize 64", "cannot be changed");
    }
}
