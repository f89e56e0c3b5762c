//! Property values, borrowed from the payload, and their conversion to Rust types.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use etw_event::{Fields, FileTime, Guid, PointerSize, Sid, SystemTime, Ticks};

use crate::layout::Read;
use crate::properties::{Array, Struct};
use crate::socket_address::socket_address;
use crate::text;

/// A property's value, borrowed from the payload.
///
/// In-type and out-type determine the variant. Out-types that interpret the bytes (port, Boolean, character, address)
/// change it; out-types that only change the text form (hexadecimal, process id, …) do not.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Value<'a> {
    /// No value: the null in-type, an absent classic SID, or invalid bytes.
    Null,
    /// 8-bit signed.
    I8(i8),
    /// 8-bit unsigned.
    U8(u8),
    /// 16-bit signed.
    I16(i16),
    /// 16-bit unsigned; a port in host order.
    U16(u16),
    /// 32-bit signed.
    I32(i32),
    /// 32-bit unsigned.
    U32(u32),
    /// 64-bit signed.
    I64(i64),
    /// 64-bit unsigned.
    U64(u64),
    /// 32-bit floating point.
    F32(f32),
    /// 64-bit floating point.
    F64(f64),
    /// A Boolean, stored in 1 to 8 bytes.
    Bool(bool),
    /// A pointer or size, in the event's pointer size.
    Pointer(u64, PointerSize),
    /// UTF-16 little-endian without terminator. The number of bytes is even.
    Utf16(&'a [u8]),
    /// 8-bit text without terminator: UTF-8 if valid, otherwise Windows-1252.
    Ansi(&'a [u8]),
    /// One UTF-16 code unit.
    Char16(u16),
    /// One 8-bit character.
    Char8(u8),
    /// GUID.
    Guid(Guid),
    /// FILETIME.
    FileTime(FileTime),
    /// SYSTEMTIME, possibly invalid; see [`SystemTime::to_filetime`].
    SystemTime(SystemTime),
    /// A reading of the session's raw clock, and the time it corresponds to.
    RawTime(Ticks, FileTime),
    /// SID.
    Sid(Sid<'a>),
    /// Bytes.
    Binary(&'a [u8]),
    /// IPv4 address.
    Ipv4(Ipv4Addr),
    /// IPv6 address.
    Ipv6(Ipv6Addr),
    /// SOCKADDR, in its memory layout.
    SocketAddress(&'a [u8]),
    /// The elements of an array, all of one type, which may be a struct.
    Array(Array<'a>),
    /// The members of a struct.
    Struct(Struct<'a>),
}

impl<'a> Value<'a> {
    /// Reads a value from exactly its bytes. Each arm constructs its value in place: moving a finished value would cost
    /// more than the rest of this function.
    #[inline(always)]
    pub(crate) fn read(read: Read, bytes: &'a [u8], clock: &etw_event::Clock) -> Value<'a> {
        macro_rules! or_null {
            ($read:expr, $value:pat => $made:expr) => {
                match $read {
                    Some($value) => $made,
                    None => Value::Null,
                }
            };
        }
        match read {
            Read::I8 => or_null!(bytes.u8_at(0), value => Value::I8(value as i8)),
            Read::U8 => or_null!(bytes.u8_at(0), value => Value::U8(value)),
            Read::I16 => or_null!(bytes.u16_at(0), value => Value::I16(value as i16)),
            Read::U16 => or_null!(bytes.u16_at(0), value => Value::U16(value)),
            Read::I32 => or_null!(bytes.u32_at(0), value => Value::I32(value as i32)),
            Read::U32 => or_null!(bytes.u32_at(0), value => Value::U32(value)),
            Read::I64 => or_null!(bytes.i64_at(0), value => Value::I64(value)),
            Read::U64 => or_null!(bytes.u64_at(0), value => Value::U64(value)),
            Read::F32 => or_null!(bytes.u32_at(0), value => Value::F32(f32::from_bits(value))),
            Read::F64 => or_null!(bytes.u64_at(0), value => Value::F64(f64::from_bits(value))),
            Read::FileTime => or_null!(bytes.i64_at(0), value => Value::FileTime(FileTime(value))),
            Read::Guid => or_null!(bytes.guid_at(0), value => Value::Guid(value)),
            Read::Port => or_null!(bytes.u16_at(0), value => Value::U16(value.swap_bytes())),
            Read::Char8 => or_null!(bytes.u8_at(0), value => Value::Char8(value)),
            Read::Char16 => or_null!(bytes.u16_at(0), value => Value::Char16(value)),
            Read::Pointer => match (bytes.u64_at(0), bytes.u32_at(0)) {
                (Some(value), _) => Value::Pointer(value, PointerSize::Eight),
                (None, Some(value)) => Value::Pointer(value.into(), PointerSize::Four),
                (None, None) => Value::Null,
            },
            Read::Utf16 => Value::Utf16(even(bytes)),
            Read::Ansi => Value::Ansi(bytes),
            Read::Binary => Value::Binary(bytes),
            Read::SocketAddress => Value::SocketAddress(bytes),
            Read::Sid => or_null!(Sid::parse(bytes), sid => Value::Sid(sid)),
            _ => Value::read_rare(read, bytes, clock),
        }
    }

    /// Reads the values that take more than a load or are rare.
    #[inline(never)]
    fn read_rare(read: Read, bytes: &'a [u8], clock: &etw_event::Clock) -> Value<'a> {
        let value = match read {
            Read::Bool => Some(Value::Bool(bytes.iter().any(|byte| *byte != 0))),
            Read::SignedPointer if bytes.len() == 4 => bytes.u32_at(0).map(|value| Value::I32(value as i32)),
            Read::SignedPointer => bytes.i64_at(0).map(Value::I64),
            Read::SystemTime => SystemTime::parse(bytes).map(Value::SystemTime),
            Read::Ticks => bytes.i64_at(0).map(|ticks| {
                let ticks = Ticks(ticks);
                Value::RawTime(ticks, clock.to_filetime(ticks))
            }),
            Read::Utf16Padded => Some(Value::Utf16(text::until_nul16(even(bytes)))),
            Read::AnsiPadded => Some(Value::Ansi(text::until_nul(bytes))),
            Read::Ipv4 => Some(match bytes.array_at::<4>(0) {
                Some(address) if bytes.len() == 4 => Value::Ipv4(Ipv4Addr::from(address)),
                _ => Value::Binary(bytes),
            }),
            Read::Ipv6 => Some(match bytes.array_at::<16>(0) {
                Some(address) if bytes.len() == 16 => Value::Ipv6(Ipv6Addr::from(address)),
                _ => Value::Binary(bytes),
            }),
            _ => None,
        };
        value.unwrap_or(Value::Null)
    }

    /// Returns the name of the variant, for messages.
    pub const fn kind_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::I8(_) => "Int8",
            Value::U8(_) => "UInt8",
            Value::I16(_) => "Int16",
            Value::U16(_) => "UInt16",
            Value::I32(_) => "Int32",
            Value::U32(_) => "UInt32",
            Value::I64(_) => "Int64",
            Value::U64(_) => "UInt64",
            Value::F32(_) => "Float",
            Value::F64(_) => "Double",
            Value::Bool(_) => "Boolean",
            Value::Pointer(..) => "Pointer",
            Value::Utf16(_) => "UnicodeString",
            Value::Ansi(_) => "AnsiString",
            Value::Char16(_) => "UnicodeChar",
            Value::Char8(_) => "AnsiChar",
            Value::Guid(_) => "GUID",
            Value::FileTime(_) => "FILETIME",
            Value::SystemTime(_) => "SYSTEMTIME",
            Value::RawTime(..) => "raw time",
            Value::Sid(_) => "SID",
            Value::Binary(_) => "Binary",
            Value::Ipv4(_) => "IPv4",
            Value::Ipv6(_) => "IPv6",
            Value::SocketAddress(_) => "SocketAddress",
            Value::Array(_) => "array",
            Value::Struct(_) => "struct",
        }
    }

    /// Returns the value as an integer. Works for integers, pointers, characters, Booleans (0 or 1) and times (FILETIME
    /// units, raw ticks).
    #[inline]
    pub const fn as_integer(&self) -> Option<i128> {
        Some(match *self {
            Value::I8(value) => value as i128,
            Value::U8(value) | Value::Char8(value) => value as i128,
            Value::I16(value) => value as i128,
            Value::U16(value) | Value::Char16(value) => value as i128,
            Value::I32(value) => value as i128,
            Value::U32(value) => value as i128,
            Value::I64(value) => value as i128,
            Value::U64(value) | Value::Pointer(value, _) => value as i128,
            Value::Bool(value) => value as i128,
            Value::FileTime(value) => value.0 as i128,
            Value::RawTime(ticks, _) => ticks.0 as i128,
            _ => return None,
        })
    }

    /// Returns the integer's bits, zero-extended from the width of the value, as used by maps and hexadecimal text.
    #[inline]
    pub const fn as_bits(&self) -> Option<u64> {
        Some(match *self {
            Value::I8(value) => value as u8 as u64,
            Value::U8(value) | Value::Char8(value) => value as u64,
            Value::I16(value) => value as u16 as u64,
            Value::U16(value) | Value::Char16(value) => value as u64,
            Value::I32(value) => value as u32 as u64,
            Value::U32(value) => value as u64,
            Value::I64(value) => value as u64,
            Value::U64(value) | Value::Pointer(value, _) => value,
            Value::Bool(value) => value as u64,
            _ => return None,
        })
    }

    /// Returns the text of a string, borrowed if the payload holds it as UTF-8.
    pub fn as_text(&self) -> Option<Cow<'a, str>> {
        match *self {
            Value::Utf16(bytes) => {
                let mut out = String::with_capacity(bytes.len() / 2);
                text::write_utf16(&mut out, bytes);
                Some(Cow::Owned(out))
            }
            Value::Ansi(bytes) => Some(match std::str::from_utf8(bytes) {
                Ok(text) => Cow::Borrowed(text),
                Err(_) => {
                    let mut out = String::with_capacity(bytes.len() + 8);
                    text::write_ansi(&mut out, bytes);
                    Cow::Owned(out)
                }
            }),
            Value::Char8(_) | Value::Char16(_) => {
                let mut out = String::new();
                text::write_character(&mut out, u16::try_from(self.as_bits()?).ok()?);
                Some(Cow::Owned(out))
            }
            _ => None,
        }
    }
}

/// A type that [`Properties::get`](crate::Properties::get) can convert a [`Value`] to.
///
/// | type | from |
/// |---|---|
/// | `u8` … `u64`, `usize`, `i8` … `i64`, `isize`, `u128`, `i128` | every integer, pointer, character, Boolean (0, 1), FILETIME and raw time whose *value* fits the type, whatever its width and sign |
/// | `bool` | Booleans only |
/// | `f32` | `Float` |
/// | `f64` | `Float`, `Double` |
/// | `String`, `Cow<str>` | strings and characters; lone surrogates become U+FFFD, 8-bit text that is not UTF-8 is read as Windows-1252 |
/// | `&[u8]`, `Vec<u8>` | binary, socket addresses; a SID's bytes |
/// | [`Guid`] | GUIDs |
/// | [`FileTime`] | FILETIME, valid SYSTEMTIME, raw time |
/// | [`Sid`] | SIDs |
/// | `Ipv4Addr`, `Ipv6Addr`, [`IpAddr`] | IP addresses |
/// | [`SocketAddr`] | socket addresses of IPv4 and IPv6 |
/// | [`Array`], [`Struct`], [`Value`] | the same, unconverted |
/// | `Vec<T>` | arrays whose elements convert to `T` |
/// | `Option<T>` | null becomes `None` |
pub trait FromValue<'a>: Sized {
    /// Name of the type, for messages.
    const NAME: &'static str;

    /// Converts the value. Returns `None` if its type does not convert or it is out of range.
    fn from_value(value: Value<'a>) -> Option<Self>;
}

macro_rules! from_integers {
    ($($type:ident)*) => {
        $(impl<'a> FromValue<'a> for $type {
            const NAME: &'static str = stringify!($type);

            #[inline]
            fn from_value(value: Value<'a>) -> Option<$type> {
                $type::try_from(value.as_integer()?).ok()
            }
        })*
    };
}
from_integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

macro_rules! from_variants {
    ($($type:ty, $name:literal: $($pattern:pat => $result:expr),+;)*) => {
        $(impl<'a> FromValue<'a> for $type {
            const NAME: &'static str = $name;

            #[inline]
            fn from_value(value: Value<'a>) -> Option<$type> {
                match value { $($pattern => $result,)+ _ => None }
            }
        })*
    };
}
from_variants! {
    bool, "bool": Value::Bool(value) => Some(value);
    f32, "f32": Value::F32(value) => Some(value);
    f64, "f64": Value::F32(value) => Some(value.into()), Value::F64(value) => Some(value);
    &'a [u8], "bytes":
        Value::Binary(bytes) | Value::SocketAddress(bytes) => Some(bytes),
        Value::Sid(sid) => Some(sid.as_bytes());
    Guid, "GUID": Value::Guid(guid) => Some(guid);
    FileTime, "time":
        Value::FileTime(time) | Value::RawTime(_, time) => Some(time),
        Value::SystemTime(time) => time.to_filetime();
    SystemTime, "SYSTEMTIME": Value::SystemTime(time) => Some(time);
    Ticks, "raw time": Value::RawTime(ticks, _) => Some(ticks);
    Sid<'a>, "SID": Value::Sid(sid) => Some(sid);
    Ipv4Addr, "IPv4 address": Value::Ipv4(address) => Some(address);
    Ipv6Addr, "IPv6 address": Value::Ipv6(address) => Some(address);
    IpAddr, "IP address":
        Value::Ipv4(address) => Some(address.into()),
        Value::Ipv6(address) => Some(address.into());
    SocketAddr, "socket address": Value::SocketAddress(bytes) => socket_address(bytes);
    Array<'a>, "array": Value::Array(array) => Some(array);
    Struct<'a>, "struct": Value::Struct(members) => Some(members);
}

impl<'a> FromValue<'a> for Value<'a> {
    const NAME: &'static str = "value";

    #[inline]
    fn from_value(value: Value<'a>) -> Option<Value<'a>> {
        Some(value)
    }
}

impl<'a> FromValue<'a> for String {
    const NAME: &'static str = "text";

    fn from_value(value: Value<'a>) -> Option<String> {
        value.as_text().map(Cow::into_owned)
    }
}

impl<'a> FromValue<'a> for Cow<'a, str> {
    const NAME: &'static str = "text";

    fn from_value(value: Value<'a>) -> Option<Cow<'a, str>> {
        value.as_text()
    }
}

impl<'a, T: FromValue<'a>> FromValue<'a> for Option<T> {
    const NAME: &'static str = T::NAME;

    fn from_value(value: Value<'a>) -> Option<Option<T>> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl<'a, T: FromValue<'a>> FromValue<'a> for Vec<T> {
    const NAME: &'static str = "array";

    fn from_value(value: Value<'a>) -> Option<Vec<T>> {
        match value {
            Value::Array(array) => array.iter().map(T::from_value).collect(),
            // Bytes also convert to Vec<u8>.
            Value::Binary(bytes) | Value::SocketAddress(bytes) => {
                bytes.iter().map(|byte| T::from_value(Value::U8(*byte))).collect()
            }
            _ => None,
        }
    }
}

/// Returns the whole UTF-16 units.
#[inline]
fn even(bytes: &[u8]) -> &[u8] {
    bytes.get(..bytes.len() & !1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get<'a, T: FromValue<'a>>(value: Value<'a>) -> Option<T> {
        T::from_value(value)
    }

    #[test]
    fn integers_convert_when_the_value_fits() {
        assert_eq!(get::<u8>(Value::U64(255)), Some(255));
        assert_eq!(get::<u8>(Value::U64(256)), None);
        assert_eq!(get::<u32>(Value::I32(-1)), None);
        assert_eq!(get::<i8>(Value::I64(-128)), Some(-128));
        assert_eq!(get::<i64>(Value::U64(u64::MAX)), None);
        assert_eq!(get::<u64>(Value::Pointer(5, PointerSize::Four)), Some(5));
        assert_eq!(get::<u16>(Value::Char16(65)), Some(65));
        assert_eq!(get::<u32>(Value::Bool(true)), Some(1));
        assert_eq!(get::<i64>(Value::FileTime(FileTime(7))), Some(7));
        assert_eq!(get::<u32>(Value::F64(1.0)), None);
        assert_eq!(get::<u32>(Value::Ansi(b"1")), None);
    }

    #[test]
    fn other_types_convert_from_their_own_kind() {
        assert_eq!(get::<bool>(Value::Bool(true)), Some(true));
        assert_eq!(get::<bool>(Value::U32(1)), None);
        assert_eq!(get::<f64>(Value::F32(1.5)), Some(1.5));
        assert_eq!(get::<f32>(Value::F64(1.5)), None);
        assert_eq!(get::<String>(Value::Utf16(b"a\0b\0")).as_deref(), Some("ab"));
        assert_eq!(get::<String>(Value::Char8(b'x')).as_deref(), Some("x"));
        assert_eq!(get::<String>(Value::U32(1)), None);
        assert!(matches!(get::<Cow<'_, str>>(Value::Ansi(b"plain")), Some(Cow::Borrowed("plain"))));
        assert_eq!(get::<Cow<'_, str>>(Value::Ansi(b"\xE9")).as_deref(), Some("é"));
        assert_eq!(get::<&[u8]>(Value::Binary(&[1, 2])), Some(&[1, 2][..]));
        assert_eq!(get::<Vec<u8>>(Value::Binary(&[1, 2])), Some(vec![1, 2]));
        assert_eq!(get::<Option<u8>>(Value::Null), Some(None));
        assert_eq!(get::<Option<u8>>(Value::U8(3)), Some(Some(3)));
        assert_eq!(get::<Option<u8>>(Value::U32(300)), None);
        let address = IpAddr::from([10, 0, 0, 1]);
        assert_eq!(get::<IpAddr>(Value::Ipv4(Ipv4Addr::new(10, 0, 0, 1))), Some(address));
        let socket = get::<SocketAddr>(Value::SocketAddress(&[2, 0, 0, 80, 10, 0, 0, 1]));
        assert_eq!(socket, Some(SocketAddr::new(address, 80)));
        assert_eq!(get::<SocketAddr>(Value::SocketAddress(&[2, 0, 0, 80, 10])), None);
        let time = SystemTime {
            year: 1970,
            month: 1,
            day_of_week: 4,
            day: 1,
            hour: 0,
            minute: 0,
            second: 0,
            millisecond: 0,
        };
        assert_eq!(get::<FileTime>(Value::SystemTime(time)), Some(FileTime::UNIX_EPOCH));
        assert_eq!(get::<FileTime>(Value::SystemTime(SystemTime { month: 13, ..time })), None);
        assert_eq!(get::<FileTime>(Value::RawTime(Ticks(9), FileTime(7))), Some(FileTime(7)));
        assert_eq!(get::<Ticks>(Value::RawTime(Ticks(9), FileTime(7))), Some(Ticks(9)));
    }
}
