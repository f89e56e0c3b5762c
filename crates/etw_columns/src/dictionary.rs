//! Dictionaries: texts, GUIDs and stacks, each stored once per index and named by a code.

use std::hash::BuildHasher;

use etw_event::Guid;
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::ColumnsError;

/// The greatest number of entries of a dictionary.
const MAX_ENTRIES: usize = u32::MAX as usize;

/// Entries of a dictionary that is being written, found by seeded hashes that input cannot make collide.
#[derive(Debug, Default)]
struct Codes {
    table: HashTable<u32>,
    seed: RandomState,
}

impl Codes {
    /// Returns the code of an entry, and true if the entry is new and must be added.
    fn intern<K: std::hash::Hash + PartialEq>(
        &mut self,
        entries: usize,
        what: &'static str,
        key: K,
        key_of: impl Fn(u32) -> K,
    ) -> Result<(u32, bool), ColumnsError> {
        let hash = self.seed.hash_one(&key);
        if let Some(code) = self.table.find(hash, |code| key_of(*code) == key) {
            return Ok((*code, false));
        }
        if entries >= MAX_ENTRIES {
            return Err(ColumnsError::DictionaryFull { what, limit: MAX_ENTRIES as u64 });
        }
        let code = entries as u32;
        self.table.insert_unique(hash, code, |code| self.seed.hash_one(key_of(*code)));
        Ok((code, true))
    }
}

/// The texts of an index that is being written.
#[derive(Debug, Default)]
pub(crate) struct TextInterner {
    codes: Codes,
    /// The end of each text.
    ends: Vec<u64>,
    bytes: Vec<u8>,
}

impl TextInterner {
    pub(crate) fn intern(&mut self, text: &str) -> Result<u32, ColumnsError> {
        let (ends, bytes) = (&self.ends, &self.bytes);
        let entry = |code: u32| entry(ends, bytes, code);
        let (code, is_new) = self.codes.intern(ends.len(), "texts", text.as_bytes(), entry)?;
        if is_new {
            self.bytes.extend_from_slice(text.as_bytes());
            self.ends.push(self.bytes.len() as u64);
        }
        Ok(code)
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the bytes of the dictionary in a file: the ends of all texts, and then the texts.
    pub(crate) fn into_parts(self) -> [Vec<u8>; 2] {
        [self.ends.iter().flat_map(|end| end.to_le_bytes()).collect(), self.bytes]
    }
}

fn entry<'b>(ends: &[u64], bytes: &'b [u8], code: u32) -> &'b [u8] {
    let code = code as usize;
    let start = if code == 0 { 0 } else { ends[code - 1] };
    &bytes[start as usize..ends[code] as usize]
}

/// The GUIDs of an index that is being written.
#[derive(Debug, Default)]
pub(crate) struct GuidInterner {
    codes: Codes,
    guids: Vec<Guid>,
}

impl GuidInterner {
    pub(crate) fn intern(&mut self, guid: Guid) -> Result<u32, ColumnsError> {
        let guids = &self.guids;
        let (code, is_new) = self.codes.intern(guids.len(), "GUIDs", guid, |code| guids[code as usize])?;
        if is_new {
            self.guids.push(guid);
        }
        Ok(code)
    }

    pub(crate) fn len(&self) -> usize {
        self.guids.len()
    }

    pub(crate) fn into_parts(self) -> [Vec<u8>; 2] {
        [self.guids.iter().flat_map(|guid| guid.to_bytes()).collect(), Vec::new()]
    }
}

/// One frame of a stack, and the frames that called it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StackNode {
    /// Code of the stack of the callers; `None` if this frame is the outermost.
    pub parent: Option<u32>,
    /// What the frame is: an address, or a code of the caller's choice.
    pub frame: u64,
}

/// The stacks of an index that is being written.
#[derive(Debug, Default)]
pub(crate) struct StackInterner {
    codes: Codes,
    nodes: Vec<StackNode>,
}

impl StackInterner {
    pub(crate) fn intern(&mut self, node: StackNode) -> Result<u32, ColumnsError> {
        let nodes = &self.nodes;
        if let Some(parent) = node.parent.filter(|parent| *parent as usize >= nodes.len()) {
            return Err(ColumnsError::NoEntry { what: "stack", code: parent.into() });
        }
        let (code, is_new) = self.codes.intern(nodes.len(), "stacks", node, |code| nodes[code as usize])?;
        if is_new {
            self.nodes.push(node);
        }
        Ok(code)
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the bytes of the dictionary in a file: the frames, and then the parents, 0 or the code plus one.
    pub(crate) fn into_parts(self) -> [Vec<u8>; 2] {
        let parent = |node: &StackNode| node.parent.map_or(0, |parent| parent + 1);
        [
            self.nodes.iter().flat_map(|node| node.frame.to_le_bytes()).collect(),
            self.nodes.iter().flat_map(|node| parent(node).to_le_bytes()).collect(),
        ]
    }
}

/// The texts of an index.
#[derive(Debug, Clone, Copy)]
pub struct Texts<'i> {
    ends: &'i [[u8; 8]],
    bytes: &'i [u8],
}

impl<'i> Texts<'i> {
    /// Views the bytes of a dictionary with `count` texts; `None` if they are too few.
    pub(crate) fn new(bytes: &'i [u8], count: usize) -> Option<Texts<'i>> {
        let (ends, bytes) = bytes.split_at_checked(count.checked_mul(8)?)?;
        Some(Texts { ends: ends.as_chunks().0, bytes })
    }

    /// Returns what is wrong with the dictionary.
    pub(crate) fn defect(&self) -> Option<&'static str> {
        let mut start = 0;
        for end in self.ends {
            let end = u64::from_le_bytes(*end);
            if end < start || end > self.bytes.len() as u64 {
                return Some("ends of texts out of order");
            }
            if std::str::from_utf8(&self.bytes[start as usize..end as usize]).is_err() {
                return Some("text that is not UTF-8");
            }
            start = end;
        }
        (start != self.bytes.len() as u64).then_some("bytes after the last text")
    }

    /// Returns the number of texts; codes are less than it.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there are no texts.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the code of a text; `None` if the dictionary lacks it. Takes a pass over the ends of all texts.
    pub fn code_of(&self, text: &str) -> Option<u32> {
        let mut start = 0;
        let mut ends = self.ends.iter().zip(0..);
        ends.find_map(|(end, code)| {
            let end = u64::from_le_bytes(*end);
            let from = std::mem::replace(&mut start, end);
            let is_long = end.wrapping_sub(from) == text.len() as u64;
            let is_it = is_long && self.bytes.get(from as usize..end as usize) == Some(text.as_bytes());
            is_it.then_some(code)
        })
    }

    /// Returns the text of a code.
    pub fn get(&self, code: u32) -> Option<&'i str> {
        let code = code as usize;
        let end = u64::from_le_bytes(*self.ends.get(code)?) as usize;
        let start = match code.checked_sub(1) {
            Some(before) => u64::from_le_bytes(self.ends[before]) as usize,
            None => 0,
        };
        std::str::from_utf8(self.bytes.get(start..end)?).ok()
    }

    /// Returns the texts in the order of their codes.
    pub fn iter(&self) -> impl Iterator<Item = &'i str> + use<'i> {
        let texts = *self;
        (0..self.len() as u32).filter_map(move |code| texts.get(code))
    }
}

/// The GUIDs of an index.
#[derive(Debug, Clone, Copy)]
pub struct Guids<'i>(pub(crate) &'i [[u8; 16]]);

impl Guids<'_> {
    /// Returns the number of GUIDs; codes are less than it.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no GUIDs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the GUID of a code.
    pub fn get(&self, code: u32) -> Option<Guid> {
        self.0.get(code as usize).map(|bytes| Guid::from_bytes(*bytes))
    }
}

/// The stacks of an index.
#[derive(Debug, Clone, Copy)]
pub struct Stacks<'i> {
    frames: &'i [[u8; 8]],
    parents: &'i [[u8; 4]],
}

impl<'i> Stacks<'i> {
    /// Views the bytes of a dictionary with `count` stacks; `None` if they are not exactly as many.
    pub(crate) fn new(bytes: &'i [u8], count: usize) -> Option<Stacks<'i>> {
        let (frames, parents) = bytes.split_at_checked(count.checked_mul(8)?)?;
        (parents.len() == count * 4)
            .then_some(Stacks { frames: frames.as_chunks().0, parents: parents.as_chunks().0 })
    }

    /// Returns what is wrong with the dictionary: every parent comes before its children, so there are no circles.
    pub(crate) fn defect(&self) -> Option<&'static str> {
        let mut parents = self.parents.iter().enumerate();
        parents
            .any(|(code, parent)| u32::from_le_bytes(*parent) as usize > code)
            .then_some("stack after the stack that it calls")
    }

    /// Returns the number of stacks; codes are less than it.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns true if there are no stacks.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns the innermost frame of a stack, and its callers.
    pub fn get(&self, code: u32) -> Option<StackNode> {
        let frame = u64::from_le_bytes(*self.frames.get(code as usize)?);
        let parent = u32::from_le_bytes(*self.parents.get(code as usize)?).checked_sub(1);
        Some(StackNode { parent, frame })
    }

    /// Returns the frames of a stack from the innermost to the outermost.
    pub fn frames(&self, code: u32) -> impl Iterator<Item = u64> + use<'i> {
        let stacks = *self;
        let mut next = Some(code);
        std::iter::from_fn(move || {
            let node = stacks.get(next?)?;
            next = node.parent;
            Some(node.frame)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_stored_once() {
        let mut texts = TextInterner::default();
        let words = ["", "a", "ä", "a", "", "svchost.exe", "a"];
        let codes: Vec<u32> = words.iter().map(|text| texts.intern(text).unwrap()).collect();
        assert_eq!(codes, [0, 1, 2, 1, 0, 3, 1]);
        let bytes = texts.into_parts().concat();
        let read = Texts::new(&bytes, 4).unwrap();
        assert_eq!((read.defect(), read.len()), (None, 4));
        assert!(words.iter().zip(codes).all(|(text, code)| read.get(code) == Some(text)));
        assert_eq!(read.get(4), None);
        assert_eq!(read.iter().collect::<Vec<_>>(), ["", "a", "ä", "svchost.exe"]);
    }

    #[test]
    fn stacks_share_their_callers() {
        let mut stacks = StackInterner::default();
        let main = stacks.intern(StackNode { parent: None, frame: 10 }).unwrap();
        let left = stacks.intern(StackNode { parent: Some(main), frame: 20 }).unwrap();
        let right = stacks.intern(StackNode { parent: Some(main), frame: 30 }).unwrap();
        assert_eq!(stacks.intern(StackNode { parent: Some(main), frame: 20 }).unwrap(), left);
        assert!(stacks.intern(StackNode { parent: Some(9), frame: 1 }).is_err());
        let mut bytes = stacks.into_parts().concat();
        let read = Stacks::new(&bytes, 3).unwrap();
        assert_eq!(read.defect(), None);
        assert_eq!(read.frames(right).collect::<Vec<_>>(), [30, 10]);
        assert_eq!(read.frames(9).count(), 0);
        bytes[3 * 8] = 1;
        assert!(Stacks::new(&bytes, 3).unwrap().defect().is_some(), "the first stack is its own parent");
    }
}
