//! Plain XPRESS, the compression of trace buffers (MS-XCA, "Plain LZ77").
//!
//! A stream is a sequence of groups: a `u32` of flags, taken from the highest bit down, then for each flag a literal
//! byte (0) or a match (1). A match is a `u16` with the distance minus one in its upper 13 bits and the length minus
//! three in its lower three; 7 there means that the length continues in a nibble, then a byte, a `u16`, a `u32`. Two
//! matches share one byte of nibbles, which is where the first of them needs it.
//!
//! ```
//! use etw_etl::xpress::{Compressor, decompress};
//!
//! let text = b"one two, one two, one two, one two";
//! let mut compressed = Vec::new();
//! Compressor::default().compress(text, &mut compressed);
//! assert!(compressed.len() < text.len());
//! let mut out = vec![0; text.len()];
//! decompress(&compressed, &mut out)?;
//! assert_eq!(out, text);
//! # Ok::<(), etw_etl::xpress::XpressError>(())
//! ```

mod compress;

use etw_event::Fields;

pub use compress::Compressor;

/// Why a stream could not be decoded completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the compressed data {what} at byte {input_offset}, after {produced} decompressed bytes")]
pub struct XpressError {
    /// Offset in the compressed bytes.
    pub input_offset: u32,
    /// Number of bytes decoded before the fault.
    pub produced: u32,
    /// Kind of fault.
    pub what: XpressFault,
}

/// Kind of fault in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum XpressFault {
    /// The stream ends before the data does.
    #[error("ends")]
    Ends,
    /// A match refers to data before the start of the output.
    #[error("refers to bytes before its start")]
    Distance,
    /// The long form of a length has a value that the short form must be used for.
    #[error("has an impossible length")]
    Length,
}

/// Decodes `input` until `out` is full.
///
/// Time and memory are bounded by the length of `out`.
///
/// # Errors
///
/// Fails if the stream is invalid or too short; the bytes that the error counts as produced are valid.
pub fn decompress(input: &[u8], out: &mut [u8]) -> Result<(), XpressError> {
    let mut decoder = Decoder { input, at: 0, produced: 0, nibble: None };
    let bytes = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    decoder.run(out).map_err(|what| XpressError {
        input_offset: bytes(decoder.at.min(input.len())),
        produced: bytes(decoder.produced),
        what,
    })
}

/// Number of bytes that are copied at once if there is room, whatever the length.
const CHUNK: usize = 32;

struct Decoder<'i> {
    input: &'i [u8],
    at: usize,
    produced: usize,
    /// The byte whose upper half is used by the next long match.
    nibble: Option<u8>,
}

impl Decoder<'_> {
    fn run(&mut self, out: &mut [u8]) -> Result<(), XpressFault> {
        while self.produced < out.len() {
            let mut flags = self.input.u32_at(self.at).ok_or(XpressFault::Ends)?;
            self.at += 4;
            let mut left = 32;
            while left > 0 && self.produced < out.len() {
                let literals = flags.leading_zeros().min(left);
                if literals > 0 {
                    self.literals(literals as usize, out)?;
                    flags = flags.checked_shl(literals).unwrap_or(0);
                    left -= literals;
                } else {
                    let (distance, len) = self.match_at()?;
                    self.copy(distance, len, out)?;
                    flags <<= 1;
                    left -= 1;
                }
            }
        }
        Ok(())
    }

    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "never more is produced than there is room for, and what is copied is at most the length of both sides"
    )]
    fn literals(&mut self, count: usize, out: &mut [u8]) -> Result<(), XpressFault> {
        let from = self.input.get(self.at..).unwrap_or_default();
        let to = &mut out[self.produced..];
        if let (Some(from), Some(to)) = (from.first_chunk::<CHUNK>(), to.first_chunk_mut::<CHUNK>()) {
            *to = *from;
            self.at += count;
            self.produced += count;
            return Ok(());
        }
        let wanted = count.min(to.len());
        let there = wanted.min(from.len());
        to[..there].copy_from_slice(&from[..there]);
        self.at += there;
        self.produced += there;
        if there < wanted { Err(XpressFault::Ends) } else { Ok(()) }
    }

    #[inline]
    fn match_at(&mut self) -> Result<(usize, usize), XpressFault> {
        let token = self.input.u16_at(self.at).ok_or(XpressFault::Ends)?;
        self.at += 2;
        let distance = usize::from(token >> 3) + 1;
        let len = usize::from(token & 7);
        if len < 7 {
            return Ok((distance, len + 3));
        }
        let nibble = match self.nibble.take() {
            Some(byte) => byte >> 4,
            None => {
                let byte = self.byte()?;
                self.nibble = Some(byte);
                byte & 15
            }
        };
        if nibble < 15 {
            return Ok((distance, usize::from(nibble) + 7 + 3));
        }
        let byte = self.byte()?;
        if byte < 255 {
            return Ok((distance, usize::from(byte) + 15 + 7 + 3));
        }
        let mut long = u32::from(self.input.u16_at(self.at).ok_or(XpressFault::Ends)?);
        self.at += 2;
        if long == 0 {
            long = self.input.u32_at(self.at).ok_or(XpressFault::Ends)?;
            self.at += 4;
        }
        if long < 15 + 7 {
            return Err(XpressFault::Length);
        }
        Ok((distance, (long as usize).saturating_add(3)))
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, XpressFault> {
        let byte = self.input.u8_at(self.at).ok_or(XpressFault::Ends)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "the length is cut to the room that is left, and `from` is before it"
    )]
    fn copy(&mut self, distance: usize, len: usize, out: &mut [u8]) -> Result<(), XpressFault> {
        let to = self.produced;
        let from = to.checked_sub(distance).ok_or(XpressFault::Distance)?;
        if len <= CHUNK && distance >= CHUNK && to + CHUNK <= out.len() {
            out.copy_within(from..from + CHUNK, to);
            self.produced = to + len;
            return Ok(());
        }
        let len = len.min(out.len() - to);
        if distance == 1 {
            let byte = out[from];
            out[to..to + len].fill(byte);
        } else {
            // Each round doubles the number of bytes that can be copied at once, since they repeat with the distance as
            // period.
            let mut done = 0;
            while done < len {
                let count = (distance + done).min(len - done);
                out.copy_within(from..from + count, to + done);
                done += count;
            }
        }
        self.produced = to + len;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], len: usize, expected: Result<&[u8], (XpressFault, usize)>) {
        let mut out = vec![0xEE; len];
        match (decompress(input, &mut out), expected) {
            (Ok(()), Ok(expected)) => assert_eq!(out, expected),
            (Err(error), Err((what, produced))) => {
                assert_eq!((error.what, error.produced as usize), (what, produced))
            }
            (got, expected) => panic!("{got:?} is not {expected:?}"),
        }
    }

    #[test]
    fn the_published_examples() {
        // MS-XCA, section 3.1: the alphabet, and "abc" a hundred times.
        let alphabet = b"abcdefghijklmnopqrstuvwxyz";
        let mut literals = vec![0x3F, 0, 0, 0];
        literals.extend(alphabet);
        check(&literals, 26, Ok(alphabet));
        let repeated = [0xFF, 0xFF, 0xFF, 0x1F, 0x61, 0x62, 0x63, 0x17, 0x00, 0x0F, 0xFF, 0x26, 0x01];
        check(&repeated, 300, Ok(&b"abc".repeat(100)));
    }

    #[test]
    fn broken_streams_end_with_what_was_decoded() {
        check(&[], 0, Ok(&[]));
        check(&[0, 0, 0], 1, Err((XpressFault::Ends, 0)));
        check(&[0, 0, 0, 0, b'a', b'b'], 5, Err((XpressFault::Ends, 2)));
        check(&[0, 0, 0, 0x80, 0, 0], 5, Err((XpressFault::Distance, 0)));
        check(&[0, 0, 0, 0x40, b'a', 7, 0, 15, 255, 21, 0], 50, Err((XpressFault::Length, 1)));
        check(&[0, 0, 0, 0x40, b'a', 7, 0, 15, 255, 0, 0, 255, 255, 255, 255], 5, Ok(b"aaaaa"));
    }
}
