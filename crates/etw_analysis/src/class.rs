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
