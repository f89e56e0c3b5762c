//! Single columns: their Arrow types, and their values as arrays.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, DurationNanosecondArray, Float64Array, Int32Array, Int64Array,
    ListArray, StringArray, TimestampNanosecondArray, UInt32Array, UInt64Array, new_null_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, TimeUnit};
use etw_columns::{
    Column, ColumnReader, ColumnType, ColumnsError, Element, Index, Stacks, Table, Unit, Values,
};

use crate::ArrowTableError;
use crate::batches::MAX_FRAMES;

/// The Unix epoch as a FILETIME, in 100 ns.
const UNIX_EPOCH: i64 = 116_444_736_000_000_000;
/// The table that the frames of stacks are rows of, if the index has it.
const FRAMES: &str = "frames";

/// A column of a table, and what its values become.
pub(crate) struct Source<'i> {
    reader: ColumnReader<'i>,
    kind: Kind<'i>,
}

/// What stacks become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StackForm {
    /// Lists of their frames.
    Frames,
    /// Their codes in the index.
    Codes,
}

enum Kind<'i> {
    /// The values as they are.
    Plain,
    /// Codes of texts or GUIDs, which become places in a dictionary of this column.
    Dictionary(Dictionary),
    Stack(Stacks<'i>),
    /// Values that come from elsewhere.
    Given(DataType),
}

/// The texts of a column.
struct Dictionary {
    /// The codes in the index, ascending; their places are those in `texts`.
    codes: Vec<u32>,
    texts: Arc<StringArray>,
}

/// The values of a column in one chunk.
pub(crate) enum Decoded {
    U32(Values<u32>),
    U64(Values<u64>),
    I64(Values<i64>),
    F64(Values<f64>),
}

impl<'i> Source<'i> {
    /// Prepares a column. Reads it once if it has texts, to find those that it has.
    pub(crate) fn new(
        table: Table<'i>,
        number: usize,
        stacks: StackForm,
    ) -> Result<Source<'i>, ArrowTableError> {
        let (reader, index) = (table.column(number)?, table.index());
        let kind = match reader.column().column_type {
            ColumnType::Text => {
                let texts = index.texts()?;
                let codes = codes_of(table, &reader, texts.len())?;
                Kind::Dictionary(Dictionary::new(&reader, codes, |code, out| {
                    out.push_str(texts.get(code).unwrap_or_default());
                })?)
            }
            ColumnType::Guid => {
                let guids = index.guids()?;
                let codes = codes_of(table, &reader, guids.len())?;
                Kind::Dictionary(Dictionary::new(&reader, codes, |code, out| {
                    if let Some(guid) = guids.get(code) {
                        out.push_str(&guid.to_string());
                    }
                })?)
            }
            ColumnType::Stack if stacks == StackForm::Frames => Kind::Stack(index.stacks()?),
            _ => Kind::Plain,
        };
        Ok(Source { reader, kind })
    }

    /// Prepares a column whose values come from elsewhere.
    pub(crate) fn given(
        table: Table<'i>,
        number: usize,
        data_type: DataType,
    ) -> Result<Source<'i>, ArrowTableError> {
        Ok(Source { reader: table.column(number)?, kind: Kind::Given(data_type) })
    }

    /// Returns the field of the column in the schema.
    pub(crate) fn field(&self, index: &Index) -> Field {
        let column = self.reader.column();
        let data_type = match &self.kind {
            Kind::Given(data_type) => data_type.clone(),
            Kind::Plain if column.column_type == ColumnType::Stack => DataType::UInt32,
            _ => data_type(column.column_type),
        };
        Field::new(&*column.name, data_type, true).with_metadata(metadata(column, index))
    }

    /// Decodes the values of a chunk.
    pub(crate) fn decode(&self, chunk: usize) -> Result<Decoded, ColumnsError> {
        fn read<T: Element>(reader: &ColumnReader<'_>, chunk: usize) -> Result<Values<T>, ColumnsError>
        where
            Values<T>: Default,
        {
            let mut values = Values::default();
            reader.read(chunk, &mut values)?;
            Ok(values)
        }
        let reader = &self.reader;
        Ok(match reader.column().column_type {
            ColumnType::U64 => Decoded::U64(read(reader, chunk)?),
            ColumnType::I64 | ColumnType::Time | ColumnType::Duration => Decoded::I64(read(reader, chunk)?),
            ColumnType::F64 => Decoded::F64(read(reader, chunk)?),
            _ => Decoded::U32(read(reader, chunk)?),
        })
    }

    /// Returns the number of frames of the stack in a row; 0 for columns without stacks.
    pub(crate) fn frames(&self, values: &Decoded, row: usize) -> Result<usize, ArrowTableError> {
        let (Kind::Stack(stacks), Decoded::U32(values)) = (&self.kind, values) else { return Ok(0) };
        let Some(code) = values.get(row) else { return Ok(0) };
        let count = stacks.frames(code).take(MAX_FRAMES + 1).count();
        if count > MAX_FRAMES {
            let column = self.reader.column().name.to_string();
            return Err(ArrowTableError::Stack { column, limit: MAX_FRAMES });
        }
        Ok(count)
    }

    /// Returns some rows of a chunk as an array.
    pub(crate) fn array(&self, values: &Decoded, rows: Range<usize>) -> Result<ArrayRef, ArrowTableError> {
        if let Kind::Given(data_type) = &self.kind {
            return Ok(new_null_array(data_type, rows.len()));
        }
        Ok(match values {
            Decoded::U64(values) => Arc::new(UInt64Array::new(numbers(values, &rows), nulls(values, &rows))),
            Decoded::F64(values) => Arc::new(Float64Array::new(numbers(values, &rows), nulls(values, &rows))),
            Decoded::I64(values) => match self.reader.column().column_type {
                ColumnType::Time => {
                    let nanos = rows.map(|row| values.get(row).and_then(unix_nanos));
                    Arc::new(nanos.collect::<TimestampNanosecondArray>().with_timezone("UTC"))
                }
                ColumnType::Duration => {
                    Arc::new(DurationNanosecondArray::new(numbers(values, &rows), nulls(values, &rows)))
                }
                _ => Arc::new(Int64Array::new(numbers(values, &rows), nulls(values, &rows))),
            },
            Decoded::U32(values) => match &self.kind {
                Kind::Dictionary(dictionary) => {
                    let places = rows.map(|row| values.get(row).and_then(|code| dictionary.place(code)));
                    let places: Int32Array = places.collect();
                    Arc::new(DictionaryArray::<Int32Type>::try_new(places, dictionary.texts.clone())?)
                }
                Kind::Stack(stacks) => Arc::new(lists(stacks, values, rows)?),
                Kind::Plain if self.reader.column().column_type == ColumnType::Bool => {
                    let truths = rows.map(|row| values.get(row).map(|value| value != 0));
                    Arc::new(truths.collect::<BooleanArray>())
                }
                Kind::Plain | Kind::Given(_) => {
                    Arc::new(UInt32Array::new(numbers(values, &rows), nulls(values, &rows)))
                }
            },
        })
    }
}

impl Dictionary {
    /// Creates the dictionary of these codes; `put` appends the text of one.
    fn new(
        reader: &ColumnReader<'_>,
        codes: Vec<u32>,
        put: impl Fn(u32, &mut String),
    ) -> Result<Dictionary, ArrowTableError> {
        let (mut texts, mut text, mut found) = (StringBuilder::new(), String::new(), 0u64);
        for code in &codes {
            text.clear();
            put(*code, &mut text);
            found += text.len() as u64;
            if found > i32::MAX as u64 {
                return Err(ArrowTableError::Texts { column: reader.column().name.to_string(), found });
            }
            texts.append_value(&text);
        }
        Ok(Dictionary { codes, texts: Arc::new(texts.finish()) })
    }

    fn place(&self, code: u32) -> Option<i32> {
        self.codes.binary_search(&code).ok().and_then(|place| i32::try_from(place).ok())
    }
}

/// Returns the different codes of a column in ascending order.
fn codes_of(table: Table<'_>, reader: &ColumnReader<'_>, entries: usize) -> Result<Vec<u32>, ColumnsError> {
    let mut is_used = vec![0u64; entries.div_ceil(64)];
    let mut values = Values::<u32>::default();
    for chunk in 0..table.chunks() {
        reader.read(chunk, &mut values)?;
        for row in 0..table.chunk_rows(chunk) {
            let Some(code) = values.get(row) else { continue };
            if let Some(word) = is_used.get_mut(code as usize / 64) {
                *word |= 1 << (code % 64);
            }
        }
    }
    let bits = is_used.iter().enumerate().flat_map(|(number, word)| {
        let word = *word;
        (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| number as u32 * 64 + bit)
    });
    Ok(bits.collect())
}

fn numbers<T: Copy + arrow_buffer::ArrowNativeType>(
    values: &Values<T>,
    rows: &Range<usize>,
) -> ScalarBuffer<T> {
    ScalarBuffer::from(values.values().get(rows.clone()).unwrap_or_default().to_vec())
}

fn nulls<T: Copy>(values: &Values<T>, rows: &Range<usize>) -> Option<NullBuffer> {
    let valid = values.validity()?.get(rows.clone())?;
    Some(valid.iter().map(|valid| *valid == 1).collect())
}

/// Returns stacks as lists of their frames.
fn lists(
    stacks: &Stacks<'_>,
    values: &Values<u32>,
    rows: Range<usize>,
) -> Result<ListArray, ArrowTableError> {
    let nulls = nulls(values, &rows);
    let (mut ends, mut frames) = (vec![0i32], Vec::new());
    for row in rows {
        if let Some(code) = values.get(row) {
            frames.extend(stacks.frames(code));
        }
        // The batch is cut before its frames are too many to count.
        ends.push(i32::try_from(frames.len()).unwrap_or(i32::MAX));
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
    Ok(ListArray::try_new(frame_field(), offsets, Arc::new(UInt64Array::from(frames)), nulls)?)
}

/// Returns a time in nanoseconds since 1970, if that fits.
fn unix_nanos(time: i64) -> Option<i64> {
    time.checked_sub(UNIX_EPOCH)?.checked_mul(100)
}

fn frame_field() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::UInt64, false))
}

fn data_type(column_type: ColumnType) -> DataType {
    match column_type {
        ColumnType::U64 => DataType::UInt64,
        ColumnType::I64 => DataType::Int64,
        ColumnType::F64 => DataType::Float64,
        ColumnType::Bool => DataType::Boolean,
        ColumnType::Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        ColumnType::Duration => DataType::Duration(TimeUnit::Nanosecond),
        // Keys are signed, since pandas knows no others.
        ColumnType::Text | ColumnType::Guid => {
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
        }
        ColumnType::Stack => DataType::List(frame_field()),
        _ => DataType::UInt32,
    }
}

fn metadata(column: &Column, index: &Index) -> HashMap<String, String> {
    let unit = match column.unit {
        Unit::Count => "count",
        Unit::Nanoseconds => "ns",
        Unit::Bytes => "bytes",
        Unit::Percent => "percent",
        Unit::Address => "address",
        Unit::Hex => "hex",
        Unit::Id => "id",
        _ => "",
    };
    let table = match column.column_type {
        ColumnType::Stack if index.table(FRAMES).is_some() => FRAMES,
        _ => &*column.table,
    };
    let entries = [("summary", &*column.summary), ("unit", unit), ("table", table)].into_iter();
    entries
        .filter(|(_, text)| !text.is_empty())
        .map(|(key, text)| (key.to_owned(), text.to_owned()))
        .collect()
}
