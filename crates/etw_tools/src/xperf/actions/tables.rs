//! Actions that show tables of kernel events.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use etw_app::input::builder;
use etw_app::symbols;
use etw_app::table::{put_table, table_value};
use openetw::analysis::{Analysis, Cell, Machines, Report, ReportOptions, Summary, Table, TableKind, Window};
use serde_json::json;

use super::utilization::{Source, utilization};
use super::{Request, finish, range};
use crate::options::Options;

pub(super) fn process(request: &Request, options: &Options, out: &mut dyn Write) -> Result<()> {
    show(request, options, &[TableKind::Processes], out)
}

pub(super) fn hardfault(request: &Request, options: &Options, out: &mut dyn Write) -> Result<()> {
    show(request, options, &[TableKind::Summary(Summary::FAULTS)], out)
}

pub(super) fn diskio(request: &Request, options: &Options, out: &mut dyn Write) -> Result<()> {
    show(request, options, &[TableKind::Summary(Summary::DISK)], out)
}

pub(super) fn profile(request: &Request, options: &Options, out: &mut dyn Write) -> Result<()> {
    let util = options.last("util");
    let has_detail = options.last("detail").is_some();
    if util.is_some() || !has_detail {
        utilization(request, options, util, Source::Samples, false, out)?;
    }
    if !has_detail {
        return Ok(());
    }
    if request.has_symbols {
        return show(request, options, &[TableKind::Functions], out);
    }
    let mut made = Made::new(request, options, &[TableKind::Functions])?;
    made.report.tables.iter_mut().for_each(by_module);
    made.put(request, out)
}

pub(super) fn cswitch(request: &Request, options: &Options, out: &mut dyn Write) -> Result<()> {
    let [avail, util] = ["avail", "util"].map(|name| options.last(name));
    let kinds = [("process", TableKind::Cpu), ("thread", TableKind::Threads)];
    let kinds: Vec<TableKind> =
        kinds.into_iter().filter(|(name, _)| options.last(name).is_some()).map(|(_, kind)| kind).collect();
    if avail.is_some() || util.is_none() && kinds.is_empty() {
        utilization(request, options, avail, Source::Switches, true, out)?;
    }
    if util.is_some() {
        utilization(request, options, util, Source::Switches, false, out)?;
    }
    if kinds.is_empty() { Ok(()) } else { show(request, options, &kinds, out) }
}

pub(super) fn dpcisr(request: &Request, options: &Options, out: &mut dyn Write) -> Result<()> {
    let mut made = Made::new(request, options, &[TableKind::Summary(Summary::DPC_ISR)])?;
    let [dpc, isr] = ["dpc", "isr"].map(|name| options.last(name).is_some());
    if dpc != isr {
        for table in &mut made.report.tables {
            let kind = column(table, "kind");
            table.rows.retain(|row| matches!(&row[kind], Cell::Text(kind) if (kind == "ISR") == isr));
        }
    }
    made.put(request, out)
}

pub(super) fn stack(request: &Request, options: &Options, out: &mut dyn Write) -> Result<()> {
    if options.last("butterfly").is_some() {
        return show(request, options, &[TableKind::Functions], out);
    }
    let made = Made::new(request, options, &[])?;
    let mut stacks: Vec<(&str, u64)> =
        made.report.folded_stacks.iter().map(|(stack, count)| (stack.as_str(), *count)).collect();
    stacks.sort_by(|(one, of_one), (other, of_other)| of_other.cmp(of_one).then_with(|| one.cmp(other)));
    let all: u64 = stacks.iter().map(|(_, count)| count).sum();
    for (stack, count) in stacks {
        if request.is_for_machines {
            let frames: Vec<&str> = stack.split(';').collect();
            writeln!(out, "{}", json!({ "samples": count, "frames": frames }))?;
            continue;
        }
        writeln!(out, "{count} samples, {:.2} %", count as f64 * 100.0 / all as f64)?;
        // Innermost function first, as stacks are usually shown.
        for frame in stack.rsplit(';') {
            writeln!(out, "    {frame}")?;
        }
    }
    Ok(())
}

fn show(request: &Request, options: &Options, kinds: &[TableKind], out: &mut dyn Write) -> Result<()> {
    Made::new(request, options, kinds)?.put(request, out)
}

/// The tables of a trace.
struct Made {
    report: Report,
    is_incomplete: bool,
}

impl Made {
    /// Creates the given tables; an empty list selects the stacks of samples.
    fn new(request: &Request, options: &Options, kinds: &[TableKind]) -> Result<Made> {
        let builder = builder(&request.files)?;
        let mut trace = builder.look_ahead(false).open()?;
        let start = trace.start_time();
        let (from, to) = range(options)?;
        let at = |micros: i64| openetw::FileTime(start.0.saturating_add(micros * 10));
        let window = Window { from: from.map_or(Window::ALL.from, at), to: to.map_or(Window::ALL.to, at) };
        let mut analysis = Analysis::new(window).of_machines(Machines::from_trace(&trace));
        trace.for_each_event(|event| analysis.add(event))?;
        let mut wanted = ReportOptions::from_headers(trace.headers());
        wanted.processors = Machines::from_trace(&trace).processors();
        wanted.tables = kinds.to_vec();
        wanted.folded_stacks = kinds.is_empty();
        wanted.symbolizer = symbols::of_environment();
        let report = analysis.report(&wanted);
        finish(&trace)?;
        Ok(Made { report, is_incomplete: !trace.statistics().is_complete() })
    }

    fn put(&self, request: &Request, out: &mut dyn Write) -> Result<()> {
        for table in &self.report.tables {
            let mut text = Vec::new();
            if request.is_for_machines {
                writeln!(text, "{}", json!({ table.kind.name(): table_value(table, None) }))?;
            } else if table.rows.is_empty() {
                let (title, flags) = (table.kind.title(), table.kind.flags());
                writeln!(text, "{title}: no events; the kernel flags that give them: {flags}")?;
            } else {
                put_table(&mut text, table, usize::MAX, self.is_incomplete, usize::MAX)?;
            }
            out.write_all(&text)?;
        }
        Ok(())
    }
}

fn column(table: &Table, key: &str) -> usize {
    table.columns.iter().position(|column| column.key == key).unwrap_or(0)
}

/// Merges the functions of each image in each process.
fn by_module(table: &mut Table) {
    let [module, process] = ["module", "process"].map(|key| column(table, key));
    let sums =
        ["exclusive_samples", "exclusive_weight_ns", "exclusive_percent"].map(|key| column(table, key));
    let text = |cell: &Cell| if let Cell::Text(text) = cell { text.clone() } else { String::new() };
    let mut by: BTreeMap<(String, String), Vec<Cell>> = BTreeMap::new();
    for row in table.rows.drain(..) {
        let key = (text(&row[module]), text(&row[process]));
        let Some(sum) = by.get_mut(&key) else {
            // Inclusive counts are only meaningful for functions.
            let kept = |index: &usize| [module, process].contains(index) || sums.contains(index);
            let cells = row.into_iter().enumerate();
            let cells = cells.map(|(index, cell)| if kept(&index) { cell } else { Cell::None });
            by.insert(key, cells.collect());
            continue;
        };
        for index in sums {
            match (&mut sum[index], &row[index]) {
                (Cell::Count(sum), Cell::Count(more)) => *sum += more,
                (Cell::Duration(sum), Cell::Duration(more)) => *sum += *more,
                (Cell::Percent(sum), Cell::Percent(more)) => *sum += more,
                _ => {}
            }
        }
    }
    table.rows = by.into_values().collect();
    let samples = |row: &Vec<Cell>| if let Cell::Count(samples) = row[sums[0]] { samples } else { 0 };
    table.rows.sort_by_key(|row| std::cmp::Reverse(samples(row)));
}
