//! Steps over the blocks of a file, in both framings: the objects of formats 3 to 5, and the block headers of format 6.

use etw_event::Fields;

use crate::Damage;
use crate::cursor::Cursor;

/// Tags of objects: `NullReference`, `BeginObject`, `BeginPrivateObject`, `EndObject`.
const NULL: u8 = 1;
const BEGIN: u8 = 4;
const BEGIN_PRIVATE: u8 = 5;
const END: u8 = 6;

/// What a block contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Trace,
    Event,
    Metadata,
    Stack,
    SequencePoint,
    Thread,
    RemoveThread,
    LabelList,
    /// A kind that later minor versions may define; it is skipped.
    Unknown,
}

/// The contents of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    pub(crate) kind: BlockKind,
    /// Offset of `bytes` in the file.
    pub(crate) offset: u64,
    pub(crate) bytes: &'a [u8],
}

/// How blocks follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Objects with tags, a type and padding (formats 3 to 5).
    Objects,
    /// A size of 24 bits and a kind (format 6).
    Headers,
}

/// Iterator over blocks and damage between them.
#[derive(Debug, Clone)]
pub(crate) struct Blocks<'a> {
    bytes: &'a [u8],
    at: usize,
    framing: Framing,
    /// Damage to report after the block that it concerns.
    pending: Option<Damage>,
    is_done: bool,
    /// Whether the mark of the stream's end was found.
    pub(crate) is_ended: bool,
}

/// The header of an object.
pub(crate) struct ObjectHeader<'a> {
    pub(crate) version: u32,
    pub(crate) name: &'a [u8],
    /// Offset in the file after the header.
    pub(crate) end: usize,
}

impl<'a> Blocks<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: usize, framing: Framing) -> Blocks<'a> {
        Blocks { bytes, at, framing, pending: None, is_done: false, is_ended: false }
    }

    fn next_object(&mut self) -> Option<Result<Block<'a>, Damage>> {
        if self.bytes.u8_at(self.at) == Some(NULL) {
            return self.end();
        }
        let found =
            object_header(self.bytes, self.at).and_then(|header| Some((kind_of(header.name)?, header.end)));
        let Some((kind, size_at)) = found else { return Some(Err(self.skip("no object begins here"))) };
        let start = (size_at + 4).next_multiple_of(4);
        let size = self.bytes.u32_at(size_at).map_or(usize::MAX, |size| size as usize);
        let end = start.saturating_add(size);
        let end = if self.bytes.u8_at(end) == Some(END) {
            self.at = end + 1;
            end
        } else {
            // The size is wrong, or the file is cut: the block extends to the next object.
            self.at = next_object(self.bytes, size_at);
            let what = "an object does not end where its size says";
            self.pending = Some(Damage { offset: size_at as u64, what, skipped: 0 });
            // The tag of the object's end precedes the next object.
            if self.at < self.bytes.len() { self.at - 1 } else { self.at }
        };
        let bytes = self.bytes.get(start..end).unwrap_or_default();
        Some(Ok(Block { kind, offset: start as u64, bytes }))
    }

    fn next_header(&mut self) -> Option<Result<Block<'a>, Damage>> {
        let Some(header) = self.bytes.u32_at(self.at) else {
            return Some(Err(self.skip("the file ends within a block's header")));
        };
        let (size, kind) = ((header & 0x00FF_FFFF) as usize, header >> 24);
        let kind = match kind {
            0 => return self.end(),
            1 => BlockKind::Trace,
            2 => BlockKind::Event,
            3 => BlockKind::Metadata,
            4 => BlockKind::SequencePoint,
            5 => BlockKind::Stack,
            6 => BlockKind::Thread,
            7 => BlockKind::RemoveThread,
            8 => BlockKind::LabelList,
            _ => BlockKind::Unknown,
        };
        let start = self.at + 4;
        let rest = self.bytes.get(start..).unwrap_or_default();
        if rest.len() < size {
            let what = "the file ends within a block";
            self.pending = Some(Damage { offset: self.at as u64, what, skipped: 0 });
        }
        let bytes = rest.get(..size).unwrap_or(rest);
        self.at = start + bytes.len();
        Some(Ok(Block { kind, offset: start as u64, bytes }))
    }

    fn end<T>(&mut self) -> Option<T> {
        (self.is_done, self.is_ended) = (true, true);
        None
    }

    /// Continues at the next object, or in format 6, where nothing marks one, at the end of the file.
    fn skip(&mut self, what: &'static str) -> Damage {
        let from = self.at;
        self.at = match self.framing {
            Framing::Objects => next_object(self.bytes, from + 1),
            Framing::Headers => self.bytes.len(),
        };
        Damage { offset: from as u64, what, skipped: (self.at - from) as u64 }
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Result<Block<'a>, Damage>;

    fn next(&mut self) -> Option<Result<Block<'a>, Damage>> {
        if let Some(damage) = self.pending.take() {
            return Some(Err(damage));
        }
        if self.is_done {
            return None;
        }
        if self.at >= self.bytes.len() {
            self.is_done = true;
            let what = "the file ends without the mark of its end";
            return Some(Err(Damage { offset: self.bytes.len() as u64, what, skipped: 0 }));
        }
        match self.framing {
            Framing::Objects => self.next_object(),
            Framing::Headers => self.next_header(),
        }
    }
}

/// Parses the header of an object: its begin, and its type with version and name.
pub(crate) fn object_header(bytes: &[u8], at: usize) -> Option<ObjectHeader<'_>> {
    let mut cursor = Cursor::new(bytes.get(at..)?);
    let [begin, begin_type, null] = cursor.array()?;
    if !matches!(begin, BEGIN | BEGIN_PRIVATE) || begin_type != begin || null != NULL {
        return None;
    }
    let version = cursor.u32()?;
    let _minimum_reader_version = cursor.u32()?;
    let len = cursor.u32()?;
    let name = cursor.take(len as usize)?;
    (cursor.u8()? == END).then_some(ObjectHeader { version, name, end: at + cursor.at() })
}

fn kind_of(name: &[u8]) -> Option<BlockKind> {
    Some(match name {
        b"EventBlock" => BlockKind::Event,
        b"MetadataBlock" => BlockKind::Metadata,
        b"StackBlock" => BlockKind::Stack,
        b"SPBlock" => BlockKind::SequencePoint,
        _ => return None,
    })
}

/// Returns the offset of the first object of a known type at or after `from`, or the end of the file.
fn next_object(bytes: &[u8], from: usize) -> usize {
    let is_object =
        |at: &usize| object_header(bytes, *at).is_some_and(|header| kind_of(header.name).is_some());
    (from..bytes.len()).find(is_object).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(bytes: &mut Vec<u8>, name: &[u8], payload: &[u8]) {
        bytes.extend([BEGIN_PRIVATE, BEGIN_PRIVATE, NULL, 2, 0, 0, 0, 2, 0, 0, 0]);
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend_from_slice(name);
        bytes.push(END);
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend_from_slice(payload);
        bytes.push(END);
    }

    fn texts(bytes: &[u8], framing: Framing) -> Vec<String> {
        let items = Blocks::new(bytes, 0, framing);
        let text = |item: Result<Block<'_>, Damage>| match item {
            Ok(block) => format!("{:?} {}", block.kind, String::from_utf8_lossy(block.bytes)),
            Err(damage) => damage.to_string(),
        };
        items.map(text).collect()
    }

    #[test]
    fn objects_and_what_lies_between_them() {
        let mut bytes = Vec::new();
        object(&mut bytes, b"StackBlock", b"one");
        let second = bytes.len();
        object(&mut bytes, b"EventBlock", b"two");
        let third = bytes.len();
        object(&mut bytes, b"SPBlock", b"three");
        bytes.push(NULL);
        let all = ["Stack one", "Event two", "SequencePoint three"];
        assert_eq!(texts(&bytes, Framing::Objects), all);
        let mut broken = bytes.clone();
        broken[second] = 0xFF;
        let skipped = format!("offset {second:#x}: no object begins here; {} bytes skipped", third - second);
        assert_eq!(texts(&broken, Framing::Objects), [all[0], &skipped, all[2]]);
        // A size that is too large ends at the next object.
        let mut broken = bytes.clone();
        let size_at = second + 3 + 12 + 10 + 1;
        broken[size_at + 2] = 0xFF;
        let wrong =
            format!("offset {size_at:#x}: an object does not end where its size says; 0 bytes skipped");
        assert_eq!(texts(&broken, Framing::Objects), [all[0], all[1], &wrong, all[2]]);
        let cut = texts(&bytes[..bytes.len() - 1], Framing::Objects);
        assert_eq!(&cut[..3], all);
        assert!(cut[3].contains("without the mark of its end"), "{cut:?}");
    }

    #[test]
    fn block_headers() {
        let bytes = b"\x03\0\0\x02abc\x01\0\0\x63x\0\0\0\x00after";
        assert_eq!(texts(bytes, Framing::Headers), ["Event abc", "Unknown x"]);
        let cut = texts(b"\x03\0\0\x02ab", Framing::Headers);
        assert_eq!(cut[0], "Event ab");
        assert!(cut[1].contains("within a block"), "{cut:?}");
        assert!(texts(b"\x03\0", Framing::Headers)[0].contains("within a block's header"));
    }
}
