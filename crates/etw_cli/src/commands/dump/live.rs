//! `etw dump -s` and `--no-look-ahead`: events of live sessions and files, decoded as they arrive.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use etw_app::input::Filters;
use etw_app::schemas::Schemas;
use etw_app::{UsageError, input, output};
use openetw::etl::Loss;
use openetw::export::Options;
use openetw::{FileTime, LossReport};

use super::fields::Missing;
use super::{Writer, foot, head};
use crate::args::DumpArgs;

/// Size of the output buffer; it is flushed when full and whenever no more events can be read.
const OUTPUT_BYTES: usize = 1 << 16;
/// Least time between two warnings of losses, which are added up meanwhile. A warning for each loss would fill the pipe of a
/// program that does not read standard error, and stop the reading.
const BETWEEN_LOSSES: Duration = Duration::from_secs(1);

/// Runs the command.
pub(super) fn run(args: &DumpArgs, options: Options, schemas: &Schemas) -> Result<()> {
    let mut filter = input::compile(&args.filter.filters(), schemas)?;
    input::refuse_stacks(&filter)?;
    input::refuse_groups(&args.filter.filters())?;
    if args.stacks {
        let text = "--stacks needs whole files, since stacks and the names of their functions come after their \
                    events; it does not work with -s and --no-look-ahead";
        return Err(UsageError(text.to_owned()).into());
    }
    filter.limit = args.limit;
    let out = BufWriter::with_capacity(OUTPUT_BYTES, super::open(args)?);
    let out = Arc::new(Mutex::new(out));
    let files = input::builder(&args.input.files)?;
    let builder = args.session.iter().fold(files, |builder, name| builder.session(name));
    let idle = out.clone();
    let losses = Arc::new(Mutex::new(Losses::default()));
    let (at_idle, at_loss) = (losses.clone(), losses.clone());
    let when_idle = move || {
        // The next write reports a closed pipe.
        drop(lock(&idle).flush());
        lock(&at_idle).tell_in_time();
    };
    let tell = move |session: &str, report: &LossReport| lock(&at_loss).add(session, report);
    let schemas = schemas.sources();
    let builder =
        builder.filter(&filter).schemas(&schemas).process_names(true).on_idle(when_idle).on_loss(tell);
    let mut trace = builder.look_ahead(!args.no_look_ahead).skip_unreadable(true).open()?;
    input::report_unreadable(&trace);
    input::stop_on_interrupt(&trace)?;

    let first_session = trace.inputs().len();
    let options = Options { sources: input::live_sources(&trace), ..options };
    if options.needs_places() {
        trace.find_places();
    }
    let mut missing = Missing::new(&options.fields);
    let mut writer = Writer::new(args.format, &options);
    let write = |text: &[u8]| lock(&out).write_all(text);
    write(&head(args, &options))?;
    let (mut text, mut failed) = (Vec::new(), None);
    let read = trace.for_each_event(|event| {
        text.clear();
        missing.see(event);
        writer.put(&mut text, event);
        match write(&text) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    lock(&losses).tell();
    if let Some(error) = failed {
        return Err(error.into());
    }
    write(foot(args.format))?;
    lock(&out).flush()?;
    let statistics = trace.statistics();
    for source in statistics.sources.iter().skip(first_session) {
        if source.events_lost > 0 {
            output::warn(&format_args!(
                "{}: {} events lost in total; {} were shown",
                source.name, source.events_lost, statistics.delivered
            ));
        }
    }
    Missing::warn([missing]);
    let closed = input::close(&trace, args.session.is_empty() && args.filter.filters() != Filters::default());
    read?;
    closed
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Losses of sessions that no warning has named yet.
#[derive(Default)]
struct Losses {
    /// What was lost of each session and kind, and up to which time.
    waiting: BTreeMap<(String, &'static str), (u64, FileTime)>,
    /// When the last warning was printed.
    told: Option<Instant>,
}

impl Losses {
    fn add(&mut self, session: &str, report: &LossReport) {
        let what = match report.loss {
            Loss::Events => "events",
            Loss::Buffers => "buffers",
            _ => "backup files",
        };
        let (count, time) = self.waiting.entry((session.to_owned(), what)).or_insert((0, report.time));
        *count += report.count;
        *time = report.time.max(*time);
        self.tell_in_time();
    }

    /// Prints what is waiting, unless the last warning is too recent.
    fn tell_in_time(&mut self) {
        if self.told.is_none_or(|told| told.elapsed() >= BETWEEN_LOSSES) {
            self.tell();
        }
    }

    /// Prints what is waiting.
    fn tell(&mut self) {
        while let Some(((session, what), (count, time))) = self.waiting.pop_first() {
            output::warn(&format_args!("{session}: {count} {what} lost up to {time}"));
            self.told = Some(Instant::now());
        }
    }
}
