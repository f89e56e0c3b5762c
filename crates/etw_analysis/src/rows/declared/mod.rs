//! Tables that are declared by the events, and the properties of these, that their rows are made of.
//!
//! A row stands for one event, or for the time from a start to the stop with the same key.

mod clr;
mod files;
mod graphics;
mod memory;
mod system;
mod values;

use etw_columns::{ColumnsError, IndexWriter, Row, TableId, TableSchema};
use etw_event::{FileTime, Guid, Record};
use etw_kernel_events::ids::EventId;

use super::frames::Frames;
use super::objects::Objects;
use super::seen::Seen;
use crate::file_names::FileNames;
use crate::managed::CodeVersions;
use crate::maps::HashMap;
use crate::processes::Processes;
use values::{Fill, Of};
pub(super) use values::{Held, held};

/// Maximum number of rows of all tables that wait for their stop; further ones are written without it.
const MAX_OPEN: usize = 1 << 22;

/// A table and how its rows come about.
pub(super) struct Declared {
    pub(super) schema: &'static TableSchema,
    /// The events that a row is made of, or that start it.
    starts: &'static [Kinds],
    /// The events that end a row; empty if a row is one event.
    stops: &'static [Kinds],
    /// To what keys belong.
    scope: Scope,
    /// For each column, where its value comes from.
    values: &'static [Fill],
}

/// Events of a provider or class.
struct Kinds {
    provider: Guid,
    /// Id of the event, or type of a classic one, and what it is called in a row.
    events: &'static [(u16, &'static str)],
    /// The properties whose numbers are the key of a row; a missing one is 0.
    key: &'static [&'static str],
}

/// Returns how [`Kinds::events`] has an event of a class.
const fn opcode(id: EventId) -> u16 {
    id.opcode() as u16
}

/// To what the key of a row belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Machine,
    Process,
    /// The process with the id in one of these properties, or else that of the header.
    ProcessIn(&'static [&'static str]),
    Thread,
    Processor,
}

/// What rows are written with.
pub(super) struct Pen<'p> {
    pub(super) writer: &'p mut IndexWriter,
    pub(super) processes: &'p mut Processes,
    pub(super) frames: &'p mut Frames,
    pub(super) objects: &'p mut Objects,
    pub(super) files: &'p mut FileNames,
    pub(super) versions: &'p CodeVersions,
    pub(super) is_32_bit: bool,
}

impl Pen<'_> {
    /// Returns the row of the process with this id.
    pub(super) fn process(&mut self, id: u32) -> Option<u32> {
        (id != u32::MAX).then(|| self.processes.at(id).0)
    }
}

/// All declared tables, in the order of lists.
pub(super) static ALL: &[&Declared] = &[
    &memory::PAGE_FAULTS,
    &memory::POOL,
    &memory::PROCESS_COUNTERS,
    &memory::UTILIZATION,
    &system::HANDLES,
    &system::SERVICES,
    &system::MARKS,
    &system::IDLE_STATES,
    &system::FREQUENCY,
    &system::POWER,
    &system::WINDOW_FOCUS,
    &system::UI_DELAYS,
    &files::MINI_FILTERS,
    &files::LOADER,
    &files::WININET_REQUESTS,
    &graphics::DMA_PACKETS,
    &graphics::QUEUE_PACKETS,
    &clr::JIT,
    &clr::ALLOCATIONS,
    &clr::EXCEPTIONS,
    &clr::CONTENTION,
    &clr::THREAD_POOL,
    &clr::ASSEMBLIES,
];

/// Identifies a row that waits for its stop: table, what the key belongs to, and the key.
type Key = (usize, u64, [u64; 2]);

/// What an event is to a table: a start or a stop, with the name and the key's properties.
#[derive(Debug, Clone, Copy)]
struct Role {
    table: usize,
    is_stop: bool,
    name: &'static str,
    key: &'static [&'static str],
}

/// The rows of the declared tables.
#[derive(Debug)]
pub(super) struct DeclaredTables {
    tables: Vec<TableId>,
    /// By the row of the event's kind: what it is to tables, stops first.
    roles: Vec<Option<Box<[Role]>>>,
    open: HashMap<Key, Open>,
}

#[derive(Debug)]
struct Open {
    start: FileTime,
    values: Box<[Held]>,
}

impl DeclaredTables {
    pub(super) fn new(writer: &mut IndexWriter) -> Result<DeclaredTables, ColumnsError> {
        let tables = ALL.iter().map(|table| writer.table(table.schema)).collect::<Result<_, _>>()?;
        Ok(DeclaredTables { tables, roles: Vec::new(), open: HashMap::default() })
    }

    /// Adds an event.
    pub(super) fn event(&mut self, seen: &Seen<'_, '_>, pen: &mut Pen<'_>) -> Result<(), ColumnsError> {
        let kind = seen.kind as usize;
        if self.roles.len() <= kind {
            self.roles.resize(kind + 1, None);
        }
        let roles = match self.roles[kind].take() {
            Some(roles) => roles,
            None => roles(seen.record()),
        };
        let result = roles.iter().try_for_each(|role| match role.is_stop {
            true => self.stop(role, seen, pen),
            false => self.start(role, seen, pen),
        });
        self.roles[kind] = Some(roles);
        result
    }

    fn start(&mut self, role: &Role, seen: &Seen<'_, '_>, pen: &mut Pen<'_>) -> Result<(), ColumnsError> {
        let table = ALL[role.table];
        let columns = table.schema.columns.iter();
        let values = table.values.iter().zip(columns).map(|(from, column)| match from {
            Fill::Stop(_) | Fill::Lasted => Ok(Held::None),
            Fill::Start(of) => of.value(role.name, column, seen, pen),
        });
        let values: Box<[Held]> = values.collect::<Result<_, _>>()?;
        if table.stops.is_empty() || self.open.len() >= MAX_OPEN {
            return self.write(role.table, &values, pen);
        }
        let open = Open { start: seen.record().time(), values };
        match self.open.insert(key(role, seen, pen), open) {
            Some(before) => self.write(role.table, &before.values, pen),
            None => Ok(()),
        }
    }

    fn stop(&mut self, role: &Role, seen: &Seen<'_, '_>, pen: &mut Pen<'_>) -> Result<(), ColumnsError> {
        let Some(mut open) = self.open.remove(&key(role, seen, pen)) else { return Ok(()) };
        let table = ALL[role.table];
        for ((from, column), held) in
            table.values.iter().zip(table.schema.columns.iter()).zip(&mut open.values)
        {
            *held = match from {
                Fill::Start(_) => *held,
                Fill::Stop(of) => of.value(role.name, column, seen, pen)?,
                Fill::Lasted => Held::nanos(seen.record().time().0.saturating_sub(open.start.0)),
            };
        }
        self.write(role.table, &open.values, pen)
    }

    fn write(&self, table: usize, values: &[Held], pen: &mut Pen<'_>) -> Result<(), ColumnsError> {
        let mut row: Row<'_> = pen.writer.row(self.tables[table])?;
        for (column, held) in values.iter().enumerate() {
            held.put(&mut row, column);
        }
        row.end()
    }

    /// Writes the rows whose stop is not in the trace, in the order of their starts.
    pub(super) fn finish(&mut self, pen: &mut Pen<'_>) -> Result<(), ColumnsError> {
        let mut open: Vec<(Key, Open)> = std::mem::take(&mut self.open).into_iter().collect();
        open.sort_by_key(|(key, open)| (key.0, open.start, *key));
        open.iter().try_for_each(|(key, open)| self.write(key.0, &open.values, pen))
    }
}

/// Returns what events of a kind are to tables. A stop of one row comes before the start of the next one.
fn roles(record: &Record<'_>) -> Box<[Role]> {
    let (provider, descriptor) = (record.provider_id(), record.descriptor());
    let id = if record.kind().is_classic() { descriptor.opcode.0.into() } else { descriptor.id };
    let mut roles = Vec::new();
    for (table, declared) in ALL.iter().enumerate() {
        for (kinds, is_stop) in [(declared.stops, true), (declared.starts, false)] {
            for kinds in kinds.iter().filter(|kinds| kinds.provider == provider) {
                let event = kinds.events.iter().find(|(event, _)| *event == id);
                roles.extend(event.map(|(_, name)| Role { table, is_stop, name, key: kinds.key }));
            }
        }
    }
    roles.into_boxed_slice()
}

fn key(role: &Role, seen: &Seen<'_, '_>, pen: &mut Pen<'_>) -> Key {
    let mut numbers = [0; 2];
    for (number, name) in numbers.iter_mut().zip(role.key) {
        *number = seen.get(&[name]).unwrap_or(0);
    }
    let of_header = |id: Option<u32>| id.map_or(u64::MAX, u64::from);
    let scope = match ALL[role.table].scope {
        Scope::Machine => 0,
        Scope::Process => of_header(seen.process),
        Scope::ProcessIn(names) => {
            let told = seen.get::<u32>(names).and_then(|id| pen.process(id));
            of_header(told.or(seen.process))
        }
        Scope::Thread => of_header(seen.thread),
        Scope::Processor => seen.processor.into(),
    };
    // Keys of several machines are apart.
    (role.table, scope ^ u64::from(pen.processes.machine()) << 40, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_has_a_source() {
        for table in ALL {
            let name = &table.schema.name;
            assert_eq!(table.schema.columns.len(), table.values.len(), "{name}");
            let needs_stop = table.values.iter().any(|value| !matches!(value, Fill::Start(_)));
            assert_eq!(needs_stop, !table.stops.is_empty(), "{name}");
            assert!(table.starts.iter().chain(table.stops).all(|kinds| kinds.key.len() <= 2), "{name}");
        }
    }
}
