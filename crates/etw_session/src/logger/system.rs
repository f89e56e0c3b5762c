//! What this program writes to a session itself: the events of the system, as it comes to know of them.

use etw_buffer::{Region, Reserve};
use etw_sys::SharedWords;
use etw_sys::clock::ClockSource;

use super::RegionId;

/// A session's region for events of the system. Its writer is trusted: records keep the process and thread ids that they
/// have, and events of other regions wait until those of the system of the same time have come.
#[derive(Debug)]
pub struct SystemRegion {
    id: RegionId,
    region: Region<SharedWords>,
    clock: ClockSource,
    epoch: u8,
}

impl SystemRegion {
    pub(super) fn new(
        id: RegionId,
        region: Region<SharedWords>,
        clock: ClockSource,
        epoch: u8,
    ) -> SystemRegion {
        SystemRegion { id, region, clock, epoch }
    }

    /// Its number, by which the session knows it.
    pub fn id(&self) -> RegionId {
        self.id
    }

    /// What the session's times are read from.
    pub fn clock(&self) -> ClockSource {
        self.clock
    }

    /// Writes a finished record, which happened on `processor` at `time` on the session's clock. Records of one processor
    /// are to be written in the order of their times. What finds no free buffer is counted as lost. Answers `false` once
    /// the session is over.
    pub fn write(&self, processor: u32, time: u64, record: &[u64]) -> bool {
        let Some((first, rest)) = record.split_first() else { return true };
        let len_bytes = u16::try_from(size_of_val(record)).unwrap_or(u16::MAX);
        match self.region.reserve(self.epoch, processor, len_bytes, || time) {
            Reserve::Slot(slot) => {
                rest.iter().zip(1..).for_each(|(word, index)| slot.put(index, *word));
                slot.commit(*first);
                true
            }
            Reserve::Lost | Reserve::TooLarge => true,
            Reserve::Closed => false,
        }
    }

    /// Counts events of a processor that were lost before they could be written.
    pub fn lose(&self, processor: u32, events: u32) {
        self.region.lose(processor, events);
    }

    /// Says that everything up to `time` has been written.
    pub fn set_complete(&self, time: u64) {
        self.region.set_complete(time);
    }
}
