//! The table of functions, and folded stacks.

use std::collections::BTreeMap;
use std::rc::Rc;

use etw_kernel_events::classes::MAX_FRAMES;
use etw_machine::{
    Addresses, Code, Duration, FunctionIndex, HashMap, Processes, ReadiedBy, Space, ThreadIndex,
};
use etw_stacks::{AddressNode, ByStack, SampleCount, StackTree, StackWeight, WaitLink, WeightUnit};
use etw_tables::{Cell, Column, ReportContext};

use crate::samples::Samples;
use crate::tables::table::{Table, TableKind};

/// Stacks with their weights.
#[derive(Clone, Copy)]
pub(crate) struct Weighed<'a> {
    pub(crate) kind: TableKind,
    pub(crate) tree: &'a StackTree,
    all: SampleCount,
    unit: WeightUnit,
    pub(crate) addresses: &'a Addresses,
}

impl<'a> Weighed<'a> {
    /// The stacks of samples.
    pub(crate) fn of_samples(samples: &'a Samples, addresses: &'a Addresses) -> Weighed<'a> {
        let kind = TableKind::Functions;
        Weighed { kind, tree: &samples.tree, all: samples.all, unit: WeightUnit::Time, addresses }
    }

    /// The stacks of other events.
    pub(crate) fn of_events(by_stack: &'a ByStack, addresses: &'a Addresses) -> Weighed<'a> {
        let ByStack { weight, tree, all, .. } = by_stack;
        Weighed { kind: TableKind::ByFunction(*weight), tree, all: *all, unit: weight.unit(), addresses }
    }

    /// Returns the unit of weights.
    pub(crate) fn unit(&self) -> WeightUnit {
        self.unit
    }

    /// Returns whether weights are the time that threads ran or waited, of which idle threads have most.
    pub(crate) fn is_time_of_threads(&self) -> bool {
        matches!(
            self.kind,
            TableKind::Functions
                | TableKind::ByFunction(
                    StackWeight::Running | StackWeight::Waits | StackWeight::OffCpu | StackWeight::WaitChains
                )
        )
    }
}

/// Returns the columns of a table by function.
pub(super) fn columns_of(kind: TableKind, unit: WeightUnit) -> &'static [Column] {
    match (kind, unit) {
        (TableKind::Functions, _) => &COLUMNS_OF_SAMPLES,
        (_, WeightUnit::Time) => &COLUMNS_OF_TIME,
        (_, WeightUnit::Bytes) => &COLUMNS_OF_BYTES,
        (_, WeightUnit::Count) => &COLUMNS_OF_COUNTS,
    }
}

/// Returns a weight as a cell of the table.
pub(super) fn weight_cell(unit: WeightUnit, weight: u64) -> Cell {
    match unit {
        WeightUnit::Time => Cell::Duration(Duration(weight)),
        WeightUnit::Bytes => Cell::Bytes(weight),
        WeightUnit::Count => Cell::Count(weight),
    }
}

/// Returns the number for a folded stack: samples, microseconds, bytes or events.
pub(super) fn folded_number(kind: TableKind, unit: WeightUnit, count: u64, weight: u64) -> u64 {
    match (kind, unit) {
        (TableKind::Functions, _) => count,
        (_, WeightUnit::Time) => weight.div_ceil(10),
        (_, WeightUnit::Bytes | WeightUnit::Count) => weight,
    }
}

const COLUMNS_OF_SAMPLES: [Column; 9] =
    columns("exclusive_samples", ["exclusive_weight_ns", "inclusive_weight_ns"], "inclusive_samples");
const COLUMNS_OF_TIME: [Column; 9] =
    columns("exclusive_count", ["exclusive_time_ns", "inclusive_time_ns"], "inclusive_count");
const COLUMNS_OF_BYTES: [Column; 9] =
    columns("exclusive_count", ["exclusive_bytes", "inclusive_bytes"], "inclusive_count");
const COLUMNS_OF_COUNTS: [Column; 9] =
    columns("exclusive_events", ["exclusive_count", "inclusive_count"], "inclusive_events");

/// Returns the columns, with the names of counts and weights.
const fn columns(
    exclusive_count: &'static str,
    [exclusive_weight, inclusive_weight]: [&'static str; 2],
    inclusive_count: &'static str,
) -> [Column; 9] {
    [
        Column::shown("function", "Function"),
        Column::shown("module", "Module"),
        Column::shown("process", "Process"),
        Column::hidden(exclusive_count),
        Column::shown(exclusive_weight, "Exclusive"),
        Column::shown("exclusive_percent", "Exc %"),
        Column::hidden(inclusive_count),
        Column::hidden(inclusive_weight),
        Column::shown("inclusive_percent", "Inc %"),
    ]
}

/// Modules without symbols in the notes: their maximum number, and their minimum share of all samples in percent.
const MAX_PROBLEMS: usize = 4;
const MIN_PROBLEM_PERCENT: f64 = 0.5;

/// Returns the space of an address in a thread's stack.
pub(crate) fn space(
    node: &AddressNode,
    thread: ThreadIndex,
    addresses: &Addresses,
    processes: &Processes,
) -> Space {
    match processes.thread(thread).process {
        _ if addresses.is_kernel(node.address) => Space::Kernel(processes.thread(thread).machine),
        Some(process) => Space::Process(process, node.version),
        None => Space::Unknown,
    }
}

/// Returns what a step between stacks is shown as.
pub(crate) fn link_text(link: WaitLink, context: &ReportContext<'_>) -> String {
    match link {
        WaitLink::Waited => "[which had waited]".to_owned(),
        WaitLink::Readied(ReadiedBy::Thread(by)) => {
            let process = context.processes.thread(by).process;
            format!("[readied by {}]", context.process_label(process))
        }
        WaitLink::Readied(ReadiedBy::Interrupt) => "[readied by an interrupt]".to_owned(),
        WaitLink::Readied(ReadiedBy::Unknown | ReadiedBy::Nobody) => "[readied by ?]".to_owned(),
    }
}

/// Returns all addresses in stacks.
pub(crate) fn addresses<'a>(
    stacks: Weighed<'a>,
    processes: &'a Processes,
) -> impl Iterator<Item = (Space, u64)> + 'a {
    let Weighed { tree, addresses, .. } = stacks;
    let nodes = tree.nodes().iter().zip(tree.threads()).enumerate();
    let nodes = nodes.filter(|(index, _)| tree.link_at(*index).is_none());
    nodes.map(|(_, (node, thread))| (space(node, thread, addresses, processes), node.address))
}

/// Returns the table. The weight of an inlined function goes to the function that it is inlined into.
pub(crate) fn table(stacks: Weighed<'_>, context: &ReportContext<'_>) -> Table {
    let (processes, names) = (context.processes, context.names);
    let Weighed { kind, tree, addresses, .. } = stacks;
    let nodes = tree.nodes();
    // A function counts for the process whose thread's event it is, also where another one readied that.
    let (threads, roots) = (tree.threads(), tree.roots());
    // Processes of a machine with the same name share a row.
    let mut process_names: HashMap<(bool, Option<&str>), u32> = HashMap::default();
    let mut process_of: Vec<(bool, Option<&str>)> = Vec::new();
    let mut functions: Vec<Option<FunctionIndex>> = Vec::with_capacity(nodes.len());
    for (index, (node, thread)) in nodes.iter().zip(&threads).enumerate() {
        let space = space(node, *thread, addresses, processes);
        let code = names.code(space, node.address).filter(|_| tree.link_at(index).is_none());
        functions.push(code.map(|code| code.function));
    }
    let mut rows: HashMap<(u32, FunctionIndex), [SampleCount; 2]> = HashMap::default();
    let mut seen: Vec<FunctionIndex> = Vec::new();
    let mut nameless: HashMap<Option<Rc<str>>, u64> = HashMap::default();
    let (mut all, mut full) = (SampleCount::default(), 0);
    for (index, node) in nodes.iter().enumerate().filter(|(_, node)| node.count > 0) {
        if !context.wants_thread(roots[index]) {
            continue;
        }
        all.count += node.count;
        all.weight += node.weight;
        let process = processes.thread(roots[index]).process;
        let name = process.and_then(|process| processes.process(process).shown_name());
        let name = (context.is_idle(process), name);
        let process = *process_names.entry(name).or_insert_with(|| {
            process_of.push(name);
            process_of.len() as u32 - 1
        });
        seen.clear();
        let (mut at, mut length, mut in_program) = (Some(index), 0, 0);
        while let Some(index) = at {
            at = nodes[index].parent.node();
            length += 1;
            in_program += usize::from(!addresses.is_kernel(nodes[index].address));
            let Some(function) = functions[index] else { continue };
            if seen.is_empty() && !names.get(function).is_named() {
                *nameless.entry(names.get(function).module.clone()).or_default() += node.count;
            }
            // A recursive function is counted once.
            if seen.contains(&function) {
                continue;
            }
            let sums = rows.entry((process, function)).or_default();
            let counted = if seen.is_empty() { &mut sums[..] } else { &mut sums[1..] };
            for sum in counted {
                sum.count += node.count;
                sum.weight += node.weight;
            }
            seen.push(function);
        }
        // An event has room for these; Windows has one for each half of a stack, Linux one for both.
        if length == MAX_FRAMES || in_program >= MAX_FRAMES {
            full += node.count;
        }
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    // The numbers of functions and processes are arbitrary, so rows of equal weight are sorted by name.
    rows.sort_by_cached_key(|((process, function), [exclusive, inclusive])| {
        let (is_idle, process) = process_of[*process as usize];
        let function = names.get(*function);
        let name = (process, function.module.clone(), function.name.clone());
        (is_idle, std::cmp::Reverse((exclusive.weight, inclusive.weight)), name)
    });
    let rows = rows.into_iter().map(|((process, function), [exclusive, inclusive])| {
        let function = names.get(function);
        let percent = |weight: Duration| Cell::percent(weight.0, stacks.all.weight.0);
        vec![
            Cell::Text(function.name.as_deref().unwrap_or("[no symbols]").to_owned()),
            Cell::Text(function.module.as_deref().unwrap_or("[unknown]").to_owned()),
            Cell::text(process_of[process as usize].1),
            Cell::Count(exclusive.count),
            weight_cell(stacks.unit, exclusive.weight.0),
            percent(exclusive.weight),
            Cell::Count(inclusive.count),
            weight_cell(stacks.unit, inclusive.weight.0),
            percent(inclusive.weight),
        ]
    });
    let rows = rows.collect();
    let mut notes = notes(kind, nameless, all.count, context);
    if context.names.skipped_methods > 0 || addresses.versions.is_full() {
        let skipped = context.names.skipped_methods;
        notes
            .push(format!("Too many methods of .NET came and went: {skipped} and their code have no names."));
    }
    if tree.cut > 0 {
        notes.push(format!("{} stacks were too many and are counted by their outer parts.", tree.cut));
    }
    if full > 0 {
        let what = if kind == TableKind::Functions { "samples" } else { "stacks" };
        let missing = format!("the functions that called the outermost of {MAX_FRAMES} frames");
        notes.push(format!("{full} of the {what} are as deep as a trace records: {missing} are missing."));
    }
    Table { kind, columns: columns_of(kind, stacks.unit), rows, notes }
}

/// Returns notes about the samples without a known function, with reasons.
fn notes(
    kind: TableKind,
    nameless: HashMap<Option<Rc<str>>, u64>,
    all: u64,
    context: &ReportContext<'_>,
) -> Vec<String> {
    let mut nameless: Vec<_> = nameless.into_iter().collect();
    nameless.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    let sum: u64 = nameless.iter().map(|(_, count)| count).sum();
    if sum == 0 {
        return Vec::new();
    }
    let part = |count: u64| count as f64 * 100.0 / all as f64;
    let percent = |count: u64| format!("{:.1} %", part(count));
    let what = if kind == TableKind::Functions { "samples" } else { "stacks" };
    let mut notes = vec![format!("{} of the {what} are in functions without a name.", percent(sum))];
    let worst = nameless.iter().filter(|(_, count)| part(*count) >= MIN_PROBLEM_PERCENT);
    for (module, count) in worst.take(MAX_PROBLEMS) {
        let name = module.as_deref().unwrap_or("unknown images");
        let problem = context.names.problems.get(module.as_deref().unwrap_or_default());
        let reason = match (problem, module) {
            (Some(problem), _) => format!(": {problem}"),
            (None, Some(_)) => ": its symbol table has no function there".to_owned(),
            (None, None) => String::new(),
        };
        notes.push(format!("{} in {name}{reason}.", percent(*count)));
    }
    notes
}

/// Returns stacks in the format of flame graphs.
///
/// A line has the process and the functions, outermost first and separated by `;`, a space and the number of samples, or
/// the weight of other events: microseconds, bytes or their number. Inlined functions are included.
pub(crate) fn folded(stacks: Weighed<'_>, context: &ReportContext<'_>) -> BTreeMap<String, u64> {
    let mut lines: BTreeMap<String, (u64, Duration)> = BTreeMap::new();
    let mut frames: Vec<String> = Vec::new();
    let Weighed { tree, addresses, .. } = stacks;
    let (threads, roots) = (tree.threads(), tree.roots());
    for (index, node) in tree.nodes().iter().enumerate().filter(|(_, node)| node.count > 0) {
        if !context.wants_thread(roots[index]) {
            continue;
        }
        frames.clear();
        let mut at = Some(index);
        while let Some(index) = at {
            let node = &tree.nodes()[index];
            at = node.parent.node();
            if let Some(link) = tree.link_at(index) {
                frames.push(link_text(link, context));
                continue;
            }
            let space = space(node, threads[index], addresses, context.processes);
            let Some(code) = context.names.code(space, node.address) else { continue };
            match code.frames.as_slice() {
                [] => frames.push(context.names.place(code)),
                functions => frames.extend(functions.iter().map(|frame| frame.function.clone())),
            }
        }
        let process = context.processes.thread(roots[index]).process;
        let name = process.and_then(|process| context.processes.process(process).shown_name());
        let mut line = name.unwrap_or("?").replace(';', ":");
        for frame in frames.iter().rev() {
            line.push(';');
            line.push_str(&frame.replace(';', ":"));
        }
        let (count, weight) = lines.entry(line).or_default();
        *count += node.count;
        *weight += node.weight;
    }
    // Rounded once for each line, which may be of many nodes.
    let number = |(line, (count, weight)): (String, (u64, Duration))| {
        (line, folded_number(stacks.kind, stacks.unit, count, weight.0))
    };
    lines.into_iter().map(number).collect()
}

/// Returns the function of a stack that says most about it: the innermost one outside of the system, or else the
/// innermost; and all functions, outermost first and separated by `;`. The codes are innermost first.
pub(crate) fn stack_texts<'c>(
    codes: impl IntoIterator<Item = &'c Code>,
    context: &ReportContext<'_>,
) -> [Option<String>; 2] {
    let (mut innermost, mut own, mut frames) = (None, None, Vec::new());
    for code in codes {
        let label = context.names.label(code);
        if own.is_none() && !code.is_system {
            own = Some(label.clone());
        }
        innermost.get_or_insert_with(|| label.clone());
        frames.push(label.replace(';', ":"));
    }
    frames.reverse();
    [own.or(innermost), (!frames.is_empty()).then(|| frames.join(";"))]
}
