//! Tables of traces: those that an index keeps, or with the rows of regions of interest, which no index has.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use openetw::analysis::Machines;
use openetw::symbols::Symbolizer;
use openetw::tables::{Index, IndexWriter, Regions, RowTables, TraceIndex, Value};
use openetw::{FileTime, Overview, Trace};

/// Number of events between progress reports.
const PROGRESS_EVERY: u64 = 1 << 14;

/// Complete tables.
#[derive(Debug)]
pub(super) enum Made {
    Kept(TraceIndex),
    WithRegions { index: Index, overview: Arc<Overview> },
}

impl Made {
    /// Reads traces into tables in memory, with the rows of regions.
    ///
    /// # Errors
    ///
    /// Fails if the traces cannot be read.
    pub(super) fn with_regions(
        trace: &mut Trace,
        symbolizer: &Symbolizer,
        regions: Regions,
        progress: &mut dyn FnMut(FileTime),
    ) -> Result<Made> {
        let overview = trace.overview()?;
        let stacks = trace.stacks()?;
        let tables = RowTables::new(IndexWriter::in_memory())?.of_machines(Machines::from_trace(trace));
        let mut tables = tables.of_regions(regions);
        tables.add_traces(trace, &overview);
        let mut events = 0_u64;
        trace.for_each_event(|event| {
            tables.add(event, &stacks.of(event.record));
            events += 1;
            if events.is_multiple_of(PROGRESS_EVERY) {
                progress(event.record.time());
            }
        })?;
        tables.add_losses(trace.statistics());
        Ok(Made::WithRegions { index: tables.finish(symbolizer)?, overview: Arc::new(overview) })
    }

    pub(super) fn index(&self) -> &Index {
        match self {
            Made::Kept(tables) => tables.index(),
            Made::WithRegions { index, .. } => index,
        }
    }

    /// Returns what is known of the traces' buffers.
    pub(super) fn overview(&self) -> &Arc<Overview> {
        match self {
            Made::Kept(tables) => tables.overview(),
            Made::WithRegions { overview, .. } => overview,
        }
    }

    /// Returns the file that the tables are in, if they are in one.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Made::Kept(tables) => tables.path(),
            Made::WithRegions { .. } => None,
        }
    }

    /// Returns the time of the last event with a row, if there is one.
    pub(super) fn last_time(&self) -> Option<FileTime> {
        let index = match self {
            Made::Kept(tables) => return tables.last_time(),
            Made::WithRegions { index, .. } => index,
        };
        let events = index.table("events")?;
        let times = events.column(events.schema().column("time")?).ok()?;
        let last = (0..events.chunks()).filter_map(|chunk| match times.statistics(chunk)?.max {
            Value::Time(time) => Some(time),
            _ => None,
        });
        last.max()
    }
}
