//! Where the values of columns come from, and values that wait to be written.

use etw_columns::{Column, ColumnType, ColumnsError, Row};
use etw_event::{FileTime, Guid};
use etw_schema::{FromValue, PropertyValue};

use super::Pen;
use crate::addresses::{KERNEL_32, KERNEL_64};
use crate::names::Space;
use crate::processes::ProcessIndex;
use crate::rows::seen::Seen;

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
pub(in crate::rows) enum Fill {
    /// The event, or the one that starts the row.
    Start(Of),
    /// The event that ends the row.
    Stop(Of),
    /// The time between the two.
    Lasted,
}

/// What of an event is a value. Of several properties the first one counts that the event has.
#[derive(Debug)]
pub(in crate::rows) enum Of {
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
pub(in crate::rows) enum Held {
    None,
    Number(u64),
    Signed(i64),
    Float(f64),
    Truth(bool),
    Time(FileTime),
    Nanos(i64),
    Code(u32),
}

impl Held {
    /// Returns a span of time in units of 100 ns.
    pub(super) fn nanos(units: i64) -> Held {
        Held::Nanos(units.saturating_mul(100))
    }

    fn code(code: Option<u32>) -> Held {
        code.map_or(Held::None, Held::Code)
    }

    pub(in crate::rows) fn put(self, row: &mut Row<'_>, column: usize) {
        match self {
            Held::None => return,
            Held::Number(value) => row.u64(column, value),
            Held::Signed(value) => row.i64(column, value),
            Held::Float(value) => row.f64(column, value),
            Held::Truth(value) => row.bool(column, value),
            Held::Time(value) => row.time(column, value),
            Held::Nanos(value) => row.duration(column, value),
            Held::Code(value) => row.code(column, value),
        };
    }
}

impl Of {
    /// Returns the value for an event.
    pub(super) fn value(
        &self,
        name: &'static str,
        column: &Column,
        seen: &Seen<'_, '_>,
        pen: &mut Pen<'_>,
    ) -> Result<Held, ColumnsError> {
        let time = seen.record().time();
        let number = |names: &[&str]| seen.get::<u64>(names);
        Ok(match self {
            Of::Time => Held::Time(time),
            Of::TimeBefore(names, units) => match seen.get::<i64>(names) {
                Some(count) => Held::Time(FileTime(time.0.saturating_sub(count.saturating_mul(*units)))),
                None => Held::None,
            },
            Of::Processor => Held::Number(seen.processor.into()),
            Of::Process => Held::code(seen.process),
            Of::ProcessIn(names) => {
                Held::code(seen.get(names).and_then(|id| pen.process(id)).or(seen.process))
            }
            Of::OnlyProcessIn(names) => Held::code(seen.get(names).and_then(|id| pen.process(id))),
            Of::RunningProcessIn(name) => {
                let id = seen.get(&[name]).filter(|id| *id != 0);
                Held::code(id.and_then(|id| pen.process(id)))
            }
            Of::Thread => Held::code(seen.thread),
            Of::ThreadIn(names) => {
                let id = seen.get::<u32>(names).filter(|id| *id != u32::MAX);
                Held::code(id.map(|id| pen.processes.thread_at(id).0))
            }
            Of::Stack => Held::code(seen.stack),
            Of::Name => Held::Code(pen.writer.text(name)?),
            Of::Property(names) => property(column.column_type, names, seen, pen)?,
            Of::Scaled(names, scale) => match number(names).map(|value| value.saturating_mul(*scale)) {
                Some(value) => measure(column.column_type, value),
                None => Held::None,
            },
            Of::Since(name) => match seen.get::<FileTime>(&[name]) {
                Some(from) => Held::nanos(time.0.saturating_sub(from.0)),
                None => Held::None,
            },
            Of::FileAt(name) => Held::code(number(&[name]).map(|object| pen.files.of(0, object).number())),
            Of::MajorFunction(name) => match number(&[name]) {
                Some(function) => {
                    let known = usize::try_from(function).ok().and_then(|place| MAJOR_FUNCTIONS.get(place));
                    Held::Code(match known {
                        Some(known) => pen.writer.text(known)?,
                        None => pen.writer.text(&function.to_string())?,
                    })
                }
                None => Held::None,
            },
            Of::SumScaled(names, scale) => match seen.get::<Vec<u64>>(names) {
                Some(values) => {
                    let sum = values.iter().fold(0_u64, |sum, value| sum.saturating_add(*value));
                    measure(column.column_type, sum.saturating_mul(*scale))
                }
                None => Held::None,
            },
            Of::Frame(names) => match number(names) {
                Some(address) => Held::Code(frame(address, seen, pen)),
                None => Held::None,
            },
            Of::Tag(name) => match seen.get::<u32>(&[name]) {
                Some(tag) => {
                    let shown = |byte: u8| if byte.is_ascii_graphic() { char::from(byte) } else { ' ' };
                    let text: String = tag.to_le_bytes().map(shown).iter().collect();
                    Held::Code(pen.writer.text(text.trim_end())?)
                }
                None => Held::None,
            },
            Of::ObjectType(name) => {
                Held::code(seen.get::<u32>(&[name]).map(|id| pen.objects.object_type(id)))
            }
            Of::GpuContext(name) => Held::code(number(&[name]).map(|at| pen.objects.gpu_context(at))),
        })
    }
}

fn measure(column_type: ColumnType, value: u64) -> Held {
    match column_type {
        ColumnType::Duration => i64::try_from(value).map_or(Held::None, Held::Nanos),
        ColumnType::F64 => Held::Float(value as f64),
        _ => Held::Number(value),
    }
}

/// Returns the frame of an instruction of the event's process or the kernel.
fn frame(address: u64, seen: &Seen<'_, '_>, pen: &mut Pen<'_>) -> u32 {
    let limit = if pen.is_32_bit { KERNEL_32 } else { KERNEL_64 };
    let space = match seen.process {
        _ if address >= limit => Space::Kernel(pen.processes.machine()),
        Some(process) => {
            let process = ProcessIndex(process);
            let now = pen.versions.now(Some(process));
            Space::Process(process, pen.versions.at(Some(process), address, now))
        }
        None => Space::Unknown,
    };
    pen.frames.of(space, address)
}

fn property(
    column_type: ColumnType,
    names: &[&str],
    seen: &Seen<'_, '_>,
    pen: &mut Pen<'_>,
) -> Result<Held, ColumnsError> {
    let Ok(properties) = seen.event.properties.as_ref() else { return Ok(Held::None) };
    let Some(property) = names.iter().find_map(|name| properties.find(name)) else { return Ok(Held::None) };
    held(column_type, &property, pen)
}

/// Returns a property as the type of a column says.
pub(in crate::rows) fn held(
    column_type: ColumnType,
    property: &PropertyValue<'_>,
    pen: &mut Pen<'_>,
) -> Result<Held, ColumnsError> {
    let value = property.value();
    let held = match column_type {
        ColumnType::U64 => u64::from_value(value).map(Held::Number),
        ColumnType::U32 => u32::from_value(value).map(|value| Held::Number(value.into())),
        ColumnType::I64 => i64::from_value(value).map(Held::Signed),
        ColumnType::F64 => f64::from_value(value).map(Held::Float),
        ColumnType::Bool => {
            let number = || u64::from_value(value).map(|number| number != 0);
            bool::from_value(value).or_else(number).map(Held::Truth)
        }
        ColumnType::Time => FileTime::from_value(value).map(Held::Time),
        ColumnType::Guid => match Guid::from_value(value) {
            Some(guid) => Some(Held::Code(pen.writer.guid(guid)?)),
            None => None,
        },
        ColumnType::Text => {
            let text = property.text().to_string();
            if text.is_empty() { None } else { Some(Held::Code(pen.writer.text(&text)?)) }
        }
        _ => None,
    };
    Ok(held.unwrap_or(Held::None))
}
