//! Procedures, inlined functions and lines of one module (object file) of a PDB.

use std::collections::HashMap;
use std::ops::Range;

use pdb2::{
    CrossModuleImports, FallibleIterator, FileIndex, IdIndex, InlineSiteSymbol, Inlinee, LineProgram,
    ModuleInfo, PdbInternalSectionOffset, RawString, StringTable, SymbolData,
};

use super::imports::Import;

/// Maximum number of code ranges of inlined functions in one procedure; further ones are not resolved.
const MAX_RANGES: usize = 1 << 18;
/// Maximum number of functions inlined into each other at one address.
const MAX_INLINED: usize = 256;

/// Section, counted from 1, and offset in it.
pub(super) type Offset = (u16, u32);

/// The frames at an address.
pub(super) struct Frames {
    /// Inlined functions, innermost first.
    pub(super) inlined: Vec<(IdIndex, Position)>,
    /// The procedure's name as the compiler wrote it.
    pub(super) procedure: String,
    pub(super) position: Position,
    /// Offset of the address from the procedure's start.
    pub(super) offset: u32,
}

/// A position in source text.
#[derive(Debug, Clone, Default)]
pub(super) struct Position {
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
}

/// The code of a module, sorted by address.
pub(super) struct ModuleCode<'m, 's> {
    procedures: Vec<Procedure<'m>>,
    sites: Vec<Site<'m>>,
    inlinees: HashMap<IdIndex, Inlinee<'m>>,
    program: Option<LineProgram<'m>>,
    strings: Option<&'m StringTable<'s>>,
    imports: CrossModuleImports<'m>,
    last: Option<Details>,
}

/// The lines and inlined code of the last requested procedure.
struct Details {
    procedure: usize,
    lines: Vec<Line>,
    ranges: Vec<InlineRange>,
}

struct Procedure<'m> {
    start: Offset,
    len: u32,
    name: RawString<'m>,
    sites: Range<usize>,
}

/// A place where a function was inlined.
struct Site<'m> {
    /// The site that this one was inlined into.
    outer: Option<usize>,
    depth: usize,
    symbol: InlineSiteSymbol<'m>,
}

/// A line, from its start to that of the next one.
struct Line {
    start: u32,
    file: FileIndex,
    number: u32,
}

struct InlineRange {
    code: Range<u32>,
    site: usize,
    file: FileIndex,
    line: u32,
}

/// What the records up to the next end of a scope belong to.
#[derive(Clone, Copy, Default)]
struct Open {
    procedure: Option<usize>,
    site: Option<usize>,
}

impl<'m, 's> ModuleCode<'m, 's> {
    /// Reads a module. After damage, what was read before it counts.
    pub(super) fn read(info: &'m ModuleInfo<'_>, strings: Option<&'m StringTable<'s>>) -> ModuleCode<'m, 's> {
        let mut inlinees = HashMap::new();
        if let Ok(mut iter) = info.inlinees() {
            while let Ok(Some(inlinee)) = iter.next() {
                inlinees.insert(inlinee.index(), inlinee);
            }
        }
        let (procedures, sites) = procedures(info);
        let (program, imports) = (info.line_program().ok(), info.imports().unwrap_or_default());
        ModuleCode { procedures, sites, inlinees, program, strings, imports, last: None }
    }

    /// Returns the function of another module that a number stands for; `None` if it is not of another module.
    pub(super) fn import(&self, id: IdIndex) -> Option<Import> {
        Import::from_id(id, &self.imports, self.strings)
    }

    /// Returns the frames at an address, or `None` if no procedure contains it.
    pub(super) fn find(&mut self, at: Offset) -> Option<Frames> {
        let after = self.procedures.partition_point(|procedure| procedure.start <= at);
        let index = after.checked_sub(1)?;
        let procedure = self.procedures.get(index)?;
        let (section, start) = procedure.start;
        if section != at.0 || at.1 - start >= procedure.len {
            return None;
        }
        let name = procedure.name.to_string().into_owned();
        let details = match self.last.take() {
            Some(last) if last.procedure == index => last,
            _ => Details {
                procedure: index,
                lines: self.lines(procedure),
                ranges: self.inline_ranges(procedure),
            },
        };
        let after = details.lines.partition_point(|line| line.start <= at.1);
        let line = after.checked_sub(1).and_then(|line| details.lines.get(line));
        let position = line.map(|line| self.position(line.file, line.number)).unwrap_or_default();
        let inlined = self.inlined(&details.ranges, at.1);
        let frames = Frames { inlined, procedure: name, position, offset: at.1 - start };
        self.last = Some(details);
        Some(frames)
    }

    /// Returns the end of the last procedure before an address; no name before it is that of the address.
    pub(super) fn end_before(&self, at: Offset) -> Option<Offset> {
        let after = self.procedures.partition_point(|procedure| procedure.start <= at);
        let procedure = self.procedures.get(after.checked_sub(1)?)?;
        let (section, start) = procedure.start;
        Some((section, start.saturating_add(procedure.len)))
    }

    /// Returns the functions inlined at an address of a procedure, innermost first.
    fn inlined(&self, ranges: &[InlineRange], offset: u32) -> Vec<(IdIndex, Position)> {
        let hits = ranges.iter().filter(|range| range.code.contains(&offset));
        let hits: HashMap<usize, &InlineRange> = hits.map(|range| (range.site, range)).collect();
        let depth = |site: &usize| self.sites.get(*site).map_or(0, |site| site.depth);
        // Two sites of one depth cannot both contain an address.
        let mut next = hits.keys().copied().max_by_key(|site| (depth(site), *site));
        let mut inlined = Vec::new();
        while let Some(site) = next
            && inlined.len() < MAX_INLINED
        {
            let Some(of) = self.sites.get(site) else { break };
            let position = hits.get(&site).map(|range| self.position(range.file, range.line));
            inlined.push((of.symbol.inlinee, position.unwrap_or_default()));
            next = of.outer;
        }
        inlined
    }

    /// Returns the lines of a procedure, sorted by address.
    fn lines(&self, procedure: &Procedure<'_>) -> Vec<Line> {
        let (section, offset) = procedure.start;
        let mut lines = Vec::new();
        let Some(program) = &self.program else { return lines };
        let mut iter = program.lines_for_symbol(PdbInternalSectionOffset { section, offset });
        while let Ok(Some(line)) = iter.next() {
            // Several procedures of assembly may share their lines.
            if line.offset.offset >= offset {
                lines.push(Line {
                    start: line.offset.offset,
                    file: line.file_index,
                    number: line.line_start,
                });
            }
        }
        lines.sort_by_key(|line| line.start);
        lines
    }

    fn inline_ranges(&self, procedure: &Procedure<'_>) -> Vec<InlineRange> {
        let (section, offset) = procedure.start;
        let mut ranges = Vec::new();
        for index in procedure.sites.clone() {
            let Some(site) = self.sites.get(index) else { break };
            let Some(inlinee) = self.inlinees.get(&site.symbol.inlinee) else { continue };
            let mut lines = inlinee.lines(PdbInternalSectionOffset { section, offset }, &site.symbol);
            while let Ok(Some(line)) = lines.next() {
                if ranges.len() >= MAX_RANGES {
                    return ranges;
                }
                let start = line.offset.offset;
                let code = start..start.saturating_add(line.length.unwrap_or(0));
                ranges.push(InlineRange { code, site: index, file: line.file_index, line: line.line_start });
            }
        }
        ranges
    }

    fn position(&self, file: FileIndex, line: u32) -> Position {
        let info = self.program.as_ref().and_then(|program| program.get_file_info(file).ok());
        let name = info.and_then(|info| info.name.to_string_lossy(self.strings?).ok());
        Position { file: name.map(|name| name.into_owned()), line: (line != 0).then_some(line) }
    }
}

/// Returns procedures sorted by address, and the sites of inlined functions, of which each comes after its outer one.
fn procedures<'m>(info: &'m ModuleInfo<'_>) -> (Vec<Procedure<'m>>, Vec<Site<'m>>) {
    let (mut procedures, mut sites): (Vec<Procedure<'m>>, Vec<Site<'m>>) = (Vec::new(), Vec::new());
    let Ok(mut symbols) = info.symbols() else { return (procedures, sites) };
    let mut scopes: Vec<Open> = Vec::new();
    let mut open = Open::default();
    while let Ok(Some(symbol)) = symbols.next() {
        if symbol.ends_scope() {
            let outer = scopes.pop().unwrap_or_default();
            if outer.procedure != open.procedure {
                close(&mut procedures, open, sites.len());
            }
            open = outer;
            continue;
        }
        if !symbol.starts_scope() {
            continue;
        }
        scopes.push(open);
        let procedure = match symbol.parse() {
            Ok(SymbolData::Procedure(of)) => Some((of.offset, of.len, of.name)),
            Ok(SymbolData::Thunk(of)) => Some((of.offset, u32::from(of.len), of.name)),
            // Cold code apart from its procedure, which comes before it.
            Ok(SymbolData::SeparatedCode(of)) => {
                let parent = (of.parent_offset.section, of.parent_offset.offset);
                let parent = procedures.last().filter(|procedure| procedure.start == parent);
                parent.map(|procedure| (of.offset, of.len, procedure.name))
            }
            Ok(SymbolData::InlineSite(symbol)) => {
                let depth = open.site.and_then(|site| sites.get(site)).map_or(1, |site| site.depth + 1);
                sites.push(Site { outer: open.site, depth, symbol });
                open.site = Some(sites.len() - 1);
                None
            }
            _ => None,
        };
        if let Some((offset, len, name)) = procedure {
            open = Open { procedure: Some(procedures.len()), site: None };
            let start = (offset.section, offset.offset);
            procedures.push(Procedure { start, len, name, sites: sites.len()..sites.len() });
        }
    }
    scopes.push(open);
    scopes.into_iter().for_each(|open| close(&mut procedures, open, sites.len()));
    procedures.retain(|procedure| procedure.len > 0);
    procedures.sort_by_key(|procedure| procedure.start);
    procedures.dedup_by_key(|procedure| procedure.start);
    (procedures, sites)
}

fn close(procedures: &mut [Procedure<'_>], open: Open, sites: usize) {
    let procedure = open.procedure.and_then(|index| procedures.get_mut(index));
    if let Some(procedure) = procedure.filter(|procedure| procedure.sites.is_empty()) {
        procedure.sites.end = sites;
    }
}
