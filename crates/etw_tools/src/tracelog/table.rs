//! The options of `tracelog`, and its help.

use crate::options::{Opt, Options, flag, help as rows, value, values};

/// Actions; a command line has exactly one.
pub(super) const ACTIONS: &[Opt] = &[
    values("start", "[LOGGER]", 0, 1, "Start a session; without a name \"NT Kernel Logger\"."),
    values("stop", "[LOGGER]", 0, 1, "Stop a session."),
    values(
        "update",
        "[LOGGER]",
        0,
        1,
        "Change a session that runs: -f, -max, -ft, -rt, flags of the kernel.",
    ),
    values("flush", "[LOGGER]", 0, 1, "Have events delivered; with -f write those that -buffering keeps."),
    values("enable", "[LOGGER]", 0, 1, "Enable the providers of -guid."),
    values("enableex", "[LOGGER]", 0, 1, "The same."),
    values("disable", "[LOGGER]", 0, 1, "Disable the providers of -guid."),
    values(
        "capturestate",
        "[LOGGER]",
        0,
        1,
        "Have the providers of -guid, or all that are enabled, write their state.",
    ),
    values("q", "[LOGGER]", 0, 1, "Show a session; with -lp its providers too."),
    flag("l", "Show all sessions."),
    flag("x", "Stop all sessions."),
    flag("enumguid", "Show the providers that programs have registered."),
    values("enumguidex", "[#GUID]", 0, 1, "The same, with their processes; or one of them."),
    value("addautologger", "LOGGER", "Have the daemon start a session when it starts."),
    value("remove", "LOGGER", "Take that back."),
    values("systemrundown", "[LOGGER]", 0, 1, "Refused: sessions have it at their begin and end."),
];

/// All options, actions first.
pub(super) const OPTIONS: &[Opt] = &[
    values("guid", "#GUID|FILE|*NAME", 1, 1, "Providers; a file has a line GUID;keywords;level for each."),
    values("f", "[FILE]", 0, 1, "File [default: LogFile.etl]."),
    flag("rt", "Deliver in real time."),
    value("b", "KB", "Size of a buffer."),
    value("min", "N", "Minimum number of buffers."),
    value("max", "N", "Maximum number of buffers."),
    value("bt", "N", "Full buffers that are written together."),
    value("ft", "SECONDS", "Interval at which partly filled buffers are written."),
    value("flag", "MASK", "Keywords, by their old name."),
    value("matchanykw", "MASK", "Events with one of these keywords; 0 for all."),
    value("matchallkw", "MASK", "Of those, the ones with all of these."),
    value("level", "N", "Highest level; 0 for all."),
    value("enableproperty", "N", "Bits of EnableProperty: 4 for stacks, 1 for the user's SID, …"),
    flag("eventidfilter", "With -in or -out: only these events, or all but these."),
    flag("stackwalkfilter", "With -in or -out: events that have stacks."),
    values("in", "N ID …", 1, 65, "The number of ids, and the ids."),
    values("out", "N ID …", 1, 65, "The same."),
    values("pidfilter", "N PID …", 2, 65, "Only in these processes."),
    value("exefilter", "NAME[;NAME]…", "Only in processes that run such a program."),
    value("seq", "MB", "Maximum size of the file; the session stops there."),
    value("cir", "MB", "Maximum size of the file; new events then replace the oldest."),
    value("newfile", "MB", "Size at which a new file is begun; -f has %d for its number."),
    flag("kb", "Sizes of files are in KB."),
    flag("append", "Append to the file; the clock is that of the system then."),
    flag("prealloc", "Take the file's size at once."),
    flag("buffering", "Keep events in memory, until -flush -f FILE."),
    flag("secure", "Take events only of those who may write to the session."),
    flag("paged", "Accepted: buffers are ordinary memory."),
    flag("gs", "Number events over all sessions."),
    flag("ls", "Number events in the session."),
    flag("lowcapacity", "One row of buffers for all processors."),
    flag("independent", "Accepted: sessions do not touch each other."),
    value("hybridshutdown", "stop|persist", "Accepted: this system does not shut down so."),
    flag("systemlogger", "Accepted: any session may have the kernel's events."),
    flag("usecpucycle", "Clock: the processor's cycles."),
    flag("useperfcounter", "Clock: the performance counter, the default."),
    flag("usesystemtime", "Clock: the system's time."),
    values("eflag", "N FLAG …", 1, 65, "Flags of the kernel, by names or masks."),
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
    value("profilesource", "Timer", "What samples are taken by."),
    value("sourceguid", "GUID", "Accepted: providers here are not told who enables them."),
    value("sessionguid", "GUID", "Accepted: a session has a GUID by itself."),
    value("timeout", "MS", "Accepted: enabling always waits for the providers."),
    flag("lp", "With -l and -q: providers too."),
    flag("cm", "Refused: there is no registry."),
    flag("kd", "Refused: use -rt."),
    flag("um", "Refused: private sessions are of the program itself."),
    flag("addtotriagedump", "Refused: there are no such dumps."),
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
            "cm" => "Linux has no registry; -fio tells of the files that configuration is in",
            "kd" => "Linux has no kernel debugger that takes events; -rt and `etw dump -s LOGGER` show them",
            "um" => "sessions inside of one program are started by the program itself (docs/sessions.md)",
            "addtotriagedump" => {
                "there are no such dumps; -buffering keeps the newest events, `tracelog -flush` writes them"
            }
            "heap" | "critsec" | "pids" => {
                "heaps and locks of programs write no events here; `-eflag 1 VIRT_ALLOC` tells what they take of the system"
            }
            "pkgidfilter" | "pkgappidfilter" => {
                "programs are in no packages here; -ExeFilter and -PidFilter choose them"
            }
            "pmc" | "lbr" => "the processor's counters are not read; `-eflag 1 PROFILE` samples by time",
            "systemrundown" => {
                "the kernel's rundown is in every session at its begin and end; `-capturestate LOGGER -guid \
                 *Microsoft-Windows-Kernel-Process` asks for it in between"
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
         Quote '#' and '*': shells take them for something else.\n",
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
