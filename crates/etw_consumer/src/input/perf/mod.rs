//! Files of Linux's `perf record` (`perf.data`), converted to `.etl` in an unnamed temporary file.
//!
//! What perf's records say of processes, threads, images, samples and switches becomes the kernel logger's events; all
//! other events describe themselves. `docs/perf-data.md` has the mapping.

mod clock;
mod described;
mod files;
mod images;
mod machine;
mod order;
mod processes;
mod profile;
mod sched;
mod stack;
mod unpack;
mod write;

use etw_etl::WriteError;
use etw_kernel_events::classes::{CSwitch, SampledProfile, Stamp};
use etw_perf_data::{PerfData, RawRecord, Record, Sample, Switch, Tracepoints, kind};
use etw_sys::FileMap;

use super::conversion::{self, Converted, MAX_PROCESSORS};
use super::error::InputError;
use super::limited::Limited;
use super::temporary::Room;
use described::DescribedEvents;
use images::Images;
use order::Order;
use processes::Processes;
use profile::Profile;
use sched::Sched;
use stack::Stack;
use unpack::Unpacked;
use write::RecordWriter;

pub(super) use etw_perf_data::is_perf_data;

/// Converts a file of perf into a temporary file, if there is room.
pub(super) fn convert(name: &str, bytes: &[u8], room: &mut Room) -> Result<(FileMap, Converted), InputError> {
    let file = PerfData::open(bytes)
        .map_err(|error| InputError::Perf { name: name.to_owned(), reason: error.to_string() })?;
    let unpacked = unpack::unpack(name, &file, room)?;
    let (data, offset) = unpacked.as_ref().map_or(file.data(), |unpacked| (&*unpacked.records, 0));
    let source = Source { file: &file, data, offset, unpacked: unpacked.as_ref() };
    let extent = Extent::of_records(&source);
    let (out, converted) = conversion::into_temporary(name, room, |out| {
        Conversion::run(source, &extent, bytes.len() as u64, out)
    })?;
    let temporary = |source| InputError::Temporary { name: name.to_owned(), source };
    Ok((room.limits.map(&out).map_err(temporary)?, converted))
}

/// The records of a file.
#[derive(Debug, Clone, Copy)]
struct Source<'a> {
    file: &'a PerfData<'a>,
    data: &'a [u8],
    /// Offset of the data in the file.
    offset: u64,
    /// Set if the records were in compressed ones, so that their offsets are not those of the file.
    unpacked: Option<&'a Unpacked>,
}

impl<'a> Source<'a> {
    fn records(&self) -> etw_perf_data::Records<'a> {
        self.file.records_of(self.data, self.offset)
    }

    /// Returns the record at an offset that [`Source::records`] returned.
    fn record_at(&self, offset: u64) -> Option<RawRecord<'a>> {
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.file.records_of(self.data.get(start..)?, offset).next()?.ok()
    }

    /// Returns the time of a record; `None` for those that perf made up from what it found at its start.
    fn time_of(&self, record: &RawRecord<'_>) -> Option<u64> {
        self.file.sample_id(record).time.filter(|time| !matches!(*time, 0 | u64::MAX))
    }
}

/// What must be known of all records before the first one is written.
#[derive(Debug)]
struct Extent {
    /// Time of the first event in nanoseconds.
    start: u64,
    /// Number of processors.
    processors: u32,
}

impl Extent {
    fn of_records(source: &Source<'_>) -> Extent {
        let (mut start, mut processors) = (u64::MAX, 1);
        for record in source.records().map_while(Result::ok).filter(|record| kind::is_of_kernel(record.kind))
        {
            start = start.min(source.time_of(&record).unwrap_or(u64::MAX));
            let processor = source.file.sample_id(&record).processor.unwrap_or(0);
            processors = processors.max(processor.saturating_add(1).min(MAX_PROCESSORS));
        }
        let (available, _) = source.file.features().processors.unwrap_or((1, 1));
        Extent {
            start: if start == u64::MAX { 0 } else { start },
            processors: processors.max(available.min(MAX_PROCESSORS)),
        }
    }
}

/// When, where and by whom something happened.
#[derive(Debug, Clone, Copy)]
struct Moment {
    stamp: Stamp,
    processor: u16,
    /// Whether perf made the record up from what it found at its start.
    is_rundown: bool,
    /// Offset of the record in the file.
    offset: u64,
}

/// Counts of what could not be converted.
#[derive(Debug, Default)]
struct Counts {
    lost: u64,
    throttled: u64,
    /// Samples whose stack of the program needs its files.
    without_unwinding: u64,
    auxiliary: u64,
}

/// A running conversion.
struct Conversion<'a> {
    source: Source<'a>,
    start: u64,
    processors: u32,
    out: RecordWriter,
    profile: Profile,
    sched: Sched,
    described: DescribedEvents,
    processes: Processes,
    images: Images<'a>,
    stack: Stack,
    counts: Counts,
}

impl<'a> Conversion<'a> {
    fn run(
        source: Source<'a>,
        extent: &Extent,
        len_bytes: u64,
        out: Limited,
    ) -> Result<(Limited, Converted), WriteError> {
        let tracepoints = Tracepoints::read(source.file.features().tracing_data);
        let mut conversion = Conversion {
            source,
            start: extent.start,
            processors: extent.processors,
            out: RecordWriter::new(out, source.file, extent, len_bytes)?,
            profile: Profile::new(source.file.attributes()),
            sched: Sched::new(source.file, &tracepoints),
            described: DescribedEvents::new(source.file, &tracepoints),
            processes: Processes::default(),
            images: Images::new(source.file),
            stack: Stack::default(),
            counts: Counts::default(),
        };
        conversion.begin()?;
        conversion.run_all()?;
        conversion.finish()
    }

    fn begin(&mut self) -> Result<(), WriteError> {
        for damage in self.source.file.damage() {
            self.out.add_damage(damage.offset, damage.what, damage.skipped);
        }
        if self.source.unpacked.is_some_and(|unpacked| unpacked.is_damaged) {
            let (_, offset) = self.source.file.data();
            self.out.add_damage(offset, "the compressed records are damaged; those before are read", 0);
        }
        let stamp = self.out.stamp(self.start, 0, 0);
        machine::put(self.source.file.features(), self.processors, &stamp, &mut self.out)?;
        self.profile.put_start(&stamp, &mut self.out)
    }

    fn run_all(&mut self) -> Result<(), WriteError> {
        let mut order = Order::default();
        for record in self.source.records() {
            match record {
                Ok(record) if kind::is_of_kernel(record.kind) => match self.source.time_of(&record) {
                    Some(time) => order.push(time, record.offset),
                    None => self.record(&record)?,
                },
                // Decompression has moved the records of a round behind its end.
                Ok(record) if record.kind == kind::FINISHED_ROUND && self.source.unpacked.is_none() => {
                    self.take(order.finish_round())?;
                }
                Ok(record) => self.counts.auxiliary += u64::from(record.kind == kind::AUXTRACE),
                Err(damage) => self.out.add_damage(damage.offset, damage.what, damage.skipped),
            }
        }
        self.take(order.finish())
    }

    fn take(&mut self, offsets: Vec<u64>) -> Result<(), WriteError> {
        let source = self.source;
        for record in offsets.into_iter().filter_map(|offset| source.record_at(offset)) {
            self.record(&record)?;
        }
        Ok(())
    }

    fn record(&mut self, record: &RawRecord<'a>) -> Result<(), WriteError> {
        let id = self.source.file.sample_id(record);
        let time = self.source.time_of(record);
        let (process_id, thread_id) = id.thread.unwrap_or((u32::MAX, u32::MAX));
        let processor = id.processor.filter(|processor| *processor < self.processors).unwrap_or(0);
        let moment = Moment {
            stamp: self.out.stamp(time.unwrap_or(self.start), process_id, thread_id),
            processor: u16::try_from(processor).unwrap_or(0),
            is_rundown: time.is_none(),
            offset: record.offset,
        };
        self.processes.put_overdue(&moment, &mut self.out)?;
        match self.source.file.parse(record) {
            Some(Record::Sample(sample)) => self.sample(record, &sample, &moment),
            Some(Record::Mapping(mapping)) => self.images.put(&mapping, &moment, &mut self.out),
            Some(Record::Comm(comm)) => {
                if comm.is_exec {
                    self.images.remove(comm.process_id);
                }
                self.processes.comm(&comm, &moment, &mut self.out)
            }
            Some(Record::Fork(task)) => {
                self.images.fork(&task);
                self.processes.fork(&task, &moment, &mut self.out)
            }
            Some(Record::Exit(task)) => self.processes.exit(&task, &moment, &mut self.out),
            Some(Record::Switch(switch)) => self.switch(&switch, &moment),
            Some(Record::Lost(count)) => {
                self.counts.lost = self.counts.lost.saturating_add(count);
                self.out.mark_losses(moment.processor)
            }
            Some(Record::Throttle) => {
                self.counts.throttled += 1;
                self.out.mark_losses(moment.processor)
            }
            Some(_) => Ok(()),
            None => {
                self.counts.lost += 1;
                self.out.add_damage(record.offset, "a record is shorter than its fields", 0);
                self.out.mark_losses(moment.processor)
            }
        }
    }

    fn sample(
        &mut self,
        record: &RawRecord<'_>,
        sample: &Sample<'a>,
        moment: &Moment,
    ) -> Result<(), WriteError> {
        let index = self.source.file.attribute_of(record);
        let is_complete = self.stack.read(sample, &mut self.images);
        self.counts.without_unwinding += u64::from(!is_complete);
        let frames = self.stack.frames();
        if self.profile.has(index) {
            let event = SampledProfile {
                instruction_pointer: sample.ip.unwrap_or(0),
                thread_id: moment.stamp.thread_id,
                count: 1,
                ..SampledProfile::default()
            };
            return self.out.put_with_stack(moment, &event, frames);
        }
        match self.sched.read(index, sample, moment, self.source.file.byte_order()) {
            Some(sched::Event::Switch(switch)) => self.out.put_with_stack(moment, &switch, frames),
            Some(sched::Event::Ready(ready)) => self.out.put_with_stack(moment, &ready, frames),
            None => self.described.put(index, sample, moment, frames, &mut self.out),
        }
    }

    /// Writes a switch of the processor, unless the same switches are tracepoints too.
    fn switch(&mut self, switch: &Switch, moment: &Moment) -> Result<(), WriteError> {
        let own = moment.stamp.thread_id;
        let (old, new) = match (switch.is_out, switch.other) {
            // The other half of a switch out.
            (false, Some(_)) => return Ok(()),
            (true, Some((_, other))) => (own, other),
            (true, None) => (own, 0),
            (false, None) => (0, own),
        };
        if self.sched.has_switches() {
            return Ok(());
        }
        let event: CSwitch = sched::switch_without_state(old, new, switch.is_preempted, moment);
        self.out.put(moment, &event)
    }

    fn finish(mut self) -> Result<(Limited, Converted), WriteError> {
        self.profile.put_end(&mut self.out)?;
        let file = self.source.file;
        let Counts { lost, throttled, without_unwinding, auxiliary } = self.counts;
        let counted = [
            (
                throttled,
                "times the kernel paused an event that was too frequent; it does not say how much is missing",
            ),
            (
                without_unwinding,
                "stacks of programs are incomplete: they are deeper than the copied part, or the files that unwind them are not on this machine",
            ),
            (auxiliary, "records with traces of a processor's own tracer are left out"),
        ];
        let notes =
            counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        self.out.add_notes(clock::note(file).into_iter().map(str::to_owned).chain(notes));
        self.out.finish(lost, file.damage().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Input, InputLimits};

    #[test]
    fn files_and_streams_of_both_byte_orders_become_the_same_events() {
        let converted = etw_testkit::perf_data::samples().into_iter().map(|(name, bytes)| {
            let inputs = Input::from_bytes(name, bytes.into(), &InputLimits::default()).unwrap();
            let converted = inputs[0].converted().unwrap();
            assert_eq!((converted.damage.len(), converted.notes.len()), (0, 3), "{name}: {converted:?}");
            (name, inputs[0].bytes().to_vec())
        });
        let converted: Vec<_> = converted.collect();
        for pair in converted.windows(2) {
            assert!(pair[0].1 == pair[1].1, "{} and {} differ", pair[0].0, pair[1].0);
        }
    }

    #[test]
    fn damage_is_reported_and_nothing_else_happens() {
        for (name, bytes) in etw_testkit::perf_data::samples() {
            etw_testkit::mutate::each(&bytes, 300, |bytes| {
                let _ = Input::from_bytes(name, bytes.into(), &InputLimits::default());
            });
        }
    }
}
