//! A file that must not grow beyond a limit, nor fill the disk.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use super::temporary::Reserve;

/// A file with a maximum size. Writing beyond it fails with [`io::ErrorKind::FileTooLarge`].
#[derive(Debug)]
pub(super) struct Limited {
    file: File,
    at: u64,
    limit: u64,
    reserve: Reserve,
}

impl Limited {
    pub(super) fn new(file: File, limit: u64) -> Limited {
        Limited { file, at: 0, limit, reserve: Reserve::default() }
    }

    pub(super) fn into_file(self) -> File {
        self.file
    }
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.at.saturating_add(bytes.len() as u64) > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.reserve.before_write(&self.file, bytes.len() as u64)?;
        let count = self.file.write(bytes)?;
        self.at += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Limited {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.at = self.file.seek(position)?;
        Ok(self.at)
    }
}
