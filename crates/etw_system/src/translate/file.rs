//! Class FileIo.

use std::collections::{HashMap, VecDeque};

use etw_capture::linux;
use etw_capture::records::{File, FileAct, FileBegin, FileEnd, FilePaths};
use etw_kernel_events::EnableFlags;
use etw_kernel_events::classes::info;
use etw_kernel_events::classes::{
    DirEnumEvent, FileIoCreate, FileIoDirEnum, FileIoInfo, FileIoName, FileIoOperationEnd,
    FileIoPathOperation, FileIoReadWrite, FileIoSimple, InfoEvent, NameEvent, PathEvent, ReadWriteEvent,
    SimpleEvent, Stamp,
};
use etw_kernel_events::providers::SameFields;

use super::counted::Counted;
use crate::wants::{FILE_OPERATIONS, names_files};

/// Maximum number of file names kept; the kernel's side has the same limit.
const NAMES_MOST: usize = 65_536;

/// Files are shared for reading, writing and deleting.
const SHARED_FOR_ALL: u32 = 7;
/// `FILE_ATTRIBUTE_DIRECTORY`, `FILE_ATTRIBUTE_NORMAL`.
const DIRECTORY: u32 = 0x10;
const NORMAL: u32 = 0x80;
/// `CreateOptions` of a directory and of another file that must not exist yet.
const NEW_DIRECTORY: u32 = 0x0200_0001;
const NEW_FILE: u32 = 0x0200_0040;

/// The names of files by their keys, shared by all sessions.
#[derive(Debug, Default)]
pub(crate) struct Files {
    names: HashMap<u64, Box<[u8]>>,
    /// The keys, oldest first.
    order: VecDeque<u64>,
    path: Vec<u8>,
    second_path: Vec<u8>,
}

impl Files {
    /// Processes an event. Must be called once it has been translated for all sessions.
    pub(super) fn remember(&mut self, file: &File<'_>) {
        self.path.clear();
        match file {
            File::Name(name) => {
                name.put_path(&mut self.path);
                self.name(name.key);
            }
            File::Paths(told) if has_key(told.act) => {
                told.put_path(&mut self.path);
                self.name(key_of(&self.path));
            }
            File::Paths(_) | File::Begin(_) | File::End(_) => {}
        }
    }

    /// Assigns the name in `path` to a key.
    fn name(&mut self, key: u64) {
        let known = self.names.get_mut(&key);
        let is_known = known.is_some();
        match known {
            Some(known) if **known == *self.path => return,
            Some(known) => *known = self.path.as_slice().into(),
            None => drop(self.names.insert(key, self.path.as_slice().into())),
        }
        if is_known {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > NAMES_MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
        }
    }

    /// Writes the records of an event for a session with these flags.
    pub(super) fn put(
        &mut self,
        file: &File<'_>,
        flags: EnableFlags,
        stamp: &Stamp,
        records: &mut Counted<'_>,
    ) {
        let has_operations = flags.intersects(FILE_OPERATIONS);
        let has_ends = flags.contains(EnableFlags::FILE_IO);
        match file {
            File::Name(name) if names_files(flags) => {
                self.path.clear();
                name.put_path(&mut self.path);
                records.put(stamp, &named(NameEvent::FileCreate, name.key, &self.path));
            }
            File::Begin(told) if has_operations => put_begin(told, stamp, records),
            File::Paths(told) if has_operations => self.put_paths(told, stamp, records),
            File::End(told) if has_operations => put_end(told, has_ends, stamp, records),
            File::Name(_) | File::Begin(_) | File::Paths(_) | File::End(_) => {}
        }
    }

    fn put_paths(&mut self, told: &FilePaths<'_>, stamp: &Stamp, records: &mut Counted<'_>) {
        let (irp, thread_id, file_object) = (told.operation, stamp.thread_id, 0);
        self.path.clear();
        told.put_path(&mut self.path);
        self.second_path.clear();
        told.put_second_path(&mut self.second_path);
        let file_key = key_of(&self.path);
        if has_key(told.act) && !self.names.contains_key(&file_key) {
            records.put(stamp, &named(NameEvent::Name, file_key, &self.path));
        }
        let extra_info = told.parameter;
        let create = |create_options, file_attributes| FileIoCreate {
            irp,
            file_object: irp,
            thread_id,
            create_options,
            file_attributes,
            share_access: SHARED_FOR_ALL,
            open_path: &self.path,
        };
        let of_file = |event, info_class| FileIoInfo {
            event,
            irp,
            file_object,
            file_key,
            extra_info,
            thread_id,
            info_class,
        };
        let mut put_on_path = |event, info_class, file_name| {
            let info = of_file(InfoEvent::SetInfo, info_class);
            records.put_manifest(stamp, &SameFields::beside(&info, event));
            let operation = FileIoPathOperation {
                event,
                irp,
                file_object,
                file_key,
                extra_info,
                thread_id,
                info_class,
                file_name,
            };
            records.put(stamp, &operation);
        };
        match told.act {
            FileAct::Open => records.put(stamp, &create(linux::create_options(extra_info as u32), NORMAL)),
            FileAct::MakeDirectory => records.put(stamp, &create(NEW_DIRECTORY, DIRECTORY)),
            FileAct::MakeNode => records.put(stamp, &create(NEW_FILE, NORMAL)),
            FileAct::MadeNew => {
                let options = linux::create_options(extra_info as u32);
                let attributes = if options == NEW_DIRECTORY { DIRECTORY } else { NORMAL };
                records.put_manifest(stamp, &SameFields::new_file(&create(options, attributes)));
            }
            FileAct::Delete => put_on_path(PathEvent::Delete, info::DISPOSITION, &self.path),
            FileAct::Rename => put_on_path(PathEvent::Rename, info::RENAME, &self.second_path),
            FileAct::AddLink => put_on_path(PathEvent::SetLink, info::LINK, &self.second_path),
            FileAct::SetSize => records.put(stamp, &of_file(InfoEvent::SetInfo, info::END_OF_FILE)),
            FileAct::SetBasic => records.put(stamp, &of_file(InfoEvent::SetInfo, info::BASIC)),
            FileAct::Query => records.put(stamp, &of_file(InfoEvent::QueryInfo, info::BASIC)),
            _ => {}
        }
    }

    /// Iterates over the keys with known names, oldest first.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u64> {
        self.order.iter().copied()
    }

    /// Returns the name of a key, if still known.
    pub(crate) fn name_of(&self, event: NameEvent, key: u64) -> Option<FileIoName<'_>> {
        Some(named(event, key, self.names.get(&key)?))
    }
}

/// Returns whether events of an operation on a path have a key, since no other field identifies the file.
fn has_key(act: FileAct) -> bool {
    !matches!(act, FileAct::Open | FileAct::MakeDirectory | FileAct::MakeNode | FileAct::MadeNew)
}

/// Returns the key for a path if no file object is known: a hash of the path (FNV-1a), lower than any kernel address.
fn key_of(path: &[u8]) -> u64 {
    let hash = path.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash & u64::MAX >> 1 | 1 << 62
}

fn put_begin(told: &FileBegin, stamp: &Stamp, records: &mut Counted<'_>) {
    let FileBegin { operation: irp, object: file_object, key: file_key, offset, size, .. } = *told;
    let thread_id = stamp.thread_id;
    let io_size = u32::try_from(size).unwrap_or(u32::MAX);
    let transfer = |event| FileIoReadWrite {
        event,
        offset,
        irp,
        file_object,
        file_key,
        thread_id,
        io_size,
        io_flags: 0,
    };
    let of_file = |event, extra_info, info_class| FileIoInfo {
        event,
        irp,
        file_object,
        file_key,
        extra_info,
        thread_id,
        info_class,
    };
    match told.act {
        FileAct::Read => records.put(stamp, &transfer(ReadWriteEvent::Read)),
        FileAct::Write => records.put(stamp, &transfer(ReadWriteEvent::Write)),
        FileAct::Close | FileAct::CloseMapped => put_simple(SimpleEvent::Cleanup, told, stamp, records),
        FileAct::Flush => put_simple(SimpleEvent::Flush, told, stamp, records),
        FileAct::SetSize => records.put(stamp, &of_file(InfoEvent::SetInfo, size, info::END_OF_FILE)),
        FileAct::SetAllocation => records.put(stamp, &of_file(InfoEvent::SetInfo, size, info::ALLOCATION)),
        FileAct::SetBasic => records.put(stamp, &of_file(InfoEvent::SetInfo, 0, info::BASIC)),
        FileAct::Query => records.put(stamp, &of_file(InfoEvent::QueryInfo, 0, info::BASIC)),
        FileAct::Enumerate => {
            let entries = FileIoDirEnum {
                event: DirEnumEvent::DirEnum,
                irp,
                file_object,
                file_key,
                thread_id,
                len_bytes: io_size,
                info_class: info::DIRECTORY,
                file_index: offset as u32,
                file_name: b"",
            };
            records.put(stamp, &entries);
        }
        _ => {}
    }
}

fn put_simple(event: SimpleEvent, told: &FileBegin, stamp: &Stamp, records: &mut Counted<'_>) {
    let FileBegin { operation: irp, object: file_object, key: file_key, .. } = *told;
    records.put(stamp, &FileIoSimple { event, irp, file_object, file_key, thread_id: stamp.thread_id });
}

/// Writes the end of an operation; after the end of a descriptor's close, the open file is closed too.
fn put_end(told: &FileEnd, has_ends: bool, stamp: &Stamp, records: &mut Counted<'_>) {
    let FileEnd { operation: irp, object: file_object, key: file_key, result, .. } = *told;
    let error = u32::try_from(result.min(0).unsigned_abs()).unwrap_or(u32::MAX);
    let status = if error == 0 { 0 } else { linux::nt_status(error) };
    let end = FileIoOperationEnd { irp, extra_info: result.max(0).unsigned_abs(), status };
    if has_ends {
        records.put(stamp, &end);
    }
    if told.act == FileAct::Close {
        let (event, thread_id) = (SimpleEvent::Close, stamp.thread_id);
        records.put(stamp, &FileIoSimple { event, irp, file_object, file_key, thread_id });
        if has_ends {
            records.put(stamp, &end);
        }
    }
}

fn named(event: NameEvent, key: u64, path: &[u8]) -> FileIoName<'_> {
    FileIoName { event, file_object: key, file_name: path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_names_go_when_there_are_too_many() {
        let mut files = Files::default();
        for key in (0..NAMES_MOST as u64 + 10).chain([20]) {
            files.path = format!("/{key}").into_bytes();
            files.name(key);
        }
        assert_eq!((files.keys().count(), files.names.len()), (NAMES_MOST, NAMES_MOST));
        assert_eq!(files.keys().next(), Some(10));
        assert_eq!(files.name_of(NameEvent::Name, 9), None);
        let name = files.name_of(NameEvent::FileRundown, 20).unwrap();
        assert_eq!((name.file_object, name.file_name), (20, &b"/20"[..]));
    }
}
