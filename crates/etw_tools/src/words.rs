//! Command-line words in Windows syntax, normalized.
//!
//! Options start with `-` or `/`, in any case. Text pasted from documents may have typographic dashes, and quotation
//! marks that no shell removes. A second dash negates an option (`--v`) in tools that support this.

use std::ffi::OsStr;

use anyhow::Result;
use etw_app::status::usage;

/// Dashes that documents use in place of hyphens.
const DASHES: [char; 7] = ['-', '\u{2010}', '\u{2011}', '\u{2012}', '–', '—', '\u{2212}'];
const QUOTES: [char; 5] = ['“', '”', '„', '«', '»'];

/// A word of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    /// An option, with its name in lower case without dashes.
    Option {
        name: String,
        /// Whether it had two dashes.
        is_doubled: bool,
    },
    /// Anything else.
    Value(String),
}

impl Word {
    /// Parses a word; `is_known` returns whether a lower-case name is an option.
    ///
    /// A word that starts with `/` is an option only if it is known, since absolute paths also start with `/`.
    pub(crate) fn read(word: &OsStr, is_known: impl Fn(&str) -> bool) -> Result<Word> {
        let text = word
            .to_str()
            .ok_or_else(|| usage(format_args!("'{}' is not valid UTF-8", word.to_string_lossy())))?;
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

    /// Returns whether the word requests help.
    pub(crate) fn asks_for_help(&self) -> bool {
        matches!(self, Word::Option { name, .. } if is_help(name))
    }
}

fn is_help(name: &str) -> bool {
    matches!(name, "?" | "h" | "help")
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
}
