//! Schemas from files of all kinds, detected by content: manifests, compiled manifests, MOF, TMF, PDB.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use etw_event::Guid;
use etw_schema::wpp::WppReader;
use etw_schema::{Provider, manifest, mof, wevt};

/// Maximum file size; larger files are reported and skipped. Symbol files are the largest in practice.
const MAX_FILE_BYTES: u64 = 4 << 30;
/// Number of bytes at the start of a file used to detect its kind.
const HEAD_BYTES: usize = 64 << 10;

/// The kind of a schema source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SchemaFileKind {
    /// An instrumentation manifest.
    Manifest,
    /// A PE file, `.res` file or bare resource with compiled manifests.
    CompiledManifest,
    /// A MOF text.
    Mof,
    /// A TMF text.
    Tmf,
    /// A symbol file with trace formats.
    Pdb,
}

impl SchemaFileKind {
    /// Returns the kind's name for display.
    pub const fn name(self) -> &'static str {
        match self {
            SchemaFileKind::Manifest => "manifest",
            SchemaFileKind::CompiledManifest => "compiled manifest",
            SchemaFileKind::Mof => "MOF",
            SchemaFileKind::Tmf => "TMF",
            SchemaFileKind::Pdb => "PDB",
        }
    }

    /// Returns the kind of a file that starts with `head`, or `None` if it is not a schema source.
    pub fn of(head: &[u8]) -> Option<SchemaFileKind> {
        const RES: [u8; 12] = [0, 0, 0, 0, 0x20, 0, 0, 0, 0xFF, 0xFF, 0, 0];
        if head.starts_with(b"MZ") || head.starts_with(b"CRIM") || head.starts_with(&RES) {
            return Some(SchemaFileKind::CompiledManifest);
        }
        if head.starts_with(b"Microsoft C/C++ ") {
            return Some(SchemaFileKind::Pdb);
        }
        // The byte order mark decides the encoding; the default is UTF-8.
        let (text, ..) = encoding_rs::UTF_8.decode(head);
        let text = text.trim_start();
        let has = |part: &str| text.contains(part);
        if text.starts_with('<') {
            Some(SchemaFileKind::Manifest)
        } else if has("#typev ") || has("#type ") || (text.starts_with("// PDB:") && has("// SRC=")) {
            Some(SchemaFileKind::Tmf)
        } else if has("class ") && (has("EventType") || has("EventTrace") || has("Guid(")) && has("[") {
            Some(SchemaFileKind::Mof)
        } else {
            None
        }
    }
}

/// The result of reading one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaFile {
    /// The file.
    pub path: PathBuf,
    /// The kind, or `None` if it was not detected.
    pub kind: Option<SchemaFileKind>,
    /// Its providers: name, GUID, number of events. Trace formats are shared among files and not included.
    pub providers: Vec<(String, Guid, usize)>,
    /// What could not be read, with positions.
    pub problems: Vec<String>,
}

/// The result of reading several files and directories.
#[derive(Debug, Default)]
pub struct SchemaFiles {
    /// All providers. A GUID may occur several times; the last one is the newest.
    pub providers: Vec<Provider>,
    /// The files, in the order in which they were read; for directories only the schema sources.
    pub files: Vec<SchemaFile>,
}

impl SchemaFiles {
    /// Reads files, and directories recursively. Problems are reported in [`SchemaFiles::files`] and do not stop the
    /// rest.
    pub fn read<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> SchemaFiles {
        let mut all = SchemaFiles::default();
        let mut formats = WppReader::default();
        for path in paths {
            let path = path.as_ref();
            if path.is_dir() {
                all.directory(path, &mut formats);
            } else if let Some(file) = all.file(path, true, &mut formats) {
                all.files.push(file);
            }
        }
        for problem in formats.problems() {
            let path = PathBuf::from(&*problem.origin);
            let text = format!("line {}: {}", problem.line, problem.what);
            match all.files.iter_mut().find(|file| file.path == path) {
                Some(file) => file.problems.push(text),
                None => all.report(&path, None, text),
            }
        }
        all.providers.extend(formats.finish());
        all
    }

    fn report(&mut self, path: &Path, kind: Option<SchemaFileKind>, problem: String) {
        let (path, problems) = (path.to_owned(), vec![problem]);
        self.files.push(SchemaFile { path, kind, providers: Vec::new(), problems });
    }

    /// Does not follow links to directories, since they may form a cycle.
    fn directory(&mut self, top: &Path, formats: &mut WppReader) {
        let mut open = vec![top.to_owned()];
        while let Some(path) = open.pop() {
            let listed = std::fs::read_dir(&path).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
            let mut entries = match listed {
                Ok(entries) => entries,
                Err(error) => {
                    self.report(&path, None, format!("cannot be listed: {error}"));
                    continue;
                }
            };
            entries.sort_by_key(|entry| entry.file_name());
            let mut below = Vec::new();
            for entry in entries {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => below.push(entry.path()),
                    Ok(kind) if kind.is_file() || entry.path().is_file() => {
                        if let Some(file) = self.file(&entry.path(), false, formats) {
                            self.files.push(file);
                        }
                    }
                    _ => {}
                }
            }
            open.extend(below.into_iter().rev());
        }
    }

    /// Reads one file. If it is not a schema source, returns nothing for a file found in a directory, and a problem
    /// for a requested file.
    fn file(&mut self, path: &Path, asked_for: bool, formats: &mut WppReader) -> Option<SchemaFile> {
        let mut file =
            SchemaFile { path: path.to_owned(), kind: None, providers: Vec::new(), problems: Vec::new() };
        let (kind, bytes) = match read_if_schema(path) {
            Ok(Some(found)) => found,
            Ok(None) => {
                file.problems
                    .push("not a schema source (manifest, PE file, resource, MOF, TMF or PDB)".to_owned());
                return asked_for.then_some(file);
            }
            Err(error) => {
                file.problems.push(format!("cannot be read: {error}"));
                return Some(file);
            }
        };
        file.kind = Some(kind);
        let origin = path.to_string_lossy();
        let providers = match kind {
            SchemaFileKind::Manifest => {
                let read = manifest::read(&bytes, &origin);
                // A directory may contain XML of any kind.
                let (head, ..) = encoding_rs::UTF_8.decode(&bytes[..bytes.len().min(HEAD_BYTES)]);
                let is_other = !head.contains("instrumentationManifest");
                if !asked_for && read.providers.is_empty() && is_other {
                    return None;
                }
                file.problems.extend(read.problems.iter().map(ToString::to_string));
                if read.providers.is_empty() && file.problems.is_empty() {
                    file.problems.push("the manifest has no event provider".to_owned());
                }
                read.providers
            }
            SchemaFileKind::CompiledManifest => {
                let satellite = satellite(path);
                match wevt::read(&bytes, satellite.as_deref(), &origin) {
                    Ok(read) => {
                        file.problems.extend(read.problems.iter().map(ToString::to_string));
                        read.providers
                    }
                    Err(_) if !asked_for => return None,
                    Err(error) => {
                        file.problems.push(error.to_string());
                        Vec::new()
                    }
                }
            }
            SchemaFileKind::Mof => {
                let read = mof::parse_bytes(&bytes, &origin);
                file.problems.extend(read.problems.iter().map(ToString::to_string));
                read.providers
            }
            SchemaFileKind::Tmf => {
                formats.add_tmf(&bytes, &origin);
                Vec::new()
            }
            SchemaFileKind::Pdb => {
                match formats.add_pdb(&bytes, &origin) {
                    Ok(0) if !asked_for => return None,
                    Ok(0) => file.problems.push("the PDB has no trace formats".to_owned()),
                    Ok(_) => {}
                    Err(error) => file.problems.push(error.to_string()),
                }
                Vec::new()
            }
        };
        let listed =
            |provider: &Provider| (provider.info.name.to_string(), provider.info.guid, provider.events.len());
        file.providers = providers.iter().map(listed).collect();
        self.providers.extend(providers);
        Some(file)
    }
}

/// Returns the kind and content of a file, if it is a schema source.
fn read_if_schema(path: &Path) -> io::Result<Option<(SchemaFileKind, Vec<u8>)>> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut bytes)?;
    let Some(kind) = SchemaFileKind::of(&bytes) else { return Ok(None) };
    if len > MAX_FILE_BYTES {
        return Err(io::Error::other(format!("its {len} bytes are more than {MAX_FILE_BYTES}")));
    }
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(Some((kind, bytes)))
}

/// Returns the content of the file with the texts of a PE file: `name.mui` beside it, or in `en-US`.
fn satellite(path: &Path) -> Option<Vec<u8>> {
    let name = format!("{}.mui", path.file_name()?.to_str()?);
    let places = [path.with_file_name("en-US").join(&name), path.with_file_name(&name)];
    places.into_iter().find_map(|place| std::fs::read(place).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_by_content() {
        let check = |head: &[u8], kind| assert_eq!(SchemaFileKind::of(head), kind);
        check(b"\xEF\xBB\xBF <?xml version", Some(SchemaFileKind::Manifest));
        check(b"\xFF\xFE<\0?\0", Some(SchemaFileKind::Manifest));
        check(b"MZ\x90", Some(SchemaFileKind::CompiledManifest));
        check(b"// PDB: x\n1234 Dir // SRC=a.c MJ= MN=\n#typev a_c1 10 \"%0\"", Some(SchemaFileKind::Tmf));
        check(b"[Guid(\"{x}\")] class A : EventTrace {};", Some(SchemaFileKind::Mof));
        check(b"Microsoft C/C++ MSF 7.00\r\n\x1aDS", Some(SchemaFileKind::Pdb));
        check(b"just text", None);
        check(b"", None);
    }

    #[test]
    fn one_bad_file_does_not_stop_the_rest() {
        let dir = std::env::temp_dir().join(format!("schema_files_{}", std::process::id()));
        std::fs::create_dir_all(dir.join("below")).unwrap();
        std::fs::write(dir.join("a.man"), "<instrumentationManifest><broken").unwrap();
        std::fs::write(dir.join("a.xml"), "<other/>").unwrap();
        std::fs::write(dir.join("b.txt"), "nothing").unwrap();
        let mof = "[Guid(\"{9e814aad-3204-11d2-9a82-006008a86939}\"), EventVersion(1)] class X : EventTrace {};\n\
                   [EventType(1), EventTypeName(\"Go\")] class X_Go : X { [WmiDataId(1)] uint32 A; };";
        std::fs::write(dir.join("below").join("c.mof"), mof).unwrap();
        let read = SchemaFiles::read([&dir, &dir.join("b.txt"), &dir.join("missing")]);
        std::fs::remove_dir_all(&dir).unwrap();
        let names: Vec<_> =
            read.files.iter().map(|file| file.path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a.man", "c.mof", "b.txt", "missing"]);
        assert!(!read.files[0].problems.is_empty());
        assert_eq!(read.providers.len(), 1, "{:?}", read.files);
        assert!(read.files[2].problems[0].starts_with("not a schema source"));
        assert!(read.files[3].problems[0].starts_with("cannot be read"));
    }
}
