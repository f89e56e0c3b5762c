//! Resolving addresses of an image to names.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etw_sys::vdso;

use crate::debuginfod::Debuginfod;
use crate::elf::{Elf, Functions, MappedFile};
use crate::error::BuildIdText;
use crate::frame::{Frame, IlPlace, SourceLine, Symbol};
use crate::stores::fetch::Servers;
use crate::stores::{SymbolPath, SymbolPathError};
use crate::windows::{PdbId, WindowsImage};
use crate::{SymbolError, debug_files, demangle, dwarf, managed_files, windows_files};

/// Length in bytes of build ids in traces. Shorter ids are padded with zeros.
const TRACE_ID_LEN_BYTES: usize = 20;

/// An image as described by a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Module<'a> {
    /// Path of its file.
    pub path: &'a str,
    /// The leading bytes of its build id as far as the trace has them, padded with zeros to 20 bytes; empty if the
    /// image has none.
    pub build_id: &'a [u8],
    /// The identity of an image of Windows, which has no build id.
    pub windows: Option<&'a WindowsImage>,
    /// Whether it is an assembly of .NET whose IL code is wanted, not its machine code; `windows` has its PDB, on Linux too.
    pub is_managed: bool,
}

impl<'a> Module<'a> {
    /// Returns the PDB of an assembly whose IL code is wanted.
    pub(crate) fn managed_pdb(&self) -> Option<&'a PdbId> {
        self.windows?.pdb.as_ref().filter(|_| self.is_managed)
    }
}

/// Resolves addresses by the files on this machine: symbol tables, and DWARF in the files themselves or in separate
/// files; for images of Windows, PDB and PE files.
///
/// Only [`Symbolizer::fetch`] uses the network.
#[derive(Debug, Clone)]
pub struct Symbolizer {
    debug_directories: Vec<PathBuf>,
    pub(crate) symbol_path: SymbolPath,
    pub(crate) debuginfod: Debuginfod,
    /// What is known of servers in this run; clones share it.
    pub(crate) servers: Arc<Servers>,
}

impl Default for Symbolizer {
    fn default() -> Symbolizer {
        Symbolizer::new()
    }
}

impl Symbolizer {
    /// Creates a symbolizer that looks for separate debug files in `/usr/lib/debug`, and for files of Windows nowhere but
    /// at the images' paths.
    pub fn new() -> Symbolizer {
        Symbolizer {
            debug_directories: vec![PathBuf::from("/usr/lib/debug")],
            symbol_path: SymbolPath::default(),
            debuginfod: Debuginfod::default(),
            servers: Arc::default(),
        }
    }

    /// Creates a symbolizer with the symbol path of `_NT_SYMBOL_PATH` and the servers of `DEBUGINFOD_URLS`.
    ///
    /// # Errors
    ///
    /// Fails if the symbol path has elements that are not supported.
    pub fn from_environment() -> Result<Symbolizer, SymbolPathError> {
        let path = std::env::var("_NT_SYMBOL_PATH").unwrap_or_default();
        let urls = std::env::var("DEBUGINFOD_URLS").unwrap_or_default();
        let debuginfod = Debuginfod::new(&urls, Debuginfod::default_cache());
        Ok(Symbolizer { symbol_path: path.parse()?, debuginfod, ..Symbolizer::new() })
    }

    /// Adds a directory for separate debug files, which is searched first.
    pub fn debug_directory(mut self, directory: impl Into<PathBuf>) -> Symbolizer {
        self.debug_directories.insert(0, directory.into());
        self
    }

    /// Adds a symbol path, which is searched first. Its directories are also searched for `.build-id`.
    pub fn search(mut self, path: SymbolPath) -> Symbolizer {
        self.debug_directories.splice(0..0, path.directories().map(Path::to_owned));
        self.symbol_path = path.then(std::mem::take(&mut self.symbol_path));
        self
    }

    /// Sets the servers and the cache for separate debug files.
    pub fn debuginfod(mut self, debuginfod: Debuginfod) -> Symbolizer {
        self.debuginfod = debuginfod;
        self
    }

    /// Returns the symbol path.
    pub fn path(&self) -> &SymbolPath {
        &self.symbol_path
    }

    /// Returns whether [`Symbolizer::fetch`] has a server to get files from.
    pub fn has_server(&self) -> bool {
        self.symbol_path.has_server() || !self.debuginfod.is_empty()
    }

    /// Resolves offsets from the image's base, in their order; `None` where no function is known.
    ///
    /// A return address is the address after the call. To resolve the caller, pass the offset of the byte before it. Files
    /// are mapped while they are read, so they must not be changed in place meanwhile; package managers replace them.
    ///
    /// # Errors
    ///
    /// Fails if there is no readable file of this build: neither the image nor one with its debug information.
    pub fn resolve(&self, module: &Module<'_>, offsets: &[u64]) -> Result<Vec<Option<Symbol>>, SymbolError> {
        match module.windows {
            _ if module.is_managed => Ok(vec![None; offsets.len()]),
            Some(image) => windows_files::resolve(&self.symbol_path, module.path, image, offsets),
            None => self.resolve_elf(module, offsets),
        }
    }

    /// Resolves places in the IL code of an assembly to lines, in their order; `None` where the PDB has no line.
    ///
    /// # Errors
    ///
    /// Fails if the module has no PDB, if that is not on this machine, or if it is damaged.
    pub fn lines(
        &self,
        module: &Module<'_>,
        places: &[IlPlace],
    ) -> Result<Vec<Option<SourceLine>>, SymbolError> {
        let id = module.managed_pdb().ok_or(SymbolError::NoPdbId)?;
        managed_files::lines(&self.symbol_path, module.path, id, places)
    }

    /// Returns the file that names or lines are read from.
    ///
    /// # Errors
    ///
    /// Fails as [`Symbolizer::resolve`] and [`Symbolizer::lines`] do.
    pub fn locate(&self, module: &Module<'_>) -> Result<PathBuf, SymbolError> {
        if module.is_managed {
            let id = module.managed_pdb().ok_or(SymbolError::NoPdbId)?;
            let found = managed_files::find(&self.symbol_path, module.path, id);
            return found.map(|pdb| pdb.path).ok_or_else(|| managed_files::missing(&self.symbol_path, id));
        }
        let file = match module.windows {
            Some(image) => windows_files::find(&self.symbol_path, module.path, image)?.into_file(),
            None => self.files(module)?.pop(),
        };
        let missing = || SymbolError::NoFile { name: module.path.to_owned() };
        file.map(|file| file.path).ok_or_else(missing)
    }

    fn resolve_elf(&self, module: &Module<'_>, offsets: &[u64]) -> Result<Vec<Option<Symbol>>, SymbolError> {
        let files = self.files(module)?;
        let elves = files.iter().map(MappedFile::elf).collect::<Result<Vec<_>, _>>()?;
        let base = elves.first().map_or(0, Elf::base);
        let functions = Functions::new(&elves);
        let with_dwarf = elves.iter().zip(&files).rfind(|(elf, _)| elf.has_dwarf());
        let shared =
            with_dwarf.and_then(|(elf, file)| debug_files::shared(&self.debug_directories, file, elf));
        let shared = shared.as_ref().and_then(|file| file.elf().ok());
        let sections = with_dwarf.map(|(elf, _)| dwarf::Sections::new(elf, shared.as_ref()));
        let context = sections.as_ref().and_then(dwarf::Sections::context);
        // Only the program has it, not the file with its debug information.
        let ranges = OnceCell::new();
        let symbol = |offset: &u64| {
            let address = base.checked_add(*offset)?;
            let mut frames = context.as_ref().map(|context| context.find(address)).unwrap_or_default();
            // Symbol tables have full names, which DWARF with little detail lacks.
            let found = functions.find(address);
            match (found.map(|(name, _)| demangle(name)), frames.last_mut()) {
                (Some(name), Some(function)) => function.function = name.into_owned(),
                (Some(name), None) => {
                    frames.push(Frame { function: name.into_owned(), file: None, line: None });
                }
                (None, Some(_)) => {}
                (None, None) => {
                    let ranges =
                        ranges.get_or_init(|| elves.first().map(Elf::frame_ranges).unwrap_or_default());
                    let start = ranges.find(address)?;
                    return Some(Symbol::from_place(start.checked_sub(base)?, address - start));
                }
            }
            Some(Symbol { frames, offset: found.map(|(_, offset)| offset) })
        };
        Ok(offsets.iter().map(symbol).collect())
    }

    /// Opens the image's file and the file with its debug information; fails if both are missing.
    fn files(&self, module: &Module<'_>) -> Result<Vec<MappedFile>, SymbolError> {
        let program = match open_program(module) {
            Ok(program) => program,
            // A complete build id is enough to find the debug file of a program that is not on this machine.
            Err(error) if module.build_id.len() == TRACE_ID_LEN_BYTES => {
                let debug = debug_files::by_build_id(&self.debug_directories, module.build_id)
                    .or_else(|| self.debuginfod.find(module.build_id));
                return debug.map(|debug| vec![debug]).ok_or(error);
            }
            Err(error) => return Err(error),
        };
        let elf = program.elf()?;
        let debug = debug_files::by_build_id(&self.debug_directories, elf.build_id())
            .or_else(|| debug_files::by_link(&self.debug_directories, &program.path, &elf))
            .or_else(|| self.debuginfod.find(elf.build_id()));
        Ok([program].into_iter().chain(debug).collect())
    }
}

/// Opens the image's file if it is the one that was traced.
fn open_program(module: &Module<'_>) -> Result<MappedFile, SymbolError> {
    let file = match module.path {
        vdso::NAME => MappedFile::vdso()?,
        path if path.starts_with('/') => MappedFile::open(Path::new(path))?,
        // Paths of Windows and modules of the kernel.
        path => return Err(SymbolError::NoFile { name: path.to_owned() }),
    };
    let found = file.elf()?.build_id().to_vec();
    let mut filled = found.clone();
    filled.resize(TRACE_ID_LEN_BYTES, 0);
    let is_it = match module.build_id {
        [] => found.is_empty(),
        wanted => !found.is_empty() && filled.starts_with(wanted),
    };
    match is_it {
        true => Ok(file),
        false => Err(SymbolError::OtherBuildId {
            path: file.path,
            found: BuildIdText(found),
            wanted: BuildIdText(module.build_id.to_vec()),
        }),
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::process::Command;

    const SOURCE: &str = r#"
        static volatile int sink;
        static inline __attribute__((always_inline)) void inlined(void) { sink++; }
        __attribute__((noinline)) int outer(int x) { inlined(); return x + sink; }
        int main(void) { return outer(1); }
    "#;

    /// Compiles the source with these options of the compiler; `None` where there is none.
    fn compile(directory: &Path, options: &[&str]) -> Option<PathBuf> {
        let source = directory.join("program.c");
        std::fs::write(&source, SOURCE).unwrap();
        let program = directory.join("program");
        let mut command = Command::new("cc");
        command.args(["-O1", "-o"]).arg(&program).arg(&source).args(options);
        let Ok(status) = command.status() else {
            etw_testkit::skip!("no C compiler");
            return None;
        };
        assert!(status.success());
        Some(program)
    }

    /// Runs one of the binutils.
    fn tool(name: &str, args: &[&str]) -> String {
        let output = Command::new(name).args(args).output().unwrap();
        assert!(output.status.success(), "{name} {args:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the offset of a function from the base of the image.
    fn offset(program: &Path, function: &str) -> u64 {
        let symbols = tool("nm", &[program.to_str().unwrap()]);
        let line = symbols.lines().find(|line| line.ends_with(&format!(" {function}"))).unwrap();
        let address = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
        // The base of a program at a fixed address.
        address - if address >= 0x400000 { 0x400000 } else { 0 }
    }

    fn build_id(program: &Path) -> Vec<u8> {
        MappedFile::open(program).unwrap().elf().unwrap().build_id().to_vec()
    }

    fn names(symbol: &Option<Symbol>) -> Vec<&str> {
        symbol.iter().flat_map(|symbol| &symbol.frames).map(|frame| frame.function.as_str()).collect()
    }

    #[test]
    fn functions_inlined_ones_and_lines() {
        let directory = tempfile::tempdir().unwrap();
        for position in ["-pie", "-no-pie"] {
            let options = ["-g", "-Wl,--build-id", position];
            let Some(program) = compile(directory.path(), &options) else { return };
            let id = build_id(&program);
            let module = Module { path: program.to_str().unwrap(), build_id: &id, ..Module::default() };
            let outer = offset(&program, "outer");
            let offsets: Vec<u64> = (outer..outer + 16).chain([offset(&program, "main"), 1 << 40]).collect();
            let found = Symbolizer::new().resolve(&module, &offsets).unwrap();
            assert!(found[..16].iter().flatten().all(|symbol| symbol.function() == "outer"));
            let inlined = found.iter().find(|symbol| names(symbol) == ["inlined", "outer"]).unwrap();
            let frames = &inlined.as_ref().unwrap().frames;
            assert_eq!((frames[0].line, frames[1].line), (Some(3), Some(4)));
            assert!(frames[0].file.as_deref().unwrap().ends_with("program.c"));
            assert_eq!(names(&found[16]), ["main"]);
            assert_eq!(found[17], None);
        }
    }

    #[test]
    fn debug_files_are_found_by_build_id_and_by_link() {
        let directory = tempfile::tempdir().unwrap();
        let options = ["-g", "-gz=zlib", "-Wl,--build-id"];
        let Some(program) = compile(directory.path(), &options) else { return };
        let (outer, id) = (offset(&program, "outer"), build_id(&program));
        let path = program.to_str().unwrap().to_owned();
        let debug = directory.path().join("program.debug");
        let debug = debug.to_str().unwrap();
        tool("objcopy", &["--only-keep-debug", &path, debug]);
        tool("strip", &[&path]);
        let module = Module { path: &path, build_id: &id, ..Module::default() };
        let symbolizer = Symbolizer::new().debug_directory(directory.path());
        let function = |symbolizer: &Symbolizer, module: &Module<'_>| {
            let found = symbolizer.resolve(module, &[outer]).unwrap();
            found[0].as_ref().map(|symbol| symbol.function().to_owned())
        };
        assert_eq!(function(&symbolizer, &module), Some(format!("{outer:#x}")), "without its debug file");
        let inside = symbolizer.resolve(&module, &[outer + 1]).unwrap().remove(0).unwrap();
        assert_eq!(
            (inside.function(), inside.offset, inside.is_named()),
            (&*format!("{outer:#x}"), Some(1), false)
        );
        tool("objcopy", &[&format!("--add-gnu-debuglink={debug}"), &path]);
        assert_eq!(function(&symbolizer, &module).as_deref(), Some("outer"), "by its link");
        let hex: String = id[1..].iter().map(|byte| format!("{byte:02x}")).collect();
        let place = directory.path().join(format!(".build-id/{:02x}", id[0]));
        std::fs::create_dir_all(&place).unwrap();
        std::fs::rename(debug, place.join(format!("{hex}.debug"))).unwrap();
        assert_eq!(function(&symbolizer, &module).as_deref(), Some("outer"), "by its id");
        // The program may be on another machine.
        std::fs::remove_file(&program).unwrap();
        assert_eq!(function(&symbolizer, &module).as_deref(), Some("outer"), "without the program");
    }

    #[test]
    fn another_file_of_the_same_name_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let Some(program) = compile(directory.path(), &["-Wl,--build-id"]) else { return };
        let id = build_id(&program);
        let path = program.to_str().unwrap();
        let resolve = |build_id: &[u8]| {
            Symbolizer::new().resolve(&Module { path, build_id, ..Module::default() }, &[0])
        };
        assert!(resolve(&id).is_ok() && resolve(&id[..4]).is_ok());
        let mut other = id.clone();
        other[0] ^= 1;
        for wanted in [&other[..], &other[..4], &[]] {
            let error = resolve(wanted).unwrap_err();
            assert!(matches!(error, SymbolError::OtherBuildId { .. }), "{error}");
        }
        let Some(program) = compile(directory.path(), &["-Wl,--build-id=none"]) else { return };
        assert!(build_id(&program).is_empty());
        assert!(resolve(&[]).is_ok() && resolve(&id).is_err());
        let module = Module { path: "e1000.ko", ..Module::default() };
        let error = Symbolizer::new().resolve(&module, &[0]).unwrap_err();
        assert_eq!(error.to_string(), "e1000.ko is not a file on this machine");
    }

    #[test]
    fn the_code_that_the_kernel_gives_every_process() {
        let Ok(vdso) = MappedFile::vdso() else {
            etw_testkit::skip!("no vdso");
            return;
        };
        let elf = vdso.elf().unwrap();
        let module = Module { path: vdso::NAME, build_id: elf.build_id(), ..Module::default() };
        let offsets: Vec<u64> = (0..0x4000).collect();
        let found = Symbolizer::new().resolve(&module, &offsets).unwrap();
        assert!(found.iter().flatten().any(|symbol| symbol.function().contains("clock_gettime")));
    }
}
