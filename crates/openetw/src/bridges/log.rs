//! Records of `log`.

use std::borrow::Cow;
use std::fmt;

use super::add_text;
use etw_event::{Keyword, Level};
use etw_provider::{EventBuilder, Provider, fields};
use log::{LevelFilter, Log, Metadata, Record, SetLoggerError};

/// Writes what `log` reports as TraceLogging events `Log` of a provider, with the fields `target`, `message` and `source`
/// (file and line). The levels error, warn, info, debug and trace are 2, 3, 4, 5 and 6.
///
/// ```
/// use openetw::bridges::Logger;
/// use openetw::provider;
///
/// provider!(static APP: "MyCompany.MyApp");
/// APP.register();
/// Logger::new(&APP).install()?;
/// log::warn!("{} files are missing", 3);
/// # Ok::<(), log::SetLoggerError>(())
/// ```
pub struct Logger {
    provider: &'static Provider,
    other: Option<(Box<dyn Log>, LevelFilter)>,
}

impl Logger {
    /// A logger that writes to this provider, which is to be registered by the program.
    pub fn new(provider: &'static Provider) -> Logger {
        Logger { provider, other: None }
    }

    /// Hands everything up to a level on to another logger too, since a program has one logger only.
    pub fn and(self, other: Box<dyn Log>, up_to: LevelFilter) -> Logger {
        Logger { other: Some((other, up_to)), ..self }
    }

    /// Makes it the program's logger, for all levels: what is wanted, sessions decide.
    ///
    /// # Errors
    /// The program has a logger already.
    pub fn install(self) -> Result<(), SetLoggerError> {
        log::set_boxed_logger(Box::new(self))?;
        log::set_max_level(LevelFilter::Trace);
        Ok(())
    }

    fn other(&self, metadata: &Metadata<'_>) -> Option<&dyn Log> {
        let (other, up_to) = self.other.as_ref()?;
        (metadata.level() <= *up_to && other.enabled(metadata)).then_some(other.as_ref())
    }

    fn is_wanted(&self, metadata: &Metadata<'_>) -> bool {
        self.provider.is_enabled() && self.provider.provider_enabled(level(metadata.level()), Keyword(0))
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.is_wanted(metadata) || self.other(metadata).is_some()
    }

    fn log(&self, record: &Record<'_>) {
        if self.is_wanted(record.metadata()) {
            let message =
                record.args().as_str().map_or_else(|| Cow::Owned(record.args().to_string()), Cow::Borrowed);
            let mut event = EventBuilder::new("Log").level(level(record.level())).add(
                "target",
                fields::str8::FIELD,
                &fields::str8::value(record.target()),
            );
            event = add_text(event, "message", &message);
            if let (Some(file), Some(line)) = (record.file(), record.line()) {
                event = add_text(event, "source", &format!("{file}:{line}"));
            }
            event.write(self.provider);
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
        // Behind verbose, so that a session can do without it.
        log::Level::Trace => Level(6),
    }
}
