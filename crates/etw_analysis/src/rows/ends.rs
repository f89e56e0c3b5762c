//! The tables that are known at the end: processes, threads, images, collections, and rows without an end.

use etw_columns::ColumnsError;

use super::RowTables;
use super::declared::Pen;
use super::put::{nanos, put, put_text};
use crate::addresses::{KERNEL_32, KERNEL_64};
use crate::names::Space;
use crate::processes::ProcessIndex;

impl RowTables {
    /// Writes the rows that wait for an end which is not in the trace, and tables that are known at the end.
    pub(super) fn left_over(&mut self) -> Result<(), ColumnsError> {
        let RowTables { analysis, writer, tables, frames, declared, objects, is_32_bit, .. } = self;
        let (processes, versions) = (&mut analysis.processes, &analysis.samples.versions);
        self.commits.finish(processes, tables.virtual_alloc, writer)?;
        self.connections.finish(tables.connections, writer)?;
        self.activities.write(tables.activities, writer)?;
        self.regions.write(tables.regions_of_interest, writer)?;
        self.registry.write(tables.registry_keys, writer)?;
        let is_32_bit = *is_32_bit;
        self.heaps.finish(tables.heap, writer)?;
        let disk = &analysis.disk;
        self.disks.write(|machine, number| disk.label(machine, number), tables.disk_queue, writer)?;
        let files = &mut analysis.files;
        declared.finish(&mut Pen { writer, processes, frames, objects, files, versions, is_32_bit })?;
        objects.write((tables.object_types, tables.gpu_contexts), writer)?;
        for collected in analysis.dotnet.collected() {
            let mut row = writer.row(tables.gc)?;
            row.time(0, collected.start).code(3, collected.process.0).u32(4, collected.number);
            if let Some(end) = collected.end {
                row.time(1, end).duration(2, end.0.saturating_sub(collected.start.0).saturating_mul(100));
            }
            if let Some(generation) = collected.generation {
                row.u32(5, generation);
            }
            put_text(&mut row, 6, collected.kind);
            put_text(&mut row, 7, collected.reason);
            for (column, time) in [(8, collected.pause), (9, collected.suspension)] {
                if let Some(time) = time {
                    row.duration(column, nanos(time));
                }
            }
            let sizes = [(10, collected.before), (11, collected.after), (12, collected.promoted)];
            for (column, size) in sizes {
                if let Some(size) = size {
                    row.u64(column, size);
                }
            }
            row.end()?;
        }
        Ok(())
    }

    pub(super) fn processes(&mut self) -> Result<(), ColumnsError> {
        let RowTables { analysis, writer, tables, lives, frames, is_32_bit, .. } = self;
        let table = tables.processes;
        for (index, process) in analysis.processes.all() {
            let name = process.shown_name();
            let mut row = writer.row(table)?;
            row.text(0, &format!("{} ({})", name.unwrap_or("?"), process.id));
            put_text(&mut row, 1, name);
            row.u32(2, process.id);
            put(&mut row, 3, process.parent.map(|ProcessIndex(parent)| parent));
            if let Some(parent) = process.parent_id {
                row.u32(4, parent);
            }
            for (column, time) in [(5, process.start), (6, process.end)] {
                if let Some(time) = time {
                    row.time(column, time);
                }
            }
            if let Some(status) = process.exit_status {
                row.i64(7, status.into());
            }
            put_text(&mut row, 8, process.command_line.as_deref());
            if let (Some(start), Some(end)) = (process.start, process.end) {
                row.duration(9, end.0.saturating_sub(start.0).saturating_mul(100));
            }
            if let Some(life) = lives.processes.get(&index) {
                if let Some(session) = life.session {
                    row.u32(10, session);
                }
                put_text(&mut row, 11, life.package.as_deref());
                put(&mut row, 12, life.stack);
            }
            row.end()?;
        }
        let table = tables.threads;
        for index in analysis.processes.threads() {
            let thread = analysis.processes.thread(index);
            let life = lives.threads.get(&index).copied().unwrap_or_default();
            let start_function = life.start_address.map(|address| {
                let limit = if *is_32_bit { KERNEL_32 } else { KERNEL_64 };
                let space = match thread.process {
                    _ if address >= limit => Space::Kernel(thread.machine),
                    Some(process) => {
                        let versions = &analysis.samples.versions;
                        let now = versions.now(Some(process));
                        Space::Process(process, versions.at(Some(process), address, now))
                    }
                    None => Space::Unknown,
                };
                frames.of(space, address)
            });
            let mut row = writer.row(table)?;
            row.u32(0, thread.id);
            put(&mut row, 1, thread.process.map(|ProcessIndex(process)| process));
            put_text(&mut row, 2, thread.name.as_deref());
            for (column, time) in [(3, life.start), (4, life.end)] {
                if let Some(time) = time {
                    row.time(column, time);
                }
            }
            if let (Some(start), Some(end)) = (life.start, life.end) {
                row.duration(5, end.0.saturating_sub(start.0).saturating_mul(100));
            }
            put(&mut row, 6, start_function);
            if let Some(teb) = life.teb {
                row.u64(7, teb);
            }
            put(&mut row, 8, life.stack);
            row.end()?;
        }
        Ok(())
    }

    pub(super) fn images(&mut self) -> Result<(), ColumnsError> {
        let RowTables { analysis, writer, tables, lives, .. } = self;
        let table = tables.images;
        for (process, base, end, image) in analysis.images.ranges() {
            let mut row = writer.row(table)?;
            put(&mut row, 0, process.map(|ProcessIndex(process)| process));
            row.text(1, &image.path).text(2, image.name()).u64(3, base).u64(4, end - base);
            if let Some(life) = lives.images.get(&(process, base)) {
                for (column, time) in [(5, life.load), (6, life.unload)] {
                    if let Some(time) = time {
                        row.time(column, time);
                    }
                }
                put(&mut row, 7, life.stack);
                if life.time_stamp != 0 {
                    row.u32(8, life.time_stamp);
                }
                if let Some(version) = lives.versions.get(&(life.time_stamp, life.size)) {
                    for (column, text) in (9..).zip(&version.texts) {
                        put_text(&mut row, column, text.as_deref());
                    }
                }
            }
            row.end()?;
        }
        Ok(())
    }
}
