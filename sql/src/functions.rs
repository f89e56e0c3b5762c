//! Functions that questions about traces need, besides those of the engine.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, TimeUnit, TimestampNanosecondType, UInt64Type};
use datafusion::common::{Result, exec_err};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{
    ColumnarValue, ScalarUDF, Signature, SimpleScalarUDF, Volatility, create_udf,
};
use etw_schema::text::ntstatus_name;

use crate::json;
use crate::stack_functions::{self, StackFunction};
use crate::stacks::StackNames;

/// Names of the functions that [`register`] adds, for completion.
pub(crate) const NAMES: [&str; 13] = [
    "flame",
    "frame",
    "hex",
    "json_array_length",
    "json_extract",
    "json_value",
    "ntstatus",
    "overlaps",
    "sid_name",
    "stack_contains",
    "stack_frames",
    "stack_text",
    "date_bin",
];

/// Adds the functions to a session.
///
/// # Errors
///
/// Fails if the session takes no functions.
pub(crate) fn register(session: &mut dyn FunctionRegistry, stacks: &Arc<StackNames>) -> Result<()> {
    let on_stacks = StackFunction::ALL.into_iter().map(|which| which.of(stacks));
    for function in plain().into_iter().chain(json::functions()).chain(on_stacks) {
        session.register_udf(Arc::new(function))?;
    }
    session.register_udaf(Arc::new(stack_functions::flame(stacks)))?;
    session.register_expr_planner(Arc::new(json::Operators))
}

/// Returns the functions that need no traces.
fn plain() -> Vec<ScalarUDF> {
    let time = || DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let text = DataType::Utf8;
    let of_number = |name: &str, function: fn(&[ArrayRef]) -> Result<ArrayRef>| {
        let function = move |arguments: &[ColumnarValue]| {
            let arrays = ColumnarValue::values_to_arrays(arguments)?;
            // Constants are signed; negative numbers have no value.
            let numbers: Vec<ArrayRef> =
                arrays.iter().map(|array| cast(array, &DataType::UInt64)).collect::<Result<_, _>>()?;
            Ok(ColumnarValue::Array(function(&numbers)?))
        };
        let signature = Signature::uniform(1, vec![DataType::UInt64, DataType::Int64], Volatility::Immutable);
        SimpleScalarUDF::new_with_signature(name, signature, DataType::Utf8, Arc::new(function)).into()
    };
    let exact = |name: &str, arguments, returned, function: fn(&[ArrayRef]) -> Result<ArrayRef>| {
        let function = move |arguments: &[ColumnarValue]| {
            let arrays = ColumnarValue::values_to_arrays(arguments)?;
            Ok(ColumnarValue::Array(function(&arrays)?))
        };
        create_udf(name, arguments, returned, Volatility::Immutable, Arc::new(function))
    };
    vec![
        of_number("hex", hex),
        of_number("ntstatus", ntstatus),
        exact("sid_name", vec![text.clone()], text, sid_name),
        exact("overlaps", vec![time(), time(), time(), time()], DataType::Boolean, overlaps),
    ]
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
