//! System calls.

use etw_event::{FileTime, Record};
use etw_kernel_events::read;

use super::facts::{CallBegun, Called};
use super::switches::Switches;
use crate::Window;
use crate::maps::HashMap;
use crate::processes::{Processes, ThreadIndex};

/// The current call of each thread.
#[derive(Debug, Default)]
pub(crate) struct SystemCalls {
    begun: HashMap<ThreadIndex, (u64, FileTime)>,
}

impl SystemCalls {
    /// Adds a PerfInfo/SysClEnter event; returns the call if it is in the window.
    pub(crate) fn enter(
        &mut self,
        record: &Record<'_>,
        processes: &mut Processes,
        switches: &Switches,
        window: &Window,
    ) -> Option<CallBegun> {
        let address = read::SysCallEnter::new(record).sys_call_address()?;
        let thread = thread(record, processes, switches);
        let time = record.time();
        if let Some(thread) = thread {
            self.begun.insert(thread, (address, time));
        }
        window.has(time).then_some(CallBegun { thread, address })
    }

    /// Adds a PerfInfo/SysClExit event; returns the call if it began in the window.
    pub(crate) fn exit(
        &mut self,
        record: &Record<'_>,
        processes: &mut Processes,
        switches: &Switches,
        window: &Window,
    ) -> Option<Called> {
        let status = read::SysCallExit::new(record).sys_call_nt_status()?;
        let thread = thread(record, processes, switches)?;
        let (address, begun) = self.begun.remove(&thread)?;
        let took = window.part(begun, record.time());
        window.has(begun).then_some(Called { thread, address, took, status })
    }
}

/// Returns the calling thread, from the header or else from the switches before.
fn thread(record: &Record<'_>, processes: &mut Processes, switches: &Switches) -> Option<ThreadIndex> {
    let of_header = record.thread_id().map(|id| processes.thread_at(id));
    of_header.or_else(|| switches.running(processes.machines.processor(record)))
}
