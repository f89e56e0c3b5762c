//! Structures with offsets to texts behind them, in a buffer of the caller.

// UNSAFETY: writes into buffers of callers.
#![expect(unsafe_code)]

use crate::error::{ERROR_INSUFFICIENT_BUFFER, ERROR_INVALID_PARAMETER, ERROR_SUCCESS};
use crate::wide::Width;

/// A structure under construction. Offsets count from its start.
pub(super) struct Blob {
    bytes: Vec<u8>,
    width: Width,
}

impl Blob {
    /// Creates a structure of this size before its texts, filled with zeros.
    pub(super) fn new(size: usize, width: Width) -> Blob {
        Blob { bytes: vec![0; size], width }
    }

    pub(super) fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(room) = self.bytes.get_mut(at..at + bytes.len()) {
            room.copy_from_slice(bytes);
        }
    }

    pub(super) fn put_u16(&mut self, at: usize, value: u16) {
        self.put(at, &value.to_le_bytes());
    }

    pub(super) fn put_u32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    pub(super) fn put_u64(&mut self, at: usize, value: u64) {
        self.put(at, &value.to_le_bytes());
    }

    /// Appends a text, and writes its offset at `at`. Absent and empty texts have offset 0.
    pub(super) fn put_text(&mut self, at: usize, text: Option<&str>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.put_texts(at, &mut [text].into_iter());
        }
    }

    /// Appends texts one after the other, and writes the offset of the first at `at`.
    pub(super) fn put_texts(&mut self, at: usize, texts: &mut dyn Iterator<Item = &str>) {
        let start = self.bytes.len().next_multiple_of(self.width.bytes());
        self.bytes.resize(start, 0);
        self.put_u32(at, start as u32);
        for text in texts {
            self.width.append(&mut self.bytes, text);
        }
    }

    /// Appends an empty text, which ends a list.
    pub(super) fn end_list(&mut self) {
        self.width.append(&mut self.bytes, "");
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Copies a structure into a buffer of `*size` bytes, and writes its size to `*size`. Without room, only the size is written.
///
/// # Safety
///
/// `size` is null or valid; `buffer` is null, or has `*size` writable bytes.
pub(super) unsafe fn copy(bytes: &[u8], buffer: *mut u8, size: *mut u32) -> u32 {
    if size.is_null() {
        return ERROR_INVALID_PARAMETER;
    }
    let Ok(needed) = u32::try_from(bytes.len()) else { return ERROR_INVALID_PARAMETER };
    // SAFETY: the caller's promise.
    unsafe {
        let available = size.read_unaligned();
        size.write_unaligned(needed);
        if buffer.is_null() || available < needed {
            return ERROR_INSUFFICIENT_BUFFER;
        }
        buffer.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
    }
    ERROR_SUCCESS
}
