//! Command line of tracefmt.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use etw_app::paths::path;
use etw_app::status::{Failed, code, usage};

use crate::files::symbols_of;
use crate::options::{self, Opt, flag, value, values};

/// Environment variable with the default search path of formats.
const SEARCH_PATH: &str = "TRACE_FORMAT_SEARCH_PATH";
/// Default session of `-rt`.
const DEFAULT_SESSION: &str = "NT Kernel Logger";

const TABLE: &[Opt] = &[
    values("rt", "[SESSION]", 0, 1, "A live session in place of files [NT Kernel Logger]."),
    value("tmf", "FILE", "File with message formats."),
    value("p", "DIR[;DIR…]", "Directories of format files [%TRACE_FORMAT_SEARCH_PATH%]."),
    value("pdb", "FILE[;FILE…]", "Symbol files with formats."),
    value("i", "IMAGE[;IMAGE…]", "Program files; their symbol files contain the formats."),
    value("r", "DIR[;DIR…]", "Directories of these symbol files."),
    value("o", "FILE", "Output file of messages; the summary goes to FILE.sum [FmtFile.txt and FmtSum.txt]."),
    flag("csv", "Comma-separated values, with columns before each message."),
    flag("csvheader", "A header line with the column names."),
    flag("csvquote", "Accepted: quotation marks are always doubled."),
    flag("display", "Also print messages to standard output."),
    flag("displayonly", "Only print messages to standard output."),
    flag("nosummary", "No summary."),
    flag("summaryonly", "Only the summary."),
    flag("noprefix", "No prefix."),
    flag("seq", "Sequence numbers in the prefix."),
    flag("hires", "Times with full precision, 100 ns."),
    flag("sortabletime", "Times that sort as text: year first."),
    flag("gmt", "Accepted: times are always in UTC."),
    flag("utc", "The same."),
    flag("ods", "Refused: messages cannot be sent to a debugger."),
    flag("trace", "Report which files are read."),
    flag("v", "Report what was read from each file."),
];

/// Returns the text of `tracefmt -?`.
pub(super) fn help() -> String {
    format!(
        "tracefmt: messages of traces as text

Usage: tracefmt [FILE … | -rt SESSION] [-tmf FILE | -p DIR] [options]

Without a file or session it reads logfile.etl. The prefix of each message is what %TRACE_FORMAT_PREFIX% says.

{}
Examples:
  tracefmt trace.etl -p ./tmf -o trace.txt
  tracefmt -rt MySession -tmf driver.tmf -displayonly -nosummary
  TRACE_FORMAT_PREFIX='%2!s!: %!FUNC!: %8!04x!.%3!04x!: %4!s!: ' tracefmt trace.etl -p ./tmf
",
        options::help(TABLE)
    )
}

/// The parsed command line.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub(super) files: Vec<PathBuf>,
    pub(super) session: Option<String>,
    pub(super) schemas: Vec<PathBuf>,
    /// The output file of messages.
    pub(super) output: Option<PathBuf>,
    pub(super) summary: Option<PathBuf>,
    pub(super) display: bool,
    pub(super) csv: bool,
    pub(super) csv_header: bool,
    pub(super) no_prefix: bool,
    pub(super) sequence: bool,
    pub(super) all_digits: bool,
    pub(super) sortable_time: bool,
    pub(super) tell_files: bool,
    pub(super) verbose: bool,
}

impl Options {
    /// Parses the command line; returns `None` if help is requested.
    pub(super) fn parse(words: &[OsString]) -> Result<Option<Options>> {
        let given = options::Options::read(words, TABLE)?;
        if given.asks_for_help {
            return Ok(None);
        }
        let has = |name: &str| given.last(name).is_some();
        if has("ods") {
            let text = "-ods: messages cannot be sent to a debugger; -display shows them here";
            return Err(Failed::new(code::NOT_SUPPORTED, text).into());
        }
        for (one, other) in
            [("displayonly", "summaryonly"), ("nosummary", "summaryonly"), ("csvheader", "noprefix")]
        {
            if has(one) && has(other) {
                return Err(usage(format_args!("-{one} and -{other} exclude each other")));
            }
        }
        let mut options = Options {
            session: given.last("rt").map(|given| match given.values.first() {
                Some(name) => name.clone(),
                None => DEFAULT_SESSION.to_owned(),
            }),
            display: has("display") || has("displayonly"),
            csv: has("csv") || has("csvheader") || has("csvquote"),
            csv_header: has("csvheader"),
            no_prefix: has("noprefix"),
            sequence: has("seq"),
            all_digits: has("hires"),
            sortable_time: has("sortabletime"),
            tell_files: has("trace"),
            verbose: has("v"),
            ..Options::default()
        };
        for file in &given.words {
            options.files.push(path(file)?.into());
        }
        if options.files.is_empty() && options.session.is_none() {
            options.files.push("logfile.etl".into());
        }
        let output = given.value("o").map(path).transpose()?.map(PathBuf::from);
        let of_output = output.as_ref().map(|path| {
            let mut name = path.clone().into_os_string();
            name.push(".sum");
            PathBuf::from(name)
        });
        if !has("nosummary") {
            options.summary = Some(of_output.unwrap_or_else(|| "FmtSum.txt".into()));
        }
        if !has("displayonly") && !has("summaryonly") {
            options.output = Some(output.unwrap_or_else(|| "FmtFile.txt".into()));
        }
        options.schemas = schemas(&given)?;
        Ok(Some(options))
    }
}

/// Returns the files and directories with formats.
fn schemas(given: &options::Options) -> Result<Vec<PathBuf>> {
    let list = |text: &str| -> Result<Vec<PathBuf>> {
        let parts = text.split(';').filter(|part| !part.is_empty());
        parts.map(|part| Ok(path(part)?.into())).collect()
    };
    let of = |name: &str| given.value(name).map_or_else(|| Ok(Vec::new()), list);
    let mut found = of("tmf")?;
    found.extend(of("p")?);
    found.extend(of("pdb")?);
    let symbols = of("r")?;
    for image in of("i")? {
        found.push(symbols_of(&image, &symbols)?);
    }
    if found.is_empty()
        && let Ok(paths) = std::env::var(SEARCH_PATH)
    {
        found.extend(list(&paths)?);
    }
    if let Some(missing) = found.iter().find(|path| !path.exists()) {
        let text = format!("{}: no such file or directory", missing.display());
        return Err(Failed::new(code::FILE_NOT_FOUND, text).into());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::differences;

    fn parse(line: &str) -> Result<Options> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Options::parse(&words).map(|options| options.expect("no help"))
    }

    #[test]
    fn documented_command_lines() {
        let options = parse("").unwrap();
        assert_eq!(options.files, [PathBuf::from("logfile.etl")]);
        assert_eq!(
            (options.output, options.summary),
            (Some("FmtFile.txt".into()), Some("FmtSum.txt".into()))
        );
        let options = parse("mytrace.etl -p / -o mytrace.txt -seq").unwrap();
        assert_eq!(
            (options.output, options.summary),
            (Some("mytrace.txt".into()), Some("mytrace.txt.sum".into()))
        );
        assert_eq!((options.schemas, options.sequence), (vec!["/".into()], true));
        let options = parse("-rt MyTrace -o mytrace.txt -displayonly").unwrap();
        assert_eq!(
            (options.session.as_deref(), options.output, options.display),
            (Some("MyTrace"), None, true)
        );
        assert_eq!(parse("-rt -nosummary").unwrap().session.as_deref(), Some("NT Kernel Logger"));
        assert_eq!(parse("-rt -nosummary").unwrap().summary, None);
        let options = parse("mytrace.etl /CSV –csvheader").unwrap();
        assert!(options.csv && options.csv_header);
        assert!(Options::parse(&["/?".into()]).unwrap().is_none());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (line, expected) in [
            ("x.etl -wrong", "unknown option -wrong"),
            ("x.etl -ods", "-display shows them here"),
            ("x.etl -displayonly -summaryonly", "exclude each other"),
            ("x.etl -p /nowhere/at/all", "no such file or directory"),
            ("x.etl -i driver.sys -r /nowhere", "its symbol file is neither"),
            ("x.etl -tmf", "-tmf needs FILE"),
            ("c:\\traces\\x.etl", "is a Windows path"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.to_string().contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn the_documentation_has_the_same_options() {
        let page = include_str!("../../../../docs/tools/tracefmt.md");
        assert_eq!(differences(TABLE, page), Vec::<String>::new());
    }
}
