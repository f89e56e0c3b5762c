//! Reading one file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use etw_event::Guid;
use etw_schema::wevt::{self, WevtError};
use etw_schema::wpp::WppReader;
use etw_schema::{Provider, manifest, mof};

use super::registry::{Publisher, is_software_hive};
use super::satellites::Satellites;
use super::tree::Item;
use super::{MAX_FILE_BYTES, SchemaFile, SchemaFileKind, read_whole, rename};

/// Number of bytes at the start of a file used to detect its kind.
const HEAD_BYTES: u64 = 64 << 10;
/// Number of bytes at the start of a PE file that include its headers.
const PE_HEAD_BYTES: u64 = 4 << 10;
/// Number of bytes at the start of a resource directory that mostly include the names of its types.
const DIRECTORY_BYTES: u64 = 16 << 10;

/// The result of reading one file.
pub(super) enum Parsed {
    /// The file is not a schema source.
    Nothing,
    /// The file has been read.
    File(SchemaFile, Vec<Provider>),
    /// A file with trace formats, to be read by [`formats`]: all such files share one table.
    Formats(SchemaFileKind),
}

/// What several threads need to read files.
pub(super) struct FileReader<'a> {
    satellites: Satellites,
    publishers: &'a HashMap<Guid, Publisher>,
}

impl<'a> FileReader<'a> {
    pub(super) fn new(language: &str, publishers: &'a HashMap<Guid, Publisher>) -> FileReader<'a> {
        FileReader { satellites: Satellites::new(language), publishers }
    }

    /// Reads one file. Files found in a directory are reported only if they are schema sources or cannot be read.
    pub(super) fn read(&self, item: &Item) -> Parsed {
        let mut file = SchemaFile {
            path: item.path.clone(),
            kind: None,
            providers: Vec::new(),
            problems: item.problem.iter().cloned().collect(),
        };
        if item.problem.is_some() {
            return Parsed::File(file, Vec::new());
        }
        let (kind, bytes) = match read_if_schema(item) {
            Ok(Some(found)) => found,
            // A hive gives only names, and its problems are reported with it.
            Ok(None) if item.asked_for && !is_software_hive(&item.path) => {
                let problem = "not a schema source (manifest, PE file, resource, MOF, TMF or PDB)";
                file.problems.push(problem.to_owned());
                return Parsed::File(file, Vec::new());
            }
            Ok(None) => return Parsed::Nothing,
            Err(error) => {
                file.problems.push(format!("cannot be read: {error}"));
                return Parsed::File(file, Vec::new());
            }
        };
        file.kind = Some(kind);
        let origin = item.path.to_string_lossy();
        let providers = match kind {
            SchemaFileKind::Manifest => {
                let read = manifest::read(&bytes, &origin);
                let is_other = !item.asked_for && !mentions(&bytes, "instrumentationManifest");
                if is_other && read.providers.is_empty() {
                    return Parsed::Nothing;
                }
                file.problems.extend(read.problems.iter().map(ToString::to_string));
                if read.providers.is_empty() && file.problems.is_empty() {
                    file.problems.push("the manifest has no event provider".to_owned());
                }
                read.providers
            }
            SchemaFileKind::CompiledManifest => {
                if !item.asked_for && self.satellites.is_superfluous(&item.path) {
                    return Parsed::Nothing;
                }
                match self.compiled(&item.path, &bytes, &mut file.problems) {
                    Ok(providers) => providers,
                    Err(WevtError::NoTemplates | WevtError::NotAContainer) if !item.asked_for => {
                        return Parsed::Nothing;
                    }
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
            SchemaFileKind::Tmf | SchemaFileKind::Pdb => return Parsed::Formats(kind),
        };
        let listed =
            |provider: &Provider| (provider.info.name.to_string(), provider.info.guid, provider.events.len());
        file.providers = providers.iter().map(listed).collect();
        Parsed::File(file, providers)
    }

    /// Reads compiled manifests, with the names and messages that the registry and language files have for them.
    fn compiled(
        &self,
        path: &Path,
        bytes: &[u8],
        problems: &mut Vec<String>,
    ) -> Result<Vec<Provider>, WevtError> {
        let origin = path.to_string_lossy();
        let texts = self.language_file(path, problems);
        let mut read = wevt::read(bytes, texts.as_deref(), &origin)?;
        problems.extend(read.problems.iter().map(ToString::to_string));
        for provider in &mut read.providers {
            let guid = provider.info.guid;
            let Some(publisher) = self.publishers.get(&guid) else { continue };
            if let Some(messages) = publisher.message_file.as_deref().filter(|messages| *messages != path)
                && publisher.resource_file.as_deref() == Some(path)
                && let Some(texts) = self.messages_of(messages, problems)
                && let Ok(again) = wevt::read(bytes, Some(&texts), &origin)
                && let Some(again) = again.providers.into_iter().find(|again| again.info.guid == guid)
            {
                *provider = again;
            }
            // A compiled manifest without a name is named after its GUID.
            if !publisher.name.is_empty() && *provider.info.name == *guid.to_string() {
                rename(provider, &publisher.name);
            }
        }
        Ok(read.providers)
    }

    /// Returns the file that has the messages of `path`: its language file, or the file itself.
    fn messages_of(&self, path: &Path, problems: &mut Vec<String>) -> Option<Vec<u8>> {
        self.language_file(path, problems).or_else(|| read_texts(path, problems))
    }

    fn language_file(&self, path: &Path, problems: &mut Vec<String>) -> Option<Vec<u8>> {
        read_texts(&self.satellites.of(path)?, problems)
    }
}

/// Reads a file with trace formats into the table of all such files.
pub(super) fn formats(item: &Item, kind: SchemaFileKind, formats: &mut WppReader) -> Option<SchemaFile> {
    let mut file =
        SchemaFile { path: item.path.clone(), kind: Some(kind), providers: Vec::new(), problems: Vec::new() };
    let origin = item.path.to_string_lossy();
    match read_whole(&item.path, MAX_FILE_BYTES) {
        Ok(bytes) if kind == SchemaFileKind::Tmf => formats.add_tmf(&bytes, &origin),
        Ok(bytes) => match formats.add_pdb(&bytes, &origin) {
            Ok(0) if !item.asked_for => return None,
            Ok(0) => file.problems.push("the PDB has no trace formats".to_owned()),
            Ok(_) => {}
            Err(error) => file.problems.push(error.to_string()),
        },
        Err(error) => file.problems.push(format!("cannot be read: {error}")),
    }
    Some(file)
}

/// Returns the kind and content of a file, if it is a schema source. The content of files with trace formats is read
/// later.
fn read_if_schema(item: &Item) -> io::Result<Option<(SchemaFileKind, Vec<u8>)>> {
    let mut file = etw_sys::open_regular(&item.path)?;
    let mut bytes = Vec::new();
    file.by_ref().take(PE_HEAD_BYTES).read_to_end(&mut bytes)?;
    if bytes.starts_with(b"MZ") {
        if !item.asked_for && !may_have_templates(&mut file, &bytes)? {
            return Ok(None);
        }
    } else {
        file.by_ref().take(HEAD_BYTES - PE_HEAD_BYTES).read_to_end(&mut bytes)?;
    }
    let Some(kind) = SchemaFileKind::from_bytes(&bytes) else { return Ok(None) };
    if matches!(kind, SchemaFileKind::Tmf | SchemaFileKind::Pdb) {
        return Ok(Some((kind, Vec::new())));
    }
    let bytes = read_whole(&item.path, MAX_FILE_BYTES)?;
    // A directory may contain XML of any kind. The manifests of components have an element `instrumentation`.
    let is_other =
        kind == SchemaFileKind::Manifest && !item.asked_for && !mentions(&bytes, "instrumentation");
    Ok((!is_other).then_some((kind, bytes)))
}

/// Returns whether a PE file may have compiled manifests, by its headers and its resource directory. Damaged files are
/// reported when they are read as a whole.
fn may_have_templates(file: &mut File, head: &[u8]) -> io::Result<bool> {
    let range = match wevt::resource_range(head) {
        Ok(Some(range)) => range,
        Ok(None) => return Ok(false),
        Err(_) => return Ok(true),
    };
    if range.end > file.metadata()?.len() {
        return Ok(true);
    }
    file.seek(SeekFrom::Start(range.start))?;
    let mut start = Vec::new();
    file.take(DIRECTORY_BYTES.min(range.end - range.start)).read_to_end(&mut start)?;
    Ok(wevt::may_have_templates(&start))
}

/// Returns whether a text file has a word.
fn mentions(bytes: &[u8], word: &str) -> bool {
    // The byte order mark decides the encoding; the default is UTF-8.
    encoding_rs::UTF_8.decode(bytes).0.contains(word)
}

/// Reads a PE file with messages. Events lack their messages if it is damaged.
fn read_texts(path: &Path, problems: &mut Vec<String>) -> Option<Vec<u8>> {
    let read = read_whole(path, MAX_FILE_BYTES).map_err(|error| error.to_string());
    let whole = read.and_then(|bytes| match wevt::resource_range(&bytes) {
        Ok(Some(range)) if range.end > bytes.len() as u64 => Err("the file is cut short".to_owned()),
        Ok(_) => Ok(bytes),
        Err(error) => Err(error.to_string()),
    });
    whole.inspect_err(|error| problems.push(format!("no messages from {}: {error}", path.display()))).ok()
}
