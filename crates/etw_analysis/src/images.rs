//! Images: which files lie where in the memory of processes and of the kernel.

use std::collections::HashMap;

use etw_consumer::Event;
use etw_event::Guid;

use crate::processes::{ProcessIndex, Processes};

/// Number of an image's file, in the order in which they are met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ImageIndex(pub(crate) u32);

/// Bytes of a build id that `ImageID` events have.
const ID_LEN_BYTES: usize = 20;
/// How far a process without images is followed to those that it was forked from.
const MAX_FORKS: usize = 8;

/// An image's file.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) path: Box<str>,
    /// What is known of its build id: the first four bytes, or twenty.
    pub(crate) build_id: Vec<u8>,
}

impl Image {
    /// The file's name without its directory.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit(['/', '\\']).next().unwrap_or_default()
    }
}

/// Where an image lies.
#[derive(Debug, Clone, Copy)]
struct Span {
    base: u64,
    end: u64,
    image: ImageIndex,
}

/// The images of a trace.
#[derive(Debug, Default)]
pub(crate) struct Images {
    images: Vec<Image>,
    by_file: HashMap<(Box<str>, u32), ImageIndex>,
    /// In the order in which they were told.
    spans: HashMap<ProcessIndex, Vec<Span>>,
    kernel: Vec<Span>,
    kernel_base: Option<u64>,
}

impl Images {
    /// Takes in an event of class Image.
    pub(crate) fn event(&mut self, opcode: u8, event: &Event<'_>, processes: &mut Processes) {
        let get = |name: &str| event.properties.as_ref().ok()?.try_get::<u64>(name);
        if opcode == 33 {
            self.kernel_base = get("ImageBase");
            return;
        }
        // Where an image was stays known when it is gone.
        if !matches!(opcode, 2..=4 | 10) {
            return;
        }
        let base = get("ImageBase").or_else(|| get("BaseAddress"));
        let (Some(base), Some(len)) = (base, get("ImageSize").or_else(|| get("ModuleSize"))) else { return };
        let names = ["FileName", "ImageFileName"];
        let properties = event.properties.as_ref().ok();
        let path = names.iter().find_map(|name| properties?.try_get::<String>(name));
        let stamp = get("TimeDateStamp").unwrap_or(0) as u32;
        let image = self.image(path.unwrap_or_default(), stamp);
        let process_id = get("ProcessId").or_else(|| event.record.process_id().map(u64::from)).unwrap_or(0);
        let span = Span { base, end: base.saturating_add(len), image };
        let spans = match process_id as u32 {
            0 => &mut self.kernel,
            id => self.spans.entry(processes.at(id)).or_default(),
        };
        let is_known = |known: &Span| (known.base, known.end, known.image) == (span.base, span.end, image);
        if !spans.iter().rev().any(is_known) {
            spans.push(span);
        }
    }

    fn image(&mut self, path: String, stamp: u32) -> ImageIndex {
        let next = ImageIndex(self.images.len() as u32);
        let path = path.into_boxed_str();
        let index = *self.by_file.entry((path.clone(), stamp)).or_insert(next);
        if index == next {
            let build_id = if stamp == 0 { Vec::new() } else { stamp.to_le_bytes().to_vec() };
            self.images.push(Image { path, build_id });
        }
        index
    }

    /// Takes in the build id of an image (`ImageID/DbgID_RSDS`), which comes behind the image.
    pub(crate) fn id_event(&mut self, opcode: u8, event: &Event<'_>, processes: &mut Processes) {
        let Ok(properties) = &event.properties else { return };
        if opcode != 36 {
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
            0 => Some(&self.kernel),
            id => self.spans.get(&processes.at(id)),
        };
        let span = spans.and_then(|spans| spans.iter().rev().find(|span| span.base == base));
        let Some(image) = span.and_then(|span| self.images.get_mut(span.image.0 as usize)) else { return };
        let id = [&guid.to_bytes()[..], &age.to_le_bytes()[..]].concat();
        if !image.build_id.is_empty() && id.starts_with(&image.build_id) {
            image.build_id = id;
        }
        debug_assert!(image.build_id.len() <= ID_LEN_BYTES);
    }

    pub(crate) fn get(&self, index: ImageIndex) -> &Image {
        &self.images[index.0 as usize]
    }

    /// The Linux kernel's own image; `None` if the trace does not tell of one.
    pub(crate) fn kernel(&self) -> Option<&Image> {
        let images = self.kernel.iter().map(|span| self.get(span.image));
        images.into_iter().find(|image| image.path.starts_with("vmlinux"))
    }

    /// Address of the kernel's first byte, if the trace tells.
    pub(crate) fn kernel_base(&self) -> Option<u64> {
        let image = || self.kernel.iter().find(|span| self.get(span.image).path.starts_with("vmlinux"));
        self.kernel_base.or_else(|| image().map(|span| span.base))
    }

    /// The image of the kernel, or the module, that an address lies in, and how far from its base.
    pub(crate) fn find_in_kernel(&self, address: u64) -> Option<(ImageIndex, u64)> {
        find(&self.kernel, address)
    }

    /// The image of a process that an address lies in, and how far from its base.
    ///
    /// A process that was forked has its parent's images until it runs a program of its own.
    pub(crate) fn find(
        &self,
        process: ProcessIndex,
        address: u64,
        processes: &Processes,
    ) -> Option<(ImageIndex, u64)> {
        let mut process = Some(process);
        for _ in 0..MAX_FORKS {
            let index = process?;
            if let Some(found) = self.spans.get(&index).and_then(|spans| find(spans, address)) {
                return Some(found);
            }
            process = processes.process(index).parent;
        }
        None
    }
}

/// Of images that lay at one place one after the other, the last one counts.
fn find(spans: &[Span], address: u64) -> Option<(ImageIndex, u64)> {
    let span = spans.iter().rev().find(|span| (span.base..span.end).contains(&address))?;
    Some((span.image, address - span.base))
}
