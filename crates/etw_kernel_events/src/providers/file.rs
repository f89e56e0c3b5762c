//! Microsoft-Windows-Kernel-File, whose events have the fields of class FileIo; reads and writes have one more.

use crate::ids::EventId;
use etw_event::EventDescriptor;

use super::analytic;

const KEYWORD_FILENAME: u64 = 0x10;
const KEYWORD_FILEIO: u64 = 0x20;
const KEYWORD_OP_END: u64 = 0x40;
const KEYWORD_CREATE: u64 = 0x80;
const KEYWORD_READ: u64 = 0x100;
const KEYWORD_WRITE: u64 = 0x200;
const KEYWORD_DELETE_PATH: u64 = 0x400;
const KEYWORD_RENAME_SETLINK_PATH: u64 = 0x800;
const KEYWORD_CREATE_NEW_FILE: u64 = 0x1000;

/// The name of a file.
pub const NAME_CREATE: EventDescriptor = event(10, 0, KEYWORD_FILENAME);
pub(super) const CREATE: EventDescriptor = event(12, 1, KEYWORD_FILEIO | KEYWORD_CREATE);
pub(super) const CLEANUP: EventDescriptor = event(13, 1, KEYWORD_FILEIO);
pub(super) const CLOSE: EventDescriptor = event(14, 1, KEYWORD_FILEIO);
pub(super) const READ: EventDescriptor = event(15, 1, KEYWORD_FILEIO | KEYWORD_READ);
pub(super) const WRITE: EventDescriptor = event(16, 1, KEYWORD_FILEIO | KEYWORD_WRITE);
pub(super) const SET_INFORMATION: EventDescriptor = event(17, 1, KEYWORD_FILEIO);
pub(super) const SET_DELETE: EventDescriptor = event(18, 1, KEYWORD_FILEIO);
pub(super) const RENAME: EventDescriptor = event(19, 1, KEYWORD_FILEIO);
pub(super) const DIR_ENUM: EventDescriptor = event(20, 1, KEYWORD_FILEIO);
pub(super) const FLUSH: EventDescriptor = event(21, 1, KEYWORD_FILEIO);
pub(super) const QUERY_INFORMATION: EventDescriptor = event(22, 1, KEYWORD_FILEIO);
pub(super) const OPERATION_END: EventDescriptor = event(24, 0, KEYWORD_FILEIO | KEYWORD_OP_END);
pub(super) const DELETE_PATH: EventDescriptor = event(26, 1, KEYWORD_DELETE_PATH);
pub(super) const RENAME_PATH: EventDescriptor = event(27, 1, KEYWORD_RENAME_SETLINK_PATH);
pub(super) const SET_LINK_PATH: EventDescriptor = event(28, 1, KEYWORD_RENAME_SETLINK_PATH);
/// A link, judging by its place among the events; the schema calls it another rename.
pub(super) const SET_LINK: EventDescriptor = event(29, 1, KEYWORD_FILEIO);
pub(super) const CREATE_NEW_FILE: EventDescriptor = event(30, 1, KEYWORD_CREATE_NEW_FILE);

/// Returns the event for this one of class FileIo, if there is one.
pub(super) fn of_class(id: EventId) -> Option<EventDescriptor> {
    use crate::ids::FileIo;
    Some(match id {
        FileIo::NAME | FileIo::FILE_CREATE => NAME_CREATE,
        FileIo::CREATE => CREATE,
        FileIo::CLEANUP => CLEANUP,
        FileIo::CLOSE => CLOSE,
        FileIo::READ => READ,
        FileIo::WRITE => WRITE,
        FileIo::SET_INFO => SET_INFORMATION,
        FileIo::DIR_ENUM => DIR_ENUM,
        FileIo::FLUSH => FLUSH,
        FileIo::QUERY_INFO => QUERY_INFORMATION,
        FileIo::OPERATION_END => OPERATION_END,
        FileIo::FILE_IO_DELETE_PATH => DELETE_PATH,
        FileIo::FILE_IO_RENAME_PATH => RENAME_PATH,
        FileIo::FILE_IO_SETLINK_PATH => SET_LINK_PATH,
        _ => return None,
    })
}

/// Tasks have the numbers of their events, except that of [`SET_LINK`].
const fn event(id: u16, version: u8, keywords: u64) -> EventDescriptor {
    const RENAME: u16 = 19;
    analytic(id, version, if id == 29 { RENAME } else { id }, 0, keywords)
}
