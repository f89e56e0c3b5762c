//! A live session for other displays than the terminal, such as a page.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use etw_app::input;
use etw_app::schemas::Schemas;

use super::feed::Feed;
use super::model::Line;
use super::model::filter::{Base, Wanted};
use super::model::rules::Rules;
use super::save::Saving;
use super::session::{Session, default_flags};
use super::{Options, PERIOD, make_readable};

pub use super::model::rules::Rule;

/// A running session, with its newest events in memory.
///
/// ```no_run
/// # fn show(options: &etw_watch::Options) -> anyhow::Result<()> {
/// let mut watch = etw_watch::live::Watch::start(options)?;
/// for line in watch.lines(0, 100, None).1 {
///     println!("{} {} {}", line.time, line.process, line.detail);
/// }
/// watch.stop()?;
/// # Ok(())
/// # }
/// ```
pub struct Watch {
    feed: Feed,
    session: Session,
    schemas: Schemas,
    rules: Rules,
    /// Start of the current period of rates.
    period: Instant,
}

/// What a session has delivered.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchStatus {
    /// Number of events since the start.
    pub events: u64,
    /// Events per second.
    pub rate: f64,
    /// Events that the session lost, or that came faster than they were read.
    pub lost: u64,
    /// Events that were counted but not kept, since more than 200,000 came in a second.
    pub not_kept: u64,
    /// Number of events in memory that the rules show.
    pub shown: usize,
    /// Number of the next event.
    pub next: u64,
    /// Set after the session has ended; contains the reason if reading failed.
    pub ended: Option<String>,
    /// What the session could not do.
    pub trouble: Option<String>,
}

/// An event as a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchLine {
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
    /// Whether a rule highlights it.
    pub is_lit: bool,
}

/// A stopped session. While it is kept, sessions of other programs that this process hosts go on.
pub struct Stopped {
    _session: Session,
}

impl Watch {
    /// Starts the session of these options, with the rights of this process.
    ///
    /// # Errors
    ///
    /// Fails if an option is wrong, if the session cannot be started, or if the options name files.
    pub fn start(options: &Options) -> Result<Watch> {
        if !options.files.is_empty() {
            bail!("files are not live");
        }
        let schemas = Schemas::load(&options.schemas)?;
        let filter = input::compile(&options.filters, &schemas)?;
        input::refuse_stacks(&filter)?;
        let base = Base::new(&filter, options.session.is_none() && options.kernel.is_none());
        let mut session = Session::begin(options, &schemas)?;
        let feed = Feed::start(&session.name, &schemas.sources(), options.keep, base);
        let feed = match feed {
            Ok(feed) => feed,
            Err(error) => {
                session.end()?;
                return Err(error);
            }
        };
        Ok(Watch { feed, session, schemas, rules: Rules::default(), period: Instant::now() })
    }

    /// Returns what the session records.
    pub fn title(&self) -> &str {
        &self.session.title
    }

    /// Returns what the session has delivered until now.
    pub fn status(&mut self) -> WatchStatus {
        let trouble = self.session.trouble();
        let is_broken = self.feed.is_broken();
        let mut inner = self.feed.shared.lock();
        if self.period.elapsed() >= PERIOD {
            inner.model.roll(self.period.elapsed().as_secs_f64());
            self.period = Instant::now();
        }
        let ended = match &inner.ended {
            Some(Ok(())) => Some("the session has stopped".to_owned()),
            Some(Err(error)) => Some(error.to_string()),
            None => is_broken.then(|| "the thread that reads events has exited".to_owned()),
        };
        let counts = inner.model.counts;
        WatchStatus {
            events: counts.events.total,
            rate: counts.events.rate,
            lost: counts.lost,
            not_kept: counts.skipped,
            shown: inner.model.len(),
            next: inner.model.next(),
            ended,
            trouble,
        }
    }

    /// Sets which events are shown and highlighted, of those in memory and of future ones.
    pub fn set_rules(&mut self, rules: Vec<Rule>) {
        self.rules = Rules::new(rules);
        let wanted = (!self.rules.is_open()).then(|| Wanted::Rules(self.rules.clone()));
        self.feed.shared.lock().model.set_wanted(wanted);
    }

    /// Returns the number of shown events, and at most `limit` of them from the index `from` on; only those before the
    /// event with the number `until`, if there is one.
    pub fn lines(&self, from: usize, limit: usize, until: Option<u64>) -> (usize, Vec<WatchLine>) {
        let mut inner = self.feed.shared.lock();
        let model = &mut inner.model;
        let count = until.map_or(model.len(), |until| model.index_of(until));
        let mut lines = Vec::new();
        for index in from..count.min(from.saturating_add(limit)) {
            let Some(number) = model.number(index) else { break };
            let path = model.path(number).unwrap_or_default();
            let Some(line) = model.line(number) else { continue };
            let is_lit = self.rules.highlights(&line, &path);
            let Line {
                number,
                time,
                process,
                process_id,
                thread_id,
                operation,
                detail,
                result,
                duration,
                level,
            } = line;
            lines.push(WatchLine {
                number,
                time,
                process,
                process_id,
                thread_id,
                operation,
                detail,
                result,
                duration,
                level,
                is_lit,
            });
        }
        (count, lines)
    }

    /// Returns all details of an event, with its stack, one per line; nothing if the event is not in memory any more.
    pub fn details(&self, number: u64) -> Vec<String> {
        self.feed.shared.lock().model.details(number)
    }

    /// Writes the events in memory to a trace file, or only those that the rules show, with what names their processes,
    /// threads and files. Returns a summary of the file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn save(&self, path: &Path, only_shown: bool) -> Result<String> {
        let mut saving = Saving::begin(path, &self.feed.header)?;
        match only_shown {
            true => self.feed.shared.lock().model.for_each_shown(|record| saving.write(record)),
            false => self.feed.shared.lock().model.for_each_kept(|record| saving.write(record)),
        }
        saving.finish()?;
        if let Some((count, why)) = &saving.failed {
            bail!("{count} events could not be saved: {why}");
        }
        make_readable(path, &self.schemas, &self.session.processes())
    }

    /// Stops the session.
    ///
    /// # Errors
    ///
    /// Fails if the session cannot be stopped.
    pub fn stop(mut self) -> Result<Stopped> {
        self.feed.stop();
        self.session.end()?;
        Ok(Stopped { _session: self.session })
    }
}

/// Returns the kernel flags that a session has without any option: all supported ones except the most frequent.
#[must_use]
pub fn default_kernel_flags() -> String {
    default_flags().to_string()
}
