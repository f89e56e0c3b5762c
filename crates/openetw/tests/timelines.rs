//! Timelines of a trace by the re-exported writers.

#![cfg(not(windows))]
#![cfg(feature = "export")]

use etw_testkit::traces::{self, Kind, Recipe};
use openetw::Trace;
use openetw::export::timeline::{self, Format, Selection, Symbolizer};

#[test]
fn a_trace_is_written_for_every_viewer() {
    let (bytes, _) = traces::bytes(&Recipe::new(Kind::Mixed, 500)).unwrap();
    let events = {
        let mut trace = Trace::builder().bytes("mixed.etl", bytes.clone()).open().unwrap();
        trace.for_each_record(|_| ()).unwrap();
        trace.statistics().records
    };
    for format in [Format::Perfetto, Format::Chrome, Format::Firefox, Format::Speedscope] {
        let mut trace = Trace::builder().bytes("mixed.etl", bytes.clone()).open().unwrap();
        let mut out = Vec::new();
        let (all, symbols) = (Selection::default(), Symbolizer::new());
        let summary = timeline::write(&mut trace, format, &all, &symbols, &mut out, &|_| ()).unwrap();
        assert_eq!(summary.events, events, "{format:?}");
        match format {
            Format::Perfetto => assert!(!out.is_empty()),
            _ => {
                assert!(serde_json::from_slice::<serde_json::Value>(&out).unwrap().is_object(), "{format:?}")
            }
        }
    }
}
