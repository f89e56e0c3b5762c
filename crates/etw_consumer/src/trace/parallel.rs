//! Reading without an order, on several threads, for counting, searching and summing.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use etw_etl::{BufferFlags, EtlFile, LogFileHeader, loss_of};
use etw_event::Record;
use etw_schema::Located;

use super::pass::{Outcomes, Pass};
use super::{Trace, TraceError, open};
use crate::decoder::{Decoder, Found};
use crate::one_clock;
use crate::overview::{self, BufferSummary};
use crate::statistics::BufferCounts;
use crate::unordered::{self, FileItem};
use crate::{CallbackResult, PartLosses, SourceStatistics, Statistics};

/// The state of one thread.
struct Worker<'s, S> {
    state: &'s mut S,
    decoder: Decoder,
    located: Located,
    seen: ThreadCounts,
}

/// What one thread has counted.
#[derive(Debug, Default)]
struct ThreadCounts {
    statistics: Statistics,
    /// Counts of buffers, by file.
    buffers: Vec<BufferCounts>,
    /// Records read and delivered, by file.
    records: Vec<[u64; 2]>,
}

impl ThreadCounts {
    fn new(files: usize) -> ThreadCounts {
        ThreadCounts {
            statistics: Statistics::default(),
            buffers: vec![BufferCounts::default(); files],
            records: vec![[0; 2]; files],
        }
    }

    fn buffer(&mut self, source: u32, flags: BufferFlags) {
        self.buffers.get_mut(source as usize).into_iter().for_each(|counts| counts.add(flags));
    }

    #[inline]
    fn read(&mut self, record: &Record<'_>, source: u32) {
        self.records.get_mut(source as usize).into_iter().for_each(|[read, _]| *read += 1);
        if let Some(loss) = loss_of(record) {
            self.statistics.add_loss(loss);
        }
    }

    #[inline]
    fn delivered(&mut self, source: u32) {
        self.records.get_mut(source as usize).into_iter().for_each(|[_, delivered]| *delivered += 1);
    }

    /// Adds what another thread has counted.
    fn add(&mut self, other: ThreadCounts) {
        let parts = other.records.iter().flatten();
        self.records.as_flattened_mut().iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        self.statistics.add(other.statistics);
        self.buffers.iter_mut().zip(&other.buffers).for_each(|(sum, part)| sum.merge(part));
    }
}

impl Trace {
    /// Level 1 without an order, on several threads: calls `callback` with every record that the filters let pass.
    ///
    /// The number of threads is at most the number of states, and each thread uses one state. Small files are read by
    /// one thread.
    ///
    /// Traces with live sessions are read in order, with the first state.
    ///
    /// The times, filters and [`Trace::statistics`] are those of [`Trace::for_each_record`], with three differences:
    /// inversions of time are not counted, records dropped for times out of order are not damage
    /// ([`DamageKind::TimeOrder`](etw_etl::DamageKind::TimeOrder)), and a limit applies to whichever records are read
    /// first. A callback that ends reading ends it for all threads, at once or a few records later.
    ///
    /// ```no_run
    /// let mut trace = etw_consumer::Trace::open_file("trace.etl")?;
    /// let mut bytes = [0; 8];
    /// trace.for_each_record_unordered(&mut bytes, |sum, record| *sum += record.as_bytes().len())?;
    /// println!("{}", bytes.iter().sum::<usize>());
    /// # Ok::<(), etw_consumer::TraceError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails like [`Trace::for_each_record`].
    pub fn for_each_record_unordered<S: Send, R: CallbackResult>(
        &mut self,
        states: &mut [S],
        callback: impl Fn(&mut S, &Record<'_>) -> R + Sync,
    ) -> Result<(), TraceError> {
        if self.live.is_some() {
            let Some(state) = states.first_mut() else { return Ok(()) };
            return self.for_each_record(|record| callback(state, record));
        }
        let start = self.start_time();
        let mut files = self.inputs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        one_clock::share(files.iter_mut());
        let predicate = self.predicate.as_ref();
        let process_names = self.needs_process_names();
        if process_names || predicate.is_some() {
            self.decoder.scan(&files, process_names);
        }
        let (from, to, stop) = (self.from, self.to, &self.stop);
        let left = self.limit.map(AtomicU64::new);
        let mut workers: Vec<Worker<'_, S>> = states
            .iter_mut()
            .map(|state| Worker {
                state,
                decoder: self.decoder.clone(),
                located: Located::new(),
                seen: ThreadCounts::new(files.len()),
            })
            .collect();
        let known = &self.decoder.overview;
        let is_within = |file: &EtlFile<'_>, buffer: &BufferSummary| {
            let time = |ticks| file.clock().to_filetime(ticks);
            buffer.has_damage
                || buffer.records > 0
                    && from.is_none_or(|from| time(buffer.max) >= from)
                    && to.is_none_or(|to| time(buffer.min) < to)
        };
        let is_within = &is_within;
        let wanted = files.iter().zip(0..).flat_map(|(file, source)| {
            let known = overview::of_file(known, source as usize);
            overview::buffers(file, known, move |buffer| is_within(file, buffer))
                .map(move |buffer| (file, source, buffer))
        });
        unordered::for_each_of(&files, wanted, &mut workers, |worker, source, met| {
            let record = match met {
                FileItem::Record(record, _) => record,
                FileItem::Buffer(_) if overview::of_file(known, source as usize).is_some() => {
                    return ControlFlow::Continue(());
                }
                FileItem::Buffer(buffer) => {
                    worker.seen.buffer(source, buffer.header.buffer_flag);
                    return ControlFlow::Continue(());
                }
                FileItem::Damage(damage) => {
                    worker.seen.statistics.add_damage(source, damage);
                    return ControlFlow::Continue(());
                }
            };
            if stop.is_stopped() {
                return ControlFlow::Break(());
            }
            if from.is_some_and(|from| record.time() < from) || to.is_some_and(|to| record.time() >= to) {
                return ControlFlow::Continue(());
            }
            worker.seen.read(record, source);
            let (decoder, located) = (&mut worker.decoder, &mut worker.located);
            let mut pass = Pass {
                decoder,
                located,
                files: &files,
                predicate,
                process_names,
                start,
                outcomes: Outcomes::default(),
            };
            if !pass.wants(record) {
                return ControlFlow::Continue(());
            }
            let one_less = |left: u64| left.checked_sub(1);
            if left.as_ref().is_some_and(|left| {
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err()
            }) {
                return ControlFlow::Break(());
            }
            worker.seen.delivered(source);
            callback(worker.state, record).into_flow()
        });
        let mut all = ThreadCounts::new(files.len());
        for (counts, file) in all.buffers.iter_mut().zip(0..) {
            let known = overview::of_file(known, file).unwrap_or_default();
            known.iter().for_each(|buffer| counts.add(buffer.flags));
        }
        workers.into_iter().for_each(|worker| all.add(worker.seen));
        let headers: Vec<_> = files.iter().map(|file| file.header().clone()).collect();
        self.conclude(all, &headers);
        Ok(())
    }

    /// Calls `visit` with everything in the files, and the number of the file, without an order, on several threads; each
    /// has a state that `state` makes. Returns the states.
    ///
    /// Neither the filter nor the limits apply. With `learns`, schemas in the trace are found meanwhile. The buffer of a
    /// record is the last one that its thread was called with. If a call breaks or reading is stopped
    /// ([`Trace::stop_handle`]), all threads stop.
    ///
    /// # Errors
    ///
    /// Fails if a file has changed since it was opened.
    pub fn survey<S: Send>(
        &mut self,
        learns: bool,
        state: impl Fn() -> S,
        visit: impl Fn(&mut S, u32, FileItem<'_>) -> ControlFlow<()> + Sync,
    ) -> Result<Vec<S>, TraceError> {
        let mut files = self.inputs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        one_clock::share(files.iter_mut());
        let search = learns.then(|| self.decoder.search(false));
        let (searching, stop) = (search.as_ref(), &self.stop);
        let worker = |_| (state(), ThreadCounts::new(files.len()), Found::default());
        let mut workers: Vec<(S, ThreadCounts, Found)> =
            (0..unordered::threads(&files)).map(worker).collect();
        unordered::for_each(&files, &mut workers, |(state, seen, found), source, item| {
            match item {
                FileItem::Buffer(buffer) => seen.buffer(source, buffer.header.buffer_flag),
                FileItem::Record(record, place) => {
                    seen.read(record, source);
                    seen.delivered(source);
                    if let Some(search) = searching {
                        search.look_at(record, place, found);
                    }
                }
                FileItem::Damage(damage) => seen.statistics.add_damage(source, damage),
            }
            visit(state, source, item)?;
            if stop.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let headers: Vec<_> = files.iter().map(|file| file.header().clone()).collect();
        let (mut all, mut all_found, mut states) =
            (ThreadCounts::new(headers.len()), Found::default(), Vec::new());
        for (state, seen, found) in workers {
            all.add(seen);
            all_found.append(found);
            states.push(state);
        }
        // What a stopped search has found is not all.
        if let Some(search) = search.filter(|_| !self.stop.is_stopped()) {
            self.decoder.learn(search, all_found);
        }
        self.conclude(all, &headers);
        Ok(states)
    }

    /// Sets the statistics of a pass without an order over files with these headers.
    fn conclude(&mut self, seen: ThreadCounts, headers: &[LogFileHeader]) {
        let ThreadCounts { mut statistics, buffers, records } = seen;
        for (input, number) in self.inputs.iter().zip(0..) {
            statistics.add_source_damage(number, input);
        }
        statistics.sort_damage();
        let files = self.inputs.iter().zip(headers).zip(PartLosses::from_headers(&self.headers));
        for ((((input, header), losses), counts), [read, delivered]) in files.zip(&buffers).zip(records) {
            statistics.records += read;
            statistics.delivered += delivered;
            statistics.buffers += counts.buffers;
            let source = SourceStatistics::new(input, header, losses, counts);
            statistics.sources.push(SourceStatistics { records: read, delivered, ..source });
        }
        statistics.unkept_schema_records = self.decoder.unkept_schemas;
        statistics.unkept_process_records = self.decoder.unkept_processes();
        self.counts.publish(&statistics);
        self.statistics = statistics;
    }
}
