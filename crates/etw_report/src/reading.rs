//! Reading traces for a report.

use std::path::PathBuf;

use anyhow::Result;
use etw_app::UsageError;
use etw_app::input::{self, report_unreadable};
use etw_app::progress::Progress;
use etw_app::tally::Tally;
use openetw::analysis::{Analysis, Machines, Report, ReportOptions, StackWeight, Window};
use openetw::{TimePoint, Trace};

/// What to read.
pub(super) struct Plan<'r> {
    pub(super) files: &'r [PathBuf],
    pub(super) from: Option<TimePoint>,
    pub(super) to: Option<TimePoint>,
    /// What to count by stack.
    pub(super) stacks: Vec<StackWeight>,
    /// Whether to count over time, and the kinds of events.
    pub(super) is_page: bool,
    pub(super) has_progress: bool,
}

/// Traces that have been read.
pub(super) struct Reading {
    pub(super) trace: Trace,
    pub(super) report: Report,
    pub(super) options: ReportOptions,
    pub(super) tally: Tally,
}

/// Reads traces.
///
/// # Errors
///
/// Fails if a trace cannot be read, or if the start is not before the end.
pub(super) fn read(
    plan: &Plan<'_>,
    options: impl FnOnce(&Trace) -> Result<ReportOptions>,
) -> Result<Reading> {
    let builder = input::builder(plan.files)?;
    // The kernel's classes are built in.
    let mut trace = builder.skip_unreadable(true).look_ahead(false).open()?;
    report_unreadable(&trace);
    let start = trace.start_time();
    let resolve = |time: Option<TimePoint>, default| time.map_or(default, |time| time.resolve(start));
    let window = Window { from: resolve(plan.from, Window::ALL.from), to: resolve(plan.to, Window::ALL.to) };
    if window.from >= window.to {
        return Err(UsageError("--from is not before --to".to_owned()).into());
    }
    let options = options(&trace)?;
    let mut analysis = Analysis::new(window).of_machines(Machines::from_trace(&trace));
    if plan.is_page {
        analysis = analysis.over_time(start, options.end);
    }
    let mut stacks = None;
    if !plan.stacks.is_empty() {
        analysis = plan.stacks.iter().fold(analysis, |analysis, weight| analysis.by_stack(*weight));
        let found = trace.stacks()?;
        input::report_lost_stacks(found.counts());
        stacks = Some(found);
    }
    let mut tally = Tally::default();
    let end = options.end.unwrap_or_default();
    let progress = Progress::of_time(start, end, plan.has_progress);
    trace.for_each_event(|event| {
        match &stacks {
            Some(stacks) => analysis.add_with_stack(event, &stacks.of(event.record)),
            None => analysis.add(event),
        }
        if plan.is_page && window.from <= event.record.time() && event.record.time() < window.to {
            tally.add(event);
        }
        progress.read(event.record.time());
    })?;
    progress.finish();
    let report = analysis.report(&options);
    Ok(Reading { trace, report, options, tally })
}
