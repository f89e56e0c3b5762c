//! Tables that are declared by the events, and the properties of these, that their rows are made of.
//!
//! A row stands for one event, or for the time from a start to the stop with the same key.

/// Declares a table whose rows are made of properties.
///
/// Comments are the sentences that describe the table and its columns. `starts` has the events that a row is made of, or
/// that start it; `stops` has those that end it.
macro_rules! property_table {
    (
        $(#[doc = $summary:literal])+
        $table:ident: $name:literal, $title:literal, $scope:expr;
        $(summary by [$($key:literal),+] values [$($value:literal),+];)?
        starts $starts:expr;
        stops $stops:expr;
        $($(#[doc = $about:literal])+ $field:ident: $kind:ty = $from:expr,)+
    ) => {
        $(#[doc = $summary])+
        pub(super) static $table: $crate::rows::declared::Declared = $crate::rows::declared::Declared {
            schema: &etw_columns::TableSchema::new(
                $name,
                $title,
                $crate::rows::columns::sentence(concat!($($summary),+)),
                {
                    const COLUMNS: &[etw_columns::Column] = &[$(
                        $crate::rows::columns::column::<$kind>(stringify!($field), concat!($($about),+))
                    ),+];
                    COLUMNS
                },
            ),
            summary: [
                $(Some($crate::rows::summary::Grouping { by: &[$($key),+], values: &[$($value),+] }),)?
                None,
            ][0],
            starts: $starts,
            stops: $stops,
            scope: $scope,
            values: &[$($from),+],
        };
    };
}

mod clr;
mod files;
mod graphics;
mod memory;
mod system;
mod values;

use etw_columns::{ColumnsError, TableId, TableSchema};
use etw_event::{FileTime, Guid, Record};
use etw_kernel_events::ids::EventId;
use etw_machine::{HashMap, ProcessIndex, ThreadIndex};

use super::source::{EventContext, RowContext, RowSource};
use super::spans::between;
use super::summary::Grouping;
use super::table::RowWriter;
use values::{EventValue, ValueSource};
pub(super) use values::{PendingValue, pending};

/// Maximum number of rows of all tables that wait for their stop; further ones are written without it.
const MAX_OPEN: usize = 1 << 22;

/// A table and how its rows come about.
pub(super) struct Declared {
    pub(super) schema: &'static TableSchema,
    /// How rows are grouped at first.
    pub(super) summary: Option<Grouping>,
    /// The events that a row is made of, or that start it.
    starts: &'static [Kinds],
    /// The events that end a row; empty if a row is one event.
    stops: &'static [Kinds],
    /// To what keys belong.
    scope: Scope,
    /// For each column, where its value comes from.
    values: &'static [ValueSource],
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
    values: Box<[PendingValue]>,
}

impl DeclaredTables {
    pub(super) fn new(writer: &mut RowWriter) -> Result<DeclaredTables, ColumnsError> {
        let tables = ALL.iter().map(|table| writer.table(table.schema)).collect::<Result<_, _>>()?;
        Ok(DeclaredTables { tables, roles: Vec::new(), open: HashMap::default() })
    }

    fn start(&mut self, role: &Role, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let table = ALL[role.table];
        let columns = table.schema.columns.iter();
        let values = table.values.iter().zip(columns).map(|(from, column)| match from {
            ValueSource::Stop(_) | ValueSource::Lasted => PendingValue::None,
            ValueSource::Start(value) => value.value(role.name, column, event, context),
        });
        let values: Box<[PendingValue]> = values.collect();
        if table.stops.is_empty() || self.open.len() >= MAX_OPEN {
            return self.write(role.table, &values, context.writer);
        }
        let open = Open { start: event.record().time(), values };
        if let Some(before) = self.open.insert(key(role, event, context), open) {
            self.write(role.table, &before.values, context.writer);
        }
    }

    fn stop(&mut self, role: &Role, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let Some(mut open) = self.open.remove(&key(role, event, context)) else { return };
        let table = ALL[role.table];
        for ((from, column), pending) in
            table.values.iter().zip(table.schema.columns.iter()).zip(&mut open.values)
        {
            *pending = match from {
                ValueSource::Start(_) => *pending,
                ValueSource::Stop(value) => value.value(role.name, column, event, context),
                ValueSource::Lasted => PendingValue::Nanos(between(open.start, event.record().time())),
            };
        }
        self.write(role.table, &open.values, context.writer);
    }

    fn write(&self, table: usize, values: &[PendingValue], writer: &mut RowWriter) {
        writer.add_to(self.tables[table], |row| {
            for (column, value) in values.iter().enumerate() {
                value.put(row, column);
            }
        });
    }
}

impl RowSource for DeclaredTables {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        !roles(event.record()).is_empty()
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let kind = event.kind as usize;
        if self.roles.len() <= kind {
            self.roles.resize(kind + 1, None);
        }
        let roles = match self.roles[kind].take() {
            Some(roles) => roles,
            None => roles(event.record()),
        };
        for role in &roles {
            match role.is_stop {
                true => self.stop(role, event, context),
                false => self.start(role, event, context),
            }
        }
        self.roles[kind] = Some(roles);
    }

    /// Adds the rows whose stop is not in the trace, in the order of their starts.
    fn finish(&mut self, context: &mut RowContext<'_>) {
        let mut open: Vec<(Key, Open)> = std::mem::take(&mut self.open).into_iter().collect();
        open.sort_by_key(|(key, open)| (key.0, open.start, *key));
        for (key, open) in open {
            self.write(key.0, &open.values, context.writer);
        }
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

fn key(role: &Role, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) -> Key {
    let mut numbers = [0; 2];
    for (number, name) in numbers.iter_mut().zip(role.key) {
        *number = event.get(&[name]).unwrap_or(0);
    }
    let of_header = |id: Option<u32>| id.map_or(u64::MAX, u64::from);
    let of_process = |process: Option<ProcessIndex>| of_header(process.map(|ProcessIndex(row)| row));
    let scope = match ALL[role.table].scope {
        Scope::Machine => 0,
        Scope::Process => of_process(event.process),
        Scope::ProcessIn(names) => {
            let named = event.get::<u32>(names).and_then(|id| context.process(id));
            of_process(named.or(event.process))
        }
        Scope::Thread => of_header(event.thread.map(|ThreadIndex(row)| row)),
        Scope::Processor => event.processor.into(),
    };
    // Keys of several machines are apart.
    (role.table, scope ^ u64::from(event.machine) << 40, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_has_a_source() {
        for table in ALL {
            let name = &table.schema.name;
            assert_eq!(table.schema.columns.len(), table.values.len(), "{name}");
            let needs_stop = table.values.iter().any(|value| !matches!(value, ValueSource::Start(_)));
            assert_eq!(needs_stop, !table.stops.is_empty(), "{name}");
            assert!(table.starts.iter().chain(table.stops).all(|kinds| kinds.key.len() <= 2), "{name}");
        }
    }
}
