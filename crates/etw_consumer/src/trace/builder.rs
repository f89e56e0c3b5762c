//! Builder for traces: sources and options.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use etw_schema::Located;

use super::{Hooks, LossReport, Trace, TraceError, open};
use crate::decoder::Decoder;
use crate::input::{Input, InputError, InputLimits};
use crate::live::{Channel, Live};
use crate::merge::one_clock;
use crate::{EventFilter, Predicate, Schemas, Statistics, StopHandle, TimePoint};

/// Sources and options of a trace; created by [`Trace::builder`].
#[derive(Debug, Clone, Default)]
pub struct TraceBuilder {
    sources: Vec<Source>,
    limits: InputLimits,
    skip_unreadable: bool,
    from: Option<TimePoint>,
    to: Option<TimePoint>,
    filter: Option<EventFilter>,
    only: Option<Predicate>,
    limit: Option<u64>,
    process_names: bool,
    no_look_ahead: bool,
    hooks: Hooks,
    schemas: Schemas,
}

/// A source of events.
#[derive(Debug, Clone)]
enum Source {
    Path(PathBuf),
    Bytes(String, Arc<[u8]>),
    Session(String),
}

impl TraceBuilder {
    /// Adds a file.
    pub fn file(mut self, path: impl AsRef<Path>) -> TraceBuilder {
        self.sources.push(Source::Path(path.as_ref().to_owned()));
        self
    }

    /// Adds a file that is in memory already; `name` is used in messages.
    pub fn bytes(mut self, name: &str, bytes: impl Into<Arc<[u8]>>) -> TraceBuilder {
        self.sources.push(Source::Bytes(name.to_owned(), bytes.into()));
        self
    }

    /// Adds a live session.
    pub fn session(mut self, name: &str) -> TraceBuilder {
        self.sources.push(Source::Session(name.to_owned()));
        self
    }

    /// Calls `idle` whenever everything that live sessions have sent so far has been delivered, before waiting for
    /// more.
    ///
    /// Use it to flush output.
    pub fn on_idle(mut self, idle: impl Fn() + Send + Sync + 'static) -> TraceBuilder {
        self.hooks.idle = Some(Arc::new(idle));
        self
    }

    /// Calls `loss` with the session's name whenever a live session reports a loss.
    ///
    /// This does not depend on whether a filter lets the record of the loss pass.
    pub fn on_loss(mut self, loss: impl Fn(&str, &LossReport) + Send + Sync + 'static) -> TraceBuilder {
        self.hooks.loss = Some(Arc::new(loss));
        self
    }

    /// Sets limits for opening files.
    pub fn limits(mut self, limits: InputLimits) -> TraceBuilder {
        self.limits = limits;
        self
    }

    /// Skips unreadable files, and unreadable traces in archives, if there are others.
    ///
    /// [`Trace::unreadable`] returns their errors. By default opening fails with the first of them.
    pub fn skip_unreadable(mut self, wanted: bool) -> TraceBuilder {
        self.skip_unreadable = wanted;
        self
    }

    /// Skips records before this time.
    pub fn from(mut self, time: TimePoint) -> TraceBuilder {
        self.from = Some(time);
        self
    }

    /// Ends at this time: records at this time and later are left out.
    pub fn to(mut self, time: TimePoint) -> TraceBuilder {
        self.to = Some(time);
        self
    }

    /// Delivers only events that match the filter: its conditions, times and limit.
    ///
    /// Replaces the filter, times and limit that were set before. Keywords in it are looked up in the schemas when the
    /// files are opened.
    pub fn filter(mut self, filter: &EventFilter) -> TraceBuilder {
        (self.from, self.to, self.limit) = (filter.from, filter.to, filter.limit);
        self.filter = Some(filter.clone());
        self
    }

    /// Delivers only events that match the predicate, in addition to all others that were set.
    pub fn only(mut self, predicate: Predicate) -> TraceBuilder {
        self.only = Some(match self.only {
            Some(before) => before.and(predicate),
            None => predicate,
        });
        self
    }

    /// Delivers at most this many events.
    pub fn limit(mut self, events: u64) -> TraceBuilder {
        self.limit = Some(events);
        self
    }

    /// Adds process names to events; files are scanned once before they are read.
    pub fn process_names(mut self, wanted: bool) -> TraceBuilder {
        self.process_names = wanted;
        self
    }

    /// Sets whether files are scanned for metadata before the first event that may need it. The default is true.
    ///
    /// Schemas and process names may be anywhere in a file, often at the end, so the scan takes as long as reading it.
    /// Without the scan, events are delivered immediately, and each is decoded with what comes before it, as in live
    /// sessions; [`Trace::for_each_record_unordered`] then uses no metadata from the files.
    pub fn look_ahead(mut self, wanted: bool) -> TraceBuilder {
        self.no_look_ahead = !wanted;
        self
    }

    /// Sets the schema sources for decoding. The default is the built-in schemas.
    pub fn schemas(mut self, schemas: &Schemas) -> TraceBuilder {
        self.schemas = schemas.clone();
        self
    }

    /// Opens the files and sessions.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be opened or is not a trace, if a session does not exist or is not a real-time session,
    /// or if the filter has a keyword that its provider does not have.
    pub fn open(self) -> Result<Trace, TraceError> {
        self.open_with(Vec::new())
    }

    /// Opens the files and sessions, in addition to sessions that are open already.
    pub(crate) fn open_with(self, mut channels: Vec<(Channel, String)>) -> Result<Trace, TraceError> {
        let predicate = self.predicate()?;
        let (mut inputs, mut unreadable) = (Vec::new(), Vec::new());
        for source in self.sources {
            let found = match source {
                Source::Path(path) => Input::open_each(&path, &self.limits),
                Source::Bytes(name, bytes) => Input::from_bytes(&name, bytes, &self.limits)
                    .map(|inputs| inputs.into_iter().map(Ok).collect()),
                Source::Session(name) => {
                    channels.push((Channel::open(&name)?, name));
                    continue;
                }
            };
            for input in found.unwrap_or_else(|error| vec![Err(error)]) {
                let readable = input.and_then(|input| {
                    open(&input)?;
                    Ok(input)
                });
                match readable {
                    Ok(input) => inputs.push(input),
                    Err(error) if self.skip_unreadable => unreadable.push(error),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        if inputs.is_empty() && channels.is_empty() {
            let error = if unreadable.is_empty() { InputError::Nothing } else { unreadable.swap_remove(0) };
            return Err(error.into());
        }
        let mut files = inputs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        for (channel, name) in &channels {
            files.push(channel.header_file(name)?);
        }
        let headers: Vec<_> = files.iter().map(|file| file.header().clone()).collect();
        let clocks = one_clock::clocks(&mut files);
        let names = inputs.iter().map(Input::name).chain(channels.iter().map(|(_, name)| &**name));
        let names = names.map(str::to_owned).collect();
        drop(files);
        let live = match channels.is_empty() {
            true => None,
            false => Some(Live::new(channels, &clocks)?),
        };
        let mut trace = Trace {
            inputs,
            unreadable,
            live,
            hooks: self.hooks,
            names,
            headers,
            from: None,
            to: None,
            predicate,
            limit: self.limit,
            process_names: self.process_names,
            look_ahead: !self.no_look_ahead,
            decoder: match Decoder::new(self.schemas.resolver()) {
                decoder if self.no_look_ahead => decoder.without_scan(),
                decoder => decoder,
            },
            located: Located::new(),
            stop: StopHandle::default(),
            statistics: Statistics::default(),
        };
        let start = trace.start_time();
        trace.from = self.from.map(|time| time.resolve(start));
        trace.to = self.to.map(|time| time.resolve(start));
        if let Some(live) = &mut trace.live {
            live.limit_to(trace.from, trace.to);
        }
        Ok(trace)
    }

    /// Returns the filter and all other predicates as one predicate.
    fn predicate(&self) -> Result<Option<Predicate>, TraceError> {
        let Some(mut filter) = self.filter.clone() else { return Ok(self.only.clone()) };
        let mut resolver = self.schemas.resolver();
        for spec in &mut filter.providers {
            let guids = spec.provider.guids();
            let infos: Vec<_> = guids.iter().filter_map(|guid| resolver.provider_info(guid)).collect();
            let keywords = || infos.iter().flat_map(|info| &info.keywords);
            spec.resolve_keywords(
                |name| keywords().find(|known| known.name.eq_ignore_ascii_case(name)).map(|known| known.mask),
                || keywords().map(|known| known.name.to_string()).collect(),
            )?;
        }
        Ok(match (filter.predicate(), self.only.clone()) {
            (Some(filter), Some(only)) => Some(filter.and(only)),
            (filter, only) => filter.or(only),
        })
    }
}
