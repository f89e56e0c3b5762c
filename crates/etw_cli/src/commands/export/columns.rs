//! Export of events as Parquet or Arrow tables.

use std::io::{self, BufWriter};
use std::ops::ControlFlow;
use std::sync::Arc;

use anyhow::{Context, Result};
use etw_app::batch::{self, Batch, Work};
use etw_app::output;
use etw_sys::output::OutputOptions;
use openetw::export::{ColumnFormat, ColumnsWriter, RowCollector, Rows};
use openetw::schema::{Located, Resolver};
use openetw::{Event, ProcessTable};

use super::{open, prepare, say};
use crate::args::export::ExportArgs;

/// Maximum number of threads that encode files.
const MAX_ENCODERS: usize = 8;

pub(super) fn run(args: &ExportArgs, format: ColumnFormat) -> Result<()> {
    let mut opened = open(args)?;
    prepare(&args.output)?;
    let threads = output::threads(args.input.threads).get();
    // With several threads, decoding and encoding take about as long as each other.
    let encoders = if threads == 1 { 0 } else { threads.min(MAX_ENCODERS) };
    let mut writer = ColumnsWriter::new(format, encoders, |name| {
        let path = args.output.join(name);
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        Ok(BufWriter::new(OutputOptions::new().create_new().open(&path)?))
    });
    if args.source {
        writer = writer.with_places(opened.sources.iter().cloned());
        opened.trace.find_places();
    }
    let failed = || format!("{}: cannot be written", args.output.display());
    let mut workers: Vec<_> = (0..threads)
        .map(|_| Collector {
            resolver: opened.resolver.clone(),
            located: Located::new(),
            processes: opened.processes.clone(),
            rows: writer.collector(),
        })
        .collect();
    let progress = opened.progress(true);
    batch::run(&mut opened.trace, &mut workers, &progress, |rows| {
        writer.put_rows(rows?).with_context(failed)?;
        Ok(ControlFlow::Continue(()))
    })?;
    progress.finish();
    let summary = writer.finish().with_context(failed)?;
    say(
        &args.output,
        &[
            (summary.events, &"events"),
            (summary.tables, &"tables"),
            (summary.files, &"files"),
            (summary.undecoded, &"events without schema in the table 'undecoded'"),
        ],
    );
    for (count, what) in [
        (
            summary.times_out_of_range,
            "times are null: outside the years 1677 to 2262 that columns can represent",
        ),
        (summary.values_out_of_range, "values are null: they do not match their schema"),
    ] {
        if count > 0 {
            output::warn(&format_args!("{count} {what}"));
        }
    }
    opened.close()
}

/// Worker that collects the rows of batches of events.
struct Collector {
    resolver: Resolver,
    located: Located,
    processes: Arc<ProcessTable>,
    rows: RowCollector,
}

impl Work for Collector {
    type Output = io::Result<Rows>;

    // Each kind of event in a batch costs as much as some rows of it.
    const BATCH_BYTES: usize = 2 << 20;
    const BATCH_RECORDS: usize = 1 << 14;

    fn work(&mut self, batch: &Batch) -> io::Result<Rows> {
        for record in batch.records() {
            let process = self.processes.name_of(&record);
            let event = self.resolver.decode(&record, &mut self.located);
            self.rows.put(&Event { process, ..event })?;
        }
        self.rows.take()
    }
}
