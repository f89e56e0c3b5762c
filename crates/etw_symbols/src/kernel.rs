//! The kernel's symbols.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use object::NativeEndian;
use object::elf::{ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::{Note, NoteIterator};

use crate::SymbolError;

/// Maximum size of a function in bytes. Code farther from the last symbol of the kernel or of a module has no symbols,
/// such as BPF programs that were unloaded.
const MAX_LEN_BYTES: u64 = 1 << 20;

/// Functions of the kernel and its modules with their addresses, as listed by `/proc/kallsyms` or a `System.map`.
#[derive(Debug, Clone, Default)]
pub struct KernelSymbols {
    /// Sorted by address.
    entries: Vec<Entry>,
    names: String,
    base: u64,
    build_id: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    address: u64,
    /// Offset in `names` of `name` or `name\tmodule`.
    start: u32,
    len: u16,
}

/// A function of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelSymbol<'a> {
    /// Name.
    pub name: &'a str,
    /// The module, without brackets; `None` for the kernel itself.
    pub module: Option<&'a str>,
    /// Its address.
    pub address: u64,
    /// Start of the next function.
    pub end: u64,
}

impl KernelSymbols {
    /// Reads the symbols of the running kernel from `/proc/kallsyms`.
    ///
    /// # Errors
    ///
    /// Returns [`SymbolError::Io`] if the list cannot be read, and [`SymbolError::Hidden`] if it hides the addresses
    /// from this user.
    pub fn of_this_machine() -> Result<KernelSymbols, SymbolError> {
        let mut symbols = KernelSymbols::read(Path::new("/proc/kallsyms"))?;
        symbols.build_id =
            std::fs::read("/sys/kernel/notes").map(|notes| build_id_of_notes(&notes)).unwrap_or_default();
        Ok(symbols)
    }

    /// Reads symbols from a list in the format of `/proc/kallsyms` and `System.map`: address, type, name, module.
    ///
    /// # Errors
    ///
    /// Returns [`SymbolError::Io`] if the file cannot be read, and [`SymbolError::Hidden`] if all addresses in it are
    /// zero.
    pub fn read(path: &Path) -> Result<KernelSymbols, SymbolError> {
        let io = |source| SymbolError::Io { path: path.to_owned(), source };
        let symbols = KernelSymbols::parse(BufReader::with_capacity(64 << 10, File::open(path).map_err(io)?));
        let symbols = symbols.map_err(io)?;
        match symbols.entries.last() {
            Some(Entry { address: 1.., .. }) => Ok(symbols),
            _ => Err(SymbolError::Hidden { path: path.to_owned() }),
        }
    }

    fn parse(mut lines: impl BufRead) -> std::io::Result<KernelSymbols> {
        let mut symbols = KernelSymbols::default();
        let mut line = String::new();
        loop {
            line.clear();
            if lines.read_line(&mut line)? == 0 {
                break;
            }
            symbols.add(&line);
        }
        // Of several names of one address, the first one is kept.
        symbols.entries.sort_by_key(|entry| entry.address);
        symbols.entries.dedup_by_key(|entry| entry.address);
        Ok(symbols)
    }

    fn add(&mut self, line: &str) {
        let mut fields = line.split_ascii_whitespace();
        let (Some(address), Some(kind), Some(name)) = (fields.next(), fields.next(), fields.next()) else {
            return;
        };
        let Ok(address) = u64::from_str_radix(address, 16) else { return };
        if !matches!(kind, "t" | "T" | "w" | "W") {
            return;
        }
        if name == "_text" {
            self.base = address;
        }
        // Labels at the start of a function.
        if matches!(name, "_text" | "_stext" | "startup_64") {
            return;
        }
        let module = fields.next().map(|module| module.trim_matches(['[', ']']));
        let start = self.names.len();
        self.names.push_str(name);
        if let Some(module) = module {
            self.names.push('\t');
            self.names.push_str(module);
        }
        let (Ok(start), Ok(len)) = (u32::try_from(start), u16::try_from(self.names.len() - start)) else {
            self.names.truncate(start);
            return;
        };
        self.entries.push(Entry { address, start, len });
    }

    /// Returns the address of the kernel's first byte, `_text`; 0 if it is not listed. With address space randomization
    /// it differs from boot to boot.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Returns the build id of the running kernel; empty for a list from a file.
    pub fn build_id(&self) -> &[u8] {
        &self.build_id
    }

    /// Returns the number of functions.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the function at an address.
    pub fn find(&self, address: u64) -> Option<KernelSymbol<'_>> {
        let after = self.entries.partition_point(|entry| entry.address <= address);
        let entry = self.entries.get(after.checked_sub(1)?)?;
        let most = entry.address.saturating_add(MAX_LEN_BYTES);
        let end = self.entries.get(after).map_or(most, |next| next.address.min(most));
        if address >= end {
            return None;
        }
        let text = self.names.get(entry.start as usize..)?.get(..entry.len.into())?;
        let (name, module) =
            text.split_once('\t').map_or((text, None), |(name, module)| (name, Some(module)));
        Some(KernelSymbol { name, module, address: entry.address, end })
    }
}

/// Returns the build id among ELF notes of this machine's byte order; empty if there is none.
fn build_id_of_notes(notes: &[u8]) -> Vec<u8> {
    let Ok(mut notes) = NoteIterator::<FileHeader64<NativeEndian>>::new(NativeEndian, 4, notes) else {
        return Vec::new();
    };
    let is_build_id = |note: &Note<'_, FileHeader64<NativeEndian>>| {
        note.name() == ELF_NOTE_GNU && note.n_type(NativeEndian) == NT_GNU_BUILD_ID
    };
    let found = notes.find_map(|note| note.ok().filter(is_build_id));
    found.map(|note| note.desc().to_vec()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 T do_work
ffffffff81000100 T do_work_alias
ffffffff81000180 d data_is_no_function
ffffffff81000200 t __x64_sys_read
garbage
ffffffffc0000000 t probe\t[e1000]
";

    #[test]
    fn addresses_are_found() {
        let symbols = KernelSymbols::parse(LIST.as_bytes()).unwrap();
        assert_eq!((symbols.base(), symbols.len()), (0xFFFF_FFFF_8100_0000, 3));
        let check = |address: u64, expected: Option<(&str, Option<&str>)>| {
            let found = symbols.find(address).map(|found| (found.name, found.module));
            assert_eq!(found, expected, "{address:#x}");
        };
        check(0xFFFF_FFFF_8100_0000, None);
        check(0xFFFF_FFFF_8100_0100, Some(("do_work", None)));
        check(0xFFFF_FFFF_8100_01FF, Some(("do_work", None)));
        check(0xFFFF_FFFF_8100_0200, Some(("__x64_sys_read", None)));
        check(0xFFFF_FFFF_8110_01FF, Some(("__x64_sys_read", None)));
        check(0xFFFF_FFFF_8110_0200, None);
        check(0xFFFF_FFFF_C000_0010, Some(("probe", Some("e1000"))));
        check(u64::MAX, None);
    }

    #[test]
    fn the_build_id_is_among_other_notes() {
        let note = |kind: u32, name: &[u8], value: &[u8]| {
            let filled =
                |bytes: &[u8]| [bytes, &[0; 3][..bytes.len().next_multiple_of(4) - bytes.len()]].concat();
            let words = [name.len() as u32, value.len() as u32, kind].map(u32::to_ne_bytes).concat();
            [words, filled(name), filled(value)].concat()
        };
        let notes = [note(1, b"Xen\0", b"ab"), note(3, b"GNU\0", b"twenty bytes of an id")].concat();
        assert_eq!(build_id_of_notes(&notes), b"twenty bytes of an id");
        (0..notes.len()).for_each(|len| drop(build_id_of_notes(&notes[..len])));
        assert!(build_id_of_notes(&note(3, b"Xen\0", b"ab")).is_empty());
    }

    #[test]
    fn hidden_addresses_are_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "0000000000000000 T _text\n0000000000000000 T do_work\n").unwrap();
        assert!(matches!(KernelSymbols::read(file.path()), Err(SymbolError::Hidden { .. })));
    }
}
