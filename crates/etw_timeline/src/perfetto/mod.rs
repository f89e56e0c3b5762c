//! Perfetto's traces.
//!
//! Switches are written in the form of the Linux kernel's tracer, so that they fill the scheduling tables; events are
//! on the tracks of their threads. Times are nanoseconds since 1970, in the clock that Perfetto uses by default.

mod annotations;
mod interned;
mod proto;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Write};

use etw_analysis::Switch;
use etw_event::FileTime;
use etw_machine::{ProcessIndex, ThreadIndex};
use prost::Message;

use crate::Summary;
use crate::frames::Frames;
use crate::item::{Context, Item, ItemKind, Label, Owner, Sink, Track};
use crate::pass::shown_switch;
use interned::Interned;
use proto::{
    Callstack, Clock, ClockSnapshot, Data, Frame, FtraceEvent, FtraceEventBundle, InternedData,
    InternedString, Mapping, PerfSample, PerfSampleDefaults, ProcessDescriptor, SchedSwitch, SchedWaking,
    ThreadDescriptor, Timebase, TracePacket, TracePacketDefaults, TrackDescriptor, TrackEvent,
};

/// The key of a packet in a trace: field 1, a message.
const PACKET: u8 = 0x0A;
/// Sequences; each has its own interned data.
const EVENTS: u32 = 1;
const SCHEDULING: u32 = 2;
const SAMPLES: u32 = 3;
/// Packet flags: the sequence starts over; the packet needs interned data.
const CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;
/// `BUILTIN_CLOCK_REALTIME`, `BUILTIN_CLOCK_BOOTTIME`.
const REALTIME: u32 = 1;
const BOOTTIME: u32 = 6;
/// `SW_CPU_CLOCK`.
const CPU_CLOCK: u32 = 1;
/// Kinds of track events.
const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
/// States of threads, of Windows and of Linux.
const WAITING: u8 = 5;
const TERMINATED: u8 = 4;
const RUNNABLE: i64 = 0;
const INTERRUPTIBLE: i64 = 1;
const DEAD: i64 = 16;
/// Number of events of one processor in a packet.
const BUNDLE: usize = 512;
/// Number of interned items of stacks in a packet.
const CHUNK: usize = 4096;
/// The first numbers of tracks.
const MACHINE_TRACK: u64 = 1;
const PROCESS_TRACKS: u64 = 1 << 56;
const THREAD_TRACKS: u64 = 2 << 56;
const DISK_TRACKS: u64 = 3 << 56;

pub(crate) struct Writer<'o> {
    out: &'o mut dyn Write,
    packet: Vec<u8>,
    names: Interned,
    processors: BTreeMap<u16, Vec<FtraceEvent>>,
    tracks: HashSet<u64>,
    /// Sequences that have started.
    begun: HashSet<u32>,
}

impl<'o> Writer<'o> {
    pub(crate) fn new(out: &'o mut dyn Write) -> Writer<'o> {
        Writer {
            out,
            packet: Vec::new(),
            names: Interned::default(),
            processors: BTreeMap::new(),
            tracks: HashSet::new(),
            begun: HashSet::new(),
        }
    }

    fn write(&mut self, packet: &TracePacket) -> io::Result<()> {
        self.packet.clear();
        self.packet.push(PACKET);
        packet.encode_length_delimited(&mut self.packet).map_err(io::Error::other)?;
        self.out.write_all(&self.packet)
    }

    /// Returns a packet of a sequence.
    fn of_sequence(&mut self, sequence: u32, time: Option<FileTime>, data: Option<Data>) -> TracePacket {
        let flags = if self.begun.insert(sequence) { CLEARED | NEEDS_STATE } else { NEEDS_STATE };
        TracePacket {
            timestamp: time.map(unix_nanos),
            trusted_packet_sequence_id: Some(sequence),
            sequence_flags: Some(flags),
            data,
            ..TracePacket::default()
        }
    }

    fn descriptor(&mut self, descriptor: TrackDescriptor) -> io::Result<()> {
        let packet = self.of_sequence(EVENTS, None, Some(Data::TrackDescriptor(descriptor)));
        self.write(&packet)
    }

    fn processes(&mut self, context: &Context<'_>) -> io::Result<()> {
        for (index, id, name) in context.survey.processes() {
            let process = ProcessDescriptor { pid: Some(id as i32), process_name: name.map(str::to_owned) };
            let uuid = Some(process_track(index));
            self.descriptor(TrackDescriptor { uuid, process: Some(process), ..TrackDescriptor::default() })?;
        }
        for index in context.survey.threads() {
            let Some(thread) = context.survey.thread(index) else { continue };
            let process = thread.process.and_then(|process| context.survey.process(process));
            // Perfetto has a single idle thread, without a process.
            let Some((pid, _)) = process.filter(|_| thread.id != 0) else { continue };
            let descriptor = ThreadDescriptor {
                pid: Some(pid as i32),
                tid: Some(thread.id as i32),
                thread_name: context.thread_name(index).map(str::to_owned),
            };
            self.descriptor(TrackDescriptor {
                uuid: Some(thread_track(index)),
                parent_uuid: thread.process.map(process_track),
                thread: Some(descriptor),
                ..TrackDescriptor::default()
            })?;
            self.tracks.insert(thread_track(index));
        }
        Ok(())
    }

    /// Returns the number of a track; describes the track before its first event.
    fn track(&mut self, context: &Context<'_>, track: Track) -> io::Result<u64> {
        let lane = u64::from(track.lane);
        let (uuid, parent, name) = match track.owner {
            Owner::Thread(index) => {
                let thread = context.survey.thread(index);
                let name = match thread {
                    Some(thread) => format!("thread {}", thread.id),
                    None => "thread".to_owned(),
                };
                let own = thread_track(index);
                (own | lane << 40, (lane > 0).then_some(own), name)
            }
            Owner::Disk(machine, disk) => {
                let uuid = DISK_TRACKS | u64::from(machine & 0xFF) << 48 | u64::from(disk) << 16 | lane;
                (uuid, None, context.disk_name(machine, disk))
            }
            Owner::Machine => (MACHINE_TRACK, None, "Machine".to_owned()),
        };
        if self.tracks.insert(uuid) {
            self.descriptor(TrackDescriptor {
                uuid: Some(uuid),
                parent_uuid: parent,
                name: Some(name),
                ..TrackDescriptor::default()
            })?;
        }
        Ok(uuid)
    }

    fn event(
        &mut self,
        context: &Context<'_>,
        kind: i32,
        track: Track,
        time: FileTime,
        label: &Label<'_>,
    ) -> io::Result<()> {
        let track_uuid = Some(self.track(context, track)?);
        let mut event = TrackEvent { r#type: Some(kind), track_uuid, ..TrackEvent::default() };
        event.debug_annotations = annotations::of_event(label.event, &mut self.names);
        if kind != SLICE_END {
            event.name_iid = Some(self.names.event(label.name));
            event.category_iids = vec![self.names.category(label.category)];
        }
        let mut packet = self.of_sequence(EVENTS, Some(time), Some(Data::TrackEvent(event)));
        packet.interned_data = self.names.take();
        self.write(&packet)
    }

    fn slice_end(&mut self, context: &Context<'_>, track: Track, time: FileTime) -> io::Result<()> {
        let track_uuid = Some(self.track(context, track)?);
        let event = TrackEvent { r#type: Some(SLICE_END), track_uuid, ..TrackEvent::default() };
        let packet = self.of_sequence(EVENTS, Some(time), Some(Data::TrackEvent(event)));
        self.write(&packet)
    }

    fn schedule(&mut self, processor: u16, event: FtraceEvent) -> io::Result<()> {
        let events = self.processors.entry(processor).or_default();
        events.push(event);
        if events.len() < BUNDLE {
            return Ok(());
        }
        let event = std::mem::take(events);
        self.bundle(processor, event)
    }

    fn bundle(&mut self, processor: u16, event: Vec<FtraceEvent>) -> io::Result<()> {
        let bundle = FtraceEventBundle { cpu: Some(processor.into()), event };
        let packet = self.of_sequence(SCHEDULING, None, Some(Data::FtraceEvents(bundle)));
        self.write(&packet)
    }

    fn switch(&mut self, context: &Context<'_>, item: &Item<'_>, switch: &Switch) -> io::Result<()> {
        let (from, to) = shown_switch(context, switch);
        let id = |thread: Option<ThreadIndex>| {
            thread.and_then(|thread| context.survey.thread(thread)).map_or(0, |thread| thread.id as i32)
        };
        let name = |thread: Option<ThreadIndex>| match id(thread) {
            0 => "swapper".to_owned(),
            _ => thread.and_then(|thread| context.thread_name(thread)).unwrap_or_default().to_owned(),
        };
        let state = match switch.from_state {
            WAITING => INTERRUPTIBLE,
            TERMINATED => DEAD,
            _ => RUNNABLE,
        };
        let event = FtraceEvent {
            timestamp: Some(unix_nanos(item.time)),
            pid: Some(id(from) as u32),
            sched_switch: Some(SchedSwitch {
                prev_comm: Some(name(from)),
                prev_pid: Some(id(from)),
                prev_prio: Some(switch.from_priority.into()),
                prev_state: Some(state),
                next_comm: Some(name(to)),
                next_pid: Some(id(to)),
                next_prio: Some(switch.to_priority.into()),
            }),
            sched_waking: None,
        };
        self.schedule(item.processor, event)
    }

    fn waking(
        &mut self,
        context: &Context<'_>,
        item: &Item<'_>,
        thread: ThreadIndex,
        by: Option<ThreadIndex>,
    ) -> io::Result<()> {
        let id = |thread: ThreadIndex| context.survey.thread(thread).map_or(0, |thread| thread.id);
        let waking = SchedWaking {
            comm: Some(context.thread_name(thread).unwrap_or_default().to_owned()),
            pid: Some(id(thread) as i32),
            target_cpu: Some(item.processor.into()),
        };
        let event = FtraceEvent {
            timestamp: Some(unix_nanos(item.time)),
            pid: Some(by.map_or(0, id)),
            sched_switch: None,
            sched_waking: Some(waking),
        };
        self.schedule(item.processor, event)
    }

    fn samples(&mut self, context: &Context<'_>) -> io::Result<()> {
        let mut samples = context.samples().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let frames = Frames::new(context.survey);
        let frequency = 1_000_000_000 / context.survey.interval().nanos().max(1);
        let timebase = Timebase { frequency: Some(frequency), counter: Some(CPU_CLOCK) };
        let mut packet = self.of_sequence(SAMPLES, None, None);
        packet.trace_packet_defaults = Some(TracePacketDefaults {
            perf_sample_defaults: Some(PerfSampleDefaults { timebase: Some(timebase) }),
        });
        self.write(&packet)?;
        self.functions(&frames)?;
        // A stack is described before its first sample.
        let mut told = HashSet::new();
        for sample in samples {
            let Some(thread) = context.survey.thread(sample.thread) else { continue };
            let process = thread.process.and_then(|process| context.survey.process(process));
            let innermost = frames.innermost(sample.stack);
            let stack = innermost.map(|frame| u64::from(frame) + 1);
            let perf = PerfSample {
                cpu: Some(sample.processor.into()),
                pid: Some(process.map_or(0, |(id, _)| id)),
                tid: Some(thread.id),
                callstack_iid: stack,
                timebase_count: Some(sample.count),
            };
            let mut packet = self.of_sequence(SAMPLES, Some(sample.time), Some(Data::PerfSample(perf)));
            if let Some(iid) = stack.filter(|stack| told.insert(*stack)) {
                let frame_ids = frames.stack(innermost).into_iter().map(|function| u64::from(function) + 1);
                let callstack = Callstack { iid: Some(iid), frame_ids: frame_ids.collect() };
                packet.interned_data =
                    Some(InternedData { callstacks: vec![callstack], ..InternedData::default() });
            }
            self.write(&packet)?;
        }
        Ok(())
    }

    /// Writes the functions of all stacks, each as a frame of a mapping.
    fn functions(&mut self, frames: &Frames) -> io::Result<()> {
        let mut modules: HashMap<&str, u64> = HashMap::new();
        for (chunk, functions) in frames.functions.chunks(CHUNK).enumerate() {
            let mut data = InternedData::default();
            for (index, function) in functions.iter().enumerate() {
                let iid = (chunk * CHUNK + index) as u64 + 1;
                let next = modules.len() as u64 + 1;
                let module = function.module.as_deref().unwrap_or("[unknown]");
                let mapping = *modules.entry(module).or_insert(next);
                if mapping == next {
                    data.mapping_paths.push(string(next, module));
                    data.mappings.push(Mapping { iid: Some(next), path_string_ids: vec![next] });
                }
                data.function_names.push(string(iid, &function.name));
                data.frames.push(Frame {
                    iid: Some(iid),
                    function_name_id: Some(iid),
                    mapping_id: Some(mapping),
                    // Distinct addresses keep Perfetto from merging frames of a mapping.
                    rel_pc: Some(iid),
                });
            }
            let mut packet = self.of_sequence(SAMPLES, None, None);
            packet.interned_data = Some(data);
            self.write(&packet)?;
        }
        Ok(())
    }
}

impl Sink for Writer<'_> {
    fn begin(&mut self, context: &Context<'_>, _: &mut Summary) -> io::Result<()> {
        let clock = |clock_id| Clock { clock_id: Some(clock_id), timestamp: Some(unix_nanos(context.start)) };
        let snapshot = ClockSnapshot { clocks: vec![clock(BOOTTIME), clock(REALTIME)] };
        let packet = self.of_sequence(EVENTS, Some(context.start), Some(Data::ClockSnapshot(snapshot)));
        self.write(&packet)?;
        self.processes(context)?;
        self.samples(context)
    }

    fn put(&mut self, context: &Context<'_>, item: &Item<'_>) -> io::Result<bool> {
        match &item.kind {
            ItemKind::Switch(switch) => self.switch(context, item, switch)?,
            ItemKind::Ready { thread, by } => self.waking(context, item, *thread, *by)?,
            ItemKind::Begin { track, label } => {
                self.event(context, SLICE_BEGIN, *track, item.time, label)?;
            }
            ItemKind::End { track, label } => self.event(context, SLICE_END, *track, item.time, label)?,
            ItemKind::Slice { track, begin, label } => {
                self.event(context, SLICE_BEGIN, *track, *begin, label)?;
                self.slice_end(context, *track, item.time)?;
            }
            ItemKind::Instant { track, label } => self.event(context, INSTANT, *track, item.time, label)?,
        }
        Ok(true)
    }

    fn finish(mut self, _: &Context<'_>, _: FileTime) -> io::Result<()> {
        for (processor, events) in std::mem::take(&mut self.processors) {
            if !events.is_empty() {
                self.bundle(processor, events)?;
            }
        }
        Ok(())
    }
}

fn string(iid: u64, text: &str) -> InternedString {
    InternedString { iid: Some(iid), str: Some(text.as_bytes().to_vec()) }
}

fn unix_nanos(time: FileTime) -> u64 {
    u64::try_from(time.unix_nanos().max(0)).unwrap_or(u64::MAX)
}

fn process_track(process: ProcessIndex) -> u64 {
    PROCESS_TRACKS | process.number()
}

fn thread_track(thread: ThreadIndex) -> u64 {
    THREAD_TRACKS | thread.number()
}
