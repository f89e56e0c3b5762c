//! The presets of a user: files in a directory, which can be copied, mailed and kept in a repository.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::{MAX_LEN_BYTES, Missing, Opened, Preset, file_text, open};

/// The extension of files of presets.
const EXTENSION: &str = "etwpresets";
/// Maximum number of files that are read.
const MAX_FILES: usize = 500;
/// Maximum length of the name of a file without its extension.
const MAX_FILE_NAME: usize = 60;

/// The presets that the page offers.
#[derive(Debug)]
pub(crate) struct Library {
    /// Where presets are saved; `None` if the user has no directory for settings.
    directory: Option<PathBuf>,
    /// Files that were named when the program was started.
    named: Vec<Opened>,
}

/// The presets as the page gets them.
#[derive(Debug, Serialize)]
pub(crate) struct Listed<'l> {
    directory: Option<String>,
    /// The presets of the directory.
    saved: Vec<Saved>,
    /// The files that were named.
    named: &'l [Opened],
    /// Files that cannot be read.
    problems: Vec<Missing>,
}

/// A preset of the directory.
#[derive(Debug, Serialize)]
struct Saved {
    /// Name of its file.
    file: String,
    #[serde(flatten)]
    preset: Preset,
}

/// A preset to delete.
#[derive(Debug, Deserialize)]
pub(crate) struct Deletion {
    file: String,
    name: String,
}

/// Returns the directory of presets: `openetw/presets` in the user's directory for settings.
#[must_use]
pub fn directory() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let settings = match cfg!(windows) {
        true => of("APPDATA"),
        false => of("XDG_CONFIG_HOME").or_else(|| Some(of("HOME")?.join(".config"))),
    };
    Some(settings?.join("openetw").join("presets"))
}

impl Library {
    /// Opens the library, and reads the files that were named.
    ///
    /// # Errors
    ///
    /// Fails if one of them cannot be read, or is not a preset file.
    pub(crate) fn new(directory: Option<PathBuf>, named: &[PathBuf]) -> Result<Library> {
        let named = named.iter().map(|path| read(path)).collect::<Result<_>>()?;
        Ok(Library { directory, named })
    }

    /// Returns all presets.
    pub(crate) fn list(&self) -> Listed<'_> {
        let (mut saved, mut problems) = (Vec::new(), Vec::new());
        let mut files: Vec<PathBuf> = Vec::new();
        // Without a preset there is no directory.
        let entries = self.directory.as_ref().and_then(|directory| fs::read_dir(directory).ok());
        for entry in entries.into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                files.push(path);
            }
        }
        files.sort();
        if files.len() > MAX_FILES {
            problems.push(Missing::new(
                format!("{} files", files.len() - MAX_FILES),
                format!("the first {MAX_FILES} are read"),
            ));
            files.truncate(MAX_FILES);
        }
        for path in files {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            match read(&path) {
                Ok(opened) => saved.extend(
                    opened.presets.into_iter().map(|one| Saved { file: file.clone(), preset: one.preset }),
                ),
                Err(error) => problems.push(Missing::new(file, format!("{error:#}"))),
            }
        }
        let directory = self.directory.as_ref().map(|directory| directory.display().to_string());
        Listed { directory, saved, named: &self.named, problems }
    }

    /// Saves a preset; one of the same name that was saved before is replaced. Returns the number of filters that were
    /// not saved, since they mean something in this trace only.
    ///
    /// # Errors
    ///
    /// Fails if the preset is wrong, or if it cannot be written.
    pub(crate) fn save(&self, preset: &Preset) -> Result<usize> {
        let mut preset = preset.clone();
        preset.name = preset.name.trim().to_owned();
        let left_out = preset.remove_filters_of_one_trace();
        let text = file_text(std::slice::from_ref(&preset))?;
        self.write(&format!("{}.{EXTENSION}", file_name(&preset.name)), &text)?;
        Ok(left_out)
    }

    /// Deletes a preset.
    ///
    /// # Errors
    ///
    /// Fails if there is none, or if its file cannot be changed.
    pub(crate) fn delete(&self, Deletion { file, name }: &Deletion) -> Result<()> {
        let is_name = Path::new(file).file_name().is_some_and(|own| own == file.as_str());
        if !is_name || !file.ends_with(&format!(".{EXTENSION}")) {
            bail!("'{file}' is not the name of a file of presets");
        }
        let directory = self.directory()?;
        let path = directory.join(file);
        let presets = read(&path)?.presets.into_iter().map(|one| one.preset);
        let (gone, rest): (Vec<Preset>, Vec<Preset>) = presets.partition(|preset| preset.name == *name);
        if gone.is_empty() {
            bail!("{file} has no preset '{name}'");
        }
        match rest.is_empty() {
            true => fs::remove_file(&path).with_context(|| format!("cannot delete {}", path.display())),
            false => self.write(file, &file_text(&rest)?),
        }
    }

    fn directory(&self) -> Result<&Path> {
        self.directory.as_deref().context("there is no directory for settings; set XDG_CONFIG_HOME or HOME")
    }

    /// Writes a file; it has its name when it is complete.
    fn write(&self, file: &str, text: &str) -> Result<()> {
        let directory = self.directory()?;
        let path = directory.join(file);
        let written = || -> std::io::Result<()> {
            fs::create_dir_all(directory)?;
            let mut new = tempfile::NamedTempFile::new_in(directory)?;
            new.write_all(text.as_bytes())?;
            new.persist(&path)?;
            Ok(())
        };
        written().with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Reads a file.
fn read(path: &Path) -> Result<Opened> {
    let shown = path.display();
    let metadata = fs::metadata(path).with_context(|| format!("cannot read {shown}"))?;
    if metadata.len() > MAX_LEN_BYTES as u64 {
        bail!("{shown}: larger than {MAX_LEN_BYTES} bytes");
    }
    let bytes = fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    open(&name, &etw_profile::decode(&bytes))
}

/// Returns the name of the file of a preset: readable, and different for different names.
fn file_name(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        let letter = if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
        if text.len() < MAX_FILE_NAME && !(letter == '-' && (text.is_empty() || text.ends_with('-'))) {
            text.push(letter);
        }
    }
    let plain = text.trim_end_matches('-');
    // FNV-1a.
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{}-{hash:08x}", if plain.is_empty() { "preset" } else { plain })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preset(name: &str) -> Preset {
        Preset { name: name.to_owned(), table: "disk".to_owned(), ..Preset::default() }
    }

    fn names(library: &Library) -> Vec<(String, String)> {
        let saved = library.list().saved;
        saved.into_iter().map(|saved| (saved.preset.name, saved.file)).collect()
    }

    #[test]
    fn presets_are_saved_replaced_and_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let library = Library::new(Some(folder.path().join("a/b")), &[]).unwrap();
        assert!(names(&library).is_empty());
        library.save(&preset("Disk: by file")).unwrap();
        library.save(&preset("disk; by file")).unwrap();
        library.save(&preset("Disk: by file")).unwrap();
        let saved = names(&library);
        assert_eq!(saved.len(), 2, "{saved:?}");
        assert!(saved.iter().all(|(_, file)| file.starts_with("disk-by-file-")), "{saved:?}");
        let (name, file) = saved[0].clone();
        library.delete(&Deletion { file: file.clone(), name: "other".to_owned() }).unwrap_err();
        library.delete(&Deletion { file, name }).unwrap();
        assert_eq!(names(&library).len(), 1);
        assert!(library.save(&preset(" ")).is_err());
    }

    #[test]
    fn one_of_several_presets_of_a_file_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let text = file_text(&[preset("a"), preset("b")]).unwrap();
        fs::write(folder.path().join("two.etwpresets"), text).unwrap();
        fs::write(folder.path().join("other.etwpresets"), "{").unwrap();
        let library = Library::new(Some(folder.path().to_owned()), &[]).unwrap();
        assert_eq!(library.list().problems.len(), 1);
        let file = "two.etwpresets".to_owned();
        library.delete(&Deletion { file, name: "a".to_owned() }).unwrap();
        assert_eq!(names(&library), [("b".to_owned(), "two.etwpresets".to_owned())]);
    }

    #[test]
    fn only_files_of_the_directory_are_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("x.etwpresets");
        fs::write(&outside, file_text(&[preset("a")]).unwrap()).unwrap();
        let library = Library::new(Some(folder.path().join("presets")), &[]).unwrap();
        for file in ["../x.etwpresets", "/etc/passwd", "..", "", outside.to_str().unwrap()] {
            let deletion = Deletion { file: file.to_owned(), name: "a".to_owned() };
            library.delete(&deletion).unwrap_err();
        }
        assert!(outside.exists());
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let library = Library::new(Some(file), &[]).unwrap();
        let error = format!("{:#}", library.save(&preset("a")).unwrap_err());
        assert!(error.starts_with("cannot write"), "{error}");
        assert!(Library::new(None, &[]).unwrap().save(&preset("a")).is_err());
    }
}
