//! The schemas that commands use: built in, from the store, and from files named on the command line.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use openetw::schema::store::Store;
use openetw::schema::{
    EventSchema, Provider, ProviderSpec, ProviderSpecError, Providers, SchemaSource, builtin,
};
use openetw::{Guid, SchemaFiles};

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
}

/// One line of `etw provider list`.
pub struct Listed {
    /// Name of the provider.
    pub name: String,
    /// Its GUID.
    pub guid: Guid,
    /// Origin of its schemas: a file, or `built in`.
    pub origin: String,
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
        Ok(Schemas { files, store })
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
            });
        }
        if let Some(store) = &self.store {
            for entry in store.list()? {
                listed.push(Listed { name: entry.name, guid: entry.guid, origin: entry.origin });
            }
        }
        for entry in builtin::providers() {
            listed.push(Listed {
                name: entry.name.to_owned(),
                guid: entry.guid,
                origin: "built in".to_owned(),
            });
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
        let guid: Option<Guid> = name.parse().ok();
        let is_it = |listed: &&Listed| Some(listed.guid) == guid || listed.name.eq_ignore_ascii_case(name);
        let listed = self.list()?;
        let mut guids: Vec<Guid> = listed.iter().filter(is_it).map(|listed| listed.guid).collect();
        guids.sort_unstable();
        guids.dedup();
        let mut found: Vec<Arc<Provider>> = guids.iter().flat_map(|guid| self.of_guid(guid)).collect();
        if found.iter().all(|provider| provider.events.is_empty()) {
            let classes = listed.iter().flat_map(|listed| self.of_guid(&listed.guid));
            found.extend(classes.filter(|class| {
                class.info.class_of.as_ref().is_some_and(|(owner, owner_name)| {
                    Some(*owner) == guid || owner_name.eq_ignore_ascii_case(name)
                })
            }));
        }
        Ok(found)
    }

    /// Returns a provider as each source describes it, in the order in which the sources decode events. Event versions
    /// from an earlier source are omitted from later ones.
    fn of_guid(&self, guid: &Guid) -> Vec<Arc<Provider>> {
        let of_store = self.store.as_ref().and_then(|store| SchemaSource::provider(&**store, guid));
        let mut sources = vec![self.files.provider(guid), of_store, builtin::BuiltIn.provider(guid)];
        // Built-in schemas come first for the kernel's classes.
        if sources.iter().flatten().any(|provider| provider.info.class_of.is_some()) {
            sources.rotate_right(1);
        }
        let key = |event: &Arc<EventSchema>| {
            let d = &event.descriptor;
            // Classes identify events by opcode instead of id.
            let opcode = event.provider.class_of.as_ref().map(|_| d.opcode.0);
            (d.id, opcode, d.version)
        };
        let mut known = HashSet::new();
        let mut found = Vec::new();
        for provider in sources.into_iter().flatten() {
            let mut events: Vec<_> =
                provider.events.iter().filter(|event| !known.contains(&key(event))).cloned().collect();
            events.sort_by_key(key);
            known.extend(events.iter().map(key));
            if !events.is_empty() || found.is_empty() {
                found.push(Arc::new(Provider { info: provider.info.clone(), events }));
            }
        }
        found
    }
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
