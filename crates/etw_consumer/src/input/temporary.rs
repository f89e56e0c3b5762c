//! Unnamed temporary files for bytes that cannot be mapped where they are.

use std::fs::File;
use std::io::{self, Read, Seek, Write};

use etw_sys::DiskRoom;
use tempfile::tempfile;

use super::{InputError, InputLimits};

/// Bytes copied at a time.
pub(super) const CHUNK: usize = 256 << 10;

/// Bytes written between two looks at the free space.
const LOOK_EVERY: u64 = 16 << 20;
/// Part of a file system that is left free for others, and its maximum in bytes.
const RESERVE_PART: u64 = 20;
const MAX_RESERVE_LEN_BYTES: u64 = 1 << 30;

/// The room for the temporary files of one input: all members of an archive, unpacked and converted.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) limits: InputLimits,
    left: u64,
}

impl Room {
    pub(super) fn new(limits: &InputLimits) -> Room {
        Room { limits: *limits, left: limits.decompressed_bytes }
    }

    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Takes the bytes of a file.
    pub(super) fn take(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
    }
}

/// Sees to it that temporary files leave some of the file system free.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    /// Bytes that may be written before the next look.
    unseen: u64,
}

impl Reserve {
    /// Accounts for bytes before they are written.
    ///
    /// # Errors
    ///
    /// Fails with [`io::ErrorKind::StorageFull`] if they would leave too little.
    pub(super) fn before_write(&mut self, file: &File, bytes: u64) -> io::Result<()> {
        if bytes > self.unseen {
            check(DiskRoom::from_file(file), bytes.max(LOOK_EVERY))?;
            self.unseen = bytes.max(LOOK_EVERY);
        }
        self.unseen -= bytes;
        Ok(())
    }
}

fn check(room: Option<DiskRoom>, bytes: u64) -> io::Result<()> {
    let Some(room) = room else { return Ok(()) };
    let reserve = (room.total_bytes / RESERVE_PART).min(MAX_RESERVE_LEN_BYTES);
    match room.free_bytes.checked_sub(bytes).is_some_and(|left| left >= reserve) {
        true => Ok(()),
        false => {
            let text = format!("{} bytes are free, of which {reserve} are left to others", room.free_bytes);
            Err(io::Error::new(io::ErrorKind::StorageFull, text))
        }
    }
}

/// The reason why bytes could not be copied.
pub(super) enum CopyError {
    Read(io::Error),
    Write(io::Error),
    /// There are more bytes than the limit.
    TooLarge,
    /// The bytes are not those of a trace.
    Refused(InputError),
}

/// Copies bytes, at most as many as there is room for, to a temporary file that exists as long as it is open.
///
/// `check_start` gets the first bytes of a large source, so that it fails early.
pub(super) fn copy(
    reader: impl Read,
    room: &mut Room,
    check_start: impl FnOnce(&[u8]) -> Result<(), InputError>,
) -> Result<File, CopyError> {
    let mut file = tempfile().map_err(CopyError::Write)?;
    let limit = room.left();
    let mut reserve = Reserve::default();
    let mut reader = reader.take(limit.saturating_add(1));
    let mut chunk = Vec::with_capacity(CHUNK);
    let mut check_start = Some(check_start);
    let mut length = 0;
    loop {
        chunk.clear();
        reader.by_ref().take(CHUNK as u64).read_to_end(&mut chunk).map_err(CopyError::Read)?;
        if let Some(check_start) = check_start.take().filter(|_| chunk.len() == CHUNK) {
            check_start(&chunk).map_err(CopyError::Refused)?;
        }
        length += chunk.len() as u64;
        if length > limit {
            return Err(CopyError::TooLarge);
        }
        if chunk.iter().all(|byte| *byte == 0) {
            // Seeking over zeros leaves a hole, which takes no disk space.
            file.seek_relative(chunk.len() as i64).map_err(CopyError::Write)?;
        } else {
            reserve.before_write(&file, chunk.len() as u64).map_err(CopyError::Write)?;
            file.write_all(&chunk).map_err(CopyError::Write)?;
        }
        if chunk.len() < CHUNK {
            break;
        }
    }
    file.set_len(length).map_err(CopyError::Write)?;
    room.take(length);
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_disk_is_left_free() {
        let check = |free_bytes: u64, total_bytes: u64, bytes: u64, expected: bool| {
            let room = DiskRoom { free_bytes, total_bytes };
            assert_eq!(super::check(Some(room), bytes).is_ok(), expected, "{room:?}, {bytes}");
        };
        check(100, 100, 95, true);
        check(100, 100, 96, false);
        check(4, 100, 0, false);
        check(3 << 30, 1 << 40, 2 << 30, true);
        check(3 << 30, 1 << 40, (2 << 30) + 1, false);
        check(5, u64::MAX, u64::MAX, false);
    }
}
