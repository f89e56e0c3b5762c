//! Interrupts and deferred calls.

use etw_event::{Record, Ticks};
use etw_kernel_events::ids::{self, EventId};
use etw_kernel_events::read;

use super::facts::Interrupted;
use crate::Window;

/// Returns the interrupt of an event in the window, which is logged at its end.
pub(super) fn interrupt(id: EventId, record: &Record<'_>, window: &Window) -> Option<Interrupted> {
    let interrupt = read::Interrupt::new(record);
    let (begun, routine, vector) = (interrupt.initial_time()?, interrupt.routine()?, interrupt.vector());
    if !window.has(record.time()) {
        return None;
    }
    let begun = record.origin().clock.to_filetime(Ticks(begun));
    Some(Interrupted { kind: kind_name(id), routine, vector, took: window.part(begun, record.time()) })
}

fn kind_name(id: EventId) -> &'static str {
    match id {
        ids::PerfInfo::ISR_50 | ids::PerfInfo::ISR_67 => "ISR",
        ids::PerfInfo::THREAD_DPC => "ThreadDPC",
        ids::PerfInfo::TIMER_DPC => "TimerDPC",
        ids::PerfInfo::PASSIVE_INTERRUPT => "PassiveISR",
        _ => "DPC",
    }
}
