//! One pass over a trace: files and sessions merged, filtered and counted.

use std::ops::ControlFlow;

use etw_etl::{Damage, EtlFile, Loss, loss_of, lost_count};
use etw_event::{FileTime, Record};
use etw_filter::FilterScope;
use etw_schema::{CompiledSchema, Located, Undecoded};

use super::{Bounds, Hooks, LossReport, Trace, TraceError, open};
use crate::decoder::Decoder;
use crate::input::Input;
use crate::live::{SessionChange, Sink};
use crate::merge::Merge;
use crate::merge::plan::FilePlan;
use crate::overview::{self, Known};
use crate::{
    CallbackResult, Event, PartLosses, Predicate, SourceStatistics, Statistics, StatisticsHandle, StopHandle,
};

/// Number of records after which the counts are published for other threads.
const PUBLISHED_EVERY: u64 = 1024;

impl Trace {
    /// Reads all records of all files, whatever the filter and the limits are.
    pub(crate) fn pass_over_all(
        &mut self,
        mut visit: impl FnMut(&Record<'_>) -> Verdict,
    ) -> Result<(), TraceError> {
        let bounds = self.bounds();
        self.set_bounds(Bounds::default());
        let predicate = self.predicate.take();
        let process_names = std::mem::take(&mut self.process_names);
        let done = self.pass(|_, record| visit(record));
        self.set_bounds(bounds);
        (self.predicate, self.process_names) = (predicate, process_names);
        done
    }

    /// Reads all files and sessions together in time order. Every record is passed to `visit`, also those that the filter
    /// rejects ([`Pass::wants`]).
    ///
    /// # Errors
    ///
    /// Fails like [`Trace::for_each_record`].
    pub fn pass(
        &mut self,
        visit: impl FnMut(&mut Pass<'_>, &Record<'_>) -> Verdict,
    ) -> Result<(), TraceError> {
        let start = self.start_time();
        let Plans { files, planned, mut statistics } = Plans::new(&self.inputs, &self.decoder.overview)?;
        let live_names = self.names.get(files.len()..).unwrap_or_default();
        let live_sources =
            live_names.iter().map(|name| SourceStatistics { name: name.clone(), ..Default::default() });
        statistics.sources.extend(live_sources);
        let process_names = self.needs_process_names();
        if process_names {
            self.decoder.scan(&files, true);
        }
        let limit = self.limit.unwrap_or(u64::MAX);
        let mut reading = Reading {
            pass: Pass {
                decoder: &mut self.decoder,
                located: &mut self.located,
                files: &files,
                predicate: self.predicate.as_ref(),
                process_names,
                start,
                outcomes: Outcomes::default(),
            },
            visit,
            statistics,
            limit,
            checked_after: limit.min(PUBLISHED_EVERY),
            until_check: limit.min(PUBLISHED_EVERY),
            unpublished: 0,
            stop: &self.stop,
            counts: &self.counts,
            first_live: files.len() as u32,
            first_observed: if self.look_ahead { files.len() as u32 } else { 0 },
            hooks: &self.hooks,
        };
        let mut merge = Merge::new(planned, self.from, self.to).with_positions(self.places);
        let mut damaged = Statistics::default();
        let report = |source, damage| damaged.add_damage(source, damage);
        let mut error = None;
        match &mut self.live {
            _ if limit == 0 => {}
            None => merge.for_each(|record| reading.record(record), report),
            Some(live) => {
                let mut flow = ControlFlow::Continue(());
                let ordered = |record: &Record<'_>| {
                    flow = live.run_before(record, &self.stop, &mut reading);
                    flow?;
                    flow = reading.record(record);
                    flow
                };
                merge.for_each(ordered, report);
                if flow.is_continue() {
                    error = live.run(&self.stop, &mut reading).err();
                }
                for (name, header) in live.take_attached() {
                    self.names.push(name);
                    self.headers.push(header);
                }
            }
        }
        reading.sum();
        let mut statistics = reading.statistics;
        statistics.damage.extend(damaged.damage);
        statistics.damage_count += damaged.damage_count;
        statistics.inversions = merge.inversions;
        if let Some(live) = &self.live {
            statistics.inversions += live.inversions;
            statistics.buffers +=
                statistics.sources.iter().skip(files.len()).map(|source| source.buffers).sum::<u64>();
        }
        statistics.unkept_schema_records = self.decoder.unkept_schemas;
        statistics.unkept_process_records = self.decoder.unkept_processes();
        self.counts.publish(&statistics);
        self.statistics = statistics;
        error.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// The buffers of all files, planned before their records are read.
pub(super) struct Plans<'t> {
    pub(super) files: Vec<EtlFile<'t>>,
    pub(super) planned: Vec<(EtlFile<'t>, FilePlan)>,
    /// The statistics from headers and buffers.
    pub(super) statistics: Statistics,
}

impl<'t> Plans<'t> {
    /// Indexes all buffers; those that `known` has are not read.
    pub(super) fn new(inputs: &'t [Input], known: &Known) -> Result<Plans<'t>, TraceError> {
        let files = inputs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let mut planned = Vec::with_capacity(files.len());
        let mut statistics = Statistics::default();
        let headers: Vec<_> = files.iter().map(|file| file.header().clone()).collect();
        let losses = PartLosses::from_headers(&headers);
        for (((file, input), losses), number) in files.iter().zip(inputs).zip(losses).zip(0..) {
            let plan = match overview::of_file(known, number as usize) {
                Some(buffers) => FilePlan::known(file, buffers),
                None => FilePlan::new(file),
            };
            statistics.add_source_damage(number, input);
            statistics.buffers += plan.buffers.buffers;
            statistics.sources.push(SourceStatistics::new(input, file.header(), losses, &plan.buffers));
            planned.push((file.clone(), plan));
        }
        Ok(Plans { files, planned, statistics })
    }
}

/// The state of a pass.
struct Reading<'t, V> {
    pass: Pass<'t>,
    visit: V,
    /// Delivered events are summed when they are needed.
    statistics: Statistics,
    limit: u64,
    /// Number of records from one check of the limit and of what is published to the next one; these may be delivered.
    checked_after: u64,
    /// Number of records before the next check.
    until_check: u64,
    /// Number of records since counts were published.
    unpublished: u64,
    stop: &'t StopHandle,
    counts: &'t StatisticsHandle,
    /// Number of the first source that is a live session.
    first_live: u32,
    /// Number of the first source whose metadata records are learned as they are read.
    first_observed: u32,
    hooks: &'t Hooks,
}

impl<V> Reading<'_, V> {
    /// Lets other threads read the counts.
    #[cold]
    fn publish(&mut self) {
        self.sum();
        self.counts.publish(&self.statistics);
        self.unpublished = 0;
    }

    /// Computes the counts that are not kept for each record.
    fn sum(&mut self) {
        let statistics = &mut self.statistics;
        Outcomes { undecoded: statistics.undecoded, failed: statistics.failed } = self.pass.outcomes;
        statistics.records = statistics.sources.iter().map(|source| source.records).sum();
        statistics.delivered = statistics.sources.iter().map(|source| source.delivered).sum();
    }

    /// Breaks at the limit, and publishes the counts now and then.
    #[cold]
    fn check(&mut self) -> ControlFlow<()> {
        self.unpublished += self.checked_after;
        if self.unpublished >= PUBLISHED_EVERY {
            self.publish();
        }
        let delivered: u64 = self.statistics.sources.iter().map(|source| source.delivered).sum();
        self.checked_after = self.limit.saturating_sub(delivered).min(PUBLISHED_EVERY);
        self.until_check = self.checked_after;
        // Otherwise a live session would wait once more.
        match self.checked_after {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    /// Counts a loss in a live session and calls the callback for it.
    #[cold]
    fn add_live_loss(&mut self, loss: Loss, record: &Record<'_>) {
        let source = self.statistics.sources.get_mut(record.origin().source as usize);
        let Some(source) = source else { return };
        let count = lost_count(record);
        let lost = match loss {
            Loss::Events => Some(&mut source.events_lost),
            Loss::Buffers => Some(&mut source.buffers_lost),
            _ => None,
        };
        if let Some(lost) = lost {
            *lost = lost.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        }
        if let Some(hook) = &self.hooks.loss {
            hook(&source.name, &LossReport { loss, count, time: record.time() });
        }
        self.publish();
    }
}

impl<V: FnMut(&mut Pass<'_>, &Record<'_>) -> Verdict> Sink for Reading<'_, V> {
    #[inline]
    fn record(&mut self, record: &Record<'_>) -> ControlFlow<()> {
        if self.stop.is_stopped() {
            return ControlFlow::Break(());
        }
        let source = record.origin().source;
        if let Some(loss) = loss_of(record) {
            self.statistics.add_loss(loss);
            if source >= self.first_live {
                self.add_live_loss(loss, record);
            }
        }
        if source >= self.first_observed {
            self.pass.observe(record, source >= self.first_live);
        }
        let verdict = (self.visit)(&mut self.pass, record);
        if let Some(source) = self.statistics.sources.get_mut(source as usize) {
            source.records += 1;
            source.delivered += u64::from(verdict != Verdict::Passed);
        }
        self.until_check -= 1;
        if self.until_check == 0 {
            self.check()?;
        }
        match verdict {
            Verdict::End => ControlFlow::Break(()),
            Verdict::Passed | Verdict::Delivered => ControlFlow::Continue(()),
        }
    }

    fn damage(&mut self, source: u32, damage: Damage) {
        self.statistics.add_damage(source, damage);
    }

    fn buffer(&mut self, source: u32, is_after_lost_events: bool) {
        if let Some(source) = self.statistics.sources.get_mut(source as usize) {
            source.buffers += 1;
            source.buffers_after_lost_events += u64::from(is_after_lost_events);
        }
    }

    fn raw_buffer(&mut self, source: u32, read: impl FnOnce(&mut Vec<u64>) -> usize) {
        if let Some(hook) = &self.hooks.buffer {
            let mut copy = Vec::new();
            let len = read(&mut copy);
            hook(source, etw_sys::bytes_of(&copy).get(..len).unwrap_or_default());
        }
    }

    fn attached(&mut self, name: &str) {
        let source = SourceStatistics { name: name.to_owned(), ..SourceStatistics::default() };
        self.statistics.sources.push(source);
    }

    fn changed(&mut self, change: &SessionChange<'_>) {
        if let SessionChange::Reconnected { gap, .. } = change {
            self.statistics.gaps.push(*gap);
        }
        if let Some(hook) = &self.hooks.session {
            hook(change);
        }
    }

    fn idle(&mut self) {
        self.publish();
        if let Some(idle) = &self.hooks.idle {
            idle();
        }
    }
}

/// Numbers of delivered events that could not be decoded.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    /// Without a schema.
    undecoded: u64,
    /// With a payload that does not match the schema.
    failed: u64,
}

impl Outcomes {
    /// Counts an event that is not decoded completely.
    #[cold]
    pub(super) fn add(&mut self, has_schema: bool) {
        match has_schema {
            true => self.failed += 1,
            false => self.undecoded += 1,
        }
    }
}

/// The outcome for a record of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Rejected by the filter.
    Passed,
    /// Delivered.
    Delivered,
    /// Delivered, and reading ends.
    End,
}

impl Verdict {
    #[inline]
    pub(crate) fn delivered(result: impl CallbackResult) -> Verdict {
        if result.ends() { Verdict::End } else { Verdict::Delivered }
    }
}

/// A pass over a trace while it runs: its filter, and its decoder.
pub struct Pass<'t> {
    pub(crate) decoder: &'t mut Decoder,
    pub(crate) located: &'t mut Located,
    pub(crate) files: &'t [EtlFile<'t>],
    pub(crate) predicate: Option<&'t Predicate>,
    pub(crate) process_names: bool,
    pub(crate) start: FileTime,
    pub(crate) outcomes: Outcomes,
}

impl Pass<'_> {
    /// Learns from a record about schemas or, if their names are wanted, processes. For live sessions, looks up the name
    /// of the record's process.
    #[inline]
    pub(crate) fn observe(&mut self, record: &Record<'_>, is_live: bool) {
        self.decoder.observe(record, self.located, self.process_names);
        if is_live
            && self.process_names
            && let Some(id) = record.process_id()
        {
            self.decoder.processes.look_up(record.origin().source, id);
        }
    }

    /// Whether the filter accepts a record; `None` if the header does not decide it.
    #[inline]
    pub(crate) fn header_decides(&self, record: &Record<'_>) -> Option<bool> {
        let Some(predicate) = self.predicate else { return Some(true) };
        let scope = FilterScope::from_record(record, self.start);
        predicate.evaluate(&match self.process_names {
            true => scope.with_process(self.decoder.processes.name_of(record)),
            false => scope,
        })
    }

    /// Whether the filter accepts a record.
    #[inline]
    pub fn wants(&mut self, record: &Record<'_>) -> bool {
        match self.header_decides(record) {
            Some(wanted) => wanted,
            None => {
                let predicate = self.predicate;
                let event = self.event(record);
                predicate.is_none_or(|predicate| predicate.matches(&event))
            }
        }
    }

    /// Returns the schema of a record.
    ///
    /// # Errors
    ///
    /// Returns the reason why the record has no schema.
    #[inline]
    pub fn schema(&mut self, record: &Record<'_>) -> Result<&CompiledSchema, &Undecoded> {
        self.decoder.resolve(record, self.files)
    }

    /// Whether one of the files describes the event of a record ([`Resolver::is_carried`](etw_schema::Resolver::is_carried)).
    pub fn is_carried(&mut self, record: &Record<'_>) -> bool {
        // This finds what the files say of schemas.
        let has_schema = self.schema(record).is_ok();
        has_schema && self.decoder.resolver.is_carried(record)
    }

    /// Returns the image name of a record's process, if the trace's processes are known ([`Trace::processes`]).
    pub fn process_name(&self, record: &Record<'_>) -> Option<&str> {
        self.decoder.processes.name_of(record)
    }

    /// Decodes a record.
    #[inline]
    pub fn event<'e>(&'e mut self, record: &'e Record<'e>) -> Event<'e> {
        if self.process_names || self.decoder.needs_scan(record) {
            self.decoder.scan(self.files, self.process_names);
        }
        let Decoder { resolver, processes, .. } = &mut *self.decoder;
        let process = match self.process_names {
            true => processes.name_of(record),
            false => None,
        };
        Event { process, start: self.start, ..resolver.decode(record, self.located) }
    }
}
