//! Profiles for speedscope: one for each sampled thread.
//!
//! Source: `file-format-schema.json` of the package `speedscope`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use etw_analysis::Sample;
use etw_machine::ThreadIndex;
use serde_json::json;

use crate::Summary;
use crate::frames::Frames;
use crate::item::Context;

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// Writes the samples and counts them.
pub(crate) fn write(out: &mut dyn Write, context: &Context<'_>, summary: &mut Summary) -> io::Result<()> {
    let frames = Frames::new(context.survey);
    let mut threads: BTreeMap<ThreadIndex, Vec<&Sample>> = BTreeMap::new();
    for sample in context.samples() {
        threads.entry(sample.thread).or_default().push(sample);
        summary.samples += 1;
    }
    summary.left_out += context.survey.samples().len() as u64 - summary.samples;
    write!(out, "{{\"$schema\":{},\"exporter\":{},", json!(SCHEMA), json!(exporter()))?;
    write!(out, "\"shared\":{{\"frames\":[")?;
    for (index, function) in frames.functions.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let mut frame = json!({ "name": &*function.name });
        if let Some(place) = function.file.as_ref().or(function.module.as_ref()) {
            frame["file"] = json!(&**place);
        }
        if let (Some(line), Some(_)) = (function.line, &function.file) {
            frame["line"] = json!(line);
        }
        write!(out, "{comma}{frame}")?;
    }
    write!(out, "]}},\"profiles\":[")?;
    let end = context.survey.samples().iter().map(|sample| context.nanos(sample.time)).max().unwrap_or(0);
    // The threads with the most samples come first.
    let mut threads: Vec<_> = threads.into_iter().collect();
    let is_idle = |thread| context.survey.thread(thread).is_some_and(|thread| thread.id == 0);
    threads.sort_by_key(|(thread, samples)| (is_idle(*thread), std::cmp::Reverse(samples.len())));
    for (index, (thread, samples)) in threads.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(out, "{comma}{{\"type\":\"sampled\",\"name\":{},", json!(thread_name(context, *thread)))?;
        write!(out, "\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":{end},\"samples\":[")?;
        for (index, sample) in samples.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(out, "{comma}{}", json!(frames.stack(frames.innermost(sample.stack))))?;
        }
        write!(out, "],\"weights\":[")?;
        for (index, sample) in samples.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(out, "{comma}{}", sample.weight.nanos())?;
        }
        write!(out, "]}}")?;
    }
    writeln!(out, "]}}")
}

pub(crate) fn exporter() -> String {
    format!("OpenETW {}", env!("CARGO_PKG_VERSION"))
}

/// Returns a name such as `make (17) thread 18 worker`.
fn thread_name(context: &Context<'_>, thread: ThreadIndex) -> String {
    let Some(thread) = context.survey.thread(thread) else { return String::new() };
    let process = thread.process.and_then(|process| context.survey.process(process));
    let mut text = match process {
        Some((id, name)) => format!("{} ({id}) ", name.unwrap_or("?")),
        None => String::new(),
    };
    text.push_str(&format!("thread {}", thread.id));
    match thread.name {
        Some(name) => format!("{text} {name}"),
        None => text,
    }
}
