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
mod event_tables;
mod frames;
mod heaps;
mod kinds;
mod lives;
mod losses;
mod objects;
mod period;
mod regions;
mod registry;
mod schemas;
mod seen;
pub(crate) mod sources;

use std::collections::HashMap;

use etw_columns::{ColumnsError, Index, IndexWriter, Row, TableId, TableSchema};
use etw_consumer::{Event, Overview, Stack, Statistics, Trace};
use etw_event::{FileTime, PointerSize, Record, classes};
use etw_schema::Struct;
use etw_symbols::Symbolizer;

use crate::class::{Group, class};
use crate::facts::{
    Called, DiskDone, Fact, FileDone, HardFault, Interrupted, Sampled, Switched, Transferred,
};
use crate::names::{Names, Sources, Space};
use crate::payload::{KERNEL_32, KERNEL_64};
use crate::processes::{ProcessIndex, Processes, ThreadIndex};
use crate::switches::{ReadiedBy, reason_name};
use crate::{Analysis, Duration, Machines, Window};
use activities::Activities;
use commits::Commits;
pub use conditions::{RowFilterError, column_path, row_filter};
use connections::Connections;
use declared::{DeclaredTables, Pen};
use disks::Disks;
use event_tables::EventTables;
pub use event_tables::{EventKinds, EventTable};
use frames::Frames;
use heaps::Heaps;
use kinds::Kinds;
use lives::Lives;
use objects::Objects;
pub use period::in_window;
use regions::RegionRows;
pub use regions::{Regions, RegionsError};
use registry::Registry;
use schemas::Tables;
use seen::Seen;

/// Bytes of a page, on all processors that Windows runs on.
const PAGE: u64 = 4096;

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
            operations: HashMap::new(),
            operation_stack: None,
            lives: Lives::default(),
            commits: Commits::default(),
            registry: Registry::default(),
            activities: Activities::default(),
            regions: RegionRows::default(),
            connections: Connections::default(),
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
        let class = class(record);
        if matches!(class, Some((Group::Stack | Group::PerfInfo | Group::Thread, _))) {
            self.is_32_bit = record.pointer_size() == PointerSize::Four;
        }
        if matches!(class, Some((Group::Stack, _))) {
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
            Some(Fact::Switch(switched)) => self.switch(record, &switched, code),
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
        self.parts(&Seen { event, kind, process, thread, processor, stack })
    }

    /// Adds what an event says to the tables of its properties.
    fn parts(&mut self, seen: &Seen<'_, '_>) -> Result<(), ColumnsError> {
        let RowTables {
            analysis, writer, tables, frames, declared, event_tables, objects, is_32_bit, ..
        } = self;
        let processes = &mut analysis.processes;
        objects.event(seen, processes);
        if let Some(class) = class(seen.record()) {
            self.lives.event(class, seen, processes);
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
            let tables = (self.tables.traces, self.tables.buffers);
            self.error = sources::write(trace, overview, tables, &mut self.writer).err();
        }
    }

    /// Whether the writer has failed, so that [`RowTables::finish`] returns an error.
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    fn switch(
        &mut self,
        record: &Record<'_>,
        switched: &Switched,
        stack: Option<u32>,
    ) -> Result<(), ColumnsError> {
        let processor = self.analysis.processes.machines.processor(record) as u32;
        let mut row = self.writer.row(self.tables.cpu_precise)?;
        row.time(0, record.time()).code(1, switched.to.0).code(2, switched.from.0).u32(3, processor);
        row.duration(4, nanos(switched.ran));
        if let Some(reason) = switched.reason {
            row.duration(5, nanos(switched.waited)).duration(6, nanos(switched.ready));
            put_reason(&mut row, 7, reason);
        }
        match switched.readied_by {
            ReadiedBy::Thread(thread) => drop(row.text(8, "thread").code(9, thread.0)),
            ReadiedBy::Interrupt => drop(row.text(8, "interrupt")),
            ReadiedBy::Nobody | ReadiedBy::Unknown => {}
        }
        row.u32(10, switched.to_priority.max(0).unsigned_abs().into());
        put_reason(&mut row, 11, switched.from_reason);
        row.u32(12, switched.from_state.into());
        put(&mut row, 13, stack);
        row.end()
    }

    fn sample(
        &mut self,
        record: &Record<'_>,
        sampled: &Sampled,
        stack: Option<u32>,
    ) -> Result<(), ColumnsError> {
        let analysis = &self.analysis;
        let processor = analysis.processes.machines.processor(record) as u32;
        let limit = if self.is_32_bit { KERNEL_32 } else { KERNEL_64 };
        let space = match analysis.processes.thread(sampled.thread).process {
            _ if sampled.instruction >= limit => Space::Kernel(analysis.processes.machine()),
            Some(process) => {
                let versions = &analysis.samples.versions;
                let version = versions.at(Some(process), sampled.instruction, versions.now(Some(process)));
                Space::Process(process, version)
            }
            None => Space::Unknown,
        };
        let frame = self.frames.of(space, sampled.instruction);
        let mut row = self.writer.row(self.tables.cpu_sampled)?;
        row.time(0, record.time()).code(1, sampled.thread.0).u32(2, processor).code(3, frame);
        row.duration(4, nanos(sampled.weight)).u64(5, sampled.count);
        put(&mut row, 6, stack);
        row.end()
    }

    fn disk(&mut self, record: &Record<'_>, done: &DiskDone) -> Result<(), ColumnsError> {
        let machine = self.analysis.processes.machine();
        let disk = self.analysis.disk.label(machine, done.disk);
        let start = FileTime(record.time().0.saturating_sub(units(done.took)));
        let service = self.disks.done(machine, done.disk, start, record.time());
        let mut row = self.writer.row(self.tables.disk)?;
        row.time(0, record.time());
        put(&mut row, 1, done.thread.map(|thread| thread.0));
        row.text(2, &disk).text(3, done.operation);
        put(&mut row, 4, done.file.map(|file| file.number()));
        row.u64(5, done.bytes.into());
        if let Some(offset) = done.offset {
            row.u64(6, offset);
        }
        row.duration(7, nanos(done.took)).u32(8, done.irp_flags);
        row.time(9, start).duration(10, service);
        put_text(&mut row, 11, disks::priority(done.irp_flags));
        put(&mut row, 12, self.disks.stack);
        row.end()
    }

    fn file(&mut self, done: &FileDone) -> Result<(), ColumnsError> {
        let mut row = self.writer.row(self.tables.file_io)?;
        row.time(0, done.begin).code(1, done.thread.0).text(2, done.operation).code(3, done.file.number());
        row.u64(4, done.bytes);
        if let Some(took) = done.took {
            row.duration(5, nanos(took));
        }
        if let Some(status) = done.status {
            row.u32(6, status);
        }
        if let Some(took) = done.took {
            row.time(7, FileTime(done.begin.0.saturating_add(units(took))));
        }
        put(&mut row, 8, self.operation_stack);
        row.end()
    }

    fn fault(
        &mut self,
        record: &Record<'_>,
        fault: &HardFault,
        stack: Option<u32>,
    ) -> Result<(), ColumnsError> {
        let mut row = self.writer.row(self.tables.hard_faults)?;
        row.time(0, record.time()).code(1, fault.thread.0);
        put(&mut row, 2, fault.file.map(|file| file.number()));
        row.u64(3, fault.bytes.into()).duration(4, nanos(fault.took)).u64(5, fault.address);
        put(&mut row, 6, stack);
        row.u64(7, fault.offset);
        row.end()
    }

    fn interrupt(&mut self, record: &Record<'_>, interrupt: &Interrupted) -> Result<(), ColumnsError> {
        let processes = &self.analysis.processes;
        let (machine, processor) = (processes.machine(), processes.machines.processor(record) as u32);
        let routine = self.frames.of(Space::Kernel(machine), interrupt.routine);
        let mut row = self.writer.row(self.tables.dpc_isr)?;
        row.time(0, record.time()).u32(1, processor).text(2, interrupt.kind).code(3, routine);
        if let Some(vector) = interrupt.vector {
            row.u32(4, vector.into());
        }
        row.duration(5, nanos(interrupt.took));
        row.end()
    }

    fn call(&mut self, record: &Record<'_>, call: &Called) -> Result<(), ColumnsError> {
        let machine = self.analysis.processes.machine();
        let routine = self.frames.of(Space::Kernel(machine), call.address);
        let mut row = self.writer.row(self.tables.syscalls)?;
        row.time(0, record.time()).code(1, call.thread.0).code(2, routine);
        row.duration(3, nanos(call.took)).u32(4, call.status);
        row.end()
    }

    fn transfer(
        &mut self,
        record: &Record<'_>,
        transfer: &Transferred,
        stack: Option<u32>,
    ) -> Result<(), ColumnsError> {
        let Transferred { process, protocol, operation, bytes, local, remote } = *transfer;
        let mut row = self.writer.row(self.tables.network)?;
        row.time(0, record.time()).code(1, process.0).text(2, protocol).text(3, operation);
        row.text(4, &local.0.to_string()).u32(5, local.1.into());
        row.text(6, &remote.0.to_string()).u32(7, remote.1.into()).u64(8, bytes);
        put(&mut row, 9, stack);
        row.end()
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

    /// Writes the rows that wait for an end which is not in the trace, and tables that are known at the end.
    fn left_over(&mut self) -> Result<(), ColumnsError> {
        let RowTables { analysis, writer, tables, frames, declared, objects, is_32_bit, .. } = self;
        let (processes, versions) = (&mut analysis.processes, &analysis.samples.versions);
        self.commits.finish(processes, tables.virtual_alloc, writer)?;
        self.connections.finish(tables.connections, writer)?;
        self.activities.write(tables.activities, writer)?;
        self.regions.write(tables.regions_of_interest, writer)?;
        self.registry.write(tables.registry_keys, writer)?;
        let is_32_bit = *is_32_bit;
        self.heaps.finish(tables.heap, writer)?;
        let disk = &analysis.disk;
        self.disks.write(|machine, number| disk.label(machine, number), tables.disk_queue, writer)?;
        let files = &mut analysis.files;
        declared.finish(&mut Pen { writer, processes, frames, objects, files, versions, is_32_bit })?;
        objects.write((tables.object_types, tables.gpu_contexts), writer)?;
        for collected in analysis.dotnet.collected() {
            let mut row = writer.row(tables.gc)?;
            row.time(0, collected.start).code(3, collected.process.0).u32(4, collected.number);
            if let Some(end) = collected.end {
                row.time(1, end).duration(2, end.0.saturating_sub(collected.start.0).saturating_mul(100));
            }
            if let Some(generation) = collected.generation {
                row.u32(5, generation);
            }
            put_text(&mut row, 6, collected.kind);
            put_text(&mut row, 7, collected.reason);
            for (column, time) in [(8, collected.pause), (9, collected.suspension)] {
                if let Some(time) = time {
                    row.duration(column, nanos(time));
                }
            }
            let sizes = [(10, collected.before), (11, collected.after), (12, collected.promoted)];
            for (column, size) in sizes {
                if let Some(size) = size {
                    row.u64(column, size);
                }
            }
            row.end()?;
        }
        Ok(())
    }

    fn processes(&mut self) -> Result<(), ColumnsError> {
        let RowTables { analysis, writer, tables, lives, frames, is_32_bit, .. } = self;
        let table = tables.processes;
        for (index, process) in analysis.processes.all() {
            let name = process.shown_name();
            let mut row = writer.row(table)?;
            row.text(0, &format!("{} ({})", name.unwrap_or("?"), process.id));
            put_text(&mut row, 1, name);
            row.u32(2, process.id);
            put(&mut row, 3, process.parent.map(|ProcessIndex(parent)| parent));
            if let Some(parent) = process.parent_id {
                row.u32(4, parent);
            }
            for (column, time) in [(5, process.start), (6, process.end)] {
                if let Some(time) = time {
                    row.time(column, time);
                }
            }
            if let Some(status) = process.exit_status {
                row.i64(7, status.into());
            }
            put_text(&mut row, 8, process.command_line.as_deref());
            if let (Some(start), Some(end)) = (process.start, process.end) {
                row.duration(9, end.0.saturating_sub(start.0).saturating_mul(100));
            }
            if let Some(life) = lives.processes.get(&index) {
                if let Some(session) = life.session {
                    row.u32(10, session);
                }
                put_text(&mut row, 11, life.package.as_deref());
                put(&mut row, 12, life.stack);
            }
            row.end()?;
        }
        let table = tables.threads;
        for index in analysis.processes.threads() {
            let thread = analysis.processes.thread(index);
            let life = lives.threads.get(&index).copied().unwrap_or_default();
            let start_function = life.start_address.map(|address| {
                let limit = if *is_32_bit { KERNEL_32 } else { KERNEL_64 };
                let space = match thread.process {
                    _ if address >= limit => Space::Kernel(thread.machine),
                    Some(process) => {
                        let versions = &analysis.samples.versions;
                        let now = versions.now(Some(process));
                        Space::Process(process, versions.at(Some(process), address, now))
                    }
                    None => Space::Unknown,
                };
                frames.of(space, address)
            });
            let mut row = writer.row(table)?;
            row.u32(0, thread.id);
            put(&mut row, 1, thread.process.map(|ProcessIndex(process)| process));
            put_text(&mut row, 2, thread.name.as_deref());
            for (column, time) in [(3, life.start), (4, life.end)] {
                if let Some(time) = time {
                    row.time(column, time);
                }
            }
            if let (Some(start), Some(end)) = (life.start, life.end) {
                row.duration(5, end.0.saturating_sub(start.0).saturating_mul(100));
            }
            put(&mut row, 6, start_function);
            if let Some(teb) = life.teb {
                row.u64(7, teb);
            }
            put(&mut row, 8, life.stack);
            row.end()?;
        }
        Ok(())
    }

    fn images(&mut self) -> Result<(), ColumnsError> {
        let RowTables { analysis, writer, tables, lives, .. } = self;
        let table = tables.images;
        for (process, base, end, image) in analysis.images.ranges() {
            let mut row = writer.row(table)?;
            put(&mut row, 0, process.map(|ProcessIndex(process)| process));
            row.text(1, &image.path).text(2, image.name()).u64(3, base).u64(4, end - base);
            if let Some(life) = lives.images.get(&(process, base)) {
                for (column, time) in [(5, life.load), (6, life.unload)] {
                    if let Some(time) = time {
                        row.time(column, time);
                    }
                }
                put(&mut row, 7, life.stack);
                if life.time_stamp != 0 {
                    row.u32(8, life.time_stamp);
                }
                if let Some(version) = lives.versions.get(&(life.time_stamp, life.size)) {
                    for (column, text) in (9..).zip(&version.texts) {
                        put_text(&mut row, column, text.as_deref());
                    }
                }
            }
            row.end()?;
        }
        Ok(())
    }
}

/// Adds the counters of processes in an event of the memory manager (`MemInfoWS`).
fn snapshots(
    seen: &Seen<'_, '_>,
    processes: &mut Processes,
    table: TableId,
    writer: &mut IndexWriter,
) -> Result<(), ColumnsError> {
    let record = seen.record();
    if record.provider_id() != classes::PAGE_FAULT || record.descriptor().opcode.0 != 125 {
        return Ok(());
    }
    for counted in seen.get::<Vec<Struct<'_>>>(&["Processes"]).unwrap_or_default() {
        let Ok(id) = counted.get::<u32>("ProcessId") else { continue };
        let bytes = |name: &str| counted.get::<u64>(name).ok().map(|pages| pages.saturating_mul(PAGE));
        let (commit, shared) = (bytes("CommitPageCount"), bytes("SharedCommitInPages"));
        let total = commit.map(|commit| commit.saturating_add(shared.unwrap_or(0)));
        let sizes = [
            (2, bytes("WorkingSetPageCount")),
            (3, bytes("PrivateWorkingSetPageCount")),
            (4, commit),
            (5, shared),
            (6, total),
            (7, bytes("VirtualSizeInPages")),
        ];
        let process = processes.at(id);
        let mut row = writer.row(table)?;
        row.time(0, record.time()).code(1, process.0);
        for (column, size) in sizes {
            if let Some(size) = size {
                row.u64(column, size);
            }
        }
        row.end()?;
    }
    Ok(())
}

fn put(row: &mut Row<'_>, column: usize, code: Option<u32>) {
    if let Some(code) = code {
        row.code(column, code);
    }
}

fn put_text(row: &mut Row<'_>, column: usize, text: Option<&str>) {
    if let Some(text) = text {
        row.text(column, text);
    }
}

fn put_reason(row: &mut Row<'_>, column: usize, reason: u8) {
    match reason_name(reason) {
        Some(name) => row.text(column, name),
        None => row.text(column, &reason.to_string()),
    };
}

/// Returns the stack of the operation on a file that an event ends, or keeps that of one that it starts.
fn operation(seen: &Seen<'_, '_>, machine: u32, operations: &mut HashMap<(u32, u64), u32>) -> Option<u32> {
    /// Maximum number of operations that wait for their end.
    const MAX_OPERATIONS: usize = 1 << 20;
    const END: u8 = 76;
    let record = seen.record();
    let kind = record.descriptor().opcode.0;
    if record.provider_id() != classes::FILE_IO || !matches!(kind, 64..=81) {
        return None;
    }
    let irp = seen.get::<u64>(&["IrpPtr"])?;
    if kind == END {
        return operations.remove(&(machine, irp));
    }
    if let Some(stack) = seen.stack.filter(|_| operations.len() < MAX_OPERATIONS) {
        operations.insert((machine, irp), stack);
    }
    None
}

/// Returns a duration in units of 100 ns.
fn units(duration: Duration) -> i64 {
    i64::try_from(duration.0).unwrap_or(i64::MAX)
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.nanos()).unwrap_or(i64::MAX)
}
