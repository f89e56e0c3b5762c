//! The schemas of Windows' own providers, of all releases, packed.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! The pack is one file, `data/windows.pack`, which is part of the program: manifest providers and classic providers
//! of Windows 7 to 11, with each layout that an event has had and the [releases](Release) that have it. Providers are
//! compressed in groups, and only the groups that are asked for are unpacked.
//!
//! ```
//! use etw_schema::{Found, SchemaSource};
//! use etw_schema_windows::WindowsSchemas;
//!
//! let pack = WindowsSchemas::new()?;
//! let dns = pack.find("microsoft-windows-dns-client").ok_or("unknown provider")?;
//! // The event that is written for each query, as Windows 11 23H2 has it.
//! let Found::Event(schema) = pack.event_of_build(&dns.guid, 3006, 0, 22_631) else { return Err("no event".into()) };
//! assert_eq!(&*schema.properties[0].name, "QueryName");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod block;
mod pack;
mod release;
mod varint;
mod words;

use std::sync::{Arc, LazyLock};

use etw_event::Guid;
use etw_schema::{EventSchema, Found, OtherLayouts, Provider, SchemaSource};

pub use block::{Block, EventLayout};
pub use pack::{Listed, Pack, PackError, write};
pub use release::{Release, Releases};
pub use words::Words;

/// The file, as bytes of the program.
static FILE: &[u8] = include_bytes!("../data/windows.pack");

static PACK: LazyLock<Result<Pack<'static>, PackError>> = LazyLock::new(|| Pack::open(FILE));

/// The pack as a source of schemas.
///
/// [`SchemaSource::provider`] returns manifest providers without their events, which
/// [`SchemaSource::event_of_build`] finds one by one, and classic providers' classes with theirs.
#[derive(Debug, Clone, Copy)]
pub struct WindowsSchemas(&'static Pack<'static>);

impl WindowsSchemas {
    /// Returns the pack of this program.
    ///
    /// # Errors
    ///
    /// Fails if the index is damaged.
    pub fn new() -> Result<WindowsSchemas, PackError> {
        PACK.as_ref().map(WindowsSchemas).map_err(PackError::clone)
    }

    /// Returns the pack.
    pub fn pack(&self) -> &'static Pack<'static> {
        self.0
    }

    /// Returns every provider and class, sorted by GUID.
    pub fn providers(&self) -> &'static [Listed] {
        self.0.providers()
    }

    /// Returns the provider with a name, or the class if no provider has it. Ignores case.
    pub fn find(&self, name: &str) -> Option<&'static Listed> {
        let mut all = self.providers().iter().filter(|listed| listed.name.eq_ignore_ascii_case(name));
        let first = all.next()?;
        if first.is_class { all.find(|listed| !listed.is_class).or(Some(first)) } else { Some(first) }
    }
}

impl SchemaSource for WindowsSchemas {
    fn provider(&self, guid: &Guid) -> Option<Arc<Provider>> {
        self.provider_of_build(guid, 0)
    }

    fn provider_of_build(&self, guid: &Guid, build: u32) -> Option<Arc<Provider>> {
        // A group that is damaged is as if it were absent: `Pack::block` says why.
        let block = self.0.block(guid).ok().flatten()?;
        let events: Vec<Arc<EventSchema>> = match block.is_class() {
            true => block.events_of_build(build).map(Arc::new).collect(),
            false => Vec::new(),
        };
        Some(Arc::new(Provider { info: block.info().clone(), events }))
    }

    fn event_of_build(&self, guid: &Guid, id: u16, version: u8, build: u32) -> Found {
        match self.0.block(guid) {
            Ok(Some(block)) if !block.is_class() => block.event(id, version, build),
            _ => Found::NoProvider,
        }
    }

    fn other_layouts(&self, event: &EventSchema, build: u32) -> OtherLayouts {
        match self.0.block(&event.provider.guid) {
            Ok(Some(block)) => block.other_layouts(event, build),
            _ => OtherLayouts { layouts: Vec::new(), is_certain: true },
        }
    }
}
