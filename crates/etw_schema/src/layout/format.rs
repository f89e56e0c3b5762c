//! The meaning of an in-type and out-type pair: how the value is read and how it is shown.

use etw_event::PointerSize;

use crate::{Count, InType, OutType, Property, PropertyType};

/// The text form of a value, compiled from in-type and out-type (see `docs/schemas.md`, in- and out-types).
///
/// Each variant documents its text form, followed by its JSON type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// No text; null.
    Nothing,
    /// Integer in decimal; number.
    Decimal,
    /// Integer or pointer in hexadecimal, `0x1F`, without padding; string.
    Hex,
    /// Floating point, as `%g`; number.
    Float,
    /// `true` or `false`; Boolean.
    Boolean,
    /// Text; string.
    Text,
    /// Text with line breaks shown as spaces; string.
    ReducedText,
    /// One character; string.
    Character,
    /// `{9e814aad-3204-11d2-9a82-006008a86939}`; string.
    Guid,
    /// RFC 3339 in UTC with seven digits; string.
    Time,
    /// A duration, `1~02:03:04.0000005`; number of 100 ns units.
    Duration,
    /// `S-1-5-18`; string.
    Sid,
    /// `0x` and upper-case hexadecimal digits of all bytes; string.
    Binary,
    /// `192.168.0.1`; string.
    Ipv4,
    /// `fe80::1` as in RFC 5952; string.
    Ipv6,
    /// `192.168.0.1:80`, `[fe80::1%4]:80`, a MAC address for link-level addresses, otherwise like [`Format::Binary`];
    /// string.
    SocketAddress,
    /// `00-15-5D-01-02-03`; string.
    MacAddress,
    /// Win32 error: `5 (ERROR_ACCESS_DENIED)`; number.
    Win32Error,
    /// NTSTATUS: `0xC0000022 (STATUS_ACCESS_DENIED)`; string of the hexadecimal number.
    NtStatus,
    /// HRESULT: `0x80070005 (E_ACCESSDENIED)`; string of the hexadecimal number.
    HResult,
    /// The four characters of a pool tag; string.
    FourCharacters,
}

/// The way a value is read from its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    Null,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    Bool,
    Guid,
    Pointer,
    SignedPointer,
    FileTime,
    SystemTime,
    Ticks,
    Sid,
    Utf16,
    /// UTF-16 of a given length, possibly ended early by a NUL.
    Utf16Padded,
    Ansi,
    AnsiPadded,
    Binary,
    Ipv4,
    Ipv6,
    SocketAddress,
    Port,
    Char8,
    Char16,
}

/// Returns the size of one element of an in-type with a fixed size.
pub(crate) const fn fixed_size(in_type: InType, pointer: PointerSize) -> Option<u32> {
    Some(match in_type {
        InType::NULL => 0,
        InType::INT8 | InType::UINT8 | InType::ANSI_CHAR => 1,
        InType::INT16 | InType::UINT16 | InType::UNICODE_CHAR => 2,
        InType::INT32 | InType::UINT32 | InType::HEX_INT32 | InType::FLOAT | InType::BOOLEAN => 4,
        InType::INT64 | InType::UINT64 | InType::HEX_INT64 | InType::DOUBLE => 8,
        InType::FILETIME | InType::WMI_TIME => 8,
        InType::GUID | InType::SYSTEMTIME => 16,
        InType::POINTER | InType::SIZE_T => match pointer {
            PointerSize::Four => 4,
            PointerSize::Eight => 8,
        },
        _ => return None,
    })
}

impl Property {
    /// Returns whether the property is an array of characters, which is one text.
    pub fn is_text_array(&self) -> bool {
        let PropertyType::Value { in_type, out_type, .. } = self.kind else { return false };
        let is_character =
            matches!(read_and_format(in_type, out_type), Some((Read::Char8 | Read::Char16, _)));
        is_character && self.count != Count::One
    }
}

/// Returns reader and format of an in-type and out-type, or `None` for an unknown in-type.
pub(crate) fn read_and_format(in_type: InType, out_type: OutType) -> Option<(Read, Format)> {
    let integer = |read: Read| integer_format(read, in_type, out_type);
    let text = |read: Read| {
        let format = if out_type == OutType::REDUCED_STRING { Format::ReducedText } else { Format::Text };
        (read, format)
    };
    Some(match in_type {
        InType::NULL => (Read::Null, Format::Nothing),
        InType::UNICODE_STRING
        | InType::COUNTED_UNICODE_STRING
        | InType::COUNTED_STRING
        | InType::REVERSED_COUNTED_STRING
        | InType::NON_NULL_TERMINATED_STRING => text(Read::Utf16),
        InType::ANSI_STRING
        | InType::COUNTED_ANSI_STRING
        | InType::COUNTED_STRING_ANSI
        | InType::REVERSED_COUNTED_ANSI_STRING
        | InType::NON_NULL_TERMINATED_ANSI_STRING => text(Read::Ansi),
        InType::INT8 => integer(Read::I8),
        InType::UINT8 => integer(Read::U8),
        InType::INT16 => integer(Read::I16),
        InType::UINT16 => integer(Read::U16),
        InType::INT32 => integer(Read::I32),
        InType::UINT32 | InType::HEX_INT32 => integer(Read::U32),
        InType::INT64 => integer(Read::I64),
        InType::UINT64 | InType::HEX_INT64 => integer(Read::U64),
        InType::FLOAT => (Read::F32, Format::Float),
        InType::DOUBLE => (Read::F64, Format::Float),
        InType::BOOLEAN => (Read::Bool, Format::Boolean),
        InType::GUID => (Read::Guid, Format::Guid),
        InType::POINTER | InType::SIZE_T => match out_type {
            OutType::LONG | OutType::INT => (Read::SignedPointer, Format::Decimal),
            OutType::UNSIGNED_LONG | OutType::UNSIGNED_INT => (Read::Pointer, Format::Decimal),
            _ => (Read::Pointer, Format::Hex),
        },
        InType::FILETIME => (Read::FileTime, Format::Time),
        InType::SYSTEMTIME => (Read::SystemTime, Format::Time),
        InType::WMI_TIME => (Read::Ticks, Format::Time),
        InType::SID | InType::WBEM_SID => (Read::Sid, Format::Sid),
        InType::UNICODE_CHAR => (Read::Char16, Format::Character),
        InType::ANSI_CHAR => (Read::Char8, Format::Character),
        InType::BINARY
        | InType::COUNTED_BINARY
        | InType::HEX_DUMP
        | InType::BINARY_TO_END
        | InType::WPP_HEX_DUMP => match out_type {
            OutType::IPV4 => (Read::Ipv4, Format::Ipv4),
            OutType::IPV6 => (Read::Ipv6, Format::Ipv6),
            OutType::SOCKET_ADDRESS => (Read::SocketAddress, Format::SocketAddress),
            OutType::MAC_ADDRESS => (Read::Binary, Format::MacAddress),
            _ => (Read::Binary, Format::Binary),
        },
        _ => return None,
    })
}

fn integer_format(read: Read, in_type: InType, out_type: OutType) -> (Read, Format) {
    let hex_by_type = matches!(in_type, InType::HEX_INT32 | InType::HEX_INT64);
    let eight_bits = matches!(in_type, InType::INT8 | InType::UINT8);
    let sixteen_bits = matches!(in_type, InType::INT16 | InType::UINT16);
    let unsigned_32 = matches!(in_type, InType::UINT32 | InType::HEX_INT32);
    match out_type {
        OutType::BOOLEAN => (Read::Bool, Format::Boolean),
        OutType::STRING if eight_bits => (Read::Char8, Format::Character),
        OutType::STRING if sixteen_bits => (Read::Char16, Format::Character),
        OutType::PORT if in_type == InType::UINT16 => (Read::Port, Format::Decimal),
        OutType::IPV4 if unsigned_32 => (Read::Ipv4, Format::Ipv4),
        OutType::WIN32_ERROR => (read, Format::Win32Error),
        OutType::NTSTATUS => (read, Format::NtStatus),
        OutType::HRESULT => (read, Format::HResult),
        OutType::CHAR4 if unsigned_32 => (read, Format::FourCharacters),
        OutType::TIME_DELTA => (read, Format::Duration),
        OutType::HEX_INT8
        | OutType::HEX_INT16
        | OutType::HEX_INT32
        | OutType::HEX_INT64
        | OutType::HEX_BINARY
        | OutType::ERROR_CODE
        | OutType::CODE_POINTER => (read, Format::Hex),
        _ if hex_by_type => (read, Format::Hex),
        _ => (read, Format::Decimal),
    }
}
