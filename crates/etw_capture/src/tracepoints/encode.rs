//! Events of tracepoints as TraceLogging events, which describe themselves.

use etw_etl::encode::EventMetadata;
use etw_etl::encode::field_types::{
    ANSI_STRING, BINARY, BOOLEAN, HEX_INT32, HEX_INT64, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32,
    UINT64, UTF8,
};

use super::{FieldKind, TracepointFormat, TracepointName};

impl TracepointFormat {
    /// Returns the metadata of the events: the data of their extended item `EVENT_SCHEMA_TL`. The event's name is that of the
    /// tracepoint with its system, such as `sched:sched_switch`.
    pub fn metadata(&self, name: &TracepointName) -> Vec<u8> {
        let metadata = EventMetadata::new(&name.to_string());
        let fields = self.fields.iter().fold(metadata, |metadata, field| match field.kind {
            FieldKind::Integer { len, is_signed } => metadata.field(&field.name, integer(len, is_signed)),
            FieldKind::Integers { len, is_signed } => {
                metadata.field(&field.name, integer(len, is_signed) | EventMetadata::VARIABLE_COUNT)
            }
            FieldKind::Boolean => metadata.formatted_field(&field.name, UINT8, BOOLEAN),
            FieldKind::Pointer { len: 4 } => metadata.field(&field.name, HEX_INT32),
            FieldKind::Pointer { .. } => metadata.field(&field.name, HEX_INT64),
            FieldKind::Text => metadata.formatted_field(&field.name, ANSI_STRING, UTF8),
            FieldKind::Bytes => metadata.field(&field.name, BINARY),
        });
        fields.build()
    }

    /// Adds the payload of an event to `payload`, from the tracepoint's record. Values outside of the record are zero, or
    /// empty.
    pub fn put_payload(&self, record: &[u8], payload: &mut Vec<u8>) {
        for field in &self.fields {
            let bytes = field.bytes(record);
            match field.kind {
                FieldKind::Integer { len, .. } | FieldKind::Pointer { len } => {
                    put_number(bytes, len, payload);
                }
                FieldKind::Boolean => put_number(bytes, 1, payload),
                FieldKind::Text => {
                    payload.extend(bytes.iter().take_while(|byte| **byte != 0));
                    payload.push(0);
                }
                FieldKind::Integers { len, .. } => put_counted(bytes, len, payload),
                FieldKind::Bytes => put_counted(bytes, 1, payload),
            }
        }
    }
}

/// Returns the in-type of integers of a length in bytes.
fn integer(len: usize, is_signed: bool) -> u8 {
    match (len, is_signed) {
        (1, true) => INT8,
        (1, false) => UINT8,
        (2, true) => INT16,
        (2, false) => UINT16,
        (4, true) => INT32,
        (4, false) => UINT32,
        (_, true) => INT64,
        (_, false) => UINT64,
    }
}

fn put_number(bytes: &[u8], len: usize, payload: &mut Vec<u8>) {
    let end = payload.len() + len;
    payload.extend(bytes.iter().take(len));
    payload.resize(end, 0);
}

/// Adds values of `len` bytes after their number.
fn put_counted(bytes: &[u8], len: usize, payload: &mut Vec<u8>) {
    let count = u16::try_from(bytes.len() / len).unwrap_or(u16::MAX);
    payload.extend(count.to_le_bytes());
    payload.extend(bytes.iter().take(usize::from(count) * len));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_the_fields_one_after_the_other() {
        let text = "ID: 7\n\
            \tfield:int number;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield:char name[4];\toffset:12;\tsize:4;\tsigned:0;\n\
            \tfield:u16 pair[2];\toffset:16;\tsize:4;\tsigned:0;\n\
            \tfield:__data_loc u8[] data;\toffset:20;\tsize:4;\tsigned:0;\n\
            \tfield:bool is_on;\toffset:24;\tsize:1;\tsigned:0;\n";
        let format = TracepointFormat::parse(text).unwrap();
        let mut record = vec![0; 8];
        record.extend((-2_i32).to_ne_bytes());
        record.extend(b"abcd");
        record.extend([1_u16, 2].map(u16::to_ne_bytes).concat());
        record.extend((25_u32 | 2 << 16).to_ne_bytes());
        record.extend([1, 8, 9]);
        let payload = |record: &[u8]| {
            let mut payload = Vec::new();
            format.put_payload(record, &mut payload);
            payload
        };
        let expected = b"\xfe\xff\xff\xffabcd\0\x02\0\x01\0\x02\0\x02\0\x08\x09\x01";
        assert_eq!(payload(&record), expected);
        assert_eq!(payload(&[]), [0; 4 + 1 + 2 + 2 + 1]);
        let name = TracepointName { system: "a".into(), name: "b".into() };
        let metadata = format.metadata(&name);
        assert!(metadata.windows(4).any(|part| part == b"a:b\0"), "{metadata:?}");
    }
}
