//! The schemas that TDH knows: the manifests that the program loads, the user's store, and what is built in.

// UNSAFETY: reads what callers point to.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use etw_consumer::{SchemaFiles, Schemas};
use etw_event::Guid;
use etw_schema::builtin::BuiltIn;
use etw_schema::store::{Store, StoreError};
use etw_schema::{EventSchema, Provider, Providers, Resolver, SchemaSource, manifest};
use openetw::windows::WindowsSchemas;

use crate::error::{ERROR_FILE_NOT_FOUND, ERROR_INVALID_PARAMETER, ERROR_NOT_FOUND, ERROR_SUCCESS};
use crate::guest::path_of;
use crate::wide::Width;

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

/// The sources, and the resolver for events outside of callbacks.
#[derive(Default)]
pub(crate) struct State {
    loaded: Vec<(String, Arc<Providers>)>,
    store: Option<Option<Arc<Store>>>,
    windows: Option<Option<Arc<WindowsSchemas>>>,
    resolver: Option<Resolver>,
}

pub(crate) fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the schemas for reading traces.
pub(crate) fn schemas() -> Schemas {
    state().schemas()
}

impl State {
    fn schemas(&mut self) -> Schemas {
        let mut schemas = Schemas::new();
        // The manifest that was loaded last comes first.
        self.loaded.iter().rev().for_each(|(_, providers)| schemas.add(providers.clone()));
        if let Some(store) = self.store() {
            schemas.add(store);
        }
        schemas
    }

    /// Returns the resolver for events outside of callbacks.
    pub(crate) fn resolver(&mut self) -> &mut Resolver {
        let resolver = self.resolver.take().unwrap_or_else(|| self.schemas().resolver());
        self.resolver.insert(resolver)
    }

    /// Returns the user's store of schemas, if there is one.
    pub(crate) fn store(&mut self) -> Option<Arc<Store>> {
        self.store.get_or_insert_with(|| Store::open(store_directory()?).ok().map(Arc::new)).clone()
    }

    pub(crate) fn windows(&mut self) -> Option<Arc<WindowsSchemas>> {
        self.windows.get_or_insert_with(|| WindowsSchemas::new().ok().map(Arc::new)).clone()
    }

    pub(crate) fn loaded(&self) -> impl Iterator<Item = &Arc<Provider>> {
        self.loaded.iter().flat_map(|(_, providers)| providers.iter())
    }

    /// Returns the descriptions of a provider, in the order in which they are used.
    pub(crate) fn providers(&mut self, guid: &Guid) -> Vec<Arc<Provider>> {
        let mut found: Vec<Arc<Provider>> =
            self.loaded.iter().rev().filter_map(|(_, loaded)| loaded.provider(guid)).collect();
        found.extend(self.store().and_then(|store| SchemaSource::provider(&*store, guid)));
        found.extend(BuiltIn.provider(guid));
        found.extend(self.windows().and_then(|windows| windows.provider(guid)));
        found
    }

    /// Returns the events of each description of a provider that has some, in the order in which they are used.
    pub(crate) fn events(&mut self, guid: &Guid) -> Vec<Vec<Arc<EventSchema>>> {
        let mut found: Vec<_> = self
            .providers(guid)
            .iter()
            .map(|provider| provider.events.clone())
            .filter(|events| !events.is_empty())
            .collect();
        // Of the providers of Windows there is one description per release, from which events are taken one by one.
        let windows = self.windows();
        let block = windows.as_ref().and_then(|windows| windows.pack().block(guid).ok().flatten());
        found.extend(
            block
                .filter(|block| !block.is_class())
                .map(|block| block.events_of_build(0).map(Arc::new).collect::<Vec<_>>())
                .filter(|events| !events.is_empty()),
        );
        found
    }

    fn unload(&mut self, name: &str) -> u32 {
        let before = self.loaded.len();
        self.loaded.retain(|(loaded, _)| loaded != name);
        if self.loaded.len() == before {
            return ERROR_NOT_FOUND;
        }
        self.resolver = None;
        ERROR_SUCCESS
    }

    fn load(&mut self, name: String, providers: Providers) {
        self.loaded.retain(|(other, _)| *other != name);
        self.loaded.push((name, Arc::new(providers)));
        self.resolver = None;
    }
}

/// Adds the schemas in a file to the user's store, as `etw schema add` does.
///
/// # Errors
///
/// Fails with the reason if the file has no schemas, or the store cannot be written.
pub(crate) fn add_to_store(path: &str) -> Result<(), String> {
    let read = SchemaFiles::read([path]);
    if read.providers.is_empty() {
        return Err(format!("{path}: no schemas can be read"));
    }
    let origin = std::path::absolute(path).unwrap_or_else(|_| path.into());
    change_store(|store| store.add(&read.providers, &origin.to_string_lossy()).map(drop))
}

/// Removes what the user's store has of a provider.
///
/// # Errors
///
/// Fails with the reason if the store cannot be written.
pub(crate) fn remove_from_store(guid: &Guid) -> Result<(), String> {
    change_store(|store| store.remove(guid).map(drop))
}

fn change_store(change: impl FnOnce(&Store) -> Result<(), StoreError>) -> Result<(), String> {
    let mut state = state();
    let directory = store_directory().ok_or("no directory for schemas: set OPENETW_SCHEMAS or HOME")?;
    let store = Store::open(directory).map_err(|error| error.to_string())?;
    change(&store).map_err(|error| error.to_string())?;
    state.store = None;
    state.resolver = None;
    Ok(())
}

/// The directory that `etw schema add` uses.
fn store_directory() -> Option<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = || from("XDG_DATA_HOME").or_else(|| Some(from("HOME")?.join(".local/share")));
    from("OPENETW_SCHEMAS").or_else(|| Some(data()?.join("openetw").join("schemas")))
}

/// Loads the manifest in a file; a `.dll`, `.exe` or MOF file is accepted too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhLoadManifest(path: *const u16) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { load(path.cast(), Width::Wide16) }
}

/// [`TdhLoadManifest`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhLoadManifest32(path: *const u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { load(path.cast(), Width::Wide32) }
}

/// Loads the manifest in the resources of a `.dll` or `.exe`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhLoadManifestFromBinary(path: *const u16) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { load(path.cast(), Width::Wide16) }
}

/// [`TdhLoadManifestFromBinary`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhLoadManifestFromBinary32(path: *const u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { load(path.cast(), Width::Wide32) }
}

/// Loads a manifest in memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhLoadManifestFromMemory(data: *const c_void, size: u32) -> u32 {
    if data.is_null() || size == 0 {
        return ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the caller promises `size` readable bytes.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size as usize) };
    let read = manifest::read(bytes, "memory");
    if read.providers.is_empty() {
        return ERROR_INVALID_PARAMETER;
    }
    state().load(format!("memory {:p}", data), Providers::from_iter(read.providers));
    ERROR_SUCCESS
}

/// Unloads a manifest that [`TdhLoadManifestFromMemory`] loaded from the same place.
#[unsafe(no_mangle)]
pub extern "C" fn TdhUnloadManifestFromMemory(data: *const c_void, _size: u32) -> u32 {
    state().unload(&format!("memory {data:p}"))
}

/// Unloads a manifest that [`TdhLoadManifest`] loaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhUnloadManifest(path: *const u16) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { unload(path.cast(), Width::Wide16) }
}

/// [`TdhUnloadManifest`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhUnloadManifest32(path: *const u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { unload(path.cast(), Width::Wide32) }
}

/// # Safety
///
/// The text is null or has this width.
unsafe fn load(path: *const c_void, width: Width) -> u32 {
    // SAFETY: the caller's promise.
    let Some(path) = unsafe { width.read(path) }.map(path_of) else { return ERROR_INVALID_PARAMETER };
    if !std::path::Path::new(&path).exists() {
        return ERROR_FILE_NOT_FOUND;
    }
    let read = SchemaFiles::read([&path]);
    if read.providers.is_empty() {
        return ERROR_INVALID_PARAMETER;
    }
    state().load(path, Providers::from_iter(read.providers));
    ERROR_SUCCESS
}

/// # Safety
///
/// The text is null or has this width.
unsafe fn unload(path: *const c_void, width: Width) -> u32 {
    // SAFETY: the caller's promise.
    let Some(path) = unsafe { width.read(path) }.map(path_of) else { return ERROR_INVALID_PARAMETER };
    state().unload(&path)
}
