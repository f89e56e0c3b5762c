//! Tables of processor time: by process and by thread, from samples and from switches.

use etw_machine::{Duration, HashMap, ProcessIndex, ThreadIndex};
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
    let mut uses: HashMap<Option<ProcessIndex>, Use> = HashMap::default();
    for (thread, used) in by_index(measured) {
        let sum = uses.entry(context.processes.thread(thread).process).or_default();
        sum.samples.count += used.samples.count;
        sum.samples.weight += used.samples.weight;
        sum.run.time += used.run.time;
        sum.run.switches += used.run.switches;
    }
    let mut uses: Vec<_> = uses.into_iter().filter(|(process, _)| context.wants(*process)).collect();
    uses.sort_by_key(|(process, used)| (context.is_idle(*process), std::cmp::Reverse(used.rank()), *process));
    let rows = uses.into_iter().map(|(process, used)| {
        context.process(process).into_iter().chain(used.cells(measured, context)).collect()
    });
    let notes = notes(measured);
    Table { kind: TableKind::Cpu, columns: OF_PROCESS, rows: rows.collect(), notes }
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
