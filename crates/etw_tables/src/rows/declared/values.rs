//! Where the values of columns come from, and values that wait to be written.

use etw_columns::{Column, ColumnType, Row};
use etw_event::{FileTime, Guid};
use etw_machine::{ProcessIndex, ThreadIndex};
use etw_schema::{FromValue, PropertyValue};

use crate::rows::source::{EventContext, RowContext};
use crate::rows::spans::between;
use crate::rows::table::RowWriter;

/// Major functions of requests by their numbers (wdm.h), without `IRP_MJ_`.
const MAJOR_FUNCTIONS: [&str; 28] = [
    "CREATE",
    "CREATE_NAMED_PIPE",
    "CLOSE",
    "READ",
    "WRITE",
    "QUERY_INFORMATION",
    "SET_INFORMATION",
    "QUERY_EA",
    "SET_EA",
    "FLUSH_BUFFERS",
    "QUERY_VOLUME_INFORMATION",
    "SET_VOLUME_INFORMATION",
    "DIRECTORY_CONTROL",
    "FILE_SYSTEM_CONTROL",
    "DEVICE_CONTROL",
    "INTERNAL_DEVICE_CONTROL",
    "SHUTDOWN",
    "LOCK_CONTROL",
    "CLEANUP",
    "CREATE_MAILSLOT",
    "QUERY_SECURITY",
    "SET_SECURITY",
    "POWER",
    "SYSTEM_CONTROL",
    "DEVICE_CHANGE",
    "QUERY_QUOTA",
    "SET_QUOTA",
    "PNP",
];

/// Where the value of a column comes from.
#[derive(Debug)]
pub(in crate::rows) enum ValueSource {
    /// The event, or the one that starts the row.
    Start(EventValue),
    /// The event that ends the row.
    Stop(EventValue),
    /// The time between the two.
    Lasted,
}

/// What of an event is a value. Of several properties the first one counts that the event has.
#[derive(Debug)]
pub(in crate::rows) enum EventValue {
    Time,
    /// The time of the event less so many units of 100 ns as a property says.
    TimeBefore(&'static [&'static str], i64),
    Processor,
    /// The process of the header.
    Process,
    /// The process whose id a property has, or else that of the header.
    ProcessIn(&'static [&'static str]),
    /// The process whose id a property has and is not 0, which stands for none.
    RunningProcessIn(&'static str),
    /// The process whose id a property has.
    OnlyProcessIn(&'static [&'static str]),
    /// The thread of the header.
    Thread,
    /// The thread whose id a property has.
    ThreadIn(&'static [&'static str]),
    Stack,
    /// What the declaration calls the event.
    Name,
    /// A property as the column's type says.
    Property(&'static [&'static str]),
    /// A property's number times this.
    Scaled(&'static [&'static str], u64),
    /// The time from the one in a property to the event.
    Since(&'static str),
    /// The file of the file object in a property.
    FileAt(&'static str),
    /// The name of the major function of a request in a property.
    MajorFunction(&'static str),
    /// The sum of the elements of a property, times this.
    SumScaled(&'static [&'static str], u64),
    /// The instruction at a property's address.
    Frame(&'static [&'static str]),
    /// The four characters of a property's number.
    Tag(&'static str),
    /// The type of objects that a property's number stands for.
    ObjectType(&'static str),
    /// The context of the graphics kernel at a property's address.
    GpuContext(&'static str),
}

/// A value that waits to be written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::rows) enum PendingValue {
    None,
    Number(u64),
    Signed(i64),
    Float(f64),
    Truth(bool),
    Time(FileTime),
    Nanos(i64),
    Code(u32),
}

impl PendingValue {
    fn code(code: Option<u32>) -> PendingValue {
        code.map_or(PendingValue::None, PendingValue::Code)
    }

    pub(in crate::rows) fn put(self, row: &mut Row<'_>, column: usize) {
        match self {
            PendingValue::None => return,
            PendingValue::Number(value) => row.u64(column, value),
            PendingValue::Signed(value) => row.i64(column, value),
            PendingValue::Float(value) => row.f64(column, value),
            PendingValue::Truth(value) => row.bool(column, value),
            PendingValue::Time(value) => row.time(column, value),
            PendingValue::Nanos(value) => row.duration(column, value),
            PendingValue::Code(value) => row.code(column, value),
        };
    }
}

impl EventValue {
    /// Returns the value for an event.
    pub(super) fn value(
        &self,
        name: &'static str,
        column: &Column,
        event: &EventContext<'_, '_>,
        context: &mut RowContext<'_>,
    ) -> PendingValue {
        let time = event.record().time();
        let number = |names: &[&str]| event.get::<u64>(names);
        match self {
            EventValue::Time => PendingValue::Time(time),
            EventValue::TimeBefore(names, units) => match event.get::<i64>(names) {
                Some(count) => {
                    PendingValue::Time(FileTime(time.0.saturating_sub(count.saturating_mul(*units))))
                }
                None => PendingValue::None,
            },
            EventValue::Processor => PendingValue::Number(event.processor.into()),
            EventValue::Process => process(event.process),
            EventValue::ProcessIn(names) => {
                process(event.get(names).and_then(|id| context.process(id)).or(event.process))
            }
            EventValue::OnlyProcessIn(names) => process(event.get(names).and_then(|id| context.process(id))),
            EventValue::RunningProcessIn(name) => {
                let id = event.get(&[name]).filter(|id| *id != 0);
                process(id.and_then(|id| context.process(id)))
            }
            EventValue::Thread => PendingValue::code(event.thread.map(|ThreadIndex(row)| row)),
            EventValue::ThreadIn(names) => {
                let id = event.get::<u32>(names).filter(|id| *id != u32::MAX);
                PendingValue::code(id.map(|id| context.model.processes.thread_at(id).0))
            }
            EventValue::Stack => PendingValue::code(event.stack),
            EventValue::Name => PendingValue::Code(context.writer.text(name)),
            EventValue::Property(names) => property(column.column_type, names, event, context),
            EventValue::Scaled(names, scale) => match number(names).map(|value| value.saturating_mul(*scale))
            {
                Some(value) => measure(column.column_type, value),
                None => PendingValue::None,
            },
            EventValue::Since(name) => match event.get::<FileTime>(&[name]) {
                Some(from) => PendingValue::Nanos(between(from, time)),
                None => PendingValue::None,
            },
            EventValue::FileAt(name) => {
                PendingValue::code(number(&[name]).map(|object| context.model.files.at(0, object).number()))
            }
            EventValue::MajorFunction(name) => match number(&[name]) {
                Some(function) => {
                    let known = usize::try_from(function).ok().and_then(|place| MAJOR_FUNCTIONS.get(place));
                    PendingValue::Code(match known {
                        Some(known) => context.writer.text(known),
                        None => context.writer.text(&function.to_string()),
                    })
                }
                None => PendingValue::None,
            },
            EventValue::SumScaled(names, scale) => match event.get::<Vec<u64>>(names) {
                Some(values) => {
                    let sum = values.iter().fold(0_u64, |sum, value| sum.saturating_add(*value));
                    measure(column.column_type, sum.saturating_mul(*scale))
                }
                None => PendingValue::None,
            },
            EventValue::Frame(names) => match number(names) {
                Some(address) => PendingValue::Code(context.frame(event.machine, event.process, address)),
                None => PendingValue::None,
            },
            EventValue::Tag(name) => match event.get::<u32>(&[name]) {
                Some(tag) => {
                    let shown = |byte: u8| if byte.is_ascii_graphic() { char::from(byte) } else { ' ' };
                    let text: String = tag.to_le_bytes().map(shown).iter().collect();
                    PendingValue::Code(context.writer.text(text.trim_end()))
                }
                None => PendingValue::None,
            },
            EventValue::ObjectType(name) => {
                PendingValue::code(event.get::<u32>(&[name]).map(|id| context.objects.object_type(id)))
            }
            EventValue::GpuContext(name) => {
                PendingValue::code(number(&[name]).map(|at| context.objects.gpu_context(at)))
            }
        }
    }
}

fn measure(column_type: ColumnType, value: u64) -> PendingValue {
    match column_type {
        ColumnType::Duration => i64::try_from(value).map_or(PendingValue::None, PendingValue::Nanos),
        ColumnType::F64 => PendingValue::Float(value as f64),
        _ => PendingValue::Number(value),
    }
}

fn process(process: Option<ProcessIndex>) -> PendingValue {
    PendingValue::code(process.map(|ProcessIndex(row)| row))
}

fn property(
    column_type: ColumnType,
    names: &[&str],
    event: &EventContext<'_, '_>,
    context: &mut RowContext<'_>,
) -> PendingValue {
    let Ok(properties) = event.event.properties.as_ref() else { return PendingValue::None };
    let Some(property) = names.iter().find_map(|name| properties.find(name)) else {
        return PendingValue::None;
    };
    pending(column_type, &property, context.writer)
}

/// Returns a property as the type of a column says.
pub(in crate::rows) fn pending(
    column_type: ColumnType,
    property: &PropertyValue<'_>,
    writer: &mut RowWriter,
) -> PendingValue {
    let value = property.value();
    let pending = match column_type {
        ColumnType::U64 => u64::from_value(value).map(PendingValue::Number),
        ColumnType::U32 => u32::from_value(value).map(|value| PendingValue::Number(value.into())),
        ColumnType::I64 => i64::from_value(value).map(PendingValue::Signed),
        ColumnType::F64 => f64::from_value(value).map(PendingValue::Float),
        ColumnType::Bool => {
            let number = || u64::from_value(value).map(|number| number != 0);
            bool::from_value(value).or_else(number).map(PendingValue::Truth)
        }
        ColumnType::Time => FileTime::from_value(value).map(PendingValue::Time),
        ColumnType::Guid => Guid::from_value(value).map(|guid| PendingValue::Code(writer.guid(guid))),
        ColumnType::Text => {
            let text = property.text().to_string();
            (!text.is_empty()).then(|| PendingValue::Code(writer.text(&text)))
        }
        _ => None,
    };
    pending.unwrap_or(PendingValue::None)
}
