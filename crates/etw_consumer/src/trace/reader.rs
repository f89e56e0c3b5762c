//! Reading without a callback: one record per call.

use std::ops::Deref;

use etw_etl::{EtlFile, loss_of};
use etw_event::{FileTime, Record};
use etw_schema::{Located, Undecoded};

use super::pass::{Outcomes, Pass, Plans};
use super::{Trace, TraceError};
use crate::decoder::Decoder;
use crate::merge::Merge;
use crate::{Event, Predicate, SchemaEvent, Statistics, StopHandle};

/// A reader that returns the records of trace files one per call, in time order; created by [`Trace::reader`].
///
/// The times, filters, limit and [`Trace::statistics`] are those of [`Trace::for_each_record`]. A record is valid
/// until the next call. A callback is faster by a few nanoseconds a record.
///
/// ```no_run
/// let mut trace = etw_consumer::Trace::open_file("trace.etl")?;
/// let mut reader = trace.reader()?;
/// while let Some(mut record) = reader.next_record() {
///     println!("{} {}", record.time(), record.process_id().unwrap_or_default());
///     if let Ok(id) = record.event().get::<u32>("ProcessID") {
///         println!("{id}");
///     }
/// }
/// # Ok::<(), etw_consumer::TraceError>(())
/// ```
#[derive(Debug)]
pub struct TraceReader<'t> {
    merge: Merge<'t>,
    files: Vec<EtlFile<'t>>,
    decoder: &'t mut Decoder,
    located: &'t mut Located,
    statistics: &'t mut Statistics,
    predicate: Option<&'t Predicate>,
    stop: &'t StopHandle,
    limit: u64,
    process_names: bool,
    look_ahead: bool,
    start: FileTime,
}

/// A record of a [`TraceReader`], which can be read on levels 1 to 3.
pub struct ReadRecord<'a> {
    record: Record<'a>,
    pass: Pass<'a>,
}

impl<'t> TraceReader<'t> {
    pub(super) fn new(trace: &'t mut Trace) -> Result<TraceReader<'t>, TraceError> {
        if trace.live.is_some() {
            return Err(TraceError::ReadsFilesOnly);
        }
        let (start, process_names) = (trace.start_time(), trace.needs_process_names());
        let Plans { files, planned, statistics } = Plans::new(&trace.inputs, &trace.decoder.overview)?;
        if process_names {
            trace.decoder.scan(&files, true);
        }
        trace.statistics = statistics;
        Ok(TraceReader {
            merge: Merge::new(planned, trace.from, trace.to).with_positions(trace.places),
            files,
            decoder: &mut trace.decoder,
            located: &mut trace.located,
            statistics: &mut trace.statistics,
            predicate: trace.predicate.as_ref(),
            stop: &trace.stop,
            limit: trace.limit.unwrap_or(u64::MAX),
            process_names,
            look_ahead: trace.look_ahead,
            start,
        })
    }

    /// Returns the next record that the filters let pass; `None` at the end, at the limit, or after a stop.
    pub fn next_record(&mut self) -> Option<ReadRecord<'_>> {
        loop {
            let TraceReader { merge, statistics, .. } = self;
            if statistics.delivered >= self.limit || self.stop.is_stopped() {
                return None;
            }
            let is_there = merge.advance(|source, damage| statistics.add_damage(source, damage));
            statistics.inversions = merge.inversions;
            statistics.unkept_schema_records = self.decoder.unkept_schemas;
            statistics.unkept_process_records = self.decoder.unkept_processes();
            if !is_there {
                return None;
            }
            let record = merge.current()?;
            statistics.records += 1;
            if let Some(loss) = loss_of(&record) {
                statistics.add_loss(loss);
            }
            let mut pass = Pass {
                decoder: &mut *self.decoder,
                located: &mut *self.located,
                files: &self.files,
                predicate: self.predicate,
                process_names: self.process_names,
                start: self.start,
                outcomes: Outcomes::default(),
            };
            if !self.look_ahead {
                pass.observe(&record, false);
            }
            let wanted = pass.wants(&record);
            if let Some(source) = statistics.sources.get_mut(record.origin().source as usize) {
                source.records += 1;
                source.delivered += u64::from(wanted);
            }
            if wanted {
                statistics.delivered += 1;
                break;
            }
        }
        let pass = Pass {
            decoder: &mut *self.decoder,
            located: &mut *self.located,
            files: &self.files,
            predicate: self.predicate,
            process_names: self.process_names,
            start: self.start,
            outcomes: Outcomes::default(),
        };
        Some(ReadRecord { record: self.merge.current()?, pass })
    }

    /// Returns the statistics so far.
    pub fn statistics(&self) -> &Statistics {
        self.statistics
    }
}

impl ReadRecord<'_> {
    /// Level 1: returns the record.
    pub fn record(&self) -> &Record<'_> {
        &self.record
    }

    /// Level 2: returns the record with its schema.
    pub fn schema(&mut self) -> SchemaEvent<'_> {
        let ReadRecord { record, pass } = self;
        let schema: Result<_, &Undecoded> = pass.decoder.resolve(record, pass.files);
        SchemaEvent { record, schema }
    }

    /// Level 3: returns the record with every property located.
    pub fn event(&mut self) -> Event<'_> {
        self.pass.event(&self.record)
    }
}

impl<'a> Deref for ReadRecord<'a> {
    type Target = Record<'a>;

    fn deref(&self) -> &Record<'a> {
        &self.record
    }
}

impl std::fmt::Debug for ReadRecord<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.record.fmt(f)
    }
}
