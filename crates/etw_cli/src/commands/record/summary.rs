//! What is said when a recording is over.

use std::path::Path;
use std::time::Duration;

use super::embed::Contents;

/// A recording that is over.
pub(super) struct Summary<'s> {
    pub(super) contents: &'s Contents,
    pub(super) took: Duration,
    pub(super) path: &'s Path,
    /// What went wrong meanwhile.
    pub(super) error: Option<String>,
    /// The provider strings, and the kernel's flags.
    pub(super) asked: &'s [&'s str],
    /// Whether the kernel's events were asked for.
    pub(super) is_of_kernel: bool,
}

impl Summary<'_> {
    /// Prints it on standard error, since standard output is the program's.
    pub(super) fn print(&self) {
        let Summary { contents, path, .. } = self;
        let path = path.display();
        if let Some(error) = &self.error {
            eprintln!("etw: {error}");
        }
        let size = size_text(std::fs::metadata(self.path).map_or(0, |file| file.len()));
        let (events, seconds) = (grouped(contents.events), self.took.as_secs_f64());
        let plural = if contents.events == 1 { "" } else { "s" };
        eprintln!("etw: recorded {events} event{plural} in {seconds:.2} s: {}", contents.verdict());
        if contents.events == 0 {
            let names = self.asked.join(", ");
            eprintln!(
                "etw: no program wrote an event that was asked for ({names}); check the name (`etw provider list \
                 --registered` while the program runs), the level and the keywords"
            );
        }
        let command = if self.is_of_kernel { "report" } else { "dump" };
        eprintln!("etw: {path} ({size}); see it with: etw {command} {path}");
    }
}

impl Contents {
    /// Whether anything is missing.
    pub(crate) fn verdict(&self) -> String {
        let mut lost = Vec::new();
        if self.events_lost > 0 {
            lost.push(format!("{} events lost", grouped(self.events_lost)));
        }
        if self.buffers_lost > 0 {
            lost.push(format!("{} buffers not written", grouped(self.buffers_lost)));
        }
        match lost.is_empty() {
            true => "complete".to_owned(),
            false => format!("INCOMPLETE: {} (see docs/recording.md)", lost.join(", ")),
        }
    }
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn size_text(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} bytes"),
        10_240..10_485_760 => format!("{} KB", bytes >> 10),
        _ => format!("{} MB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        let check = |number: u64, expected: (&str, &str)| {
            assert_eq!((grouped(number).as_str(), size_text(number).as_str()), expected);
        };
        check(0, ("0", "0 bytes"));
        check(999, ("999", "999 bytes"));
        check(1_234_567, ("1,234,567", "1205 KB"));
        check(100_000_000_000, ("100,000,000,000", "95367 MB"));
    }
}
