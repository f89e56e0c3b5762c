//! Conversion of system-time events to the clock of the output file.
//!
//! A file has one clock. A reading of the system time is a number of units of 100 ns, and a clock with this or a finer
//! resolution has an equivalent reading for each. So each event keeps its time, events of one file keep their order,
//! and those of several files keep the order in which they are read together. (If the header has the earlier start of
//! another file, its reading is exact to a tick, and a time in UTC to 100 ns.)

use etw_consumer::raw::Pass;
use etw_event::{ClockType, HeaderKind, MessageFlags, Origin, Record};
use etw_schema::{InType, PropertyType};

use super::RelogError;
use super::header::Sources;

/// Converts events to the clock of the output file.
#[derive(Debug)]
pub(super) struct OnClock<'s> {
    sources: &'s Sources,
    bytes: Vec<u8>,
    origin: Origin,
}

impl<'s> OnClock<'s> {
    pub(super) fn new(sources: &'s Sources) -> OnClock<'s> {
        OnClock { sources, bytes: Vec::new(), origin: Origin::default() }
    }

    /// Returns the record to write.
    ///
    /// # Errors
    ///
    /// Fails if the record's payload may contain readings of its clock, which cannot be converted.
    #[inline]
    pub(super) fn record<'r>(
        &'r mut self,
        pass: &mut Pass<'_>,
        record: &'r Record<'r>,
    ) -> Result<Record<'r>, RelogError> {
        match self.sources.brought.get(record.origin().source as usize) {
            Some(true) => self.bring(pass, record),
            _ => Ok(*record),
        }
    }

    fn bring<'r>(
        &'r mut self,
        pass: &mut Pass<'_>,
        record: &'r Record<'r>,
    ) -> Result<Record<'r>, RelogError> {
        if has_readings(pass, record) {
            return Err(self.sources.other_clock(record.origin().source as usize));
        }
        let time = self.sources.clock.to_ticks(record.time());
        self.origin = Origin { clock: self.sources.clock, ..*record.origin() };
        self.bytes.clear();
        self.bytes.extend_from_slice(record.as_bytes());
        if let Some(offset) = record.time_offset()
            && let Some(bytes) = self.bytes.get_mut(offset..offset + 8)
        {
            bytes.copy_from_slice(&time.0.to_le_bytes());
        }
        // A WPP message declares the clock of its time.
        if record.kind() == HeaderKind::Message
            && self.sources.clock.clock_type == ClockType::Qpc
            && let Some(flags) = self.bytes.get_mut(6..8)
        {
            let timed = record.message_flags() | MessageFlags::PERFORMANCE_TIMESTAMP;
            flags.copy_from_slice(&timed.0.to_le_bytes());
        }
        Ok(Record::parse(&self.bytes, &self.origin, time).unwrap_or(*record))
    }
}

/// Whether a payload may have readings of the session's clock: those of the kernel, and of classes that declare them.
fn has_readings(pass: &mut Pass<'_>, record: &Record<'_>) -> bool {
    if let Some(hook) = record.hook_id() {
        // Events about the file and the machine have none.
        return hook.group() != 0;
    }
    if !record.kind().is_classic() {
        return false;
    }
    let is_reading =
        |kind: &PropertyType| matches!(kind, PropertyType::Value { in_type: InType::WMI_TIME, .. });
    let schema = pass.schema(record);
    schema.is_ok_and(|schema| schema.schema.properties.iter().any(|property| is_reading(&property.kind)))
}

#[cfg(test)]
mod tests {
    use etw_event::{Clock, ClockType, FileTime, Ticks};

    const START: FileTime = FileTime(134_000_000_000_000_000);

    #[test]
    fn every_time_has_a_reading() {
        for frequency in [10_000_000, 10_000_001, 24_000_000, 1_000_000_000, 2_399_999_983] {
            let clock = Clock::new(ClockType::Qpc, Ticks(77), START, frequency);
            for time in (-5000..5000).chain(36_000_000_000..36_000_001_000) {
                let time = FileTime(START.0 + time);
                assert_eq!(clock.to_filetime(clock.to_ticks(time)), time, "{frequency}");
            }
        }
    }
}
