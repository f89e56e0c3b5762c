//! Compiled manifests: the resource `WEVT_TEMPLATE` of the files that providers name as their resource files.
//!
//! Read are PE files of 32 and 64 bits (`.dll`, `.exe`, `.sys`, `.mui`), `.res` files, and the message compiler's
//! bare output (`…TEMP.BIN`). The texts are in message tables, in Windows mostly those of a satellite file
//! `en-US\name.dll.mui`, which the caller finds beside the file and hands over with it.
//!
//! A compiled manifest has no symbols, so events are named by task and opcode: `ProcessStart/Start`.
//! Before Windows 10 it has no name of the provider either; such a provider is named by its GUID.

mod blocks;
mod container;
mod crim;
mod messages;

use crate::Provider;
use messages::MessageTable;

/// What a file's compiled manifests say, and what in them could not be understood.
#[derive(Debug, Default)]
pub struct Wevt {
    /// The providers.
    pub providers: Vec<Provider>,
    /// What was left out; at most about a thousand problems.
    pub problems: Vec<WevtProblem>,
}

/// Something in a compiled manifest that could not be understood. Everything around it was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset:#x} of the resource: {what}")]
pub struct WevtProblem {
    /// Offset in the resource.
    pub offset: usize,
    /// What it is.
    pub what: &'static str,
}

/// Why a file has no compiled manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WevtError {
    /// It begins like no file that could have one.
    #[error("neither a PE file, nor a .res file, nor a compiled manifest")]
    NotAContainer,
    /// A PE file whose headers or resource directory are damaged.
    #[error("damaged PE file: {0}")]
    DamagedPe(String),
    /// No `WEVT_TEMPLATE` resource, neither in the file nor in its satellite.
    #[error("no WEVT_TEMPLATE resource")]
    NoTemplates,
}

/// Reads the compiled manifests of a file. `satellite` is its `.mui` file, if there is one; `origin` says where the
/// file is from: its name.
///
/// English texts are taken where there are several languages, those of the satellite before those of the file.
pub fn read(bytes: &[u8], satellite: Option<&[u8]>, origin: &str) -> Result<Wevt, WevtError> {
    let mut main = container::resources(bytes)?;
    let mut messages = MessageTable::default();
    if let Some(mut satellite) = satellite.and_then(|satellite| container::resources(satellite).ok()) {
        add_messages(&mut messages, &mut satellite.messages);
        if main.templates.is_empty() {
            main.templates = satellite.templates;
        }
    }
    add_messages(&mut messages, &mut main.messages);
    if main.templates.is_empty() {
        return Err(WevtError::NoTemplates);
    }
    let mut wevt = Wevt::default();
    for resource in main.templates {
        crim::read(resource, &mut messages, origin, &mut wevt);
    }
    Ok(wevt)
}

/// Language id of English (United States).
const EN_US: u16 = 0x0409;

fn add_messages<'a>(messages: &mut MessageTable<'a>, resources: &mut [(u16, &'a [u8])]) {
    resources.sort_by_key(|(language, _)| *language != EN_US);
    for (_, resource) in resources {
        messages.add(resource);
    }
}

/// Decodes UTF-16 up to its null or the end.
fn utf16(bytes: &[u8]) -> String {
    let units = bytes.as_chunks::<2>().0;
    let len = units.iter().position(|unit| *unit == [0, 0]).unwrap_or(units.len());
    encoding_rs::UTF_16LE.decode_without_bom_handling(units[..len].as_flattened()).0.into_owned()
}
