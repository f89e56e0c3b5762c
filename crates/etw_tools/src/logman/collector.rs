//! Data collector sets: session definitions saved under a name.

use std::path::{Path, PathBuf};

use anyhow::Result;
use etw_app::providers::enable;
use etw_app::status::{Failed, code};
use openetw::session::{EnableProperties, LogFileMode, SessionBuilder, SessionClock};
use openetw::{FileTime, Guid, Level, classes};

use crate::session::Plan;

/// A data collector set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Set {
    pub(super) name: String,
    pub(super) collectors: Vec<Collector>,
    /// Number of the next run, used in file names.
    pub(super) serial: u32,
    /// Parts of an imported file that are not supported.
    pub(super) left_out: Vec<String>,
}

/// One session of a set (a trace data collector).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Collector {
    pub(super) session: String,
    pub(super) file: Option<PathBuf>,
    pub(super) version: Version,
    /// Circular, append, real-time and further modes; sequential and new-file modes follow from the other fields.
    pub(super) mode: LogFileMode,
    pub(super) overwrites: bool,
    /// Whether it continues in a new file at the maximum size.
    pub(super) changes_files: bool,
    pub(super) maximum_mib: u32,
    /// KiB; 0 is the default.
    pub(super) buffer_size: u32,
    pub(super) minimum_buffers: u32,
    pub(super) maximum_buffers: u32,
    pub(super) flush_timer_millis: u32,
    pub(super) clock: Option<SessionClock>,
    pub(super) providers: Vec<Wanted>,
}

/// A provider of a collector. For the kernel's classic events, the keywords are enable flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) guid: Guid,
    pub(super) level: Level,
    pub(super) any: u64,
    pub(super) all: u64,
    /// `EVENT_ENABLE_PROPERTY_*`.
    pub(super) properties: u32,
}

/// The suffix of a set's file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Version {
    #[default]
    None,
    /// The number of the run, in six digits.
    Serial,
    /// The time of the start in UTC.
    MonthDayHourMinute,
}

impl Set {
    /// Creates a set of one session.
    pub(super) fn new(name: &str, collector: Collector) -> Set {
        Set { name: name.to_owned(), collectors: vec![collector], serial: 1, left_out: Vec::new() }
    }

    /// Renames the set, and its session if that has the set's name.
    pub(super) fn rename(&mut self, name: &str) {
        for collector in &mut self.collectors {
            if collector.session.is_empty() || collector.session == self.name {
                collector.session = name.to_owned();
            }
        }
        self.name = name.to_owned();
    }
}

impl Collector {
    /// Returns the file of a session started without a set; `None` for a real-time session without a file.
    ///
    /// Fails if the file exists and is neither replaced nor appended to.
    pub(super) fn file_for_session(&self) -> Result<Option<PathBuf>> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None if self.needs_no_file() => return Ok(None),
            None => std::path::absolute(format!("{}.etl", self.session.replace('/', "_")))?,
        };
        self.check_free(file).map(Some)
    }

    /// Returns the file of a run of the set.
    pub(super) fn file_of_run(&self, serial: u32) -> Result<Option<PathBuf>> {
        let Some(file) = &self.file else { return Ok(None) };
        let version = match self.version {
            Version::None => return self.check_free(file.clone()).map(Some),
            Version::Serial => format!("{serial:06}"),
            Version::MonthDayHourMinute => {
                let now =
                    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                let nanos = i128::try_from(now.as_nanos()).unwrap_or(0);
                let (_, month, day, hour, minute, ..) = FileTime::from_unix_nanos(nanos).to_civil();
                format!("{month:02}{day:02}{hour:02}{minute:02}")
            }
        };
        self.check_free(with_suffix(file, &version)).map(Some)
    }

    fn needs_no_file(&self) -> bool {
        self.mode.contains(LogFileMode::REAL_TIME) || self.mode.contains(LogFileMode::BUFFERING)
    }

    fn check_free(&self, file: PathBuf) -> Result<PathBuf> {
        let may_exist = self.overwrites || self.mode.contains(LogFileMode::APPEND) || self.changes_files;
        if !may_exist && file.exists() {
            let text = format!("{}: already exists; -ow replaces it, -a appends to it", file.display());
            return Err(Failed::new(code::FILE_EXISTS, text).into());
        }
        Ok(file)
    }

    /// Returns the session to start.
    pub(super) fn plan(&self, file: Option<&Path>) -> Result<Plan> {
        let mut builder = SessionBuilder::new(&self.session).mode(self.mode);
        if let Some(file) = file {
            builder = match self.changes_files {
                true => builder.mode(LogFileMode::NEW_FILE).file(with_suffix(file, "%d")),
                false => builder.file(file),
            };
        }
        if self.buffer_size != 0 {
            builder = builder.buffer_size_kib(self.buffer_size);
        }
        // An appended session has no clock anchor of its own in the header.
        let appends = self.mode.contains(LogFileMode::APPEND);
        let clock = self.clock.unwrap_or(if appends { SessionClock::SystemTime } else { SessionClock::Qpc });
        let flags = self.providers.iter().filter(|wanted| wanted.guid == classes::SYSTEM_TRACE);
        let flags = flags.fold(0, |flags, wanted| flags | wanted.any as u32);
        let builder = builder
            .buffers(self.minimum_buffers, self.maximum_buffers)
            .maximum_file_size_mib(self.maximum_mib)
            .flush_timer_millis(self.flush_timer_millis)
            .clock(clock)
            .enable_flags(flags);
        let enables = self.providers.iter().filter(|wanted| wanted.guid != classes::SYSTEM_TRACE);
        let enables = enables.map(Wanted::enable).collect();
        Ok(Plan { builder, enables })
    }
}

impl Wanted {
    /// Returns the enable request for the session.
    pub(super) fn enable(&self) -> openetw::session::EnableBuilder {
        enable(self.guid, self.level, self.any, self.all).properties(EnableProperties(self.properties))
    }
}

/// Inserts a suffix: `trace.etl` becomes `trace_000001.etl`.
fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let extension =
        file.extension().map_or(String::new(), |extension| format!(".{}", extension.to_string_lossy()));
    file.with_file_name(format!("{stem}_{suffix}{extension}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_runs_are_numbered() {
        let collector =
            |version| Collector { file: Some("/nowhere/t.etl".into()), version, ..Collector::default() };
        let file = |version| collector(version).file_of_run(7).unwrap().unwrap();
        assert_eq!(file(Version::None), Path::new("/nowhere/t.etl"));
        assert_eq!(file(Version::Serial), Path::new("/nowhere/t_000007.etl"));
        let timed = file(Version::MonthDayHourMinute);
        assert_eq!(timed.to_str().unwrap().len(), "/nowhere/t_mmddhhmm.etl".len());
        assert_eq!(with_suffix(Path::new("/a/b.c/t"), "%d"), Path::new("/a/b.c/t_%d"));
    }

    #[test]
    fn a_collector_is_a_session() {
        let wanted =
            |guid, any| Wanted { name: String::new(), guid, level: Level(5), any, all: 1, properties: 4 };
        let collector = Collector {
            session: "S".to_owned(),
            mode: LogFileMode::APPEND,
            maximum_mib: 9,
            providers: vec![wanted(classes::SYSTEM_TRACE, 3), wanted(Guid::from_u128(7), 0x10)],
            ..Collector::default()
        };
        let plan = collector.plan(Some(Path::new("/nowhere/t.etl"))).unwrap();
        let p = plan.builder.properties();
        assert_eq!((p.enable_flags, p.maximum_file_size, p.buffer_size), (3, 9, 64));
        assert_eq!((p.log_file_name.as_str(), p.clock), ("/nowhere/t.etl", SessionClock::SystemTime));
        let (guid, enable) = plan.enables[0].build().unwrap();
        assert_eq!((guid, enable.any.0, enable.all.0, enable.properties.0), (Guid::from_u128(7), 0x10, 1, 4));
        assert_eq!(plan.enables.len(), 1);
        let parts = Collector { changes_files: true, ..collector };
        let plan = parts.plan(Some(Path::new("/nowhere/t.etl"))).unwrap();
        assert_eq!(plan.builder.properties().log_file_name, "/nowhere/t_%d.etl");
    }

    #[test]
    fn a_file_that_exists_is_kept_unless_it_is_said_otherwise() {
        let file = std::env::current_exe().unwrap();
        let collector = Collector { file: Some(file), ..Collector::default() };
        let error = collector.file_for_session().unwrap_err().to_string();
        assert!(error.contains("-ow replaces it"), "{error}");
        assert!(Collector { overwrites: true, ..collector }.file_for_session().is_ok());
        let live = Collector { mode: LogFileMode::REAL_TIME, ..Collector::default() };
        assert_eq!(live.file_for_session().unwrap(), None);
    }
}
