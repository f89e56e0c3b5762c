//! Words to search for.

use memchr::memchr2_iter;

/// Words that a search must all find. The case of ASCII letters is ignored.
///
/// ```
/// use etw_schema_windows::Words;
///
/// let words = Words::new("dns QUERY");
/// assert!(words.found(&["QueryName"], &["Microsoft-Windows-DNS-Client"]));
/// assert!(!words.found(&["Status"], &["DNS query"]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words(Vec<Box<[u8]>>);

impl Words {
    /// Splits a text at white space.
    pub fn new(text: &str) -> Words {
        Words(text.split_whitespace().map(|word| word.as_bytes().into()).collect())
    }

    /// Returns whether there is no word.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether every word is in one of a thing's own names or in the names of what contains it, and at least
    /// one word in its own names.
    pub fn found(&self, own: &[&str], around: &[&str]) -> bool {
        let any_has = |names: &[&str], word: &[u8]| names.iter().any(|name| contains(name.as_bytes(), word));
        let is_own = |word: &[u8]| any_has(own, word);
        self.0.iter().any(|word| is_own(word))
            && self.0.iter().all(|word| is_own(word) || any_has(around, word))
    }

    /// Returns whether these bytes contain every word.
    pub(crate) fn all_in(&self, bytes: &[u8]) -> bool {
        self.0.iter().all(|word| contains(bytes, word))
    }
}

/// Returns whether bytes contain a word that is not empty, ignoring the case of ASCII letters.
fn contains(bytes: &[u8], word: &[u8]) -> bool {
    let (Some(first), Some(last)) = (word.first(), bytes.len().checked_sub(word.len())) else { return false };
    let starts = bytes.get(..=last).unwrap_or_default();
    memchr2_iter(first.to_ascii_lowercase(), first.to_ascii_uppercase(), starts)
        .any(|at| bytes.get(at..at + word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_ignored() {
        let check = |bytes: &str, word: &str, expected: bool| {
            assert_eq!(contains(bytes.as_bytes(), word.as_bytes()), expected, "{word} in {bytes}");
        };
        check("QueryName", "queryname", true);
        check("QueryName", "NAME", true);
        check("QueryName", "names", false);
        check("Nam", "name", false);
        check("nnNaName", "name", true);
        check("größe", "GRö", true);
        check("", "a", false);
    }

    #[test]
    fn every_word_is_needed_and_one_in_the_own_name() {
        let check = |text: &str, own: &[&str], around: &[&str], expected: bool| {
            assert_eq!(Words::new(text).found(own, around), expected, "{text} in {own:?}, {around:?}");
        };
        check("a b", &["xa", "by"], &[], true);
        check("a b", &["xa"], &["b"], true);
        check("a b", &["xa"], &["c"], false);
        check("a b", &["x"], &["a", "b"], false);
        check("", &["x"], &[], false);
    }
}
