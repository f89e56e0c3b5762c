//! Functions of JIT compilers other than .NET's, and of interpreters, as events of the provider for symbols.
//!
//! A recording includes those that its stacks lead through. A function with a time is an event of that time, so that
//! it is distinct from the code whose place it took.

use std::sync::Arc;

use etw_event::{EventDescriptor, ExtendedType, Guid, Level, PointerSize, Ticks};
use etw_kernel_events::providers::SYMBOL_PROVIDER;

use super::RecordBuilder;
use super::field_types::{ANSI_STRING, HEX_INT64, UINT8, UINT16, UINT32, UTF8};
use super::tracelogging::{EventMetadata, provider_traits, put_text};

const EVENT: &str = "JitCode";
/// Maximum lengths in bytes of names of functions and files.
const MAX_NAME_BYTES: usize = 2048;
/// Maximum numbers of lines and files of a function.
const MAX_LINES: usize = 2048;
const MAX_FILES: usize = 16;

/// A function of a JIT compiler, for a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JitFunction {
    /// The process.
    pub process_id: u32,
    /// Address of its code.
    pub address: u64,
    /// Length of its code.
    pub len_bytes: u32,
    /// Name.
    pub name: String,
    /// Source lines, in the order of offsets.
    pub lines: Vec<JitSourceLine>,
    /// Whether the event's time is that at which the code was put there; otherwise it was there at the end.
    pub is_load: bool,
}

/// A line of a function, which extends to the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JitSourceLine {
    /// Offset in bytes in the function.
    pub offset: u32,
    /// Number of the line.
    pub line: u32,
    /// Path or URL of the source file.
    pub file: Arc<str>,
}

impl JitFunction {
    /// Returns the function as an event of at most `max_bytes`, without its lines if they have no room.
    pub fn fitting_record(&self, time: Ticks, max_bytes: usize) -> Option<Vec<u8>> {
        [true, false].into_iter().find_map(|has_lines| {
            let record = self.record(has_lines).time(time).build().ok()?;
            (record.len() <= max_bytes).then_some(record)
        })
    }

    /// Returns the function as an event, which lacks a time. Without `has_lines`, it is at most 4 KiB long.
    pub fn record(&self, has_lines: bool) -> RecordBuilder {
        let array = |in_type: u8| in_type | EventMetadata::VARIABLE_COUNT;
        let metadata = EventMetadata::new(EVENT)
            .field("CodeAddress", HEX_INT64)
            .field("LengthInBytes", UINT32)
            .field("IsLoad", UINT8)
            .formatted_field("Name", ANSI_STRING, UTF8)
            .formatted_field("Files", array(ANSI_STRING), UTF8)
            .field("LineOffsets", array(UINT32))
            .field("LineNumbers", array(UINT32))
            .field("LineFiles", array(UINT16))
            .build();
        let mut payload = self.address.to_le_bytes().to_vec();
        payload.extend(self.len_bytes.to_le_bytes());
        payload.push(u8::from(self.is_load));
        put_text(&self.name, MAX_NAME_BYTES, &mut payload);
        let mut files: Vec<&str> = Vec::new();
        let mut lines = Vec::new();
        for line in self.lines.iter().take(if has_lines { MAX_LINES } else { 0 }) {
            let known = files.iter().position(|file| **file == *line.file);
            let file = known.unwrap_or(files.len());
            if known.is_none() {
                if files.len() >= MAX_FILES {
                    break;
                }
                files.push(&line.file);
            }
            lines.push((line, u16::try_from(file).unwrap_or(u16::MAX)));
        }
        let count = |len: usize| u16::try_from(len).unwrap_or(u16::MAX).to_le_bytes();
        payload.extend(count(files.len()));
        files.iter().for_each(|file| put_text(file, MAX_NAME_BYTES, &mut payload));
        let count = count(lines.len());
        payload.extend(count);
        lines.iter().for_each(|(line, _)| payload.extend(line.offset.to_le_bytes()));
        payload.extend(count);
        lines.iter().for_each(|(line, _)| payload.extend(line.line.to_le_bytes()));
        payload.extend(count);
        lines.iter().for_each(|(_, file)| payload.extend(file.to_le_bytes()));
        let descriptor = EventDescriptor { channel: 11, level: Level(4), ..EventDescriptor::default() };
        let provider = Guid::from_provider_name(SYMBOL_PROVIDER);
        RecordBuilder::event(PointerSize::Eight, provider, &descriptor)
            .process(self.process_id, 0)
            .item(ExtendedType::EVENT_SCHEMA_TL, &metadata)
            .item(ExtendedType::PROVIDER_TRAITS, &provider_traits(SYMBOL_PROVIDER))
            .payload(&payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_left_out_where_they_have_no_room() {
        let file: Arc<str> = "/src/app.js".into();
        let lines =
            (0..1000).map(|line| JitSourceLine { offset: 8 * line, line, file: file.clone() }).collect();
        let (process_id, address, len_bytes) = (7, 0x1000, 8000);
        let function =
            JitFunction { process_id, address, len_bytes, name: "spin".to_owned(), lines, is_load: true };
        let len_with = |max_bytes| function.fitting_record(Ticks(1), max_bytes).map(|record| record.len());
        let (whole, short) = (len_with(usize::MAX).unwrap(), len_with(4096).unwrap());
        assert!(whole > 10_000 && short < 1000, "{whole} {short}");
        assert_eq!(
            (len_with(whole), len_with(whole - 1), len_with(short - 1)),
            (Some(whole), Some(short), None)
        );
    }
}
