//! Tables with a row for each event, request, switch or sample, as chunks of columns: what pivots, viewers and queries
//! count.

/// Returns columns of a table that is declared in code.
macro_rules! columns {
    ($($column:expr),* $(,)?) => {{
        const COLUMNS: &[etw_columns::Column] = &[$($column),*];
        COLUMNS
    }};
}

mod activities;
mod columns;
mod commits;
mod conditions;
mod connections;
mod declared;
mod disks;
mod ends;
mod event_tables;
mod frames;
mod heaps;
mod kinds;
mod labels;
mod lives;
mod losses;
mod objects;
mod period;
mod put;
mod regions;
mod registry;
mod schemas;
mod seen;
mod single;
mod snapshots;
pub(crate) mod sources;

use etw_columns::{ColumnsError, Index, IndexWriter, TableSchema};
use etw_consumer::{Event, Overview, Stack, Statistics, Trace};
use etw_event::{PointerSize, Record};
use etw_symbols::Symbolizer;

use crate::addresses::has_pointers_of_system;
use crate::addresses::{KERNEL_32, KERNEL_64};
use crate::facts::{Called, DiskDone, Fact, FileDone, HardFault, Sampled, Switched};
use crate::maps::HashMap;
use crate::names::{Names, Sources, Space};
use crate::processes::ThreadIndex;
use crate::{Analysis, Machines, Window};
use activities::Activities;
use commits::Commits;
pub use conditions::{RowFilterError, column_path, row_filter};
use connections::Connections;
use declared::{DeclaredTables, Pen};
use disks::Disks;
use etw_kernel_events::ids::{Class, EventId};
use event_tables::EventTables;
pub use event_tables::{EventKinds, EventTable, KindKey};
use frames::Frames;
use heaps::Heaps;
use kinds::Kinds;
pub use labels::{RowLabel, row_label};
use lives::Lives;
use objects::Objects;
pub use period::in_window;
use put::put;
use regions::RegionRows;
pub use regions::{Regions, RegionsError};
use registry::Registry;
use schemas::Tables;
use seen::Seen;
use single::operation;
use snapshots::snapshots;

/// Fills the tables of a trace, from its events in time order.
///
/// ```no_run
/// use etw_analysis::RowTables;
/// use etw_columns::{Aggregate, IndexWriter, Pivot};
/// use etw_consumer::Trace;
/// use etw_symbols::Symbolizer;
///
/// let mut trace = Trace::open_file("trace.etl")?;
/// let stacks = trace.stacks()?;
/// let mut tables = RowTables::new(IndexWriter::in_memory())?;
/// trace.for_each_layout(|event| tables.add(event, &stacks.of(event.record)))?;
/// let index = tables.finish(&Symbolizer::from_environment()?)?;
/// let disk = index.table("disk").expect("it is one of the tables");
/// let size = disk.schema().column("size").expect("it is one of the columns");
/// println!("{:?}", Pivot::new([], [Aggregate::Sum(size)]).run(disk, 2)?.total);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Besides what the index writer needs, memory grows as that of [`Analysis`], and with the number of different addresses
/// in stacks.
#[derive(Debug)]
pub struct RowTables {
    analysis: Analysis,
    writer: IndexWriter,
    tables: Tables,
    kinds: Kinds,
    frames: Frames,
    declared: DeclaredTables,
    event_tables: EventTables,
    objects: Objects,
    disks: Disks,
    heaps: Heaps,
    /// Stacks of operations on files that have not ended, by machine and IRP.
    operations: HashMap<(u32, u64), u32>,
    /// The stack of the operation that the current event ends.
    operation_stack: Option<u32>,
    lives: Lives,
    commits: Commits,
    registry: Registry,
    activities: Activities,
    regions: RegionRows,
    connections: Connections,
    /// The stacks at which threads were left, where switches have those.
    left: HashMap<ThreadIndex, u32>,
    /// Whether addresses of the kernel have 4 bytes.
    is_32_bit: bool,
    /// The first error of the writer, after which nothing is added.
    error: Option<ColumnsError>,
}

/// Returns the declarations of all tables.
pub fn row_tables() -> impl ExactSizeIterator<Item = &'static TableSchema> {
    schemas::ALL.iter().copied()
}

impl RowTables {
    /// Starts the tables of a trace.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::Schema`] if the writer has one of the tables already.
    pub fn new(mut writer: IndexWriter) -> Result<RowTables, ColumnsError> {
        let tables = Tables::new(&mut writer)?;
        let kinds = Kinds::new(tables.event_kinds);
        let declared = DeclaredTables::new(&mut writer)?;
        Ok(RowTables {
            analysis: Analysis::new(Window::ALL),
            writer,
            tables,
            kinds,
            frames: Frames::default(),
            declared,
            event_tables: EventTables::default(),
            objects: Objects::default(),
            disks: Disks::default(),
            heaps: Heaps::default(),
            operations: HashMap::default(),
            operation_stack: None,
            lives: Lives::default(),
            commits: Commits::default(),
            registry: Registry::default(),
            activities: Activities::default(),
            regions: RegionRows::default(),
            connections: Connections::default(),
            left: HashMap::default(),
            is_32_bit: false,
            error: None,
        })
    }

    /// Sets the machines of the events; without it, all events are of one machine.
    #[must_use]
    pub fn of_machines(mut self, machines: Machines) -> RowTables {
        self.analysis = self.analysis.of_machines(machines);
        self
    }

    /// Adds tables of kinds of events, with a row for each event.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::Schema`] if a table is given twice.
    pub fn of_events(
        mut self,
        tables: impl IntoIterator<Item = EventTable>,
    ) -> Result<RowTables, ColumnsError> {
        for table in tables {
            self.event_tables.add(table, &mut self.writer)?;
        }
        Ok(self)
    }

    /// Sets the regions of interest to find. They are found in events that are added afterwards.
    #[must_use]
    pub fn of_regions(mut self, regions: Regions) -> RowTables {
        self.regions = RegionRows::new(regions);
        self
    }

    /// Adds an event with its stack. [`RowTables::finish`] returns the first error.
    pub fn add(&mut self, event: &Event<'_>, stack: &Stack<'_>) {
        if self.error.is_none() {
            self.error = self.try_add(event, stack).err();
        }
    }

    fn try_add(&mut self, event: &Event<'_>, stack: &Stack<'_>) -> Result<(), ColumnsError> {
        self.analysis.add(event);
        let record = event.record;
        let id = EventId::from_record(record);
        if id.is_some_and(has_pointers_of_system) {
            self.is_32_bit = record.pointer_size() == PointerSize::Four;
        }
        if id.is_some_and(|id| id.class() == Class::StackWalk) {
            return Ok(());
        }
        let fact = self.analysis.fact;
        let thread = match fact {
            Some(Fact::Switch(Switched { to, .. })) => Some(to),
            Some(Fact::Sample(Sampled { thread, .. })) => Some(thread),
            Some(Fact::Disk(DiskDone { thread, .. })) => thread,
            Some(
                Fact::File(FileDone { thread, .. })
                | Fact::Fault(HardFault { thread, .. })
                | Fact::Call(Called { thread, .. }),
            ) => Some(thread),
            Some(Fact::Interrupt(_)) => None,
            Some(Fact::Network(_)) | None => self.thread_of(record),
        };
        let code = self.stack(record, thread, stack)?;
        self.event(event, thread, code)?;
        if let Some(Fact::Network(transfer)) = &fact {
            self.connections.add(record.time(), transfer, self.tables.connections, &mut self.writer)?;
        }
        match fact {
            Some(Fact::Switch(switched)) => {
                let waited_at = self.waited_at(&switched, stack, code);
                self.switch(record, &switched, [code, waited_at])
            }
            Some(Fact::Sample(sampled)) => self.sample(record, &sampled, code),
            Some(Fact::Disk(done)) => self.disk(record, &done),
            Some(Fact::File(done)) => self.file(&done),
            Some(Fact::Fault(fault)) => self.fault(record, &fault, code),
            Some(Fact::Interrupt(interrupt)) => self.interrupt(record, &interrupt),
            Some(Fact::Call(call)) => self.call(record, &call),
            Some(Fact::Network(transfer)) => self.transfer(record, &transfer, code),
            None => Ok(()),
        }
    }

    /// Returns the thread in the header of an event.
    fn thread_of(&mut self, record: &Record<'_>) -> Option<ThreadIndex> {
        let processes = &mut self.analysis.processes;
        let id = record.thread_id()?;
        // -1 stands for no process.
        Some(match record.process_id().filter(|process| *process != u32::MAX) {
            Some(process) if id != 0 => processes.thread_of(id, process),
            _ => processes.thread_at(id),
        })
    }

    /// Returns the code of an event's stack.
    fn stack(
        &mut self,
        record: &Record<'_>,
        thread: Option<ThreadIndex>,
        stack: &Stack<'_>,
    ) -> Result<Option<u32>, ColumnsError> {
        if stack.is_empty() {
            return Ok(None);
        }
        let RowTables { analysis, writer, frames, is_32_bit, .. } = self;
        let own = stack.thread().or(record.thread_id()).map(|id| analysis.processes.thread_at(id));
        let process = own.or(thread).and_then(|thread| analysis.processes.thread(thread).process);
        let (machine, versions) = (analysis.processes.machine(), &analysis.samples.versions);
        let limit = if *is_32_bit { KERNEL_32 } else { KERNEL_64 };
        let now = versions.now(process);
        let space_of = |of_kernel: bool, instruction| match process {
            _ if of_kernel => Space::Kernel(machine),
            Some(process) => Space::Process(process, versions.at(Some(process), instruction, now)),
            None => Space::Unknown,
        };
        frames.stack(stack.addresses(), |address| address >= limit, space_of, writer)
    }

    /// Returns the stack at which the new thread of a switch had been left, and keeps that of the old one: the stack of a
    /// switch is that of the thread that is entered (Windows), or of the one that is left.
    fn waited_at(&mut self, switched: &Switched, stack: &Stack<'_>, code: Option<u32>) -> Option<u32> {
        let left = self.left.remove(&switched.to);
        let of = stack.thread().map(|id| self.analysis.processes.thread_at(id));
        if of == Some(switched.to) {
            return code;
        }
        if let (Some(from), Some(code)) = (of, code) {
            self.left.insert(from, code);
        }
        left
    }

    fn event(
        &mut self,
        event: &Event<'_>,
        thread: Option<ThreadIndex>,
        stack: Option<u32>,
    ) -> Result<(), ColumnsError> {
        let record = event.record;
        let kind = self.kinds.row_of(event, &mut self.writer)?;
        let processes = &mut self.analysis.processes;
        let of_thread = thread.and_then(|thread| processes.thread(thread).process);
        let told = record.process_id().filter(|process| *process != u32::MAX);
        let process = of_thread.or_else(|| told.map(|id| processes.at(id)));
        let processor = processes.machines.processor(record) as u32;
        let mut row = self.writer.row(self.tables.events)?;
        row.time(0, record.time()).code(1, kind);
        put(&mut row, 2, process.map(|process| process.0));
        put(&mut row, 3, thread.map(|thread| thread.0));
        row.u32(4, processor).u32(5, record.as_bytes().len() as u32);
        put(&mut row, 6, stack);
        row.end()?;
        let (process, thread) = (process.map(|process| process.0), thread.map(|thread| thread.0));
        self.parts(&Seen { event, id: EventId::from_record(record), kind, process, thread, processor, stack })
    }

    /// Adds what an event says to the tables of its properties.
    fn parts(&mut self, seen: &Seen<'_, '_>) -> Result<(), ColumnsError> {
        let RowTables {
            analysis, writer, tables, frames, declared, event_tables, objects, is_32_bit, ..
        } = self;
        let processes = &mut analysis.processes;
        objects.event(seen, processes);
        let record = seen.record();
        if let Some(id) = seen.id.or_else(|| EventId::from_provider_record(record)) {
            self.lives.event(id, seen, processes);
        }
        let machine = processes.machine();
        self.disks.event(seen, machine);
        self.heaps.event(seen, machine, tables.heap, writer)?;
        self.operation_stack = operation(seen, machine, &mut self.operations);
        self.activities.event(seen);
        self.regions.event(seen, writer)?;
        self.commits.event(seen, processes, tables.virtual_alloc, writer)?;
        self.registry.event(seen, processes.machine(), tables.registry, writer)?;
        snapshots(seen, processes, tables.snapshots, writer)?;
        let (versions, is_32_bit) = (&analysis.samples.versions, *is_32_bit);
        let files = &mut analysis.files;
        let pen = &mut Pen { writer, processes, frames, objects, files, versions, is_32_bit };
        declared.event(seen, pen)?;
        event_tables.event(seen, pen)
    }

    /// Adds what the traces lack, after all events.
    ///
    /// [`RowTables::finish`] returns the first error.
    pub fn add_losses(&mut self, statistics: &Statistics) {
        if self.error.is_none() {
            self.error = losses::write(statistics, self.tables.losses, &mut self.writer).err();
        }
    }

    /// Adds the traces and what is known of their buffers, at any time.
    ///
    /// [`RowTables::finish`] returns the first error.
    pub fn add_traces(&mut self, trace: &Trace, overview: &Overview) {
        if self.error.is_none() {
            self.error = sources::write(trace, overview, &self.tables, &mut self.writer).err();
        }
    }

    /// Whether the writer has failed, so that [`RowTables::finish`] returns an error.
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Ends the pass: looks up names, adds the tables of processes, threads, images, files and frames, and completes the
    /// index.
    ///
    /// # Errors
    ///
    /// Returns the error of the writer, which may be one of an earlier event.
    pub fn finish(mut self, symbolizer: &Symbolizer) -> Result<Index, ColumnsError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.analysis.processes.label();
        self.analysis.methods.finish();
        self.operation_stack = None;
        for done in self.analysis.file_io.finish() {
            self.file(&done)?;
        }
        self.left_over()?;
        self.processes()?;
        self.images()?;
        for file in self.analysis.files.all().collect::<Vec<_>>() {
            let path = self.analysis.files.label(file);
            self.writer.row(self.tables.files)?.text(0, &path).end()?;
        }
        let sources = Sources {
            images: &self.analysis.images,
            kernel_functions: &self.analysis.kernel_functions,
            methods: &self.analysis.methods,
            has_tiers: false,
            processes: &self.analysis.processes,
            symbolizer,
        };
        let names = Names::find(&sources, self.frames.places());
        let table = self.tables.frames;
        self.frames.write(&names, table, &mut self.writer)?;
        self.writer.finish()
    }
}
