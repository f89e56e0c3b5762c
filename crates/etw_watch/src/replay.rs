//! Files instead of a session: their events are read into the model at once, or at a multiple of the recorded speed.

use std::ops::ControlFlow;
use std::sync::Arc;

use anyhow::Result;
use etw_app::UsageError;
use etw_app::input as inputs;
use etw_app::schemas::Schemas;
use openetw::{EventFilter, FileTime, Trace};

use super::batch::Printer;
use super::feed::Feed;
use super::in_terminal;
use super::model::filter::Base;
use super::model::{Lookup, Model};
use super::pace::Pace;
use super::session::Session;
use super::signals::Signals;
use crate::Options;

/// Maximum number of periods for a gap in the trace. By then all rates are zero, and ended processes are gone.
const MAX_PERIODS: u64 = 10;

/// Shows files until the user quits, or prints the view as text.
pub(super) fn run(options: &Options, schemas: &Schemas, filter: &EventFilter) -> Result<()> {
    let mut trace = inputs::builder(&options.files)?.schemas(&schemas.sources()).open()?;
    let model = model(&mut trace, options, filter)?;
    if let Some(times) = options.batch {
        return print(trace, model, times, options);
    }
    let signals = Signals::new()?;
    let mut session = Session::of_files(&options.files);
    let end = trace.headers().iter().map(|header| header.end_time).max().unwrap_or_default();
    let pace = Arc::new(Pace::new(options.speed, trace.start_time(), end));
    let mut feed = Feed::of_files(trace, model, pace)?;
    let shown = in_terminal(&feed, &mut session, schemas, options.view, &signals);
    let trace = feed.stop();
    shown.and(trace.map_or(Ok(()), |trace| inputs::close(&trace, false)))
}

/// Returns an empty model that knows the schemas and process names of the files.
fn model(trace: &mut Trace, options: &Options, filter: &EventFilter) -> Result<Model> {
    let processes = trace.processes()?.clone();
    let other = (1..trace.inputs().len()).find(|source| {
        // Ids of processes and threads, and addresses, have a meaning on one machine only.
        processes.machine_of(*source as u32) != processes.machine_of(0)
    });
    if let Some(other) = other.and_then(|source| trace.source_names().nth(source)) {
        let first = trace.source_names().next().unwrap_or_default();
        return Err(UsageError(format!(
            "{first} and {other} are of different machines or system starts; watch them one at a time"
        ))
        .into());
    }
    let lookup = Lookup::of_trace(processes);
    let base = Base::new(filter, false);
    let mut model = Model::new(trace.resolver().clone(), trace.start_time(), options.keep, base, lookup);
    model.max_shown_per_second = u64::MAX;
    Ok(model)
}

/// Prints the tables after each second of the trace, and after its end.
fn print(mut trace: Trace, mut model: Model, times: u64, options: &Options) -> Result<()> {
    let mut printer = Printer::new(options)?;
    let mut seconds = Seconds::default();
    let mut left = if times == 0 { u64::MAX } else { times };
    let mut printed = Ok(());
    trace.for_each_record(|record| {
        for _ in 0..seconds.passed(record.time()) {
            model.roll(1.0);
            let text = printer.text(&mut model, None);
            printed = printer.write(&text);
            left -= 1;
            if printed.is_err() || left == 0 {
                return ControlFlow::Break(());
            }
        }
        model.take(record);
        ControlFlow::Continue(())
    })?;
    printed?;
    if left > 0 {
        model.counts.lost = lost(&trace);
        model.roll(1.0);
        let text = printer.text(&mut model, None);
        printer.write(&text)?;
    }
    inputs::close(&trace, false)
}

/// Returns the number of events that the sessions of the files lost.
pub(super) fn lost(trace: &Trace) -> u64 {
    trace.statistics().events_lost()
}

/// Divides the time of a trace into seconds.
#[derive(Debug, Default)]
pub(super) struct Seconds {
    begun: Option<FileTime>,
}

impl Seconds {
    /// Returns the number of seconds that have passed before this event; a long gap counts as [`MAX_PERIODS`].
    pub(super) fn passed(&mut self, time: FileTime) -> u64 {
        let begun = self.begun.get_or_insert(time);
        let passed = u64::try_from(time.0.saturating_sub(begun.0) / FileTime::PER_SECOND).unwrap_or(0);
        // Adds at most the difference of the two times.
        begun.0 += passed as i64 * FileTime::PER_SECOND;
        passed.min(MAX_PERIODS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_of_a_trace() {
        let mut seconds = Seconds::default();
        let mut passed = |tenths: i64| seconds.passed(FileTime(tenths * FileTime::PER_SECOND / 10));
        assert_eq!([100, 105, 109, 110, 119].map(&mut passed), [0, 0, 0, 1, 0]);
        assert_eq!([130, 125, 141, 36_000, 36_001].map(&mut passed), [2, 0, 1, MAX_PERIODS, 0]);
        let far = FileTime(i64::MAX);
        assert_eq!([seconds.passed(FileTime(i64::MIN)), seconds.passed(far)], [0, MAX_PERIODS]);
        assert_eq!(seconds.passed(far), 0);
    }
}
