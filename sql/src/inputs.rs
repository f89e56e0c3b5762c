//! The traces of a command line: files, objects, directories, patterns, and names for them.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use etw_app::UsageError;
use etw_app::input::{is_trace_name, open_confined};
use etw_app::urls::is_url;

use crate::opened::Files;

/// What names of traces in directories end with, as messages have it.
const NAMES: &str = ".etl, .nettrace, .netperf, perf.data, .zst, .gz, .zip";

/// A trace, and the name that it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Input {
    /// A path or a URL.
    pub(crate) path: PathBuf,
    /// Name of the schema of its own.
    pub(crate) name: Option<String>,
}

/// Traces as words of a command line, each with its name.
pub(crate) type Words = Vec<(String, Option<String>)>;

/// Splits the words of a command line into traces and a query: the last word is the query if it has blanks and is not a
/// file.
///
/// # Errors
///
/// Fails if a name is missing.
pub(crate) fn split(words: &[String], has_script: bool) -> Result<(Words, Option<String>)> {
    let (words, query) = match words.split_last() {
        Some((last, rest))
            if !has_script && last.contains(char::is_whitespace) && !Path::new(last).exists() =>
        {
            (rest, Some(last.clone()))
        }
        _ => (words, None),
    };
    let mut traces = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let name = match words.next_if(|next| next.eq_ignore_ascii_case("as")) {
            Some(_) => {
                Some(words.next().cloned().ok_or_else(|| UsageError("a name is missing after AS".into()))?)
            }
            None => None,
        };
        traces.push((word.clone(), name));
    }
    Ok((traces, query))
}

/// Returns the traces that words mean.
///
/// # Errors
///
/// Fails if there are none, or if a directory or a bucket cannot be read.
pub(crate) fn expand(words: &[(String, Option<String>)], files: &Files) -> Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for (word, name) in words {
        let mut paths = match is_url(Path::new(word)) {
            true => objects(word, files)?,
            false => expanded(word)?,
        };
        paths.sort();
        inputs.extend(paths.into_iter().map(|path| Input { path, name: name.clone() }));
    }
    Ok(inputs)
}

/// Returns the traces that a URL means.
///
/// # Errors
///
/// Fails if there are none, or if a bucket cannot be read.
pub(crate) fn objects(word: &str, files: &Files) -> Result<Vec<PathBuf>> {
    let name = word.rsplit('/').next().unwrap_or_default();
    // In other URLs, `?` begins what is not the path.
    let is_pattern = name.contains('*') || name.contains('?') && word.starts_with("s3://");
    if !is_pattern && !word.ends_with('/') {
        return Ok(vec![PathBuf::from(word)]);
    }
    let is_wanted = |found: &str| match is_pattern {
        true => is_match(name.as_bytes(), found.as_bytes()),
        false => is_trace_name(found),
    };
    let found = files.remote()?.list(word, is_wanted)?;
    match found.is_empty() {
        true if is_pattern => bail!("no object matches '{word}'"),
        true => bail!("'{word}' has no traces ({NAMES})"),
        false => Ok(found.into_iter().map(PathBuf::from).collect()),
    }
}

/// Returns the traces that a word means.
fn expanded(word: &str) -> Result<Vec<PathBuf>> {
    let path = Path::new(word);
    if is_kind(path, Metadata::is_dir) {
        let found: Vec<PathBuf> = listed(path)?.into_iter().filter(|path| is_trace(path)).collect();
        if found.is_empty() {
            bail!("'{word}' has no traces ({NAMES})");
        }
        return Ok(found);
    }
    let is_pattern = |part: &OsStr| part.as_encoded_bytes().iter().any(|byte| b"*?".contains(byte));
    if is_kind(path, |_| true) || !path.iter().any(is_pattern) {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = vec![PathBuf::new()];
    for part in path.iter() {
        if !is_pattern(part) {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        }
        let is_directory = |path: &Path| path.as_os_str().is_empty() || is_kind(path, Metadata::is_dir);
        let mut matching = Vec::new();
        for directory in found.iter().filter(|path| is_directory(path)) {
            let is_match = |path: &PathBuf| {
                let name = path.file_name().unwrap_or_default();
                is_match(part.as_encoded_bytes(), name.as_encoded_bytes())
            };
            matching.extend(listed(directory)?.into_iter().filter(is_match));
        }
        found = matching;
    }
    found.retain(|path| is_kind(path, Metadata::is_file));
    match found.is_empty() {
        true => bail!("no file matches '{word}'"),
        false => Ok(found),
    }
}

/// Whether there is something of a kind at a path; in a cluster, also whether clients may name it.
fn is_kind(path: &Path, is_wanted: impl Fn(&Metadata) -> bool) -> bool {
    let found = match open_confined(path) {
        Some(opened) => opened.ok().and_then(|file| file.metadata().ok()),
        None => path.metadata().ok(),
    };
    found.is_some_and(|found| is_wanted(&found))
}

fn listed(directory: &Path) -> Result<Vec<PathBuf>> {
    if let Some(opened) = open_confined(directory) {
        let names =
            etw_sys::names_in(&opened?, directory).with_context(|| directory.display().to_string())?;
        return Ok(names.into_iter().map(|name| directory.join(name)).collect());
    }
    let here = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let entries = std::fs::read_dir(here).with_context(|| directory.display().to_string())?;
    let path = |entry: std::io::Result<std::fs::DirEntry>| Ok(directory.join(entry?.file_name()));
    entries.map(path).collect::<Result<_>>().with_context(|| directory.display().to_string())
}

fn is_trace(path: &Path) -> bool {
    is_kind(path, Metadata::is_file)
        && path.file_name().and_then(|name| name.to_str()).is_some_and(is_trace_name)
}

/// Whether a name matches a pattern, in which `*` stands for any bytes and `?` for one.
fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Where to go on after the last `*` has taken one more byte.
    let mut retry = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, n));
                p += 1;
            }
            Some(wanted) if *wanted == b'?' || *wanted == name[n] => (p, n) = (p + 1, n + 1),
            _ => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    (p, n) = (star + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::OpenOptions;

    fn expand(words: &[(String, Option<String>)]) -> Result<Vec<Input>> {
        super::expand(words, &Files::new(OpenOptions::default(), None, 1 << 20))
    }

    #[test]
    fn patterns_match_names() {
        let check = |pattern: &str, name: &str, expected| {
            assert_eq!(is_match(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        };
        check("*.etl", "a.etl", true);
        check("*.etl", "a.etl.gz", false);
        check("a?c*e", "abcdde", true);
        check("a*b*c", "aXbYbZc", true);
        check("a*b*c", "aXbYbZ", false);
        check("?", "", false);
        check("**", "", true);
    }

    #[test]
    fn words_are_traces_names_and_a_query() {
        let words = |text: &[&str]| text.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let (traces, query) = split(&words(&["a.etl", "as", "one", "b.etl", "select 1"]), false).unwrap();
        assert_eq!(query.as_deref(), Some("select 1"));
        let inputs = expand(&traces).unwrap();
        assert_eq!(inputs[0], Input { path: "a.etl".into(), name: Some("one".into()) });
        assert_eq!(inputs[1], Input { path: "b.etl".into(), name: None });
        assert_eq!(split(&words(&["a.etl"]), false).unwrap().1, None);
        assert!(split(&words(&["a.etl", "AS"]), false).is_err());
        assert!(expand(&[("/nowhere/*.etl".to_owned(), None)]).is_err());
    }

    #[test]
    fn patterns_may_be_in_directories() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["one", "two", "other", "two.etl"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        for name in ["one/a.etl", "two/a.etl", "two/b.etl", "other/a.etl", "three", "two/day.txt"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let check = |pattern: &str, expected: &[&str]| {
            let word = directory.path().join(pattern).to_str().unwrap().to_owned();
            let found = expand(&[(word, None)]).unwrap();
            let names: Vec<_> = found
                .iter()
                .map(|input| input.path.strip_prefix(directory.path()).unwrap().to_str().unwrap())
                .collect();
            assert_eq!(names, expected, "{pattern}");
        };
        check("t*/*.etl", &["two/a.etl", "two/b.etl"]);
        check("*/a.etl", &["one/a.etl", "other/a.etl", "two/a.etl"]);
        check("two/*.etl", &["two/a.etl", "two/b.etl"]);
        check("???/b.?tl", &["two/b.etl"]);
        assert!(expand(&[(directory.path().join("x*/a.etl").to_str().unwrap().to_owned(), None)]).is_err());
    }

    #[test]
    fn directories_are_their_traces() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["b.ETL", "a.etl.zst", "c.zip", "d.txt", "e.txt.gz"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let inputs = expand(&[(directory.path().to_str().unwrap().to_owned(), None)]).unwrap();
        let names: Vec<_> =
            inputs.iter().map(|input| input.path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a.etl.zst", "b.ETL", "c.zip"]);
    }
}
