//! Operations on the registry, with the whole names of keys.

use etw_columns::{Column, ColumnType, ColumnsError, IndexWriter, TableId, TableSchema, Unit};
use etw_event::Ticks;
use etw_kernel_events::ids::{self, Class, EventId};

use super::columns::{STACK, THREAD, code, duration, text, time};
use super::seen::Seen;
use crate::maps::HashMap;

pub(super) static REGISTRY: TableSchema = TableSchema::new(
    "registry",
    "Registry",
    "One row for each operation on the registry.",
    columns![
        time("When it ended."),
        THREAD,
        text("operation", "What was done, such as `Open`, `QueryValue` or `Close`."),
        Column::row_of("registry_keys", "key", "Key, and for operations on a value its name."),
        duration("elapsed_time", "Time that it took, if the event says so."),
        code("status", "NTSTATUS; from 0xC0000000 on a failure."),
        Column::new("index", ColumnType::U32, "Number of the value or key that was listed.").unit(Unit::Id),
        STACK,
    ],
);

pub(super) static REGISTRY_KEYS: TableSchema = TableSchema::new(
    "registry_keys",
    "Registry Keys",
    "One row for each name that operations on the registry use.",
    columns![
        text("name", "Whole name, as far as the trace has it."),
        text("base", "The part of it that is the key of the operation's handle."),
        text("remainder", "The part of it that the operation names."),
    ],
);

/// Names of operations by the event's type.
const OPERATIONS: [(EventId, &str); 16] = [
    (ids::Registry::CREATE, "Create"),
    (ids::Registry::OPEN, "Open"),
    (ids::Registry::DELETE, "Delete"),
    (ids::Registry::QUERY, "Query"),
    (ids::Registry::SET_VALUE, "SetValue"),
    (ids::Registry::DELETE_VALUE, "DeleteValue"),
    (ids::Registry::QUERY_VALUE, "QueryValue"),
    (ids::Registry::ENUMERATE_KEY, "EnumerateKey"),
    (ids::Registry::ENUMERATE_VALUE_KEY, "EnumerateValueKey"),
    (ids::Registry::QUERY_MULTIPLE_VALUE, "QueryMultipleValue"),
    (ids::Registry::SET_INFORMATION, "SetInformation"),
    (ids::Registry::FLUSH, "Flush"),
    (ids::Registry::VIRTUALIZE, "Virtualize"),
    (ids::Registry::CLOSE, "Close"),
    (ids::Registry::SET_SECURITY, "SetSecurity"),
    (ids::Registry::QUERY_SECURITY, "QuerySecurity"),
];
/// Maximum number of keys and of names; further ones share the last row.
const MAX_NAMES: usize = 1 << 20;

/// The keys and names that operations use.
#[derive(Debug, Default)]
pub(super) struct Registry {
    /// The key of a handle (the address of its control block) now, by machine.
    handles: HashMap<(u32, u64), usize>,
    /// The name of each key, if the trace has it.
    bases: Vec<Option<String>>,
    /// Names by the key they belong to.
    rows: HashMap<(Option<usize>, String), u32>,
    names: Vec<(Option<usize>, String)>,
}

impl Registry {
    /// Adds an event of class Registry.
    pub(super) fn event(
        &mut self,
        seen: &Seen<'_, '_>,
        machine: u32,
        table: TableId,
        writer: &mut IndexWriter,
    ) -> Result<(), ColumnsError> {
        let record = seen.record();
        let Some(id) = seen.id.filter(|id| id.class() == Class::Registry) else { return Ok(()) };
        let handle = seen.get::<u64>(&["KeyHandle"]).unwrap_or(0);
        let name = seen.get::<String>(&["KeyName"]).unwrap_or_default();
        match id {
            ids::Registry::KCB_CREATE | ids::Registry::KCB_RUNDOWN_BEGIN | ids::Registry::KCB_RUNDOWN_END => {
                self.name(machine, handle, name, id == ids::Registry::KCB_CREATE);
                return Ok(());
            }
            ids::Registry::KCB_DELETE => {
                self.handles.remove(&(machine, handle));
                return Ok(());
            }
            _ => {}
        }
        let operation = OPERATIONS.iter().find(|(one, _)| *one == id);
        let Some((_, operation)) = operation else { return Ok(()) };
        let base = (handle != 0).then(|| self.base(machine, handle));
        let key = self.row(base, name);
        let mut row = writer.row(table)?;
        row.time(0, record.time()).text(2, operation).code(3, key);
        if let Some(ticks) = seen.get::<i64>(&["InitialTime"]) {
            let begun = record.origin().clock.to_filetime(Ticks(ticks));
            row.duration(4, record.time().0.saturating_sub(begun.0).max(0).saturating_mul(100));
        }
        for (column, value) in [(5, seen.get::<u32>(&["Status"])), (6, seen.get::<u32>(&["Index"]))] {
            if let Some(value) = value {
                row.u32(column, value);
            }
        }
        for (column, code) in [(1, seen.thread), (7, seen.stack)] {
            if let Some(code) = code {
                row.code(column, code);
            }
        }
        row.end()
    }

    /// Sets the name of a handle's key. A new key may have the handle of an earlier one.
    fn name(&mut self, machine: u32, handle: u64, name: String, is_new: bool) {
        let known = self.handles.get(&(machine, handle)).copied();
        let is_other = |base: usize| self.bases[base].as_ref().is_some_and(|known| *known != name);
        let base = match known {
            Some(base) if !(is_new && is_other(base)) => base,
            _ => {
                self.handles.remove(&(machine, handle));
                self.base(machine, handle)
            }
        };
        if !name.is_empty() {
            self.bases[base].get_or_insert(name);
        }
    }

    /// Returns the key that a handle refers to at this time.
    fn base(&mut self, machine: u32, handle: u64) -> usize {
        if let Some(base) = self.handles.get(&(machine, handle)) {
            return *base;
        }
        if self.bases.len() < MAX_NAMES {
            self.bases.push(None);
        }
        let base = self.bases.len() - 1;
        self.handles.insert((machine, handle), base);
        base
    }

    fn row(&mut self, base: Option<usize>, name: String) -> u32 {
        let key = (base, name);
        if let Some(row) = self.rows.get(&key) {
            return *row;
        }
        if self.names.len() < MAX_NAMES {
            self.names.push(key.clone());
        }
        let row = self.names.len() as u32 - 1;
        self.rows.insert(key, row);
        row
    }

    /// Writes the names.
    pub(super) fn write(&self, table: TableId, writer: &mut IndexWriter) -> Result<(), ColumnsError> {
        for (base, remainder) in &self.names {
            let base = base.and_then(|base| self.bases[base].as_deref());
            let parts: Vec<&str> =
                base.into_iter().chain([&**remainder]).filter(|part| !part.is_empty()).collect();
            let mut row = writer.row(table)?;
            for (column, text) in [(0, parts.join("\\").as_str()), (1, base.unwrap_or("")), (2, remainder)] {
                if !text.is_empty() {
                    row.text(column, text);
                }
            }
            row.end()?;
        }
        Ok(())
    }
}
