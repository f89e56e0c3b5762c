//! The kernel's manifest providers: the events of Microsoft-Windows-Kernel-Process and similar providers, as records.
//!
//! Ids, versions, levels, keywords and layouts are those that Windows 10 1903 to Windows 11 23H2 register.
//! [`KernelProvider::ALL`] lists the events. As on Windows, the channel is Analytic (16), whose bit is set in the
//! keyword.
//!
//! ```
//! use etw_kernel_events::providers::{KernelProvider, refusal};
//!
//! assert!(KernelProvider::ALL.iter().any(|it| it.name == "Microsoft-Windows-Kernel-Process"));
//! assert!(refusal("Microsoft-Windows-Kernel-Registry").is_some());
//! assert!(refusal("SystemRegistryProvider").is_some() && refusal("SystemProcessProvider").is_none());
//! ```

mod disk;
mod file;
mod memory;
mod network;
mod process;
mod same;

use etw_event::{EventDescriptor, Guid, Keyword, Level, Opcode};

use crate::system_providers::SystemProvider;
use crate::{Hook, Hooks};

pub use crate::classes::ManifestEvent;
pub use crate::provider_guids::{
    DISK_PROVIDER, FILE_PROVIDER, LINUX_PROVIDER, MEMORY_PROVIDER, NETWORK_PROVIDER, PROCESS_PROVIDER,
    SYMBOL_PROVIDER, TRACEPOINT_PROVIDER, TRACEPOINT_PROVIDER_NAME,
};

pub use disk::{Disk, DiskEvent, DiskFlush};
pub use file::NAME_CREATE as FILE_NAME_CREATE;
pub use memory::{MemInfo, PRIORITY_LEVELS};
pub use process::{ImageMap, ImageMapEvent, Process, ProcessEvent, ProcessStop, Thread, ThreadEvent};
pub use same::SameFields;

/// A provider of the kernel, and the events of it that Linux supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelProvider {
    /// GUID.
    pub guid: Guid,
    /// Name.
    pub name: &'static str,
    /// The supported events, each with the hooks that it needs.
    pub events: &'static [(EventDescriptor, Hooks)],
}

const PROCESS: Hooks = Hooks::from_list(&[Hook::Process]);
const IMAGE: Hooks = Hooks::from_list(&[Hook::Image]);
const DISK: Hooks = Hooks::from_list(&[Hook::Disk]);
const NETWORK: Hooks = Hooks::from_list(&[Hook::Network]);
const FILE: Hooks = Hooks::from_list(crate::flags::FILES);

impl KernelProvider {
    /// All supported providers.
    pub const ALL: &'static [KernelProvider] = &[
        KernelProvider {
            guid: PROCESS_PROVIDER,
            name: "Microsoft-Windows-Kernel-Process",
            events: &[
                (process::START, PROCESS),
                (process::STOP, PROCESS),
                (process::THREAD_START, PROCESS),
                (process::THREAD_STOP, PROCESS),
                (process::IMAGE_LOAD, IMAGE),
                (process::IMAGE_UNLOAD, IMAGE),
                (process::RUNDOWN, PROCESS),
            ],
        },
        KernelProvider {
            guid: NETWORK_PROVIDER,
            name: "Microsoft-Windows-Kernel-Network",
            events: &[
                (network::tcp(10), NETWORK),
                (network::tcp(11), NETWORK),
                (network::tcp(12), NETWORK),
                (network::tcp(13), NETWORK),
                (network::tcp(14), NETWORK),
                (network::tcp(15), NETWORK),
                (network::tcp(16), NETWORK),
                (network::tcp(17), NETWORK),
                (network::tcp(26), NETWORK),
                (network::tcp(27), NETWORK),
                (network::tcp(28), NETWORK),
                (network::tcp(29), NETWORK),
                (network::tcp(30), NETWORK),
                (network::tcp(31), NETWORK),
                (network::tcp(32), NETWORK),
                (network::udp(10), NETWORK),
                (network::udp(11), NETWORK),
                (network::udp(17), NETWORK),
                (network::udp(26), NETWORK),
                (network::udp(27), NETWORK),
            ],
        },
        KernelProvider {
            guid: DISK_PROVIDER,
            name: "Microsoft-Windows-Kernel-Disk",
            events: &[(disk::READ, DISK), (disk::WRITE, DISK), (disk::FLUSH, DISK)],
        },
        KernelProvider {
            guid: FILE_PROVIDER,
            name: "Microsoft-Windows-Kernel-File",
            events: &[
                (file::NAME_CREATE, FILE),
                (file::CREATE, FILE),
                (file::CLEANUP, FILE),
                (file::CLOSE, FILE),
                (file::READ, FILE),
                (file::WRITE, FILE),
                (file::SET_INFORMATION, FILE),
                (file::SET_DELETE, FILE),
                (file::RENAME, FILE),
                (file::DIR_ENUM, FILE),
                (file::FLUSH, FILE),
                (file::QUERY_INFORMATION, FILE),
                (file::OPERATION_END, FILE),
                (file::DELETE_PATH, FILE),
                (file::RENAME_PATH, FILE),
                (file::SET_LINK_PATH, FILE),
                (file::SET_LINK, FILE),
                (file::CREATE_NEW_FILE, FILE),
            ],
        },
        KernelProvider {
            guid: MEMORY_PROVIDER,
            name: "Microsoft-Windows-Kernel-Memory",
            events: &[(memory::MEM_INFO, Hooks::NONE)],
        },
    ];

    /// The provider of the Linux kernel's tracepoints. Which events it has depends on the running kernel, so none is
    /// listed; they describe themselves.
    pub const TRACEPOINTS: &'static KernelProvider =
        &KernelProvider { guid: TRACEPOINT_PROVIDER, name: TRACEPOINT_PROVIDER_NAME, events: &[] };

    /// Returns the provider with this GUID: one of [`KernelProvider::ALL`], or [`KernelProvider::TRACEPOINTS`].
    pub fn from_guid(guid: Guid) -> Option<&'static KernelProvider> {
        let all = KernelProvider::ALL.iter().chain([KernelProvider::TRACEPOINTS]);
        all.into_iter().find(|provider| provider.guid == guid)
    }
}

/// Returns why Linux does not support a provider of the Windows kernel with this name; `None` for supported providers
/// and for those that are not the kernel's. Windows supports all.
pub fn refusal(name: &str) -> Option<&'static str> {
    if cfg!(windows) {
        return None;
    }
    let is_given = KernelProvider::ALL.iter().any(|provider| provider.name == name);
    if let Some(system) = SystemProvider::ALL.iter().find(|provider| provider.name == name) {
        return (!system.is_supported()).then_some("Linux has no such events, or they are not captured yet");
    }
    match name.strip_prefix("Microsoft-Windows-Kernel-") {
        _ if is_given => None,
        Some("Registry") => Some("Linux has no registry"),
        Some(_) => Some("it is of the Windows kernel, and Linux has no counterpart for it"),
        None => None,
    }
}

/// Returns the descriptor of an informational event in the channel Analytic.
const fn analytic(id: u16, version: u8, task: u16, opcode: u8, keywords: u64) -> EventDescriptor {
    EventDescriptor {
        id,
        version,
        channel: 16,
        level: Level::INFORMATION,
        opcode: Opcode(opcode),
        task,
        keyword: Keyword(keywords | 1 << 63),
    }
}

/// Implements [`ManifestEvent`] for a structure: its provider, its event, and the fields of its payload.
macro_rules! manifest_event {
    ($type:ty, $provider:expr, |$event:ident| $descriptor:expr; $($value:expr),* $(,)?) => {
        impl $crate::classes::ManifestEvent for $type {
            fn provider(&self) -> ::etw_event::Guid {
                $provider
            }

            fn descriptor(&self) -> ::etw_event::EventDescriptor {
                let $event = self;
                let _ = $event;
                $descriptor
            }

            fn put_payload(&self, to: &mut $crate::classes::Payload<'_>) {
                let $event = self;
                $(to.put($value);)*
            }
        }
    };
}
use manifest_event;

#[cfg(test)]
mod tests {
    use etw_schema::builtin::BuiltIn;

    use super::*;

    #[test]
    fn descriptors_are_those_of_the_schemas() {
        for provider in KernelProvider::ALL {
            let known = BuiltIn.provider(&provider.guid).unwrap();
            assert_eq!(&*known.info.name, provider.name);
            for (event, _) in provider.events {
                let is_it = |d: &EventDescriptor| (d.id, d.version) == (event.id, event.version);
                let schema = known.events.iter().map(|event| event.descriptor).find(is_it).unwrap();
                let keyword = Keyword(event.keyword.0 & !(1 << 63));
                assert_eq!(EventDescriptor { channel: 0, keyword, ..*event }, schema);
            }
        }
    }
}
