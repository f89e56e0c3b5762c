//! Builder for traces: sources and options.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etw_schema::Located;

use super::{Hooks, LossReport, Trace, TraceError, open};
use crate::decoder::Decoder;
use crate::input::{Input, InputError, InputLimits, Spooled};
use crate::live::{Address, Live, Opened, SessionChange};
use crate::one_clock;
use crate::overview::{self, Overview};
use crate::processes::Machines;
use crate::{EventFilter, Predicate, Schemas, Statistics, StatisticsHandle, StopHandle, TimePoint};

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
    threads: Option<NonZeroUsize>,
    reconnects: bool,
    stop: Option<StopHandle>,
    counts: Option<StatisticsHandle>,
    hooks: Hooks,
    schemas: Schemas,
    overview: Option<Arc<Overview>>,
}

/// A source of events.
#[derive(Debug, Clone)]
enum Source {
    Path(PathBuf),
    Bytes(String, Arc<[u8]>),
    Spooled(Spooled),
    Unfetched(String),
    Session(Address),
}

impl TraceBuilder {
    /// Adds a file, which must not change while the trace is open ([`Input::open`](crate::Input::open)).
    pub fn file(mut self, path: impl AsRef<Path>) -> TraceBuilder {
        self.sources.push(Source::Path(path.as_ref().to_owned()));
        self
    }

    /// Adds a file that is in memory already; `name` is used in messages.
    pub fn bytes(mut self, name: &str, bytes: impl Into<Arc<[u8]>>) -> TraceBuilder {
        self.sources.push(Source::Bytes(name.to_owned(), bytes.into()));
        self
    }

    /// Adds a file that was read from a pipe.
    pub fn spooled(mut self, spooled: &Spooled) -> TraceBuilder {
        self.sources.push(Source::Spooled(spooled.clone()));
        self
    }

    /// Adds a trace that is on another machine and was not fetched, so that it cannot be read; `reason` has its name.
    pub fn unfetched(mut self, reason: &str) -> TraceBuilder {
        self.sources.push(Source::Unfetched(reason.to_owned()));
        self
    }

    /// Adds a live session.
    pub fn session(mut self, name: &str) -> TraceBuilder {
        self.sources.push(Source::Session(Address { name: name.to_owned(), directory: None }));
        self
    }

    /// Adds a live session of the host whose instance has this directory, wherever other hosts run.
    pub fn session_at(mut self, directory: impl AsRef<Path>, name: &str) -> TraceBuilder {
        let directory = Some(directory.as_ref().to_owned());
        self.sources.push(Source::Session(Address { name: name.to_owned(), directory }));
        self
    }

    /// Sets whether a live session that has ended is opened again. The default is false.
    ///
    /// A pass then goes on after a session was stopped or its host went away, and reads the next session of this name as
    /// soon as there is one. Such a pass ends by [`StopHandle`], the limit, the callback, or when all sessions have been
    /// detached. Each reconnection is a source of its own, and the time that was not read is reported: to
    /// [`TraceBuilder::on_session_change`], and in [`Statistics::gaps`]. A session whose ring is broken is not opened
    /// again.
    pub fn reconnect(mut self, wanted: bool) -> TraceBuilder {
        self.reconnects = wanted;
        self
    }

    /// Calls `change` when a live session ends, is attached, or is opened again, on the thread that reads.
    ///
    /// A session ends when everything that it sent has been delivered.
    pub fn on_session_change(
        mut self,
        change: impl Fn(&SessionChange<'_>) + Send + Sync + 'static,
    ) -> TraceBuilder {
        self.hooks.session = Some(Arc::new(change));
        self
    }

    /// Uses this handle to stop reading, instead of a new one.
    pub fn stop_handle(mut self, stop: &StopHandle) -> TraceBuilder {
        self.stop = Some(stop.clone());
        self
    }

    /// Publishes the counts of a running pass to this handle, instead of a new one.
    pub fn statistics_handle(mut self, counts: &StatisticsHandle) -> TraceBuilder {
        self.counts = Some(counts.clone());
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

    /// Calls `buffer` with the number of a live session's source and each of its buffers as they arrive, before their records
    /// are delivered: first the one with the log file header, then pieces of buffers, each with a header of its own, and
    /// buffers of type `REFERENCE_TIME`, which say up to which time everything has been sent. They can be fed to another
    /// trace ([`TraceBuilder::open_feed`]).
    ///
    /// A loss of buffers between the session and this trace is in none of them; see [`TraceBuilder::on_loss`].
    pub fn on_buffer(mut self, buffer: impl Fn(u32, &[u8]) + Send + Sync + 'static) -> TraceBuilder {
        self.hooks.buffer = Some(Arc::new(buffer));
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

    /// Limits the threads that scan files for metadata. The default is one per processor, at most 16.
    ///
    /// Records are delivered on the caller's thread, or by [`Trace::for_each_record_unordered`] on as many threads as
    /// it has states.
    pub fn threads(mut self, limit: NonZeroUsize) -> TraceBuilder {
        self.threads = Some(limit);
        self
    }

    /// Sets the schema sources for decoding. The default is the built-in schemas.
    pub fn schemas(mut self, schemas: &Schemas) -> TraceBuilder {
        self.schemas = schemas.clone();
        self
    }

    /// Uses what is known of the buffers of the files, from [`Trace::overview`] of the same files, which must not have
    /// changed since.
    ///
    /// Reading a range of time then touches only the buffers that can have its records, and those that describe events. What
    /// is delivered is the same.
    pub fn overview(mut self, overview: &Arc<Overview>) -> TraceBuilder {
        self.overview = Some(overview.clone());
        self
    }

    /// Opens the files and sessions.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be opened or is not a trace, if a session does not exist or is not a real-time session,
    /// or if the filter has a keyword that its provider does not have, or a condition on stacks without names for them.
    pub fn open(self) -> Result<Trace, TraceError> {
        self.open_with(Vec::new())
    }

    /// Opens the files and sessions and, after the files, a live session whose buffers this program brings. `name` is used
    /// in messages, and `first` is the session's first buffer, with its log file header.
    ///
    /// # Errors
    ///
    /// Fails as [`TraceBuilder::open`] does, or if the first buffer has no log file header.
    #[cfg(target_os = "linux")]
    pub fn open_feed(self, name: &str, first: &[u8]) -> Result<(Trace, crate::BufferFeed), TraceError> {
        let (feed, opened) = crate::BufferFeed::new(name, first)?;
        Ok((self.open_with(vec![opened])?, feed))
    }

    /// Opens the files and sessions, in addition to sessions that are open already.
    pub(crate) fn open_with(self, mut sessions: Vec<Opened>) -> Result<Trace, TraceError> {
        let predicate = self.predicate()?;
        if predicate.as_ref().is_some_and(Predicate::needs_stacks) {
            return Err(TraceError::StackFilter);
        }
        let (mut inputs, mut unreadable) = (Vec::new(), Vec::new());
        for source in self.sources {
            let found = match source {
                Source::Path(path) => Input::open_each(&path, &self.limits),
                Source::Bytes(name, bytes) => Input::from_bytes(&name, bytes, &self.limits)
                    .map(|inputs| inputs.into_iter().map(Ok).collect()),
                Source::Spooled(spooled) => Input::open_spooled(&spooled, &self.limits),
                Source::Unfetched(reason) => Err(InputError::Fetch { reason }),
                Source::Session(address) => {
                    sessions.push(Opened::open(address)?);
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
        if inputs.is_empty() && sessions.is_empty() {
            let error = if unreadable.is_empty() { InputError::Nothing } else { unreadable.swap_remove(0) };
            return Err(error.into());
        }
        let mut files = inputs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        for session in &sessions {
            files.push(session.channel.header_file(&session.address.name)?);
        }
        let headers: Vec<_> = files.iter().map(|file| file.header().clone()).collect();
        let machines = Machines::new(headers.get(..inputs.len()).unwrap_or_default());
        let clocks = one_clock::clocks(&mut files);
        let lengths: Vec<usize> = inputs.iter().map(|input| input.bytes().len()).collect();
        let known = self.overview.as_deref().and_then(|overview| overview::checked(overview, &lengths));
        let names =
            inputs.iter().map(Input::name).chain(sessions.iter().map(|session| &*session.address.name));
        let names = names.map(str::to_owned).collect();
        drop(files);
        let live = match sessions.is_empty() {
            true => None,
            false => Some(Live::new(sessions, &headers, &clocks, self.reconnects)?),
        };
        let threads = self.threads.map_or(usize::MAX, NonZeroUsize::get);
        let mut resolver = self.schemas.resolver();
        resolver.set_builds(headers.iter().map(|header| header.provider_version).collect());
        let sources = 0..u32::try_from(headers.len()).unwrap_or(u32::MAX);
        resolver.set_machines(&sources.map(|source| machines.of(source)).collect::<Vec<_>>());
        let mut trace = Trace {
            inputs: inputs.into(),
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
            places: false,
            look_ahead: !self.no_look_ahead,
            decoder: match Decoder::new(resolver, machines, threads) {
                decoder if self.no_look_ahead => decoder.without_scan(),
                decoder => decoder,
            },
            located: Located::new(),
            stop: self.stop.unwrap_or_default(),
            counts: self.counts.unwrap_or_default(),
            statistics: Statistics::default(),
        };
        trace.decoder.overview = known;
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
