//! Functions that questions about traces need, besides those of the engine.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListBuilder, StringArray, StringBuilder, UInt64Builder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, Int64Type, TimeUnit, TimestampNanosecondType, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, ColumnarValue, Signature, SimpleScalarUDF, Volatility, create_udaf, create_udf,
};
use etw_schema::text::ntstatus_name;

use crate::error;
use crate::stacks::{Memo, StackNames};

/// Limit of the text that `flame` returns.
const MAX_FLAME_BYTES: usize = 256 << 20;

/// Names of the functions that [`register`] adds, for completion.
pub(crate) const NAMES: [&str; 10] = [
    "flame",
    "frame",
    "hex",
    "ntstatus",
    "overlaps",
    "sid_name",
    "stack_contains",
    "stack_frames",
    "stack_text",
    "date_bin",
];

/// Adds the functions to a session.
pub(crate) fn register(context: &SessionContext, stacks: &Arc<StackNames>) {
    type Function = Box<dyn Fn(&[ArrayRef]) -> Result<ArrayRef> + Send + Sync>;
    let add = |name: &str, arguments: Vec<DataType>, returned: DataType, function: Function| {
        let function = move |arguments: &[ColumnarValue]| {
            let arrays = ColumnarValue::values_to_arrays(arguments)?;
            Ok(ColumnarValue::Array(function(&arrays)?))
        };
        context.register_udf(create_udf(
            name,
            arguments,
            returned,
            Volatility::Immutable,
            Arc::new(function),
        ));
    };
    let time = || DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let text = DataType::Utf8;
    for (name, function) in [("hex", hex as fn(&[ArrayRef]) -> Result<ArrayRef>), ("ntstatus", ntstatus)] {
        let function = move |arguments: &[ColumnarValue]| {
            let arrays = ColumnarValue::values_to_arrays(arguments)?;
            // Constants are signed; negative numbers have no value.
            let numbers: Vec<ArrayRef> =
                arrays.iter().map(|array| cast(array, &DataType::UInt64)).collect::<Result<_, _>>()?;
            Ok(ColumnarValue::Array(function(&numbers)?))
        };
        let signature = Signature::uniform(1, vec![DataType::UInt64, DataType::Int64], Volatility::Immutable);
        let function = SimpleScalarUDF::new_with_signature(name, signature, text.clone(), Arc::new(function));
        context.register_udf(function.into());
    }
    add("sid_name", vec![text.clone()], text.clone(), Box::new(sid_name));
    add("overlaps", vec![time(), time(), time(), time()], DataType::Boolean, Box::new(overlaps));
    let names = stacks.clone();
    let stack_text = move |arguments: &[ArrayRef]| {
        let [stacks] = arguments else { return exec_err!("stack_text takes a stack") };
        let mut memo = Memo::new(&names);
        let mut out = StringBuilder::new();
        for code in stacks.as_primitive::<UInt32Type>() {
            out.append_option(looked_up(&mut memo, code, |stack| stack.folded())?);
        }
        Ok(Arc::new(out.finish()) as ArrayRef)
    };
    add("stack_text", vec![DataType::UInt32], text.clone(), Box::new(stack_text));
    let names = stacks.clone();
    let frame = move |arguments: &[ArrayRef]| {
        let [stacks, numbers] = arguments else { return exec_err!("frame takes a stack and a number") };
        let mut memo: Memo<'_, Vec<String>> = Memo::new(&names);
        let mut out = StringBuilder::new();
        for (code, number) in
            stacks.as_primitive::<UInt32Type>().iter().zip(numbers.as_primitive::<Int64Type>())
        {
            let functions = looked_up(&mut memo, code, |stack| {
                Ok(stack.functions()?.into_iter().map(str::to_owned).collect())
            })?;
            let found = functions.zip(number.and_then(|number| usize::try_from(number).ok()));
            out.append_option(found.as_ref().and_then(|(functions, number)| functions.get(*number)));
        }
        Ok(Arc::new(out.finish()) as ArrayRef)
    };
    add("frame", vec![DataType::UInt32, DataType::Int64], text.clone(), Box::new(frame));
    let names = stacks.clone();
    let contains = move |arguments: &[ArrayRef]| {
        let [stacks, texts] = arguments else { return exec_err!("stack_contains takes a stack and a text") };
        let mut memos: HashMap<String, Memo<'_, bool>> = HashMap::new();
        let rows = stacks.as_primitive::<UInt32Type>().iter().zip(texts.as_string::<i32>());
        let found = rows.map(|(code, text)| {
            let Some(text) = text.map(str::to_lowercase) else { return Ok(None) };
            let memo = memos.entry(text.clone()).or_insert_with(|| Memo::new(&names));
            looked_up(memo, code, |stack| {
                Ok(stack.functions()?.into_iter().any(|function| function.to_lowercase().contains(&text)))
            })
        });
        Ok(Arc::new(found.collect::<Result<BooleanArray>>()?) as ArrayRef)
    };
    add("stack_contains", vec![DataType::UInt32, text.clone()], DataType::Boolean, Box::new(contains));
    let names = stacks.clone();
    let frames = move |arguments: &[ArrayRef]| {
        let [stacks] = arguments else { return exec_err!("stack_frames takes a stack") };
        let mut memo: Memo<'_, Vec<u64>> = Memo::new(&names);
        let mut out = ListBuilder::new(UInt64Builder::new());
        for code in stacks.as_primitive::<UInt32Type>() {
            let frames = looked_up(&mut memo, code, |stack| Ok(stack.frames().collect()))?;
            out.append_option(frames.map(|frames| frames.into_iter().map(Some)));
        }
        Ok(Arc::new(out.finish()) as ArrayRef)
    };
    let list = DataType::List(Arc::new(Field::new("item", DataType::UInt64, true)));
    add("stack_frames", vec![DataType::UInt32], list, Box::new(frames));
    let names = stacks.clone();
    context.register_udaf(create_udaf(
        "flame",
        vec![DataType::UInt32, DataType::Int64],
        Arc::new(text.clone()),
        Volatility::Immutable,
        Arc::new(move |_: AccumulatorArgs<'_>| {
            Ok(Box::new(Flame { names: names.clone(), weights: BTreeMap::new() }) as Box<dyn Accumulator>)
        }),
        Arc::new(vec![text]),
    ));
}

fn looked_up<'n, T: Clone>(
    memo: &mut Memo<'n, T>,
    code: Option<u32>,
    make: impl FnOnce(&crate::stacks::NamedStack<'n>) -> anyhow::Result<T>,
) -> Result<Option<T>> {
    let Some(code) = code else { return Ok(None) };
    memo.of(code, make).map_err(error::of_trace)
}

fn hex(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [numbers] = arguments else { return exec_err!("hex takes a number") };
    let texts = numbers.as_primitive::<UInt64Type>().iter();
    Ok(Arc::new(texts.map(|number| Some(format!("{:#x}", number?))).collect::<StringArray>()))
}

fn ntstatus(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [codes] = arguments else { return exec_err!("ntstatus takes a code") };
    let name = |code: Option<u64>| {
        let code = code?;
        let name = u32::try_from(code).ok().and_then(ntstatus_name);
        Some(name.map_or_else(|| format!("{code:#010X}"), str::to_owned))
    };
    Ok(Arc::new(codes.as_primitive::<UInt64Type>().iter().map(name).collect::<StringArray>()))
}

/// SIDs that are the same on every machine, and their names.
const SIDS: [(&str, &str); 26] = [
    ("S-1-0-0", "Nobody"),
    ("S-1-1-0", "Everyone"),
    ("S-1-2-0", "Local"),
    ("S-1-3-0", "Creator Owner"),
    ("S-1-5-1", "Dialup"),
    ("S-1-5-2", "Network"),
    ("S-1-5-3", "Batch"),
    ("S-1-5-4", "Interactive"),
    ("S-1-5-6", "Service"),
    ("S-1-5-7", "Anonymous"),
    ("S-1-5-11", "Authenticated Users"),
    ("S-1-5-13", "Terminal Server User"),
    ("S-1-5-14", "Remote Interactive Logon"),
    ("S-1-5-17", "IUSR"),
    ("S-1-5-18", "Local System"),
    ("S-1-5-19", "Local Service"),
    ("S-1-5-20", "Network Service"),
    ("S-1-5-32-544", "Administrators"),
    ("S-1-5-32-545", "Users"),
    ("S-1-5-32-546", "Guests"),
    ("S-1-5-32-551", "Backup Operators"),
    ("S-1-5-32-555", "Remote Desktop Users"),
    ("S-1-5-32-558", "Performance Monitor Users"),
    ("S-1-5-32-559", "Performance Log Users"),
    ("S-1-15-2-1", "All Application Packages"),
    ("S-1-5-113", "Local Account"),
];

fn sid_name(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [sids] = arguments else { return exec_err!("sid_name takes a SID") };
    fn name(sid: Option<&str>) -> Option<&str> {
        let sid = sid?;
        Some(SIDS.iter().find(|(known, _)| *known == sid).map_or(sid, |(_, name)| *name))
    }
    Ok(Arc::new(sids.as_string::<i32>().iter().map(name).collect::<StringArray>()))
}

/// Whether two periods have a time in common. A missing end is before or after everything.
fn overlaps(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [start, end, from, to] = arguments else { return exec_err!("overlaps takes two periods") };
    let times = |array: &ArrayRef, row: usize| {
        let array = array.as_primitive::<TimestampNanosecondType>();
        array.is_valid(row).then(|| array.value(row))
    };
    let row = |row: usize| {
        let (start, end) = (times(start, row).unwrap_or(i64::MIN), times(end, row).unwrap_or(i64::MAX));
        let (from, to) = (times(from, row).unwrap_or(i64::MIN), times(to, row).unwrap_or(i64::MAX));
        Some(start < to && from <= end)
    };
    Ok(Arc::new((0..start.len()).map(row).collect::<BooleanArray>()))
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
