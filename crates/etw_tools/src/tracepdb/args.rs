//! Command line of tracepdb.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;
use etw_app::paths::path;
use etw_app::status::{Failed, code, usage};

use super::find;
use crate::files::symbols_of;
use crate::options::{self, Opt, flag, value, values};

/// PDB files on one command line, of which a shell may have expanded a wildcard.
const MAX_FILES: usize = 4096;

const TABLE: &[Opt] = &[
    values("f", "PDB[;PDB…]", 1, MAX_FILES, "PDB files, with wildcards * and ? [*.pdb]."),
    flag("s", "Search subdirectories too."),
    value("p", "DIR", "Directory of the TMF files [the current one]."),
    values("i", "IMAGE[;IMAGE…]", 1, MAX_FILES, "Program files; their PDB files have the formats."),
    value("r", "DIR[;DIR…]", "Directories of these PDB files."),
    flag("v", "Show the files that are read and written."),
    flag("c", "Refused: TMC files are for TraceView."),
];

/// Returns the text of `tracepdb -?`.
pub(super) fn help() -> String {
    format!(
        "tracepdb: files with the formats of WPP messages (TMF) from PDB files

Usage: tracepdb [-f PDB] [-s] [-p DIR] [-v]
       tracepdb -i IMAGE [-r DIR] [-p DIR] [-v]

Each TMF file is named by its message GUID; existing ones are replaced.

{}
Examples:
  tracepdb -f driver.pdb -p ./tmf
  tracepdb -s -v -p ./tmf                        all PDB files below the current directory
  tracefmt trace.etl -p ./tmf -displayonly       the messages, by these formats
",
        options::help(TABLE)
    )
}

/// The parsed command line.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) files: Vec<PathBuf>,
    pub(super) directory: PathBuf,
    pub(super) verbose: bool,
}

impl Options {
    /// Parses the command line and finds the files; returns `None` if help is requested.
    pub(super) fn parse(words: &[OsString]) -> Result<Option<Options>> {
        let given = options::Options::read(words, TABLE)?;
        if given.asks_for_help {
            return Ok(None);
        }
        let has = |name: &str| given.last(name).is_some();
        if has("c") {
            let text = "-c: TMC files are for TraceView; name the control GUID, as in tracelog -guid '#GUID'";
            return Err(Failed::new(code::NOT_SUPPORTED, text).into());
        }
        if let Some(word) = given.words.first() {
            return Err(usage(format_args!("'{word}': PDB files are named by -f")));
        }
        if has("i") && (has("f") || has("s")) {
            return Err(usage("-i excludes -f and -s"));
        }
        if has("r") && !has("i") {
            return Err(usage("-r needs -i: the directories of the symbol files of programs"));
        }
        let named = |name: &str| -> Result<Vec<PathBuf>> {
            let values = given.all(name).flat_map(|given| &given.values).flat_map(|list| list.split(';'));
            values.filter(|part| !part.is_empty()).map(|part| Ok(path(part)?.into())).collect()
        };
        let mut files = Vec::new();
        if has("i") {
            let directories = named("r")?;
            for image in named("i")? {
                files.push(symbols_of(&image, &directories)?);
            }
        } else {
            let patterns = if has("f") { named("f")? } else { vec![PathBuf::from("*.pdb")] };
            for pattern in patterns {
                files.extend(find::files(&pattern, has("s"))?);
            }
        }
        let directory =
            given.value("p").map(path).transpose()?.map_or_else(|| PathBuf::from("."), PathBuf::from);
        Ok(Some(Options { files, directory: relative(&directory), verbose: has("v") }))
    }
}

/// Returns the current directory as an empty path, so that files in it are shown by their names.
fn relative(directory: &Path) -> PathBuf {
    if directory == Path::new(".") { PathBuf::new() } else { directory.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::differences;

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (line, expected) in [
            ("-wrong", "unknown option -wrong"),
            ("driver.pdb", "'driver.pdb': PDB files are named by -f"),
            ("-f a.pdb -c", "TMC files are for TraceView"),
            ("-f a.pdb -i a.sys", "-i excludes -f and -s"),
            ("-r /tmp", "-r needs -i"),
            ("-f /nowhere/*.pdb", "/nowhere: cannot be read"),
            ("-f /proc/no?hing.pdb", "/proc/no?hing.pdb: no such file"),
            ("-i /nowhere/driver.sys", "its symbol file is neither"),
            ("-f c:\\driver.pdb", "is a Windows path"),
        ] {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            let error = Options::parse(&words).expect_err(line);
            assert!(error.to_string().contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn the_documentation_has_the_same_options() {
        let page = include_str!("../../../../docs/tools/tracepdb.md");
        assert_eq!(differences(TABLE, page), Vec::<String>::new());
    }
}
