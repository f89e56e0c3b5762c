//! System events, which this program itself writes to a session.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use etw_buffer::{Region, Reserve, Wanted};
use etw_sys::clock::ClockSource;
use etw_sys::{EventFd, SharedWords};
use serde::{Deserialize, Serialize};

use super::{LoggerError, RegionFile, RegionId};

/// A session's region for system events.
///
/// Its writer is trusted: records keep their process and thread ids. Events of other regions wait until the system
/// events of the same time have arrived.
#[derive(Debug)]
pub struct SystemRegion {
    id: RegionId,
    /// The memory's file, for another process.
    file: OwnedFd,
    region: Region<SharedWords>,
    clock: ClockSource,
    epoch: u8,
    bells: SystemBells,
    /// Records written since the logger was last notified, as far as they may matter to it.
    written: Written,
}

/// What another process needs to write to a system region, besides its [files](SystemRegion::files).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemRegionParts {
    /// Number of the region in its session.
    pub id: u64,
    /// The clock, as in [`ClockSource::from_code`].
    pub clock: u8,
    /// What the writer passes when it reserves.
    pub epoch: u8,
}

/// The bells with which the logger and the writer of a system region wake each other.
#[derive(Debug)]
pub(super) struct SystemBells {
    /// Wakes the logger.
    pub(super) logger: EventFd,
    /// Wakes the writer if events of other regions wait for system events.
    pub(super) writer: EventFd,
}

#[derive(Debug, Default)]
struct Written {
    any: AtomicBool,
    full_buffer: AtomicBool,
}

impl SystemRegion {
    pub(super) fn new(
        region: RegionFile,
        clock: ClockSource,
        bells: SystemBells,
    ) -> Result<SystemRegion, LoggerError> {
        let RegionFile { id, file, epoch } = region;
        let words = SharedWords::map(&file).map_err(LoggerError::system("cannot map shared memory"))?;
        let region = Region::attach(words)?;
        Ok(SystemRegion { id, file, region, clock, epoch, bells, written: Written::default() })
    }

    /// Returns the region of another process, from what that process sent: its parts and its files.
    ///
    /// # Errors
    ///
    /// Fails if these are not of a region, or the memory cannot be mapped.
    pub fn attach(parts: SystemRegionParts, files: [OwnedFd; 3]) -> Result<SystemRegion, LoggerError> {
        let [file, logger, writer] = files;
        let no_bell = LoggerError::system("cannot use an eventfd");
        let bell = |file| EventFd::from_file(file).map_err(&no_bell);
        let bells = SystemBells { logger: bell(logger)?, writer: bell(writer)? };
        let clock = ClockSource::from_code(parts.clock).unwrap_or(ClockSource::Monotonic);
        SystemRegion::new(RegionFile { id: RegionId(parts.id), file, epoch: parts.epoch }, clock, bells)
    }

    /// Returns what another process needs to write here in place of this one.
    pub fn parts(&self) -> SystemRegionParts {
        SystemRegionParts { id: self.id.0, clock: self.clock as u8, epoch: self.epoch }
    }

    /// Returns the files that belong to the [parts](SystemRegion::parts).
    pub fn files(&self) -> [BorrowedFd<'_>; 3] {
        [self.file.as_fd(), self.bells.logger.as_fd(), self.bells.writer.as_fd()]
    }

    /// Returns the bell that rings when the session waits for system events: the writer should then write them soon and
    /// call [`SystemRegion::set_complete`].
    pub fn bell(&self) -> &EventFd {
        &self.bells.writer
    }

    /// Returns the number of the region in its session.
    pub fn id(&self) -> RegionId {
        self.id
    }

    /// Returns the clock of the session's time stamps.
    pub fn clock(&self) -> ClockSource {
        self.clock
    }

    /// Writes a finished record of an event on `processor` at `time` on the session's clock.
    ///
    /// Records of one processor must be written in the order of their times. A record without a free buffer is counted
    /// as lost. Returns `false` once the session has stopped.
    pub fn write(&self, processor: u32, time: u64, record: &[u64]) -> bool {
        let Some((first, rest)) = record.split_first() else { return true };
        let len_bytes = u16::try_from(size_of_val(record)).unwrap_or(u16::MAX);
        match self.region.reserve(self.epoch, processor, len_bytes, || time) {
            Reserve::Slot(slot) => {
                rest.iter().zip(1..).for_each(|(word, index)| slot.put(index, *word));
                if slot.opens_buffer {
                    self.written.full_buffer.store(true, Relaxed);
                }
                slot.commit(*first);
                self.written.any.store(true, Relaxed);
                true
            }
            Reserve::Lost | Reserve::TooLarge => true,
            Reserve::Closed => false,
        }
    }

    /// Returns the size in bytes of the largest record that has room.
    pub fn max_record_bytes(&self) -> usize {
        self.region.geometry().max_record_bytes() as usize
    }

    /// Counts events of a processor that were lost before they could be written.
    pub fn lose(&self, processor: u32, events: u32) {
        self.region.lose(processor, events);
    }

    /// Declares that everything up to `time` has been written, and wakes the logger if it waits for that.
    pub fn set_complete(&self, time: u64) {
        self.region.set_complete(time);
        let any = self.written.any.swap(false, Relaxed);
        let full_buffer = self.written.full_buffer.swap(false, Relaxed);
        match self.region.wanted() {
            Wanted::Event if any => self.bells.logger.signal(),
            Wanted::FullBuffer if full_buffer => self.bells.logger.signal(),
            _ => {}
        }
    }
}
