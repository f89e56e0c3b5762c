//! A machine with hand-written events.

use std::collections::HashMap;
use std::io::Cursor;

use etw_analysis::{Analysis, Report, ReportOptions, Table, TableKind};
use etw_consumer::{Trace, TraceBuilder};
use etw_etl::{EtlWriter, WriterOptions};
use etw_event::{Clock, ClockType, FileTime, Origin, Record, Ticks};
use etw_kernel_events::classes::{
    KernelEvent, Process, ProcessEvent, RecordBuffer, STILL_ACTIVE, Stamp, Thread, ThreadEvent, ThreadSetName,
};
use etw_machine::{Duration, Window};
use etw_tables::Cell;

pub(crate) const START: FileTime = FileTime(133_000_000_000_000_000);
/// Ticks of the clock per microsecond.
const PER_MICRO: i64 = 10;

/// The events to write.
#[derive(Default, Clone)]
pub(crate) struct Machine {
    records: Vec<(i64, u16, Vec<u8>)>,
}

impl Machine {
    /// Adds an event on a processor, at a time in microseconds after the start.
    pub(crate) fn put(&mut self, micros: i64, processor: u16, event: &impl KernelEvent) {
        self.put_by(micros, processor, 0, event);
    }

    /// Adds an event logged by a thread, if its header has a thread.
    pub(crate) fn put_by(&mut self, micros: i64, processor: u16, thread: u32, event: &impl KernelEvent) {
        self.put_of(micros, processor, [0, thread], event);
    }

    /// Adds an event logged by a thread of a process, if its header has these.
    pub(crate) fn put_of(
        &mut self,
        micros: i64,
        processor: u16,
        [process, thread]: [u32; 2],
        event: &impl KernelEvent,
    ) {
        let mut buffer = RecordBuffer::new();
        assert!(buffer.put(&Stamp::new(Ticks(micros * PER_MICRO), process, thread), event));
        let bytes: Vec<u8> = buffer.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        // Removes the padding of the last word.
        let origin = Origin::default();
        let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap().as_bytes().to_vec();
        self.records.push((micros, processor, record));
    }

    /// Adds a record as bytes.
    pub(crate) fn put_bytes(&mut self, micros: i64, processor: u16, bytes: Vec<u8>) {
        self.records.push((micros, processor, bytes));
    }

    pub(crate) fn process(&mut self, micros: i64, event: ProcessEvent, id: u32, parent_id: u32, name: &str) {
        self.process_by(micros, 0, event, [id, parent_id], name);
    }

    /// A process of Linux replaces its program.
    pub(crate) fn exec(&mut self, micros: i64, id: u32, name: &str) {
        let named =
            ThreadSetName { process_id: id, thread_id: id, name: &name.as_bytes()[..name.len().min(15)] };
        self.put_of(micros - 5, 0, [id, id], &named);
        self.process_by(micros, id, ProcessEvent::Start, [id, 1], name);
    }

    fn process_by(
        &mut self,
        micros: i64,
        by: u32,
        event: ProcessEvent,
        [id, parent_id]: [u32; 2],
        name: &str,
    ) {
        let exit_status = if event == ProcessEvent::End { id as i32 } else { STILL_ACTIVE };
        let command_line = format!("{name}\0-x\0");
        let process = Process {
            event,
            key: id.into(),
            process_id: id,
            parent_id,
            session_id: 0,
            exit_status,
            uid: 0,
            image_file_name: name.as_bytes(),
            command_line: command_line.as_bytes(),
        };
        self.put_of(micros, 0, [by, by], &process);
    }

    pub(crate) fn thread(&mut self, micros: i64, event: ThreadEvent, id: u32, process_id: u32, name: &str) {
        let thread = Thread {
            event,
            process_id,
            thread_id: id,
            user_stack_base: 0,
            affinity: 0,
            start_address: 0,
            base_priority: 8,
            name: name.as_bytes(),
        };
        self.put(micros, 0, &thread);
    }

    /// Adds a process with one thread of the same id that exists from the start.
    pub(crate) fn there_is(&mut self, id: u32, name: &str) {
        self.process(0, ProcessEvent::DcStart, id, 1, name);
        self.thread(0, ThreadEvent::DcStart, id, id, "");
    }

    /// Returns the report of all tables over the whole trace of this many microseconds. The rows of tables with rows must
    /// add up to the events.
    pub(crate) fn report(self, micros: i64) -> Report {
        crate::sums::check("machine", &mut self.clone().trace(micros));
        self.report_of(micros, Window::ALL, |_| {})
    }

    pub(crate) fn report_of(
        self,
        micros: i64,
        window: Window,
        change: impl FnOnce(&mut ReportOptions),
    ) -> Report {
        let mut trace = self.trace(micros);
        let mut analysis = Analysis::new(window);
        trace.for_each_event(|event| analysis.add(event)).unwrap();
        let mut options = ReportOptions::from_headers(trace.headers());
        change(&mut options);
        analysis.report(&options)
    }

    /// Returns the trace of this many microseconds.
    pub(crate) fn trace(self, micros: i64) -> Trace {
        self.builder(micros).open().unwrap()
    }

    /// Returns the builder of a trace of records that have their times already.
    pub(crate) fn in_order(self) -> TraceBuilder {
        let end = 10_000;
        self.written(end)
    }

    /// Returns the builder of the trace of this many microseconds.
    pub(crate) fn builder(mut self, micros: i64) -> TraceBuilder {
        self.records.sort_by_key(|(micros, ..)| *micros);
        self.written(micros)
    }

    /// Returns the file of the trace of this many microseconds.
    pub(crate) fn bytes(mut self, micros: i64) -> Vec<u8> {
        self.records.sort_by_key(|(micros, ..)| *micros);
        self.file(micros)
    }

    fn written(self, micros: i64) -> TraceBuilder {
        Trace::builder().bytes("made", self.file(micros))
    }

    fn file(self, micros: i64) -> Vec<u8> {
        let clock = Clock::new(ClockType::Qpc, Ticks(0), START, 1_000_000 * PER_MICRO);
        let options = WriterOptions::new(clock, 0x10000, 2);
        let mut writer = EtlWriter::new(Cursor::new(Vec::new()), options).unwrap();
        for (_, processor, record) in &self.records {
            writer.write(*processor, record).unwrap();
        }
        writer.finish(at(micros)).unwrap().out.into_inner()
    }
}

/// Returns a time in the trace.
pub(crate) fn at(micros: i64) -> FileTime {
    FileTime(START.0 + micros * PER_MICRO)
}

pub(crate) fn micros(micros: u64) -> Cell {
    Cell::Duration(Duration(micros * 10))
}

pub(crate) fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

pub(crate) fn table(report: &Report, kind: TableKind) -> &Table {
    report.tables.iter().find(|table| table.kind == kind).unwrap()
}

/// A row by the names of its columns.
pub(crate) type Row = HashMap<&'static str, Cell>;

pub(crate) fn rows(report: &Report, kind: TableKind) -> Vec<Row> {
    let table = table(report, kind);
    let row = |row: &Vec<Cell>| {
        assert_eq!(row.len(), table.columns.len());
        table.columns.iter().map(|column| column.key).zip(row.iter().cloned()).collect()
    };
    table.rows.iter().map(row).collect()
}

/// Returns the only row in which a column has this value.
pub(crate) fn row(report: &Report, kind: TableKind, column: &str, value: &Cell) -> Row {
    let mut found = rows(report, kind).into_iter().filter(|row| row[column] == *value);
    let first = found.next().unwrap_or_else(|| panic!("no {column} {value:?} in {:?}", rows(report, kind)));
    assert!(found.next().is_none(), "{column} {value:?} twice in {:?}", rows(report, kind));
    first
}

/// Compares some cells of a row.
#[track_caller]
pub(crate) fn check(row: &Row, expected: &[(&str, Cell)]) {
    for (column, cell) in expected {
        assert_eq!(row[column], *cell, "{column} in {row:?}");
    }
}
