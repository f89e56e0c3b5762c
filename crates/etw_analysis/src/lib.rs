//! Tables over the events of the kernel and of .NET: processes, CPU, functions, waits, I/O, network, collections.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! [`Analysis`] reads the events of a trace in one pass, and [`Analysis::report`] makes [`Table`]s of the counts.
//! Windows and Linux events have the same classes, so the tables are the same too.
//!
//! ```no_run
//! use etw_analysis::{Analysis, ReportOptions};
//! use etw_machine::Window;
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
mod analysis;
mod embedding;
mod modules;
mod report;
mod samples;
mod tables;
mod timeline;

pub use activity::Activity;
pub use analysis::Analysis;
pub use embedding::SymbolEmbedding;
pub use modules::ModuleUse;
pub use report::{Report, ReportOptions};
pub use tables::table::{Table, TableKind};
pub use timeline::{DiskRequest, Moment, Sample, StackNode, Survey, Switch, ThreadInfo, Timeline};
