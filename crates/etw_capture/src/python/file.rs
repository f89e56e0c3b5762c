//! Interpreters in files: programs and libraries that contain one.

use std::fs::File;
use std::ops::Range;

use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{Endianness, ReadCache, ReadRef};

use super::Interpreter;

/// Symbols that every interpreter exports: its state, its version, and the function that runs frames.
const STATE: &[u8] = b"_PyRuntime";
const VERSION: &[u8] = b"Py_Version";
const RUN: &[u8] = b"_PyEval_EvalFrameDefault";
/// Maximum number of symbols, and size of their names in bytes.
const MAX_SYMBOLS: usize = 1 << 20;
const MAX_NAME_BYTES: u64 = 64 << 20;
/// Start of the table of offsets (`_Py_DebugOffsets`).
const COOKIE: &[u8; 8] = b"xdebugpy";
/// Number of its words that are used.
const OFFSETS: usize = 44;

/// An interpreter in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonFile {
    /// As for a file that is loaded at its link addresses.
    interpreter: Interpreter,
    /// Link addresses of the function that runs frames.
    run: Range<u64>,
}

impl PythonFile {
    /// Returns the interpreter in a file; `None` if it has none, or one of another version.
    pub fn from_file(file: File) -> Option<PythonFile> {
        PythonFile::read(&ReadCache::new(file))
    }

    fn read<'d>(file: impl ReadRef<'d>) -> Option<PythonFile> {
        let header = FileHeader64::<Endianness>::parse(file).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, file).ok().filter(|_| header.e_shnum(endian) != 0)?;
        // A file may be crafted to keep its readers busy.
        let is_small =
            |section: &object::elf::SectionHeader64<Endianness>| section.sh_size(endian) <= MAX_NAME_BYTES;
        let (_, dynamic) = sections.section_by_name(endian, b".dynsym").filter(|(_, it)| is_small(it))?;
        let (_, names) = sections.section_by_name(endian, b".dynstr").filter(|(_, it)| is_small(it))?;
        let names = names.data(endian, file).ok()?;
        let symbols = dynamic.data_as_array::<object::elf::Sym64<Endianness>, _>(endian, file).ok()?;
        let ([mut state, mut version], mut run) = ([None; 2], None);
        for symbol in symbols.iter().take(MAX_SYMBOLS) {
            let name = names.get(symbol.st_name(endian) as usize..).unwrap_or_default();
            let is = |wanted: &[u8]| name.strip_prefix(wanted).is_some_and(|rest| rest.first() == Some(&0));
            let (at, size) = (symbol.st_value(endian), symbol.st_size(endian));
            if at == 0 {
                continue;
            } else if is(STATE) {
                state = Some(at);
            } else if is(VERSION) {
                version = Some(at);
            } else if is(RUN) {
                run = Some(at..at.checked_add(size)?);
            }
        }
        let segments = header.program_headers(endian, file).ok()?;
        let word = |address: u64| {
            let data = segments
                .iter()
                .find_map(|segment| segment.data_range(endian, file, address, 8).ok().flatten())?;
            Some(u64::from_le_bytes(*data.first_chunk()?))
        };
        let (state, number) = (state?, word(version?)?);
        let interpreter = match (number >> 24 & 0xFF, number >> 16 & 0xFF) {
            (3, 11) => version_3_11(state),
            (3, 12) => version_3_12(state),
            (3, 13) => from_own_table(state, |index| word(state.checked_add(8 * index as u64)?))?,
            _ => return None,
        };
        Some(PythonFile { interpreter, run: run? })
    }

    /// Returns the interpreter of a process that has loaded the file this far from its link addresses.
    pub(crate) fn interpreter(&self, moved: u64) -> Interpreter {
        Interpreter { first: self.interpreter.first.wrapping_add(moved), ..self.interpreter }
    }

    /// Returns the addresses of the function that runs frames.
    pub(crate) fn run(&self, moved: u64) -> Range<u64> {
        self.run.start.wrapping_add(moved)..self.run.end.wrapping_add(moved)
    }
}

/// What 3.11 and 3.12 have in common, and later versions for the most part.
fn common(state: u64) -> Interpreter {
    Interpreter {
        first: state.wrapping_add(40),
        next_interpreter: 0,
        first_thread: 0,
        next_thread: 8,
        thread_id: 0,
        frame: 56,
        frame_through: None,
        code: 0,
        caller: 8,
        instruction: 56,
        mark: 70,
        mark_of_entry: 3,
        entry_runs_code: false,
        name: 128,
        file: 112,
        lines: 136,
        first_line: 68,
        first_instruction: 0,
        ascii: 40,
        characters: 56,
    }
}

fn version_3_11(state: u64) -> Interpreter {
    Interpreter {
        first_thread: 16,
        thread_id: 160,
        frame_through: Some(8),
        code: 32,
        caller: 48,
        mark: 68,
        mark_of_entry: 1,
        entry_runs_code: true,
        first_line: 72,
        first_instruction: 184,
        ascii: 48,
        characters: 72,
        ..common(state)
    }
}

fn version_3_12(state: u64) -> Interpreter {
    Interpreter {
        first_thread: 72,
        thread_id: 144,
        frame_through: Some(0),
        first_instruction: 192,
        ..common(state)
    }
}

/// Returns an interpreter by the offsets in its own table, whose words `word` returns; `None` if it is one without a global
/// lock, whose objects have another head.
fn from_own_table(state: u64, word: impl Fn(usize) -> Option<u64>) -> Option<Interpreter> {
    let mut table = [0; OFFSETS];
    for (index, entry) in table.iter_mut().enumerate() {
        *entry = word(index)?;
    }
    let [cookie, _, is_free_threaded, ..] = table;
    if cookie != u64::from_le_bytes(*COOKIE) || is_free_threaded != 0 {
        return None;
    }
    let offset = |index: usize| u32::try_from(table[index]).ok();
    Some(Interpreter {
        first: state.wrapping_add(table[5]),
        next_interpreter: offset(8)?,
        first_thread: offset(9)?,
        next_thread: offset(21)?,
        frame: offset(23)?,
        thread_id: offset(25)?,
        caller: offset(29)?,
        code: offset(30)?,
        instruction: offset(31)?,
        mark: offset(33)?,
        file: offset(35)?,
        name: offset(37)?,
        lines: offset(38)?,
        first_line: offset(39)?,
        first_instruction: offset(43)?,
        ..common(state)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_an_interpreter_says_where_it_keeps_what() {
        let cookie = u64::from_le_bytes(*COOKIE);
        let table = |index: usize| match index {
            0 => Some(cookie),
            2 => Some(0),
            index => Some(100 + index as u64),
        };
        let found = from_own_table(0x1000, table).unwrap();
        assert_eq!((found.first, found.thread_id, found.mark), (0x1000 + 105, 125, 133));
        assert_eq!((found.code, found.first_instruction), (130, 143));
        // Objects without a global lock have another head.
        let free = |index: usize| if index == 2 { Some(1) } else { table(index) };
        assert_eq!(from_own_table(0x1000, free), None);
        assert_eq!(from_own_table(0x1000, |index| Some(index as u64)), None);
        assert_eq!(from_own_table(0x1000, |index| table(index).filter(|_| index < 43)), None);
    }
}
