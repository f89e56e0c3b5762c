//! Civil time in parts.

use crate::{Fields, FileTime};

/// `SYSTEMTIME` (`minwinbase.h`). The writer determines the time zone. In the rule of a time zone, `year` is 0 and
/// `day` is the week of the month, 5 being the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SystemTime {
    /// Year.
    pub year: u16,
    /// Month, 1 to 12.
    pub month: u16,
    /// Day of the week, 0 is Sunday.
    pub day_of_week: u16,
    /// Day, 1 to 31.
    pub day: u16,
    /// Hour.
    pub hour: u16,
    /// Minute.
    pub minute: u16,
    /// Second.
    pub second: u16,
    /// Millisecond.
    pub millisecond: u16,
}

impl SystemTime {
    /// Size in bytes.
    pub const LEN_BYTES: usize = 16;

    /// Parses 16 bytes; `None` if there are fewer.
    pub fn parse(bytes: &[u8]) -> Option<SystemTime> {
        let part = |index: usize| bytes.u16_at(2 * index);
        Some(SystemTime {
            year: part(0)?,
            month: part(1)?,
            day_of_week: part(2)?,
            day: part(3)?,
            hour: part(4)?,
            minute: part(5)?,
            second: part(6)?,
            millisecond: part(7)?,
        })
    }

    /// Returns the parts in memory order.
    pub const fn parts(&self) -> [u16; 8] {
        let SystemTime { year, month, day_of_week, day, hour, minute, second, millisecond } = *self;
        [year, month, day_of_week, day, hour, minute, second, millisecond]
    }

    /// Converts to a FILETIME, taking the parts as UTC; `None` if a part is out of range.
    pub fn to_filetime(self) -> Option<FileTime> {
        let small = |part: u16| u8::try_from(part).ok();
        if self.millisecond > 999 {
            return None;
        }
        FileTime::from_civil(
            self.year.into(),
            small(self.month)?,
            small(self.day)?,
            small(self.hour)?,
            small(self.minute)?,
            small(self.second)?,
            u32::from(self.millisecond) * 10_000,
        )
    }
}
