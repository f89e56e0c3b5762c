//! Traces merged in time order, four levels of reading, and the testing kit.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! ```no_run
//! use etw_consumer::Trace;
//!
//! let mut trace = Trace::open_file("trace.etl")?;
//! trace.for_each_event(|event| println!("{} {:?}", event.record.time(), event.names().provider()))?;
//! # Ok::<(), etw_consumer::TraceError>(())
//! ```

#![forbid(unsafe_code)]

mod callbacks;
mod counts;
mod decoder;
mod input;
mod intact;
mod live;
mod merge;
mod one_clock;
mod overview;
mod owned;
mod parts;
mod processes;
pub mod raw;
#[cfg(windows)]
mod registered;
mod schema_files;
mod schemas;
mod stacks;
mod statistics;
mod stop;
pub mod testing;
mod tournament;
mod trace;
mod unordered;

pub use callbacks::{Callbacks, Subscription};
pub use counts::{Counts, StatisticsHandle};
pub use decoder::SchemaEvent;
pub use etw_filter::{
    EventFilter, EventFilterError, FilterError, FilterScope, Predicate, TimePoint, TimePointError,
};
pub use etw_schema::{Event, EventError, IdSet, KeywordSpec, ProviderKey, ProviderSpec, ProviderSpecError};
pub use input::{Converted, Input, InputError, InputLimits, Spooled, file_sequence};
#[cfg(target_os = "linux")]
pub use live::{BufferFeed, FeedError};
pub use live::{SessionChange, SessionEnd, SessionError, SessionsHandle};
pub use overview::{BufferSummary, Overview};
pub use owned::{OwnedEvent, OwnedProperties, OwnedValue};
pub use parts::PartLosses;
pub use processes::{ProcessName, ProcessNames, ProcessTable};
pub use schema_files::{SchemaFile, SchemaFileKind, SchemaFiles, SchemaReader, UndescribedPublisher};
pub use schemas::Schemas;
pub use stacks::{Stack, StackCounts, Stacks};
pub use statistics::{SessionGap, SourceStatistics, Statistics};
pub use stop::{CallbackResult, StopHandle};
pub use trace::{LossReport, ReadRecord, Trace, TraceBuilder, TraceError, TraceReader};
