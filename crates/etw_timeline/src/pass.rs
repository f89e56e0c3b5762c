//! The two readings of a trace.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::rc::Rc;

use etw_analysis::{DiskRequest, Moment, Survey, Switch, Timeline};
use etw_consumer::{Event, Trace};
use etw_event::FileTime;
use etw_machine::{Machines, ThreadIndex};
use etw_symbols::Symbolizer;

use crate::item::{Context, Item, ItemKind, Label, Owner, Sink, Track};
use crate::lanes::{Edge, Key, Lanes};
use crate::names::EventNames;
use crate::{Selection, Summary, TimelineError};

/// Number of events between progress reports.
const REPORT_EVERY: u64 = 1 << 14;
/// Maximum number of cached system call names.
const MAX_CALLS: usize = 1 << 14;
/// Categories of the slices made from kernel events.
const SYSTEM_CALL: &str = "System call";
const DISK: &str = "Disk";

/// Runs the first reading. The summary counts as if the format supported only samples.
pub(crate) fn survey(
    trace: &mut Trace,
    selection: &Selection,
    symbolizer: &Symbolizer,
    reached: &dyn Fn(FileTime),
) -> Result<(Survey, Summary), TimelineError> {
    let mut timeline = Timeline::first().of_machines(Machines::from_trace(trace));
    let mut summary = Summary::default();
    trace.for_each_event(|event| {
        let wanted = selection.wants(event);
        let (moment, _) = timeline.add(event, wanted);
        summary.events += 1;
        match moment {
            Moment::Sample => summary.left_out += u64::from(!wanted),
            Moment::Context => summary.context += 1,
            _ if wanted => summary.without_place += 1,
            _ => summary.left_out += 1,
        }
        if summary.events.is_multiple_of(REPORT_EVERY) {
            reached(event.record.time());
        }
    })?;
    Ok((timeline.survey(symbolizer), summary))
}

/// Runs the second reading.
pub(crate) fn run(
    trace: &mut Trace,
    context: &Context<'_>,
    mut sink: impl Sink,
    reached: &dyn Fn(FileTime),
) -> Result<Summary, TimelineError> {
    let mut summary = Summary::default();
    sink.begin(context, &mut summary)?;
    let mut second = Second {
        context,
        timeline: Timeline::second().of_machines(Machines::from_trace(trace)),
        lanes: Lanes::default(),
        names: EventNames::default(),
        calls: HashMap::new(),
        begun: HashMap::new(),
        sink,
        summary,
        end: context.start,
    };
    let mut result = Ok(());
    trace.for_each_event(|event| {
        result = second.add(event);
        if second.summary.events.is_multiple_of(REPORT_EVERY) {
            reached(event.record.time());
        }
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    result?;
    second.summary.unfinished = second.lanes.open();
    second.sink.finish(context, second.end)?;
    Ok(second.summary)
}

/// The state of the second reading.
struct Second<'a, S> {
    context: &'a Context<'a>,
    timeline: Timeline,
    lanes: Lanes,
    names: EventNames,
    /// Names of system calls by machine and the address of their function; systems have a few hundred.
    calls: HashMap<(u32, u64), Rc<str>>,
    /// Names of the open slices.
    begun: HashMap<Track, Rc<str>>,
    sink: S,
    summary: Summary,
    end: FileTime,
}

impl<S: Sink> Second<'_, S> {
    fn add(&mut self, event: &Event<'_>) -> io::Result<()> {
        let Context { survey, selection, .. } = *self.context;
        let wanted = selection.wants(event);
        let (moment, thread) = self.timeline.add(event, wanted);
        self.summary.events += 1;
        self.end = self.end.max(event.record.time());
        if moment == Moment::Context {
            self.summary.context += 1;
            return Ok(());
        }
        let of_thread = |thread| selection.wants_thread(survey, thread);
        let is_about_wanted = match moment {
            Moment::Switch(switch) => of_thread(Some(switch.from)) || of_thread(Some(switch.to)),
            Moment::Ready { thread, .. } => of_thread(Some(thread)),
            Moment::Disk(request) => of_thread(request.thread.or(thread)),
            _ => of_thread(thread),
        };
        if !wanted || !is_about_wanted {
            self.summary.left_out += 1;
            return Ok(());
        }
        match moment {
            Moment::Switch(switch) => {
                // The call by which a thread went on in another program returns there.
                let id = |thread| survey.thread(thread).map(|thread| thread.id);
                if switch.from != switch.to
                    && id(switch.from) == id(switch.to)
                    && let Some(track) = self.lanes.end(Key::Call(switch.from))
                {
                    self.end(event, track, SYSTEM_CALL)?;
                }
                let placed = self.put(event, ItemKind::Switch(switch))?;
                self.summary.switches += placed;
            }
            Moment::Ready { thread, by } => {
                let placed = self.put(event, ItemKind::Ready { thread, by })?;
                self.summary.wakeups += placed;
            }
            // Samples were written from the survey.
            Moment::Sample => self.summary.samples += 1,
            Moment::CallBegin { address } => self.call_begin(event, thread, address)?,
            Moment::CallEnd { .. } => self.call_end(event, thread)?,
            Moment::Disk(request) => self.disk(event, &request)?,
            _ => self.other(event, thread)?,
        }
        Ok(())
    }

    fn call_begin(&mut self, event: &Event<'_>, thread: Option<ThreadIndex>, address: u64) -> io::Result<()> {
        let Some(thread) = thread else { return self.instant(event, None) };
        let key = Key::Call(thread);
        // The end of the previous call was lost.
        if let Some(track) = self.lanes.end(key) {
            self.end(event, track, SYSTEM_CALL)?;
        }
        let Some(track) = self.lanes.begin(key, Owner::Thread(thread)) else {
            return self.instant(event, Some(thread));
        };
        if self.calls.len() >= MAX_CALLS {
            self.calls.clear();
        }
        let survey = self.context.survey;
        let machine = survey.machine(event.record);
        let name = self.calls.entry((machine, address));
        let name = name.or_insert_with(|| survey.call(machine, address).into()).clone();
        self.begin(event, track, &name, SYSTEM_CALL)
    }

    fn call_end(&mut self, event: &Event<'_>, thread: Option<ThreadIndex>) -> io::Result<()> {
        match thread.and_then(|thread| self.lanes.end(Key::Call(thread))) {
            Some(track) => {
                let placed = self.end(event, track, SYSTEM_CALL)?;
                self.summary.of_slices += placed;
                Ok(())
            }
            None => self.instant(event, thread),
        }
    }

    fn begin(&mut self, event: &Event<'_>, track: Track, name: &Rc<str>, category: &str) -> io::Result<()> {
        self.begun.insert(track, name.clone());
        let placed = self.put(event, ItemKind::Begin { track, label: Label { name, category, event } })?;
        self.summary.of_slices += placed;
        self.summary.slices += placed;
        Ok(())
    }

    /// Ends the slice of a track. Returns 1 if the format supports it.
    fn end(&mut self, event: &Event<'_>, track: Track, category: &str) -> io::Result<u64> {
        let name = self.begun.remove(&track).unwrap_or_default();
        self.put(event, ItemKind::End { track, label: Label { name: &name, category, event } })
    }

    fn disk(&mut self, event: &Event<'_>, request: &DiskRequest) -> io::Result<()> {
        let owner = Owner::Disk(self.context.survey.machine(event.record), request.disk);
        let Some(track) = self.lanes.whole(owner, request.begin, event.record.time()) else {
            return self.instant(event, request.thread);
        };
        let name = match request.file {
            Some(file) => format!("{} {}", request.operation, self.context.survey.file(file)),
            None => request.operation.to_owned(),
        };
        let label = Label { name: &name, category: DISK, event };
        let placed = self.put(event, ItemKind::Slice { track, begin: request.begin, label })?;
        self.summary.of_slices += placed;
        self.summary.slices += placed;
        Ok(())
    }

    fn other(&mut self, event: &Event<'_>, thread: Option<ThreadIndex>) -> io::Result<()> {
        let edge = Edge::from_event(event, thread);
        let track = match edge {
            Some(Edge::Begin(key)) => self.lanes.begin(key, owner(thread)),
            Some(Edge::End(key)) => self.lanes.end(key),
            None => None,
        };
        let (Some(edge), Some(track)) = (edge, track) else { return self.instant(event, thread) };
        self.summary.undecoded += u64::from(event.properties.is_err());
        let names = self.names.of(event);
        match edge {
            Edge::Begin(_) => {
                let name = names.name.strip_suffix("/Start").unwrap_or(&names.name);
                self.begin(event, track, &Rc::from(name), &names.provider)
            }
            Edge::End(_) => {
                let placed = self.end(event, track, &names.provider)?;
                self.summary.of_slices += placed;
                Ok(())
            }
        }
    }

    fn instant(&mut self, event: &Event<'_>, thread: Option<ThreadIndex>) -> io::Result<()> {
        let names = self.names.of(event);
        let track = Track { owner: owner(thread), lane: 0 };
        let label = Label { name: &names.name, category: &names.provider, event };
        let placed = self.put(event, ItemKind::Instant { track, label })?;
        self.summary.instants += placed;
        self.summary.undecoded += u64::from(event.properties.is_err());
        Ok(())
    }

    /// Passes an item to the writer. Returns 1 if the format supports it.
    fn put(&mut self, event: &Event<'_>, kind: ItemKind<'_>) -> io::Result<u64> {
        let item =
            Item { time: event.record.time(), processor: self.context.survey.processor(event.record), kind };
        let placed = self.sink.put(self.context, &item)?;
        self.summary.without_place += u64::from(!placed);
        Ok(u64::from(placed))
    }
}

fn owner(thread: Option<ThreadIndex>) -> Owner {
    thread.map_or(Owner::Machine, Owner::Thread)
}

/// Returns the switch to show, in which unselected threads are replaced by the idle thread.
pub(crate) fn shown_switch(
    context: &Context<'_>,
    switch: &Switch,
) -> (Option<ThreadIndex>, Option<ThreadIndex>) {
    let wanted = |thread| context.selection.wants_thread(context.survey, Some(thread)).then_some(thread);
    (wanted(switch.from), wanted(switch.to))
}
