//! Frames and code of Python's interpreter.

use super::{Body, Fields};

/// A frame of Python's interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PythonFrame {
    /// Address of the code object.
    pub code: u64,
    /// Address of the instruction that runs, or of the one before it.
    pub instruction: u64,
    /// Whether the interpreter's function in C was called for this frame.
    pub is_entry: bool,
}

/// Size of a frame in a record.
const FRAME_BYTES: usize = 16;

/// Returns the frames in the last part of a stack's record, innermost first.
pub(super) fn frames(bytes: &[u8]) -> impl ExactSizeIterator<Item = PythonFrame> + '_ {
    bytes.as_chunks::<FRAME_BYTES>().0.iter().map(|frame| {
        let word = |at: usize| frame[at..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        PythonFrame { code: word(0) & !1, instruction: word(8), is_entry: word(0) & 1 == 1 }
    })
}

/// Code of Python that the event's thread runs, as its interpreter describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PythonCode<'a> {
    /// Address of the first instruction.
    pub instructions: u64,
    /// Size of the instructions in bytes.
    pub len_bytes: u32,
    /// Number of the line where its source starts.
    pub first_line: u32,
    /// Name, with the names of what it is in.
    pub name: PythonText<'a>,
    /// Path of the source file.
    pub file: PythonText<'a>,
    /// The lines of the instructions, as the interpreter keeps them (`co_linetable`); the start of it if it is long.
    pub lines: &'a [u8],
}

/// A text of Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PythonText<'a> {
    /// Bytes per character: 1, 2 or 4.
    width: u8,
    bytes: &'a [u8],
}

/// Maximum sizes, as in `bpf/room.h`.
const TEXT_MOST: usize = 512;
const TEXT_BYTES: usize = 8 + TEXT_MOST;

impl<'a> PythonText<'a> {
    fn parse(fields: Fields<'a>, at: usize) -> Option<PythonText<'a>> {
        let (state, len) = (fields.u32(at)?, fields.u32(at + 4)? as usize);
        let bytes = fields.0.get(at + 8..at + TEXT_BYTES)?.get(..len)?;
        Some(PythonText { width: (state >> 2 & 7) as u8, bytes })
    }
}

impl std::fmt::Display for PythonText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::fmt::Write;
        let mut put = |code: u32| f.write_char(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        match self.width {
            2 => self.bytes.as_chunks().0.iter().try_for_each(|code| put(u16::from_ne_bytes(*code).into())),
            4 => self.bytes.as_chunks().0.iter().try_for_each(|code| put(u32::from_ne_bytes(*code))),
            _ => self.bytes.iter().try_for_each(|code| put((*code).into())),
        }
    }
}

pub(super) fn body(fields: Fields<'_>) -> Option<Body<'_>> {
    const LINES: usize = 24 + 2 * TEXT_BYTES;
    let (instructions, units) = (fields.u64(0)?, fields.u64(8)?);
    let (first_line, lines) = (fields.u32(16)?, fields.u32(20)? as usize);
    let len_bytes = u32::try_from(units.checked_mul(2)?).ok()?;
    let (name, file) = (PythonText::parse(fields, 24)?, PythonText::parse(fields, 24 + TEXT_BYTES)?);
    let lines = fields.0.get(LINES..)?.get(..lines)?;
    Some(Body::PythonCode(PythonCode { instructions, len_bytes, first_line, name, file, lines }))
}

#[cfg(test)]
mod tests {
    use super::super::Event;
    use super::*;

    const PYTHON_CODE: u32 = 42;

    /// A text in its place in a record.
    fn text(width: u32, bytes: &[u8]) -> Vec<u8> {
        let mut text = [width << 2, bytes.len() as u32].map(u32::to_ne_bytes).concat();
        text.extend(bytes);
        text.resize(TEXT_BYTES, 0xEE);
        text
    }

    fn record(lines: &[u8]) -> Vec<u8> {
        let mut record =
            [&7_u64.to_ne_bytes()[..], &[PYTHON_CODE, 10, 11, 0].map(u32::to_ne_bytes).concat()].concat();
        record.extend([0x5000_u64, 21].map(u64::to_ne_bytes).concat());
        record.extend([3, lines.len() as u32].map(u32::to_ne_bytes).concat());
        record.extend(text(1, b"Caf\xe9.serve"));
        record.extend(text(
            2,
            &"/tmp/\u{144}.py".encode_utf16().flat_map(u16::to_ne_bytes).collect::<Vec<_>>(),
        ));
        record.extend(lines);
        record
    }

    #[test]
    fn code_has_names_of_any_width_and_lengths_are_checked() {
        let whole = record(&[1, 2, 3]);
        let Some(Event { body: Body::PythonCode(code), .. }) = Event::parse(&whole, 0) else { panic!() };
        assert_eq!((code.instructions, code.len_bytes, code.first_line), (0x5000, 42, 3));
        assert_eq!((code.name.to_string(), code.file.to_string()), ("Café.serve".into(), "/tmp/ń.py".into()));
        assert_eq!(code.lines, [1, 2, 3]);
        for len in 0..whole.len() {
            assert_eq!(Event::parse(&whole[..len], 0), None, "{len}");
        }
        let name = 24 + 24;
        // A length beyond the room for the text.
        let mut long = whole.clone();
        long[name + 4..name + 8].copy_from_slice(&(TEXT_MOST as u32 + 1).to_ne_bytes());
        assert_eq!(Event::parse(&long, 0), None);
    }

    #[test]
    fn frames_have_their_mark_in_the_lowest_bit() {
        let bytes = [0x1001_u64, 0x2000, 0x1010, 0x2002].map(u64::to_ne_bytes).concat();
        let expected = [(0x1000, 0x2000, true), (0x1010, 0x2002, false)];
        let expected =
            expected.map(|(code, instruction, is_entry)| PythonFrame { code, instruction, is_entry });
        assert_eq!(frames(&bytes).collect::<Vec<_>>(), expected);
    }
}
