//! Traces merged in time order, four levels of reading, predicates and the testing kit.

#![forbid(unsafe_code)]

mod callbacks;
mod decoder;
pub mod filter;
mod input;
mod intact;
mod live;
mod merge;
mod owned;
mod predicate;
mod processes;
pub mod relog;
mod schema_files;
mod schemas;
mod statistics;
mod stop;
pub mod testing;
mod time_point;
mod tournament;
mod trace;
mod unordered;

pub use callbacks::{Callbacks, Subscription};
pub use decoder::SchemaEvent;
pub use etw_schema::{Event, EventError, IdSet, KeywordSpec, ProviderKey, ProviderSpec, ProviderSpecError};
pub use filter::{EventFilter, EventFilterError, FilterError};
pub use input::{Input, InputError, InputLimits, file_sequence};
pub use live::SessionError;
pub use owned::{OwnedEvent, OwnedProperties, OwnedValue};
pub use predicate::Predicate;
pub use processes::ProcessTable;
pub use schema_files::{SchemaFile, SchemaFileKind, SchemaFiles};
pub use schemas::Schemas;
pub use statistics::{SourceStatistics, Statistics};
pub use stop::{CallbackResult, StopHandle};
pub use time_point::{TimePoint, TimePointError};
pub use trace::{LossReport, ReadRecord, Trace, TraceBuilder, TraceError, TraceReader};
