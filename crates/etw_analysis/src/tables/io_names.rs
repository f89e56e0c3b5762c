//! Names of the numbers in events about I/O, without the prefixes of the constants (`IRP_`, `FILE_`, `FILE_SHARE_`,
//! `FILE_ATTRIBUTE_`).
//!
//! Source: `wdm.h` and `winnt.h`; the priority in `IrpFlags` as in PerfView's TraceEvent.

/// Names of bits.
type Bits = &'static [(u32, &'static str)];

/// The bits of `IrpFlags` that are the priority, and where they start.
const PRIORITY_MASK: u32 = 0xE_0000;
const PRIORITY_SHIFT: u32 = 17;
/// Bits that mean one thing for paging, and another otherwise.
const PAGING_IO: u32 = 0x2;
const INPUT_OPERATION: u32 = 0x40;
/// What stands for `INPUT_OPERATION` of paging, in [`FlagSet`] alone.
const SYNCHRONOUS_PAGING_IO: u32 = 1 << 31;

const IRP_FLAGS: Bits = &[
    (0x1, "NOCACHE"),
    (PAGING_IO, "PAGING_IO"),
    (SYNCHRONOUS_PAGING_IO, "SYNCHRONOUS_PAGING_IO"),
    (0x4, "SYNCHRONOUS_API"),
    (0x8, "ASSOCIATED_IRP"),
    (0x10, "BUFFERED_IO"),
    (0x20, "DEALLOCATE_BUFFER"),
    (INPUT_OPERATION, "INPUT_OPERATION"),
    (0x80, "CREATE_OPERATION"),
    (0x100, "READ_OPERATION"),
    (0x200, "WRITE_OPERATION"),
    (0x400, "CLOSE_OPERATION"),
    (0x800, "DEFER_IO_COMPLETION"),
    (0x1000, "OB_QUERY_NAME"),
    (0x2000, "HOLD_DEVICE_QUEUE"),
    (0x40_0000, "UM_DRIVER_INITIATED_IO"),
];

const PRIORITIES: [&str; 8] =
    ["not set", "very low", "low", "normal", "high", "critical", "reserved 0", "reserved 1"];

const CREATE_OPTIONS: Bits = &[
    (0x1, "DIRECTORY_FILE"),
    (0x2, "WRITE_THROUGH"),
    (0x4, "SEQUENTIAL_ONLY"),
    (0x8, "NO_INTERMEDIATE_BUFFERING"),
    (0x10, "SYNCHRONOUS_IO_ALERT"),
    (0x20, "SYNCHRONOUS_IO_NONALERT"),
    (0x40, "NON_DIRECTORY_FILE"),
    (0x80, "CREATE_TREE_CONNECTION"),
    (0x100, "COMPLETE_IF_OPLOCKED"),
    (0x200, "NO_EA_KNOWLEDGE"),
    (0x400, "OPEN_REMOTE_INSTANCE"),
    (0x800, "RANDOM_ACCESS"),
    (0x1000, "DELETE_ON_CLOSE"),
    (0x2000, "OPEN_BY_FILE_ID"),
    (0x4000, "OPEN_FOR_BACKUP_INTENT"),
    (0x8000, "NO_COMPRESSION"),
    (0x1_0000, "OPEN_REQUIRING_OPLOCK"),
    (0x2_0000, "DISALLOW_EXCLUSIVE"),
    (0x4_0000, "SESSION_AWARE"),
    (0x10_0000, "RESERVE_OPFILTER"),
    (0x20_0000, "OPEN_REPARSE_POINT"),
    (0x40_0000, "OPEN_NO_RECALL"),
    (0x80_0000, "OPEN_FOR_FREE_SPACE_QUERY"),
];
/// The bits of `CreateOptions` that are options; the disposition is above them.
const OPTIONS_MASK: u32 = 0xFF_FFFF;
const DISPOSITION_SHIFT: u32 = 24;

const DISPOSITIONS: [&str; 6] = ["SUPERSEDE", "OPEN", "CREATE", "OPEN_IF", "OVERWRITE", "OVERWRITE_IF"];

const SHARE_ACCESS: Bits = &[(0x1, "READ"), (0x2, "WRITE"), (0x4, "DELETE")];

const ATTRIBUTES: Bits = &[
    (0x1, "READONLY"),
    (0x2, "HIDDEN"),
    (0x4, "SYSTEM"),
    (0x10, "DIRECTORY"),
    (0x20, "ARCHIVE"),
    (0x40, "DEVICE"),
    (0x80, "NORMAL"),
    (0x100, "TEMPORARY"),
    (0x200, "SPARSE_FILE"),
    (0x400, "REPARSE_POINT"),
    (0x800, "COMPRESSED"),
    (0x1000, "OFFLINE"),
    (0x2000, "NOT_CONTENT_INDEXED"),
    (0x4000, "ENCRYPTED"),
    (0x8000, "INTEGRITY_STREAM"),
    (0x1_0000, "VIRTUAL"),
    (0x2_0000, "NO_SCRUB_DATA"),
    (0x4_0000, "RECALL_ON_OPEN"),
    (0x8_0000, "PINNED"),
    (0x10_0000, "UNPINNED"),
    (0x40_0000, "RECALL_ON_DATA_ACCESS"),
];

/// What the `IrpFlags` of requests say, of all of them together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FlagSet {
    flags: u32,
    /// Bit by priority.
    priorities: u8,
}

impl FlagSet {
    pub(crate) fn add(&mut self, irp_flags: u32) {
        let mut flags = irp_flags & !PRIORITY_MASK & !SYNCHRONOUS_PAGING_IO;
        if flags & PAGING_IO != 0 && flags & INPUT_OPERATION != 0 {
            flags = flags & !INPUT_OPERATION | SYNCHRONOUS_PAGING_IO;
        }
        self.flags |= flags;
        self.priorities |= 1 << ((irp_flags & PRIORITY_MASK) >> PRIORITY_SHIFT);
    }

    pub(crate) fn merge(&mut self, other: FlagSet) {
        self.flags |= other.flags;
        self.priorities |= other.priorities;
    }

    /// Returns the flags that any of the requests has; `None` if none has one.
    pub(crate) fn flags(self) -> Option<String> {
        (self.flags != 0).then(|| names(self.flags, IRP_FLAGS))
    }

    /// Returns the priorities that requests have; `None` if none has one, as on Linux.
    pub(crate) fn priorities(self) -> Option<String> {
        let are_set = self.priorities & !1 != 0;
        are_set.then(|| self.all_priorities())
    }

    fn all_priorities(self) -> String {
        members(self.priorities.into(), |number| {
            PRIORITIES.get(number as usize).map(|name| (*name).to_owned())
        })
    }
}

/// What the events about opened files say, all of them together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CreateSet {
    options: u32,
    attributes: u32,
    /// Bits by disposition, and by the set of what is shared.
    dispositions: u32,
    share_access: u32,
}

impl CreateSet {
    pub(crate) fn add(&mut self, options: u32, attributes: u32, share_access: u32) {
        self.options |= options & OPTIONS_MASK;
        self.attributes |= attributes;
        self.dispositions |= 1 << (options >> DISPOSITION_SHIFT).min(31);
        self.share_access |= 1 << share_access.min(31);
    }

    pub(crate) fn merge(&mut self, other: CreateSet) {
        self.options |= other.options;
        self.attributes |= other.attributes;
        self.dispositions |= other.dispositions;
        self.share_access |= other.share_access;
    }

    /// Returns whether nothing was added.
    pub(crate) fn is_empty(self) -> bool {
        self.dispositions == 0
    }

    /// Returns the options that any of the events has.
    pub(crate) fn options(self) -> String {
        names(self.options, CREATE_OPTIONS)
    }

    /// Returns the file attributes that any of the events has.
    pub(crate) fn attributes(self) -> String {
        names(self.attributes, ATTRIBUTES)
    }

    /// Returns what was to be done with files that exist or not.
    pub(crate) fn dispositions(self) -> String {
        members(self.dispositions, |number| DISPOSITIONS.get(number as usize).map(|name| (*name).to_owned()))
    }

    /// Returns what other opens of the files were allowed, separated by commas.
    pub(crate) fn share_access(self) -> String {
        members(self.share_access, |number| match number {
            0 => Some("none".to_owned()),
            1..=7 => Some(names(number, SHARE_ACCESS)),
            _ => None,
        })
    }
}

/// Returns the names of bits, joined by `|`; bits without a name as a number.
fn names(bits: u32, all: Bits) -> String {
    let known = all.iter().filter(|(bit, _)| bits & bit != 0);
    let mut names: Vec<String> = known.map(|(_, name)| (*name).to_owned()).collect();
    let rest = all.iter().fold(bits, |rest, (bit, _)| rest & !bit);
    if rest != 0 {
        names.push(format!("{rest:#x}"));
    }
    names.join("|")
}

/// Returns the names of the numbers in a set of bits, separated by commas.
fn members(bits: u32, name: impl Fn(u32) -> Option<String>) -> String {
    let numbers = (0..u32::BITS).filter(|number| bits & (1 << number) != 0);
    let names = numbers.map(|number| name(number).unwrap_or_else(|| number.to_string()));
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn irp_flags_and_priorities() {
        let check = |all: &[u32], flags: Option<&str>, priorities: Option<&str>| {
            let mut set = FlagSet::default();
            all.iter().for_each(|flags| set.add(*flags));
            assert_eq!(
                (set.flags().as_deref(), set.priorities().as_deref()),
                (flags, priorities),
                "{all:x?}"
            );
        };
        check(&[], None, None);
        check(&[0], None, None);
        check(&[0x100], Some("READ_OPERATION"), None);
        check(&[0x6_0043], Some("NOCACHE|PAGING_IO|SYNCHRONOUS_PAGING_IO"), Some("normal"));
        check(&[0x6_0041], Some("NOCACHE|INPUT_OPERATION"), Some("normal"));
        let both = "NOCACHE|PAGING_IO|SYNCHRONOUS_PAGING_IO|INPUT_OPERATION";
        check(&[0x2_0043, 0x4_0040], Some(both), Some("very low, low"));
        let unknown = "READ_OPERATION|DEFER_IO_COMPLETION|0x10000000";
        check(&[0xA_0000, 0xE_0000, 0x1000_0900], Some(unknown), Some("not set, critical, reserved 1"));
    }

    #[test]
    fn what_files_are_opened_with() {
        let mut set = CreateSet::default();
        assert!(set.is_empty());
        set.add(0x0100_0060, 0x80, 7);
        set.add(0x0520_0021, 0, 0);
        set.add(0xFF00_0000, 0x8000_0020, 0x100);
        assert_eq!(
            set.options(),
            "DIRECTORY_FILE|SYNCHRONOUS_IO_NONALERT|NON_DIRECTORY_FILE|OPEN_REPARSE_POINT"
        );
        assert_eq!(set.dispositions(), "OPEN, OVERWRITE_IF, 31");
        assert_eq!(set.share_access(), "none, READ|WRITE|DELETE, 31");
        assert_eq!(set.attributes(), "ARCHIVE|NORMAL|0x80000000");
    }
}
