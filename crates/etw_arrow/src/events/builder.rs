//! The values of a column, collected for a row group.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, BooleanBuilder, PrimitiveBuilder, StringBuilder};
use arrow_array::types::{
    Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, ListArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use etw_event::FileTime;
use etw_schema::kinds::FieldType;
use etw_schema::{Format, HeaderValue, Value, text::Text};

use super::types::{data_type, element_field, member_fields};

/// Counts of values that could not be stored in their column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Lost {
    /// Times outside the range of nanoseconds since 1970 (1677 to 2262).
    pub(super) times: u64,
    /// Other values.
    pub(super) values: u64,
}

impl Lost {
    pub(super) fn add(&mut self, other: Lost) {
        self.times += other.times;
        self.values += other.values;
    }
}

/// The values of a column.
#[derive(Debug)]
pub(super) enum Builder {
    Bool(BooleanBuilder),
    I8(PrimitiveBuilder<Int8Type>),
    I16(PrimitiveBuilder<Int16Type>),
    I32(PrimitiveBuilder<Int32Type>),
    I64(PrimitiveBuilder<Int64Type>),
    U8(PrimitiveBuilder<UInt8Type>),
    U16(PrimitiveBuilder<UInt16Type>),
    U32(PrimitiveBuilder<UInt32Type>),
    U64(PrimitiveBuilder<UInt64Type>),
    Decimal(PrimitiveBuilder<Decimal128Type>),
    F32(PrimitiveBuilder<Float32Type>),
    F64(PrimitiveBuilder<Float64Type>),
    Text(StringBuilder),
    Binary(BinaryBuilder),
    Time(PrimitiveBuilder<TimestampNanosecondType>),
    List { kind: FieldType, ends: Vec<i32>, valid: Vec<bool>, elements: Box<Builder> },
    Struct { kinds: Vec<(String, FieldType)>, valid: Vec<bool>, members: Vec<Builder> },
}

macro_rules! each_builder {
    ($self:expr, $builder:ident => $use:expr, $rest:pat => $other:expr) => {
        match $self {
            Builder::Bool($builder) => $use,
            Builder::I8($builder) => $use,
            Builder::I16($builder) => $use,
            Builder::I32($builder) => $use,
            Builder::I64($builder) => $use,
            Builder::U8($builder) => $use,
            Builder::U16($builder) => $use,
            Builder::U32($builder) => $use,
            Builder::U64($builder) => $use,
            Builder::Decimal($builder) => $use,
            Builder::F32($builder) => $use,
            Builder::F64($builder) => $use,
            Builder::Text($builder) => $use,
            Builder::Binary($builder) => $use,
            Builder::Time($builder) => $use,
            $rest => $other,
        }
    };
}

impl Builder {
    pub(super) fn new(kind: &FieldType) -> Builder {
        match kind {
            FieldType::Bool => Builder::Bool(BooleanBuilder::with_capacity(0)),
            FieldType::I8 => Builder::I8(PrimitiveBuilder::with_capacity(0)),
            FieldType::I16 => Builder::I16(PrimitiveBuilder::with_capacity(0)),
            FieldType::I32 => Builder::I32(PrimitiveBuilder::with_capacity(0)),
            FieldType::I64 => Builder::I64(PrimitiveBuilder::with_capacity(0)),
            FieldType::U8 => Builder::U8(PrimitiveBuilder::with_capacity(0)),
            FieldType::U16 => Builder::U16(PrimitiveBuilder::with_capacity(0)),
            FieldType::U32 => Builder::U32(PrimitiveBuilder::with_capacity(0)),
            FieldType::U64 => Builder::U64(PrimitiveBuilder::with_capacity(0)),
            FieldType::Decimal => {
                Builder::Decimal(PrimitiveBuilder::with_capacity(0).with_data_type(data_type(kind)))
            }
            FieldType::F32 => Builder::F32(PrimitiveBuilder::with_capacity(0)),
            FieldType::F64 => Builder::F64(PrimitiveBuilder::with_capacity(0)),
            FieldType::Binary => Builder::Binary(BinaryBuilder::with_capacity(0, 0)),
            FieldType::Time => {
                Builder::Time(PrimitiveBuilder::with_capacity(0).with_data_type(data_type(kind)))
            }
            FieldType::List(element) => Builder::List {
                kind: (**element).clone(),
                ends: vec![0],
                valid: Vec::new(),
                elements: Box::new(Builder::new(element)),
            },
            FieldType::Struct(members) => Builder::Struct {
                kinds: members.clone(),
                valid: Vec::new(),
                members: members.iter().map(|(_, kind)| Builder::new(kind)).collect(),
            },
            _ => Builder::Text(StringBuilder::with_capacity(0, 0)),
        }
    }

    /// Returns the number of columns, including nested ones.
    pub(super) fn width(&self) -> usize {
        match self {
            Builder::List { elements, .. } => 1 + elements.width(),
            Builder::Struct { members, .. } => 1 + members.iter().map(Builder::width).sum::<usize>(),
            _ => 1,
        }
    }

    /// Appends a null. Returns the approximate number of bytes it takes.
    pub(super) fn null(&mut self) -> usize {
        each_builder!(self, builder => { builder.append_null(); 8 }, compound => match compound {
            Builder::List { ends, valid, .. } => {
                ends.push(ends.last().copied().unwrap_or(0));
                valid.push(false);
                8
            }
            Builder::Struct { valid, members, .. } => {
                valid.push(false);
                members.iter_mut().map(Builder::null).sum::<usize>() + 1
            }
            _ => 0,
        })
    }

    pub(super) fn text(&mut self, text: Option<&str>) {
        match (self, text) {
            (Builder::Text(builder), Some(text)) => builder.append_value(text),
            (builder, _) => {
                builder.null();
            }
        }
    }

    pub(super) fn time(&mut self, time: FileTime, lost: &mut Lost) {
        let nanos = i64::try_from(time.unix_nanos()).ok();
        match (self, nanos) {
            (Builder::Time(builder), Some(nanos)) => builder.append_value(nanos),
            (builder, _) => {
                lost.times += 1;
                builder.null();
            }
        }
    }

    /// Appends a value of the header, or a null without one. Returns the approximate number of bytes it takes beside that
    /// of a column.
    pub(super) fn header(&mut self, value: Option<HeaderValue<'_>>, lost: &mut Lost) -> usize {
        match (self, value) {
            (Builder::U8(builder), Some(HeaderValue::Number(value))) => builder.append_value(value as u8),
            (Builder::U16(builder), Some(HeaderValue::Number(value))) => builder.append_value(value as u16),
            (Builder::U32(builder), Some(HeaderValue::Number(value))) => builder.append_value(value as u32),
            (Builder::U64(builder), Some(HeaderValue::Number(value))) => builder.append_value(value),
            (Builder::I64(builder), Some(HeaderValue::Signed(value))) => builder.append_value(value),
            (builder @ Builder::Time(_), Some(HeaderValue::Time(time))) => builder.time(time, lost),
            (Builder::Text(builder), Some(value)) => {
                let text = match value {
                    HeaderValue::Text(text) => text,
                    HeaderValue::Guid(guid) => guid.to_string().into(),
                    HeaderValue::Names(names) => names.join(",").into(),
                    _ => {
                        builder.append_null();
                        return 0;
                    }
                };
                builder.append_value(&text);
                return text.len();
            }
            (Builder::Binary(builder), Some(HeaderValue::Bytes(bytes))) => {
                builder.append_value(bytes);
                return bytes.len();
            }
            (Builder::List { ends, valid, elements, .. }, Some(HeaderValue::Addresses(stack))) => {
                let before = ends.last().copied().unwrap_or(0);
                let mut count = 0;
                for address in stack.addresses() {
                    elements.header(Some(HeaderValue::Number(address)), lost);
                    count += 1;
                }
                ends.push(before.saturating_add(count));
                valid.push(true);
                return 8 * count as usize;
            }
            (builder, _) => {
                builder.null();
            }
        }
        0
    }

    /// Appends a value. Returns the approximate number of bytes it takes.
    pub(super) fn value(&mut self, value: Value<'_>, format: Format, lost: &mut Lost) -> usize {
        macro_rules! integer {
            ($builder:expr) => {
                match value.as_integer().map(TryFrom::try_from) {
                    Some(Ok(number)) => $builder.append_value(number),
                    _ => {
                        lost.values += u64::from(!matches!(value, Value::Null));
                        $builder.append_null();
                    }
                }
            };
        }
        match self {
            _ if matches!(value, Value::Null) => return self.null(),
            Builder::Bool(builder) => match value.as_integer() {
                Some(number) => builder.append_value(number != 0),
                None => {
                    lost.values += 1;
                    builder.append_null();
                }
            },
            Builder::I8(builder) => integer!(builder),
            Builder::I16(builder) => integer!(builder),
            Builder::I32(builder) => integer!(builder),
            Builder::I64(builder) => integer!(builder),
            Builder::U8(builder) => integer!(builder),
            Builder::U16(builder) => integer!(builder),
            Builder::U32(builder) => integer!(builder),
            Builder::U64(builder) => integer!(builder),
            Builder::Decimal(builder) => integer!(builder),
            Builder::F32(builder) => match value {
                Value::F32(number) => builder.append_value(number),
                _ => {
                    lost.values += 1;
                    builder.append_null();
                }
            },
            Builder::F64(builder) => match value {
                Value::F64(number) => builder.append_value(number),
                Value::F32(number) => builder.append_value(number.into()),
                // The field is a whole number in other versions of the event.
                _ => match value.as_integer() {
                    Some(number) => builder.append_value(number as f64),
                    None => {
                        lost.values += 1;
                        builder.append_null();
                    }
                },
            },
            Builder::Text(builder) => {
                let text = match value.as_text() {
                    Some(text) => text,
                    None => Text::new(value, format, None).to_string().into(),
                };
                builder.append_value(&text);
                return 4 + text.len();
            }
            Builder::Binary(builder) => match value {
                Value::Binary(bytes) | Value::SocketAddress(bytes) => {
                    builder.append_value(bytes);
                    return 4 + bytes.len();
                }
                _ => {
                    let text = Text::new(value, format, None).to_string();
                    builder.append_value(text.as_bytes());
                    return 4 + text.len();
                }
            },
            Builder::Time(_) => match value {
                Value::FileTime(time) | Value::RawTime(_, time) => self.time(time, lost),
                Value::SystemTime(time) => match time.to_filetime() {
                    Some(time) => self.time(time, lost),
                    None => {
                        lost.times += 1;
                        return self.null();
                    }
                },
                _ => {
                    lost.values += 1;
                    return self.null();
                }
            },
            Builder::List { ends, valid, elements, .. } => {
                let (mut bytes, mut count) = (4, 0);
                match value {
                    Value::Array(array) => {
                        for element in array.iter() {
                            bytes += elements.value(element, format, lost);
                            count += 1;
                        }
                    }
                    other => {
                        bytes += elements.value(other, format, lost);
                        count = 1;
                    }
                }
                // Row groups are much shorter than 2^31 elements.
                ends.push(ends.last().copied().unwrap_or(0).saturating_add(count));
                valid.push(true);
                return bytes;
            }
            Builder::Struct { valid, members, .. } => {
                let mut bytes = 1;
                let Value::Struct(values) = value else {
                    lost.values += 1;
                    return self.null();
                };
                let mut values = values.iter();
                for member in members {
                    bytes += match values.next() {
                        Some(found) => member.value(found.value(), found.format(), lost),
                        None => member.null(),
                    };
                }
                valid.push(true);
                return bytes;
            }
        }
        8
    }

    pub(super) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let array: ArrayRef = each_builder!(self, builder => Arc::new(builder.finish()), compound => match compound {
            Builder::List { kind, ends, valid, elements } => {
                let ends = std::mem::replace(ends, vec![0]);
                let nulls = NullBuffer::from(std::mem::take(valid));
                let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
                Arc::new(ListArray::try_new(element_field(kind), offsets, elements.finish()?, Some(nulls))?)
            }
            Builder::Struct { kinds, valid, members } => {
                let nulls = NullBuffer::from(std::mem::take(valid));
                let members = members.iter_mut().map(Builder::finish).collect::<Result<Vec<_>, _>>()?;
                Arc::new(StructArray::try_new(member_fields(kinds), members, Some(nulls))?)
            }
            _ => return Err(ArrowError::InvalidArgumentError("no such column".to_owned())),
        });
        Ok(array)
    }
}
