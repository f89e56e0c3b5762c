//! Images: programs, libraries and drivers in memory.

use etw_event::FileTime;
use etw_kernel_events::ids::{self, EventId};
use etw_kernel_events::read;
use etw_machine::{HashMap, ProcessIndex, Processes};

use super::columns::{Address, End, Hex, Process, Size, Stack, Start, Text};
use super::source::{EventContext, RowContext, RowSource};
use super::table::table;

table! {
    /// One row for each range of addresses with an image, of a process or of the kernel.
    ImageRow: "images", "Images";
    /// Process; missing for the kernel.
    process: Option<Process>,
    /// Path of the file.
    path: Text,
    /// Name of the file.
    image: Text,
    /// First address.
    base: Address,
    /// Number of addresses.
    size: Size,
    /// When it was loaded, if that was during the trace.
    load_time: Option<Start>,
    /// When it was unloaded, if that was during the trace.
    unload_time: Option<End>,
    /// Stack of the loading.
    load_stack: Option<Stack>,
    /// Time stamp in the file's header.
    time_date_stamp: Option<Hex>,
    /// Company in the file's version.
    company_name: Option<Text>,
    /// Product in the file's version.
    product_name: Option<Text>,
    /// Version of the product.
    product_version: Option<Text>,
    /// Version of the file.
    file_version: Option<Text>,
    /// Description in the file's version.
    file_description: Option<Text>,
    /// Name of the file in its version.
    original_file_name: Option<Text>,
}

/// Maximum number of versions of files, and of ranges of images.
const MAX_KEPT: usize = 1 << 20;

/// Makes rows of images, with what loads and versions say of them.
#[derive(Debug, Default)]
pub(super) struct Images {
    /// By process, if it is not the kernel, and base address.
    images: HashMap<(Option<ProcessIndex>, u64), ImageLife>,
    /// Versions of files by time stamp and size.
    versions: HashMap<(u32, u32), FileVersion>,
}

#[derive(Debug, Clone, Copy, Default)]
struct ImageLife {
    load: Option<FileTime>,
    unload: Option<FileTime>,
    size: u32,
    time_stamp: u32,
    stack: Option<u32>,
}

/// The version resource of a file (`ImageID/FileVersion`): company, product, product version, file version, file
/// description and original file name.
#[derive(Debug, Clone, Default)]
struct FileVersion([Option<String>; 6]);

impl RowSource for Images {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        event.any_id().is_some_and(|id| read::ImageInfo::reads(id) || id == ids::ImageID::FILE_VERSION)
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        match event.any_id() {
            None => {}
            Some(ids::ImageID::FILE_VERSION) => self.version(event),
            Some(id) => self.image(id, event, &mut context.model.processes),
        }
    }

    fn finish(&mut self, context: &mut RowContext<'_>) {
        for (process, base, end, image) in context.model.images.ranges() {
            let life = self.images.get(&(process, base)).copied().unwrap_or_default();
            let version = self.versions.get(&(life.time_stamp, life.size));
            let [company, product, product_version, file_version, description, original] = match version {
                Some(FileVersion(texts)) => texts.each_ref().map(Option::as_deref),
                None => [None; 6],
            };
            context.writer.add(ImageRow {
                process,
                path: &image.path,
                image: image.name(),
                base,
                size: end - base,
                load_time: life.load,
                unload_time: life.unload,
                load_stack: life.stack,
                time_date_stamp: Some(life.time_stamp).filter(|stamp| *stamp != 0),
                company_name: company,
                product_name: product,
                product_version,
                file_version,
                file_description: description,
                original_file_name: original,
            });
        }
    }
}

impl Images {
    fn image(&mut self, id: EventId, event: &EventContext<'_, '_>, processes: &mut Processes) {
        let Some(base) = event.get::<u64>(&["ImageBase", "BaseAddress"]) else { return };
        let owner =
            event.get(&["ProcessId", "ProcessID"]).or_else(|| event.record().process_id()).unwrap_or(0);
        let process = (owner != 0).then(|| processes.at(owner));
        if self.images.len() >= MAX_KEPT && !self.images.contains_key(&(process, base)) {
            return;
        }
        let life = self.images.entry((process, base)).or_default();
        let time = event.record().time();
        match id {
            ids::Image::LOAD => {
                *life = ImageLife { load: Some(time), stack: event.stack, ..ImageLife::default() }
            }
            ids::Image::UNLOAD => life.unload = Some(time),
            _ => {}
        }
        life.size = event.get(&["ImageSize", "ModuleSize"]).unwrap_or(life.size);
        life.time_stamp = event.get(&["TimeDateStamp"]).unwrap_or(life.time_stamp);
    }

    fn version(&mut self, event: &EventContext<'_, '_>) {
        let (Some(stamp), Some(size)) = (event.get(&["TimeDateStamp"]), event.get(&["ImageSize"])) else {
            return;
        };
        if self.versions.len() < MAX_KEPT {
            let names = [
                "CompanyName",
                "ProductName",
                "ProductVersion",
                "FileVersion",
                "FileDescription",
                "OrigFileName",
            ];
            let text = |name: &str| event.get::<String>(&[name]).filter(|text| !text.is_empty());
            self.versions.entry((stamp, size)).or_insert_with(|| FileVersion(names.map(text)));
        }
    }
}
