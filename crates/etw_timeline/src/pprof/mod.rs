//! Profiles for pprof: samples with stacks, summed by thread and stack, compressed with gzip.
//!
//! Source: `proto/profile.proto` in google/pprof.

mod proto;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use etw_event::FileTime;
use etw_machine::ThreadIndex;
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use self::proto::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};
use crate::Summary;
use crate::frames::Frames;
use crate::item::Context;

/// Writes the samples and counts them.
pub(crate) fn write(out: &mut dyn Write, context: &Context<'_>, summary: &mut Summary) -> io::Result<()> {
    let profile = profile(context, summary);
    let mut encoder = GzEncoder::new(out, Compression::default());
    encoder.write_all(&profile.encode_to_vec())?;
    encoder.finish().map(|_| ())
}

fn profile(context: &Context<'_>, summary: &mut Summary) -> Profile {
    let survey = context.survey;
    let frames = Frames::new(survey);
    // Samples and nanoseconds by thread and innermost frame.
    let mut sums: BTreeMap<(ThreadIndex, Option<u32>), [i64; 2]> = BTreeMap::new();
    let mut end = 0;
    for sample in context.samples() {
        let sum = sums.entry((sample.thread, frames.innermost(sample.stack))).or_default();
        sum[0] = sum[0].saturating_add(number(sample.count));
        sum[1] = sum[1].saturating_add(number(sample.weight.nanos()));
        end = end.max(context.nanos(sample.time));
        summary.samples += 1;
    }
    summary.left_out += survey.samples().len() as u64 - summary.samples;
    let mut strings = Strings::default();
    let mut value_type =
        |name: &str, unit: &str| ValueType { r#type: strings.of(name), unit: strings.of(unit) };
    let (samples, cpu) = (value_type("samples", "count"), value_type("cpu", "nanoseconds"));
    let (mapping, location, function) = places(&frames, &mut strings);
    let sample = sums.into_iter().map(|((thread, innermost), sum)| {
        let mut location_id: Vec<u64> =
            frames.stack(innermost).into_iter().map(|function| u64::from(function) + 1).collect();
        location_id.reverse();
        Sample { location_id, value: sum.to_vec(), label: labels(context, thread, &mut strings) }
    });
    let sample = sample.collect();
    Profile {
        sample_type: vec![samples, cpu],
        sample,
        mapping,
        location,
        function,
        time_nanos: context.start.0.saturating_sub(FileTime::UNIX_EPOCH.0).saturating_mul(100),
        duration_nanos: number(end),
        period_type: Some(cpu),
        period: number(survey.interval().nanos()),
        default_sample_type: cpu.r#type,
        string_table: strings.table,
    }
}

/// Returns the modules, the places in functions, whose ids are their numbers in `frames` from 1 on, and the functions.
fn places(frames: &Frames, strings: &mut Strings) -> (Vec<Mapping>, Vec<Location>, Vec<Function>) {
    let (mut mappings, mut locations, mut functions) = (Vec::new(), Vec::new(), Vec::new());
    let mut mapping_ids: HashMap<i64, u64> = HashMap::new();
    let mut function_ids: HashMap<(i64, i64, u64), u64> = HashMap::new();
    for (function, id) in frames.functions.iter().zip(1..) {
        let mapping_id = function.module.as_deref().map_or(0, |module| {
            let filename = strings.of(module);
            *mapping_ids.entry(filename).or_insert_with(|| {
                let id = mappings.len() as u64 + 1;
                mappings.push(Mapping { id, filename, has_functions: true });
                id
            })
        });
        let name = strings.of(&function.name);
        let filename = function.file.as_deref().map_or(0, |file| strings.of(file));
        let function_id = *function_ids.entry((name, filename, mapping_id)).or_insert_with(|| {
            let id = functions.len() as u64 + 1;
            functions.push(Function { id, name, filename });
            id
        });
        let line = Line { function_id, line: function.line.map_or(0, i64::from) };
        locations.push(Location { id, mapping_id, line: vec![line] });
    }
    (mappings, locations, functions)
}

/// Returns the labels of a thread's samples.
fn labels(context: &Context<'_>, thread: ThreadIndex, strings: &mut Strings) -> Vec<Label> {
    let Some(thread) = context.survey.thread(thread) else { return Vec::new() };
    let mut labels = Vec::new();
    let mut text = |strings: &mut Strings, key: &str, text: Option<&str>| {
        if let Some(text) = text {
            labels.push(Label { key: strings.of(key), str: strings.of(text), num: 0 });
        }
    };
    let process = thread.process.and_then(|process| context.survey.process(process));
    text(strings, "process", process.and_then(|(_, name)| name));
    text(strings, "thread", thread.name);
    for (key, id) in [("pid", process.map(|(id, _)| id)), ("tid", Some(thread.id))] {
        labels.extend(id.map(|id| Label { key: strings.of(key), str: 0, num: id.into() }));
    }
    labels
}

/// The table of strings.
struct Strings {
    table: Vec<String>,
    indexes: HashMap<String, i64>,
}

impl Default for Strings {
    fn default() -> Strings {
        Strings { table: vec![String::new()], indexes: HashMap::from([(String::new(), 0)]) }
    }
}

impl Strings {
    fn of(&mut self, text: &str) -> i64 {
        if let Some(index) = self.indexes.get(text) {
            return *index;
        }
        let index = self.table.len() as i64;
        self.table.push(text.to_owned());
        self.indexes.insert(text.to_owned(), index);
        index
    }
}

fn number(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
