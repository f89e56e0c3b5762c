//! System calls.

use super::context::Context;
use super::latency::Latencies;
use super::table::{Cell, Column, Table, TableKind, shown};
use crate::maps::HashMap;
use crate::model::facts::{CallBegun, Called};
use crate::names::Space;
use crate::processes::{ProcessIndex, ThreadIndex};

/// The bits of an NTSTATUS that are set for failures.
const FAILED: u32 = 0b11 << 30;
/// Prefixes of the kernel's system call functions.
const PREFIXES: [&str; 6] = ["__x64_sys_", "__arm64_sys_", "__ia32_sys_", "__se_sys_", "__do_sys_", "sys_"];

#[derive(Debug, Clone, Default)]
struct Sum {
    count: u64,
    failed: u64,
    latencies: Latencies,
}

/// Counts of system calls.
#[derive(Debug, Default)]
pub(crate) struct CallSums {
    /// By thread, machine and address.
    sums: HashMap<(Option<ThreadIndex>, u32, u64), Sum>,
}

impl CallSums {
    /// Counts a call that begins.
    pub(crate) fn begin(&mut self, machine: u32, call: &CallBegun) {
        self.sums.entry((call.thread, machine, call.address)).or_default().count += 1;
    }

    /// Adds the end of a call.
    pub(crate) fn end(&mut self, machine: u32, call: &Called) {
        if let Some(sum) = self.sums.get_mut(&(Some(call.thread), machine, call.address)) {
            sum.latencies.add(call.took);
            sum.failed += u64::from(call.status & FAILED == FAILED);
        }
    }

    /// Returns the addresses of the functions that implement calls.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (Space, u64)> {
        self.sums.keys().map(|(_, machine, address)| (Space::Kernel(*machine), *address))
    }

    /// Returns the table by process and call.
    pub(crate) fn table(&self, context: &Context<'_>) -> Table {
        let mut rows: HashMap<(Option<ProcessIndex>, u32, u64), Sum> = HashMap::default();
        for ((thread, machine, address), sum) in &self.sums {
            let process = thread.and_then(|thread| context.processes.thread(thread).process);
            if context.wants(process) {
                let row = rows.entry((process, *machine, *address)).or_default();
                row.count += sum.count;
                row.failed += sum.failed;
                row.latencies.merge(&sum.latencies);
            }
        }
        let is_timed = self.sums.keys().any(|(thread, ..)| thread.is_some());
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_by_key(|(of, sum)| (std::cmp::Reverse((sum.count, sum.latencies.sum)), *of));
        let rows = rows.into_iter().map(|((process, machine, address), sum)| {
            let [process, process_id] = context.process(process);
            let code = context.names.code(Space::Kernel(machine), address);
            // Linux events lack the function of calls from 32-bit programs.
            let name = match (address, code) {
                (0, _) => "[unknown]".to_owned(),
                (_, Some(code)) => context.names.label(code),
                (_, None) => format!("{address:#x}"),
            };
            let timed = |cell| if is_timed { cell } else { Cell::None };
            vec![
                process,
                process_id,
                Cell::Text(call_name(&name).to_owned()),
                Cell::Count(sum.count),
                timed(Cell::Count(sum.failed)),
                timed(Cell::Duration(sum.latencies.sum)),
                Cell::duration(sum.latencies.quantile(0.5)),
                Cell::duration(sum.latencies.quantile(0.95)),
                timed(Cell::Duration(sum.latencies.max)),
            ]
        });
        let rows: Vec<_> = rows.collect();
        let mut notes = Vec::new();
        if !rows.is_empty() && !is_timed {
            notes.push(
                "Without context switches (CSWITCH), calls cannot be assigned to processes.".to_owned(),
            );
        }
        Table { kind: TableKind::Syscalls, columns: COLUMNS, rows, notes }
    }
}

/// Returns the name of a call from the name of the function that implements it.
pub(crate) fn call_name(function: &str) -> &str {
    PREFIXES.iter().find_map(|prefix| function.strip_prefix(prefix)).unwrap_or(function)
}

const COLUMNS: &[Column] = &[
    shown("process", "Process"),
    shown("process_id", "PID"),
    shown("call", "Call"),
    shown("count", "Count"),
    shown("failed", "Failed"),
    shown("time_ns", "Time"),
    shown("median_ns", "Median"),
    shown("p95_ns", "p95"),
    shown("max_ns", "Max"),
];
