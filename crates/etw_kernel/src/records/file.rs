//! Files: their keys and names, and what programs do with them.

use super::{Fields, until_nul};

/// What happens to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum File<'a> {
    /// The name of a file, which is told before its key is used.
    Name(FileName<'a>),
    /// Something is about to be done with an open file.
    Begin(FileBegin),
    /// Something is about to be done with what a path names.
    Paths(FilePaths<'a>),
    /// It has been done, or could not be.
    End(FileEnd),
}

/// What is done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FileAct {
    /// It is opened.
    Open = 1,
    /// What was opened is closed: nothing refers to it any more.
    Close,
    /// It is read.
    Read,
    /// It is written.
    Write,
    /// Its rights, owner or times are set.
    SetBasic,
    /// Its size is set.
    SetSize,
    /// Room is set aside for it, or taken away.
    SetAllocation,
    /// A name of it is deleted.
    Delete,
    /// It gets another name.
    Rename,
    /// It gets a name more.
    AddLink,
    /// What is known of it is asked for.
    Query,
    /// Its entries are read.
    Enumerate,
    /// What is cached of it is brought to the disk.
    Flush,
    /// It is made, as a directory.
    MakeDirectory,
    /// It is made, as a symbolic link or another special file.
    MakeNode,
    /// It is mapped into memory, which is not told by itself.
    MapIntoMemory,
    /// Its last descriptor is closed, while memory that is mapped still refers to it.
    CloseMapped,
    /// It has been made, by the operation of this number, whose end follows.
    MadeNew,
}

impl FileAct {
    fn of(number: u32) -> Option<FileAct> {
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

/// The begin of an operation on an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileBegin {
    /// What is done.
    pub act: FileAct,
    /// The operation's number, which its end has too.
    pub operation: u64,
    /// The open file: the number of the operation that opened it, or an address of the kernel's if that was before.
    pub object: u64,
    /// The file's key.
    pub key: u64,
    /// Where it begins, in bytes; all ones if that is not known.
    pub offset: u64,
    /// How many bytes the program asks for, or the size that it sets.
    pub size: u64,
}

/// The begin of an operation on what a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePaths<'a> {
    /// What is done.
    pub act: FileAct,
    /// The operation's number, which its end has too.
    pub operation: u64,
    /// The flags that it is opened with, or the size that is set.
    pub parameter: u64,
    is_cut: bool,
    path: GivenPath<'a>,
    second: Option<GivenPath<'a>>,
}

impl FilePaths<'_> {
    /// Puts the path, from the root of the file system on as far as it is not cut.
    pub fn put_path(&self, to: &mut Vec<u8>) {
        self.path.put(self.is_cut, to);
    }

    /// Puts the new path of what is renamed or linked. Other operations have none, and get the answer `false`.
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
    /// What was done.
    pub act: FileAct,
    /// The operation's number.
    pub operation: u64,
    /// The open file, as in [`FileBegin`]; 0 if none was opened, or the operation was on a path.
    pub object: u64,
    /// The file's key; 0 as with `object`.
    pub key: u64,
    /// How many bytes were read or written; for what was opened 2 if it was made, else 1. Negative numbers are errors.
    pub result: i64,
}

/// A path as a program gives it, and the directory that it is relative to.
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
            // The root has the slash already.
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
    /// Stands for the file, as long as the system keeps it in memory; another file may get the key later, and is told
    /// then.
    pub key: u64,
    path: PathParts<'a>,
}

impl FileName<'_> {
    /// Puts the whole path.
    pub fn put_path(&self, to: &mut Vec<u8>) {
        self.path.put(to);
    }
}

/// A path as the kernel keeps it: parts, the last one first, each with its NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PathParts<'a> {
    parts: &'a [u8],
    /// Whether the begin of the path is missing.
    is_cut: bool,
}

impl PathParts<'_> {
    fn put(self, to: &mut Vec<u8>) {
        let before = to.len();
        if self.is_cut {
            to.extend_from_slice("/…".as_bytes());
        }
        let parts = self.parts.strip_suffix(&[0]).unwrap_or(self.parts);
        // The top of a file system that is not mounted is called `/`.
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
        act: FileAct::of(number)?,
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
        act: FileAct::of(number)?,
        operation: fields.u64(0)?,
        parameter: fields.u64(8)?,
        is_cut: fields.u64(24)? != 0,
        path: path(0, ends[0], ends[1])?,
        second: if ends[3] == 0 { None } else { Some(path(ends[1], ends[2], ends[3])?) },
    }))
}

pub(super) fn end<'a>(number: u32, fields: Fields<'a>) -> Option<File<'a>> {
    Some(File::End(FileEnd {
        act: FileAct::of(number)?,
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
