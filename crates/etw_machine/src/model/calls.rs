//! System calls.

use etw_event::{FileTime, Record};
use etw_kernel_events::read;

use super::facts::{Called, UnendedCall};
use super::switches::Switches;
use crate::Window;
use crate::maps::HashMap;
use crate::processes::{Processes, ProgramChange, ThreadIndex};

/// The current call of each thread.
#[derive(Debug, Default)]
pub struct SystemCalls {
    begun: HashMap<ThreadIndex, (u64, FileTime)>,
    /// Whether the thread of any call is known.
    pub has_threads: bool,
}

impl SystemCalls {
    /// Adds a PerfInfo/SysClEnter event. Returns the call if its thread is not known, and else one whose end the trace
    /// lacks, since another one begins; only if that began in the window.
    pub(crate) fn enter(
        &mut self,
        record: &Record<'_>,
        processes: &mut Processes,
        switches: &Switches,
        window: &Window,
    ) -> Option<UnendedCall> {
        let address = read::SysCallEnter::new(record).sys_call_address()?;
        let thread = thread(record, processes, switches);
        let begun = (address, record.time());
        let (address, time) = match thread {
            Some(thread) => {
                self.has_threads = true;
                self.begun.insert(thread, begun)?
            }
            None => begun,
        };
        window.has(time).then_some(UnendedCall { thread, address, time })
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

    /// Lets a thread go on in another program: the call that replaced it returns there.
    pub(crate) fn change_program(&mut self, ProgramChange { before, after }: ProgramChange) {
        if let Some(call) = self.begun.remove(&before) {
            self.begun.insert(after, call);
        }
    }

    /// Returns the calls in the window that have not ended, in the order of their starts.
    pub fn finish(&mut self, window: &Window) -> Vec<UnendedCall> {
        let begun = std::mem::take(&mut self.begun).into_iter();
        let calls =
            begun.map(|(thread, (address, time))| UnendedCall { thread: Some(thread), address, time });
        let mut calls: Vec<UnendedCall> = calls.filter(|call| window.has(call.time)).collect();
        calls.sort_unstable_by_key(|call| (call.time, call.thread));
        calls
    }
}

/// Returns the calling thread, from the header or else from the switches before.
fn thread(record: &Record<'_>, processes: &mut Processes, switches: &Switches) -> Option<ThreadIndex> {
    let of_header = record.thread_id().map(|id| processes.thread_at(id));
    of_header.or_else(|| switches.running(processes.machines.processor(record)))
}
