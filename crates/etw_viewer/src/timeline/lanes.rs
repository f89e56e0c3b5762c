//! Which lanes there are.

use std::collections::HashMap;

use anyhow::Result;
use openetw::tables::{Aggregate, Filter, Order, OrderBy, Pivot, Table, Value};
use serde::Serialize;

use crate::model::Model;
use crate::tables::{Cell, Conditions, Field, Fields, Scope, table, threads};

/// Maximum number of lanes of a group.
const MAX_LANES: usize = 64;

/// What the height of a lane means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Measure {
    /// The mean number of things at once: running processors, requests in flight.
    Busy,
    /// Bytes.
    Bytes,
    /// Number of rows.
    Count,
}

/// A group of lanes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    title: &'static str,
    summary: &'static str,
    pub(crate) table: &'static str,
    /// The column that separates the lanes; one lane for everything if empty.
    pub(crate) key: &'static str,
    /// The column with the duration that ends at the time of a row, or the weight of a sample, or a size.
    pub(crate) value: Option<&'static str>,
    /// Whether rows last; otherwise they are at one point in time.
    pub(crate) is_span: bool,
    /// Whether the time of a row is its start, not its end.
    pub(crate) starts: bool,
    pub(crate) measure: Measure,
    /// The column with the process whose time does not count if it is the idle process.
    pub(crate) idle: &'static str,
    unit: &'static str,
}

const KIND: Kind = Kind {
    name: "",
    title: "",
    summary: "",
    table: "",
    key: "",
    value: None,
    is_span: false,
    starts: false,
    measure: Measure::Count,
    idle: "",
    unit: "",
};

/// All groups, in the order of the page.
const KINDS: &[Kind] = &[
    Kind {
        name: "cpu_processor",
        title: "CPU by processor",
        summary: "Part of the time in which a processor ran a thread, from context switches.",
        table: "cpu_precise",
        key: "processor",
        value: Some("ran"),
        is_span: true,
        measure: Measure::Busy,
        idle: "old_thread.process",
        unit: "of a processor",
        ..KIND
    },
    Kind {
        name: "cpu_process",
        title: "CPU by process",
        summary: "Number of processors that threads of a process ran on, from context switches.",
        table: "cpu_precise",
        key: "old_thread.process",
        value: Some("ran"),
        is_span: true,
        measure: Measure::Busy,
        idle: "old_thread.process",
        unit: "processors",
        ..KIND
    },
    Kind {
        name: "cpu_thread",
        title: "CPU by thread",
        summary: "Part of the time in which a thread ran, from context switches.",
        table: "cpu_precise",
        key: "old_thread",
        value: Some("ran"),
        is_span: true,
        measure: Measure::Busy,
        idle: "old_thread.process",
        unit: "of the time",
        ..KIND
    },
    Kind {
        name: "samples_process",
        title: "Samples by process",
        summary: "Number of processors that a process used; a sample stands for the time before it.",
        table: "cpu_sampled",
        key: "thread.process",
        value: Some("weight"),
        is_span: true,
        measure: Measure::Busy,
        idle: "thread.process",
        unit: "processors",
        ..KIND
    },
    Kind {
        name: "samples_processor",
        title: "Samples by processor",
        summary: "Part of the time in which a processor was busy; a sample stands for the time before it.",
        table: "cpu_sampled",
        key: "processor",
        value: Some("weight"),
        is_span: true,
        measure: Measure::Busy,
        idle: "thread.process",
        unit: "of a processor",
        ..KIND
    },
    Kind {
        name: "dpc_isr",
        title: "DPC and ISR",
        summary: "Number of processors that ran interrupts and deferred procedure calls.",
        table: "dpc_isr",
        key: "type",
        value: Some("duration"),
        is_span: true,
        measure: Measure::Busy,
        unit: "processors",
        ..KIND
    },
    Kind {
        name: "disk",
        title: "Disk queue",
        summary: "Mean number of requests that a disk had at once.",
        table: "disk",
        key: "disk",
        value: Some("duration"),
        is_span: true,
        measure: Measure::Busy,
        unit: "requests",
        ..KIND
    },
    Kind {
        name: "disk_bytes",
        title: "Disk I/O",
        summary: "Bytes that disks read and wrote.",
        table: "disk",
        key: "operation",
        value: Some("size"),
        measure: Measure::Bytes,
        unit: "bytes",
        ..KIND
    },
    Kind {
        name: "file_io",
        title: "File operations",
        summary: "Operations on files at once.",
        table: "file_io",
        key: "operation",
        value: Some("duration"),
        is_span: true,
        starts: true,
        measure: Measure::Busy,
        unit: "operations",
        ..KIND
    },
    Kind {
        name: "hard_faults",
        title: "Hard faults",
        summary: "Page faults that wait for a disk, at once.",
        table: "hard_faults",
        key: "thread.process",
        value: Some("duration"),
        is_span: true,
        measure: Measure::Busy,
        unit: "faults",
        ..KIND
    },
    Kind {
        name: "syscalls",
        title: "System calls",
        summary: "Number of system calls that ended.",
        table: "syscalls",
        key: "thread.process",
        unit: "calls",
        ..KIND
    },
    Kind {
        name: "network",
        title: "Network",
        summary: "Bytes sent and received.",
        table: "network",
        key: "operation",
        value: Some("size"),
        measure: Measure::Bytes,
        unit: "bytes",
        ..KIND
    },
    Kind {
        name: "events",
        title: "Events by provider",
        summary: "Number of events.",
        table: "events",
        key: "kind.provider",
        unit: "events",
        ..KIND
    },
];

/// A group of lanes of a trace.
#[derive(Debug, Serialize)]
pub(crate) struct Lanes {
    #[serde(skip)]
    pub(crate) kind: Kind,
    name: &'static str,
    title: &'static str,
    summary: &'static str,
    table: &'static str,
    key: &'static str,
    measure: Measure,
    unit: &'static str,
    pub(crate) lanes: Vec<Lane>,
    /// Number of lanes that are not shown, since the others have more.
    more: usize,
    /// The lanes by the values of their keys.
    #[serde(skip)]
    pub(crate) by_value: HashMap<u64, usize>,
}

/// A lane.
#[derive(Debug, Serialize)]
pub(crate) struct Lane {
    label: String,
    /// The key of the lane, for filters.
    key: String,
    rows: u64,
}

/// Returns the lanes of a trace.
///
/// # Errors
///
/// Fails if a chunk is damaged.
pub(crate) fn lanes(model: &Model) -> Result<Vec<Lanes>> {
    let mut found = Vec::new();
    for kind in KINDS {
        let rows = table(model, kind.table)?;
        if rows.rows() > 0 {
            found.extend(of_kind(model, rows, kind)?);
        }
    }
    Ok(found)
}

fn of_kind(model: &Model, rows: Table<'_>, kind: &Kind) -> Result<Option<Lanes>> {
    let fields = Fields::new(model, rows);
    let scope = Scope { table: kind.table.to_owned(), from: None, to: None, filters: Vec::new() };
    let mut conditions = Conditions::new(model, rows, &scope)?;
    if !kind.idle.is_empty() {
        let id = fields.get(&format!("{}.process_id", kind.idle))?;
        let number = conditions.number(&id);
        conditions.add(Filter::Not(Box::new(Filter::is(number, Value::Integer(0)))));
    }
    let key = fields.grouping(&fields.get(kind.key)?);
    let number = conditions.number(&key);
    let value = kind.value.and_then(|name| rows.schema().column(name));
    let pivot = Pivot {
        through: conditions.through,
        filter: conditions.filter,
        order: Order { by: OrderBy::Aggregate(0), descending: true },
        top: MAX_LANES,
        ..Pivot::new([number], [value.map_or(Aggregate::Rows, Aggregate::Sum)])
    };
    let result = pivot.run(rows, threads())?;
    let mut groups = result.groups;
    if groups.is_empty() {
        return Ok(None);
    }
    // Processors are in their own order.
    if key.kind() == "id" {
        groups.sort_by(|one, other| number_of(one.keys.first()).total_cmp(&number_of(other.keys.first())));
    }
    let mut by_value = HashMap::new();
    let mut lanes = Vec::new();
    for group in &groups {
        let Some(value) = group.keys.first() else { continue };
        by_value.insert(word(*value), lanes.len());
        lanes.push(Lane {
            label: label(&fields, &key, *value)?,
            key: fields.key(&key, *value)?,
            rows: group.rows,
        });
    }
    let Kind { name, title, summary, table, key, measure, unit, .. } = *kind;
    let more = result.group_count - groups.len();
    Ok(Some(Lanes { kind: *kind, name, title, summary, table, key, measure, unit, lanes, more, by_value }))
}

fn label(fields: &Fields<'_>, key: &Field<'_>, value: Value) -> Result<String> {
    Ok(match fields.cell(key, value)? {
        Cell::None => "(none)".to_owned(),
        Cell::Text(text) => text,
        Cell::Number(number) if key.kind() == "id" => format!("CPU {number}"),
        Cell::Number(number) => format!("{number}"),
    })
}

/// Returns a number for each value of a key: a code, or a whole number.
pub(super) fn word(value: Value) -> u64 {
    match value {
        Value::Code(code) => code.into(),
        Value::Integer(number) => number as u64,
        _ => u64::MAX,
    }
}

fn number_of(value: Option<&Value>) -> f64 {
    match value {
        Some(Value::Integer(number)) => *number as f64,
        _ => f64::INFINITY,
    }
}
