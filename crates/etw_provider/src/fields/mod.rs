//! The types of fields in [`event!`](crate::event!): one module for each type name.
//!
//! Each module has the field's description (`FIELD`) and a function that encodes its value (`value`). The macro accepts
//! the argument type of `value`.
//!
//! ```
//! use etw_provider::{event, provider};
//!
//! provider!(static APP: "MyCompany.MyApp");
//!
//! // `u32`, `str8` and `f64_slice` are modules of this one.
//! event!(APP, "Measured", u32("count", 2), str8("unit", "ms"), f64_slice("values", &[0.5, 1.5]));
//! ```

#[doc(hidden)]
pub mod support;

macro_rules! fields {
    ($(
        $(#[$doc:meta])*
        $name:ident $slice:ident $array:ident:
        $in_type:ident $format:ident, |$value:ident: $type:ty| -> $stored:ty { $body:expr }
    )*) => {
        $(
            $(#[$doc])*
            #[allow(clippy::extra_unused_lifetimes, reason = "not every type borrows")]
            pub mod $name {
                use super::support::*;

                /// The description of the field.
                pub const FIELD: FieldType = FieldType::new(in_type::$in_type, Format::$format);

                /// Encodes a value.
                #[inline(always)]
                pub fn value<'a>($value: $type) -> $stored {
                    $body
                }
            }

            #[doc = concat!("As many `", stringify!($name), "` as a slice has.")]
            pub mod $slice {
                use super::support::*;

                /// The description of the field.
                pub const FIELD: FieldType = super::$name::FIELD.slice();

                /// Encodes the values.
                #[inline(always)]
                pub fn value<'a>(values: &'a [$type]) -> Slice<'a, $type, $stored> {
                    Slice(Elements::new(values, super::$name::value))
                }
            }

            #[doc = concat!("A fixed number of `", stringify!($name), "`.")]
            pub mod $array {
                use super::support::*;

                /// The description of one element; the macro adds the count.
                pub const FIELD: FieldType = super::$name::FIELD;

                /// Encodes the values.
                #[inline(always)]
                pub fn value<'a, const N: p::usize>(values: &'a [$type; N]) -> Elements<'a, $type, $stored> {
                    Elements::new(values, super::$name::value)
                }
            }
        )*
    };
}

fields! {
    /// Signed 8-bit.
    i8 i8_slice i8_array: INT8 Default, |value: p::i8| -> p::i8 { value }
    /// Unsigned 8-bit.
    u8 u8_slice u8_array: UINT8 Default, |value: p::u8| -> p::u8 { value }
    /// Signed 16-bit.
    i16 i16_slice i16_array: INT16 Default, |value: p::i16| -> p::i16 { value }
    /// Unsigned 16-bit.
    u16 u16_slice u16_array: UINT16 Default, |value: p::u16| -> p::u16 { value }
    /// Signed 32-bit.
    i32 i32_slice i32_array: INT32 Default, |value: p::i32| -> p::i32 { value }
    /// Unsigned 32-bit.
    u32 u32_slice u32_array: UINT32 Default, |value: p::u32| -> p::u32 { value }
    /// Signed 64-bit.
    i64 i64_slice i64_array: INT64 Default, |value: p::i64| -> p::i64 { value }
    /// Unsigned 64-bit.
    u64 u64_slice u64_array: UINT64 Default, |value: p::u64| -> p::u64 { value }
    /// Signed and pointer-sized, stored in 64 bits.
    isize isize_slice isize_array: INT64 Default, |value: p::isize| -> p::i64 { value as p::i64 }
    /// Unsigned and pointer-sized, stored in 64 bits.
    usize usize_slice usize_array: UINT64 Default, |value: p::usize| -> p::u64 { value as p::u64 }
    /// 32-bit floating point.
    f32 f32_slice f32_array: FLOAT Default, |value: p::f32| -> p::f32 { value }
    /// 64-bit floating point.
    f64 f64_slice f64_array: DOUBLE Default, |value: p::f64| -> p::f64 { value }
    /// True or false, in four bytes.
    bool32 bool32_slice bool32_array: BOOL32 Default, |value: p::bool| -> p::u32 { p::u32::from(value) }
    /// True or false, in one byte.
    bool8 bool8_slice bool8_array: UINT8 Boolean, |value: p::bool| -> p::u8 { p::u8::from(value) }
    /// Unsigned 8-bit in hexadecimal.
    hex8 hex8_slice hex8_array: UINT8 Hex, |value: p::u8| -> p::u8 { value }
    /// Unsigned 16-bit in hexadecimal.
    hex16 hex16_slice hex16_array: UINT16 Hex, |value: p::u16| -> p::u16 { value }
    /// 32 bits in hexadecimal.
    hex32 hex32_slice hex32_array: HEX_INT32 Default, |value: p::u32| -> p::u32 { value }
    /// 64 bits in hexadecimal.
    hex64 hex64_slice hex64_array: HEX_INT64 Default, |value: p::u64| -> p::u64 { value }
    /// An address.
    pointer pointer_slice pointer_array: HEX_INT64 Default, |value: p::usize| -> p::u64 { value as p::u64 }
    /// A code address.
    code_pointer code_pointer_slice code_pointer_array:
        HEX_INT64 CodePointer, |value: p::usize| -> p::u64 { value as p::u64 }
    /// An 8-bit character.
    char8 char8_slice char8_array: UINT8 String, |value: p::u8| -> p::u8 { value }
    /// A UTF-16 code unit.
    char16 char16_slice char16_array: UINT16 String, |value: p::u16| -> p::u16 { value }
    /// UTF-8 text with its length; the preferred form of text.
    str8 str8_slice str8_array: COUNTED_ANSI_STRING Utf8, |text: &'a p::str| -> Counted8<&'a p::str> { Counted8(text) }
    /// UTF-8 text, terminated by a zero.
    cstr8 cstr8_slice cstr8_array: ANSI_STRING Utf8, |text: &'a p::str| -> Nul8<&'a p::str> { Nul8(text) }
    /// Text, stored as UTF-16 with its length.
    str16 str16_slice str16_array: COUNTED_STRING Default, |text: &'a p::str| -> Counted16<&'a p::str> { Counted16(text) }
    /// Text, stored as UTF-16, terminated by a zero.
    cstr16 cstr16_slice cstr16_array: UNICODE_STRING Default, |text: &'a p::str| -> Nul16<&'a p::str> { Nul16(text) }
    /// UTF-16 with its length.
    utf16 utf16_slice utf16_array:
        COUNTED_STRING Default, |units: &'a [p::u16]| -> Counted16<Units16<'a>> { Counted16(Units16(units)) }
    /// XML.
    xml xml_slice xml_array: COUNTED_ANSI_STRING Xml, |text: &'a p::str| -> Counted8<&'a p::str> { Counted8(text) }
    /// JSON.
    json json_slice json_array: COUNTED_ANSI_STRING Json, |text: &'a p::str| -> Counted8<&'a p::str> { Counted8(text) }
    /// Bytes.
    binary binary_slice binary_array: BINARY Default, |bytes: &'a [p::u8]| -> CountedBytes<'a> { CountedBytes(bytes) }
    /// Bytes, with the in-type supported by newer consumers.
    counted_binary counted_binary_slice counted_binary_array:
        COUNTED_BINARY Default, |bytes: &'a [p::u8]| -> CountedBytes<'a> { CountedBytes(bytes) }
    /// GUID.
    guid guid_slice guid_array: GUID Default, |value: Guid| -> Guid { value }
    /// A time, with a resolution of 100 ns.
    time time_slice time_array: FILE_TIME DateTimeUtc, |value: SystemTime| -> p::u64 { file_time(value) }
    /// A time as `FILETIME`: 100 ns intervals since 1601.
    filetime filetime_slice filetime_array: FILE_TIME Default, |value: p::u64| -> p::u64 { value }
    /// A time as `SYSTEMTIME`: year, month, day of week, day, hour, minute, second, millisecond.
    systemtime systemtime_slice systemtime_array: SYSTEM_TIME Default, |value: [p::u16; 8]| -> [p::u16; 8] { value }
    /// A security identifier in binary form. Its second byte determines its length.
    sid sid_slice sid_array: SID Default, |bytes: &'a [p::u8]| -> Raw<'a> { Raw(bytes) }
    /// A process id.
    pid pid_slice pid_array: UINT32 Pid, |value: p::u32| -> p::u32 { value }
    /// A thread id.
    tid tid_slice tid_array: UINT32 Tid, |value: p::u32| -> p::u32 { value }
    /// A port.
    port port_slice port_array: UINT16 Port, |value: p::u16| -> p::u16 { value.to_be() }
    /// An IPv4 address.
    ipv4 ipv4_slice ipv4_array:
        UINT32 Ipv4, |value: Ipv4Addr| -> p::u32 { p::u32::from_le_bytes(value.octets()) }
    /// An IPv6 address.
    ipv6 ipv6_slice ipv6_array: BINARY Ipv6, |value: Ipv6Addr| -> Ipv6 { Ipv6(value) }
    /// A `sockaddr`, with the address family numbers of Windows.
    socket_address socket_address_slice socket_address_array:
        BINARY SocketAddress, |bytes: &'a [p::u8]| -> CountedBytes<'a> { CountedBytes(bytes) }
    /// A Windows error code.
    win32_error win32_error_slice win32_error_array: UINT32 Win32Error, |value: p::u32| -> p::u32 { value }
    /// An `NTSTATUS`.
    ntstatus ntstatus_slice ntstatus_array: UINT32 NtStatus, |value: p::u32| -> p::u32 { value }
    /// An `HRESULT`.
    hresult hresult_slice hresult_array: INT32 HResult, |value: p::i32| -> p::i32 { value }
}
