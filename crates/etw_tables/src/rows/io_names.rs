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
/// What stands for `INPUT_OPERATION` of paging, here alone.
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

/// Returns the flags that any of some `IrpFlags` has, besides the priority; `None` if none has one.
pub(super) fn irp_flags(all: &[u32]) -> Option<String> {
    let flags = all.iter().fold(0, |flags, irp_flags| {
        let mut own = irp_flags & !PRIORITY_MASK & !SYNCHRONOUS_PAGING_IO;
        if own & PAGING_IO != 0 && own & INPUT_OPERATION != 0 {
            own = own & !INPUT_OPERATION | SYNCHRONOUS_PAGING_IO;
        }
        flags | own
    });
    (flags != 0).then(|| names(flags, IRP_FLAGS))
}

/// Returns the priorities in some `IrpFlags`; `None` if none has one, as on Linux.
pub(super) fn priorities(all: &[u32]) -> Option<String> {
    let priorities = set(all.iter().map(|irp_flags| (irp_flags & PRIORITY_MASK) >> PRIORITY_SHIFT));
    let name = |number: u32| PRIORITIES.get(number as usize).map(|name| (*name).to_owned());
    (priorities & !1 != 0).then(|| members(priorities, name))
}

/// Returns the options that any of some `CreateOptions` has.
pub(super) fn create_options(all: &[u32]) -> Option<String> {
    Some(names(all.iter().fold(0, |bits, options| bits | options & OPTIONS_MASK), CREATE_OPTIONS))
}

/// Returns what was to be done with files that exist or not, of some `CreateOptions`.
pub(super) fn dispositions(all: &[u32]) -> Option<String> {
    let name = |number: u32| DISPOSITIONS.get(number as usize).map(|name| (*name).to_owned());
    Some(members(set(all.iter().map(|options| options >> DISPOSITION_SHIFT)), name))
}

/// Returns what other opens of files were allowed, separated by commas, of some `ShareAccess`.
pub(super) fn share_access(all: &[u32]) -> Option<String> {
    Some(members(set(all.iter().copied()), |number| match number {
        0 => Some("none".to_owned()),
        1..=7 => Some(names(number, SHARE_ACCESS)),
        _ => None,
    }))
}

/// Returns the file attributes that any of some `FileAttributes` has.
pub(super) fn attributes(all: &[u32]) -> Option<String> {
    Some(names(all.iter().fold(0, |bits, attributes| bits | attributes), ATTRIBUTES))
}

/// Returns a bit for each number; those from 31 on share one.
fn set(numbers: impl Iterator<Item = u32>) -> u32 {
    numbers.fold(0, |bits, number| bits | 1 << number.min(31))
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
        let check = |all: &[u32], flags: Option<&str>, priority: Option<&str>| {
            assert_eq!(
                (irp_flags(all).as_deref(), priorities(all).as_deref()),
                (flags, priority),
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
        let all = [0x0100_0060, 0x0520_0021, 0xFF00_0000];
        let options = "DIRECTORY_FILE|SYNCHRONOUS_IO_NONALERT|NON_DIRECTORY_FILE|OPEN_REPARSE_POINT";
        assert_eq!(create_options(&all).as_deref(), Some(options));
        assert_eq!(dispositions(&all).as_deref(), Some("OPEN, OVERWRITE_IF, 31"));
        assert_eq!(share_access(&[7, 0, 0x100]).as_deref(), Some("none, READ|WRITE|DELETE, 31"));
        assert_eq!(attributes(&[0x80, 0, 0x8000_0020]).as_deref(), Some("ARCHIVE|NORMAL|0x80000000"));
    }
}
