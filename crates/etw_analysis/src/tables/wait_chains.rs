//! The table of wait chains.

use std::cmp::Reverse;

use etw_machine::{Addresses, Code, HashMap, ReadiedBy, ThreadIndex, reason_name};
use etw_stacks::{ByStack, ChainSum, NodeIndex, WaitLink};
use etw_tables::{Cell, Column, ReportContext};

use super::functions::{space, stack_texts};
use crate::tables::table::{Table, TableKind};

const COLUMNS: &[Column] = &[
    Column::shown("process", "Process"),
    Column::shown("process_id", "PID"),
    Column::hidden("thread"),
    Column::shown("thread_id", "TID"),
    Column::shown("wait_reason", "Wait reason"),
    Column::shown("function", "Waits in"),
    Column::hidden("stack"),
    Column::shown("count", "Count"),
    Column::shown("wait_ns", "Wait"),
    Column::shown("max_wait_ns", "Max"),
    Column::shown("chained_ns", "Chained"),
    Column::hidden("readied_by"),
    Column::hidden("readied_by_thread_id"),
    Column::hidden("ready_function"),
    Column::hidden("ready_stack"),
    Column::shown("chain", "Readied by"),
];

/// What rows are counted by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    thread: ThreadIndex,
    reason: u8,
    /// Function and all functions.
    at: [Option<String>; 2],
    readied_by: String,
    readied_by_thread: Option<ThreadIndex>,
    readied_at: [Option<String>; 2],
    chain: String,
}

/// A stack of a chain, and the step to it from the one before.
struct Part<'c> {
    link: Option<WaitLink>,
    /// Innermost first.
    codes: Vec<&'c Code>,
}

/// Returns the table by thread, reason, stack and chain.
pub(crate) fn table(by_stack: &ByStack, addresses: &Addresses, context: &ReportContext<'_>) -> Table {
    let (threads, roots) = (by_stack.tree.threads(), by_stack.tree.roots());
    let mut rows: HashMap<Key, ChainSum> = HashMap::default();
    for ((node, reason), sum) in &by_stack.chains.sums {
        let Some(root) = roots.get(node.index()).copied() else { continue };
        // The idle thread does not wait.
        if context.processes.thread(root).id == 0 || !context.wants_thread(root) {
            continue;
        }
        let parts = parts(*node, &threads, by_stack, addresses, context);
        let row = rows.entry(key(root, *reason, &parts, context)).or_default();
        row.count += sum.count;
        row.wait += sum.wait;
        row.max = row.max.max(sum.max);
        row.chained += sum.chained;
    }
    let mut rows: Vec<(Key, ChainSum)> = rows.into_iter().collect();
    rows.sort_by(|(one, of_one), (other, of_other)| {
        Reverse(of_one.wait).cmp(&Reverse(of_other.wait)).then_with(|| one.cmp(other))
    });
    let rows = rows.into_iter().map(|(key, sum)| {
        let [function, stack] = key.at;
        let [ready_function, ready_stack] = key.readied_at;
        let by_thread = key.readied_by_thread.map(|thread| context.processes.thread(thread).id);
        let mut row = context.thread(key.thread).to_vec();
        row.extend([
            Cell::Text(reason_name(key.reason).map_or_else(|| key.reason.to_string(), str::to_owned)),
            Cell::text(function.as_deref()),
            Cell::text(stack.as_deref()),
            Cell::Count(sum.count),
            Cell::Duration(sum.wait),
            Cell::Duration(sum.max),
            Cell::Duration(sum.chained),
            Cell::Text(key.readied_by),
            Cell::id(by_thread),
            Cell::text(ready_function.as_deref()),
            Cell::text(ready_stack.as_deref()),
            Cell::Text(key.chain),
        ]);
        row
    });
    let rows: Vec<_> = rows.collect();
    let mut notes = Vec::new();
    if by_stack.tree.cut > 0 {
        let cut = by_stack.tree.cut;
        notes.push(format!("{cut} chains were too many and are counted by their first parts."));
    }
    Table { kind: TableKind::WaitChains, columns: COLUMNS, rows, notes }
}

/// Returns the stacks from the wait to the innermost node of the last one.
fn parts<'c>(
    node: NodeIndex,
    threads: &[ThreadIndex],
    by_stack: &ByStack,
    addresses: &Addresses,
    context: &'c ReportContext<'_>,
) -> Vec<Part<'c>> {
    let tree = &by_stack.tree;
    let (mut parts, mut codes) = (Vec::new(), Vec::new());
    let mut at = Some(node.index());
    while let Some(index) = at {
        let node = &tree.nodes()[index];
        at = node.parent.node();
        match tree.link_at(index) {
            Some(link) => parts.push(Part { link: Some(link), codes: std::mem::take(&mut codes) }),
            None => {
                let space = space(node, threads[index], addresses, context.processes);
                codes.extend(context.names.code(space, node.address));
            }
        }
    }
    parts.push(Part { link: None, codes });
    parts.reverse();
    parts
}

fn key(thread: ThreadIndex, reason: u8, parts: &[Part<'_>], context: &ReportContext<'_>) -> Key {
    let mut key = Key {
        thread,
        reason,
        at: [None, None],
        readied_by: "?".to_owned(),
        readied_by_thread: None,
        readied_at: [None, None],
        chain: String::new(),
    };
    for part in parts {
        // Where an interrupt came in says nothing about the wait.
        let at = match part.link {
            Some(WaitLink::Readied(ReadiedBy::Interrupt)) => [None, None],
            _ => stack_texts(part.codes.iter().copied(), context),
        };
        let place = at[0].as_ref().map(|function| format!(" in {function}")).unwrap_or_default();
        match part.link {
            None => key.at = at,
            Some(WaitLink::Waited) => key.chain.push_str(&format!(", which waited{place}")),
            Some(WaitLink::Readied(by)) => {
                let (name, thread) = match by {
                    ReadiedBy::Thread(by) => {
                        (context.process_label(context.processes.thread(by).process), Some(by))
                    }
                    ReadiedBy::Interrupt => ("[interrupt]".to_owned(), None),
                    ReadiedBy::Unknown | ReadiedBy::Nobody => ("?".to_owned(), None),
                };
                if !key.chain.is_empty() {
                    key.chain.push_str(" ← ");
                }
                let is_first = key.chain.is_empty();
                key.chain.push_str(&name);
                key.chain.push_str(&place);
                if is_first {
                    (key.readied_by, key.readied_by_thread, key.readied_at) = (name, thread, at);
                }
            }
        }
    }
    key
}
