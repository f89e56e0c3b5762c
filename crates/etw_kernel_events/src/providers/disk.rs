//! Microsoft-Windows-Kernel-Disk.

use crate::provider_guids::DISK_PROVIDER;
use etw_event::EventDescriptor;

use super::{analytic, manifest_event};

pub(super) const READ: EventDescriptor = analytic(10, 0, 0, 0, 0);
pub(super) const WRITE: EventDescriptor = analytic(11, 0, 0, 0, 0);
pub(super) const FLUSH: EventDescriptor = analytic(14, 0, 0, 0, 0);

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DiskEvent {
    /// From the disk.
    Read,
    /// To the disk.
    Write,
}

/// A disk has completed a read or a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// The direction.
    pub event: DiskEvent,
    /// The disk: on Linux, its major and minor number.
    pub disk_number: u32,
    /// Number of bytes.
    pub transfer_size: u32,
    /// Position on the disk in bytes.
    pub byte_offset: u64,
    /// Key of the file; 0 if unknown.
    pub file_object: u64,
    /// The request's key.
    pub irp: u64,
    /// Duration in ticks of the session's clock.
    pub response_time: u64,
}

manifest_event! {
    Disk, DISK_PROVIDER, |e| match e.event {
        DiskEvent::Read => READ,
        DiskEvent::Write => WRITE,
    };
    e.disk_number, 0_u32, e.transfer_size, 0_u32, e.byte_offset, e.file_object, e.irp, e.response_time,
}

/// A disk has written its cached data to the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskFlush {
    /// The disk.
    pub disk_number: u32,
    /// Duration in ticks of the session's clock.
    pub response_time: u64,
    /// The request's key.
    pub irp: u64,
}

manifest_event! { DiskFlush, DISK_PROVIDER, |e| FLUSH; e.disk_number, 0_u32, e.response_time, e.irp }

#[cfg(test)]
mod tests {
    use super::super::super::classes::testing::check_manifest;
    use super::*;

    #[test]
    fn fields_are_read_back() {
        for event in [DiskEvent::Read, DiskEvent::Write] {
            let disk = Disk {
                event,
                disk_number: 3,
                transfer_size: 4096,
                byte_offset: 0x12_3456_7000,
                file_object: 0xABC,
                irp: 0xFFFF_8881_0000_0040,
                response_time: 179_000,
            };
            check_manifest(
                &disk,
                &[
                    ("DiskNumber", "3"),
                    ("IrpFlags", "0x0"),
                    ("TransferSize", "4096"),
                    ("Reserved", "0"),
                    ("ByteOffset", "78187491328"),
                    ("FileObject", "0xabc"),
                    ("IORequestPacket", "0xffff888100000040"),
                    ("HighResResponseTime", "179000"),
                ],
            );
        }
        check_manifest(
            &DiskFlush { disk_number: 3, response_time: 5, irp: 0x40 },
            &[
                ("DiskNumber", "3"),
                ("IrpFlags", "0x0"),
                ("HighResResponseTime", "5"),
                ("IORequestPacket", "0x40"),
            ],
        );
    }
}
