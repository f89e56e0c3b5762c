//! Real, generated and damaged traces in every format: each event is in one count, and JSON is valid.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use etw_consumer::{InputLimits, Trace};
use etw_symbols::Symbolizer;
use etw_testkit::traces::{self, Kind, Recipe};
use etw_testkit::{data, mutate};
use etw_timeline::{Format, Selection, Summary, write};

const FORMATS: [Format; 4] = [Format::Perfetto, Format::Chrome, Format::Firefox, Format::Speedscope];
/// Size limit of traces in bytes; larger ones are skipped, since each is converted to four formats.
const MAX_BYTES: u64 = 4_000_000;

fn export(trace: &mut Trace, format: Format, selection: &Selection) -> (Vec<u8>, Summary) {
    let mut out = Vec::new();
    let summary = write(trace, format, selection, &Symbolizer::new(), &mut out, &|_| ()).unwrap();
    let Summary { switches, wakeups, samples, of_slices, instants, context, left_out, without_place, .. } =
        summary;
    let sum = switches + wakeups + samples + of_slices + instants + context + left_out + without_place;
    assert_eq!(sum, summary.events, "{format:?}: {summary:?}");
    assert!(summary.unfinished <= summary.slices);
    if format != Format::Perfetto {
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert!(value.is_object());
    }
    (out, summary)
}

fn open(bytes: &[u8]) -> Option<Trace> {
    let limits = InputLimits { decompressed_bytes: 1 << 20 };
    Trace::builder().bytes("trace", bytes).limits(limits).open().ok()
}

#[test]
fn every_event_of_real_traces_is_counted_once() {
    for file in data::traces().into_iter().flatten().filter(|file| file.len_bytes < MAX_BYTES) {
        let mut trace = Trace::builder().bytes(&file.name, file.read().unwrap()).open().unwrap();
        let mut events = None;
        for format in FORMATS {
            let (_, summary) = export(&mut trace, format, &Selection::default());
            assert_eq!(summary.left_out, 0);
            assert_eq!(*events.get_or_insert(summary.events), summary.events, "{}", file.name);
        }
    }
}

#[test]
fn what_the_selection_leaves_out_is_counted() {
    let (bytes, _) = traces::bytes(&Recipe { processors: 2, ..Recipe::new(Kind::Switches, 300) }).unwrap();
    let mut trace = open(&bytes).unwrap();
    let nobody = Selection { process_ids: vec![u32::MAX - 7], ..Selection::default() };
    let (_, all) = export(&mut trace, Format::Perfetto, &Selection::default());
    let (_, none) = export(&mut trace, Format::Perfetto, &nobody);
    assert_eq!((all.switches, all.left_out), (300, 0));
    assert_eq!((none.switches, none.left_out, none.events), (0, all.events - all.context, all.events));
    let start = trace.start_time();
    let before = Selection { to: Some(start), ..Selection::default() };
    assert_eq!(export(&mut trace, Format::Speedscope, &before).1.samples, 0);
}

#[test]
fn damaged_traces_are_written_too() {
    for kind in [Kind::Mixed, Kind::Switches, Kind::Headers] {
        let recipe = Recipe { processors: 2, buffer_size: 4096, ..Recipe::new(kind, 150) };
        let (bytes, _) = traces::bytes(&recipe).unwrap();
        let mut turn = 0;
        mutate::each(&bytes, 150, |damaged| {
            turn += 1;
            if let Some(mut trace) = open(damaged) {
                export(&mut trace, FORMATS[turn % FORMATS.len()], &Selection::default());
            }
        });
    }
}
