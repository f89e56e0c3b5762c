//! Kinds of record headers, and the class GUIDs of the kernel's hook ids.

use crate::{Fields, Guid};

/// Pointer size of a payload: that of the process or kernel that logged the event. One trace may contain both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PointerSize {
    /// Four bytes.
    Four,
    /// Eight bytes.
    #[default]
    Eight,
}

impl PointerSize {
    /// Returns the size in bytes.
    #[inline]
    pub const fn bytes(self) -> usize {
        match self {
            PointerSize::Four => 4,
            PointerSize::Eight => 8,
        }
    }

    /// Returns the lowest address of the kernel; those of user mode are below.
    pub const fn kernel_start(self) -> u64 {
        1 << (8 * self.bytes() - 1)
    }

    /// Reads the pointer at `offset` of `bytes`.
    #[inline]
    pub fn read(self, bytes: &[u8], offset: usize) -> Option<u64> {
        match self {
            PointerSize::Four => bytes.u32_at(offset).map(u64::from),
            PointerSize::Eight => bytes.u64_at(offset),
        }
    }
}

/// The kind of a record's header. The suffixes 32 and 64 give the pointer size of the payload.
///
/// Source: `TRACE_HEADER_TYPE_*` of the Windows headers; see `docs/etl-format.md` for the bytes of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HeaderKind {
    /// Kernel event with thread, process and CPU times (`SYSTEM_TRACE_HEADER`).
    System32 = 0x01,
    /// As above, 64-bit.
    System64 = 0x02,
    /// Kernel event with thread and process, without CPU times.
    Compact32 = 0x03,
    /// As above, 64-bit.
    Compact64 = 0x04,
    /// Classic event by class GUID (`EVENT_TRACE_HEADER`).
    Full32 = 0x0A,
    /// Classic event with an instance and its parent (`EVENT_INSTANCE_GUID_HEADER`).
    Instance32 = 0x0B,
    /// `TIMED_TRACE_HEADER`: an event number and a time.
    Timed = 0x0C,
    /// Error event, with the layout of [`HeaderKind::Event64`].
    Error = 0x0D,
    /// `WNODE_HEADER`: written by `IoWMIWriteEvent` before Windows XP.
    Wnode = 0x0E,
    /// WPP message.
    Message = 0x0F,
    /// Kernel event with a time only (`PERFINFO_TRACE_HEADER`).
    PerfInfo32 = 0x10,
    /// As above, 64-bit.
    PerfInfo64 = 0x11,
    /// Manifest, TraceLogging or EventSource event (`EVENT_HEADER`).
    Event32 = 0x12,
    /// As above, 64-bit.
    Event64 = 0x13,
    /// As [`HeaderKind::Full32`], 64-bit.
    Full64 = 0x14,
    /// As [`HeaderKind::Instance32`], 64-bit.
    Instance64 = 0x15,
}

impl HeaderKind {
    /// Every kind.
    pub const ALL: [HeaderKind; 16] = [
        HeaderKind::System32,
        HeaderKind::System64,
        HeaderKind::Compact32,
        HeaderKind::Compact64,
        HeaderKind::Full32,
        HeaderKind::Instance32,
        HeaderKind::Timed,
        HeaderKind::Error,
        HeaderKind::Wnode,
        HeaderKind::Message,
        HeaderKind::PerfInfo32,
        HeaderKind::PerfInfo64,
        HeaderKind::Event32,
        HeaderKind::Event64,
        HeaderKind::Full64,
        HeaderKind::Instance64,
    ];

    /// Returns the offset of the time in the record; for WPP messages it depends on their flags.
    pub(crate) const fn time_offset(self) -> Option<usize> {
        match self {
            HeaderKind::Message => None,
            HeaderKind::PerfInfo32 | HeaderKind::PerfInfo64 | HeaderKind::Timed => Some(0x08),
            _ => Some(0x10),
        }
    }

    /// Returns the kind with this code, which is byte 2 of a record.
    #[inline]
    pub const fn from_code(code: u8) -> Option<HeaderKind> {
        Some(match code {
            0x01 => HeaderKind::System32,
            0x02 => HeaderKind::System64,
            0x03 => HeaderKind::Compact32,
            0x04 => HeaderKind::Compact64,
            0x0A => HeaderKind::Full32,
            0x0B => HeaderKind::Instance32,
            0x0C => HeaderKind::Timed,
            0x0D => HeaderKind::Error,
            0x0E => HeaderKind::Wnode,
            0x0F => HeaderKind::Message,
            0x10 => HeaderKind::PerfInfo32,
            0x11 => HeaderKind::PerfInfo64,
            0x12 => HeaderKind::Event32,
            0x13 => HeaderKind::Event64,
            0x14 => HeaderKind::Full64,
            0x15 => HeaderKind::Instance64,
            _ => return None,
        })
    }

    /// Returns the size of the header before extended items, PMC counters and optional fields.
    #[inline]
    pub const fn len_bytes(self) -> usize {
        match self {
            HeaderKind::System32 | HeaderKind::System64 => 0x20,
            HeaderKind::Compact32 | HeaderKind::Compact64 => 0x18,
            HeaderKind::Full32 | HeaderKind::Full64 | HeaderKind::Wnode => 0x30,
            HeaderKind::Instance32 | HeaderKind::Instance64 => 0x48,
            HeaderKind::Timed | HeaderKind::PerfInfo32 | HeaderKind::PerfInfo64 => 0x10,
            HeaderKind::Error | HeaderKind::Event32 | HeaderKind::Event64 => 0x50,
            HeaderKind::Message => 8,
        }
    }

    /// Returns whether a kernel hook id identifies the event.
    #[inline]
    pub const fn has_hook_id(self) -> bool {
        matches!(
            self,
            HeaderKind::System32
                | HeaderKind::System64
                | HeaderKind::Compact32
                | HeaderKind::Compact64
                | HeaderKind::PerfInfo32
                | HeaderKind::PerfInfo64
        )
    }

    /// Returns whether the header is an `EVENT_HEADER`.
    #[inline]
    pub const fn is_event_header(self) -> bool {
        matches!(self, HeaderKind::Event32 | HeaderKind::Event64 | HeaderKind::Error)
    }

    /// Returns whether the event is classic: identified by class GUID, version and opcode.
    #[inline]
    pub const fn is_classic(self) -> bool {
        !self.is_event_header() && !matches!(self, HeaderKind::Message)
    }

    /// Returns the kind's pointer size; `Eight` for kinds without one.
    #[inline]
    pub const fn pointer_size(self) -> PointerSize {
        match self {
            HeaderKind::System32
            | HeaderKind::Compact32
            | HeaderKind::Full32
            | HeaderKind::Instance32
            | HeaderKind::PerfInfo32
            | HeaderKind::Event32 => PointerSize::Four,
            _ => PointerSize::Eight,
        }
    }
}

/// A kernel event's number: group (high byte) and type (low byte).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct HookId(pub u16);

impl HookId {
    /// The log file header's own record.
    pub const LOG_FILE_HEADER: HookId = HookId(0x0000);
    /// Image load in the process group; its class is Image nevertheless.
    pub const IMAGE_LOAD: HookId = HookId(0x030A);

    /// Returns the group.
    #[inline]
    pub const fn group(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Returns the type, which is the opcode of the classic event.
    #[inline]
    pub const fn event_type(self) -> u8 {
        (self.0 & 0xFF) as u8
    }

    /// Returns the GUID of the event class; zero for a group without a public source.
    #[inline]
    pub fn class_guid(self) -> Guid {
        if self == HookId::IMAGE_LOAD {
            return classes::IMAGE;
        }
        classes::BY_GROUP.get(usize::from(self.group())).copied().unwrap_or(Guid::ZERO)
    }
}

/// GUIDs of the kernel's event classes and of the classes that the merge step adds.
pub mod classes {
    use crate::Guid;

    macro_rules! classes {
        ($($(#[$doc:meta])* $constant:ident = $digits:literal;)*) => {
            $($(#[$doc])* pub const $constant: Guid = Guid::from_u128($digits);)*

            /// All of them.
            pub const ALL: &[Guid] = &[$($constant),*];
        };
    }

    classes! {
        /// Provider of the kernel's classic events, "Windows Kernel Trace".
        SYSTEM_TRACE = 0x9e814aad_3204_11d2_9a82_006008a86939;
        /// EventTrace: the log file header and its kin.
        EVENT_TRACE = 0x68fdd900_4a3e_11d1_84f4_0000f80464e3;
        /// DiskIo.
        DISK_IO = 0x3d6fa8d4_fe05_11d0_9dda_00c04fd7ba7c;
        /// PageFault.
        PAGE_FAULT = 0x3d6fa8d3_fe05_11d0_9dda_00c04fd7ba7c;
        /// Process.
        PROCESS = 0x3d6fa8d0_fe05_11d0_9dda_00c04fd7ba7c;
        /// FileIo.
        FILE_IO = 0x90cbdc39_4a3e_11d1_84f4_0000f80464e3;
        /// Thread.
        THREAD = 0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c;
        /// TcpIp.
        TCP_IP = 0x9a280ac0_c8e0_11d1_84e2_00c04fb998a2;
        /// Job.
        JOB = 0x3282fc76_feed_498e_8aa7_e70f459d430e;
        /// UdpIp.
        UDP_IP = 0xbf3a50c5_a9c9_4988_a005_2df0b7c80f80;
        /// Registry.
        REGISTRY = 0xae53722e_c863_11d2_8659_00c04fa321a1;
        /// DbgPrint.
        DEBUG_PRINT = 0x13976d09_a327_438c_950b_7f03192815c7;
        /// SystemConfig.
        SYSTEM_CONFIG = 0x01853a65_418f_4f36_aefc_dc0f1d2fd235;
        /// Last-branch records.
        LAST_BRANCH = 0x99134383_5248_43fc_834b_529454e75df3;
        /// Wnf.
        WNF = 0x42695762_ea50_497a_9068_5cbbb35e0b95;
        /// Pool.
        POOL = 0x0268a8b6_74fd_4302_9dd0_6e8f1795c0cf;
        /// PerfInfo.
        PERF_INFO = 0xce1dbfb4_137e_4da6_87b0_3f59aa102cbc;
        /// Heap.
        HEAP = 0x222962ab_6180_4b88_a825_346b75f2a24a;
        /// Object.
        OBJECT = 0x89497f50_effe_4440_8cf2_ce6b1cdcaca7;
        /// Power.
        POWER = 0xe43445e0_0903_48c3_b878_ff0fccebdd04;
        /// ModBound.
        MOD_BOUND = 0xa9152f00_3f58_4bee_92a1_70c7d079d5dd;
        /// Image.
        IMAGE = 0x2cb15d1d_5fc1_11d2_abe1_00a0c911f518;
        /// Dpc.
        DPC = 0xb2d14872_7c5b_463d_8419_ee9bf7d23e04;
        /// Cache manager.
        CACHE_MANAGER = 0x7687a439_f752_45b8_b741_321aec0f8df9;
        /// Critical sections.
        CRIT_SEC = 0x3ac66736_cc59_4cff_8115_8df50e39816b;
        /// StackWalk.
        STACK_WALK = 0xdef2fe46_7bd6_4b80_bd94_f57fe20d0ce3;
        /// User-mode scheduling.
        UMS = 0x9aec974b_5b8e_4118_9b92_3186d8002ce5;
        /// ALPC.
        ALPC = 0x45d8cccd_539f_4b72_a8b7_5c683142609a;
        /// SplitIo.
        SPLIT_IO = 0xd837ca92_12b9_44a5_ad6a_3a65b3578aa8;
        /// ThreadPool.
        THREAD_POOL = 0xc861d0e2_a2c1_4d36_9f9c_970bab943a12;
        /// Hypervisor.
        HYPERVISOR = 0x7f2a405c_69b5_4bf9_a1f5_30e8f1afab5e;
        /// HypervisorX.
        HYPERVISOR_X = 0x2ce9a149_effe_42f0_a635_a1d39e26c8f2;
        /// Lost_Event: reports losses to a real-time consumer.
        LOST_EVENT = 0x6a399ae0_4bc6_4de9_870b_3657f8947e7e;
        /// KernelTraceControl: image ids.
        IMAGE_ID = 0xb3e675d7_2554_4f18_830b_2762732560de;
        /// KernelTraceControl: event metadata.
        EVENT_METADATA = 0xbbccf6c1_6cd1_48c4_80ff_839482e37671;
        /// KernelTraceControl: system configuration.
        SYS_CONFIG_EX = 0x9b79ee91_b5fd_41c0_a243_4248e266e9d0;
        /// KernelTraceControl: WinSAT results.
        WIN_SAT = 0xed54dff8_c409_4cf6_bf83_05e1e61a09c4;
        /// KernelTraceControl: PerfTrack metadata.
        PERF_TRACK = 0xbf6ef1cb_89b5_490a_80ac_b180cfbcff0f;
    }

    /// Class GUIDs by hook-id group.
    pub const BY_GROUP: [Guid; 31] = [
        EVENT_TRACE,
        DISK_IO,
        PAGE_FAULT,
        PROCESS,
        FILE_IO,
        THREAD,
        TCP_IP,
        JOB,
        UDP_IP,
        REGISTRY,
        DEBUG_PRINT,
        SYSTEM_CONFIG,
        LAST_BRANCH,
        WNF,
        POOL,
        PERF_INFO,
        HEAP,
        OBJECT,
        POWER,
        MOD_BOUND,
        IMAGE,
        DPC,
        CACHE_MANAGER,
        CRIT_SEC,
        STACK_WALK,
        UMS,
        ALPC,
        SPLIT_IO,
        THREAD_POOL,
        HYPERVISOR,
        HYPERVISOR_X,
    ];
}
