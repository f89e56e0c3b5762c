//! Unnamed temporary files for bytes that cannot be mapped where they are.

use std::fs::File;
use std::io::{self, Read, Seek, Write};

use tempfile::tempfile;

use super::InputError;

/// Bytes copied at a time.
pub(super) const CHUNK: usize = 256 << 10;

/// The reason why bytes could not be copied.
pub(super) enum CopyError {
    Read(io::Error),
    Write(io::Error),
    /// There are more bytes than the limit.
    TooLarge,
    /// The bytes are not those of a trace.
    Refused(InputError),
}

/// Copies at most `limit` bytes to a temporary file that exists as long as it is open.
///
/// `check_start` gets the first bytes of a large source, so that it fails early.
pub(super) fn copy(
    reader: impl Read,
    limit: u64,
    check_start: impl FnOnce(&[u8]) -> Result<(), InputError>,
) -> Result<File, CopyError> {
    let mut file = tempfile().map_err(CopyError::Write)?;
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
        if chunk.iter().all(|byte| *byte == 0) {
            // Seeking over zeros leaves a hole, which takes no disk space.
            file.seek_relative(chunk.len() as i64).map_err(CopyError::Write)?;
        } else {
            file.write_all(&chunk).map_err(CopyError::Write)?;
        }
        length += chunk.len() as u64;
        if length > limit {
            return Err(CopyError::TooLarge);
        }
        if chunk.len() < CHUNK {
            break;
        }
    }
    file.set_len(length).map_err(CopyError::Write)?;
    Ok(file)
}
