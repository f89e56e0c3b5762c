//! Use of processors over time, by interval.

use std::io::Write;

use anyhow::Result;
use etw_app::input::builder;
use etw_app::output;
use etw_app::status::usage;
use openetw::kernel_events::ids::{self, EventId};
use openetw::kernel_events::read;
use openetw::{Event, FileTime};
use serde_json::json;

use super::{Request, finish, range};
use crate::options::{Given, Options};

/// The source of busy times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Samples,
    Switches,
}

/// Maximum number of intervals; for longer traces the intervals are longer.
const MAX_INTERVALS: i64 = 1 << 20;
/// Maximum intervals of all processors, since a damaged trace may contain nonsensical processors and times.
const MAX_KEPT: usize = 1 << 24;
/// Maximum sampling interval: 1 s, in units of 100 ns.
const MAX_SAMPLE: i64 = 10_000_000;
/// Default sampling interval, for traces that do not contain it: 1 ms, in units of 100 ns.
const USUAL_INTERVAL: i64 = 10_000;
/// Maximum number of processors.
const MAX_PROCESSORS: usize = 1 << 12;

/// Shows the use of processors, or what is left of them; `given` is the option with the interval in seconds.
pub(super) fn utilization(
    request: &Request,
    options: &Options,
    given: Option<&Given>,
    source: Source,
    is_rest: bool,
    out: &mut dyn Write,
) -> Result<()> {
    let seconds = given.and_then(|given| given.values.first()).map_or(Ok(1.0), |text| text.parse::<f64>());
    let seconds = seconds.ok().filter(|seconds| *seconds > 0.0 && *seconds < 1e9);
    let seconds =
        seconds.ok_or_else(|| usage("the interval must be a number of seconds, such as 1 or 0.1"))?;
    let builder = builder(&request.files)?;
    let mut trace = builder.look_ahead(false).open()?;
    let (from, to) = range(options)?;
    let start = trace.start_time().0;
    let end = trace.headers().iter().map(|header| header.end_time.0).max().unwrap_or_default();
    let at = |micros: i64| start.saturating_add(micros * 10);
    let window = (at(from.unwrap_or(0)), to.map_or(i64::MAX, at));
    let length = end.min(window.1).saturating_sub(window.0).max(1);
    let step = ((seconds * 1e7) as i64).max(length / MAX_INTERVALS + 1);
    let mut busy = Busy::new(window, step);
    trace.for_each_event(|event| busy.event(event, source))?;
    finish(&trace)?;
    busy.end();
    if busy.left_out > 0 {
        output::warn(&format_args!("{} busy times exceeded the limit and were left out", busy.left_out));
    }
    busy.put(start, request.is_for_machines, is_rest, out)
}

/// Busy time by processor and interval, in units of 100 ns.
struct Busy {
    window: (i64, i64),
    step: i64,
    by_processor: Vec<Processor>,
    last: i64,
    sample: i64,
    /// End of the last interval kept.
    limit: i64,
    /// Number of intervals kept for all processors.
    kept: usize,
    /// Number of busy times beyond the limits.
    left_out: u64,
}

#[derive(Default, Clone)]
struct Processor {
    busy: Vec<i64>,
    /// Start of the thread that is running.
    since: Option<i64>,
}

impl Busy {
    fn new(window: (i64, i64), step: i64) -> Busy {
        let limit = window.0.saturating_add(step.saturating_mul(MAX_INTERVALS)).min(window.1);
        let (by_processor, last) = (Vec::new(), window.0);
        Busy { window, step, by_processor, last, sample: USUAL_INTERVAL, limit, kept: 0, left_out: 0 }
    }

    fn event(&mut self, event: &Event<'_>, source: Source) {
        let record = event.record;
        let FileTime(time) = record.time();
        if time < self.limit {
            self.last = self.last.max(time);
        }
        let Some(id) = record.hook_id().and_then(EventId::from_hook) else { return };
        let processor = usize::from(record.processor());
        match id {
            ids::Thread::C_SWITCH if source == Source::Switches => {
                let switch = read::CSwitch::new(record);
                let (Some(old), Some(new)) = (switch.old_thread_id(), switch.new_thread_id()) else { return };
                let since = self.processor(processor).and_then(|processor| processor.since);
                if old != 0 {
                    // Before the first switch, the old thread is taken to run since the start.
                    self.add(processor, since.unwrap_or(self.window.0), time);
                }
                if let Some(processor) = self.processor(processor) {
                    processor.since = Some(if new == 0 { i64::MAX } else { time });
                }
            }
            ids::PerfInfo::SAMPLE_PROFILE
                if source == Source::Samples
                    && read::SampledProfile::new(record).thread_id().is_some_and(|thread| thread != 0) =>
            {
                self.add(processor, time.saturating_sub(self.sample), time);
            }
            ids::PerfInfo::SET_INTERVAL | ids::PerfInfo::COLLECTION_START => {
                let interval = read::ProfileInterval::new(record).new_interval();
                self.sample = interval.map_or(self.sample, i64::from).clamp(1, MAX_SAMPLE);
            }
            _ => {}
        }
    }

    fn processor(&mut self, number: usize) -> Option<&mut Processor> {
        if number >= MAX_PROCESSORS {
            return None;
        }
        if self.by_processor.len() <= number {
            self.by_processor.resize(number + 1, Processor::default());
        }
        self.by_processor.get_mut(number)
    }

    /// Adds the time that a thread ran.
    fn add(&mut self, processor: usize, from: i64, to: i64) {
        let (start, step) = (self.window.0, self.step);
        self.left_out += u64::from(to > self.limit && self.limit < self.window.1);
        let (mut from, to) = (from.max(start), to.min(self.limit));
        let room = MAX_KEPT - self.kept;
        let Some(processor) = self.processor(processor).filter(|_| from < to) else { return };
        // Clamped to the limit, which bounds the number of intervals and prevents overflow.
        let needed = ((to - 1 - start) / step) as usize + 1;
        let more = needed.saturating_sub(processor.busy.len());
        if more > room {
            self.left_out += 1;
            return;
        }
        if more > 0 {
            processor.busy.resize(needed, 0);
        }
        while from < to {
            let index = (from - start) / step;
            let end = to.min(start.saturating_add((index + 1) * step));
            processor.busy[index as usize] += end - from;
            from = end;
        }
        self.kept += more;
    }

    /// Ends the threads still running.
    fn end(&mut self) {
        for number in 0..self.by_processor.len() {
            if let Some(since) = self.by_processor[number].since.filter(|since| *since != i64::MAX) {
                self.add(number, since, self.last);
            }
        }
    }

    fn put(&self, start: i64, is_for_machines: bool, is_rest: bool, out: &mut dyn Write) -> Result<()> {
        let intervals = ((self.last - self.window.0).max(0) + self.step - 1) / self.step;
        if self.by_processor.is_empty() {
            return Ok(writeln!(out, "no processor events; PROFILE or CSWITCH records them")?);
        }
        let what = if is_rest { "Available" } else { "Used" };
        if !is_for_machines {
            write!(out, "{:>12} {:>12}", "Start (us)", "End (us)")?;
            (0..self.by_processor.len())
                .try_for_each(|number| write!(out, " {:>8}", format!("CPU {number} %")))?;
            writeln!(out, " {:>8}", format!("{what} %"))?;
        }
        for index in 0..intervals {
            let from = self.window.0 + index * self.step;
            let to = (from + self.step).min(self.last);
            let share = |processor: &Processor| {
                let busy = processor.busy.get(index as usize).copied().unwrap_or(0) as f64;
                let used = (busy * 100.0 / (to - from).max(1) as f64).min(100.0);
                if is_rest { 100.0 - used } else { used }
            };
            let shares: Vec<f64> = self.by_processor.iter().map(share).collect();
            let all = shares.iter().sum::<f64>() / shares.len() as f64;
            let (from, to) = ((from - start) / 10, (to - start) / 10);
            if is_for_machines {
                let row = json!({ "start_us": from, "end_us": to, "percent": shares, "all_percent": all });
                writeln!(out, "{row}")?;
                continue;
            }
            write!(out, "{from:>12} {to:>12}")?;
            shares.iter().try_for_each(|share| write!(out, " {share:>8.2}"))?;
            writeln!(out, " {all:>8.2}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_falls_into_its_intervals() {
        let mut busy = Busy::new((100, 1000), 100);
        busy.last = 400;
        busy.add(1, 50, 250);
        busy.add(1, 390, 400);
        busy.add(MAX_PROCESSORS, 0, 400);
        assert_eq!(busy.by_processor[1].busy, [100, 50, 10]);
        busy.by_processor[0].since = Some(350);
        busy.end();
        assert_eq!(busy.by_processor[0].busy, [0, 0, 50]);
        let mut out = Vec::new();
        busy.put(0, false, false, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let row = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(row(text.lines().nth(1).unwrap()), ["10", "20", "0.00", "100.00", "50.00"]);
        assert_eq!(text.lines().count(), 4);
        let mut out = Vec::new();
        busy.put(0, true, true, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().last().unwrap().contains("\"all_percent\":70.0"), "{text}");
    }

    #[test]
    fn times_and_processors_that_cannot_be_take_no_more_room() {
        let mut busy = Busy::new((0, i64::MAX), 10);
        busy.add(0, i64::MIN, i64::MAX);
        assert_eq!((busy.by_processor[0].busy.len() as i64, busy.left_out), (MAX_INTERVALS, 1));
        for processor in 0..MAX_PROCESSORS {
            busy.add(processor, busy.limit - 5, busy.limit);
        }
        assert_eq!((busy.kept, busy.left_out), (MAX_KEPT, MAX_PROCESSORS as u64 - 15));
        let mut late = Busy::new((i64::MAX - 5, i64::MAX), 10);
        late.add(0, i64::MAX - 3, i64::MAX);
        assert_eq!((&late.by_processor[0].busy[..], late.left_out), (&[3][..], 0));
    }
}
