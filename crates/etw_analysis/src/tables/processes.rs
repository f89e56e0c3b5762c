//! The table of processes.

use etw_event::FileTime;
use etw_tables::{Cell, Column, ReportContext};

use crate::tables::table::{Table, TableKind};

const COLUMNS: &[Column] = &[
    Column::shown("process_id", "PID"),
    Column::shown("parent_id", "Parent"),
    Column::shown("process", "Process"),
    Column::shown("start_ns", "Start"),
    Column::shown("end_ns", "End"),
    Column::shown("exit_status", "Exit"),
    Column::shown("cpu_ns", "CPU"),
    Column::shown("command_line", "Command line"),
    Column::hidden("threads"),
];

/// Returns the table of processes.
pub(crate) fn table(context: &ReportContext<'_>) -> Table {
    let processes = context.processes;
    let mut threads = vec![0_u64; processes.all().count()];
    for process in processes.threads().filter_map(|thread| processes.thread(thread).process) {
        threads[process.0 as usize] += 1;
    }
    let mut rows: Vec<_> = processes
        .all()
        .filter(|(index, process)| context.wants(Some(*index)) && process.is_told())
        .map(|(index, process)| (context.cpu_of(index), index, process))
        .collect();
    // Without CPU times, processes that started during the trace come first.
    rows.sort_by_key(|(cpu, index, process)| {
        (process.id == 0, std::cmp::Reverse(*cpu), process.start.is_none(), *index)
    });
    let rows = rows.into_iter().map(|(cpu, index, process)| {
        let time = |time: Option<FileTime>| time.map_or(Cell::None, |time| context.time(time));
        vec![
            Cell::Id(process.id.into()),
            Cell::id(process.parent_id),
            Cell::text(process.shown_name()),
            time(process.start),
            time(process.end),
            process.exit_status.map_or(Cell::None, |status| Cell::Number(status.into())),
            Cell::duration(cpu),
            Cell::text(process.command_line.as_deref()),
            Cell::Count(threads[index.0 as usize]),
        ]
    });
    Table { kind: TableKind::Processes, columns: COLUMNS, rows: rows.collect(), notes: Vec::new() }
}
