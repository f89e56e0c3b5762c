//! Call trees over the stacks of a table: of the rows that are shown, so that every filter and period applies.

mod builder;
mod traced;

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use etw_app::symbols::SymbolOptions;
use openetw::analysis::{
    CallTree, Change, Comparison, FramePattern, NamedStacks, StackTags, TreeShape, TreeView, WeightSum,
    WeightUnit,
};
use openetw::tables::{Aggregate, Comparison as Compare, Filter, Pivot, Table, Unit, Value};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::model::Model;
use crate::tables::{
    Conditions, Fields, IpcColumn, IpcData, Scope, comparable_scope, stack_column, stream, table, threads,
    traced_weight,
};
use builder::Builder;

pub(crate) use traced::TracedStacks;

/// Maximum number of nodes of a tree that are sent.
const MAX_NODES: usize = 100_000;
/// Number of modules without names that are listed.
const MAX_MODULES: usize = 20;
/// Maximum number of periods of a histogram.
const MAX_PERIODS: usize = 64;

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
    /// Whether functions of the system are grouped by their modules.
    #[serde(default)]
    just_my_code: bool,
    /// Whether functions with a stack tag have its name.
    #[serde(default)]
    tagged: bool,
    #[serde(default)]
    fold_percent: f64,
    #[serde(default)]
    min_percent: f64,
    /// Number of periods for which each node has its weight; none if 0.
    #[serde(default)]
    periods: usize,
    /// A period to compare with, in units of 100 ns since the start of the trace.
    #[serde(default)]
    base: Option<(i64, i64)>,
    /// Whether to compare with the other trace, at this period of it or as a whole.
    #[serde(default)]
    with_trace: bool,
}

impl StackRequest {
    /// Whether the other trace is needed.
    pub(crate) fn is_of_two_traces(&self) -> bool {
        self.with_trace
    }
}

#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum View {
    TopDown,
    BottomUp,
    ByName,
    Callers,
    Callees,
    /// The stack tags that whole stacks have.
    Tags,
}

/// What stacks are made of besides tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StackSources<'s> {
    pub(crate) tags: &'s StackTags,
    /// Where symbols are looked for if the trace is read.
    pub(crate) symbols: &'s SymbolOptions,
    pub(crate) traced: &'s TracedStacks,
}

/// Returns a call tree as an Arrow stream: its nodes, each before those in it.
///
/// # Errors
///
/// Fails if the table has no stacks or no such weight, if there are no stack tags for them, or if there are too many
/// different stacks.
pub(crate) fn tree(
    model: &Model,
    other: Option<&Model>,
    request: &StackRequest,
    sources: StackSources<'_>,
) -> Result<Vec<u8>> {
    let StackSources { tags, symbols, traced } = sources;
    let is_tagged = request.tagged || request.view == View::Tags;
    if is_tagged && tags.is_empty() {
        bail!("there are no stack tags; start etw view with --stack-tags");
    }
    let table = table(model, &request.scope.table)?;
    let patterns = |texts: &[String]| -> Vec<FramePattern> {
        texts.iter().filter(|text| !text.is_empty()).map(|text| FramePattern::new(text)).collect()
    };
    let shape = TreeShape {
        include: patterns(&request.include),
        exclude: patterns(&request.exclude),
        fold: patterns(&request.fold),
        just_my_code: request.just_my_code,
        group_modules: patterns(&request.group),
        fold_percent: request.fold_percent.clamp(0.0, 100.0),
        tags: if is_tagged { tags.clone() } else { StackTags::default() },
    };
    let (from, to) = match request.base {
        Some((from, to)) => (Some(from), Some(to)),
        None => (request.scope.from, request.scope.to),
    };
    let scope = Scope { from, to, ..request.scope.clone() };
    let in_trace = traced_weight(&request.scope.table, &request.weight);
    let counted = |scope: &Scope, periods: usize| match in_trace {
        Some(weight) => traced.get((model, false), symbols, weight, scope),
        None => stacks(model, table, request, scope, periods).map(Arc::new),
    };
    let before = match (other, request.with_trace, request.base) {
        (Some(other), true, _) => {
            let scope = comparable_scope(model, table, &scope)?;
            match in_trace {
                Some(weight) => traced.get((other, true), symbols, weight, &scope)?,
                None => Arc::new(stacks(other, self::table(other, &scope.table)?, request, &scope, 0)?),
            }
        }
        (None, true, _) => bail!("no trace to compare with"),
        (_, false, Some(_)) => counted(&scope, 0)?,
        (_, false, None) => {
            let has_periods = in_trace.is_none() && table.schema().column("time").is_some();
            let periods = if has_periods { request.periods.min(MAX_PERIODS) } else { 0 };
            let stacks = counted(&request.scope, periods)?;
            return one_tree(&stacks, periods, request, &shape);
        }
    };
    let after = counted(&request.scope, 0)?;
    difference(&before, &after, request, &shape)
}

/// Returns stacks as a view shows them.
fn shaped(stacks: &NamedStacks, view: View, shape: &TreeShape) -> NamedStacks {
    match view {
        View::Tags => shape.tags.name_stacks(&shape.select(stacks)),
        _ => shape.apply(stacks),
    }
}

/// Returns the tree of one period, with what each node weighs in parts of it, of which there are `periods`.
fn one_tree(
    stacks: &NamedStacks,
    periods: usize,
    request: &StackRequest,
    shape: &TreeShape,
) -> Result<Vec<u8>> {
    let shaped = shaped(stacks, request.view, shape);
    let function = FramePattern::new(&request.function);
    let view = match request.view {
        View::TopDown | View::Tags => TreeView::TopDown,
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
    let scale = scale(stacks);
    let numbers = |get: &dyn Fn(&openetw::analysis::CallNode) -> f64| {
        IpcData::Numbers(tree.nodes.iter().map(|node| Some(get(node))).collect())
    };
    let mut columns = vec![
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
    if periods > 0 {
        let sums = tree.periods(&shaped, &view, periods);
        let greatest = |sums: &Vec<u64>| sums.iter().copied().max().unwrap_or(0);
        let most = sums.iter().map(|sums| Some(greatest(sums) as f64 * scale)).collect();
        let heights = sums.iter().map(|sums| Some(heights(sums, greatest(sums)))).collect();
        columns.push(IpcColumn::new("when", IpcData::Texts(heights)));
        columns.push(IpcColumn::new("when_most", IpcData::Numbers(most)));
    }
    let sum = |sum: WeightSum| json!({ "weight": sum.weight as f64 * scale, "events": sum.count });
    let info = json!({
        "kind": kind(stacks),
        "total": sum(tree.total),
        "unselected": sum(shaped.left_out()),
        "left_out": sum(tree.left_out),
        "left_out_nodes": tree.left_out_count,
        "min_percent": min_percent,
        "symbols": symbols(stacks, scale),
    });
    stream(columns, &info)
}

/// Returns the tree, or the functions, of two periods or traces: the later columns are those of the scope of the request.
fn difference(
    before: &NamedStacks,
    after: &NamedStacks,
    request: &StackRequest,
    shape: &TreeShape,
) -> Result<Vec<u8>> {
    let [before, after_shaped] = [before, after].map(|stacks| shaped(stacks, request.view, shape));
    let comparison = Comparison::new(&before, &after_shaped);
    let totals = comparison.totals();
    let mut min_percent = request.min_percent.clamp(0.0, 100.0);
    let mut changes = match request.view {
        View::ByName => {
            let mut changes = comparison.functions();
            changes.sort_by(|one, other| {
                let by = |change: &Change| {
                    let [before, after] = change.exclusive;
                    before.weight.abs_diff(after.weight)
                };
                by(other).cmp(&by(one)).then_with(|| one.name.cmp(&other.name))
            });
            changes
        }
        View::TopDown | View::Tags => comparison.tree(min_percent),
        _ => bail!("only the call tree, the list by name and that by tag compare two periods"),
    };
    while changes.len() > MAX_NODES && request.view != View::ByName {
        min_percent = (min_percent * 2.0).max(0.001);
        changes = comparison.tree(min_percent);
    }
    changes.truncate(MAX_NODES);
    let scale = scale(after);
    let numbers = |get: &dyn Fn(&Change) -> f64| {
        IpcData::Numbers(changes.iter().map(|change| Some(get(change))).collect())
    };
    let weight = |sum: WeightSum| sum.weight as f64 * scale;
    let columns = vec![
        IpcColumn::new("depth", numbers(&|change| change.depth as f64)),
        IpcColumn::new(
            "name",
            IpcData::Texts(changes.iter().map(|change| Some(change.name.clone())).collect()),
        ),
        IpcColumn::new("before", numbers(&|change| weight(change.inclusive[0]))),
        IpcColumn::new("before_percent", numbers(&|change| change.inclusive[0].percent_of(totals[0]))),
        IpcColumn::new("inclusive", numbers(&|change| weight(change.inclusive[1]))),
        IpcColumn::new("inclusive_percent", numbers(&|change| change.inclusive[1].percent_of(totals[1]))),
        IpcColumn::new("inclusive_events", numbers(&|change| change.inclusive[1].count as f64)),
        IpcColumn::new("exclusive_before", numbers(&|change| weight(change.exclusive[0]))),
        IpcColumn::new("exclusive", numbers(&|change| weight(change.exclusive[1]))),
        IpcColumn::new("left_out", numbers(&|_| 0.0)),
    ];
    let sum = |sum: WeightSum| json!({ "weight": weight(sum), "events": sum.count });
    let info = json!({
        "kind": kind(after),
        "total": sum(totals[1]),
        "before": sum(totals[0]),
        "unselected": sum(WeightSum::default()),
        "left_out_nodes": 0,
        "min_percent": min_percent,
        "symbols": symbols(after, scale),
    });
    stream(columns, &info)
}

/// Returns weights as the digits of a number to the base of 36, one for each period: `0` for nothing, `z` for `most`.
fn heights(sums: &[u64], most: u64) -> String {
    let digit = |sum: &u64| {
        let height = u128::from(*sum) * 35 / u128::from(most.max(1));
        // What is not zero is seen.
        let height = if *sum > 0 { height.max(1) } else { 0 };
        char::from_digit(height as u32, 36).unwrap_or('z')
    };
    sums.iter().map(digit).collect()
}

/// Returns what weights are multiplied by for the page, which takes times in nanoseconds.
fn scale(stacks: &NamedStacks) -> f64 {
    if stacks.unit() == WeightUnit::Time { 100.0 } else { 1.0 }
}

fn kind(stacks: &NamedStacks) -> &'static str {
    match stacks.unit() {
        WeightUnit::Time => "duration",
        WeightUnit::Bytes => "bytes",
        WeightUnit::Count => "count",
    }
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
///
/// With `periods`, weights have the number of the part of the scope's time in which they were.
fn stacks(
    model: &Model,
    table: Table<'_>,
    request: &StackRequest,
    scope: &Scope,
    periods: usize,
) -> Result<NamedStacks> {
    let mut weighing = Weighing::new(model, table, request)?;
    if periods == 0 {
        weighing.add(scope, None)?;
        return Ok(weighing.builder.stacks);
    }
    let from = scope.from.unwrap_or(0);
    let to = scope.to.unwrap_or_else(|| model.since_start(model.end)).max(from);
    let length = i128::from(to) - i128::from(from);
    let edge = |period: usize| {
        let offset = length * period as i128 / periods as i128;
        (i128::from(from) + offset) as i64
    };
    for period in 0..periods {
        // Rows are in the order of time, so each period reads its own part of the table.
        let start = if period == 0 { scope.from } else { Some(edge(period)) };
        let end = if period + 1 == periods { scope.to } else { Some(edge(period + 1)) };
        weighing.add(&Scope { from: start, to: end, ..scope.clone() }, Some(period as u32))?;
    }
    Ok(weighing.builder.stacks)
}

/// Adds the weights of rows to stacks.
struct Weighing<'m, 'r> {
    model: &'m Model,
    table: Table<'m>,
    request: &'r StackRequest,
    /// The column with the stacks.
    stack: &'m str,
    unit: WeightUnit,
    aggregates: Vec<Aggregate>,
    builder: Builder<'m>,
}

impl<'m, 'r> Weighing<'m, 'r> {
    fn new(model: &'m Model, table: Table<'m>, request: &'r StackRequest) -> Result<Weighing<'m, 'r>> {
        let schema = table.schema();
        let stack =
            stack_column(schema).with_context(|| format!("the table {} has no stacks", schema.name))?;
        let mut aggregates = vec![schema.column("count").map_or(Aggregate::Rows, Aggregate::Sum)];
        let mut unit = WeightUnit::Count;
        if request.weight != "rows" {
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
        let is_of_processors = matches!(&*schema.name, "cpu_sampled" | "cpu_precise");
        let builder = Builder::new(model, unit, is_of_processors)?;
        Ok(Weighing { model, table, request, stack, unit, aggregates, builder })
    }

    /// Adds the rows of a scope, to the weights of a period if there is one.
    fn add(&mut self, scope: &Scope, period: Option<u32>) -> Result<()> {
        let schema = self.table.schema();
        let fields = Fields::new(self.model, self.table);
        let mut conditions = Conditions::new(self.model, self.table, scope)?;
        conditions.check_groups()?;
        let process = fields.process().context("the table has no processes")?;
        if let (&[_, Aggregate::Sum(column)], "cpu_precise") = (&self.aggregates[..], &*schema.name) {
            // Most threads that are switched to did not wait, or were ready for no time.
            let (comparison, value) = (Compare::Greater, Value::Integer(0));
            conditions.add(Filter::Compare { column, comparison, value });
        }
        let mut keys = vec![conditions.number(&process), conditions.number(&fields.get(self.stack)?)];
        // A sample without a stack has its instruction.
        keys.extend(schema.column("frame"));
        let pivot = Pivot {
            through: conditions.through,
            levels: keys.len(),
            filter: conditions.filter,
            ..Pivot::new(keys, self.aggregates.clone())
        };
        for group in pivot.run(self.table, threads())?.groups {
            let count = unsigned(group.values.first().copied());
            let is_rows = self.request.weight == "rows";
            let mut weight = if is_rows { count } else { unsigned(group.values.get(1).copied()) };
            if self.unit == WeightUnit::Time {
                weight /= 100;
            }
            let sum = WeightSum { weight, count };
            let code = |place: usize| match group.keys.get(place) {
                Some(Value::Code(code)) => Some(*code),
                _ => None,
            };
            self.builder.add([code(0), code(1), code(2)], sum, period)?;
        }
        Ok(())
    }
}

fn unsigned(value: Option<Value>) -> u64 {
    match value {
        Some(Value::Integer(value)) => u64::try_from(value).unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_become_digits() {
        assert_eq!(heights(&[0, 1, 500, 1000], 1000), "01hz");
        assert_eq!(heights(&[0, 0], 0), "00");
        assert_eq!(heights(&[u64::MAX], u64::MAX), "z");
    }
}
