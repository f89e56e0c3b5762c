//! The programs in the kernel: which there are, for which hook, and how they are attached.

use std::time::Duration;

use aya::programs::perf_event::{
    PerfEvent, PerfEventConfig, PerfEventLinkId, PerfEventScope, SamplePolicy, SoftwareEvent,
};
use aya::programs::tp_btf::BtfTracePointLinkId;
use aya::programs::{BtfTracePoint, ProgramError};
use aya::util::KernelVersion;
use aya::{Btf, Ebpf};

use crate::Hook;

/// A program: its hook, its name in the object, and its tracepoint; without one it runs at each sample.
///
/// Those of one hook are attached in this order, and detached in it: what notes begins goes before what reads them.
const PROGRAMS: &[(Hook, &str, Option<&str>)] = &[
    (Hook::Process, "process_fork", Some("sched_process_fork")),
    (Hook::Process, "process_exec", Some("sched_process_exec")),
    (Hook::Process, "process_exit", Some("sched_process_exit")),
    (Hook::ContextSwitch, "context_switch", Some("sched_switch")),
    (Hook::ReadyThread, "ready_thread", Some("sched_waking")),
    (Hook::Sample, "sample", None),
    (Hook::SystemCall, "system_call_enter", Some("sys_enter")),
    (Hook::SystemCall, "system_call_exit", Some("sys_exit")),
    (Hook::Interrupt, "interrupt_enter", Some("irq_handler_entry")),
    (Hook::Interrupt, "interrupt_exit", Some("irq_handler_exit")),
    (Hook::Dpc, "dpc_enter", Some("softirq_entry")),
    (Hook::Dpc, "dpc_exit", Some("softirq_exit")),
    (Hook::Disk, "disk_issue", Some("block_rq_issue")),
    (Hook::Disk, "disk_complete", Some("block_rq_complete")),
    (Hook::PageFault, "page_fault", Some("page_fault_user")),
    (Hook::Network, "network_state", Some("inet_sock_set_state")),
    (Hook::Network, "network_retransmit", Some("tcp_retransmit_skb")),
    (Hook::Network, "network_send", Some("sock_send_length")),
    (Hook::Network, "network_receive", Some("sock_recv_length")),
    (Hook::Network, "network_call", Some("sys_exit")),
    (Hook::Image, "image_unmap", Some("mmap_lock_released")),
];

/// A program at its place.
enum Link {
    TracePoint(&'static str, BtfTracePointLinkId),
    Sample(&'static str, PerfEventLinkId),
}

/// The programs of one hook at their places.
pub(super) struct Attached(Vec<Link>);

/// Loads the programs of a hook where that has not been done, and attaches them; all of them, or none.
pub(super) fn attach(
    object: &mut Ebpf,
    types: &Btf,
    hook: Hook,
    interval: Duration,
    processors: &[u32],
) -> Result<Attached, String> {
    if hook == Hook::Disk && !arguments_are_known() {
        return Err("its tracepoints have the arguments that are read since Linux 5.11".to_owned());
    }
    let mut attached = Attached(Vec::new());
    for (_, name, tracepoint) in PROGRAMS.iter().filter(|program| program.0 == hook) {
        let done = match tracepoint {
            Some(tracepoint) => attach_tracepoint(object, types, name, tracepoint, &mut attached),
            None => attach_samples(object, name, interval, processors, &mut attached),
        };
        if let Err(error) = done {
            detach(object, attached);
            let place = tracepoint.unwrap_or("the cpu-clock event");
            return Err(format!("{place}: {}", with_causes(&error)));
        }
    }
    Ok(attached)
}

/// Takes the programs away from their places. They stay loaded.
pub(super) fn detach(object: &mut Ebpf, attached: Attached) {
    for link in attached.0 {
        // A link that is not there any more is what is wanted.
        let _ = match link {
            Link::TracePoint(name, link) => {
                tracepoint_program(object, name).and_then(|program| program.detach(link))
            }
            Link::Sample(name, link) => sample_program(object, name).and_then(|program| program.detach(link)),
        };
    }
}

/// Whether the tracepoints of disks have a request as their first argument. Before, a queue stood there, and nothing
/// would tell that fields of another structure are read.
fn arguments_are_known() -> bool {
    KernelVersion::current().is_ok_and(|version| version >= KernelVersion::new(5, 11, 0))
}

fn attach_tracepoint(
    object: &mut Ebpf,
    types: &Btf,
    name: &'static str,
    tracepoint: &str,
    attached: &mut Attached,
) -> Result<(), ProgramError> {
    let program = tracepoint_program(object, name)?;
    if program.fd().is_err() {
        program.load(tracepoint, types)?;
    }
    attached.0.push(Link::TracePoint(name, program.attach()?));
    Ok(())
}

fn attach_samples(
    object: &mut Ebpf,
    name: &'static str,
    interval: Duration,
    processors: &[u32],
    attached: &mut Attached,
) -> Result<(), ProgramError> {
    let program = sample_program(object, name)?;
    if program.fd().is_err() {
        program.load()?;
    }
    let clock = PerfEventConfig::Software(SoftwareEvent::CpuClock);
    let period = SamplePolicy::Period(u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1));
    for cpu in processors {
        let scope = PerfEventScope::AllProcessesOneCpu { cpu: *cpu };
        attached.0.push(Link::Sample(name, program.attach(clock, scope, period, false)?));
    }
    Ok(())
}

fn tracepoint_program<'a>(object: &'a mut Ebpf, name: &str) -> Result<&'a mut BtfTracePoint, ProgramError> {
    object.program_mut(name).ok_or(ProgramError::UnexpectedProgramType)?.try_into()
}

fn sample_program<'a>(object: &'a mut Ebpf, name: &str) -> Result<&'a mut PerfEvent, ProgramError> {
    object.program_mut(name).ok_or(ProgramError::UnexpectedProgramType)?.try_into()
}

/// An error with what caused it, in one line.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect::<Vec<_>>().join("; ")
}
