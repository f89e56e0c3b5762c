//! The schemas that commands use: built in, from the store, and from files named on the command line.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
#[cfg(target_os = "linux")]
use openetw::kernel::tracepoints::{TRACEPOINT_PROVIDER, TRACEPOINT_PROVIDER_NAME};
use openetw::schema::store::Store;
use openetw::schema::{
    Decoding, EventSchema, Property, PropertyType, Provider, ProviderSpec, ProviderSpecError, Providers,
    SchemaSource, builtin,
};
use openetw::windows::{Block, EventLayout, Pack, Releases, WindowsSchemas};
use openetw::{Guid, SchemaFiles};

use crate::description::{Described, DescribedEvent};
use crate::output;

/// Schema sources besides the trace and the built-in schemas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchemaOptions {
    /// Manifests, PE files, MOF, TMF and PDB files, or directories of them, used without adding them to the store.
    pub files: Vec<PathBuf>,
    /// Directory of the schema store; for the default see [`store_dir`].
    pub store: Option<PathBuf>,
}

/// Schemas of all sources except the trace itself, in order of precedence.
pub struct Schemas {
    files: Arc<Providers>,
    store: Option<Arc<Store>>,
    windows: Option<WindowsSchemas>,
}

/// One line of `etw provider list`.
pub struct Listed {
    /// Name of the provider.
    pub name: String,
    /// Its GUID.
    pub guid: Guid,
    /// Origin of its schemas: a file, or `built in`.
    pub origin: String,
    /// Whether it may be a class of classic events.
    pub is_class: bool,
}

impl Schemas {
    /// Reads the files and opens the store, if it exists. Problems within files are printed as warnings.
    ///
    /// # Errors
    ///
    /// Fails if no file contains a schema, or if the store cannot be opened.
    pub fn load(options: &SchemaOptions) -> Result<Schemas> {
        let read = SchemaFiles::read(&options.files);
        for file in &read.files {
            for problem in &file.problems {
                output::warn(&format_args!("{}: {problem}", file.path.display()));
            }
        }
        if !options.files.is_empty() && read.providers.is_empty() {
            bail!("no schema in the files of --schema; name a manifest, PE file, resource, MOF, TMF or PDB");
        }
        let files = Arc::new(read.providers.into_iter().collect());
        // Without a home directory the store is not used.
        let store = match store_dir(options.store.as_deref()) {
            Ok(dir) => Some(Arc::new(Store::open(dir)?)),
            Err(_) => None,
        };
        Ok(Schemas { files, store, windows: WindowsSchemas::new().ok() })
    }

    /// Returns the schema sources that are searched after events and traces themselves.
    pub fn sources(&self) -> openetw::Schemas {
        let mut sources = openetw::Schemas::new();
        sources.add(self.files.clone());
        if let Some(store) = &self.store {
            sources.add(store.clone());
        }
        sources
    }

    /// Returns all known providers, sorted by name.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>> {
        let mut listed: Vec<Listed> = Vec::new();
        for provider in self.files.iter() {
            listed.push(Listed {
                name: provider.info.name.to_string(),
                guid: provider.info.guid,
                origin: provider.info.origin.to_string(),
                is_class: provider.info.class_of.is_some(),
            });
        }
        if let Some(store) = &self.store {
            for entry in store.list()? {
                let is_class = entry.decoding == Decoding::Mof;
                listed.push(Listed { name: entry.name, guid: entry.guid, origin: entry.origin, is_class });
            }
        }
        for entry in builtin::providers() {
            listed.push(Listed {
                name: entry.name.to_owned(),
                guid: entry.guid,
                origin: "built in".to_owned(),
                is_class: entry.is_class,
            });
        }
        #[cfg(target_os = "linux")]
        listed.push(Listed {
            name: TRACEPOINT_PROVIDER_NAME.to_owned(),
            guid: TRACEPOINT_PROVIDER,
            origin: "tracepoints of the kernel".to_owned(),
            is_class: false,
        });
        let known: HashSet<Guid> = builtin::providers().map(|entry| entry.guid).collect();
        for entry in self.windows.iter().flat_map(WindowsSchemas::providers) {
            if !known.contains(&entry.guid) {
                listed.push(Listed {
                    name: entry.name.clone(),
                    guid: entry.guid,
                    origin: "built in".to_owned(),
                    is_class: entry.is_class,
                });
            }
        }
        listed.sort_by(|a, b| a.name.to_lowercase().cmp(&b.name.to_lowercase()).then(a.guid.cmp(&b.guid)));
        Ok(listed)
    }

    /// Returns the providers with a name or GUID, one for each source that has it. For the provider of classic events,
    /// returns its classes.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be read.
    pub fn find(&self, name: &str) -> Result<Vec<Arc<Provider>>> {
        Ok(self.guids(name)?.iter().flat_map(|guid| self.of_guid(guid, self.of_windows(guid))).collect())
    }

    /// Returns the providers with a name or GUID as [`Schemas::find`] does, but with every layout that releases of
    /// Windows have, or only those of the release with this number.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be read.
    pub fn describe(&self, name: &str, release: Option<usize>) -> Result<Vec<Described>> {
        Ok(self.guids(name)?.iter().flat_map(|guid| self.describe_guid(guid, release)).collect())
    }

    /// Returns the providers of Windows with a name or GUID. For the provider of classic events, returns its classes.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be read.
    pub fn find_in_windows(&self, name: &str) -> Result<Vec<&'static Block>> {
        Ok(self.guids(name)?.iter().filter_map(|guid| self.block(guid)).collect())
    }

    /// Returns the built-in providers with a name or GUID, as the latest release of Windows has them. For the provider of
    /// classic events, returns its classes.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be read.
    pub fn find_built_in(&self, name: &str) -> Result<Vec<Arc<Provider>>> {
        let built_in = |guid: &Guid| self.of_windows(guid).or_else(|| builtin::BuiltIn.provider(guid));
        Ok(self.guids(name)?.iter().filter_map(built_in).collect())
    }

    /// Returns the schemas of Windows' providers, or `None` if they are damaged.
    pub fn pack(&self) -> Option<&'static Pack<'static>> {
        self.windows.map(|windows| windows.pack())
    }

    /// Returns the providers of the other sources: of the files, the store and the built-in tables.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be read.
    pub fn outside_windows(&self) -> Result<Vec<Arc<Provider>>> {
        let mut guids: Vec<Guid> = self.files.iter().map(|provider| provider.info.guid).collect();
        if let Some(store) = &self.store {
            guids.extend(store.list()?.iter().map(|entry| entry.guid));
        }
        guids.extend(builtin::providers().map(|entry| entry.guid));
        guids.sort_unstable();
        guids.dedup();
        Ok(guids.iter().flat_map(|guid| self.of_guid(guid, None)).collect())
    }

    /// Returns the GUIDs of the providers with a name or GUID. If no event of them is known, also those of its classes.
    fn guids(&self, name: &str) -> Result<Vec<Guid>> {
        let guid: Option<Guid> = name.parse().ok();
        let is_it = |listed: &&Listed| Some(listed.guid) == guid || listed.name.eq_ignore_ascii_case(name);
        let listed = self.list()?;
        let mut guids: Vec<Guid> = listed.iter().filter(is_it).map(|listed| listed.guid).collect();
        guids.sort_unstable();
        guids.dedup();
        let sources = |guid: &Guid| self.of_guid(guid, self.of_windows(guid));
        if guids.iter().flat_map(sources).all(|provider| provider.events.is_empty()) {
            let is_owner = |(owner, owner_name): &(Guid, Arc<str>)| {
                Some(*owner) == guid || owner_name.eq_ignore_ascii_case(name)
            };
            let is_class = |source: &Arc<Provider>| source.info.class_of.as_ref().is_some_and(is_owner);
            let mut known: HashSet<Guid> = guids.iter().copied().collect();
            for class in listed.iter().filter(|listed| listed.is_class) {
                if !known.contains(&class.guid) && sources(&class.guid).iter().any(is_class) {
                    known.insert(class.guid);
                    guids.push(class.guid);
                }
            }
        }
        Ok(guids)
    }

    fn block(&self, guid: &Guid) -> Option<&'static Block> {
        self.windows?.pack().block(guid).ok()?
    }

    /// Returns a provider as the latest release of Windows has it.
    fn of_windows(&self, guid: &Guid) -> Option<Arc<Provider>> {
        let block = self.block(guid)?;
        let events = block.events_of_build(0).map(Arc::new).collect();
        Some(Arc::new(Provider { info: block.info().clone(), events }))
    }

    /// Returns a provider as each source describes it, in the order in which the sources decode events. Event versions
    /// from an earlier source are omitted from later ones.
    fn of_guid(&self, guid: &Guid, of_windows: Option<Arc<Provider>>) -> Vec<Arc<Provider>> {
        let of_store = self.store.as_ref().and_then(|store| SchemaSource::provider(&**store, guid));
        let built_in = builtin::BuiltIn.provider(guid);
        let mut sources = vec![self.files.provider(guid), of_store, built_in, of_windows];
        // Built-in schemas come first for the kernel's classes.
        if sources.iter().flatten().any(|provider| provider.info.class_of.is_some()) {
            sources.rotate_right(2);
        }
        let mut known = HashSet::new();
        let mut found = Vec::new();
        for provider in sources.into_iter().flatten() {
            let mut events: Vec<_> =
                provider.events.iter().filter(|event| !known.contains(&key(event))).cloned().collect();
            events.sort_by_key(|event| key(event));
            known.extend(events.iter().map(|event| key(event)));
            if !events.is_empty() || found.is_empty() {
                found.push(Arc::new(Provider { info: provider.info.clone(), events }));
            }
        }
        found
    }

    /// Describes a provider with the releases that have each event. A layout of Windows that another source describes
    /// too is shown once.
    fn describe_guid(&self, guid: &Guid, release: Option<usize>) -> Vec<Described> {
        let block = self.block(guid);
        let mut layouts: Vec<EventLayout> = block.into_iter().flat_map(Block::layouts).collect();
        // Events of classic classes may belong to no known release.
        let known = |releases: Releases| (releases != Releases::default()).then_some(releases);
        let is_wanted = |releases: Releases| match (release, known(releases)) {
            (Some(number), Some(releases)) => releases.contains(number),
            _ => true,
        };
        let mut described: Vec<Described> = Vec::new();
        for provider in self.of_guid(guid, None) {
            let events = provider.events.iter().filter_map(|schema| {
                let mut releases: Option<Releases> = None;
                layouts.retain(|layout| {
                    let is_same =
                        key(&layout.schema) == key(schema) && has_same_layout(&layout.schema, schema);
                    if is_same {
                        releases = Some(releases.unwrap_or_default().union(layout.releases));
                    }
                    !is_same
                });
                let event = DescribedEvent { schema: schema.clone(), releases: releases.and_then(known) };
                releases.is_none_or(is_wanted).then_some(event)
            });
            described.push(Described { info: provider.info.clone(), events: events.collect() });
        }
        layouts.retain(|layout| is_wanted(layout.releases));
        if !layouts.is_empty() {
            described.retain(|source| !source.events.is_empty());
        }
        if let Some(block) = block.filter(|_| !layouts.is_empty() || described.is_empty()) {
            let events = layouts.into_iter().map(|EventLayout { schema, releases }| DescribedEvent {
                schema: Arc::new(schema),
                releases: known(releases),
            });
            described.push(Described { info: block.info().clone(), events: events.collect() });
        }
        described
    }
}

/// Returns what distinguishes an event of a provider: classes identify events by opcode instead of id.
fn key(event: &EventSchema) -> (u16, Option<u8>, u8) {
    let d = &event.descriptor;
    (d.id, event.provider.class_of.as_ref().map(|_| d.opcode.0), d.version)
}

/// Returns whether two schemas have the same names, types and lengths, whatever the form of the text.
fn has_same_layout(a: &EventSchema, b: &EventSchema) -> bool {
    let shape = |property: &Property| match property.kind {
        PropertyType::Value { in_type, .. } => (in_type.0, 0),
        PropertyType::Struct { first, members } => (first, members),
    };
    let is_same = |(a, b): (&Property, &Property)| {
        a.name == b.name && shape(a) == shape(b) && a.length == b.length && a.count == b.count
    };
    a.top_level == b.top_level
        && a.properties.len() == b.properties.len()
        && a.properties.iter().zip(&b.properties).all(is_same)
}

/// Replaces the keyword names in a provider string by their bits in these descriptions of the provider.
pub(crate) fn resolve_keywords(
    spec: &mut ProviderSpec,
    known: &[Arc<Provider>],
) -> Result<(), ProviderSpecError> {
    let keywords = || known.iter().flat_map(|provider| &provider.info.keywords);
    let lookup = |wanted: &str| {
        keywords().find(|keyword| keyword.name.eq_ignore_ascii_case(wanted)).map(|keyword| keyword.mask)
    };
    let names = || keywords().map(|keyword| keyword.name.to_string()).collect();
    spec.resolve_keywords(lookup, names)
}

/// Returns the directory of the schema store: `named`, else `$OPENETW_SCHEMAS`, else `openetw/schemas` in the user's
/// data directory.
///
/// # Errors
///
/// Fails if the environment defines no data directory.
pub fn store_dir(named: Option<&Path>) -> Result<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = named.map(Path::to_owned).or_else(|| from("OPENETW_SCHEMAS")) {
        return Ok(dir);
    }
    let data = if cfg!(windows) {
        from("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        from("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        from("XDG_DATA_HOME").or_else(|| from("HOME").map(|home| home.join(".local/share")))
    };
    match data {
        Some(data) => Ok(data.join("openetw").join("schemas")),
        None => bail!("no directory for the schema store; name one with --store or OPENETW_SCHEMAS"),
    }
}
