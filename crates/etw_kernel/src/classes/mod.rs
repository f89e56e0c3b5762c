//! The kernel's event classes: plain values become records as the NT kernel logger writes them on 64-bit Windows.
//!
//! Each event is a structure with the fields of its class. [`RecordBuffer::put`] writes it, with the header that
//! Windows uses for it: `SYSTEM_TRACE_HEADER`, which names thread and process, for what is rare;
//! `PERFINFO_TRACE_HEADER`, which has the time only, for what is frequent.
//! Which it is was observed in the fixtures net.4.5.2.x64, ShutdownPerfDiagLogger and diaghub.kernel.1. Events that no
//! fixture has (context switches, interrupts, system calls, soft faults, file I/O) carry their thread or process in the
//! payload, or belong to the processor of their buffer; they take the `PERFINFO_TRACE_HEADER`.
//!
//! [`linux`] says what values of Linux mean in these classes.
//!
//! Texts are bytes, since names in Linux need not be UTF-8; what is not becomes U+FFFD in UTF-16. A text of
//! [`MAX_TEXT_UNITS`] units or more is cut, and ends in an ellipsis then.

mod buffer;
mod disk_io;
mod event_trace;
pub(crate) mod field;
mod file_io;
#[cfg(test)]
mod fixtures;
mod image;
pub mod linux;
mod network;
mod page_fault;
mod perf_info;
mod process;
mod system_config;
#[cfg(test)]
pub(crate) mod testing;
mod thread;

pub use buffer::{ManifestOwner, Payload, RecordBuffer, Stamp};
pub use disk_io::{DiskIo, DiskIoFlush, DiskIoInit, DiskOperation, DiskTransfer};
pub use event_trace::{BuildInfo, GroupMasks, GroupMasksEvent, RundownComplete};
pub use field::{Field, MAX_TEXT_UNITS};
pub use file_io::{
    DirEnumEvent, FileIoCreate, FileIoDirEnum, FileIoInfo, FileIoMap, FileIoName, FileIoOperationEnd,
    FileIoPathOperation, FileIoReadWrite, FileIoSimple, InfoEvent, MapEvent, NameEvent, PathEvent,
    ReadWriteEvent, SimpleEvent,
};
pub use image::{BuildId, Image, ImageDebugId, ImageEvent, KernelBase};
pub use network::{
    Endpoints, NetworkFail, Protocol, TcpConnect, TcpConnectEvent, TcpEvent, TcpIp, TcpSend, UdpEvent, UdpIp,
};
pub use page_fault::{FaultKind, HardFault, PageFault, VirtualAlloc, VirtualAllocEvent};
pub use perf_info::{
    Dpc, DpcKind, Isr, MAX_FRAMES, SampledProfile, SampledProfileInterval, SampledProfileIntervalEvent,
    StackWalk, SysCallEnter, SysCallExit,
};
pub use process::{Process, ProcessEvent, ProcessTerminate, STILL_ACTIVE};
pub use system_config::{Cpu, Irq, LogDisk, Nic, PhyDisk, Platform, ProcGroup, Processor};
pub use thread::{CSwitch, ReadyThread, Thread, ThreadEvent, ThreadSetName};

use etw_event::{EventDescriptor, Guid, HeaderKind, HookId};

/// An event of one of the kernel's classes.
pub trait KernelEvent {
    /// Version of the class.
    const VERSION: u8;

    /// The event's group and type.
    fn hook_id(&self) -> HookId;

    /// The kind of header.
    fn kind(&self) -> HeaderKind;

    /// The class, for headers that name it in full.
    fn class(&self) -> Guid {
        self.hook_id().class_guid()
    }

    /// Puts the fields, one behind the other.
    fn put_payload(&self, to: &mut Payload<'_>);
}

/// An event of one of the kernel's manifest providers ([`providers`](crate::providers)).
pub trait ManifestEvent {
    /// Returns the provider's GUID.
    fn provider(&self) -> Guid;

    /// Returns the event's descriptor.
    fn descriptor(&self) -> EventDescriptor;

    /// Writes the fields one after the other.
    fn put_payload(&self, to: &mut Payload<'_>);

    /// Returns whether the event describes what its process does. The name of a file does not: it is written for
    /// whichever process uses the file first.
    fn is_of_process(&self) -> bool {
        true
    }
}

/// Says of a structure which event it is, and what its payload consists of. The kind of header may depend on the event.
macro_rules! layout {
    ($type:ty, version $version:literal, |$event:ident| kind = $kind:expr, $hook:expr; $($value:expr),* $(,)?) => {
        impl $crate::classes::KernelEvent for $type {
            const VERSION: u8 = $version;

            fn hook_id(&self) -> ::etw_event::HookId {
                let $event = self;
                let _ = $event;
                ::etw_event::HookId($hook)
            }

            fn kind(&self) -> ::etw_event::HeaderKind {
                #[allow(unused_imports, reason = "each layout names one or two kinds")]
                use ::etw_event::HeaderKind::{Compact64, PerfInfo64, System64};
                let $event = self;
                let _ = $event;
                $kind
            }

            #[inline]
            fn put_payload(&self, to: &mut $crate::classes::Payload<'_>) {
                let ($event, _) = (self, &to);
                let _ = $event;
                $($crate::classes::Field::put(&$value, to);)*
            }
        }
    };
    ($type:ty, version $version:literal, |$event:ident| $kind:ident $hook:expr $(; $($value:expr),* $(,)?)?) => {
        $crate::classes::layout! {
            $type, version $version, |$event| kind = $kind, $hook; $($($value),*)?
        }
    };
}
use layout;
