//! Scans: leaves of plans, each partition of which reads pieces of traces.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
    SendableRecordBatchStream,
};
use tokio::sync::mpsc::Sender;

use crate::columns::BATCH_BYTES;
use crate::error;
use crate::resources::Pace;
use crate::source::Source;

/// Batches that wait for the query, of each partition.
const AHEAD: usize = 1;
/// Number of partitions, each of which has a thread while a query reads it.
const MAX_PARTITIONS: usize = 64;
/// Part of the memory for queries that batches of partitions may have, and what those of one have: one that is made, one
/// that waits, and one that is used.
const BATCHES_PART: usize = 4;
const PARTITION_BYTES: usize = 3 * BATCH_BYTES;

/// How a table is read, in pieces that stand alone.
pub(crate) trait Reading: fmt::Debug + Any + Send + Sync {
    /// A part of a trace.
    type Piece: Clone + fmt::Debug + Send + Sync;
    /// Name of the scan in plans.
    const NAME: &'static str;

    /// Returns the trace of a piece.
    fn source(piece: &Self::Piece) -> &Source;

    /// Estimates the number of rows of a piece. Joins keep the side with fewer rows in memory.
    fn rows(piece: &Self::Piece) -> usize;

    /// Writes what `EXPLAIN` shows besides the columns: `, key=value`.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Reads a piece, on a thread that may block.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be read.
    fn read(&self, piece: &Self::Piece, run: &mut Run) -> anyhow::Result<()>;
}

/// A scan of a table.
#[derive(Debug)]
pub(crate) struct Scan<R: Reading> {
    table: String,
    schema: SchemaRef,
    reading: Arc<R>,
    partitions: Vec<Vec<R::Piece>>,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl<R: Reading> Scan<R> {
    /// Creates a scan. Each piece has a partition of its own, unless there are too many.
    pub(crate) fn new(
        table: &str,
        schema: SchemaRef,
        reading: Arc<R>,
        pieces: Vec<R::Piece>,
        limit: Option<usize>,
    ) -> Scan<R> {
        let count = pieces.len().min(MAX_PARTITIONS);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(count),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Scan {
            table: table.to_owned(),
            schema,
            reading,
            partitions: divided(pieces, count),
            limit,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Reads as many pieces at a time as the pace and the memory of a query allow.
    pub(crate) fn fitted(self, state: &dyn Session) -> Scan<R> {
        let most = match (Pace::from_config(state.config()), state.runtime_env().memory_pool.memory_limit()) {
            (Pace::OneByOne, _) => 1,
            (_, MemoryLimit::Finite(bytes)) => (bytes / BATCHES_PART / PARTITION_BYTES).max(1),
            _ => MAX_PARTITIONS,
        };
        match self.partitions.len() > most {
            true => self.with_pieces(self.pieces().cloned().collect(), most),
            false => self,
        }
    }

    /// Says that the rows of each piece are in the ascending order of a column.
    ///
    /// # Errors
    ///
    /// Fails if there is no such column.
    pub(crate) fn ordered_by(mut self, column: &str) -> Result<Scan<R>> {
        if self.partitions.iter().any(|pieces| pieces.len() > 1) {
            return Ok(self);
        }
        let options = SortOptions { descending: false, nulls_first: false };
        let ordering = LexOrdering::new([PhysicalSortExpr { expr: col(column, &self.schema)?, options }]);
        let equivalences = EquivalenceProperties::new_with_orderings(self.schema.clone(), ordering);
        self.properties = Arc::new((*self.properties).clone().with_eq_properties(equivalences));
        Ok(self)
    }

    /// Divides the scan into as many, which have the same number of partitions.
    pub(crate) fn split(&self, count: usize) -> Vec<Scan<R>> {
        let parts = divided(self.pieces().cloned().collect(), count);
        let partitions = parts.iter().map(Vec::len).max().unwrap_or(0).clamp(1, MAX_PARTITIONS);
        parts.into_iter().map(|pieces| self.with_pieces(pieces, partitions)).collect()
    }

    /// Returns the scan with other pieces in a number of partitions.
    pub(crate) fn with_pieces(&self, pieces: Vec<R::Piece>, partitions: usize) -> Scan<R> {
        let partitioning = Partitioning::UnknownPartitioning(partitions);
        Scan {
            table: self.table.clone(),
            schema: self.schema.clone(),
            reading: self.reading.clone(),
            partitions: divided(pieces, partitions),
            limit: self.limit,
            properties: Arc::new((*self.properties).clone().with_partitioning(partitioning)),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    pub(crate) fn reading(&self) -> &R {
        &self.reading
    }

    pub(crate) fn pieces(&self) -> impl Iterator<Item = &R::Piece> {
        self.partitions.iter().flatten()
    }

    /// Whether an order is declared.
    pub(crate) fn is_ordered(&self) -> bool {
        self.properties.output_ordering().is_some()
    }
}

/// Divides pieces into parts of about the same number, of neighbours.
fn divided<P>(pieces: Vec<P>, count: usize) -> Vec<Vec<P>> {
    let len = pieces.len();
    let mut pieces = pieces.into_iter();
    (0..count)
        .map(|part| {
            let size = (part + 1) * len / count - part * len / count;
            pieces.by_ref().take(size).collect()
        })
        .collect()
}

impl<R: Reading> DisplayAs for Scan<R> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: table={}, parts={}", R::NAME, self.table, self.pieces().count())?;
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, ", columns=[{}]", names.join(", "))?;
        self.reading.describe(f)?;
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        Ok(())
    }
}

impl<R: Reading> ExecutionPlan for Scan<R> {
    fn name(&self) -> &str {
        R::NAME
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
        if children.is_empty() { Ok(self) } else { internal_err!("{} has no children", R::NAME) }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("{} has no children", R::NAME) }
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let partitions = match args.partition() {
            Some(partition) => self.partitions.get(partition..=partition).unwrap_or_default(),
            None => &self.partitions,
        };
        let rows = partitions.iter().flatten().map(R::rows).sum();
        // Not exact, so that no answer is made of it.
        let rows = Precision::Inexact(self.limit.map_or(rows, |limit| limit.min(rows)));
        Ok(Arc::new(Statistics::new_unknown(&self.schema).with_num_rows(rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(pieces) = self.partitions.get(partition).cloned() else {
            return internal_err!("there is no part {partition}");
        };
        let mut stream = RecordBatchReceiverStreamBuilder::new(self.schema.clone(), AHEAD);
        let mut run = Run {
            schema: self.schema.clone(),
            batch_rows: context.session_config().batch_size(),
            left: self.limit.unwrap_or(usize::MAX),
            metrics: self.metrics.clone(),
            partition,
            output_rows: MetricBuilder::new(&self.metrics).output_rows(partition),
            batches: stream.tx(),
        };
        let reading = self.reading.clone();
        stream.spawn_blocking(move || {
            for piece in &pieces {
                if run.left == 0 || run.has_ended() {
                    break;
                }
                let source = R::source(piece);
                let read = reading.read(piece, &mut run).and_then(|()| source.check());
                read.map_err(error::of_trace)?;
            }
            Ok(())
        });
        Ok(stream.build())
    }
}

/// One run of a partition: where its rows go.
pub(crate) struct Run {
    pub(crate) schema: SchemaRef,
    /// Number of rows of a batch.
    pub(crate) batch_rows: usize,
    /// Number of rows that are still wanted.
    left: usize,
    metrics: ExecutionPlanMetricsSet,
    partition: usize,
    output_rows: Count,
    batches: Sender<Result<RecordBatch>>,
}

impl Run {
    /// Returns a number that `EXPLAIN ANALYZE` shows.
    pub(crate) fn counter(&self, name: &'static str) -> Count {
        MetricBuilder::new(&self.metrics).counter(name, self.partition)
    }

    /// Returns the number of rows that are still wanted.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Whether the query has ended, so that nobody takes rows.
    pub(crate) fn has_ended(&self) -> bool {
        self.batches.is_closed()
    }

    /// Passes rows on, not more than are wanted. Returns whether more are.
    pub(crate) fn send(&mut self, batch: &RecordBatch) -> bool {
        let batch = batch.slice(0, batch.num_rows().min(self.left));
        self.left -= batch.num_rows();
        self.output_rows.add(batch.num_rows());
        self.batches.blocking_send(Ok(batch)).is_ok() && self.left > 0
    }
}
