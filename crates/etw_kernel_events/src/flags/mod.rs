//! The enable flags of the NT Kernel Logger: their bits, their names in each tool, and the hooks they need.

mod groups;

use std::fmt;

use bitflags::bitflags;

use crate::{Hook, Hooks};
use groups::{GROUPS, OF_FURTHER_WORDS};

/// A session's enable flags (`EVENT_TRACE_PROPERTIES.EnableFlags`, the first word of the group masks); unknown bits are
/// kept.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct EnableFlags(pub u32);

/// How Linux supports a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// Its events come from these hooks.
    Captured(Hooks),
    /// It changes the rundown, not what is captured.
    Control,
    /// Not supported, for this reason.
    Refused(&'static str),
}

/// A flag: its bit, its names and its support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag {
    /// Its bit.
    pub bit: u32,
    /// The name in `evntrace.h`, without `EVENT_TRACE_FLAG_`.
    pub name: &'static str,
    /// The name in xperf, which may stand for several flags; empty if it has none.
    pub xperf: &'static str,
    /// The keyword in recording profiles (wpr).
    pub wpr: &'static str,
    /// The name in logman; empty if it has none.
    pub logman: &'static str,
    /// How Linux supports it.
    pub support: Support,
}

/// The result of parsing names of flags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// The flags that Linux supports.
    pub flags: EnableFlags,
    /// Members of groups that Linux does not support.
    pub left_out: Vec<FlagError>,
}

/// Why flags are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlagError {
    /// There is no flag of this name.
    #[error("`{0}` is not a flag of the kernel logger")]
    Unknown(String),
    /// Linux does not support the flag.
    #[error("{flag}: {reason}")]
    Refused {
        /// The flag's name.
        flag: &'static str,
        /// The reason.
        reason: &'static str,
    },
}

bitflags! {
    impl EnableFlags: u32 {
        /// Starts and ends of processes.
        const PROCESS = 0x0000_0001;
        /// Starts and ends of threads.
        const THREAD = 0x0000_0002;
        /// Images that processes load.
        const IMAGE_LOAD = 0x0000_0004;
        /// Context switches.
        const CSWITCH = 0x0000_0010;
        /// Deferred procedure calls.
        const DPC = 0x0000_0020;
        /// Interrupts.
        const INTERRUPT = 0x0000_0040;
        /// System calls.
        const SYSTEMCALL = 0x0000_0080;
        /// Completed disk requests.
        const DISK_IO = 0x0000_0100;
        /// Names of the files that disk requests are for.
        const DISK_FILE_IO = 0x0000_0200;
        /// Disk requests when they are sent.
        const DISK_IO_INIT = 0x0000_0400;
        /// Threads that are made ready.
        const DISPATCHER = 0x0000_0800;
        /// Page faults of all kinds.
        const MEMORY_PAGE_FAULTS = 0x0000_1000;
        /// Page faults that are served from a disk.
        const MEMORY_HARD_FAULTS = 0x0000_2000;
        /// Memory that programs allocate and free.
        const VIRTUAL_ALLOC = 0x0000_4000;
        /// Files that programs map.
        const VAMAP = 0x0000_8000;
        /// Connections, sends and receives of TCP and UDP.
        const NETWORK_TCPIP = 0x0001_0000;
        /// Sampled profile.
        const PROFILE = 0x0100_0000;
        /// File operations, with their results.
        const FILE_IO = 0x0200_0000;
        /// File operations when they start.
        const FILE_IO_INIT = 0x0400_0000;
        /// No description of the machine at the session's start.
        const NO_SYSCONFIG = 0x1000_0000;
        const _ = !0;
    }
}

impl EnableFlags {
    /// All known flags, in the order of bits.
    pub const KNOWN: &'static [Flag] = &[
        captured(
            0x0000_0001,
            "PROCESS",
            "PROC_THREAD",
            "ProcessThread",
            "process",
            &[Hook::Process, Hook::ControlGroup],
        ),
        captured(0x0000_0002, "THREAD", "PROC_THREAD", "ProcessThread", "thread", &[Hook::Process]),
        captured(0x0000_0004, "IMAGE_LOAD", "LOADER", "Loader", "img", &[Hook::Image]),
        refused(0x0000_0008, "PROCESS_COUNTERS", "PERF_COUNTER", "ProcessCounter", "proccntr", NOT_YET),
        captured(0x0000_0010, "CSWITCH", "CSWITCH", "CSwitch", "cswitch", &[Hook::ContextSwitch]),
        captured(0x0000_0020, "DPC", "DPC", "DPC", "dpc", &[Hook::Dpc]),
        captured(0x0000_0040, "INTERRUPT", "INTERRUPT", "Interrupt", "isr", &[Hook::Interrupt]),
        captured(0x0000_0080, "SYSTEMCALL", "SYSCALL", "SystemCall", "syscall", &[Hook::SystemCall]),
        captured(0x0000_0100, "DISK_IO", "DISK_IO", "DiskIO", "disk", &[Hook::Disk]),
        captured(0x0000_0200, "DISK_FILE_IO", "FILENAME", "Filename", "file", &[]),
        captured(0x0000_0400, "DISK_IO_INIT", "DISK_IO_INIT", "DiskIOInit", "diskinit", &[Hook::Disk]),
        captured(0x0000_0800, "DISPATCHER", "DISPATCHER", "ReadyThread", "dispatcher", &[Hook::ReadyThread]),
        captured(
            0x0000_1000,
            "MEMORY_PAGE_FAULTS",
            "ALL_FAULTS",
            "AllFaults",
            "pf",
            &[Hook::HardFault, Hook::SoftFault],
        ),
        captured(0x0000_2000, "MEMORY_HARD_FAULTS", "HARD_FAULTS", "HardFaults", "hf", &[Hook::HardFault]),
        captured(
            0x0000_4000,
            "VIRTUAL_ALLOC",
            "VIRT_ALLOC",
            "VirtualAllocation",
            "virtalloc",
            &[Hook::Memory],
        ),
        captured(0x0000_8000, "VAMAP", "VAMAP", "VAMap", "vamap", &[Hook::Memory]),
        captured(0x0001_0000, "NETWORK_TCPIP", "NETWORKTRACE", "NetworkTrace", "net", &[Hook::Network]),
        refused(0x0002_0000, "REGISTRY", "REGISTRY", "Registry", "registry", "Linux has no registry"),
        refused(0x0004_0000, "DBGPRINT", "DBGPRINT", "DbgPrint", "dbgprint", NO_DEBUGGER),
        refused(0x0008_0000, "JOB", "JOB", "Job", "job", "Linux has no job objects"),
        refused(0x0010_0000, "ALPC", "ALPC", "Alpc", "alpc", "Linux has no local procedure calls"),
        refused(
            0x0020_0000,
            "SPLIT_IO",
            "SPLIT_IO",
            "SplitIO",
            "splitio",
            "Linux has no volume manager that splits",
        ),
        refused(0x0040_0000, "DEBUG_EVENTS", "DEBUG_EVENTS", "DebugEvents", "", NO_DEBUGGER),
        refused(
            0x0080_0000,
            "DRIVER",
            "DRIVERS",
            "Drivers",
            "driver",
            "Linux drivers have no request packets",
        ),
        captured(0x0100_0000, "PROFILE", "PROFILE", "SampledProfile", "profile", &[Hook::Sample]),
        captured(0x0200_0000, "FILE_IO", "FILE_IO", "FileIO", "fileiocompletion", FILES),
        captured(0x0400_0000, "FILE_IO_INIT", "FILE_IO_INIT", "FileIOInit", "fileio", FILES),
        Flag {
            bit: 0x1000_0000,
            name: "NO_SYSCONFIG",
            xperf: "",
            wpr: "",
            logman: "",
            support: Support::Control,
        },
    ];

    /// xperf's groups of flags: names, and members joined by `+`. Members that are not in [`EnableFlags::KNOWN`] are
    /// flags of the other words of the group masks, none of which Linux supports.
    pub const GROUPS: &'static [(&'static str, &'static str)] = GROUPS;

    /// Parses flags joined by `+` or `,`: names of any tool in any case, numbers (`0x…` or decimal), and xperf's groups
    /// of flags. Of a group, the supported flags are selected.
    ///
    /// # Errors
    ///
    /// Fails on an unknown name, on a flag that Linux does not support, and on groups without any supported flag.
    pub fn parse(text: &str) -> Result<Selection, FlagError> {
        let mut selection = Selection::default();
        for part in text.split(['+', ',']).map(str::trim).filter(|part| !part.is_empty()) {
            match GROUPS.iter().find(|group| group.0.eq_ignore_ascii_case(part)) {
                Some((_, members)) => members.split('+').for_each(|member| selection.add_member(member)),
                None => selection.flags |= named(part)?,
            }
        }
        match selection.left_out.first() {
            Some(error) if selection.flags.is_empty() => Err(error.clone()),
            _ => Ok(selection),
        }
    }

    /// Returns the flags of a keyword of recording profiles (wpr), in any case. xperf's groups are not keywords,
    /// although the names of one keyword and one group are equal.
    ///
    /// # Errors
    ///
    /// Fails on an unknown keyword, and on one that Linux does not support.
    pub fn of_keyword(keyword: &str) -> Result<EnableFlags, FlagError> {
        let flags = EnableFlags::KNOWN.iter().filter(|flag| flag.wpr.eq_ignore_ascii_case(keyword));
        match flags.fold(0, |bits, flag| bits | flag.bit) {
            0 => Err(of_further_words(|_, wpr| wpr.eq_ignore_ascii_case(keyword))
                .unwrap_or_else(|| FlagError::Unknown(keyword.to_owned()))),
            bits => EnableFlags(bits).hooks().map(|_| EnableFlags(bits)),
        }
    }

    /// Returns the hooks that these flags need.
    ///
    /// # Errors
    ///
    /// Fails on the first flag that Linux does not support, and on unknown bits.
    pub fn hooks(self) -> Result<Hooks, FlagError> {
        let (hooks, _, mut refused) = self.supported();
        refused.next().map_or(Ok(hooks), Err)
    }

    /// Returns the hooks that these flags need, those of them that Linux supports, and why the others are not.
    pub fn supported(self) -> (Hooks, EnableFlags, impl Iterator<Item = FlagError>) {
        let mut hooks = Hooks::NONE;
        let (mut left, mut refused) = (self.0, Vec::new());
        for flag in EnableFlags::KNOWN.iter().filter(|flag| self.0 & flag.bit != 0) {
            left &= !flag.bit;
            match flag.support {
                Support::Captured(needed) => hooks = hooks | needed,
                Support::Control => {}
                Support::Refused(reason) => refused.push((flag, reason)),
            }
        }
        let supported = refused.iter().fold(self.0 & !left, |flags, (flag, _)| flags & !flag.bit);
        let unknown = (left != 0).then(|| FlagError::Unknown(format!("{left:#x}")));
        let refused =
            refused.into_iter().map(|(flag, reason)| FlagError::Refused { flag: flag.name, reason });
        (hooks, EnableFlags(supported), refused.chain(unknown))
    }
}

impl fmt::Display for EnableFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0;
        let mut joint = "";
        for flag in EnableFlags::KNOWN.iter().filter(|flag| self.0 & flag.bit != 0) {
            write!(f, "{joint}{}", flag.name)?;
            left &= !flag.bit;
            joint = "+";
        }
        if left != 0 || self.0 == 0 { write!(f, "{joint}{left:#x}") } else { Ok(()) }
    }
}

impl fmt::Debug for EnableFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnableFlags({self})")
    }
}

pub(crate) const NOT_YET: &str = "its events are not captured on Linux yet";
/// The hooks of all file operations.
pub(crate) const FILES: &[Hook] = &[Hook::File, Hook::FileExec, Hook::FileRing];
const NO_DEBUGGER: &str = "Linux has no messages to a kernel debugger";

const fn captured(
    bit: u32,
    name: &'static str,
    xperf: &'static str,
    wpr: &'static str,
    logman: &'static str,
    hooks: &[Hook],
) -> Flag {
    Flag { bit, name, xperf, wpr, logman, support: Support::Captured(Hooks::from_list(hooks)) }
}

const fn refused(
    bit: u32,
    name: &'static str,
    xperf: &'static str,
    wpr: &'static str,
    logman: &'static str,
    reason: &'static str,
) -> Flag {
    // Windows has all flags.
    let support = if cfg!(windows) { Support::Control } else { Support::Refused(reason) };
    Flag { bit, name, xperf, wpr, logman, support }
}

impl Selection {
    /// Adds a member of a group if Linux supports it. All members are known.
    fn add_member(&mut self, member: &str) {
        match named(member) {
            Ok(flags) => self.flags |= flags,
            Err(error) if self.left_out.contains(&error) => {}
            Err(error) => self.left_out.push(error),
        }
    }
}

/// Returns the flags that a name or a number stands for, if Linux supports all of them.
fn named(text: &str) -> Result<EnableFlags, FlagError> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let bare = text.strip_prefix("EVENT_TRACE_FLAG_").unwrap_or(text);
    let is = |name: &str| !name.is_empty() && name.eq_ignore_ascii_case(bare);
    // xperf's names are tried first, since some of them stand for several flags.
    let columns: [fn(&Flag) -> &str; 4] =
        [|flag| flag.xperf, |flag| flag.name, |flag| flag.wpr, |flag| flag.logman];
    let by_name = || {
        columns.iter().find_map(|column| {
            let flags = EnableFlags::KNOWN.iter().filter(|flag| is(column(flag)));
            let bits = flags.fold(0, |bits, flag| bits | flag.bit);
            (bits != 0).then_some(bits)
        })
    };
    let Some(flags) = number.or_else(by_name).map(EnableFlags) else {
        let further = of_further_words(|xperf, wpr| is(xperf) || is(wpr));
        return Err(further.unwrap_or_else(|| FlagError::Unknown(text.to_owned())));
    };
    flags.hooks().map(|_| flags)
}

/// Returns why a flag of the other words of the group masks is not supported, by its name in xperf or in recording
/// profiles.
pub(crate) fn of_further_words(is: impl Fn(&str, &str) -> bool) -> Option<FlagError> {
    let (flag, _, reason) = OF_FURTHER_WORDS.iter().find(|(xperf, wpr, _)| is(xperf, wpr))?;
    let reason = if cfg!(windows) { "it is not in the first word of the group masks" } else { reason };
    Some(FlagError::Refused { flag, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(flags: EnableFlags) -> Selection {
        Selection { flags, left_out: Vec::new() }
    }

    #[test]
    fn names_of_every_tool_are_read() {
        let check = |text: &str, bits: u32| {
            assert_eq!(EnableFlags::parse(text), Ok(only(EnableFlags(bits))), "{text}")
        };
        check("", 0);
        check("PROC_THREAD+CSWITCH", 0x13);
        check("proc_thread", 3);
        check("PROCESS", 1);
        check("EVENT_TRACE_FLAG_THREAD", 2);
        check("ProcessThread,CSwitch", 0x13);
        check("process,thread,disk", 0x103);
        check("0x10 + 1", 0x11);
        check("ReadyThread+SampledProfile", 0x0100_0800);
        check("DISK_IO+DISK_IO_INIT", 0x500);
    }

    #[test]
    fn what_linux_cannot_give_is_refused_by_name() {
        let check = |text: &str, said: &str| {
            let error = EnableFlags::parse(text).expect_err(text).to_string();
            assert!(error.contains(said), "{text}: {error}");
        };
        check("CSWITCH+REGISTRY", "REGISTRY: Linux has no registry");
        check("alpc", "ALPC: ");
        check("POWER", "POWER: ");
        check("SysProf+REGISTRY", "REGISTRY: ");
        check("CSWITHC", "`CSWITHC` is not a flag");
        check("0x08000000", "`0x8000000` is not a flag");
    }

    #[test]
    fn keywords_of_profiles() {
        let check = |keyword: &str, bits: u32| {
            assert_eq!(EnableFlags::of_keyword(keyword), Ok(EnableFlags(bits)), "{keyword}");
        };
        check("ProcessThread", 3);
        check("cswitch", 0x10);
        // Not xperf's group.
        check("FileIO", 0x0200_0000);
        for (keyword, said) in [
            ("ProcessCounter", "PROCESS_COUNTERS: "),
            ("FilterIOInit", "FLT_IO_INIT: "),
            ("PmcProfile", "PMC_PROFILE: "),
            ("PROC_THREAD", "`PROC_THREAD` is not a flag"),
        ] {
            let error = EnableFlags::of_keyword(keyword).unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
    }

    #[test]
    fn bits_are_apart_and_names_lead_back() {
        let mut seen = 0;
        for flag in EnableFlags::KNOWN {
            assert_eq!(flag.bit.count_ones(), 1, "{}", flag.name);
            assert_eq!(seen & flag.bit, 0, "{}", flag.name);
            seen |= flag.bit;
            if !matches!(flag.support, Support::Refused(_)) {
                let flag = EnableFlags(flag.bit);
                assert_eq!(EnableFlags::parse(&flag.to_string()), Ok(only(flag)));
            }
        }
        assert_eq!(EnableFlags::empty().to_string(), "0x0");
        assert_eq!((EnableFlags::CSWITCH | EnableFlags(0x0800_0000)).to_string(), "CSWITCH+0x8000000");
    }

    #[test]
    fn flags_need_their_hooks() {
        let hooks = (EnableFlags::PROCESS | EnableFlags::CSWITCH).hooks();
        assert_eq!(hooks, Ok(Hooks::from_list(&[Hook::Process, Hook::ControlGroup, Hook::ContextSwitch])));
        assert_eq!(EnableFlags::NO_SYSCONFIG.hooks(), Ok(Hooks::NONE));
    }

    #[test]
    fn groups_are_taken_as_far_as_they_go() {
        for (group, members) in GROUPS {
            let selection = EnableFlags::parse(group).unwrap_or_else(|error| panic!("{group}: {error}"));
            for member in members.split('+') {
                match EnableFlags::parse(member) {
                    Ok(given) => assert!(selection.flags.contains(given.flags), "{group} has {member}"),
                    Err(refused) => {
                        assert!(matches!(refused, FlagError::Refused { .. }), "{group}: {refused}");
                        assert!(selection.left_out.contains(&refused), "{group} lacks {member}");
                    }
                }
            }
        }
        let latency = EnableFlags::parse("latency+DISK_IO_INIT+Diag").unwrap();
        assert!(latency.flags.contains(EnableFlags(0x0100_0573)), "{latency:?}");
        let told = |flag: &str| {
            let is_it = |error: &&FlagError| error.to_string().starts_with(&format!("{flag}: "));
            latency.left_out.iter().filter(is_it).count()
        };
        assert_eq!(told("COMPACT_CSWITCH"), 1);
    }
}
