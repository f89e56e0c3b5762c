//! Profiles for the Firefox Profiler, which are built in memory.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use etw_event::FileTime;
use etw_export::{JsonWriter, Options};
use etw_machine::{ProcessIndex, ThreadIndex};
use fxprof_processed_profile::{
    CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, MarkerFieldFlags, MarkerFieldFormat,
    MarkerTiming, ProcessHandle, Profile, ReferenceTimestamp, SamplingInterval, StackHandle,
    StaticSchemaMarker, StaticSchemaMarkerField, StringHandle, ThreadHandle, Timestamp,
};

use crate::Summary;
use crate::frames::Frames;
use crate::item::{Context, Item, ItemKind, Label, Owner, Sink, Track};

/// Process ids for tracks that are not processes; no process has them.
const DISKS: u32 = u32::MAX - 2;
const MACHINE: u32 = u32::MAX - 3;
const UNKNOWN: u32 = u32::MAX - 4;

pub(crate) struct Writer<'o> {
    out: &'o mut dyn Write,
    profile: Profile,
    processes: HashMap<Option<ProcessIndex>, ProcessHandle>,
    threads: HashMap<(Owner, u32), ThreadHandle>,
    json: JsonWriter,
    fields: Vec<u8>,
}

/// A marker for an event.
#[derive(Debug, Clone)]
struct EventMarker {
    name: StringHandle,
    provider: StringHandle,
    fields: StringHandle,
}

impl StaticSchemaMarker for EventMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "Event";
    const CHART_LABEL: Option<&'static str> = Some("{marker.name}");
    const TABLE_LABEL: Option<&'static str> =
        Some("{marker.data.provider}/{marker.name} {marker.data.fields}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[
        StaticSchemaMarkerField {
            key: "provider",
            label: "Provider",
            format: MarkerFieldFormat::String,
            flags: MarkerFieldFlags::SEARCHABLE,
        },
        StaticSchemaMarkerField {
            key: "fields",
            label: "Fields",
            format: MarkerFieldFormat::String,
            flags: MarkerFieldFlags::SEARCHABLE,
        },
    ];

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        CategoryHandle::OTHER
    }

    fn string_field_value(&self, field_index: u32) -> StringHandle {
        if field_index == 0 { self.provider } else { self.fields }
    }

    fn number_field_value(&self, _: u32) -> f64 {
        0.0
    }
}

impl<'o> Writer<'o> {
    pub(crate) fn new(out: &'o mut dyn Write, context: &Context<'_>) -> Writer<'o> {
        let since_epoch = context.start.0.saturating_sub(FileTime::UNIX_EPOCH.0).max(0).unsigned_abs();
        let start = ReferenceTimestamp::from_duration_since_unix_epoch(
            Duration::from_secs(since_epoch / 10_000_000)
                + Duration::from_nanos(since_epoch % 10_000_000 * 100),
        );
        let interval = SamplingInterval::from_nanos(context.survey.interval().nanos().max(1));
        let mut profile = Profile::new("OpenETW", start, interval);
        profile.set_symbolicated(true);
        Writer {
            out,
            profile,
            processes: HashMap::new(),
            threads: HashMap::new(),
            json: JsonWriter::new(&Options::default()),
            fields: Vec::new(),
        }
    }

    fn process(&mut self, context: &Context<'_>, index: Option<ProcessIndex>) -> ProcessHandle {
        let Writer { profile, processes, .. } = self;
        *processes.entry(index).or_insert_with(|| {
            let process = index.and_then(|index| context.survey.process(index));
            let (id, name) = process.unwrap_or((UNKNOWN, None));
            profile.add_process(name.unwrap_or("[unknown]"), id, timestamp(0))
        })
    }

    fn thread(&mut self, context: &Context<'_>, track: Track) -> ThreadHandle {
        // This format allows overlapping intervals on a thread.
        let lane = if matches!(track.owner, Owner::Disk(..)) { track.lane } else { 0 };
        if let Some(known) = self.threads.get(&(track.owner, lane)) {
            return *known;
        }
        let handle = match track.owner {
            Owner::Thread(index) => {
                let thread = context.survey.thread(index);
                let process = thread.and_then(|thread| thread.process);
                let id = thread.map_or(0, |thread| thread.id);
                let is_main = process
                    .and_then(|process| context.survey.process(process))
                    .is_some_and(|(process, _)| process == id);
                let process = self.process(context, process);
                let handle = self.profile.add_thread(process, id, timestamp(0), is_main);
                if let Some(name) = thread.and_then(|thread| thread.name) {
                    self.profile.set_thread_name(handle, name);
                }
                handle
            }
            Owner::Disk(machine, disk) => {
                let process = self.profile.add_process("Disks", DISKS, timestamp(0));
                let handle = self.profile.add_thread(process, disk, timestamp(0), false);
                self.profile.set_thread_name(handle, &context.disk_name(machine, disk));
                handle
            }
            Owner::Machine => {
                let process = self.profile.add_process("Machine", MACHINE, timestamp(0));
                self.profile.add_thread(process, 0, timestamp(0), true)
            }
        };
        self.threads.insert((track.owner, lane), handle);
        handle
    }

    fn marker(&mut self, context: &Context<'_>, track: Track, timing: MarkerTiming, label: &Label<'_>) {
        let thread = self.thread(context, track);
        self.fields.clear();
        self.json.put_fields(&mut self.fields, label.event);
        let marker = EventMarker {
            name: self.profile.intern_string(label.name),
            provider: self.profile.intern_string(label.category),
            fields: self.profile.intern_string(&String::from_utf8_lossy(&self.fields)),
        };
        self.profile.add_marker(thread, timing, marker);
    }

    fn samples(&mut self, context: &Context<'_>) {
        let frames = Frames::new(context.survey);
        let names: Vec<StringHandle> =
            frames.functions.iter().map(|function| self.profile.intern_string(&function.name)).collect();
        // Stacks, like frames, belong to one thread.
        let mut stacks: HashMap<(ThreadIndex, u32), StackHandle> = HashMap::new();
        let mut path = Vec::new();
        for sample in context.samples() {
            let thread = self.thread(context, Track { owner: Owner::Thread(sample.thread), lane: 0 });
            path.clear();
            let mut at = frames.innermost(sample.stack);
            let mut stack = None;
            while let Some(index) = at {
                stack = stacks.get(&(sample.thread, index)).copied();
                if stack.is_some() {
                    break;
                }
                path.push(index);
                at = frames.frames.get(index as usize).and_then(|frame| frame.outer);
            }
            for index in path.iter().rev() {
                let function = frames.frames.get(*index as usize).map(|frame| frame.function as usize);
                let Some(name) = function.and_then(|function| names.get(function)) else { continue };
                let info = FrameInfo {
                    frame: Frame::Label(*name),
                    category_pair: CategoryHandle::OTHER.into(),
                    flags: FrameFlags::empty(),
                };
                let frame = self.profile.intern_frame(thread, info);
                let next = self.profile.intern_stack(thread, stack, frame);
                stacks.insert((sample.thread, *index), next);
                stack = Some(next);
            }
            let weight = i32::try_from(sample.count).unwrap_or(i32::MAX);
            let took = CpuDelta::from_nanos(sample.weight.nanos());
            self.profile.add_sample(thread, timestamp(context.nanos(sample.time)), stack, took, weight);
        }
    }
}

impl Sink for Writer<'_> {
    fn begin(&mut self, context: &Context<'_>, _: &mut Summary) -> io::Result<()> {
        self.samples(context);
        Ok(())
    }

    fn put(&mut self, context: &Context<'_>, item: &Item<'_>) -> io::Result<bool> {
        let at = timestamp(context.nanos(item.time));
        match &item.kind {
            ItemKind::Switch(_) | ItemKind::Ready { .. } => return Ok(false),
            ItemKind::Begin { track, label } => {
                self.marker(context, *track, MarkerTiming::IntervalStart(at), label);
            }
            ItemKind::End { track, label } => {
                self.marker(context, *track, MarkerTiming::IntervalEnd(at), label);
            }
            ItemKind::Slice { track, begin, label } => {
                let begin = timestamp(context.nanos(*begin));
                self.marker(context, *track, MarkerTiming::Interval(begin, at), label);
            }
            ItemKind::Instant { track, label } => {
                self.marker(context, *track, MarkerTiming::Instant(at), label);
            }
        }
        Ok(true)
    }

    fn finish(self, _: &Context<'_>, _: FileTime) -> io::Result<()> {
        serde_json::to_writer(self.out, &self.profile).map_err(io::Error::from)
    }
}

fn timestamp(nanos: u64) -> Timestamp {
    Timestamp::from_nanos_since_reference(nanos)
}
