//! The header of a trace: the first object, or the first block.

use etw_event::{Clock, ClockType, FileTime, PointerSize, Ticks};

use crate::cursor::Cursor;

/// The frequency of a clock of nanoseconds.
const NANOSECONDS: i64 = 1_000_000_000;

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

    /// Parses the header of formats 3 to 5. Appends what is wrong with its fields to `problems`; each costs only itself.
    pub(crate) fn of_object(
        bytes: &[u8],
        version: u32,
        problems: &mut Vec<&'static str>,
    ) -> Result<TraceHeader, &'static str> {
        let mut cursor = Cursor::new(bytes);
        let mut header = TraceHeader::common(&mut cursor, version, problems)?;
        let (process, processors) =
            cursor.u32().zip(cursor.u32()).ok_or("it ends before the number of processors")?;
        header.process_id = Some(process);
        header.processors = Some(processors).filter(|count| *count != 0);
        Ok(header)
    }

    /// Parses the header of format 6, as [`TraceHeader::of_object`] does.
    pub(crate) fn of_block(
        bytes: &[u8],
        version: u32,
        problems: &mut Vec<&'static str>,
    ) -> Result<TraceHeader, &'static str> {
        let mut cursor = Cursor::new(bytes);
        let mut header = TraceHeader::common(&mut cursor, version, problems)?;
        let Some(count) = cursor.u32() else {
            problems.push("the header ends before its properties");
            return Ok(header);
        };
        for _ in 0..count.min(MAX_PROPERTIES) {
            let (Some(key), Some(value)) = (cursor.utf8(), cursor.utf8()) else {
                problems.push("the header ends within its properties");
                break;
            };
            match (key.as_str(), value.parse()) {
                ("ProcessId", Ok(number)) => header.process_id = Some(number),
                ("HardwareThreadCount", Ok(number)) => header.processors = Some(number),
                _ => header.properties.push((key, value)),
            }
        }
        Ok(header)
    }

    fn common(
        cursor: &mut Cursor<'_>,
        version: u32,
        problems: &mut Vec<&'static str>,
    ) -> Result<TraceHeader, &'static str> {
        let (start_time, is_valid) = system_time(cursor).ok_or("it ends before its start time")?;
        if !is_valid {
            problems.push("the start time in the header is not a time; the nearest one is taken");
        }
        let mut number = || cursor.i64().ok_or("it ends before its clock");
        let (start_ticks, mut frequency) = (Ticks(number()?), number()?);
        if frequency <= 0 {
            problems.push("the header's clock has no frequency; times are taken for nanoseconds");
            frequency = NANOSECONDS;
        }
        let pointer_size = match cursor.u32().ok_or("it ends before the size of its pointers")? {
            4 => PointerSize::Four,
            8 => PointerSize::Eight,
            _ => {
                problems.push("pointers in the header have neither 4 nor 8 bytes; 8 are taken");
                PointerSize::Eight
            }
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

/// Reads a time as eight 16-bit numbers, of which the third is the day of the week. Numbers out of range are taken for
/// the nearest ones within it (Observed: a millisecond of 1000). Also returns whether there were none.
fn system_time(cursor: &mut Cursor<'_>) -> Option<(FileTime, bool)> {
    let mut parts = [0u16; 8];
    for part in &mut parts {
        *part = cursor.u16()?;
    }
    let [year, month, _, day, hour, minute, second, millisecond] = parts;
    let of = |[year, month, day, hour, minute, second, millisecond]: [u16; 7]| {
        let small = |number| u8::try_from(number).ok();
        FileTime::from_civil(
            year.into(),
            small(month)?,
            small(day)?,
            small(hour)?,
            small(minute)?,
            small(second)?,
            u32::from(millisecond) * 10_000,
        )
    };
    if let Some(time) =
        of([year, month, day, hour, minute, second, millisecond]).filter(|_| millisecond < 1000)
    {
        return Some((time, true));
    }
    // Of the days of a month, the last one that exists.
    let near = |day: u16| {
        of([
            year.clamp(1601, 9999),
            month.clamp(1, 12),
            day,
            hour.min(23),
            minute.min(59),
            second.min(59),
            millisecond.min(999),
        ])
    };
    let day = day.clamp(1, 31);
    let time = (1..=day).rev().find_map(near).unwrap_or_default();
    Some((time, false))
}
