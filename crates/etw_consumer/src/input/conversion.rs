//! Files of other formats as `.etl` in unnamed temporary files.

use std::fs::File;
use std::io;

use etw_etl::{BufferFlags, Damage, DamageKind, EtlWriter, WriteError, WriterOptions};
use etw_event::{FileTime, Origin, Record, Ticks};
use tempfile::tempfile;

use super::error::InputError;
use super::limited::Limited;
use super::temporary::Room;

/// Size of a buffer in bytes: the largest record fits.
pub(super) const BUFFER_BYTES: u32 = 128 << 10;
/// Maximum number of processors in an `.etl` file.
pub(super) const MAX_PROCESSORS: u32 = 2048;
/// Bits of `EVENT_HEADER.Flags`: the pointer size of the event.
pub(super) const FLAG_32_BIT: u16 = 0x20;
pub(super) const FLAG_64_BIT: u16 = 0x40;
/// TraceLogging's number of UTF-8 (`TlgOutUTF8`).
pub(super) const OUT_UTF8: u8 = 35;
/// Maximum number of stored damage items; the rest is only counted.
const MAX_DAMAGE: usize = 10_000;

/// The file of another format that an input was converted from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// Name and version of the format: `nettrace 4`.
    pub format: String,
    /// Size of that file in bytes.
    pub len_bytes: u64,
    /// What the file does not say, or has but could not be converted, a line each.
    pub notes: Vec<String>,
    /// The first damaged places of that file.
    pub damage: Vec<Damage>,
    /// Number of all its damaged places.
    pub damage_count: u64,
}

/// The `.etl` file that a conversion writes.
#[derive(Debug)]
pub(super) struct Output {
    writer: EtlWriter<Limited>,
    pub(super) converted: Converted,
}

impl Output {
    pub(super) fn new(
        out: Limited,
        options: WriterOptions,
        format: String,
        len_bytes: u64,
    ) -> Result<Output, WriteError> {
        let (notes, damage) = (Vec::new(), Vec::new());
        let converted = Converted { format, len_bytes, notes, damage, damage_count: 0 };
        Ok(Output { writer: EtlWriter::new(out, options)?, converted })
    }

    /// Writes a record, even if an earlier one has a later time, as in damaged files.
    pub(super) fn write(&mut self, processor: u16, record: &[u8]) -> Result<(), WriteError> {
        match self.writer.write(processor, record) {
            Err(WriteError::TimeInversion { .. }) => {
                let origin = Origin { processor, ..Origin::default() };
                self.writer.relog(&Record::parse(record, &origin, Ticks(0))?)
            }
            written => written,
        }
    }

    /// Says that events of a processor were lost before its next one.
    pub(super) fn mark_losses(&mut self, processor: u16) -> Result<(), WriteError> {
        self.writer.mark_losses(processor, BufferFlags::EVENTS_LOST)
    }

    pub(super) fn add_damage(&mut self, offset: u64, what: &'static str, skipped: u64) {
        self.converted.damage_count += 1;
        if self.converted.damage.len() < MAX_DAMAGE {
            let kind = DamageKind::Source { what, skipped };
            self.converted.damage.push(Damage { offset, within: None, kind });
        }
    }

    /// Completes the file. One whose source was not completed is not closed.
    pub(super) fn finish(mut self, lost: u64, is_complete: bool) -> Result<(Limited, Converted), WriteError> {
        self.writer.set_losses(u32::try_from(lost).unwrap_or(u32::MAX), 0);
        let written = match is_complete {
            true => self.writer.finish(FileTime(0)),
            false => self.writer.finish_unclosed(),
        };
        Ok((written?.out, self.converted))
    }
}

/// Runs a conversion into a temporary file, if there is room.
pub(super) fn into_temporary(
    name: &str,
    room: &mut Room,
    run: impl FnOnce(Limited) -> Result<(Limited, Converted), WriteError>,
) -> Result<(File, Converted), InputError> {
    let temporary = |source| InputError::Temporary { name: name.to_owned(), source };
    let out = Limited::new(tempfile().map_err(temporary)?, room.left());
    let failed = |error| match error {
        WriteError::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            InputError::TooLarge { name: name.to_owned(), limit: room.limits.decompressed_bytes }
        }
        WriteError::Io(error) => temporary(error),
        error => temporary(io::Error::other(error)),
    };
    let (out, converted) = run(out).map_err(failed)?;
    let out = out.into_file();
    room.take(out.metadata().map_err(temporary)?.len());
    Ok((out, converted))
}
