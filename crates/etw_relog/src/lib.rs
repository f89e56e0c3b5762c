//! Rewriting of traces: merging, filtering, redacting or setting fields, compressing or decompressing.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! The events that a trace's filter lets pass are written in time order, unchanged or as a callback changes them
//! ([`Relogger::rewrite`]), each processor in its own buffers. The events they need are written too: those about processes, threads, images, file names and schemas, and
//! stacks. Schemas from outside the trace are embedded.
//!
//! A file gets its name only when it is complete.
//!
//! ```no_run
//! use etw_consumer::Trace;
//! use etw_relog::{Compression, Relogger};
//!
//! let relogger = Relogger::new()
//!     .compression(Compression::Compressed)
//!     .redact("MyCompany.MyApp/SignedIn.user".parse()?);
//! let relogged = relogger.write(&mut Trace::open_file("trace.etl")?, "redacted.etl")?;
//! println!("{} events", relogged.events);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod behind;
mod carry;
mod clock;
mod common_clock;
mod edit;
mod embed;
mod error;
mod header;
mod need;
mod output;
mod pack;
mod parts;
mod redact;
mod rewrite;
mod split;
mod spool;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use etw_consumer::Trace;
use etw_consumer::raw::{Bounds, Pass, Verdict};
use etw_etl::DamageKind;
use etw_etl::encode::RecordBuilder;
use etw_event::{Guid, Record, Ticks};

use clock::OnClock;
use header::Sources;
use need::{Role, Stacks};
use output::{Complete, Output};
use parts::Parts;
use redact::Redactions;
use rewrite::Rewrite;

pub use edit::{EditError, EventCopy};
pub use embed::EmbeddedSchemas;
pub use error::RelogError;
pub use etw_kernel_events::providers::SYMBOL_PROVIDER;
pub use redact::{Redaction, RedactionError};
pub use rewrite::{Assignment, AssignmentError, Injector};
pub use split::SplitBy;

/// The choice whether buffers are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Compressed if one of the input files is.
    #[default]
    Keep,
    /// Compressed.
    Compressed,
    /// Not compressed.
    Plain,
}

impl Compression {
    fn applies(self, is_compressed: bool) -> bool {
        match self {
            Compression::Keep => is_compressed,
            Compression::Compressed => true,
            Compression::Plain => false,
        }
    }
}

/// Rewrites traces.
///
/// ```no_run
/// use etw_consumer::Trace;
/// use etw_relog::{Compression, Relogger};
///
/// let mut trace = Trace::open_files(["kernel.etl", "user.etl"])?;
/// Relogger::new().compression(Compression::Compressed).write(&mut trace, "merged.etl")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Relogger {
    compression: Compression,
    overwrites: bool,
    without_context: bool,
    without_schemas: bool,
    redactions: Vec<Redaction>,
    allows_absent: bool,
    appended: Arc<[RecordBuilder]>,
    appended_bytes: u64,
}

/// A rewritten file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Relogged {
    /// The file.
    pub path: PathBuf,
    /// Number of events that the filter let pass; without a filter, of all events.
    pub events: u64,
    /// Number of other events, which those need.
    pub context: u64,
    /// Number of embedded event descriptions.
    pub schemas: u64,
    /// Number of appended events ([`Relogger::append`]).
    pub appended: u64,
    /// Number of lost events in the header: those that the input files have lost, and one for each damaged place
    /// in them and for each record that does not fit in a buffer.
    pub events_lost: u32,
    /// Number of lost buffers in the header.
    pub buffers_lost: u32,
    /// Number of events with the field of each redaction, in the order of the redactions.
    pub redacted: Vec<u64>,
    /// Number of events that may have had such a field but could not be decoded; their payload is zeroed.
    pub blanked: u64,
    /// Size of the file in bytes.
    pub len_bytes: u64,
    /// Files with system-time events, which were converted to the file's clock; their times are unchanged.
    pub brought: Vec<String>,
    /// Whether an input file was never closed, so that its losses are unknown. The output file is marked as unclosed
    /// too.
    pub is_unclosed: bool,
}

impl Relogger {
    /// Returns a relogger that writes all delivered events and the events they need, and keeps the compression.
    pub fn new() -> Relogger {
        Relogger::default()
    }

    /// Sets whether buffers are compressed.
    pub fn compression(mut self, compression: Compression) -> Relogger {
        self.compression = compression;
        self
    }

    /// Sets whether an existing file may be replaced. The default is false.
    pub fn overwrite(mut self, wanted: bool) -> Relogger {
        self.overwrites = wanted;
        self
    }

    /// Sets whether to keep events that others need. The default is true.
    pub fn context(mut self, wanted: bool) -> Relogger {
        self.without_context = !wanted;
        self
    }

    /// Sets whether to embed schemas from outside the trace. The default is true.
    pub fn embed_schemas(mut self, wanted: bool) -> Relogger {
        self.without_schemas = !wanted;
        self
    }

    /// Redacts the values of a field. At least one event must have the field.
    pub fn redact(mut self, redaction: Redaction) -> Relogger {
        self.redactions.push(redaction);
        self
    }

    /// Sets whether a field to redact may be absent from all events. By default this is an error.
    pub fn allow_absent(mut self, wanted: bool) -> Relogger {
        self.allows_absent = wanted;
        self
    }

    /// Adds new events at the end of each file, one tick of the clock after its last event. Those that do not fit in a buffer count
    /// as lost events.
    pub fn append(mut self, records: impl IntoIterator<Item = RecordBuilder>) -> Relogger {
        self.appended = self.appended.iter().cloned().chain(records).collect();
        let len_bytes = |record: &RecordBuilder| record.build().map_or(0, |bytes| bytes.len() as u64);
        self.appended_bytes = self.appended.iter().map(len_bytes).sum();
        self
    }

    /// Writes the events that the trace delivers to one file.
    ///
    /// # Errors
    ///
    /// Fails if the file exists, is an input file or cannot be written, if the input files have clocks that cannot be
    /// converted, if no event has a field to redact, or if reading was stopped ([`Trace::stop_handle`]).
    pub fn write(&self, trace: &mut Trace, path: impl AsRef<Path>) -> Result<Relogged, RelogError> {
        self.write_by(trace, path.as_ref(), None, || Ok(()))
    }

    /// Writes the events that the trace delivers, or what the callback injects for them. `check` may still refuse the
    /// file before it gets its name.
    fn write_by(
        &self,
        trace: &mut Trace,
        path: &Path,
        mut rewrite: Option<Rewrite<'_>>,
        check: impl FnOnce() -> Result<(), RelogError>,
    ) -> Result<Relogged, RelogError> {
        let mut sources = self.sources(trace)?;
        if rewrite.is_some() {
            sources.take_first_in_turn();
        }
        output::check(path, &sources.names, self.overwrites)?;
        if rewrite.is_none() && self.takes_all(trace, &sources) {
            return carry::write(self, trace, &sources, path);
        }
        let mut selection = Selection::new(self, trace, &sources);
        let mut part = Part::begin(path, &sources, self)?;
        part.output.with(|writer| writer.mark_losses(0, sources.losses))?;
        let mut error = None;
        let mut on_clock = OnClock::new(&sources);
        let mut injector = Injector::default();
        let passed = trace.pass(|pass, record| {
            let written = on_clock.record(pass, record).and_then(|record| {
                let choice = selection.choose(pass, &record);
                match (choice, &mut rewrite) {
                    (Some(Choice::Event), Some(rewrite)) => {
                        injector.rewrite(rewrite, pass, &record, &mut part)?;
                    }
                    (Some(choice), _) => part.put(pass, &record, choice)?,
                    (None, _) => {}
                }
                Ok(choice)
            });
            match written {
                Ok(Some(Choice::Event)) => Verdict::Delivered,
                Ok(_) => Verdict::Passed,
                Err(failure) => {
                    error = Some(failure);
                    Verdict::End
                }
            }
        });
        selection.restore(trace);
        passed?;
        if let Some(error) = error {
            return Err(error);
        }
        if trace.stop_handle().is_stopped() {
            return Err(RelogError::Stopped);
        }
        let (complete, relogged) = part.finish(trace, &sources)?;
        self.check_redactions(std::slice::from_ref(&relogged))?;
        check()?;
        complete.publish()?;
        Ok(relogged)
    }

    /// Whether every record stays unchanged, so that whole buffers can be copied.
    fn takes_all(&self, trace: &Trace, sources: &Sources) -> bool {
        let is_all =
            !trace.is_filtered() && trace.bounds() == Bounds::default() && self.redactions.is_empty();
        let is_as_it_is = !sources.is_shared && !sources.brought.contains(&true);
        is_all && is_as_it_is && Parts::new(&sources.sessions).is_none()
    }

    fn sources(&self, trace: &Trace) -> Result<Sources, RelogError> {
        if trace.sessions_handle().is_some() {
            return Err(RelogError::Live);
        }
        let names = trace.source_names().map(str::to_owned).collect();
        let mut sources = Sources::new(&trace.files()?, names, self.compression)?;
        if !self.redactions.is_empty() {
            sources.take_first_in_turn();
        }
        Ok(sources)
    }

    /// Checks that each redaction found its field in one of the files.
    fn check_redactions(&self, files: &[Relogged]) -> Result<(), RelogError> {
        let is_absent = |index: usize| files.iter().all(|file| file.redacted.get(index) == Some(&0));
        let absent = self.redactions.iter().enumerate().filter(|(index, _)| is_absent(*index));
        let redactions: Vec<String> = absent.map(|(_, redaction)| redaction.to_string()).collect();
        match self.allows_absent || redactions.is_empty() {
            true => Ok(()),
            false => Err(RelogError::NothingToRedact { redactions }),
        }
    }
}

/// The reason why a record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// The filter accepts it.
    Event,
    /// Other records need it.
    Context,
}

/// The selection of records to write.
struct Selection {
    /// The first time to write, and the end of the time range.
    times: (Ticks, Ticks),
    bounds: Bounds,
    /// Remaining number of events.
    left: u64,
    context: bool,
    /// The stacks of kept events; `None` if all events are kept.
    stacks: Option<Stacks>,
    symbols: Guid,
    /// Records that are in the first buffer already, and the number of their file.
    first: (usize, Vec<Vec<u8>>),
    /// Set if several parts of one session's file are read.
    parts: Option<Parts>,
}

impl Selection {
    fn new(relogger: &Relogger, trace: &mut Trace, sources: &Sources) -> Selection {
        let bounds = trace.bounds();
        trace.set_bounds(Bounds::default());
        let Bounds { from, to, limit } = bounds;
        let clock = &sources.clock;
        let is_all = !trace.is_filtered() && limit.is_none();
        Selection {
            times: (
                from.map_or(Ticks(i64::MIN), |from| clock.to_ticks(from)),
                to.map_or(Ticks(i64::MAX), |to| clock.to_ticks(to)),
            ),
            bounds,
            left: limit.unwrap_or(u64::MAX),
            context: !relogger.without_context,
            stacks: (!is_all).then(Stacks::new),
            symbols: Guid::from_provider_name(SYMBOL_PROVIDER),
            first: (sources.first, sources.options.records.others.clone()),
            parts: Parts::new(&sources.sessions),
        }
    }

    /// Returns the same selection for another pass.
    fn again(&self, sources: &Sources) -> Selection {
        Selection {
            times: self.times,
            bounds: self.bounds,
            left: self.bounds.limit.unwrap_or(u64::MAX),
            context: self.context,
            stacks: self.stacks.is_some().then(Stacks::new),
            symbols: self.symbols,
            first: (sources.first, sources.options.records.others.clone()),
            parts: Parts::new(&sources.sessions),
        }
    }

    /// Restores the limits of the trace.
    fn restore(&self, trace: &mut Trace) {
        trace.set_bounds(self.bounds);
    }

    /// Returns why a record is written, or `None` if it is not.
    #[inline]
    fn choose(&mut self, pass: &mut Pass<'_>, record: &Record<'_>) -> Option<Choice> {
        let role = self.role(record)?;
        // The time of a stack is that of its event.
        let time = match role {
            Role::Stack(stack) => stack.time,
            _ => record.raw_time(),
        };
        let is_wanted = self.is_wanted(pass, record, time);
        let choice = if is_wanted {
            Some(Choice::Event)
        } else if self.is_needed(role) {
            Some(Choice::Context)
        } else {
            None
        };
        if let (Some(_), Some(stacks)) = (choice, &mut self.stacks) {
            match role {
                Role::Stack(stack) => stacks.keep_stack(&stack),
                Role::Event | Role::Context => stacks.keep(record),
                Role::Frames { .. } | Role::Header => {}
            }
        }
        choice
    }

    /// Returns the role of a record for others, or `None` if the output file has it already.
    #[inline]
    fn role(&mut self, record: &Record<'_>) -> Option<Role> {
        let role = need::role(record, &self.symbols);
        // Must also run for records in the first buffer, to count them.
        let is_there = role == Role::Header
            || self.parts.as_mut().is_some_and(|parts| parts.is_known(record))
            || role == Role::Context && self.is_in_first_buffer(record);
        (!is_there).then_some(role)
    }

    /// Whether the filter accepts a record; `time` is the one to compare.
    #[inline]
    fn is_wanted(&mut self, pass: &mut Pass<'_>, record: &Record<'_>, time: Ticks) -> bool {
        let is_wanted = self.left > 0 && self.times.0 <= time && time < self.times.1 && pass.wants(record);
        self.left -= u64::from(is_wanted);
        is_wanted
    }

    /// Whether other records need a record that the filter rejects.
    fn is_needed(&mut self, role: Role) -> bool {
        if !self.context {
            return false;
        }
        match (role, &mut self.stacks) {
            (Role::Context, _) => true,
            (Role::Stack(stack), Some(stacks)) => stacks.needs_stack(&stack),
            (Role::Frames { key, ends }, Some(stacks)) => stacks.needs_frames(key, ends),
            // A time range keeps the stacks in it, but the frames of their keys may come at any time.
            (Role::Frames { .. }, None) => true,
            _ => false,
        }
    }

    /// Whether a record is in the file's first buffer already.
    fn is_in_first_buffer(&mut self, record: &Record<'_>) -> bool {
        let (source, first) = &mut self.first;
        if first.is_empty() || record.origin().source as usize != *source {
            return false;
        }
        let found = first.iter().position(|bytes| bytes == record.as_bytes());
        found.map(|index| first.swap_remove(index)).is_some()
    }
}

/// A file being written.
struct Part {
    output: Output,
    /// Descriptions of the events in it; `None` if nothing is embedded.
    embedded: Option<EmbeddedSchemas>,
    redactions: Redactions,
    /// Events to write at the end.
    appended: Arc<[RecordBuilder]>,
    events: u64,
    context: u64,
    /// Number of records that did not fit in a buffer.
    too_large: u32,
}

impl Part {
    fn begin(path: &Path, sources: &Sources, relogger: &Relogger) -> Result<Part, RelogError> {
        let output = Output::create(path, sources.options.clone())?;
        let embedded = (!relogger.without_schemas).then(EmbeddedSchemas::new);
        let redactions = Redactions::new(&relogger.redactions);
        let appended = Arc::clone(&relogger.appended);
        Ok(Part { output, embedded, redactions, appended, events: 0, context: 0, too_large: 0 })
    }

    /// Writes a record, after its description if it is the first of its kind.
    #[inline]
    fn put(&mut self, pass: &mut Pass<'_>, record: &Record<'_>, choice: Choice) -> Result<(), RelogError> {
        if self.embedded.as_mut().is_some_and(|embedded| embedded.is_new(record)) {
            self.describe(pass, record)?;
        }
        match choice {
            Choice::Event => self.events += 1,
            Choice::Context => self.context += 1,
        }
        if !self.redactions.is_empty() {
            let event = pass.event(record);
            if let Some(bytes) = self.redactions.apply(&event)? {
                let changed = redact::record_of(bytes, record);
                let is_written = changed.map_or(Ok(false), |record| self.output.put(&record))?;
                self.too_large += u32::from(!is_written);
                return Ok(());
            }
        }
        self.too_large += u32::from(!self.output.put(record)?);
        Ok(())
    }

    #[cold]
    fn describe(&mut self, pass: &mut Pass<'_>, record: &Record<'_>) -> Result<(), RelogError> {
        let Some(embedded) = &mut self.embedded else { return Ok(()) };
        // What one input says of an event describes those of all inputs in the output.
        if pass.is_carried(record) {
            return Ok(());
        }
        let schema = pass.schema(record);
        for description in embedded.describe_first(record, schema) {
            // A description that does not fit in a record or a buffer is left out.
            let Ok(bytes) = description.build() else { continue };
            if let Some(record) = embed::record_of(&bytes, record.origin(), record.raw_time()) {
                self.output.put(&record)?;
            }
        }
        Ok(())
    }

    fn finish(self, trace: &Trace, sources: &Sources) -> Result<(Complete, Relogged), RelogError> {
        let damaged = u32::try_from(lost_places(trace)).unwrap_or(u32::MAX);
        self.complete(damaged, sources)
    }

    /// Completes the file; `damaged` is the number of damaged places in the input files.
    fn complete(mut self, damaged: u32, sources: &Sources) -> Result<(Complete, Relogged), RelogError> {
        let mut appended = 0;
        // Stacks belong to events by their times, so an own time keeps others' stacks away.
        let last = self.output.with(|writer| Ok(writer.last_time()))?;
        let time = Ticks(last.0.saturating_add(1));
        for record in &*self.appended {
            let is_written = self.output.append(record, time)?;
            appended += u64::from(is_written);
            self.too_large += u32::from(!is_written);
        }
        let events_lost = sources.events_lost.saturating_add(damaged).saturating_add(self.too_large);
        let buffers_lost = sources.buffers_lost;
        self.output.with(|writer| {
            writer.set_losses(events_lost, buffers_lost);
            Ok(())
        })?;
        let Part { output, embedded, redactions, events, context, .. } = self;
        let path = output.path.clone();
        let complete = output.complete(sources.end)?;
        let relogged = Relogged {
            path,
            events,
            context,
            schemas: embedded.map_or(0, |embedded| embedded.count),
            appended,
            events_lost,
            buffers_lost,
            redacted: redactions.counts,
            blanked: redactions.blanked,
            len_bytes: complete.len_bytes,
            brought: sources.brought_names(),
            is_unclosed: sources.end.is_none(),
        };
        Ok((complete, relogged))
    }
}

/// Returns the number of damaged places, whose records are not in the output file.
fn lost_places(trace: &Trace) -> u64 {
    let statistics = trace.statistics();
    let is_kept =
        |kind: &DamageKind| matches!(kind, DamageKind::RecordParts { .. } | DamageKind::BufferSize { .. });
    let kept = statistics.damage.iter().filter(|(_, damage)| is_kept(&damage.kind)).count() as u64;
    statistics.damage_count.saturating_sub(kept)
}
