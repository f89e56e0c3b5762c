//! Reading events for a query: parts of traces, decided on headers, decoded only as far as columns need it.

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::error::ArrowError;
use etw_arrow::EventColumns;
use etw_consumer::ProcessTable;
use etw_event::{FileTime, Record};
use etw_schema::kinds::KindKey;
use etw_schema::{Event, EventSchema, HeaderField, HeaderOrigin, HeaderType, Located, Resolver};
use serde::{Deserialize, Serialize};

use crate::columns::{Names, OfTrace, Rows, Wanted, by_name, number};
use crate::condition::{Accepted, Condition};
use crate::scan::{Reading, Run};
use crate::source::{Part, Source};

/// Number of events that are not wanted, after which a reader looks whether the query has ended.
const CHECKED_EVERY: usize = 1 << 16;

/// Events that a buffer usually has: 64 KiB of some 250 bytes each.
const ROWS_OF_A_BUFFER: usize = 256;

/// A part of a trace, and the kind of events that is wanted of it.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) source: Source,
    pub(crate) kind: Option<Arc<KindKey>>,
    pub(crate) part: Part,
}

/// What is read of events.
#[derive(Debug)]
pub(crate) struct EventReading {
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) fields: EventColumns,
    pub(crate) conditions: Conditions,
}

/// Conditions on headers, all of which hold.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Conditions(Vec<HeaderCondition>);

/// A condition on a field of the header.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct HeaderCondition {
    #[serde(with = "by_name")]
    field: HeaderField,
    accepted: Accepted,
}

impl Conditions {
    /// Returns those of these conditions that are on headers.
    pub(crate) fn new(conditions: impl IntoIterator<Item = Condition>) -> Conditions {
        let on_header = |condition: Condition| {
            let field = HeaderField::from_column(&condition.column)?;
            Some(HeaderCondition { field, accepted: condition.accepted })
        };
        Conditions(conditions.into_iter().filter_map(on_header).collect())
    }

    /// Returns the range of time outside of which no event meets the conditions.
    pub(crate) fn times(&self) -> (Option<FileTime>, Option<FileTime>) {
        let (mut from, mut to) = (None, None);
        for HeaderCondition { field, accepted } in &self.0 {
            let (HeaderField::Time, Accepted::Numbers(ranges)) = (field, accepted) else { continue };
            let (first, last) = (ranges.first(), ranges.last());
            // Without a range, no time is accepted.
            let least = first.map_or(i128::MAX, |(low, _)| *low);
            let greatest = last.map_or(i128::MIN, |(_, high)| *high);
            from = from.max(file_time(least));
            if let Some(end) = file_time(greatest) {
                let end = FileTime(end.0.saturating_add(1));
                to = Some(to.map_or(end, |to: FileTime| to.min(end)));
            }
        }
        (from, to)
    }

    fn accept_header(&self, record: &Record<'_>, processes: &ProcessTable) -> bool {
        self.0.iter().all(|HeaderCondition { field, accepted }| match field {
            HeaderField::Provider | HeaderField::Event => true,
            HeaderField::Process => processes.name_of(record).is_some_and(|name| accepted.has_text(name)),
            field => number(*field, record).is_some_and(|number| accepted.has_number(number)),
        })
    }

    fn accept_names(&self, provider: &str, event: &str) -> bool {
        self.0.iter().all(|HeaderCondition { field, accepted }| match field {
            HeaderField::Provider => accepted.has_text(provider),
            HeaderField::Event => accepted.has_text(event),
            _ => true,
        })
    }

    fn need_names(&self) -> bool {
        self.0.iter().any(|one| matches!(one.field, HeaderField::Provider | HeaderField::Event))
    }
}

/// Whether a table decides a condition on a column exactly.
pub(crate) fn decides(condition: &Condition) -> bool {
    let Some(field) = HeaderField::from_column(&condition.column) else { return false };
    match (field, &condition.accepted) {
        (HeaderField::Provider | HeaderField::Event | HeaderField::Process, accepted) => {
            matches!(accepted, Accepted::Texts(_))
        }
        (field, Accepted::Numbers(_)) => is_number(field),
        _ => false,
    }
}

/// Whether the header of a record has a number for the field, or lacks it.
fn is_number(field: HeaderField) -> bool {
    let is_of_record =
        matches!(field.origin(), HeaderOrigin::Record | HeaderOrigin::Descriptor | HeaderOrigin::Place);
    let is_text = matches!(
        field.value_type(),
        HeaderType::Guid
            | HeaderType::Text
            | HeaderType::RepeatedText
            | HeaderType::Names
            | HeaderType::Bytes
            | HeaderType::Addresses
    );
    is_of_record && !is_text
}

/// Returns the last time that is not later than one in nanoseconds since 1970; `None` if every time is.
fn file_time(nanos: i128) -> Option<FileTime> {
    let ticks = nanos.div_euclid(100) + i128::from(FileTime::UNIX_EPOCH.0);
    match i64::try_from(ticks) {
        Ok(ticks) => Some(FileTime(ticks)),
        Err(_) if nanos > 0 => Some(FileTime(i64::MAX)),
        Err(_) => None,
    }
}

impl Reading for EventReading {
    type Piece = Piece;
    const NAME: &'static str = "EventScan";

    fn source(piece: &Piece) -> &Source {
        &piece.source
    }

    fn rows(piece: &Piece) -> usize {
        piece.part.buffers.saturating_mul(ROWS_OF_A_BUFFER)
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decided: Vec<&str> = self.conditions.0.iter().map(|one| one.field.column()).collect();
        if !decided.is_empty() {
            write!(f, ", decided=[{}]", decided.join(", "))?;
        }
        Ok(())
    }

    fn read(&self, piece: &Piece, run: &mut Run) -> anyhow::Result<()> {
        let EventReading { wanted, fields, conditions } = self;
        let Piece { source, kind, part } = piece;
        run.counter("buffers_in_range").add(part.buffers);
        run.counter("buffers_skipped").add(part.skipped);
        let scanned = source.scanned()?;
        let processes = &scanned.processes;
        let kind = kind.as_deref().map(KindMatch::new);
        let needs_names = conditions.need_names()
            || wanted.contains(&Wanted::Header(HeaderField::Provider))
            || wanted.contains(&Wanted::Header(HeaderField::Event));
        let needs_schema = needs_names
            || kind.as_ref().is_some_and(|kind| !kind.key.is_told_by_header())
            || wanted.iter().any(|wanted| wanted.needs_schema());
        let computers = match wanted.contains(&Wanted::Header(HeaderField::Computer)) {
            true => source.computers()?,
            false => &[],
        };
        let files = match wanted.contains(&Wanted::Header(HeaderField::SourceFile)) {
            true => source.file_names()?,
            false => Vec::new(),
        };
        let of_trace = OfTrace { name: &source.name, computers, files: &files };
        let is_place = |field: HeaderField| field.origin() == HeaderOrigin::Place;
        let needs_places = conditions.0.iter().any(|one| is_place(one.field))
            || wanted.iter().any(|wanted| matches!(wanted, Wanted::Header(field) if is_place(*field)));
        let (batch_rows, left) = (run.batch_rows, run.left());
        let mut state = State {
            resolver: scanned.resolver.clone(),
            located: Located::new(),
            kind,
            names: Names::default(),
            rows: Rows::new(run.schema.clone(), wanted, fields, of_trace),
            left,
            skipped: 0,
            run,
            failed: None,
        };
        let read = |state: &mut State<'_, '_>, record: &Record<'_>| {
            if state.kind.as_ref().is_some_and(|kind| !kind.key.may_have(record))
                || !conditions.accept_header(record, processes)
            {
                state.skipped += 1;
                return match state.skipped.is_multiple_of(CHECKED_EVERY) && state.run.has_ended() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                };
            }
            if state.left == 0 {
                return ControlFlow::Break(());
            }
            let names = &mut state.names;
            if needs_schema {
                let event = state.resolver.decode(record, &mut state.located);
                if state.kind.as_mut().is_some_and(|kind| !kind.has(&event)) {
                    return ControlFlow::Continue(());
                }
                let codes = needs_names
                    .then(|| names.of(&event, |provider, event| conditions.accept_names(provider, event)));
                if codes.is_some_and(|codes| !codes.is_wanted) {
                    return ControlFlow::Continue(());
                }
                state.rows.put(record, Some(&event), (names, codes), processes);
            } else {
                state.rows.put(record, None, (names, None), processes);
            }
            state.left -= 1;
            match state.rows.are_enough(batch_rows) || state.left == 0 {
                true => state.send(),
                false => ControlFlow::Continue(()),
            }
        };
        let mut events = 0;
        let mut steps = source.steps(*part)?.into_iter().peekable();
        while let Some(step) = steps.next() {
            let mut trace = source.range(step.from, step.to)?;
            if needs_places {
                trace.find_places();
            }
            if let Some(next) = steps.peek() {
                source.fetch_ahead(*next);
            }
            // Rows come in the order of time if that can be seen; without it, reading is faster.
            match wanted.contains(&Wanted::Header(HeaderField::Time)) {
                true => trace.for_each_record(|record| read(&mut state, record))?,
                false => trace.for_each_record_unordered(std::slice::from_mut(&mut state), read)?,
            }
            events += trace.statistics().records as usize;
            source.add_damage(trace.statistics())?;
            if state.left == 0 || state.failed.is_some() || state.run.has_ended() {
                break;
            }
        }
        if state.rows.len() > 0 {
            // When the query has ended, nobody takes the rest.
            let _ = state.send();
        }
        let State { run, skipped, failed, .. } = state;
        if let Some(error) = failed {
            return Err(error.into());
        }
        run.counter("events_read").add(events);
        run.counter("events_decided_by_header").add(skipped);
        Ok(())
    }
}

/// What reading changes.
struct State<'k, 'r> {
    resolver: Resolver,
    located: Located,
    kind: Option<KindMatch<'k>>,
    names: Names,
    rows: Rows,
    /// Number of rows that are still wanted.
    left: usize,
    /// Number of events that their headers decided.
    skipped: usize,
    run: &'r mut Run,
    failed: Option<ArrowError>,
}

impl State<'_, '_> {
    /// Passes the rows on.
    fn send(&mut self) -> ControlFlow<()> {
        match self.rows.take(&mut self.names) {
            Ok(batch) if self.run.send(&batch) => ControlFlow::Continue(()),
            Ok(_) => ControlFlow::Break(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// Which events are of a kind. The names of each schema are compared once.
struct KindMatch<'k> {
    key: &'k KindKey,
    by_schema: HashMap<usize, (Arc<EventSchema>, bool)>,
}

impl<'k> KindMatch<'k> {
    fn new(key: &'k KindKey) -> KindMatch<'k> {
        KindMatch { key, by_schema: HashMap::new() }
    }

    fn has(&mut self, event: &Event<'_>) -> bool {
        if self.key.is_told_by_header() {
            return true;
        }
        let Some(schema) = event.schema() else { return self.key.has(event) };
        let key = self.key;
        let address = Arc::as_ptr(schema) as usize;
        self.by_schema.entry(address).or_insert_with(|| (schema.clone(), key.has(event))).1
    }
}
