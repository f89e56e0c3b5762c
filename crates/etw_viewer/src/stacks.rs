//! Call trees over the stacks of a table: of the rows that are shown, so that every filter and period applies.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use openetw::analysis::{
    CallTree, FrameIndex, FramePattern, NamedStacks, StackFrame, StackIndex, TreeShape, TreeView, WeightSum,
    WeightUnit,
};
use openetw::tables::{Aggregate, ColumnType, Pivot, StackNode, Table, Unit, Value};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::model::Model;
use crate::tables::{Conditions, Fields, IpcColumn, IpcData, Scope, stream, table, threads};

/// Maximum number of nodes of a tree that are sent.
const MAX_NODES: usize = 100_000;
/// Number of modules without names that are listed.
const MAX_MODULES: usize = 20;

/// Stacks to show.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct StackRequest {
    #[serde(flatten)]
    scope: Scope,
    /// A measure of the table, or `rows`.
    weight: String,
    view: View,
    /// The pattern of the function for callers and callees.
    #[serde(default)]
    function: String,
    #[serde(default)]
    include: Vec<String>,
    #[serde(default)]
    exclude: Vec<String>,
    #[serde(default)]
    fold: Vec<String>,
    #[serde(default)]
    group: Vec<String>,
    #[serde(default)]
    fold_percent: f64,
    #[serde(default)]
    min_percent: f64,
}

#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum View {
    TopDown,
    BottomUp,
    ByName,
    Callers,
    Callees,
}

/// Returns a call tree as an Arrow stream: its nodes, each before those in it.
///
/// # Errors
///
/// Fails if the table has no stacks or no such weight, or if there are too many different stacks.
pub(crate) fn tree(model: &Model, request: &StackRequest) -> Result<Vec<u8>> {
    let table = table(model, &request.scope.table)?;
    let stacks = stacks(model, table, request)?;
    let patterns = |texts: &[String]| -> Vec<FramePattern> {
        texts.iter().filter(|text| !text.is_empty()).map(|text| FramePattern::new(text)).collect()
    };
    let shape = TreeShape {
        include: patterns(&request.include),
        exclude: patterns(&request.exclude),
        fold: patterns(&request.fold),
        group_modules: patterns(&request.group),
        fold_percent: request.fold_percent.clamp(0.0, 100.0),
        ..TreeShape::default()
    };
    let shaped = shape.apply(&stacks);
    let function = FramePattern::new(&request.function);
    let view = match request.view {
        View::TopDown => TreeView::TopDown,
        View::BottomUp => TreeView::BottomUp,
        View::ByName => TreeView::ByName,
        View::Callers => TreeView::Callers(function),
        View::Callees => TreeView::Callees(function),
    };
    let mut min_percent = request.min_percent.clamp(0.0, 100.0);
    let mut tree = CallTree::new(&shaped, &view, min_percent, usize::MAX);
    // A tree that is too large for the page is cut at small nodes, which are counted as left out.
    while tree.nodes.len() > MAX_NODES {
        min_percent = (min_percent * 2.0).max(0.001);
        tree = CallTree::new(&shaped, &view, min_percent, usize::MAX);
    }
    let scale = if stacks.unit() == WeightUnit::Time { 100.0 } else { 1.0 };
    let numbers = |get: &dyn Fn(&openetw::analysis::CallNode) -> f64| {
        IpcData::Numbers(tree.nodes.iter().map(|node| Some(get(node))).collect())
    };
    let columns = vec![
        IpcColumn::new("depth", numbers(&|node| node.depth as f64)),
        IpcColumn::new(
            "name",
            IpcData::Texts(tree.nodes.iter().map(|node| Some(node.name.clone())).collect()),
        ),
        IpcColumn::new("inclusive", numbers(&|node| node.inclusive.weight as f64 * scale)),
        IpcColumn::new("inclusive_events", numbers(&|node| node.inclusive.count as f64)),
        IpcColumn::new("inclusive_percent", numbers(&|node| node.inclusive.percent_of(tree.total))),
        IpcColumn::new("exclusive", numbers(&|node| node.exclusive.weight as f64 * scale)),
        IpcColumn::new("exclusive_events", numbers(&|node| node.exclusive.count as f64)),
        IpcColumn::new("exclusive_percent", numbers(&|node| node.exclusive.percent_of(tree.total))),
        IpcColumn::new("left_out", numbers(&|node| node.left_out_count as f64)),
    ];
    let sum = |sum: WeightSum| json!({ "weight": sum.weight as f64 * scale, "events": sum.count });
    let info = json!({
        "kind": match stacks.unit() {
            WeightUnit::Time => "duration",
            WeightUnit::Bytes => "bytes",
            WeightUnit::Count => "count",
        },
        "total": sum(tree.total),
        "unselected": sum(shaped.left_out()),
        "left_out": sum(tree.left_out),
        "left_out_nodes": tree.left_out_count,
        "min_percent": min_percent,
        "symbols": symbols(&stacks, scale),
    });
    stream(columns, &info)
}

/// Returns how much of the weight has names, and the modules whose functions have none.
fn symbols(stacks: &NamedStacks, scale: f64) -> Json {
    let mut named = WeightSum::default();
    let mut modules: HashMap<&str, WeightSum> = HashMap::new();
    for (frame, [_, own]) in stacks.frames().iter().zip(stacks.by_frame()) {
        if !frame.is_function() || frame.name().is_some() {
            named += own;
        } else if !own.is_zero() {
            *modules.entry(frame.module().unwrap_or("?")).or_default() += own;
        }
    }
    let mut modules: Vec<(&str, WeightSum)> = modules.into_iter().collect();
    modules.sort_by(|(one, a), (other, b)| b.cmp(a).then(one.cmp(other)));
    let missing: Vec<Json> = modules
        .iter()
        .take(MAX_MODULES)
        .map(|(module, sum)| {
            json!({ "module": module, "weight": sum.weight as f64 * scale, "events": sum.count,
                "percent": sum.percent_of(stacks.total()) })
        })
        .collect();
    json!({ "named_percent": named.percent_of(stacks.total()), "modules": modules.len(), "missing": missing })
}

/// Returns the stacks of rows, below their processes. The time of the idle process is left out, as in reports.
fn stacks(model: &Model, table: Table<'_>, request: &StackRequest) -> Result<NamedStacks> {
    let schema = table.schema();
    if schema.column("stack").is_none() {
        bail!("the table {} has no stacks", schema.name);
    }
    let fields = Fields::new(model, table);
    let mut conditions = Conditions::new(model, table, &request.scope)?;
    conditions.check_groups()?;
    // The process of the thread that the row is about; events have one themselves.
    let process =
        ["process", "thread.process", "new_thread.process"].iter().find_map(|name| fields.get(name).ok());
    let process = process.context("the table has no processes")?;
    let mut keys = vec![conditions.number(&process), conditions.number(&fields.get("stack")?)];
    // A sample without a stack has its instruction.
    let frame = schema.column("frame");
    keys.extend(frame);
    let is_rows = request.weight == "rows";
    let mut aggregates = vec![schema.column("count").map_or(Aggregate::Rows, Aggregate::Sum)];
    let mut unit = WeightUnit::Count;
    if !is_rows {
        let measure = schema.column(&request.weight);
        let measure = measure.filter(|column| schema.columns[*column].column_type.is_number());
        let measure = measure.with_context(|| format!("the table has no weight '{}'", request.weight))?;
        unit = match schema.columns[measure].unit {
            Unit::Nanoseconds => WeightUnit::Time,
            Unit::Bytes => WeightUnit::Bytes,
            _ => WeightUnit::Count,
        };
        aggregates.push(Aggregate::Sum(measure));
    }
    let pivot = Pivot {
        through: conditions.through,
        levels: keys.len(),
        filter: conditions.filter,
        ..Pivot::new(keys, aggregates)
    };
    let groups = pivot.run(table, threads())?.groups;
    let mut builder = Builder::new(model, unit)?;
    let is_time_of_threads = schema.name == "cpu_sampled";
    for group in groups {
        let count = unsigned(group.values.first().copied());
        let mut weight = if is_rows { count } else { unsigned(group.values.get(1).copied()) };
        if unit == WeightUnit::Time {
            weight /= 100;
        }
        let sum = WeightSum { weight, count };
        let code = |place: usize| match group.keys.get(place) {
            Some(Value::Code(code)) => Some(*code),
            _ => None,
        };
        if code(1).is_none() && code(2).is_none() {
            builder.stacks.leave_out(sum);
            continue;
        }
        builder.add(code(0), code(1), code(2), sum, is_time_of_threads)?;
    }
    Ok(builder.stacks)
}

fn unsigned(value: Option<Value>) -> u64 {
    match value {
        Some(Value::Integer(value)) => u64::try_from(value).unwrap_or(0),
        _ => 0,
    }
}

/// Builds named stacks from codes of stacks.
struct Builder<'m> {
    model: &'m Model,
    stacks: NamedStacks,
    nodes: openetw::tables::Stacks<'m>,
    processes: HashMap<Option<u32>, Option<StackIndex>>,
    /// The functions at each frame, the outermost first.
    frames: HashMap<u32, Vec<FrameIndex>>,
    /// The stack of each code, by process.
    places: HashMap<(Option<u32>, u32), StackIndex>,
}

impl<'m> Builder<'m> {
    fn new(model: &'m Model, unit: WeightUnit) -> Result<Builder<'m>> {
        Ok(Builder {
            model,
            stacks: NamedStacks::new(unit),
            nodes: model.index().stacks()?,
            processes: HashMap::new(),
            frames: HashMap::new(),
            places: HashMap::new(),
        })
    }

    fn add(
        &mut self,
        process: Option<u32>,
        stack: Option<u32>,
        frame: Option<u32>,
        sum: WeightSum,
        leaves_out_idle: bool,
    ) -> Result<()> {
        let Some(root) = self.process(process, leaves_out_idle)? else {
            self.stacks.leave_out(sum);
            return Ok(());
        };
        let place = match (stack, frame) {
            (Some(stack), _) => self.place(process, root, stack)?,
            (None, Some(frame)) => self.push(root, frame)?,
            (None, None) => root,
        };
        self.stacks.weigh(place, sum);
        Ok(())
    }

    /// Returns the stack that consists of a process; `None` for the idle process.
    fn process(&mut self, process: Option<u32>, leaves_out_idle: bool) -> Result<Option<StackIndex>> {
        if let Some(known) = self.processes.get(&process) {
            return Ok(*known);
        }
        let mut name = None;
        let mut is_idle = false;
        if let Some(row) = process {
            let table = table(self.model, "processes")?;
            let fields = Fields::new(self.model, table);
            let id = table.path_value(row.into(), &fields.get("process_id")?.path)?;
            is_idle = leaves_out_idle && id == Value::Integer(0);
            if let Value::Code(code) = table.path_value(row.into(), &fields.get("name")?.path)? {
                name = self.model.index().texts()?.get(code);
            }
        }
        let place = (!is_idle).then(|| {
            let frame = self.stacks.frame_index(StackFrame::process(name));
            self.stacks.push(None, frame)
        });
        self.processes.insert(process, place);
        Ok(place)
    }

    /// Returns the stack of a code.
    fn place(&mut self, process: Option<u32>, root: StackIndex, stack: u32) -> Result<StackIndex> {
        let mut missing: Vec<(u32, u64)> = Vec::new();
        let mut at = Some(stack);
        let mut place = root;
        while let Some(code) = at {
            if let Some(known) = self.places.get(&(process, code)) {
                place = *known;
                break;
            }
            let Some(StackNode { parent, frame }) = self.nodes.get(code) else {
                bail!("the stacks are damaged")
            };
            missing.push((code, frame));
            at = parent;
        }
        for (code, frame) in missing.into_iter().rev() {
            place = self.push(place, u32::try_from(frame)?)?;
            self.places.insert((process, code), place);
        }
        Ok(place)
    }

    /// Returns a stack with the functions at a frame.
    fn push(&mut self, stack: StackIndex, frame: u32) -> Result<StackIndex> {
        if !self.frames.contains_key(&frame) {
            let functions = self.functions(frame)?;
            self.frames.insert(frame, functions);
        }
        let functions = self.frames.get(&frame).map(Vec::as_slice).unwrap_or_default();
        let stacks = &mut self.stacks;
        Ok(functions.iter().fold(stack, |stack, function| stacks.push(Some(stack), *function)))
    }

    /// Returns the functions at a frame, the outermost first: those that are inlined there follow.
    fn functions(&mut self, frame: u32) -> Result<Vec<FrameIndex>> {
        let model = self.model;
        let table = table(model, "frames")?;
        let texts = model.index().texts()?;
        let text = |name: &str| -> Result<Option<&'m str>> {
            let column = table.schema().column(name).context("frames have this column")?;
            debug_assert_eq!(table.schema().columns[column].column_type, ColumnType::Text);
            Ok(match table.value(frame.into(), column)? {
                Value::Code(code) => texts.get(code),
                _ => None,
            })
        };
        let Some(shown) = text("function")? else { return Ok(Vec::new()) };
        let (module, inlined) = (text("module")?, text("inlined")?);
        let of_kernel = {
            let column = table.schema().column("process").context("frames have processes")?;
            table.value(frame.into(), column)? == Value::Null
        };
        let mut functions = vec![function(shown, module, of_kernel)];
        // Innermost first.
        for name in inlined.into_iter().flat_map(|names| names.rsplit(';')) {
            functions.push(StackFrame::function(module, Some(name), of_kernel));
        }
        Ok(functions.into_iter().map(|function| self.stacks.frame_index(function)).collect())
    }
}

/// Returns the function that `module!name` or `module+0x12` shows.
fn function(shown: &str, module: Option<&str>, is_system: bool) -> StackFrame {
    if let Some(rest) = module.and_then(|module| shown.strip_prefix(module)) {
        if let Some(name) = rest.strip_prefix('!') {
            return StackFrame::function(module, Some(name), is_system);
        }
        if rest.starts_with("+0x") {
            return StackFrame::function(module, None, is_system);
        }
    }
    if module.is_none() && shown.starts_with("0x") {
        return StackFrame::function(None, None, is_system);
    }
    // The names of methods of .NET have their assembly.
    match shown.split_once('!') {
        Some((assembly, name)) => StackFrame::function(Some(assembly), Some(name), is_system),
        None => StackFrame::function(module, Some(shown), is_system),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_names_become_functions() {
        let check = |shown: &str, module: Option<&str>, expected: &str| {
            assert_eq!(function(shown, module, false).to_string(), expected, "{shown}");
        };
        check("ntdll.dll!RtlFree", Some("ntdll.dll"), "ntdll.dll!RtlFree");
        check("ntdll.dll+0x12", Some("ntdll.dll"), "ntdll.dll!?");
        check("0x1234", None, "?!?");
        check("App!Main()", Some("App.dll"), "App!Main()");
        check("main", None, "main");
    }
}
