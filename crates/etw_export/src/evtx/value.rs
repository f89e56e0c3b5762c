//! The values of a template instance.

use etw_event::{Guid, PointerSize};
use etw_schema::{Format, Value, ValueMap, text::Text};

use super::chunk::{Chunk, Full};
use super::element::Template;
use super::kind::Kind;

/// Values being written. Their sizes and types precede all of them.
pub(super) struct Values {
    next_at: u32,
}

impl Values {
    /// Starts an instance of a template with `count` values.
    pub(super) fn begin(chunk: &mut Chunk, template: &Template, count: u32) -> Result<Values, Full> {
        template.put_instance(chunk)?;
        chunk.put_u32(count)?;
        let next_at = chunk.position();
        for _ in 0..count {
            chunk.put_u32(0)?;
        }
        Ok(Values { next_at })
    }

    /// Adds a value written by `write`, which returns its type.
    pub(super) fn with(
        &mut self,
        chunk: &mut Chunk,
        write: impl FnOnce(&mut Chunk) -> Result<Kind, Full>,
    ) -> Result<(), Full> {
        let start = chunk.position();
        let kind = write(chunk)?;
        let size = u16::try_from(chunk.position() - start).map_err(|_| Full)?;
        let [low, high] = size.to_le_bytes();
        chunk.patch(self.next_at, &[low, high, kind.0, 0]);
        self.next_at += 4;
        Ok(())
    }

    pub(super) fn put(&mut self, chunk: &mut Chunk, kind: Kind, bytes: &[u8]) -> Result<(), Full> {
        self.with(chunk, |chunk| chunk.put(bytes).map(|()| kind))
    }

    pub(super) fn null(&mut self, chunk: &mut Chunk) -> Result<(), Full> {
        self.put(chunk, Kind::NULL, &[])
    }

    pub(super) fn text(&mut self, chunk: &mut Chunk, text: &str) -> Result<(), Full> {
        self.with(chunk, |chunk| chunk.put_utf16(text).map(|()| Kind::STRING))
    }

    pub(super) fn optional_text(&mut self, chunk: &mut Chunk, text: Option<&str>) -> Result<(), Full> {
        match text {
            Some(text) => self.text(chunk, text),
            None => self.null(chunk),
        }
    }

    pub(super) fn optional_guid(&mut self, chunk: &mut Chunk, guid: Option<Guid>) -> Result<(), Full> {
        match guid {
            Some(guid) => self.put(chunk, Kind::GUID, &guid.to_bytes()),
            None => self.null(chunk),
        }
    }

    pub(super) fn optional_u32(&mut self, chunk: &mut Chunk, value: Option<u32>) -> Result<(), Full> {
        match value {
            Some(value) => self.put(chunk, Kind::UINT32, &value.to_le_bytes()),
            None => self.null(chunk),
        }
    }
}

/// Writes a payload value and returns its type. Numbers, bytes and times keep their type; values with their own text
/// form (maps, error codes, addresses) are written as that text.
pub(super) fn put(
    chunk: &mut Chunk,
    value: Value<'_>,
    format: Format,
    map: Option<&ValueMap>,
    scratch: &mut String,
) -> Result<Kind, Full> {
    let is_hex = format == Format::Hex;
    let is_plain = matches!(format, Format::Hex | Format::Decimal);
    let put = |chunk: &mut Chunk, bytes: &[u8], kind| chunk.put(bytes).map(|()| kind);
    if map.is_none() {
        match value {
            Value::Null => return Ok(Kind::NULL),
            Value::Bool(truth) => return put(chunk, &u32::from(truth).to_le_bytes(), Kind::BOOL),
            Value::F32(number) => return put(chunk, &number.to_le_bytes(), Kind::REAL32),
            Value::F64(number) => return put(chunk, &number.to_le_bytes(), Kind::REAL64),
            Value::Guid(guid) => return put(chunk, &guid.to_bytes(), Kind::GUID),
            Value::FileTime(time) | Value::RawTime(_, time) => {
                return put(chunk, &time.0.to_le_bytes(), Kind::FILETIME);
            }
            Value::Sid(sid) => return put(chunk, sid.as_bytes(), Kind::SID),
            Value::SocketAddress(bytes) => return put(chunk, bytes, Kind::BINARY),
            Value::Binary(bytes) if format == Format::Binary => return put(chunk, bytes, Kind::BINARY),
            Value::Pointer(address, PointerSize::Four) if is_plain => {
                return put(chunk, &(address as u32).to_le_bytes(), Kind::HEX32);
            }
            Value::Pointer(address, _) if is_plain => return put(chunk, &address.to_le_bytes(), Kind::HEX64),
            Value::U64(number) if is_hex => return put(chunk, &number.to_le_bytes(), Kind::HEX64),
            Value::I64(number) if is_hex => return put(chunk, &number.to_le_bytes(), Kind::HEX64),
            Value::I8(_) | Value::U8(_) | Value::I16(_) | Value::U16(_) | Value::I32(_) | Value::U32(_)
                if is_hex =>
            {
                let bits = value.as_bits().unwrap_or_default() as u32;
                return put(chunk, &bits.to_le_bytes(), Kind::HEX32);
            }
            Value::I8(number) if is_plain => return put(chunk, &number.to_le_bytes(), Kind::INT8),
            Value::U8(number) if is_plain => return put(chunk, &number.to_le_bytes(), Kind::UINT8),
            Value::I16(number) if is_plain => return put(chunk, &number.to_le_bytes(), Kind::INT16),
            Value::U16(number) if is_plain => return put(chunk, &number.to_le_bytes(), Kind::UINT16),
            Value::I32(number) if is_plain => return put(chunk, &number.to_le_bytes(), Kind::INT32),
            Value::U32(number) if is_plain => return put(chunk, &number.to_le_bytes(), Kind::UINT32),
            Value::I64(number) if is_plain => return put(chunk, &number.to_le_bytes(), Kind::INT64),
            Value::U64(number) if is_plain => return put(chunk, &number.to_le_bytes(), Kind::UINT64),
            Value::Utf16(bytes) if format == Format::Text => return put(chunk, bytes, Kind::STRING),
            _ => {}
        }
    }
    scratch.clear();
    Text::new(value, format, map).write_to(scratch);
    chunk.put_utf16(scratch).map(|()| Kind::STRING)
}
