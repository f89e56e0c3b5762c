//! Classification of kernel events.

use etw_event::{Guid, HookId, Record, classes};

/// Group and type of a kernel event; in most classes the type is the opcode.
pub(crate) type Class = (Group, u8);

/// The groups of kernel events that tables use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Disk,
    Fault,
    Process,
    File,
    Thread,
    Tcp,
    Udp,
    PerfInfo,
    Image,
    Stack,
    ImageId,
    Config,
    ConfigEx,
}

/// Returns the class of a record, or `None` if no table uses it.
#[inline]
pub(crate) fn class(record: &Record<'_>) -> Option<Class> {
    if let Some(hook) = record.hook_id() {
        if hook == HookId::IMAGE_LOAD {
            return Some((Group::Image, hook.event_type()));
        }
        return Some((of_group(hook.group())?, hook.event_type()));
    }
    // The same classes, written by a program or by the merge step.
    if record.kind().is_classic() {
        return Some((of_guid(&record.provider_id())?, record.descriptor().opcode.0));
    }
    None
}

/// Returns the class whose events an event of the kernel's manifest providers repeats, with other names of fields.
///
/// Source: the manifests of Microsoft-Windows-Kernel-Process, -File and -Disk, whose payloads have the order of the
/// classes' (version 0 that of version 2 of FileIo, version 1 that of version 3).
#[inline]
pub(crate) fn class_of_provider(record: &Record<'_>) -> Option<Class> {
    const KERNEL_PROCESS: Guid = Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);
    const KERNEL_FILE: Guid = Guid::from_u128(0xedd08927_9cc4_4e65_b970_c2560fb5c289);
    const KERNEL_DISK: Guid = Guid::from_u128(0xc7bde69a_e1e0_4177_b6ef_283ad1525271);
    if !record.kind().is_event_header() {
        return None;
    }
    let id = record.descriptor().id;
    Some(match record.provider_id() {
        KERNEL_PROCESS => match id {
            // ProcessStart, ProcessStop and ProcessRundown.
            1 => (Group::Process, 1),
            2 => (Group::Process, 2),
            15 => (Group::Process, 3),
            // ThreadStart and ThreadStop.
            3 => (Group::Thread, 1),
            4 => (Group::Thread, 2),
            // ImageLoad and ImageUnload.
            5 => (Group::Image, 10),
            6 => (Group::Image, 2),
            _ => return None,
        },
        KERNEL_FILE => match id {
            // NameCreate, NameDelete and Create.
            10 => (Group::File, 32),
            11 => (Group::File, 35),
            12 => (Group::File, 64),
            // From Close to DeletePath, and from DirEnum on, the class has the same order. Cleanup (13), and the paths of
            // deleted and renamed files, repeat others.
            14..=18 => (Group::File, id as u8 + 52),
            19 | 29 => (Group::File, 71),
            20..=25 => (Group::File, id as u8 + 52),
            _ => return None,
        },
        KERNEL_DISK => match id {
            // Read, Write and Flush.
            10 | 11 | 14 => (Group::Disk, id as u8),
            _ => return None,
        },
        _ => return None,
    })
}

/// Returns the version of the class whose layout an event has.
#[inline]
pub(crate) fn class_version(record: &Record<'_>) -> u8 {
    let version = record.descriptor().version;
    if record.kind().is_event_header() { version.saturating_add(2) } else { version }
}

#[inline]
fn of_group(group: u8) -> Option<Group> {
    Some(match group {
        0x01 => Group::Disk,
        0x02 => Group::Fault,
        0x03 => Group::Process,
        0x04 => Group::File,
        0x05 => Group::Thread,
        0x06 => Group::Tcp,
        0x08 => Group::Udp,
        0x0B => Group::Config,
        0x0F => Group::PerfInfo,
        0x14 => Group::Image,
        0x18 => Group::Stack,
        _ => return None,
    })
}

fn of_guid(guid: &Guid) -> Option<Group> {
    Some(match *guid {
        classes::DISK_IO => Group::Disk,
        classes::PAGE_FAULT => Group::Fault,
        classes::PROCESS => Group::Process,
        classes::FILE_IO => Group::File,
        classes::THREAD => Group::Thread,
        classes::TCP_IP => Group::Tcp,
        classes::UDP_IP => Group::Udp,
        classes::PERF_INFO => Group::PerfInfo,
        classes::IMAGE => Group::Image,
        classes::STACK_WALK => Group::Stack,
        classes::IMAGE_ID => Group::ImageId,
        classes::SYSTEM_CONFIG => Group::Config,
        classes::SYS_CONFIG_EX => Group::ConfigEx,
        _ => return None,
    })
}
