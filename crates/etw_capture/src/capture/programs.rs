//! The programs in the kernel: their hooks, and how they are attached.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aya::programs::perf_event::{
    PerfEvent, PerfEventConfig, PerfEventLinkId, PerfEventScope, SamplePolicy, SoftwareEvent,
};
use aya::programs::tp_btf::BtfTracePointLinkId;
use aya::programs::{BtfTracePoint, ProgramError};
use aya::util::KernelVersion;
use aya::{Btf, Ebpf};

use Place::{Clock, Each, TracePoint};

use etw_kernel_events::{Hook, Hooks};

use super::open_files;

/// Where a program runs.
#[derive(Clone, Copy)]
enum Place {
    TracePoint(&'static str),
    /// At each sample of a processor.
    Clock,
    /// At each software event of this kind, on every processor.
    Each(SoftwareEvent),
}

/// A program: its hook, its name in the object, and where it runs.
///
/// The programs of a hook are attached and detached in this order: those that record starts come before those that use
/// them.
const PROGRAMS: &[(Hook, &str, Place)] = &[
    (Hook::Process, "process_fork", TracePoint("sched_process_fork")),
    (Hook::Process, "process_rename", TracePoint("task_rename")),
    (Hook::Process, "process_exec", TracePoint("sched_process_exec")),
    (Hook::Process, "process_exit", TracePoint("sched_process_exit")),
    (Hook::ControlGroup, "process_move", TracePoint("cgroup_attach_task")),
    (Hook::ContextSwitch, "context_switch", TracePoint("sched_switch")),
    (Hook::ReadyThread, "ready_interrupt_enter", TracePoint("irq_handler_entry")),
    (Hook::ReadyThread, "ready_interrupt_exit", TracePoint("irq_handler_exit")),
    (Hook::ReadyThread, "ready_softirq_enter", TracePoint("softirq_entry")),
    (Hook::ReadyThread, "ready_softirq_exit", TracePoint("softirq_exit")),
    (Hook::ReadyThread, "ready_timer_enter", TracePoint("hrtimer_expire_entry")),
    (Hook::ReadyThread, "ready_timer_exit", TracePoint("hrtimer_expire_exit")),
    (Hook::ReadyThread, "ready_thread", TracePoint("sched_waking")),
    (Hook::Sample, "sample", Clock),
    (Hook::SystemCall, "system_call_enter", TracePoint("sys_enter")),
    (Hook::SystemCall, "system_call_exit", TracePoint("sys_exit")),
    (Hook::Interrupt, "interrupt_enter", TracePoint("irq_handler_entry")),
    (Hook::Interrupt, "interrupt_exit", TracePoint("irq_handler_exit")),
    (Hook::Dpc, "dpc_enter", TracePoint("softirq_entry")),
    (Hook::Dpc, "dpc_exit", TracePoint("softirq_exit")),
    (Hook::Disk, "disk_queue", TracePoint("block_rq_insert")),
    (Hook::Disk, "disk_merge", TracePoint("block_rq_merge")),
    (Hook::Disk, "disk_requeue", TracePoint("block_rq_requeue")),
    (Hook::Disk, "disk_issue", TracePoint("block_rq_issue")),
    (Hook::Disk, "disk_complete", TracePoint("block_rq_complete")),
    (Hook::HardFault, "fault_begin", TracePoint("page_fault_user")),
    (Hook::HardFault, "fault_begin_in_kernel", TracePoint("page_fault_kernel")),
    (Hook::HardFault, "fault_page", TracePoint("rss_stat")),
    (Hook::HardFault, "fault_hard", Each(SoftwareEvent::PageFaultsMaj)),
    (Hook::SoftFault, "fault_soft", Each(SoftwareEvent::PageFaultsMin)),
    (Hook::Network, "network_state", TracePoint("inet_sock_set_state")),
    (Hook::Network, "network_retransmit", TracePoint("tcp_retransmit_skb")),
    (Hook::Network, "network_send", TracePoint("sock_send_length")),
    (Hook::Network, "network_receive", TracePoint("sock_recv_length")),
    (Hook::Network, "network_call", TracePoint("sys_exit")),
    (Hook::Image, "image_unmap", TracePoint("mmap_lock_released")),
    (Hook::Memory, "memory_begin", TracePoint("sys_enter")),
    (Hook::Memory, "memory_end", TracePoint("sys_exit")),
    (Hook::File, "file_begin", TracePoint("sys_enter")),
    (Hook::File, "file_end", TracePoint("sys_exit")),
    (Hook::File, "file_process_exit", TracePoint("sched_process_exit")),
    (Hook::FileExec, "file_exec", TracePoint("sched_prepare_exec")),
    (Hook::FileRing, "ring_begin", TracePoint("io_uring_submit_req")),
    (Hook::FileRing, "ring_end", TracePoint("io_uring_complete")),
];

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TracePoint(name) => f.write_str(name),
            Clock => f.write_str("the cpu-clock event"),
            Each(event) => write!(f, "the {event:?} event"),
        }
    }
}

/// An attached program.
enum Link {
    TracePoint(&'static str, BtfTracePointLinkId),
    Event(&'static str, PerfEventLinkId),
}

/// The attached programs of one hook.
pub(super) struct Attached(Vec<Link>);

/// The programs of a [`Capture`](super::Capture).
///
/// The kernel's verifier takes some tens of milliseconds for a program, and a quarter of a second for some. If the
/// rings must be read meanwhile, another thread can load the programs before they are attached.
#[derive(Clone)]
pub struct KernelPrograms(Arc<Mutex<Object>>);

/// The programs and their maps, and the kernel's types.
pub(super) struct Object {
    pub(super) object: Ebpf,
    pub(super) types: Btf,
}

impl KernelPrograms {
    pub(super) fn new(object: Ebpf, types: Btf) -> KernelPrograms {
        KernelPrograms(Arc::new(Mutex::new(Object { object, types })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Object> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the programs of these hooks, and with `with_open_files` the one for
    /// [`Capture::open_files`](super::Capture::open_files). Failures are reported when the programs are attached.
    pub fn load(&self, hooks: Hooks, with_open_files: bool) {
        let Object { object, types } = &mut *self.lock();
        for (_, name, place) in PROGRAMS.iter().filter(|program| hooks.has(program.0)) {
            let _ = match place {
                TracePoint(tracepoint) => load_tracepoint(object, types, name, tracepoint).map(drop),
                Clock | Each(_) => load_event(object, name).map(drop),
            };
        }
        if with_open_files {
            let _ = open_files::load(object, types);
        }
    }
}

impl fmt::Debug for KernelPrograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelPrograms").finish_non_exhaustive()
    }
}

/// Attaches all programs of a hook, and loads them if needed. If one fails, none is attached.
pub(super) fn attach(
    Object { object, types }: &mut Object,
    hook: Hook,
    interval: Duration,
    processors: &[u32],
) -> Result<Attached, String> {
    if hook == Hook::Disk && !arguments_are_known() {
        return Err("its tracepoints need Linux 5.11 or later".to_owned());
    }
    let mut attached = Attached(Vec::new());
    for (_, name, place) in PROGRAMS.iter().filter(|program| program.0 == hook) {
        let done = match *place {
            TracePoint(tracepoint) => attach_tracepoint(object, types, name, tracepoint, &mut attached),
            Clock => {
                let period = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
                attach_event(object, name, SoftwareEvent::CpuClock, period, processors, &mut attached)
            }
            Each(event) => attach_event(object, name, event, 1, processors, &mut attached),
        };
        if let Err(error) = done {
            detach(object, attached);
            return Err(format!("{place}: {}", with_causes(&error)));
        }
    }
    Ok(attached)
}

/// Detaches the programs. They stay loaded.
pub(super) fn detach(object: &mut Ebpf, attached: Attached) {
    for link in attached.0 {
        // Fails only if the link is gone already.
        let _ = match link {
            Link::TracePoint(name, link) => {
                tracepoint_program(object, name).and_then(|program| program.detach(link))
            }
            Link::Event(name, link) => event_program(object, name).and_then(|program| program.detach(link)),
        };
    }
}

/// Returns whether the first argument of the disks' tracepoints is a request. Before Linux 5.11 it was a queue, and its
/// fields would be misread without any error.
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
    let program = load_tracepoint(object, types, name, tracepoint)?;
    attached.0.push(Link::TracePoint(name, program.attach()?));
    Ok(())
}

fn attach_event(
    object: &mut Ebpf,
    name: &'static str,
    event: SoftwareEvent,
    period: u64,
    processors: &[u32],
    attached: &mut Attached,
) -> Result<(), ProgramError> {
    let program = load_event(object, name)?;
    for cpu in processors {
        let (config, scope) =
            (PerfEventConfig::Software(event), PerfEventScope::AllProcessesOneCpu { cpu: *cpu });
        let link = program.attach(config, scope, SamplePolicy::Period(period), false)?;
        attached.0.push(Link::Event(name, link));
    }
    Ok(())
}

/// Returns a program, and loads it if needed.
fn load_tracepoint<'a>(
    object: &'a mut Ebpf,
    types: &Btf,
    name: &str,
    tracepoint: &str,
) -> Result<&'a mut BtfTracePoint, ProgramError> {
    let program = tracepoint_program(object, name)?;
    if program.fd().is_err() {
        program.load(tracepoint, types)?;
    }
    Ok(program)
}

fn load_event<'a>(object: &'a mut Ebpf, name: &str) -> Result<&'a mut PerfEvent, ProgramError> {
    let program = event_program(object, name)?;
    if program.fd().is_err() {
        program.load()?;
    }
    Ok(program)
}

fn tracepoint_program<'a>(object: &'a mut Ebpf, name: &str) -> Result<&'a mut BtfTracePoint, ProgramError> {
    object.program_mut(name).ok_or(ProgramError::UnexpectedProgramType)?.try_into()
}

fn event_program<'a>(object: &'a mut Ebpf, name: &str) -> Result<&'a mut PerfEvent, ProgramError> {
    object.program_mut(name).ok_or(ProgramError::UnexpectedProgramType)?.try_into()
}

/// Formats an error and its causes in one line.
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
