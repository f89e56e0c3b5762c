//! Mapped files and what their heads describe.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etw_kernel_events::classes::BuildId;
use etw_sys::vdso;

use super::elf::Head;
use crate::records::{FileIdentity, Mapping};

/// A mapped file, as described by its head.
#[derive(Debug, PartialEq, Eq)]
pub struct ImageFile {
    head: Head,
}

/// A cache of mapped files. Each is read once unless there are too many.
#[derive(Debug, Default)]
pub struct ImageFiles {
    by_identity: HashMap<FileIdentity, Arc<ImageFile>>,
    vdso: Option<Arc<ImageFile>>,
}

/// Maximum number of files in the cache.
const MAX_FILES: usize = 8_192;

/// Smallest page size. Files for machines with larger pages are laid out for those.
const PAGE: u64 = 4096;

impl ImageFile {
    /// Returns the build id.
    pub fn build_id(&self) -> Option<BuildId> {
        self.head.build_id
    }

    /// Returns the lowest link address, which corresponds to the image's base.
    pub fn linked_base(&self) -> u64 {
        self.head.loads.first().map_or(0, |load| load.address / PAGE * PAGE)
    }

    /// Returns the range of addresses of the whole file, given the mapping of a part; `None` if no segment has this
    /// part.
    pub(super) fn place(&self, mapping: &Mapping<'_>) -> Option<Range<u64>> {
        let is_of = |offset: u64, bytes: u64| {
            (offset / PAGE * PAGE..offset.saturating_add(bytes)).contains(&mapping.offset)
        };
        let parts = || self.head.loads.iter().filter(|load| is_of(load.offset, load.bytes));
        let part = parts().find(|load| load.is_code).or_else(|| parts().next())?;
        // The address of the part's first byte, and its distance from the link address.
        let at = mapping.address.wrapping_sub(mapping.offset).wrapping_add(part.offset);
        let moved = at.wrapping_sub(part.address);
        let start = self.linked_base().wrapping_add(moved);
        let last = self.head.loads.last()?;
        let end = last.address.checked_add(last.bytes)?.checked_next_multiple_of(PAGE)?.wrapping_add(moved);
        let place = start..end;
        (place.contains(&mapping.address)).then_some(place)
    }
}

impl ImageFiles {
    /// Returns the file that a process has mapped; `None` if it cannot be read.
    pub(super) fn find(
        &mut self,
        directory: &Path,
        mapping: Range<u64>,
        path: &[u8],
        identity: FileIdentity,
    ) -> Option<Arc<ImageFile>> {
        if path.first() != Some(&b'/') {
            return None;
        }
        if let Some(known) = self.by_identity.get(&identity) {
            return Some(known.clone());
        }
        let (_, head) = open(directory, mapping, path, identity)?;
        let file = Arc::new(ImageFile { head });
        if self.by_identity.len() >= MAX_FILES {
            self.by_identity.clear();
        }
        self.by_identity.insert(identity, file.clone());
        Some(file)
    }

    /// Returns the vDSO, which is the same in all processes.
    pub(super) fn vdso(&mut self) -> Option<Arc<ImageFile>> {
        if self.vdso.is_none() {
            let head = vdso::own().ok().and_then(|bytes| Head::of_bytes(&bytes))?;
            self.vdso = Some(Arc::new(ImageFile { head }));
        }
        self.vdso.clone()
    }
}

/// Opens a mapped file and reads its head: the mapping itself if that is allowed, otherwise the file with its name as
/// the process sees it, or as this process does if the other one has ended. A different file that has taken the name is
/// not used.
pub(super) fn open(
    directory: &Path,
    mapping: Range<u64>,
    path: &[u8],
    identity: FileIdentity,
) -> Option<(File, Head)> {
    let mapping = directory.join(format!("map_files/{:x}-{:x}", mapping.start, mapping.end));
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let in_root = directory.join("root").join(path.strip_prefix("/").ok()?);
    [mapping, in_root, PathBuf::from(path)].iter().find_map(|path| {
        let file = etw_sys::open_regular(path).ok()?;
        let head = Head::of_file(&file).ok()?.unwrap_or_default();
        is_identity(&file, &head, identity).then_some((file, head))
    })
}

fn is_identity(file: &File, head: &Head, identity: FileIdentity) -> bool {
    match identity {
        FileIdentity::BuildId(id) => head.build_id == Some(id),
        FileIdentity::Inode { inode, .. } => file.metadata().is_ok_and(|metadata| metadata.ino() == inode),
    }
}

#[cfg(test)]
mod tests {
    use super::super::elf::Load;
    use super::*;

    #[test]
    fn where_a_file_is_follows_from_one_part() {
        let load = |offset, address, bytes, is_code| Load { offset, address, bytes, is_code };
        // Linked by lld: addresses run ahead of offsets, and a page of the file may be mapped twice.
        let loads = vec![
            load(0, 0x1_0000, 0x900, false),
            load(0x900, 0x1_1900, 0x800, true),
            load(0x1100, 0x1_3100, 0x300, false),
        ];
        let file = ImageFile { head: Head { build_id: None, loads } };
        let identity = FileIdentity::Inode { device: (0, 0), inode: 0 };
        let check = |address, offset, expected: Option<Range<u64>>| {
            let mapping = Mapping { address, bytes: 0x1000, offset, file: identity, path: b"/x" };
            assert_eq!(file.place(&mapping), expected);
        };
        check(0x7000_2000, 0, Some(0x7000_1000..0x7000_5000));
        check(0x7000_3000, 0x1000, Some(0x7000_1000..0x7000_5000));
        check(0x7000_2000, 0x8000, None);
        check(0, 0x8000, None);
    }

    #[test]
    fn the_kernels_code_in_this_process_has_a_build_id() {
        let mut files = ImageFiles::default();
        // Some machines have no vDSO.
        if vdso::own().is_ok() {
            assert!(files.vdso().unwrap().build_id().is_some());
        }
    }

    #[test]
    fn another_file_of_the_name_is_not_taken() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().as_os_str().as_bytes();
        let inode = file.as_file().metadata().unwrap().ino();
        let mut files = ImageFiles::default();
        let mut find = |identity| files.find(Path::new("/proc/0"), 0..1, path, identity).is_some();
        let device = (0, 0);
        assert!(!find(FileIdentity::Inode { device, inode: inode + 1 }));
        assert!(!find(FileIdentity::BuildId(BuildId::new(&[1; 20]).unwrap())));
        assert!(find(FileIdentity::Inode { device, inode }));
        assert!(
            files
                .find(Path::new("/proc/0"), 0..1, b"/dev/zero", FileIdentity::Inode { device, inode: 4 })
                .is_none()
        );
    }
}
