//! The report of an analysis.

use etw_etl::LogFileHeader;
use etw_event::FileTime;
use etw_kernel_events::EnableFlags;
use etw_machine::{Duration, Model, Names, ProcessFilter, Sources, Window};
use etw_stacks::{ByStack, NamedStacks, StackWeight, TreeShape};
use etw_symbols::Symbolizer;
use etw_tables::{CountedTables, ReportContext, Summaries};

use crate::activity::{Activity, activity};
use crate::analysis::Analysis;
use crate::tables::cpu::Measured;
use crate::tables::functions::Weighed;
use crate::tables::named::named;
use crate::tables::shaped;
use crate::tables::table::{Table, TableKind};
use crate::tables::{cpu, dotnet, functions, processes, wait_chains};

/// Options for the content of a report.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// The tables, in order.
    pub tables: Vec<TableKind>,
    /// The processes to include.
    pub processes: ProcessFilter,
    /// The source of function names.
    pub symbolizer: Symbolizer,
    /// Start of the trace; times in tables are relative to it.
    pub start: FileTime,
    /// End of the trace, if known; the default is the time of the last event.
    pub end: Option<FileTime>,
    /// Number of processors.
    pub processors: u32,
    /// Whether to include folded stacks.
    pub folded_stacks: bool,
    /// The tables by function whose stacks to include with the names of functions.
    pub named_stacks: Vec<TableKind>,
    /// Whether names of .NET methods have their optimization tiers: `module![Tier]Namespace.Type.Method(args)`.
    pub tiers: bool,
}

impl ReportOptions {
    /// Returns options for all tables, of all processes, for a trace with these headers.
    pub fn from_headers(headers: &[LogFileHeader]) -> ReportOptions {
        ReportOptions {
            tables: TableKind::ALL.to_vec(),
            processes: ProcessFilter::default(),
            symbolizer: Symbolizer::new(),
            start: headers.iter().map(|header| header.start_time).min().unwrap_or_default(),
            end: headers.iter().map(|header| header.end_time).filter(|end| end.0 != 0).max(),
            processors: headers.iter().map(|header| header.number_of_processors).max().unwrap_or(1),
            folded_stacks: false,
            named_stacks: Vec::new(),
            tiers: false,
        }
    }
}

/// The results of an analysis.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The requested tables, including those without rows.
    pub tables: Vec<Table>,
    /// The enable flags that the trace's sessions had; `None` if it does not say.
    pub enabled: Option<EnableFlags>,
    /// Length of the window, limited to the trace.
    pub duration: Duration,
    /// Number of events in the window.
    pub events: u64,
    /// Stacks in the format of flame graphs, with their numbers of samples; empty unless requested.
    pub folded_stacks: Vec<(String, u64)>,
    /// The requested stacks with the names of their functions.
    pub stacks: Vec<(TableKind, NamedStacks)>,
    /// Activity over time; empty unless enabled with [`Analysis::over_time`].
    pub activity: Activity,
}

impl Report {
    /// Returns the flags without which the trace cannot have events for a table, one text for each set of flags that would
    /// suffice ([`TableKind::flags`]); none if it was recorded with one of the sets. Returns `None` if the trace does not say
    /// how it was recorded, or if the table needs other things than flags.
    pub fn lacking(&self, kind: TableKind) -> Option<Vec<String>> {
        lacking(kind.flags(), self.enabled?)
    }

    /// Changes [`Report::stacks`], the tables by function of the same kind, and [`Report::folded_stacks`]. The stacks need
    /// [`ReportOptions::named_stacks`].
    ///
    /// In such tables, inlined functions have rows of their own, functions without a name have one row for each module, and
    /// percentages refer to the stacks that are selected. Stacks of which no function is left have the row `[folded]`.
    pub fn shape(&mut self, shape: &TreeShape) {
        for (kind, stacks) in &mut self.stacks {
            *stacks = shape.apply(stacks);
            if let Some(table) = self.tables.iter_mut().find(|table| table.kind == *kind) {
                shaped::change(table, stacks);
            }
        }
        if let Some((kind, stacks)) = self.stacks.first()
            && !self.folded_stacks.is_empty()
        {
            self.folded_stacks = shaped::folded(stacks, *kind);
        }
    }
}

fn lacking(sets: &str, enabled: EnableFlags) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for set in sets.split(" or ") {
        let mut of_set = Vec::new();
        for name in set.split('+') {
            if !enabled.contains(EnableFlags::parse(name).ok()?.flags) {
                of_set.push(name);
            }
        }
        if of_set.is_empty() {
            return Some(Vec::new());
        }
        all.push(of_set.join("+"));
    }
    Some(all)
}

impl Analysis {
    /// Ends the pass and returns the tables.
    pub fn report(mut self, options: &ReportOptions) -> Report {
        let end = options.end.unwrap_or(self.last).max(self.last);
        if !options.tables.iter().any(|kind| matches!(kind, TableKind::Summary(_))) {
            self.summaries = Summaries::default();
        }
        self.finish(end);
        // Where the clock was set back, events are earlier than the session's start.
        let duration = self.model.window.part(options.start.min(self.first), end);
        let names = self.names(options);
        let counted = std::mem::take(&mut self.summaries).counted(&names);
        let cpu = self.cpu();
        let context = ReportContext {
            processes: &self.model.processes,
            names: &names,
            filter: &options.processes,
            cpu: &cpu,
            start: options.start,
            processor_time: Duration(duration.0.saturating_mul(options.processors.into())),
            window: Window {
                from: self.model.window.from.max(options.start),
                to: self.model.window.to.min(end),
            },
        };
        let tables = options.tables.iter().map(|kind| self.table(*kind, &counted, &context)).collect();
        let folded_stacks = match options.folded_stacks {
            true => functions::folded(self.weighed(), &context).into_iter().collect(),
            false => Vec::new(),
        };
        let stacks = self.all_weighed().filter(|stacks| options.named_stacks.contains(&stacks.kind));
        let stacks = stacks.map(|stacks| (stacks.kind, named(stacks, &context))).collect();
        let switched = self.model.switches.are_known();
        let threads = std::mem::take(match switched {
            true => &mut self.switches.timeline,
            false => &mut self.samples.timeline,
        });
        let enabled = self.model.enabled;
        let label = |process| context.process_label(process);
        let activity = activity(threads, std::mem::take(&mut self.providers), &self.model.processes, label);
        Report { tables, enabled, duration, events: self.events, folded_stacks, stacks, activity }
    }

    /// Counts what has not ended at the end of the trace.
    fn finish(&mut self, end: FileTime) {
        let Model { window, processes, addresses, methods, switches, .. } = &mut self.model;
        processes.label();
        for ran in switches.finish(end, processes) {
            self.switches.ran(ran, window);
        }
        self.samples.finish(processes, addresses);
        methods.finish();
        self.dotnet.finish();
        self.summaries.finish(&mut self.model);
    }

    fn table(&self, kind: TableKind, counted: &CountedTables, context: &ReportContext<'_>) -> Table {
        let addresses = &self.model.addresses;
        match kind {
            TableKind::Processes => processes::table(context),
            TableKind::Cpu => cpu::by_process(&self.measured(), context),
            TableKind::Threads => cpu::by_thread(&self.measured(), context),
            TableKind::Containers => cpu::by_container(&self.measured(), context),
            TableKind::Functions => functions::table(Weighed::of_samples(&self.samples, addresses), context),
            TableKind::ByFunction(weight) => match self.by_stack.iter().find(|one| one.weight == weight) {
                Some(by_stack) => functions::table(Weighed::of_events(by_stack, addresses), context),
                None => functions::table(Weighed::of_events(&ByStack::new(weight), addresses), context),
            },
            TableKind::WaitChains => {
                let is_it = |one: &&ByStack| one.weight == StackWeight::WaitChains;
                match self.by_stack.iter().find(is_it) {
                    Some(by_stack) => wait_chains::table(by_stack, addresses, context),
                    None => wait_chains::table(&ByStack::new(StackWeight::WaitChains), addresses, context),
                }
            }
            TableKind::Summary(summary) => {
                let (rows, notes) = counted.table(summary, &self.model, context);
                Table { kind, columns: summary.columns, rows, notes }
            }
            TableKind::GcProcesses => self.dotnet.gc_processes(&self.model.collections, context),
            TableKind::Gc => dotnet::gc::table(&self.model.collections, context),
            TableKind::Jit => self.dotnet.jit(&self.model.methods, context),
            TableKind::Allocations => self.dotnet.allocations(context),
            TableKind::Exceptions => self.dotnet.exceptions(context),
            TableKind::Contention => self.dotnet.contention(context),
            TableKind::ThreadPool => self.dotnet.thread_pools(context),
        }
    }

    fn measured(&self) -> Measured<'_> {
        let has_switches = self.model.switches.are_known();
        Measured { samples: &self.samples, switches: &self.switches, has_switches }
    }

    /// Returns the stacks that folded stacks show.
    fn weighed(&self) -> Weighed<'_> {
        let addresses = &self.model.addresses;
        match self.by_stack.first() {
            Some(by_stack) => Weighed::of_events(by_stack, addresses),
            None => Weighed::of_samples(&self.samples, addresses),
        }
    }

    /// Returns the stacks of samples, then those of other events.
    fn all_weighed(&self) -> impl Iterator<Item = Weighed<'_>> {
        let addresses = &self.model.addresses;
        let others = self.by_stack.iter().map(|by_stack| Weighed::of_events(by_stack, addresses));
        std::iter::once(Weighed::of_samples(&self.samples, addresses)).chain(others)
    }

    /// Returns names for all addresses in the tables.
    fn names(&self, options: &ReportOptions) -> Names {
        let sources = Sources {
            images: &self.model.images,
            kernel_functions: &self.model.kernel_functions,
            methods: &self.model.methods,
            has_tiers: options.tiers,
            processes: &self.model.processes,
            symbolizer: &options.symbolizer,
        };
        let Model { addresses, processes, .. } = &self.model;
        let has = |kind| options.tables.contains(&kind);
        let has_samples = options.folded_stacks || options.named_stacks.contains(&TableKind::Functions);
        let of_samples = (has(TableKind::Functions) || has_samples)
            .then(|| functions::addresses(Weighed::of_samples(&self.samples, addresses), processes));
        let of_stacks = self
            .by_stack
            .iter()
            .flat_map(|by_stack| functions::addresses(Weighed::of_events(by_stack, addresses), processes));
        let has_stacks = options.tables.iter().any(|kind| dotnet::has_stacks(*kind));
        let of_events = has_stacks.then(|| self.dotnet.addresses(processes));
        let places = of_samples.into_iter().flatten().chain(self.summaries.places());
        let places = places.chain(of_events.into_iter().flatten());
        Names::find(&sources, places.chain(of_stacks))
    }

    /// Returns the running time of each process, from switches or else from samples; empty without either.
    fn cpu(&self) -> Vec<Duration> {
        if !self.model.switches.are_known() && self.samples.all.count == 0 {
            return Vec::new();
        }
        let mut cpu = vec![Duration::default(); self.model.processes.all().count()];
        let mut add = |thread, time| {
            if let Some(process) = self.model.processes.thread(thread).process {
                cpu[process.0 as usize] += time;
            }
        };
        if self.model.switches.are_known() {
            self.switches.run.iter().for_each(|(thread, run)| add(*thread, run.time));
        } else {
            self.samples.by_thread.iter().for_each(|(thread, count)| add(*thread, count.weight));
        }
        cpu
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_recorded_is_told_by_sets_of_flags() {
        let check = |sets: &str, enabled: EnableFlags, expected: Option<&[&str]>| {
            let lacking = lacking(sets, enabled);
            let lacking: Option<Vec<&str>> =
                lacking.as_ref().map(|sets| sets.iter().map(String::as_str).collect());
            assert_eq!(lacking.as_deref(), expected, "{sets} {enabled}");
        };
        let processes = EnableFlags::PROCESS | EnableFlags::THREAD;
        let (disk, cpu) = ("PROC_THREAD+DISK_IO", "PROC_THREAD+PROFILE or PROC_THREAD+CSWITCH");
        check(disk, processes, Some(&["DISK_IO"]));
        check(disk, EnableFlags::DISK_IO, Some(&["PROC_THREAD"]));
        check(disk, EnableFlags(0), Some(&["PROC_THREAD+DISK_IO"]));
        check(disk, processes | EnableFlags::DISK_IO, Some(&[]));
        check(cpu, processes, Some(&["PROFILE", "CSWITCH"]));
        check(cpu, processes | EnableFlags::CSWITCH, Some(&[]));
        check("Microsoft-Windows-DotNETRuntime:4::0x1 (GC)", processes, None);
    }
}
