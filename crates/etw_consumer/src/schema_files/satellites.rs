//! Language files: `LANGUAGE/NAME.mui` beside the file `NAME`, which has its texts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::tree::{entries, folded_name};

/// The language of last resort if a directory has several.
const DEFAULT_LANGUAGE: &str = "en-us";

/// Finds language files. Directories are listed once.
pub(super) struct Satellites {
    /// The wanted language in lower case.
    language: String,
    directories: Mutex<HashMap<PathBuf, Arc<Vec<Directory>>>>,
}

/// The language files of one language in a directory, by names in lower case.
struct Directory {
    /// The language in lower case; empty for language files that lie beside the files themselves.
    language: String,
    files: HashMap<String, PathBuf>,
}

impl Satellites {
    pub(super) fn new(language: &str) -> Satellites {
        Satellites { language: language.to_lowercase(), directories: Mutex::default() }
    }

    /// Returns the language file of a file in the wanted language, else in English, else the file beside it, else the
    /// one of the first language.
    pub(super) fn of(&self, path: &Path) -> Option<PathBuf> {
        let name = format!("{}.mui", folded_name(path));
        let directories = self.around(path.parent()?);
        let rank = |directory: &&Directory| {
            let preferred = [self.language.as_str(), DEFAULT_LANGUAGE, ""];
            preferred.iter().position(|language| *language == directory.language).unwrap_or(preferred.len())
        };
        let found =
            directories.iter().filter(|directory| directory.files.contains_key(&name)).min_by_key(rank)?;
        found.files.get(&name).cloned()
    }

    /// Returns whether a file is a language file that another file has, but in another language than `of` returns.
    pub(super) fn is_superfluous(&self, path: &Path) -> bool {
        let Some(base) = Path::new(path.file_name().unwrap_or_default()).file_stem() else { return false };
        let is_mui = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("mui"));
        let Some(directory) = path.parent().and_then(Path::parent).filter(|_| is_mui) else { return false };
        self.of(&directory.join(base)).is_some_and(|chosen| chosen != path)
    }

    /// Returns the language files of the files in a directory.
    fn around(&self, directory: &Path) -> Arc<Vec<Directory>> {
        let mut known = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(directory.to_owned()).or_insert_with(|| Arc::new(list(directory))).clone()
    }
}

fn list(directory: &Path) -> Vec<Directory> {
    // A directory that cannot be listed is reported where files are listed.
    let entries_of = |directory: &Path| entries(directory).unwrap_or_default();
    let language_files = |entries: Vec<PathBuf>| {
        let files = entries.into_iter().map(|path| (folded_name(&path), path));
        files.filter(|(name, _)| name.ends_with(".mui")).collect()
    };
    let (directories, files): (Vec<_>, Vec<_>) =
        entries_of(directory).into_iter().partition(|(_, kind)| kind.is_dir());
    let beside = language_files(files.into_iter().map(|(path, _)| path).collect());
    let mut found = vec![Directory { language: String::new(), files: beside }];
    for (path, _) in directories {
        let language = folded_name(&path);
        if is_language(&language) {
            let files = language_files(entries_of(&path).into_iter().map(|(path, _)| path).collect());
            found.push(Directory { language, files });
        }
    }
    found
}

/// Returns whether a name is that of a language and region, as `en-us` or `sr-latn-rs`.
fn is_language(name: &str) -> bool {
    let mut parts = name.split('-');
    let language = parts.next().unwrap_or_default();
    let is_part =
        |part: &str| (2..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric());
    (2..=3).contains(&language.len())
        && language.bytes().all(|byte| byte.is_ascii_lowercase())
        && name.contains('-')
        && parts.all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_languages() {
        let check = |name, expected| assert_eq!(is_language(name), expected, "{name}");
        check("en-us", true);
        check("sr-latn-rs", true);
        check("qps-ploc", true);
        check("en", false);
        check("drivers", false);
        check("x-y", false);
        check("de-", false);
    }

    #[test]
    fn the_wanted_language_then_english_then_any() {
        let dir = tempfile::tempdir().unwrap();
        for file in ["de-DE/a.dll.mui", "EN-us/A.DLL.MUI", "fr-FR/a.dll.mui", "fr-FR/b.dll.mui", "c.dll.mui"]
        {
            std::fs::create_dir_all(dir.path().join(file).parent().unwrap()).unwrap();
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        let check = |language: &str, name: &str, expected: Option<&str>| {
            let found = Satellites::new(language).of(&dir.path().join(name));
            assert_eq!(found, expected.map(|file| dir.path().join(file)), "{language} {name}");
        };
        check("de-de", "a.dll", Some("de-DE/a.dll.mui"));
        check("it-IT", "A.dll", Some("EN-us/A.DLL.MUI"));
        check("de-DE", "b.dll", Some("fr-FR/b.dll.mui"));
        check("de-DE", "c.dll", Some("c.dll.mui"));
        check("de-DE", "d.dll", None);
        let german = Satellites::new("de-DE");
        assert!(german.is_superfluous(&dir.path().join("fr-FR/a.dll.mui")));
        assert!(!german.is_superfluous(&dir.path().join("de-DE/a.dll.mui")));
        assert!(!german.is_superfluous(&dir.path().join("fr-FR/b.dll.mui")));
    }
}
