//! Tables by function, and folded stacks, of stacks whose frames were folded, named or grouped.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use etw_stacks::{FrameIndex, NamedStacks, StackFrame, WeightSum};
use etw_tables::Cell;

use super::functions::{columns_of, folded_number, weight_cell};
use crate::tables::table::{Table, TableKind};

/// Returns the stacks in the format of flame graphs, with the number for each: samples of
/// [`TableKind::Functions`], or else microseconds, bytes or events.
pub(crate) fn folded(stacks: &NamedStacks, kind: TableKind) -> Vec<(String, u64)> {
    let mut lines: BTreeMap<String, WeightSum> = BTreeMap::new();
    stacks.for_each(|frames, sum| {
        let texts = frames.iter().map(|frame| match (frame.is_function(), frame.name()) {
            // As in folded stacks of all functions.
            (true, Some(name)) => name.replace(';', ":"),
            _ => frame.to_string().replace(';', ":"),
        });
        *lines.entry(texts.collect::<Vec<_>>().join(";")).or_default() += sum;
    });
    let number = |sum: WeightSum| folded_number(kind, stacks.unit(), sum.count, sum.weight);
    lines.into_iter().map(|(line, sum)| (line, number(sum))).collect()
}

/// Replaces the rows of a table by those of stacks.
pub(crate) fn change(table: &mut Table, stacks: &NamedStacks) {
    let (unit, total) = (stacks.unit(), stacks.total());
    let rows = stacks.by_process().into_iter().filter(|(_, [inclusive, _])| !inclusive.is_zero());
    let mut rows: Vec<((FrameIndex, FrameIndex), [WeightSum; 2])> = rows.collect();
    rows.sort_by_cached_key(|((process, function), [inclusive, exclusive])| {
        let text = |frame: &FrameIndex| stacks.frame(*frame).to_string();
        (Reverse((exclusive.weight, inclusive.weight)), text(process), text(function))
    });
    let rows = rows.into_iter().map(|((process, function), [inclusive, exclusive])| {
        let (process, function): (&StackFrame, &StackFrame) = (stacks.frame(process), stacks.frame(function));
        let (name, module) = match function.is_function() {
            true => (function.name().unwrap_or("?"), Some(function.module().unwrap_or("[unknown]"))),
            false if function.is_process() => ("[folded]", None),
            false => (function.name().unwrap_or("?"), None),
        };
        vec![
            Cell::Text(name.to_owned()),
            Cell::text(module),
            Cell::text(process.name()),
            Cell::Count(exclusive.count),
            weight_cell(unit, exclusive.weight),
            Cell::Percent(exclusive.percent_of(total)),
            Cell::Count(inclusive.count),
            weight_cell(unit, inclusive.weight),
            Cell::Percent(inclusive.percent_of(total)),
        ]
    });
    table.rows = rows.collect();
    table.columns = columns_of(table.kind, unit);
    if !stacks.left_out().is_zero() {
        let (part, events) = (stacks.left_out().weight, stacks.left_out().count);
        let all = WeightSum { weight: total.weight.saturating_add(part), count: total.count + events };
        let percent = stacks.left_out().percent_of(all);
        table.notes.push(format!("{percent:.1} % of the weight is of stacks that are not selected."));
    }
}
