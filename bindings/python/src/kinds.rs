//! Kinds of events, `Provider/Event` or `Class/Type`, as record batches.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array, new_null_array};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use openetw::export::{HeaderField, RowCollector, joined_type};
use openetw::schema::EventSchema;
use openetw::schema::kinds::KindName;
use openetw::{Event, StopHandle, Trace};

use crate::convert::convert;
use crate::errors::Failure;

/// Number of rows of a batch.
const BATCH_ROWS: u64 = 1 << 16;

/// Returns what a kind of events is called: `Provider/Event`, or `Class/Type` for classic events.
pub(crate) fn kind_name(event: &Event<'_>) -> String {
    KindName::new(event).to_string()
}

/// Returns the number of events of each kind, in order of first appearance.
pub(crate) fn count(trace: &mut Trace, stop: &StopHandle) -> Result<Vec<(String, u64)>, Failure> {
    let mut kinds = Kinds::default();
    let mut counts: Vec<(String, u64)> = Vec::new();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    trace.for_each_event(|event| {
        let number = kinds.number(event, || {
            let name = kind_name(event);
            *numbers.entry(name.clone()).or_insert_with(|| {
                counts.push((name, 0));
                counts.len() - 1
            })
        });
        counts[number].1 += 1;
        flow(stop)
    })?;
    Ok(counts)
}

/// Reads the events of a kind. Returns `None` if the trace has none.
pub(crate) fn read_one(
    trace: &mut Trace,
    wanted: &str,
    stop: &StopHandle,
) -> Result<Option<Vec<RecordBatch>>, Failure> {
    let mut tables = read(trace, stop, |_, event| KindName::new(event).is(wanted))?;
    let Some((_, mut batches)) = tables.pop() else { return Ok(None) };
    // The name of one provider may be written in several ways.
    tables.into_iter().rev().for_each(|(_, more)| batches.splice(..0, more).for_each(drop));
    Ok(Some(merge_versions(batches)?))
}

/// Returns the columns of a kind of events, as its first event has them, without rows.
pub(crate) fn columns_of(trace: &mut Trace, wanted: &str) -> Result<Option<Vec<RecordBatch>>, Failure> {
    let first = StopHandle::default();
    let tables = read(trace, &first, |_, event| {
        let is_it = KindName::new(event).is(wanted);
        if is_it {
            first.stop();
        }
        is_it
    });
    Ok(tables?.pop().map(|(_, batches)| batches.iter().map(|batch| batch.slice(0, 0)).collect()))
}

/// Reads the events of all kinds in one pass, in order of first appearance.
pub(crate) fn read_all(
    trace: &mut Trace,
    stop: &StopHandle,
) -> Result<Vec<(String, Vec<RecordBatch>)>, Failure> {
    let tables = read(trace, stop, |_, _| true)?;
    tables.into_iter().map(|(name, batches)| Ok((name, merge_versions(batches)?))).collect()
}

/// Reads the events of the kinds that are wanted, each into a table with the name of the kind.
fn read(
    trace: &mut Trace,
    stop: &StopHandle,
    is_wanted: impl Fn(&str, &Event<'_>) -> bool,
) -> Result<Vec<(String, Vec<RecordBatch>)>, Failure> {
    let mut kinds = Kinds::default();
    let mut tables: Vec<(String, RowCollector, Vec<RecordBatch>)> = Vec::new();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut failed = Ok(());
    trace.for_each_event(|event| {
        let number = kinds.number(event, || {
            let name = kind_name(event);
            if !is_wanted(&name, event) {
                return usize::MAX;
            }
            *numbers.entry(name.clone()).or_insert_with(|| {
                tables.push((name, RowCollector::new(), Vec::new()));
                tables.len() - 1
            })
        });
        if let Some((_, rows, batches)) = tables.get_mut(number)
            && let Err(error) = add(rows, batches, event)
        {
            failed = Err(error);
            return ControlFlow::Break(());
        }
        flow(stop)
    })?;
    failed?;
    let finish = |(name, mut rows, mut batches): (String, RowCollector, Vec<RecordBatch>)| {
        batches.extend(rows.take()?.into_batches());
        Ok((name, batches))
    };
    tables.into_iter().map(finish).collect()
}

/// Adds an event to the rows of its table, which become a batch when they are enough.
fn add(rows: &mut RowCollector, batches: &mut Vec<RecordBatch>, event: &Event<'_>) -> io::Result<()> {
    rows.put(event)?;
    if rows.events() >= BATCH_ROWS {
        batches.extend(rows.take()?.into_batches());
    }
    Ok(())
}

fn flow(stop: &StopHandle) -> ControlFlow<()> {
    if stop.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// The numbers of kinds, by the schemas of their events.
#[derive(Default)]
struct Kinds {
    /// By the address of the schema, which is kept so that addresses stay unique.
    by_schema: HashMap<usize, (Arc<EventSchema>, usize)>,
    /// The schema of the last event, which the next one often has too.
    last: Option<(usize, usize)>,
}

impl Kinds {
    fn number(&mut self, event: &Event<'_>, find: impl FnOnce() -> usize) -> usize {
        let Some(schema) = event.schema() else { return find() };
        let address = Arc::as_ptr(schema) as usize;
        if let Some((_, number)) = self.last.filter(|(last, _)| *last == address) {
            return number;
        }
        let number = match self.by_schema.get(&address) {
            Some((_, number)) => *number,
            None => {
                let number = find();
                self.by_schema.insert(address, (schema.clone(), number));
                number
            }
        };
        self.last = Some((address, number));
        number
    }
}

/// Gives batches of several versions of an event one schema: the fields of all, each of a type that holds all values. The
/// rows are in the order of time.
fn merge_versions(batches: Vec<RecordBatch>) -> Result<Vec<RecordBatch>, ArrowError> {
    let Some(first) = batches.first() else { return Ok(batches) };
    if batches.iter().all(|batch| batch.schema_ref().fields() == first.schema_ref().fields()) {
        return Ok(batches);
    }
    let mut fields: Vec<Field> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut seen: Vec<SchemaRef> = Vec::new();
    for batch in &batches {
        if seen.iter().any(|schema| Arc::ptr_eq(schema, batch.schema_ref())) {
            continue;
        }
        seen.push(batch.schema());
        for field in batch.schema_ref().fields() {
            match places.get(field.name()) {
                Some(place) => {
                    let data_type = joined_type(fields[*place].data_type(), field.data_type());
                    fields[*place].set_data_type(data_type);
                }
                None => {
                    places.insert(field.name().clone(), fields.len());
                    fields.push(field.as_ref().clone());
                }
            }
        }
    }
    let schema = Arc::new(Schema::new_with_metadata(fields, first.schema_ref().metadata().clone()));
    let batches = batches.iter().map(|batch| with_schema(batch, &schema)).collect::<Result<Vec<_>, _>>()?;
    Ok(vec![in_order_of_time(&concat_batches(&schema, &batches)?)?])
}

/// Sorts rows by time; those of one time stay in their order.
fn in_order_of_time(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let times = batch.column_by_name(HeaderField::Time.column());
    let Some(times) = times.and_then(|times| times.as_primitive_opt::<TimestampNanosecondType>()) else {
        return Ok(batch.clone());
    };
    let mut rows: Vec<u64> = (0..batch.num_rows() as u64).collect();
    rows.sort_by_key(|row| times.value(*row as usize));
    take_record_batch(batch, &UInt64Array::from(rows))
}

fn with_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = schema.fields().iter().map(|field| -> Result<ArrayRef, ArrowError> {
        match batch.column_by_name(field.name()) {
            Some(column) => convert(column, field.data_type()),
            None => Ok(new_null_array(field.data_type(), batch.num_rows())),
        }
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
}
