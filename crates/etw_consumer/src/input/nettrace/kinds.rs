//! The kinds of events: what the records of one kind have in common.

use etw_etl::encode::{EventMetadata, provider_traits};
use etw_event::{EventDescriptor, Guid, Keyword, Level, Opcode};
use etw_nettrace::{Definition, DefinitionId, Field, FieldType};
use etw_schema::InType;
use etw_schema::builtin::BuiltIn;

use super::super::conversion::OUT_UTF8;
use super::payload;

/// Providers of the runtime whose GUIDs are fixed; all others have the hash of their name. Sources: `ClrEtwAll.man`
/// and the attributes of the event sources of dotnet/runtime, and the parsers of microsoft/perfview.
const FIXED: [(&str, u128); 7] = [
    ("Microsoft-Windows-DotNETRuntime", 0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4),
    ("Microsoft-Windows-DotNETRuntimeRundown", 0xa669021c_c450_4609_a035_5af59af4df18),
    ("Microsoft-Windows-DotNETRuntimePrivate", 0x763fd754_7086_4dfe_95eb_c01a46faf4ca),
    ("Microsoft-Windows-DotNETRuntimeStress", 0xcc2bcbba_16b6_4cf3_8990_d74c2e8af500),
    ("Microsoft-DotNETCore-SampleProfiler", 0x3c530d44_97ae_513a_1e6d_783e8f8e03a9),
    ("System.Threading.Tasks.TplEventSource", 0x2e5dba47_a3d2_4d16_8ee0_6671ffdcd7b5),
    ("System.Diagnostics.Eventing.FrameworkEventSource", 0x8e9f5090_2d75_4d03_8a81_e5afbf85daf1),
];

/// Bit of a TraceLogging in-type: a `u16` count precedes the elements.
const ARRAY: u8 = EventMetadata::VARIABLE_COUNT;
/// TraceLogging's numbers of text and of Booleans.
const OUT_STRING: u8 = 2;
const OUT_BOOLEAN: u8 = 3;
/// In-type of a structure.
const STRUCT: u8 = 24;
/// Maximum number of members of a structure.
const MAX_MEMBERS: usize = 127;

/// A kind of event.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) provider: Guid,
    pub(super) descriptor: EventDescriptor,
    /// The metadata of a TraceLogging event. `None` for events of the runtime's own providers, which are decoded by
    /// their manifest.
    pub(super) metadata: Option<EventMetadata>,
    pub(super) metadata_bytes: Vec<u8>,
    pub(super) traits: Vec<u8>,
    /// The fields of the payload, with those that the metadata cannot express.
    pub(super) fields: Vec<Field>,
    /// Whether the fields are encoded as in TraceLogging.
    pub(super) is_plain: bool,
    /// Whether the metadata has all fields.
    pub(super) is_complete: bool,
}

/// The kinds of a trace, by the numbers of their definitions.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    known: Vec<Option<Kind>>,
}

impl Kinds {
    /// Returns the kind of a definition.
    pub(super) fn of<'d>(&mut self, id: DefinitionId, definition: impl FnOnce() -> &'d Definition) -> &Kind {
        if self.known.len() <= id.index() {
            self.known.resize_with(id.index() + 1, || None);
        }
        self.known[id.index()].get_or_insert_with(|| Kind::new(definition()))
    }
}

impl Kind {
    fn new(definition: &Definition) -> Kind {
        let name = definition.provider.as_str();
        let fixed = FIXED.iter().find(|(fixed, _)| *fixed == name).map(|(_, guid)| Guid::from_u128(*guid));
        let provider = definition.provider_id.or(fixed).unwrap_or_else(|| Guid::from_provider_name(name));
        let (id, version) = (narrow16(definition.event_id), narrow(definition.version));
        let describes_itself = !definition.name.is_empty() || !definition.fields.is_empty();
        // Task and opcode are constants of the manifest, which the trace leaves out.
        let own = if describes_itself { None } else { descriptor_of(&provider, id, version) };
        let metadata = describes_itself.then(|| metadata_of(definition));
        let is_plain = definition.fields.iter().all(|field| payload::is_plain(&field.field_type));
        Kind {
            provider,
            descriptor: EventDescriptor {
                id,
                version,
                level: Level(narrow(definition.level)),
                keyword: Keyword(definition.keywords),
                opcode: definition.opcode.map_or(own.unwrap_or_default().opcode, Opcode),
                task: own.unwrap_or_default().task,
                ..EventDescriptor::default()
            },
            metadata_bytes: metadata.clone().map(EventMetadata::build).unwrap_or_default(),
            metadata,
            traits: provider_traits(name),
            fields: definition.fields.clone(),
            is_plain,
            is_complete: definition.fields.iter().all(|field| is_expressible(&field.field_type)),
        }
    }
}

/// Returns the descriptor of an event in the manifest of its provider.
fn descriptor_of(provider: &Guid, id: u16, version: u8) -> Option<EventDescriptor> {
    let provider = BuiltIn.provider(provider)?;
    let descriptors = provider.events.iter().map(|event| event.descriptor);
    descriptors.clone().find(|descriptor| (descriptor.id, descriptor.version) == (id, version))
}

/// Returns a number of the metadata in the width of a descriptor; larger ones are unknown to ETW.
fn narrow(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(0)
}

fn narrow16(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(0)
}

/// Describes a kind of event in TraceLogging's form, up to the first field that the form cannot express.
fn metadata_of(definition: &Definition) -> EventMetadata {
    let metadata = match definition.name.is_empty() {
        true => EventMetadata::new(&format!("Event({})", definition.event_id)),
        false => EventMetadata::new(&definition.name),
    };
    let mut fields = Vec::new();
    for field in &definition.fields {
        // EventSource wraps the fields of some events in an object without a name.
        match &field.field_type {
            FieldType::Object(members) if field.name.is_empty() => fields.extend(members),
            _ => fields.push(field),
        }
    }
    let expressible = fields.into_iter().take_while(|field| is_expressible(&field.field_type));
    expressible.fold(metadata, |metadata, field| put(metadata, &field.name, &field.field_type, 0))
}

fn is_expressible(field_type: &FieldType) -> bool {
    match field_type {
        FieldType::Object(members) => {
            members.len() <= MAX_MEMBERS && members.iter().all(|member| is_expressible(&member.field_type))
        }
        FieldType::Array(element)
        | FieldType::FixedArray(element, _)
        | FieldType::RelativeArray(element)
        | FieldType::AbsoluteArray(element) => is_expressible(element),
        _ => true,
    }
}

/// Adds a field. `array` is [`ARRAY`] for the elements of an array.
fn put(metadata: EventMetadata, name: &str, field_type: &FieldType, array: u8) -> EventMetadata {
    let plain = |in_type: InType| (in_type.0 as u8, None);
    let (in_type, out_type) = match field_type {
        FieldType::Object(members) => {
            let metadata = metadata.formatted_field(name, STRUCT | array, members.len() as u8);
            return members
                .iter()
                .fold(metadata, |metadata, member| put(metadata, &member.name, &member.field_type, 0));
        }
        FieldType::Array(element)
        | FieldType::FixedArray(element, _)
        | FieldType::RelativeArray(element)
        | FieldType::AbsoluteArray(element) => match **element {
            FieldType::Utf16Unit => plain(InType::COUNTED_UNICODE_STRING),
            FieldType::Utf8Unit => (InType::COUNTED_ANSI_STRING.0 as u8, Some(OUT_UTF8)),
            _ if array == 0 => return put(metadata, name, element, ARRAY),
            // An array of arrays is an array of structures with one member.
            _ => return put(metadata.formatted_field(name, STRUCT | array, 1), "", field_type, 0),
        },
        FieldType::Boolean32 => plain(InType::BOOLEAN),
        FieldType::Boolean8 => (InType::UINT8.0 as u8, Some(OUT_BOOLEAN)),
        FieldType::Utf16Unit => (InType::UINT16.0 as u8, Some(OUT_STRING)),
        FieldType::Utf8Unit => (InType::UINT8.0 as u8, Some(OUT_STRING)),
        FieldType::Int8 => plain(InType::INT8),
        FieldType::UInt8 => plain(InType::UINT8),
        FieldType::Int16 => plain(InType::INT16),
        FieldType::UInt16 => plain(InType::UINT16),
        FieldType::Int32 => plain(InType::INT32),
        FieldType::UInt32 => plain(InType::UINT32),
        FieldType::Int64 | FieldType::VarInt => plain(InType::INT64),
        FieldType::UInt64 | FieldType::VarUInt => plain(InType::UINT64),
        FieldType::Float => plain(InType::FLOAT),
        FieldType::Double => plain(InType::DOUBLE),
        FieldType::FileTime => plain(InType::FILETIME),
        FieldType::SystemTime => plain(InType::SYSTEMTIME),
        FieldType::Guid => plain(InType::GUID),
        FieldType::Utf16String => plain(InType::UNICODE_STRING),
    };
    match out_type {
        None => metadata.field(name, in_type | array),
        Some(out_type) => metadata.formatted_field(name, in_type | array, out_type),
    }
}
