//! The functions on stacks.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, ListBuilder, StringBuilder, UInt64Builder};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, UInt32Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, ColumnarValue, ScalarUDF, Volatility, create_udaf, create_udf,
};

use crate::error;
use crate::stacks::{Memo, NamedStack, StackNames};

/// Limit of the text that `flame` returns.
const MAX_FLAME_BYTES: usize = 256 << 20;

/// A function on stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum StackFunction {
    Text,
    Frame,
    Contains,
    Frames,
}

impl StackFunction {
    pub(crate) const ALL: [StackFunction; 4] =
        [StackFunction::Text, StackFunction::Frame, StackFunction::Contains, StackFunction::Frames];

    const fn name(self) -> &'static str {
        match self {
            StackFunction::Text => "stack_text",
            StackFunction::Frame => "frame",
            StackFunction::Contains => "stack_contains",
            StackFunction::Frames => "stack_frames",
        }
    }

    /// Returns the function on the stacks of some traces.
    pub(crate) fn of(self, stacks: &Arc<StackNames>) -> ScalarUDF {
        let (arguments, returned) = match self {
            StackFunction::Text => (vec![DataType::UInt32], DataType::Utf8),
            StackFunction::Frame => (vec![DataType::UInt32, DataType::Int64], DataType::Utf8),
            StackFunction::Contains => (vec![DataType::UInt32, DataType::Utf8], DataType::Boolean),
            StackFunction::Frames => {
                let frame = Field::new("item", DataType::UInt64, true);
                (vec![DataType::UInt32], DataType::List(Arc::new(frame)))
            }
        };
        let stacks = stacks.clone();
        let function = move |arguments: &[ColumnarValue]| {
            let arrays = ColumnarValue::values_to_arrays(arguments)?;
            Ok(ColumnarValue::Array(self.value(&stacks, &arrays)?))
        };
        create_udf(self.name(), arguments, returned, Volatility::Immutable, Arc::new(function))
    }

    fn value(self, names: &StackNames, arguments: &[ArrayRef]) -> Result<ArrayRef> {
        match (self, arguments) {
            (StackFunction::Text, [stacks]) => text(names, stacks),
            (StackFunction::Frame, [stacks, numbers]) => frame(names, stacks, numbers),
            (StackFunction::Contains, [stacks, texts]) => contains(names, stacks, texts),
            (StackFunction::Frames, [stacks]) => frames(names, stacks),
            _ => exec_err!("{} has other arguments", self.name()),
        }
    }
}

fn text(names: &StackNames, stacks: &ArrayRef) -> Result<ArrayRef> {
    let mut memo = Memo::new(names);
    let mut out = StringBuilder::new();
    for code in stacks.as_primitive::<UInt32Type>() {
        out.append_option(looked_up(&mut memo, code, |stack| stack.folded())?);
    }
    Ok(Arc::new(out.finish()))
}

fn frame(names: &StackNames, stacks: &ArrayRef, numbers: &ArrayRef) -> Result<ArrayRef> {
    let mut memo: Memo<'_, Vec<String>> = Memo::new(names);
    let mut out = StringBuilder::new();
    for (code, number) in stacks.as_primitive::<UInt32Type>().iter().zip(numbers.as_primitive::<Int64Type>())
    {
        let functions = looked_up(&mut memo, code, |stack| {
            Ok(stack.functions()?.into_iter().map(str::to_owned).collect())
        })?;
        let found = functions.zip(number.and_then(|number| usize::try_from(number).ok()));
        out.append_option(found.as_ref().and_then(|(functions, number)| functions.get(*number)));
    }
    Ok(Arc::new(out.finish()))
}

fn contains(names: &StackNames, stacks: &ArrayRef, texts: &ArrayRef) -> Result<ArrayRef> {
    let mut memos: HashMap<String, Memo<'_, bool>> = HashMap::new();
    let rows = stacks.as_primitive::<UInt32Type>().iter().zip(texts.as_string::<i32>());
    let found = rows.map(|(code, text)| {
        let Some(text) = text.map(str::to_lowercase) else { return Ok(None) };
        let memo = memos.entry(text.clone()).or_insert_with(|| Memo::new(names));
        looked_up(memo, code, |stack| {
            Ok(stack.functions()?.into_iter().any(|function| function.to_lowercase().contains(&text)))
        })
    });
    Ok(Arc::new(found.collect::<Result<BooleanArray>>()?))
}

fn frames(names: &StackNames, stacks: &ArrayRef) -> Result<ArrayRef> {
    let mut memo: Memo<'_, Vec<u64>> = Memo::new(names);
    let mut out = ListBuilder::new(UInt64Builder::new());
    for code in stacks.as_primitive::<UInt32Type>() {
        let frames = looked_up(&mut memo, code, |stack| Ok(stack.frames().collect()))?;
        out.append_option(frames.map(|frames| frames.into_iter().map(Some)));
    }
    Ok(Arc::new(out.finish()))
}

fn looked_up<'n, T: Clone>(
    memo: &mut Memo<'n, T>,
    code: Option<u32>,
    make: impl FnOnce(&NamedStack<'n>) -> anyhow::Result<T>,
) -> Result<Option<T>> {
    let Some(code) = code else { return Ok(None) };
    memo.of(code, make).map_err(error::of_trace)
}

/// Returns the aggregate `flame` on the stacks of some traces.
pub(crate) fn flame(stacks: &Arc<StackNames>) -> AggregateUDF {
    let names = stacks.clone();
    create_udaf(
        "flame",
        vec![DataType::UInt32, DataType::Int64],
        Arc::new(DataType::Utf8),
        Volatility::Immutable,
        Arc::new(move |_: AccumulatorArgs<'_>| {
            Ok(Box::new(Flame { names: names.clone(), weights: BTreeMap::new() }) as Box<dyn Accumulator>)
        }),
        Arc::new(vec![DataType::Utf8]),
    )
}

/// The sums of weights by stack, as lines that flame graphs are made of.
#[derive(Debug)]
struct Flame {
    names: Arc<StackNames>,
    weights: BTreeMap<u32, i64>,
}

impl Flame {
    fn add(&mut self, code: u32, weight: i64) {
        let sum = self.weights.entry(code).or_default();
        *sum = sum.saturating_add(weight);
    }
}

impl Accumulator for Flame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [stacks, weights] = values else { return exec_err!("flame takes a stack and a weight") };
        let rows = stacks.as_primitive::<UInt32Type>().iter().zip(weights.as_primitive::<Int64Type>());
        for (code, weight) in rows {
            if let (Some(code), Some(weight)) = (code, weight) {
                self.add(code, weight);
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut text = String::new();
        for (code, weight) in &self.weights {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{code} {weight}");
        }
        Ok(vec![ScalarValue::from(text)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [texts] = states else { return exec_err!("flame has one state") };
        for line in texts.as_string::<i32>().iter().flatten().flat_map(str::lines) {
            let Some((code, weight)) = line.split_once(' ') else { continue };
            if let (Ok(code), Ok(weight)) = (code.parse(), weight.parse()) {
                self.add(code, weight);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // Stacks of different addresses can have the same functions.
        let mut sums: BTreeMap<String, i64> = BTreeMap::new();
        for (code, weight) in &self.weights {
            let Some(stack) = self.names.stack(*code).map_err(error::of_trace)? else { continue };
            let sum = sums.entry(stack.folded().map_err(error::of_trace)?).or_default();
            *sum = sum.saturating_add(*weight);
        }
        let mut text = String::new();
        for (functions, weight) in sums {
            let _ = writeln!(text, "{functions} {weight}");
            if text.len() > MAX_FLAME_BYTES {
                return exec_err!(
                    "the flame graph is larger than {MAX_FLAME_BYTES} bytes; select fewer rows"
                );
            }
        }
        Ok(ScalarValue::from(text))
    }

    fn size(&self) -> usize {
        size_of::<Flame>() + self.weights.len() * 2 * size_of::<(u32, i64)>()
    }
}
