//! Images: what processes and the kernel have mapped.

use std::collections::HashMap;

use etw_etl::WriteError;
use etw_kernel_events::classes::{BuildId, Image, ImageDebugId, ImageEvent};
use etw_perf_data::{Mapping, PerfData, Sample, Task};

use super::Moment;
use super::files::{ImageFiles, Unwinders};
use super::write::RecordWriter;

/// Names of the kernel in mappings, and in the table of build ids.
const KERNEL_MAPPINGS: [&[u8]; 2] = [b"[kernel.kallsyms]", b"[kernel]"];
/// Name of the code that the kernel gives every process.
const VDSO: &[u8] = b"[vdso]";

/// The images of a recording.
#[derive(Debug)]
pub(super) struct Images<'a> {
    /// Build ids by path.
    build_ids: HashMap<&'a [u8], BuildId>,
    kernel_name: Vec<u8>,
    files: ImageFiles,
    unwinders: Unwinders,
}

impl<'a> Images<'a> {
    pub(super) fn new(file: &PerfData<'a>) -> Images<'a> {
        let features = file.features();
        let entries = features.build_ids.iter();
        let build_ids =
            entries.filter_map(|entry| Some((entry.path, BuildId::new(entry.build_id)?))).collect();
        let kernel_name = [b"vmlinux-", features.os_release].concat();
        Images { build_ids, kernel_name, files: ImageFiles::new(features), unwinders: Unwinders::new(file) }
    }

    /// Writes a mapping that is an image.
    pub(super) fn put(
        &mut self,
        mapping: &Mapping<'a>,
        moment: &Moment,
        out: &mut RecordWriter,
    ) -> Result<(), WriteError> {
        let event = if moment.is_rundown { ImageEvent::DcStart } else { ImageEvent::Load };
        let build_id = BuildId::new(mapping.build_id).or_else(|| self.build_ids.get(mapping.path).copied());
        let image = match mapping.process_id {
            Some(process_id) if mapping.is_executable && is_image(mapping.path) => {
                self.image_of_process(process_id, mapping, build_id, event)
            }
            Some(_) => return Ok(()),
            None => {
                let (file_name, build_id) = self.kernel_image(mapping, build_id);
                let (base, len_bytes) = (mapping.address, mapping.len_bytes);
                Image { event, base, len_bytes, process_id: 0, build_id, file_name }
            }
        };
        out.put(moment, &image)?;
        let Image { base, process_id, file_name, .. } = image;
        match image.build_id {
            Some(build_id) => out.put(moment, &ImageDebugId { base, process_id, build_id, file_name }),
            None => Ok(()),
        }
    }

    /// Returns the image of a mapping of code. Where the file begins follows from the file; without it, all its parts are
    /// taken to be as far from each other in memory as in the file.
    fn image_of_process(
        &mut self,
        process_id: u32,
        mapping: &Mapping<'a>,
        build_id: Option<BuildId>,
        event: ImageEvent,
    ) -> Image<'a> {
        let file = self.files.find(mapping, build_id);
        let build_id = build_id.or_else(|| file.as_ref()?.build_id());
        let known = file.as_ref().and_then(|file| file.base_of(mapping));
        let base = known.unwrap_or_else(|| mapping.address.saturating_sub(mapping.file_offset));
        self.unwinders.add(process_id, mapping, base, file);
        let len_bytes = mapping.address.saturating_add(mapping.len_bytes).saturating_sub(base);
        Image { event, base, len_bytes, process_id, build_id, file_name: mapping.path }
    }

    /// Gives a new process the images of the one that created it.
    pub(super) fn fork(&mut self, task: &Task) {
        self.unwinders.fork(task);
    }

    /// Removes the images of a process that ends or runs a new program.
    pub(super) fn remove(&mut self, process_id: u32) {
        self.unwinders.remove(process_id);
    }

    /// Adds the frames of a sample's program that have to be unwound. Returns whether they are complete.
    pub(super) fn unwind(&mut self, sample: &Sample<'_>, frames: &mut Vec<u64>) -> bool {
        self.unwinders.unwind(sample, frames)
    }

    /// Returns name and build id of the kernel or of one of its modules.
    fn kernel_image<'m>(
        &'m self,
        mapping: &Mapping<'m>,
        build_id: Option<BuildId>,
    ) -> (&'m [u8], Option<BuildId>) {
        let kernel = KERNEL_MAPPINGS.iter().find(|name| mapping.path.starts_with(name));
        match kernel {
            Some(name) => (&self.kernel_name, build_id.or_else(|| self.build_ids.get(*name).copied())),
            None => (mapping.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default(), build_id),
        }
    }
}

/// Returns whether a mapping is of a file, and not of memory without one.
fn is_image(path: &[u8]) -> bool {
    path == VDSO || path.starts_with(b"/") && !path.starts_with(b"//") && !path.starts_with(b"/memfd:")
}
