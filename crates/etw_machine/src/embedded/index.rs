//! The code that the events of a trace name.

use std::rc::Rc;

use etw_consumer::Event;
use etw_event::Guid;
use etw_symbols::{Module, PdbId, Symbol};

use super::form::{CodeForm, ImageCode};
use super::identity::ModuleId;
use crate::maps::HashMap;

/// Maximum number of addresses.
const MAX_PLACES: usize = 1 << 22;
/// Maximum length in bytes of the names at all addresses together, where each address has its own.
const MAX_TEXT_BYTES: usize = 1 << 29;
/// Length in bytes of the part of a build id that every event about an image has.
const SHORT_ID_BYTES: usize = 4;

/// What an image is found by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Pdb(Guid, u32),
    /// Name in lower case, time stamp and size.
    Image(String, u32, u32),
    /// Path and the start of the build id.
    Elf(String, Vec<u8>),
    /// GUID of an assembly's PDB.
    Assembly(Guid),
}

/// The code of an image.
#[derive(Debug)]
struct OfImage {
    build_id: Vec<u8>,
    source: Rc<str>,
    /// By offset: the event and the number of the place in it.
    places: HashMap<u64, (u32, u32)>,
}

/// The code of images, by offset from their bases.
#[derive(Debug, Default)]
pub(super) struct CodeIndex {
    by_key: HashMap<Key, usize>,
    images: Vec<OfImage>,
    events: Vec<CodeForm>,
    places: usize,
    text_bytes: usize,
}

impl CodeIndex {
    /// Adds the code that an event contains, if any.
    pub(super) fn event(&mut self, event: &Event<'_>) {
        let Some(ImageCode { id, source, code }) = ImageCode::from_event(event) else { return };
        let keys = keys(&id.module());
        let known = keys.iter().find_map(|key| self.by_key.get(key).copied());
        let image = known.unwrap_or(self.images.len());
        if known.is_none() {
            let ModuleId { build_id, .. } = id;
            self.images.push(OfImage { build_id, source: source.into(), places: HashMap::default() });
        }
        for key in keys {
            self.by_key.entry(key).or_insert(image);
        }
        let event = self.events.len() as u32;
        let Some(of_image) = self.images.get_mut(image) else { return };
        for (place, number) in code.places.iter().zip(0..) {
            let text_bytes = self.text_bytes.saturating_add(code.text_bytes(place));
            if self.places >= MAX_PLACES || text_bytes > MAX_TEXT_BYTES {
                break;
            }
            self.places += 1;
            self.text_bytes = text_bytes;
            of_image.places.entry(place.offset).or_insert((event, number));
        }
        self.events.push(code);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// Returns the code of an image, and the name of the file that it is from.
    pub(super) fn of(&self, module: &Module<'_>) -> Option<CodeOfImage<'_>> {
        let found = keys(module).into_iter().find_map(|key| self.by_key.get(&key));
        let image = self.images.get(*found?)?;
        // The trace may have only the start of a build id, in one place or the other.
        let is_same =
            image.build_id.starts_with(module.build_id) || module.build_id.starts_with(&image.build_id);
        is_same.then_some(CodeOfImage { index: self, image })
    }
}

/// The code of one image.
#[derive(Clone, Copy)]
pub(super) struct CodeOfImage<'i> {
    index: &'i CodeIndex,
    image: &'i OfImage,
}

impl<'i> CodeOfImage<'i> {
    /// Returns the code at an offset; without frames if it is known to have no name, `None` if it is not known.
    pub(super) fn find(&self, offset: u64) -> Option<Symbol> {
        let (event, place) = self.image.places.get(&offset)?;
        let code = self.index.events.get(*event as usize)?;
        Some(code.symbol(code.places.get(*place as usize)?))
    }

    pub(super) fn has(&self, offset: u64) -> bool {
        self.image.places.contains_key(&offset)
    }

    /// Returns the name of the file that the names are from.
    pub(super) fn source(&self) -> &'i Rc<str> {
        &self.image.source
    }
}

/// Returns what a module may be found by, the most certain first.
fn keys(module: &Module<'_>) -> Vec<Key> {
    let Some(windows) = module.windows else {
        let id = module.build_id.get(..SHORT_ID_BYTES).unwrap_or(module.build_id);
        return vec![Key::Elf(module.path.to_owned(), id.to_vec())];
    };
    if module.is_managed {
        return windows.pdb.iter().map(|pdb| Key::Assembly(pdb.guid)).collect();
    }
    // The machine code of an assembly may have been made several times.
    let pdb = windows.pdb.as_ref().filter(|pdb| pdb.age != PdbId::PORTABLE);
    let pdb = pdb.map(|pdb| Key::Pdb(pdb.guid, pdb.age));
    let name = module.path.rsplit(['/', '\\']).next().unwrap_or_default().to_lowercase();
    let is_known = windows.time_stamp != 0 && windows.len_bytes != 0;
    let image = is_known.then_some(Key::Image(name, windows.time_stamp, windows.len_bytes));
    pdb.into_iter().chain(image).collect()
}
