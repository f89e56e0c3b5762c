//! What the system's events say of processes and files, as a program of Windows knows them: with its ids and names.
//!
//! Their headers are converted with all others; a payload is that of Linux, and is written anew for a guest.

use std::collections::HashMap;
use std::ops::Range;

use etw_event::classes::SYSTEM_TRACE;
use etw_schema::{Event, EventSchema, InType, PropertyType, PropertyValue, Value};

use crate::guest::Guest;

/// Most names that are kept.
const MAX_NAMES: usize = 4096;

/// What the value of a property stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Process,
    Thread,
    File,
}

/// The names of files that were converted, in UTF-16.
#[derive(Debug, Default)]
pub(super) struct SystemValues(HashMap<Box<[u8]>, Vec<u8>>);

impl SystemValues {
    /// Returns the payload of an event of the system as the guest has it, if it is another one.
    pub(super) fn payload(&mut self, event: &Event<'_>, guest: &dyn Guest) -> Option<Vec<u8>> {
        let schema = event.schema()?;
        if !is_of_system(schema) && !schema.provider.name.starts_with("Microsoft-Windows-Kernel-") {
            return None;
        }
        let properties = event.properties.as_ref().ok()?;
        let process = properties
            .iter()
            .find(|property| ["ProcessId", "ProcessID", "PID", "StackProcess"].contains(&property.name()))
            .and_then(|property| u32::try_from(id_of(&property)?.1).ok());
        let (payload, mut written, mut done) = (properties.payload(), Vec::new(), 0);
        let mut replace = |range: Range<usize>, bytes: &[u8]| {
            written.extend_from_slice(payload.get(done..range.start).unwrap_or_default());
            written.extend_from_slice(bytes);
            done = range.end;
        };
        for property in properties.iter() {
            match meaning(property.name()) {
                None => {}
                Some(Meaning::File) => {
                    if let Some((range, path)) = path_of(&property) {
                        replace(range, self.name_of(path, guest));
                    }
                }
                Some(meaning) => {
                    let Some((range, Ok(id))) =
                        id_of(&property).map(|(range, id)| (range, u32::try_from(id)))
                    else {
                        continue;
                    };
                    let known = match (meaning, process) {
                        (Meaning::Process, _) => guest.ids_of(id, 0).0,
                        (_, Some(process)) => guest.ids_of(process, id).1,
                        _ => guest.thread_of(id),
                    };
                    if known != id {
                        let bytes = u64::from(known).to_le_bytes();
                        replace(range.clone(), bytes.get(..range.len()).unwrap_or_default());
                    }
                }
            }
        }
        if done == 0 {
            return None;
        }
        written.extend_from_slice(payload.get(done..)?);
        (written.len() <= usize::from(u16::MAX)).then_some(written)
    }

    fn name_of(&mut self, path: &[u8], guest: &dyn Guest) -> &[u8] {
        if self.0.len() >= MAX_NAMES && !self.0.contains_key(path) {
            self.0.clear();
        }
        self.0.entry(path.into()).or_insert_with(|| {
            let units: Vec<u16> =
                path.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
            let name = guest.name_of(&String::from_utf16_lossy(&units));
            name.encode_utf16().flat_map(u16::to_le_bytes).collect()
        })
    }
}

/// Whether a schema is of a class of the kernel.
pub(crate) fn is_of_system(schema: &EventSchema) -> bool {
    schema.provider.class_of.as_ref().is_some_and(|(provider, _)| *provider == SYSTEM_TRACE)
}

/// The properties of the system's events that stand for something, by the names that its classes and manifests give them.
fn meaning(name: &str) -> Option<Meaning> {
    Some(match name {
        "ProcessId" | "ProcessID" | "PID" | "StackProcess" | "ParentId" | "ParentProcessID" | "HRPid" => {
            Meaning::Process
        }
        "ThreadId" | "ThreadID" | "TThreadId" | "TTID" | "StackThread" | "NewThreadId" | "OldThreadId"
        | "IssuingThreadId" => Meaning::Thread,
        "FileName" | "OpenPath" | "FilePath" | "ImageName" => Meaning::File,
        _ => return None,
    })
}

/// Returns the place of an id of 32 or 64 bits, and the id.
fn id_of(property: &PropertyValue<'_>) -> Option<(Range<usize>, u64)> {
    let mut found = None;
    property.for_each_plain(&mut |range, value| {
        found = match value {
            Value::U32(id) => Some((range, id.into())),
            Value::U64(id) | Value::Pointer(id, _) => Some((range, id)),
            _ => None,
        };
    });
    found
}

/// Returns the place of a path of Linux in a text that ends with a NUL, and the text.
fn path_of<'a>(property: &PropertyValue<'a>) -> Option<(Range<usize>, &'a [u8])> {
    let PropertyType::Value { in_type: InType::UNICODE_STRING, .. } = property.property().kind else {
        return None;
    };
    let mut found = None;
    property.for_each_plain(&mut |range, value| {
        if let Value::Utf16(text) = value {
            found = text.starts_with(b"/\0").then_some((range, text));
        }
    });
    found
}
