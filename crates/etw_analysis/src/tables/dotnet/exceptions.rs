//! Exceptions of .NET.

use std::cmp::Reverse;

use etw_machine::{ClrEvent, HashMap, ProcessIndex};
use etw_stacks::NodeIndex;
use etw_tables::{Cell, Column, ReportContext};

use super::event_stacks::EventStacks;
use crate::tables::table::{Table, TableKind};

/// An ExceptionThrown event.
#[derive(Debug)]
pub(crate) struct Exception {
    process: ProcessIndex,
    type_name: Box<str>,
    message: Option<String>,
}

#[derive(Debug, Default)]
struct Sum {
    count: u64,
    /// The first message.
    message: Option<String>,
}

/// Counts of exceptions by type and stack.
#[derive(Debug, Default)]
pub(crate) struct Exceptions {
    sums: HashMap<(ProcessIndex, Box<str>, Option<NodeIndex>), Sum>,
}

impl Exception {
    /// Returns the exception, or `None` if the event is of the first version, which has no fields.
    pub(crate) fn from_event(event: &ClrEvent<'_>) -> Option<Exception> {
        let message = event.get::<String>("ExceptionMessage").filter(|message| !message.is_empty());
        let type_name = event.get::<String>("ExceptionType")?.into_boxed_str();
        Some(Exception { process: event.process, type_name, message })
    }
}

impl Exceptions {
    pub(crate) fn add(&mut self, exception: Exception, stack: Option<NodeIndex>) {
        let sum = self.sums.entry((exception.process, exception.type_name, stack)).or_default();
        sum.count += 1;
        sum.message = sum.message.take().or(exception.message);
    }

    /// Returns the table by process, type and stack.
    pub(crate) fn table(&self, stacks: &EventStacks, context: &ReportContext<'_>) -> Table {
        let wanted = self.sums.iter().filter(|((process, ..), _)| context.wants(Some(*process)));
        let mut rows: Vec<_> = wanted.collect();
        rows.sort_by_key(|(key, sum)| (Reverse(sum.count), *key));
        let rows = rows.into_iter().map(|((process, type_name, stack), sum)| {
            let [process, process_id] = context.process(Some(*process));
            let [method, frames] = stacks.cells(*stack, context);
            vec![
                process,
                process_id,
                Cell::text(Some(type_name)),
                Cell::Count(sum.count),
                method,
                Cell::text(sum.message.as_deref()),
                frames,
            ]
        });
        Table { kind: TableKind::Exceptions, columns: COLUMNS, rows: rows.collect(), notes: Vec::new() }
    }
}

const COLUMNS: &[Column] = &[
    Column::shown("process", "Process"),
    Column::shown("process_id", "PID"),
    Column::shown("type", "Type"),
    Column::shown("count", "Count"),
    Column::shown("method", "Thrown by"),
    Column::shown("message", "First message"),
    Column::hidden("stack"),
];
