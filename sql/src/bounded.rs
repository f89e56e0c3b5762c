//! Functions whose results can be much larger than their arguments, with a limit on what one call returns.
//!
//! A call is for a batch of rows, and its result is in memory before anything can account for it.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::length::length;
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, resources_err};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use crate::memory;

/// Part of the memory for queries that the result of one call may have.
const PART: usize = 4;
/// Least limit in bytes.
const LEAST_LEN_BYTES: u64 = 4 << 20;
/// Size in bytes of what is not counted itself.
const ITEM_LEN_BYTES: u64 = 8;

/// A function that multiplies what it gets, and its largest result.
const FUNCTIONS: [(&str, Growth); 14] = [
    ("repeat", |row| row.len(0).saturating_mul(row.number(1))),
    ("lpad", |row| row.number(1).saturating_mul(4)),
    ("rpad", |row| row.number(1).saturating_mul(4)),
    ("replace", |row| {
        (row.len(0) / row.len(1).max(1) + 1).saturating_mul(row.len(2)).saturating_add(row.len(0))
    }),
    // Each match may be in its replacement several times; together the matches are no longer than the text.
    ("regexp_replace", |row| (row.len(0) + 1).saturating_mul(row.len(2).saturating_mul(3) / 2 + 1)),
    ("concat", |row| row.all()),
    ("concat_ws", |row| row.all().saturating_add(row.len(0).saturating_mul(row.count()))),
    ("overlay", |row| row.all()),
    ("translate", |row| row.len(0).saturating_mul(4)),
    ("array_repeat", |row| row.len(0).max(ITEM_LEN_BYTES).saturating_mul(row.number(1))),
    ("array_resize", |row| row.number(1).saturating_mul(ITEM_LEN_BYTES + row.len(2))),
    ("range", |row| row.steps()),
    ("generate_series", |row| row.steps()),
    ("array_to_string", |row| row.size(0).saturating_add(row.len(0).saturating_mul(row.len(1)))),
];

/// Returns the largest size in bytes of the result for a row.
type Growth = fn(&Row<'_>) -> u64;

/// Puts the functions of a session that multiply what they get behind a limit.
///
/// # Errors
///
/// Fails if the session takes no functions.
pub(crate) fn register(session: &mut dyn FunctionRegistry, memory: MemoryLimit) -> Result<()> {
    let max = match memory {
        MemoryLimit::Finite(bytes) => ((bytes / PART) as u64).max(LEAST_LEN_BYTES),
        _ => u64::MAX,
    };
    for (number, (name, _)) in FUNCTIONS.iter().enumerate() {
        // What this version of the engine does not have needs no limit.
        let Ok(inner) = session.udf(name) else { continue };
        session.register_udf(Arc::new(ScalarUDF::new_from_impl(Bounded { inner, number, max })))?;
    }
    Ok(())
}

/// A function with a limit.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    /// Its place in [`FUNCTIONS`].
    number: usize,
    max: u64,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.inner().return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        memory::check()?;
        let arguments: Vec<Argument> = args.args.iter().map(Argument::from_value).collect();
        let are_constant = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if are_constant { 1 } else { args.number_rows };
        let Some((_, growth)) = FUNCTIONS.get(self.number) else { return exec_err!("an unknown function") };
        let row = |row| growth(&Row { arguments: &arguments, row });
        let bytes = (0..rows).map(row).fold(0, u64::saturating_add);
        if bytes > self.max {
            let (name, max) = (self.name(), self.max >> 20);
            return resources_err!(
                "the result of {name} may have {bytes} bytes for {rows} rows, more than {max} MiB"
            );
        }
        self.inner.inner().invoke_with_args(args)
    }
}

/// What counts of an argument.
struct Argument {
    /// Lengths of texts in bytes or of lists in items; one for all rows, or one for each.
    lens: Vec<u64>,
    numbers: Vec<i64>,
    /// Bytes of all rows together.
    size: u64,
}

impl Argument {
    fn from_value(value: &ColumnarValue) -> Argument {
        let array = match value {
            ColumnarValue::Array(array) => Ok(array.clone()),
            ColumnarValue::Scalar(ScalarValue::Null) => exec_err!("nothing"),
            ColumnarValue::Scalar(value) => value.to_array(),
        };
        let Ok(array) = array else { return Argument { lens: Vec::new(), numbers: Vec::new(), size: 0 } };
        let integers = |array: &dyn Array| {
            let array = cast(array, &DataType::Int64).ok()?;
            Some(array.as_primitive::<Int64Type>().iter().map(|value| value.unwrap_or(0)).collect::<Vec<_>>())
        };
        let lens = length(&array).ok().and_then(|lens| integers(&lens)).unwrap_or_default();
        let lens: Vec<u64> = lens.into_iter().map(|len| u64::try_from(len).unwrap_or(0)).collect();
        let numbers = if array.data_type().is_integer() { integers(&array) } else { None };
        Argument { lens, numbers: numbers.unwrap_or_default(), size: array.get_array_memory_size() as u64 }
    }
}

/// The arguments of a row. What is no text and no list has the length 8; what is no number is 0.
struct Row<'a> {
    arguments: &'a [Argument],
    row: usize,
}

impl Row<'_> {
    fn of<T: Copy>(&self, values: impl Fn(&Argument) -> &[T], argument: usize) -> Option<T> {
        let values = self.arguments.get(argument).map(values)?;
        values.get(if values.len() == 1 { 0 } else { self.row }).copied()
    }

    fn len(&self, argument: usize) -> u64 {
        match self.arguments.get(argument) {
            None => 0,
            Some(_) => self.of(|argument| &argument.lens, argument).unwrap_or(ITEM_LEN_BYTES),
        }
    }

    fn signed(&self, argument: usize) -> Option<i64> {
        self.of(|argument| &argument.numbers, argument)
    }

    fn number(&self, argument: usize) -> u64 {
        self.signed(argument).and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
    }

    fn count(&self) -> u64 {
        self.arguments.len() as u64
    }

    /// The bytes of an argument, which are counted once.
    fn size(&self, argument: usize) -> u64 {
        self.arguments.get(argument).filter(|_| self.row == 0).map_or(0, |argument| argument.size)
    }

    fn all(&self) -> u64 {
        (0..self.arguments.len()).map(|argument| self.len(argument)).fold(0, u64::saturating_add)
    }

    /// The bytes of a list of numbers: from the first to the second argument by the third, or from 0.
    fn steps(&self) -> u64 {
        let (start, stop) = match self.arguments.len() {
            1 => (0, self.signed(0).unwrap_or(0)),
            _ => (self.signed(0).unwrap_or(0), self.signed(1).unwrap_or(0)),
        };
        let step = self.signed(2).unwrap_or(1).unsigned_abs().max(1);
        (start.abs_diff(stop) / step).saturating_add(1).saturating_mul(ITEM_LEN_BYTES)
    }
}
