//! Patterns for names of modules and functions.

use super::stacks::StackFrame;

/// A pattern for frames: `module!function`, or only one of both.
///
/// `*` is any text and `?` any character; case is ignored. Without `!`, the pattern is for the function, and also for
/// the whole `module!function`. The name of a process is a function without a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FramePattern {
    text: Box<str>,
    module: Option<Wildcard>,
    function: Wildcard,
}

impl FramePattern {
    /// Returns the pattern of a text.
    pub fn new(text: &str) -> FramePattern {
        let (module, function) = match text.split_once('!') {
            Some((module, function)) => (Some(Wildcard::new(module)), Wildcard::new(function)),
            None => (None, Wildcard::new(text)),
        };
        FramePattern { text: text.into(), module, function }
    }

    /// Returns the text of the pattern.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether a frame matches.
    pub fn matches(&self, frame: &StackFrame) -> bool {
        let (module, name) = (frame.module().unwrap_or("?"), frame.name().unwrap_or("?"));
        match &self.module {
            Some(wanted) => wanted.matches(module) && self.function.matches(name),
            None => self.function.matches(name) || self.function.matches(&frame.to_string()),
        }
    }
}

/// A text with `*` and `?`; case is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wildcard(Box<[char]>);

impl Wildcard {
    pub(super) fn new(text: &str) -> Wildcard {
        let mut lower = lower(text);
        // Several asterisks are one, but would cost time as several.
        lower.dedup_by(|next, one| *next == '*' && *one == '*');
        Wildcard(lower.into())
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.matches_lower(&lower(text))
    }

    /// Returns whether a text in lower case matches.
    pub(super) fn matches_lower(&self, text: &[char]) -> bool {
        let pattern = &self.0;
        let (mut at, mut next) = (0, 0);
        // Where the last asterisk is, and the first character that is not its own.
        let mut retry: Option<(usize, usize)> = None;
        while let Some(character) = text.get(next) {
            match pattern.get(at) {
                Some('*') => {
                    retry = Some((at, next));
                    at += 1;
                }
                Some(one) if *one == '?' || one == character => (at, next) = (at + 1, next + 1),
                _ => match &mut retry {
                    Some((asterisk, start)) => {
                        *start += 1;
                        (at, next) = (*asterisk + 1, *start);
                    }
                    None => return false,
                },
            }
        }
        pattern.iter().skip(at).all(|one| *one == '*')
    }
}

/// Returns the characters of a text in lower case.
pub(super) fn lower(text: &str) -> Vec<char> {
    text.chars().map(|one| one.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asterisks_and_question_marks() {
        let check = |pattern: &str, text: &str, expected: bool| {
            assert_eq!(Wildcard::new(pattern).matches(text), expected, "{pattern} {text}");
        };
        check("", "", true);
        check("", "a", false);
        check("*", "", true);
        check("**", "abc", true);
        check("Nt*.EXE", "ntoskrnl.exe", true);
        check("nt*.exe", "ntdll.dll", false);
        check("*heap*", "RtlAllocateHeapInternal", true);
        check("a?c", "abc", true);
        check("a?c", "ac", false);
        check("*ab", "aab", true);
        check("*a*b*c", "xaxbxbxc", true);
        check("*a*b*c", "xaxcxb", false);
        check("operator new", "operator new", true);
    }

    #[test]
    fn a_pattern_is_for_modules_functions_or_both() {
        let frame = StackFrame::function(Some("ntdll.dll"), Some("RtlAllocateHeap"), true);
        let check = |pattern: &str, expected: bool| {
            assert_eq!(FramePattern::new(pattern).matches(&frame), expected, "{pattern}");
        };
        check("rtlallocateheap", true);
        check("*heap", true);
        check("ntdll*", true);
        check("heap", false);
        check("ntdll.dll!*", true);
        check("kernel32.dll!*", false);
        check("*!Rtl*", true);
        check("ntdll.dll!?", false);
        let nameless = StackFrame::function(Some("ntdll.dll"), None, true);
        assert!(FramePattern::new("ntdll.dll!?").matches(&nameless));
        assert!(FramePattern::new("make").matches(&StackFrame::process(Some("make"))));
    }
}
