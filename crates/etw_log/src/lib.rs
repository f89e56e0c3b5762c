//! Records of [`log`] as events of Event Tracing for Windows.
//!
//! A [`Logger`] writes to a provider of the program. Sessions enable the provider like any other, at any time; while
//! none does, a record costs a load and a branch.
//!
//! ```
//! use openetw::provider;
//! use openetw_logger::Logger;
//!
//! provider!(static APP: "MyCompany.MyApp");
//!
//! APP.register();
//! Logger::new(&APP).install()?;
//! log::warn!("{} files are missing", 3);
//! # Ok::<(), log::SetLoggerError>(())
//! ```
//!
//! The message of a record is formatted only if a session wants it, in memory that the thread reuses, so writing a
//! record neither allocates nor takes a lock.
//!
//! On Windows they are events of the system's own ETW. Sessions exist on Linux and Windows only; elsewhere this crate is empty.
//!
//! Out of scope: events and spans of `tracing`, which `tracing-openetw` writes.
#![cfg(any(target_os = "linux", windows))]
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::LazyLock;

use etw_provider::bridge::{EventTemplate, FieldKind, Options, put_text, with_values};
use etw_provider::{Keyword, Level, Provider};
use log::{LevelFilter, Log, Metadata, Record, SetLoggerError};

/// A logger that writes the records of `log` as TraceLogging events `Log` of a provider.
///
/// The fields are `target`, `message` and `source` (file and line). The levels error, warn, info, debug and trace are
/// 2, 3, 4, 5 and 6.
pub struct Logger {
    provider: &'static Provider,
    other: Option<(Box<dyn Log>, LevelFilter)>,
}

/// For records with and without a source location.
static TEMPLATES: [LazyLock<EventTemplate>; 2] = [
    LazyLock::new(|| template(&["target", "message", "source"])),
    LazyLock::new(|| template(&["target", "message"])),
];

fn template(fields: &[&'static str]) -> EventTemplate {
    EventTemplate::new("Log", fields.iter().map(|name| (*name, FieldKind::Text.field())))
}

impl Logger {
    /// Creates a logger that writes to this provider. The program must register the provider.
    pub fn new(provider: &'static Provider) -> Logger {
        Logger { provider, other: None }
    }

    /// Also forwards records up to a level to another logger, since a program can install only one.
    pub fn and(self, other: Box<dyn Log>, up_to: LevelFilter) -> Logger {
        Logger { other: Some((other, up_to)), ..self }
    }

    /// Installs this as the program's logger, for all levels; sessions select what they want.
    ///
    /// # Errors
    ///
    /// Fails if the program has a logger already.
    pub fn install(self) -> Result<(), SetLoggerError> {
        log::set_boxed_logger(Box::new(self))?;
        log::set_max_level(LevelFilter::Trace);
        Ok(())
    }

    fn other(&self, metadata: &Metadata<'_>) -> Option<&dyn Log> {
        let (other, up_to) = self.other.as_ref()?;
        (metadata.level() <= *up_to && other.enabled(metadata)).then_some(other.as_ref())
    }

    /// Returns the sessions that want such a record, one bit each.
    fn wanted(&self, level: Level) -> u32 {
        if self.provider.is_enabled() { self.provider.wanted(level, Keyword(0)) } else { 0 }
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.wanted(level(metadata.level())) != 0 || self.other(metadata).is_some()
    }

    fn log(&self, record: &Record<'_>) {
        let level = level(record.level());
        let wanted = self.wanted(level);
        if wanted != 0 {
            with_values(|values| {
                let bytes = &mut values.bytes;
                put_text(bytes, record.target());
                put_text(bytes, record.args());
                let [with_source, without] = &TEMPLATES;
                let template = if let (Some(file), Some(line)) = (record.file(), record.line()) {
                    put_text(bytes, format_args!("{file}:{line}"));
                    with_source
                } else {
                    without
                };
                let options = Options::DEFAULT.level(level);
                template.write(self.provider, wanted, options, None, None, bytes.as_slice());
            });
        }
        if let Some(other) = self.other(record.metadata()) {
            other.log(record);
        }
    }

    fn flush(&self) {
        if let Some((other, _)) = &self.other {
            other.flush();
        }
    }
}

impl fmt::Debug for Logger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logger").field("provider", &self.provider.name()).finish_non_exhaustive()
    }
}

fn level(level: log::Level) -> Level {
    match level {
        log::Level::Error => Level::ERROR,
        log::Level::Warn => Level::WARNING,
        log::Level::Info => Level::INFORMATION,
        log::Level::Debug => Level::VERBOSE,
        // Below verbose, so that a session can exclude it.
        log::Level::Trace => Level(6),
    }
}
