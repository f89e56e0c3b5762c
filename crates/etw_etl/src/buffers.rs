//! Locates the buffers of a file.

use crate::{BufferHeader, BufferRef, BufferType, Damage, DamageKind};

/// Maximum size of a buffer in bytes; sessions allow 16 MiB.
pub const MAX_BUFFER_BYTES: u32 = 64 << 20;
/// Minimum size of a buffer in bytes: only its header.
#[expect(clippy::cast_possible_truncation, reason = "it is 0x48")]
pub(crate) const MIN_BUFFER_BYTES: u32 = BufferHeader::LEN_BYTES as u32;

/// Layout of the buffers in a file, according to the first buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileLayout {
    /// Size of a buffer in bytes before compression.
    pub(crate) session_buffer_size: u32,
    /// Whether the sizes of buffers differ.
    pub(crate) is_compressed: bool,
    /// Whether the buffer headers are from before Vista; only their size and processor are known.
    pub(crate) is_before_vista: bool,
    /// Whether the session was private to a process.
    pub(crate) is_private: bool,
    /// Whether the file was made from one of another format, where the records are elsewhere.
    pub(crate) is_converted: bool,
}

impl FileLayout {
    /// Returns the number of fields with impossible values for a buffer of this file.
    fn odd_fields(&self, header: &BufferHeader) -> u32 {
        if self.is_before_vista {
            return if header.buffer_size == self.session_buffer_size { 0 } else { 2 };
        }
        let sizes = MIN_BUFFER_BYTES..=MAX_BUFFER_BYTES;
        let largest = self.session_buffer_size.max(header.buffer_size).min(MAX_BUFFER_BYTES);
        u32::from(header.buffer_flag.0 & !0xFF != 0)
            + u32::from(header.buffer_type > BufferType::DEBUG_INFO)
            + u32::from(header.reference_count != 0)
            + u32::from(!sizes.contains(&header.buffer_size))
            + u32::from(!(MIN_BUFFER_BYTES..=largest).contains(&header.offset))
    }

    /// Returns whether a header can belong to a buffer of this file. One damaged field is tolerated.
    fn is_plausible(&self, header: &BufferHeader) -> bool {
        self.odd_fields(header) <= 1
    }
}

/// Iterator over the buffers of a file in file order, see [`crate::EtlFile::buffers`].
///
/// It ends at the end of the file, or at the unused rest of a preallocated file. Where no buffer starts, it skips to
/// the next buffer. Damage to a buffer is reported before the buffer.
#[derive(Debug, Clone)]
pub struct Buffers<'a> {
    bytes: &'a [u8],
    layout: FileLayout,
    at: usize,
    index: u32,
    /// Buffer to return next, after its damage was reported.
    pending: Option<BufferRef<'a>>,
}

impl<'a> Buffers<'a> {
    pub(crate) fn new(bytes: &'a [u8], layout: FileLayout) -> Buffers<'a> {
        Buffers { bytes, layout, at: 0, index: 0, pending: None }
    }

    /// Returns the buffer at `at`, where a buffer is known to start.
    pub(crate) fn at(bytes: &'a [u8], layout: FileLayout, at: usize) -> Option<BufferRef<'a>> {
        let header = BufferHeader::parse(bytes.get(at..)?)?;
        Some(Buffers::new(bytes, layout).buffer_at(at, header).0)
    }

    /// Returns the buffer at `at`, and the damage to its size.
    fn buffer_at(&self, at: usize, mut header: BufferHeader) -> (BufferRef<'a>, Option<DamageKind>) {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let mut kind = None;
        if !self.is_size_right(at, &header) {
            let expected = self.size_in_place(at, &header);
            kind = Some(DamageKind::BufferSize { size: header.buffer_size, expected });
            header.buffer_size = expected;
        }
        let size = header.buffer_size as usize;
        if size > rest.len() {
            #[expect(clippy::cast_possible_truncation, reason = "it is less than the size, a u32")]
            let available = rest.len() as u32;
            kind = Some(DamageKind::BufferCut { size: header.buffer_size, available });
        }
        let bytes = rest.get(..size).unwrap_or(rest);
        (BufferRef { offset: at as u64, index: self.index, header, bytes, layout: self.layout }, kind)
    }

    fn is_size_right(&self, at: usize, header: &BufferHeader) -> bool {
        let size = header.buffer_size;
        if size == self.layout.session_buffer_size && !header.is_compressed() {
            return true;
        }
        if !(MIN_BUFFER_BYTES..=MAX_BUFFER_BYTES).contains(&size) {
            return false;
        }
        let session = self.layout.session_buffer_size;
        let has_own_size = self.layout.is_compressed || header.is_compressed();
        if !has_own_size && self.continues_at(at.saturating_add(session as usize)) {
            return false;
        }
        let end = at.saturating_add(size as usize);
        // The size of a compressed buffer cut by the end of the file cannot be verified.
        let cut = end > self.bytes.len() && size <= session.saturating_add(MIN_BUFFER_BYTES);
        self.continues_at(end) || (has_own_size && cut)
    }

    /// Returns the size to assume for a buffer whose header has a wrong size.
    fn size_in_place(&self, at: usize, header: &BufferHeader) -> u32 {
        if !self.layout.is_compressed && !header.is_compressed() {
            return self.layout.session_buffer_size;
        }
        let next = self.search(at + BufferHeader::LEN_BYTES).unwrap_or(self.bytes.len());
        u32::try_from(next - at).unwrap_or(MAX_BUFFER_BYTES).min(MAX_BUFFER_BYTES)
    }

    /// Returns whether a buffer, the end of the file, or the unused rest of a preallocated file follows at `end`.
    fn continues_at(&self, end: usize) -> bool {
        match self.bytes.get(end..) {
            None => false,
            Some([]) => true,
            Some(rest) => match BufferHeader::parse(rest) {
                Some(header) => self.layout.is_plausible(&header) || is_zero(rest),
                // The file ends inside the next header.
                None => true,
            },
        }
    }

    /// Skips to the next buffer.
    #[cold]
    fn resynchronise(&mut self, at: usize) -> Option<Damage> {
        let next = if self.layout.is_compressed { self.search(at + 1) } else { self.probe(at) };
        self.at = next.unwrap_or(self.bytes.len());
        if next.is_none() && self.bytes.get(at..).is_some_and(is_zero) {
            return None;
        }
        Some(damage(at as u64, DamageKind::NoBuffer { skipped: (self.at - at) as u64 }))
    }

    /// Returns the first multiple of the buffer size after `at` at which a buffer starts.
    fn probe(&self, at: usize) -> Option<usize> {
        let step = self.layout.session_buffer_size as usize;
        let first = (at + 1).checked_next_multiple_of(step)?;
        (first..self.bytes.len()).step_by(step).find(|at| {
            let header = self.bytes.get(*at..).and_then(BufferHeader::parse);
            header.is_some_and(|header| self.layout.is_plausible(&header))
        })
    }

    /// Returns the first offset at or after `start` at which a compressed buffer starts, with any alignment.
    fn search(&self, start: usize) -> Option<usize> {
        // Flags and type at 0x34 have few valid values, so checking them rejects nearly all offsets.
        let fields = self.bytes.get(start.checked_add(0x34)?..)?;
        let candidates =
            fields.windows(4).enumerate().filter(|(_, field)| matches!(field, [0..=0x7F, 0, 0, 0]));
        candidates.map(|(index, _)| start + index).find(|at| {
            let header = self.bytes.get(*at..).and_then(BufferHeader::parse);
            header.is_some_and(|header| {
                let size = header.buffer_size;
                self.layout.odd_fields(&header) == 0
                    && size <= self.layout.session_buffer_size.saturating_add(0x48)
                    && self.continues_at(at.saturating_add(size as usize))
            })
        })
    }
}

impl<'a> Iterator for Buffers<'a> {
    type Item = Result<BufferRef<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(buffer) = self.pending.take() {
            return Some(Ok(buffer));
        }
        let at = self.at;
        let rest = self.bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let Some(header) = BufferHeader::parse(rest) else {
            self.at = self.bytes.len();
            #[expect(clippy::cast_possible_truncation, reason = "it is less than a header")]
            let available = rest.len() as u32;
            return Some(Err(damage(at as u64, DamageKind::BufferHeaderCut { available })));
        };
        // The first buffer was recognized by its first record.
        if at > 0 && !self.layout.is_plausible(&header) {
            return self.resynchronise(at).map(Err);
        }
        let (buffer, kind) = self.buffer_at(at, header);
        self.at = at + buffer.bytes.len();
        self.index = self.index.saturating_add(1);
        match kind {
            Some(kind) => {
                self.pending = Some(buffer);
                Some(Err(damage(at as u64, kind)))
            }
            None => Some(Ok(buffer)),
        }
    }
}

/// Returns whether `bytes` start with zeros. Checking the first 1 KiB suffices: it would include a buffer header.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().take(0x400).all(|byte| *byte == 0)
}

pub(crate) fn damage(offset: u64, kind: DamageKind) -> Damage {
    Damage { offset, within: None, kind }
}
