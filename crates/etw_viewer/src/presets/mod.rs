//! Presets: which columns of a table are shown and how. They are kept in files, shared, and read from profiles of Windows
//! Performance Analyzer.

mod library;
mod names;
mod query;
mod wpa;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::tables::{Condition, Sort};

pub use library::directory;
pub(crate) use library::{Deletion, Library};

/// What files of presets say first.
const FORMAT: &str = "etw view presets";
/// Maximum size of a file; published profiles have up to 40,000 bytes.
pub(crate) const MAX_LEN_BYTES: usize = 1 << 20;
/// Maximum number of presets of a file.
const MAX_PRESETS: usize = 500;
/// Maximum number of columns of a preset, and of its filters.
const MAX_COLUMNS: usize = 200;
/// Maximum length of a name.
const MAX_NAME: usize = 200;

/// How a table is shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Preset {
    pub(crate) name: String,
    pub(crate) table: String,
    /// Columns left of the golden bar.
    #[serde(default)]
    pub(crate) keys: Vec<String>,
    /// Values right of the golden bar.
    #[serde(default)]
    pub(crate) values: Vec<String>,
    /// Columns of single rows.
    #[serde(default)]
    pub(crate) columns: Vec<String>,
    /// Whether single rows are shown.
    #[serde(default)]
    pub(crate) flat: bool,
    #[serde(default)]
    pub(crate) sort: Option<Sort>,
    #[serde(default)]
    pub(crate) filters: Vec<Condition>,
}

impl Preset {
    /// Checks what a file or the page says.
    fn check(&self) -> Result<()> {
        let name = self.name.trim();
        if name.is_empty() || name.chars().count() > MAX_NAME {
            bail!("a preset has a name of up to {MAX_NAME} characters");
        }
        let counts = [&self.keys, &self.values, &self.columns].map(Vec::len);
        if counts.iter().any(|count| *count > MAX_COLUMNS) || self.filters.len() > MAX_COLUMNS {
            bail!("preset '{name}': more than {MAX_COLUMNS} columns or filters");
        }
        Ok(())
    }

    /// Removes filters whose values are row numbers, which mean something else in another trace; returns their number.
    fn remove_filters_of_one_trace(&mut self) -> usize {
        let before = self.filters.len();
        self.filters.retain(|filter| !filter.is_of_one_trace());
        before - self.filters.len()
    }
}

/// A file of presets.
#[derive(Debug, Serialize, Deserialize)]
struct PresetFile {
    format: String,
    version: u32,
    presets: Vec<Preset>,
}

/// What was read from a file.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Opened {
    /// Name of the file.
    pub(crate) name: String,
    pub(crate) presets: Vec<OpenedPreset>,
    /// What has no counterpart here, and concerns no single preset.
    pub(crate) missing: Vec<Missing>,
}

/// A preset of a file.
#[derive(Debug, Default, Serialize)]
pub(crate) struct OpenedPreset {
    #[serde(flatten)]
    pub(crate) preset: Preset,
    /// The tab of the profile that it is on.
    pub(crate) view: String,
    /// What of it has no counterpart here.
    pub(crate) missing: Vec<Missing>,
}

/// Something that has no counterpart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Missing {
    /// What the file calls it.
    pub(crate) what: String,
    pub(crate) why: String,
}

impl Missing {
    fn new(what: impl Into<String>, why: impl Into<String>) -> Missing {
        Missing { what: what.into(), why: why.into() }
    }
}

/// Reads a file of presets, or a profile of Windows Performance Analyzer.
///
/// # Errors
///
/// Fails if the text is neither.
pub(crate) fn open(name: &str, text: &str) -> Result<Opened> {
    if text.len() > MAX_LEN_BYTES {
        bail!("{name}: larger than {MAX_LEN_BYTES} bytes");
    }
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let mut opened = match text.starts_with('<') {
        true => wpa::read(text),
        false => own(text),
    }
    .with_context(|| name.to_owned())?;
    name.clone_into(&mut opened.name);
    let Opened { presets, missing, .. } = &mut opened;
    presets.retain(|opened| match opened.preset.check() {
        Ok(()) => true,
        Err(error) => {
            missing.push(Missing::new(&opened.preset.name, error.to_string()));
            false
        }
    });
    Ok(opened)
}

/// Reads a file of presets.
fn own(text: &str) -> Result<Opened> {
    let file: PresetFile =
        serde_json::from_str(text).context("neither a file of presets nor a .wpaProfile")?;
    if file.format != FORMAT || file.version != 1 {
        bail!("a file of presets has `\"format\": \"{FORMAT}\"` and `\"version\": 1`");
    }
    if file.presets.len() > MAX_PRESETS {
        bail!("more than {MAX_PRESETS} presets");
    }
    let mut opened = Opened::default();
    for preset in file.presets {
        preset.check()?;
        opened.presets.push(OpenedPreset { preset, ..OpenedPreset::default() });
    }
    Ok(opened)
}

/// Returns presets as the text of a file.
///
/// # Errors
///
/// Fails if a preset is wrong.
pub(crate) fn file_text(presets: &[Preset]) -> Result<String> {
    for preset in presets {
        preset.check()?;
    }
    let mut presets = presets.to_vec();
    for preset in &mut presets {
        preset.remove_filters_of_one_trace();
    }
    let file = PresetFile { format: FORMAT.to_owned(), version: 1, presets };
    Ok(serde_json::to_string_pretty(&file)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_they_were_written() {
        let preset = Preset {
            name: "Disk by file".to_owned(),
            table: "disk".to_owned(),
            keys: vec!["disk".to_owned(), "file".to_owned()],
            values: vec!["sum(size)".to_owned()],
            sort: Some(Sort { by: "sum(size)".to_owned(), descending: true }),
            ..Preset::default()
        };
        let text = file_text(std::slice::from_ref(&preset)).unwrap();
        let opened = open("a.etwpresets", &text).unwrap();
        assert_eq!(opened.presets.len(), 1);
        assert_eq!(opened.presets[0].preset, preset);
        let check = |text: &str, said: &str| {
            let error = format!("{:#}", open("x", text).unwrap_err());
            assert!(error.contains(said), "{error}");
        };
        check("{}", "neither a file of presets");
        check("[1, 2]", "neither a file of presets");
        check(&text.replace("\"version\": 1", "\"version\": 2"), "version");
        check(&text.replace("Disk by file", ""), "name");
        check("<a/>", "no profile");
        check(&" ".repeat(MAX_LEN_BYTES + 1), "larger");
    }

    #[test]
    fn damaged_files_are_refused_or_read() {
        let preset = Preset { name: "A".to_owned(), table: "disk".to_owned(), ..Preset::default() };
        for text in [wpa::tests::SAMPLE, &file_text(&[preset]).unwrap()] {
            etw_testkit::mutate::each(text.as_bytes(), 2000, |bytes| {
                let Ok(opened) = open("x", &String::from_utf8_lossy(bytes)) else { return };
                for opened in &opened.presets {
                    assert!(opened.preset.check().is_ok(), "{opened:?}");
                }
            });
        }
    }

    #[test]
    fn filters_by_row_numbers_are_not_shared() {
        let text = "{\"format\":\"etw view presets\",\"version\":1,\"presets\":[{\"name\":\"a\",\"table\":\"disk\",\
                    \"filters\":[{\"column\":\"file\",\"op\":\"is\",\"value\":\"c7\"},\
                    {\"column\":\"disk\",\"op\":\"is\",\"value\":\"sc\",\"label\":\"c\"}]}]}";
        let preset = open("a", text).unwrap().presets.remove(0).preset;
        let again = open("b", &file_text(&[preset]).unwrap()).unwrap();
        let filters = &again.presets[0].preset.filters;
        assert_eq!(filters.len(), 1);
        assert_eq!((filters[0].value.as_str(), filters[0].label.as_deref()), ("sc", Some("c")));
    }
}
