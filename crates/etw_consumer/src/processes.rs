//! Names of processes over time, from the trace itself.

use std::collections::HashMap;
use std::sync::Arc;

use etw_event::{FileTime, Guid, Opcode, Record, classes};
use etw_schema::{Located, Resolver};

/// Microsoft-Windows-Kernel-Process.
const KERNEL_PROCESS: Guid = Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);

/// Image names by process id, with the time each is valid from.
///
/// Built from the kernel's Process events (start, rundown, end) and from those of Microsoft-Windows-Kernel-Process
/// (start, rundown).
#[derive(Debug, Clone, Default)]
pub struct ProcessTable {
    /// Names by process id, each with the time from which it is valid, in order.
    by_id: HashMap<u32, Vec<(FileTime, Arc<str>)>>,
}

/// The meaning of a record about a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// The process starts now.
    Start,
    /// The process exists, and may have started long ago.
    Known,
}

impl ProcessTable {
    /// Ids of the events of Microsoft-Windows-Kernel-Process about processes.
    pub(crate) const CONCERNED_IDS: [u16; 2] = [1, 15];

    /// Returns the file name of a process's image at a time, such as `chrome.exe`.
    pub fn name(&self, process_id: u32, time: FileTime) -> Option<&str> {
        let names = self.by_id.get(&process_id)?;
        let after = names.partition_point(|(from, _)| *from <= time);
        // The name also applies before the event that carries it, unless another process had the id.
        names.get(after.saturating_sub(1)).map(|(_, name)| &**name)
    }

    /// Returns every process: id, start (`FileTime(i64::MIN)` if it existed before the trace), name.
    pub fn iter(&self) -> impl Iterator<Item = (u32, FileTime, &str)> {
        self.by_id.iter().flat_map(|(id, names)| names.iter().map(|(from, name)| (*id, *from, &**name)))
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Whether a record is about a process.
    #[inline]
    pub(crate) fn concerns(record: &Record<'_>) -> bool {
        told(record).is_some()
    }

    /// Looks up an unknown process on this machine, once for each id; for live sessions.
    #[inline]
    pub(crate) fn look_up(&mut self, id: u32) {
        if !self.by_id.contains_key(&id) {
            self.look_up_now(id);
        }
    }

    #[cold]
    fn look_up_now(&mut self, id: u32) {
        // A failed lookup is not repeated; a start event can still name the process.
        let names = self.by_id.entry(id).or_default();
        let Ok(image) = std::fs::read_link(format!("/proc/{id}/exe")) else { return };
        if let Some(name) = image.file_name().and_then(|name| name.to_str()) {
            names.push((FileTime(i64::MIN), name.into()));
        }
    }

    /// Adds a record about a process; records come in time order.
    pub(crate) fn add(&mut self, record: &Record<'_>, resolver: &mut Resolver, located: &mut Located) {
        let Some(told) = told(record) else { return };
        let Ok(schema) = resolver.resolve(record) else { return };
        let properties = schema.locate(record, located);
        let id = ["ProcessId", "ProcessID"].iter().find_map(|name| properties.try_get::<u32>(name));
        let image = ["ImageFileName", "ImageName"].iter().find_map(|name| properties.try_get::<String>(name));
        let (Some(id), Some(image)) = (id, image) else { return };
        let name = image.rsplit(['\\', '/']).next().unwrap_or_default();
        if name.is_empty() {
            return;
        }
        let names = self.by_id.entry(id).or_default();
        let from = match (told, names.last()) {
            (Told::Known, Some((_, last))) if same_process(last, name) => return,
            (Told::Known, None) => FileTime(i64::MIN),
            _ => record.time(),
        };
        names.push((from, name.into()));
    }
}

/// Classic events cut image names at 15 characters.
fn same_process(one: &str, other: &str) -> bool {
    let length = one.len().min(other.len());
    one == other || (length >= 14 && one.as_bytes().get(..length) == other.as_bytes().get(..length))
}

#[inline]
fn told(record: &Record<'_>) -> Option<Told> {
    if let Some(hook) = record.hook_id() {
        return match (hook.group(), hook.event_type()) {
            (3, 1) => Some(Told::Start),
            (3, 2..=4 | 39) => Some(Told::Known),
            _ => None,
        };
    }
    if record.kind().is_event_header() {
        return match record.descriptor().id {
            1 if record.provider_id() == KERNEL_PROCESS => Some(Told::Start),
            15 if record.provider_id() == KERNEL_PROCESS => Some(Told::Known),
            _ => None,
        };
    }
    if record.kind().is_classic() && record.provider_id() == classes::PROCESS {
        return match record.descriptor().opcode {
            Opcode(1) => Some(Told::Start),
            Opcode(2..=4 | 39) => Some(Told::Known),
            _ => None,
        };
    }
    None
}
