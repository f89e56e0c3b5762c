//! Streams of a PDB out of the mapped file.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use pdb2::{Source, SourceSlice, SourceView};

use crate::file_bytes::FileBytes;

/// The bytes of a file. Streams that are contiguous are borrowed, others are copied.
pub(super) struct Bytes {
    file: FileBytes,
    places: StreamPlaces,
}

/// Where a stream is in the file, for streams that are not copied.
#[derive(Clone, Default)]
pub(super) struct StreamPlaces(Arc<Mutex<Option<Vec<Range<usize>>>>>);

impl StreamPlaces {
    /// Calls what opens a stream, and returns the parts of the file that the stream consists of, in their order. The
    /// library gets other bytes of the file for the stream, so what it returns must not be used.
    pub(super) fn of<T>(&self, open: impl FnOnce() -> T) -> Vec<Range<usize>> {
        *self.lock() = Some(Vec::new());
        let _other_bytes = open();
        self.lock().take().unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Vec<Range<usize>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bytes {
    /// Returns the bytes of a file, and what finds the streams in it.
    pub(super) fn new(file: &FileBytes) -> (Bytes, StreamPlaces) {
        let places = StreamPlaces::default();
        (Bytes { file: file.clone(), places: places.clone() }, places)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({})", self.file.len())
    }
}

impl Source<'static> for Bytes {
    fn view(&mut self, slices: &[SourceSlice]) -> io::Result<Box<dyn SourceView<'static> + Send + Sync>> {
        let outside = || io::Error::new(io::ErrorKind::UnexpectedEof, "a stream is outside the file");
        let mut parts: Vec<Range<usize>> = Vec::new();
        let mut len = 0_usize;
        for slice in slices {
            let start = usize::try_from(slice.offset).map_err(|_| outside())?;
            let end =
                start.checked_add(slice.size).filter(|end| *end <= self.file.len()).ok_or_else(outside)?;
            len = len.saturating_add(slice.size);
            match parts.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => parts.push(start..end),
            }
        }
        // Only a forged directory uses blocks many times.
        if len > self.file.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a stream is larger than the file"));
        }
        if let Some(places) = &mut *self.places.lock() {
            *places = parts;
            return Ok(Box::new(View::Part(self.file.clone(), 0..len)));
        }
        let part = |range: &Range<usize>| self.file.get(range.clone()).unwrap_or_default();
        Ok(Box::new(match parts.as_slice() {
            [] => View::Copy(Vec::new()),
            [one] => View::Part(self.file.clone(), one.clone()),
            more => View::Copy(more.iter().map(part).collect::<Vec<_>>().concat()),
        }))
    }
}

enum View {
    Part(FileBytes, Range<usize>),
    Copy(Vec<u8>),
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({})", self.as_slice().len())
    }
}

impl SourceView<'static> for View {
    fn as_slice(&self) -> &[u8] {
        match self {
            View::Part(bytes, range) => bytes.get(range.clone()).unwrap_or_default(),
            View::Copy(bytes) => bytes,
        }
    }
}
