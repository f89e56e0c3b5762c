//! What the tests share: a file's records as plain values.

use etw_etl::{BufferType, Damage, EtlFile, Records};
use etw_event::{FileTime, Ticks};

/// One record, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) processor: u16,
    pub(crate) time: FileTime,
    pub(crate) raw_time: Ticks,
    pub(crate) bytes: Vec<u8>,
}

/// Everything a file gives: records in the order of the file, those of the first buffer apart, and damage.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) first: Vec<Owned>,
    pub(crate) records: Vec<Owned>,
    pub(crate) damages: Vec<Damage>,
    /// Sequence number and number of records of each buffer, the first one included.
    pub(crate) buffers: Vec<(i64, usize)>,
}

impl Contents {
    /// The records of one processor, in their order.
    pub(crate) fn of_processor(&self, processor: u16) -> Vec<&Owned> {
        self.records.iter().filter(|record| record.processor == processor).collect()
    }
}

/// Reads a whole file, which must open.
pub(crate) fn read(bytes: &[u8]) -> Contents {
    let file = EtlFile::open(bytes).unwrap();
    let mut contents = Contents::default();
    let mut scratch = Vec::new();
    for buffer in file.buffers() {
        let buffer = match buffer {
            Ok(buffer) => buffer,
            Err(damage) => {
                contents.damages.push(damage);
                continue;
            }
        };
        let origin = buffer.origin(file.clock(), 0);
        let data = buffer.data(&mut scratch);
        contents.damages.extend(data.damage);
        let is_first = buffer.header.buffer_type == BufferType::HEADER;
        let records = if is_first { &mut contents.first } else { &mut contents.records };
        let before = records.len();
        for record in Records::new(data.bytes, &origin, buffer.place()) {
            match record {
                Ok(record) => records.push(Owned {
                    processor: record.processor(),
                    time: record.time(),
                    raw_time: record.raw_time(),
                    bytes: record.as_bytes().to_vec(),
                }),
                Err(damage) => contents.damages.push(damage),
            }
        }
        contents.buffers.push((buffer.header.sequence_number, records.len() - before));
    }
    contents
}
