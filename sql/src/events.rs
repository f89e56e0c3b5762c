//! The tables of events: `events`, and one for each kind.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use etw_arrow::EventColumns;
use etw_schema::HeaderField;
use etw_schema::kinds::KindKey;
use etw_tables::EventTable;

use crate::absent;
use crate::catalog::STACK_RECORDS;
use crate::columns::{TRACE, Wanted, event_columns, kind_columns};
use crate::condition::Condition;
use crate::error;
use crate::reading::{Conditions, EventReading, Piece, decides};
use crate::scan::Scan;
use crate::source::{PART_BYTES, Source, prepare};

/// A table of events of some traces.
#[derive(Debug)]
pub(crate) struct EventsTable {
    name: String,
    sources: Vec<(Source, Option<Arc<KindKey>>)>,
    schema: SchemaRef,
    columns: Vec<Wanted>,
    fields: EventColumns,
}

impl EventsTable {
    /// Returns the table of all events.
    pub(crate) fn all(sources: &[Source]) -> EventsTable {
        let sources = sources.iter().map(|source| (source.clone(), None)).collect();
        EventsTable::new("events", sources, event_columns(), EventColumns::default())
    }

    /// Returns the table of the kind of events with a name; `None` if no trace has such events, and nothing else describes
    /// them.
    ///
    /// # Errors
    ///
    /// Fails if a trace cannot be read.
    pub(crate) fn of_kind(sources: &[Source], name: &str) -> anyhow::Result<Option<EventsTable>> {
        let stacks =
            name.get(..STACK_RECORDS.len()).is_some_and(|start| start.eq_ignore_ascii_case(STACK_RECORDS));
        let mut kinds: Vec<(&Source, &EventTable)> = Vec::new();
        for source in sources {
            kinds.extend(source.kinds(stacks)?.iter().map(|kind| (source, kind)));
        }
        // The kind is the same in every trace, whatever it is called there.
        let key = find(kinds.iter().map(|(_, kind)| *kind), name).map(EventTable::key);
        let found: Vec<_> = kinds.iter().filter(|(_, kind)| Some(kind.key()) == key).collect();
        let Some((_, first)) = found.first() else {
            let Some(source) = sources.first() else { return Ok(None) };
            let known = absent::kind(&source.scanned()?.resolver, name);
            return Ok(known.map(|kind| {
                let fields =
                    EventColumns::from_schemas(kind.schemas().iter().map(|schema| &**schema), &reserved());
                EventsTable::of_fields(&kind.schema().name, Vec::new(), fields)
            }));
        };
        let name = first.schema().name.to_string();
        let schemas = found.iter().flat_map(|(_, kind)| kind.schemas());
        let fields = EventColumns::from_schemas(schemas.map(|schema| &**schema), &reserved());
        let sources =
            found.iter().map(|(source, kind)| ((*source).clone(), Some(Arc::new(kind.key().clone()))));
        Ok(Some(EventsTable::of_fields(&name, sources.collect(), fields)))
    }

    fn of_fields(
        name: &str,
        sources: Vec<(Source, Option<Arc<KindKey>>)>,
        fields: EventColumns,
    ) -> EventsTable {
        let of_fields = (0..fields.fields().len()).map(Wanted::Field);
        let columns = kind_columns().chain(of_fields).chain([Wanted::Trace]).collect();
        EventsTable::new(name, sources, columns, fields)
    }

    fn new(
        name: &str,
        sources: Vec<(Source, Option<Arc<KindKey>>)>,
        columns: Vec<Wanted>,
        fields: EventColumns,
    ) -> EventsTable {
        let mut of_fields = fields.fields().into_iter();
        let schema: Vec<_> =
            columns.iter().filter_map(|column| column.field().or_else(|| of_fields.next())).collect();
        EventsTable { name: name.to_owned(), sources, schema: Arc::new(Schema::new(schema)), columns, fields }
    }

    /// Returns the condition that an expression is, if the table decides it.
    fn condition(&self, expression: &Expr) -> Option<Condition> {
        let condition = Condition::from_expression(expression).filter(decides)?;
        // A field never has the name of a column of the header.
        self.schema.index_of(&condition.column).ok()?;
        Some(condition)
    }
}

/// Returns the names that no field of an event has, as they are those of columns of the header.
pub(crate) fn reserved() -> Vec<&'static str> {
    HeaderField::kind_columns().map(HeaderField::column).chain([TRACE]).collect()
}

/// Finds the kind with a name: as it is shown, in any case, or as other descriptions call the event.
fn find<'k>(kinds: impl Iterator<Item = &'k EventTable> + Clone, name: &str) -> Option<&'k EventTable> {
    let exact = kinds.clone().find(|kind| kind.schema().name == name);
    let in_any_case = || kinds.clone().find(|kind| kind.schema().name.eq_ignore_ascii_case(name));
    exact.or_else(in_any_case).or_else(|| kinds.clone().find(|kind| kind.is_called(name)))
}

#[async_trait]
impl TableProvider for EventsTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let decided = |filter: &&Expr| match self.condition(filter) {
            Some(_) => TableProviderFilterPushDown::Exact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(decided).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => self.schema.clone(),
        };
        let wanted = match projection {
            Some(columns) => columns.iter().filter_map(|column| self.columns.get(*column).copied()).collect(),
            None => self.columns.clone(),
        };
        let conditions = Conditions::new(filters.iter().filter_map(|filter| self.condition(filter)));
        let (from, to) = conditions.times();
        let threads = state.config().target_partitions();
        let each = threads.div_ceil(self.sources.len().max(1));
        let sources = self.sources.clone();
        let pieces = move || -> anyhow::Result<(Vec<Piece>, bool)> {
            prepare(sources.iter().map(|(source, _)| source), |source| source.scanned().map(|_| ()));
            let (mut pieces, mut in_order) = (Vec::new(), true);
            for (source, kind) in sources {
                let scanned = source.scanned()?;
                in_order &= scanned.is_in_order();
                for part in scanned.parts(from, to, each, PART_BYTES) {
                    pieces.push(Piece { source: source.clone(), kind: kind.clone(), part });
                }
            }
            Ok((pieces, in_order))
        };
        let (pieces, in_order) = blocking(pieces).await?;
        if pieces.is_empty() {
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let is_ordered = in_order && wanted.contains(&Wanted::Header(HeaderField::Time));
        let reading = EventReading { wanted, fields: self.fields.clone(), conditions };
        let scan = Scan::new(&self.name, schema, Arc::new(reading), pieces, limit).fitted(state);
        Ok(Arc::new(if is_ordered { scan.ordered_by(HeaderField::Time.column())? } else { scan }))
    }
}

/// Runs work that reads files, on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    let done =
        done.map_err(|error| error::of_trace(anyhow::anyhow!("a thread that reads failed: {error}")))?;
    done.map_err(error::of_trace)
}
