//! Which rows a pivot counts.

use crate::ColumnsError;
use crate::dictionary::Texts;
use crate::encoding::Block;
use crate::index::Table;
use crate::schema::ColumnType;
use crate::value::{Place, Value};

use super::batch::{Buffer, Slots};
use super::columns::Source;

/// Levels of filters within filters.
const MAX_DEPTH: usize = 64;

/// A condition on rows.
///
/// A missing value meets no condition but [`Filter::Null`]; [`Filter::Not`] holds wherever its condition does not, so
/// also for missing values. NaN equals NaN and is greater than every other number.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// A comparison with a constant of the column's type.
    Compare {
        /// Number of the column.
        column: usize,
        /// The comparison.
        comparison: Comparison,
        /// The constant, on the right side.
        value: Value,
    },
    /// One of several constants.
    In {
        /// Number of the column.
        column: usize,
        /// The constants.
        values: Vec<Value>,
    },
    /// A match of texts. It is evaluated once for each text of the index, not for each row.
    Text {
        /// Number of the column, of type [`ColumnType::Text`].
        column: usize,
        /// What the text must be.
        pattern: TextPattern,
    },
    /// A missing value.
    Null {
        /// Number of the column.
        column: usize,
    },
    /// The opposite.
    Not(Box<Filter>),
    /// All of the conditions; every row if there are none.
    All(Vec<Filter>),
    /// At least one of the conditions; no row if there are none.
    Any(Vec<Filter>),
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// What a text must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPattern {
    /// The text to compare with.
    pub text: String,
    /// Where it must occur.
    pub position: TextPosition,
    /// Whether upper and lower case are the same.
    pub ignore_case: bool,
}

/// Where the text of a pattern must occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextPosition {
    /// It is the whole text.
    Whole,
    /// It starts the text.
    Start,
    /// It ends the text.
    End,
    /// It is anywhere in the text.
    Anywhere,
}

impl Filter {
    /// Returns the condition `low <= column < high`, such as a range of times.
    pub fn range(column: usize, low: Value, high: Value) -> Filter {
        Filter::All(vec![
            Filter::Compare { column, comparison: Comparison::GreaterOrEqual, value: low },
            Filter::Compare { column, comparison: Comparison::Less, value: high },
        ])
    }

    /// Returns the condition that a column has this value, or that it is missing if the value is [`Value::Null`].
    pub fn is(column: usize, value: Value) -> Filter {
        match value {
            Value::Null => Filter::Null { column },
            _ => Filter::Compare { column, comparison: Comparison::Equal, value },
        }
    }

    /// Calls `each` with the columns that the condition is about.
    pub(super) fn columns(&self, each: &mut impl FnMut(usize)) {
        match self {
            Filter::All(filters) | Filter::Any(filters) => {
                filters.iter().for_each(|filter| filter.columns(each));
            }
            Filter::Not(filter) => filter.columns(each),
            Filter::Null { column }
            | Filter::Compare { column, .. }
            | Filter::In { column, .. }
            | Filter::Text { column, .. } => each(*column),
        }
    }

    /// Returns the condition that the text of a column fulfils `predicate`, which is called once for each text of the
    /// index. It serves for what [`TextPattern`] cannot say, such as regular expressions.
    pub fn texts(column: usize, texts: Texts<'_>, predicate: impl Fn(&str) -> bool) -> Filter {
        let codes = texts.iter().zip(0..).filter(|(text, _)| predicate(text));
        Filter::In { column, values: codes.map(|(_, code)| Value::Code(code)).collect() }
    }
}

impl TextPattern {
    /// Returns true if `text` matches.
    pub fn matches(&self, text: &str) -> bool {
        match self.ignore_case {
            true => self.position.holds(&text.to_lowercase(), &self.text.to_lowercase()),
            false => self.position.holds(text, &self.text),
        }
    }
}

impl TextPosition {
    fn holds(self, text: &str, part: &str) -> bool {
        match self {
            TextPosition::Whole => text == part,
            TextPosition::Start => text.starts_with(part),
            TextPosition::End => text.ends_with(part),
            TextPosition::Anywhere => text.contains(part),
        }
    }
}

/// A filter in terms of words and of the buffers of a batch.
#[derive(Debug)]
pub(super) enum Node {
    Leaf { slot: usize, test: Test },
    Not(Box<Node>),
    All(Vec<Node>),
    Any(Vec<Node>),
}

#[derive(Debug)]
pub(super) enum Test {
    /// `low <= word <= high`, or the opposite.
    Range { low: u64, high: u64, negated: bool },
    /// A bit for each word.
    Bits(Vec<u64>),
    /// Sorted words.
    Set(Vec<u64>),
    /// The value is missing.
    Null,
}

/// What holds for all rows of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Truth {
    Never,
    Sometimes,
    Always,
}

const NEVER: Test = Test::Set(Vec::new());
const PRESENT: Test = Test::Range { low: 0, high: u64::MAX, negated: false };

/// Compiles a filter.
pub(super) fn compile(
    filter: &Filter,
    slots: &mut Slots<'_, '_>,
    depth: usize,
) -> Result<Node, ColumnsError> {
    if depth > MAX_DEPTH {
        return Err(ColumnsError::Pivot("filter nested too deeply"));
    }
    let table = slots.table;
    let mut all = |filters: &[Filter]| -> Result<Vec<Node>, ColumnsError> {
        filters.iter().map(|filter| compile(filter, slots, depth + 1)).collect()
    };
    let (slot, test) = match filter {
        Filter::All(filters) => return Ok(Node::All(all(filters)?)),
        Filter::Any(filters) => return Ok(Node::Any(all(filters)?)),
        Filter::Not(filter) => return Ok(Node::Not(Box::new(compile(filter, slots, depth + 1)?))),
        Filter::Null { column } => (slots.slot(*column)?, Test::Null),
        Filter::Compare { column, comparison, value } => {
            let slot = slots.slot(*column)?;
            (slot, compare(*comparison, place(&slots.sources[slot], *value)?))
        }
        Filter::In { column, values } => {
            let slot = slots.slot(*column)?;
            let source = &slots.sources[slot];
            let mut words = Vec::with_capacity(values.len());
            for value in values {
                if let Place::At(word) = place(source, *value)? {
                    words.push(word);
                }
            }
            (slot, set(source, table, words))
        }
        Filter::Text { column, pattern } => {
            let slot = slots.slot(*column)?;
            let source = &slots.sources[slot];
            if source.column().column_type != ColumnType::Text {
                return Err(mistyped(source, "not a column of texts"));
            }
            if pattern.position == TextPosition::Whole && !pattern.ignore_case {
                let code = table.index().texts()?.code_of(&pattern.text);
                let test = set(source, table, code.map(u64::from).into_iter().collect());
                return Ok(Node::Leaf { slot, test });
            }
            let lower = pattern.text.to_lowercase();
            let matches = |text: &str| match pattern.ignore_case {
                true => pattern.position.holds(&text.to_lowercase(), &lower),
                false => pattern.position.holds(text, &pattern.text),
            };
            let texts = table.index().texts()?;
            let codes = texts.iter().zip(0..).filter(|(text, _)| matches(text)).map(|(_, code)| code);
            (slot, set(source, table, codes.collect()))
        }
    };
    Ok(Node::Leaf { slot, test })
}

fn mistyped(source: &Source<'_>, what: &'static str) -> ColumnsError {
    ColumnsError::Type { column: source.column().name.to_string(), what }
}

fn place(source: &Source<'_>, value: Value) -> Result<Place, ColumnsError> {
    let place = source.column().column_type.place(value);
    place.ok_or_else(|| mistyped(source, "compared with a value of another type"))
}

fn compare(comparison: Comparison, place: Place) -> Test {
    let range = |low, high| Test::Range { low, high, negated: false };
    match (comparison, place) {
        (Comparison::Equal, Place::At(word)) => range(word, word),
        (Comparison::Equal, _) => NEVER,
        (Comparison::NotEqual, Place::At(word)) => Test::Range { low: word, high: word, negated: true },
        (Comparison::NotEqual, _) => PRESENT,
        (Comparison::Less, Place::At(word)) => word.checked_sub(1).map_or(NEVER, |high| range(0, high)),
        (Comparison::LessOrEqual, Place::At(word)) => range(0, word),
        (Comparison::Less | Comparison::LessOrEqual, Place::Above) => PRESENT,
        (Comparison::Less | Comparison::LessOrEqual, Place::Below) => NEVER,
        (Comparison::Greater, Place::At(word)) => {
            word.checked_add(1).map_or(NEVER, |low| range(low, u64::MAX))
        }
        (Comparison::GreaterOrEqual, Place::At(word)) => range(word, u64::MAX),
        (Comparison::Greater | Comparison::GreaterOrEqual, Place::Above) => NEVER,
        (Comparison::Greater | Comparison::GreaterOrEqual, Place::Below) => PRESENT,
    }
}

/// Returns the test for a set of words: bits for codes, which are dense, and a sorted list for other types.
fn set(source: &Source<'_>, table: Table<'_>, mut words: Vec<u64>) -> Test {
    // Rows that are counted are in no chunk, so nothing is known of their range.
    let is_range_known = table.chunks() > 0;
    if is_range_known {
        let greatest = source.range(table, 0..table.chunks()).max;
        words.retain(|word| *word <= greatest);
    }
    words.sort_unstable();
    words.dedup();
    match words.last() {
        // Not more bits than codes in the dictionary.
        Some(last) if is_range_known && source.column().column_type.is_code() && words.len() > 1 => {
            let mut bits = vec![0; *last as usize / 64 + 1];
            for word in words {
                bits[word as usize / 64] |= 1 << (word % 64);
            }
            Test::Bits(bits)
        }
        _ => Test::Set(words),
    }
}

impl Node {
    /// Returns what holds for all rows of a chunk, judged by the least and the greatest values.
    pub(super) fn truth(&self, block: &dyn Fn(usize) -> Option<Block>, rows: usize) -> Truth {
        match self {
            Node::Leaf { slot, test } => match block(*slot) {
                Some(block) => test.truth(&block, rows),
                None => Truth::Sometimes,
            },
            Node::Not(node) => match node.truth(block, rows) {
                Truth::Never => Truth::Always,
                Truth::Sometimes => Truth::Sometimes,
                Truth::Always => Truth::Never,
            },
            Node::All(nodes) => {
                let truths = nodes.iter().map(|node| node.truth(block, rows));
                truths.fold(Truth::Always, |all, truth| match (all, truth) {
                    (Truth::Never, _) | (_, Truth::Never) => Truth::Never,
                    (Truth::Always, Truth::Always) => Truth::Always,
                    _ => Truth::Sometimes,
                })
            }
            Node::Any(nodes) => {
                let truths = nodes.iter().map(|node| node.truth(block, rows));
                truths.fold(Truth::Never, |any, truth| match (any, truth) {
                    (Truth::Always, _) | (_, Truth::Always) => Truth::Always,
                    (Truth::Never, Truth::Never) => Truth::Never,
                    _ => Truth::Sometimes,
                })
            }
        }
    }

    /// Calls `each` for the buffers that the filter needs.
    pub(super) fn slots(&self, each: &mut dyn FnMut(usize)) {
        match self {
            Node::Leaf { slot, .. } => each(*slot),
            Node::Not(node) => node.slots(each),
            Node::All(nodes) | Node::Any(nodes) => nodes.iter().for_each(|node| node.slots(each)),
        }
    }

    /// Writes 1 or 0 for each of `rows` rows of a batch.
    pub(super) fn evaluate(&self, buffers: &[Buffer], rows: usize, mask: &mut Vec<u8>) {
        match self {
            Node::Leaf { slot, test } => {
                mask.clear();
                test.evaluate(&buffers[*slot], rows, mask);
            }
            Node::Not(node) => {
                node.evaluate(buffers, rows, mask);
                mask.iter_mut().for_each(|bit| *bit ^= 1);
            }
            Node::All(nodes) => combine(nodes, buffers, rows, mask, 1, |mask, other| mask & other),
            Node::Any(nodes) => combine(nodes, buffers, rows, mask, 0, |mask, other| mask | other),
        }
    }
}

fn combine(
    nodes: &[Node],
    buffers: &[Buffer],
    rows: usize,
    mask: &mut Vec<u8>,
    neutral: u8,
    operation: impl Fn(u8, u8) -> u8,
) {
    let Some((first, rest)) = nodes.split_first() else {
        mask.clear();
        return mask.resize(rows, neutral);
    };
    first.evaluate(buffers, rows, mask);
    let mut other = Vec::with_capacity(if rest.is_empty() { 0 } else { rows });
    for node in rest {
        node.evaluate(buffers, rows, &mut other);
        mask.iter_mut().zip(&other).for_each(|(mask, other)| *mask = operation(*mask, *other));
    }
}

impl Test {
    fn truth(&self, block: &Block, rows: usize) -> Truth {
        let nulls = block.nulls as usize;
        if let Test::Null = self {
            return match nulls {
                0 => Truth::Never,
                _ if nulls == rows => Truth::Always,
                _ => Truth::Sometimes,
            };
        }
        if nulls == rows {
            return Truth::Never;
        }
        let inside = |low: u64, high: u64| {
            if block.max < low || block.min > high {
                Truth::Never
            } else if block.min >= low && block.max <= high {
                Truth::Always
            } else {
                Truth::Sometimes
            }
        };
        let truth = match self {
            Test::Null => Truth::Sometimes,
            Test::Range { low, high, negated: false } => inside(*low, *high),
            Test::Range { low, high, negated: true } => match inside(*low, *high) {
                Truth::Never => Truth::Always,
                Truth::Always => Truth::Never,
                Truth::Sometimes => Truth::Sometimes,
            },
            Test::Bits(bits) => {
                let (first, last) = ((block.min / 64) as usize, (block.max / 64) as usize);
                let some = bits.iter().enumerate().take(last + 1).skip(first).any(|(place, bits)| {
                    let from = if place == first { !0 << (block.min % 64) } else { !0 };
                    let to = if place == last { !0 >> (63 - block.max % 64) } else { !0 };
                    bits & from & to != 0
                });
                if !some {
                    Truth::Never
                } else if block.min == block.max {
                    Truth::Always
                } else {
                    Truth::Sometimes
                }
            }
            Test::Set(words) => {
                let first = words.partition_point(|word| *word < block.min);
                match words.get(first) {
                    Some(word) if *word <= block.max => {
                        if block.min == block.max {
                            Truth::Always
                        } else {
                            Truth::Sometimes
                        }
                    }
                    _ => Truth::Never,
                }
            }
        };
        if truth == Truth::Always && nulls > 0 { Truth::Sometimes } else { truth }
    }

    fn evaluate(&self, buffer: &Buffer, rows: usize, mask: &mut Vec<u8>) {
        let words = &buffer.words;
        match self {
            Test::Range { low, high, negated } => {
                let (low, span, negated) = (*low, high - low, u8::from(*negated));
                mask.extend(words.iter().map(|word| u8::from(word.wrapping_sub(low) <= span) ^ negated));
            }
            Test::Bits(bits) => mask.extend(words.iter().map(|word| {
                let bits = bits.get((word / 64) as usize).copied().unwrap_or(0);
                (bits >> (word % 64) & 1) as u8
            })),
            Test::Set(set) if set.len() == 1 => {
                mask.extend(words.iter().map(|word| u8::from(*word == set[0])));
            }
            Test::Set(set) => mask.extend(words.iter().map(|word| u8::from(set.binary_search(word).is_ok()))),
            Test::Null if buffer.valid.is_empty() => mask.resize(rows, 0),
            Test::Null => return mask.extend(buffer.valid.iter().map(|valid| valid ^ 1)),
        }
        if !buffer.valid.is_empty() {
            mask.iter_mut().zip(&buffer.valid).for_each(|(mask, valid)| *mask &= valid);
        }
    }
}
