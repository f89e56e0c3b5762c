//! Compressed records (`perf record -z`), unpacked to a temporary file.

use std::cell::Cell;
use std::io::{self, Read};

use etw_perf_data::{ByteOrder, PerfData, RawRecord, kind};
use etw_sys::FileMap;
use ruzstd::decoding::StreamingDecoder;

use super::super::error::InputError;
use super::super::temporary::{self, CopyError, Room};

/// The last block of a frame, without contents: perf does not end its frame when it is interrupted. A checksum may follow.
const LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

/// The records of a file with compressed ones.
#[derive(Debug)]
pub(super) struct Unpacked {
    pub(super) records: FileMap,
    /// Whether records are missing, since their compressed form is damaged.
    pub(super) is_damaged: bool,
}

/// Returns the records of a file with compressed ones; `None` if it has none.
///
/// All compressed records are one stream, in which records of the kernel are cut anywhere. Records that are not compressed
/// come first.
pub(super) fn unpack(
    name: &str,
    file: &PerfData<'_>,
    room: &mut Room,
) -> Result<Option<Unpacked>, InputError> {
    let is_compressed = |record: &RawRecord<'_>| matches!(record.kind, kind::COMPRESSED | kind::COMPRESSED2);
    if !file.records().map_while(Result::ok).any(|record| is_compressed(&record)) {
        return Ok(None);
    }
    let compressed = file.records().map_while(Result::ok).filter(is_compressed);
    let payloads = compressed.map(|record| payload(&record, file.byte_order())).chain([&LAST_BLOCK[..]]);
    let plain = file.records().map_while(Result::ok).filter(|record| !is_compressed(record));
    let failed = |reason: String| InputError::Unpack { name: name.to_owned(), format: "zstd", reason };
    let decoder = StreamingDecoder::new(Slices { slices: payloads, rest: &[] })
        .map_err(|error| failed(error.to_string()))?;
    let plain = Slices { slices: plain.map(|record| record.bytes), rest: &[] };
    let is_damaged = Cell::new(false);
    let copied =
        temporary::copy(plain.chain(UntilError { reader: decoder, is_damaged: &is_damaged }), room, |_| {
            Ok(())
        });
    let temporary = |source| InputError::Temporary { name: name.to_owned(), source };
    let unpacked = copied.map_err(|error| match error {
        CopyError::Read(error) => failed(error.to_string()),
        CopyError::Write(source) => temporary(source),
        CopyError::TooLarge => {
            InputError::TooLarge { name: name.to_owned(), limit: room.limits.decompressed_bytes }
        }
        CopyError::Refused(error) => error,
    })?;
    let records = room.limits.map(&unpacked).map_err(temporary)?;
    Ok(Some(Unpacked { records, is_damaged: is_damaged.get() }))
}

/// Returns the compressed bytes of a record.
fn payload<'a>(record: &RawRecord<'a>, order: ByteOrder) -> &'a [u8] {
    if record.kind == kind::COMPRESSED {
        return record.body;
    }
    // The number of bytes precedes them, as padding follows.
    let (len, rest) = record.body.split_at_checked(8).unwrap_or_default();
    let len = usize::try_from(order.number(len)).unwrap_or(usize::MAX);
    rest.get(..len).unwrap_or(rest)
}

/// Reads slices one after the other.
struct Slices<'a, I> {
    slices: I,
    rest: &'a [u8],
}

impl<'a, I: Iterator<Item = &'a [u8]>> Read for Slices<'a, I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            let Some(next) = self.slices.next() else { return Ok(0) };
            self.rest = next;
        }
        self.rest.read(buffer)
    }
}

/// Ends where the data is damaged.
struct UntilError<'a, R> {
    reader: R,
    is_damaged: &'a Cell<bool>,
}

impl<R: Read> Read for UntilError<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(self.reader.read(buffer).unwrap_or_else(|_| {
            self.is_damaged.set(true);
            0
        }))
    }
}
