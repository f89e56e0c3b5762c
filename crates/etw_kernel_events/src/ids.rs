//! Names of the kernel's events: [`DiskIo::READ`], [`Thread::C_SWITCH`].
//!
//! ```
//! use etw_event::HookId;
//! use etw_kernel_events::ids::{Class, DiskIo, EventId, Image, Thread};
//!
//! assert_eq!(Thread::C_SWITCH.hook_id(), HookId(0x0524));
//! assert_eq!((DiskIo::READ.class(), DiskIo::READ.opcode()), (Class::DiskIo, 10));
//! assert_eq!(EventId::from_hook(HookId(0x030A)), Some(Image::LOAD));
//! ```

use etw_event::{Guid, HookId, Record, classes};

use crate::provider_guids::{DISK_PROVIDER, FILE_PROVIDER, NETWORK_PROVIDER, PROCESS_PROVIDER};

/// An event of one of the kernel's classes, of any version: class and opcode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub(crate) u16);

/// The highest id of an event of the manifest providers that repeats one of a class.
const HIGHEST_OF_PROVIDERS: u16 = 64;
/// Number of a group without a class.
const NO_CLASS: u8 = u8::MAX;
/// Group of a class whose events have no hook ids.
const NO_GROUP: u8 = u8::MAX;

impl EventId {
    /// Returns the event of a class with an opcode.
    pub const fn new(class: Class, opcode: u8) -> EventId {
        EventId((class as u16) << 8 | opcode as u16)
    }

    /// Returns the event that a record is, whether the kernel wrote it, with a hook id, or a program or the merge step, with
    /// the GUID of a class. `None` for other records.
    #[inline]
    pub fn from_record(record: &Record<'_>) -> Option<EventId> {
        match record.hook_id() {
            Some(hook) => EventId::from_hook(hook),
            None if record.kind().is_classic() => {
                let class = Class::from_guid(&record.provider_id())?;
                Some(EventId::new(class, record.descriptor().opcode.0))
            }
            None => None,
        }
    }

    /// Returns the event that one of the kernel's manifest providers repeats, with other names of fields; `None` for other records.
    ///
    /// Source: the manifests of Microsoft-Windows-Kernel-Process, -File, -Disk and -Network, whose payloads have the order of the
    /// classes' ([`EventId::version_in_class`]).
    #[inline]
    pub fn from_provider_record(record: &Record<'_>) -> Option<EventId> {
        if !record.kind().is_event_header() {
            return None;
        }
        let id = record.descriptor().id;
        // Most events of other providers need no look at their GUIDs.
        if id > HIGHEST_OF_PROVIDERS {
            return None;
        }
        match record.provider_id() {
            PROCESS_PROVIDER => Some(match id {
                1 => Process::START,
                2 => Process::END,
                15 => Process::DC_START,
                3 => Thread::START,
                4 => Thread::END,
                5 => Image::LOAD,
                6 => Image::UNLOAD,
                _ => return None,
            }),
            FILE_PROVIDER => Some(match id {
                10 => FileIo::FILE_CREATE,
                11 => FileIo::FILE_DELETE,
                12 => FileIo::CREATE,
                // Cleanup (13), and the paths of deleted and renamed files, repeat others.
                14 => FileIo::CLOSE,
                15 => FileIo::READ,
                16 => FileIo::WRITE,
                17 => FileIo::SET_INFO,
                18 => FileIo::DELETE,
                19 | 29 => FileIo::RENAME,
                20 => FileIo::DIR_ENUM,
                21 => FileIo::FLUSH,
                22 => FileIo::QUERY_INFO,
                23 => FileIo::FS_CONTROL,
                24 => FileIo::OPERATION_END,
                25 => FileIo::DIR_NOTIFY,
                _ => return None,
            }),
            DISK_PROVIDER => Some(match id {
                10 => DiskIo::READ,
                11 => DiskIo::WRITE,
                14 => DiskIo::FLUSH_BUFFERS,
                _ => return None,
            }),
            // Ids are the opcodes of TcpIp, and from 42 on those of UdpIp.
            NETWORK_PROVIDER => match id {
                10..=17 | 26..=32 => Some(EventId::new(Class::TcpIp, id as u8)),
                42..=49 | 58..=64 => Some(EventId::new(Class::UdpIp, (id - 32) as u8)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the version of the class whose layout an event has: of manifest providers, version 0 is 2 of the class.
    #[inline]
    pub fn version_in_class(record: &Record<'_>) -> u8 {
        let version = record.descriptor().version;
        if record.kind().is_event_header() { version.saturating_add(2) } else { version }
    }

    /// Returns the event with a hook id; `None` if its group has no class.
    #[inline]
    pub fn from_hook(hook: HookId) -> Option<EventId> {
        if hook == HookId::IMAGE_LOAD {
            return Some(Image::LOAD);
        }
        let class = BY_GROUP.get(usize::from(hook.group())).copied().filter(|class| *class != NO_CLASS)?;
        Some(EventId(u16::from(class) << 8 | u16::from(hook.event_type())))
    }

    /// Returns the class.
    #[inline]
    pub const fn class(self) -> Class {
        Class::ALL[(self.0 >> 8) as usize]
    }

    /// Returns the opcode.
    #[inline]
    pub const fn opcode(self) -> u8 {
        self.0 as u8
    }

    /// Returns the hook id, by which the kernel writes the event.
    ///
    /// # Panics
    ///
    /// Panics if the kernel does not write events of the class: in a constant, that does not compile.
    pub const fn hook_id(self) -> HookId {
        if self.0 == Image::LOAD.0 {
            return HookId::IMAGE_LOAD;
        }
        let group = GROUPS[(self.0 >> 8) as usize];
        assert!(group != NO_GROUP, "events of this class have no hook ids");
        HookId((group as u16) << 8 | self.0 & 0xFF)
    }
}

impl std::fmt::Debug for EventId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}/{}", self.class(), self.opcode())
    }
}

include!(concat!(env!("OUT_DIR"), "/ids.rs"));

impl Class {
    /// Returns the GUID.
    #[inline]
    pub const fn guid(self) -> Guid {
        Class::GUIDS[self as usize]
    }

    /// Returns the class with a GUID.
    #[inline]
    pub fn from_guid(guid: &Guid) -> Option<Class> {
        let [a, b, c, d, ..] = guid.to_bytes();
        let number = usize::from(Class::number_of(u32::from_le_bytes([a, b, c, d])));
        Class::GUIDS.get(number).filter(|one| *one == guid).and_then(|_| Class::ALL.get(number).copied())
    }
}

/// The number of the class of each group of hook ids.
const BY_GROUP: [u8; classes::BY_GROUP.len()] = {
    let mut numbers = [NO_CLASS; classes::BY_GROUP.len()];
    let mut group = 0;
    while group < numbers.len() {
        let mut class = 0;
        while class < Class::GUIDS.len() {
            if is_same(Class::GUIDS[class], classes::BY_GROUP[group]) {
                numbers[group] = class as u8;
            }
            class += 1;
        }
        assert!(numbers[group] != NO_CLASS, "the tables lack the class of a group");
        group += 1;
    }
    numbers
};

/// The group of each class.
const GROUPS: [u8; Class::ALL.len()] = {
    let mut groups = [NO_GROUP; Class::ALL.len()];
    let mut group = 0;
    while group < BY_GROUP.len() {
        groups[BY_GROUP[group] as usize] = group as u8;
        group += 1;
    }
    groups
};

const fn is_same(one: Guid, other: Guid) -> bool {
    let (one, other) = (one.to_bytes(), other.to_bytes());
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}
