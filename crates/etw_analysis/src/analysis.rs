//! The analysis of a trace's events in one pass.

use etw_consumer::{Event, Stack};
use etw_event::FileTime;
use etw_kernel_events::ids::{self, Class};
use etw_machine::{ClrObservation, Fact, Machines, Model, Observation, Window};
use etw_stacks::{ByStack, StackWeight};
use etw_tables::{SUMMARIES, Summaries};

use crate::activity::{Providers, SpanSums};
use crate::samples::Samples;
use crate::tables::dotnet::DotNet;
use crate::tables::switches::SwitchSums;

/// The counters behind the tables, filled from the events of a trace in time order.
///
/// Memory grows with the number of distinct processes, files, stacks and endpoints, not with the number of events.
/// Events of several machines need [`Analysis::of_machines`].
#[derive(Debug)]
pub struct Analysis {
    pub(crate) model: Model,
    /// Number of events in the window.
    pub(crate) events: u64,
    /// Earliest and latest time of an event.
    pub(crate) first: FileTime,
    pub(crate) last: FileTime,
    pub(crate) samples: Samples,
    pub(crate) switches: SwitchSums,
    pub(crate) summaries: Summaries,
    pub(crate) dotnet: DotNet,
    pub(crate) providers: Providers,
    pub(crate) by_stack: Vec<ByStack>,
}

impl Analysis {
    /// Returns an analysis of a time window.
    pub fn new(window: Window) -> Analysis {
        Analysis {
            model: Model::new(window),
            events: 0,
            first: FileTime(i64::MAX),
            last: FileTime(i64::MIN),
            samples: Samples::new(),
            switches: SwitchSums::default(),
            summaries: Summaries::new(SUMMARIES),
            dotnet: DotNet::default(),
            providers: Providers::default(),
            by_stack: Vec::new(),
        }
    }

    /// Sets the machines of the events; without it, all events are of one machine.
    ///
    /// With several machines, the names of processes, disks and kinds of interrupts in tables end in the name of the
    /// machine's first file: `make [build.etl]`.
    pub fn of_machines(mut self, machines: Machines) -> Analysis {
        self.model.processes.machines = machines;
        self
    }

    /// Enables counting over time, for [`Report::activity`](crate::Report::activity).
    ///
    /// Counts from `start` on, up to `end` if it is known.
    pub fn over_time(mut self, start: FileTime, end: Option<FileTime>) -> Analysis {
        let window = self.model.window;
        let start = start.max(window.from);
        let end = end.map(|end| end.min(window.to));
        self.switches.timeline = SpanSums::new(start, end);
        self.samples.timeline = SpanSums::new(start, end);
        self.providers = Providers::new(start, end);
        self
    }

    /// Counts a weight by stack, besides those it counts already, for
    /// [`TableKind::ByFunction`](crate::TableKind::ByFunction), [`Report::stacks`](crate::Report::stacks) and, of the
    /// first one, folded stacks. Events must come with their stacks, by [`Analysis::add_with_stack`].
    #[must_use]
    pub fn by_stack(mut self, weight: StackWeight) -> Analysis {
        self.by_stack.push(ByStack::new(weight));
        self
    }

    /// Adds an event. Events that no table uses are ignored.
    pub fn add(&mut self, event: &Event<'_>) {
        let _fact = self.count(event);
    }

    /// Adds an event with its stack, after [`Analysis::by_stack`].
    pub fn add_with_stack(&mut self, event: &Event<'_>, stack: &Stack<'_>) {
        let fact = self.count(event);
        for by_stack in &mut self.by_stack {
            by_stack.add(event, stack, fact.as_ref(), &mut self.model);
        }
    }

    /// Counts an event for all tables; returns what it says.
    #[inline(always)]
    fn count(&mut self, event: &Event<'_>) -> Option<Fact> {
        let (record, time) = (event.record, event.record.time());
        let Observation { id, fact, ran } = self.model.add(event);
        let Model { window, processes, addresses, .. } = &mut self.model;
        self.events += u64::from(window.has(time));
        (self.first, self.last) = (self.first.min(time), self.last.max(time));
        self.providers.event(event, window);
        match id {
            Some(id) if id.class() == Class::StackWalk => {
                self.samples.stack_event(id, record, processes, addresses);
            }
            Some(_) => {}
            None => self.count_of_program(event),
        }
        let Model { window, processes, addresses, .. } = &mut self.model;
        if let Some(ran) = ran {
            self.switches.found += u64::from(id == Some(ids::PerfInfo::SAMPLE_PROFILE));
            self.switches.ran(ran, window);
        }
        match fact.as_ref()? {
            Fact::Switch(switched) => self.switches.add(switched, time, window),
            Fact::Sample(sampled) => {
                self.samples.add(record, sampled, processes, addresses);
                return fact;
            }
            _ => {}
        }
        if let Some(fact) = &fact {
            self.summaries.add(event, id, fact, &mut self.model);
        }
        fact
    }

    /// Counts an event of a program.
    fn count_of_program(&mut self, event: &Event<'_>) {
        let clr = self.model.program_event(event);
        match clr {
            Some(ClrObservation { event: Some(event), method }) => {
                let Model { window, addresses, .. } = &self.model;
                self.dotnet.event(&event, method, &addresses.versions, window);
            }
            Some(ClrObservation { event: None, .. }) => {}
            // No counted table is made of the events of .NET's runtimes.
            None => self.summaries.add_of_program(event, &mut self.model),
        }
    }
}
