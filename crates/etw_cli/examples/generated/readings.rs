//! Events of Example-Readings.

use openetw::provider as etw;

etw::provider! {
    /// The provider Example-Readings.
    pub static EXAMPLE_READINGS: "Example-Readings", guid: etw::Guid::from_u128(0x6a1f0c3e2b4d4f5a9c7e1d2e3f405162);
}

/// Sensor.
pub const KEYWORD_SENSOR: etw::Keyword = etw::Keyword(0x1);

/// RawData.
pub const KEYWORD_RAW_DATA: etw::Keyword = etw::Keyword(0x20);

/// Detail.
pub const LEVEL_DETAIL: etw::Level = etw::Level(16);

/// Event 1 version 2: READING_TAKEN Reading.
#[allow(clippy::too_many_arguments, reason = "the event has as many fields")]
pub fn reading_taken(type_: u8, sensor_name: &str, place: &str, values: &[u32], weights: &[f64], raw: &[u8], serial: &[u8; 4], is_valid: bool, sensor_id: &etw::Guid, taken_at: u64, buffer: u64, position_x: i32, position_y: i32) -> etw::Outcome {
    const EVENT: etw::EventDescriptor = etw::EventDescriptor {
        id: 1,
        version: 2,
        channel: 0,
        level: etw::Level(4),
        opcode: etw::Opcode(0),
        task: 1,
        keyword: etw::Keyword(0x21),
    };
    let count = values.len().min(weights.len().min(65535));
    let values = values.get(..count).unwrap_or_default();
    let weights = weights.get(..count).unwrap_or_default();
    let count = count as u16;
    let raw_size = raw.len().min(65535);
    let raw = raw.get(..raw_size).unwrap_or_default();
    let raw_size = raw_size as u32;
    EXAMPLE_READINGS.write(&EVENT, &((type_, sensor_name, etw::payload::Nul8(place), count, values, weights, raw_size, raw, serial, u32::from(is_valid), sensor_id, taken_at), (buffer, position_x, position_y)))
}

/// Event 2 version 0: SensorLost.
pub fn sensor_lost() -> etw::Outcome {
    const EVENT: etw::EventDescriptor = etw::EventDescriptor {
        id: 2,
        version: 0,
        channel: 0,
        level: etw::Level(16),
        opcode: etw::Opcode(0),
        task: 0,
        keyword: etw::Keyword(0x1),
    };
    EXAMPLE_READINGS.write(&EVENT, &())
}
