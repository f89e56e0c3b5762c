//! The system calls that operate on files, as a table for `bpf/file_operations.h`.

use std::str::FromStr;

use syscalls::Sysno;

use crate::records::FileAct;

/// What the arguments of a system call are. `enum form` in `bpf/file_operations.h` has the same order.
#[derive(Debug, Clone, Copy)]
#[repr(u16)]
enum Form {
    Descriptor,
    Path,
    PathAt,
    PathSecond,
    PathAtSecond,
    Paths,
    PathsAt,
    FromSecond,
    FromTo,
    Range,
    Onto,
    Mapping,
}

/// The offset is the fourth argument.
const WITH_OFFSET: u16 = 1 << 9;
/// Data is given as vectors.
const WITH_VECTOR: u16 = 1 << 10;
/// There is no argument for flags; they are those of `creat`.
const AS_CREAT: u16 = 1 << 11;
/// Flags are in a structure.
const WITH_HOW: u16 = 1 << 12;

/// Size of the programs' table of system calls.
pub(super) const CALLS: usize = 512;

/// Name, operation, form of the arguments, flags.
type Call = (&'static str, FileAct, Form, u16);

/// By name, since each architecture has numbers of its own, and lacks some of the calls.
const TABLE: &[Call] = {
    use FileAct::{
        AddLink, Close, Delete, Enumerate, Flush, MakeDirectory, MakeNode, MapIntoMemory, Open, Query, Read,
        Rename, SetAllocation, SetBasic, SetSize, Write,
    };
    use Form::{
        Descriptor, FromSecond, FromTo, Mapping, Onto, Path, PathAt, PathAtSecond, PathSecond, Paths,
        PathsAt, Range,
    };
    &[
        ("open", Open, Path, 0),
        ("openat", Open, PathAt, 0),
        ("openat2", Open, PathAt, WITH_HOW),
        ("creat", Open, Path, AS_CREAT),
        ("read", Read, Descriptor, 0),
        ("pread64", Read, Descriptor, WITH_OFFSET),
        ("readv", Read, Descriptor, WITH_VECTOR),
        ("preadv", Read, Descriptor, WITH_VECTOR | WITH_OFFSET),
        ("preadv2", Read, Descriptor, WITH_VECTOR | WITH_OFFSET),
        ("write", Write, Descriptor, 0),
        ("pwrite64", Write, Descriptor, WITH_OFFSET),
        ("writev", Write, Descriptor, WITH_VECTOR),
        ("pwritev", Write, Descriptor, WITH_VECTOR | WITH_OFFSET),
        ("pwritev2", Write, Descriptor, WITH_VECTOR | WITH_OFFSET),
        ("sendfile", Read, FromSecond, 0),
        ("splice", Read, FromTo, 0),
        ("copy_file_range", Read, FromTo, 0),
        ("close", Close, Descriptor, 0),
        ("close_range", Close, Range, 0),
        ("dup2", Close, Onto, 0),
        ("dup3", Close, Onto, 0),
        ("mmap", MapIntoMemory, Mapping, 0),
        ("rename", Rename, Paths, 0),
        ("renameat", Rename, PathsAt, 0),
        ("renameat2", Rename, PathsAt, 0),
        ("link", AddLink, Paths, 0),
        ("linkat", AddLink, PathsAt, 0),
        ("unlink", Delete, Path, 0),
        ("rmdir", Delete, Path, 0),
        ("unlinkat", Delete, PathAt, 0),
        ("mkdir", MakeDirectory, Path, 0),
        ("mkdirat", MakeDirectory, PathAt, 0),
        ("mknod", MakeNode, Path, 0),
        ("mknodat", MakeNode, PathAt, 0),
        ("symlink", MakeNode, PathSecond, 0),
        ("symlinkat", MakeNode, PathAtSecond, 0),
        ("truncate", SetSize, Path, 0),
        ("ftruncate", SetSize, Descriptor, 0),
        ("fallocate", SetAllocation, Descriptor, 0),
        ("chmod", SetBasic, Path, 0),
        ("fchmod", SetBasic, Descriptor, 0),
        ("fchmodat", SetBasic, PathAt, 0),
        ("fchmodat2", SetBasic, PathAt, 0),
        ("chown", SetBasic, Path, 0),
        ("lchown", SetBasic, Path, 0),
        ("fchown", SetBasic, Descriptor, 0),
        ("fchownat", SetBasic, PathAt, 0),
        ("utime", SetBasic, Path, 0),
        ("utimes", SetBasic, Path, 0),
        ("futimesat", SetBasic, PathAt, 0),
        ("utimensat", SetBasic, PathAt, 0),
        ("stat", Query, Path, 0),
        ("lstat", Query, Path, 0),
        ("fstat", Query, Descriptor, 0),
        ("newfstatat", Query, PathAt, 0),
        ("statx", Query, PathAt, 0),
        ("access", Query, Path, 0),
        ("faccessat", Query, PathAt, 0),
        ("faccessat2", Query, PathAt, 0),
        ("getdents", Enumerate, Descriptor, 0),
        ("getdents64", Enumerate, Descriptor, 0),
        ("fsync", Flush, Descriptor, 0),
        ("fdatasync", Flush, Descriptor, 0),
        ("sync_file_range", Flush, Descriptor, 0),
    ]
};

/// Returns what each system call does with files, by its number on this architecture; 0 for those that do nothing.
pub(super) fn file_calls() -> [u16; CALLS] {
    let mut calls = [0; CALLS];
    for (name, act, form, more) in TABLE {
        let Ok(number) = Sysno::from_str(name) else { continue };
        if let Some(call) = calls.get_mut(number.id() as usize) {
            *call = *act as u16 | (*form as u16) << 5 | more;
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_by_their_names() {
        let calls = file_calls();
        let is_said = |number: Sysno| calls[number.id() as usize] != 0;
        assert!(is_said(Sysno::openat) && is_said(Sysno::statx) && !is_said(Sysno::getpid));
        // x86-64 has all of them, ARM64 those that take a directory or a descriptor.
        let expected = if cfg!(target_arch = "x86_64") { TABLE.len() } else { 44 };
        assert_eq!(calls.iter().filter(|call| **call != 0).count(), expected);
    }
}
