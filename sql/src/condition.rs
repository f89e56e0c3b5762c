//! Conditions of a query that a table decides itself: what values one column may have.

use std::collections::BTreeSet;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator, expr::InList};
use serde::{Deserialize, Serialize};

/// The values of one column that a condition accepts. A missing value is never accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Accepted {
    /// Whole numbers, and times in nanoseconds since 1970: ranges with both ends, in ascending order, apart from each other.
    Numbers(Vec<(i128, i128)>),
    /// Texts.
    Texts(BTreeSet<String>),
}

/// A condition on one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Name of the column.
    pub(crate) column: String,
    pub(crate) accepted: Accepted,
}

impl Condition {
    /// Returns the condition that an expression is, if it is one on a single column that compares it with constants.
    pub(crate) fn from_expression(expression: &Expr) -> Option<Condition> {
        match expression {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                Condition::from_expression(left)?.both(Condition::from_expression(right)?)
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                Condition::from_expression(left)?.either(Condition::from_expression(right)?)
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (&**left, &**right) {
                (column, Expr::Literal(value, _)) => comparison(column, *op, value),
                (Expr::Literal(value, _), column) => comparison(column, op.swap()?, value),
                _ => None,
            },
            Expr::Between(Between { expr, negated: false, low, high }) => {
                let (Expr::Literal(low, _), Expr::Literal(high, _)) = (&**low, &**high) else { return None };
                comparison(expr, Operator::GtEq, low)?.both(comparison(expr, Operator::LtEq, high)?)
            }
            Expr::InList(InList { expr, list, negated: false }) => {
                let mut each = list.iter().map(|value| match value {
                    Expr::Literal(value, _) => comparison(expr, Operator::Eq, value),
                    _ => None,
                });
                let Condition { column, mut accepted } = each.next()??;
                // All values are gathered before they are put in order.
                for one in each {
                    match (&mut accepted, one?.accepted) {
                        (Accepted::Numbers(all), Accepted::Numbers(one)) => all.extend(one),
                        (Accepted::Texts(all), Accepted::Texts(one)) => all.extend(one),
                        _ => return None,
                    }
                }
                if let Accepted::Numbers(ranges) = accepted {
                    accepted = Accepted::Numbers(apart(ranges));
                }
                Some(Condition { column, accepted })
            }
            _ => None,
        }
    }

    fn both(self, other: Condition) -> Option<Condition> {
        let accepted = match (self.accepted, other.accepted) {
            (Accepted::Numbers(one), Accepted::Numbers(other)) => Accepted::Numbers(common(&one, &other)),
            (Accepted::Texts(one), Accepted::Texts(other)) => {
                Accepted::Texts(one.intersection(&other).cloned().collect())
            }
            _ => return None,
        };
        (self.column == other.column).then_some(Condition { column: self.column, accepted })
    }

    fn either(self, other: Condition) -> Option<Condition> {
        let accepted = match (self.accepted, other.accepted) {
            (Accepted::Numbers(mut one), Accepted::Numbers(other)) => {
                one.extend(other);
                Accepted::Numbers(apart(one))
            }
            (Accepted::Texts(mut one), Accepted::Texts(other)) => {
                one.extend(other);
                Accepted::Texts(one)
            }
            _ => return None,
        };
        (self.column == other.column).then_some(Condition { column: self.column, accepted })
    }
}

impl Accepted {
    /// Whether a number is accepted.
    pub(crate) fn has_number(&self, number: i128) -> bool {
        match self {
            Accepted::Numbers(ranges) => {
                let before = ranges.partition_point(|(_, high)| *high < number);
                ranges.get(before).is_some_and(|(low, _)| *low <= number)
            }
            Accepted::Texts(_) => false,
        }
    }

    /// Whether a text is accepted.
    pub(crate) fn has_text(&self, text: &str) -> bool {
        matches!(self, Accepted::Texts(texts) if texts.contains(text))
    }

    /// Whether a number between two is accepted.
    pub(crate) fn meets(&self, least: i128, greatest: i128) -> bool {
        match self {
            Accepted::Numbers(ranges) => {
                let before = ranges.partition_point(|(_, high)| *high < least);
                ranges.get(before).is_some_and(|(low, _)| *low <= greatest)
            }
            Accepted::Texts(_) => true,
        }
    }
}

/// Joins ranges that overlap or touch.
fn apart(mut ranges: Vec<(i128, i128)>) -> Vec<(i128, i128)> {
    ranges.sort_unstable();
    let mut joined: Vec<(i128, i128)> = Vec::with_capacity(ranges.len());
    for (low, high) in ranges {
        match joined.last_mut() {
            Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
            _ => joined.push((low, high)),
        }
    }
    joined
}

/// Returns the ranges that are in both of two lists.
fn common(one: &[(i128, i128)], other: &[(i128, i128)]) -> Vec<(i128, i128)> {
    let (mut a, mut b) = (one.iter().peekable(), other.iter().peekable());
    let mut ranges = Vec::new();
    while let (Some(first), Some(second)) = (a.peek(), b.peek()) {
        let (low, high) = (first.0.max(second.0), first.1.min(second.1));
        if low <= high {
            ranges.push((low, high));
        }
        if first.1 < second.1 {
            a.next();
        } else {
            b.next();
        }
    }
    ranges
}

fn comparison(column: &Expr, operator: Operator, value: &ScalarValue) -> Option<Condition> {
    let Expr::Column(column) = column else { return None };
    let column = column.name.clone();
    if let Some(text) = text(value) {
        let accepted = Accepted::Texts(BTreeSet::from([text.to_owned()]));
        return (operator == Operator::Eq).then_some(Condition { column, accepted });
    }
    let number = number(value)?;
    let (least, greatest) = (i128::MIN, i128::MAX);
    let ranges = match operator {
        Operator::Eq => vec![(number, number)],
        Operator::NotEq => vec![(least, number - 1), (number + 1, greatest)],
        Operator::Lt => vec![(least, number - 1)],
        Operator::LtEq => vec![(least, number)],
        Operator::Gt => vec![(number + 1, greatest)],
        Operator::GtEq => vec![(number, greatest)],
        _ => return None,
    };
    Some(Condition { column, accepted: Accepted::Numbers(ranges) })
}

fn text(value: &ScalarValue) -> Option<&str> {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text) => {
            text.as_deref()
        }
        ScalarValue::Dictionary(_, value) => self::text(value),
        _ => None,
    }
}

/// Returns a whole number, or a time in nanoseconds.
fn number(value: &ScalarValue) -> Option<i128> {
    Some(match value {
        ScalarValue::Int8(value) => (*value)?.into(),
        ScalarValue::Int16(value) => (*value)?.into(),
        ScalarValue::Int32(value) => (*value)?.into(),
        ScalarValue::Int64(value) => (*value)?.into(),
        ScalarValue::UInt8(value) => (*value)?.into(),
        ScalarValue::UInt16(value) => (*value)?.into(),
        ScalarValue::UInt32(value) => (*value)?.into(),
        ScalarValue::UInt64(value) => (*value)?.into(),
        ScalarValue::TimestampNanosecond(value, _) => (*value)?.into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, lit};

    fn check(expression: Expr, expected: Option<&[(i128, i128)]>) {
        let found = Condition::from_expression(&expression).map(|condition| condition.accepted);
        assert_eq!(found, expected.map(|ranges| Accepted::Numbers(ranges.to_vec())), "{expression}");
    }

    #[test]
    fn comparisons_become_ranges() {
        let (least, greatest) = (i128::MIN, i128::MAX);
        let a = || col("a");
        check(a().eq(lit(4_u32)), Some(&[(4, 4)]));
        check(lit(4_u32).lt(a()), Some(&[(5, greatest)]));
        check(a().not_eq(lit(0_u64)), Some(&[(least, -1), (1, greatest)]));
        check(a().between(lit(-1_i64), lit(9_i64)), Some(&[(-1, 9)]));
        check(a().in_list(vec![lit(1_u8), lit(2_u8), lit(9_u8)], false), Some(&[(1, 2), (9, 9)]));
        check(a().gt(lit(1_u8)).and(a().lt(lit(1_u8))), Some(&[]));
        check(a().eq(lit(1_u8)).or(a().gt_eq(lit(7_u8))), Some(&[(1, 1), (7, greatest)]));
        check(a().eq(lit(1_u8)).or(col("b").eq(lit(1_u8))), None);
        check(a().eq(lit(1.5)), None);
        check(a().eq(lit(ScalarValue::UInt8(None))), None);
        check(a().in_list(vec![lit(1_u8)], true), None);
        check(
            a().in_list(vec![lit(9_u8), lit(1_u8), lit(4_u8)], false).and(a().not_eq(lit(4_u8))),
            Some(&[(1, 1), (9, 9)]),
        );
    }

    #[test]
    fn long_lists_are_searched() {
        let condition = Condition::from_expression(
            &col("a").in_list((0..50_000_u32).map(|n| lit(n * 3)).collect(), false),
        );
        let Accepted::Numbers(accepted) = &condition.as_ref().unwrap().accepted else {
            panic!("{condition:?}")
        };
        assert_eq!((accepted.len(), accepted[49_999]), (50_000, (149_997, 149_997)));
        let accepted = condition.unwrap().accepted;
        for number in 0..200_000 {
            assert_eq!(accepted.has_number(number), number % 3 == 0 && number < 150_000, "{number}");
            assert_eq!(accepted.meets(number, number + 1), number % 3 != 1 && number < 149_999, "{number}");
        }
    }

    #[test]
    fn texts_are_accepted_whole() {
        let either = col("a").eq(lit("x")).or(col("a").in_list(vec![lit("y"), lit("z")], false));
        let condition = Condition::from_expression(&either).unwrap();
        assert!(condition.accepted.has_text("y") && !condition.accepted.has_text("X"));
        assert!(!condition.accepted.has_number(1));
        assert_eq!(Condition::from_expression(&col("a").lt(lit("x"))), None);
    }
}
