//! The schema model that every source is read into.
//!
//! ```
//! use std::sync::Arc;
//!
//! use etw_event::{EventDescriptor, Guid};
//! use etw_schema::model::{Decoding, EventSchema, InType, OutType, Property, ProviderInfo};
//!
//! let guid = Guid::from_provider_name("MyCompany.MyApp");
//! let info = Arc::new(ProviderInfo::new(guid, "MyCompany.MyApp", Decoding::Manifest, "by hand"));
//! let mut schema = EventSchema::new(info, EventDescriptor { id: 7, ..EventDescriptor::default() });
//! schema.properties.push(Property::scalar("count", InType::UINT32, OutType::NULL));
//! schema.top_level = 1;
//! ```

use std::sync::Arc;

use etw_event::{EventDescriptor, Guid, PointerSize};

/// The kind of source that a schema was read from: the values of `TRACE_EVENT_INFO.DecodingSource`, and more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Decoding {
    /// Metadata carried by the event itself.
    TraceLogging,
    /// Event metadata written into the trace when it was merged (`TRACE_EVENT_INFO`).
    EventMetadata,
    /// A manifest written into the trace by an EventSource.
    EventSource,
    /// An instrumentation manifest (`.man`, `.xml`).
    Manifest,
    /// A WEVT_TEMPLATE resource.
    WevtTemplate,
    /// MOF classes.
    Mof,
    /// WPP formats from a TMF file or a PDB.
    Wpp,
    /// A table built into this library.
    BuiltIn,
}

impl Decoding {
    /// Returns the display name.
    pub const fn name(self) -> &'static str {
        match self {
            Decoding::TraceLogging => "TraceLogging",
            Decoding::EventMetadata => "event metadata in the trace",
            Decoding::EventSource => "EventSource manifest in the trace",
            Decoding::Manifest => "manifest",
            Decoding::WevtTemplate => "WEVT_TEMPLATE",
            Decoding::Mof => "MOF",
            Decoding::Wpp => "WPP",
            Decoding::BuiltIn => "built in",
        }
    }
}

/// A provider with the events that one source describes.
///
/// For MOF a provider is one event class: `info.guid` is the class GUID and `info.class_of` the provider of the class.
/// For WPP it is one message GUID.
#[derive(Debug, Clone, PartialEq)]
pub struct Provider {
    /// The provider's names.
    pub info: Arc<ProviderInfo>,
    /// The events, in the order of the source. All share `info`.
    pub events: Vec<Arc<EventSchema>>,
}

/// Names that belong to a provider rather than to one event.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderInfo {
    /// The GUID in the records' headers: provider GUID, class GUID (MOF) or message GUID (WPP).
    pub guid: Guid,
    /// The name: `Microsoft-Windows-Kernel-Process`; for a MOF class its display name (`Process`); for WPP the
    /// friendly name of the source directory.
    pub name: Arc<str>,
    /// The kind of source that the names were read from.
    pub decoding: Decoding,
    /// The GUID that enables the provider, if it differs from `guid` (`controlGuid`).
    pub control_guid: Option<Guid>,
    /// The origin: a file name, or the label of a built-in table.
    pub origin: Arc<str>,
    /// For a class of classic events, GUID and name of its provider. The kernel's classes have
    /// `{9e814aad-3204-11d2-9a82-006008a86939}`, `Windows Kernel Trace`.
    pub class_of: Option<(Guid, Arc<str>)>,
    /// Channels.
    pub channels: Vec<ChannelName>,
    /// Levels that the provider defines (16 and above) or renames.
    pub levels: Vec<ValueName>,
    /// Tasks.
    pub tasks: Vec<TaskName>,
    /// Opcodes.
    pub opcodes: Vec<OpcodeName>,
    /// Keywords.
    pub keywords: Vec<KeywordName>,
    /// Value and bit maps.
    pub maps: Vec<Arc<ValueMap>>,
}

impl ProviderInfo {
    /// Creates a provider with empty lists.
    pub fn new(guid: Guid, name: &str, decoding: Decoding, origin: &str) -> ProviderInfo {
        ProviderInfo {
            guid,
            name: name.into(),
            decoding,
            control_guid: None,
            origin: origin.into(),
            class_of: None,
            channels: Vec::new(),
            levels: Vec::new(),
            tasks: Vec::new(),
            opcodes: Vec::new(),
            keywords: Vec::new(),
            maps: Vec::new(),
        }
    }
}

/// A named value. `message` is the text that `message="$(string.…)"` refers to, if any.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueName {
    /// The value.
    pub value: u16,
    /// The name as spelled in the source (`win:Informational`, `MyLevel`).
    pub name: Arc<str>,
    /// The localized text.
    pub message: Option<Arc<str>>,
}

/// A channel of a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelName {
    /// The value in the descriptor.
    pub value: u8,
    /// The name: `Microsoft-Windows-DNS-Client/Operational`.
    pub name: Arc<str>,
    /// The localized text.
    pub message: Option<Arc<str>>,
}

/// A task of a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskName {
    /// The value in the descriptor.
    pub value: u16,
    /// The name.
    pub name: Arc<str>,
    /// The localized text.
    pub message: Option<Arc<str>>,
    /// The task's `eventGUID`.
    pub event_guid: Option<Guid>,
}

/// An opcode of a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct OpcodeName {
    /// The value in the descriptor.
    pub value: u8,
    /// The only task that has this opcode; `None` if every task has it.
    pub task: Option<u16>,
    /// The name.
    pub name: Arc<str>,
    /// The localized text.
    pub message: Option<Arc<str>>,
}

/// A keyword of a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct KeywordName {
    /// The bits.
    pub mask: u64,
    /// The name.
    pub name: Arc<str>,
    /// The localized text.
    pub message: Option<Arc<str>>,
}

/// How the insert numbers of a message text map to properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MessageStyle {
    /// `FormatMessage`: `%1` is the first top-level property; `%n` is a line break.
    #[default]
    FormatMessage,
    /// WPP: `%10!s!` is the first argument; `%1` to `%9` are parts of the prefix.
    Wpp,
}

/// The schema of one event: names, message and properties.
#[derive(Debug, Clone, PartialEq)]
pub struct EventSchema {
    /// Names shared by the provider's events.
    pub provider: Arc<ProviderInfo>,
    /// The kind of source that this schema was read from.
    pub decoding: Decoding,
    /// The event's descriptor. Manifest events are looked up by id and version, classic events by version and opcode
    /// (with id 0), WPP messages by id (the message number).
    pub descriptor: EventDescriptor,
    /// The event's name: the TraceLogging name, the manifest's symbol or name, or the MOF type class
    /// (`Process_V4_TypeGroup1`). `None` if the source has no name.
    pub name: Option<Arc<str>>,
    /// The task's name; for classic events the class (`Process`).
    pub task_name: Option<Arc<str>>,
    /// The opcode's name; for classic events the name of the event type (`DCStart`).
    pub opcode_name: Option<Arc<str>>,
    /// The level's name.
    pub level_name: Option<Arc<str>>,
    /// The channel's name.
    pub channel_name: Option<Arc<str>>,
    /// Names of the keywords in the descriptor's mask, in the source's order.
    pub keyword_names: Vec<Arc<str>>,
    /// The message text, with inserts.
    pub message: Option<Arc<str>>,
    /// How the inserts are numbered.
    pub message_style: MessageStyle,
    /// The top-level properties, followed by the members of structs. A struct refers to its run of members.
    pub properties: Vec<Property>,
    /// The number of top-level entries in `properties`.
    pub top_level: u16,
    /// Whether the properties come from a `UserData` template rather than `EventData`.
    pub user_data: bool,
    /// What of the properties is inferred; `None` if the source states them all.
    pub inferred: Option<Inferred>,
    /// What the descriptions of the event call it, the one first whose name is shown; empty if there is no other than this
    /// one. Set by [`Resolver`](crate::Resolver).
    pub names: Vec<EventNames>,
}

/// What a description of an event calls it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EventNames {
    /// Name of the provider; for a class, of the one it belongs to.
    pub provider: Option<Arc<str>>,
    /// Name of the event; `None` for a classic event.
    pub event: Option<Arc<str>>,
    /// Name of the task; for a classic event the class.
    pub task: Option<Arc<str>>,
    /// Name of the opcode; for a classic event the type.
    pub opcode: Option<Arc<str>>,
}

/// Properties that the source does not state completely.
///
/// They are used only for a payload that ends exactly where they end. Of other payloads, the properties before them are
/// decoded and the rest is not. [`Properties::inferred`](crate::Properties::inferred) says it of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Inferred {
    /// Index of the first such top-level property.
    pub from: u16,
    /// What was inferred.
    pub what: Inference,
}

/// What of a schema, or of one event's decoding, was inferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Inference {
    /// Lengths and counts, from the names of the integers before them.
    #[error("its length or count is derived from the name of another property")]
    Length,
    /// The types: the source may give the number of a struct's first member in place of a type.
    #[error("it may be a struct, whose members are not known")]
    Type,
    /// Everything: the schema is that of another version of the event.
    #[error("only version {0} of this event is known")]
    Version(u8),
    /// The encoding of strings, of which the source says only that they are strings. They are taken for null-terminated
    /// ones.
    #[error("the source does not say how its strings are encoded")]
    Text,
    /// Which of several layouts holds, as the payload ends where each of them ends: the trace's release of Windows is not
    /// known to have one of them, or the trace has several and does not tell which one is the event's.
    #[error("several layouts of the event fit, and which one holds is not known")]
    Layouts,
    /// Strings at the end, which the payload does not have. They are taken for empty ones.
    #[error("strings that are missing at the end are taken for empty ones: {0}")]
    LeftOut(u16),
}

impl EventSchema {
    /// Creates a schema without names or properties.
    pub fn new(provider: Arc<ProviderInfo>, descriptor: EventDescriptor) -> EventSchema {
        EventSchema {
            decoding: provider.decoding,
            provider,
            descriptor,
            name: None,
            task_name: None,
            opcode_name: None,
            level_name: None,
            channel_name: None,
            keyword_names: Vec::new(),
            message: None,
            message_style: MessageStyle::FormatMessage,
            properties: Vec::new(),
            top_level: 0,
            user_data: false,
            inferred: None,
            names: Vec::new(),
        }
    }
}

/// One property of an event, or one member of a struct.
#[derive(Debug, Clone, PartialEq)]
pub struct Property {
    /// The name.
    pub name: Arc<str>,
    /// Value or struct.
    pub kind: PropertyType,
    /// Length of one element.
    pub length: Length,
    /// The number of elements.
    pub count: Count,
    /// TraceLogging tags, 28 bits.
    pub tags: u32,
}

impl Property {
    /// Creates a scalar with the given in-type and out-type.
    pub fn scalar(name: &str, in_type: InType, out_type: OutType) -> Property {
        Property {
            name: name.into(),
            kind: PropertyType::Value { in_type, out_type, map: None },
            length: Length::Natural,
            count: Count::One,
            tags: 0,
        }
    }
}

/// The type of a property: a value or a struct.
#[derive(Debug, Clone, PartialEq)]
pub enum PropertyType {
    /// A value.
    Value {
        /// The encoding in the payload.
        in_type: InType,
        /// The text form.
        out_type: OutType,
        /// Names for the values.
        map: Option<Arc<ValueMap>>,
    },
    /// A struct with the members `properties[first..first + members]` of the schema. A nested struct is one member.
    Struct {
        /// Index of the first member.
        first: u16,
        /// Number of members.
        members: u16,
    },
}

/// Length of one element: UTF-16 code units for wide strings, bytes for everything else.
///
/// Ignored for in-types with a fixed size (integers, GUIDs, …). Pointers always have the event's pointer size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Length {
    /// Determined by the in-type: its size, its terminator or its length prefix.
    #[default]
    Natural,
    /// A fixed length.
    Fixed(u16),
    /// The value of the property with this index, which precedes this one.
    Property(u16),
}

/// The number of elements of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Count {
    /// A single value, not an array.
    #[default]
    One,
    /// An array of fixed size.
    Fixed(u16),
    /// An array whose count is the value of the property with this index, which precedes this one.
    Property(u16),
    /// An array preceded by a `u16` count (TraceLogging).
    Prefixed,
    /// An array that extends to the end of the payload (stacks in classic events).
    ToEnd,
}

/// A map from values to names.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueMap {
    /// The name.
    pub name: Arc<str>,
    /// How values are matched.
    pub kind: MapKind,
    /// The entries, in the source's order.
    pub entries: Vec<MapEntry>,
}

/// How a map's values are matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    /// The value equals that of an entry.
    Value,
    /// Entries are masks. The names of all set bits are joined.
    Bits,
    /// Entries are bit positions (WBEM `BitValues`).
    BitPositions,
}

/// One entry of a map.
#[derive(Debug, Clone, PartialEq)]
pub struct MapEntry {
    /// Value, mask or bit position.
    pub value: u64,
    /// The text.
    pub text: Arc<str>,
}

macro_rules! types {
    ($(#[$doc:meta])* $type:ident { $($(#[$item_doc:meta])* $constant:ident = $value:literal, $name:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        #[repr(transparent)]
        pub struct $type(pub u16);

        impl $type {
            $($(#[$item_doc])* pub const $constant: $type = $type($value);)*

            /// Returns the name used in manifests, or `None` if the value is unknown.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $($value => Some($name),)* _ => None }
            }
        }
    };
}

types! {
    /// The encoding of a value in the payload (`TDH_IN_TYPE`, `tdh.h`). Values from 0x8000 on are specific to this
    /// library.
    InType {
        /// No value.
        NULL = 0, "Null";
        /// UTF-16, null-terminated unless a length is given.
        UNICODE_STRING = 1, "UnicodeString";
        /// 8-bit text, null-terminated unless a length is given.
        ANSI_STRING = 2, "AnsiString";
        /// 8-bit signed.
        INT8 = 3, "Int8";
        /// 8-bit unsigned.
        UINT8 = 4, "UInt8";
        /// 16-bit signed.
        INT16 = 5, "Int16";
        /// 16-bit unsigned.
        UINT16 = 6, "UInt16";
        /// 32-bit signed.
        INT32 = 7, "Int32";
        /// 32-bit unsigned.
        UINT32 = 8, "UInt32";
        /// 64-bit signed.
        INT64 = 9, "Int64";
        /// 64-bit unsigned.
        UINT64 = 10, "UInt64";
        /// 32-bit floating point.
        FLOAT = 11, "Float";
        /// 64-bit floating point.
        DOUBLE = 12, "Double";
        /// 32-bit Boolean.
        BOOLEAN = 13, "Boolean";
        /// Bytes of a given length. TraceLogging prefixes a `u16` length: use COUNTED_BINARY for that.
        BINARY = 14, "Binary";
        /// GUID.
        GUID = 15, "GUID";
        /// Pointer, in the event's pointer size.
        POINTER = 16, "Pointer";
        /// FILETIME.
        FILETIME = 17, "FILETIME";
        /// SYSTEMTIME, 16 bytes.
        SYSTEMTIME = 18, "SYSTEMTIME";
        /// Security identifier.
        SID = 19, "SID";
        /// 32-bit unsigned, shown in hexadecimal.
        HEX_INT32 = 20, "HexInt32";
        /// 64-bit unsigned, shown in hexadecimal.
        HEX_INT64 = 21, "HexInt64";
        /// `u16` byte count, then UTF-16.
        COUNTED_UNICODE_STRING = 22, "CountedUnicodeString";
        /// `u16` byte count, then 8-bit text.
        COUNTED_ANSI_STRING = 23, "CountedAnsiString";
        /// A struct.
        STRUCT = 24, "Struct";
        /// `u16` byte count, then bytes.
        COUNTED_BINARY = 25, "CountedBinary";
        /// Classic: `u16` byte count, then UTF-16.
        COUNTED_STRING = 300, "CountedString";
        /// Classic: `u16` byte count, then 8-bit text.
        COUNTED_STRING_ANSI = 301, "CountedStringAnsi";
        /// Classic: big-endian `u16` byte count, then UTF-16.
        REVERSED_COUNTED_STRING = 302, "ReversedCountedString";
        /// Classic: big-endian `u16` byte count, then 8-bit text.
        REVERSED_COUNTED_ANSI_STRING = 303, "ReversedCountedAnsiString";
        /// Classic: UTF-16 to the end of the payload.
        NON_NULL_TERMINATED_STRING = 304, "NonNullTerminatedString";
        /// Classic: 8-bit text to the end of the payload.
        NON_NULL_TERMINATED_ANSI_STRING = 305, "NonNullTerminatedAnsiString";
        /// One UTF-16 code unit.
        UNICODE_CHAR = 306, "UnicodeChar";
        /// One 8-bit character.
        ANSI_CHAR = 307, "AnsiChar";
        /// Unsigned, in the event's pointer size.
        SIZE_T = 308, "SizeT";
        /// `u32` byte count, then bytes.
        HEX_DUMP = 309, "HexDump";
        /// Either a `u32` of 0 alone, or a TOKEN_USER of two pointers followed by a SID.
        WBEM_SID = 310, "WbemSid";
        /// 64-bit timestamp of the session's raw clock (WMI `WmiTime`).
        WMI_TIME = 0x8001, "WmiTime";
        /// Bytes to the end of the payload.
        BINARY_TO_END = 0x8002, "BinaryToEnd";
        /// `u16` byte count, then a hex dump (WPP `ItemHexDump`).
        WPP_HEX_DUMP = 0x8003, "WppHexDump";
        /// Bytes of a length that the source does not state, or a struct whose members it does not state. Neither this
        /// property nor those after it can be located.
        UNKNOWN_EXTENT = 0x8004, "Unknown";
        /// A string of which the source states neither the encoding nor where it ends (CIM `string` without qualifiers).
        /// [`CompiledSchema::locate`](crate::CompiledSchema::locate) tries null-terminated strings.
        UNKNOWN_STRING = 0x8005, "UnknownString";
    }
}

impl InType {
    /// Encodes an integer; returns `None` if the type has no integers or the value does not fit, as signed or unsigned.
    pub fn encode_integer(self, value: i128, pointer: PointerSize) -> Option<Vec<u8>> {
        let len = match self {
            InType::INT8 | InType::UINT8 | InType::ANSI_CHAR => 1,
            InType::INT16 | InType::UINT16 | InType::UNICODE_CHAR => 2,
            InType::INT32 | InType::UINT32 | InType::HEX_INT32 | InType::BOOLEAN => 4,
            InType::INT64 | InType::UINT64 | InType::HEX_INT64 | InType::FILETIME | InType::WMI_TIME => 8,
            InType::POINTER | InType::SIZE_T => pointer.bytes(),
            _ => return None,
        };
        let fits = value >= -(1i128 << (8 * len - 1)) && value < 1i128 << (8 * len);
        fits.then(|| value.to_le_bytes().into_iter().take(len).collect())
    }

    /// Returns whether values are integers, which may serve as a length or count.
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            InType::INT8
                | InType::UINT8
                | InType::INT16
                | InType::UINT16
                | InType::INT32
                | InType::UINT32
                | InType::INT64
                | InType::UINT64
                | InType::HEX_INT32
                | InType::HEX_INT64
                | InType::POINTER
                | InType::SIZE_T
        )
    }
}

types! {
    /// The text form of a value (`TDH_OUT_TYPE`, `tdh.h`). Values from 0x8000 on are specific to this library.
    OutType {
        /// The default form of the in-type.
        NULL = 0, "Default";
        /// Text.
        STRING = 1, "xs:string";
        /// Date and time.
        DATETIME = 2, "xs:dateTime";
        /// 8-bit signed.
        BYTE = 3, "xs:byte";
        /// 8-bit unsigned.
        UNSIGNED_BYTE = 4, "xs:unsignedByte";
        /// 16-bit signed.
        SHORT = 5, "xs:short";
        /// 16-bit unsigned.
        UNSIGNED_SHORT = 6, "xs:unsignedShort";
        /// 32-bit signed.
        INT = 7, "xs:int";
        /// 32-bit unsigned.
        UNSIGNED_INT = 8, "xs:unsignedInt";
        /// 64-bit signed.
        LONG = 9, "xs:long";
        /// 64-bit unsigned.
        UNSIGNED_LONG = 10, "xs:unsignedLong";
        /// 32-bit floating point.
        FLOAT = 11, "xs:float";
        /// 64-bit floating point.
        DOUBLE = 12, "xs:double";
        /// `true` or `false`.
        BOOLEAN = 13, "xs:boolean";
        /// GUID.
        GUID = 14, "xs:GUID";
        /// `0x` and hexadecimal digits.
        HEX_BINARY = 15, "xs:hexBinary";
        /// Hexadecimal, 8-bit.
        HEX_INT8 = 16, "win:HexInt8";
        /// Hexadecimal, 16-bit.
        HEX_INT16 = 17, "win:HexInt16";
        /// Hexadecimal, 32-bit.
        HEX_INT32 = 18, "win:HexInt32";
        /// Hexadecimal, 64-bit.
        HEX_INT64 = 19, "win:HexInt64";
        /// Process ID.
        PID = 20, "win:PID";
        /// Thread ID.
        TID = 21, "win:TID";
        /// Port, big-endian in the payload.
        PORT = 22, "win:Port";
        /// IPv4 address, in memory order.
        IPV4 = 23, "win:IPv4";
        /// IPv6 address.
        IPV6 = 24, "win:IPv6";
        /// SOCKADDR.
        SOCKET_ADDRESS = 25, "win:SocketAddress";
        /// CIM date and time.
        CIM_DATETIME = 26, "win:CIMDateTime";
        /// Classic time.
        ETW_TIME = 27, "win:ETWTIME";
        /// XML.
        XML = 28, "win:Xml";
        /// Provider-specific error code.
        ERROR_CODE = 29, "win:ErrorCode";
        /// Win32 error.
        WIN32_ERROR = 30, "win:Win32Error";
        /// NTSTATUS.
        NTSTATUS = 31, "win:NTSTATUS";
        /// HRESULT.
        HRESULT = 32, "win:HResult";
        /// Date and time in a culture-independent form.
        CULTURE_INSENSITIVE_DATETIME = 33, "win:DateTimeCultureInsensitive";
        /// JSON.
        JSON = 34, "win:Json";
        /// UTF-8 text.
        UTF8 = 35, "win:Utf8";
        /// PKCS #7 with type information.
        PKCS7_WITH_TYPE_INFO = 36, "win:Pkcs7WithTypeInfo";
        /// Code address.
        CODE_POINTER = 37, "win:CodePointer";
        /// Date and time in UTC.
        DATETIME_UTC = 38, "win:DateTimeUtc";
        /// Text without line breaks.
        REDUCED_STRING = 300, "ReducedString";
        /// Not shown.
        NO_PRINT = 301, "NoPrint";
        /// MAC address.
        MAC_ADDRESS = 0x8001, "MacAddress";
        /// Duration in units of 100 ns (WPP `ItemTimeDelta`).
        TIME_DELTA = 0x8002, "TimeDelta";
        /// Four characters, such as pool tags (WPP `ItemChar4`).
        CHAR4 = 0x8003, "Char4";
    }
}
