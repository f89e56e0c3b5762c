//! Schemas from files of all kinds, detected by content: manifests, compiled manifests, MOF, TMF, PDB.

mod kind;
mod read;
mod registry;
mod satellites;
mod tree;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use etw_event::Guid;
use etw_schema::wpp::WppReader;
use etw_schema::{Decoding, Provider};

pub use kind::SchemaFileKind;

use read::{FileReader, Parsed};
use registry::{Publisher, Registry};
use tree::Item;

/// Maximum file size; larger files are reported and skipped. Symbol files are the largest in practice.
const MAX_FILE_BYTES: u64 = 4 << 30;

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

/// A provider in the registry of a Windows system that none of the files describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndescribedPublisher {
    /// The provider's GUID.
    pub guid: Guid,
    /// Its name; may be empty.
    pub name: String,
    /// The path of its file as the registry has it, if it has one.
    pub file: Option<String>,
    /// Whether the file exists.
    pub exists: bool,
}

/// The result of reading several files and directories.
#[derive(Debug, Default)]
pub struct SchemaFiles {
    /// All providers. A GUID may occur several times; the last one is the newest.
    pub providers: Vec<Provider>,
    /// The files, in the order in which they were read; for directories only the schema sources and the files that
    /// cannot be read.
    pub files: Vec<SchemaFile>,
    /// The number of files that were looked at.
    pub examined: usize,
    /// The number of publishers in the registries of Windows systems.
    pub publishers: usize,
    /// The publishers that no file describes, by name.
    pub undescribed: Vec<UndescribedPublisher>,
}

/// Reads schemas from files and directories, with options.
///
/// A directory may be a Windows system, or a copy of its `System32`: the messages of providers come from the language
/// files (`LANGUAGE/NAME.mui`) and, if the registry hive `config/SOFTWARE` is there, from the files that it names. The
/// registry also gives the names of providers that their own files lack.
///
/// ```no_run
/// use etw_consumer::SchemaReader;
///
/// let read = SchemaReader::new().language("de-DE").read(["C/Windows"]);
/// println!("{} providers, {} without description", read.providers.len(), read.undescribed.len());
/// ```
pub struct SchemaReader<'a> {
    language: String,
    threads: NonZeroUsize,
    progress: Option<&'a (dyn Fn(usize, usize) + Sync)>,
}

impl Default for SchemaReader<'_> {
    fn default() -> Self {
        SchemaReader::new()
    }
}

impl fmt::Debug for SchemaReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchemaReader")
            .field("language", &self.language)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl<'a> SchemaReader<'a> {
    /// Returns a reader for messages in English that uses one thread.
    pub fn new() -> SchemaReader<'a> {
        SchemaReader { language: "en-US".to_owned(), threads: NonZeroUsize::MIN, progress: None }
    }

    /// Sets the language of messages, such as `de-DE`. Files without this language are used in English, else in any
    /// language.
    #[must_use]
    pub fn language(mut self, language: &str) -> SchemaReader<'a> {
        language.clone_into(&mut self.language);
        self
    }

    /// Sets the number of threads.
    #[must_use]
    pub fn threads(mut self, threads: NonZeroUsize) -> SchemaReader<'a> {
        self.threads = threads;
        self
    }

    /// Sets a function that is called after each file, with the number of files done and of all files. Several threads
    /// call it.
    #[must_use]
    pub fn on_progress(mut self, progress: &'a (dyn Fn(usize, usize) + Sync)) -> SchemaReader<'a> {
        self.progress = Some(progress);
        self
    }

    /// Reads files, and directories recursively. Problems are reported in [`SchemaFiles::files`] and do not stop the
    /// rest. Links to directories are not followed.
    pub fn read<P: AsRef<Path>>(&self, paths: impl IntoIterator<Item = P>) -> SchemaFiles {
        let mut items: Vec<Item> = paths.into_iter().flat_map(|path| tree::list(path.as_ref())).collect();
        let registry = Registry::from_items(&items);
        let listed: HashSet<PathBuf> = items.iter().map(|item| item.path.clone()).collect();
        let named: HashSet<&PathBuf> = registry.files().filter(|file| !listed.contains(*file)).collect();
        let mut named: Vec<Item> = named.into_iter().cloned().map(Item::found).collect();
        named.sort_by(|a, b| a.path.cmp(&b.path));
        items.extend(named);

        let parsed = self.parse(&items, &registry.publishers);
        let mut all = SchemaFiles { examined: items.len(), ..SchemaFiles::default() };
        let mut formats = WppReader::default();
        for (item, parsed) in items.iter().zip(parsed) {
            all.take(item, parsed, &mut formats);
        }
        for problem in formats.problems() {
            all.report(Path::new(&*problem.origin), format!("line {}: {}", problem.line, problem.what));
        }
        all.providers.extend(formats.finish());
        for (hive, problems) in registry.problems {
            problems.into_iter().for_each(|problem| all.report(&hive, problem));
        }
        all.set_precedence(&registry.publishers);
        all.set_undescribed(registry.publishers);
        all
    }

    /// Reads the files on several threads; returns the results in the order of the files.
    fn parse(&self, items: &[Item], publishers: &HashMap<Guid, Publisher>) -> Vec<Parsed> {
        let reader = FileReader::new(&self.language, publishers);
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            let mut parsed = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(index) else { return parsed };
                parsed.push((index, reader.read(item)));
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                if let Some(progress) = self.progress {
                    progress(done, items.len());
                }
            }
        };
        let mut parsed = std::thread::scope(|scope| {
            let spawn = |_| std::thread::Builder::new().name("schemas".into()).spawn_scoped(scope, work);
            // Without further threads this one does all the work.
            let others: Vec<_> = (1..self.threads.get()).map_while(|index| spawn(index).ok()).collect();
            let mut parsed = work();
            for other in others {
                parsed.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            parsed
        });
        parsed.sort_unstable_by_key(|(index, _)| *index);
        parsed.into_iter().map(|(_, parsed)| parsed).collect()
    }
}

impl SchemaFiles {
    /// Reads files, and directories recursively, with English messages. Problems are reported in [`SchemaFiles::files`]
    /// and do not stop the rest.
    pub fn read<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> SchemaFiles {
        SchemaReader::new().read(paths)
    }

    /// Removes the providers of manifests that have errors, and notes this with the problems of their files.
    ///
    /// A manifest with an error lacks something: the rest decodes events, but without a field or with another one's
    /// bytes. Compiled manifests have no authors who could mend them, and keep what could be read.
    pub fn remove_faulty_manifests(&mut self) {
        let mut faulty = HashSet::new();
        for file in &mut self.files {
            let errors = file.problems.len();
            if file.kind == Some(SchemaFileKind::Manifest) && errors > 0 && !file.providers.is_empty() {
                file.providers.clear();
                file.problems.push(format!("nothing of it is added, since it has errors ({errors})"));
                faulty.insert(file.path.to_string_lossy().into_owned());
            }
        }
        self.providers.retain(|provider| !faulty.contains(&*provider.info.origin));
    }

    /// Adds the result of reading one file.
    fn take(&mut self, item: &Item, parsed: Parsed, formats: &mut WppReader) {
        match parsed {
            Parsed::Nothing => {}
            Parsed::File(file, providers) => {
                self.files.push(file);
                self.providers.extend(providers);
            }
            Parsed::Formats(kind) => self.files.extend(read::formats(item, kind, formats)),
        }
    }

    /// Adds a problem to a file.
    fn report(&mut self, path: &Path, problem: String) {
        match self.files.iter_mut().find(|file| file.path == path) {
            Some(file) => file.problems.push(problem),
            None => self.files.push(SchemaFile {
                path: path.to_owned(),
                kind: None,
                providers: Vec::new(),
                problems: vec![problem],
            }),
        }
    }

    /// Moves the descriptions in the files that publishers name to the end, since the last one takes precedence, and
    /// drops compiled manifests with no event that a later one lacks: a Windows system has most files several times.
    fn set_precedence(&mut self, publishers: &HashMap<Guid, Publisher>) {
        let is_named = |provider: &Provider| {
            let publisher = publishers.get(&provider.info.guid);
            let file = publisher.and_then(|publisher| publisher.resource_file.as_ref());
            file.is_some_and(|file| *file.to_string_lossy() == *provider.info.origin)
        };
        self.providers.sort_by_key(is_named);
        let mut known: HashMap<Guid, HashSet<(u16, u8)>> = HashMap::new();
        let mut kept = Vec::with_capacity(self.providers.len());
        for provider in std::mem::take(&mut self.providers).into_iter().rev() {
            let mut is_new = provider.info.decoding != Decoding::WevtTemplate;
            let events = known.entry(provider.info.guid).or_insert_with(|| {
                is_new = true;
                HashSet::new()
            });
            for event in &provider.events {
                is_new |= events.insert((event.descriptor.id, event.descriptor.version));
            }
            kept.extend(is_new.then_some(provider));
        }
        kept.reverse();
        self.providers = kept;
    }

    fn set_undescribed(&mut self, publishers: HashMap<Guid, Publisher>) {
        self.publishers = publishers.len();
        let described: HashSet<Guid> = self.providers.iter().map(|provider| provider.info.guid).collect();
        let undescribed = publishers.into_iter().filter(|(guid, _)| !described.contains(guid));
        self.undescribed = undescribed
            .map(|(guid, publisher)| UndescribedPublisher {
                guid,
                name: publisher.name,
                file: publisher.resource_path,
                exists: publisher.resource_file.is_some(),
            })
            .collect();
        self.undescribed.sort_by(|a, b| (&a.name, a.guid).cmp(&(&b.name, b.guid)));
    }
}

/// Reads a file of at most `limit` bytes.
fn read_whole(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut file = etw_sys::open_regular(path)?;
    let len = file.metadata()?.len();
    if len > limit {
        return Err(io::Error::other(format!("its {len} bytes are more than {limit}")));
    }
    let mut bytes = Vec::new();
    file.by_ref().take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Gives a provider another name.
fn rename(provider: &mut Provider, name: &str) {
    Arc::make_mut(&mut provider.info).name = name.into();
    for event in &mut provider.events {
        Arc::make_mut(event).provider = provider.info.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_with_errors_can_be_left_out_as_a_whole() {
        let dir = std::env::temp_dir().join(format!("faulty_manifests_{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let manifest = |event: &str, guid: u8| {
            format!(
                "<instrumentationManifest><instrumentation><events>\
                 <provider name='P{guid}' symbol='P' guid='{{11223344-5566-7788-99aa-bbccddeeff{guid:02}}}'>\
                 <events><event value='1'/>\n{event}</events>\
                 </provider></events></instrumentation></instrumentationManifest>"
            )
        };
        std::fs::write(dir.join("bad.man"), manifest("<event value='2' template='none'/>", 1)).unwrap();
        std::fs::write(dir.join("good.man"), manifest("<event value='2'/>", 2)).unwrap();
        let mut read = SchemaFiles::read([&dir]);
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(read.providers.len(), 2);
        read.remove_faulty_manifests();
        let names: Vec<&str> = read.providers.iter().map(|provider| &*provider.info.name).collect();
        assert_eq!(names, ["P2"]);
        let problems = &read.files[0].problems;
        assert!(problems[0].starts_with("line 2, column 1: "), "{problems:?}");
        assert_eq!(problems[1], "nothing of it is added, since it has errors (1)");
        assert_eq!((read.files[0].providers.len(), read.files[1].providers.len()), (0, 1));
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
