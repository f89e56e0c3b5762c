//! Fields of the header as columns.

use etw_event::{EventDescriptor, RecordPlace};
use etw_schema::Event;

use crate::escape::quoted;
use crate::put::{self, TimeWriter};
use crate::source::Source;

/// The names of all header fields, which are those of an event's JSON (`docs/json.md`).
const NAMES: [(&str, HeaderField); 39] = [
    ("System.Computer", HeaderField::Computer),
    ("System.Channel", HeaderField::Channel),
    ("System.EventID", HeaderField::EventId),
    ("System.Version", HeaderField::Version),
    ("System.EventType", HeaderField::EventType),
    ("System.EventGuid", HeaderField::EventGuid),
    ("System.Correlation", HeaderField::ActivityId),
    ("System.Correlation.ActivityID", HeaderField::ActivityId),
    ("System.Correlation.RelatedActivityID", HeaderField::RelatedActivityId),
    ("System.Execution.ProcessID", HeaderField::ProcessId),
    ("System.Execution.ThreadID", HeaderField::ThreadId),
    ("System.Execution.ProcessorID", HeaderField::ProcessorId),
    ("System.Execution.KernelTime", HeaderField::KernelTime),
    ("System.Execution.UserTime", HeaderField::UserTime),
    ("System.Execution.ProcessorTime", HeaderField::ProcessorTime),
    ("System.Keywords", HeaderField::Keywords(Part::Both)),
    ("System.Keywords.Mask", HeaderField::Keywords(Part::Value)),
    ("System.Keywords.Name", HeaderField::Keywords(Part::Name)),
    ("System.Level", HeaderField::Level(Part::Both)),
    ("System.Level.Value", HeaderField::Level(Part::Value)),
    ("System.Level.Name", HeaderField::Level(Part::Name)),
    ("System.Opcode", HeaderField::Opcode(Part::Both)),
    ("System.Opcode.Value", HeaderField::Opcode(Part::Value)),
    ("System.Opcode.Name", HeaderField::Opcode(Part::Name)),
    ("System.Task", HeaderField::Task(Part::Both)),
    ("System.Task.Value", HeaderField::Task(Part::Value)),
    ("System.Task.Name", HeaderField::Task(Part::Name)),
    ("System.Provider", HeaderField::Provider(Part::Both)),
    ("System.Provider.Guid", HeaderField::Provider(Part::Value)),
    ("System.Provider.Name", HeaderField::Provider(Part::Name)),
    ("System.TimeCreated", HeaderField::Time { raw: false }),
    ("System.TimeCreated.SystemTime", HeaderField::Time { raw: false }),
    ("System.TimeCreated.RawTime", HeaderField::Time { raw: true }),
    ("System.Source", HeaderField::Source(SourcePart::File)),
    ("System.Source.File", HeaderField::Source(SourcePart::File)),
    ("System.Source.Offset", HeaderField::Source(SourcePart::Offset)),
    ("System.Source.Within", HeaderField::Source(SourcePart::Within)),
    ("System.Source.Buffer", HeaderField::Source(SourcePart::Buffer)),
    ("System.Source.Record", HeaderField::Source(SourcePart::Record)),
];

/// A field of an event's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderField {
    /// Name of the computer.
    Computer,
    /// Name or number of the channel.
    Channel,
    /// Id of the event.
    EventId,
    /// Version of the event.
    Version,
    /// Type or name of the event.
    EventType,
    /// GUID of the class or task.
    EventGuid,
    /// Activity id.
    ActivityId,
    /// Id of the related activity.
    RelatedActivityId,
    /// Process id.
    ProcessId,
    /// Thread id.
    ThreadId,
    /// Number of the processor.
    ProcessorId,
    /// CPU time of the thread in the kernel, in clock ticks.
    KernelTime,
    /// CPU time of the thread in user mode, in clock ticks.
    UserTime,
    /// CPU time of the thread in the processor's ticks, of private sessions.
    ProcessorTime,
    /// Keywords; `Both` is the mask.
    Keywords(Part),
    /// Level; `Both` is the name, or the number without one.
    Level(Part),
    /// Opcode; as the level.
    Opcode(Part),
    /// Task; as the level.
    Task(Part),
    /// Provider; `Both` is the name, or the GUID without one.
    Provider(Part),
    /// Time in UTC or of the session's clock.
    Time {
        /// Whether this is the reading of the session's clock.
        raw: bool,
    },
    /// Where the event is from.
    Source(SourcePart),
}

/// A part of what tells where an event is from ([`RecordPlace`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourcePart {
    /// Path of the file, or name of the session.
    File,
    /// Offset in the file.
    Offset,
    /// Offset in the decompressed buffer.
    Within,
    /// Offset of the buffer in the file.
    Buffer,
    /// Number of the record in its buffer.
    Record,
}

impl SourcePart {
    /// All parts, in the order in which they are written.
    pub(crate) const ALL: [SourcePart; 5] =
        [SourcePart::File, SourcePart::Offset, SourcePart::Within, SourcePart::Buffer, SourcePart::Record];

    /// Returns the name, which is that in JSON and of columns.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            SourcePart::File => "File",
            SourcePart::Offset => "Offset",
            SourcePart::Within => "Within",
            SourcePart::Buffer => "Buffer",
            SourcePart::Record => "Record",
        }
    }

    /// Returns the number, `None` for the file and for what the place does not have.
    pub(crate) fn number(self, place: Option<RecordPlace>) -> Option<u64> {
        let place = place?;
        match self {
            SourcePart::File => None,
            SourcePart::Offset => Some(place.offset),
            SourcePart::Within => place.within.map(u64::from),
            SourcePart::Buffer => Some(place.buffer),
            SourcePart::Record => Some(place.record.into()),
        }
    }
}

/// The part of a field that has a value and a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The name if there is one, else the value.
    Both,
    /// The number, mask or GUID.
    Value,
    /// The name.
    Name,
}

impl HeaderField {
    /// Returns the field with a name such as `System.TimeCreated`, ignoring ASCII case.
    pub fn of(name: &str) -> Option<HeaderField> {
        let mut names = NAMES.iter();
        names.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, field)| *field)
    }

    /// Returns the names of all fields.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// Returns whether a name is in the namespace of header fields, known or not.
    pub fn is_name(name: &str) -> bool {
        name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("System."))
    }

    /// Writes the field, with quotes around text, or nothing if the event does not have it.
    pub(crate) fn put(self, out: &mut Vec<u8>, event: &Event<'_>, sources: &[Source], time: &mut TimeWriter) {
        let record = event.record;
        let names = event.names();
        let EventDescriptor { id, version, level, opcode, task, keyword, .. } = record.descriptor();
        let mut number = |number: Option<u32>| {
            if let Some(number) = number {
                put::unsigned32(out, number);
            }
        };
        match self {
            HeaderField::EventId => number(Some(id.into())),
            HeaderField::Version => number(Some(version.into())),
            HeaderField::ProcessId => number(record.process_id()),
            HeaderField::ThreadId => number(record.thread_id()),
            HeaderField::ProcessorId => number(Some(record.processor().into())),
            HeaderField::KernelTime => number(record.cpu_times().map(|(kernel, _)| kernel)),
            HeaderField::UserTime => number(record.cpu_times().map(|(_, user)| user)),
            HeaderField::ProcessorTime => {
                if let Some(time) = record.processor_time() {
                    put::unsigned(out, time);
                }
            }
            HeaderField::Level(part) => value_or_name(out, part, level.0.into(), names.level()),
            HeaderField::Opcode(part) => value_or_name(out, part, opcode.0.into(), names.opcode()),
            HeaderField::Task(part) => value_or_name(out, part, task, names.task()),
            HeaderField::Computer => {
                let source = sources.get(record.origin().source as usize);
                text(out, source.and_then(|source| source.computer.as_deref()));
            }
            HeaderField::Channel => text(out, names.channel()),
            HeaderField::EventType => text(out, names.event_type().as_deref()),
            HeaderField::EventGuid => names.event_guid().into_iter().for_each(|guid| put::guid(out, guid)),
            HeaderField::ActivityId => record.activity_id().into_iter().for_each(|id| put::guid(out, id)),
            HeaderField::RelatedActivityId => {
                record.related_activity_id().into_iter().for_each(|id| put::guid(out, id));
            }
            HeaderField::Keywords(Part::Name) => {
                let keywords: Vec<&str> = names.keywords().collect();
                text(out, Some(keywords.join(" ")).as_deref().filter(|names| !names.is_empty()));
            }
            HeaderField::Keywords(_) => put::hex(out, keyword.0),
            HeaderField::Provider(part) => match (part, names.provider()) {
                (Part::Both | Part::Name, Some(name)) => quoted(out, name),
                (Part::Name, None) => {}
                _ => put::guid(out, names.provider_guid()),
            },
            HeaderField::Source(SourcePart::File) => {
                text(out, sources.get(record.origin().source as usize).map(|source| source.name.as_str()));
            }
            HeaderField::Source(part) => {
                part.number(record.place()).into_iter().for_each(|number| put::unsigned(out, number));
            }
            HeaderField::Time { raw: true } => put::signed(out, record.raw_time().0),
            HeaderField::Time { raw: false } => time.put(out, record.time()),
        }
    }
}

fn text(out: &mut Vec<u8>, text: Option<&str>) {
    if let Some(text) = text {
        quoted(out, text);
    }
}

fn value_or_name(out: &mut Vec<u8>, part: Part, value: u16, name: Option<&str>) {
    match (part, name) {
        (Part::Both | Part::Name, Some(name)) => quoted(out, name),
        (Part::Name, None) => {}
        _ => put::unsigned32(out, value.into()),
    }
}
