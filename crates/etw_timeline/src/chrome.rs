//! The JSON of `chrome://tracing`.
//!
//! Processors and disks are shown as separate processes. Times are microseconds from the start of the trace, since
//! readers have 53 bits for them.
//!
//! Source: "Trace Event Format", the document of the Chromium project.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use etw_analysis::Switch;
use etw_consumer::Event;
use etw_event::FileTime;
use etw_export::{JsonWriter, Options};
use etw_machine::ThreadIndex;
use serde_json::{Value, json};

use crate::Summary;
use crate::frames::Frames;
use crate::item::{Context, Item, ItemKind, Label, Owner, Sink, Track};
use crate::pass::shown_switch;
use crate::speedscope::exporter;

/// Process ids for tracks that are not processes; no process has them.
const PROCESSORS: u32 = u32::MAX - 1;
const DISKS: u32 = u32::MAX - 2;
const MACHINE: u32 = u32::MAX - 3;
const UNKNOWN: u32 = u32::MAX - 4;

pub(crate) struct Writer<'o> {
    out: &'o mut dyn Write,
    json: JsonWriter,
    args: Vec<u8>,
    has_any: bool,
    /// The running thread of each processor, and the time since when.
    running: BTreeMap<u16, (ThreadIndex, FileTime)>,
    processors: BTreeSet<u16>,
    /// The threads that stand for the lanes of disks, by machine, disk and lane.
    disks: BTreeMap<(u32, u32, u32), u32>,
    has_machine: bool,
}

impl<'o> Writer<'o> {
    pub(crate) fn new(out: &'o mut dyn Write) -> Writer<'o> {
        Writer {
            out,
            json: JsonWriter::new(&Options::default()),
            args: Vec::new(),
            has_any: false,
            running: BTreeMap::new(),
            processors: BTreeSet::new(),
            disks: BTreeMap::new(),
            has_machine: false,
        }
    }

    /// Writes an event of the format; `members` is written unchanged.
    fn event(&mut self, members: &str, args: &str) -> io::Result<()> {
        let comma = if self.has_any { ",\n" } else { "\n" };
        self.has_any = true;
        let args = if args.is_empty() { String::new() } else { format!(",\"args\":{args}") };
        write!(self.out, "{comma}{{{members}{args}}}")
    }

    fn metadata(&mut self, what: &str, pid: u32, tid: u32, name: &str) -> io::Result<()> {
        let members = format!("\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{pid},\"tid\":{tid}");
        self.event(&members, &json!({ "name": name }).to_string())
    }

    /// Returns the fields of an event.
    fn args(&mut self, event: &Event<'_>) -> String {
        self.args.clear();
        self.json.put_fields(&mut self.args, event);
        String::from_utf8_lossy(&self.args).into_owned()
    }

    fn labelled(
        &mut self,
        context: &Context<'_>,
        phase: &str,
        track: Track,
        time: FileTime,
        label: &Label<'_>,
        more: &str,
    ) -> io::Result<()> {
        let (pid, tid) = self.place(context, track);
        let args = self.args(label.event);
        let members = format!(
            "\"ph\":\"{phase}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{},\"name\":{},\"cat\":{}{more}",
            micros(context.nanos(time)),
            json!(label.name),
            json!(label.category)
        );
        self.event(&members, &args)
    }

    /// Returns the format's process and thread of a track.
    fn place(&mut self, context: &Context<'_>, track: Track) -> (u32, u32) {
        match track.owner {
            Owner::Thread(thread) => ids(context, thread),
            Owner::Disk(machine, disk) => {
                let next = self.disks.len() as u32;
                (DISKS, *self.disks.entry((machine, disk, track.lane)).or_insert(next))
            }
            Owner::Machine => {
                self.has_machine = true;
                (MACHINE, 0)
            }
        }
    }

    fn switch(&mut self, context: &Context<'_>, item: &Item<'_>, switch: &Switch) -> io::Result<()> {
        self.processors.insert(item.processor);
        if let Some((thread, since)) = self.running.remove(&item.processor) {
            self.run(context, item.processor, thread, since, item.time)?;
        }
        if let (_, Some(to)) = shown_switch(context, switch)
            && context.survey.thread(to).is_some_and(|thread| thread.id != 0)
        {
            self.running.insert(item.processor, (to, item.time));
        }
        Ok(())
    }

    fn run(
        &mut self,
        context: &Context<'_>,
        processor: u16,
        thread: ThreadIndex,
        since: FileTime,
        until: FileTime,
    ) -> io::Result<()> {
        let (pid, tid) = ids(context, thread);
        let name = context.thread_name(thread).map_or_else(|| format!("thread {tid}"), str::to_owned);
        let (begin, end) = (context.nanos(since), context.nanos(until));
        let members = format!(
            "\"ph\":\"X\",\"pid\":{PROCESSORS},\"tid\":{processor},\"ts\":{},\"dur\":{},\"name\":{},\"cat\":\"Running\"",
            micros(begin),
            micros(end.saturating_sub(begin)),
            json!(name)
        );
        self.event(&members, &json!({ "pid": pid, "tid": tid }).to_string())
    }

    fn names(&mut self, context: &Context<'_>) -> io::Result<()> {
        for (_, id, name) in context.survey.processes() {
            if let Some(name) = name {
                self.metadata("process_name", id, 0, name)?;
            }
        }
        for index in context.survey.threads() {
            let Some(thread) = context.survey.thread(index) else { continue };
            if let Some(name) = thread.name {
                let (pid, tid) = ids(context, index);
                self.metadata("thread_name", pid, tid, name)?;
            }
        }
        Ok(())
    }

    fn own_names(&mut self, context: &Context<'_>) -> io::Result<()> {
        let processors = std::mem::take(&mut self.processors);
        if !processors.is_empty() {
            self.metadata("process_name", PROCESSORS, 0, "Processors")?;
        }
        for processor in processors {
            self.metadata("thread_name", PROCESSORS, processor.into(), &format!("Processor {processor}"))?;
        }
        let disks = std::mem::take(&mut self.disks);
        if !disks.is_empty() {
            self.metadata("process_name", DISKS, 0, "Disks")?;
        }
        for ((machine, disk, _), tid) in disks {
            self.metadata("thread_name", DISKS, tid, &context.disk_name(machine, disk))?;
        }
        if self.has_machine {
            self.metadata("process_name", MACHINE, 0, "Machine")?;
        }
        Ok(())
    }

    fn samples(&mut self, context: &Context<'_>) -> io::Result<()> {
        let frames = Frames::new(context.survey);
        write!(self.out, "\n],\"stackFrames\":{{")?;
        for (index, frame) in frames.frames.iter().enumerate() {
            let Some(function) = frames.functions.get(frame.function as usize) else { continue };
            let mut value = json!({ "name": &*function.name });
            if let Some(module) = &function.module {
                value["category"] = json!(&**module);
            }
            if let Some(outer) = frame.outer {
                value["parent"] = json!(outer.to_string());
            }
            let comma = if index == 0 { "\n" } else { ",\n" };
            write!(self.out, "{comma}\"{index}\":{value}")?;
        }
        write!(self.out, "\n}},\"samples\":[")?;
        let mut comma = "\n";
        for sample in context.samples() {
            let (pid, tid) = ids(context, sample.thread);
            write!(
                self.out,
                "{comma}{{\"name\":\"Sample\",\"cpu\":{},\"pid\":{pid},\"tid\":{tid},\"ts\":{},\"weight\":{}",
                sample.processor,
                micros(context.nanos(sample.time)),
                sample.count
            )?;
            if let Some(frame) = frames.innermost(sample.stack) {
                write!(self.out, ",\"sf\":\"{frame}\"")?;
            }
            write!(self.out, "}}")?;
            comma = ",\n";
        }
        write!(self.out, "\n]")
    }
}

impl Sink for Writer<'_> {
    fn begin(&mut self, context: &Context<'_>, _: &mut Summary) -> io::Result<()> {
        write!(self.out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        self.names(context)
    }

    fn put(&mut self, context: &Context<'_>, item: &Item<'_>) -> io::Result<bool> {
        match &item.kind {
            ItemKind::Switch(switch) => self.switch(context, item, switch)?,
            ItemKind::Ready { thread, by } => {
                let (pid, tid) = ids(context, *thread);
                let by = by.map_or(Value::Null, |by| json!(ids(context, by).1));
                let ts = micros(context.nanos(item.time));
                let members = format!(
                    "\"ph\":\"i\",\"s\":\"t\",\"pid\":{pid},\"tid\":{tid},\"ts\":{ts},\"name\":\"Ready\",\"cat\":\"Ready\""
                );
                self.event(&members, &json!({ "by": by }).to_string())?;
            }
            ItemKind::Begin { track, label } => self.edge(context, true, *track, item.time, label)?,
            ItemKind::End { track, label } => self.edge(context, false, *track, item.time, label)?,
            ItemKind::Slice { track, begin, label } => {
                let took = context.nanos(item.time).saturating_sub(context.nanos(*begin));
                let more = format!(",\"dur\":{}", micros(took));
                self.labelled(context, "X", *track, *begin, label, &more)?;
            }
            ItemKind::Instant { track, label } => {
                self.labelled(context, "i", *track, item.time, label, ",\"s\":\"t\"")?;
            }
        }
        Ok(true)
    }

    fn finish(mut self, context: &Context<'_>, end: FileTime) -> io::Result<()> {
        for (processor, (thread, since)) in std::mem::take(&mut self.running) {
            self.run(context, processor, thread, since, end)?;
        }
        self.own_names(context)?;
        self.samples(context)?;
        let about = json!({ "exporter": exporter(), "start": context.start.to_string() });
        writeln!(self.out, ",\"otherData\":{about}}}")
    }
}

impl Writer<'_> {
    /// Writes the start or end of a slice: on the thread itself, or, beside another slice there, with a separate id
    /// for the lane.
    fn edge(
        &mut self,
        context: &Context<'_>,
        is_begin: bool,
        track: Track,
        time: FileTime,
        label: &Label<'_>,
    ) -> io::Result<()> {
        let phase = match (track.lane, is_begin) {
            (0, true) => "B",
            (0, false) => "E",
            (_, true) => "b",
            (_, false) => "e",
        };
        let (_, tid) = self.place(context, track);
        let more = if track.lane == 0 { String::new() } else { format!(",\"id\":\"{tid}.{}\"", track.lane) };
        self.labelled(context, phase, track, time, label, &more)
    }
}

fn ids(context: &Context<'_>, thread: ThreadIndex) -> (u32, u32) {
    let Some(thread) = context.survey.thread(thread) else { return (UNKNOWN, 0) };
    let process = thread.process.and_then(|process| context.survey.process(process));
    (process.map_or(UNKNOWN, |(id, _)| id), thread.id)
}

/// Formats microseconds with three decimal places.
fn micros(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}
