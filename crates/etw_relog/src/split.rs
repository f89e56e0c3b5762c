//! Splitting of a trace into several files.
//!
//! Each file has everything its events need, wherever in the trace that is: the first pass collects it, the second
//! writes the parts.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use etw_consumer::Trace;
use etw_consumer::raw::{Pass, Verdict};
use etw_event::{FileTime, Guid, Record, Ticks};

use super::clock::OnClock;
use super::header::Sources;
use super::need::{self, Role, StackOf, Stacks};
use super::output::{self, Complete};
use super::spool::{Spool, Spooled};
use super::{Choice, Part, RelogError, Relogged, Relogger, Selection, lost_places};

/// The criterion for splitting a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitBy {
    /// Parts of this length from the start of the trace, at least 10 ms; parts without events are left out.
    Time(Duration),
    /// Parts of at most this many bytes.
    Size(u64),
    /// A part for each process that logged events, by its id, and one for events without a process id.
    Process,
    /// A part for each provider or class.
    Provider,
}

/// Maximum number of parts.
const MAX_PARTS: usize = 10_000;
/// Number of parts by process or provider written in one pass; each has buffers for every processor.
const PARTS_AT_ONCE: usize = 64;
/// Delay up to which a stack may follow its event. Later stacks are kept with the context that any part may need.
/// Parts by time and size stay open for this long.
const LATE_100NS: i64 = FileTime::PER_SECOND / 100;

/// The property shared by all events of a part by process or provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Process(Option<u32>),
    Provider(Guid),
}

impl Relogger {
    /// Writes the events that the trace delivers to several files.
    ///
    /// Their names are that of `path` with a suffix before the extension: a number, `-001`; image and process id,
    /// `-app-4711`; or the name of the provider. The files get their names when all are complete.
    ///
    /// # Errors
    ///
    /// Fails as [`Relogger::write`] does, if there would be no part or too many, or if the size of parts is too small
    /// for the context that each needs.
    pub fn split(
        &self,
        trace: &mut Trace,
        by: SplitBy,
        path: impl AsRef<Path>,
    ) -> Result<Vec<Relogged>, RelogError> {
        let path = path.as_ref();
        let sources = self.sources(trace)?;
        // Parts are completed outside of passes, where the metadata scan cannot run.
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

/// Returns the ticks of the raw clock in a duration.
fn ticks_of(sources: &Sources, length_100ns: i64) -> i64 {
    let end = FileTime(sources.clock.start.0.saturating_add(length_100ns));
    sources.clock.to_ticks(end).0.saturating_sub(sources.clock.anchor.0).max(1)
}

/// Adds a margin, since records do not always fill their buffers.
fn with_margin(bytes: u64) -> u64 {
    bytes + bytes / 8
}

/// Results of the first pass.
struct Gathered {
    /// The events that any part may need.
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

/// Returns the name of a part.
fn name_of(key: Key, pass: &mut Pass<'_>, record: &Record<'_>) -> String {
    match key {
        Key::Process(None) => "no-process".to_owned(),
        Key::Process(Some(id)) => match pass.process_name(record) {
            Some(name) => format!("{name}-{id}"),
            None => id.to_string(),
        },
        Key::Provider(guid) => {
            let event = pass.event(record);
            event.names().own_name().map_or_else(|| guid.to_string(), str::to_owned)
        }
    }
}

/// The criterion for the end of parts in sequence.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// At multiples of a duration from the start, on the raw clock.
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
    /// Number of damaged places in the input files.
    damaged: u32,
}

/// A part being written.
struct Open {
    part: Part,
    /// The stacks that its events need.
    stacks: Stacks,
    /// Its time range.
    times: (Ticks, Ticks),
    /// Time of its last event.
    last: Ticks,
    /// Position in the spooled context events.
    at: usize,
}

impl Splitting<'_> {
    /// Returns the path of a part.
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

    /// Writes an event or a stack to a part, after the context events that come before it.
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

    /// Writes the context events that this part needs, up to a time or all of them.
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

    /// Whether a part has reached the size limit, including the context events it still needs.
    fn is_full(&self, open: &Open, size: u64) -> bool {
        let context = self.spooled.len_bytes().saturating_sub(open.at as u64);
        let needed = with_margin(context + self.relogger.appended_bytes);
        let buffer = u64::from(self.sources.options.header.buffer_size);
        open.part.output.len_bytes() + needed + 2 * buffer > size
    }

    /// Reads all records; `visit` returns whether it wrote one.
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

    /// Splits by time or size: one part after another.
    fn in_sequence(&self, trace: &mut Trace, cut: Cut) -> Result<Vec<(Complete, Relogged)>, RelogError> {
        let mut sequence =
            Sequence { splitting: self, cut, open: VecDeque::new(), done: Vec::new(), count: 0 };
        let mut selection = self.selection.again(self.sources);
        self.pass(trace, |pass, record| sequence.record(&mut selection, pass, record))?;
        trace.decoding(|pass| sequence.close_before(None, pass))?;
        Ok(sequence.done)
    }

    /// Splits by process or provider: as many parts at once as the limit allows.
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
                // Two providers may have the same name.
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

/// Parts by time or size. Those that may still get stacks are open, the oldest first.
struct Sequence<'s> {
    splitting: &'s Splitting<'s>,
    cut: Cut,
    open: VecDeque<Open>,
    done: Vec<(Complete, Relogged)>,
    count: usize,
}

impl Sequence<'_> {
    /// Writes a record to its part if it is selected. Returns whether it is.
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

    /// Returns the part for a time.
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
        // If time steps back, the earlier part may be complete already.
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

    /// Completes the parts that cannot get further records at a time, or all parts.
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
