//! The options of `wpr`, and its help.

use crate::options::{Opt, Options, flag, help as rows, value, values};

/// The options, grouped by help topic.
const TOPICS: &[(&str, &[Opt])] = &[
    (
        "start",
        &[
            values(
                "start",
                "[FILE.wprp!]PROFILE[.light|.verbose]",
                1,
                1,
                "Start recording; for several profiles, repeat -start.",
            ),
            values(
                "filemode",
                "[FILE]",
                0,
                1,
                "Record to a file, which -stop names; also for -profiledetails and -exportprofile.",
            ),
            value(
                "recordtempto",
                "DIR",
                "Directory of the recording until -stop [default: the directory for temporary files].",
            ),
            value(
                "instancename",
                "NAME",
                "Name of the recording, if several run; -stop and other verbs need it too.",
            ),
        ],
    ),
    (
        "stop",
        &[
            values("stop", "FILE [DESCRIPTION]", 1, 2, "Stop recording and save it."),
            flag("compress", "Compress the file."),
            flag("force", "Replace an existing file."),
            flag("skippdbgen", "Accepted: no PDBs are generated."),
        ],
    ),
    ("cancel", &[flag("cancel", "Stop recording without saving.")]),
    (
        "status",
        &[
            values("status", "[profiles] [collectors [details]]", 0, 3, "Show what is recorded."),
            flag("details", "Show details of each collector."),
        ],
    ),
    ("profiles", &[values("profiles", "[FILE]", 0, 1, "List the profiles of a file, or the built-in ones.")]),
    (
        "profiledetails",
        &[value(
            "profiledetails",
            "PROFILE[+PROFILE…]",
            "Show what profiles record here, and what they do not.",
        )],
    ),
    (
        "exportprofile",
        &[values("exportprofile", "PROFILE[+PROFILE…] FILE", 2, 2, "Write profiles to a new file.")],
    ),
    ("providers", &[flag("providers", "List the system keywords, and the known and registered providers.")]),
    ("marker", &[value("marker", "TEXT", "Set a mark in the recording.")]),
    ("markerflush", &[value("markerflush", "TEXT", "Set a mark, and flush everything before it.")]),
    ("flush", &[flag("flush", "Flush everything recorded so far.")]),
    (
        "merge",
        &[
            values("merge", "FILE … MERGED", 2, 64, "Merge files into the last one."),
            flag("mergeonly", "Do not add event descriptions."),
            flag("injectonly", "Accepted: descriptions are always added."),
        ],
    ),
    (
        "capturestateondemand",
        &[flag("capturestateondemand", "Request the provider state that profiles define.")],
    ),
];

/// Unsupported options, with an alternative.
const REFUSED: &[(&str, &str)] = &[
    ("boottrace", "use an autologger of the daemon (docs/daemon.md)"),
    ("addboot", "use an autologger of the daemon (docs/daemon.md)"),
    ("stopboot", "use an autologger of the daemon (docs/daemon.md)"),
    ("cancelboot", "use an autologger of the daemon (docs/daemon.md)"),
    ("onoffscenario", "boot and sleep are not recorded; use an autologger of the daemon"),
    ("onoffresultspath", "boot and sleep are not recorded; use an autologger of the daemon"),
    ("onoffproblemdescription", "boot and sleep are not recorded; -stop takes a description"),
    ("numiterations", "boot and sleep are not recorded; use an autologger of the daemon"),
    (
        "heaptracingconfig",
        "heaps write no events here; the profile VirtualAllocation records memory allocations",
    ),
    (
        "snapshotconfig",
        "heaps write no events here; the profile VirtualAllocation records memory allocations",
    ),
    (
        "enableperiodicsnapshot",
        "heaps write no events here; the profile VirtualAllocation records memory allocations",
    ),
    (
        "disableperiodicsnapshot",
        "heaps write no events here; the profile VirtualAllocation records memory allocations",
    ),
    (
        "singlesnapshot",
        "heaps write no events here; the profile VirtualAllocation records memory allocations",
    ),
    ("pmcsources", "hardware counters are not read; the profile CPU samples by time"),
    ("pmcsessions", "hardware counters are not read; the profile CPU samples by time"),
    ("setprofint", "use `xperf -setprofint N`, or `etw record --sample-interval`"),
    ("profint", "use `etw session query NAME`, which shows a session's interval"),
    ("resetprofint", "each recording starts with one sample per millisecond"),
    ("disablepagingexecutive", "this kernel is never paged"),
    ("purgecache", "symbols are not cached"),
    ("log", "errors are printed to standard error"),
    ("supresspii", "use `etw relog`, which can remove events"),
];

/// Returns all options.
pub(super) fn table() -> Vec<Opt> {
    let refused = REFUSED.iter().map(|(name, _)| values(name, "", 0, 8, ""));
    TOPICS.iter().flat_map(|(_, options)| options.iter().copied()).chain(refused).collect()
}

/// Returns the first unsupported option on the command line, with an alternative.
pub(super) fn refusal(options: &Options) -> Option<(&'static str, &'static str)> {
    REFUSED.iter().find(|(name, _)| options.last(name).is_some()).copied()
}

/// Returns the verb on the command line: the first option of a topic.
pub(super) fn verb(options: &Options) -> Option<&'static str> {
    let topics = || TOPICS.iter().map(|(topic, _)| *topic);
    options.given.iter().find_map(|given| topics().find(|topic| *topic == given.name))
}

/// Returns the help, of a topic if there is one with this name.
pub(super) fn help(topic: Option<&str>) -> String {
    let of_topic =
        TOPICS.iter().find(|(name, _)| topic.is_some_and(|topic| topic.eq_ignore_ascii_case(name)));
    if let Some((name, options)) = of_topic {
        return format!("wpr -{name}\n\n{}", rows(options));
    }
    let all: String = TOPICS.iter().map(|(_, options)| rows(&options[..1])).collect();
    format!(
        "wpr records events of the system and of providers, selected by recording profiles (.wprp).\n\n{all}\n\
         `wpr -help TOPIC` shows one topic; topics are the names above.\n\n\
         Examples:\n  \
         wpr -start CPU                             keep the newest events in memory\n  \
         wpr -stop cpu.etl \"the slow part\"          save them\n  \
         wpr -start GeneralProfile -start Network -filemode\n  \
         wpr -start shop.wprp!Shop.Light -filemode -recordtempto /var/tmp\n  \
         wpr -marker \"the button\"\n"
    )
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::options::differences;

    #[test]
    fn the_help_has_topics() {
        let start = help(Some("START"));
        assert!(start.contains("-recordtempto DIR") && !start.contains("-cancel"), "{start}");
        let all = help(None);
        for (topic, _) in TOPICS {
            assert!(all.contains(&format!("\n  -{topic} ")), "{topic}: {all}");
        }
        assert!(!all.contains("-boottrace"), "{all}");
    }

    #[test]
    fn the_verb_is_the_first_topic() {
        let read = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            Options::read(&words, &table()).unwrap()
        };
        let options = read("-filemode -start A -start B -instancename X");
        assert_eq!((verb(&options), options.all("start").count()), (Some("start"), 2));
        assert_eq!(verb(&read("-compress")), None);
        assert_eq!(refusal(&read("-boottrace -addboot CPU")).map(|(name, _)| name), Some("boottrace"));
    }

    #[test]
    fn the_documentation_has_the_same_options() {
        let page = include_str!("../../../../docs/tools/wpr.md");
        assert_eq!(differences(&table(), page), Vec::<String>::new());
    }
}
