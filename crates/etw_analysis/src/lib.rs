//! Tables over the events of the kernel and of .NET: processes, CPU, functions, waits, I/O, network, collections.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! [`Analysis`] reads the events of a trace in one pass, and [`Analysis::report`] makes [`Table`]s of the counts.
//! Windows and Linux events have the same classes, so the tables are the same too.
//!
//! ```no_run
//! use etw_analysis::{Analysis, ReportOptions, Window};
//!
//! let mut trace = etw_consumer::Trace::open_file("trace.etl")?;
//! let mut analysis = Analysis::new(Window::ALL);
//! trace.for_each_event(|event| analysis.add(event))?;
//! for table in analysis.report(&ReportOptions::from_headers(trace.headers())).tables {
//!     println!("{}: {} rows", table.kind.title(), table.rows.len());
//! }
//! # Ok::<(), etw_consumer::TraceError>(())
//! ```

#![forbid(unsafe_code)]

mod activity;
mod addresses;
mod analysis;
mod attribution;
mod by_stack;
mod call_tree;
mod embedded;
mod embedding;
mod file_names;
mod images;
mod kernel_functions;
mod machines;
mod managed;
mod maps;
mod model;
mod modules;
mod names;
mod process_filter;
mod processes;
mod report;
mod rows;
mod samples;
mod stack_names;
mod stacks;
mod system_modules;
mod tables;
mod timeline;
mod trace_index;
mod trace_logging;
mod user_addresses;
mod volumes;
mod wait_chains;
mod weight;
mod window;

pub use activity::Activity;
pub use analysis::Analysis;
pub use attribution::Attribution;
pub use call_tree::{
    CallNode, CallTree, Change, Comparison, FrameIndex, FramePattern, NamedStacks, StackFrame, StackIndex,
    StackTags, StackTagsError, TreeShape, TreeView, WeightSum, WeightUnit,
};
pub use embedding::SymbolEmbedding;
pub use file_names::FileIndex;
pub use kernel_functions::KernelAddresses;
pub use machines::Machines;
pub use managed::{JitFunction, JitSourceLine};
pub use model::disks::disk_label;
pub use modules::ModuleUse;
pub use process_filter::ProcessFilter;
pub use processes::{ProcessIndex, ThreadIndex};
pub use report::{Report, ReportOptions};
pub use rows::{
    EventKinds, EventTable, Regions, RegionsError, RowCells, RowFilterError, RowLabel, RowSummary, RowTables,
    RowValue, SummarySelection, column_path, in_window, row_filter, row_label, row_summary, row_tables,
    row_value, summary_table,
};
pub use stack_names::StackNames;
pub use tables::summary::Summary;
pub use tables::table::{Cell, Column, Table, TableKind};
pub use timeline::{DiskRequest, Moment, Sample, StackNode, Survey, Switch, ThreadInfo, Timeline};
pub use trace_index::{
    CACHE_BYTES, IndexHome, IndexNote, IndexPlace, IndexProblem, TraceIndex, TraceIndexError,
};
pub use user_addresses::UserAddresses;
pub use weight::StackWeight;
pub use window::{Duration, Window};
