//! Functions and operators for texts that are JSON, as the payloads of events are.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray, UInt64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarUDF, Volatility, create_udf, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use serde_json::value::RawValue;

/// Returns the functions:
///
/// - `json_extract(json, path)`, also `json ->> path`: the value at a path, a text without its quotes.
/// - `json_value(json, path)`, also `json -> path`: the same as JSON.
/// - `json_array_length(json)`: the number of the values of an array.
///
/// What is not JSON or has nothing at the path gives nothing. A path is the name of a field, or steps after `$`:
/// `$.Name.Of[2]`, with quotes around names with other characters: `$."a.b"`.
pub(crate) fn functions() -> [ScalarUDF; 3] {
    let text = || DataType::Utf8;
    let function = |name, arguments, returned, function: fn(&[ArrayRef]) -> Result<ArrayRef>| {
        let function = move |arguments: &[ColumnarValue]| {
            Ok(ColumnarValue::Array(function(&ColumnarValue::values_to_arrays(arguments)?)?))
        };
        create_udf(name, arguments, returned, Volatility::Immutable, Arc::new(function))
    };
    [
        function("json_extract", vec![text(), text()], text(), |arguments| at(arguments, plain)),
        function("json_value", vec![text(), text()], text(), |arguments| {
            at(arguments, |json| json.get().into())
        }),
        function("json_array_length", vec![text()], DataType::UInt64, array_length),
    ]
}

/// The operators `->` and `->>`.
#[derive(Debug)]
pub(crate) struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(
        &self,
        expression: RawBinaryExpr,
        _: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let [extract, value, _] = functions();
        let function = match expression.op {
            BinaryOperator::Arrow => value,
            BinaryOperator::LongArrow => extract,
            _ => return Ok(PlannerResult::Original(expression)),
        };
        Ok(PlannerResult::Planned(applied(&function, expression.left, expression.right)))
    }
}

/// Returns `left -> right`. The parser binds other operators closer, `a -> ('b' = 'c')`, which is put right.
fn applied(function: &ScalarUDF, left: Expr, right: Expr) -> Expr {
    let on = |left, right: Box<Expr>| Box::new(applied(function, left, *right));
    match (left, right) {
        (Expr::BinaryExpr(mut it), right) => {
            it.right = Box::new(applied(function, *it.right, right));
            Expr::BinaryExpr(it)
        }
        (Expr::Like(mut it), right) => {
            it.pattern = Box::new(applied(function, *it.pattern, right));
            Expr::Like(it)
        }
        (left, Expr::BinaryExpr(mut it)) if starts_with_text(&it.left) => {
            it.left = on(left, it.left);
            Expr::BinaryExpr(it)
        }
        (left, Expr::Like(mut it)) => {
            it.expr = on(left, it.expr);
            Expr::Like(it)
        }
        (left, Expr::Between(mut it)) => {
            it.expr = on(left, it.expr);
            Expr::Between(it)
        }
        (left, Expr::InList(mut it)) => {
            it.expr = on(left, it.expr);
            Expr::InList(it)
        }
        (left, Expr::IsNull(it)) => Expr::IsNull(on(left, it)),
        (left, Expr::IsNotNull(it)) => Expr::IsNotNull(on(left, it)),
        (left, Expr::Literal(ScalarValue::Int64(Some(number)), _)) => {
            function.call(vec![left, lit(format!("$[{number}]"))])
        }
        (left, right) => function.call(vec![left, right]),
    }
}

fn starts_with_text(expression: &Expr) -> bool {
    match expression {
        Expr::BinaryExpr(it) => starts_with_text(&it.left),
        Expr::Literal(..) => true,
        _ => false,
    }
}

/// A step to a value within another one.
enum Step<'a> {
    Field(&'a str),
    Element(usize),
}

/// Returns the steps of a path, or `None` if the text is not a path.
fn steps(path: &str) -> Option<Vec<Step<'_>>> {
    let Some(mut rest) = path.strip_prefix('$') else { return Some(vec![Step::Field(path)]) };
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix(".\"") {
            let (name, after) = quoted.split_once('"')?;
            steps.push(Step::Field(name));
            rest = after;
        } else if let Some(name) = rest.strip_prefix('.') {
            let (name, after) = name.split_at(name.find(['.', '[']).unwrap_or(name.len()));
            steps.push(Step::Field(name));
            rest = after;
        } else {
            let (number, after) = rest.strip_prefix('[')?.split_once(']')?;
            steps.push(Step::Element(number.parse().ok()?));
            rest = after;
        }
    }
    Some(steps)
}

/// Returns the value at the end of steps.
fn walk<'a>(json: &'a str, steps: &[Step<'_>]) -> Option<&'a RawValue> {
    let mut value: &RawValue = serde_json::from_str(json).ok()?;
    for step in steps {
        value = match step {
            Step::Field(name) => {
                serde_json::from_str::<BTreeMap<Name<'_>, &RawValue>>(value.get()).ok()?.remove(*name)?
            }
            Step::Element(number) => {
                serde_json::from_str::<Vec<&RawValue>>(value.get()).ok()?.get(*number).copied()?
            }
        };
    }
    Some(value).filter(|value| value.get() != "null")
}

/// The name of a field, which is copied only if it has escapes.
#[derive(serde::Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl std::borrow::Borrow<str> for Name<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Returns a text without its quotes, and other values as JSON.
fn plain(json: &RawValue) -> Cow<'_, str> {
    match serde_json::from_str::<Name<'_>>(json.get()) {
        Ok(Name(text)) => text,
        Err(_) => json.get().into(),
    }
}

fn at(arguments: &[ArrayRef], text: for<'a> fn(&'a RawValue) -> Cow<'a, str>) -> Result<ArrayRef> {
    let [json, paths] = arguments else { return exec_err!("expected JSON and a path") };
    let (json, paths) = (json.as_string::<i32>(), paths.as_string::<i32>());
    // Paths are mostly the same for all rows.
    let mut last: Option<(&str, Vec<Step<'_>>)> = None;
    let mut found = Vec::with_capacity(json.len());
    for (json, path) in json.iter().zip(paths) {
        let Some((json, path)) = json.zip(path) else {
            found.push(None);
            continue;
        };
        if last.as_ref().is_none_or(|(last, _)| *last != path) {
            let Some(steps) = steps(path) else {
                return exec_err!("'{path}' is no path: expected a name or $.a.b[0]");
            };
            last = Some((path, steps));
        }
        found.push(last.as_ref().and_then(|(_, steps)| walk(json, steps)).map(text));
    }
    Ok(Arc::new(found.into_iter().collect::<StringArray>()))
}

fn array_length(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [json] = arguments else { return exec_err!("json_array_length takes JSON") };
    let len = |json: Option<&str>| Some(serde_json::from_str::<Vec<&RawValue>>(json?).ok()?.len() as u64);
    Ok(Arc::new(json.as_string::<i32>().iter().map(len).collect::<UInt64Array>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_at_paths() {
        let json = r#"{"a":{"b":[1,"x\ny",{"c.d":1.10}]},"e f":null,"g":18446744073709551615,"h":""}"#;
        let find = |path: &str| Some(plain(walk(json, &steps(path)?)?).into_owned());
        for (path, expected) in [
            ("g", Some("18446744073709551615")),
            ("$.g", Some("18446744073709551615")),
            ("$.a.b[0]", Some("1")),
            ("$.a.b[1]", Some("x\ny")),
            ("$.a.b[2].\"c.d\"", Some("1.10")),
            ("$.a.b[2]", Some(r#"{"c.d":1.10}"#)),
            ("$.a.b[3]", None),
            ("a.b", None),
            ("e f", None),
            ("h", Some("")),
            ("$", Some(json)),
        ] {
            assert_eq!(find(path).as_deref(), expected, "{path}");
        }
        for path in ["$a", "$.a[", "$.a[x]", "$.\"a"] {
            assert!(steps(path).is_none(), "{path}");
        }
        assert!(walk("{", &[]).is_none() && walk("1", &[Step::Field("a")]).is_none());
    }
}
