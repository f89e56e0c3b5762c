//! Compiled manifests: the resource `WEVT_TEMPLATE` in the resource files of providers.
//!
//! Supported are 32-bit and 64-bit PE files (`.dll`, `.exe`, `.sys`, `.mui`), `.res` files, and the message compiler's
//! bare output (`…TEMP.BIN`). Texts are in message tables, on Windows mostly those of a satellite file
//! `en-US\name.dll.mui`. The caller finds the satellite and passes it along with the file.
//!
//! Few files of a Windows system contain compiled manifests. [`resource_range`] and [`may_have_templates`] rule out the
//! others by their first bytes.
//!
//! A compiled manifest has no symbols, so events are named after task and opcode: `ProcessStart/Start`. Before
//! Windows 10 it does not contain the provider's name either; such a provider is named after its GUID.
//!
//! ```no_run
//! use etw_schema::wevt;
//!
//! let file = std::fs::read("provider.dll")?;
//! let texts = std::fs::read("en-US/provider.dll.mui").ok();
//! let wevt = wevt::read(&file, texts.as_deref(), "provider.dll")?;
//! for provider in &wevt.providers {
//!     println!("{}: {} events", provider.info.name, provider.events.len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blocks;
mod container;
mod crim;
mod messages;

pub use container::{may_have_templates, resource_range};

use crate::Provider;
use messages::MessageTable;

/// The contents of a file's compiled manifests, and the problems found while reading them.
#[derive(Debug, Default)]
pub struct Wevt {
    /// The providers.
    pub providers: Vec<Provider>,
    /// The problems; at most about a thousand.
    pub problems: Vec<WevtProblem>,
}

/// A part of a compiled manifest that could not be read. Everything around it was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset:#x} of the resource: {what}")]
pub struct WevtProblem {
    /// Offset in the resource.
    pub offset: usize,
    /// The problem.
    pub what: &'static str,
}

/// The reason why a file has no compiled manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WevtError {
    /// The file is of no supported kind.
    #[error("neither a PE file, nor a .res file, nor a compiled manifest")]
    NotAContainer,
    /// A PE file with damaged headers or resource directory.
    #[error("damaged PE file: {0}")]
    DamagedPe(String),
    /// Neither the file nor its satellite has a `WEVT_TEMPLATE` resource.
    #[error("no WEVT_TEMPLATE resource")]
    NoTemplates,
}

/// Reads the compiled manifests of a file. `satellite` is its `.mui` file, if any; `origin` is where the file came
/// from, usually its name.
///
/// If there are several languages, English texts are used. Texts of the satellite take precedence.
///
/// # Errors
///
/// Fails if the file is of no supported kind, is damaged, or has no `WEVT_TEMPLATE` resource.
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

/// Decodes UTF-16 up to its NUL or the end.
fn utf16(bytes: &[u8]) -> String {
    let units = bytes.as_chunks::<2>().0.split(|unit| *unit == [0, 0]).next().unwrap_or_default();
    encoding_rs::UTF_16LE.decode_without_bom_handling(units.as_flattened()).0.into_owned()
}
