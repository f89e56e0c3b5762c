//! Extended items requested by a session: the user, stack, container and related activity of an event.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use etw_event::{ExtendedType, Guid};
use etw_sys::credentials::Identity;

use crate::metadata::{item_header, item_words};
use crate::payload::guid_words;

/// `ENABLE_PROPERTY_SID`.
pub(crate) const SID: u32 = 0x1;
/// `ENABLE_PROPERTY_TS_ID`.
pub(crate) const TERMINAL_SESSION_ID: u32 = 0x2;
/// `ENABLE_PROPERTY_STACK_TRACE`.
pub(crate) const STACK_TRACE: u32 = 0x4;
/// `ENABLE_PROPERTY_PROCESS_START_KEY`.
pub(crate) const PROCESS_START_KEY: u32 = 0x80;
/// `ENABLE_PROPERTY_EVENT_KEY`.
pub(crate) const EVENT_KEY: u32 = 0x100;
/// `ENABLE_PROPERTY_ENABLE_SILOS` and `ENABLE_PROPERTY_SOURCE_CONTAINER_TRACKING`.
pub(crate) const CONTAINER: u32 = 0x400 | 0x800;

/// The properties that add items here. `PSM_KEY`, the identity of a package, has no counterpart on Linux.
pub(crate) const KNOWN: u32 =
    SID | TERMINAL_SESSION_ID | STACK_TRACE | PROCESS_START_KEY | EVENT_KEY | CONTAINER;

/// Maximum number of return addresses in a stack, as in ETW.
const MAX_FRAMES: usize = 192;

/// Frames of this crate between the event and the capture of the stack.
const OWN_FRAMES: usize = 3;

/// Extended items in record order; each announces another one after it.
#[derive(Debug)]
pub(crate) struct Extras {
    words: [u64; MAX_FRAMES + 32],
    len: usize,
    /// Start of the last item.
    last: usize,
}

/// The bit that announces a further item.
pub(crate) const LINKAGE: u64 = 1 << 32;

impl Extras {
    /// Collects the items requested by `properties`, and the related activity.
    #[inline(never)]
    pub(crate) fn new(properties: u32, related: Option<&Guid>) -> Extras {
        let mut extras = Extras { words: [0; MAX_FRAMES + 32], len: 0, last: 0 };
        if let Some(related) = related {
            extras.put(ExtendedType::RELATED_ACTIVITY_ID, &guid_words(related), 16);
        }
        if properties & SID != 0 {
            extras.put(ExtendedType::SID, &IDENTITY.sid.each_ref().map(|word| word.load(Relaxed)), 16);
        }
        if properties & TERMINAL_SESSION_ID != 0 {
            extras.put(ExtendedType::TERMINAL_SESSION_ID, &[IDENTITY.session.load(Relaxed)], 4);
        }
        if properties & CONTAINER != 0 {
            let container = [IDENTITY.container[0].load(Relaxed), IDENTITY.container[1].load(Relaxed)];
            if container != [0; 2] {
                extras.put(ExtendedType::CONTAINER_ID, &container, 16);
            }
        }
        if properties & PROCESS_START_KEY != 0 {
            extras.put(ExtendedType::PROCESS_START_KEY, &[IDENTITY.start_key.load(Relaxed)], 8);
        }
        if properties & EVENT_KEY != 0 {
            static KEYS: AtomicU64 = AtomicU64::new(1);
            extras.put(ExtendedType::EVENT_KEY, &[KEYS.fetch_add(1, Relaxed)], 8);
        }
        if properties & STACK_TRACE != 0 {
            extras.stack();
        }
        extras
    }

    /// Returns the words of the items; the last one announces another item only if one follows.
    pub(crate) fn words(&mut self, is_followed: bool) -> &[u64] {
        if !is_followed && let Some(header) = self.words.get_mut(self.last) {
            *header &= !LINKAGE;
        }
        self.words.get(..self.len).unwrap_or_default()
    }

    fn put(&mut self, ext_type: ExtendedType, data: &[u64], len_bytes: usize) {
        let end = self.len + item_words(len_bytes);
        let Some([header, place @ ..]) = self.words.get_mut(self.len..end) else { return };
        *header = item_header(ext_type, len_bytes) | LINKAGE;
        for (to, from) in place.iter_mut().zip(data) {
            *to = *from;
        }
        (self.last, self.len) = (self.len, end);
    }

    /// A user-mode stack has match id 0, since it has no kernel half.
    fn stack(&mut self) {
        let start = self.len + 2;
        let Some(frames) = self.words.get_mut(start..start + MAX_FRAMES) else { return };
        let count = etw_sys::stack::capture(OWN_FRAMES, frames);
        if let Some(header) = self.words.get_mut(self.len) {
            *header = item_header(ExtendedType::STACK_TRACE64, 8 + 8 * count) | LINKAGE;
        }
        (self.last, self.len) = (self.len, start + count);
    }
}

/// Facts about the process, cached when a session first requests them.
struct Known {
    sid: [AtomicU64; 2],
    session: AtomicU64,
    start_key: AtomicU64,
    container: [AtomicU64; 2],
}

static IDENTITY: Known = Known {
    sid: [const { AtomicU64::new(0) }; 2],
    session: AtomicU64::new(0),
    start_key: AtomicU64::new(0),
    container: [AtomicU64::new(0), AtomicU64::new(0)],
};

/// Caches the facts about the process. Must be called before a session that requests them is enabled. A host puts what the
/// system says of the process in their place.
pub(crate) fn learn_identity() {
    let identity = Identity::from_process(None);
    let [low, high] = identity.sid();
    IDENTITY.sid[0].store(low, Relaxed);
    IDENTITY.sid[1].store(high, Relaxed);
    IDENTITY.session.store(identity.session.into(), Relaxed);
    IDENTITY.start_key.store(identity.start_key, Relaxed);
    let [low, high] = guid_words(&Guid::from_u128(identity.container));
    IDENTITY.container[0].store(low, Relaxed);
    IDENTITY.container[1].store(high, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_event::{EventDescriptor, Origin, Record, Sid, Ticks};

    #[test]
    fn items_are_read_back() {
        learn_identity();
        let related = Guid::from_bytes([9; 16]);
        let properties = SID | TERMINAL_SESSION_ID | STACK_TRACE | PROCESS_START_KEY | EVENT_KEY;
        let mut extras = Extras::new(properties, Some(&related));
        let items: Vec<u8> = extras.words(false).iter().flat_map(|word| word.to_le_bytes()).collect();
        let size = (0x50 + items.len() + 4) as u16;
        let mut bytes = vec![0; 0x50];
        bytes[..8].copy_from_slice(&[size as u8, (size >> 8) as u8, 0x13, 0xC0, 1, 0, 0, 0]);
        bytes.extend(items);
        bytes.extend(b"data");
        let origin = Origin::default();
        let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
        assert_eq!(record.payload(), b"data");
        assert_eq!(record.extended(ExtendedType::RELATED_ACTIVITY_ID).unwrap().data, [9; 16]);
        let sid = Sid::parse(record.extended(ExtendedType::SID).unwrap().data).unwrap();
        assert!(sid.to_string().starts_with("S-1-22-1-"), "{sid}");
        let stack = record.extended(ExtendedType::STACK_TRACE64).unwrap().stack_trace().unwrap();
        assert!(stack.addresses().len() > 1);
        assert!(record.extended(ExtendedType::PROCESS_START_KEY).unwrap().data != [0; 8]);
        let _ = EventDescriptor::default();
    }
}
