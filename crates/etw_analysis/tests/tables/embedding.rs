//! Names that are embedded in a trace, read without the files that they are from.

use std::path::Path;
use std::sync::Arc;

use etw_analysis::{Analysis, ModuleUse, Report, ReportOptions, SymbolEmbedding, TableKind, Timeline};
use etw_capture::images::build_id_of_file;
use etw_consumer::{EventFilter, Trace, TraceBuilder};
use etw_event::{Origin, Record, Ticks};
use etw_kernel_events::classes::{Image, ImageDebugId, ImageEvent, SampledProfile, StackWalk};
use etw_machine::{Machines, StackNames, Window};
use etw_relog::{Compression, Relogger};
use etw_stacks::StackWeight;
use etw_symbols::{SymbolPath, Symbolizer};

use crate::machine::{Machine, row, table, text};
use crate::symbols::{own_range, sampled_windows};

/// Returns traces with the names that a symbolizer has embedded, merged into one file, and what was embedded.
pub(crate) fn embedded(traces: TraceBuilder, symbolizer: &Symbolizer) -> (TraceBuilder, SymbolEmbedding) {
    let embedding = SymbolEmbedding::from_traces(traces.clone(), symbolizer).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("named.etl");
    let relogger = Relogger::new().append(embedding.records());
    let relogged = relogger.write(&mut traces.open().unwrap(), &path).unwrap();
    assert_eq!(relogged.appended, embedding.records().len() as u64);
    assert_eq!(relogged.events_lost, 0);
    (Trace::builder().bytes("named", std::fs::read(path).unwrap()), embedding)
}

/// Returns a symbolizer with the PDB of `shapes.exe`.
fn shapes() -> Symbolizer {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../etw_fuzz/src/seeds");
    Symbolizer::new().search(seeds.to_str().unwrap().parse::<SymbolPath>().unwrap())
}

fn analysis(traces: &TraceBuilder) -> (Analysis, ReportOptions) {
    let mut trace = traces.clone().open().unwrap();
    let stacks = trace.stacks().unwrap();
    let analysis = Analysis::new(Window::ALL).of_machines(Machines::from_trace(&trace));
    let mut analysis = analysis.by_stack(StackWeight::Events);
    trace.for_each_event(|event| analysis.add_with_stack(event, &stacks.of(event.record))).unwrap();
    let options = ReportOptions { folded_stacks: true, ..ReportOptions::from_headers(trace.headers()) };
    (analysis, options)
}

fn report(traces: &TraceBuilder, symbolizer: &Symbolizer) -> Report {
    let (analysis, options) = analysis(traces);
    analysis.report(&ReportOptions { symbolizer: symbolizer.clone(), ..options })
}

fn modules(traces: &TraceBuilder) -> Vec<ModuleUse> {
    analysis(traces).0.modules()
}

/// Returns the frames of all events with stacks: names, files, lines.
fn frames(traces: &TraceBuilder, symbolizer: &Symbolizer) -> Vec<String> {
    let filter = EventFilter::default();
    let names = Arc::new(StackNames::from_traces(traces.clone(), &filter, symbolizer).unwrap());
    let mut frames = Vec::new();
    let mut trace = traces.clone().open().unwrap();
    trace
        .for_each_record(|record| {
            let of_record = names.of_record(record);
            frames.extend(of_record.map(|frame| format!("{} {frame:?}", record.raw_time().0)));
        })
        .unwrap();
    frames
}

/// Returns the records without those of the file itself.
fn records(traces: &TraceBuilder) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    let mut trace = traces.clone().open().unwrap();
    trace
        .for_each_record(|record| {
            if record.hook_id().is_none_or(|hook| hook.group() != 0) {
                records.push(record.as_bytes().to_vec());
            }
        })
        .unwrap();
    records
}

/// Returns the frames of timelines and profiles.
fn survey(traces: &TraceBuilder, symbolizer: &Symbolizer) -> Vec<String> {
    let mut timeline = Timeline::first();
    traces.clone().open().unwrap().for_each_event(|event| _ = timeline.add(event, true)).unwrap();
    let survey = timeline.survey(symbolizer);
    survey.stacks().map(|node| format!("{:#x} {:?}", node.address, node.frames)).collect()
}

/// Checks that the names are the same without the files, and how many there are at least.
fn check(traces: &TraceBuilder, symbolizer: &Symbolizer, at_least: usize) -> TraceBuilder {
    let (named, embedding) = embedded(traces.clone(), symbolizer);
    assert!(embedding.addresses() >= at_least && embedding.skipped() == 0, "{embedding:?}");
    // Other paths of users have nothing.
    let nothing = Symbolizer::new();
    // The names are events, too.
    let without_events = |report: Report| Report { events: 0, ..report };
    assert_eq!(without_events(report(&named, &nothing)), without_events(report(traces, symbolizer)));
    assert_eq!(survey(&named, &nothing), survey(traces, symbolizer));
    let expected = frames(traces, symbolizer);
    assert_eq!(frames(&named, &nothing), expected);
    assert_ne!(frames(traces, &nothing), expected, "the names need the file");
    // What is in the trace is not embedded once more.
    let (_, again) = embedded(named.clone(), symbolizer);
    assert_eq!((again.modules(), again.records().len()), (0, 0));
    named
}

#[test]
fn names_of_a_program_for_windows() {
    for is_id_first in [true, false] {
        let traces = sampled_windows(is_id_first).builder(10_000);
        let named = check(&traces, &shapes(), 2);
        let report = report(&named, &Symbolizer::new());
        row(&report, TableKind::Functions, "function", &text("shapes::Counter::twice"));
        assert!(table(&report, TableKind::Functions).notes.is_empty());
        let modules = modules(&named);
        let [module] = modules.as_slice() else { panic!("{modules:?}") };
        assert_eq!((module.addresses, module.named_addresses, module.is_named()), (2, 2, true));
        assert_eq!(module.source.as_deref(), Some("shapes.pdb"), "where the names are from");
        let frames = frames(&named, &Symbolizer::new());
        assert!(frames[0].contains("shapes.cpp") && frames[0].contains("line: Some(17)"), "{frames:#?}");
    }
}

#[test]
fn names_are_kept_by_every_form_of_rewriting() {
    let traces = sampled_windows(true).builder(10_000);
    let (named, _) = embedded(traces.clone(), &shapes());
    let expected = frames(&named, &Symbolizer::new());
    let directory = tempfile::tempdir().unwrap();
    for (compression, name) in [(Compression::Compressed, "c.etl"), (Compression::Plain, "p.etl")] {
        let path = directory.path().join(name);
        Relogger::new().compression(compression).write(&mut named.clone().open().unwrap(), &path).unwrap();
        let again = Trace::builder().bytes("again", std::fs::read(&path).unwrap());
        assert_eq!(frames(&again, &Symbolizer::new()), expected, "{compression:?}");
        // Names appended to a compressed file are compressed too.
        let embedding = SymbolEmbedding::from_traces(traces.clone(), &shapes()).unwrap();
        let relogger = Relogger::new().compression(compression).append(embedding.records()).overwrite(true);
        relogger.write(&mut traces.clone().open().unwrap(), &path).unwrap();
        let again = Trace::builder().bytes("again", std::fs::read(&path).unwrap());
        assert_eq!(frames(&again, &Symbolizer::new()), expected, "{compression:?}");
    }
    let filter = EventFilter::default().expression("event == SampleProfile").unwrap();
    let path = directory.path().join("filtered.etl");
    Relogger::new().write(&mut named.filter(&filter).open().unwrap(), &path).unwrap();
    let filtered = Trace::builder().bytes("filtered", std::fs::read(path).unwrap());
    assert_eq!(frames(&filtered, &Symbolizer::new()), expected);
}

#[test]
fn names_of_another_build_are_not_used() {
    let (named, _) = embedded(sampled_windows(true).builder(10_000), &shapes());
    let mut bytes = records(&named);
    // The age of the image's PDB in the trace, but not that in the names.
    let guid = [0xAD, 0x8E, 0xCA, 0x10, 0x51, 0xB3, 0xE5, 0x1A];
    let id = bytes.iter_mut().find(|bytes| bytes.windows(8).any(|part| part == guid)).unwrap();
    let at = id.windows(8).position(|part| part == guid).unwrap() + 16;
    id[at] += 1;
    let mut other = Machine::default();
    bytes.iter().zip(1..).for_each(|(bytes, micros)| other.put_bytes(micros, 0, bytes.clone()));
    let other = other.in_order();
    assert!(frames(&other, &Symbolizer::new()).iter().all(|frame| frame.contains("function: None")));
    let modules = modules(&other);
    assert_eq!((modules[0].named_addresses, &modules[0].source), (0, &None), "{modules:?}");
}

#[test]
fn names_of_this_program_in_several_events() {
    let exe = std::env::current_exe().unwrap();
    let (base, end) = own_range();
    let build_id = build_id_of_file(&exe).unwrap();
    let mut machine = Machine::default();
    machine.there_is(10, "tables");
    let (event, len_bytes, process_id) = (ImageEvent::DcStart, end - base, 10);
    // Another machine has no file at this path.
    let file_name = exe.to_str().unwrap().as_bytes();
    machine.put(0, 0, &Image { event, base, len_bytes, process_id, build_id, file_name });
    if let Some(build_id) = build_id {
        machine.put(0, 0, &ImageDebugId { base, process_id, build_id, file_name });
    }
    // Addresses all over the program, most of them inside of functions.
    let step = (end - base) / 3000;
    for number in 0..3000_u64 {
        let micros = 1 + number as i64;
        let instruction_pointer = base + number * step;
        let sample =
            SampledProfile { instruction_pointer, thread_id: 10, count: 1, ..SampledProfile::default() };
        machine.put(micros, 0, &sample);
        let frames = [instruction_pointer, instruction_pointer + 7];
        let event_time = Ticks(micros * 10);
        machine.put(micros, 0, &StackWalk { event_time, process_id: 10, thread_id: 10, frames: &frames });
    }
    let traces = machine.builder(10_000);
    let symbolizer = Symbolizer::new();
    let (named, embedding) = embedded(traces.clone(), &symbolizer);
    assert!(embedding.addresses() > 2000 && embedding.records().len() > 3, "{}", embedding.addresses());
    assert_eq!(embedding.skipped(), 0);
    let [module] = modules(&named).try_into().unwrap();
    assert_eq!(module.source.as_deref(), exe.file_name().unwrap().to_str());
    // The file is still there, so the index must have answered: nothing is left to embed.
    let (_, again) = embedded(named.clone(), &symbolizer);
    assert_eq!(again.modules(), 0);
    assert_eq!(frames(&named, &symbolizer), frames(&traces, &symbolizer));
}

#[test]
fn damaged_names_cost_names_only() {
    let (named, _) = embedded(sampled_windows(true).builder(10_000), &shapes());
    let mut records = records(&named);
    let is_names = |bytes: &Vec<u8>| bytes.windows(9).any(|part| part == b"ImageCode");
    let at = records.iter().position(is_names).unwrap();
    let whole = records[at].clone();
    let (mut state, mut rounds) = (1_u64, 0);
    for round in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..1 + round % 8 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // The payload and the metadata; the header stays.
            let place = 0x60 + (state >> 33) as usize % (bytes.len() - 0x60);
            bytes[place] = (state >> 20) as u8;
        }
        let origin = Origin::default();
        if !Record::parse(&bytes, &origin, Ticks(0)).is_ok_and(|record| record.is_intact()) {
            continue;
        }
        rounds += 1;
        records[at] = bytes;
        let mut machine = Machine::default();
        records.iter().zip(1..).for_each(|(bytes, micros)| machine.put_bytes(micros, 0, bytes.clone()));
        let traces = machine.in_order();
        assert_eq!(report(&traces, &Symbolizer::new()).folded_stacks.len(), 1, "round {round}");
    }
    assert!(rounds > 100, "{rounds}");
}
