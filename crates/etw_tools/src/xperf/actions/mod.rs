//! `xperf -i FILE -a ACTION`: analyses of a trace.

mod dumper;
mod events;
mod tables;
mod utilization;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use etw_app::input::{builder, check_read, report_damage};
use etw_app::output;
use etw_app::paths::path;
use etw_app::providers::Known;
use etw_app::schemas::Schemas;
use etw_app::status::{Failed, code, usage};
use openetw::{EventFilter, TimePoint, Trace};

use crate::options::{Opt, Options, flag, help as rows, number_of, value, values};
use crate::words::Word;

/// An action: its name, description, options and function.
struct Action {
    name: &'static str,
    shows: &'static str,
    options: &'static [Opt],
    run: fn(&Request, &Options, &mut dyn Write) -> Result<()>,
}

/// Settings that apply to all actions of a command.
struct Request {
    files: Vec<PathBuf>,
    schemas: Schemas,
    has_symbols: bool,
    is_for_machines: bool,
    tolerates_losses: bool,
}

/// Options before the actions.
const TABLE: &[Opt] = &[
    values("i", "FILE …", 1, 64, "The traces."),
    value("o", "FILE", "Output file [default: standard output]."),
    values("symbols", "[…]", 0, 8, "Show functions, not only their images."),
    value("target", "human|machine", "Tables for people, or a JSON object for each."),
    flag("quiet", "Accepted: only the output is printed in any case."),
    flag("tle", "Continue although events were lost."),
    flag("tti", "Accepted: times that run backwards are always sorted."),
];

const RANGE: Opt =
    values("range", "T1 [T2]", 1, 2, "Only events between these times, in microseconds since the start.");

const ACTIONS: &[Action] = &[
    Action {
        name: "dumper",
        shows: "every event, one per line",
        options: &[
            RANGE,
            values("provider", "GUID …", 1, 64, "Only events of these providers."),
            flag("add_rawdata", "The payload in hex too."),
        ],
        run: dumper::dumper,
    },
    Action {
        name: "tracestats",
        shows: "contents of the trace",
        options: &[flag("detail", "Every event, with counts and bytes.")],
        run: events::tracestats,
    },
    Action { name: "process", shows: "processes", options: &[RANGE], run: tables::process },
    Action { name: "sysconfig", shows: "the machine", options: &[], run: events::sysconfig },
    Action {
        name: "profile",
        shows: "processor time by samples",
        options: &[
            values("util", "[N]", 0, 1, "Processor use in intervals of N seconds [default: 1]."),
            flag("detail", "By process and image; by function with -symbols."),
            RANGE,
        ],
        run: tables::profile,
    },
    Action {
        name: "cswitch",
        shows: "processor time by context switches",
        options: &[
            values("avail", "[N]", 0, 1, "Idle processor time in intervals of N seconds [default: 1]."),
            values("util", "[N]", 0, 1, "Processor use in intervals of N seconds [default: 1]."),
            flag("process", "By process."),
            flag("thread", "By thread."),
            RANGE,
        ],
        run: tables::cswitch,
    },
    Action {
        name: "diskio",
        shows: "disk I/O",
        options: &[flag("summary", "By disk, process and file."), flag("detail", "Every request."), RANGE],
        run: events::diskio,
    },
    Action { name: "filename", shows: "files by name", options: &[], run: events::filename },
    Action {
        name: "hardfault",
        shows: "hard faults by process and file",
        options: &[RANGE],
        run: tables::hardfault,
    },
    Action {
        name: "dpcisr",
        shows: "deferred procedure calls and interrupts",
        options: &[flag("dpc", "Deferred calls only."), flag("isr", "Interrupts only."), RANGE],
        run: tables::dpcisr,
    },
    Action {
        name: "stack",
        shows: "stacks of samples",
        options: &[flag("butterfly", "By function: exclusive, and including its callees."), RANGE],
        run: tables::stack,
    },
    Action { name: "marks", shows: "marks, as written by xperf -m", options: &[], run: events::marks },
    Action {
        name: "registry",
        shows: "the registry, in traces from Windows",
        options: &[RANGE],
        run: events::registry,
    },
];

/// Actions of xperf that are not supported, with an alternative.
const OTHERS: &[(&str, &str)] = &[
    ("boot", "boot traces have no such phases here; `etw report` shows processes as they start"),
    ("bootprefetch", "Linux has no boot prefetching"),
    ("cpudisk", "`-a cswitch -util` and `-a diskio` show both"),
    ("diskidlehistogram", "`-a diskio -detail` shows every request with its times"),
    ("drvdelay", "`-a dpcisr` shows the time that handlers take"),
    ("focuschange", "`-a dumper -provider` shows the events of windows"),
    ("heap", "heaps write no events here; `etw dump` shows those in a trace from Windows"),
    ("pool", "Linux has no pools; `etw dump` shows their events in a trace from Windows"),
    ("perfctrs", "`etw dump` shows the counters in a trace"),
];

/// Returns whether a command line is about a trace.
pub(super) fn are_asked_for(words: &[OsString]) -> bool {
    words.iter().any(|word| is_option(word, "i"))
}

fn is_option(word: &OsString, name: &str) -> bool {
    matches!(Word::read(word, |_| false), Ok(Word::Option { name: found, .. }) if found == name)
}

/// Returns the options of all actions, and the ones before them.
#[cfg(test)]
pub(super) fn options() -> Vec<Opt> {
    TABLE.iter().chain(ACTIONS.iter().flat_map(|action| action.options)).copied().collect()
}

/// Runs the actions of a command line.
pub(super) fn run(words: &[OsString]) -> Result<()> {
    let mut parts = words.split(|word| is_option(word, "a"));
    let options = Options::read(parts.next().unwrap_or_default(), TABLE)?;
    if options.asks_for_help {
        return Ok(output::open(None)?.write_all(help().as_bytes())?);
    }
    if let Some(word) = options.words.first() {
        return Err(usage(format_args!("'{word}' does not belong to an option")));
    }
    let is_for_machines = match options.last("target").map(|given| given.values[0].to_lowercase()) {
        None => false,
        Some(target) if target == "human" => false,
        Some(target) if target == "machine" => true,
        Some(target) => return Err(usage(format_args!("-target {target}: expected human or machine"))),
    };
    let files = options.last("i").map(|given| &given.values[..]).unwrap_or_default();
    let request = Request {
        files: files.iter().map(|file| Ok(path(file)?.into())).collect::<Result<_>>()?,
        schemas: Known::load()?.schemas,
        has_symbols: options.last("symbols").is_some(),
        is_for_machines,
        tolerates_losses: options.last("tle").is_some(),
    };
    let mut acts = Vec::new();
    for part in parts {
        acts.push(act(part)?);
    }
    if acts.is_empty() {
        acts.push(act(&["dumper".into()])?);
    }
    if acts.iter().any(|(_, options)| options.asks_for_help) {
        return Ok(output::open(None)?.write_all(help().as_bytes())?);
    }
    request.check_losses()?;
    let file = options.last("o").map(|given| path(&given.values[0])).transpose()?.map(PathBuf::from);
    let mut out = output::open(file.as_deref())?;
    for (action, options) in acts {
        (action.run)(&request, &options, &mut *out)?;
    }
    Ok(out.flush()?)
}

fn act(words: &[OsString]) -> Result<(&'static Action, Options)> {
    let (name, words) =
        words.split_first().ok_or_else(|| usage("-a needs an action; `xperf -i -?` lists them"))?;
    let name = name.to_string_lossy().to_lowercase();
    if let Some(action) = ACTIONS.iter().find(|action| action.name == name) {
        let options = Options::read(words, action.options)?;
        return match options.words.first() {
            Some(word) => Err(usage(format_args!("-a {name}: '{word}' does not belong to an option"))),
            None => Ok((action, options)),
        };
    }
    let names: Vec<&str> = ACTIONS.iter().map(|action| action.name).collect();
    Err(match OTHERS.iter().find(|(other, _)| *other == name) {
        Some((_, instead)) => Failed::new(code::NOT_SUPPORTED, format!("-a {name}: {instead}")).into(),
        None => usage(format_args!("unknown action '{name}'; expected {}", names.join(", "))),
    })
}

/// Returns the help.
pub(super) fn help() -> String {
    let mut help = format!(
        "Usage:\n  xperf -i FILE … [options] [-a ACTION [options]]…\n\nOptions:\n{}\nActions, without one dumper:\n",
        rows(TABLE)
    );
    for action in ACTIONS {
        help += &format!("\n{:<12} {}\n", action.name, action.shows);
        help += &rows(action.options);
    }
    help
}

impl Request {
    /// Opens the traces, limited to the range if one is given.
    fn open(&self, options: &Options) -> Result<Trace> {
        let (from, to) = range(options)?;
        let filter = EventFilter {
            from: from.map(|from| TimePoint::FromStart(from * 10)),
            to: to.map(|to| TimePoint::FromStart(to * 10)),
            ..EventFilter::default()
        };
        let builder = builder(&self.files)?;
        Ok(builder.filter(&filter).schemas(&self.schemas.sources()).open()?)
    }

    /// As in xperf, a trace with losses requires `-tle`.
    fn check_losses(&self) -> Result<()> {
        let builder = builder(&self.files)?;
        let trace = builder.look_ahead(false).open()?;
        let told: u64 = trace.headers().iter().map(|header| u64::from(header.events_lost)).sum();
        if told == 0 || self.tolerates_losses {
            return Ok(());
        }
        let text = format!("{told} events were lost, so numbers are too low; -tle continues anyway");
        Err(Failed::new(code::GEN_FAILURE, text).into())
    }
}

/// Parses `-range`, in microseconds since the start.
fn range(options: &Options) -> Result<(Option<i64>, Option<i64>)> {
    let Some(given) = options.last("range") else { return Ok((None, None)) };
    let mut times = given.values.iter().map(|value| number_of("range", value).map(i64::from));
    let (from, to) = (times.next().transpose()?, times.next().transpose()?);
    match (from, to) {
        (Some(from), Some(to)) if from >= to => {
            Err(usage(format_args!("-range {from} {to}: the range is empty")))
        }
        range => Ok(range),
    }
}

/// Prints warnings about the parts of the traces that could not be read.
fn finish(trace: &Trace) -> Result<()> {
    report_damage(trace);
    check_read(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_have_their_own_options() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert!(are_asked_for(&words("-i x.etl")) && are_asked_for(&words("–I x.etl")));
        assert!(!are_asked_for(&words("-on DiagEasy -f i")));
        let (action, options) =
            act(&words("Profile -detail -range 10 20")).map_err(|e| e.to_string()).unwrap();
        assert_eq!((action.name, options.last("detail").is_some()), ("profile", true));
        assert_eq!(range(&options).unwrap(), (Some(10), Some(20)));
        let refused = |text: &str, said: &str| {
            let error = act(&words(text)).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        };
        refused("boot", "etw report");
        refused("cpu", "unknown action 'cpu'; expected dumper, tracestats");
        refused("process -detail", "unknown option -detail");
        refused("process now", "'now' does not belong to an option");
        let (_, options) = act(&words("process -range 20 10")).map_err(|e| e.to_string()).unwrap();
        assert!(range(&options).is_err());
    }
}
