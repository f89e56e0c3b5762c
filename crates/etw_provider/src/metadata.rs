//! TraceLogging metadata, computed at compile time: the fields of an event, and the extended items of its records.
//!
//! `etw_schema::tracelogging` documents the layout; the source is `TraceLoggingProvider.h`.
//!
//! ```
//! use etw_provider::metadata::{Field, Format, in_type, metadata, metadata_len};
//!
//! const FIELDS: &[Field<'static>] = &[Field::new("count", in_type::UINT32, Format::Default)];
//! const LEN: usize = metadata_len("Counted", 0, FIELDS);
//! const METADATA: [u8; LEN] = metadata("Counted", 0, FIELDS);
//! // The size, the tags, the event's name, and the field.
//! assert_eq!(METADATA, *b"\x12\0\0Counted\0count\0\x08");
//! ```

use etw_event::{ExtendedType, Guid};

/// In-types of TraceLogging fields (`TlgIn*`), numbered as in TDH.
pub mod in_type {
    /// UTF-16, terminated by a zero.
    pub const UNICODE_STRING: u8 = 1;
    /// 8-bit text, terminated by a zero.
    pub const ANSI_STRING: u8 = 2;
    /// Signed 8-bit.
    pub const INT8: u8 = 3;
    /// Unsigned 8-bit.
    pub const UINT8: u8 = 4;
    /// Signed 16-bit.
    pub const INT16: u8 = 5;
    /// Unsigned 16-bit.
    pub const UINT16: u8 = 6;
    /// Signed 32-bit.
    pub const INT32: u8 = 7;
    /// Unsigned 32-bit.
    pub const UINT32: u8 = 8;
    /// Signed 64-bit.
    pub const INT64: u8 = 9;
    /// Unsigned 64-bit.
    pub const UINT64: u8 = 10;
    /// 32-bit floating point.
    pub const FLOAT: u8 = 11;
    /// 64-bit floating point.
    pub const DOUBLE: u8 = 12;
    /// Four bytes; true unless 0.
    pub const BOOL32: u8 = 13;
    /// `u16` byte count, then the bytes.
    pub const BINARY: u8 = 14;
    /// GUID.
    pub const GUID: u8 = 15;
    /// 100 ns intervals since 1601.
    pub const FILE_TIME: u8 = 17;
    /// Eight `u16`: year, month, day of week, day, hour, minute, second, millisecond.
    pub const SYSTEM_TIME: u8 = 18;
    /// Security identifier.
    pub const SID: u8 = 19;
    /// 32 bits shown in hexadecimal.
    pub const HEX_INT32: u8 = 20;
    /// 64 bits shown in hexadecimal.
    pub const HEX_INT64: u8 = 21;
    /// `u16` byte count, then UTF-16.
    pub const COUNTED_STRING: u8 = 22;
    /// `u16` byte count, then 8-bit text.
    pub const COUNTED_ANSI_STRING: u8 = 23;
    /// A structure; the following fields are its members.
    pub const STRUCT: u8 = 24;
    /// `u16` byte count, then the bytes; newer than [`BINARY`].
    pub const COUNTED_BINARY: u8 = 25;
}

/// How a field is displayed (`TlgOut*`), given after `format:` in [`event!`](crate::event!).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Format {
    /// The default format of the in-type.
    Default = 0,
    /// Not displayed.
    NoPrint = 1,
    /// A character or string.
    String = 2,
    /// `true` or `false`.
    Boolean = 3,
    /// Hexadecimal.
    Hex = 4,
    /// A process id.
    Pid = 5,
    /// A thread id.
    Tid = 6,
    /// A port, in network byte order.
    Port = 7,
    /// An IPv4 address, in network byte order.
    Ipv4 = 8,
    /// An IPv6 address.
    Ipv6 = 9,
    /// A `sockaddr`, with the address family numbers of Windows.
    SocketAddress = 10,
    /// XML.
    Xml = 11,
    /// JSON.
    Json = 12,
    /// A Windows error code.
    Win32Error = 13,
    /// An `NTSTATUS`.
    NtStatus = 14,
    /// An `HRESULT`.
    HResult = 15,
    /// A `FILETIME`.
    FileTime = 16,
    /// A signed number, for hexadecimal in-types.
    Signed = 17,
    /// An unsigned number, for hexadecimal in-types.
    Unsigned = 18,
    /// A time in a culture-independent form.
    DateTimeCultureInsensitive = 33,
    /// UTF-8.
    Utf8 = 35,
    /// PKCS #7 with type information.
    Pkcs7WithTypeInfo = 36,
    /// A code address.
    CodePointer = 37,
    /// A time in UTC.
    DateTimeUtc = 38,
}

/// The number of values in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// One.
    One,
    /// A fixed number.
    Fixed(u16),
    /// A variable number, stored as a `u16` before the values.
    Variable,
}

/// A field of a TraceLogging event.
#[derive(Debug, Clone, Copy)]
pub struct Field<'a> {
    /// The name, without zeros.
    pub name: &'a str,
    /// The stored type, one of [`in_type`].
    pub in_type: u8,
    /// How it is displayed.
    pub format: Format,
    /// The number of values.
    pub arity: Arity,
    /// Tags: a 28-bit number whose meaning is agreed between provider and consumer.
    pub tags: u32,
    /// Members of a structure, at most 127.
    pub members: &'a [Field<'a>],
}

impl<'a> Field<'a> {
    /// Creates a field with one value.
    pub const fn new(name: &'a str, in_type: u8, format: Format) -> Field<'a> {
        Field { name, in_type, format, arity: Arity::One, tags: 0, members: &[] }
    }

    /// Creates a structure.
    pub const fn structure(name: &'a str, members: &'a [Field<'a>]) -> Field<'a> {
        Field { members, ..Field::new(name, in_type::STRUCT, Format::Default) }
    }

    /// Returns this field as an array.
    pub const fn arity(self, arity: Arity) -> Field<'a> {
        Field { arity, ..self }
    }

    /// Returns this field with another format.
    pub const fn format(self, format: Format) -> Field<'a> {
        Field { format, ..self }
    }

    /// Returns this field with tags.
    pub const fn tags(self, tags: u32) -> Field<'a> {
        Field { tags, ..self }
    }
}

/// Returns the size of an event's metadata in bytes.
pub const fn metadata_len(name: &str, tags: u32, fields: &[Field<'_>]) -> usize {
    let mut out = Out { bytes: &mut [], len: 0 };
    out.event(name, tags, fields);
    out.len
}

/// Returns an event's metadata: its size, tags, name and fields.
///
/// In a constant, metadata that TraceLogging cannot express (more than 65535 bytes, or a structure with more than 127
/// members) does not compile.
///
/// # Panics
///
/// At run time, if the metadata cannot be expressed; [`crate::EventBuilder`] refuses such an event first.
pub const fn metadata<const N: usize>(name: &str, tags: u32, fields: &[Field<'_>]) -> [u8; N] {
    let mut bytes = [0; N];
    let mut out = Out { bytes: &mut bytes, len: 0 };
    out.event(name, tags, fields);
    assert!(out.len == N && N <= u16::MAX as usize - 0x58, "the event's metadata is too large");
    bytes
}

/// Returns the size in words of an extended item with `len_bytes` bytes of data.
pub const fn item_words(len_bytes: usize) -> usize {
    1 + len_bytes.div_ceil(8)
}

/// Returns an extended item as words, marked as the last one of its record.
pub const fn item<const WORDS: usize>(ext_type: ExtendedType, bytes: &[u8]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    words[0] = item_header(ext_type, bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        words[1 + at / 8] |= (bytes[at] as u64) << (8 * (at % 8));
        at += 1;
    }
    words
}

/// Returns an extended item for bytes known at run time.
#[doc(hidden)]
pub fn item_of(ext_type: ExtendedType, bytes: &[u8]) -> Vec<u64> {
    let mut words = vec![item_header(ext_type, bytes.len())];
    words.extend(bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(word)
    }));
    words
}

/// Returns the event's name in the extended item with its metadata; empty if it is not UTF-8.
pub(crate) fn name_in_item(item: &[u64]) -> &str {
    // The item's header and the size; then tags, whose last byte has no top bit.
    let metadata = etw_sys::bytes_of(item).get(10..).unwrap_or_default();
    let tags = metadata.iter().position(|byte| byte & 0x80 == 0).map_or(metadata.len(), |last| last + 1);
    let name = metadata.get(tags..).unwrap_or_default().split(|byte| *byte == 0).next();
    name.and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
}

/// Returns the header of an extended item: size, type, no linkage to another item, and size of the data.
pub(crate) const fn item_header(ext_type: ExtendedType, len_bytes: usize) -> u64 {
    (item_words(len_bytes) as u64 * 8) | (ext_type.0 as u64) << 16 | (len_bytes as u64) << 48
}

/// Returns the size of a provider's traits in bytes.
pub const fn traits_len(name: &str, group: Option<Guid>) -> usize {
    2 + name.len() + 1 + if group.is_some() { 19 } else { 0 }
}

/// Returns a provider's traits: size, name, and its group (trait 1, `EtwProviderTraitTypeGroup`).
pub const fn traits<const N: usize>(name: &str, group: Option<Guid>) -> [u8; N] {
    let mut bytes = [0; N];
    put_traits(&mut bytes, name, group);
    bytes
}

/// Writes a provider's traits into [`traits_len`] bytes.
#[doc(hidden)]
pub const fn put_traits(bytes: &mut [u8], name: &str, group: Option<Guid>) {
    let size = bytes.len();
    assert!(size <= 0x1000, "the provider's name is too long");
    let mut out = Out { bytes, len: 0 };
    out.word(size as u16);
    out.text(name);
    if let Some(group) = group {
        out.word(19);
        out.byte(1);
        let group = group.to_bytes();
        let mut at = 0;
        while at < group.len() {
            out.byte(group[at]);
            at += 1;
        }
    }
    assert!(out.len == size, "the size of traits is that of their parts");
}

/// Appends a field's metadata. The name must not contain zeros, and tags and members must be within bounds.
pub(crate) fn append_field(bytes: &mut Vec<u8>, field: &Field<'_>) {
    append(bytes, |out| out.field(field));
}

/// Appends an event's tags (28 bits).
pub(crate) fn append_tags(bytes: &mut Vec<u8>, tags: u32) {
    append(bytes, |out| out.tags(tags));
}

/// Appends a name, which must not contain zeros.
pub(crate) fn append_name(bytes: &mut Vec<u8>, name: &str) {
    append(bytes, |out| out.text(name));
}

fn append(bytes: &mut Vec<u8>, put: impl Fn(&mut Out<'_>)) {
    let mut counted = Out { bytes: &mut [], len: 0 };
    put(&mut counted);
    let start = bytes.len();
    bytes.resize(start + counted.len, 0);
    put(&mut Out { bytes: bytes.get_mut(start..).unwrap_or_default(), len: 0 });
}

/// A cursor over bytes; past their end it only counts.
struct Out<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl Out<'_> {
    const fn byte(&mut self, byte: u8) {
        if self.len < self.bytes.len() {
            self.bytes[self.len] = byte;
        }
        self.len += 1;
    }

    const fn word(&mut self, word: u16) {
        self.byte(word as u8);
        self.byte((word >> 8) as u8);
    }

    const fn text(&mut self, text: &str) {
        let text = text.as_bytes();
        let mut at = 0;
        while at < text.len() {
            assert!(text[at] != 0, "a name with a zero byte in it");
            self.byte(text[at]);
            at += 1;
        }
        self.byte(0);
    }

    /// Seven bits a byte, most significant first; the top bit is set while more bytes follow.
    const fn tags(&mut self, tags: u32) {
        assert!(tags < 1 << 28, "tags have 28 bits");
        let mut rest = tags << 4;
        loop {
            let group = (rest >> 25) as u8;
            rest <<= 7;
            self.byte(if rest == 0 { group } else { group | 0x80 });
            if rest == 0 {
                return;
            }
        }
    }

    const fn event(&mut self, name: &str, tags: u32, fields: &[Field<'_>]) {
        let size = self.bytes.len();
        self.word(size as u16);
        self.tags(tags);
        self.text(name);
        self.fields(fields);
    }

    const fn fields(&mut self, fields: &[Field<'_>]) {
        let mut at = 0;
        while at < fields.len() {
            self.field(&fields[at]);
            at += 1;
        }
    }

    const fn field(&mut self, field: &Field<'_>) {
        self.text(field.name);
        let is_struct = field.in_type == in_type::STRUCT;
        assert!(field.members.len() <= 127, "a structure has at most 127 members");
        let out = if is_struct { field.members.len() as u8 } else { field.format as u8 };
        let has_out = is_struct || out != 0 || field.tags != 0;
        let arity = match field.arity {
            Arity::One => 0,
            Arity::Fixed(_) => 0x20,
            Arity::Variable => 0x40,
        };
        self.byte(field.in_type | arity | if has_out { 0x80 } else { 0 });
        if has_out {
            self.byte(out | if field.tags != 0 { 0x80 } else { 0 });
        }
        if field.tags != 0 {
            self.tags(field.tags);
        }
        if let Arity::Fixed(count) = field.arity {
            self.word(count);
        }
        self.fields(field.members);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs() {
        const FIELDS: &[Field<'_>] = &[
            Field::new("a", in_type::UINT32, Format::Default),
            Field::new("b", in_type::UINT8, Format::String).tags(1),
            Field::structure("s", &[Field::new("c", in_type::INT8, Format::Default).arity(Arity::Fixed(3))])
                .arity(Arity::Variable),
        ];
        const LEN: usize = metadata_len("Ev", 0x0ABC_DEF1 & 0x0FFF_FFFF, FIELDS);
        const BYTES: [u8; LEN] = metadata("Ev", 0x0ABC_DEF1, FIELDS);
        let expected =
            b"\x21\0\xD5\xF3\xBD\x71Ev\0a\0\x08b\0\x84\x82\x80\x80\x80\x01s\0\xD8\x01c\0\x23\x03\0";
        assert_eq!(BYTES[2..], expected[2..]);
        assert_eq!(usize::from(BYTES[0]), LEN);
        const ITEM: [u64; item_words(LEN)] = item(ExtendedType::EVENT_SCHEMA_TL, &BYTES);
        assert_eq!(ITEM[0], 0x28 | 0x0B << 16 | (LEN as u64) << 48);
        assert_eq!(ITEM[1].to_le_bytes(), BYTES[..8]);
        assert_eq!(name_in_item(&ITEM), "Ev");
        assert_eq!(name_in_item(&ITEM[..1]), "");
        const TRAITS: [u8; traits_len("P", Some(Guid::from_bytes([7; 16])))] =
            traits("P", Some(Guid::from_bytes([7; 16])));
        assert_eq!(
            TRAITS,
            *b"\x17\0P\0\x13\0\x01\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07"
        );
    }
}
