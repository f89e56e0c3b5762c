//! Columns of other types, for fields whose type differs between versions of an event.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, Decimal128Array, Float64Array, ListArray, PrimitiveArray,
    StringArray,
};
use arrow_schema::{ArrowError, DataType};
use openetw::FileTime;

/// Returns a column with another type, which [`joined_type`](openetw::export::joined_type) has returned for its own.
pub(crate) fn convert(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let rows = 0..array.len();
    Ok(match to {
        to if array.data_type() == to => array.clone(),
        DataType::UInt16 => integers::<UInt16Type>(array),
        DataType::UInt32 => integers::<UInt32Type>(array),
        DataType::UInt64 => integers::<UInt64Type>(array),
        DataType::Int16 => integers::<Int16Type>(array),
        DataType::Int32 => integers::<Int32Type>(array),
        DataType::Int64 => integers::<Int64Type>(array),
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

/// Returns a column of whole numbers as one of a type that holds them.
fn integers<T: ArrowPrimitiveType<Native: TryFrom<i128>>>(array: &ArrayRef) -> ArrayRef {
    let value = |row| T::Native::try_from(integer(array, row)?).ok();
    Arc::new((0..array.len()).map(value).collect::<PrimitiveArray<T>>())
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
