//! The system calls that do something with files, as `bpf/file_operations.h` is told of them.

use crate::records::FileAct;

/// What the arguments of a system call are.
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
/// Flags are not given, but those of `creat`.
const AS_CREAT: u16 = 1 << 11;
/// Flags stand in a structure.
const WITH_HOW: u16 = 1 << 12;

/// Numbers of system calls that the programs can be told of.
pub(super) const CALLS: usize = 512;

/// A system call that an architecture does not have.
const NONE: usize = CALLS;

/// Numbers on x86-64 and on ARM64, what is done, how it is given.
type Call = ([usize; 2], FileAct, Form, u16);

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
        // open, openat, openat2, creat
        ([2, NONE], Open, Path, 0),
        ([257, 56], Open, PathAt, 0),
        ([437, 437], Open, PathAt, WITH_HOW),
        ([85, NONE], Open, Path, AS_CREAT),
        // read, pread64, readv, preadv, preadv2
        ([0, 63], Read, Descriptor, 0),
        ([17, 67], Read, Descriptor, WITH_OFFSET),
        ([19, 65], Read, Descriptor, WITH_VECTOR),
        ([295, 69], Read, Descriptor, WITH_VECTOR | WITH_OFFSET),
        ([327, 286], Read, Descriptor, WITH_VECTOR | WITH_OFFSET),
        // write, pwrite64, writev, pwritev, pwritev2
        ([1, 64], Write, Descriptor, 0),
        ([18, 68], Write, Descriptor, WITH_OFFSET),
        ([20, 66], Write, Descriptor, WITH_VECTOR),
        ([296, 70], Write, Descriptor, WITH_VECTOR | WITH_OFFSET),
        ([328, 287], Write, Descriptor, WITH_VECTOR | WITH_OFFSET),
        // sendfile, splice, copy_file_range
        ([40, 71], Read, FromSecond, 0),
        ([275, 76], Read, FromTo, 0),
        ([326, 285], Read, FromTo, 0),
        // close, close_range, dup2, dup3, mmap
        ([3, 57], Close, Descriptor, 0),
        ([436, 436], Close, Range, 0),
        ([33, NONE], Close, Onto, 0),
        ([292, 24], Close, Onto, 0),
        ([9, 222], MapIntoMemory, Mapping, 0),
        // rename, renameat, renameat2
        ([82, NONE], Rename, Paths, 0),
        ([264, 38], Rename, PathsAt, 0),
        ([316, 276], Rename, PathsAt, 0),
        // link, linkat
        ([86, NONE], AddLink, Paths, 0),
        ([265, 37], AddLink, PathsAt, 0),
        // unlink, rmdir, unlinkat
        ([87, NONE], Delete, Path, 0),
        ([84, NONE], Delete, Path, 0),
        ([263, 35], Delete, PathAt, 0),
        // mkdir, mkdirat, mknod, mknodat, symlink, symlinkat
        ([83, NONE], MakeDirectory, Path, 0),
        ([258, 34], MakeDirectory, PathAt, 0),
        ([133, NONE], MakeNode, Path, 0),
        ([259, 33], MakeNode, PathAt, 0),
        ([88, NONE], MakeNode, PathSecond, 0),
        ([266, 36], MakeNode, PathAtSecond, 0),
        // truncate, ftruncate, fallocate
        ([76, 45], SetSize, Path, 0),
        ([77, 46], SetSize, Descriptor, 0),
        ([285, 47], SetAllocation, Descriptor, 0),
        // chmod, fchmod, fchmodat, fchmodat2
        ([90, NONE], SetBasic, Path, 0),
        ([91, 52], SetBasic, Descriptor, 0),
        ([268, 53], SetBasic, PathAt, 0),
        ([452, 452], SetBasic, PathAt, 0),
        // chown, lchown, fchown, fchownat
        ([92, NONE], SetBasic, Path, 0),
        ([94, NONE], SetBasic, Path, 0),
        ([93, 55], SetBasic, Descriptor, 0),
        ([260, 54], SetBasic, PathAt, 0),
        // utime, utimes, futimesat, utimensat
        ([132, NONE], SetBasic, Path, 0),
        ([235, NONE], SetBasic, Path, 0),
        ([261, NONE], SetBasic, PathAt, 0),
        ([280, 88], SetBasic, PathAt, 0),
        // stat, lstat, fstat, newfstatat, statx
        ([4, NONE], Query, Path, 0),
        ([6, NONE], Query, Path, 0),
        ([5, 80], Query, Descriptor, 0),
        ([262, 79], Query, PathAt, 0),
        ([332, 291], Query, PathAt, 0),
        // access, faccessat, faccessat2
        ([21, NONE], Query, Path, 0),
        ([269, 48], Query, PathAt, 0),
        ([439, 439], Query, PathAt, 0),
        // getdents, getdents64
        ([78, NONE], Enumerate, Descriptor, 0),
        ([217, 61], Enumerate, Descriptor, 0),
        // fsync, fdatasync, sync_file_range
        ([74, 82], Flush, Descriptor, 0),
        ([75, 83], Flush, Descriptor, 0),
        ([277, 84], Flush, Descriptor, 0),
    ]
};

/// By the number of the system call on the architecture this is compiled for: what it does, or zero.
pub(super) fn file_calls() -> [u16; CALLS] {
    let column = usize::from(!cfg!(target_arch = "x86_64"));
    let mut calls = [0; CALLS];
    for (numbers, act, form, more) in TABLE {
        if let Some(call) = calls.get_mut(numbers[column]) {
            *call = *act as u16 | (*form as u16) << 5 | more;
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_stands_for_two_calls() {
        for column in 0..2 {
            let mut numbers: Vec<usize> =
                TABLE.iter().map(|call| call.0[column]).filter(|number| *number != NONE).collect();
            let all = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), all);
        }
        let told = file_calls().iter().filter(|call| **call != 0).count();
        let column = usize::from(!cfg!(target_arch = "x86_64"));
        assert_eq!(told, TABLE.iter().filter(|call| call.0[column] != NONE).count());
    }
}
