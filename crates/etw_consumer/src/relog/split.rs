//! One trace into several files. Each has what its events need, wherever in the trace that stands: a first pass gathers
//! it, a second one writes the parts.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use etw_event::{FileTime, Guid, Record, Ticks};

use super::clock::OnClock;
use super::header::Sources;
use super::need::{self, Role, StackOf, Stacks};
use super::output::{self, Complete};
use super::spool::{Spool, Spooled};
use super::{Choice, Part, RelogError, Relogged, Relogger, Selection, lost_places};
use crate::Trace;
use crate::trace::{Pass, Verdict};

/// What a trace is split by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitBy {
    /// Parts of this length, from the start of the trace on; parts without events are left out. At least 10 ms.
    Time(Duration),
    /// Parts of at most these bytes.
    Size(u64),
    /// A part for each process that logged events, by its id, and one for events that do not tell their process.
    Process,
    /// A part for each provider or class.
    Provider,
}

/// Parts there may be.
const MAX_PARTS: usize = 10_000;
/// Parts by process or provider that are written in one pass: each has buffers for every processor.
const PARTS_AT_ONCE: usize = 64;
/// Stacks that come this much later than their events are kept with what any part may need; parts by time and size stay
/// open as long for the others.
const LATE_100NS: i64 = FileTime::PER_SECOND / 100;

/// What the events of a part by process or provider have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Process(Option<u32>),
    Provider(Guid),
}

impl Relogger {
    /// Writes what the trace delivers into several files. Their names are that of `path` with what they are put before
    /// the extension: a number, `-001`; image and process id, `-app-4711`; the name of the provider.
    ///
    /// The files get their names when all are complete.
    ///
    /// # Errors
    /// As for [`Relogger::write`]; there would be no part, or too many; parts of that size are too small for what each
    /// needs.
    pub fn split(
        &self,
        trace: &mut Trace,
        by: SplitBy,
        path: impl AsRef<Path>,
    ) -> Result<Vec<Relogged>, RelogError> {
        let path = path.as_ref();
        let sources = self.sources(trace)?;
        // Parts are completed outside of passes, where nothing is looked for any more.
        trace.processes()?;
        let selection = Selection::new(self, trace, &sources);
        let parts = self.split_selected(trace, by, path, &sources, &selection);
        selection.restore(trace);
        let parts = parts?;
        if parts.is_empty() {
            return Err(RelogError::NoParts);
        }
        let (complete, relogged): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        self.check_redactions(&relogged)?;
        complete.into_iter().try_for_each(Complete::publish)?;
        Ok(relogged)
    }

    fn split_selected(
        &self,
        trace: &mut Trace,
        by: SplitBy,
        path: &Path,
        sources: &Sources,
        selection: &Selection,
    ) -> Result<Vec<(Complete, Relogged)>, RelogError> {
        let late = ticks_of(sources, LATE_100NS);
        let gathered = gather(trace, by, path, sources, selection, late)?;
        let damaged = u32::try_from(lost_places(trace)).unwrap_or(u32::MAX);
        let spooled = &gathered.spooled;
        let splitting = Splitting { relogger: self, path, sources, selection, spooled, late, damaged };
        match by {
            SplitBy::Time(every) => {
                let every = i64::try_from(every.as_nanos() / 100).unwrap_or(i64::MAX).max(LATE_100NS);
                splitting.in_sequence(trace, Cut::Every(ticks_of(sources, every)))
            }
            SplitBy::Size(size) => {
                let header = &sources.options.header;
                let buffers = u64::from(header.number_of_processors) + 3;
                let needed =
                    with_margin(gathered.spooled.len_bytes()) + buffers * u64::from(header.buffer_size);
                if size < needed {
                    return Err(RelogError::PartSize { size, needed });
                }
                splitting.in_sequence(trace, Cut::Size(size))
            }
            SplitBy::Process | SplitBy::Provider => splitting.by_key(trace, by, gathered.names),
        }
    }
}

/// A length of time on the raw clock.
fn ticks_of(sources: &Sources, length_100ns: i64) -> i64 {
    let end = FileTime(sources.clock.start.0.saturating_add(length_100ns));
    sources.clock.to_ticks(end).0.saturating_sub(sources.clock.anchor.0).max(1)
}

/// Records do not always fill their buffers.
fn with_margin(bytes: u64) -> u64 {
    bytes + bytes / 8
}

/// What a first pass over the trace finds.
struct Gathered {
    /// What any part may need.
    spooled: Spooled,
    /// The parts by process or provider, with their names.
    names: BTreeMap<Key, String>,
}

fn key_of(by: SplitBy, record: &Record<'_>) -> Option<Key> {
    match by {
        SplitBy::Process => Some(Key::Process(record.process_id())),
        SplitBy::Provider => Some(Key::Provider(record.provider_id())),
        SplitBy::Time(_) | SplitBy::Size(_) => None,
    }
}

fn gather(
    trace: &mut Trace,
    by: SplitBy,
    path: &Path,
    sources: &Sources,
    selection: &Selection,
    late: i64,
) -> Result<Gathered, RelogError> {
    let io = |source| RelogError::Io { path: path.to_owned(), source };
    let mut spool = Spool::new().map_err(io)?;
    let mut names = BTreeMap::new();
    let mut first_pass = selection.again(sources);
    let mut error = None;
    let mut on_clock = OnClock::new(sources);
    trace.pass(|pass, record| {
        let record = match on_clock.record(pass, record) {
            Ok(record) => record,
            Err(failure) => {
                error = Some(failure);
                return Verdict::End;
            }
        };
        let Some(role) = first_pass.role(&record) else { return Verdict::Passed };
        let is_for_all = match role {
            Role::Stack(stack) => is_late(&stack, &record, late),
            Role::Event => {
                if let Some(key) = key_of(by, &record)
                    && !names.contains_key(&key)
                    && first_pass.is_wanted(pass, &record, record.raw_time())
                {
                    names.insert(key, name_of(key, pass, &record));
                }
                false
            }
            _ => first_pass.context,
        };
        if is_for_all && let Err(source) = spool.push(&record) {
            error = Some(io(source));
        } else if names.len() > MAX_PARTS {
            error = Some(RelogError::Parts { most: MAX_PARTS });
        }
        if error.is_some() { Verdict::End } else { Verdict::Passed }
    })?;
    match error {
        Some(error) => Err(error),
        None if trace.stop_handle().is_stopped() => Err(RelogError::Stopped),
        None => Ok(Gathered { spooled: spool.finish(sources.clock).map_err(io)?, names }),
    }
}

fn is_late(stack: &StackOf, record: &Record<'_>, late: i64) -> bool {
    record.raw_time().0.saturating_sub(stack.time.0) > late
}

/// What a part is called.
fn name_of(key: Key, pass: &mut Pass<'_>, record: &Record<'_>) -> String {
    match key {
        Key::Process(None) => "no-process".to_owned(),
        Key::Process(Some(id)) => match pass.decoder.processes.name(id, record.time()) {
            Some(name) => format!("{name}-{id}"),
            None => id.to_string(),
        },
        Key::Provider(guid) => {
            let event = pass.decoder.resolver.decode(record, pass.located);
            event.names().own_name().map_or_else(|| guid.to_string(), str::to_owned)
        }
    }
}

/// Where parts in sequence end.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// At multiples of a time from the start, on the raw clock.
    Every(i64),
    Size(u64),
}

struct Splitting<'s> {
    relogger: &'s Relogger,
    path: &'s Path,
    sources: &'s Sources,
    selection: &'s Selection,
    spooled: &'s Spooled,
    late: i64,
    /// Damaged places of the sources.
    damaged: u32,
}

/// A part under way.
struct Open {
    part: Part,
    /// What its events need of stacks.
    stacks: Stacks,
    /// The times of its events.
    times: (Ticks, Ticks),
    /// Time of the last of them.
    last: Ticks,
    /// The next of the records that any part may need.
    at: usize,
}

impl Splitting<'_> {
    /// The path of a part.
    fn path_of(&self, what: &str) -> PathBuf {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '{' | '}');
        let what: String = what.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let extension = self.path.extension().map_or("etl".into(), |it| it.to_string_lossy());
        self.path.with_file_name(format!("{stem}-{what}.{extension}"))
    }

    fn begin(&self, what: &str, times: (Ticks, Ticks)) -> Result<Open, RelogError> {
        let path = self.path_of(what);
        output::check(&path, &self.sources.names, self.relogger.overwrites)?;
        let mut part = Part::begin(&path, self.sources, self.relogger)?;
        part.output.with(|writer| writer.mark_losses(0, self.sources.losses))?;
        Ok(Open { part, stacks: Stacks::new(), times, last: times.0, at: 0 })
    }

    /// Writes an event or a stack to a part, behind what others need that comes before it.
    fn put(
        &self,
        open: &mut Open,
        pass: &mut Pass<'_>,
        record: &Record<'_>,
        role: Role,
    ) -> Result<(), RelogError> {
        self.catch_up(open, pass, Some(record.raw_time()))?;
        match role {
            Role::Stack(stack) => open.stacks.keep_stack(&stack),
            _ => open.stacks.keep(record),
        }
        open.last = open.last.max(record.raw_time());
        open.part.put(pass, record, Choice::Event)
    }

    /// Writes what any part may need, and this one does, up to a time or all of it.
    fn catch_up(&self, open: &mut Open, pass: &mut Pass<'_>, to: Option<Ticks>) -> Result<(), RelogError> {
        while let Some(time) = self.spooled.time(open.at)
            && to.is_none_or(|to| time <= to)
        {
            let Open { part, stacks, times, .. } = open;
            open.at = self.spooled.visit(open.at, |record| {
                let choice = match need::role(record, &self.selection.symbols) {
                    Role::Stack(stack) => {
                        let is_needed =
                            times.0 <= stack.time && stack.time < times.1 && stacks.needs_stack(&stack);
                        is_needed.then(|| {
                            stacks.keep_stack(&stack);
                            Choice::Event
                        })
                    }
                    _ => Some(Choice::Context),
                };
                choice.map_or(Ok(()), |choice| part.put(pass, record, choice))
            })?;
        }
        Ok(())
    }

    /// Completes a part.
    fn close(&self, mut open: Open, pass: &mut Pass<'_>) -> Result<(Complete, Relogged), RelogError> {
        self.catch_up(&mut open, pass, None)?;
        open.part.complete(self.damaged, self.sources)
    }

    /// Whether a part has the size that it may have, with what it needs yet.
    fn is_full(&self, open: &Open, size: u64) -> bool {
        let needed = with_margin(self.spooled.len_bytes().saturating_sub(open.at as u64));
        let buffer = u64::from(self.sources.options.header.buffer_size);
        open.part.output.len_bytes() + needed + 2 * buffer > size
    }

    /// Goes through all records; `visit` says whether it wrote one.
    fn pass(
        &self,
        trace: &mut Trace,
        mut visit: impl FnMut(&mut Pass<'_>, &Record<'_>) -> Result<bool, RelogError>,
    ) -> Result<(), RelogError> {
        let mut error = None;
        let mut on_clock = OnClock::new(self.sources);
        trace.pass(|pass, record| match on_clock.record(pass, record).and_then(|it| visit(pass, &it)) {
            Ok(true) => Verdict::Delivered,
            Ok(false) => Verdict::Passed,
            Err(failure) => {
                error = Some(failure);
                Verdict::End
            }
        })?;
        match error {
            Some(error) => Err(error),
            None if trace.stop_handle().is_stopped() => Err(RelogError::Stopped),
            None => Ok(()),
        }
    }

    /// Splits by time or size: one part after the other.
    fn in_sequence(&self, trace: &mut Trace, cut: Cut) -> Result<Vec<(Complete, Relogged)>, RelogError> {
        let mut sequence =
            Sequence { splitting: self, cut, open: VecDeque::new(), done: Vec::new(), count: 0 };
        let mut selection = self.selection.again(self.sources);
        self.pass(trace, |pass, record| sequence.record(&mut selection, pass, record))?;
        trace.decoding(|pass| sequence.close_before(None, pass))?;
        Ok(sequence.done)
    }

    /// Splits by process or provider: all parts at once, as far as there is room.
    fn by_key(
        &self,
        trace: &mut Trace,
        by: SplitBy,
        names: BTreeMap<Key, String>,
    ) -> Result<Vec<(Complete, Relogged)>, RelogError> {
        let mut used = HashSet::new();
        let mut done = Vec::new();
        let names: Vec<(Key, String)> = names.into_iter().collect();
        for some in names.chunks(PARTS_AT_ONCE) {
            let mut parts = BTreeMap::new();
            for (key, name) in some {
                // Two providers may have one name.
                let name = match (used.insert(name.clone()), key) {
                    (false, Key::Provider(guid)) => format!("{name}-{guid}"),
                    _ => name.clone(),
                };
                parts.insert(*key, self.begin(&name, (Ticks(i64::MIN), Ticks(i64::MAX)))?);
            }
            let mut selection = self.selection.again(self.sources);
            self.pass(trace, |pass, record| {
                let Some(role) = selection.role(record) else { return Ok(false) };
                match role {
                    Role::Stack(stack) if selection.context && !is_late(&stack, record, self.late) => {
                        for open in parts.values_mut().filter(|open| open.stacks.needs_stack(&stack)) {
                            self.put(open, pass, record, role)?;
                        }
                        Ok(true)
                    }
                    Role::Event if selection.is_wanted(pass, record, record.raw_time()) => {
                        let part = key_of(by, record).and_then(|key| parts.get_mut(&key));
                        part.map_or(Ok(()), |open| self.put(open, pass, record, role))?;
                        Ok(true)
                    }
                    _ => Ok(false),
                }
            })?;
            for open in parts.into_values() {
                done.push(trace.decoding(|pass| self.close(open, pass))?);
            }
        }
        Ok(done)
    }
}

/// Parts by time or size. Those that stacks may still come for are open, the oldest first.
struct Sequence<'s> {
    splitting: &'s Splitting<'s>,
    cut: Cut,
    open: VecDeque<Open>,
    done: Vec<(Complete, Relogged)>,
    count: usize,
}

impl Sequence<'_> {
    /// Writes a record to the part that it belongs to, if it is wanted. Whether it is.
    fn record(
        &mut self,
        selection: &mut Selection,
        pass: &mut Pass<'_>,
        record: &Record<'_>,
    ) -> Result<bool, RelogError> {
        self.close_before(Some(record.raw_time()), pass)?;
        let Some(role) = selection.role(record) else { return Ok(false) };
        let splitting = self.splitting;
        let time = match role {
            Role::Stack(stack) if !is_late(&stack, record, splitting.late) => stack.time,
            Role::Event => record.raw_time(),
            _ => return Ok(false),
        };
        let is_wanted = selection.is_wanted(pass, record, time);
        let open = match (is_wanted, role) {
            (true, _) => self.part_at(time)?,
            (false, Role::Stack(stack)) if selection.context => {
                let is_there = |open: &&mut Open| open.times.0 <= time && time < open.times.1;
                let Some(open) = self.open.iter_mut().find(is_there) else { return Ok(false) };
                if !open.stacks.needs_stack(&stack) {
                    return Ok(false);
                }
                open
            }
            _ => return Ok(false),
        };
        splitting.put(open, pass, record, role)?;
        Ok(true)
    }

    /// The part that a time belongs to.
    fn part_at(&mut self, time: Ticks) -> Result<&mut Open, RelogError> {
        let is_in = |open: &Open| open.times.0 <= time && time < open.times.1;
        let mut found = self.open.iter().position(is_in);
        if let (Some(index), Cut::Size(size)) = (found, self.cut)
            && index + 1 == self.open.len()
            && let Some(open) = self.open.get_mut(index)
            && time > open.last
            && self.splitting.is_full(open, size)
        {
            open.times.1 = time;
            found = None;
        }
        // Where time steps back, the part of then may be complete.
        if found.is_none() && self.open.front().is_some_and(|open| time < open.times.0) {
            found = Some(0);
        }
        let index = match found {
            Some(index) => index,
            None => {
                let times = match self.cut {
                    Cut::Every(ticks) => {
                        let anchor = self.splitting.sources.clock.anchor.0;
                        let number = time.0.saturating_sub(anchor).div_euclid(ticks);
                        let from = anchor.saturating_add(number.saturating_mul(ticks));
                        (Ticks(from), Ticks(from.saturating_add(ticks)))
                    }
                    Cut::Size(_) if self.count == 0 => (Ticks(i64::MIN), Ticks(i64::MAX)),
                    Cut::Size(_) => (time, Ticks(i64::MAX)),
                };
                self.count += 1;
                if self.count > MAX_PARTS {
                    return Err(RelogError::Parts { most: MAX_PARTS });
                }
                self.open.push_back(self.splitting.begin(&format!("{:03}", self.count), times)?);
                self.open.len() - 1
            }
        };
        self.open.get_mut(index).ok_or(RelogError::NoParts)
    }

    /// Completes the parts that nothing can come for any more at a time, or all.
    fn close_before(&mut self, time: Option<Ticks>, pass: &mut Pass<'_>) -> Result<(), RelogError> {
        let late = self.splitting.late;
        let is_over = |open: &Open| time.is_none_or(|time| open.times.1.0.saturating_add(late) < time.0);
        while self.open.front().is_some_and(is_over)
            && let Some(open) = self.open.pop_front()
        {
            self.done.push(self.splitting.close(open, pass)?);
        }
        Ok(())
    }
}
