//! Events that are followed by their stack (`TraceStackTracingInfo`, `xperf -stackwalk`).

use std::fmt;

use crate::ids::{self, EventId};
use etw_event::HookId;

/// A set of kinds of records in the kernel's rings, one bit each, that are followed by a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StackKinds(pub u128);

impl StackKinds {
    /// Samples only.
    pub const SAMPLES: StackKinds = StackKinds(1 << 6);
}

/// Why an event cannot have a stack.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StackWalkError {
    /// There is no such event, or Linux does not support it.
    #[error(
        "`{0}` is not an event that can have a stack here; use names of `xperf -stackwalk`, such as Profile, CSwitch or \
         ReadyThread, or 0x and the hook id"
    )]
    Unknown(String),
    /// Linux reports the event without its stack.
    #[error("{0}: Linux reports mappings without a stack")]
    Without(&'static str),
}

/// Names of events with stacks in xperf and wpr.
const NAMES: &[(&str, EventId)] = &[
    ("ProcessCreate", ids::Process::START),
    ("ProcessDelete", ids::Process::END),
    ("ImageLoad", ids::Image::LOAD),
    ("ImageUnload", ids::Image::UNLOAD),
    ("ThreadCreate", ids::Thread::START),
    ("ThreadDelete", ids::Thread::END),
    ("CSwitch", ids::Thread::C_SWITCH),
    ("ReadyThread", ids::Thread::READY_THREAD),
    ("Profile", ids::PerfInfo::SAMPLE_PROFILE),
    ("SyscallEnter", ids::PerfInfo::SYS_CL_ENTER),
    ("SyscallExit", ids::PerfInfo::SYS_CL_EXIT),
    ("DiskReadInit", ids::DiskIo::READ_INIT),
    ("DiskWriteInit", ids::DiskIo::WRITE_INIT),
    ("DiskFlushInit", ids::DiskIo::FLUSH_INIT),
    ("FileCreate", ids::FileIo::CREATE),
    ("FileCleanup", ids::FileIo::CLEANUP),
    ("FileClose", ids::FileIo::CLOSE),
    ("FileRead", ids::FileIo::READ),
    ("FileWrite", ids::FileIo::WRITE),
    ("FileSetInformation", ids::FileIo::SET_INFO),
    ("FileDelete", ids::FileIo::DELETE),
    ("FileRename", ids::FileIo::RENAME),
    ("FileDirEnum", ids::FileIo::DIR_ENUM),
    ("FileFlush", ids::FileIo::FLUSH),
    ("FileQueryInformation", ids::FileIo::QUERY_INFO),
    ("FileFSCTL", ids::FileIo::FS_CONTROL),
    ("FileOpEnd", ids::FileIo::OPERATION_END),
    ("FileDirNotify", ids::FileIo::DIR_NOTIFY),
    ("PagefaultTransition", ids::PageFault::TRANSITION_FAULT),
    ("PagefaultDemandZero", ids::PageFault::DEMAND_ZERO_FAULT),
    ("PagefaultCopyOnWrite", ids::PageFault::COPY_ON_WRITE),
    ("PagefaultGuard", ids::PageFault::GUARD_PAGE_FAULT),
    ("PagefaultHard", ids::PageFault::HARD_PAGE_FAULT),
    ("PagefaultAV", ids::PageFault::ACCESS_VIOLATION),
    ("HardFault", ids::PageFault::HARD_FAULT),
    ("VirtualAlloc", ids::PageFault::VIRTUAL_ALLOC),
    ("VirtualFree", ids::PageFault::VIRTUAL_FREE),
    ("MapFile", ids::FileIo::MAP_FILE),
    ("UnmapFile", ids::FileIo::UNMAP_FILE),
    // The names in recording profiles, if they differ.
    ("SampledProfile", ids::PerfInfo::SAMPLE_PROFILE),
    ("VirtualAllocation", ids::PageFault::VIRTUAL_ALLOC),
];

/// The sampled profile, whose stacks are captured by default.
const PROFILE: u16 = ids::PerfInfo::SAMPLE_PROFILE.hook_id().0;

/// The events that are followed by their stack, by hook id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackWalks(Vec<u16>);

impl StackWalks {
    /// Selects events; without any, the sampled profile.
    ///
    /// # Errors
    ///
    /// Fails on the first event that cannot have a stack.
    pub fn from_hook_ids(hook_ids: &[u16]) -> Result<StackWalks, StackWalkError> {
        // Windows has more events than are known here, and stacks of all of them.
        for id in hook_ids.iter().filter(|_| cfg!(target_os = "linux")) {
            if *id == HookId::IMAGE_LOAD.0 {
                return Err(StackWalkError::Without("ImageLoad"));
            }
            if kinds_of(*id) == 0 {
                return Err(StackWalkError::Unknown(format!("{id:#06x}")));
            }
        }
        Ok(StackWalks(if hook_ids.is_empty() { vec![PROFILE] } else { hook_ids.to_vec() }))
    }

    /// Parses names and hook ids (`0x0F2E`) joined by `+` or `,`, in any case.
    ///
    /// # Errors
    ///
    /// Fails on an unknown name, and on an event that cannot have a stack.
    pub fn parse(text: &str) -> Result<StackWalks, StackWalkError> {
        let mut ids = Vec::new();
        for part in text.split(['+', ',']).map(str::trim).filter(|part| !part.is_empty()) {
            let digits = part.strip_prefix("0x").or_else(|| part.strip_prefix("0X"));
            let named = || {
                NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(part)).map(|(_, id)| id.hook_id().0)
            };
            let id = digits.map_or_else(named, |digits| u16::from_str_radix(digits, 16).ok());
            let id = id.ok_or_else(|| StackWalkError::Unknown(part.to_owned()))?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        StackWalks::from_hook_ids(&ids)
    }

    /// Returns the hook ids.
    pub fn hook_ids(&self) -> &[u16] {
        &self.0
    }

    /// Returns whether this event is followed by its stack.
    pub fn has(&self, hook: HookId) -> bool {
        self.0.contains(&hook.0)
    }

    /// Returns the kinds of records that these events are made from.
    pub fn kinds(&self) -> StackKinds {
        StackKinds(self.0.iter().fold(0, |kinds, id| kinds | kinds_of(*id)))
    }
}

impl fmt::Display for StackWalks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut joint = "";
        for id in &self.0 {
            match NAMES.iter().find(|(_, named)| named.hook_id().0 == *id) {
                Some((name, _)) => write!(f, "{joint}{name}")?,
                None => write!(f, "{joint}{id:#06x}")?,
            }
            joint = "+";
        }
        Ok(())
    }
}

impl Default for StackWalks {
    /// The sampled profile.
    fn default() -> StackWalks {
        StackWalks(vec![PROFILE])
    }
}

/// Returns the kinds of records that an event may be made from, as numbered in `bpf/ring.h`.
const fn kinds_of(hook_id: u16) -> u128 {
    const fn range(from: u32, to: u32) -> u128 {
        (1 << (to + 1)) - (1 << from)
    }
    match hook_id {
        0x0301 => range(1, 2),
        0x0302 | 0x0502 => range(3, 3),
        0x0501 => range(1, 1),
        0x1402 => range(62, 62) | range(3, 3),
        0x0524 => range(4, 4),
        0x0532 => range(5, 5),
        PROFILE => range(6, 6),
        0x0F33 => range(7, 7),
        0x0F34 => range(8, 8),
        0x0F43 => range(9, 9),
        0x0F44 | 0x0F45 => range(10, 10),
        0x010C | 0x010D | 0x010F => range(11, 11),
        0x010A | 0x010B | 0x010E => range(12, 12),
        0x0200..=0x02FF => range(13, 13) | range(41, 41),
        // 20 are names of files, which precede their events; memory (41) includes mappings of files.
        0x0400..=0x04FF => range(21, 39) | range(41, 41),
        0x0600..=0x06FF | 0x0800..=0x08FF => range(40, 40),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_read() {
        let check =
            |text: &str, ids: &[u16]| assert_eq!(StackWalks::parse(text).unwrap().hook_ids(), ids, "{text}");
        check("CSwitch+ReadyThread+Profile", &[0x0524, 0x0532, 0x0F2E]);
        check("cswitch, 0x0524,0X0f2e", &[0x0524, 0x0F2E]);
        check("", &[0x0F2E]);
        check("SampledProfile+VirtualAllocation", &[0x0F2E, 0x0262]);
        for (name, id) in NAMES {
            let parsed = StackWalks::parse(name);
            assert_eq!(parsed.is_ok(), *id != ids::Image::LOAD, "{name}: {parsed:?}");
        }
    }

    #[test]
    fn what_has_no_stack_is_refused_by_name() {
        let check = |text: &str, said: &str| {
            let error = StackWalks::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        };
        check("CSwitch+RegOpenKey", "`RegOpenKey` is not an event");
        check("ImageLoad", "ImageLoad: Linux reports mappings without a stack");
        check("0x1234", "`0x1234` is not an event");
        check("0x123456", "`0x123456` is not an event");
    }

    #[test]
    fn kinds_are_those_of_the_events() {
        assert_eq!(StackWalks::default().kinds(), StackKinds::SAMPLES);
        let walks = StackWalks::parse("CSwitch+FileRead").unwrap();
        assert_eq!(walks.kinds(), StackKinds(1 << 4 | 1 << 41 | ((1 << 40) - (1 << 21))));
        assert_eq!(StackWalks::from_hook_ids(&[0x0524, 0x060A]).unwrap().to_string(), "CSwitch+0x060a");
        assert!(walks.has(HookId(0x0524)) && !walks.has(HookId(0x0F2E)));
    }
}
