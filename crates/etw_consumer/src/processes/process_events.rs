//! What a record says about a process.

use std::sync::Arc;

use etw_event::Record;
use etw_kernel_events::ids::{self, EventId};
use etw_schema::{CompiledSchema, Located};

/// Ids of the events of Microsoft-Windows-Kernel-Process about processes: start, end, rundown.
pub(crate) const PROCESS_EVENT_IDS: [u16; 3] = [1, 2, 15];

/// The meaning of a record about a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessEvent {
    /// The process starts now.
    Start,
    /// The process exists, and may have started long ago.
    Known,
    /// The process ends now.
    End,
}

/// Whether a record is about a process.
#[inline]
pub(crate) fn is_about_process(record: &Record<'_>) -> bool {
    process_event(record).is_some()
}

/// Returns what a record says about a process; `None` if it is about something else.
#[inline]
pub(super) fn process_event(record: &Record<'_>) -> Option<ProcessEvent> {
    match EventId::from_record(record).or_else(|| EventId::from_provider_record(record))? {
        ids::Process::START => Some(ProcessEvent::Start),
        ids::Process::END => Some(ProcessEvent::End),
        ids::Process::DC_START | ids::Process::DC_END | ids::Process::DEFUNCT => Some(ProcessEvent::Known),
        _ => None,
    }
}

/// Calls `with` with the id of the process and the file name of its image, if the record has both.
pub(super) fn read<T>(
    record: &Record<'_>,
    schema: &Arc<CompiledSchema>,
    located: &mut Located,
    with: impl FnOnce(u32, &str) -> T,
) -> Option<T> {
    let properties = schema.locate(record, located);
    let id = ["ProcessId", "ProcessID"].iter().find_map(|name| properties.try_get::<u32>(name))?;
    let image = ["ImageFileName", "ImageName"].iter().find_map(|name| properties.try_get::<String>(name))?;
    let name = Some(image_name(&image)).filter(|name| !name.is_empty())?;
    Some(with(id, name))
}

/// [`ProcessTable::image_name`](super::ProcessTable::image_name).
pub(super) fn image_name(image: &str) -> &str {
    match image.starts_with(['/', '.']) || image.contains('\\') {
        true => image.rsplit(['\\', '/']).next().unwrap_or_default(),
        false => image,
    }
}

/// Whether two names may be of one process: classic events cut image names at 15 characters.
pub(super) fn same_process(one: &str, other: &str) -> bool {
    let length = one.len().min(other.len());
    one == other || (length >= 14 && one.as_bytes().get(..length) == other.as_bytes().get(..length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images_are_without_path() {
        for (image, name) in [
            (r"\Device\HarddiskVolume2\Windows\System32\svchost.exe", "svchost.exe"),
            (r"C:\a/b.exe", "b.exe"),
            ("notepad.exe", "notepad.exe"),
            ("/usr/bin/dd", "dd"),
            ("./shop", "shop"),
            ("kworker/1:2H-kblockd", "kworker/1:2H-kblockd"),
            ("/usr/bin/", ""),
        ] {
            assert_eq!(image_name(image), name);
        }
    }
}
