//! Files: keys, names and operations.

use super::{Fields, until_nul};

/// A record about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum File<'a> {
    /// The name of a file, which precedes any use of its key.
    Name(FileName<'a>),
    /// The start of an operation on an open file.
    Begin(FileBegin),
    /// The start of an operation on a path.
    Paths(FilePaths<'a>),
    /// The end of an operation, successful or not.
    End(FileEnd),
}

/// A kind of file operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FileAct {
    /// Opens it.
    Open = 1,
    /// Closes it: nothing refers to the open file any more.
    Close,
    /// Reads it.
    Read,
    /// Writes it.
    Write,
    /// Sets its permissions, owner or times.
    SetBasic,
    /// Sets its size.
    SetSize,
    /// Allocates or frees space for it.
    SetAllocation,
    /// Deletes a name of it.
    Delete,
    /// Renames it.
    Rename,
    /// Adds a name.
    AddLink,
    /// Queries its attributes.
    Query,
    /// Reads its directory entries.
    Enumerate,
    /// Writes its cached data to the disk.
    Flush,
    /// Creates a directory.
    MakeDirectory,
    /// Creates a symbolic link or another special file.
    MakeNode,
    /// Maps it into memory. There are no records of this operation itself.
    MapIntoMemory,
    /// Closes its last descriptor while mapped memory still refers to it.
    CloseMapped,
    /// It was created by the operation with this number, whose end follows.
    MadeNew,
}

impl FileAct {
    fn from_number(number: u32) -> Option<FileAct> {
        use FileAct::{
            AddLink, Close, CloseMapped, Delete, Enumerate, Flush, MadeNew, MakeDirectory, MakeNode,
            MapIntoMemory, Open, Query, Read, Rename, SetAllocation, SetBasic, SetSize, Write,
        };
        let all = [
            Open,
            Close,
            Read,
            Write,
            SetBasic,
            SetSize,
            SetAllocation,
            Delete,
            Rename,
            AddLink,
            Query,
            Enumerate,
            Flush,
            MakeDirectory,
            MakeNode,
            MapIntoMemory,
            CloseMapped,
            MadeNew,
        ];
        all.into_iter().find(|act| *act as u32 == number)
    }
}

/// The start of an operation on an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileBegin {
    /// The kind of operation.
    pub act: FileAct,
    /// The operation's number, which its end repeats.
    pub operation: u64,
    /// The open file: the number of the operation that opened it, or an address in the kernel if it was opened before
    /// the capture.
    pub object: u64,
    /// The file's key.
    pub key: u64,
    /// Position in the file in bytes; all ones if unknown.
    pub offset: u64,
    /// Number of bytes requested, or the size to set.
    pub size: u64,
}

/// The start of an operation on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePaths<'a> {
    /// The kind of operation.
    pub act: FileAct,
    /// The operation's number, which its end repeats.
    pub operation: u64,
    /// The flags passed to `open`, or the size to set.
    pub parameter: u64,
    is_cut: bool,
    path: GivenPath<'a>,
    second: Option<GivenPath<'a>>,
}

impl FilePaths<'_> {
    /// Appends the path, absolute unless it was cut.
    pub fn put_path(&self, to: &mut Vec<u8>) {
        self.path.put(self.is_cut, to);
    }

    /// Appends the new path of a rename or a link. Returns `false` for other operations, which have none.
    pub fn put_second_path(&self, to: &mut Vec<u8>) -> bool {
        if let Some(second) = &self.second {
            second.put(self.is_cut, to);
        }
        self.second.is_some()
    }
}

/// The end of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileEnd {
    /// The kind of operation.
    pub act: FileAct,
    /// The operation's number.
    pub operation: u64,
    /// The open file, as in [`FileBegin`]; 0 if none was opened or the operation was on a path.
    pub object: u64,
    /// The file's key; 0 if `object` is.
    pub key: u64,
    /// Number of bytes read or written; for `Open` 2 if the file was created, otherwise 1. Negative numbers are errors.
    pub result: i64,
}

/// A path as passed by a program, and the directory that it is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GivenPath<'a> {
    base: &'a [u8],
    given: &'a [u8],
}

impl GivenPath<'_> {
    fn put(&self, is_cut: bool, to: &mut Vec<u8>) {
        let given = until_nul(self.given);
        let before = to.len();
        if given.first() != Some(&b'/') {
            PathParts { parts: self.base, is_cut }.put(to);
            // The root already has the slash.
            to.truncate(if to[before..] == *b"/" { before } else { to.len() });
        }
        for part in given.split(|byte| *byte == b'/').filter(|part| !matches!(*part, [] | [b'.'])) {
            to.push(b'/');
            to.extend_from_slice(part);
        }
        if to.len() == before {
            to.push(b'/');
        }
    }
}

/// The name of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileName<'a> {
    /// The key of the file while the system keeps it in memory. Another file may get the key later; its name is then
    /// delivered first.
    pub key: u64,
    path: PathParts<'a>,
}

impl FileName<'_> {
    /// Appends the path.
    pub fn put_path(&self, to: &mut Vec<u8>) {
        self.path.put(to);
    }
}

/// A path as stored by the kernel: components, the last one first, each with its NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PathParts<'a> {
    parts: &'a [u8],
    /// Whether the start of the path is missing.
    is_cut: bool,
}

impl PathParts<'_> {
    fn put(self, to: &mut Vec<u8>) {
        let before = to.len();
        if self.is_cut {
            to.extend_from_slice("/…".as_bytes());
        }
        let parts = self.parts.strip_suffix(&[0]).unwrap_or(self.parts);
        // The root of a file system that is not mounted is named `/`.
        for part in parts.rsplit(|byte| *byte == 0).filter(|part| !matches!(*part, [] | [b'/'])) {
            to.push(b'/');
            to.extend_from_slice(part);
        }
        if to.len() == before {
            to.push(b'/');
        }
    }
}

pub(super) fn name<'a>(is_cut: bool, fields: Fields<'a>) -> Option<File<'a>> {
    let parts = fields.bytes(16, usize::try_from(fields.u64(8)?).ok()?)?;
    Some(File::Name(FileName { key: fields.u64(0)?, path: PathParts { parts, is_cut } }))
}

pub(super) fn begin<'a>(number: u32, fields: Fields<'a>) -> Option<File<'a>> {
    Some(File::Begin(FileBegin {
        act: FileAct::from_number(number)?,
        operation: fields.u64(0)?,
        object: fields.u64(8)?,
        key: fields.u64(16)?,
        offset: fields.u64(24)?,
        size: fields.u64(32)?,
    }))
}

pub(super) fn paths<'a>(number: u32, fields: Fields<'a>) -> Option<File<'a>> {
    const TEXT: usize = 64;
    let end = |index: usize| usize::try_from(fields.u64(32 + 8 * index)?).ok();
    let text = |begin: usize, end: usize| fields.bytes(TEXT + begin, end.checked_sub(begin)?);
    let path =
        |begin, base_end, end| Some(GivenPath { base: text(begin, base_end)?, given: text(base_end, end)? });
    let ends = [end(0)?, end(1)?, end(2)?, end(3)?];
    Some(File::Paths(FilePaths {
        act: FileAct::from_number(number)?,
        operation: fields.u64(0)?,
        parameter: fields.u64(8)?,
        is_cut: fields.u64(24)? != 0,
        path: path(0, ends[0], ends[1])?,
        second: if ends[3] == 0 { None } else { Some(path(ends[1], ends[2], ends[3])?) },
    }))
}

pub(super) fn end<'a>(number: u32, fields: Fields<'a>) -> Option<File<'a>> {
    Some(File::End(FileEnd {
        act: FileAct::from_number(number)?,
        operation: fields.u64(0)?,
        object: fields.u64(8)?,
        key: fields.u64(16)?,
        result: fields.u64(24)?.cast_signed(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_put_together() {
        let check = |parts: &[u8], is_cut: bool, expected: &str| {
            let mut bytes = [7_u64, parts.len() as u64].map(u64::to_ne_bytes).concat();
            bytes.extend_from_slice(parts);
            let Some(File::Name(name)) = name(is_cut, Fields(&bytes)) else { panic!("{expected}") };
            let mut path = Vec::new();
            name.put_path(&mut path);
            assert_eq!((name.key, str::from_utf8(&path).unwrap()), (7, expected));
            assert_eq!(super::name(is_cut, Fields(&bytes[..bytes.len() - 1])), None);
        };
        check(b"", false, "/");
        check(b"c\0b\0a\0", false, "/a/b/c");
        check(b"memfd:x\0", false, "/memfd:x");
        check(b"b\0/\0", false, "/b");
        check(b"c\0b\0", true, "/…/b/c");
        check(b"", true, "/…");
    }

    #[test]
    fn given_paths_are_relative_to_their_directories() {
        let check = |base: &[u8], given: &[u8], expected: &str| {
            let mut path = Vec::new();
            GivenPath { base, given }.put(false, &mut path);
            assert_eq!(str::from_utf8(&path).unwrap(), expected);
        };
        check(b"b\0a\0", b"x\0", "/a/b/x");
        check(b"b\0a\0", b"./x/../y\0", "/a/b/x/../y");
        check(b"b\0a\0", b"\0", "/a/b");
        check(b"", b"x\0", "/x");
        check(b"", b"/x//y/\0", "/x/y");
        check(b"", b"/\0", "/");
        check(b"", b"\0", "/");
    }

    #[test]
    fn two_paths_are_parted_and_lengths_checked() {
        let record = |ends: [u64; 4], text: &[u8]| {
            let mut bytes = [7, 8, 0, 0].map(u64::to_ne_bytes).concat();
            bytes.extend(ends.iter().flat_map(|end| end.to_ne_bytes()));
            bytes.extend_from_slice(text);
            bytes
        };
        let bytes = record([2, 4, 6, 8], b"a\0x\0b\0y\0");
        let Some(File::Paths(told)) = paths(9, Fields(&bytes)) else { panic!() };
        assert_eq!((told.act, told.operation, told.parameter), (FileAct::Rename, 7, 8));
        let (mut path, mut second) = (Vec::new(), Vec::new());
        told.put_path(&mut path);
        assert!(told.put_second_path(&mut second));
        assert_eq!((&path[..], &second[..]), (&b"/a/x"[..], &b"/b/y"[..]));
        for ends in [[2, 4, 6, 9], [5, 4, 6, 8], [2, 4, 3, 8], [u64::MAX, 4, 6, 8], [2, u64::MAX, 0, 0]] {
            assert_eq!(paths(9, Fields(&record(ends, b"a\0x\0b\0y\0"))), None, "{ends:?}");
        }
        assert_eq!(paths(99, Fields(&bytes)), None);
    }
}
