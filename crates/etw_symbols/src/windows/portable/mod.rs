//! Lines of IL code from portable PDB files.
//!
//! Only the points of the requested methods are read.
//!
//! Source: ECMA-335, partition II, section 24 (streams, tables and heaps); "Portable PDB v1.0: Format Specification" in
//! dotnet/runtime (`#Pdb`, Document, MethodDebugInformation, sequence points).

mod heap;
mod points;
mod tables;

use std::collections::{BTreeMap, HashMap};

use etw_event::Guid;

use self::points::Points;
use self::tables::Tables;
use crate::frame::{IlPlace, SourceLine};

/// First bytes of metadata.
const SIGNATURE: &[u8] = b"BSJB";
/// Table of a token: methods.
const METHODS: u32 = 0x06;
/// Maximum length in bytes of all points that are read, as a multiple of the file's length: methods have their own, so
/// that only a forged file has them read more than once.
const MAX_READ: usize = 16;

/// Returns whether a file is a portable PDB, or other metadata of this format.
pub(crate) fn is_portable(bytes: &[u8]) -> bool {
    bytes.starts_with(SIGNATURE)
}

/// Returns the GUID by which images refer to the file.
///
/// # Errors
///
/// Returns the reason if the file is not a portable PDB, or is damaged.
pub(crate) fn id(bytes: &[u8]) -> Result<Guid, String> {
    tables::id(bytes)
}

/// Returns the lines of places in IL code, in their order; `None` where the file has no line.
///
/// # Errors
///
/// Returns the reason if the file is not a portable PDB, or is damaged.
pub(crate) fn lines(bytes: &[u8], places: &[IlPlace]) -> Result<Vec<Option<SourceLine>>, String> {
    let tables = Tables::read(bytes)?;
    let mut by_method: BTreeMap<u32, Vec<(usize, u32)>> = BTreeMap::new();
    for (index, place) in places.iter().enumerate() {
        if place.token >> 24 == METHODS {
            by_method.entry(place.token & 0xFF_FFFF).or_default().push((index, place.offset));
        }
    }
    let mut found = vec![None; places.len()];
    let mut names: HashMap<u32, Option<String>> = HashMap::new();
    let mut left = bytes.len().saturating_mul(MAX_READ);
    for (method, mut wanted) in by_method {
        let Some((document, blob)) = tables.points(method) else { continue };
        let Some(rest) = left.checked_sub(blob.len()) else { break };
        left = rest;
        wanted.sort_unstable_by_key(|(_, offset)| *offset);
        let mut points = Points::new(document, blob);
        let mut last = None;
        let mut next = points.next();
        for (index, offset) in wanted {
            // Compilers hide their own code, which belongs to the line before.
            while let Some(point) = next.take_if(|point| point.offset <= offset) {
                last = point.line.map(|line| (point.document, line)).or(last);
                next = points.next();
            }
            let Some((document, line)) = last else { continue };
            let name = names.entry(document).or_insert_with(|| tables.document_name(document));
            if let Some(found) = found.get_mut(index) {
                *found = name.clone().map(|file| SourceLine { file, line });
            }
        }
    }
    Ok(found)
}
