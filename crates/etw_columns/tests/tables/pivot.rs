//! Every pivot equals a computation row by row.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::common::{COLUMNS, Model, Numbers, TEXTS, same};
use etw_columns::{
    Aggregate, ColumnType, ColumnsError, Comparison, Filter, Group, Index, IndexWriter, Order, OrderBy,
    Pivot, PivotResult, TextPattern, TextPosition, Value,
};

/// Order of values of one type; missing ones are last.
fn order(a: Value, b: Value) -> Ordering {
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Greater,
        (_, Value::Null) => Ordering::Less,
        (Value::Bool(a), Value::Bool(b)) => a.cmp(&b),
        (Value::Integer(a), Value::Integer(b)) => a.cmp(&b),
        (Value::Float(a), Value::Float(b)) => match (a.is_nan(), b.is_nan()) {
            (false, false) => a.partial_cmp(&b).unwrap(),
            (a, b) => a.cmp(&b),
        },
        (Value::Time(a), Value::Time(b)) => a.cmp(&b),
        (Value::Code(a), Value::Code(b)) => a.cmp(&b),
        _ => panic!("{a:?} beside {b:?}"),
    }
}

fn text(value: Value) -> &'static str {
    match value {
        Value::Code(code) => TEXTS[code as usize],
        _ => panic!("{value:?} is no text"),
    }
}

fn holds(filter: &Filter, row: &[Value]) -> bool {
    match filter {
        Filter::Compare { column, comparison, value } => {
            let order = order(row[*column], *value);
            row[*column] != Value::Null
                && match comparison {
                    Comparison::Equal => order.is_eq(),
                    Comparison::NotEqual => order.is_ne(),
                    Comparison::Less => order.is_lt(),
                    Comparison::LessOrEqual => order.is_le(),
                    Comparison::Greater => order.is_gt(),
                    Comparison::GreaterOrEqual => order.is_ge(),
                }
        }
        Filter::In { column, values } => {
            row[*column] != Value::Null && values.iter().any(|value| order(row[*column], *value).is_eq())
        }
        Filter::Text { column, pattern } => {
            row[*column] != Value::Null && pattern.matches(text(row[*column]))
        }
        Filter::Null { column } => row[*column] == Value::Null,
        Filter::Not(filter) => !holds(filter, row),
        Filter::All(filters) => filters.iter().all(|filter| holds(filter, row)),
        Filter::Any(filters) => filters.iter().any(|filter| holds(filter, row)),
    }
}

fn aggregate(aggregate: Aggregate, rows: &[&Vec<Value>]) -> Value {
    let Some(column) = aggregate.column() else { return Value::Integer(rows.len() as i128) };
    let mut values: Vec<Value> =
        rows.iter().map(|row| row[column]).filter(|value| *value != Value::Null).collect();
    values.sort_by(|a, b| order(*a, *b));
    let count = values.len();
    let sum = || -> Value {
        let mut sum = 0;
        let mut floats = 0.0;
        let mut is_float = false;
        for value in &values {
            match value {
                Value::Integer(value) => sum += value,
                Value::Float(value) => (floats, is_float) = (floats + value, true),
                _ => panic!("{value:?} is no number"),
            }
        }
        if is_float { Value::Float(floats) } else { Value::Integer(sum) }
    };
    match aggregate {
        Aggregate::Count(_) => Value::Integer(count as i128),
        Aggregate::Unique(_) => {
            values.dedup_by(|a, b| order(*a, *b).is_eq());
            Value::Integer(values.len() as i128)
        }
        _ if count == 0 => Value::Null,
        Aggregate::Sum(_) => sum(),
        Aggregate::Mean(_) => match sum() {
            Value::Integer(sum) => Value::Float(sum as f64 / count as f64),
            Value::Float(sum) => Value::Float(sum / count as f64),
            _ => Value::Null,
        },
        Aggregate::Min(_) => values[0],
        Aggregate::Max(_) => values[count - 1],
        Aggregate::Percentile(_, percent) => {
            values[((percent / 100.0 * count as f64).ceil() as usize).clamp(1, count) - 1]
        }
        Aggregate::Rows => Value::Null,
    }
}

fn group(pivot: &Pivot, keys: Vec<Value>, rows: &[&Vec<Value>]) -> Group {
    let values = pivot.aggregates.iter().zip(0..).map(|(of, number)| {
        let condition = pivot.conditions.get(number).and_then(Option::as_ref);
        let meets = |row: &&&Vec<Value>| condition.is_none_or(|condition| holds(condition, row));
        aggregate(*of, &rows.iter().filter(meets).copied().collect::<Vec<_>>())
    });
    let values = values.collect();
    Group { keys, rows: rows.len() as u64, values }
}

/// Computes a pivot row by row.
fn naive(pivot: &Pivot, model: &Model) -> PivotResult {
    let rows: Vec<&Vec<Value>> = model
        .rows
        .iter()
        .filter(|row| holds(&pivot.filter, row))
        .filter(|row| pivot.keys.iter().zip(&pivot.path).all(|(key, value)| order(row[*key], *value).is_eq()))
        .collect();
    let mut groups: BTreeMap<String, (Vec<Value>, Vec<&Vec<Value>>)> = BTreeMap::new();
    for row in &rows {
        let key = |column: &usize| match row[*column] {
            // One zero and one NaN.
            Value::Float(value) if value.is_nan() => Value::Float(f64::NAN),
            Value::Float(value) => Value::Float(value + 0.0),
            value => value,
        };
        let keys: Vec<Value> = pivot.level().iter().map(key).collect();
        groups.entry(format!("{keys:?}")).or_insert_with(|| (keys, Vec::new())).1.push(row);
    }
    let mut groups: Vec<(Group, Vec<&Vec<Value>>)> =
        groups.into_values().map(|(keys, rows)| (group(pivot, keys, &rows), rows)).collect();
    let directed = |order: Ordering| if pivot.order.descending { order.reverse() } else { order };
    let values = |a: Value, b: Value| match (a, b) {
        (Value::Null, _) | (_, Value::Null) => order(a, b),
        _ => directed(order(a, b)),
    };
    groups.sort_by(|(a, _), (b, _)| {
        let by = match pivot.order.by {
            OrderBy::Rows => directed(a.rows.cmp(&b.rows)),
            OrderBy::Aggregate(number) => values(a.values[number], b.values[number]),
            OrderBy::Key(number) if number < a.keys.len() => match (a.keys[number], b.keys[number]) {
                (a @ Value::Code(_), b @ Value::Code(_))
                    if COLUMNS[pivot.level()[number]].column_type == ColumnType::Text =>
                {
                    directed(text(a).cmp(text(b)))
                }
                (a, b) => values(a, b),
            },
            OrderBy::Key(_) | OrderBy::Nothing => Ordering::Equal,
        };
        let mut keys = a.keys.iter().zip(&b.keys).map(|(a, b)| order(*a, *b));
        by.then_with(|| keys.find(|order| order.is_ne()).unwrap_or(Ordering::Equal))
    });
    let group_count = groups.len();
    let rest = groups.split_off(group_count.min(pivot.top));
    let rest_rows: Vec<&Vec<Value>> = rest.iter().flat_map(|(_, rows)| rows.iter().copied()).collect();
    PivotResult {
        groups: groups.into_iter().map(|(group, _)| group).collect(),
        other: (!rest.is_empty()).then(|| group(pivot, Vec::new(), &rest_rows)),
        total: group(pivot, Vec::new(), &rows),
        group_count,
        approximate: vec![false; pivot.aggregates.len()],
    }
}

fn assert_same(result: &PivotResult, expected: &PivotResult, pivot: &Pivot) {
    let all = |result: &PivotResult| -> Vec<Group> {
        result.groups.iter().chain(&result.other).chain([&result.total]).cloned().collect()
    };
    assert_eq!(result.group_count, expected.group_count, "{pivot:?}");
    assert_eq!(result.other.is_some(), expected.other.is_some(), "{pivot:?}");
    assert_eq!(result.approximate, expected.approximate, "{pivot:?}");
    let (result, expected) = (all(result), all(expected));
    assert_eq!(result.len(), expected.len(), "{pivot:?}");
    for (result, expected) in result.iter().zip(&expected) {
        let values =
            |group: &Group| -> Vec<Value> { group.keys.iter().chain(&group.values).copied().collect() };
        let (own, other) = (values(result), values(expected));
        let is_same = own.len() == other.len()
            && own.iter().zip(&other).all(|(a, b)| same(*a, *b))
            && result.rows == expected.rows;
        assert!(is_same, "{result:?} instead of {expected:?} of {pivot:?}");
    }
}

fn index(model: &Model) -> Index {
    let mut writer = IndexWriter::in_memory();
    model.write(&mut writer);
    writer.finish().unwrap()
}

/// Computes a pivot over rows that are not kept, but counted for it and for another one.
fn run_counted(model: &Model, pivot: &Pivot, other: &Pivot) -> PivotResult {
    let mut writer = IndexWriter::in_memory();
    model.write_counted(&mut writer, &[other.clone(), pivot.clone()]);
    let (index, counted) = writer.finish_counted().unwrap();
    let [(_, rows)] = &counted[..] else { panic!("one table is counted") };
    let table = index.table("self").unwrap();
    assert_eq!((table.rows(), rows.rows()), (0, model.rows.len() as u64));
    assert_same(&rows.run(other, table).unwrap(), &naive(other, model), other);
    rows.run(pivot, table).unwrap()
}

fn random_filter(numbers: &mut Numbers, model: &Model, depth: usize) -> Filter {
    let column = numbers.below(COLUMNS.len());
    let constant = |numbers: &mut Numbers| {
        let value = model.rows[numbers.below(model.rows.len())][column];
        let value = match (value, COLUMNS[column].column_type) {
            (Value::Null, ColumnType::Bool) => Value::Bool(true),
            (Value::Null, ColumnType::F64) => Value::Float(0.5),
            (Value::Null, column_type) if column_type.is_code() => Value::Code(2),
            (Value::Null, _) => Value::Integer(-3),
            (value, _) => value,
        };
        match value {
            Value::Integer(value) => Value::Integer(numbers.one_of(&[value, value - 1, value + 1])),
            value => value,
        }
    };
    let several = |numbers: &mut Numbers| {
        (0..numbers.below(4)).map(|_| random_filter(numbers, model, depth - 1)).collect()
    };
    match numbers.below(if depth == 0 { 6 } else { 9 }) {
        0 => Filter::Null { column },
        1 => {
            let values = (0..numbers.below(30)).map(|_| constant(numbers)).collect();
            Filter::In { column, values }
        }
        2 => {
            let text = numbers.one_of(&["", "explorer.exe", "e", "exe", "EX", "sys", "Ä"]).to_owned();
            let position = numbers.one_of(&[
                TextPosition::Whole,
                TextPosition::Start,
                TextPosition::End,
                TextPosition::Anywhere,
            ]);
            let ignore_case = numbers.below(2) == 0;
            Filter::Text { column: 9, pattern: TextPattern { text, position, ignore_case } }
        }
        3 => {
            let mut time = || model.rows[numbers.below(model.rows.len())][0];
            Filter::range(0, time(), time())
        }
        6 => Filter::All(several(numbers)),
        7 => Filter::Any(several(numbers)),
        8 => Filter::Not(Box::new(random_filter(numbers, model, depth - 1))),
        _ => {
            let comparison = numbers.one_of(&[
                Comparison::Equal,
                Comparison::NotEqual,
                Comparison::Less,
                Comparison::LessOrEqual,
                Comparison::Greater,
                Comparison::GreaterOrEqual,
            ]);
            Filter::Compare { column, comparison, value: constant(numbers) }
        }
    }
}

fn random_aggregate(numbers: &mut Numbers) -> Aggregate {
    let any = numbers.below(COLUMNS.len());
    // Not the special numbers, of which sums depend on the order.
    let number = numbers.one_of(&[1, 2, 3, 4, 6, 8, 13, 15]);
    match numbers.below(9) {
        0 => Aggregate::Rows,
        1 => Aggregate::Count(any),
        2 => Aggregate::Min(any),
        3 => Aggregate::Max(any),
        4 => Aggregate::Unique(any),
        5 => Aggregate::Mean(number),
        6 => Aggregate::Percentile(
            numbers.one_of(&[5, number]),
            numbers.one_of(&[0.0, 50.0, 95.0, 99.9, 100.0]),
        ),
        _ => Aggregate::Sum(number),
    }
}

fn random_pivot(numbers: &mut Numbers, model: &Model) -> Pivot {
    let keys: Vec<usize> = (0..numbers.below(4)).map(|_| numbers.below(COLUMNS.len())).collect();
    let row = &model.rows[numbers.below(model.rows.len())];
    let path = keys[..numbers.below(keys.len() + 1)].iter().map(|key| row[*key]).collect();
    let aggregates: Vec<Aggregate> = (0..numbers.below(5)).map(|_| random_aggregate(numbers)).collect();
    let filter = match numbers.below(5) {
        0 => Filter::All(Vec::new()),
        depth => random_filter(numbers, model, depth - 1),
    };
    let mut pivot = Pivot { path, filter, levels: 1 + numbers.below(3), ..Pivot::new(keys, aggregates) };
    // Some are equal, and some aggregates have none.
    let condition = random_filter(numbers, model, 1);
    for _ in 0..numbers.below(pivot.aggregates.len() + 1) {
        pivot.conditions.push(match numbers.below(3) {
            0 => None,
            1 => Some(condition.clone()),
            _ => Some(random_filter(numbers, model, 1)),
        });
    }
    let by = match numbers.below(3) {
        0 if !pivot.aggregates.is_empty() => OrderBy::Aggregate(numbers.below(pivot.aggregates.len())),
        1 if !pivot.level().is_empty() => OrderBy::Key(numbers.below(pivot.level().len())),
        _ => OrderBy::Rows,
    };
    pivot.order = Order { by, descending: numbers.below(2) == 0 };
    pivot.top = numbers.one_of(&[0, 1, 5, 100, usize::MAX]);
    pivot
}

/// Checks random pivots over a random table, and returns how many of them counted rows.
fn check_random(rows: usize, pivots: usize, seed: u64) -> usize {
    let model = Model::new(rows, seed);
    let index = index(&model);
    let mut numbers = Numbers(seed ^ 1);
    let mut counted = 0;
    for _ in 0..pivots {
        let pivot = random_pivot(&mut numbers, &model);
        let expected = naive(&pivot, &model);
        for threads in [0, 1, 2, 3] {
            let result = pivot.run(index.table("self").unwrap(), threads).unwrap();
            assert_same(&result, &expected, &pivot);
        }
        let other = Pivot::new([numbers.below(COLUMNS.len())], []);
        assert_same(&run_counted(&model, &pivot, &other), &expected, &pivot);
        let condition = pivot.condition();
        let rows: Vec<u64> = (0..)
            .zip(&model.rows)
            .filter(|(_, row)| holds(&condition, row))
            .map(|(number, _)| number)
            .collect();
        let table = index.table("self").unwrap();
        assert_eq!(condition.rows(table, &[], 0, usize::MAX).unwrap(), rows, "{condition:?}");
        let first = numbers.below(model.rows.len() + 2) as u64;
        let limit = numbers.one_of(&[0, 1, 10, 5000]);
        let page: Vec<u64> = rows.iter().copied().filter(|row| *row >= first).take(limit).collect();
        assert_eq!(condition.rows(table, &[], first, limit).unwrap(), page, "{condition:?} {first} {limit}");
        counted += usize::from(expected.total.rows > 0);
    }
    counted
}

#[test]
fn pivots_of_small_tables() {
    let counted: usize = (0..40).map(|seed| check_random(1 + seed as usize * 7, 40, seed)).sum();
    assert!(counted > 40 * 40 / 3, "{counted} pivots counted rows");
}

#[test]
fn pivots_of_several_chunks() {
    let counted = check_random(200_000, 40, 99);
    assert!(counted > 40 / 3, "{counted} pivots counted rows");
}

#[test]
fn every_column_groups_and_counts() {
    let model = Model::new(70_000, 5);
    let index = index(&model);
    for (column, description) in COLUMNS.iter().enumerate() {
        let mut aggregates = vec![Aggregate::Count(0), Aggregate::Min(column), Aggregate::Unique(column)];
        if description.column_type.is_number() && column != 5 {
            aggregates.extend([Aggregate::Sum(column), Aggregate::Percentile(column, 50.0)]);
        }
        let pivot = Pivot::new([column], aggregates);
        let result = pivot.run(index.table("self").unwrap(), 2).unwrap();
        assert_same(&result, &naive(&pivot, &model), &pivot);
    }
}

#[test]
fn groups_open_level_by_level() {
    let model = Model::new(5000, 6);
    let index = index(&model);
    let table = index.table("self").unwrap();
    let first = Pivot::new([9, 7, 10], [Aggregate::Sum(3)]);
    let groups = first.run(table, 2).unwrap();
    assert_eq!(groups.groups.len(), TEXTS.len() + 1, "missing texts are a group");
    for group in &groups.groups {
        let second = first.expand(group);
        let below = second.run(table, 2).unwrap();
        assert_eq!((below.total.rows, &below.total.values), (group.rows, &group.values));
        let third = second.expand(&below.groups[0]);
        assert_eq!(third.level(), [10]);
        let last = third.run(table, 1).unwrap();
        assert_eq!(last.total.rows, below.groups[0].rows);
        // Below the last level there is one group without keys.
        let end = third.expand(&last.groups[0]).run(table, 1).unwrap();
        assert_eq!((end.groups.len(), end.groups[0].keys.len()), (1, 0));
        assert_eq!(end.total.rows, last.groups[0].rows);
    }
}

#[test]
fn skipped_chunks_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.index");
    let model = Model::new(200_000, 7);
    let mut writer = IndexWriter::create(&path, b"").unwrap();
    model.write(&mut writer);
    drop(writer.finish().unwrap());
    // The first chunk is damaged.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[48..1000].fill(0xEE);
    std::fs::write(&path, bytes).unwrap();
    let index = Index::open(&path, b"").unwrap();
    let table = index.table("self").unwrap();
    let after = Filter::range(0, model.rows[65_536 + 40][0], model.rows[150_000][0]);
    let pivot = Pivot { filter: after, ..Pivot::new([9], [Aggregate::Max(0)]) };
    assert_same(&pivot.run(table, 2).unwrap(), &naive(&pivot, &model), &pivot);
    let all = Pivot::new([9], [Aggregate::Max(0)]);
    assert!(matches!(all.run(table, 2), Err(ColumnsError::Damaged { offset: 48, .. })));
    // Other columns of the chunk are whole.
    let other = Pivot::new([9], []);
    assert_same(&other.run(table, 2).unwrap(), &naive(&other, &model), &other);
}

#[test]
fn limits_hold() {
    let model = Model::new(20_000, 8);
    let index = index(&model);
    let table = index.table("self").unwrap();
    let many = Pivot { max_groups: 1000, ..Pivot::new([1], []) };
    assert!(matches!(many.run(table, 2), Err(ColumnsError::TooManyGroups { limit: 1000 })));
    let dense = Pivot { max_groups: 100, ..Pivot::new([11], []) };
    assert!(matches!(dense.run(table, 2), Err(ColumnsError::TooManyGroups { limit: 100 })));
    let unique = Pivot { max_values: 1000, ..Pivot::new([9], [Aggregate::Unique(1)]) };
    assert!(matches!(unique.run(table, 2), Err(ColumnsError::TooManyValues { limit: 1000 })));

    // Beyond the limit, percentiles are rounded.
    for (column, threads) in [(8, 1), (8, 2), (6, 3)] {
        let percents = [0.0, 10.0, 50.0, 99.0, 100.0];
        let exact = Pivot::new([7], percents.map(|percent| Aggregate::Percentile(column, percent)));
        let rounded = Pivot { max_exact: 5000, ..exact.clone() };
        let (exact, rounded) = (naive(&exact, &model), rounded.run(table, threads).unwrap());
        assert_eq!(rounded.approximate, [true; 5]);
        let number = |value: &Value| match value {
            Value::Integer(value) => *value as f64,
            Value::Float(value) => *value,
            _ => panic!("{value:?}"),
        };
        assert_eq!(exact.groups.len(), 3);
        for (exact, rounded) in
            exact.groups.iter().zip(&rounded.groups).chain([(&exact.total, &rounded.total)])
        {
            for (exact, rounded) in exact.values.iter().zip(&rounded.values) {
                let (exact, rounded) = (number(exact), number(rounded));
                assert!((exact - rounded).abs() <= exact.abs() * 0.004 + 1e-9, "{exact} {rounded}");
            }
        }
    }
}

#[test]
fn wrong_pivots_are_errors() {
    let model = Model::new(10, 9);
    let index = index(&model);
    let table = index.table("self").unwrap();
    let check = |pivot: Pivot| pivot.run(table, 1).unwrap_err();
    assert!(matches!(check(Pivot::new([99], [])), ColumnsError::NoColumn { column: 99, .. }));
    assert!(matches!(check(Pivot::new([], [Aggregate::Max(99)])), ColumnsError::NoColumn { .. }));
    assert!(matches!(check(Pivot::new([], [Aggregate::Sum(9)])), ColumnsError::Type { .. }));
    assert!(matches!(check(Pivot::new([], [Aggregate::Mean(0)])), ColumnsError::Type { .. }));
    for percent in [-1.0, 100.1, f64::NAN] {
        assert!(matches!(check(Pivot::new([], [Aggregate::Percentile(1, percent)])), ColumnsError::Pivot(_)));
    }
    let with = |filter| Pivot { filter, ..Pivot::new([9], []) };
    assert!(matches!(check(with(Filter::is(9, Value::Integer(3)))), ColumnsError::Type { .. }));
    let nested = (0..1000).fold(Filter::Null { column: 0 }, |filter, _| Filter::Not(Box::new(filter)));
    assert!(matches!(check(with(nested)), ColumnsError::Pivot(_)));
    let pattern = TextPattern { text: String::new(), position: TextPosition::Whole, ignore_case: false };
    assert!(matches!(check(with(Filter::Text { column: 1, pattern })), ColumnsError::Type { .. }));
    let path = vec![Value::Code(1), Value::Code(1)];
    assert!(matches!(check(Pivot { path, ..Pivot::new([9], []) }), ColumnsError::Pivot(_)));
    for by in [OrderBy::Aggregate(0), OrderBy::Key(1)] {
        let order = Order { by, descending: true };
        assert!(matches!(check(Pivot { order, ..Pivot::new([9], []) }), ColumnsError::Pivot(_)));
    }
}

#[test]
fn texts_are_matched_by_any_predicate() {
    let model = Model::new(1000, 10);
    let index = index(&model);
    let table = index.table("self").unwrap();
    let filter = Filter::texts(9, index.texts().unwrap(), |text| text.len() > 7);
    let pivot = Pivot { filter, ..Pivot::new([9], []) };
    let result = pivot.run(table, 1).unwrap();
    assert_same(&result, &naive(&pivot, &model), &pivot);
    assert_eq!(result.groups.len(), 4);
}
