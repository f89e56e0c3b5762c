//! The options of `xperf`, and its help.

use crate::options::{Opt, Options, flag, help as rows, value, values};

/// Every option.
pub(super) const TABLE: &[Opt] = &[
    values(
        "start",
        "[LOGGER]",
        0,
        1,
        "Start a session; the options after it apply to it. Default: the kernel session.",
    ),
    values("update", "[LOGGER]", 0, 1, "Change a running session: -on, -MaxBuffers, -FlushTimer, -f."),
    values(
        "on",
        "FLAGS|GROUPS|PROVIDERS",
        1,
        1,
        "Flags, groups and providers, joined by +; without -start, starts the kernel session.",
    ),
    value("f", "FILE", "File [default: kernel.etl; for other sessions user.etl]."),
    values("stackwalk", "EVENTS|@FILE", 1, 1, "Kernel events to record stacks of."),
    value("buffersize", "KB", "Size of a buffer."),
    value("minbuffers", "N", "Minimum number of buffers."),
    value("maxbuffers", "N", "Maximum number of buffers."),
    value("maxfile", "MB", "Maximum size of the file."),
    value("filemode", "MODE", "sequential, circular, append or newfile (with %d in the name)."),
    value("flushtimer", "SECONDS", "Interval at which partly filled buffers are written."),
    value("ft", "SECONDS", "The same."),
    value("clocktype", "TYPE", "PerfCounter, SystemTime or Cycle."),
    flag("buffering", "Keep events in memory, until -flush LOGGER -f FILE."),
    flag("realtime", "Deliver in real time too."),
    values("setprofint", "N [cached]", 1, 2, "Time between samples, in units of 100 ns."),
    values("stop", "[LOGGER]", 0, 1, "Stop a session. Default: the kernel session."),
    value("d", "FILE", "Stop the kernel session, or those of -stop, and merge their files into this one."),
    values("merge", "FILE … MERGED", 2, 64, "Merge files into the last one."),
    flag("compress", "Compress the merged file."),
    values("flush", "[LOGGER]", 0, 1, "Flush the buffers; with -f FILE, write the events in memory."),
    values("capturestate", "LOGGER PROVIDERS", 2, 2, "Request the state of providers."),
    value("m", "TEXT", "Write a mark among the kernel events."),
    flag("loggers", "Show the running sessions."),
    values(
        "providers",
        "[I|R|K|KF|KG]",
        0,
        4,
        "Show providers: installed, registered, kernel flags and groups.",
    ),
    values("a", "ACTION", 0, 32, "Analyse the trace of -i FILE; `xperf -i -?` lists the actions."),
    values("save", "PROFILE FILE", 0, 2, "Refused: use -d."),
    values("heap", "", 0, 1, "Refused: heaps write no events."),
    values("pids", "PID …", 0, 32, "Refused, as -heap."),
    values("pidnewprocess", "COMMAND", 0, 1, "Refused, as -heap."),
    values("pooltag", "TAGS", 0, 1, "Refused: Linux has no pools."),
    values("seteresourcesample", "N N N", 0, 3, "Refused: Linux has no such locks."),
    values("setspinlocksample", "N N N", 0, 3, "Refused: locks are not sampled."),
    values("pmcprofile", "COUNTERS", 0, 1, "Refused: hardware counters are not read."),
    values("pmc", "COUNTERS", 0, 2, "Refused, as -pmcprofile."),
    values("lastbranch", "…", 0, 2, "Refused, as -pmcprofile."),
    flag("kd", "Refused: there is no kernel debugger."),
];

/// Returns the first unsupported option on the command line, with an alternative.
pub(super) fn refusal(options: &Options) -> Option<(&'static str, &'static str)> {
    let of = |name: &str| {
        Some(match name {
            "a" => "actions need a trace: xperf -i FILE -a ACTION",
            "save" => {
                "session profiles are not saved; `-d FILE` merges stopped sessions, `logman create trace` saves sets"
            }
            "heap" | "pids" | "pidnewprocess" => {
                "heaps write no events here; VIRT_ALLOC records their memory allocations"
            }
            "pooltag" => "Linux has no pools; VIRT_ALLOC and ALL_FAULTS record memory use",
            "seteresourcesample" | "setspinlocksample" => {
                "kernel locks are not traced; with CSWITCH+DISPATCHER, `etw report --table waits` shows how long threads wait, and who ends it"
            }
            "pmcprofile" | "pmc" | "lastbranch" => "hardware counters are not read; PROFILE samples by time",
            "kd" => {
                "Linux has no kernel debugger that receives events; `-realtime` and `etw dump -s LOGGER` show them"
            }
            _ => return None,
        })
    };
    options.given.iter().find_map(|given| Some((given.name, of(given.name)?)))
}

/// Returns the help.
pub(super) fn help() -> String {
    format!(
        "xperf records events of the kernel and of providers, and merges and analyses traces.\n\n\
         Usage:\n  xperf -on FLAGS|GROUPS [options] [-start LOGGER -on PROVIDERS [options]]…\n  \
         xperf -stop [LOGGER] [-stop LOGGER]… [-d MERGED]\n  xperf -d MERGED\n  xperf -merge FILE … MERGED\n  \
         xperf -loggers | -providers [KF|KG] | -m TEXT\n  xperf -i FILE … [-o FILE] [-a ACTION]…\n\n\
         A provider is (NAME|{{GUID}})[:FLAGS[:LEVEL[:'stack|sid|tsid']]].\n\n\
         Options (with -, / or a dash; in any case):\n{}\n\
         Examples:\n  xperf -on DiagEasy -stackwalk Profile+CSwitch+ReadyThread -f kernel.etl\n  \
         xperf -on Latency -start User -on MyProvider:0xff:5:'stack' -f user.etl\n  \
         xperf -stop -stop User -d merged.etl\n  \
         xperf -i merged.etl -symbols -a profile -detail\n",
        rows(TABLE)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::differences;
    use crate::xperf::actions;

    #[test]
    fn the_documentation_has_the_same_options() {
        let page = include_str!("../../../../docs/tools/xperf.md");
        assert_eq!(differences(&[TABLE, &actions::options()].concat(), page), Vec::<String>::new());
    }
}
