//! Export of timelines and profiles.

use std::io::BufWriter;

use anyhow::Result;
use etw_app::input::Filters;
use etw_app::progress::Progress;
use etw_app::schemas::Schemas;
use etw_app::{UsageError, input, output};
use etw_timeline::{Format, Selection};
use openetw::{EventFilter, Trace};

use super::say;
use crate::args::export::ExportArgs;

pub(super) fn run(args: &ExportArgs, format: Format) -> Result<()> {
    if args.limit.is_some() {
        let text = "--limit is not supported for timelines; use --from and --to";
        return Err(UsageError(text.to_owned()).into());
    }
    let schemas = Schemas::load(&args.input.schemas.options())?;
    let filter = input::compile(&args.filter.filters(), &schemas)?;
    let builder = input::builder(&args.input.files)?;
    let builder = builder.schemas(&schemas.sources()).skip_unreadable(true).process_names(true);
    let filter = input::of_groups(filter, &args.filter.filters(), &builder)?;
    let (filter, _) = input::of_stacks(filter, &builder, &args.symbols.stacks(false))?;
    let mut trace = builder.open()?;
    input::report_unreadable(&trace);
    let selection = selection(filter, &trace);
    let symbolizer = args.symbols.options().symbolizer()?;
    let end = trace.headers().iter().map(|header| header.end_time).max().unwrap_or_default();
    let progress = Progress::of_time(trace.start_time(), end, true);
    let path = Some(&*args.output);
    let out = match format {
        Format::Chrome | Format::Firefox | Format::Speedscope => output::open(path)?,
        // Binary.
        _ => output::open_data(path)?,
    };
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let reached = |time| progress.reach(time);
    let summary = etw_timeline::write(&mut trace, format, &selection, &symbolizer, &mut out, &reached)?;
    progress.finish();
    say(
        &args.output,
        &[
            (summary.events, &"events"),
            (summary.switches, &"context switches"),
            (summary.wakeups, &"threads made ready"),
            (summary.samples, &"samples"),
            (summary.of_slices, &format_args!("of {} slices", summary.slices)),
            (summary.instants, &"shown as single events"),
            (summary.context, &"used for names and stacks"),
            (summary.left_out, &"excluded by the filters"),
            (summary.without_place, &"that the format cannot represent"),
        ],
    );
    for (count, what) in [
        (summary.undecoded, "events could not be decoded and are shown without fields"),
        (summary.unfinished, "slices have no end in the trace"),
    ] {
        if count > 0 {
            output::warn(&format_args!("{count} {what}"));
        }
    }
    input::close(&trace, args.filter.filters() != Filters::default())
}

/// Converts the filters: processes and threads select what an event is about, not only what logged it.
fn selection(mut filter: EventFilter, trace: &Trace) -> Selection {
    let start = trace.start_time();
    let (process_ids, processes, thread_ids) = (
        std::mem::take(&mut filter.process_ids),
        std::mem::take(&mut filter.processes),
        std::mem::take(&mut filter.thread_ids),
    );
    Selection {
        from: filter.from.map(|from| from.resolve(start)),
        to: filter.to.map(|to| to.resolve(start)),
        predicate: filter.predicate(),
        process_ids,
        processes,
        thread_ids,
    }
}
