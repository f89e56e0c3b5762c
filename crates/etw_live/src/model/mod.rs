//! The model: state derived from the received events, independent of displays.

mod bounded;
mod decode;
mod facts;
pub(crate) mod filter;
mod line;
mod lookup;
mod meter;
mod remembered;
pub(crate) mod rows;
mod rules;
mod state;
mod store;
pub(crate) mod tables;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};

use anyhow::Result;
use etw_app::UsageError;
use openetw::schema::Resolver;
use openetw::{EventFilter, FileTime, Record, Ticks, Trace, classes};

pub use filter::Wanted;
pub use line::Line;
pub(crate) use lookup::Lookup;
pub use meter::Meter;
pub use rows::Column;
pub use rules::{Rule, Rules};

use decode::Decoder;
use facts::Fact;
use filter::Base;
use remembered::Remembered;
use state::{Meaning, Role, Stamp, State};
use store::{End, Known, Store};

/// Maximum number of events per second that a live view keeps for display; the tables count all events.
const MAX_SHOWN_PER_SECOND: u64 = 200_000;
/// Maximum number of events between an event and its stack.
const STACK_DISTANCE: u64 = 2000;

/// State derived from the received events.
#[derive(Debug)]
pub struct Model {
    pub(crate) state: State,
    store: Store,
    decoder: Decoder,
    base: Base,
    wanted: Option<Wanted>,
    remembered: Remembered,
    /// Numbers of the shown events.
    shown: VecDeque<u64>,
    /// Counts of all events.
    pub counts: Counts,
    /// The current second, and the number of events kept in it.
    second: (i64, u64),
    max_shown_per_second: u64,
}

/// Counts of events.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Counts {
    /// Events, those not kept too.
    pub events: Meter,
    /// Events lost by the session, or because this consumer was too slow.
    pub lost: u64,
    /// Events counted in the tables but not kept.
    pub skipped: u64,
}

/// Result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Found at this index in the shown events.
    At(usize),
    /// Not finished; continue at this index.
    GoOn(usize),
    /// No line contains the text.
    Nothing,
}

impl Model {
    pub(crate) fn new(resolver: Resolver, start: FileTime, keep: usize, base: Base, lookup: Lookup) -> Model {
        Model {
            state: State::new(lookup),
            store: Store::new(keep),
            decoder: Decoder::new(resolver, start),
            base,
            wanted: None,
            remembered: Remembered::new(),
            shown: VecDeque::new(),
            counts: Counts::default(),
            second: (0, 0),
            max_shown_per_second: MAX_SHOWN_PER_SECOND,
        }
    }

    /// Returns an empty model that knows the schemas and process names of files, and keeps the newest events that the filter
    /// accepts.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read, or if the files are of several machines ([`UsageError`]).
    pub fn of_files(trace: &mut Trace, keep: usize, filter: &EventFilter) -> Result<Model> {
        let processes = trace.processes()?.clone();
        let other = (1..trace.inputs().len()).find(|source| {
            // Ids of processes and threads, and addresses, have a meaning on one machine only.
            processes.machine_of(*source as u32) != processes.machine_of(0)
        });
        if let Some(other) = other.and_then(|source| trace.source_names().nth(source)) {
            let first = trace.source_names().next().unwrap_or_default();
            return Err(UsageError(format!(
                "{first} and {other} are of different machines or system starts; watch them one at a time"
            ))
            .into());
        }
        let lookup = Lookup::of_trace(processes);
        let base = Base::new(filter, false);
        let mut model = Model::new(trace.resolver().clone(), trace.start_time(), keep, base, lookup);
        model.max_shown_per_second = u64::MAX;
        Ok(model)
    }

    /// Adds a record; records must be in time order.
    pub fn take(&mut self, record: &Record<'_>) {
        if record.provider_id() == classes::EVENT_TRACE {
            return;
        }
        self.counts.events.add(1);
        // Without a schema from an invalid blob, the event is shown as undecoded.
        let _ = self.decoder.resolver.observe(record);
        let Meaning { known, role } = self.understand(record);
        match role {
            Role::Own => {
                self.keep(record, known, false);
            }
            Role::Begin(irp) => {
                if let Some(number) = self.keep(record, known, false) {
                    self.state.begun(irp, number);
                }
            }
            Role::End(Some(number), end) => {
                self.end(number, end);
                self.keep(record, known, true);
            }
            // The event it refers to is not kept.
            Role::End(None, _) => {}
            Role::Stack => {
                self.keep(record, known, true);
            }
        }
    }

    /// Adds the end of an operation to its event, which may then match the filter.
    fn end(&mut self, number: u64, end: End) {
        if let Some(begun) = self.store.known_mut(number) {
            begun.end = Some(end);
        }
        let Model { store, decoder, state, wanted: Some(wanted), .. } = self else { return };
        // The result is not a field of the event.
        if matches!(wanted, Wanted::Expression(_)) {
            return;
        }
        let Some((record, kept)) = store.get(number) else { return };
        let is_wanted = matches(decoder, state, wanted, (&record, &kept.known));
        let index = self.index_of(number);
        match self.number(index) == Some(number) {
            false if is_wanted => self.shown.insert(index, number),
            true if !is_wanted => {
                self.shown.remove(index);
            }
            _ => {}
        }
    }

    fn understand(&mut self, record: &Record<'_>) -> Meaning {
        let Decoder { resolver, located, .. } = &mut self.decoder;
        let fact =
            Fact::from_record(record, move || Some(resolver.resolve(record).ok()?.locate(record, located)));
        self.remembered.take(&fact, record);
        let (clock, processor) = (record.origin().clock, record.processor());
        let stamp = Stamp { time: record.time(), processor, clock };
        if matches!(fact, Fact::SampleInterval) {
            self.state.intervals.set(record, 0);
        }
        self.state.take(&fact, &stamp, (record.process_id(), record.thread_id()))
    }

    /// Keeps an event that the command line selects; returns its number.
    fn keep(&mut self, record: &Record<'_>, known: Known, is_part_of_another: bool) -> Option<u64> {
        if !self.base_passes(record, &known, is_part_of_another) {
            return None;
        }
        let second = record.time().0 / FileTime::PER_SECOND;
        if self.second.0 != second {
            self.second = (second, 0);
        }
        self.second.1 += 1;
        if self.second.1 > self.max_shown_per_second {
            self.counts.skipped += u64::from(!is_part_of_another);
            return None;
        }
        let Model { decoder, wanted, state, .. } = self;
        let is_wanted = |wanted: &Wanted| matches(decoder, state, wanted, (record, &known));
        let is_shown = !is_part_of_another && wanted.as_ref().is_none_or(is_wanted);
        let number = self.store.push(record, known, is_part_of_another);
        if is_shown {
            self.shown.push_back(number);
        }
        let first = self.store.first();
        while self.shown.front().is_some_and(|number| *number < first) {
            self.shown.pop_front();
        }
        Some(number)
    }

    /// Whether the command line selects an event; an event that belongs to another one uses that one's process.
    fn base_passes(&mut self, record: &Record<'_>, known: &Known, is_part_of_another: bool) -> bool {
        let Model { decoder, base, .. } = self;
        if is_part_of_another {
            let name = known.process.as_deref().unwrap_or_default();
            return base.has_process(known.process_id.unwrap_or(0), name);
        }
        base.is_open() || decoder.event(record, known, |event| base.passes(event)).unwrap_or(false)
    }

    /// Ends a period of `seconds` seconds.
    pub fn roll(&mut self, seconds: f64) {
        self.counts.events.roll(seconds);
        self.state.roll(seconds);
    }

    /// Returns the number of shown events.
    pub fn count(&self) -> usize {
        self.shown.len()
    }

    /// Returns the number of the event at an index in the shown events.
    pub fn number(&self, index: usize) -> Option<u64> {
        self.shown.get(index).copied()
    }

    /// Returns the index of an event, or of the next one, in the shown events.
    pub fn index_of(&self, number: u64) -> usize {
        self.shown.partition_point(|shown| *shown < number)
    }

    /// Returns the number of the next event.
    pub fn next(&self) -> u64 {
        self.store.next()
    }

    /// Returns the line of an event.
    pub fn line(&mut self, number: u64) -> Option<Line> {
        let Model { store, decoder, state, .. } = self;
        let (record, kept) = store.get(number)?;
        line(decoder, state, number, (&record, &kept.known))
    }

    /// Returns the path of the file that an event is about.
    pub(crate) fn path(&self, number: u64) -> Option<String> {
        self.store.get(number)?.1.known.path.as_deref().map(str::to_owned)
    }

    /// Returns all details of an event, with its stack.
    pub fn details(&mut self, number: u64) -> Vec<String> {
        let Model { store, decoder, state, .. } = self;
        let lookup = &state.lookup;
        let Some((record, kept)) = store.get(number) else { return Vec::new() };
        let mut lines = decoder
            .event(&record, &kept.known, |event| line::details(event, &kept.known, lookup))
            .unwrap_or_default();
        let (time, thread, process_id) = (record.raw_time(), kept.known.thread_id, kept.known.process_id);
        for other in (number + 1..store.next()).take(STACK_DISTANCE as usize) {
            let Some((record, kept)) = store.get(other).filter(|(_, kept)| kept.is_part_of_another) else {
                continue;
            };
            if kept.known.thread_id != thread && thread.is_some() {
                continue;
            }
            let stack = decoder.event(&record, &kept.known, |event| {
                let is_its = event.get::<u64>("EventTimeStamp").ok() == u64::try_from(time.0).ok()
                    || event.get::<Ticks>("EventTimeStamp").ok() == Some(time);
                is_its.then(|| event.get::<Vec<u64>>("Stack").unwrap_or_default())
            });
            if let Some(frames) = stack.flatten() {
                lines.extend(line::stack_lines(frames.into_iter(), process_id, lookup));
            }
        }
        lines
    }

    /// Sets the filter of kept and future events.
    pub fn set_wanted(&mut self, wanted: Option<Wanted>) {
        self.wanted = wanted;
        self.shown.clear();
        for number in self.store.first()..self.store.next() {
            let Model { store, decoder, state, wanted, .. } = self;
            let Some((record, kept)) = store.get(number) else { continue };
            let is_wanted = |wanted: &Wanted| matches(decoder, state, wanted, (&record, &kept.known));
            if !kept.is_part_of_another && wanted.as_ref().is_none_or(is_wanted) {
                self.shown.push_back(number);
            }
        }
    }

    /// Searches a limited number of lines for a text in lower case, starting at an index.
    pub fn search(&mut self, text: &str, from: usize, is_forward: bool, lines: usize) -> Found {
        let mut index = from;
        for _ in 0..lines {
            let Some(number) = self.number(index) else { return Found::Nothing };
            if self.line(number).is_some_and(|line| line.contains(text)) {
                return Found::At(index);
            }
            index = match is_forward {
                true => index + 1,
                false => match index.checked_sub(1) {
                    Some(index) => index,
                    None => return Found::Nothing,
                },
            };
        }
        Found::GoOn(index)
    }

    /// Calls `write` with the kept records, and with the records that name their processes, threads and files, in time
    /// order.
    pub fn for_each_kept(&self, write: impl FnMut(&Record<'_>)) {
        self.for_each_of(self.store.first()..self.store.next(), write);
    }

    /// Calls `write` with the shown records and their stacks, and with the records that name their processes, threads
    /// and files, in time order.
    pub(crate) fn for_each_shown(&mut self, write: impl FnMut(&Record<'_>)) {
        let Model { store, decoder, shown, .. } = self;
        let times: HashSet<i64> =
            shown.iter().filter_map(|number| Some(store.get(*number)?.0.raw_time().0)).collect();
        let mut numbers: Vec<u64> = shown.iter().copied().collect();
        for number in store.first()..store.next() {
            let Some((record, kept)) = store.get(number).filter(|(_, kept)| kept.is_part_of_another) else {
                continue;
            };
            let time = decoder.event(&record, &kept.known, |event| {
                let time = event.get::<Ticks>("EventTimeStamp").map(|time| time.0);
                time.or_else(|_| event.get::<u64>("EventTimeStamp").map(|time| time as i64)).ok()
            });
            if time.flatten().is_some_and(|time| times.contains(&time)) {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        self.for_each_of(numbers.into_iter(), write);
    }

    fn for_each_of(&self, numbers: impl Iterator<Item = u64>, mut write: impl FnMut(&Record<'_>)) {
        let kept: Vec<Record<'_>> = numbers.filter_map(|number| Some(self.store.get(number)?.0)).collect();
        let known: HashSet<(Ticks, &[u8])> =
            kept.iter().map(|record| (record.raw_time(), record.as_bytes())).collect();
        let before = self
            .remembered
            .records()
            .filter(|record| !known.contains(&(record.raw_time(), record.as_bytes())));
        let mut all: Vec<Record<'_>> = before.chain(kept.iter().copied()).collect();
        all.sort_by_key(Record::raw_time);
        all.iter().for_each(&mut write);
    }

    /// Whether the command line selects rows of a process.
    pub(crate) fn has_process(&self, process_id: u32, name: &str) -> bool {
        self.base.has_process(process_id, name)
    }
}

fn line(
    decoder: &mut Decoder,
    state: &State,
    number: u64,
    (record, known): (&Record<'_>, &Known),
) -> Option<Line> {
    let thread = |id: u32| state.name_of_thread(id).map(|name| name.to_string());
    let disk = |number: u32| state.name_of_disk(number).map(str::to_owned);
    decoder.event(record, known, |event| Line::new(number, event, known, line::Names { thread, disk }))
}

fn matches(
    decoder: &mut Decoder,
    state: &State,
    wanted: &Wanted,
    (record, known): (&Record<'_>, &Known),
) -> bool {
    match wanted {
        Wanted::Expression(predicate) => {
            decoder.event(record, known, |event| predicate.matches(event)).unwrap_or(false)
        }
        Wanted::Rules(rules) => {
            let path = known.path.as_deref().unwrap_or_default();
            match rules.needs_event() {
                true => line(decoder, state, 0, (record, known)).is_some_and(|line| rules.shows(&line, path)),
                false => rules.shows(&Line::without_event(known), path),
            }
        }
        Wanted::Text(text) => {
            line(decoder, state, 0, (record, known)).is_some_and(|line| line.contains(text))
        }
    }
}
