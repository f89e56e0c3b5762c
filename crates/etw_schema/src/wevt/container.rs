//! The files that contain compiled manifests: PE files, `.res` files, and the message compiler's bare output.

use std::ops::Range;

use etw_event::Fields;
use object::pe::{
    IMAGE_DIRECTORY_ENTRY_RESOURCE, IMAGE_NT_OPTIONAL_HDR32_MAGIC, ImageNtHeaders32, ImageNtHeaders64,
};
use object::read::pe::{
    ImageNtHeaders, PeFile, ResourceDirectory, ResourceDirectoryEntryData, ResourceDirectoryTable,
    ResourceNameOrId, optional_header_magic,
};
use object::{LittleEndian as LE, U16};

use super::WevtError;

/// The resources of a file that contain schemas.
#[derive(Default)]
pub(super) struct Resources<'a> {
    /// `WEVT_TEMPLATE` resources.
    pub(super) templates: Vec<&'a [u8]>,
    /// `RT_MESSAGETABLE` resources with their languages.
    pub(super) messages: Vec<(u16, &'a [u8])>,
}

const TEMPLATE_TYPE: &str = "WEVT_TEMPLATE";
/// `RT_MESSAGETABLE` (`winuser.h`).
const MESSAGE_TABLE_TYPE: u16 = 11;
/// Limit of resources of these two types at each level of the directory.
const MAX_ENTRIES: usize = 256;
/// The start of a 32-bit `.res` file: the header of an empty resource.
const RES_START: [u8; 8] = [0, 0, 0, 0, 0x20, 0, 0, 0];

/// Finds the resources of a file of any supported kind.
pub(super) fn resources(bytes: &[u8]) -> Result<Resources<'_>, WevtError> {
    if bytes.starts_with(b"CRIM") {
        return Ok(Resources { templates: vec![bytes], messages: Vec::new() });
    }
    if bytes.starts_with(&RES_START) {
        return Ok(res_file(bytes));
    }
    if !bytes.starts_with(b"MZ") {
        return Err(WevtError::NotAContainer);
    }
    match magic(bytes)? {
        IMAGE_NT_OPTIONAL_HDR32_MAGIC => pe_file::<ImageNtHeaders32>(bytes),
        _ => pe_file::<ImageNtHeaders64>(bytes),
    }
}

/// Returns the range of a PE file that starts with its resource directory, or `None` if it has no resources. `head` is
/// the start of the file, at least up to the end of the section headers.
///
/// # Errors
///
/// Fails if `head` is not the start of a PE file, or is damaged or too short.
pub fn resource_range(head: &[u8]) -> Result<Option<Range<u64>>, WevtError> {
    match magic(head)? {
        IMAGE_NT_OPTIONAL_HDR32_MAGIC => resource_range_of::<ImageNtHeaders32>(head),
        _ => resource_range_of::<ImageNtHeaders64>(head),
    }
}

fn resource_range_of<H: ImageNtHeaders>(head: &[u8]) -> Result<Option<Range<u64>>, WevtError> {
    let file = PeFile::<H>::parse(head).map_err(damaged)?;
    let Some(directory) = file.data_directories().get(IMAGE_DIRECTORY_ENTRY_RESOURCE) else {
        return Ok(None);
    };
    let (address, size) = directory.address_range();
    let (start, rest) = file
        .section_table()
        .iter()
        .find_map(|section| section.pe_file_range_at(address))
        .ok_or_else(|| WevtError::DamagedPe("the resources are in no section".to_owned()))?;
    Ok(Some(start.into()..u64::from(start) + u64::from(size.min(rest))))
}

/// Returns whether a resource directory may have a `WEVT_TEMPLATE` resource. `start` is the start of the directory. If
/// it is too short to decide this, the result is true.
pub fn may_have_templates(start: &[u8]) -> bool {
    let directory = ResourceDirectory::new(start);
    let Ok(root) = directory.root() else { return true };
    root.entries.iter().any(|entry| match entry.name_or_id() {
        ResourceNameOrId::Name(name) => name.data(directory).map_or(true, is_template_type),
        ResourceNameOrId::Id(_) => false,
    })
}

fn is_template_type(name: &[U16<LE>]) -> bool {
    TEMPLATE_TYPE.encode_utf16().eq(name.iter().map(|unit| unit.get(LE)))
}

/// Returns the number in the headers that tells 32-bit and 64-bit PE files apart.
fn magic(bytes: &[u8]) -> Result<u16, WevtError> {
    optional_header_magic(bytes)
        .map_err(|error| if is_dos_program(bytes) { WevtError::NotAContainer } else { damaged(error) })
}

/// Returns whether a file that starts with `MZ` is a program for DOS or 16-bit Windows. The table of relocations of a
/// DOS program is within the first 64 bytes; files of Windows have the offset of their own header there.
fn is_dos_program(bytes: &[u8]) -> bool {
    let table_of_relocations = bytes.u16_at(0x18).unwrap_or(u16::MAX);
    let own_header = bytes.u32_at(0x3C).and_then(|at| bytes.array_at::<2>(at as usize));
    table_of_relocations < 0x40 || matches!(own_header.as_ref(), Some(b"NE" | b"LE" | b"LX"))
}

fn damaged(error: object::read::Error) -> WevtError {
    WevtError::DamagedPe(error.to_string())
}

fn pe_file<H: ImageNtHeaders>(bytes: &[u8]) -> Result<Resources<'_>, WevtError> {
    let file = PeFile::<H>::parse(bytes).map_err(damaged)?;
    let sections = file.section_table();
    let mut resources = Resources::default();
    let Some(directory) = file.data_directories().resource_directory(bytes, &sections).map_err(damaged)?
    else {
        return Ok(resources);
    };
    for kind in directory.root().map_err(damaged)?.entries.iter().take(4096) {
        let is_template = match kind.name_or_id() {
            ResourceNameOrId::Name(name) => name.data(directory).is_ok_and(is_template_type),
            ResourceNameOrId::Id(MESSAGE_TABLE_TYPE) => false,
            ResourceNameOrId::Id(_) => continue,
        };
        let is_message = matches!(kind.name_or_id(), ResourceNameOrId::Id(MESSAGE_TABLE_TYPE));
        let Some(names) = kind.data(directory).ok().and_then(ResourceDirectoryEntryData::table) else {
            continue;
        };
        for (language, address, size) in leaves(directory, &names) {
            let data = sections.pe_data_at(bytes, address).and_then(|data| data.get(..size));
            match data {
                Some(data) if is_template => resources.templates.push(data),
                Some(data) if is_message => resources.messages.push((language, data)),
                None if is_template => {
                    return Err(WevtError::DamagedPe(
                        "a WEVT_TEMPLATE resource is outside the file".to_owned(),
                    ));
                }
                _ => {}
            }
        }
    }
    Ok(resources)
}

/// Returns language, address and size of the resources of one type.
fn leaves(directory: ResourceDirectory<'_>, names: &ResourceDirectoryTable<'_>) -> Vec<(u16, u32, usize)> {
    let mut found = Vec::new();
    for name in names.entries.iter().take(MAX_ENTRIES) {
        let Some(languages) = name.data(directory).ok().and_then(ResourceDirectoryEntryData::table) else {
            continue;
        };
        for language in languages.entries.iter().take(MAX_ENTRIES) {
            if found.len() >= MAX_ENTRIES {
                return found;
            }
            let Some(entry) = language.data(directory).ok().and_then(ResourceDirectoryEntryData::data) else {
                continue;
            };
            let size = usize::try_from(entry.size.get(LE)).unwrap_or(usize::MAX);
            found.push((language.name_or_id().id().unwrap_or(0), entry.offset_to_data.get(LE), size));
        }
    }
    found
}

/// Reads a `.res` file: headers of `DataSize`, `HeaderSize`, type, name, …, each resource aligned to 4 bytes.
/// Source: "Resource File Formats" in the Windows documentation.
fn res_file(bytes: &[u8]) -> Resources<'_> {
    let mut resources = Resources::default();
    let mut at = 0usize;
    while let (Some(data_size), Some(header_size)) = (size_at(bytes, at), size_at(bytes, at + 4)) {
        let Some(start) = at.checked_add(header_size) else { break };
        let Some(end) = start.checked_add(data_size) else { break };
        let Some(data) = bytes.get(start..end).filter(|_| header_size >= 8) else { break };
        if let Some((kind, after)) = res_name(bytes, at + 8)
            && let Some((_, after)) = res_name(bytes, after)
        {
            // Data version, memory flags and language follow the names, aligned.
            let language = bytes.u16_at(after.next_multiple_of(4) + 6).unwrap_or(0);
            match kind {
                ResName::Id(MESSAGE_TABLE_TYPE) => resources.messages.push((language, data)),
                ResName::Name(name) if name == TEMPLATE_TYPE => resources.templates.push(data),
                _ => {}
            }
        }
        if resources.templates.len() + resources.messages.len() >= MAX_ENTRIES {
            break;
        }
        at = end.next_multiple_of(4);
    }
    resources
}

enum ResName {
    Id(u16),
    Name(String),
}

/// Reads a type or name in a `.res` file: `0xFFFF` and a number, or a null-terminated string. Also returns its end.
fn res_name(bytes: &[u8], at: usize) -> Option<(ResName, usize)> {
    if bytes.u16_at(at)? == 0xFFFF {
        return Some((ResName::Id(bytes.u16_at(at + 2)?), at + 4));
    }
    let mut units = Vec::new();
    for index in 0..256 {
        match bytes.u16_at(at + 2 * index)? {
            0 => return Some((ResName::Name(String::from_utf16_lossy(&units)), at + 2 * index + 2)),
            unit => units.push(unit),
        }
    }
    None
}

fn size_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(bytes.u32_at(at)?).ok()
}
