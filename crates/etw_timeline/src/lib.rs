//! Traces as timelines and profiles for other viewers: Perfetto, Chrome, Firefox Profiler, speedscope, pprof.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! A trace is read twice. The first reading finds the names of processes, threads and functions and the stacks of samples;
//! the second writes the events in order ([`etw_analysis::Timeline`]). Memory grows with the number of samples, threads and
//! distinct stacks; the profile for Firefox is built in memory as a whole.
//!
//! | kind of event | Perfetto | Chrome | Firefox | speedscope, pprof |
//! |---|---|---|---|---|
//! | context switch | `sched_switch` | slice of the processor | – | – |
//! | thread made ready | `sched_waking` | instant | – | – |
//! | sample | `PerfSample` with call stack | sample with stack frames | sample | sample |
//! | system call | slice | slice | interval | – |
//! | disk request | slice | slice | interval | – |
//! | Start and Stop of an activity | slice | slice | interval | – |
//! | any other event | instant | instant | marker | – |
//!
//! The [`Summary`] counts every event once, including those that a format does not support.
//!
//! ```no_run
//! use std::fs::File;
//!
//! use etw_consumer::Trace;
//! use etw_symbols::Symbolizer;
//! use etw_timeline::{Format, Selection};
//!
//! let mut trace = Trace::open_file("trace.etl")?;
//! let mut out = File::create("trace.json")?;
//! let (selection, symbolizer) = (Selection::default(), Symbolizer::new());
//! let summary = etw_timeline::write(&mut trace, Format::Chrome, &selection, &symbolizer, &mut out, &|_| {})?;
//! println!("{summary:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod chrome;
mod error;
mod firefox;
mod frames;
mod item;
mod lanes;
mod names;
mod pass;
mod perfetto;
mod pprof;
mod selection;
mod speedscope;
mod summary;

use std::io::Write;

use etw_consumer::Trace;
use etw_event::FileTime;
use etw_symbols::Symbolizer;

pub use error::TimelineError;
pub use selection::Selection;
pub use summary::Summary;

/// The file format of a viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Perfetto's protobuf (`perfetto.protos.Trace`).
    Perfetto,
    /// The JSON of `chrome://tracing`, in the form of an object.
    Chrome,
    /// The processed profile of the Firefox Profiler.
    Firefox,
    /// The JSON of speedscope, with a sampled profile for each thread.
    Speedscope,
    /// The profile of pprof (`perftools.profiles.Profile`), compressed with gzip.
    Pprof,
}

/// Writes a trace as a timeline; calls `reached` in each reading with the time it has reached.
///
/// The trace must not have a filter, which would leave out events with names and stacks.
///
/// # Errors
///
/// Fails if the trace cannot be read or the output cannot be written.
pub fn write(
    trace: &mut Trace,
    format: Format,
    selection: &Selection,
    symbolizer: &Symbolizer,
    out: &mut dyn Write,
    reached: &dyn Fn(FileTime),
) -> Result<Summary, TimelineError> {
    let start = trace.start_time();
    let (survey, mut summary) = pass::survey(trace, selection, symbolizer, reached)?;
    let context = item::Context { survey: &survey, selection, start };
    let summary = match format {
        Format::Speedscope => {
            speedscope::write(out, &context, &mut summary)?;
            summary
        }
        Format::Pprof => {
            pprof::write(out, &context, &mut summary)?;
            summary
        }
        Format::Perfetto => pass::run(trace, &context, perfetto::Writer::new(out), reached)?,
        Format::Chrome => pass::run(trace, &context, chrome::Writer::new(out), reached)?,
        Format::Firefox => pass::run(trace, &context, firefox::Writer::new(out, &context), reached)?,
    };
    out.flush()?;
    Ok(summary)
}
