//! Class EventTrace: a system session's events about itself.

use super::field::Narrow;
use super::layout;
use crate::ids::{self, Class, EventId};

/// Version of the kernel's events as a whole: that of Windows 10 1903, whose classes these are.
const KERNEL_EVENT_VERSION: u32 = 0x46;

/// The kind of event about the masks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum GroupMasksEvent {
    /// They are in force from now on.
    Extension = 5,
    /// The session stops; they were in force until now.
    EndExtension = 32,
}

/// The events that the session has enabled (`Header_Extension_TypeGroup`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupMasks {
    /// The kind of event.
    pub event: GroupMasksEvent,
    /// The masks; the first one has the enable flags.
    pub masks: [u32; 8],
}

layout! { GroupMasks, version 2, |e| PerfInfo64 EventId::new(Class::EventTrace, e.event as u8); e.masks, KERNEL_EVENT_VERSION }

/// The end of the rundown at the session's start or stop (`RDComplete`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RundownComplete;

layout! { RundownComplete, version 2, |e| PerfInfo64 ids::EventTrace::RD_COMPLETE }

/// The build of the operating system (`Header_BuildInfo_TypeGroup`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildInfo<'a> {
    /// The text of `/proc/version`.
    pub build: &'a [u8],
}

layout! { BuildInfo<'_>, version 2, |e| System64 ids::EventTrace::BUILD_INFO; Narrow(e.build) }

#[cfg(test)]
mod tests {
    use super::super::testing::{check, fields_of};
    use super::*;

    #[test]
    fn fields_are_read_back() {
        for event in [GroupMasksEvent::Extension, GroupMasksEvent::EndExtension] {
            let fields = fields_of(&GroupMasks { event, masks: [1, 2, 3, 4, 5, 6, 7, 0x8000_0000] });
            let names: Vec<_> = (1..=8).map(|number| format!("GroupMask{number}")).collect();
            assert!(
                fields.iter().map(|(name, _)| name).eq(names.iter().chain([&"KernelEventVersion".into()]))
            );
            let texts: Vec<_> = fields.iter().map(|(_, text)| text.as_str()).collect();
            assert_eq!(texts, ["0x1", "0x2", "0x3", "0x4", "0x5", "0x6", "0x7", "0x80000000", "0x46"]);
        }
        check(&RundownComplete, &[]);
        check(&BuildInfo { build: b"Linux version 6.1" }, &[("BuildString", "Linux version 6.1")]);
    }
}
