//! Executable mappings.

use perf_event_open_sys::bindings::{
    PERF_RECORD_COMM, PERF_RECORD_LOST, PERF_RECORD_MISC_COMM_EXEC, PERF_RECORD_MISC_MMAP_BUILD_ID,
    PERF_RECORD_MMAP2,
};

use etw_kernel_events::classes::BuildId;

use super::{Body, Fields, until_nul};

/// A change of a process's executable memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageChange<'a> {
    /// It creates an executable mapping.
    Mapped(Mapping<'a>),
    /// It is about to run another program: all its mappings are gone.
    Replaced,
    /// It has called `munmap`, whatever was mapped there.
    Unmapped {
        /// The lowest address.
        address: u64,
        /// Number of bytes from there.
        bytes: u64,
    },
}

/// An executable mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// The lowest address.
    pub address: u64,
    /// Number of bytes from there.
    pub bytes: u64,
    /// Offset in the file.
    pub offset: u64,
    /// The file.
    pub file: FileIdentity,
    /// The file's path in the process's view; `[vdso]`, `//anon` and similar for memory without a file.
    pub path: &'a [u8],
}

/// How the kernel identifies a mapped file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileIdentity {
    /// By its build id.
    BuildId(BuildId),
    /// By its location, if it has no build id or the kernel does not report it.
    Inode {
        /// Major and minor number of the device.
        device: (u32, u32),
        /// Number of the inode.
        inode: u64,
    },
}

/// Kinds of the records of images; the first two are made of records of `perf_event_open`.
pub(super) const MAPPED: u32 = 60;
pub(super) const REPLACED: u32 = 61;
pub(super) const UNMAPPED: u32 = 62;

/// Converts a record of `perf_event_open` into one of the capture: its header, then the fields after process and
/// thread.
///
/// Returns whether the record is of a kind that is used.
pub(crate) fn of_mapping_ring(record: &[u8], to: &mut Vec<u8>) -> bool {
    let fields = Fields(record);
    let kind = match (fields.u32(0), fields.u16(4)) {
        (Some(PERF_RECORD_MMAP2), _) => MAPPED,
        (Some(PERF_RECORD_COMM), Some(flags)) if u32::from(flags) & PERF_RECORD_MISC_COMM_EXEC != 0 => {
            REPLACED
        }
        _ => return false,
    };
    // The body follows process and thread of the subject. Process, thread and time of the event are at the end.
    let (Some(ids), Some(flags), Some((body, end))) =
        (fields.bytes(8, 8), fields.u16(4), record.get(16..).and_then(|rest| rest.split_last_chunk::<16>()))
    else {
        return false;
    };
    to.extend_from_slice(&end[8..]);
    to.extend_from_slice(&kind.to_ne_bytes());
    to.extend_from_slice(ids);
    to.extend_from_slice(&u32::from(flags).to_ne_bytes());
    to.extend_from_slice(body);
    true
}

/// Returns the number of lost records if this record of `perf_event_open` reports it, otherwise 0.
pub(crate) fn lost_of_ring(record: &[u8]) -> u64 {
    let fields = Fields(record);
    if fields.u32(0) == Some(PERF_RECORD_LOST) { fields.u64(16).unwrap_or(0) } else { 0 }
}

pub(super) fn body<'a>(kind: u32, flags: u32, fields: Fields<'a>) -> Option<Body<'a>> {
    let change = match kind {
        MAPPED => ImageChange::Mapped(Mapping {
            address: fields.u64(0)?,
            bytes: fields.u64(8)?,
            offset: fields.u64(16)?,
            file: identity(flags, fields)?,
            path: until_nul(fields.0.get(56..)?),
        }),
        REPLACED => ImageChange::Replaced,
        _ => ImageChange::Unmapped { address: fields.u64(0)?, bytes: fields.u64(8)? },
    };
    Some(Body::Image(change))
}

fn identity(flags: u32, fields: Fields<'_>) -> Option<FileIdentity> {
    if flags & PERF_RECORD_MISC_MMAP_BUILD_ID != 0 {
        let len = fields.bytes(24, 1)?[0];
        if let Some(id) = BuildId::new(fields.bytes(28, len.min(20).into())?) {
            return Some(FileIdentity::BuildId(id));
        }
    }
    Some(FileIdentity::Inode { device: (fields.u32(24)?, fields.u32(28)?), inode: fields.u64(32)? })
}

#[cfg(test)]
mod tests {
    use super::super::Event;
    use super::*;

    /// A record of `perf_event_open`: kind, flags, body, then process, thread and time.
    fn foreign(kind: u32, flags: u16, body: &[u8]) -> Vec<u8> {
        let size = (8 + 8 + body.len() + 16) as u16;
        let ids = [10_u32, 11].map(u32::to_ne_bytes).concat();
        let header = [&kind.to_ne_bytes()[..], &flags.to_ne_bytes(), &size.to_ne_bytes()].concat();
        [&header[..], &ids, body, &ids, &7_u64.to_ne_bytes()].concat()
    }

    fn parse(record: &[u8]) -> Option<Vec<u8>> {
        let mut own = Vec::new();
        of_mapping_ring(record, &mut own).then_some(own)
    }

    #[test]
    fn mappings_are_read() {
        let numbers = [0x1000_u64, 0x2000, 0x3000].map(u64::to_ne_bytes).concat();
        let inode =
            [&[8_u32, 1].map(u32::to_ne_bytes).concat()[..], &[9_u64, 2].map(u64::to_ne_bytes).concat()]
                .concat();
        let build_id = [&[20_u8, 0, 0, 0][..], &[5; 20]].concat();
        let rights = [0; 8];
        let check = |flags, file: &[u8], expected| {
            let body = [&numbers[..], file, &rights, b"/bin/a b\0\0\0\0\0\0\0\0"].concat();
            let own = parse(&foreign(PERF_RECORD_MMAP2, flags, &body)).unwrap();
            let event = Event::parse(&own, 1).unwrap();
            assert_eq!((event.time, event.process_id, event.thread_id), (7, 10, 11));
            let mapping =
                Mapping { address: 0x1000, bytes: 0x2000, offset: 0x3000, file: expected, path: b"/bin/a b" };
            assert_eq!(event.body, Body::Image(ImageChange::Mapped(mapping)));
            for len in 0..24 + 56 {
                assert_eq!(Event::parse(&own[..len], 1), None, "{len}");
            }
        };
        check(0, &inode, FileIdentity::Inode { device: (8, 1), inode: 9 });
        check(1 << 14, &build_id, FileIdentity::BuildId(BuildId::new(&[5; 20]).unwrap()));
        for len in 0..40 {
            let _ = parse(&foreign(PERF_RECORD_MMAP2, 0, &inode)[..len]);
        }
    }

    #[test]
    fn only_names_of_new_programs_count() {
        assert_eq!(parse(&foreign(PERF_RECORD_COMM, 0, b"thread\0\0")), None);
        let own = parse(&foreign(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC as u16, b"program\0")).unwrap();
        assert_eq!(Event::parse(&own, 0).unwrap().body, Body::Image(ImageChange::Replaced));
        assert_eq!(parse(&foreign(4, 0, &[0; 16])), None);
        let lost = [1_u64, 77].map(u64::to_ne_bytes).concat();
        let lost = [&[2, 0, 0, 0, 0, 0, 40, 0][..], &lost, &[0; 16]].concat();
        assert_eq!((lost_of_ring(&lost), parse(&lost)), (77, None));
    }
}
