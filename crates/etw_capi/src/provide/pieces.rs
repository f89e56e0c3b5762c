//! The payloads of C: pieces of memory, some of which are converted.

// UNSAFETY: reads the memory that a program's descriptors name.
#![expect(unsafe_code)]

use etw_provider::Payload;
use etw_provider::payload::PayloadWriter;
use windows_sys::Win32::System::Diagnostics::Etw::EVENT_DATA_DESCRIPTOR;

use crate::wide::character;

/// A part of a payload (`openetw_tl_data` in `TraceLoggingProvider.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    /// Where it is, or the value itself.
    pub pointer: u64,
    /// Bytes, or characters of 32 bits.
    pub size: u32,
    /// `OPENETW_TL_*`.
    pub kind: u32,
}

const COUNTED: u32 = 1;
const TEXT32: u32 = 2;
const COUNTED32: u32 = 3;
const SOCKET: u32 = 4;
const ARRAY: u32 = 5;
const UNITS32: u32 = 6;
const VALUE: u32 = 7;
const CHARS32: u32 = 8;

/// Larger than any record.
const TOO_LARGE: usize = 0x1_0000;

/// The pieces of a TraceLogging event.
#[derive(Clone, Copy)]
pub(crate) struct Pieces<'p>(pub(crate) &'p [Piece]);

/// A payload that the macros have packed.
#[derive(Clone, Copy)]
pub(crate) struct Words<'p> {
    pub(crate) words: &'p [u64],
    /// Bytes of the payload. The rest of the last word is zero.
    pub(crate) size: usize,
}

/// The pieces of an event of `EventWrite`.
pub(crate) struct Plain<'p>(pub(crate) &'p [EVENT_DATA_DESCRIPTOR]);

/// The pieces of an event of `EventWrite`, some of which are converted (`OPENETW_DATA_DESCRIPTOR_*`).
pub(crate) struct Mixed<'p>(pub(crate) &'p [EVENT_DATA_DESCRIPTOR]);

/// Returns the type of a descriptor.
pub(super) fn type_of(data: &EVENT_DATA_DESCRIPTOR) -> u32 {
    // SAFETY: every value of the bytes is one of the union's members.
    u32::from(unsafe { data.Anonymous.Anonymous.Type })
}

/// Whether a type is one of `OPENETW_DATA_DESCRIPTOR_*`.
pub(super) fn is_converted(data: &EVENT_DATA_DESCRIPTOR) -> bool {
    matches!(type_of(data) ^ 0x80, COUNTED | COUNTED32 | UNITS32)
}

impl Piece {
    /// # Safety
    ///
    /// The pointer is to `size` readable bytes, or null.
    unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the caller's promise.
        unsafe { bytes_at(self.pointer, self.size as usize) }
    }

    /// # Safety
    ///
    /// The pointer is to `size` readable characters of 32 bits, or null.
    unsafe fn characters(&self) -> impl Iterator<Item = char> {
        // SAFETY: the caller's promise; bytes need no alignment.
        let bytes = unsafe { bytes_at(self.pointer, 4 * self.size as usize) };
        bytes.as_chunks::<4>().0.iter().map(|unit| character(u32::from_le_bytes(*unit)))
    }

    fn len_bytes(&self) -> usize {
        let size = self.size as usize;
        match self.kind & 0xFF {
            COUNTED | SOCKET => 2 + size,
            // SAFETY: what the program's macros promise for this kind.
            TEXT32 => 2 + unsafe { self.characters() }.map(|c| 2 * c.len_utf16()).sum::<usize>(),
            // SAFETY: as above.
            COUNTED32 => 2 + unsafe { self.characters() }.map(|c| 2 * c.len_utf16()).sum::<usize>(),
            UNITS32 => 2 * size,
            CHARS32 if size > 0xFFFF => TOO_LARGE,
            CHARS32 => 2 + 2 * size,
            ARRAY if self.elements() > 0xFFFF => TOO_LARGE,
            ARRAY => 2 + size,
            _ => size,
        }
    }

    fn elements(&self) -> usize {
        self.size as usize / (self.kind as usize >> 8).max(1)
    }

    fn put(&self, out: &mut PayloadWriter<'_>) {
        match self.kind & 0xFF {
            COUNTED => out.put(u64::from(self.size.min(0xFFFF)), 2),
            ARRAY => out.put(self.elements().min(0xFFFF) as u64, 2),
            TEXT32 | COUNTED32 => return self.put_wide(out),
            UNITS32 => return self.put_units(out),
            CHARS32 => {
                out.put(u64::from(self.size.min(0xFFFF)), 2);
                return self.put_units(out);
            }
            SOCKET => return self.put_socket(out),
            _ => {}
        }
        // SAFETY: what the program's macros promise for these kinds.
        out.put_bytes(unsafe { self.bytes() });
    }

    fn put_wide(&self, out: &mut PayloadWriter<'_>) {
        let is_counted = self.kind & 0xFF == COUNTED32;
        if is_counted {
            out.put((self.len_bytes() - 2).min(0xFFFF) as u64, 2);
        }
        // SAFETY: what the program's macros promise for these kinds.
        for character in unsafe { self.characters() } {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.put(u64::from(*unit), 2);
            }
        }
        if !is_counted {
            out.put(0, 2);
        }
    }

    /// Puts one unit for each character, so that lengths hold that a payload has elsewhere.
    fn put_units(&self, out: &mut PayloadWriter<'_>) {
        // SAFETY: what the program's macros promise for this kind.
        for character in unsafe { self.characters() } {
            out.put(u16::try_from(u32::from(character)).unwrap_or(0xFFFD).into(), 2);
        }
    }

    /// IPv6 has another number on Windows.
    fn put_socket(&self, out: &mut PayloadWriter<'_>) {
        // SAFETY: what the program's macro promises for this kind.
        let bytes = unsafe { self.bytes() };
        out.put(bytes.len().min(0xFFFF) as u64, 2);
        match bytes {
            [10, 0, rest @ ..] => {
                out.put(23, 2);
                out.put_bytes(rest);
            }
            _ => out.put_bytes(bytes),
        }
    }
}

impl Payload for Pieces<'_> {
    #[inline]
    fn len_bytes(&self) -> usize {
        let len = |piece: &Piece| match piece.kind {
            0 | VALUE => piece.size as usize,
            _ => piece.len_bytes(),
        };
        self.0.iter().map(len).sum()
    }

    #[inline]
    fn put(&self, out: &mut PayloadWriter<'_>) {
        for piece in self.0 {
            match piece.kind {
                VALUE => out.put(piece.pointer, piece.size.clamp(1, 8)),
                // SAFETY: what the program's macros promise for this kind.
                0 => out.put_bytes(unsafe { piece.bytes() }),
                _ => piece.put(out),
            }
        }
    }
}

impl Payload for Words<'_> {
    #[inline(always)]
    fn len_bytes(&self) -> usize {
        self.size
    }

    #[inline(always)]
    fn put(&self, out: &mut PayloadWriter<'_>) {
        out.put_words(self.words, self.size);
    }
}

impl Payload for Plain<'_> {
    #[inline]
    fn len_bytes(&self) -> usize {
        self.0.iter().map(|data| data.Size as usize).sum()
    }

    #[inline]
    fn put(&self, out: &mut PayloadWriter<'_>) {
        for data in self.0 {
            // SAFETY: the program promises that a descriptor names readable memory.
            out.put_bytes(unsafe { bytes_at(data.Ptr, data.Size as usize) });
        }
    }
}

impl Mixed<'_> {
    fn pieces(&self) -> impl Iterator<Item = Piece> {
        self.0.iter().map(|data| Piece { pointer: data.Ptr, size: data.Size, kind: type_of(data) & 0x7F })
    }
}

impl Payload for Mixed<'_> {
    fn len_bytes(&self) -> usize {
        self.pieces().map(|piece| piece.len_bytes()).sum()
    }

    fn put(&self, out: &mut PayloadWriter<'_>) {
        self.pieces().for_each(|piece| piece.put(out));
    }
}

/// # Safety
///
/// The pointer is to `size` readable bytes, or null.
#[inline]
pub(super) unsafe fn bytes_at<'p>(pointer: u64, size: usize) -> &'p [u8] {
    if pointer == 0 || size == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(pointer as *const u8, size) }
}
