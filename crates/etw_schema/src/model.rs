//! The model that every source of schemas is read into.

use std::sync::Arc;

use etw_event::{EventDescriptor, Guid};

/// What a schema was read from, in the words of `TRACE_EVENT_INFO.DecodingSource` and beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Decoding {
    /// Metadata that the event itself carries.
    TraceLogging,
    /// Event metadata that the merge step put into the trace (`TRACE_EVENT_INFO`).
    EventMetadata,
    /// A manifest that an EventSource wrote into the trace.
    EventSource,
    /// An instrumentation manifest (`.man`, `.xml`).
    Manifest,
    /// A WEVT_TEMPLATE resource.
    WevtTemplate,
    /// MOF classes.
    Mof,
    /// WPP formats of a TMF file or PDB.
    Wpp,
    /// What this library knows by itself.
    BuiltIn,
}

impl Decoding {
    /// The name for people.
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

/// A provider and the events that a source describes of it.
///
/// For MOF a provider is one event class: `info.guid` is the class GUID, `info.class_of` the provider it belongs
/// to. For WPP it is one message GUID.
#[derive(Debug, Clone, PartialEq)]
pub struct Provider {
    /// The provider's names.
    pub info: Arc<ProviderInfo>,
    /// Its events, in the order of the source. All share `info`.
    pub events: Vec<Arc<EventSchema>>,
}

/// Names that belong to a provider rather than to one event.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderInfo {
    /// The GUID by which records name the provider: provider GUID, class GUID (MOF) or message GUID (WPP).
    pub guid: Guid,
    /// The name: `Microsoft-Windows-Kernel-Process`; for a MOF class its display name (`Process`), for WPP the
    /// source directory's friendly name.
    pub name: Arc<str>,
    /// What the names were read from.
    pub decoding: Decoding,
    /// The GUID that enables the provider where that is another one (`controlGuid`).
    pub control_guid: Option<Guid>,
    /// Where it was read: a file's name, or what this library calls its own tables.
    pub origin: Arc<str>,
    /// For a class of classic events, GUID and name of the provider it belongs to: for the kernel's classes
    /// `{9e814aad-3204-11d2-9a82-006008a86939}`, `Windows Kernel Trace`.
    pub class_of: Option<(Guid, Arc<str>)>,
    /// Channels.
    pub channels: Vec<ChannelName>,
    /// Levels that the provider defines (16 and up) or renames.
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
    /// A provider without any lists.
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

/// A value with its name; the message is what `message="$(string.…)"` says, if anything.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueName {
    /// The value.
    pub value: u16,
    /// The name, as the source has it (`win:Informational`, `MyLevel`).
    pub name: Arc<str>,
    /// The localised text.
    pub message: Option<Arc<str>>,
}

/// A channel of a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelName {
    /// The value in the descriptor.
    pub value: u8,
    /// The name: `Microsoft-Windows-DNS-Client/Operational`.
    pub name: Arc<str>,
    /// The localised text.
    pub message: Option<Arc<str>>,
}

/// A task of a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskName {
    /// The value in the descriptor.
    pub value: u16,
    /// The name.
    pub name: Arc<str>,
    /// The localised text.
    pub message: Option<Arc<str>>,
    /// `eventGUID` of the task.
    pub event_guid: Option<Guid>,
}

/// An opcode of a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct OpcodeName {
    /// The value in the descriptor.
    pub value: u8,
    /// The task that alone it belongs to.
    pub task: Option<u16>,
    /// The name.
    pub name: Arc<str>,
    /// The localised text.
    pub message: Option<Arc<str>>,
}

/// A keyword of a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct KeywordName {
    /// The bits.
    pub mask: u64,
    /// The name.
    pub name: Arc<str>,
    /// The localised text.
    pub message: Option<Arc<str>>,
}

/// How the numbers of a message text name its inserts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MessageStyle {
    /// `FormatMessage`: `%1` is the first top-level property; `%n` a new line.
    #[default]
    FormatMessage,
    /// WPP: `%10!s!` is the first argument; 1 to 9 are parts of the prefix.
    Wpp,
}

/// What one event means.
#[derive(Debug, Clone, PartialEq)]
pub struct EventSchema {
    /// Names shared by the provider's events.
    pub provider: Arc<ProviderInfo>,
    /// What this schema was read from.
    pub decoding: Decoding,
    /// The event's descriptor. Manifest events are found by id and version, classic events by version and opcode
    /// (id 0), WPP messages by id (the message number).
    pub descriptor: EventDescriptor,
    /// Name of the event: the TraceLogging name, the manifest's symbol or name, the MOF type class
    /// (`Process_V4_TypeGroup1`). `None` if the source gives none.
    pub name: Option<Arc<str>>,
    /// Name of the task; for classic events the class (`Process`).
    pub task_name: Option<Arc<str>>,
    /// Name of the opcode; for classic events the event type's name (`DCStart`).
    pub opcode_name: Option<Arc<str>>,
    /// Name of the level.
    pub level_name: Option<Arc<str>>,
    /// Name of the channel.
    pub channel_name: Option<Arc<str>>,
    /// Names of the keywords in the descriptor's mask, in the source's order.
    pub keyword_names: Vec<Arc<str>>,
    /// Message text with inserts.
    pub message: Option<Arc<str>>,
    /// How the inserts are numbered.
    pub message_style: MessageStyle,
    /// Top-level properties, then the members of structs; a struct names its run of members.
    pub properties: Vec<Property>,
    /// How many of `properties` are top-level.
    pub top_level: u16,
    /// Whether the properties are those of a `UserData` template rather than of `EventData`.
    pub user_data: bool,
}

impl EventSchema {
    /// A schema without names and properties.
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
    /// How many elements.
    pub count: Count,
    /// TraceLogging tags, 28 bits.
    pub tags: u32,
}

impl Property {
    /// A scalar of an in-type, its text chosen by an out-type.
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

/// What a property holds.
#[derive(Debug, Clone, PartialEq)]
pub enum PropertyType {
    /// A value.
    Value {
        /// How it lies in the payload.
        in_type: InType,
        /// How it is shown.
        out_type: OutType,
        /// Names for its values.
        map: Option<Arc<ValueMap>>,
    },
    /// A struct: its members are `properties[first..first + members]` of the schema. A nested struct counts as one.
    Struct {
        /// Index of the first member.
        first: u16,
        /// Number of members.
        members: u16,
    },
}

/// Length of one element: UTF-16 code units for wide strings, bytes for everything else.
///
/// The lengths of in-types with a size of their own (integers, GUIDs, …) are ignored, and pointers have the event's
/// pointer size whatever is stated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Length {
    /// By the in-type: its size, its terminator, or its length prefix.
    #[default]
    Natural,
    /// Fixed.
    Fixed(u16),
    /// The value of the property with this index, which lies before.
    Property(u16),
}

/// How many elements a property has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Count {
    /// One, shown as itself.
    #[default]
    One,
    /// An array of this many.
    Fixed(u16),
    /// An array of as many as the property with this index, which lies before, says.
    Property(u16),
    /// An array with its count as `u16` before it (TraceLogging).
    Prefixed,
    /// An array up to the end of the payload (stacks in classic events).
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
    /// The value equals an entry's.
    Value,
    /// Entries are masks; the names of those set are joined.
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

            /// The name in the words of manifests; `None` for a value this version does not know.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $($value => Some($name),)* _ => None }
            }
        }
    };
}

types! {
    /// How a value lies in the payload (`TDH_IN_TYPE`, `tdh.h`). Values of 0x8000 and above are this library's own.
    InType {
        /// Nothing.
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
        /// 32-bit truth value.
        BOOLEAN = 13, "Boolean";
        /// Bytes; the length is given (in TraceLogging a `u16` prefix, for which use COUNTED_BINARY).
        BINARY = 14, "Binary";
        /// GUID.
        GUID = 15, "GUID";
        /// Pointer, of the event's pointer size.
        POINTER = 16, "Pointer";
        /// FILETIME.
        FILETIME = 17, "FILETIME";
        /// SYSTEMTIME, 16 bytes.
        SYSTEMTIME = 18, "SYSTEMTIME";
        /// Security identifier.
        SID = 19, "SID";
        /// 32-bit, shown in hexadecimal.
        HEX_INT32 = 20, "HexInt32";
        /// 64-bit, shown in hexadecimal.
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
        /// Unsigned, of the event's pointer size.
        SIZE_T = 308, "SizeT";
        /// `u32` byte count, then bytes.
        HEX_DUMP = 309, "HexDump";
        /// A `u32` of 0 and nothing more; or a TOKEN_USER of two pointers and a SID.
        WBEM_SID = 310, "WbemSid";
        /// A reading of the session's raw clock (WMI `WmiTime`), 64-bit.
        WMI_TIME = 0x8001, "WmiTime";
        /// Bytes to the end of the payload.
        BINARY_TO_END = 0x8002, "BinaryToEnd";
        /// `u16` byte count, then a hex dump (WPP `ItemHexDump`).
        WPP_HEX_DUMP = 0x8003, "WppHexDump";
    }
}

impl InType {
    /// Whether values are integers, which may serve as a length or count.
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
    /// How a value is shown (`TDH_OUT_TYPE`, `tdh.h`). Values of 0x8000 and above are this library's own.
    OutType {
        /// By the in-type.
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
        /// Process id.
        PID = 20, "win:PID";
        /// Thread id.
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
        /// Error code of the provider.
        ERROR_CODE = 29, "win:ErrorCode";
        /// Win32 error.
        WIN32_ERROR = 30, "win:Win32Error";
        /// NTSTATUS.
        NTSTATUS = 31, "win:NTSTATUS";
        /// HRESULT.
        HRESULT = 32, "win:HResult";
        /// Date and time, whatever the culture.
        CULTURE_INSENSITIVE_DATETIME = 33, "win:DateTimeCultureInsensitive";
        /// JSON.
        JSON = 34, "win:Json";
        /// UTF-8 text.
        UTF8 = 35, "win:Utf8";
        /// PKCS #7 with type information.
        PKCS7_WITH_TYPE_INFO = 36, "win:Pkcs7WithTypeInfo";
        /// Address of code.
        CODE_POINTER = 37, "win:CodePointer";
        /// Date and time in UTC.
        DATETIME_UTC = 38, "win:DateTimeUtc";
        /// Text without line breaks.
        REDUCED_STRING = 300, "ReducedString";
        /// Not shown.
        NO_PRINT = 301, "NoPrint";
        /// MAC address.
        MAC_ADDRESS = 0x8001, "MacAddress";
        /// A duration in 100 ns units (WPP `ItemTimeDelta`).
        TIME_DELTA = 0x8002, "TimeDelta";
        /// Four characters (WPP `ItemChar4`), pool tags.
        CHAR4 = 0x8003, "Char4";
    }
}
