//! The system providers: the flags of the kernel logger as keywords of providers.
//!
//! As on Windows since build 20348, enabling them by keyword is another way to set the flags of a session: the events
//! are the same, and do not name these providers.
//!
//! Source: *System Providers* in the documentation of ETW, and `SYSTEM_*_KW_*` in `evntrace.h`.
//!
//! ```
//! use etw_event::Keyword;
//! use etw_kernel_events::EnableFlags;
//! use etw_kernel_events::system_providers::SystemProvider;
//!
//! let process = SystemProvider::ALL.iter().find(|it| it.name == "SystemProcessProvider").unwrap();
//! assert_eq!(process.select(Keyword(0x801), Keyword(0)).flags, EnableFlags::PROCESS | EnableFlags::THREAD);
//! ```

use etw_event::{Guid, Keyword};

use crate::EnableFlags;
use crate::flags::{FlagError, NOT_YET, of_further_words};

/// A system provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemProvider {
    /// GUID.
    pub guid: Guid,
    /// Name.
    pub name: &'static str,
    keywords: &'static [(u64, &'static str, Source)],
}

/// The events that a keyword stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Those of a flag in the first word of the group masks.
    Flag(EnableFlags),
    /// Those of a flag in a further word, by its name in xperf.
    Further(&'static str),
    /// The description of the machine.
    Machine,
    /// Events without a flag of their own, which Linux does not support.
    NotYet,
}

/// What keywords of a system provider select.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SystemSelection {
    /// The flags that Linux supports.
    pub flags: EnableFlags,
    /// Whether the machine is described.
    pub has_machine: bool,
    /// What Linux does not support, one line each: keyword and reason.
    pub left_out: Vec<String>,
}

const fn flag(bits: u32) -> Source {
    Source::Flag(EnableFlags(bits))
}

const fn further(name: &'static str) -> Source {
    Source::Further(name)
}

use Source::{Machine, NotYet};

impl SystemProvider {
    /// All system providers.
    pub const ALL: &'static [SystemProvider] = &[
        SystemProvider {
            guid: Guid::from_u128(0xfcb9baaf_e529_4980_92e9_ced1a6aadfdf),
            name: "SystemAlpcProvider",
            keywords: &[(0x1, "GENERAL", flag(0x0010_0000))],
        },
        SystemProvider {
            guid: Guid::from_u128(0xfef3a8b6_318d_4b67_a96a_3b0f6b8f18fe),
            name: "SystemConfigProvider",
            // The description is always written as a whole.
            keywords: &[
                (0x1, "SYSTEM", Machine),
                (0x2, "GRAPHICS", NotYet),
                (0x4, "STORAGE", Machine),
                (0x8, "NETWORK", Machine),
                (0x10, "SERVICES", NotYet),
                (0x20, "PNP", Machine),
                (0x40, "OPTICAL", NotYet),
            ],
        },
        SystemProvider {
            guid: Guid::from_u128(0xc6c5265f_eae8_4650_aae4_9d48603d8510),
            name: "SystemCpuProvider",
            keywords: &[(0x1, "CONFIG", NotYet), (0x2, "CACHE_FLUSH", NotYet), (0x4, "SPEC_CONTROL", NotYet)],
        },
        SystemProvider {
            guid: Guid::from_u128(0xbafa072a_918a_4bed_b622_bc152097098f),
            name: "SystemHypervisorProvider",
            keywords: &[(0x1, "PROFILE", NotYet), (0x2, "CALLOUTS", NotYet), (0x4, "VTL_CHANGE", NotYet)],
        },
        SystemProvider {
            guid: Guid::from_u128(0xd4bbee17_b545_4888_858b_744169015b25),
            name: "SystemInterruptProvider",
            keywords: &[
                (0x1, "GENERAL", Source::Flag(EnableFlags::INTERRUPT)),
                (0x2, "CLOCK_INTERRUPT", further("CLOCKINT")),
                (0x4, "DPC", Source::Flag(EnableFlags::DPC)),
                (0x8, "DPC_QUEUE", NotYet),
                (0x10, "WDF_DPC", NotYet),
                (0x20, "WDF_INTERRUPT", NotYet),
                (0x40, "IPI", further("IPI")),
            ],
        },
        SystemProvider {
            guid: Guid::from_u128(0x3d5c43e3_0f1c_4202_b817_174c0070dc79),
            name: "SystemIoProvider",
            keywords: &[
                (0x1, "DISK", Source::Flag(EnableFlags::DISK_IO)),
                (0x2, "DISK_INIT", Source::Flag(EnableFlags::DISK_IO_INIT)),
                (0x4, "FILENAME", Source::Flag(EnableFlags::DISK_FILE_IO)),
                (0x8, "SPLIT", flag(0x0020_0000)),
                (0x10, "FILE", Source::Flag(EnableFlags::FILE_IO)),
                (0x20, "OPTICAL", NotYet),
                (0x40, "OPTICAL_INIT", NotYet),
                (0x80, "DRIVERS", flag(0x0080_0000)),
                (0x100, "CC", further("CC")),
                (0x200, "NETWORK", Source::Flag(EnableFlags::NETWORK_TCPIP)),
                (0x400, "FILE_INIT", Source::Flag(EnableFlags::FILE_IO_INIT)),
                (0x800, "TIMER", NotYet),
            ],
        },
        SystemProvider {
            guid: Guid::from_u128(0xfbd09363_9e22_4661_b8bf_e7a34b535b8c),
            name: "SystemIoFilterProvider",
            keywords: &[
                (0x1, "GENERAL", further("FLT_IO")),
                (0x2, "INIT", further("FLT_IO_INIT")),
                (0x4, "FASTIO", further("FLT_FASTIO")),
                (0x8, "FAILURE", further("FLT_IO_FAILURE")),
            ],
        },
        SystemProvider {
            guid: Guid::from_u128(0x721ddfd3_dacc_4e1e_b26a_a2cb31d4705a),
            name: "SystemLockProvider",
            keywords: &[
                (0x1, "SPINLOCK", further("SPINLOCK")),
                (0x2, "SPINLOCK_COUNTERS", NotYet),
                (0x4, "SYNC_OBJECTS", NotYet),
            ],
        },
        SystemProvider {
            guid: Guid::from_u128(0x82958ca9_b6cd_47f8_a3a8_03ae85a4bc24),
            name: "SystemMemoryProvider",
            keywords: &[
                (0x1, "GENERAL", further("MEMORY")),
                (0x2, "HARD_FAULTS", Source::Flag(EnableFlags::MEMORY_HARD_FAULTS)),
                (0x4, "ALL_FAULTS", Source::Flag(EnableFlags::MEMORY_PAGE_FAULTS)),
                (0x8, "POOL", further("POOL")),
                (0x10, "MEMINFO", further("MEMINFO")),
                (0x20, "PFSECTION", NotYet),
                (0x40, "MEMINFO_WS", further("MEMINFO_WS")),
                (0x80, "HEAP", NotYet),
                (0x100, "WS", NotYet),
                (0x200, "CONTMEM_GEN", further("CONTMEMGEN")),
                (0x400, "VIRTUAL_ALLOC", Source::Flag(EnableFlags::VIRTUAL_ALLOC)),
                (0x800, "FOOTPRINT", further("FOOTPRINT")),
                (0x1000, "SESSION", further("SESSION")),
                (0x2000, "REFSET", further("REFSET")),
                (0x4000, "VAMAP", Source::Flag(EnableFlags::VAMAP)),
                (0x8000, "NONTRADEABLE", NotYet),
            ],
        },
        SystemProvider {
            guid: Guid::from_u128(0xfebd7460_3d1d_47eb_af49_c9eeb1e146f2),
            name: "SystemObjectProvider",
            keywords: &[(0x1, "GENERAL", further("OB_OBJECT")), (0x2, "HANDLE", further("OB_HANDLE"))],
        },
        SystemProvider {
            guid: Guid::from_u128(0xc134884a_32d5_4488_80e5_14ed7abb8269),
            name: "SystemPowerProvider",
            keywords: &[
                (0x1, "GENERAL", further("POWER")),
                (0x2, "HIBER_RUNDOWN", NotYet),
                (0x4, "PROCESSOR_IDLE", further("IDLE_STATES")),
                (0x8, "IDLE_SELECTION", NotYet),
                (0x10, "PPM_EXIT_LATENCY", NotYet),
            ],
        },
        SystemProvider {
            guid: Guid::from_u128(0x151f55dc_467d_471f_83b5_5f889d46ff66),
            name: "SystemProcessProvider",
            keywords: &[
                (0x1, "GENERAL", Source::Flag(EnableFlags::PROCESS)),
                (0x2, "INSWAP", NotYet),
                (0x4, "FREEZE", NotYet),
                (0x8, "PERF_COUNTER", flag(0x0000_0008)),
                (0x10, "WAKE_COUNTER", NotYet),
                (0x20, "WAKE_DROP", NotYet),
                (0x40, "WAKE_EVENT", NotYet),
                (0x80, "DEBUG_EVENTS", flag(0x0040_0000)),
                (0x100, "DBGPRINT", flag(0x0004_0000)),
                (0x200, "JOB", flag(0x0008_0000)),
                (0x400, "WORKER_THREAD", NotYet),
                (0x800, "THREAD", Source::Flag(EnableFlags::THREAD)),
                (0x1000, "LOADER", Source::Flag(EnableFlags::IMAGE_LOAD)),
            ],
        },
        SystemProvider {
            guid: Guid::from_u128(0xbfeb0324_1cee_496f_a409_2ac2b48a6322),
            name: "SystemProfileProvider",
            keywords: &[
                (0x1, "GENERAL", Source::Flag(EnableFlags::PROFILE)),
                (0x2, "PMC_PROFILE", further("PMC_PROFILE")),
            ],
        },
        SystemProvider {
            guid: Guid::from_u128(0x16156bd9_fab4_4cfa_a232_89d1099058e3),
            name: "SystemRegistryProvider",
            keywords: &[
                (0x1, "GENERAL", flag(0x0002_0000)),
                (0x2, "HIVE", flag(0x0002_0000)),
                (0x4, "NOTIFICATION", flag(0x0002_0000)),
            ],
        },
        SystemProvider {
            guid: Guid::from_u128(0x599a2a76_4d91_4910_9ac7_7d33f2e97a6c),
            name: "SystemSchedulerProvider",
            keywords: &[
                (0x1, "XSCHEDULER", NotYet),
                (0x2, "DISPATCHER", Source::Flag(EnableFlags::DISPATCHER)),
                (0x4, "KERNEL_QUEUE", further("KQUEUE")),
                (0x8, "SHOULD_YIELD", NotYet),
                (0x10, "ANTI_STARVATION", NotYet),
                (0x20, "LOAD_BALANCER", NotYet),
                (0x40, "AFFINITY", NotYet),
                (0x80, "PRIORITY", further("PRIORITY")),
                (0x100, "IDEAL_PROCESSOR", further("IDEAL_PROCESSOR")),
                (0x200, "CONTEXT_SWITCH", Source::Flag(EnableFlags::CSWITCH)),
                (0x400, "COMPACT_CSWITCH", further("COMPACT_CSWITCH")),
                (0x800, "SCHEDULE_THREAD", NotYet),
                (0x1000, "READY_QUEUE", NotYet),
                (0x2000, "CPU_PARTITION", NotYet),
                (0x4000, "THREAD_FEEDBACK_READ", NotYet),
                (0x8000, "WORKLOAD_CLASS_UPDATE", NotYet),
                (0x1_0000, "AUTOBOOST", NotYet),
            ],
        },
        SystemProvider {
            guid: Guid::from_u128(0x434286f7_6f1b_45bb_b37e_95f623046c7c),
            name: "SystemSyscallProvider",
            keywords: &[(0x1, "GENERAL", Source::Flag(EnableFlags::SYSTEMCALL))],
        },
        SystemProvider {
            guid: Guid::from_u128(0x4f061568_e215_499f_ab2e_eda0ae890a5b),
            name: "SystemTimerProvider",
            keywords: &[(0x1, "GENERAL", further("TIMER")), (0x2, "CLOCK_TIMER", NotYet)],
        },
    ];

    /// Returns the provider with this GUID.
    pub fn from_guid(guid: Guid) -> Option<&'static SystemProvider> {
        SystemProvider::ALL.iter().find(|provider| provider.guid == guid)
    }

    /// Returns whether Linux supports any of its keywords.
    pub fn is_supported(&self) -> bool {
        self.select(Keyword(0), Keyword(0)).left_out.is_empty()
    }

    /// Returns what these keywords select (`MatchAnyKeyword` and `MatchAllKeyword`).
    ///
    /// Without any keyword, everything that Linux supports is selected.
    pub fn select(&self, any: Keyword, all: Keyword) -> SystemSelection {
        let mut selection = SystemSelection::default();
        for (bit, keyword, source) in self.keywords {
            if any.0 != 0 && any.0 & bit == 0 || bit & all.0 != all.0 {
                continue;
            }
            let refused = match source {
                Source::Flag(flags) => match flags.hooks() {
                    Ok(_) => {
                        selection.flags |= *flags;
                        None
                    }
                    Err(error) => Some(reason_of(error)),
                },
                Source::Machine => {
                    selection.has_machine = true;
                    None
                }
                Source::Further(name) => of_further_words(|xperf, _| xperf == *name).map(reason_of),
                Source::NotYet => Some(NOT_YET),
            };
            if let Some(reason) = refused {
                selection.left_out.push(format!("{} keyword {keyword}: {reason}", self.name));
            }
        }
        if any.0 == 0 && (selection.has_machine || !selection.flags.is_empty()) {
            selection.left_out.clear();
        }
        selection
    }
}

fn reason_of(error: FlagError) -> &'static str {
    match error {
        FlagError::Refused { reason, .. } => reason,
        FlagError::Unknown(_) => NOT_YET,
    }
}

#[cfg(test)]
mod tests {
    use etw_schema::builtin::BuiltIn;

    use super::*;

    fn provider(name: &str) -> &'static SystemProvider {
        SystemProvider::ALL.iter().find(|provider| provider.name == name).unwrap()
    }

    #[test]
    fn keywords_are_those_of_the_schemas() {
        for provider in SystemProvider::ALL {
            let known = BuiltIn.provider(&provider.guid).unwrap();
            assert_eq!(&*known.info.name, provider.name);
            let prefix = provider.name.strip_prefix("System").unwrap().strip_suffix("Provider").unwrap();
            let names = provider
                .keywords
                .iter()
                .map(|(bit, name, _)| (*bit, format!("SYSTEM_{}_KW_{name}", prefix.to_uppercase())));
            let known = known.info.keywords.iter().map(|keyword| (keyword.mask, keyword.name.to_string()));
            assert_eq!(names.collect::<Vec<_>>(), known.collect::<Vec<_>>(), "{}", provider.name);
            let further = provider.keywords.iter().filter_map(|(_, _, source)| match source {
                Source::Further(name) => Some(*name),
                _ => None,
            });
            for name in further {
                assert!(of_further_words(|xperf, _| xperf == name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn keywords_select_flags() {
        let check = |name: &str, any: u64, all: u64, flags: u32, left_out: &[&str]| {
            let selection = provider(name).select(Keyword(any), Keyword(all));
            assert_eq!(selection.flags, EnableFlags(flags), "{name} {any:#x}");
            assert_eq!(selection.left_out.len(), left_out.len(), "{:?}", selection.left_out);
            for (line, said) in selection.left_out.iter().zip(left_out) {
                assert!(line.contains(said), "{line}");
            }
        };
        check("SystemProcessProvider", 0x1801, 0, 0x7, &[]);
        check("SystemProcessProvider", 0, 0, 0x7, &[]);
        check("SystemProcessProvider", 0, 0x800, 0x2, &[]);
        check(
            "SystemProcessProvider",
            0x201,
            0,
            0x1,
            &["SystemProcessProvider keyword JOB: Linux has no job"],
        );
        check("SystemIoProvider", 0x201, 0, 0x1_0100, &[]);
        check("SystemSchedulerProvider", 0x202, 0, 0x810, &[]);
        check("SystemMemoryProvider", 0x9, 0, 0, &["GENERAL: ", "POOL: Linux has no pools"]);
        check("SystemTimerProvider", 0, 0, 0, &["GENERAL", "CLOCK_TIMER"]);
        let config = provider("SystemConfigProvider").select(Keyword(4), Keyword(0));
        assert!(config.has_machine && config.flags.is_empty());
        assert!(provider("SystemSyscallProvider").is_supported());
        assert!(!provider("SystemRegistryProvider").is_supported());
    }
}
