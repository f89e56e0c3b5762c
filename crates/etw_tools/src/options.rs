//! Options of a tool: one table both for parsing the command line and for the help.

use std::ffi::OsString;
use std::fmt::Write;

use anyhow::Result;
use etw_app::status::usage;
use etw_app::text::wide_number;

use crate::words::Word;

/// An option: one row of a tool's table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opt {
    /// Name in lower case, without the dash.
    name: &'static str,
    /// Placeholder for the values in the help.
    values: &'static str,
    least: usize,
    most: usize,
    can_be_negated: bool,
    help: &'static str,
}

/// Returns an option without values.
pub(crate) const fn flag(name: &'static str, help: &'static str) -> Opt {
    Opt { name, values: "", least: 0, most: 0, can_be_negated: false, help }
}

/// Returns an option with one value.
pub(crate) const fn value(name: &'static str, value: &'static str, help: &'static str) -> Opt {
    values(name, value, 1, 1, help)
}

/// Returns an option with a range of value counts.
pub(crate) const fn values(
    name: &'static str,
    values: &'static str,
    least: usize,
    most: usize,
    help: &'static str,
) -> Opt {
    Opt { name, values, least, most, can_be_negated: false, help }
}

impl Opt {
    /// Returns whether the option has this name.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name == name
    }

    /// Allows the option to be negated with two dashes, with or without values.
    pub(crate) const fn or_not(mut self) -> Opt {
        self.can_be_negated = true;
        self
    }
}

/// An option on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) name: &'static str,
    pub(crate) is_negated: bool,
    pub(crate) values: Vec<String>,
}

/// A parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Words outside of options.
    pub(crate) words: Vec<String>,
    /// Options in the order given.
    pub(crate) given: Vec<Given>,
    /// Whether help was requested; everything else is then ignored.
    pub(crate) asks_for_help: bool,
}

impl Options {
    /// Parses a command line with a table of options.
    ///
    /// Fails for an unknown option, and for an option without its values.
    pub(crate) fn read(words: &[OsString], table: &[Opt]) -> Result<Options> {
        let mut options = Options::default();
        let mut open: Option<(Given, Opt)> = None;
        let find = |name: &str| table.iter().find(|option| option.name == name);
        for word in words {
            let word = Word::read(word, |name| find(name).is_some())?;
            let (name, is_doubled) = match word {
                Word::Value(value) => {
                    match &mut open {
                        Some((given, option)) if given.values.len() < option.most => given.values.push(value),
                        _ => options.words.push(value),
                    }
                    continue;
                }
                ref word if word.asks_for_help() => {
                    options.asks_for_help = true;
                    return Ok(options);
                }
                Word::Option { name, is_doubled } => (name, is_doubled),
            };
            options.close(open.take())?;
            let option = find(&name).ok_or_else(|| usage(format_args!("unknown option -{name}")))?;
            let is_negated = is_doubled && option.can_be_negated;
            open = Some((Given { name: option.name, is_negated, values: Vec::new() }, *option));
        }
        options.close(open)?;
        Ok(options)
    }

    fn close(&mut self, open: Option<(Given, Opt)>) -> Result<()> {
        let Some((given, option)) = open else { return Ok(()) };
        if given.values.len() < option.least && !given.is_negated {
            return Err(usage(format_args!("-{} needs {}", option.name, option.values)));
        }
        self.given.push(given);
        Ok(())
    }

    /// Returns whether the command line is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.given.is_empty()
    }

    /// Returns whether an option is set, by its last occurrence: `Some(false)` if that is negated, `None` without one.
    pub(crate) fn is_set(&self, name: &str) -> Option<bool> {
        self.last(name).map(|given| !given.is_negated)
    }

    /// Returns the last occurrence of an option.
    pub(crate) fn last(&self, name: &str) -> Option<&Given> {
        self.given.iter().rfind(|given| given.name == name)
    }

    /// Returns all occurrences of an option, in order.
    pub(crate) fn all<'o>(&'o self, name: &'o str) -> impl Iterator<Item = &'o Given> {
        self.given.iter().filter(move |given| given.name == name)
    }

    /// Returns the value of an option, unless its last occurrence is negated.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let given = self.last(name).filter(|given| !given.is_negated)?;
        given.values.first().map(String::as_str)
    }

    /// Returns the number given as an option's value.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u32>> {
        self.value(name).map(|text| number_of(name, text)).transpose()
    }
}

/// Parses a 32-bit number, in decimal or in hexadecimal with `0x`.
pub(crate) fn number_of(name: &str, text: &str) -> Result<u32> {
    let number = wide_number(text).and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| usage(format_args!("-{name}: '{text}' is not a number from 0 to 4294967295")))
}

/// Parses `[[hh:]mm:]ss` with optional fractions of seconds, and returns milliseconds; 0 selects the session's default.
pub(crate) fn millis_of(name: &str, text: &str) -> Result<u32> {
    let wrong = || usage(format_args!("-{name} {text}: expected [[hh:]mm:]ss, up to 49 days"));
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 {
        return Err(wrong());
    }
    let mut seconds = 0.0;
    for part in parts {
        let part: f64 = part.parse().map_err(|_| wrong())?;
        seconds = seconds * 60.0 + part;
    }
    let millis = (seconds * 1000.0).round();
    match (0.0..=f64::from(u32::MAX)).contains(&millis) {
        true => Ok(millis as u32),
        false => Err(wrong()),
    }
}

/// Formats a table of options as help text.
pub(crate) fn help(table: &[Opt]) -> String {
    let mut text = String::new();
    for option in table {
        let dash = if option.can_be_negated { "-[-]" } else { "-" };
        let head = format!("{dash}{} {}", option.name, option.values);
        // Syntax wider than the column gets a line of its own.
        match head.trim_end() {
            head if head.chars().count() > 24 => {
                let _ = writeln!(text, "  {head}\n  {:24}  {}", "", option.help);
            }
            head => {
                let _ = writeln!(text, "  {head:24}  {}", option.help);
            }
        }
    }
    text
}

/// Returns the differences between a table and its documentation page: options that only one of them has.
///
/// In the page, every code span that starts with a dash is an option of the tool.
#[cfg(test)]
pub(crate) fn differences(table: &[Opt], page: &str) -> Vec<String> {
    let is_in_table = |name: &str| table.iter().any(|option| option.name == name);
    let words = page.split(['`', '|', '\\']).flat_map(str::split_whitespace);
    let is_in_page = |name: &str| words.clone().any(|word| option_of(word).as_deref() == Some(name));
    let lacks = table.iter().filter(|option| !is_in_page(option.name));
    let lacks = lacks.map(|option| format!("the page lacks -{}", option.name));
    // Lines have an even number of backticks, except the fences of examples, whose lines have none.
    let spans = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let names = spans.filter_map(|span| option_of(span.split_whitespace().next()?));
    let unknown = names.filter(|name| name != "help" && !is_in_table(name));
    lacks.chain(unknown.map(|name| format!("the table lacks -{name}"))).collect()
}

/// Returns the option name in a word of a page.
#[cfg(test)]
fn option_of(word: &str) -> Option<String> {
    let name = word.trim_start_matches('[').strip_prefix('-')?.trim_start_matches('-').to_lowercase();
    Some(name.trim_matches(|c: char| !c.is_alphanumeric()).to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Opt] = &[
        flag("ets", "Directly."),
        value("o", "FILE", "The file."),
        values("p", "PROVIDER [FLAGS [LEVEL]]", 1, 3, "A provider.").or_not(),
        values("v", "[FORMAT]", 0, 1, "Versions.").or_not(),
    ];

    fn read(line: &str) -> Result<Options> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Options::read(&words, TABLE)
    }

    #[test]
    fn values_go_to_their_options() {
        let options = read("start S –p A 0xff 5 /P B --p -o /tmp/x.etl -ETS --v last").unwrap();
        assert_eq!(options.words, ["start", "S"]);
        let providers: Vec<_> =
            options.all("p").map(|given| (given.is_negated, given.values.join(" "))).collect();
        assert_eq!(providers, [(false, "A 0xff 5".into()), (false, "B".into()), (true, String::new())]);
        assert_eq!((options.value("o"), options.is_set("ets")), (Some("/tmp/x.etl"), Some(true)));
        assert_eq!((options.is_set("v"), options.value("v")), (Some(false), None));
        assert_eq!(read("-p A B C D").unwrap().words, ["D"]);
        assert!(read("start -unknown /?").is_err());
        assert!(read("start /? -unknown").unwrap().asks_for_help);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |line: &str, expected: &str| assert_eq!(read(line).unwrap_err().to_string(), expected);
        check("-foo", "unknown option -foo");
        check("-o -ets", "-o needs FILE");
        check("-p", "-p needs PROVIDER [FLAGS [LEVEL]]");
        assert_eq!(number_of("bs", "0x40").unwrap(), 64);
        let error = number_of("bs", "large").unwrap_err().to_string();
        assert_eq!(error, "-bs: 'large' is not a number from 0 to 4294967295");
        for (text, millis) in [("1", 1000), ("0.25", 250), ("1:30", 90_000), ("1:00:00", 3_600_000), ("0", 0)]
        {
            assert_eq!(millis_of("ft", text).unwrap(), millis, "{text}");
        }
        for text in ["soon", "-1", "1:2:3:4", "99999999", "", "nan", "inf"] {
            assert!(millis_of("ft", text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_help_has_a_line_for_each() {
        let text = help(TABLE);
        assert!(text.contains("\n  -o FILE                   The file.\n"), "{text}");
        assert!(text.contains("\n  -[-]v [FORMAT]            Versions.\n"), "{text}");
        assert!(text.contains("  -[-]p PROVIDER [FLAGS [LEVEL]]\n"), "{text}");
    }

    #[test]
    fn pages_and_tables_differ_both_ways() {
        let page =
            "```sh\ntool -x -ets\n```\n`-o FILE`, `-P`|`--p`: see `-ets [-v]`, as `other -w` has it; `-help`";
        assert_eq!(differences(TABLE, page), Vec::<String>::new());
        let page = "`-o`, `-p`, `-vv`";
        assert_eq!(
            differences(TABLE, page),
            ["the page lacks -ets", "the page lacks -v", "the table lacks -vv"]
        );
    }
}
