//! The header of a trace: the first object, or the first block.

use etw_event::{Clock, ClockType, FileTime, PointerSize, Ticks};

use crate::cursor::Cursor;

/// Maximum number of key-value pairs that are kept.
const MAX_PROPERTIES: u32 = 1 << 12;

/// The header of a trace: its clock, and the traced process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceHeader {
    /// Version of the format, 3 to 6. Files of format 5 have version 4: they differ only in optional parts.
    pub version: u32,
    /// When the trace was started, UTC, in whole milliseconds.
    pub start_time: FileTime,
    /// The clock's value at `start_time`.
    pub start_ticks: Ticks,
    /// Ticks per second.
    pub frequency: i64,
    /// Size of the addresses in stacks.
    pub pointer_size: PointerSize,
    /// The traced process; `None` if the trace is of several.
    pub process_id: Option<u32>,
    /// Number of processors, if known.
    pub processors: Option<u32>,
    /// Key-value pairs of format 6, without those of the fields above.
    pub properties: Vec<(String, String)>,
}

impl TraceHeader {
    /// Number of bytes of the header in formats 3 to 5.
    pub(crate) const LEN_BYTES: usize = 48;

    /// Returns the clock of the events' times.
    pub fn clock(&self) -> Clock {
        Clock::new(ClockType::Qpc, self.start_ticks, self.start_time, self.frequency)
    }

    /// Parses the header of formats 3 to 5.
    pub(crate) fn of_object(bytes: &[u8], version: u32) -> Result<TraceHeader, &'static str> {
        let mut cursor = Cursor::new(bytes);
        let mut header = TraceHeader::common(&mut cursor, version)?;
        let (process, processors) =
            cursor.u32().zip(cursor.u32()).ok_or("it ends before the number of processors")?;
        header.process_id = Some(process);
        header.processors = Some(processors).filter(|count| *count != 0);
        Ok(header)
    }

    /// Parses the header of format 6.
    pub(crate) fn of_block(bytes: &[u8], version: u32) -> Result<TraceHeader, &'static str> {
        let mut cursor = Cursor::new(bytes);
        let mut header = TraceHeader::common(&mut cursor, version)?;
        let count = cursor.u32().ok_or("it ends before its properties")?;
        for _ in 0..count.min(MAX_PROPERTIES) {
            let (Some(key), Some(value)) = (cursor.utf8(), cursor.utf8()) else {
                return Err("it ends within its properties");
            };
            match (key.as_str(), value.parse()) {
                ("ProcessId", Ok(number)) => header.process_id = Some(number),
                ("HardwareThreadCount", Ok(number)) => header.processors = Some(number),
                _ => header.properties.push((key, value)),
            }
        }
        Ok(header)
    }

    fn common(cursor: &mut Cursor<'_>, version: u32) -> Result<TraceHeader, &'static str> {
        let start_time = system_time(cursor).ok_or("its start time is not a time")?;
        let mut number = || cursor.i64().ok_or("it ends before its clock");
        let (start_ticks, frequency) = (Ticks(number()?), number()?);
        if frequency <= 0 {
            return Err("its clock has no frequency");
        }
        let pointer_size = match cursor.u32() {
            Some(4) => PointerSize::Four,
            Some(8) => PointerSize::Eight,
            _ => return Err("its pointers have neither 4 nor 8 bytes"),
        };
        Ok(TraceHeader {
            version,
            start_time,
            start_ticks,
            frequency,
            pointer_size,
            process_id: None,
            processors: None,
            properties: Vec::new(),
        })
    }
}

/// Reads a time as eight 16-bit numbers, of which the third is the day of the week.
fn system_time(cursor: &mut Cursor<'_>) -> Option<FileTime> {
    let mut parts = [0u16; 8];
    for part in &mut parts {
        *part = cursor.u16()?;
    }
    let [year, month, _, day, hour, minute, second, millisecond] = parts;
    let [month, day, hour, minute, second] = [month, day, hour, minute, second].map(u8::try_from);
    let fraction = u32::from(millisecond) * 10_000;
    FileTime::from_civil(
        year.into(),
        month.ok()?,
        day.ok()?,
        hour.ok()?,
        minute.ok()?,
        second.ok()?,
        fraction,
    )
}
