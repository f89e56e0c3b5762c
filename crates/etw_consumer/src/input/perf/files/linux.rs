//! Files of Linux programs and libraries.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::ops::{Deref, Range};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use etw_kernel_events::classes::BuildId;
use etw_perf_data::{Features, Mapping};
use etw_sys::FileMap;
use etw_sys::credentials::effective_uid;
use framehop::{ExplicitModuleSectionInfo, Module};
use object::elf::PF_X;
use object::{CompressionFormat, Object, ObjectSection, ObjectSegment, SegmentFlags};

/// Maximum number of files that are opened.
const MAX_FILES: usize = 1 << 14;
/// Smallest page size; files are loaded at multiples of it.
const PAGE_BYTES: u64 = 4096;
/// Bits of a file's mode: others than its owner may write it.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The files of images by their paths.
#[derive(Debug)]
pub(in super::super) struct ImageFiles {
    by_path: HashMap<Vec<u8>, Option<Arc<ImageFile>>>,
    /// Whether the recording says that it is of the machine with this name.
    is_of_this_machine: bool,
}

/// A file of an image.
#[derive(Debug)]
pub(in super::super) struct ImageFile {
    build_id: Option<BuildId>,
    /// Device and inode.
    identity: (u32, u32, u64),
    segments: Vec<Segment>,
    /// Lowest link address.
    lowest: u64,
    unwinding: Option<UnwindSections>,
}

/// A part of a file that is mapped.
#[derive(Debug, Clone, Copy)]
struct Segment {
    address: u64,
    offset: u64,
    len_bytes: u64,
    /// Whether it can be executed. The first page of a segment is often the last one of another.
    is_code: bool,
}

/// The sections that frames are unwound by.
#[derive(Debug, Clone)]
struct UnwindSections {
    text: Option<Range<u64>>,
    got: Option<Range<u64>>,
    eh_frame: Option<(Range<u64>, SectionBytes)>,
    eh_frame_header: Option<(Range<u64>, SectionBytes)>,
}

/// Bytes of a section.
#[derive(Debug, Clone, Default)]
pub(super) struct SectionBytes {
    /// The file; `None` for no bytes.
    map: Option<Arc<FileMap>>,
    range: Range<usize>,
}

impl Deref for SectionBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.map.as_ref().and_then(|map| map.get(self.range.clone())).unwrap_or_default()
    }
}

impl ImageFiles {
    pub(in super::super) fn new(features: &Features<'_>) -> ImageFiles {
        let name = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = name.trim_ascii_end();
        ImageFiles {
            by_path: HashMap::new(),
            is_of_this_machine: !name.is_empty() && name == features.host_name,
        }
    }

    /// Returns the file of a mapping if it is the one that was mapped: with the same build id, or if the recording does
    /// not have that and is of this machine, with the same device and inode.
    pub(in super::super) fn find(
        &mut self,
        mapping: &Mapping<'_>,
        build_id: Option<BuildId>,
    ) -> Option<Arc<ImageFile>> {
        if !self.by_path.contains_key(mapping.path) {
            let file = if self.by_path.len() < MAX_FILES { ImageFile::open(mapping.path) } else { None };
            self.by_path.insert(mapping.path.to_vec(), file.map(Arc::new));
        }
        let file = self.by_path.get(mapping.path)?.as_ref()?;
        let is_it = match build_id {
            Some(build_id) => file.build_id == Some(build_id),
            None => self.is_of_this_machine && mapping.file == Some(file.identity),
        };
        is_it.then(|| file.clone())
    }
}

impl ImageFile {
    fn open(path: &[u8]) -> Option<ImageFile> {
        let file = etw_sys::open_regular(Path::new(OsStr::from_bytes(path))).ok()?;
        let metadata = file.metadata().ok()?;
        let map = Arc::new(FileMap::new(&file).ok()?);
        let elf = object::File::parse(&**map).ok()?;
        let segments = elf.segments().map(|segment| {
            let (offset, len_bytes) = segment.file_range();
            let is_code =
                matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.contains(PF_X));
            Segment { address: segment.address(), offset, len_bytes, is_code }
        });
        let segments: Vec<Segment> = segments.collect();
        let lowest = segments.iter().map(|segment| segment.address).min()? & !(PAGE_BYTES - 1);
        Some(ImageFile {
            build_id: elf.build_id().ok().flatten().and_then(BuildId::new),
            identity: identity(&metadata),
            lowest,
            unwinding: is_trusted(&metadata).then(|| UnwindSections::new(&elf, &map)),
            segments,
        })
    }

    /// Returns the build id.
    pub(in super::super) fn build_id(&self) -> Option<BuildId> {
        self.build_id
    }

    /// Returns the address at which the file begins in memory.
    pub(in super::super) fn base_of(&self, mapping: &Mapping<'_>) -> Option<u64> {
        // Segments are mapped from the start of their first page.
        let first = |segment: &&Segment| {
            let start = segment.offset & !(PAGE_BYTES - 1);
            segment.is_code
                && (start..segment.offset.saturating_add(segment.len_bytes)).contains(&mapping.file_offset)
        };
        let segment = self.segments.iter().find(first)?;
        let linked = segment.address.wrapping_sub(segment.offset).wrapping_add(mapping.file_offset);
        Some(mapping.address.wrapping_sub(linked).wrapping_add(self.lowest))
    }

    /// Returns the file in the unwinder's form, as mapped at these addresses. `base` is that of [`ImageFile::base_of`].
    pub(super) fn module(&self, addresses: Range<u64>, base: u64) -> Option<Module<SectionBytes>> {
        let sections = self.unwinding.clone()?;
        let (eh_frame_svma, eh_frame) = sections.eh_frame.unzip();
        let (eh_frame_hdr_svma, eh_frame_hdr) = sections.eh_frame_header.unzip();
        let info = ExplicitModuleSectionInfo {
            base_svma: self.lowest,
            text_svma: sections.text,
            got_svma: sections.got,
            eh_frame_svma,
            eh_frame,
            eh_frame_hdr_svma,
            eh_frame_hdr,
            ..ExplicitModuleSectionInfo::default()
        };
        Some(Module::new(String::new(), addresses, base, info))
    }
}

impl UnwindSections {
    fn new(elf: &object::File<'_>, map: &Arc<FileMap>) -> UnwindSections {
        let range = |name: &str| {
            let section = elf.section_by_name(name)?;
            Some(section.address()..section.address().checked_add(section.size())?)
        };
        let bytes = |name: &str| {
            let section = elf.section_by_name(name)?;
            let place = section.compressed_file_range().ok()?;
            if place.format != CompressionFormat::None {
                return None;
            }
            let start = usize::try_from(place.offset).ok()?;
            let end = start.checked_add(usize::try_from(place.uncompressed_size).ok()?)?;
            Some((range(name)?, SectionBytes { map: Some(map.clone()), range: start..end }))
        };
        UnwindSections {
            text: range(".text"),
            got: range(".got"),
            eh_frame: bytes(".eh_frame"),
            eh_frame_header: bytes(".eh_frame_hdr"),
        }
    }
}

/// Returns device and inode of a file, as mappings have them.
fn identity(metadata: &Metadata) -> (u32, u32, u64) {
    let device = metadata.dev();
    let major = device >> 8 & 0xFFF | device >> 32 & 0xFFFF_F000;
    let minor = device & 0xFF | device >> 12 & 0xFFFF_FF00;
    (major as u32, minor as u32, metadata.ino())
}

/// Returns whether a file is of root or of the user, and nobody else can write it: how frames are unwound can be crafted
/// to keep readers busy.
fn is_trusted(metadata: &Metadata) -> bool {
    [0, effective_uid()].contains(&metadata.uid()) && metadata.mode() & WRITABLE_BY_OTHERS == 0
}
