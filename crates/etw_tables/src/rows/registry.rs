//! Operations on the registry, with the whole names of keys.

use etw_event::Ticks;
use etw_kernel_events::ids::{self, Class, EventId};
use etw_machine::HashMap;

use super::columns::{Hex, Id, RegistryKey, Span, Stack, Text, Thread, Time};
use super::labels::RowLabel;
use super::source::{EventContext, RowContext, RowSource};
use super::spans::between;
use super::table::table;

table! {
    /// One row for each operation on the registry.
    RegistryRow: "registry", "Registry";
    summary by ["thread.process", "operation", "key"]
        values ["rows", "sum(elapsed_time)", "max(elapsed_time)"];
    /// When it ended.
    time: Time,
    /// Thread that did it.
    thread: Option<Thread>,
    /// What was done, such as `Open`, `QueryValue` or `Close`.
    operation: Text,
    /// Key, and for operations on a value its name.
    key: RegistryKey,
    /// Time that it took, if the event says so.
    elapsed_time: Option<Span>,
    /// NTSTATUS; from 0xC0000000 on a failure.
    status: Option<Hex>,
    /// Number of the value or key that was listed.
    index: Option<Id>,
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Option<Stack>,
}

table! {
    /// One row for each name that operations on the registry use.
    RegistryKeyRow: "registry_keys", "Registry Keys", label RowLabel::single(&["name"]);
    /// Whole name, as far as the trace has it.
    name: Option<Text>,
    /// The part of it that is the key of the operation's handle.
    base: Option<Text>,
    /// The part of it that the operation names.
    remainder: Option<Text>,
}

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

/// Makes rows of operations, and of the keys and names that they use.
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

impl RowSource for Registry {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        event.id.is_some_and(|id| id.class() == Class::Registry)
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let (Some(id), record, machine) = (event.id, event.record(), event.machine) else { return };
        let handle = event.get::<u64>(&["KeyHandle"]).unwrap_or(0);
        let name = event.get::<String>(&["KeyName"]).unwrap_or_default();
        match id {
            ids::Registry::KCB_CREATE | ids::Registry::KCB_RUNDOWN_BEGIN | ids::Registry::KCB_RUNDOWN_END => {
                return self.name(machine, handle, name, id == ids::Registry::KCB_CREATE);
            }
            ids::Registry::KCB_DELETE => {
                self.handles.remove(&(machine, handle));
                return;
            }
            _ => {}
        }
        let operation = OPERATIONS.iter().find(|(one, _)| *one == id);
        let Some((_, operation)) = operation else { return };
        let base = (handle != 0).then(|| self.base(machine, handle));
        let begun = event.get::<i64>(&["InitialTime"]);
        let begun = begun.map(|ticks| record.origin().clock.to_filetime(Ticks(ticks)));
        context.writer.add(RegistryRow {
            time: record.time(),
            thread: event.thread,
            operation,
            key: self.row(base, name),
            elapsed_time: begun.map(|begun| between(begun, record.time()).max(0)),
            status: event.get(&["Status"]),
            index: event.get(&["Index"]),
            stack: event.stack,
        });
    }

    fn finish(&mut self, context: &mut RowContext<'_>) {
        for (base, remainder) in &self.names {
            let base = base.and_then(|base| self.bases[base].as_deref()).filter(|text| !text.is_empty());
            let remainder = Some(&**remainder).filter(|text| !text.is_empty());
            let parts: Vec<&str> = base.into_iter().chain(remainder).collect();
            let name = parts.join("\\");
            let name = Some(&*name).filter(|text| !text.is_empty());
            context.writer.add(RegistryKeyRow { name, base, remainder });
        }
    }
}

impl Registry {
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
}
