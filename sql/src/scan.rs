//! Reading events for a query: parts of traces, decided on headers, decoded only as far as columns need it.

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
    SendableRecordBatchStream,
};
use etw_analysis::EventTable;
use etw_consumer::ProcessTable;
use etw_event::{FileTime, Record};
use etw_export::columns::EventColumns;
use etw_schema::{Event, EventSchema, Located, Resolver};

use crate::columns::{Header, Names, Rows, Wanted};
use crate::condition::{Accepted, Condition};
use crate::error;
use crate::source::{Part, Source};

/// Batches that wait for the query, of each part.
const AHEAD: usize = 2;
/// Number of events that are not wanted, after which a reader looks whether the query has ended.
const CHECKED_EVERY: usize = 1 << 16;

/// A part of a trace, and the kind of events that is wanted of it.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) source: Arc<Source>,
    pub(crate) kind: Option<Arc<EventTable>>,
    pub(crate) part: Part,
}

/// Events of some traces. Each partition is a part of one.
#[derive(Debug)]
pub(crate) struct EventScan {
    table: String,
    schema: SchemaRef,
    pieces: Vec<Piece>,
    wanted: Vec<Wanted>,
    fields: EventColumns,
    conditions: Conditions,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// Conditions on headers, all of which hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conditions(Vec<(Header, Accepted)>);

impl Conditions {
    /// Returns those of these conditions that are on headers.
    pub(crate) fn new(conditions: impl IntoIterator<Item = Condition>) -> Conditions {
        let on_header =
            |condition: Condition| Some((Header::of_name(&condition.column)?, condition.accepted));
        Conditions(conditions.into_iter().filter_map(on_header).collect())
    }

    /// Returns the range of time outside of which no event meets the conditions.
    pub(crate) fn times(&self) -> (Option<FileTime>, Option<FileTime>) {
        let (mut from, mut to) = (None, None);
        for (header, accepted) in &self.0 {
            let (Header::Time, Accepted::Numbers(ranges)) = (header, accepted) else { continue };
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
        self.0.iter().all(|(header, accepted)| match header {
            Header::Provider | Header::Event => true,
            Header::Process => processes.name_of(record).is_some_and(|name| accepted.has_text(name)),
            header => header.number(record).is_some_and(|number| accepted.has_number(number)),
        })
    }

    fn accept_names(&self, provider: &str, event: &str) -> bool {
        self.0.iter().all(|(header, accepted)| match header {
            Header::Provider => accepted.has_text(provider),
            Header::Event => accepted.has_text(event),
            _ => true,
        })
    }

    fn need_names(&self) -> bool {
        self.0.iter().any(|(header, _)| matches!(header, Header::Provider | Header::Event))
    }
}

/// Whether a table decides a condition on a column exactly.
pub(crate) fn decides(condition: &Condition) -> bool {
    use Header::*;
    match (Header::of_name(&condition.column), &condition.accepted) {
        (Some(Provider | Event | Process), Accepted::Texts(_)) => true,
        (Some(Provider | Event | Process | Activity | RelatedActivity | Payload | Trace) | None, _) => false,
        (Some(_), accepted) => matches!(accepted, Accepted::Numbers(_)),
    }
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

impl EventScan {
    /// Prepares reading.
    ///
    /// `in_order` says that each piece has its events in the order of time.
    pub(crate) fn new(
        table: &str,
        schema: SchemaRef,
        pieces: Vec<Piece>,
        (wanted, fields): (Vec<Wanted>, EventColumns),
        conditions: Conditions,
        limit: Option<usize>,
        in_order: bool,
    ) -> Result<EventScan> {
        let time = Header::Time.name();
        let ordering = match in_order && wanted.contains(&Wanted::Header(Header::Time)) {
            true => {
                let options = SortOptions { descending: false, nulls_first: false };
                LexOrdering::new([PhysicalSortExpr { expr: col(time, &schema)?, options }])
            }
            false => None,
        };
        let equivalences = EquivalenceProperties::new_with_orderings(schema.clone(), ordering);
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(pieces.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(EventScan {
            table: table.to_owned(),
            schema,
            pieces,
            wanted,
            fields,
            conditions,
            limit,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl DisplayAs for EventScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventScan: table={}, parts={}", self.table, self.pieces.len())?;
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, ", columns=[{}]", names.join(", "))?;
        let decided: Vec<&str> = self.conditions.0.iter().map(|(header, _)| header.name()).collect();
        if !decided.is_empty() {
            write!(f, ", decided=[{}]", decided.join(", "))?;
        }
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for EventScan {
    fn name(&self) -> &str {
        "EventScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("events have no children") }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("events have no children") }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(piece) = self.pieces.get(partition).cloned() else {
            return internal_err!("there is no part {partition}");
        };
        let mut stream = RecordBatchReceiverStreamBuilder::new(self.schema.clone(), AHEAD);
        let batches = stream.tx();
        let reader = Reader {
            schema: self.schema.clone(),
            piece,
            wanted: self.wanted.clone(),
            fields: self.fields.clone(),
            conditions: self.conditions.clone(),
            limit: self.limit.unwrap_or(usize::MAX),
            batch_rows: context.session_config().batch_size(),
            is_ordered: self.wanted.contains(&Wanted::Header(Header::Time)),
            counts: Counts::new(&self.metrics, partition),
        };
        stream.spawn_blocking(move || {
            let has_ended = || batches.is_closed();
            reader.read(has_ended, |batch| batches.blocking_send(Ok(batch)).is_ok())
        });
        Ok(stream.build())
    }
}

/// What `EXPLAIN ANALYZE` shows.
struct Counts {
    buffers_read: Count,
    buffers_skipped: Count,
    events_read: Count,
    events_skipped: Count,
    output_rows: Count,
}

impl Counts {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Counts {
        let counter = |name| MetricBuilder::new(metrics).counter(name, partition);
        Counts {
            buffers_read: counter("buffers_in_range"),
            buffers_skipped: counter("buffers_skipped"),
            events_read: counter("events_read"),
            events_skipped: counter("events_decided_by_header"),
            output_rows: MetricBuilder::new(metrics).output_rows(partition),
        }
    }
}

/// Reads one piece.
struct Reader {
    schema: SchemaRef,
    piece: Piece,
    wanted: Vec<Wanted>,
    fields: EventColumns,
    conditions: Conditions,
    limit: usize,
    batch_rows: usize,
    /// Whether the rows come in the order of time; without it, reading is faster.
    is_ordered: bool,
    counts: Counts,
}

/// What reading changes.
struct State<S> {
    resolver: Resolver,
    located: Located,
    kind: Option<KindMatch>,
    names: Names,
    rows: Rows,
    out: Out<S>,
    /// Number of events that their headers decided.
    skipped: usize,
}

impl Reader {
    /// Reads the piece, and passes batches to `send` until it returns false, or until `has_ended` returns true.
    fn read(
        self,
        has_ended: impl Fn() -> bool + Sync,
        send: impl FnMut(RecordBatch) -> bool + Send,
    ) -> Result<()> {
        let Reader { schema, piece, wanted, fields, conditions, limit, batch_rows, is_ordered, counts } =
            self;
        let Piece { source, kind, part } = piece;
        counts.buffers_read.add(part.buffers);
        counts.buffers_skipped.add(part.skipped);
        let scanned = source.scanned().map_err(error::of_trace)?;
        let processes = &scanned.processes;
        let mut trace = scanned.range(part.from, part.to);
        let needs_names = conditions.need_names()
            || wanted.contains(&Wanted::Header(Header::Provider))
            || wanted.contains(&Wanted::Header(Header::Event));
        let needs_schema = needs_names
            || kind.as_ref().is_some_and(|kind| !kind.is_told_by_header())
            || wanted.iter().any(|wanted| match wanted {
                Wanted::Header(header) => header.needs_schema(),
                Wanted::Field(_) => true,
            });
        let mut state = State {
            resolver: scanned.resolver.clone(),
            located: Located::new(),
            kind: kind.map(KindMatch::new),
            names: Names::default(),
            rows: Rows::new(schema, &wanted, &fields, &source.name),
            out: Out { send, left: limit, error: None, sent: 0 },
            skipped: 0,
        };
        let read = |state: &mut State<_>, record: &Record<'_>| {
            let State { resolver, located, kind, names, rows, out, skipped } = state;
            if kind.as_ref().is_some_and(|kind| !kind.table.may_have(record))
                || !conditions.accept_header(record, processes)
            {
                *skipped += 1;
                return match skipped.is_multiple_of(CHECKED_EVERY) && has_ended() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                };
            }
            if out.left == 0 {
                return ControlFlow::Break(());
            }
            if needs_schema {
                let event = resolver.decode(record, located);
                if kind.as_mut().is_some_and(|kind| !kind.has(&event)) {
                    return ControlFlow::Continue(());
                }
                let codes = needs_names
                    .then(|| names.of(&event, |provider, event| conditions.accept_names(provider, event)));
                if codes.is_some_and(|codes| !codes.is_wanted) {
                    return ControlFlow::Continue(());
                }
                rows.put(record, Some(&event), (names, codes), processes);
            } else {
                rows.put(record, None, (names, None), processes);
            }
            out.left -= 1;
            match rows.len() >= batch_rows || out.left == 0 {
                true => out.send(rows.take(names)),
                false => ControlFlow::Continue(()),
            }
        };
        match is_ordered {
            true => trace.for_each_record(|record| read(&mut state, record)),
            false => trace.for_each_record_unordered(std::slice::from_mut(&mut state), read),
        }
        .map_err(|error| error::of_trace(error.into()))?;
        let State { mut names, mut rows, mut out, skipped, .. } = state;
        if rows.len() > 0 && out.error.is_none() {
            // When the query has ended, nobody takes the rest.
            let _ = out.send(rows.take(&mut names));
        }
        let statistics = trace.statistics();
        source.add_damage(statistics.damage_count);
        counts.events_read.add(statistics.records as usize);
        counts.events_skipped.add(skipped);
        counts.output_rows.add(out.sent);
        out.error.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// Where batches go.
struct Out<S> {
    send: S,
    /// Number of rows that are still wanted.
    left: usize,
    sent: usize,
    error: Option<datafusion::arrow::error::ArrowError>,
}

impl<S: FnMut(RecordBatch) -> bool> Out<S> {
    fn send(&mut self, batch: Result<RecordBatch, datafusion::arrow::error::ArrowError>) -> ControlFlow<()> {
        match batch {
            Ok(batch) => {
                self.sent += batch.num_rows();
                if (self.send)(batch) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            }
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// Which events are of a kind. The names of each schema are compared once.
struct KindMatch {
    table: Arc<EventTable>,
    by_schema: HashMap<usize, (Arc<EventSchema>, bool)>,
}

impl KindMatch {
    fn new(table: Arc<EventTable>) -> KindMatch {
        KindMatch { table, by_schema: HashMap::new() }
    }

    fn has(&mut self, event: &Event<'_>) -> bool {
        if self.table.is_told_by_header() {
            return true;
        }
        let Some(schema) = event.schema() else { return self.table.has(event) };
        let table = &self.table;
        let address = Arc::as_ptr(schema) as usize;
        self.by_schema.entry(address).or_insert_with(|| (schema.clone(), table.has(event))).1
    }
}
