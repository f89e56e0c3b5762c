//! Tables with a row for each thing that happened, their sums as they are read, and indexes of traces.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! [`RowTables`] fills the tables of a trace in one pass over its events, and [`TraceIndex`] keeps them beside it.
//! [`Summaries`] counts the rows of a trace without keeping them, for the tables of the report.
//!
//! ```no_run
//! use etw_columns::IndexWriter;
//! use etw_consumer::Trace;
//! use etw_symbols::Symbolizer;
//! use etw_tables::{RowTables, row_tables};
//!
//! let mut trace = Trace::open_file("trace.etl")?;
//! let stacks = trace.stacks()?;
//! let mut tables = RowTables::new(IndexWriter::in_memory())?;
//! trace.for_each_event(|event| tables.add(event, &stacks.of(event.record)))?;
//! let index = tables.finish(&Symbolizer::from_environment()?)?;
//! for schema in row_tables() {
//!     let rows = index.table(&schema.name).map_or(0, |table| table.rows());
//!     println!("{}: {rows} rows", schema.name);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod cell;
mod context;
mod rows;
mod summary;
mod trace_index;

pub use cell::Cell;
pub use context::ReportContext;
pub use rows::list::SUMMARIES;
pub use rows::summaries::{CountedTables, Summaries};
pub use rows::syscalls::call_name;
pub use rows::{
    EventKinds, EventTable, Regions, RegionsError, RowCells, RowFilterError, RowLabel, RowSummary, RowTables,
    RowValue, SummarySelection, column_path, in_window, row_filter, row_label, row_summary, row_tables,
    row_value, summary_rows,
};
pub use summary::{Column, Summary};
pub use trace_index::{
    CACHE_BYTES, IndexHome, IndexNote, IndexPlace, IndexProblem, TraceIndex, TraceIndexError,
};
