//! What a process may write to a session: events of the providers that it has registered and that the session has enabled.
//!
//! The host says what that is ([`Rights`]); the logger checks each record ([`Checker`]). A process writes what it likes into
//! its region, so its records are checked after they are copied.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use etw_event::{ExtendedType, Guid, Keyword, Level, classes};
use etw_sys::credentials::Identity;

/// How long a process may still write what it no longer may: it learns of the change meanwhile.
const GRACE: Duration = Duration::from_secs(2);

/// What a process may write to a session. Clones are handles of the same rights.
#[derive(Debug, Clone, Default)]
pub struct Rights(Arc<Changing>);

#[derive(Debug, Default)]
struct Changing {
    /// Raised by every change, so that the logger need not take the lock to see that there was none.
    version: AtomicU64,
    permits: Mutex<Vec<Permit>>,
}

/// Events of one provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Permit {
    provider: [u64; 2],
    /// One more than the highest level.
    levels: u64,
    any: u64,
    all: u64,
    /// When it ends; `None` while it holds.
    until: Option<Instant>,
}

impl Rights {
    /// Allows the events of a provider as a session has enabled it. What was allowed before holds for a moment.
    pub fn allow(&self, provider: Guid, level: Level, any: Keyword, all: Keyword) {
        let permit = Permit {
            provider: words_of(provider),
            levels: if level.0 == 0 { 256 } else { u64::from(level.0) + 1 },
            any: if any.0 == 0 { u64::MAX } else { any.0 },
            all: all.0,
            until: None,
        };
        self.change(permit.provider, Some(permit));
    }

    /// Withdraws the events of a provider. They are allowed for a moment yet.
    pub fn withdraw(&self, provider: Guid) {
        self.change(words_of(provider), None);
    }

    fn change(&self, provider: [u64; 2], new: Option<Permit>) {
        let mut permits = self.0.permits.lock().unwrap_or_else(PoisonError::into_inner);
        // At most two for each provider: the one that holds, and everything before it.
        let mut before: Option<Permit> = None;
        permits.retain(|permit| {
            if permit.provider != provider {
                return true;
            }
            before = Some(before.map_or(*permit, |other| other.with(permit)));
            false
        });
        if let Some(before) = before
            && new.is_none_or(|new| !new.covers(&before))
        {
            permits.push(Permit { until: Some(Instant::now() + GRACE), ..before });
        }
        permits.extend(new);
        drop(permits);
        self.0.version.fetch_add(1, Ordering::Release);
    }
}

impl Permit {
    #[inline(always)]
    fn passes(&self, provider: [u64; 2], descriptor: u64, keyword: u64) -> bool {
        self.provider == provider
            && (descriptor >> 32 & 0xFF) < self.levels
            && (keyword == 0 || keyword & self.any != 0 && keyword & self.all == self.all)
    }

    fn covers(&self, other: &Permit) -> bool {
        self.levels >= other.levels && other.any & !self.any == 0 && self.all & !other.all == 0
    }

    fn with(&self, other: &Permit) -> Permit {
        let levels = self.levels.max(other.levels);
        Permit { levels, any: self.any | other.any, all: self.all & other.all, ..*self }
    }
}

/// Checks the records of one process.
#[derive(Debug)]
pub(super) struct Checker {
    rights: Rights,
    version: u64,
    /// In the order of their providers.
    permits: Vec<Permit>,
    /// When the next of them ends.
    end: Option<Instant>,
    /// The permit that the last event had.
    last: Permit,
    /// The extended items that the last event had, if none of them says anything of the process.
    last_items: Items,
    /// The class or message that was allowed last.
    last_class: [u64; 2],
    /// What the session has enabled, in order.
    enabled: Arc<Mutex<Vec<Guid>>>,
    identity: Identity,
}

/// One extended item of an event, or two, by their headers: these say where each begins and which is the last.
#[derive(Debug, Clone, Copy)]
struct Items {
    first: u64,
    /// Position of the last one, and its header.
    last: (usize, u64),
    /// Words of the record up to their end.
    end: usize,
}

/// Items that no event has.
const NO_ITEMS: Items = Items { first: 0, last: (0, 0), end: usize::MAX };

/// The provider of marks (`xperf -m`, `wpr -marker`), and their type.
const MARKS: &str = "OpenETW-Marks";
const MARK: u64 = 34;

/// A permit for nothing.
const NOTHING: Permit = Permit { provider: [0; 2], levels: 0, any: 0, all: 0, until: None };
/// `EVENT_HEADER_FLAG_EXTENDED_INFO`, as in the first word.
const EXTENDED: u64 = 1 << 32;

impl Checker {
    pub(super) fn new(rights: Rights, enabled: Arc<Mutex<Vec<Guid>>>, identity: Identity) -> Checker {
        Checker {
            rights,
            version: u64::MAX,
            permits: Vec::new(),
            end: None,
            last: NOTHING,
            last_items: NO_ITEMS,
            last_class: [0; 2],
            enabled,
            identity,
        }
    }

    /// Takes over changes, and returns when the next permit ends. Everything written before then must be read before
    /// [`Checker::expire`].
    pub(super) fn refresh(&mut self) -> Option<Instant> {
        let version = self.rights.0.version.load(Ordering::Acquire);
        if version != self.version {
            self.version = version;
            self.permits.clone_from(&self.rights.0.permits.lock().unwrap_or_else(PoisonError::into_inner));
            self.permits.sort_unstable_by_key(|permit| permit.provider);
            self.forget();
        }
        self.end
    }

    /// Forgets what depends on the permits.
    fn forget(&mut self) {
        self.end = self.permits.iter().filter_map(|permit| permit.until).min();
        (self.last, self.last_class) = (NOTHING, [0; 2]);
    }

    /// Iterates over the permits of a provider.
    fn of_provider(&self, provider: [u64; 2]) -> impl Iterator<Item = &Permit> {
        let first = self.permits.partition_point(|permit| permit.provider < provider);
        let rest = self.permits.get(first..).unwrap_or_default();
        rest.iter().take_while(move |permit| permit.provider == provider)
    }

    /// Forgets the permits that have ended.
    pub(super) fn expire(&mut self, now: Instant) {
        let holds = |permit: &Permit| permit.until.is_none_or(|until| until > now);
        self.rights.0.permits.lock().unwrap_or_else(PoisonError::into_inner).retain(holds);
        self.permits.retain(holds);
        self.forget();
    }

    /// Returns whether the process may write a record, and corrects what the record says of the process.
    #[inline(always)]
    pub(super) fn allows(&mut self, record: &mut [u64]) -> bool {
        if let [first, _, _, low, high, descriptor, keyword, ..] = *record
            && first & 0xFFFE_0000 == 0xC012_0000
            && self.last.passes([low, high], descriptor, keyword)
        {
            return first & EXTENDED == 0 || self.has_last_items(record) || self.corrects_items(record);
        }
        self.allows_other(record)
    }

    #[inline(always)]
    fn has_last_items(&self, record: &[u64]) -> bool {
        let Items { first, last: (at, last), end } = self.last_items;
        record.len() >= end && record.get(10) == Some(&first) && record.get(at) == Some(&last)
    }

    #[inline(never)]
    fn allows_other(&mut self, record: &mut [u64]) -> bool {
        if self.search(record) {
            return true;
        }
        // The host may have allowed it just now.
        let has_changed = self.rights.0.version.load(Ordering::Acquire) != self.version;
        has_changed && {
            self.refresh();
            self.search(record)
        }
    }

    fn search(&mut self, record: &mut [u64]) -> bool {
        let Some(first) = record.first().copied() else { return false };
        match (first >> 16 & 0xFFFF, &*record) {
            (0xC012 | 0xC013, [_, _, _, low, high, descriptor, keyword, ..]) => {
                let provider = [*low, *high];
                let passes = |permit: &&Permit| permit.passes(provider, *descriptor, *keyword);
                let Some(found) = self.of_provider(provider).find(passes).copied() else { return false };
                self.last = found;
                first & EXTENDED == 0 || self.corrects_items(record)
            }
            // Classic events, by class.
            (0xC00A | 0xC00B | 0xC014 | 0xC015, [_, _, _, low, high, ..]) => {
                let class = [*low, *high];
                self.allows_class(class) || self.is_mark(first, class)
            }
            // WPP messages, by the GUID of their file.
            (0x9000, [_, low, high, ..]) if first >> 48 & 2 != 0 => self.allows_class([*low, *high]),
            (0x9000, _) => !self.permits.is_empty(),
            // Headers of the kernel are the host's own.
            _ => false,
        }
    }

    /// Returns whether the process may write events of a class. Programs do not say which classes they have, so these are
    /// any but the kernel's, and the providers of others.
    fn allows_class(&mut self, class: [u64; 2]) -> bool {
        if self.last_class == class && class != [0; 2] {
            return true;
        }
        let is_own = self.of_provider(class).next().is_some();
        let is_others = || {
            let guid = guid_of(class);
            let enabled = self.enabled.lock().unwrap_or_else(PoisonError::into_inner);
            classes::ALL.contains(&guid) || enabled.binary_search(&guid).is_ok()
        };
        let is_allowed = is_own || !self.permits.is_empty() && !is_others();
        if is_allowed {
            self.last_class = class;
        }
        is_allowed
    }

    /// Returns whether a classic event is a mark: a text of a user among the kernel's events (`PerfInfo/Mark`). Whoever
    /// controls the session enables the provider of marks for the moment of each.
    fn is_mark(&self, first: u64, class: [u64; 2]) -> bool {
        let provider = words_of(Guid::from_provider_name(MARKS));
        class == words_of(classes::PERF_INFO)
            && first >> 32 & 0xFF == MARK
            && self.of_provider(provider).next().is_some()
    }

    /// Checks an event's extended items, and puts what the system says of the process into those that describe it.
    #[inline(never)]
    fn corrects_items(&mut self, record: &mut [u64]) -> bool {
        let mut rest = record.get_mut(10..).unwrap_or_default();
        let (mut at, mut items, mut is_of_process) = (10, NO_ITEMS, false);
        for number in 0.. {
            let Some((header, behind)) = rest.split_first_mut() else { return false };
            let (size, len) = ((*header & 0xFFFF) as usize, (*header >> 48) as usize);
            let words = (size / 8).wrapping_sub(1);
            if !size.is_multiple_of(8) || len > words.saturating_mul(8) {
                return false;
            }
            let Some((data, next)) = behind.split_at_mut_checked(words) else { return false };
            let identity = &self.identity;
            if number == 0 {
                items.first = *header;
            }
            items.last = (at, *header);
            at += 1 + words;
            match (ExtendedType((*header >> 16) as u16), data, len) {
                (
                    ExtendedType::PROVIDER_TRAITS
                    | ExtendedType::EVENT_SCHEMA_TL
                    | ExtendedType::RELATED_ACTIVITY_ID
                    | ExtendedType::STACK_TRACE32
                    | ExtendedType::STACK_TRACE64
                    | ExtendedType::EVENT_KEY,
                    _,
                    _,
                ) => {}
                (kind, data, len) => {
                    is_of_process = true;
                    if !corrects(identity, kind, data, len) {
                        return false;
                    }
                }
            }
            if *header >> 32 & 1 == 0 {
                if number < 2 && !is_of_process {
                    self.last_items = Items { end: at, ..items };
                }
                return true;
            }
            rest = next;
        }
        false
    }
}

/// Puts what the system says of a process into an item; `false` if nothing does.
fn corrects(identity: &Identity, kind: ExtendedType, data: &mut [u64], len: usize) -> bool {
    match (kind, data, len) {
        (ExtendedType::SID, [first, second], 16) => [*first, *second] = identity.sid(),
        (ExtendedType::TERMINAL_SESSION_ID, [session], 4) => *session = identity.session.into(),
        (ExtendedType::PROCESS_START_KEY, [key], 8) => *key = identity.start_key,
        (ExtendedType::CONTAINER_ID, [low, high], 16) => {
            [*low, *high] = words_of(Guid::from_u128(identity.container));
        }
        _ => return false,
    }
    true
}

fn guid_of([low, high]: [u64; 2]) -> Guid {
    Guid::from_bytes((u128::from(low) | u128::from(high) << 64).to_le_bytes())
}

/// Returns a GUID as it lies in a record.
fn words_of(guid: Guid) -> [u64; 2] {
    let bytes = u128::from_le_bytes(guid.to_bytes());
    [bytes as u64, (bytes >> 64) as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Guid = Guid::from_u128(0x11111111_2222_3333_4444_555555555555);
    const THEIRS: Guid = Guid::from_u128(0x66666666_2222_3333_4444_555555555555);
    const OTHER: Guid = Guid::from_u128(0x77777777_2222_3333_4444_555555555555);

    fn identity() -> Identity {
        Identity { uid: 1000, session: 7, start_key: 8, container: 0 }
    }

    fn checker(rights: &Rights) -> Checker {
        let mut checker = Checker::new(rights.clone(), Arc::new(Mutex::new(vec![OURS, THEIRS])), identity());
        checker.refresh();
        checker
    }

    fn event(provider: Guid, level: u8, keyword: u64) -> Vec<u64> {
        let [low, high] = words_of(provider);
        vec![0xC013_0050, 0, 0, low, high, u64::from(level) << 32 | 7, keyword, 0, 0, 0]
    }

    fn classic(kind: u64, class: Guid) -> Vec<u64> {
        let [low, high] = words_of(class);
        vec![kind << 16 | 0x30, 0, 0, low, high, 0]
    }

    #[test]
    fn what_is_registered_and_enabled_passes_and_nothing_else() {
        let rights = Rights::default();
        let mut checker = checker(&rights);
        assert!(!checker.allows(&mut event(OURS, 4, 0)), "nothing is allowed yet");
        rights.allow(OURS, Level(4), Keyword(0x30), Keyword(0x10));
        for (event, expected) in [
            (event(OURS, 4, 0), true),
            (event(OURS, 0, 0x10), true),
            (event(OURS, 5, 0), false),
            (event(OURS, 4, 0x20), false),
            (event(OURS, 4, 0x40), false),
            (event(OURS, 4, 0x30), true),
            (event(THEIRS, 4, 0), false),
            (event(OTHER, 1, 0), false),
            (classic(0xC014, OURS), true),
            (classic(0xC014, OTHER), true),
            (classic(0xC015, THEIRS), false),
            (classic(0xC014, classes::PROCESS), false),
            (classic(0xC00A, classes::LOST_EVENT), false),
            (vec![0x20_C002_0004, 0, 0, 0], false),
            (vec![0x10_C011_0002, 0], false),
            (vec![0x0028_0007_9000_0018, 0, 0], true),
            (vec![], false),
        ] {
            assert_eq!(checker.allows(&mut event.clone()), expected, "{event:x?}");
        }
    }

    #[test]
    fn marks_are_written_by_who_has_their_provider() {
        let rights = Rights::default();
        let mut checker = checker(&rights);
        let mut mark = classic(0xC014, classes::PERF_INFO);
        mark[0] |= MARK << 32;
        rights.allow(OURS, Level(0), Keyword(0), Keyword(0));
        assert!(!checker.allows(&mut mark));
        rights.allow(Guid::from_provider_name(MARKS), Level(0), Keyword(0), Keyword(0));
        assert!(checker.allows(&mut mark));
        assert!(!checker.allows(&mut classic(0xC014, classes::PERF_INFO)), "another event of the class");
    }

    #[test]
    fn what_is_withdrawn_holds_for_a_moment() {
        let rights = Rights::default();
        let mut checker = checker(&rights);
        rights.allow(OURS, Level(5), Keyword(0), Keyword(0));
        assert_eq!(checker.refresh(), None);
        rights.allow(OURS, Level(2), Keyword(0), Keyword(0));
        let until = checker.refresh().unwrap();
        assert!(checker.allows(&mut event(OURS, 5, 0)));
        checker.expire(until);
        assert!(!checker.allows(&mut event(OURS, 5, 0)) && checker.allows(&mut event(OURS, 2, 0)));
        assert_eq!(checker.refresh(), None);
        rights.withdraw(OURS);
        let until = checker.refresh().unwrap();
        assert!(checker.allows(&mut event(OURS, 2, 0)));
        checker.expire(until);
        assert!(!checker.allows(&mut event(OURS, 2, 0)) && !checker.allows(&mut classic(0xC014, OTHER)));
        for level in 0..100 {
            rights.allow(OURS, Level(level), Keyword(1 << (level % 64)), Keyword(0));
            assert!(rights.0.permits.lock().unwrap().len() <= 2);
        }
    }

    #[test]
    fn each_of_many_providers_is_found() {
        let rights = Rights::default();
        let provider =
            |number: u64| Guid::from_u128(u128::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C));
        for number in 1..1000 {
            rights.allow(provider(number), Level(number as u8 % 5 + 1), Keyword(0), Keyword(0));
        }
        let mut checker = checker(&rights);
        for number in 1..1000 {
            let level = number as u8 % 5 + 1;
            assert!(checker.allows(&mut event(provider(number), level, 0)));
            assert!(!checker.allows(&mut event(provider(number), level + 1, 0)));
            assert_eq!(guid_of(words_of(provider(number))), provider(number));
        }
        assert!(!checker.allows(&mut event(provider(1000), 1, 0)));
    }

    #[test]
    fn items_say_of_the_process_what_the_system_says() {
        let rights = Rights::default();
        rights.allow(OURS, Level(0), Keyword(0), Keyword(0));
        let mut checker = checker(&rights);
        let item = |kind: ExtendedType, data: &[u64], len: u64, link: u64| {
            let header = (8 + data.len() as u64 * 8) | u64::from(kind.0) << 16 | link << 32 | len << 48;
            [&[header], data].concat()
        };
        let with = |items: &[Vec<u64>]| {
            let mut record = event(OURS, 1, 0);
            record[0] |= EXTENDED;
            record.extend(items.concat());
            record
        };
        let mut good = with(&[
            item(ExtendedType::SID, &[1, 2], 16, 1),
            item(ExtendedType::TERMINAL_SESSION_ID, &[u64::MAX], 4, 1),
            item(ExtendedType::PROCESS_START_KEY, &[1], 8, 1),
            item(ExtendedType::EVENT_KEY, &[1], 8, 0),
        ]);
        assert!(checker.allows(&mut good));
        assert_eq!(good[11..13], identity().sid());
        assert_eq!((good[14], good[16], good[18]), (7, 8, 1));
        for bad in [
            with(&[]),
            // A longer SID, of anybody.
            with(&[item(ExtendedType::SID, &[1, 2, 3], 24, 0)]),
            with(&[item(ExtendedType::PSM_KEY, &[1], 8, 0)]),
            with(&[item(ExtendedType::EVENT_KEY, &[1], 8, 1)]),
            with(&[item(ExtendedType::EVENT_KEY, &[1], 9, 0)]),
            with(&[vec![0]]),
            with(&[vec![0xFFFF_FFFF_FFFF_FFF8]]),
        ] {
            assert!(!checker.allows(&mut bad.clone()), "{bad:x?}");
        }
    }
}
