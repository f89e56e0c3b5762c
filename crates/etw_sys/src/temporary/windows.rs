//! Windows: the system deletes the file with its last handle.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;

/// `FILE_FLAG_DELETE_ON_CLOSE` (`winbase.h`).
const DELETE_ON_CLOSE: u32 = 0x0400_0000;
/// `FILE_ATTRIBUTE_TEMPORARY` (`winnt.h`): the file stays in memory where there is room.
const TEMPORARY: u32 = 0x0000_0100;

pub(super) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(DELETE_ON_CLOSE)
        .attributes(TEMPORARY)
        .open(path)
}
