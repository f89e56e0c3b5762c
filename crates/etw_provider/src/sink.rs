//! The regions of sessions, as this process maps them.

use etw_buffer::{Region, Reserve, Slot, Wanted};
use etw_sys::clock::{self, ClockSource};
use etw_sys::{AtomicRef, Doorbell, SharedWords};

/// A session's region in this process.
///
/// Sinks are intentionally leaked, so that writers need no reference counts: any thread may hold one at any time, even
/// in a signal handler. A closed sink frees its memory but keeps a range of addresses.
#[derive(Debug)]
pub(crate) struct Sink {
    region: Region<SharedWords>,
    clock: ClockSource,
    doorbell: &'static Doorbell,
    /// The previously opened sink.
    next: AtomicRef<Sink>,
}

/// All sinks ever opened.
static SINKS: AtomicRef<Sink> = AtomicRef::none();

impl Sink {
    /// Opens a sink for a region. Returns `None` if the clock type is unsupported.
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

    /// Leaves the region: later writes are discarded.
    pub(crate) fn close(&self) {
        // If the system has no memory for the change, the stopped session still rejects events.
        let _ = self.region.words().detach();
    }

    /// Leaves all regions in the child of a fork, since they belong to the parent.
    pub(crate) fn close_all() {
        let mut sink = SINKS.load();
        while let Some(present) = sink {
            present.close();
            sink = present.next.load();
        }
    }

    /// Reserves room for a record on the current processor.
    #[inline(always)]
    pub(crate) fn reserve(&self, epoch: u8, len_bytes: u16) -> Reserve<'_> {
        self.region.reserve(epoch, etw_sys::cpu::current(), len_bytes, || self.now())
    }

    /// Reserves room in one attempt. Returns `None` if the fast path does not apply; nothing was done then.
    #[inline(always)]
    pub(crate) fn try_reserve(&self, epoch: u8, len_bytes: u16) -> Option<Slot<'_>> {
        if self.clock != ClockSource::Counter {
            return None;
        }
        self.region.try_reserve(epoch, etw_sys::cpu::known()?, len_bytes, clock::counter)
    }

    /// Returns the session's clock.
    #[inline(always)]
    pub(crate) fn clock(&self) -> ClockSource {
        self.clock
    }

    /// Returns the time on the session's clock.
    #[inline(always)]
    fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Counts an event that is too large for any buffer as lost. Returns `false` if the session has stopped.
    #[cold]
    pub(crate) fn lose(&self) -> bool {
        self.region.lose(etw_sys::cpu::current(), 1)
    }

    /// Commits a record, and wakes the logger if it requested that.
    #[inline(always)]
    pub(crate) fn commit(&self, slot: Slot<'_>, first_word: u64) {
        let opens_buffer = slot.opens_buffer;
        slot.commit(first_word);
        let is_wanted = match self.region.wanted() {
            Wanted::Nothing => false,
            Wanted::FullBuffer => opens_buffer,
            Wanted::Event => true,
        };
        if is_wanted {
            self.wake();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        self.doorbell.ring();
    }
}
