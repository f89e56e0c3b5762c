//! What all sessions together want of a provider, as Windows told it.
//!
//! Windows applies the settings of each session when an event is written.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use etw_event::{Guid, Keyword, Level};
use etw_sys::AtomicRef;
use etw_sys::classic::Classic;
use etw_sys::provider::Registration;

/// The combined settings of all sessions. Writers read them without locks.
#[derive(Debug)]
pub(crate) struct Enables {
    /// The lowest level that no session wants; 0 without sessions. The only word that a disabled event reads.
    gate: AtomicU32,
    /// A copy of the gate elsewhere, for callers that cannot read this one.
    mirror: AtomicRef<AtomicU32>,
    any: AtomicU64,
    all: AtomicU64,
    pub(crate) registration: Registration,
    /// The registration for classic events and messages, made with the first one.
    classic: AtomicRef<Classic>,
    /// The provider's GUID, once it has been registered.
    pub(crate) provider: AtomicRef<Guid>,
}

impl Enables {
    pub(crate) const fn new() -> Enables {
        Enables {
            gate: AtomicU32::new(0),
            mirror: AtomicRef::none(),
            any: AtomicU64::new(0),
            all: AtomicU64::new(0),
            registration: Registration::none(),
            classic: AtomicRef::none(),
            provider: AtomicRef::none(),
        }
    }

    /// Returns whether a session may want an event of this level; costs one load and one branch if not.
    #[inline(always)]
    pub(crate) fn is_open(&self, level: Level) -> bool {
        self.gate.load(Ordering::Relaxed) > u32::from(level.0)
    }

    /// Returns 1 if a session may want an event of these keywords, whose level has been checked; otherwise 0.
    #[inline(always)]
    pub(crate) fn wanted(&self, _: Level, keyword: Keyword) -> u32 {
        let (any, all) = (self.any.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed));
        u32::from(keyword.0 == 0 || keyword.0 & any != 0 && keyword.0 & all == all)
    }

    /// Returns the sessions that this thread may write to: all.
    #[inline(always)]
    pub(crate) fn scope(&self) -> u32 {
        u32::MAX
    }

    /// Sets what the sessions want; `level` 0 stands for all levels, and `any` 0 for all keywords.
    pub(crate) fn enable(&self, level: Level, any: Keyword, all: Keyword) {
        let any = if any.0 == 0 { u64::MAX } else { any.0 };
        self.any.store(any, Ordering::Relaxed);
        self.all.store(all.0, Ordering::Relaxed);
        self.store_gate(if level.0 == 0 { 256 } else { u32::from(level.0) + 1 });
    }

    /// Notes that no session wants anything.
    pub(crate) fn disable(&self) {
        self.store_gate(0);
    }

    /// Returns the registration for classic events and messages; `None` if the provider is not registered.
    pub(crate) fn classic(&self) -> Option<&'static Classic> {
        if let Some(classic) = self.classic.load() {
            return Some(classic);
        }
        let provider = self.provider.load()?;
        // Of several threads one registers; what the others leak is small.
        let new: &'static Classic = Box::leak(Box::default());
        if self.classic.replace(None, Some(new)) {
            // Without memory for it the events go nowhere.
            let _ = new.register(provider);
        }
        self.classic.load()
    }

    /// Keeps a copy of the gate in `mirror` from now on; `None` ends that.
    pub(crate) fn mirror(&self, mirror: Option<&'static AtomicU32>) {
        self.mirror.store(mirror);
        self.store_gate(self.gate.load(Ordering::Relaxed));
    }

    fn store_gate(&self, gate: u32) {
        self.gate.store(gate, Ordering::Relaxed);
        if let Some(mirror) = self.mirror.load() {
            mirror.store(gate, Ordering::Relaxed);
        }
    }
}
