//! The kernel's event classes, which turn plain values into records as the NT kernel logger writes them on 64-bit
//! Windows.
//!
//! Each event is a structure with the fields of its class. [`RecordBuffer::put`] writes it with the header that Windows
//! uses for it: `SYSTEM_TRACE_HEADER`, which has thread and process, for rare events; `PERFINFO_TRACE_HEADER`, which
//! has the time only, for frequent ones. The kinds were observed in the fixtures net.4.5.2.x64, ShutdownPerfDiagLogger
//! and diaghub.kernel.1. Events without a fixture (context switches, interrupts, system calls, soft faults, file I/O)
//! have their thread or process in the payload, or belong to the processor of their buffer; they use
//! `PERFINFO_TRACE_HEADER`.
//!
//! Texts are bytes, since names in Linux need not be UTF-8; invalid UTF-8 becomes U+FFFD. A text of [`MAX_TEXT_UNITS`]
//! units or more is cut and ends in an ellipsis.
//!
//! ```
//! use etw_event::Ticks;
//! use etw_kernel_events::classes::{ProcessTerminate, RecordBuffer, Stamp};
//!
//! let mut buffer = RecordBuffer::new();
//! buffer.put(&Stamp::new(Ticks(5), 7, 8), &ProcessTerminate { process_id: 7 });
//! assert_eq!(buffer.records().count(), 1);
//! ```

mod buffer;
mod disk_io;
mod event_trace;
pub(crate) mod field;
mod file_io;
#[cfg(test)]
mod fixtures;
mod image;
mod network;
mod page_fault;
mod perf_info;
mod process;
mod system_config;
#[cfg(test)]
pub(crate) mod testing;
mod thread;
mod values;

pub use buffer::{ManifestOwner, Payload, RecordBuffer, Stamp, TIMER_RESOLUTION_NANOS};
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
    Endpoints, EndpointsFail, NetworkFail, Protocol, TcpConnect, TcpConnectEvent, TcpEvent, TcpIp, TcpSend,
    UdpEvent, UdpIp,
};
pub use page_fault::{FaultKind, HardFault, PageFault, VirtualAlloc, VirtualAllocEvent};
pub use perf_info::{
    Dpc, DpcKind, Isr, MAX_FRAMES, SampledProfile, SampledProfileInterval, SampledProfileIntervalEvent,
    StackWalk, SysCallEnter, SysCallExit,
};
pub use process::{Process, ProcessEvent, ProcessTerminate, STILL_ACTIVE};
pub use system_config::{Cpu, Irq, LogDisk, Nic, PhyDisk, Platform, ProcGroup, Processor};
pub use thread::{CSwitch, ReadyThread, Thread, ThreadEvent, ThreadSetName};
pub use values::{info, state, wait};

use etw_event::{EventDescriptor, Guid, HeaderKind, HookId};

/// An event of one of the kernel's classes.
pub trait KernelEvent {
    /// Version of the class.
    const VERSION: u8;

    /// Returns the event's group and type.
    fn hook_id(&self) -> HookId;

    /// Returns the kind of header.
    fn kind(&self) -> HeaderKind;

    /// Returns the GUID of the class, for headers that have it.
    fn class(&self) -> Guid {
        self.hook_id().class_guid()
    }

    /// Writes the fields one after the other.
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

/// Implements [`KernelEvent`] for a structure: its event and the fields of its payload. The kind of header may depend
/// on the event.
macro_rules! layout {
    ($type:ty, version $version:literal, |$event:ident| kind = $kind:expr, $hook:expr; $($value:expr),* $(,)?) => {
        impl $crate::classes::KernelEvent for $type {
            const VERSION: u8 = $version;

            fn hook_id(&self) -> ::etw_event::HookId {
                let $event = self;
                let _ = $event;
                $crate::ids::EventId::hook_id($hook)
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
