//! Class DiskIo.

use super::layout;
use crate::ids::{self, Class, EventId};

/// A kind of disk request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DiskOperation {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Write cached data to the medium.
    Flush,
}

/// A request is sent to a disk (`DiskIo_TypeGroup2`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskIoInit {
    /// The kind of request.
    pub operation: DiskOperation,
    /// The request's key, which its end repeats.
    pub irp: u64,
    /// The thread that sent it.
    pub issuing_thread_id: u32,
}

layout! {
    DiskIoInit, version 3, |e| System64 match e.operation {
        DiskOperation::Read => ids::DiskIo::READ_INIT,
        DiskOperation::Write => ids::DiskIo::WRITE_INIT,
        DiskOperation::Flush => ids::DiskIo::FLUSH_INIT,
    };
    e.irp, e.issuing_thread_id,
}

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DiskTransfer {
    /// From the disk.
    Read = 10,
    /// To the disk.
    Write = 11,
}

/// A disk has completed a read or a write (`DiskIo_TypeGroup1`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskIo {
    /// The direction.
    pub transfer: DiskTransfer,
    /// The disk: on Linux, its major and minor number.
    pub disk_number: u32,
    /// `IRP_*` flags: 2 no cache, 0x40 synchronous paging, 0x20000 …; 0 if none are known.
    pub irp_flags: u32,
    /// Number of bytes.
    pub transfer_size: u32,
    /// Position on the disk in bytes.
    pub byte_offset: u64,
    /// Key of the file; 0 if unknown.
    pub file_object: u64,
    /// The request's key, as at its start.
    pub irp: u64,
    /// Duration in ticks of the session's clock.
    pub response_time: u64,
    /// The thread that sent the request.
    pub issuing_thread_id: u32,
}

layout! {
    DiskIo, version 3, |e| PerfInfo64 EventId::new(Class::DiskIo, e.transfer as u8);
    e.disk_number, e.irp_flags, e.transfer_size, 0_u32, e.byte_offset, e.file_object, e.irp, e.response_time,
    e.issuing_thread_id,
}

/// A disk has written its cached data to the medium (`DiskIo_TypeGroup3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskIoFlush {
    /// The disk.
    pub disk_number: u32,
    /// As in [`DiskIo`].
    pub irp_flags: u32,
    /// Duration in ticks of the session's clock.
    pub response_time: u64,
    /// The request's key.
    pub irp: u64,
    /// The thread that sent the request.
    pub issuing_thread_id: u32,
}

layout! {
    DiskIoFlush, version 3, |e| PerfInfo64 ids::DiskIo::FLUSH_BUFFERS;
    e.disk_number, e.irp_flags, e.response_time, e.irp, e.issuing_thread_id,
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;
    use super::*;

    #[test]
    fn fields_are_read_back() {
        for operation in [DiskOperation::Read, DiskOperation::Write, DiskOperation::Flush] {
            let init = DiskIoInit { operation, irp: 0xFFFF_8881_0000_0040, issuing_thread_id: 9 };
            check(&init, &[("Irp", "0xffff888100000040"), ("IssuingThreadId", "9")]);
        }
        for transfer in [DiskTransfer::Read, DiskTransfer::Write] {
            let done = DiskIo {
                transfer,
                disk_number: 3,
                irp_flags: 0x43,
                transfer_size: 4096,
                byte_offset: 0x12_3456_7000,
                file_object: 0xABC,
                irp: 0xFFFF_8881_0000_0040,
                response_time: 179_000,
                issuing_thread_id: 9,
            };
            check(
                &done,
                &[
                    ("DiskNumber", "3"),
                    ("IrpFlags", "0x43"),
                    ("TransferSize", "4096"),
                    ("Reserved", "0"),
                    ("ByteOffset", "78187491328"),
                    ("FileObject", "0xabc"),
                    ("Irp", "0xffff888100000040"),
                    ("HighResResponseTime", "179000"),
                    ("IssuingThreadId", "9"),
                ],
            );
        }
        let flush =
            DiskIoFlush { disk_number: 3, irp_flags: 0, response_time: 5, irp: 0x40, issuing_thread_id: 9 };
        check(
            &flush,
            &[
                ("DiskNumber", "3"),
                ("IrpFlags", "0x0"),
                ("HighResResponseTime", "5"),
                ("Irp", "0x40"),
                ("IssuingThreadId", "9"),
            ],
        );
    }
}
