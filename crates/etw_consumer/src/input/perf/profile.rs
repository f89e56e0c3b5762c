//! The event that samples what processors run.

use etw_etl::WriteError;
use etw_kernel_events::classes::{SampledProfileInterval, SampledProfileIntervalEvent, Stamp};
use etw_perf_data::{Attribute, EventType};

use super::write::RecordWriter;

/// Numbers of software events: the clocks of processors and of threads.
const CLOCKS: [u64; 2] = [0, 1];
/// Numbers of hardware events: cycles, and those of a constant rate. The high half is the processor's kind.
const CYCLES: [u64; 2] = [0, 9];
/// Source of the interval: the timer.
const TIMER: u32 = 0;

/// The event that samples what processors run: the first one of clocks or cycles, and others of the same name.
#[derive(Debug, Default)]
pub(super) struct Profile {
    attributes: Vec<usize>,
    /// In units of 100 ns; 0 if the period is not one of time.
    interval: u32,
}

impl Profile {
    pub(super) fn new(attributes: &[Attribute]) -> Profile {
        let is_profile = |attribute: &&Attribute| match attribute.event_type {
            EventType::SOFTWARE => CLOCKS.contains(&attribute.config),
            EventType::HARDWARE => CYCLES.contains(&(attribute.config & 0xFFFF_FFFF)),
            _ => false,
        };
        let Some(first) = attributes.iter().find(is_profile) else { return Profile::default() };
        let is_same = |attribute: &Attribute| {
            attribute.event_type == first.event_type
                && attribute.config & 0xFFFF_FFFF == first.config & 0xFFFF_FFFF
        };
        let same = attributes.iter().enumerate().filter(|(_, attribute)| is_same(attribute));
        let interval = match first.flags.is_frequency() {
            true => 10_000_000_u64.checked_div(first.period).unwrap_or(0),
            false if first.event_type == EventType::SOFTWARE => first.period / 100,
            false => 0,
        };
        let interval = u32::try_from(interval).unwrap_or(u32::MAX);
        Profile { attributes: same.map(|(index, _)| index).collect(), interval }
    }

    /// Returns whether samples of an attribute are those of the profile.
    pub(super) fn has(&self, attribute: usize) -> bool {
        self.attributes.contains(&attribute)
    }

    pub(super) fn put_start(&self, stamp: &Stamp, out: &mut RecordWriter) -> Result<(), WriteError> {
        self.put(SampledProfileIntervalEvent::CollectionStart, stamp, out)
    }

    pub(super) fn put_end(&self, out: &mut RecordWriter) -> Result<(), WriteError> {
        let stamp = Stamp::new(out.latest, 0, 0);
        self.put(SampledProfileIntervalEvent::CollectionEnd, &stamp, out)
    }

    fn put(
        &self,
        event: SampledProfileIntervalEvent,
        stamp: &Stamp,
        out: &mut RecordWriter,
    ) -> Result<(), WriteError> {
        if self.interval == 0 {
            return Ok(());
        }
        let (new_interval, old_interval) = (self.interval, self.interval);
        let interval = SampledProfileInterval {
            event,
            source: TIMER,
            new_interval,
            old_interval,
            source_name: b"Timer",
        };
        out.put_at(0, stamp, &interval)
    }
}
