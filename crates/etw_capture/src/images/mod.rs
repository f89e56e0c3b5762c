//! Images: files that processes have mapped as executable.
//!
//! ```
//! use std::path::Path;
//!
//! use etw_capture::images::{ImageFiles, LoadedImage};
//!
//! let mut paths = Vec::new();
//! LoadedImage::for_each(Path::new("/proc/self"), &mut ImageFiles::default(), |image| paths.push(image.path))?;
//! assert!(paths.iter().any(|path| path.starts_with(b"/")));
//! # Ok::<(), std::io::Error>(())
//! ```

pub(crate) mod elf;
mod files;
mod maps;
mod processes;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use etw_kernel_events::classes::{BuildId, Image, ImageDebugId, ImageEvent};
use etw_sys::vdso;

use crate::records::{FileIdentity, Mapping};

pub use elf::build_id_of_file;
pub use files::{ImageFile, ImageFiles};
pub use processes::{ImageStep, Images};

/// The path that mappings of the vDSO have, the code that the kernel maps into every process.
const VDSO: &[u8] = vdso::NAME.as_bytes();

/// An image of a process: the related mappings of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedImage {
    /// Lowest address.
    pub base: u64,
    /// Size in bytes up to the end of the file's highest mapping.
    pub len_bytes: u64,
    /// Addresses of the first executable mapping.
    pub code: Range<u64>,
    /// The file.
    pub identity: FileIdentity,
    /// Path in the process's view; `[vdso]` for the code that the kernel maps into every process.
    pub path: Box<[u8]>,
    /// The file's head; `None` if it could not be read.
    pub file: Option<Arc<ImageFile>>,
}

impl LoadedImage {
    /// Passes the images of a process to `each`; `directory` is that of the process in `/proc`.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the mappings cannot be read, such as `PermissionDenied` for processes of other
    /// users.
    pub fn for_each(
        directory: &Path,
        files: &mut ImageFiles,
        each: impl FnMut(LoadedImage),
    ) -> io::Result<()> {
        let maps = BufReader::new(File::open(directory.join("maps"))?);
        LoadedImage::for_each_in(maps, directory, files, each)
    }

    /// Passes the images in a list of mappings (`/proc/PID/maps`) to `each`. Files are opened in the process's view if it
    /// still exists, otherwise in this program's.
    ///
    /// # Errors
    ///
    /// Returns the error of reading the list.
    pub fn for_each_in(
        maps: impl BufRead,
        directory: &Path,
        files: &mut ImageFiles,
        mut each: impl FnMut(LoadedImage),
    ) -> io::Result<()> {
        maps::of_maps(maps, |mapped| {
            let identity = FileIdentity::Inode { device: mapped.device, inode: mapped.inode };
            let mapping = mapped.start..mapped.first_end;
            let is_vdso = mapped.path == VDSO && mapped.start > u32::MAX.into();
            let file = match is_vdso {
                true => files.vdso(),
                false => files.find(directory, mapping, mapped.path, identity),
            };
            each(LoadedImage {
                base: mapped.start,
                len_bytes: mapped.end - mapped.start,
                code: mapped.code.clone(),
                identity,
                path: mapped.path.into(),
                file,
            });
        })
    }

    /// Returns the image that a process maps a part of; `None` for memory without a file.
    ///
    /// The file describes where its parts are loaded; the image has the range of all of them.
    fn of_mapping(directory: &Path, mapping: &Mapping<'_>, files: &mut ImageFiles) -> Option<LoadedImage> {
        let is_vdso = mapping.path == VDSO;
        let is_file = mapping.path.first() == Some(&b'/') && !mapping.path.starts_with(b"//");
        if !is_vdso && !is_file {
            return None;
        }
        let code = mapping.address..mapping.address.checked_add(mapping.bytes)?;
        let file = match is_vdso {
            true => files.vdso().filter(|_| code.start > u32::MAX.into()),
            false => files.find(directory, code.clone(), mapping.path, mapping.file),
        };
        let place = file.as_ref().and_then(|file| file.place(mapping)).filter(|_| !is_vdso);
        let Range { start, end } = place.unwrap_or_else(|| code.clone());
        let (base, len_bytes) = (start, end.checked_sub(start)?);
        Some(LoadedImage { base, len_bytes, code, identity: mapping.file, path: mapping.path.into(), file })
    }

    /// Returns the build id as reported by the kernel, otherwise by the file.
    pub fn build_id(&self) -> Option<BuildId> {
        match self.identity {
            FileIdentity::BuildId(id) => Some(id),
            FileIdentity::Inode { .. } => self.file.as_ref()?.build_id(),
        }
    }

    /// Returns an event about the image.
    pub fn event(&self, event: ImageEvent, process_id: u32) -> Image<'_> {
        Image {
            event,
            base: self.base,
            len_bytes: self.len_bytes,
            process_id,
            build_id: self.build_id(),
            file_name: &self.path,
        }
    }

    /// Returns the event with the complete build id; `None` if there is no build id.
    pub fn debug_id(&self, process_id: u32) -> Option<ImageDebugId<'_>> {
        let build_id = self.build_id()?;
        Some(ImageDebugId { base: self.base, process_id, build_id, file_name: &self.path })
    }

    /// Returns whether this is the vDSO.
    pub(crate) fn is_vdso(&self) -> bool {
        self.path[..] == *VDSO
    }

    /// Opens the file if it still exists; `directory` is that of the process in `/proc`.
    pub(crate) fn open(&self, directory: &Path) -> Option<std::fs::File> {
        files::open(directory, self.code.clone(), &self.path, self.identity).map(|(file, _)| file)
    }

    /// Returns whether an address lies in the image.
    pub(crate) fn holds(&self, address: u64) -> bool {
        address.checked_sub(self.base).is_some_and(|behind| behind < self.len_bytes)
    }

    fn overlaps(&self, other: &LoadedImage) -> bool {
        self.base < other.base.saturating_add(other.len_bytes)
            && other.base < self.base.saturating_add(self.len_bytes)
    }

    fn is_same(&self, other: &LoadedImage) -> bool {
        (self.base, self.len_bytes, &self.path) == (other.base, other.len_bytes, &other.path)
    }
}
