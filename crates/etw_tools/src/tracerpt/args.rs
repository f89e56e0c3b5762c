//! Command line of tracerpt.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use etw_app::paths::path;
use etw_app::status::{Failed, code, usage};

use crate::options::{self, Opt, flag, value, values};
use crate::page::PageFormat;

const MANY: usize = usize::MAX;

const TABLE: &[Opt] = &[
    values("o", "[FILE]", 0, 1, "Output file of every event [dumpfile.xml, .csv or .evtx]."),
    value("of", "CSV|EVTX|XML", "Format of the events [XML]."),
    value("en", "ANSI|Unicode", "Encoding of CSV: ANSI for UTF-8, Unicode for UTF-16 [ANSI]."),
    flag("rts", "Times as readings of the session's clock (with -o)."),
    values("summary", "[FILE]", 0, 1, "Event counts by kind [summary.txt]."),
    values("report", "[FILE]", 0, 1, "Report on the machine's activity [workload.xml or .html]."),
    value("f", "XML|HTML", "Format of the report [XML]."),
    value("rl", "1..5", "Length of the report's tables [1]."),
    values("export", "[FILE]", 0, 1, "Schemas of the events as a manifest [schema.man]."),
    value("int", "FILE", "Schemas of the events as text."),
    flag("y", "Answer yes to all questions: overwrite files."),
    values("l", "FILE …", 1, MANY, "Traces; words outside of options are traces too."),
    values("rt", "SESSION …", 1, MANY, "Live sessions, until Ctrl-C or their end."),
    values("import", "FILE …", 1, MANY, "Manifests and other schema files."),
    value("tmf", "FILE", "File with WPP message formats."),
    value("tp", "DIR[;DIR…]", "Directories of format files."),
    value("i", "PATH[;PATH…]", "Program files of providers."),
    value("pdb", "PATH[;PATH…]", "Symbol files of providers."),
    flag("lr", "Show the readable part of events that do not match their schema."),
    flag("gmt", "Accepted: times are always in UTC."),
    value("df", "FILE", "Refused: schemas of performance counters."),
    value("config", "FILE", "Options from a file with lines `option=value`."),
];

/// Returns the text of `tracerpt -?`.
pub(super) fn help() -> String {
    format!(
        "tracerpt: event traces as files, for people and for other programs

Usage: tracerpt <[-l] FILE … | -rt SESSION …> [options]

Without -o, -summary, -report, -export and -int it writes dumpfile.xml and summary.txt.

{}
Examples:
  tracerpt trace.etl
  tracerpt trace.etl -o trace.csv -of CSV -y
  tracerpt kernel.etl user.etl -o -summary -report report.html -f HTML
  tracerpt -rt MySession -o live.csv -of CSV
",
        options::help(TABLE)
    )
}

/// The parsed command line.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub(super) files: Vec<PathBuf>,
    pub(super) sessions: Vec<String>,
    pub(super) dump: Option<PathBuf>,
    pub(super) format: DumpFormat,
    pub(super) utf16: bool,
    pub(super) raw_time: bool,
    pub(super) summary: Option<PathBuf>,
    pub(super) report: Option<PathBuf>,
    pub(super) report_format: PageFormat,
    /// Rows in each table of the report.
    pub(super) rows: usize,
    pub(super) export: Option<PathBuf>,
    pub(super) interpreted: Option<PathBuf>,
    pub(super) overwrite: bool,
    pub(super) schemas: Vec<PathBuf>,
    pub(super) lenient: bool,
}

/// The format of the dump file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum DumpFormat {
    #[default]
    Xml,
    Csv,
    Evtx,
}

impl Options {
    /// Parses the command line and the settings file that it names; returns `None` if help is requested.
    pub(super) fn parse(words: &[OsString]) -> Result<Option<Options>> {
        let mut given = options::Options::read(words, TABLE)?;
        if given.asks_for_help {
            return Ok(None);
        }
        if let Some(name) = given.value("config") {
            let text = std::fs::read_to_string(path(name)?)
                .with_context(|| format!("{name}: the settings file cannot be read"))?;
            let settings = options::Options::read(&settings(&text), TABLE)?;
            given.words.extend(settings.words);
            // The last occurrence of an option wins, so the command line overrides the file.
            given.given.splice(0..0, settings.given);
        }
        if given.last("df").is_some() {
            let text = "-df: performance counter schemas are not supported; -report needs none";
            return Err(Failed::new(code::NOT_SUPPORTED, text).into());
        }
        let mut options = Options {
            format: match lower(given.value("of")).as_deref() {
                None | Some("xml") => DumpFormat::Xml,
                Some("csv") => DumpFormat::Csv,
                Some("evtx") => DumpFormat::Evtx,
                Some(other) => return Err(one_of("-of", other, "CSV, EVTX or XML")),
            },
            report_format: match lower(given.value("f")).as_deref() {
                None | Some("xml") => PageFormat::Xml,
                Some("html") => PageFormat::Html,
                Some(other) => return Err(one_of("-f", other, "XML or HTML")),
            },
            rows: match given.number("rl")? {
                None | Some(1) => 20,
                Some(2) => 50,
                Some(3) => 200,
                Some(4) => 1000,
                Some(5) => usize::MAX,
                Some(other) => return Err(one_of("-rl", &other.to_string(), "a level from 1 to 5")),
            },
            interpreted: given.value("int").map(path).transpose()?.map(PathBuf::from),
            raw_time: given.last("rts").is_some(),
            overwrite: given.last("y").is_some(),
            lenient: given.last("lr").is_some(),
            sessions: given.all("rt").flat_map(|given| given.values.iter().cloned()).collect(),
            ..Options::default()
        };
        options.utf16 = match lower(given.value("en")).as_deref() {
            None | Some("ansi") => false,
            Some("unicode") if options.format == DumpFormat::Csv => true,
            Some("unicode") => return Err(usage("-en is valid only with -of CSV")),
            Some(other) => return Err(one_of("-en", other, "ANSI or Unicode")),
        };
        let output = |name: &str, default: &str| -> Result<Option<PathBuf>> {
            let Some(given) = given.last(name) else { return Ok(None) };
            Ok(Some(given.values.first().map_or(Ok(default.into()), |name| path(name))?.into()))
        };
        options.dump = output("o", options.format.file_name())?;
        options.summary = output("summary", "summary.txt")?;
        options.report = output("report", page_name(options.report_format))?;
        options.export = output("export", "schema.man")?;
        let of_l = given.all("l").flat_map(|given| &given.values);
        for file in of_l.chain(&given.words) {
            options.files.push(path(file)?.into());
        }
        for name in ["tp", "i", "pdb"] {
            let parts = given.value(name).into_iter().flat_map(|value| value.split(';'));
            for part in parts.filter(|part| !part.is_empty()) {
                if part.to_ascii_lowercase().starts_with("srv*") {
                    return Err(Failed::new(
                        code::NOT_SUPPORTED,
                        format!(
                            "-{name} {part}: symbol servers are not supported; name a directory with the files"
                        ),
                    )
                    .into());
                }
                options.schemas.push(path(part)?.into());
            }
        }
        let imported = given.all("import").flat_map(|given| given.values.iter().map(String::as_str));
        for file in given.value("tmf").into_iter().chain(imported) {
            options.schemas.push(path(file)?.into());
        }
        options.check().map(Some)
    }

    fn check(mut self) -> Result<Options> {
        if self.files.is_empty() && self.sessions.is_empty() {
            return Err(usage("no trace is named; use tracerpt FILE or -rt SESSION; -? shows the help"));
        }
        let is_counters =
            |path: &&PathBuf| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("blg"));
        if let Some(file) = self.files.iter().find(is_counters) {
            let text =
                format!("{}: performance counter logs are not supported; name event traces", file.display());
            return Err(Failed::new(code::NOT_SUPPORTED, text).into());
        }
        if self.outputs().is_empty() {
            self.dump = Some(self.format.file_name().into());
            self.summary = Some("summary.txt".into());
        }
        if self.raw_time && self.dump.is_none() {
            return Err(usage("-rts is valid only with -o"));
        }
        Ok(self)
    }

    /// Returns the files to write.
    pub(super) fn outputs(&self) -> Vec<&PathBuf> {
        let outputs = [&self.dump, &self.summary, &self.report, &self.export, &self.interpreted];
        outputs.into_iter().flatten().collect()
    }
}

impl DumpFormat {
    fn file_name(self) -> &'static str {
        match self {
            DumpFormat::Xml => "dumpfile.xml",
            DumpFormat::Csv => "dumpfile.csv",
            DumpFormat::Evtx => "dumpfile.evtx",
        }
    }
}

/// Returns the default name of the report.
fn page_name(format: PageFormat) -> &'static str {
    match format {
        PageFormat::Xml => "workload.xml",
        PageFormat::Html => "workload.html",
    }
}

fn lower(text: Option<&str>) -> Option<String> {
    text.map(str::to_ascii_lowercase)
}

fn one_of(option: &str, value: &str, wanted: &str) -> anyhow::Error {
    usage(format_args!("{option} {value}: expected {wanted}"))
}

/// Returns the words of a settings file with lines `option=value` or `option`; skips section headings and comments.
fn settings(text: &str) -> Vec<OsString> {
    let mut words = Vec::new();
    for line in text.trim_start_matches('\u{FEFF}').lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['[', ';', '#']) {
            continue;
        }
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        words.push(format!("-{}", name.trim().trim_start_matches(['-', '/'])).into());
        words.extend(
            Some(value.trim().trim_matches('"')).filter(|value| !value.is_empty()).map(OsString::from),
        );
    }
    words
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
        let options = parse("logfile1.etl logfile2.etl -o logdump.xml -of XML").unwrap();
        assert_eq!(options.files, [PathBuf::from("logfile1.etl"), "logfile2.etl".into()]);
        assert_eq!((options.dump, options.format), (Some("logdump.xml".into()), DumpFormat::Xml));
        let options =
            parse("logfile.etl -o logdmp.xml -of XML -lr -summary logdmp.txt -report logrpt.xml").unwrap();
        assert_eq!((options.summary, options.report), (Some("logdmp.txt".into()), Some("logrpt.xml".into())));
        assert!(options.lenient);
        let options = parse("logfile1.etl logfile2.etl -o -report").unwrap();
        assert_eq!(
            (options.dump, options.report),
            (Some("dumpfile.xml".into()), Some("workload.xml".into()))
        );
        assert_eq!(options.summary, None);
        let words = ["-rt", "NT Kernel Logger", "-o", "logfile.csv", "-of", "CSV"];
        let options = Options::parse(&words.map(OsString::from)).unwrap().unwrap();
        assert_eq!((&*options.sessions[0], options.format), ("NT Kernel Logger", DumpFormat::Csv));
        // En dashes, as pasted from documents.
        let options = parse("/tmp/trace.etl –o out.csv –OF csv /y").unwrap();
        assert_eq!(options.outputs(), [&PathBuf::from("out.csv")]);
        assert!(options.overwrite);
    }

    #[test]
    fn defaults() {
        let options = parse("x.etl").unwrap();
        assert_eq!(options.outputs(), [&PathBuf::from("dumpfile.xml"), &"summary.txt".into()]);
        let options = parse("x.etl -of EVTX -report -f HTML -o").unwrap();
        assert_eq!(options.outputs(), [&PathBuf::from("dumpfile.evtx"), &"workload.html".into()]);
        assert!(Options::parse(&["-?".into()]).unwrap().is_none());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (line, expected) in [
            ("", "no trace is named"),
            ("x.etl -of JSON", "-of json: expected CSV, EVTX or XML"),
            ("x.etl -wrong", "unknown option -wrong"),
            ("x.etl -of", "-of needs CSV|EVTX|XML"),
            ("x.etl -rts -summary", "-rts is valid only with -o"),
            ("x.etl c.blg -report logrpt.xml -df schema.xml", "-df: performance counter schemas"),
            ("x.etl c.blg", "performance counter logs are not supported"),
            ("x.etl -pdb srv*https://symbols", "symbol servers are not supported"),
            ("c:\\trace.etl", "is a Windows path"),
            ("x.etl -rl 6", "a level from 1 to 5"),
            ("x.etl -en Unicode", "-en is valid only with -of CSV"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.to_string().contains(expected), "{line}: {error}");
            assert!(error.is::<Failed>(), "{line}");
        }
    }

    #[test]
    fn a_settings_file() {
        let words = settings("\u{FEFF}[tracerpt]\n; what\no = \"my dump.csv\"\nof=CSV\n-y\n");
        assert_eq!(words, ["-o", "my dump.csv", "-of", "CSV", "-y"]);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.txt");
        std::fs::write(&path, "o=a.csv\nof=CSV\n").unwrap();
        let options = parse(&format!("x.etl -config {} -of XML", path.display())).unwrap();
        assert_eq!((options.dump, options.format), (Some("a.csv".into()), DumpFormat::Xml));
    }

    #[test]
    fn the_documentation_has_the_same_options() {
        let page = include_str!("../../../../docs/tools/tracerpt.md");
        assert_eq!(differences(TABLE, page), Vec::<String>::new());
    }
}
