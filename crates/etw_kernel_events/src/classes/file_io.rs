//! Class FileIo.
//!
//! An operation is recorded when it starts, and its end refers to it by `irp`. `file_object` is the key of an open file
//! (in Linux what a descriptor refers to), `file_key` that of the file itself; [`FileIoName`] has the name of either.

use super::field::Wide;
use super::layout;
use crate::ids::{self, Class, EventId};

/// The kind of event about a file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NameEvent {
    /// The name of a key.
    Name = 0,
    /// The file came into use.
    FileCreate = 32,
    /// The file is no longer used.
    FileDelete = 35,
    /// The file was in use when the session stopped.
    FileRundown = 36,
}

/// The name of a file (`FileIo_Name`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIoName<'a> {
    /// The kind of event.
    pub event: NameEvent,
    /// Key of the file or open file.
    pub file_object: u64,
    /// Path.
    pub file_name: &'a [u8],
}

layout! { FileIoName<'_>, version 3, |e| PerfInfo64 EventId::new(Class::FileIo, e.event as u8); e.file_object, Wide(e.file_name) }

/// The kind of event about a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MapEvent {
    /// A process maps a file.
    MapFile = 37,
    /// The mapping ends.
    UnmapFile = 38,
    /// It existed when the session started.
    DcStart = 39,
    /// It existed when the session stopped.
    DcEnd = 40,
}

/// A file in the memory of a process (`FileIo_V2_MapFile`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIoMap {
    /// The kind of event.
    pub event: MapEvent,
    /// Start address.
    pub base: u64,
    /// Key of the file.
    pub file_object: u64,
    /// Number of bytes.
    pub len_bytes: u64,
    /// The process.
    pub process_id: u32,
}

layout! {
    FileIoMap, version 2, |e| PerfInfo64 EventId::new(Class::FileIo, e.event as u8);
    e.base, e.file_object, 0_u64, e.len_bytes, e.process_id,
}

/// A file is opened or created (`FileIo_Create`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIoCreate<'a> {
    /// The operation's key.
    pub irp: u64,
    /// Key of the open file; 0 if it could not be opened.
    pub file_object: u64,
    /// The thread.
    pub thread_id: u32,
    /// Options.
    pub create_options: u32,
    /// `FILE_ATTRIBUTE_*`; 0 if none are known.
    pub file_attributes: u32,
    /// `FILE_SHARE_*`: 7, since files in Linux are shared for all access.
    pub share_access: u32,
    /// Path.
    pub open_path: &'a [u8],
}

layout! {
    FileIoCreate<'_>, version 3, |e| PerfInfo64 ids::FileIo::CREATE;
    e.irp, e.file_object, e.thread_id, e.create_options, e.file_attributes, e.share_access, Wide(e.open_path),
}

/// Operations without parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SimpleEvent {
    /// The last descriptor is closed.
    Cleanup = 65,
    /// Nothing refers to the open file any more.
    Close = 66,
    /// Cached data is written to the disk.
    Flush = 73,
}

/// An operation without parameters (`FileIo_SimpleOp`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIoSimple {
    /// The operation.
    pub event: SimpleEvent,
    /// The operation's key.
    pub irp: u64,
    /// Key of the open file.
    pub file_object: u64,
    /// Key of the file.
    pub file_key: u64,
    /// The thread.
    pub thread_id: u32,
}

layout! {
    FileIoSimple, version 3, |e| PerfInfo64 EventId::new(Class::FileIo, e.event as u8);
    e.irp, e.file_object, e.file_key, e.thread_id,
}

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReadWriteEvent {
    /// From the file.
    Read = 67,
    /// To the file.
    Write = 68,
}

/// A file is read or written (`FileIo_ReadWrite`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIoReadWrite {
    /// The direction.
    pub event: ReadWriteEvent,
    /// Position in the file in bytes.
    pub offset: u64,
    /// The operation's key.
    pub irp: u64,
    /// Key of the open file.
    pub file_object: u64,
    /// Key of the file.
    pub file_key: u64,
    /// The thread.
    pub thread_id: u32,
    /// Number of bytes.
    pub io_size: u32,
    /// Flags of the request; 0 if none are known.
    pub io_flags: u32,
}

layout! {
    FileIoReadWrite, version 3, |e| PerfInfo64 EventId::new(Class::FileIo, e.event as u8);
    e.offset, e.irp, e.file_object, e.file_key, e.thread_id, e.io_size, e.io_flags,
}

/// Operations with a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum InfoEvent {
    /// Information is set: size, times, permissions.
    SetInfo = 69,
    /// The file is deleted.
    Delete = 70,
    /// The file is renamed.
    Rename = 71,
    /// Information is queried.
    QueryInfo = 74,
    /// A control operation of the file system.
    FsControl = 75,
}

/// An operation with a parameter (`FileIo_Info`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIoInfo {
    /// The operation.
    pub event: InfoEvent,
    /// The operation's key.
    pub irp: u64,
    /// Key of the open file.
    pub file_object: u64,
    /// Key of the file.
    pub file_key: u64,
    /// The parameter; the new size for [`info::END_OF_FILE`](super::info::END_OF_FILE).
    pub extra_info: u64,
    /// The thread.
    pub thread_id: u32,
    /// The class of information: one of [`info`](super::info).
    pub info_class: u32,
}

layout! {
    FileIoInfo, version 3, |e| PerfInfo64 EventId::new(Class::FileIo, e.event as u8);
    e.irp, e.file_object, e.file_key, e.extra_info, e.thread_id, e.info_class,
}

/// Operations on directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DirEnumEvent {
    /// Its entries are read.
    DirEnum = 72,
    /// It is watched for changes.
    DirNotify = 77,
}

/// A directory is read or watched (`FileIo_DirEnum`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIoDirEnum<'a> {
    /// The operation.
    pub event: DirEnumEvent,
    /// The operation's key.
    pub irp: u64,
    /// Key of the open directory.
    pub file_object: u64,
    /// Key of the directory.
    pub file_key: u64,
    /// The thread.
    pub thread_id: u32,
    /// Size of the buffer in bytes.
    pub len_bytes: u32,
    /// One of [`info`](super::info).
    pub info_class: u32,
    /// Position in the directory.
    pub file_index: u32,
    /// Pattern of the requested names; empty for all.
    pub file_name: &'a [u8],
}

layout! {
    FileIoDirEnum<'_>, version 3, |e| PerfInfo64 EventId::new(Class::FileIo, e.event as u8);
    e.irp, e.file_object, e.file_key, e.thread_id, e.len_bytes, e.info_class, e.file_index, Wide(e.file_name),
}

/// Operations on names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PathEvent {
    /// A name is deleted.
    Delete = 79,
    /// A name is changed.
    Rename = 80,
    /// A name is added.
    SetLink = 81,
}

/// An operation on a name (`FileIo_PathOperation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIoPathOperation<'a> {
    /// The operation.
    pub event: PathEvent,
    /// The operation's key.
    pub irp: u64,
    /// Key of the open file.
    pub file_object: u64,
    /// Key of the file.
    pub file_key: u64,
    /// The parameter; 0 if there is none.
    pub extra_info: u64,
    /// The thread.
    pub thread_id: u32,
    /// One of [`info`](super::info).
    pub info_class: u32,
    /// The name that is deleted, or the new one.
    pub file_name: &'a [u8],
}

layout! {
    FileIoPathOperation<'_>, version 3, |e| PerfInfo64 EventId::new(Class::FileIo, e.event as u8);
    e.irp, e.file_object, e.file_key, e.extra_info, e.thread_id, e.info_class, Wide(e.file_name),
}

/// An operation has ended (`FileIo_OpEnd`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIoOperationEnd {
    /// The operation's key.
    pub irp: u64,
    /// Result: the number of bytes for reads and writes.
    pub extra_info: u64,
    /// Status.
    pub status: u32,
}

layout! { FileIoOperationEnd, version 3, |e| PerfInfo64 ids::FileIo::OPERATION_END; e.irp, e.extra_info, e.status }

#[cfg(test)]
mod tests {
    use super::super::testing::check;
    use super::*;

    const KEYS: [(&str, &str); 3] = [("IrpPtr", "0x1"), ("FileObject", "0x2"), ("FileKey", "0x3")];

    /// The keys, then further fields.
    fn behind_keys<'a>(fields: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        [&KEYS, fields].concat()
    }

    #[test]
    fn names_and_mappings_are_read_back() {
        for event in [NameEvent::Name, NameEvent::FileCreate, NameEvent::FileDelete, NameEvent::FileRundown] {
            let name = FileIoName { event, file_object: 0xFFFF_8881_0000_0001, file_name: b"/etc/passwd" };
            check(&name, &[("FileObject", "0xffff888100000001"), ("FileName", "/etc/passwd")]);
        }
        for event in [MapEvent::MapFile, MapEvent::UnmapFile, MapEvent::DcStart, MapEvent::DcEnd] {
            let map = FileIoMap { event, base: 0x1000, file_object: 2, len_bytes: 0x3000, process_id: 4 };
            check(
                &map,
                &[
                    ("ViewBase", "0x1000"),
                    ("FileObject", "0x2"),
                    ("MiscInfo", "0x0"),
                    ("ViewSize", "0x3000"),
                    ("ProcessId", "4"),
                ],
            );
        }
    }

    #[test]
    fn operations_are_read_back() {
        let create = FileIoCreate {
            irp: 1,
            file_object: 2,
            thread_id: 4,
            create_options: 0x0100_0060,
            file_attributes: 0x80,
            share_access: 7,
            open_path: b"/tmp/x",
        };
        check(
            &create,
            &[
                ("IrpPtr", "0x1"),
                ("FileObject", "0x2"),
                ("TTID", "4"),
                ("CreateOptions", "16777312"),
                ("FileAttributes", "128"),
                ("ShareAccess", "7"),
                ("OpenPath", "/tmp/x"),
            ],
        );
        for event in [SimpleEvent::Cleanup, SimpleEvent::Close, SimpleEvent::Flush] {
            let simple = FileIoSimple { event, irp: 1, file_object: 2, file_key: 3, thread_id: 4 };
            check(&simple, &behind_keys(&[("TTID", "4")]));
        }
        for event in [ReadWriteEvent::Read, ReadWriteEvent::Write] {
            let transfer = FileIoReadWrite {
                event,
                offset: 1 << 40,
                irp: 1,
                file_object: 2,
                file_key: 3,
                thread_id: 4,
                io_size: 5,
                io_flags: 6,
            };
            let behind = behind_keys(&[("TTID", "4"), ("IoSize", "5"), ("IoFlags", "6")]);
            check(&transfer, &[&[("Offset", "1099511627776")], &behind[..]].concat());
        }
        for event in [
            InfoEvent::SetInfo,
            InfoEvent::Delete,
            InfoEvent::Rename,
            InfoEvent::QueryInfo,
            InfoEvent::FsControl,
        ] {
            let info = FileIoInfo {
                event,
                irp: 1,
                file_object: 2,
                file_key: 3,
                extra_info: 0x99,
                thread_id: 4,
                info_class: 20,
            };
            check(&info, &behind_keys(&[("ExtraInfo", "0x99"), ("TTID", "4"), ("InfoClass", "20")]));
        }
        for event in [DirEnumEvent::DirEnum, DirEnumEvent::DirNotify] {
            let read = FileIoDirEnum {
                event,
                irp: 1,
                file_object: 2,
                file_key: 3,
                thread_id: 4,
                len_bytes: 32768,
                info_class: 37,
                file_index: 7,
                file_name: b"*",
            };
            check(
                &read,
                &behind_keys(&[
                    ("TTID", "4"),
                    ("Length", "32768"),
                    ("InfoClass", "37"),
                    ("FileIndex", "7"),
                    ("FileName", "*"),
                ]),
            );
        }
        for event in [PathEvent::Delete, PathEvent::Rename, PathEvent::SetLink] {
            let operation = FileIoPathOperation {
                event,
                irp: 1,
                file_object: 2,
                file_key: 3,
                extra_info: 0,
                thread_id: 4,
                info_class: 10,
                file_name: b"/tmp/y",
            };
            check(
                &operation,
                &behind_keys(&[
                    ("ExtraInfo", "0x0"),
                    ("TTID", "4"),
                    ("InfoClass", "10"),
                    ("FileName", "/tmp/y"),
                ]),
            );
        }
        let end = FileIoOperationEnd { irp: 1, extra_info: 4096, status: 0xC000_0034 };
        check(&end, &[("IrpPtr", "0x1"), ("ExtraInfo", "0x1000"), ("NtStatus", "3221225524")]);
    }
}
