//! Addresses of the kernel, and the size of the system's pointers.

use etw_event::PointerSize;
use etw_kernel_events::ids::{Class, EventId};

/// The lowest kernel address with pointers of 8 bytes.
pub const KERNEL_64: u64 = PointerSize::Eight.kernel_start();
/// The lowest kernel address with pointers of 4 bytes.
pub(crate) const KERNEL_32: u64 = PointerSize::Four.kernel_start();

/// Returns whether an event has the system's pointers. Those that programs write, such as the events of a merge, have the
/// program's.
pub fn has_pointers_of_system(id: EventId) -> bool {
    matches!(id.class(), Class::StackWalk | Class::PerfInfo | Class::Thread)
}
