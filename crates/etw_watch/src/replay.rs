//! Files instead of a session: their events are read into the model at once, or at a multiple of the recorded speed.

use std::ops::ControlFlow;

use anyhow::Result;
use etw_app::input as inputs;
use etw_app::schemas::Schemas;
use etw_live::{Feed, Model, Seconds, Session};
use openetw::{EventFilter, Trace};

use super::batch::Printer;
use super::in_terminal;
use super::signals::Signals;
use crate::Options;

/// Shows files until the user quits, or prints the view as text.
pub(super) fn run(options: &Options, schemas: &Schemas, filter: &EventFilter) -> Result<()> {
    let mut trace = inputs::builder(&options.files)?.schemas(&schemas.sources()).open()?;
    let model = Model::of_files(&mut trace, options.live.keep, filter)?;
    if let Some(times) = options.batch {
        return print(trace, model, times, options);
    }
    let signals = Signals::new()?;
    let mut session = Session::of_files(&options.files);
    let mut feed = Feed::of_files(trace, model, options.speed)?;
    let shown = in_terminal(&feed, &mut session, schemas, options.view, &signals);
    let trace = feed.stop();
    shown.and(trace.map_or(Ok(()), |trace| inputs::close(&trace, false)))
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
        model.counts.lost = trace.statistics().events_lost();
        model.roll(1.0);
        let text = printer.text(&mut model, None);
        printer.write(&text)?;
    }
    inputs::close(&trace, false)
}
