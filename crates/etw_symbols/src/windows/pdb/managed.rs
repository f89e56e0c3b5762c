//! Lines of IL code from PDB files of Windows, in which procedures have tokens.

use std::collections::HashMap;

use pdb2::{FallibleIterator, LineProgram, ManagedProcedureSymbol, PDB, SymbolData};

use super::source::Bytes;
use crate::file_bytes::FileBytes;
use crate::frame::{IlPlace, SourceLine};
use crate::guard::guarded;

/// Numbers instead of lines, for code that debuggers hide.
const HIDDEN: [u32; 2] = [0xFE_EFEE, 0xF0_0F00];

/// Returns the lines of places in IL code, in their order; `None` where the file has no line.
///
/// # Errors
///
/// Returns the reason if the file is not a PDB of this format, or is damaged.
pub(crate) fn lines(bytes: &FileBytes, places: &[IlPlace]) -> Result<Vec<Option<SourceLine>>, String> {
    guarded(|| find(bytes, places))
}

fn find(bytes: &FileBytes, places: &[IlPlace]) -> pdb2::Result<Vec<Option<SourceLine>>> {
    let mut pdb = PDB::open(Bytes::new(bytes).0)?;
    let debug = pdb.debug_information()?;
    let strings = pdb.string_table().ok();
    let mut by_token: HashMap<u32, Vec<(usize, u32)>> = HashMap::new();
    for (index, place) in places.iter().enumerate() {
        by_token.entry(place.token).or_default().push((index, place.offset));
    }
    let mut found = vec![None; places.len()];
    let mut modules = debug.modules()?;
    while !by_token.is_empty()
        && let Ok(Some(module)) = modules.next()
    {
        let Ok(Some(info)) = pdb.module_info(&module) else { continue };
        let (Ok(program), Ok(mut symbols)) = (info.line_program(), info.symbols()) else { continue };
        while let Ok(Some(symbol)) = symbols.next() {
            let Ok(SymbolData::ManagedProcedure(procedure)) = symbol.parse() else { continue };
            let Some(wanted) = by_token.remove(&procedure.token.0) else { continue };
            let lines = lines_of(&program, &procedure);
            for (index, offset) in wanted {
                let after = lines.partition_point(|(start, ..)| *start <= offset);
                let line = after.checked_sub(1).and_then(|line| lines.get(line));
                let Some(found) = found.get_mut(index) else { continue };
                *found = line.and_then(|(_, file, line)| {
                    let info = program.get_file_info(*file).ok()?;
                    let file = info.name.to_string_lossy(strings.as_ref()?).ok()?.into_owned();
                    Some(SourceLine { file, line: *line })
                });
            }
        }
    }
    Ok(found)
}

/// Returns the lines of a method by offset in its IL code.
fn lines_of(
    program: &LineProgram<'_>,
    procedure: &ManagedProcedureSymbol<'_>,
) -> Vec<(u32, pdb2::FileIndex, u32)> {
    let mut lines = Vec::new();
    let mut iter = program.lines_for_symbol(procedure.offset);
    while let Ok(Some(line)) = iter.next() {
        let offset = line.offset.offset.checked_sub(procedure.offset.offset);
        if let Some(offset) = offset.filter(|offset| *offset < procedure.len)
            && !HIDDEN.contains(&line.line_start)
        {
            lines.push((offset, line.file_index, line.line_start));
        }
    }
    lines.sort_by_key(|(offset, ..)| *offset);
    lines
}
