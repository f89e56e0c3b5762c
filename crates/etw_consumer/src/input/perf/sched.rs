//! Switches and wakeups from the tracepoints of the scheduler.

use std::collections::HashMap;

use etw_event::Ticks;
use etw_kernel_events::classes::{CSwitch, ReadyThread, TIMER_RESOLUTION_NANOS, state};
use etw_kernel_events::linux::{self, Request, task};
use etw_perf_data::{ByteOrder, EventType, PerfData, Sample, Tracepoint, TracepointField, Tracepoints};

use super::Moment;

/// `prev_state` of a thread of the kernel without work, and of one that was preempted.
const IDLE: u64 = 0x80;
const PREEMPTED: u64 = 0x100;
/// The end of a wait, in ReadyThread.
const END_OF_WAIT: i8 = 1;

/// An event of the scheduler.
#[derive(Debug)]
pub(super) enum Event {
    Switch(CSwitch),
    Ready(ReadyThread),
}

/// The scheduler's tracepoints among the attributes of a file.
#[derive(Debug, Default)]
pub(super) struct Sched {
    by_attribute: HashMap<usize, Form>,
    has_switches: bool,
    /// Since when a thread has not run.
    switched_out: HashMap<u32, Ticks>,
}

/// The fields of a tracepoint that are converted.
#[derive(Debug)]
enum Form {
    Switch(Box<SwitchFields>),
    Wakeup { thread: TracepointField },
}

#[derive(Debug)]
struct SwitchFields {
    old: TracepointField,
    old_priority: TracepointField,
    old_state: TracepointField,
    new: TracepointField,
    new_priority: TracepointField,
}

impl Form {
    fn new(tracepoint: &Tracepoint) -> Option<Form> {
        let field = |name: &str| tracepoint.field(name).cloned();
        Some(match (&*tracepoint.system, &*tracepoint.name) {
            ("sched", "sched_switch") => Form::Switch(Box::new(SwitchFields {
                old: field("prev_pid")?,
                old_priority: field("prev_prio")?,
                old_state: field("prev_state")?,
                new: field("next_pid")?,
                new_priority: field("next_prio")?,
            })),
            ("sched", "sched_wakeup" | "sched_wakeup_new") => Form::Wakeup { thread: field("pid")? },
            _ => return None,
        })
    }
}

impl Sched {
    pub(super) fn new(file: &PerfData<'_>, tracepoints: &Tracepoints) -> Sched {
        let attributes = file.attributes().iter().enumerate();
        let by_attribute: HashMap<usize, Form> = attributes
            .filter(|(_, attribute)| attribute.event_type == EventType::TRACEPOINT)
            .filter_map(|(index, attribute)| Some((index, Form::new(tracepoints.get(attribute.config)?)?)))
            .collect();
        let has_switches = by_attribute.values().any(|form| matches!(form, Form::Switch(_)));
        Sched { by_attribute, has_switches, switched_out: HashMap::new() }
    }

    /// Returns whether switches are recorded as tracepoints.
    pub(super) fn has_switches(&self) -> bool {
        self.has_switches
    }

    /// Returns what a sample says of the scheduler; `None` for samples of other events, and for damaged ones.
    pub(super) fn read(
        &mut self,
        attribute: usize,
        sample: &Sample<'_>,
        moment: &Moment,
        order: ByteOrder,
    ) -> Option<Event> {
        let form = self.by_attribute.get(&attribute)?;
        let raw = sample.raw?;
        let number = |field: &TracepointField| Some(order.number(field.value(raw, order)?));
        let narrow = |field: &TracepointField| Some(number(field)? as u32);
        let priority = |field: &TracepointField| Some(linux::priority(narrow(field)?.cast_signed()) as i8);
        match form {
            Form::Wakeup { thread } => Some(Event::Ready(ReadyThread {
                thread_id: narrow(thread)?,
                adjust_reason: END_OF_WAIT,
                ..ReadyThread::default()
            })),
            Form::Switch(fields) => {
                let SwitchFields { old, old_priority, old_state, new, new_priority } = &**fields;
                let (old_thread_id, new_thread_id) = (narrow(old)?, narrow(new)?);
                let (old_thread_priority, new_thread_priority) =
                    (priority(old_priority)?, priority(new_priority)?);
                let (task_state, is_preempted) = task_state(number(old_state)?);
                let switch = CSwitch {
                    new_thread_id,
                    old_thread_id,
                    new_thread_priority,
                    old_thread_priority,
                    old_thread_wait_reason: linux::wait_reason(
                        task_state,
                        is_preempted,
                        false,
                        Request::Other,
                    ),
                    old_thread_wait_mode: 1,
                    old_thread_state: linux::thread_state(task_state),
                    old_thread_ideal_processor: moment.processor as i8,
                    new_thread_wait_time: self.wait_time(old_thread_id, new_thread_id, moment.stamp.time),
                };
                Some(Event::Switch(switch))
            }
        }
    }

    /// Notes that a thread does not run from now on, and returns how long the new one did not.
    fn wait_time(&mut self, old_thread_id: u32, new_thread_id: u32, now: Ticks) -> u32 {
        if old_thread_id != 0 {
            self.switched_out.insert(old_thread_id, now);
        }
        let since = self.switched_out.remove(&new_thread_id).unwrap_or(now);
        let nanos = u64::try_from(now.0.saturating_sub(since.0)).unwrap_or(0);
        u32::try_from(nanos / TIMER_RESOLUTION_NANOS).unwrap_or(u32::MAX)
    }
}

/// Returns a switch of which only the threads are known, and whether the old one could have gone on.
pub(super) fn switch_without_state(old: u32, new: u32, is_preempted: bool, moment: &Moment) -> CSwitch {
    // The idle thread can always run.
    let can_run = is_preempted || old == 0;
    let task_state = if can_run { 0 } else { task::INTERRUPTIBLE };
    CSwitch {
        new_thread_id: new,
        old_thread_id: old,
        old_thread_wait_reason: linux::wait_reason(task_state, is_preempted, false, Request::Other),
        old_thread_wait_mode: 1,
        old_thread_state: if can_run { state::READY } else { state::WAITING },
        old_thread_ideal_processor: moment.processor as i8,
        ..CSwitch::default()
    }
}

/// Returns the state of a task by the one that the tracepoint has, which numbers idle threads otherwise, and whether the
/// task was preempted.
fn task_state(traced: u64) -> (u32, bool) {
    let is_preempted = traced & PREEMPTED != 0;
    let state = traced & 0x7F;
    match traced & IDLE != 0 {
        true => (task::UNINTERRUPTIBLE | task::NOLOAD, is_preempted),
        false => (state as u32, is_preempted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_kernel_events::classes::wait;

    #[test]
    fn states_of_the_tracepoint() {
        let check = |traced: u64, state: i8, reason: i8| {
            let (task, preempted) = task_state(traced);
            let found = linux::wait_reason(task, preempted, false, Request::Other);
            assert_eq!((linux::thread_state(task), found), (state, reason), "{traced:#x}");
        };
        check(0, state::READY, wait::QUANTUM_END);
        check(0x100, state::READY, wait::PREEMPTED);
        check(1, state::WAITING, wait::USER_REQUEST);
        check(2, state::WAITING, wait::EXECUTIVE);
        check(0x80, state::WAITING, wait::QUEUE);
        check(0x10, state::TERMINATED, wait::TERMINATED);
        check(0x20, state::TERMINATED, wait::TERMINATED);
    }
}
