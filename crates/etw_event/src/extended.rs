//! Extended data items: data that a session adds to an event besides its payload.

use std::fmt;

use crate::{Fields, PointerSize};

/// The type of an extended data item (`EVENT_HEADER_EXT_TYPE_*`, `evntcons.h`); unknown values are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct ExtendedType(pub u16);

macro_rules! extended_types {
    ($($(#[$doc:meta])* $constant:ident = $value:literal, $name:literal;)*) => {
        impl ExtendedType {
            $($(#[$doc])* pub const $constant: ExtendedType = ExtendedType($value);)*

            /// Returns the name used in JSON output; `None` for an unknown type.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $($value => Some($name),)* _ => None }
            }
        }
    };
}

extended_types! {
    /// GUID of the activity that caused this one.
    RELATED_ACTIVITY_ID = 0x01, "RelatedActivityID";
    /// SID of the user that logged the event.
    SID = 0x02, "Sid";
    /// `u32` terminal session id.
    TERMINAL_SESSION_ID = 0x03, "TerminalSessionID";
    /// `u32` instance id, `u32` parent instance id, parent GUID.
    INSTANCE_INFO = 0x04, "InstanceInfo";
    /// `u64` match id, then 32-bit addresses.
    STACK_TRACE32 = 0x05, "StackTrace";
    /// `u64` match id, then 64-bit addresses.
    STACK_TRACE64 = 0x06, "StackTrace";
    /// `u64` index of a PEBS record.
    PEBS_INDEX = 0x07, "PebsIndex";
    /// `u64` performance counters.
    PMC_COUNTERS = 0x08, "PmcCounters";
    /// Package identity key.
    PSM_KEY = 0x09, "PsmKey";
    /// `u64` key unique to the event.
    EVENT_KEY = 0x0A, "EventKey";
    /// TraceLogging event metadata.
    EVENT_SCHEMA_TL = 0x0B, "EventSchemaTL";
    /// Provider traits: name, group, decode GUID.
    PROVIDER_TRAITS = 0x0C, "ProviderTraits";
    /// `u64` key of the process, unique since boot.
    PROCESS_START_KEY = 0x0D, "ProcessStartKey";
    /// Control GUID, when the header holds the decode GUID.
    CONTROL_GUID = 0x0E, "ControlGuid";
    /// `u64` clock delta of a container or virtual machine.
    QPC_DELTA = 0x0F, "QpcDelta";
    /// GUID of the container.
    CONTAINER_ID = 0x10, "ContainerID";
    /// `u64` match id, `u32` key of a cached stack.
    STACK_KEY32 = 0x11, "StackKey";
    /// `u64` match id, `u64` key of a cached stack.
    STACK_KEY64 = 0x12, "StackKey";
}

impl fmt::Debug for ExtendedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "ExtendedType({:#x})", self.0),
        }
    }
}

/// One extended data item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtendedItem<'a> {
    /// Type of the data.
    pub ext_type: ExtendedType,
    /// The data, without header and padding.
    pub data: &'a [u8],
}

impl<'a> ExtendedItem<'a> {
    /// Returns the item as a stack, if it is one.
    pub fn stack_trace(&self) -> Option<StackTrace<'a>> {
        let pointer_size = match self.ext_type {
            ExtendedType::STACK_TRACE32 => PointerSize::Four,
            ExtendedType::STACK_TRACE64 => PointerSize::Eight,
            _ => return None,
        };
        Some(StackTrace { match_id: self.data.u64_at(0)?, addresses: self.data.get(8..)?, pointer_size })
    }
}

/// A stack attached to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackTrace<'a> {
    /// Nonzero if the kernel and user halves were written in two events; both then have this id.
    pub match_id: u64,
    addresses: &'a [u8],
    pointer_size: PointerSize,
}

impl<'a> StackTrace<'a> {
    /// Returns the addresses, innermost first.
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        let size = self.pointer_size;
        self.addresses.chunks_exact(size.bytes()).map(move |chunk| size.read(chunk, 0).unwrap_or(0))
    }
}

/// Iterator over the extended data items of a record, in order.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExtendedItems<'a> {
    rest: &'a [u8],
    done: bool,
}

impl<'a> ExtendedItems<'a> {
    /// The items at the start of `bytes`, which has at least one.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> ExtendedItems<'a> {
        ExtendedItems { rest: bytes, done: false }
    }

    /// No items.
    #[inline]
    pub(crate) fn none() -> ExtendedItems<'a> {
        ExtendedItems { rest: &[], done: true }
    }

    /// The bytes after the last item that has been read.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether the last item said that no other follows.
    #[inline]
    pub(crate) fn ended(&self) -> bool {
        self.done
    }
}

impl<'a> Iterator for ExtendedItems<'a> {
    type Item = ExtendedItem<'a>;

    /// Returns the next item. An item with invalid sizes ends the iteration.
    #[inline]
    fn next(&mut self) -> Option<ExtendedItem<'a>> {
        if self.done {
            return None;
        }
        let header = self.rest.u64_at(0)?;
        let total = (header & 0xFFFF) as usize;
        let ext_type = ExtendedType((header >> 16 & 0xFFFF) as u16);
        let more = header >> 32 & 1 == 1;
        let size = (header >> 48) as usize;
        if total < 8 + size {
            return None;
        }
        let data = self.rest.get(8..8 + size)?;
        self.rest = self.rest.get(total..)?;
        self.done = !more;
        Some(ExtendedItem { ext_type, data })
    }
}
