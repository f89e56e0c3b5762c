//! The options of `logman`, and its help.

use crate::options::{Opt, Options, flag, help as rows, value, values};

/// Every option. Two dashes negate one.
pub(super) const TABLE: &[Opt] = &[
    flag("ets", "Act on sessions directly, without saved sets."),
    value("n", "NAME", "Name of the set or session; -n may be omitted."),
    values(
        "p",
        "PROVIDER [FLAGS [LEVEL]]",
        1,
        3,
        "Enable a provider, with keywords as a mask or (a,b) and a maximum level.",
    )
    .or_not(),
    value("pf", "FILE", "Enable the providers of a file, one per line: NAME or {GUID}, flags, level."),
    value("o", "FILE", "File to write to [default: NAME.etl]."),
    value(
        "f",
        "bin|bincirc",
        "File format: sequential, or circular, where new events replace the oldest (needs -max).",
    ),
    values("max", "MB", 0, 1, "Maximum size of the file.").or_not(),
    values("cnf", "", 0, 1, "Continue in a new file at the size of -max.").or_not(),
    flag("ow", "Replace an existing file.").or_not(),
    flag("a", "Append to an existing file; this uses the system clock.").or_not(),
    values("v", "nnnnnn|mmddhhmm", 0, 1, "Suffix of a set's file names [default: nnnnnn].").or_not(),
    flag("rt", "Deliver in real time; without -o, only in real time.").or_not(),
    value("bs", "KB", "Size of a buffer [default: 64]."),
    values("nb", "MIN [MAX]", 1, 2, "Number of buffers."),
    value(
        "ft",
        "[[hh:]mm:]ss",
        "Interval at which partly filled buffers are written; ss may have a fraction.",
    ),
    value("ct", "perf|system|cycle", "Clock [default: perf]."),
    values("mode", "MODE …", 1, 8, "circular, newfile, append, pagedmemory, …"),
    value("ln", "NAME", "Name of the session [default: that of the set]."),
    flag("y", "Yes to all questions."),
    value("xml", "FILE", "File of import and export."),
    value("pid", "PID", "With query providers: only those registered by a process."),
    flag("as", "Accepted: commands always wait for completion."),
    value("s", "COMPUTER", "Refused: use `ssh COMPUTER logman …`."),
    value("config", "FILE", "Refused: use `logman import`."),
    values("u", "USER [PASSWORD]", 0, 2, "Refused: use `sudo -u USER logman …`.").or_not(),
    values("m", "[start] [stop]", 0, 4, "Refused: sets are started and stopped by hand."),
    value("rf", "[[hh:]mm:]ss", "Refused: use `systemd-run --user --on-active=TIME logman stop NAME`."),
    values("b", "DATE TIME", 0, 3, "Refused: use `systemd-run --user --on-calendar=TIME logman start NAME`.")
        .or_not(),
    values("e", "DATE TIME", 0, 3, "Refused: use `systemd-run --user --on-calendar=TIME logman stop NAME`.")
        .or_not(),
    flag("r", "Refused: use `systemd-run`, as for -b, with a repeating time such as 'Mon 08:00'.").or_not(),
    values("rc", "TASK", 0, 1, "Refused: use `logman stop NAME && TASK`.").or_not(),
    flag("ul", "Refused: a program starts its private sessions itself (docs/sessions.md).").or_not(),
];

/// Returns the first unsupported option on the command line, with an alternative.
pub(super) fn refusal(options: &Options) -> Option<(&'static str, &'static str)> {
    let of = |name: &str| {
        Some(match name {
            "s" => "other computers cannot be controlled; use `ssh COMPUTER logman …`",
            "config" => "settings files are not supported; use `logman import NAME -xml FILE` or options",
            "u" => "sets run as the user that starts them; use `sudo -u USER logman …`",
            "m" => "sets have no schedule; start and stop them by hand",
            "rf" => {
                "sets run until they are stopped; `systemd-run --user --on-active=TIME logman stop NAME` stops one later, and `etw record --for TIME` stops by itself"
            }
            "b" | "e" | "r" => {
                "sets have no schedule; while a daemon runs (`etw daemon`), `systemd-run --user --on-calendar='2026-12-01 08:00' logman start NAME` starts one then"
            }
            "rc" => "tasks are not run; `logman stop NAME && TASK` runs one at the end",
            "ul" => "a program starts its private sessions itself (docs/sessions.md)",
            _ => return None,
        })
    };
    let given = options.given.iter().filter(|given| !given.is_negated);
    given.clone().find_map(|given| Some((given.name, of(given.name)?)))
}

/// Returns the help for a verb, or for all.
pub(super) fn help(verb: Option<&str>) -> String {
    let usage = match verb {
        Some("query") => &VERBS[1..4],
        Some("create") => &VERBS[..1],
        Some("start") => &VERBS[4..6],
        Some("stop") => &VERBS[6..7],
        Some("update") => &VERBS[7..9],
        Some("delete") => &VERBS[9..10],
        Some("import" | "export") => &VERBS[10..12],
        _ => VERBS,
    };
    format!(
        "logman starts, stops and shows trace sessions, and keeps definitions of them as data collector sets.\n\n\
         Usage:\n{}\n\nOptions (with -, / or a dash; in any case):\n{}\n\
         Examples:\n  logman query providers\n  logman query providers \"Windows Kernel Trace\"\n  \
         logman start MySession -p MyProvider 0xff 5 -o trace.etl -ets\n  \
         logman create trace Boot -p \"Windows Kernel Trace\" \"(process,thread,img)\" -o boot.etl\n  \
         logman stop MySession -ets\n",
        usage.join("\n"),
        rows(TABLE)
    )
}

const VERBS: &[&str] = &[
    "  logman create trace NAME [options]     save a set; with -ets start a session",
    "  logman query [-ets]                    sets, or running sessions",
    "  logman query NAME [-ets]               details of one",
    "  logman query providers [NAME]          providers, or one with keywords, levels and processes",
    "  logman start NAME                      start a saved set",
    "  logman start NAME [options] -ets       start a session",
    "  logman stop NAME [-ets]                stop a set or session",
    "  logman update [trace] NAME [options]   change a saved set",
    "  logman update NAME [options] -ets      change a running session",
    "  logman delete NAME                     delete a saved set",
    "  logman import NAME -xml FILE           save the set in a file",
    "  logman export NAME -xml FILE           write a set to a file",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::differences;

    #[test]
    fn the_documentation_has_the_same_options() {
        let page = include_str!("../../../../docs/tools/logman.md");
        assert_eq!(differences(TABLE, page), Vec::<String>::new());
    }
}
