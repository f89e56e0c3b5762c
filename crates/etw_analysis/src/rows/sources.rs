//! The traces themselves, their buffers, and the names of processes in them.

use etw_columns::{
    Column, ColumnType, ColumnsError, Index, IndexWriter, Table, TableSchema, Unit, Value, Values,
};
use etw_consumer::{BufferSummary, Overview, ProcessName, ProcessNames, Trace};
use etw_etl::{BufferFlags, BufferType, EtlFile};
use etw_event::{FileTime, Ticks};

use super::columns::{PROCESSOR, bytes, code, count, end_of, id, start_of, text};
use super::losses::{LOSSES, PROCESS_RECORDS};
use super::schemas::Tables;

pub(super) static TRACES: TableSchema = TableSchema::new(
    "traces",
    "Traces",
    "One row for each trace file.",
    columns![
        text("trace", "File, as it was named when the tables were made."),
        start_of("start_time", "When the session started."),
        end_of("end_time", "When it stopped; missing if the file was not closed."),
        bytes("size", "Size of the trace."),
        id("processors", "Number of processors of the machine."),
        count("events_lost", "Number of events that the session lost."),
        count("buffers_lost", "Number of buffers that it lost."),
    ],
);

pub(super) static BUFFERS: TableSchema = TableSchema::new(
    "buffers",
    "Buffers",
    "One row for each buffer of the traces whose buffers are intact, in the order of the file.",
    columns![
        Column::row_of("traces", "trace", "Trace that it is in."),
        Column::new("offset", ColumnType::U64, "Place in the file.").unit(Unit::Hex),
        start_of("start_time", "Time of its first event."),
        end_of("end_time", "Time of its last event."),
        PROCESSOR,
        bytes("size", "Number of bytes in the file."),
        count("events", "Number of events, with those that have stacks or describe others."),
        bytes("event_bytes", "Number of bytes of these events."),
        id("type", "Type of the contents; 0 for events, 1 for rundown."),
        code("flags", "Flags of the header; 2 and 4 for events and buffers that were lost before."),
        ticks("first_tick", "Time of the record that comes first, as the session's clock read."),
        ticks("least_tick", "Least time of its records, as the session's clock read."),
        ticks("greatest_tick", "Greatest time of its records, as the session's clock read."),
        Column::new("has_schemas", ColumnType::Bool, "Whether an event says what other events are."),
        Column::new("has_processes", ColumnType::Bool, "Whether an event names a process."),
        Column::new("has_damage", ColumnType::Bool, "Whether some events cannot be read."),
        Column::new(
            "is_in_order",
            ColumnType::Bool,
            "Whether no event has an earlier time than one before it."
        ),
    ],
);

pub(super) static PROCESS_NAMES: TableSchema = TableSchema::new(
    "process_names",
    "Process Names",
    "One row for each name that a process id has from some time on, by which events show their processes.",
    columns![
        id("machine", "Number of the machine; those of the traces are numbered from 0."),
        id("pid", "Process id."),
        start_of("start_time", "Start of the process; missing if it is older than the trace."),
        text("name", "File name of the image."),
    ],
);

const fn ticks(name: &'static str, summary: &'static str) -> Column {
    Column::new(name, ColumnType::I64, summary)
}

/// Writes the rows of these tables.
pub(super) fn write(
    trace: &Trace,
    overview: &Overview,
    tables: &Tables,
    writer: &mut IndexWriter,
) -> Result<(), ColumnsError> {
    for ((input, header), file) in trace.inputs().iter().zip(trace.headers()).zip(0..) {
        let mut row = writer.row(tables.traces)?;
        row.text(0, input.name()).time(1, header.start_time);
        if header.end_time.0 != 0 {
            row.time(2, header.end_time);
        }
        row.u64(3, input.bytes().len() as u64).u32(4, header.number_of_processors);
        row.u64(5, header.events_lost.into()).u64(6, header.buffers_lost.into());
        row.end()?;
        let (Ok(opened), Some(Some(known))) =
            (EtlFile::open(input.bytes()), overview.files.get(file as usize))
        else {
            continue;
        };
        let clock = opened.clock();
        for buffer in known {
            let mut row = writer.row(tables.buffers)?;
            row.code(0, file).u64(1, buffer.offset);
            if buffer.records > 0 {
                row.time(2, clock.to_filetime(buffer.min)).time(3, clock.to_filetime(buffer.max));
                row.i64(11, buffer.min.0).i64(12, buffer.max.0);
            }
            row.u32(4, buffer.processor.into()).u64(5, buffer.len_bytes.into());
            row.u64(6, buffer.records.into()).u64(7, buffer.record_bytes);
            row.u32(8, buffer.buffer_type.0.into()).u32(9, buffer.flags.0.into());
            if let Some(first) = buffer.first {
                row.i64(10, first.0);
            }
            row.bool(13, buffer.has_schemas).bool(14, buffer.has_processes).bool(15, buffer.has_damage);
            row.bool(16, buffer.is_in_order);
            row.end()?;
        }
    }
    for process in overview.process_names.iter().flat_map(ProcessNames::iter) {
        let mut row = writer.row(tables.process_names)?;
        row.u32(0, process.machine).u32(1, process.id).text(3, process.name);
        if process.from != FileTime(i64::MIN) {
            row.time(2, process.from);
        }
        row.end()?;
    }
    Ok(())
}

/// Reads what [`write`] wrote: the names of the traces, their start, their buffers and processes.
pub(crate) fn read(index: &Index) -> Result<(Vec<String>, Option<FileTime>, Overview), ColumnsError> {
    let missing = |code| ColumnsError::NoEntry { what: "table of traces", code };
    let traces = index.table(&TRACES.name).ok_or_else(|| missing(0))?;
    let buffers = index.table(&BUFFERS.name).ok_or_else(|| missing(1))?;
    let (mut names, mut start) = (Vec::new(), None);
    for row in 0..traces.rows() {
        let name = match traces.value(row, 0)? {
            Value::Code(code) => index.texts()?.get(code).unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        names.push(name);
        if let Value::Time(time) = traces.value(row, 1)? {
            start = Some(start.map_or(time, |start: FileTime| start.min(time)));
        }
    }
    let mut overview = Overview { files: vec![None; names.len()], process_names: None };
    for chunk in 0..buffers.chunks() {
        let columns = Columns::read(buffers, chunk)?;
        for row in 0..buffers.chunk_rows(chunk) {
            let file = columns.number(0, row) as usize;
            if let Some(file) = overview.files.get_mut(file) {
                file.get_or_insert_default().push(columns.buffer(row));
            }
        }
    }
    let found = process_names(index, names.len())?;
    // Without names, although events name processes, they were not known when the index was made.
    let has_processes = overview.files.iter().flatten().flatten().any(|buffer| buffer.has_processes);
    overview.process_names = Some(found).filter(|found| !has_processes || found.iter().next().is_some());
    Ok((names, start, overview))
}

/// Reads the names of processes; there are not more machines than traces.
fn process_names(index: &Index, traces: usize) -> Result<ProcessNames, ColumnsError> {
    let missing = |code| ColumnsError::NoEntry { what: "table of traces", code };
    let table = index.table(&PROCESS_NAMES.name).ok_or_else(|| missing(2))?;
    let losses = index.table(&LOSSES.name).ok_or_else(|| missing(3))?;
    let texts = index.texts()?;
    let mut processes = Vec::new();
    let (mut machines, mut ids, mut codes): (Values<u32>, Values<u32>, Values<u32>) = Default::default();
    let mut times = Values::<i64>::default();
    for chunk in 0..table.chunks() {
        table.column(0)?.read(chunk, &mut machines)?;
        table.column(1)?.read(chunk, &mut ids)?;
        table.column(2)?.read(chunk, &mut times)?;
        table.column(3)?.read(chunk, &mut codes)?;
        for row in 0..table.chunk_rows(chunk) {
            let number = |values: &Values<u32>| values.get(row).unwrap_or_default();
            let machine = number(&machines);
            if machine as usize >= traces {
                return Err(ColumnsError::NoEntry { what: "machine", code: machine.into() });
            }
            processes.push(ProcessName {
                machine,
                id: number(&ids),
                from: FileTime(times.get(row).unwrap_or(i64::MIN)),
                name: texts.get(number(&codes)).unwrap_or_default(),
            });
        }
    }
    let mut unkept = 0;
    for row in 0..losses.rows() {
        if let (Value::Code(kind), Value::Integer(count)) = (losses.value(row, 1)?, losses.value(row, 2)?)
            && texts.get(kind) == Some(PROCESS_RECORDS)
        {
            unkept = u64::try_from(count).unwrap_or_default();
        }
    }
    Ok(ProcessNames::new(processes, unkept))
}

/// The columns of a chunk of `buffers` that an overview needs.
struct Columns {
    numbers: Vec<(usize, Values<u64>)>,
    ticks: Vec<(usize, Values<i64>)>,
}

impl Columns {
    fn read(table: Table<'_>, chunk: usize) -> Result<Columns, ColumnsError> {
        let mut columns = Columns { numbers: Vec::new(), ticks: Vec::new() };
        for number in [0, 1, 4, 5, 6, 7, 8, 9, 13, 14, 15, 16] {
            let mut values = Values::default();
            table.column(number)?.read(chunk, &mut values)?;
            columns.numbers.push((number, values));
        }
        for number in [10, 11, 12] {
            let mut values = Values::default();
            table.column(number)?.read(chunk, &mut values)?;
            columns.ticks.push((number, values));
        }
        Ok(columns)
    }

    fn number(&self, column: usize, row: usize) -> u64 {
        let found = self.numbers.iter().find(|(number, _)| *number == column);
        found.and_then(|(_, values)| values.get(row)).unwrap_or(0)
    }

    fn ticks(&self, column: usize, row: usize) -> Option<Ticks> {
        let found = self.ticks.iter().find(|(number, _)| *number == column);
        found.and_then(|(_, values)| values.get(row)).map(Ticks)
    }

    fn buffer(&self, row: usize) -> BufferSummary {
        BufferSummary {
            offset: self.number(1, row),
            processor: self.number(4, row) as u16,
            len_bytes: self.number(5, row) as u32,
            records: self.number(6, row) as u32,
            record_bytes: self.number(7, row),
            buffer_type: BufferType(self.number(8, row) as u16),
            flags: BufferFlags(self.number(9, row) as u16),
            first: self.ticks(10, row),
            min: self.ticks(11, row).unwrap_or(Ticks(i64::MAX)),
            max: self.ticks(12, row).unwrap_or(Ticks(i64::MIN)),
            has_schemas: self.number(13, row) != 0,
            has_processes: self.number(14, row) != 0,
            has_damage: self.number(15, row) != 0,
            is_in_order: self.number(16, row) != 0,
        }
    }
}
