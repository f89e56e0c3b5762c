//! Functions of JIT compilers other than .NET's, and of interpreters, from the events of the provider for symbols.

use etw_consumer::Event;

use crate::processes::{ProcessIndex, Processes};

/// A function in an event.
#[derive(Debug)]
pub struct JitEvent {
    pub(crate) process: ProcessIndex,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) name: Box<str>,
    pub(super) lines: SourceLines,
    pub(super) is_load: bool,
}

impl JitEvent {
    /// Returns the function that an event of the provider for symbols names; `None` if it names none.
    pub fn from_event(event: &Event<'_>, processes: &mut Processes) -> Option<JitEvent> {
        let properties = event.properties.as_ref().ok()?;
        let (start, len) =
            (properties.try_get::<u64>("CodeAddress")?, properties.try_get::<u32>("LengthInBytes")?);
        let name = properties.try_get::<String>("Name").filter(|name| !name.is_empty())?;
        let process = processes.at(event.record.process_id()?);
        Some(JitEvent {
            process,
            start,
            end: start.checked_add(len.into()).filter(|_| len > 0)?,
            name: name.into(),
            lines: SourceLines::from_event(event),
            is_load: properties.try_get::<u8>("IsLoad") == Some(1),
        })
    }
}

/// The source lines of a function.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceLines {
    files: Box<[Box<str>]>,
    /// Offset, line and index of the file, by offset.
    lines: Box<[(u32, u32, u16)]>,
}

impl SourceLines {
    fn from_event(event: &Event<'_>) -> SourceLines {
        let list = |name| event.get::<Vec<u32>>(name).unwrap_or_default();
        let files = event.get::<Vec<String>>("Files").unwrap_or_default();
        let (offsets, numbers, of_files) = (list("LineOffsets"), list("LineNumbers"), list("LineFiles"));
        let lines = offsets.into_iter().zip(numbers).zip(of_files);
        let mut lines: Vec<(u32, u32, u16)> =
            lines.map(|((offset, line), file)| (offset, line, file as u16)).collect();
        lines.sort_by_key(|line| line.0);
        SourceLines { files: files.into_iter().map(String::into_boxed_str).collect(), lines: lines.into() }
    }

    /// Returns the file and line at an offset.
    pub(super) fn find(&self, offset: u64) -> Option<(&str, u32)> {
        let after = self.lines.partition_point(|line| u64::from(line.0) <= offset);
        let (_, line, file) = self.lines.get(after.checked_sub(1)?)?;
        Some((self.files.get(usize::from(*file))?, *line))
    }
}
