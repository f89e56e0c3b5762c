//! Images: files mapped into the memory of processes and of the kernel.

use std::collections::BTreeMap;

use etw_consumer::Event;
use etw_event::Guid;
use etw_kernel_events::ids::{self, EventId};
use etw_kernel_events::read;
use etw_schema::Properties;
use etw_symbols::{Module, PdbId, WindowsImage};

use crate::embedded::ModuleNames;
use crate::maps::{HashMap, HashSet};
use crate::processes::{ProcessIndex, Processes};

/// Number of an image's file, in order of first appearance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageIndex(pub(crate) u32);

/// Maximum number of forks followed from a process without images to its ancestors.
const MAX_FORKS: usize = 8;

/// An image's file.
#[derive(Debug, Clone)]
pub struct Image {
    /// Path of the file.
    pub path: Box<str>,
    /// The known part of its build id: the first four bytes, or twenty; empty for images of Windows.
    pub build_id: Vec<u8>,
    /// Identity of an image of Windows.
    pub windows: Option<WindowsImage>,
}

impl Image {
    /// Returns the file's name without its directory.
    pub fn name(&self) -> &str {
        self.path.rsplit(['/', '\\']).next().unwrap_or_default()
    }

    /// Returns what identifies the image's symbols.
    pub(crate) fn module(&self) -> Module<'_> {
        Module {
            path: &self.path,
            build_id: &self.build_id,
            windows: self.windows.as_ref(),
            is_managed: false,
        }
    }
}

/// Whether an image's path is one of Windows: with backslashes, or the bare name of an early kernel image.
fn is_of_windows(path: &str) -> bool {
    let has_kind = |kind: &str| {
        path.len() > kind.len()
            && path.get(path.len() - kind.len()..).is_some_and(|end| end.eq_ignore_ascii_case(kind))
    };
    !path.starts_with('/') && (path.contains('\\') || [".exe", ".dll", ".sys"].into_iter().any(has_kind))
}

/// Address ranges of images: base, end and image. If several images used the same range in turn, it has the last one.
#[derive(Debug, Default)]
struct Spans {
    by_base: BTreeMap<u64, (u64, ImageIndex)>,
}

impl Spans {
    fn insert(&mut self, base: u64, end: u64, image: ImageIndex) {
        if base >= end {
            return;
        }
        while let Some((under, _)) = self.by_base.range(..end).next_back().filter(|(_, span)| span.0 > base) {
            let under = *under;
            self.by_base.remove(&under);
        }
        self.by_base.insert(base, (end, image));
    }

    /// Returns the image with this base.
    fn at(&self, base: u64) -> Option<ImageIndex> {
        self.by_base.get(&base).map(|(_, image)| *image)
    }

    /// Returns the image that contains an address, and the offset from its base.
    fn find(&self, address: u64) -> Option<(ImageIndex, u64)> {
        let (base, (end, image)) = self.by_base.range(..=address).next_back()?;
        (address < *end).then_some((*image, address - base))
    }
}

/// The images of a trace.
#[derive(Debug, Default)]
pub struct Images {
    images: Vec<Image>,
    by_file: HashMap<(Box<str>, u32), ImageIndex>,
    /// Images of Windows by path and size.
    of_windows: HashMap<(Box<str>, u32), Vec<ImageIndex>>,
    /// PDBs of images whose event comes later, by machine, process id and base.
    pending: HashMap<(u32, u32, u64), PdbId>,
    /// Images with a portable PDB, by machine, process id and base.
    portable: HashSet<(u32, u32, u64)>,
    spans: HashMap<ProcessIndex, Spans>,
    /// By machine.
    kernels: HashMap<u32, Kernel>,
    /// The names of their code.
    pub names: ModuleNames,
}

/// The images of a kernel.
#[derive(Debug, Default)]
struct Kernel {
    spans: Spans,
    base: Option<u64>,
}

impl Images {
    /// Adds an event of class Image.
    pub fn event(&mut self, id: EventId, event: &Event<'_>, processes: &mut Processes) {
        let get = |name: &str| event.properties.as_ref().ok()?.try_get::<u64>(name);
        if id == ids::Image::IMAGE_KERNEL_BASE {
            self.kernels.entry(processes.machine()).or_default().base = get("ImageBase");
            return;
        }
        // The range of an unloaded image is kept.
        if !read::ImageInfo::reads(id) {
            return;
        }
        let base = get("ImageBase").or_else(|| get("BaseAddress"));
        let (Some(base), Some(len)) = (base, get("ImageSize").or_else(|| get("ModuleSize"))) else { return };
        let names = ["FileName", "ImageFileName", "ImageName"];
        let properties = event.properties.as_ref().ok();
        let path = names.iter().find_map(|name| properties?.try_get::<String>(name));
        let stamp = get("TimeDateStamp").unwrap_or(0) as u32;
        let image = self.image(path.unwrap_or_default(), stamp, len);
        let told = get("ProcessId").or_else(|| get("ProcessID"));
        let process_id = told.or_else(|| event.record.process_id().map(u64::from)).unwrap_or(0);
        let process_id = process_id as u32;
        if let Some(pdb) = self.pending.remove(&(processes.machine(), process_id, base)) {
            self.set_pdb(image, pdb);
        }
        let spans = match process_id {
            0 => &mut self.kernels.entry(processes.machine()).or_default().spans,
            id => self.spans.entry(processes.at(id)).or_default(),
        };
        let before = spans.at(base);
        spans.insert(base, base.saturating_add(len), image);
        if let Some(before) = before {
            self.pass_pdb(before, image);
        }
    }

    fn image(&mut self, path: String, stamp: u32, len: u64) -> ImageIndex {
        let path = path.into_boxed_str();
        if is_of_windows(&path) {
            return self.windows_image(path, stamp, u32::try_from(len).unwrap_or(0));
        }
        let next = ImageIndex(self.images.len() as u32);
        let index = *self.by_file.entry((path.clone(), stamp)).or_insert(next);
        if index == next {
            // The start of the build id.
            let build_id = if stamp == 0 { Vec::new() } else { stamp.to_le_bytes().to_vec() };
            self.images.push(Image { path, build_id, windows: None });
        }
        index
    }

    /// Returns an image of Windows. Rundowns lack time stamps: a file of the same path and size is the same one, unless
    /// there are several such files.
    fn windows_image(&mut self, path: Box<str>, time_stamp: u32, len_bytes: u32) -> ImageIndex {
        let next = ImageIndex(self.images.len() as u32);
        let same = self.of_windows.entry((path.clone(), len_bytes)).or_default();
        let stamp_of = |index: &ImageIndex| {
            let image = self.images.get(index.0 as usize);
            image.and_then(|image| image.windows.as_ref()).map_or(0, |image| image.time_stamp)
        };
        let known = match same.as_slice() {
            [only] if time_stamp == 0 || stamp_of(only) == 0 => Some(*only),
            all => all.iter().copied().find(|index| stamp_of(index) == time_stamp),
        };
        let Some(index) = known else {
            same.push(next);
            let windows = Some(WindowsImage { time_stamp, len_bytes, pdb: None });
            self.images.push(Image { path, build_id: Vec::new(), windows });
            return next;
        };
        let image = self.images.get_mut(index.0 as usize).and_then(|image| image.windows.as_mut());
        if let Some(image) = image.filter(|_| time_stamp != 0) {
            image.time_stamp = time_stamp;
        }
        index
    }

    /// Sets the PDB of an image that another event calls by another path: loads have no volume, unloads have.
    fn pass_pdb(&mut self, from: ImageIndex, to: ImageIndex) {
        let windows = |index: ImageIndex| self.images.get(index.0 as usize)?.windows.as_ref();
        let (Some(from), Some(now)) = (windows(from), windows(to)) else { return };
        let is_same = from.len_bytes == now.len_bytes
            && (from.time_stamp == now.time_stamp || from.time_stamp == 0 || now.time_stamp == 0);
        if let Some(pdb) = from.pdb.clone().filter(|_| is_same && now.pdb.is_none()) {
            self.set_pdb(to, pdb);
        }
    }

    fn set_pdb(&mut self, image: ImageIndex, pdb: PdbId) {
        let image = self.images.get_mut(image.0 as usize);
        if let Some(windows) = image.and_then(|image| image.windows.as_mut()) {
            windows.pdb = Some(pdb);
        }
    }

    /// Adds the identity of an image's symbols (`ImageID/DbgID_RSDS`): the build id of an image before the event, or the
    /// PDB of an image before or after it; or that the PDB is a portable one (`ImageID/DbgID_PPDB`).
    pub fn id_event(&mut self, id: EventId, event: &Event<'_>, processes: &mut Processes) {
        let Ok(properties) = &event.properties else { return };
        if id == ids::ImageID::DBG_ID_PPDB {
            self.portable_pdb(properties, processes);
        }
        if id != ids::ImageID::DBG_ID_RSDS {
            return;
        }
        let (Some(base), Some(process_id), Some(guid), Some(age)) = (
            properties.try_get::<u64>("ImageBase"),
            properties.try_get::<u32>("ProcessId"),
            properties.try_get::<Guid>("GuidSig"),
            properties.try_get::<u32>("Age"),
        ) else {
            return;
        };
        let spans = match process_id {
            0 => self.kernels.get(&processes.machine()).map(|kernel| &kernel.spans),
            id => self.spans.get(&processes.at(id)),
        };
        let index = spans.and_then(|spans| spans.at(base));
        let image = index.and_then(|index| self.images.get_mut(index.0 as usize));
        if let Some(image) = image
            && image.windows.is_none()
        {
            let id = [&guid.to_bytes()[..], &age.to_le_bytes()[..]].concat();
            if !image.build_id.is_empty() && id.starts_with(&image.build_id) {
                image.build_id = id;
            }
            return;
        }
        let Some(mut pdb) = pdb_id(properties, guid, age) else { return };
        if self.portable.contains(&(processes.machine(), process_id, base)) {
            pdb = pdb.portable();
        }
        match index {
            Some(index) => self.set_pdb(index, pdb),
            None => {
                self.pending.insert((processes.machine(), process_id, base), pdb);
            }
        }
    }

    /// Adds that the PDB of an image is a portable one, before or after the event with its GUID.
    fn portable_pdb(&mut self, properties: &Properties<'_>, processes: &mut Processes) {
        let (Some(base), Some(process_id)) =
            (properties.try_get::<u64>("ImageBase"), properties.try_get::<u32>("ProcessId"))
        else {
            return;
        };
        let key = (processes.machine(), process_id, base);
        self.portable.insert(key);
        let known = self.spans.get(&processes.at(process_id)).and_then(|spans| spans.at(base));
        let image = known.and_then(|index| self.images.get_mut(index.0 as usize));
        let of_image = image.and_then(|image| image.windows.as_mut()?.pdb.as_mut());
        if let Some(pdb) = of_image.or_else(|| self.pending.get_mut(&key)) {
            *pdb = pdb.portable();
        }
    }

    /// Returns an image of these.
    pub fn get(&self, index: ImageIndex) -> &Image {
        &self.images[index.0 as usize]
    }

    /// Returns the PDB of a process's image by the name of its file.
    pub(crate) fn pdb_by_name(&self, process: ProcessIndex, name: &str) -> Option<&PdbId> {
        let mut images = self.spans.get(&process)?.by_base.values().map(|(_, image)| self.get(*image));
        let image = images.find(|image| image.name().eq_ignore_ascii_case(name))?;
        image.windows.as_ref()?.pdb.as_ref()
    }

    /// Returns the ranges of addresses of images, with their process unless they are of a kernel: base, end and image.
    pub fn ranges(&self) -> impl Iterator<Item = (Option<ProcessIndex>, u64, u64, &Image)> {
        let of = |process, spans: &'_ Spans| -> Vec<_> {
            let ranges = spans.by_base.iter();
            ranges.map(|(base, (end, image))| (process, *base, *end, *image)).collect()
        };
        let mut machines: Vec<_> = self.kernels.iter().collect();
        machines.sort_unstable_by_key(|(machine, _)| **machine);
        let mut processes: Vec<_> = self.spans.iter().collect();
        processes.sort_unstable_by_key(|(process, _)| **process);
        let of_kernels = machines.into_iter().flat_map(move |(_, kernel)| of(None, &kernel.spans));
        let of_processes = processes.into_iter().flat_map(move |(process, spans)| of(Some(*process), spans));
        of_kernels
            .chain(of_processes)
            .map(|(process, base, end, image)| (process, base, end, self.get(image)))
    }

    /// Returns the Linux kernel's own image, or `None` if the trace does not contain it.
    pub(crate) fn kernel(&self, machine: u32) -> Option<&Image> {
        self.linux(machine).map(|(_, image)| image)
    }

    /// Returns the address of the kernel's first byte, if the trace contains it.
    pub(crate) fn kernel_base(&self, machine: u32) -> Option<u64> {
        let base = self.kernels.get(&machine).and_then(|kernel| kernel.base);
        base.or_else(|| self.linux(machine).map(|(base, _)| base))
    }

    fn linux(&self, machine: u32) -> Option<(u64, &Image)> {
        let spans = &self.kernels.get(&machine)?.spans;
        let mut images = spans.by_base.iter().map(|(base, (_, image))| (*base, self.get(*image)));
        images.find(|(_, image)| image.path.starts_with("vmlinux"))
    }

    /// Returns the kernel image or module that contains an address, and the offset from its base.
    pub fn find_in_kernel(&self, machine: u32, address: u64) -> Option<(ImageIndex, u64)> {
        self.kernels.get(&machine)?.spans.find(address)
    }

    /// Returns the image of a process that contains an address, and the offset from its base.
    ///
    /// A forked process has its parent's images until it executes another program.
    pub fn find(
        &self,
        process: ProcessIndex,
        address: u64,
        processes: &Processes,
    ) -> Option<(ImageIndex, u64)> {
        let mut process = Some(process);
        for _ in 0..MAX_FORKS {
            let index = process?;
            if let Some(found) = self.spans.get(&index).and_then(|spans| spans.find(address)) {
                return Some(found);
            }
            process = processes.process(index).parent;
        }
        None
    }
}

fn pdb_id(properties: &Properties<'_>, guid: Guid, age: u32) -> Option<PdbId> {
    PdbId::new(&properties.try_get::<String>("PdbFileName")?, guid, age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_windows_with_and_without_time_stamps() {
        let mut images = Images::default();
        let mut image = |stamp, len| images.image(r"\a\b.dll".to_owned(), stamp, len).0;
        assert_eq!([image(0, 10), image(7, 10), image(0, 10), image(7, 10)], [0; 4]);
        // A file that was replaced, and one of another size.
        assert_eq!([image(8, 10), image(7, 10), image(8, 10), image(7, 11)], [1, 0, 1, 2]);
        // Which of them it is, is unknown.
        assert_eq!([image(0, 10), image(0, 10), image(0, 11)], [3, 3, 2]);
    }

    #[test]
    fn images_of_windows_by_their_paths() {
        for path in
            [r"\Device\HarddiskVolume3\Windows\System32\ntdll.dll", "ntoskrnl.exe", "HAL.DLL", r"C:\a"]
        {
            assert!(is_of_windows(path), "{path}");
        }
        for path in ["/usr/bin/make", "vmlinux-6.1", "e1000", "[vdso]", "", ".exe", r"/srv/a\b.dll", "é"] {
            assert!(!is_of_windows(path), "{path}");
        }
    }

    #[test]
    fn the_last_image_at_a_place_is_there() {
        let mut spans = Spans::default();
        let [first, second, third, fourth] = [0, 1, 2, 3].map(ImageIndex);
        spans.insert(0x1000, 0x3000, first);
        spans.insert(0x5000, 0x6000, second);
        assert_eq!(spans.find(0x2FFF), Some((first, 0x1FFF)));
        assert_eq!(spans.find(0x3000), None);
        spans.insert(0x2000, 0x5800, third);
        assert_eq!((spans.find(0x1000), spans.find(0x5900)), (None, None), "they were mapped over");
        assert_eq!(spans.find(0x2000), Some((third, 0)));
        spans.insert(0x5800, 0x6000, fourth);
        assert_eq!((spans.find(0x57FF), spans.find(0x5800)), (Some((third, 0x37FF)), Some((fourth, 0))));
        spans.insert(0x10, 0x10, first);
        assert_eq!(spans.find(0x10), None);
    }
}
