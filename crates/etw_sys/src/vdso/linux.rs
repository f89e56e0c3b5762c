//! The vDSO of Linux.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::NAME;

/// Returns a copy of this process's vDSO, which is an ELF file. All processes of the same word size have the same one.
///
/// # Errors
///
/// Returns `NotFound` if the process has no vDSO, and the system's error if its mappings or its memory cannot be read.
pub fn own() -> io::Result<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let range = maps.lines().find(|line| line.ends_with(NAME)).and_then(|line| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let hex = |digits| u64::from_str_radix(digits, 16).ok();
        Some(hex(start)?..hex(end)?)
    });
    let range = range.ok_or(io::ErrorKind::NotFound)?;
    let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}
