//! Classes PerfInfo and StackWalk.

use etw_event::Ticks;

use super::field::Wide;
use super::layout;
use crate::ids::{self, Class, EventId};

/// A sample of what a processor ran (`SampledProfile`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampledProfile {
    /// Address of the next instruction.
    pub instruction_pointer: u64,
    /// The thread that ran; 0 for the idle thread.
    pub thread_id: u32,
    /// Number of samples that this one stands for, usually 1.
    pub count: u16,
    /// Whether a softirq ran.
    pub is_dpc: bool,
    /// Whether an interrupt ran.
    pub is_isr: bool,
    /// The thread's priority, 0 to 31.
    pub priority: u8,
}

layout! {
    SampledProfile, version 2, |e| PerfInfo64 ids::PerfInfo::SAMPLE_PROFILE;
    e.instruction_pointer, e.thread_id, e.count,
    // Two bytes are flags and rank, which the class calls Reserved.
    u16::from(e.is_dpc) | u16::from(e.is_isr) << 1 | u16::from(e.priority & 31) << 3,
}

/// The kind of event about the sampling interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SampledProfileIntervalEvent {
    /// It has changed.
    Set = 72,
    /// It was in force when the session started.
    CollectionStart = 73,
    /// It was in force when the session stopped.
    CollectionEnd = 74,
}

/// The sampling interval (`SampledProfileInterval_V3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledProfileInterval<'a> {
    /// The kind of event.
    pub event: SampledProfileIntervalEvent,
    /// The source; 0 is the timer.
    pub source: u32,
    /// The interval in units of 100 ns, or the number of events for other sources.
    pub new_interval: u32,
    /// The previous interval.
    pub old_interval: u32,
    /// Name of the source, `Timer`.
    pub source_name: &'a [u8],
}

layout! {
    SampledProfileInterval<'_>, version 3, |e| System64 EventId::new(Class::PerfInfo, e.event as u8);
    e.source, e.new_interval, e.old_interval, Wide(e.source_name),
}

/// A system call starts (`SysCallEnter`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SysCallEnter {
    /// Address of the kernel's function for it.
    pub address: u64,
}

layout! { SysCallEnter, version 2, |e| PerfInfo64 ids::PerfInfo::SYS_CL_ENTER; e.address }

/// A system call ends (`SysCallExit`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SysCallExit {
    /// Status.
    pub status: u32,
}

layout! { SysCallExit, version 2, |e| PerfInfo64 ids::PerfInfo::SYS_CL_EXIT; e.status }

/// An interrupt was served (`ISR`). The record has the time of its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Isr {
    /// Start time on the session's clock.
    pub initial_time: Ticks,
    /// Address of the function that served it.
    pub routine: u64,
    /// Whether the function claimed the interrupt for its device.
    pub is_handled: bool,
    /// Number of the interrupt.
    pub vector: u16,
}

layout! {
    Isr, version 2, |e| PerfInfo64 ids::PerfInfo::ISR_67;
    e.initial_time, e.routine, u8::from(e.is_handled), e.vector, 0_u8,
}

/// Kinds of deferred calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DpcKind {
    /// In a thread.
    Threaded = 66,
    /// A softirq.
    Dpc = 68,
    /// A softirq that serves timers.
    Timer = 69,
}

/// A deferred call ran (`DPC`), in Linux a softirq. The record has the time of its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dpc {
    /// The kind.
    pub kind: DpcKind,
    /// Start time on the session's clock.
    pub initial_time: Ticks,
    /// Address of the function that ran.
    pub routine: u64,
}

layout! { Dpc, version 2, |e| PerfInfo64 EventId::new(Class::PerfInfo, e.kind as u8); e.initial_time, e.routine }

/// Maximum number of frames of a stack, as in ETW.
pub const MAX_FRAMES: usize = 192;

/// The stack of an event (`StackWalk_Event`).
///
/// It belongs to the event of the same time and thread. A stack that is found in two steps, kernel and user, may be
/// written as two events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackWalk<'a> {
    /// Time of the event.
    pub event_time: Ticks,
    /// The event's process.
    pub process_id: u32,
    /// The event's thread.
    pub thread_id: u32,
    /// Addresses, innermost first; those after the first [`MAX_FRAMES`] are left out.
    pub frames: &'a [u64],
}

layout! {
    StackWalk<'_>, version 2, |e| PerfInfo64 ids::StackWalk::STACK;
    e.event_time, e.process_id, e.thread_id, e.frames[..e.frames.len().min(MAX_FRAMES)],
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, fields_of};
    use super::*;

    #[test]
    fn fields_are_read_back() {
        let sample = SampledProfile {
            instruction_pointer: 0xFFFF_8000_0000_1234,
            thread_id: 5,
            count: 1,
            is_dpc: true,
            is_isr: false,
            priority: 14,
        };
        check(
            &sample,
            &[
                ("InstructionPointer", "0xffff800000001234"),
                ("ThreadId", "5"),
                ("Count", "1"),
                ("Reserved", "113"),
            ],
        );
        let reserved = |sample: SampledProfile| fields_of(&sample)[3].1.clone();
        assert_eq!(reserved(SampledProfile { is_isr: true, ..SampledProfile::default() }), "2");
        for event in [
            SampledProfileIntervalEvent::Set,
            SampledProfileIntervalEvent::CollectionStart,
            SampledProfileIntervalEvent::CollectionEnd,
        ] {
            let interval = SampledProfileInterval {
                event,
                source: 0,
                new_interval: 10_000,
                old_interval: 20_000,
                source_name: b"Timer",
            };
            check(
                &interval,
                &[
                    ("Source", "0"),
                    ("NewInterval", "10000"),
                    ("OldInterval", "20000"),
                    ("SourceName", "Timer"),
                ],
            );
        }
        check(&SysCallEnter { address: 0xFFFF_FFFF_8123_4567 }, &[("SysCallAddress", "0xffffffff81234567")]);
        check(&SysCallExit { status: 0xC000_0034 }, &[("SysCallNtStatus", "0xc0000034")]);
        // Ticks of the test's clock are units of 100 ns since 1601.
        let initial_time = Ticks(133_500_000_000_000_000);
        let time = ("InitialTime", "2024-01-17T21:20:00.0000000Z");
        let isr = Isr { initial_time, routine: 0xFFFF_F000, is_handled: true, vector: 0x1234 };
        check(
            &isr,
            &[time, ("Routine", "0xfffff000"), ("ReturnValue", "1"), ("Vector", "4660"), ("Reserved", "0")],
        );
        for kind in [DpcKind::Threaded, DpcKind::Dpc, DpcKind::Timer] {
            check(&Dpc { kind, initial_time, routine: 0xABC }, &[time, ("Routine", "0xabc")]);
        }
    }

    #[test]
    fn stacks_are_read_back() {
        let frames: Vec<u64> = (0..300).map(|frame| 0xFFFF_8000_0000_0000 + frame).collect();
        for len in [0, 1, 2, MAX_FRAMES, 300] {
            let stack =
                StackWalk { event_time: Ticks(99), process_id: 4, thread_id: 5, frames: &frames[..len] };
            let fields = fields_of(&stack);
            let texts: Vec<_> = fields.iter().map(|(_, text)| text.as_str()).collect();
            let all: Vec<_> =
                frames[..len.min(MAX_FRAMES)].iter().map(|frame| format!("{frame:#x}")).collect();
            assert_eq!(texts[..3], ["99", "0x4", "5"]);
            assert_eq!(texts[3], format!("[{}]", all.join(", ")));
        }
    }
}
