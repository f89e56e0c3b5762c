//! How busy processors are, interval by interval.

use std::io::Write;

use anyhow::Result;
use openetw::{Event, FileTime, Trace};
use serde_json::json;

use super::{Request, finish, range};
use crate::tools::options::{Given, Options};
use crate::tools::words::usage;

/// What tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Samples,
    Switches,
}

/// Intervals that are kept; a longer trace has its intervals made longer.
const MAX_INTERVALS: i64 = 1 << 20;
/// The sampling interval where a trace does not tell it: a millisecond.
const USUAL_INTERVAL: i64 = 10_000;
/// Processors that are told apart.
const MAX_PROCESSORS: usize = 1 << 12;

const CONTEXT_SWITCH: (u8, u8) = (0x05, 36);
const SAMPLE: (u8, u8) = (0x0F, 46);
const INTERVAL_SET: (u8, u8) = (0x0F, 72);
const INTERVAL_AT_START: (u8, u8) = (0x0F, 73);

/// Shows how busy processors are, or how much of them is left; `given` is the option with the interval in seconds.
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
    let seconds = seconds.ok_or_else(|| usage("an interval is a number of seconds, as 1 or 0.1"))?;
    let builder = request.files.iter().fold(Trace::builder(), |builder, file| builder.file(file));
    let mut trace = builder.look_ahead(false).open()?;
    let (from, to) = range(options)?;
    let start = trace.start_time().0;
    let end = trace.headers().iter().map(|header| header.end_time.0).max().unwrap_or_default();
    let window = (start + from.unwrap_or(0) * 10, to.map_or(i64::MAX, |to| start + to * 10));
    let length = (end.min(window.1) - window.0).max(1);
    let step = ((seconds * 1e7) as i64).max(length / MAX_INTERVALS).max(1);
    let mut busy = Busy { window, step, by_processor: Vec::new(), last: window.0, sample: USUAL_INTERVAL };
    trace.for_each_layout(|event| busy.event(event, source))?;
    finish(&trace)?;
    busy.end();
    busy.put(start, request.is_for_machines, is_rest, out)
}

/// Busy time by processor and interval, in units of 100 ns.
struct Busy {
    window: (i64, i64),
    step: i64,
    by_processor: Vec<Processor>,
    last: i64,
    sample: i64,
}

#[derive(Default, Clone)]
struct Processor {
    busy: Vec<i64>,
    /// Since when a thread runs.
    since: Option<i64>,
}

impl Busy {
    fn event(&mut self, event: &Event<'_>, source: Source) {
        let record = event.record;
        let FileTime(time) = record.time();
        if time < self.window.1 {
            self.last = self.last.max(time);
        }
        let Some(hook) = record.hook_id() else { return };
        let number = |name: &str| event.get::<u32>(name).ok();
        let processor = usize::from(record.processor());
        match (hook.group(), hook.event_type()) {
            CONTEXT_SWITCH if source == Source::Switches => {
                let (Some(old), Some(new)) = (number("OldThreadId"), number("NewThreadId")) else { return };
                let since = self.processor(processor).and_then(|processor| processor.since);
                if old != 0 {
                    // What ran before the first switch ran from the start on.
                    self.add(processor, since.unwrap_or(self.window.0), time);
                }
                if let Some(processor) = self.processor(processor) {
                    processor.since = Some(if new == 0 { i64::MAX } else { time });
                }
            }
            SAMPLE if source == Source::Samples && number("ThreadId").is_some_and(|thread| thread != 0) => {
                self.add(processor, time - self.sample, time);
            }
            INTERVAL_SET | INTERVAL_AT_START => {
                self.sample = number("NewInterval").map_or(self.sample, i64::from).max(1);
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

    /// Adds a time in which a thread ran.
    fn add(&mut self, processor: usize, from: i64, to: i64) {
        let (window, step) = (self.window, self.step);
        let (mut from, to) = (from.max(window.0), to.min(window.1));
        let Some(processor) = self.processor(processor) else { return };
        while from < to {
            let index = (from - window.0) / step;
            let end = to.min(window.0 + (index + 1) * step);
            let index = index.min(MAX_INTERVALS) as usize;
            if processor.busy.len() <= index {
                processor.busy.resize(index + 1, 0);
            }
            processor.busy[index] += end - from;
            from = end;
        }
    }

    /// Threads that run at the end.
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
            return Ok(writeln!(out, "no events of processors: PROFILE or CSWITCH gives them")?);
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
        let window = (100, 1000);
        let mut busy = Busy { window, step: 100, by_processor: Vec::new(), last: 400, sample: 10 };
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
}
