//! Arrays and structs in events as columns with the types of their schema, for tables that others write.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use etw_schema::kinds::{FieldType, MAX_COLUMNS};
use etw_schema::{EventSchema, PropertyValue};

use super::builder::{Builder, Lost};
use super::types::data_type;

/// Columns of arrays and structs: each has the values of one property of the events of a kind.
///
/// ```
/// use arrow_array::RecordBatch;
/// use etw_arrow::NestedColumns;
/// use etw_schema::Event;
///
/// /// Returns the values of a property of some events.
/// fn values(events: &[Event<'_>], number: usize) -> Option<RecordBatch> {
///     let schema = events.first()?.schema()?;
///     let mut columns = NestedColumns::default();
///     columns.add("values", &[(&**schema, number)]);
///     for event in events {
///         columns.put([event.properties.as_ref().ok()?.iter().nth(number)]);
///     }
///     columns.take().ok()
/// }
/// ```
#[derive(Debug, Default)]
pub struct NestedColumns {
    names: Vec<String>,
    kinds: Vec<FieldType>,
    builders: Vec<Builder>,
    lost: Lost,
    rows: usize,
}

impl NestedColumns {
    /// Adds a column for a property, which each schema of the events has at a number.
    ///
    /// Returns false, without adding it, if the property is no array or struct, or has several types.
    pub fn add(&mut self, name: &str, properties: &[(&EventSchema, usize)]) -> bool {
        let mut kinds = properties.iter().map(|(schema, number)| {
            FieldType::from_property(schema, schema.properties.get(*number)?, &mut { MAX_COLUMNS })
        });
        let Some(Some(kind)) = kinds.next() else { return false };
        let is_nested = matches!(kind, FieldType::List(_) | FieldType::Struct(_));
        if !is_nested || kinds.any(|other| other.as_ref() != Some(&kind)) {
            return false;
        }
        self.names.push(name.to_owned());
        self.builders.push(Builder::new(&kind));
        self.kinds.push(kind);
        true
    }

    /// Returns the names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Adds a row, with the value of each column; null without one.
    pub fn put<'v>(&mut self, values: impl IntoIterator<Item = Option<PropertyValue<'v>>>) {
        let mut values = values.into_iter();
        for builder in &mut self.builders {
            match values.next().flatten() {
                Some(value) => builder.value(value.value(), value.format(), &mut self.lost),
                None => builder.null(),
            };
        }
        self.rows += 1;
    }

    /// Returns the number of rows that were not taken.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the schema of the rows.
    pub fn schema(&self) -> SchemaRef {
        let fields = self.names.iter().zip(&self.kinds);
        let fields: Vec<Field> = fields.map(|(name, kind)| Field::new(name, data_type(kind), true)).collect();
        Arc::new(Schema::new(fields))
    }

    /// Takes the rows.
    ///
    /// # Errors
    ///
    /// Fails if there are more elements than the offsets of lists can count.
    pub fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        let arrays = self.builders.iter_mut().map(Builder::finish).collect::<Result<_, _>>()?;
        RecordBatch::try_new_with_options(self.schema(), arrays, &options)
    }

    /// Returns how many times and how many other values are null because a column cannot hold them.
    pub fn lost(&self) -> (u64, u64) {
        (self.lost.times, self.lost.values)
    }
}
