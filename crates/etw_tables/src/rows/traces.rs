//! The traces themselves, their buffers, and the names of processes in them.

use etw_columns::{ColumnsError, Index, Table, Value, Values};
use etw_consumer::{BufferSummary, Overview, ProcessName, ProcessNames, Trace};
use etw_etl::{BufferFlags, BufferType, EtlFile};
use etw_event::{FileTime, Ticks};

use super::columns::{Bool, Bytes, Count, End, Hex, Id, LongHex, Processor, Signed, Start, Text, TraceFile};
use super::labels::RowLabel;
use super::losses::{LossRow, PROCESS_RECORDS};
use super::table::{RowWriter, TableRow, table};

table! {
    /// One row for each trace file.
    TraceRow: "traces", "Traces", label RowLabel { in_all_traces: None, ..RowLabel::single(&["trace"]) };
    /// File, as it was named when the tables were made.
    trace: Text,
    /// When the session started.
    start_time: Start,
    /// When it stopped; missing if the file was not closed.
    end_time: Option<End>,
    /// Size of the trace.
    size: Bytes,
    /// Number of processors of the machine.
    processors: Id,
    /// Number of events that the session lost.
    events_lost: Count,
    /// Number of buffers that it lost.
    buffers_lost: Count,
}

table! {
    /// One row for each buffer of the traces whose buffers are intact, in the order of the file.
    BufferRow: "buffers", "Buffers";
    /// Trace that it is in.
    trace: TraceFile,
    /// Place in the file.
    offset: LongHex,
    /// Time of its first event.
    start_time: Option<Start>,
    /// Time of its last event.
    end_time: Option<End>,
    /// Processor that logged the event.
    processor: Processor,
    /// Number of bytes in the file.
    size: Bytes,
    /// Number of events, with those that have stacks or describe others.
    events: Count,
    /// Number of bytes of these events.
    event_bytes: Bytes,
    /// Type of the contents; 0 for events, 1 for rundown.
    r#type: Id,
    /// Flags of the header; 2 and 4 for events and buffers that were lost before.
    flags: Hex,
    /// Time of the record that comes first, as the session's clock read.
    first_tick: Option<Signed>,
    /// Least time of its records, as the session's clock read.
    least_tick: Option<Signed>,
    /// Greatest time of its records, as the session's clock read.
    greatest_tick: Option<Signed>,
    /// Whether an event says what other events are.
    has_schemas: Bool,
    /// Whether an event names a process.
    has_processes: Bool,
    /// Whether some events cannot be read.
    has_damage: Bool,
    /// Whether no event has an earlier time than one before it.
    is_in_order: Bool,
}

table! {
    /// One row for each name that a process id has from some time on, by which events show their processes.
    ProcessNameRow: "process_names", "Process Names";
    /// Number of the machine; those of the traces are numbered from 0.
    machine: Id,
    /// Process id.
    pid: Id,
    /// Start of the process; missing if it is older than the trace.
    start_time: Option<Start>,
    /// File name of the image.
    name: Text,
}

/// Adds the rows of these tables.
pub(super) fn write(trace: &Trace, overview: &Overview, writer: &mut RowWriter) {
    for ((input, header), file) in trace.inputs().iter().zip(trace.headers()).zip(0..) {
        writer.add(TraceRow {
            trace: input.name(),
            start_time: header.start_time,
            end_time: Some(header.end_time).filter(|time| time.0 != 0),
            size: input.bytes().len() as u64,
            processors: header.number_of_processors,
            events_lost: header.events_lost.into(),
            buffers_lost: header.buffers_lost.into(),
        });
        let (Ok(opened), Some(Some(known))) =
            (EtlFile::open(input.bytes()), overview.files.get(file as usize))
        else {
            continue;
        };
        let clock = opened.clock();
        for buffer in known {
            let has_events = buffer.records > 0;
            writer.add(BufferRow {
                trace: file,
                offset: buffer.offset,
                start_time: has_events.then(|| clock.to_filetime(buffer.min)),
                end_time: has_events.then(|| clock.to_filetime(buffer.max)),
                processor: buffer.processor.into(),
                size: buffer.len_bytes.into(),
                events: buffer.records.into(),
                event_bytes: buffer.record_bytes,
                r#type: buffer.buffer_type.0.into(),
                flags: buffer.flags.0.into(),
                first_tick: buffer.first.map(|first| first.0),
                least_tick: has_events.then_some(buffer.min.0),
                greatest_tick: has_events.then_some(buffer.max.0),
                has_schemas: buffer.has_schemas,
                has_processes: buffer.has_processes,
                has_damage: buffer.has_damage,
                is_in_order: buffer.is_in_order,
            });
        }
    }
    for process in overview.process_names.iter().flat_map(ProcessNames::iter) {
        writer.add(ProcessNameRow {
            machine: process.machine,
            pid: process.id,
            start_time: Some(process.from).filter(|from| *from != FileTime(i64::MIN)),
            name: process.name,
        });
    }
}

/// Reads what [`write`] wrote: the names of the traces, their start, their buffers and processes.
pub(crate) fn read(index: &Index) -> Result<(Vec<String>, Option<FileTime>, Overview), ColumnsError> {
    let missing = |code| ColumnsError::NoEntry { what: "table of traces", code };
    let traces = index.table(&TraceRow::SCHEMA.name).ok_or_else(|| missing(0))?;
    let buffers = index.table(&BufferRow::SCHEMA.name).ok_or_else(|| missing(1))?;
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
    let table = index.table(&ProcessNameRow::SCHEMA.name).ok_or_else(|| missing(2))?;
    let losses = index.table(&LossRow::SCHEMA.name).ok_or_else(|| missing(3))?;
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
