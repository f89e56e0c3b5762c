//! Rows as a stream of Apache Arrow.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema};
use serde_json::Value;

use super::field::Cell;

/// A column of an answer.
#[derive(Debug)]
pub(crate) struct Column {
    name: String,
    data: Data,
}

/// The values of a column.
#[derive(Debug)]
pub(crate) enum Data {
    Numbers(Vec<Option<f64>>),
    Texts(Vec<Option<String>>),
}

impl Column {
    pub(crate) fn new(name: &str, data: Data) -> Column {
        Column { name: name.to_owned(), data }
    }
}

impl Data {
    /// Returns cells as a column, of numbers unless their kind is `text`.
    pub(crate) fn new(cells: &[&Cell], kind: &str) -> Data {
        match kind {
            "text" => Data::Texts(
                cells
                    .iter()
                    .map(|cell| match cell {
                        Cell::Text(text) => Some(text.clone()),
                        Cell::Number(number) => Some(number.to_string()),
                        Cell::None => None,
                    })
                    .collect(),
            ),
            _ => Data::Numbers(
                cells
                    .iter()
                    .map(|cell| match cell {
                        Cell::Number(number) => Some(*number),
                        _ => None,
                    })
                    .collect(),
            ),
        }
    }
}

/// Returns columns as a stream with one batch; `info` is in the metadata of its schema.
///
/// # Errors
///
/// Fails if the columns have different lengths.
pub(crate) fn stream(columns: Vec<Column>, info: &Value) -> Result<Vec<u8>> {
    let mut fields = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for Column { name, data } in columns {
        match data {
            Data::Numbers(numbers) => {
                fields.push(Field::new(name, DataType::Float64, true));
                arrays.push(Arc::new(Float64Array::from(numbers)));
            }
            Data::Texts(texts) => {
                fields.push(Field::new(name, DataType::Utf8, true));
                arrays.push(Arc::new(StringArray::from(texts)));
            }
        }
    }
    let metadata = HashMap::from([("info".to_owned(), info.to_string())]);
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
    let mut out = Vec::new();
    let mut writer = StreamWriter::try_new(&mut out, &schema)?;
    writer.write(&batch)?;
    writer.finish()?;
    drop(writer);
    Ok(out)
}
