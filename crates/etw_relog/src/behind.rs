//! A file written by a separate thread, so that reading continues meanwhile.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// Bytes per write to the file.
const PIECE_BYTES: usize = 256 << 10;
/// Maximum number of pieces in flight.
const MOST_PIECES: usize = 3;

/// A file that is written asynchronously. A failed write is reported by a later call, at the latest by
/// [`Write::flush`].
#[derive(Debug)]
pub(super) struct Behind {
    file: Arc<File>,
    /// The piece that is being filled, and its offset in the file.
    piece: Vec<u8>,
    at: u64,
    /// Pieces to write, with their offsets; `None` after the last one.
    to_file: Option<Sender<(u64, Vec<u8>)>>,
    /// Buffers of written pieces, for reuse.
    written: Receiver<io::Result<Vec<u8>>>,
    on_their_way: usize,
    thread: Option<JoinHandle<()>>,
}

impl Behind {
    pub(super) fn new(file: File) -> io::Result<Behind> {
        let file = Arc::new(file);
        let (to_file, pieces) = channel::<(u64, Vec<u8>)>();
        let (done, written) = channel();
        let mut out = file.clone();
        let work = move || {
            for (at, mut piece) in pieces {
                let result = out.seek(SeekFrom::Start(at)).and_then(|_| out.write_all(&piece));
                piece.clear();
                let is_over = result.is_err();
                if done.send(result.map(|()| piece)).is_err() || is_over {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("write".into()).spawn(work)?;
        Ok(Behind {
            file,
            piece: Vec::new(),
            at: 0,
            to_file: Some(to_file),
            written,
            on_their_way: 0,
            thread: Some(thread),
        })
    }

    fn position(&self) -> u64 {
        self.at + self.piece.len() as u64
    }

    /// Sends the current piece to the thread.
    fn send(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let empty = match self.on_their_way {
            MOST_PIECES => self.wait()?,
            _ => Vec::with_capacity(PIECE_BYTES),
        };
        let end = self.position();
        let at = std::mem::replace(&mut self.at, end);
        let piece = std::mem::replace(&mut self.piece, empty);
        let sent = self.to_file.as_ref().is_some_and(|to_file| to_file.send((at, piece)).is_ok());
        self.on_their_way += 1;
        // The thread ended because of an error, which `flush` returns.
        if sent { Ok(()) } else { self.flush() }
    }

    /// Blocks until a piece is written; returns its buffer for reuse.
    fn wait(&mut self) -> io::Result<Vec<u8>> {
        let written = self.written.recv().map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        self.on_their_way -= 1;
        written
    }
}

impl Write for Behind {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() >= PIECE_BYTES {
            self.send()?;
        }
        let count = bytes.len().min(PIECE_BYTES - self.piece.len());
        self.piece.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()?;
        while self.on_their_way > 0 {
            self.wait()?;
        }
        Ok(())
    }
}

impl Seek for Behind {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        if to != SeekFrom::Start(self.position()) {
            self.flush()?;
            self.file.seek(SeekFrom::Start(self.at))?;
            self.at = self.file.seek(to)?;
        }
        Ok(self.position())
    }

    fn stream_position(&mut self) -> io::Result<u64> {
        Ok(self.position())
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.to_file = None;
        if let Some(thread) = self.thread.take() {
            // The thread does not panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_file_has_what_was_written_where_it_was_written() {
        let mut written = tempfile::tempfile().unwrap();
        let mut behind = Behind::new(written.try_clone().unwrap()).unwrap();
        let bytes: Vec<u8> = (0..5 * PIECE_BYTES).map(|at| (at / 7) as u8).collect();
        for chunk in bytes.chunks(100_001) {
            behind.write_all(chunk).unwrap();
        }
        behind.seek(SeekFrom::Start(10)).unwrap();
        behind.write_all(b"here").unwrap();
        assert_eq!(behind.seek(SeekFrom::Current(6)).unwrap(), 20);
        behind.write_all(b"there").unwrap();
        assert_eq!(behind.seek(SeekFrom::End(0)).unwrap(), bytes.len() as u64);
        behind.write_all(b"end").unwrap();
        behind.flush().unwrap();
        let mut expected = bytes;
        expected[10..14].copy_from_slice(b"here");
        expected[20..25].copy_from_slice(b"there");
        expected.extend(b"end");
        let mut found = Vec::new();
        written.seek(SeekFrom::Start(0)).unwrap();
        written.read_to_end(&mut found).unwrap();
        assert!(found == expected);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_reported_at_the_end_at_the_latest() {
        let full = || Behind::new(File::options().write(true).open("/dev/full").unwrap()).unwrap();
        let mut small = full();
        small.write_all(b"some").unwrap();
        assert_eq!(small.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
        // A large write fails before all of it is accepted, since only a few pieces may be in flight.
        let mut large = full();
        let much = vec![0; (MOST_PIECES + 2) * PIECE_BYTES];
        assert_eq!(large.write_all(&much).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
