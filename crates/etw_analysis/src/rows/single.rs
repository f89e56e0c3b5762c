//! The rows of what single events say, as the counters of reports found it.

use etw_columns::{ColumnsError, Row};
use etw_event::{FileTime, Record};
use etw_kernel_events::{ids, read};

use super::RowTables;
use super::disks::priority;
use super::put::{nanos, put, put_text, units};
use super::seen::Seen;
use crate::addresses::{KERNEL_32, KERNEL_64};
use crate::facts::{Called, DiskDone, FileDone, HardFault, Interrupted, Sampled, Switched, Transferred};
use crate::maps::HashMap;
use crate::names::Space;
use crate::switches::{ReadiedBy, reason_name};

impl RowTables {
    pub(super) fn switch(
        &mut self,
        record: &Record<'_>,
        switched: &Switched,
        [stack, waited_at]: [Option<u32>; 2],
    ) -> Result<(), ColumnsError> {
        let processor = self.analysis.processes.machines.processor(record) as u32;
        let mut row = self.writer.row(self.tables.cpu_precise)?;
        row.time(0, record.time()).code(1, switched.to.0).code(2, switched.from.0).u32(3, processor);
        row.duration(4, nanos(switched.ran));
        if let Some(reason) = switched.reason {
            row.duration(5, nanos(switched.waited)).duration(6, nanos(switched.ready));
            put_reason(&mut row, 7, reason);
        }
        match switched.readied_by {
            ReadiedBy::Thread(thread) => drop(row.text(8, "thread").code(9, thread.0)),
            ReadiedBy::Interrupt => drop(row.text(8, "interrupt")),
            ReadiedBy::Nobody | ReadiedBy::Unknown => {}
        }
        row.u32(10, switched.to_priority.max(0).unsigned_abs().into());
        put_reason(&mut row, 11, switched.from_reason);
        row.u32(12, switched.from_state.into());
        put(&mut row, 13, stack);
        put(&mut row, 14, waited_at);
        row.end()
    }

    pub(super) fn sample(
        &mut self,
        record: &Record<'_>,
        sampled: &Sampled,
        stack: Option<u32>,
    ) -> Result<(), ColumnsError> {
        let analysis = &self.analysis;
        let processor = analysis.processes.machines.processor(record) as u32;
        let limit = if self.is_32_bit { KERNEL_32 } else { KERNEL_64 };
        let space = match analysis.processes.thread(sampled.thread).process {
            _ if sampled.instruction >= limit => Space::Kernel(analysis.processes.machine()),
            Some(process) => {
                let versions = &analysis.samples.versions;
                let version = versions.at(Some(process), sampled.instruction, versions.now(Some(process)));
                Space::Process(process, version)
            }
            None => Space::Unknown,
        };
        let frame = self.frames.of(space, sampled.instruction);
        let mut row = self.writer.row(self.tables.cpu_sampled)?;
        row.time(0, record.time()).code(1, sampled.thread.0).u32(2, processor).code(3, frame);
        row.duration(4, nanos(sampled.weight)).u64(5, sampled.count);
        put(&mut row, 6, stack);
        row.end()
    }

    pub(super) fn disk(&mut self, record: &Record<'_>, done: &DiskDone) -> Result<(), ColumnsError> {
        let machine = self.analysis.processes.machine();
        let disk = self.analysis.disk.label(machine, done.disk);
        let start = FileTime(record.time().0.saturating_sub(units(done.took)));
        let service = self.disks.done(machine, done.disk, start, record.time());
        let mut row = self.writer.row(self.tables.disk)?;
        row.time(0, record.time());
        put(&mut row, 1, done.thread.map(|thread| thread.0));
        row.text(2, &disk).text(3, done.operation);
        put(&mut row, 4, done.file.map(|file| file.number()));
        row.u64(5, done.bytes.into());
        if let Some(offset) = done.offset {
            row.u64(6, offset);
        }
        row.duration(7, nanos(done.took)).u32(8, done.irp_flags);
        row.time(9, start).duration(10, service);
        put_text(&mut row, 11, priority(done.irp_flags));
        put(&mut row, 12, self.disks.stack);
        row.end()
    }

    pub(super) fn file(&mut self, done: &FileDone) -> Result<(), ColumnsError> {
        let mut row = self.writer.row(self.tables.file_io)?;
        row.time(0, done.begin).code(1, done.thread.0).text(2, done.operation).code(3, done.file.number());
        row.u64(4, done.bytes);
        if let Some(took) = done.took {
            row.duration(5, nanos(took));
        }
        if let Some(status) = done.status {
            row.u32(6, status);
        }
        if let Some(took) = done.took {
            row.time(7, FileTime(done.begin.0.saturating_add(units(took))));
        }
        put(&mut row, 8, self.operation_stack);
        row.end()
    }

    pub(super) fn fault(
        &mut self,
        record: &Record<'_>,
        fault: &HardFault,
        stack: Option<u32>,
    ) -> Result<(), ColumnsError> {
        let mut row = self.writer.row(self.tables.hard_faults)?;
        row.time(0, record.time()).code(1, fault.thread.0);
        put(&mut row, 2, fault.file.map(|file| file.number()));
        row.u64(3, fault.bytes.into()).duration(4, nanos(fault.took)).u64(5, fault.address);
        put(&mut row, 6, stack);
        row.u64(7, fault.offset);
        row.end()
    }

    pub(super) fn interrupt(
        &mut self,
        record: &Record<'_>,
        interrupt: &Interrupted,
    ) -> Result<(), ColumnsError> {
        let processes = &self.analysis.processes;
        let (machine, processor) = (processes.machine(), processes.machines.processor(record) as u32);
        let routine = self.frames.of(Space::Kernel(machine), interrupt.routine);
        let mut row = self.writer.row(self.tables.dpc_isr)?;
        row.time(0, record.time()).u32(1, processor).text(2, interrupt.kind).code(3, routine);
        if let Some(vector) = interrupt.vector {
            row.u32(4, vector.into());
        }
        row.duration(5, nanos(interrupt.took));
        row.end()
    }

    pub(super) fn call(&mut self, record: &Record<'_>, call: &Called) -> Result<(), ColumnsError> {
        let machine = self.analysis.processes.machine();
        let routine = self.frames.of(Space::Kernel(machine), call.address);
        let mut row = self.writer.row(self.tables.syscalls)?;
        row.time(0, record.time()).code(1, call.thread.0).code(2, routine);
        row.duration(3, nanos(call.took)).u32(4, call.status);
        row.end()
    }

    pub(super) fn transfer(
        &mut self,
        record: &Record<'_>,
        transfer: &Transferred,
        stack: Option<u32>,
    ) -> Result<(), ColumnsError> {
        let Transferred { process, protocol, operation, bytes, local, remote } = *transfer;
        let mut row = self.writer.row(self.tables.network)?;
        row.time(0, record.time()).code(1, process.0).text(2, protocol).text(3, operation);
        row.text(4, &local.0.to_string()).u32(5, local.1.into());
        row.text(6, &remote.0.to_string()).u32(7, remote.1.into()).u64(8, bytes);
        put(&mut row, 9, stack);
        row.end()
    }
}

fn put_reason(row: &mut Row<'_>, column: usize, reason: u8) {
    match reason_name(reason) {
        Some(name) => row.text(column, name),
        None => row.text(column, &reason.to_string()),
    };
}

/// Returns the stack of the operation on a file that an event ends, or keeps that of one that it starts.
pub(super) fn operation(
    seen: &Seen<'_, '_>,
    machine: u32,
    operations: &mut HashMap<(u32, u64), u32>,
) -> Option<u32> {
    /// Maximum number of operations that wait for their end.
    const MAX_OPERATIONS: usize = 1 << 20;
    let ends = seen.id == Some(ids::FileIo::OPERATION_END);
    if !ends && !seen.id.is_some_and(read::FileOperation::reads) {
        return None;
    }
    let irp = seen.get::<u64>(&["IrpPtr"])?;
    if ends {
        return operations.remove(&(machine, irp));
    }
    if let Some(stack) = seen.stack.filter(|_| operations.len() < MAX_OPERATIONS) {
        operations.insert((machine, irp), stack);
    }
    None
}
