//! Property values as JSON.

use etw_schema::{
    Array, Format, MapKind, Members, Properties, PropertyType, PropertyValue, Struct, Value, ValueMap, text,
};

use crate::escape::{self, Escaping, Json};
use crate::fields::FieldSelection;
use crate::json::Fields;
use crate::put::{self, TimeWriter};

/// Limit of the nesting depth of structs in every layout.
const MAX_DEPTH: u16 = etw_schema::MAX_DEPTH;

/// Writes the members of an event or struct, with commas but without braces.
pub(crate) struct ValueWriter<'w> {
    pub(crate) out: &'w mut Vec<u8>,
    pub(crate) fields: &'w Fields,
    pub(crate) time: &'w mut TimeWriter,
    /// Limit of `out`'s length, at which arrays and structs are cut.
    pub(crate) end: usize,
}

impl ValueWriter<'_> {
    /// Writes the top-level properties as `"A":1,"B":2`.
    #[inline]
    pub(crate) fn properties(&mut self, properties: &Properties<'_>) {
        self.members(properties.iter(), 0, 0);
    }

    /// Writes the selected fields that the event has, under the requested names.
    pub(crate) fn selected(&mut self, selection: &FieldSelection, properties: &Properties<'_>) {
        let mut comma = false;
        for field in selection.names() {
            if let Some(property) = field.find(properties) {
                if comma {
                    self.out.push(b',');
                }
                comma = true;
                super::string(self.out, field.name());
                self.out.push(b':');
                self.property(&property, 0);
            }
        }
    }

    #[inline]
    fn members(&mut self, members: Members<'_>, first: u16, depth: u16) {
        let mut comma = false;
        for (member, index) in members.zip(first..) {
            if self.out.len() > self.end {
                return;
            }
            if comma {
                self.out.push(b',');
            }
            comma = true;
            self.out.extend_from_slice(self.fields.key(index));
            self.property(&member, depth);
        }
    }

    #[inline]
    fn property(&mut self, property: &PropertyValue<'_>, depth: u16) {
        match &property.value() {
            Value::Array(array) => self.array(property, array, depth),
            Value::Struct(members) => self.members_of(property, members, depth),
            value => self.scalar(value, property.format(), property.map()),
        }
    }

    fn array(&mut self, property: &PropertyValue<'_>, array: &Array<'_>, depth: u16) {
        self.out.push(b'[');
        for index in 0..array.len() {
            let Some(element) = array.get(index) else { break };
            if index > 0 {
                self.out.push(b',');
            }
            if self.out.len() > self.end {
                self.out.extend_from_slice("\"…\"".as_bytes());
                break;
            }
            match &element {
                Value::Struct(members) => self.members_of(property, members, depth),
                value => self.scalar(value, property.format(), property.map()),
            }
        }
        self.out.push(b']');
    }

    fn members_of(&mut self, property: &PropertyValue<'_>, members: &Struct<'_>, depth: u16) {
        self.out.push(b'{');
        if let PropertyType::Struct { first, .. } = property.property().kind
            && depth < MAX_DEPTH
        {
            self.members(members.iter(), first, depth + 1);
        }
        self.out.push(b'}');
    }

    #[inline]
    fn scalar(&mut self, value: &Value<'_>, format: Format, map: Option<&ValueMap>) {
        if let Some(map) = map
            && self.mapped(value, map)
        {
            return;
        }
        let out = &mut *self.out;
        match *value {
            Value::Null => out.extend_from_slice(b"null"),
            Value::I8(number) => self.integer(number.into(), value, format),
            Value::U8(number) => self.integer(number.into(), value, format),
            Value::I16(number) => self.integer(number.into(), value, format),
            Value::U16(number) => self.integer(number.into(), value, format),
            Value::I32(number) => self.integer(number.into(), value, format),
            Value::U32(number) => self.integer(number.into(), value, format),
            Value::I64(number) => self.integer(number, value, format),
            Value::U64(number) | Value::Pointer(number, _) => match format {
                Format::Hex | Format::NtStatus | Format::HResult => quoted_hex(out, number),
                _ => put::unsigned(out, number),
            },
            Value::Bool(truth) => out.extend_from_slice(if truth { b"true" } else { b"false" }),
            Value::F32(number) if number.is_finite() => {
                out.extend_from_slice(zmij::Buffer::new().format_finite(number).as_bytes());
            }
            Value::F64(number) if number.is_finite() => {
                out.extend_from_slice(zmij::Buffer::new().format_finite(number).as_bytes());
            }
            Value::Utf16(bytes) if format == Format::Text => {
                out.push(b'"');
                escape::utf16::<Json>(out, bytes);
                out.push(b'"');
            }
            Value::Ansi(bytes) if format == Format::Text => {
                out.push(b'"');
                match std::str::from_utf8(bytes) {
                    Ok(text) => escape::text::<Json>(out, text),
                    Err(_) => shown(out, value, format, None),
                }
                out.push(b'"');
            }
            Value::Guid(guid) => {
                out.push(b'"');
                put::guid(out, guid);
                out.push(b'"');
            }
            Value::FileTime(time) | Value::RawTime(_, time) => {
                out.push(b'"');
                self.time.put(out, time);
                out.push(b'"');
            }
            Value::Binary(bytes) if format == Format::Binary => {
                out.push(b'"');
                put::hex_bytes(out, bytes);
                out.push(b'"');
            }
            _ => {
                out.push(b'"');
                shown(out, value, format, None);
                out.push(b'"');
            }
        }
    }

    #[inline]
    fn integer(&mut self, number: i64, value: &Value<'_>, format: Format) {
        match format {
            Format::Hex | Format::NtStatus | Format::HResult => {
                quoted_hex(self.out, value.as_bits().unwrap_or_default());
            }
            Format::FourCharacters => {
                self.out.push(b'"');
                shown(self.out, value, format, None);
                self.out.push(b'"');
            }
            _ => put::signed(self.out, number),
        }
    }

    /// Writes the name of a value as a string. Returns `false` if the map has none.
    fn mapped(&mut self, value: &Value<'_>, map: &ValueMap) -> bool {
        let Some(bits) = value.as_bits() else { return false };
        match map.kind {
            MapKind::Value => {
                // Most maps count up from 0 or 1.
                let near = [bits as usize, (bits as usize).wrapping_sub(1)];
                let at = |index: &usize| map.entries.get(*index).filter(|entry| entry.value == bits);
                let found =
                    near.iter().find_map(at).or_else(|| map.entries.iter().find(|entry| entry.value == bits));
                let Some(entry) = found else { return false };
                super::string(self.out, &entry.text);
                true
            }
            MapKind::Bits | MapKind::BitPositions => {
                if bits == 0 && !map.entries.iter().any(|entry| entry.value == 0 && map.kind == MapKind::Bits)
                {
                    return false;
                }
                self.out.push(b'"');
                shown(self.out, value, Format::Hex, Some(map));
                self.out.push(b'"');
                true
            }
        }
    }
}

fn shown(out: &mut Vec<u8>, value: &Value<'_>, format: Format, map: Option<&ValueMap>) {
    text::write_value(&mut Escaping::<Json>::new(out), value, format, map);
}

#[inline]
fn quoted_hex(out: &mut Vec<u8>, value: u64) {
    out.push(b'"');
    put::hex(out, value);
    out.push(b'"');
}
