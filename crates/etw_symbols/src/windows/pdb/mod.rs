//! Names of addresses from a PDB file.
//!
//! Only what the requested addresses need is read: the modules that contain them; public symbols if a module has no
//! procedure there; ids and types if functions are inlined there.

mod imports;
mod inlinees;
pub(crate) mod managed;
mod module;
mod records;
mod source;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use etw_event::{Fields, Guid};
use pdb2::{DebugInformation, FallibleIterator, IdIndex, PDB, Rva};

use self::imports::Import;
use self::module::{Frames, ModuleCode, Offset, Position};
use self::records::{Streams, text};
use self::source::Bytes;
use crate::demangle;
use crate::file_bytes::FileBytes;
use crate::frame::{Frame, Symbol};
use crate::guard::guarded;

/// Kind of the record of a public symbol (`S_PUB32`).
const PUBLIC: u16 = 0x110E;

/// A requested address.
struct Place {
    at: Offset,
    /// Position in the request.
    index: usize,
    /// The module whose contribution contains the address, and the start of the contribution, or the end of the last
    /// procedure before the address.
    contribution: Option<(usize, Offset)>,
}

/// A frame whose name is not known yet if it is inlined.
enum Named {
    Text(String),
    Inlined(IdIndex),
    /// A function inlined from another module, whose number there is not known yet.
    Imported(Import),
}

/// Frames at an address, innermost first, and its offset from the start of the outermost function.
type NamedFrames = (Vec<(Named, Position)>, u32);

/// Returns the GUID and age by which images refer to a PDB.
///
/// # Errors
///
/// Returns the reason if the file is not a PDB of this format, or is damaged.
pub(crate) fn id(bytes: &FileBytes) -> Result<(Guid, u32), String> {
    guarded(|| id_of(&mut PDB::open(Bytes::new(bytes).0)?))
}

/// Resolves offsets from the image's base, in their order; `None` where the file names no function.
///
/// # Errors
///
/// Returns the reason if the file is not a PDB of this format, or is damaged.
pub(crate) fn resolve(bytes: &FileBytes, offsets: &[u32]) -> Result<Vec<Option<Symbol>>, String> {
    guarded(|| symbols(bytes, offsets))
}

fn id_of(pdb: &mut PDB<'static, Bytes>) -> pdb2::Result<(Guid, u32)> {
    let information = pdb.pdb_information()?;
    let guid = Guid::from_u128(information.guid.as_u128());
    // Tools that add to a PDB count only the age of the information stream.
    let age = pdb.debug_information().ok().and_then(|debug| debug.age()).filter(|age| *age != 0);
    Ok((guid, age.unwrap_or(information.age)))
}

fn symbols(bytes: &FileBytes, offsets: &[u32]) -> pdb2::Result<Vec<Option<Symbol>>> {
    let (source, places_of_streams) = Bytes::new(bytes);
    let mut pdb = PDB::open(source)?;
    let streams = Streams::new(bytes, places_of_streams);
    let debug = pdb.debug_information()?;
    let map = pdb.address_map()?;
    let place = |(index, offset): (usize, &u32)| {
        let at = Rva(*offset).to_internal_offset(&map)?;
        Some(Place { at: (at.section, at.offset), index, contribution: None })
    };
    let mut places: Vec<Place> = offsets.iter().enumerate().filter_map(place).collect();
    places.sort_by_key(|place| place.at);
    let is_contributed = contributions(&debug, &mut places);
    let mut found: Vec<Option<NamedFrames>> = offsets.iter().map(|_| None).collect();
    find_in_modules(&mut pdb, &debug, &mut places, &mut found)?;
    resolve_imports(&mut pdb, &debug, &mut found);
    let is_unknown = |place: &&Place| matches!(found.get(place.index), Some(None));
    let rest: Vec<&Place> = places.iter().filter(is_unknown).collect();
    for (index, name, offset) in publics(&mut pdb, &streams, &rest, is_contributed) {
        if let Some(found) = found.get_mut(index) {
            *found = Some((vec![(Named::Text(name), Position::default())], offset));
        }
    }
    Ok(with_names(&mut pdb, &streams, found))
}

/// Sets the frames at the places that procedures contain, and the ends of procedures before the other places.
fn find_in_modules(
    pdb: &mut PDB<'static, Bytes>,
    debug: &DebugInformation<'_>,
    places: &mut [Place],
    found: &mut [Option<NamedFrames>],
) -> pdb2::Result<()> {
    let mut by_module: BTreeMap<usize, Vec<&mut Place>> = BTreeMap::new();
    for place in places {
        if let Some((module, _)) = place.contribution {
            by_module.entry(module).or_default().push(place);
        }
    }
    let strings = pdb.string_table().ok();
    let mut modules = debug.modules()?.enumerate();
    while let Ok(Some((index, module))) = modules.next() {
        let Some(places) = by_module.remove(&index) else { continue };
        let Ok(Some(info)) = pdb.module_info(&module) else { continue };
        let mut code = ModuleCode::read(&info, strings.as_ref());
        for place in places {
            if let Some(found) = found.get_mut(place.index) {
                *found = code.find(place.at).map(|frames| named(frames, &code));
            }
            if let (Some((_, start)), Some(end)) = (&mut place.contribution, code.end_before(place.at)) {
                *start = end.max(*start);
            }
        }
    }
    Ok(())
}

/// Replaces functions of other modules by their numbers.
fn resolve_imports(
    pdb: &mut PDB<'static, Bytes>,
    debug: &DebugInformation<'_>,
    found: &mut [Option<NamedFrames>],
) {
    let frames = found.iter().flatten().flat_map(|(frames, _)| frames);
    let imports = frames.filter_map(|(name, _)| match name {
        Named::Imported(import) => Some(import),
        Named::Text(_) | Named::Inlined(_) => None,
    });
    let ids = imports::resolve(pdb, debug, imports);
    for (name, _) in found.iter_mut().flatten().flat_map(|(frames, _)| frames) {
        if let Named::Imported(import) = name
            && let Some(id) = ids.get(import)
        {
            *name = Named::Inlined(*id);
        }
    }
}

/// Returns the symbols of frames, of which inlined ones have numbers instead of names.
fn with_names(
    pdb: &mut PDB<'static, Bytes>,
    streams: &Streams<'_>,
    found: Vec<Option<NamedFrames>>,
) -> Vec<Option<Symbol>> {
    let frames = found.iter().flatten().flat_map(|(frames, _)| frames);
    let inlined: BTreeSet<u32> = frames.filter_map(|(name, _)| name.id()).collect();
    let inlined = match inlined.is_empty() {
        true => HashMap::new(),
        false => inlinees::names(pdb, streams, &inlined),
    };
    let frame = |(name, position): (Named, Position)| {
        let function = match name {
            Named::Text(name) => demangle(&name).into_owned(),
            Named::Inlined(IdIndex(id)) => inlined.get(&id)?.clone(),
            Named::Imported(_) => return None,
        };
        Some(Frame { function, file: position.file, line: position.line })
    };
    let symbol = |(frames, offset): NamedFrames| Symbol {
        frames: frames.into_iter().filter_map(frame).collect(),
        offset: Some(offset.into()),
    };
    found.into_iter().map(|frames| frames.map(symbol)).collect()
}

impl Named {
    fn id(&self) -> Option<u32> {
        match self {
            Named::Inlined(IdIndex(id)) => Some(*id),
            Named::Text(_) | Named::Imported(_) => None,
        }
    }
}

fn named(frames: Frames, code: &ModuleCode<'_, '_>) -> NamedFrames {
    let Frames { inlined, procedure, position, offset } = frames;
    let name = |id| code.import(id).map_or(Named::Inlined(id), Named::Imported);
    let inlined = inlined.into_iter().map(|(id, position)| (name(id), position));
    (inlined.chain([(Named::Text(procedure), position)]).collect(), offset)
}

/// Sets the contributions that contain the sorted places. Returns whether the file has contributions at all.
fn contributions(debug: &DebugInformation<'_>, places: &mut [Place]) -> bool {
    let mut has_any = false;
    let Ok(mut contributions) = debug.section_contributions() else { return false };
    while let Ok(Some(contribution)) = contributions.next() {
        has_any = true;
        let start = (contribution.offset.section, contribution.offset.offset);
        let end = (start.0, start.1.saturating_add(contribution.size));
        let first = places.partition_point(|place| place.at < start);
        for place in places.iter_mut().skip(first).take_while(|place| place.at < end) {
            place.contribution.get_or_insert((contribution.module, start));
        }
    }
    has_any
}

/// Returns the names of the public symbols at or before the sorted places, in the same contributions, by the places'
/// positions in the request; with the places' offsets from the symbols.
fn publics(
    pdb: &mut PDB<'static, Bytes>,
    streams: &Streams<'_>,
    places: &[&Place],
    is_contributed: bool,
) -> Vec<(usize, String, u32)> {
    let mut names = Vec::new();
    if places.is_empty() {
        return names;
    }
    // The last symbol before each place, and after the place before that.
    let mut last: Vec<Option<(Offset, Vec<u8>)>> = places.iter().map(|_| None).collect();
    let mut symbols = streams.global_symbols(pdb);
    while let Some((kind, fields)) = symbols.next() {
        // Flags, offset, section.
        let at = || Some((fields.u16_at(8)?, fields.u32_at(4)?));
        let Some(at) = at().filter(|_| kind == PUBLIC) else { continue };
        let next = places.partition_point(|place| place.at < at);
        let name = fields.get(10..).unwrap_or_default();
        match last.get_mut(next) {
            Some(Some((other, of_other))) if *other < at => {
                *other = at;
                of_other.clear();
                of_other.extend_from_slice(name);
            }
            Some(last @ None) => *last = Some((at, name.to_vec())),
            _ => {}
        }
    }
    let mut current: Option<(Offset, Vec<u8>)> = None;
    for (place, last) in places.iter().zip(last) {
        current = last.or(current);
        let Some((at, name)) = current.as_ref().filter(|(at, _)| at.0 == place.at.0) else { continue };
        let is_in = place.contribution.map_or(!is_contributed, |(_, start)| *at >= start);
        if is_in {
            names.push((place.index, text(name), place.at.1.saturating_sub(at.1)));
        }
    }
    names
}
