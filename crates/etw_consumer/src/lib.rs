//! Traces merged in time order, four levels of reading, predicates and the testing kit.

mod input;
mod merge;
mod provider_spec;
mod schema_files;
mod statistics;
mod stop;
mod time_point;
mod trace;

pub use input::{Input, InputError, InputLimits, file_sequence};
pub use provider_spec::{IdSet, KeywordSpec, ProviderKey, ProviderSpec, ProviderSpecError};
pub use schema_files::{SchemaFile, SchemaFileKind, SchemaFiles};
pub use statistics::{SourceStatistics, Statistics};
pub use stop::{CallbackResult, StopHandle};
pub use time_point::{TimePoint, TimePointError};
pub use trace::{Trace, TraceBuilder, TraceError};
