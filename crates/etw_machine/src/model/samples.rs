//! Samples of processors, and the time between two.

use etw_event::Record;
use etw_kernel_events::read;

use super::facts::Sampled;
use crate::processes::Processes;
use crate::{Duration, Window};

/// Default sampling interval if the trace does not contain it: 1 ms.
const DEFAULT_INTERVAL: u64 = 10_000;

/// The sampling interval of each machine in units of 100 ns, if its events contain it.
#[derive(Debug, Default)]
pub struct Intervals(Vec<u64>);

impl Intervals {
    /// Sets the interval from an event.
    pub fn set(&mut self, record: &Record<'_>, machine: u32) {
        let set = read::ProfileInterval::new(record);
        if let (Some(0), Some(interval @ 1..)) = (set.source(), set.new_interval()) {
            let machine = machine as usize;
            if machine >= self.0.len() {
                self.0.resize(machine + 1, DEFAULT_INTERVAL);
            }
            self.0[machine] = interval.into();
        }
    }

    /// Returns the interval of a machine.
    pub fn at_machine(&self, machine: u32) -> Duration {
        Duration(self.0.get(machine as usize).copied().unwrap_or(DEFAULT_INTERVAL))
    }

    /// Returns a sample in the window.
    pub fn sample(&self, record: &Record<'_>, processes: &mut Processes, window: &Window) -> Option<Sampled> {
        let sample = read::SampledProfile::new(record);
        let (instruction, thread_id) = (sample.instruction_pointer()?, sample.thread_id()?);
        if !window.has(record.time()) {
            return None;
        }
        let count = u64::from(sample.count().unwrap_or(1).max(1));
        let weight = Duration(count.saturating_mul(self.at_machine(processes.machine()).0));
        Some(Sampled { thread: processes.thread_at(thread_id), thread_id, instruction, count, weight })
    }
}
