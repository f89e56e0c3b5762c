//! The options of `tracelog`, and its help.

use crate::options::{Opt, Options, flag, help as rows, value, values};

/// Actions; a command line has exactly one.
pub(super) const ACTIONS: &[Opt] = &[
    values("start", "[LOGGER]", 0, 1, "Start a session. Default: \"NT Kernel Logger\"."),
    values("stop", "[LOGGER]", 0, 1, "Stop a session."),
    values("update", "[LOGGER]", 0, 1, "Change a running session: -f, -max, -ft, -rt, kernel flags."),
    values(
        "flush",
        "[LOGGER]",
        0,
        1,
        "Flush the buffers; with -f, write the events of a -buffering session.",
    ),
    values("enable", "[LOGGER]", 0, 1, "Enable the providers of -guid."),
    values("enableex", "[LOGGER]", 0, 1, "The same."),
    values("disable", "[LOGGER]", 0, 1, "Disable the providers of -guid."),
    values(
        "capturestate",
        "[LOGGER]",
        0,
        1,
        "Request the state of the providers of -guid, or of all enabled ones.",
    ),
    values("q", "[LOGGER]", 0, 1, "Show a session; with -lp its providers too."),
    flag("l", "Show all sessions."),
    flag("x", "Stop all sessions."),
    flag("enumguid", "Show the providers that programs have registered."),
    values("enumguidex", "[#GUID]", 0, 1, "The same with their processes, or for one provider."),
    value("addautologger", "LOGGER", "Make the daemon start a session at its own start."),
    value("remove", "LOGGER", "Remove an autologger."),
    values("systemrundown", "[LOGGER]", 0, 1, "Refused: sessions have a rundown at their start and end."),
];

/// All options, actions first.
pub(super) const OPTIONS: &[Opt] = &[
    values("guid", "#GUID|FILE|*NAME", 1, 1, "Providers; a file has one line GUID;keywords;level for each."),
    values("f", "[FILE]", 0, 1, "File [default: LogFile.etl]."),
    flag("rt", "Deliver in real time."),
    value("b", "KB", "Size of a buffer."),
    value("min", "N", "Minimum number of buffers."),
    value("max", "N", "Maximum number of buffers."),
    value("bt", "N", "Number of full buffers written together."),
    value("ft", "SECONDS", "Interval at which partly filled buffers are written."),
    value("flag", "MASK", "Keyword mask, by its old name."),
    value("matchanykw", "MASK", "Events with one of these keywords; 0 for all."),
    value("matchallkw", "MASK", "Only events with all of these keywords."),
    value("level", "N", "Maximum level; 0 for all."),
    value("enableproperty", "N", "Bits of EnableProperty: 4 for stacks, 1 for the user's SID, …"),
    flag("eventidfilter", "With -in or -out: only these events, or all except these."),
    flag("stackwalkfilter", "With -in or -out: the events with or without stacks."),
    values("in", "N ID …", 1, 65, "The number of ids, and the ids."),
    values("out", "N ID …", 1, 65, "The same."),
    values("pidfilter", "N PID …", 2, 65, "Only in these processes."),
    value("exefilter", "NAME[;NAME]…", "Only in processes that run one of these programs."),
    value("seq", "MB", "Maximum size of the file; the session stops there."),
    value("cir", "MB", "Maximum size of the file; new events then replace the oldest."),
    value("newfile", "MB", "Size at which a new file starts; %d in -f is its number."),
    flag("kb", "Sizes of files are in KB."),
    flag("append", "Append to the file; this uses the system clock."),
    flag("prealloc", "Allocate the full size of the file at the start."),
    flag("buffering", "Keep events in memory, until -flush -f FILE."),
    flag("secure", "Accept events only from users that may write to the session."),
    flag("paged", "Accepted: buffers are ordinary memory."),
    flag("gs", "Refused: only WPP messages have sequence numbers."),
    flag("ls", "Refused, as -gs."),
    flag("lowcapacity", "One set of buffers for all processors."),
    flag("independent", "Accepted: sessions are always independent."),
    value("hybridshutdown", "stop|persist", "Accepted: this system has no hybrid shutdown."),
    flag("systemlogger", "Accepted: any session may record kernel events."),
    flag("usecpucycle", "Clock: processor cycles."),
    flag("useperfcounter", "Clock: the performance counter, the default."),
    flag("usesystemtime", "Clock: system time."),
    values("eflag", "N FLAG …", 1, 65, "Kernel flags, as names or masks."),
    flag("img", "Images too."),
    flag("fio", "Files too."),
    flag("hf", "Hard page faults too."),
    flag("pf", "All page faults too."),
    flag("dpcisr", "DPCs, interrupts, images and context switches too."),
    flag("noprocess", "No processes."),
    flag("nothread", "No threads."),
    flag("nodisk", "No disks."),
    flag("nonet", "No network."),
    values("stackwalk", "EVENTS", 1, 1, "Kernel events to record stacks of."),
    values("setprofint", "N [SOURCE]", 1, 2, "Time between samples, in units of 100 ns."),
    value("profilesource", "Timer", "Source of the samples."),
    value("sourceguid", "GUID", "Accepted: providers do not receive the source GUID."),
    value("sessionguid", "GUID", "Accepted: sessions get a GUID automatically."),
    value("timeout", "MS", "Accepted: enabling always waits for the providers."),
    flag("lp", "With -l and -q: providers too."),
    flag("cm", "Refused: there is no registry."),
    flag("kd", "Refused: use -rt."),
    flag("um", "Refused: a program starts its private sessions itself."),
    flag("addtotriagedump", "Refused: triage dumps do not exist here."),
    flag("heap", "Refused: heaps write no events."),
    flag("critsec", "Refused, as -heap."),
    values("pids", "N PID …", 1, 16, "Refused, as -heap."),
    value("pkgidfilter", "NAME", "Refused: use -ExeFilter."),
    value("pkgappidfilter", "NAME", "Refused: use -ExeFilter."),
    values("pmc", "COUNTERS", 1, 2, "Refused: hardware counters are not read."),
    values("lbr", "EVENTS", 1, 2, "Refused, as -Pmc."),
];

/// Returns the first unsupported option on the command line, with an alternative.
pub(super) fn refusal(options: &Options) -> Option<(&'static str, &'static str)> {
    let of = |name: &str| {
        Some(match name {
            "cm" => "Linux has no registry; -fio records access to configuration files",
            "kd" => {
                "Linux has no kernel debugger that receives events; -rt and `etw dump -s LOGGER` show them"
            }
            "gs" | "ls" => {
                "only WPP messages have sequence numbers, and messages are recorded without them here; events are in the order of time"
            }
            "um" => "a program starts its private sessions itself (docs/sessions.md)",
            "addtotriagedump" => {
                "triage dumps do not exist here; -buffering keeps the newest events, `tracelog -flush` writes them"
            }
            "heap" | "critsec" | "pids" => {
                "heaps and locks write no events here; `-eflag 1 VIRT_ALLOC` records memory allocations"
            }
            "pkgidfilter" | "pkgappidfilter" => {
                "Linux has no app packages; -ExeFilter and -PidFilter select programs"
            }
            "pmc" | "lbr" => "hardware counters are not read; `-eflag 1 PROFILE` samples by time",
            "systemrundown" => {
                "every session has the kernel's rundown at its start and end; `-capturestate LOGGER -guid \
                 *Microsoft-Windows-Kernel-Process` requests it in between"
            }
            _ => return None,
        })
    };
    options.given.iter().find_map(|given| Some((given.name, of(given.name)?)))
}

/// Returns the help.
pub(super) fn help() -> String {
    format!(
        "tracelog starts, stops and shows trace sessions, and enables providers in them.\n\n\
         Usage:\n  tracelog ACTION [options]\n\nActions (with -, / or a dash; in any case):\n{}\nOptions:\n{}\n\
         Examples:\n  tracelog -start Mine -guid '#{{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}}' -f mine.etl -matchanykw 0x10\n  \
         tracelog -enable Mine -guid '*MyProvider' -level 5\n  tracelog -q Mine -lp\n  tracelog -stop Mine\n  \
         tracelog -start -f kernel.etl -dpcisr     the kernel's session\n\n\
         Quote '#' and '*', which are special in shells.\n",
        rows(ACTIONS),
        rows(OPTIONS)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::differences;

    #[test]
    fn the_documentation_has_the_same_options() {
        let page = include_str!("../../../../docs/tools/tracelog.md");
        assert_eq!(differences(&[ACTIONS, OPTIONS].concat(), page), Vec::<String>::new());
    }
}
