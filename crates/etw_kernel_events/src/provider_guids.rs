//! Providers of events about the kernel.

use etw_event::{Guid, guid_from_name};

/// Microsoft-Windows-Kernel-Disk.
pub const DISK_PROVIDER: Guid = Guid::from_u128(0xc7bde69a_e1e0_4177_b6ef_283ad1525271);

/// Microsoft-Windows-Kernel-File.
pub const FILE_PROVIDER: Guid = Guid::from_u128(0xedd08927_9cc4_4e65_b970_c2560fb5c289);

/// Microsoft-Windows-Kernel-Memory.
pub const MEMORY_PROVIDER: Guid = Guid::from_u128(0xd1d93ef7_e1f2_4f45_9943_03d245fe6c00);

/// Microsoft-Windows-Kernel-Network.
pub const NETWORK_PROVIDER: Guid = Guid::from_u128(0x7dd42a49_5329_4832_8dfd_43d979153a88);

/// Microsoft-Windows-Kernel-Process.
pub const PROCESS_PROVIDER: Guid = Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);

/// Name of the provider whose TraceLogging events tell what Windows has no event for; recordings of Linux have them.
pub const LINUX_PROVIDER: &str = "OpenETW.Linux";

/// Name of the provider whose TraceLogging events name functions of the kernel; recordings have them.
pub const SYMBOL_PROVIDER: &str = "OpenETW.Symbols";

/// Name of the provider whose TraceLogging events are those of the Linux kernel's tracepoints.
pub const TRACEPOINT_PROVIDER_NAME: &str = "Linux-Tracepoint";

/// Linux-Tracepoint: the GUID that is derived from the name.
pub const TRACEPOINT_PROVIDER: Guid = guid_from_name(TRACEPOINT_PROVIDER_NAME);
