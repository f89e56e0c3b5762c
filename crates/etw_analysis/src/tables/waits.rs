//! The table of waits.

use super::context::Context;
use super::table::{Cell, Column, Table, TableKind, hidden, shown};
use crate::maps::HashMap;
use crate::model::switches::{ReadiedBy, reason_name};
use crate::processes::ThreadIndex;
use crate::tables::switches::{SwitchSums, Waits};

const COLUMNS: &[Column] = &[
    shown("process", "Process"),
    shown("process_id", "PID"),
    hidden("thread"),
    shown("thread_id", "TID"),
    shown("wait_reason", "Wait reason"),
    shown("readied_by", "Readied by"),
    shown("count", "Count"),
    shown("wait_ns", "Wait"),
    shown("max_wait_ns", "Max"),
    shown("ready_ns", "Ready"),
    shown("max_ready_ns", "Max"),
];

/// Returns the table by thread, reason, and the process that made it ready.
pub(crate) fn table(switches: &SwitchSums, has_ready_events: bool, context: &Context<'_>) -> Table {
    let mut rows: HashMap<(ThreadIndex, u8, String), Waits> = HashMap::default();
    for ((thread, reason, readied_by), waits) in &switches.waits {
        // The idle thread does not wait.
        if context.processes.thread(*thread).id == 0 || !context.wants_thread(*thread) {
            continue;
        }
        let by = match readied_by {
            ReadiedBy::Unknown => "?".to_owned(),
            ReadiedBy::Nobody => "-".to_owned(),
            ReadiedBy::Interrupt => "[interrupt]".to_owned(),
            ReadiedBy::Thread(by) => context.process_label(context.processes.thread(*by).process),
        };
        let sum = rows.entry((*thread, *reason, by)).or_default();
        sum.count += waits.count;
        sum.wait += waits.wait;
        sum.ready += waits.ready;
        sum.max_wait = sum.max_wait.max(waits.max_wait);
        sum.max_ready = sum.max_ready.max(waits.max_ready);
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by(|(one, of_one), (other, of_other)| {
        (of_other.wait, of_other.ready).cmp(&(of_one.wait, of_one.ready)).then_with(|| one.cmp(other))
    });
    let rows = rows.into_iter().map(|((thread, reason, by), waits)| {
        let reason = reason_name(reason).map_or_else(|| reason.to_string(), str::to_owned);
        let mut row = context.thread(thread).to_vec();
        row.extend([
            Cell::Text(reason),
            Cell::Text(by),
            Cell::Count(waits.count),
            Cell::Duration(waits.wait),
            Cell::Duration(waits.max_wait),
            Cell::Duration(waits.ready),
            Cell::Duration(waits.max_ready),
        ]);
        row
    });
    let rows: Vec<_> = rows.collect();
    let mut notes = Vec::new();
    if !rows.is_empty() && !has_ready_events {
        notes.push(
            "Without ReadyThread events (DISPATCHER), waits include the ready time, up to the switch."
                .to_owned(),
        );
    }
    Table { kind: TableKind::Waits, columns: COLUMNS, rows, notes }
}
