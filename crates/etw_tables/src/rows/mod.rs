//! Tables with a row for each event, request, switch or sample, as chunks of columns: what pivots, viewers and queries
//! count.
//!
//! A table is one file: the struct of its rows with the description of each column, and the source that makes rows of
//! events. Tables whose rows are properties of events alone are data ([`declared`]). [`list`] has them all.

mod activities;
mod cells;
mod collections;
mod columns;
mod commits;
mod conditions;
mod declared;
mod disks;
mod event_tables;
mod events;
mod faults;
mod files;
mod frames;
mod heaps;
mod http;
mod images;
mod interrupts;
mod io_names;
mod kinds;
mod labels;
pub(crate) mod list;
mod losses;
mod network;
mod objects;
mod period;
mod processes;
mod regions;
mod registry;
mod samples;
mod snapshots;
mod source;
mod spans;
pub(crate) mod summaries;
mod summary;
mod switches;
pub(crate) mod syscalls;
mod table;
pub(crate) mod traces;

use etw_columns::{ColumnsError, Index, IndexWriter};
use etw_consumer::{Event, Overview, Stack, Statistics, Trace};
use etw_event::Record;
use etw_kernel_events::ids::{Class, EventId};
use etw_machine::{
    Called, DiskDone, Fact, FileDone, HardFault, Machines, Model, Names, Observation, Sampled, Sources,
    Switched, ThreadIndex, Window,
};
use etw_symbols::Symbolizer;

pub use cells::RowCells;
pub use conditions::{RowFilterError, RowValue, column_path, row_filter, row_value};
use declared::DeclaredTables;
use event_tables::EventTables;
pub use event_tables::{EventKinds, EventTable};
use events::EventRow;
use frames::Frames;
use kinds::Kinds;
pub use labels::RowLabel;
pub use list::{row_label, row_summary, row_tables};
use objects::Objects;
pub use period::in_window;
use regions::RegionRows;
pub use regions::{Regions, RegionsError};
use source::{EventContext, RowContext, RowSource};
pub use summaries::{SummarySelection, summary_rows};
pub use summary::RowSummary;
use table::RowWriter;

/// Fills the tables of a trace, from its events in time order.
///
/// ```no_run
/// use etw_tables::RowTables;
/// use etw_columns::{Aggregate, IndexWriter, Pivot};
/// use etw_consumer::Trace;
/// use etw_symbols::Symbolizer;
///
/// let mut trace = Trace::open_file("trace.etl")?;
/// let stacks = trace.stacks()?;
/// let mut tables = RowTables::new(IndexWriter::in_memory())?;
/// trace.for_each_event(|event| tables.add(event, &stacks.of(event.record)))?;
/// let index = tables.finish(&Symbolizer::from_environment()?)?;
/// let disk = index.table("disk").expect("it is one of the tables");
/// let size = disk.schema().column("size").expect("it is one of the columns");
/// println!("{:?}", Pivot::new([], [Aggregate::Sum(size)]).run(disk, 2)?.total);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Besides what the index writer needs, memory grows as that of [`Model`](etw_machine::Model), and with the number of different
/// addresses in stacks.
#[derive(Debug)]
pub struct RowTables {
    model: Model,
    writer: RowWriter,
    kinds: Kinds,
    frames: Frames,
    objects: Objects,
    sources: Vec<Box<dyn RowSource>>,
    /// By the row of the event's kind: the sources that make rows of such events.
    wanting: Vec<Option<Box<[usize]>>>,
}

impl RowTables {
    /// Starts the tables of a trace.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::Schema`] if the writer has one of the tables already.
    pub fn new(writer: IndexWriter) -> Result<RowTables, ColumnsError> {
        let mut writer = RowWriter::new(writer, list::TYPED, |_| true)?;
        let mut sources = list::sources(&writer);
        sources.push(Box::new(DeclaredTables::new(&mut writer)?));
        Ok(RowTables {
            model: Model::new(Window::ALL),
            writer,
            kinds: Kinds::default(),
            frames: Frames::default(),
            objects: Objects::default(),
            sources,
            wanting: Vec::new(),
        })
    }

    /// Sets the machines of the events; without it, all events are of one machine.
    #[must_use]
    pub fn of_machines(mut self, machines: Machines) -> RowTables {
        self.model.processes.machines = machines;
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
        let mut of_kinds = EventTables::default();
        for table in tables {
            of_kinds.add(table, &mut self.writer)?;
        }
        self.sources.push(Box::new(of_kinds));
        self.wanting.clear();
        Ok(self)
    }

    /// Sets the regions of interest to find. They are found in events that are added afterwards.
    #[must_use]
    pub fn of_regions(mut self, regions: Regions) -> RowTables {
        self.sources.push(Box::new(RegionRows::new(regions)));
        self.wanting.clear();
        self
    }

    /// Adds an event with its stack. [`RowTables::finish`] returns the first error.
    pub fn add(&mut self, event: &Event<'_>, stack: &Stack<'_>) {
        if self.writer.has_failed() {
            return;
        }
        let record = event.record;
        let Observation { id: any_id, fact, ran } = self.model.add(event);
        if any_id.is_none() {
            self.model.program_event(event);
        }
        let id = EventId::from_record(record);
        if id.is_some_and(|id| id.class() == Class::StackWalk) {
            return;
        }
        let processes = &mut self.model.processes;
        let thread = match &fact {
            Some(Fact::Switch(Switched { to, .. })) => Some(*to),
            Some(Fact::Disk(DiskDone { thread, .. })) => *thread,
            Some(
                Fact::Sample(Sampled { thread, .. })
                | Fact::File(FileDone { thread, .. })
                | Fact::Fault(HardFault { thread, .. })
                | Fact::Call(Called { thread, .. }),
            ) => Some(*thread),
            Some(Fact::Interrupt(_)) => None,
            Some(Fact::Ready(_) | Fact::UnendedCall(_) | Fact::Network(_)) | None => {
                source::thread_of(record, processes)
            }
        };
        let code = self.stack(record, thread, stack);
        let kind = self.kinds.row_of(event, &mut self.writer);
        let processes = &mut self.model.processes;
        let process = source::process_of(thread, record, processes);
        let processor = processes.machines.processor(record) as u32;
        self.writer.add(EventRow {
            time: record.time(),
            kind,
            process,
            thread,
            processor,
            size: record.as_bytes().len() as u32,
            stack: code,
        });
        let machine = processes.machine();
        self.objects.machine = machine;
        let stack_thread = stack.thread().map(|id| processes.thread_at(id));
        let fact = fact.as_ref();
        self.tell(&EventContext {
            event,
            id,
            fact,
            machine,
            kind,
            process,
            thread,
            processor,
            stack: code,
            stack_thread,
            ran,
        });
    }

    /// Passes an event to the sources that make rows of its kind.
    fn tell(&mut self, event: &EventContext<'_, '_>) {
        let RowTables { model, writer, frames, objects, sources, wanting, .. } = self;
        let kind = event.kind as usize;
        if wanting.len() <= kind {
            wanting.resize(kind + 1, None);
        }
        let wanting = wanting[kind].get_or_insert_with(|| {
            let sources = sources.iter().enumerate();
            sources.filter(|(_, source)| source.wants(event)).map(|(number, _)| number).collect()
        });
        let context = &mut RowContext { writer, model, frames, objects };
        for source in wanting.iter() {
            sources[*source].event(event, context);
        }
    }

    /// Returns the code of an event's stack.
    fn stack(&mut self, record: &Record<'_>, thread: Option<ThreadIndex>, stack: &Stack<'_>) -> Option<u32> {
        if stack.is_empty() {
            return None;
        }
        let Model { processes, addresses, .. } = &mut self.model;
        let own = stack.thread().or(record.thread_id()).map(|id| processes.thread_at(id));
        let process = own.or(thread).and_then(|thread| processes.thread(thread).process);
        let of = (processes.machine(), process);
        self.frames.stack(stack.addresses(), addresses, of, &mut self.writer)
    }

    /// Adds what the traces lack, after all events.
    ///
    /// [`RowTables::finish`] returns the first error.
    pub fn add_losses(&mut self, statistics: &Statistics) {
        losses::write(statistics, &mut self.writer);
    }

    /// Adds the traces and what is known of their buffers, at any time.
    ///
    /// [`RowTables::finish`] returns the first error.
    pub fn add_traces(&mut self, trace: &Trace, overview: &Overview) {
        traces::write(trace, overview, &mut self.writer);
    }

    /// Whether the writer has failed, so that [`RowTables::finish`] returns an error.
    pub fn has_failed(&self) -> bool {
        self.writer.has_failed()
    }

    /// Ends the pass: looks up names, adds the tables of processes, threads, images, files and frames, and completes the
    /// index.
    ///
    /// # Errors
    ///
    /// Returns the error of the writer, which may be one of an earlier event.
    pub fn finish(mut self, symbolizer: &Symbolizer) -> Result<Index, ColumnsError> {
        self.model.processes.label();
        self.model.methods.finish();
        let RowTables { model, writer, frames, objects, sources, .. } = &mut self;
        for source in sources {
            source.finish(&mut RowContext { writer, model, frames, objects });
        }
        let sources = Sources {
            images: &self.model.images,
            kernel_functions: &self.model.kernel_functions,
            methods: &self.model.methods,
            has_tiers: false,
            processes: &self.model.processes,
            symbolizer,
        };
        let names = Names::find(&sources, self.frames.places());
        self.frames.write(&names, &mut self.writer);
        Ok(self.writer.finish()?.0)
    }
}
