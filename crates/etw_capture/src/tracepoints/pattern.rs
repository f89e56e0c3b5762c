//! Patterns of names of tracepoints.

use std::fmt;
use std::str::FromStr;

use super::TracepointName;

/// A pattern that names of tracepoints match: `SYSTEM:NAME`, where `*` stands for any text and `?` for any character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracepointPattern {
    system: String,
    name: String,
}

impl TracepointPattern {
    /// Returns whether a name matches.
    pub fn matches(&self, name: &TracepointName) -> bool {
        is_match(self.system.as_bytes(), name.system.as_bytes())
            && is_match(self.name.as_bytes(), name.name.as_bytes())
    }

    /// Returns whether it has a wildcard, so that it may match several names.
    pub fn has_wildcard(&self) -> bool {
        self.system.contains(['*', '?']) || self.name.contains(['*', '?'])
    }
}

impl FromStr for TracepointPattern {
    type Err = String;

    /// Parses `SYSTEM:NAME`; a system alone stands for all of its tracepoints.
    fn from_str(text: &str) -> Result<TracepointPattern, String> {
        let (system, name) = text.split_once(':').unwrap_or((text, "*"));
        let is_valid = |part: &str| {
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_-.*?".contains(c);
            !part.is_empty() && part.chars().all(is_of_name)
        };
        if !is_valid(system) || !is_valid(name) {
            return Err(format!(
                "'{text}' is not a tracepoint; expected SYSTEM:NAME, such as sched:sched_switch or sched:*"
            ));
        }
        Ok(TracepointPattern { system: system.to_owned(), name: name.to_owned() })
    }
}

impl fmt::Display for TracepointPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.system, self.name)
    }
}

/// Returns whether a text matches a pattern. This takes at most the product of their lengths.
fn is_match(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut of_text) = (0, 0);
    // The last star, and where the text after it starts.
    let mut star = None;
    while let Some(byte) = text.get(of_text) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, of_text));
                at += 1;
            }
            Some(expected) if *expected == b'?' || expected == byte => {
                at += 1;
                of_text += 1;
            }
            _ => {
                let Some((last, from)) = star else { return false };
                star = Some((last, from + 1));
                at = last + 1;
                of_text = from + 1;
            }
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_patterns() {
        let name = TracepointName { system: "sched".into(), name: "sched_process_exec".into() };
        let check = |pattern: &str, expected: bool| {
            let pattern: TracepointPattern = pattern.parse().unwrap();
            assert_eq!(pattern.matches(&name), expected, "{pattern}");
        };
        check("sched:sched_process_exec", true);
        check("sched", true);
        check("sched:*", true);
        check("*:*_exec", true);
        check("s*d:sched_*_exe?", true);
        check("*:**", true);
        check("sched:sched_process_exe", false);
        check("sched:sched_process_exec?", false);
        check("sched:process_exec", false);
        check("*x:*", false);
        check("sched:*_fork", false);
        for wrong in ["", ":", "sched:", ":x", "a:b:c", "a b:c", "../x:y", "a:b/c"] {
            assert!(wrong.parse::<TracepointPattern>().is_err(), "{wrong}");
        }
        assert!("sched".parse::<TracepointPattern>().unwrap().has_wildcard());
        assert!(!"a:b".parse::<TracepointPattern>().unwrap().has_wildcard());
    }
}
