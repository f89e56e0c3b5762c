//! Where events go: the regions of sessions, as this process sees them.

use etw_buffer::{Region, Reserve, Slot, Wanted};
use etw_sys::clock::{self, ClockSource};
use etw_sys::{AtomicRef, Doorbell, SharedWords};

/// A session's region in this process.
///
/// Sinks are intentionally leaked, so that a writer needs no count of references: it may hold one at any time, in any
/// thread, also in a signal handler. A sink that is closed gives its memory back and keeps a range of addresses.
#[derive(Debug)]
pub(crate) struct Sink {
    region: Region<SharedWords>,
    clock: ClockSource,
    doorbell: &'static Doorbell,
    /// The sink that was opened before this one.
    next: AtomicRef<Sink>,
}

/// All sinks that were ever opened.
static SINKS: AtomicRef<Sink> = AtomicRef::none();

impl Sink {
    /// A sink for a region; `None` if its clock is none that this version knows.
    pub(crate) fn open(region: Region<SharedWords>, doorbell: &'static Doorbell) -> Option<&'static Sink> {
        let clock = ClockSource::from_code(region.clock())?;
        let sink = Box::leak(Box::new(Sink { region, clock, doorbell, next: AtomicRef::none() }));
        loop {
            let first = SINKS.load();
            sink.next.store(first);
            if SINKS.replace(first, Some(sink)) {
                return Some(sink);
            }
        }
    }

    /// Leaves the region: whatever is written from now on goes nowhere.
    pub(crate) fn close(&self) {
        // If the system has no memory for the change, the session's end keeps events out all the same.
        let _ = self.region.words().detach();
    }

    /// Leaves all regions, in the child of a fork: they are the parent's.
    pub(crate) fn close_all() {
        let mut sink = SINKS.load();
        while let Some(present) = sink {
            present.close();
            sink = present.next.load();
        }
    }

    /// Reserves room for a record on the present processor.
    #[inline(always)]
    pub(crate) fn reserve(&self, epoch: u8, len_bytes: u16) -> Reserve<'_> {
        self.region.reserve(epoch, etw_sys::cpu::current(), len_bytes, || self.now())
    }

    /// The same in one attempt, where nothing is out of the ordinary; `None` if nothing was done.
    #[inline(always)]
    pub(crate) fn try_reserve(&self, epoch: u8, len_bytes: u16) -> Option<Slot<'_>> {
        if self.clock != ClockSource::Counter {
            return None;
        }
        self.region.try_reserve(epoch, etw_sys::cpu::known()?, len_bytes, clock::counter)
    }

    /// The time on the session's clock.
    #[inline(always)]
    fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Counts an event that no region takes, since it is too large for any. Answers `false` if the session is over.
    #[cold]
    pub(crate) fn lose(&self) -> bool {
        self.region.lose(etw_sys::cpu::current(), 1)
    }

    /// Commits a record, and wakes the logger if it asks for it.
    #[inline(always)]
    pub(crate) fn commit(&self, slot: Slot<'_>, first_word: u64) {
        let opens_buffer = slot.opens_buffer;
        slot.commit(first_word);
        let wanted = self.region.wanted();
        if wanted != Wanted::Nothing {
            self.wake(wanted, opens_buffer);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self, wanted: Wanted, opens_buffer: bool) {
        if wanted == Wanted::Event || opens_buffer {
            self.doorbell.ring();
        }
    }
}
