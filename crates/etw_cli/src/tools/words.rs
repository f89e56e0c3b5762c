//! Words of a command line as Windows's tools have them, brought to one form.
//!
//! Options begin with `-` or `/`, in any case; from documents come dashes that word processors made of hyphens, and
//! quotation marks that no shell takes away. A second dash says the opposite (`--v`), where a tool has that.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;

use anyhow::{Result, anyhow};

use super::status::{Failed, code};

/// What documents have for hyphens.
const DASHES: [char; 7] = ['-', '\u{2010}', '\u{2011}', '\u{2012}', '–', '—', '\u{2212}'];
const QUOTES: [char; 5] = ['“', '”', '„', '«', '»'];

/// A word of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    /// An option, by its name in lower case without dashes.
    Option {
        name: String,
        /// Whether it had two dashes.
        is_doubled: bool,
    },
    /// Anything else.
    Value(String),
}

impl Word {
    /// Reads a word; `is_known` says whether a name, in lower case, is that of an option.
    ///
    /// A word that begins with `/` is an option only if it is known, since paths begin so here.
    pub(crate) fn read(word: &OsStr, is_known: impl Fn(&str) -> bool) -> Result<Word> {
        let text = word.to_str().ok_or_else(|| {
            usage(format_args!("'{}' is no text: names have to be UTF-8", word.to_string_lossy()))
        })?;
        let value = || Word::Value(text.trim_matches(QUOTES).to_owned());
        let Some(bare) = text.strip_prefix(DASHES) else {
            let option = text.strip_prefix('/').map(str::to_lowercase);
            let option = option.filter(|name| is_known(name) || is_help(name));
            return Ok(option.map_or_else(value, |name| Word::Option { name, is_doubled: false }));
        };
        let doubled = bare.strip_prefix(DASHES);
        let name = doubled.unwrap_or(bare).to_lowercase();
        let is_number = name.starts_with(|first: char| first.is_ascii_digit());
        match name.is_empty() || is_number && !is_known(&name) {
            true => Ok(value()),
            false => Ok(Word::Option { name, is_doubled: doubled.is_some() }),
        }
    }

    /// Whether it asks for help.
    pub(crate) fn asks_for_help(&self) -> bool {
        matches!(self, Word::Option { name, .. } if is_help(name))
    }
}

fn is_help(name: &str) -> bool {
    matches!(name, "?" | "h" | "help")
}

/// The path of a file, unless it is one of Windows, of which nothing good would come here.
pub(crate) fn path(text: &str) -> Result<OsString> {
    let mut first = text.chars();
    let has_drive = first.next().is_some_and(|letter| letter.is_ascii_alphabetic())
        && first.next() == Some(':')
        && first.next().is_some();
    let is_of_windows =
        has_drive || text.contains('\\') || (text.starts_with('%') && text.matches('%').count() > 1);
    if !is_of_windows {
        return Ok(text.into());
    }
    // Where a shell took the backslashes away, nobody knows where names began.
    let name =
        text.rsplit(['\\', ':', '%', '/']).next().filter(|name| !name.is_empty()).unwrap_or("trace.etl");
    Err(Failed::new(
        code::PATH_NOT_FOUND,
        format!("'{text}' is a path of Windows; write one of this system, as {name} or /tmp/{name}"),
    )
    .into())
}

/// What the user typed makes no sense.
pub(crate) fn usage(text: impl Display) -> anyhow::Error {
    anyhow!(Failed::new(code::INVALID_PARAMETER, text.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(word: &str) -> Word {
        Word::read(OsStr::new(word), |name| ["ets", "p", "v", "4k"].contains(&name)).unwrap()
    }

    #[test]
    fn options_have_one_form() {
        let check = |word: &str, name: &str, is_doubled: bool| {
            assert_eq!(read(word), Word::Option { name: name.to_owned(), is_doubled }, "{word}");
        };
        for word in ["-ets", "/ets", "–ets", "—ets", "-ETS", "/Ets", "\u{2212}ets", "\u{2011}ets"] {
            check(word, "ets", false);
        }
        check("--v", "v", true);
        check("––v", "v", true);
        check("-4K", "4k", false);
        check("-unknown", "unknown", false);
        for word in ["-?", "/?", "--help", "-h", "/HELP"] {
            assert!(read(word).asks_for_help(), "{word}");
        }
    }

    #[test]
    fn all_else_is_a_value() {
        for word in
            ["MySession", "/tmp/trace.etl", "/p/x", "/unknown", "-", "-5", "0xff", "", "–", "a-b", "a–ets"]
        {
            assert_eq!(read(word), Word::Value(word.to_owned()), "{word}");
        }
        assert_eq!(read("“MyProvider”"), Word::Value("MyProvider".to_owned()));
        let broken = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff".as_slice());
        assert!(Word::read(broken, |_| false).is_err());
    }

    #[test]
    fn paths_of_windows_are_told_what_to_be() {
        let check = |text: &str, hint: &str| {
            let error = path(text).expect_err(text).to_string();
            assert!(error.contains(&format!("as {hint} or /tmp/{hint}")), "{error}");
        };
        check(r"c:\trace.etl", "trace.etl");
        check("c:trace.etl", "trace.etl");
        check(r"C:\Perf Logs\a.etl", "a.etl");
        check(r"\\server\share\a.etl", "a.etl");
        check(r"logs\a.etl", "a.etl");
        check("%TEMP%a.etl", "a.etl");
        check("C:/x/a.etl", "a.etl");
        check(r"c:\", "trace.etl");
        for text in ["trace.etl", "/tmp/a b.etl", "part%d.etl", "50%.etl", "x", "c:"] {
            assert_eq!(path(text).unwrap(), text, "{text}");
        }
    }
}
