//! The publishers of a Windows system whose files are read: names of providers, and the files that describe them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use etw_event::Guid;
use etw_schema::publishers;

use super::tree::{Item, entries, folded_name};
use super::{MAX_FILE_BYTES, read_whole};

/// A publisher, with the files that it names, as far as they exist.
#[derive(Debug, Clone)]
pub(super) struct Publisher {
    pub(super) name: String,
    /// The path in the registry.
    pub(super) resource_path: Option<String>,
    pub(super) resource_file: Option<PathBuf>,
    pub(super) message_file: Option<PathBuf>,
}

/// The publishers of all registries in the requested paths.
#[derive(Debug, Default)]
pub(super) struct Registry {
    pub(super) publishers: HashMap<Guid, Publisher>,
    /// What could not be read, by hive.
    pub(super) problems: Vec<(PathBuf, Vec<String>)>,
}

impl Registry {
    /// Reads the hive `config/SOFTWARE` of each Windows system among the files.
    pub(super) fn from_items(items: &[Item]) -> Registry {
        let mut registry = Registry::default();
        for item in items.iter().filter(|item| item.problem.is_none() && is_software_hive(&item.path)) {
            let problems = registry.add(&item.path).unwrap_or_else(|problem| vec![problem]);
            if !problems.is_empty() {
                registry.problems.push((item.path.clone(), problems));
            }
        }
        registry
    }

    /// Returns the files that publishers name.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.publishers.values().filter_map(|publisher| publisher.resource_file.as_ref())
    }

    fn add(&mut self, hive: &Path) -> Result<Vec<String>, String> {
        let bytes = read_whole(hive, MAX_FILE_BYTES).map_err(|error| format!("cannot be read: {error}"))?;
        let read = publishers::read(&bytes).map_err(|error| error.to_string())?;
        let system = hive.parent().and_then(Path::parent).ok_or("has no Windows directory around it")?;
        let mut disk = Disk { system: system.to_owned(), listed: HashMap::new() };
        for publisher in read.publishers {
            let mut file = |path: &Option<String>| path.as_deref().and_then(|path| disk.find(path));
            let known = Publisher {
                resource_file: file(&publisher.resource_file),
                message_file: file(&publisher.message_file),
                name: publisher.name,
                resource_path: publisher.resource_file,
            };
            self.publishers.insert(publisher.guid, known);
        }
        Ok(read.problems.iter().map(ToString::to_string).collect())
    }
}

/// Returns whether a path ends in `config/SOFTWARE`.
pub(super) fn is_software_hive(path: &Path) -> bool {
    folded_name(path) == "software" && path.parent().is_some_and(|parent| folded_name(parent) == "config")
}

/// The disk of a Windows system.
struct Disk {
    /// The directory `System32`.
    system: PathBuf,
    /// Entries of directories by names in lower case.
    listed: HashMap<PathBuf, HashMap<String, PathBuf>>,
}

impl Disk {
    /// Returns the existing file that a path in the registry means.
    fn find(&mut self, path: &str) -> Option<PathBuf> {
        let path = expanded(path);
        let (mut found, rest) = if let Some(rest) = path.strip_prefix(SYSTEM) {
            (self.system.clone(), rest)
        } else {
            let windows = self.system.parent().filter(|_| folded_name(&self.system) == "system32")?;
            match path.strip_prefix(WINDOWS) {
                Some(rest) => (windows.to_owned(), rest),
                None => (windows.parent()?.to_owned(), path.as_str()),
            }
        };
        for part in rest.split('\\').filter(|part| !part.is_empty()) {
            // No entry of a directory has the name `..`, so the path stays on the disk.
            found = self.list(found).get(part)?.clone();
        }
        found.is_file().then_some(found)
    }

    fn list(&mut self, directory: PathBuf) -> &HashMap<String, PathBuf> {
        self.listed.entry(directory).or_insert_with_key(|directory| {
            // A directory that cannot be listed is reported where files are listed.
            let entries = entries(directory).unwrap_or_default();
            entries.into_iter().map(|(path, _)| (folded_name(&path), path)).collect()
        })
    }
}

const WINDOWS: &str = "\\windows\\";
const SYSTEM: &str = "\\windows\\system32\\";

/// Returns a path of the registry in lower case, from the root of the disk: `%SystemRoot%\System32\x.dll` becomes
/// `\windows\system32\x.dll`. A bare name means a file in the system directory.
fn expanded(path: &str) -> String {
    const STARTS: [(&str, &str); 10] = [
        ("\\??\\", ""),
        ("%systemroot%", "\\windows"),
        ("\\systemroot", "\\windows"),
        ("%windir%", "\\windows"),
        ("%systemdrive%", ""),
        ("%programfiles%", "\\program files"),
        ("%programfiles(x86)%", "\\program files (x86)"),
        ("%commonprogramfiles%", "\\program files\\common files"),
        ("%programdata%", "\\programdata"),
        ("%allusersprofile%", "\\programdata"),
    ];
    let mut path = path.trim().trim_matches('"').replace('/', "\\").to_lowercase();
    for (start, meaning) in STARTS {
        if let Some(rest) = path.strip_prefix(start) {
            path = format!("{meaning}{rest}");
        }
    }
    // The drive's letter is that of the system's disk.
    match path.split_once(':') {
        Some((_, rest)) => rest.to_owned(),
        None if path.starts_with('\\') => path,
        None => format!("{SYSTEM}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_registry() {
        let check = |path: &str, expected: &str| assert_eq!(expanded(path), expected, "{path}");
        check("%SystemRoot%\\System32\\X.dll", "\\windows\\system32\\x.dll");
        check("%windir%\\x.dll", "\\windows\\x.dll");
        check("C:\\Windows\\x.dll", "\\windows\\x.dll");
        check("\\??\\C:\\Windows\\x.dll", "\\windows\\x.dll");
        check("\\SystemRoot\\System32/drivers/x.sys", "\\windows\\system32\\drivers\\x.sys");
        check("\"%ProgramFiles%\\A B\\x.dll\"", "\\program files\\a b\\x.dll");
        check("x.dll", "\\windows\\system32\\x.dll");
    }

    #[test]
    fn files_are_found_whatever_their_case_and_only_on_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        for file in
            ["C/Windows/SYSTEM32/Drivers/X.sys", "C/Windows/y.dll", "C/Program Files/A/z.dll", "out.dll"]
        {
            std::fs::create_dir_all(dir.path().join(file).parent().unwrap()).unwrap();
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        let mut disk = Disk { system: dir.path().join("C/Windows/SYSTEM32"), listed: HashMap::new() };
        let mut check = |path: &str, expected: Option<&str>| {
            assert_eq!(disk.find(path), expected.map(|file| dir.path().join(file)), "{path}");
        };
        check("%systemroot%\\system32\\DRIVERS\\x.SYS", Some("C/Windows/SYSTEM32/Drivers/X.sys"));
        check("%SystemRoot%\\y.dll", Some("C/Windows/y.dll"));
        check("%ProgramFiles%\\a\\z.dll", Some("C/Program Files/A/z.dll"));
        check("%SystemRoot%\\missing.dll", None);
        check("%SystemRoot%\\..\\..\\out.dll", None);
        check("%SystemDrive%\\..\\out.dll", None);
        check("%SystemRoot%\\System32", None);
        check("", None);
    }
}
