//! Processes and threads.

use std::collections::{HashMap, HashSet, VecDeque};

use etw_etl::WriteError;
use etw_event::Ticks;
use etw_kernel_events::classes::{
    Process, ProcessEvent, STILL_ACTIVE, Stamp, Thread, ThreadEvent, ThreadSetName,
};
use etw_perf_data::{Comm, Task};

use super::Moment;
use super::write::RecordWriter;

/// Time for a forked process to run a program, before it is reported as a copy of its parent: half a second.
const TIME_TO_EXEC_NANOS: i64 = 500_000_000;
/// User and session of a process, which the file does not have.
const UNKNOWN: u32 = u32::MAX;

/// The processes of a recording by their ids.
///
/// As in recordings of our own, the start of a process is reported when it runs its program, or otherwise some time
/// after the fork or when it ends.
#[derive(Debug, Default)]
pub(super) struct Processes {
    known: HashMap<u32, Known>,
    forked: VecDeque<(Ticks, u32)>,
    count: u64,
}

/// A process.
#[derive(Debug, Clone, Default)]
struct Known {
    key: u64,
    parent_id: u32,
    /// Name of the program.
    name: Vec<u8>,
    threads: HashSet<u32>,
    /// Whether its start has been reported.
    is_reported: bool,
}

impl Known {
    fn event(&self, event: ProcessEvent, process_id: u32, exit_status: i32) -> Process<'_> {
        Process {
            event,
            key: self.key,
            process_id,
            parent_id: self.parent_id,
            session_id: UNKNOWN,
            exit_status,
            uid: UNKNOWN,
            image_file_name: &self.name,
            command_line: b"",
        }
    }
}

impl Processes {
    /// Writes the starts of processes that were forked long ago and have run no program.
    pub(super) fn put_overdue(&mut self, moment: &Moment, out: &mut RecordWriter) -> Result<(), WriteError> {
        let now = moment.stamp.time;
        while let Some((time, process_id)) = self.forked.front().copied()
            && time.0.saturating_add(TIME_TO_EXEC_NANOS) < now.0
        {
            self.forked.pop_front();
            self.report(process_id, ProcessEvent::Start, moment, out)?;
        }
        Ok(())
    }

    /// A thread has a name, or a process runs a new program.
    pub(super) fn comm(
        &mut self,
        comm: &Comm<'_>,
        moment: &Moment,
        out: &mut RecordWriter,
    ) -> Result<(), WriteError> {
        let Comm { process_id, thread_id, name, is_exec } = *comm;
        let is_known = self.known.get(&process_id).is_some_and(|known| known.threads.contains(&thread_id));
        let known = self.process(process_id);
        known.threads.insert(thread_id);
        if is_exec || thread_id == process_id && !known.is_reported {
            known.name = name.to_vec();
        }
        if is_exec {
            known.is_reported = false;
            return self.report(process_id, ProcessEvent::Start, moment, out);
        }
        if moment.is_rundown || !is_known {
            if thread_id == process_id {
                self.report(process_id, ProcessEvent::DcStart, moment, out)?;
            }
            return out.put(moment, &Thread::new(ThreadEvent::DcStart, process_id, thread_id, name));
        }
        out.put(moment, &ThreadSetName { process_id, thread_id, name })
    }

    /// A thread was created, maybe as the first one of a process.
    pub(super) fn fork(
        &mut self,
        task: &Task,
        moment: &Moment,
        out: &mut RecordWriter,
    ) -> Result<(), WriteError> {
        let Task { process_id, parent_id, thread_id } = *task;
        if thread_id == process_id {
            let name = self.known.get(&parent_id).map(|parent| parent.name.clone()).unwrap_or_default();
            self.known.remove(&process_id);
            let known = self.process(process_id);
            (known.parent_id, known.name) = (parent_id, name);
        }
        // Of what existed already, the name follows.
        if moment.is_rundown {
            return Ok(());
        }
        let known = self.process(process_id);
        known.threads.insert(thread_id);
        let name = known.name.clone();
        if thread_id == process_id {
            self.forked.push_back((moment.stamp.time, process_id));
        }
        out.put(moment, &Thread::new(ThreadEvent::Start, process_id, thread_id, &name))
    }

    /// A thread has ended, maybe as the last one of its process.
    pub(super) fn exit(
        &mut self,
        task: &Task,
        moment: &Moment,
        out: &mut RecordWriter,
    ) -> Result<(), WriteError> {
        let Task { process_id, thread_id, .. } = *task;
        let stamp = Stamp { process_id, thread_id, ..moment.stamp };
        let moment = Moment { stamp, ..*moment };
        out.put(&moment, &Thread::new(ThreadEvent::End, process_id, thread_id, b""))?;
        let Some(known) = self.known.get_mut(&process_id) else { return Ok(()) };
        known.threads.remove(&thread_id);
        if !known.threads.is_empty() {
            return Ok(());
        }
        self.report(process_id, ProcessEvent::Start, &moment, out)?;
        let Some(known) = self.known.remove(&process_id) else { return Ok(()) };
        // The exit status is not in the file.
        out.put(&moment, &known.event(ProcessEvent::End, process_id, 0))
    }

    /// Writes the start of a process, if that has not been done.
    fn report(
        &mut self,
        process_id: u32,
        event: ProcessEvent,
        moment: &Moment,
        out: &mut RecordWriter,
    ) -> Result<(), WriteError> {
        let Some(known) = self.known.get_mut(&process_id).filter(|known| !known.is_reported) else {
            return Ok(());
        };
        known.is_reported = true;
        out.put(moment, &known.event(event, process_id, STILL_ACTIVE))
    }

    fn process(&mut self, process_id: u32) -> &mut Known {
        self.known.entry(process_id).or_insert_with(|| {
            self.count += 1;
            Known { key: self.count << 32 | u64::from(process_id), ..Known::default() }
        })
    }
}
