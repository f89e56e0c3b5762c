//! The sessions of a provider, as hosts told them.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use etw_event::{Keyword, Level};
use etw_sys::AtomicRef;

use super::MAX_SESSIONS;
use crate::filters::Filters;
use crate::sink::Sink;

/// `ENABLE_PROPERTY_IGNORE_KEYWORD_0`: excludes events without keywords.
const IGNORE_KEYWORD_0: u32 = 0x10;

/// A session of a host, with the numbers used in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionKey {
    pub(crate) host: u8,
    pub(crate) slot: u8,
}

/// The settings with which a session enables a provider.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Enable {
    pub(crate) epoch: u8,
    pub(crate) level: Level,
    pub(crate) any: Keyword,
    pub(crate) all: Keyword,
    /// `ENABLE_PROPERTY_*`.
    pub(crate) properties: u32,
    pub(crate) filters: Option<&'static Filters>,
}

/// The sessions of one provider. Writers read it without locks.
///
/// An event passes a session if a conjunction of tests, each on one word, holds. So while the words of an entry are
/// changed one after the other, an event that both the old and the new settings want passes at every moment.
#[derive(Debug)]
pub(crate) struct Enables {
    /// The lowest level that no session wants; 0 without sessions. The only word that a disabled event reads.
    gate: AtomicU32,
    /// A copy of the gate elsewhere, for callers that cannot read this one.
    mirror: AtomicRef<AtomicU32>,
    /// One bit for each entry in use.
    live: AtomicU32,
    /// Whether a thread is changing the entries.
    is_changing: AtomicBool,
    entries: [Entry; MAX_SESSIONS],
}

/// One session, in its own cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Entry {
    pub(crate) sink: AtomicRef<Sink>,
    settings: AtomicU64,
    any: AtomicU64,
    all: AtomicU64,
    pub(crate) filters: AtomicRef<Filters>,
    /// The key with bit 16 set; 0 if the entry is free. Writers do not read it.
    owner: AtomicU32,
}

/// Epoch, level and other settings of the session in one word.
///
/// | bits | meaning |
/// |---|---|
/// | 0..8 | epoch |
/// | 8..24 | the lowest level that does not pass |
/// | 24 | events without keywords do not pass |
/// | 25 | there are filters |
/// | 32..64 | `ENABLE_PROPERTY_*` that request extended items |
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings(u64);

impl Settings {
    const IGNORE_KEYWORD_0: u64 = 1 << 24;
    const FILTERS: u64 = 1 << 25;

    fn new(enable: &Enable) -> Settings {
        let mut word = u64::from(enable.epoch) | u64::from(limit(enable.level)) << 8;
        if enable.properties & IGNORE_KEYWORD_0 != 0 {
            word |= Settings::IGNORE_KEYWORD_0;
        }
        if enable.filters.is_some() {
            word |= Settings::FILTERS;
        }
        Settings(word | u64::from(enable.properties & crate::extras::KNOWN) << 32)
    }

    #[inline(always)]
    pub(crate) fn epoch(self) -> u8 {
        self.0 as u8
    }

    /// Returns whether only level and keywords need checking.
    #[inline(always)]
    pub(crate) fn is_plain(self) -> bool {
        self.0 >> 25 == 0
    }

    #[inline(always)]
    pub(crate) fn properties(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Returns the lowest level that an enable of `level` rejects; `level` 0 lets all pass, as 255 does, from which it is to be
/// told.
fn limit(level: Level) -> u32 {
    if level.0 == 0 { EVERY_LEVEL } else { u32::from(level.0) + 1 }
}

/// The limit of an enable of level 0.
const EVERY_LEVEL: u32 = 257;

impl Enables {
    /// A gate that lets everything through, so that the next event notices the fork.
    const FORKED: u32 = u32::MAX;

    pub(crate) const fn new() -> Enables {
        Enables {
            gate: AtomicU32::new(0),
            mirror: AtomicRef::none(),
            live: AtomicU32::new(0),
            is_changing: AtomicBool::new(false),
            entries: [const { Entry::free() }; MAX_SESSIONS],
        }
    }

    /// Returns whether a session may want an event of this level; costs one load and one branch if not.
    #[inline(always)]
    pub(crate) fn is_open(&self, level: Level) -> bool {
        self.gate.load(Ordering::Relaxed) > u32::from(level.0)
    }

    /// Returns a bit for each session that wants an event of this level and these keywords; filters are not checked.
    #[inline(always)]
    pub(crate) fn wanted(&self, level: Level, keyword: Keyword) -> u32 {
        // Acquire: an entry's words are visible before its bit (partner: `enable`).
        let mut live = self.live.load(Ordering::Acquire);
        let mut wanted = 0;
        while live != 0 {
            let entry = self.entry(live.trailing_zeros());
            let others = live & (live - 1);
            if entry.wants(level, keyword) {
                wanted |= live ^ others;
            }
            live = others;
        }
        wanted
    }

    #[inline(always)]
    pub(crate) fn entry(&self, index: u32) -> &Entry {
        &self.entries[index as usize % MAX_SESSIONS]
    }

    /// Enables a session or changes its settings. Returns `false` if eight other sessions have enabled the provider.
    pub(crate) fn enable(&self, key: SessionKey, sink: &'static Sink, enable: &Enable) -> bool {
        let _change = self.change();
        let owner = key.owner();
        let of = |wanted: u32| self.entries.iter().position(|e| e.owner.load(Ordering::Relaxed) == wanted);
        let Some(index) = of(owner).or_else(|| of(0)) else { return false };
        let Some(entry) = self.entries.get(index) else { return false };
        // No keywords means all of them.
        let any = if enable.any.0 == 0 { u64::MAX } else { enable.any.0 };
        entry.sink.store(Some(sink));
        entry.filters.store(enable.filters);
        entry.any.store(any, Ordering::Relaxed);
        entry.all.store(enable.all.0, Ordering::Relaxed);
        entry.settings.store(Settings::new(enable).0, Ordering::Relaxed);
        entry.owner.store(owner, Ordering::Relaxed);
        // Release: a thread that sees the bit sees the words (partner: `wanted`).
        self.live.fetch_or(1 << index, Ordering::Release);
        self.set_gate();
        true
    }

    /// Disables the sessions for which `matches` holds, and returns their number.
    pub(crate) fn disable(&self, matches: impl Fn(SessionKey) -> bool) -> usize {
        let _change = self.change();
        let mut count = 0;
        for (index, entry) in self.entries.iter().enumerate() {
            let owner = entry.owner.load(Ordering::Relaxed);
            if owner != 0 && matches(SessionKey::of_owner(owner)) {
                self.live.fetch_and(!(1 << index), Ordering::Release);
                entry.owner.store(0, Ordering::Relaxed);
                count += 1;
            }
        }
        self.set_gate();
        count
    }

    /// Returns the combined settings of all sessions: the highest level, the keywords that any requests, and those that
    /// all require. Returns `None` without sessions.
    pub(crate) fn union(&self) -> Option<(Level, Keyword, Keyword)> {
        let in_use = || self.entries.iter().filter(|entry| entry.owner.load(Ordering::Relaxed) != 0);
        let limit = in_use().map(|entry| entry.settings.load(Ordering::Relaxed) >> 8 & 0xFFFF).max()?;
        // 0 stands for every level, as in an enable.
        let level = if limit == u64::from(EVERY_LEVEL) { 0 } else { limit.saturating_sub(1) as u8 };
        let any = in_use().fold(0, |any, entry| any | entry.any.load(Ordering::Relaxed));
        let all = in_use().fold(u64::MAX, |all, entry| all & entry.all.load(Ordering::Relaxed));
        Some((Level(level), Keyword(any), Keyword(all)))
    }

    /// Disables everything. If the provider is registered, its next event of any level is detected as the first one in
    /// the child of a fork.
    pub(crate) fn fork(&self, is_registered: bool) {
        self.is_changing.store(false, Ordering::Relaxed);
        self.live.store(0, Ordering::Relaxed);
        for entry in &self.entries {
            entry.owner.store(0, Ordering::Relaxed);
        }
        self.store_gate(if is_registered { Enables::FORKED } else { 0 });
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.gate.load(Ordering::Relaxed) == Enables::FORKED
    }

    pub(crate) fn clear(&self) {
        self.store_gate(0);
    }

    /// Keeps a copy of the gate in `mirror` from now on; `None` ends that. On return no thread writes to the previous
    /// one any more.
    pub(crate) fn mirror(&self, mirror: Option<&'static AtomicU32>) {
        let _change = self.change();
        self.mirror.store(mirror);
        self.store_gate(self.gate.load(Ordering::Relaxed));
    }

    fn store_gate(&self, gate: u32) {
        self.gate.store(gate, Ordering::Relaxed);
        if let Some(mirror) = self.mirror.load() {
            mirror.store(gate, Ordering::Relaxed);
        }
    }

    /// Excludes other threads from changing the entries. Not a mutex, since a fork must be able to reset it.
    fn change(&self) -> Change<'_> {
        while self.is_changing.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        Change(&self.is_changing)
    }

    /// Restricts this thread's events to one session while the guard lives; to none if that session has not enabled the
    /// provider.
    pub(crate) fn only(&self, key: SessionKey) -> Only {
        let owner = key.owner();
        let index = self.entries.iter().position(|entry| entry.owner.load(Ordering::Relaxed) == owner);
        SCOPES.fetch_add(1, Ordering::Relaxed);
        Only(ONLY.replace((self.address(), index.map_or(0, |index| 1 << index))))
    }

    /// Returns the sessions that this thread may write to.
    #[inline(always)]
    pub(crate) fn scope(&self) -> u32 {
        if SCOPES.load(Ordering::Relaxed) == 0 { u32::MAX } else { self.scope_of_thread() }
    }

    #[cold]
    fn scope_of_thread(&self) -> u32 {
        let (address, mask) = ONLY.get();
        if address == self.address() { mask } else { u32::MAX }
    }

    #[inline(always)]
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn set_gate(&self) {
        let in_use = self.entries.iter().filter(|entry| entry.owner.load(Ordering::Relaxed) != 0);
        let limit = in_use.map(|entry| (entry.settings.load(Ordering::Relaxed) >> 8) as u32 & 0xFFFF).max();
        self.store_gate(limit.unwrap_or(0));
    }
}

/// Exclusive access to the entries.
struct Change<'a>(&'a AtomicBool);

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

thread_local! {
    /// The provider for which this thread is restricted, by the address of its `Enables`, and a bit for each session
    /// allowed.
    static ONLY: Cell<(usize, u32)> = const { Cell::new((0, 0)) };
}

/// Number of restricted threads; while it is 0, `ONLY` is not read. A thread sees its own change.
static SCOPES: AtomicU32 = AtomicU32::new(0);

/// Restricts a thread to one session.
#[derive(Debug)]
pub(crate) struct Only((usize, u32));

impl Drop for Only {
    fn drop(&mut self) {
        ONLY.set(self.0);
        SCOPES.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Entry {
    const fn free() -> Entry {
        Entry {
            sink: AtomicRef::none(),
            settings: AtomicU64::new(0),
            any: AtomicU64::new(0),
            all: AtomicU64::new(0),
            filters: AtomicRef::none(),
            owner: AtomicU32::new(0),
        }
    }

    #[inline(always)]
    pub(crate) fn settings(&self) -> Settings {
        Settings(self.settings.load(Ordering::Relaxed))
    }

    /// Implements the rule of [`etw_event::passes`].
    #[inline(always)]
    fn wants(&self, level: Level, keyword: Keyword) -> bool {
        let settings = self.settings().0;
        if u64::from(level.0) >= settings >> 8 & 0xFFFF {
            return false;
        }
        if keyword.0 == 0 {
            return settings & Settings::IGNORE_KEYWORD_0 == 0;
        }
        let all = self.all.load(Ordering::Relaxed);
        keyword.0 & self.any.load(Ordering::Relaxed) != 0 && keyword.0 & all == all
    }
}

impl SessionKey {
    fn owner(self) -> u32 {
        u32::from(self.slot) | u32::from(self.host) << 8 | 1 << 16
    }

    fn of_owner(owner: u32) -> SessionKey {
        SessionKey { host: (owner >> 8) as u8, slot: owner as u8 }
    }
}
