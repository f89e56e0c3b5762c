//! ELF files: build ids, load addresses and symbol tables.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use etw_sys::vdso;
use gimli::{BaseAddresses, CieOrFde, DebugFrame, EhFrame, Reader, RunTimeEndian, UnwindSection};
use object::{
    CompressionFormat, Object, ObjectKind, ObjectSection, ObjectSegment, ObjectSymbol, SectionKind,
    SymbolKind,
};

use crate::SymbolError;
use crate::file_bytes::{FileBytes, max_expanded};

/// Maximum size in bytes of a decompressed section.
const MAX_SECTION_LEN_BYTES: u64 = 4 << 30;
/// Smallest page size; files are loaded at multiples of it.
const PAGE_LEN_BYTES: u64 = 4096;

/// A mapped file, or a copy of the vDSO.
pub(crate) struct MappedFile {
    pub(crate) path: PathBuf,
    bytes: FileBytes,
}

impl MappedFile {
    /// Maps a regular file.
    pub(crate) fn open(path: &Path) -> Result<MappedFile, SymbolError> {
        let io = |source| SymbolError::Io { path: path.to_owned(), source };
        let bytes = FileBytes::map(&etw_sys::open_regular(path).map_err(io)?).map_err(io)?;
        Ok(MappedFile { path: path.to_owned(), bytes })
    }

    /// Copies the vDSO of this process, which is that of every process.
    pub(crate) fn vdso() -> Result<MappedFile, SymbolError> {
        let path = PathBuf::from(vdso::NAME);
        match vdso::own() {
            Ok(bytes) => Ok(MappedFile { path, bytes: bytes.into() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(SymbolError::NoFile { name: vdso::NAME.to_owned() })
            }
            Err(source) => Err(SymbolError::Io { path, source }),
        }
    }

    /// Maps the open file that a file was unpacked into.
    pub(crate) fn from_unpacked(path: &Path, unpacked: &File) -> io::Result<MappedFile> {
        Ok(MappedFile { path: path.to_owned(), bytes: FileBytes::map(unpacked)? })
    }

    pub(crate) fn bytes(&self) -> &FileBytes {
        &self.bytes
    }

    /// Parses the file as ELF.
    pub(crate) fn elf(&self) -> Result<Elf<'_>, SymbolError> {
        let not_elf = |reason: String| SymbolError::NotElf { path: self.path.clone(), reason };
        let file = object::File::parse(&**self.bytes()).map_err(|error| not_elf(error.to_string()))?;
        match file.format() {
            object::BinaryFormat::Elf => Ok(Elf { file }),
            other => Err(not_elf(format!("its format is {other:?}"))),
        }
    }
}

/// Returns the build id of an ELF file, if it is one and has one.
pub(crate) fn build_id_of(bytes: &[u8]) -> Option<&[u8]> {
    let file = object::File::parse(bytes).ok()?;
    (file.format() == object::BinaryFormat::Elf).then(|| file.build_id().ok().flatten())?
}

/// An ELF file.
pub(crate) struct Elf<'d> {
    file: object::File<'d>,
}

impl<'d> Elf<'d> {
    /// Returns the build id; empty if there is none.
    pub(crate) fn build_id(&self) -> &'d [u8] {
        self.file.build_id().ok().flatten().unwrap_or_default()
    }

    /// Returns the link address of the first byte that is mapped.
    pub(crate) fn base(&self) -> u64 {
        let lowest = self.file.segments().map(|segment| segment.address()).min().unwrap_or(0);
        lowest & !(PAGE_LEN_BYTES - 1)
    }

    /// Returns the name of the file with the debug information (`.gnu_debuglink`).
    pub(crate) fn debug_link(&self) -> Option<&'d [u8]> {
        self.file.gnu_debuglink().ok().flatten().map(|(name, _)| name)
    }

    /// Returns name and build id of the file with the parts that several debug files share (`.gnu_debugaltlink`).
    pub(crate) fn shared_link(&self) -> Option<(&'d [u8], &'d [u8])> {
        self.file.gnu_debugaltlink().ok().flatten()
    }

    pub(crate) fn is_big_endian(&self) -> bool {
        !self.file.is_little_endian()
    }

    pub(crate) fn has_dwarf(&self) -> bool {
        self.section_is_filled(".debug_info")
    }

    fn section_is_filled(&self, name: &str) -> bool {
        // Debug files also list the program's sections, without contents.
        self.file
            .section_by_name(name)
            .is_some_and(|section| section.kind() != SectionKind::UninitializedData && section.size() > 0)
    }

    /// Returns the decompressed bytes of a section; empty if there is none.
    pub(crate) fn section(&self, name: &str) -> Cow<'d, [u8]> {
        let Some(section) = self.file.section_by_name(name) else { return Cow::Borrowed(&[]) };
        let Ok(data) = section.compressed_data() else { return Cow::Borrowed(&[]) };
        let max = MAX_SECTION_LEN_BYTES.min(max_expanded(data.data.len()));
        if data.format != CompressionFormat::None && data.uncompressed_size > max {
            return Cow::Borrowed(&[]);
        }
        data.decompress().unwrap_or_default()
    }

    /// Returns the link addresses of functions by what unwinds their frames, which is there without symbols too.
    pub(crate) fn frame_ranges(&self) -> FrameRanges {
        let endian = if self.is_big_endian() { RunTimeEndian::Big } else { RunTimeEndian::Little };
        let address = |name: &str| self.file.section_by_name(name).map_or(0, |section| section.address());
        let bases = BaseAddresses::default()
            .set_eh_frame(address(".eh_frame"))
            .set_text(address(".text"))
            .set_got(address(".got"));
        let pointer = if self.file.is_64() { 8 } else { 4 };
        let (of_exceptions, of_debugging) = (self.section(".eh_frame"), self.section(".debug_frame"));
        let mut ranges = FrameRanges::default();
        let mut of_exceptions = EhFrame::new(&of_exceptions, endian);
        of_exceptions.set_address_size(pointer);
        ranges.add(&of_exceptions, &bases);
        let mut of_debugging = DebugFrame::new(&of_debugging, endian);
        of_debugging.set_address_size(pointer);
        ranges.add(&of_debugging, &bases);
        ranges.0.sort_unstable();
        ranges
    }

    /// Adds the functions of the symbol tables.
    fn add_functions(&self, to: &mut Functions<'d>) {
        let is_relocatable = self.file.kind() == ObjectKind::Relocatable;
        for symbol in self.file.symbols().chain(self.file.dynamic_symbols()) {
            let is_function =
                matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown | SymbolKind::Label);
            if is_relocatable || !is_function || symbol.is_undefined() || symbol.address() == 0 {
                continue;
            }
            // Mapping symbols of ARM and RISC-V, which mark the kind of the bytes that follow.
            let Ok(name) = symbol.name() else { continue };
            if name.is_empty() || name.starts_with('$') {
                continue;
            }
            let section = symbol.section_index().and_then(|index| self.file.section_by_index(index).ok());
            let is_code = section.as_ref().is_some_and(|section| section.kind() == SectionKind::Text);
            if symbol.kind() != SymbolKind::Text && !is_code {
                continue;
            }
            let section_end = section.map_or(0, |section| section.address().saturating_add(section.size()));
            let len_bytes = match symbol.size() {
                0 => section_end.saturating_sub(symbol.address()),
                len_bytes => len_bytes,
            };
            to.functions.push(Function { address: symbol.address(), len_bytes, name });
        }
    }
}

/// Starts and sizes of functions, sorted.
#[derive(Debug, Default)]
pub(crate) struct FrameRanges(Vec<(u64, u64)>);

impl FrameRanges {
    /// Adds the functions of a section, up to damage.
    fn add<S: UnwindSection<R>, R: Reader<Offset = usize>>(&mut self, section: &S, bases: &BaseAddresses) {
        let mut entries = section.entries(bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(function) = entry else { continue };
            if let Ok(function) = function.parse(S::cie_from_offset) {
                self.0.push((function.initial_address(), function.len()));
            }
        }
    }

    /// Returns the start of the function at an address.
    pub(crate) fn find(&self, address: u64) -> Option<u64> {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        let (start, len_bytes) = *self.0.get(after.checked_sub(1)?)?;
        (address - start < len_bytes).then_some(start)
    }
}

/// Functions sorted by address. A function without a size extends to the end of its section.
#[derive(Debug, Default)]
pub(crate) struct Functions<'d> {
    functions: Vec<Function<'d>>,
}

#[derive(Debug, Clone, Copy)]
struct Function<'d> {
    address: u64,
    len_bytes: u64,
    name: &'d str,
}

impl<'d> Functions<'d> {
    /// Collects the functions from the symbol tables of related files.
    pub(crate) fn new(elves: &[Elf<'d>]) -> Functions<'d> {
        let mut functions = Functions::default();
        elves.iter().for_each(|elf| elf.add_functions(&mut functions));
        functions.sort();
        functions
    }

    /// Sorts the functions. Of several names of one address, the one with the fewest leading underscores is kept:
    /// `read`, not `__read`.
    fn sort(&mut self) {
        let underscores = |name: &str| name.len() - name.trim_start_matches('_').len();
        self.functions
            .sort_by_key(|function| (function.address, underscores(function.name), function.len_bytes));
        self.functions.dedup_by_key(|function| function.address);
    }

    /// Returns the function at an address, and the offset from its start.
    pub(crate) fn find(&self, address: u64) -> Option<(&'d str, u64)> {
        let after = self.functions.partition_point(|function| function.address <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        let offset = address - function.address;
        (offset < function.len_bytes).then_some((function.name, offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_address() {
        let function = |address, len_bytes, name| Function { address, len_bytes, name };
        let mut functions = Functions {
            functions: vec![
                function(0x300, 0x1000, "assembly"),
                function(0x100, 0x40, "__read"),
                function(0x100, 0x40, "read"),
                function(0x200, 0x10, "write"),
            ],
        };
        functions.sort();
        let check = |address, expected| assert_eq!(functions.find(address), expected, "{address:#x}");
        check(0xFF, None);
        check(0x100, Some(("read", 0)));
        check(0x13F, Some(("read", 0x3F)));
        check(0x140, None);
        check(0x20F, Some(("write", 0xF)));
        check(0x12FF, Some(("assembly", 0xFFF)));
        check(0x1300, None);
    }

    #[test]
    fn what_is_no_elf_file_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = MappedFile::open(file.path()).unwrap().elf().map(|_| ()).unwrap_err();
        assert!(matches!(error, SymbolError::NotElf { .. }), "{error}");
        let error = MappedFile::open(Path::new("/")).map(|_| ()).unwrap_err();
        assert!(matches!(error, SymbolError::Io { .. }), "{error}");
    }
}
