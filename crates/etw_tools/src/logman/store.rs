//! Storage of data collector sets: one XML file each, in the format of `logman export`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use etw_app::status::usage;

use super::collector::Set;
use super::xml;
use crate::files::config_directory;

/// A directory of sets.
pub(super) struct Store {
    directory: PathBuf,
}

impl Store {
    /// Returns the user's store: `openetw/collectors` in the configuration directory.
    pub(super) fn of_user() -> Result<Store> {
        Ok(Store { directory: config_directory()?.join("collectors") })
    }

    /// Loads the set with a name, in any case.
    pub(super) fn load(&self, name: &str) -> Result<Option<Set>> {
        let file = self.file(name)?;
        match fs::read_to_string(&file) {
            Ok(text) => {
                let set = xml::read(&text);
                set.map(Some).map_err(|what| usage(format_args!("{}: {what}", file.display())))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(anyhow!(error).context(format!("{}: cannot be read", file.display()))),
        }
    }

    /// Saves a set, replacing one with the same name.
    pub(super) fn save(&self, set: &Set) -> Result<()> {
        let file = self.file(&set.name)?;
        let part = file.with_extension("part");
        let write = || {
            fs::create_dir_all(&self.directory)?;
            fs::write(&part, xml::write(set))?;
            // The rename is atomic: the file has either the old or the new set.
            fs::rename(&part, &file)
        };
        write().with_context(|| format!("{}: cannot be written", file.display()))
    }

    /// Deletes the set with a name.
    pub(super) fn delete(&self, name: &str) -> Result<()> {
        let file = self.file(name)?;
        fs::remove_file(&file).with_context(|| format!("{}: cannot be deleted", file.display()))
    }

    /// Returns all sets, sorted by name.
    pub(super) fn list(&self) -> Result<Vec<Set>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.with_context(|| format!("{}: cannot be read", self.directory.display()))?,
        };
        let mut sets = Vec::new();
        for file in entries.flatten().map(|entry| entry.path()).filter(|file| is_set(file)) {
            let text =
                fs::read_to_string(&file).with_context(|| format!("{}: cannot be read", file.display()))?;
            sets.push(xml::read(&text).map_err(|what| usage(format_args!("{}: {what}", file.display())))?);
        }
        sets.sort_by_key(|set| set.name.to_lowercase());
        Ok(sets)
    }

    /// Returns the file of a set. Characters not allowed in file names are written as `%` and two digits.
    fn file(&self, name: &str) -> Result<PathBuf> {
        let mut stem = String::new();
        for byte in name.to_lowercase().bytes() {
            match byte {
                b'/' | b'%' | b'.' | 0..0x20 | 0x7F.. => stem += &format!("%{byte:02X}"),
                byte => stem.push(char::from(byte)),
            }
        }
        if stem.len() > 250 {
            return Err(usage("the name of the set is too long; use at most 250 letters"));
        }
        Ok(self.directory.join(format!("{stem}.xml")))
    }
}

fn is_set(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "xml")
}

#[cfg(test)]
mod tests {
    use super::super::collector::Collector;
    use super::*;

    #[test]
    fn sets_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store { directory: directory.path().join("sets") };
        assert_eq!(store.list().unwrap(), []);
        let file = Some("/tmp/set.etl".into());
        let collector =
            |name: &str| Collector { session: name.to_owned(), file: file.clone(), ..Collector::default() };
        let set = |name: &str| Set::new(name, collector(name));
        for name in ["My Set", "../etc/passwd", "Grün", "a%b"] {
            store.save(&set(name)).unwrap();
            assert_eq!(store.load(&name.to_uppercase()).unwrap(), Some(set(name)), "{name}");
        }
        assert_eq!(store.list().unwrap().len(), 4);
        assert_eq!(
            fs::read_dir(&store.directory).unwrap().count(),
            4,
            "nothing is left, or written elsewhere"
        );
        store.delete("my set").unwrap();
        assert_eq!(store.load("My Set").unwrap(), None);
        assert!(store.delete("my set").is_err());
        assert!(store.file(&"x".repeat(300)).is_err());
    }
}
