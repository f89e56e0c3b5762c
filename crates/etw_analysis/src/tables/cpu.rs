//! Tables of processor time: by process and by thread, from samples and from switches.

use etw_machine::{ControlGroup, Duration, HashMap, ProcessIndex, ThreadIndex};
use etw_stacks::SampleCount;
use etw_tables::{Cell, Column, ReportContext};

use crate::samples::Samples;
use crate::tables::switches::{Run, SwitchSums};
use crate::tables::table::{Table, TableKind};

/// The columns of measurements, after those of the subject.
macro_rules! measures {
    ($($of:expr),*) => {
        &[
            $($of,)*
            Column::shown("samples", "Samples"),
            Column::shown("weight_ns", "Weight"),
            Column::shown("weight_percent", "% Weight"),
            Column::shown("cpu_ns", "CPU"),
            Column::shown("cpu_percent", "% CPU"),
            Column::shown("switches", "Switches"),
        ]
    };
}

const OF_PROCESS: &[Column] =
    measures![Column::shown("process", "Process"), Column::shown("process_id", "PID")];
const OF_THREAD: &[Column] = measures![
    Column::shown("process", "Process"),
    Column::shown("process_id", "PID"),
    Column::shown("thread", "Thread"),
    Column::shown("thread_id", "TID")
];

const OF_CONTAINER: &[Column] = measures![
    Column::shown("container", "Container"),
    Column::shown("pod", "Pod"),
    Column::shown("image", "Image"),
    Column::hidden("container_id"),
    Column::hidden("runtime"),
    Column::shown("processes", "Processes")
];

/// What is known of processor time.
pub(crate) struct Measured<'m> {
    pub(crate) samples: &'m Samples,
    pub(crate) switches: &'m SwitchSums,
    /// Whether the trace has switches.
    pub(crate) has_switches: bool,
}

/// A share of the processors' time.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    samples: SampleCount,
    run: Run,
}

impl Use {
    fn add(&mut self, other: &Use) {
        self.samples.count += other.samples.count;
        self.samples.weight += other.samples.weight;
        self.run.time += other.run.time;
        self.run.switches += other.run.switches;
    }

    /// Returns the sort key of rows.
    fn rank(&self) -> (Duration, Duration) {
        (self.run.time, self.samples.weight)
    }

    fn cells(&self, measured: &Measured<'_>, context: &ReportContext<'_>) -> [Cell; 6] {
        let (all, has_switches) = (measured.samples.all, measured.has_switches);
        let sampled = |cell| if all.count > 0 { cell } else { Cell::None };
        let switched = |cell| if has_switches { cell } else { Cell::None };
        [
            sampled(Cell::Count(self.samples.count)),
            sampled(Cell::Duration(self.samples.weight)),
            Cell::percent(self.samples.weight.0, all.weight.0),
            switched(Cell::Duration(self.run.time)),
            switched(Cell::percent(self.run.time.0, context.processor_time.0)),
            switched(Cell::Count(self.run.switches)),
        ]
    }
}

/// Returns the table by process.
pub(crate) fn by_process(measured: &Measured<'_>, context: &ReportContext<'_>) -> Table {
    let uses = of_processes(measured, context);
    let mut uses: Vec<_> = uses.into_iter().filter(|(process, _)| context.wants(*process)).collect();
    uses.sort_by_key(|(process, used)| (context.is_idle(*process), std::cmp::Reverse(used.rank()), *process));
    let rows = uses.into_iter().map(|(process, used)| {
        context.process(process).into_iter().chain(used.cells(measured, context)).collect()
    });
    let notes = notes(measured);
    Table { kind: TableKind::Cpu, columns: OF_PROCESS, rows: rows.collect(), notes }
}

/// Returns the table by container of Linux.
pub(crate) fn by_container(measured: &Measured<'_>, context: &ReportContext<'_>) -> Table {
    let used_by = of_processes(measured, context);
    let mut uses: HashMap<&str, (&ControlGroup, u64, Use)> = HashMap::default();
    for (index, process) in context.processes.all().filter(|(index, _)| context.wants(Some(*index))) {
        let in_container = |group: &&ControlGroup| group.container().is_some();
        let Some(group) = process.control_group.as_deref().filter(in_container) else { continue };
        let (_, processes, sum) = uses.entry(group.container_id()).or_insert((group, 0, Use::default()));
        *processes += 1;
        if let Some(used) = used_by.get(&Some(index)) {
            sum.add(used);
        }
    }
    let mut uses: Vec<_> = uses.into_iter().collect();
    uses.sort_by_key(|(id, (_, processes, used))| {
        (std::cmp::Reverse(used.rank()), std::cmp::Reverse(*processes), *id)
    });
    let rows = uses.into_iter().map(|(id, (group, processes, used))| {
        let text = |text: &str| Cell::text(Some(text).filter(|text| !text.is_empty()));
        let of_container = [
            Cell::text(group.container()),
            Cell::text(group.shown_pod().as_deref()),
            text(group.image()),
            text(id),
            text(group.runtime()),
            Cell::Count(processes),
        ];
        of_container.into_iter().chain(used.cells(measured, context)).collect()
    });
    let (kind, rows) = (TableKind::Containers, rows.collect());
    Table { kind, columns: OF_CONTAINER, rows, notes: Vec::new() }
}

/// Returns the use of each process.
fn of_processes(measured: &Measured<'_>, context: &ReportContext<'_>) -> HashMap<Option<ProcessIndex>, Use> {
    let mut uses: HashMap<Option<ProcessIndex>, Use> = HashMap::default();
    for (thread, used) in by_index(measured) {
        uses.entry(context.processes.thread(thread).process).or_default().add(&used);
    }
    uses
}

/// Returns the table by thread.
pub(crate) fn by_thread(measured: &Measured<'_>, context: &ReportContext<'_>) -> Table {
    let uses = by_index(measured).into_iter();
    let mut uses: Vec<_> = uses.filter(|(thread, _)| context.wants_thread(*thread)).collect();
    let is_idle = |thread: &ThreadIndex| context.is_idle(context.processes.thread(*thread).process);
    uses.sort_by_key(|(thread, used)| (is_idle(thread), std::cmp::Reverse(used.rank()), *thread));
    let rows = uses.into_iter().map(|(thread, used)| {
        context.thread(thread).into_iter().chain(used.cells(measured, context)).collect()
    });
    Table { kind: TableKind::Threads, columns: OF_THREAD, rows: rows.collect(), notes: Vec::new() }
}

fn by_index(Measured { samples, switches, .. }: &Measured<'_>) -> HashMap<ThreadIndex, Use> {
    let mut uses: HashMap<ThreadIndex, Use> = HashMap::default();
    for (thread, count) in &samples.by_thread {
        uses.entry(*thread).or_default().samples = *count;
    }
    for (thread, run) in &switches.run {
        uses.entry(*thread).or_default().run = *run;
    }
    uses.retain(|_, used| used.rank() > (Duration(0), Duration(0)) || used.run.switches > 0);
    uses
}

fn notes(Measured { samples, switches, .. }: &Measured<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if switches.gaps > 0 {
        let gaps = switches.gaps;
        notes
            .push(format!("Switches that left a thread not known to run: {gaps}. That time is not counted."));
    }
    if switches.found > 0 {
        let found = switches.found;
        notes.push(format!("Missing switches: {found}. Samples show which threads ran."));
    }
    if samples.tree.cut > 0 {
        notes.push(format!("Samples counted with only part of their stacks: {}.", samples.tree.cut));
    }
    notes
}
