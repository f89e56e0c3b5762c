//! The time zone of the machine that wrote a file (`TIME_ZONE_INFORMATION`).

use etw_event::{Fields, SystemTime};

/// `TIME_ZONE_INFORMATION`: the time zone of the machine that wrote a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeZone {
    /// Minutes to add to local time to get UTC.
    pub bias: i32,
    /// Name of standard time, filled up with zeros; often a reference to a resource (`@tzres.dll,-112`).
    pub standard_name: [u16; 32],
    /// When standard time starts.
    pub standard_date: SystemTime,
    /// Minutes to add to `bias` in standard time.
    pub standard_bias: i32,
    /// Name of daylight saving time.
    pub daylight_name: [u16; 32],
    /// When daylight saving time starts; month 0 if there is none.
    pub daylight_date: SystemTime,
    /// Minutes to add to `bias` in daylight saving time.
    pub daylight_bias: i32,
}

impl TimeZone {
    /// Size of the structure in bytes.
    pub const LEN_BYTES: usize = 0xAC;

    /// Parses the time zone at the start of `bytes`; `None` if there are too few.
    pub fn parse(bytes: &[u8]) -> Option<TimeZone> {
        let bytes = bytes.get(..Self::LEN_BYTES)?;
        let name = |offset: usize| {
            let mut name = [0; 32];
            for (index, unit) in name.iter_mut().enumerate() {
                *unit = bytes.u16_at(offset + 2 * index).unwrap_or(0);
            }
            name
        };
        Some(TimeZone {
            bias: bytes.u32_at(0)? as i32,
            standard_name: name(0x04),
            standard_date: SystemTime::parse(bytes.get(0x44..)?)?,
            standard_bias: bytes.u32_at(0x54)? as i32,
            daylight_name: name(0x58),
            daylight_date: SystemTime::parse(bytes.get(0x98..)?)?,
            daylight_bias: bytes.u32_at(0xA8)? as i32,
        })
    }

    /// Returns the bytes of the structure.
    #[expect(
        clippy::indexing_slicing,
        reason = "32 units of a name and 8 of a date end within the structure"
    )]
    pub fn to_bytes(&self) -> [u8; Self::LEN_BYTES] {
        let mut bytes = [0; Self::LEN_BYTES];
        bytes[..4].copy_from_slice(&self.bias.to_le_bytes());
        bytes[0x54..0x58].copy_from_slice(&self.standard_bias.to_le_bytes());
        bytes[0xA8..].copy_from_slice(&self.daylight_bias.to_le_bytes());
        let mut put_units = |offset: usize, units: &[u16]| {
            for (index, unit) in units.iter().enumerate() {
                bytes[offset + 2 * index..offset + 2 * index + 2].copy_from_slice(&unit.to_le_bytes());
            }
        };
        put_units(0x04, &self.standard_name);
        put_units(0x44, &self.standard_date.parts());
        put_units(0x58, &self.daylight_name);
        put_units(0x98, &self.daylight_date.parts());
        bytes
    }

    /// Returns the name of standard time as text.
    pub fn standard_name_text(&self) -> String {
        name_text(&self.standard_name)
    }

    /// Returns the name of daylight saving time as text.
    pub fn daylight_name_text(&self) -> String {
        name_text(&self.daylight_name)
    }
}

fn name_text(name: &[u16; 32]) -> String {
    String::from_utf16_lossy(name.split(|unit| *unit == 0).next().unwrap_or_default())
}
