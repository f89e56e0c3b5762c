//! Single values, and the words that stand for them.
//!
//! A word is a `u64` whose unsigned order is the order of the values of its type. So one code stores, skips, filters,
//! sorts and groups all types.

use etw_event::FileTime;

use crate::schema::ColumnType;

const SIGN: u64 = 1 << 63;

/// A single value: of a row, of a group's key, of an aggregate, or a constant in a filter.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Value {
    /// Missing.
    #[default]
    Null,
    /// Value of [`ColumnType::Bool`].
    Bool(bool),
    /// Value of [`ColumnType::U64`], `U32`, `I64` or `Duration`, or a sum of them.
    Integer(i128),
    /// Value of [`ColumnType::F64`], or a mean.
    Float(f64),
    /// Value of [`ColumnType::Time`].
    Time(FileTime),
    /// Value of [`ColumnType::Text`], `Guid`, `Stack` or `Row`: the code in the dictionary, or the row number.
    Code(u32),
}

/// Where a constant lies among the values of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Less than every value.
    Below,
    /// The word of the value.
    At(u64),
    /// Greater than every value.
    Above,
}

impl ColumnType {
    /// Returns the value that a word stands for.
    pub(crate) fn value(self, word: u64) -> Value {
        match self {
            ColumnType::U64 | ColumnType::U32 => Value::Integer(i128::from(word)),
            ColumnType::I64 | ColumnType::Duration => Value::Integer(i128::from(i64_of(word))),
            ColumnType::F64 => Value::Float(f64_of(word)),
            ColumnType::Bool => Value::Bool(word != 0),
            ColumnType::Time => Value::Time(FileTime(i64_of(word))),
            ColumnType::Text | ColumnType::Guid | ColumnType::Stack | ColumnType::Row => {
                Value::Code(word as u32)
            }
        }
    }

    /// Returns the place of a constant among the values of the type; `None` if it has another type or is missing.
    pub(crate) fn place(self, value: Value) -> Option<Place> {
        let word = match (self, value) {
            (ColumnType::Bool, Value::Bool(value)) => u64::from(value),
            (ColumnType::Time, Value::Time(time)) => word_of_i64(time.0),
            (ColumnType::F64, Value::Float(value)) => word_of_f64(value),
            (ColumnType::F64, Value::Integer(value)) => word_of_f64(value as f64),
            (_, Value::Code(code)) if self.is_code() => u64::from(code),
            (_, Value::Integer(value)) if self.is_number() => {
                let word = if self.is_signed() { value.saturating_add(1 << 63) } else { value };
                return Some(match u64::try_from(word) {
                    Ok(word) if word <= self.max_word() => Place::At(word),
                    _ if word < 0 => Place::Below,
                    _ => Place::Above,
                });
            }
            _ => return None,
        };
        Some(Place::At(word))
    }
}

pub(crate) const fn word_of_i64(value: i64) -> u64 {
    value as u64 ^ SIGN
}

pub(crate) const fn i64_of(word: u64) -> i64 {
    (word ^ SIGN) as i64
}

/// Zeros become one zero and NaNs one NaN, which is greater than every number.
pub(crate) fn word_of_f64(value: f64) -> u64 {
    // Adding zero turns -0.0 into 0.0.
    let bits = if value.is_nan() { f64::NAN.to_bits() & !SIGN } else { (value + 0.0).to_bits() };
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

pub(crate) fn f64_of(word: u64) -> f64 {
    f64::from_bits(if word & SIGN == 0 { !word } else { word ^ SIGN })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_order_and_values() {
        let floats = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -f64::MIN_POSITIVE,
            0.0,
            5e-324,
            1.0,
            f64::MAX,
            f64::INFINITY,
        ];
        for pair in floats.windows(2) {
            assert!(word_of_f64(pair[0]) < word_of_f64(pair[1]), "{pair:?}");
        }
        for value in floats {
            assert_eq!(f64_of(word_of_f64(value)).to_bits(), value.to_bits());
        }
        assert_eq!(word_of_f64(-0.0), word_of_f64(0.0));
        assert_eq!(word_of_f64(f64::NAN), word_of_f64(-f64::NAN));
        assert!(word_of_f64(f64::NAN) > word_of_f64(f64::INFINITY) && f64_of(word_of_f64(f64::NAN)).is_nan());
        let integers = [i64::MIN, -1, 0, 1, i64::MAX];
        assert!(integers.windows(2).all(|pair| word_of_i64(pair[0]) < word_of_i64(pair[1])));
        assert!(integers.iter().all(|value| i64_of(word_of_i64(*value)) == *value));
    }

    #[test]
    fn constants_have_a_place() {
        let check = |column_type: ColumnType, value, expected| {
            assert_eq!(column_type.place(value), expected, "{column_type:?} {value:?}");
        };
        check(ColumnType::U32, Value::Integer(-1), Some(Place::Below));
        check(ColumnType::U32, Value::Integer(1 << 32), Some(Place::Above));
        check(ColumnType::U32, Value::Integer(7), Some(Place::At(7)));
        check(ColumnType::U64, Value::Integer(i128::from(u64::MAX)), Some(Place::At(u64::MAX)));
        check(ColumnType::I64, Value::Integer(i128::from(i64::MIN)), Some(Place::At(0)));
        check(ColumnType::I64, Value::Integer(i128::from(i64::MIN) - 1), Some(Place::Below));
        check(ColumnType::Duration, Value::Integer(1 << 63), Some(Place::Above));
        check(ColumnType::Text, Value::Code(3), Some(Place::At(3)));
        check(ColumnType::Text, Value::Integer(3), None);
        check(ColumnType::F64, Value::Integer(0), Some(Place::At(word_of_f64(0.0))));
        check(ColumnType::Time, Value::Null, None);
    }
}
