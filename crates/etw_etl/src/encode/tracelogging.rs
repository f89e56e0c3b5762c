//! The metadata of TraceLogging events: the extended items 0x0B and 0x0C.

/// Builds the metadata of a TraceLogging event: its name, followed by its fields.
///
/// Layout: `u16` size, tags (one byte here), name and zero; then for each field name and zero, in-type, and out-type if
/// bit 7 of the in-type is set. Source: `TraceLoggingProvider.h`.
#[derive(Debug, Clone)]
pub struct EventMetadata {
    bytes: Vec<u8>,
}

impl EventMetadata {
    /// Bit of an in-type: the field is an array whose `u16` count precedes it in the payload.
    pub const VARIABLE_COUNT: u8 = 0x40;
    /// Bit of an in-type: an out-type follows.
    const OUT_TYPE: u8 = 0x80;
    /// In-type of a structure.
    const STRUCT: u8 = 24;

    /// Starts the metadata of an event without fields.
    pub fn new(event_name: &str) -> EventMetadata {
        let mut metadata = EventMetadata { bytes: vec![0; 3] };
        metadata.put_name(event_name);
        metadata
    }

    /// Adds a field with an in-type (`TlgIn*`), array bits included.
    pub fn field(mut self, name: &str, in_type: u8) -> EventMetadata {
        self.put_name(name);
        self.bytes.push(in_type);
        self
    }

    /// Adds a field with an in-type and an out-type (`TlgOut*`).
    pub fn formatted_field(mut self, name: &str, in_type: u8, out_type: u8) -> EventMetadata {
        self.put_name(name);
        self.bytes.extend([in_type | Self::OUT_TYPE, out_type & 0x7F]);
        self
    }

    /// Adds a structure of the `count` fields that follow, at most 127.
    pub fn structure(self, name: &str, count: u8) -> EventMetadata {
        self.formatted_field(name, Self::STRUCT, count)
    }

    /// Returns the bytes, preceded by their size. Metadata of more than 65535 bytes has no valid size.
    pub fn build(mut self) -> Vec<u8> {
        put_size(&mut self.bytes);
        self.bytes
    }

    fn put_name(&mut self, name: &str) {
        self.bytes.extend(name.bytes().filter(|byte| *byte != 0).chain([0]));
    }
}

/// Returns the start of a text, of at most `max_bytes`.
pub fn cut_text(text: &str, max_bytes: usize) -> &str {
    let end = (0..=max_bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// Adds the start of a text, of at most `max_bytes`, and a zero byte to a payload.
pub fn put_text(text: &str, max_bytes: usize, payload: &mut Vec<u8>) {
    payload.extend(cut_text(text, max_bytes).bytes().filter(|byte| *byte != 0).chain([0]));
}

/// Returns the traits of a provider that has only a name.
pub fn provider_traits(provider_name: &str) -> Vec<u8> {
    let mut bytes = vec![0; 2];
    bytes.extend(provider_name.bytes().filter(|byte| *byte != 0).chain([0]));
    put_size(&mut bytes);
    bytes
}

fn put_size(bytes: &mut [u8]) {
    let size = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    if let Some(place) = bytes.first_chunk_mut() {
        *place = size.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes() {
        let metadata =
            EventMetadata::new("Ev").field("a", 8).formatted_field("b", 4, 2).structure("s", 3).build();
        assert_eq!(metadata, b"\x11\0\0Ev\0a\0\x08b\0\x84\x02s\0\x98\x03");
        assert_eq!(provider_traits("P"), b"\x04\0P\0");
    }
}
