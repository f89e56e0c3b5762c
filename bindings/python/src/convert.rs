//! Columns of other types, for fields whose type differs between versions of an event.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, Int64Array, ListArray, StringArray, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field};
use openetw::FileTime;

/// The digits of all unsigned numbers of 64 bits.
const DIGITS: u8 = 20;

/// Returns a type for the values of both. Values without one, such as structures and numbers, become text.
pub(crate) fn common_type(one: &DataType, other: &DataType) -> DataType {
    // Decimals are what this makes of numbers with more than 63 bits and signed ones.
    let is_decimal = |of: &DataType| matches!(of, DataType::Decimal128(..));
    let is_integer = |of: &DataType| of.is_integer() || is_decimal(of);
    let is_long = |of: &DataType| *of == DataType::UInt64 || is_decimal(of);
    match (one, other) {
        (one, other) if one == other => one.clone(),
        (one, other) if one.is_unsigned_integer() && other.is_unsigned_integer() => DataType::UInt64,
        (one, other) if is_integer(one) && is_integer(other) => match is_long(one) || is_long(other) {
            true => DataType::Decimal128(DIGITS, 0),
            false => DataType::Int64,
        },
        (one, other) if one.is_numeric() && other.is_numeric() => DataType::Float64,
        (DataType::List(one), DataType::List(other)) => {
            let element = common_type(one.data_type(), other.data_type());
            DataType::List(Arc::new(Field::new(one.name(), element, true)))
        }
        _ => DataType::Utf8,
    }
}

/// Returns a column with another type, which [`common_type`] has returned for its own.
pub(crate) fn convert(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let rows = 0..array.len();
    Ok(match to {
        to if array.data_type() == to => array.clone(),
        DataType::UInt64 => {
            let value = |row| u64::try_from(integer(array, row)?).ok();
            Arc::new(rows.map(value).collect::<UInt64Array>())
        }
        DataType::Int64 => {
            let value = |row| i64::try_from(integer(array, row)?).ok();
            Arc::new(rows.map(value).collect::<Int64Array>())
        }
        DataType::Decimal128(digits, scale) => {
            let values: Decimal128Array = rows.map(|row| integer(array, row)).collect();
            Arc::new(values.with_precision_and_scale(*digits, *scale)?)
        }
        DataType::Float64 => Arc::new(rows.map(|row| float(array, row)).collect::<Float64Array>()),
        DataType::List(element) => {
            let lists = array.as_list::<i32>();
            let elements = convert(lists.values(), element.data_type())?;
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Arc::new(ListArray::try_new(element.clone(), offsets, elements, nulls)?)
        }
        _ => texts(array),
    })
}

/// Returns a column as texts.
pub(crate) fn texts(array: &ArrayRef) -> ArrayRef {
    let text = |row| {
        let mut text = String::new();
        array.is_valid(row).then(|| {
            write(&mut text, array.as_ref(), row);
            text
        })
    };
    Arc::new((0..array.len()).map(text).collect::<StringArray>())
}

fn integer(array: &dyn Array, row: usize) -> Option<i128> {
    array.is_valid(row).then_some(())?;
    Some(match array.data_type() {
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into(),
        _ => return None,
    })
}

fn float(array: &dyn Array, row: usize) -> Option<f64> {
    array.is_valid(row).then_some(())?;
    match array.data_type() {
        DataType::Float32 => Some(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => Some(array.as_primitive::<Float64Type>().value(row)),
        _ => integer(array, row).map(|value| value as f64),
    }
}

/// Writes a value of the types that columns of events and tables have.
fn write(text: &mut String, array: &dyn Array, row: usize) {
    // Writing to a string does not fail.
    let _ = match array.data_type() {
        _ if array.is_null(row) => return,
        DataType::Utf8 => return text.push_str(array.as_string::<i32>().value(row)),
        DataType::Boolean => write!(text, "{}", array.as_boolean().value(row)),
        DataType::Binary => {
            let bytes = array.as_binary::<i32>().value(row);
            bytes.iter().try_for_each(|byte| write!(text, "{byte:02X}"))
        }
        DataType::Timestamp(..) => {
            let nanos = array.as_primitive::<TimestampNanosecondType>().value(row);
            write!(text, "{}", FileTime::from_unix_nanos(nanos.into()))
        }
        DataType::Dictionary(..) => {
            let values = array.as_dictionary::<Int32Type>();
            return match usize::try_from(values.keys().value(row)) {
                Ok(key) if key < values.values().len() => write(text, values.values(), key),
                _ => (),
            };
        }
        DataType::List(_) => {
            let elements = array.as_list::<i32>().value(row);
            text.push('[');
            for element in 0..elements.len() {
                text.push_str(if element == 0 { "" } else { ", " });
                write(text, elements.as_ref(), element);
            }
            return text.push(']');
        }
        DataType::Struct(fields) => {
            text.push('{');
            for (number, (field, member)) in fields.iter().zip(array.as_struct().columns()).enumerate() {
                text.push_str(if number == 0 { "" } else { ", " });
                text.push_str(field.name());
                text.push_str(": ");
                write(text, member, row);
            }
            return text.push('}');
        }
        DataType::Float32 | DataType::Float64 => match float(array, row) {
            Some(value) => write!(text, "{value}"),
            None => return,
        },
        _ => match integer(array, row) {
            Some(value) => write!(text, "{value}"),
            None => return,
        },
    };
}
