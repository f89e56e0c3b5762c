//! A trace file as a sequence of buffers.

use std::fmt;

use etw_event::{Clock, Fields, HeaderKind, HookId, PointerSize, Ticks};

use crate::buffers::{Buffers, FileLayout, MAX_BUFFER_BYTES, MIN_BUFFER_BYTES};
use crate::{BufferHeader, LogFileHeader, LogFileMode};

/// Bytes of a file before the payload of its log file header.
const HEADER_PAYLOAD: usize = BufferHeader::LEN_BYTES + HeaderKind::System64.len_bytes();

/// Why bytes are not a trace file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There are no bytes.
    #[error("the file is empty; a trace file begins with a buffer that holds its log file header")]
    Empty,
    /// The file is shorter than the smallest trace file.
    #[error("the file has only {len} bytes; a trace file begins with a log file header of {expected} bytes")]
    TooShort {
        /// Bytes of the file.
        len: usize,
        /// Size of the header.
        expected: usize,
    },
    /// There is no log file header at its position.
    #[error("it begins with {found}; a trace file has a log file header at offset 0x48")]
    NotTrace {
        /// The first bytes of the file.
        found: Beginning,
    },
}

/// The first bytes of a file that is not a trace, and the likely type of such a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beginning {
    bytes: [u8; 16],
    len: usize,
}

impl Beginning {
    fn from_file(file: &[u8]) -> Beginning {
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().zip(file) {
            *to = *from;
        }
        Beginning { bytes, len: file.len().min(16) }
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Returns the type of a file with these first bytes, if it is a well-known one.
    pub fn file_kind(&self) -> Option<&'static str> {
        let begins = |magic: &[u8]| self.as_bytes().starts_with(magic);
        Some(match () {
            () if begins(b"PK\x03\x04") => "a zip archive",
            () if begins(&[0x1F, 0x8B]) => "gzip data",
            () if begins(&[0x28, 0xB5, 0x2F, 0xFD]) => "zstd data",
            () if begins(&[0xFD, b'7', b'z', b'X', b'Z']) => "xz data",
            () if begins(b"7z\xBC\xAF") => "a 7-Zip archive",
            () if begins(b"MSCF") => "a cabinet file",
            () if begins(b"MZ") => "a Windows program or library",
            () if begins(b"ElfFile\0") => "an event log (.evtx)",
            () if begins(b"Nettrace") => "a .NET nettrace file",
            () if begins(b"PERFILE2") || begins(b"2ELIFREP") => "a file of Linux's perf (perf.data)",
            () if begins(b"ETWINDEX") => "an index of a trace (.etwindex), which is no trace itself",
            () if begins(b"\x7FELF") => "a Linux program or library",
            _ => return None,
        })
    }
}

impl fmt::Display for Beginning {
    /// Formats the type of file, the text, or the bytes in hexadecimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.as_bytes();
        if let Some(kind) = self.file_kind() {
            return f.write_str(kind);
        }
        if bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n')) {
            let text = std::str::from_utf8(bytes).unwrap_or_default();
            return write!(f, "the text {text:?}");
        }
        f.write_str("the bytes")?;
        bytes.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
    }
}

/// A trace file, as a view over its bytes.
#[derive(Debug, Clone)]
pub struct EtlFile<'a> {
    bytes: &'a [u8],
    header: LogFileHeader,
    clock: Clock,
    layout: FileLayout,
}

impl<'a> EtlFile<'a> {
    /// Reads the log file header of `bytes`, a whole file; nothing else is examined.
    ///
    /// # Errors
    ///
    /// Fails if there is no log file header at the start.
    pub fn open(bytes: &'a [u8]) -> Result<EtlFile<'a>, OpenError> {
        if bytes.is_empty() {
            return Err(OpenError::Empty);
        }
        let not_trace = || OpenError::NotTrace { found: Beginning::from_file(bytes) };
        if bytes.len() < HEADER_PAYLOAD {
            // A file that is clearly of another type is reported as such, however short it is.
            if bytes.len() >= 4 && Beginning::from_file(bytes).file_kind().is_some() {
                return Err(not_trace());
            }
            let expected = HEADER_PAYLOAD + LogFileHeader::fixed_len_bytes(PointerSize::Eight);
            return Err(OpenError::TooShort { len: bytes.len(), expected });
        }
        let buffer = BufferHeader::parse(bytes).ok_or_else(not_trace)?;
        let event = bytes.get(BufferHeader::LEN_BYTES..).unwrap_or_default();
        let layout = match event.u32_at(0).map(|first| first >> 16) {
            Some(0xC001) => PointerSize::Four,
            Some(0xC002) => PointerSize::Eight,
            _ => return Err(not_trace()),
        };
        if event.u16_at(6) != Some(HookId::LOG_FILE_HEADER.0) {
            return Err(not_trace());
        }
        // The strings end with the record; a damaged size must not hide the header.
        let size = usize::from(event.u16_at(4).unwrap_or(0));
        let fixed = HeaderKind::System64.len_bytes() + LogFileHeader::fixed_len_bytes(layout);
        let payload = event.get(HeaderKind::System64.len_bytes()..size.max(fixed).min(event.len()));
        let anchor = Ticks(event.i64_at(0x10).unwrap_or(0));
        let header = payload
            .and_then(|payload| LogFileHeader::parse(payload, layout, anchor))
            .ok_or(OpenError::TooShort { len: bytes.len(), expected: BufferHeader::LEN_BYTES + fixed })?;
        let clock = header.clock();
        let session_buffer_size = match header.buffer_size {
            0 => buffer.buffer_size,
            size => size,
        };
        let layout = FileLayout {
            session_buffer_size: session_buffer_size.clamp(MIN_BUFFER_BYTES, MAX_BUFFER_BYTES),
            is_compressed: header.log_file_mode.contains(LogFileMode::COMPRESSED),
            is_before_vista: header.major_version < 6,
            is_private: header
                .log_file_mode
                .intersects(LogFileMode::PRIVATE_LOGGER | LogFileMode::PRIVATE_IN_PROC),
            is_converted: false,
        };
        Ok(EtlFile { bytes, header, clock, layout })
    }

    /// Returns the log file header.
    pub fn header(&self) -> &LogFileHeader {
        &self.header
    }

    /// Returns the session's clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Replaces the header's clock, for sessions that are known to share one.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Says that the bytes were made from a file of another format: where records are in them has no meaning.
    #[must_use]
    pub fn converted(mut self) -> EtlFile<'a> {
        self.layout.is_converted = true;
        self
    }

    /// Returns the bytes of the file.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Iterates over the buffers in file order, including the first.
    ///
    /// This is not time order: records are ordered within a buffer, and the buffers of one processor among themselves.
    /// In a circular file the latter order is that of `sequence_number`, in every other file that of the file.
    pub fn buffers(&self) -> Buffers<'a> {
        Buffers::new(self.bytes, self.layout)
    }

    /// Returns the buffer at an `offset` returned by [`EtlFile::buffers`], but numbered 0, and without reporting its
    /// damage again. Returns `None` past the end of the file.
    pub fn buffer_at(&self, offset: u64) -> Option<crate::BufferRef<'a>> {
        Buffers::at(self.bytes, self.layout, usize::try_from(offset).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_not_traces_are_recognised() {
        let check = |bytes: &[u8], text: &str| {
            assert_eq!(EtlFile::open(bytes).unwrap_err().to_string(), text);
        };
        let not_trace = |begins: &str| {
            format!("it begins with {begins}; a trace file has a log file header at offset 0x48")
        };
        check(b"", "the file is empty; a trace file begins with a buffer that holds its log file header");
        let short = "the file has only 5 bytes; a trace file begins with a log file header of 384 bytes";
        check(b"hello", short);
        check(b"PK\x03\x04rest", &not_trace("a zip archive"));
        check(&b"hello world\n".repeat(40), &not_trace("the text \"hello world\\nhell\""));
        let zeros = "the bytes 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00";
        check(&[0; 4096], &not_trace(zeros));
        let mut cut = [0u8; 200];
        cut[0x48..0x4C].copy_from_slice(&[2, 0, 2, 0xC0]);
        check(&cut, "the file has only 200 bytes; a trace file begins with a log file header of 384 bytes");
    }
}
