//! Real traces: everything in them is read, and damaged copies of them too.

#![allow(clippy::unwrap_used, reason = "a test")]

use etw_nettrace::{Item, TraceFile};
use etw_testkit::data;

/// Name of a trace with its version, events, definitions, sequence points, events with stacks, and processors.
const EXPECTED: [(&str, u32, usize, usize, usize, u32); 6] = [
    ("eventpipe-dotnetcore2.1-linux-x64-objver3.netperf", 3, 26_146, 9, 0, 4),
    ("eventpipe-dotnetcore2.1-linux-x64-tracelogging.netperf", 3, 12, 8, 0, 4),
    ("eventpipe-dotnetcore3.0-win-x64-objver4.nettrace", 4, 105_540, 39, 18, 4),
    ("eventpipe-dotnetcore5.0-win-x64-arraytypes.nettrace", 4, 1_970, 13, 1, 12),
    ("eventpipe-dotnetcore6.0-win-x64-executioncheckpoints.nettrace", 4, 3, 1, 1, 8),
    ("only_managed_samples.nettrace", 4, 37_603, 18, 6, 8),
];

#[test]
fn everything_is_read() {
    let Some(traces) = data::nettraces() else { return };
    assert_eq!(traces.len(), EXPECTED.len());
    for (trace, (name, version, events, definitions, sequence_points, processors)) in
        traces.iter().zip(EXPECTED)
    {
        assert_eq!(trace.name, name);
        let file = TraceFile::open(&trace.bytes).unwrap();
        assert_eq!((file.header().version, file.header().processors), (version, Some(processors)));
        let mut items = file.items();
        let mut counts = [0; 3];
        for item in items.by_ref() {
            match item {
                Item::Event(_) => counts[0] += 1,
                Item::Definition(_) => counts[1] += 1,
                Item::SequencePoint(_) => counts[2] += 1,
                other => panic!("{name}: {other:?}"),
            }
        }
        assert_eq!(counts, [events, definitions, sequence_points], "{name}");
        assert_eq!((items.lost(), items.is_ended()), (0, true), "{name}");
    }
}

#[test]
fn prefixes_and_changed_bytes_do_not_panic() {
    let Some(traces) = data::nettraces() else { return };
    for trace in &traces {
        let bytes = &trace.bytes[..trace.bytes.len().min(100_000)];
        // Every prefix of the small files, and some hundred of the others.
        let step = bytes.len() / 300 + 1;
        for len in (0..bytes.len()).step_by(step) {
            if let Ok(file) = TraceFile::open(&bytes[..len]) {
                assert!(file.items().filter(|item| matches!(item, Item::Damage(_))).count() > 0);
            }
        }
        for at in (0..bytes.len()).step_by(step) {
            let mut broken = bytes.to_vec();
            broken[at] ^= 0xFF;
            if let Ok(file) = TraceFile::open(&broken) {
                assert!(file.items().count() < 2 * bytes.len(), "{} {at}", trace.name);
            }
        }
    }
}
