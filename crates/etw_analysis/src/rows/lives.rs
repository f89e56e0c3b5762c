//! What starts and ends say of processes, threads and images besides their names.

use etw_event::FileTime;
use etw_kernel_events::ids::{self, EventId};
use etw_kernel_events::read;

use super::seen::Seen;
use crate::maps::HashMap;
use crate::processes::{ProcessIndex, Processes, ThreadIndex};

/// Maximum number of versions of files, and of ranges of images.
const MAX_KEPT: usize = 1 << 20;

/// The lives of processes, threads and images.
#[derive(Debug, Default)]
pub(super) struct Lives {
    pub(super) processes: HashMap<ProcessIndex, ProcessLife>,
    pub(super) threads: HashMap<ThreadIndex, ThreadLife>,
    /// By process, if it is not the kernel, and base address.
    pub(super) images: HashMap<(Option<ProcessIndex>, u64), ImageLife>,
    /// Versions of files by time stamp and size.
    pub(super) versions: HashMap<(u32, u32), FileVersion>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct ProcessLife {
    pub(super) session: Option<u32>,
    pub(super) package: Option<String>,
    pub(super) stack: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ThreadLife {
    pub(super) start: Option<FileTime>,
    pub(super) end: Option<FileTime>,
    pub(super) start_address: Option<u64>,
    pub(super) teb: Option<u64>,
    pub(super) stack: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ImageLife {
    pub(super) load: Option<FileTime>,
    pub(super) unload: Option<FileTime>,
    pub(super) size: u32,
    pub(super) time_stamp: u32,
    pub(super) stack: Option<u32>,
}

/// The version resource of a file (`ImageID/FileVersion`).
#[derive(Debug, Clone, Default)]
pub(super) struct FileVersion {
    /// Company, product, product version, file version, file description and original file name.
    pub(super) texts: [Option<String>; 6],
}

impl Lives {
    /// Adds an event of a class.
    pub(super) fn event(&mut self, id: EventId, seen: &Seen<'_, '_>, processes: &mut Processes) {
        match id {
            // What is defunct has ended before.
            ids::Process::DEFUNCT => {}
            id if read::ProcessInfo::reads(id) => self.process(id, seen, processes),
            id if read::ThreadInfo::reads(id) => self.thread(id, seen, processes),
            id if read::ImageInfo::reads(id) => self.image(id, seen, processes),
            ids::ImageID::FILE_VERSION => self.version(seen),
            _ => {}
        }
    }

    fn process(&mut self, event: EventId, seen: &Seen<'_, '_>, processes: &mut Processes) {
        let Some(id) = seen.get::<u32>(&["ProcessId", "ProcessID"]) else { return };
        let life = self.processes.entry(processes.at(id)).or_default();
        life.session = life.session.or_else(|| seen.get(&["SessionId", "SessionID"]));
        if life.package.is_none() {
            life.package = seen.get::<String>(&["PackageFullName"]).filter(|name| !name.is_empty());
        }
        if event == ids::Process::START {
            life.stack = life.stack.or(seen.stack);
        }
    }

    fn thread(&mut self, event: EventId, seen: &Seen<'_, '_>, processes: &mut Processes) {
        let Some(id) = seen.get::<u32>(&["TThreadId", "ThreadID"]).filter(|id| *id != 0) else { return };
        let life = self.threads.entry(processes.thread_at(id)).or_default();
        let time = seen.record().time();
        life.start_address =
            life.start_address.or_else(|| seen.get(&["Win32StartAddr", "Win32StartAddress"]));
        life.teb = life.teb.or_else(|| seen.get(&["TebBase"]));
        match event {
            ids::Thread::START => {
                life.start = Some(time);
                life.stack = life.stack.or(seen.stack);
            }
            ids::Thread::END => life.end = Some(time),
            _ => {}
        }
    }

    fn image(&mut self, event: EventId, seen: &Seen<'_, '_>, processes: &mut Processes) {
        let Some(base) = seen.get::<u64>(&["ImageBase", "BaseAddress"]) else { return };
        let id = seen.get(&["ProcessId", "ProcessID"]).or_else(|| seen.record().process_id()).unwrap_or(0);
        let process = (id != 0).then(|| processes.at(id));
        if self.images.len() >= MAX_KEPT && !self.images.contains_key(&(process, base)) {
            return;
        }
        let life = self.images.entry((process, base)).or_default();
        let time = seen.record().time();
        match event {
            ids::Image::LOAD => {
                *life = ImageLife { load: Some(time), stack: seen.stack, ..ImageLife::default() }
            }
            ids::Image::UNLOAD => life.unload = Some(time),
            _ => {}
        }
        life.size = seen.get(&["ImageSize", "ModuleSize"]).unwrap_or(life.size);
        life.time_stamp = seen.get(&["TimeDateStamp"]).unwrap_or(life.time_stamp);
    }

    fn version(&mut self, seen: &Seen<'_, '_>) {
        let (Some(stamp), Some(size)) = (seen.get(&["TimeDateStamp"]), seen.get(&["ImageSize"])) else {
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
            let text = |name: &str| seen.get::<String>(&[name]).filter(|text| !text.is_empty());
            self.versions.entry((stamp, size)).or_insert_with(|| FileVersion { texts: names.map(text) });
        }
    }
}
