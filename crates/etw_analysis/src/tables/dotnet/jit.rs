//! Methods that the JIT compiler compiled.

use std::cmp::Reverse;

use etw_event::FileTime;
use etw_machine::{
    ClrEvent, ClrProvider, Duration, HashMap, HashSet, MethodIndex, Methods, ProcessIndex, ThreadIndex,
    Window,
};
use etw_tables::{Cell, Column, ReportContext};

use crate::tables::table::{Table, TableKind};

/// Maximum number of compilations; further ones are only counted.
const MAX_COMPILED: usize = 1 << 20;
/// Maximum number of compilations whose end is awaited.
const MAX_BEGUN: usize = 1 << 16;

/// A compilation.
#[derive(Debug)]
struct Compiled {
    method: MethodIndex,
    process: ProcessIndex,
    thread: ThreadIndex,
    is_background: bool,
    /// Time of the end.
    end: FileTime,
    /// If the trace contains the start.
    begun: Option<Begun>,
}

/// A MethodJittingStarted event.
#[derive(Debug, Clone, Copy)]
struct Begun {
    time: FileTime,
    il_bytes: u32,
}

/// The compilations of all processes.
#[derive(Debug, Default)]
pub(crate) struct Jit {
    compiled: Vec<Compiled>,
    /// Compilations beyond the maximum.
    skipped: u64,
    /// By thread and method.
    begun: HashMap<(ThreadIndex, u64), Begun>,
    /// Threads that compile in the background now.
    background: HashSet<ThreadIndex>,
}

impl Jit {
    /// Adds an event; `method` is the method that it describes, if it is in place.
    pub(crate) fn event(&mut self, event: &ClrEvent<'_>, method: Option<MethodIndex>, window: &Window) {
        match (event.provider, event.id) {
            (ClrProvider::Runtime, 145) => self.begin(event),
            (ClrProvider::Runtime, 143) => self.end(event, method, window),
            // TieredCompilationBackgroundJitStart and Stop.
            (ClrProvider::Runtime, 283) => self.background.extend([event.thread]),
            (ClrProvider::Runtime, 284) => self.background.retain(|thread| *thread != event.thread),
            (ClrProvider::Private, 201) => self.multicore(event),
            _ => {}
        }
    }

    fn begin(&mut self, event: &ClrEvent<'_>) {
        let Some(id) = event.get::<u64>("MethodID") else { return };
        if self.begun.len() < MAX_BEGUN {
            let begun = Begun { time: event.time, il_bytes: event.get("MethodILSize").unwrap_or(0) };
            self.begun.insert((event.thread, id), begun);
        }
    }

    fn end(&mut self, event: &ClrEvent<'_>, method: Option<MethodIndex>, window: &Window) {
        let id = event.get::<u64>("MethodID");
        let begun = id.and_then(|id| self.begun.remove(&(event.thread, id)));
        let Some(method) = method.filter(|_| window.has(event.time)) else { return };
        if self.compiled.len() >= MAX_COMPILED {
            self.skipped += 1;
            return;
        }
        self.compiled.push(Compiled {
            method,
            process: event.process,
            thread: event.thread,
            is_background: self.background.contains(&event.thread),
            end: event.time,
            begun,
        });
    }

    /// Adds an event of the compiler that follows a recorded profile on a thread of its own (MulticoreJit).
    fn multicore(&mut self, event: &ClrEvent<'_>) {
        // Only that thread waits for modules or compiles.
        if event.get::<String>("String1").is_some_and(|what| matches!(&*what, "JITTHREAD" | "GROUPWAIT")) {
            self.background.insert(event.thread);
        }
    }

    /// Returns the table of compilations.
    pub(crate) fn table(&self, methods: &Methods, context: &ReportContext<'_>) -> Table {
        let wanted = self.compiled.iter().filter(|compiled| context.wants(Some(compiled.process)));
        // Code from files is loaded by the same event.
        let jitted = wanted.filter_map(|compiled| {
            let method = methods.get(compiled.method).filter(|method| method.is_jitted())?;
            Some((compiled, method))
        });
        let mut rows: Vec<_> = jitted.collect();
        let took =
            |compiled: &Compiled| compiled.begun.map(|begun| Window::ALL.part(begun.time, compiled.end));
        rows.sort_by_key(|(compiled, _)| (Reverse(took(compiled)), compiled.end, compiled.method));
        let all: Duration = rows.iter().filter_map(|(compiled, _)| took(compiled)).sum();
        let rows = rows.into_iter().map(|(compiled, method)| {
            let [process, process_id] = context.process(Some(compiled.process));
            let begun = compiled.begun;
            vec![
                process,
                process_id,
                Cell::Text(methods.full_name(method, None, false)),
                Cell::text(method.tier()),
                Cell::Id(context.processes.thread(compiled.thread).id.into()),
                Cell::Text(if compiled.is_background { "yes" } else { "no" }.to_owned()),
                context.time(begun.map_or(compiled.end, |begun| begun.time)),
                Cell::duration(took(compiled)),
                Cell::percent(took(compiled).unwrap_or_default().0, all.0),
                begun.map_or(Cell::None, |begun| Cell::Bytes(begun.il_bytes.into())),
                Cell::Bytes(method.len_bytes()),
            ]
        });
        let rows: Vec<_> = rows.collect();
        let mut notes = Vec::new();
        if self.skipped > 0 {
            notes.push(format!("{} more compilations are not in the table.", self.skipped));
        }
        Table { kind: TableKind::Jit, columns: COLUMNS, rows, notes }
    }
}

const COLUMNS: &[Column] = &[
    Column::shown("process", "Process"),
    Column::shown("process_id", "PID"),
    Column::shown("method", "Method"),
    Column::shown("tier", "Tier"),
    Column::shown("thread_id", "Thread"),
    Column::shown("background", "Background"),
    Column::hidden("start_ns"),
    Column::shown("time_ns", "Time"),
    Column::hidden("time_percent"),
    Column::shown("il_bytes", "IL"),
    Column::shown("native_bytes", "Native"),
];
