//! Real, generated and damaged traces in every format: each event is in one count, and JSON is valid.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod pprof;

use etw_consumer::{InputLimits, Trace};
use etw_symbols::Symbolizer;
use etw_testkit::traces::{self, Kind, Recipe};
use etw_testkit::{data, mutate};
use etw_timeline::{Format, Selection, Summary, write};

const FORMATS: [Format; 5] =
    [Format::Perfetto, Format::Chrome, Format::Firefox, Format::Speedscope, Format::Pprof];
/// Size limit of traces in bytes; larger ones are skipped, since each is converted to every format.
const MAX_BYTES: u64 = 4_000_000;

fn export(trace: &mut Trace, format: Format, selection: &Selection) -> (Vec<u8>, Summary) {
    let mut out = Vec::new();
    let summary = write(trace, format, selection, &Symbolizer::new(), &mut out, &|_| ()).unwrap();
    let Summary { switches, wakeups, samples, of_slices, instants, context, left_out, without_place, .. } =
        summary;
    let sum = switches + wakeups + samples + of_slices + instants + context + left_out + without_place;
    assert_eq!(sum, summary.events, "{format:?}: {summary:?}");
    assert!(summary.unfinished <= summary.slices);
    if format == Format::Pprof {
        let profile = pprof::read(&out);
        let samples: i64 = profile.sample.iter().map(|sample| sample.value[0]).sum();
        assert!(samples >= summary.samples as i64, "a sample may stand for several");
    } else if format != Format::Perfetto {
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert!(value.is_object());
    }
    (out, summary)
}

fn open(bytes: &[u8]) -> Option<Trace> {
    let limits = InputLimits { decompressed_bytes: 1 << 20, ..InputLimits::default() };
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
fn pprof_sums_samples_by_thread_and_stack() {
    let Some(file) = data::trace("microsoft-perfview/net.4.5.2.x64.etl") else { return };
    let mut trace = Trace::builder().file(&file.path).open().unwrap();
    let (bytes, summary) = export(&mut trace, Format::Pprof, &Selection::default());
    let profile = pprof::read(&bytes);
    assert!(summary.samples > 1000 && profile.sample.len() < summary.samples as usize);
    let text = |index: i64| profile.string_table[index as usize].as_str();
    let types: Vec<_> = profile.sample_type.iter().map(|kind| (text(kind.r#type), text(kind.unit))).collect();
    assert_eq!(types, [("samples", "count"), ("cpu", "nanoseconds")]);
    assert_eq!(profile.sample.iter().map(|sample| sample.value[0]).sum::<i64>(), summary.samples as i64);
    let nanos: i64 = profile.sample.iter().map(|sample| sample.value[1]).sum();
    assert!(nanos > 0 && profile.period > 0);
    let start = trace.start_time().0 - 116_444_736_000_000_000;
    assert_eq!(profile.time_nanos, start * 100);
    // The same stacks as in speedscope's profile, whose frames have the same order.
    let (other, _) = export(&mut trace, Format::Speedscope, &Selection::default());
    let other: serde_json::Value = serde_json::from_slice(&other).unwrap();
    let frames = other["shared"]["frames"].as_array().unwrap();
    let mut stacks: Vec<Vec<&str>> = Vec::new();
    for thread in other["profiles"].as_array().unwrap() {
        for stack in thread["samples"].as_array().unwrap() {
            let frames =
                stack.as_array().unwrap().iter().map(|frame| &frames[frame.as_u64().unwrap() as usize]);
            stacks.push(frames.map(|frame| frame["name"].as_str().unwrap()).collect());
        }
    }
    stacks.sort();
    let name = |location: u64| {
        let location = &profile.location[location as usize - 1];
        text(profile.function[location.line[0].function_id as usize - 1].name)
    };
    let mut own: Vec<Vec<&str>> = Vec::new();
    for sample in &profile.sample {
        let stack: Vec<&str> = sample.location_id.iter().rev().map(|id| name(*id)).collect();
        own.extend(std::iter::repeat_n(stack, sample.value[0] as usize));
        let labels: Vec<_> = sample.label.iter().map(|label| text(label.key)).collect();
        assert!(labels.contains(&"tid"), "{labels:?}");
    }
    own.sort();
    assert!(own == stacks);
    let labels = || profile.sample.iter().flat_map(|sample| &sample.label);
    assert!(labels().any(|label| text(label.key) == "process" && !text(label.str).is_empty()));
    assert!(labels().any(|label| text(label.key) == "pid" && label.num > 0));
    assert!(profile.mapping.iter().any(|mapping| !text(mapping.filename).is_empty()));
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
