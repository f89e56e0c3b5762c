//! Consumers: opening traces and processing their events (`OpenTrace`, `ProcessTrace`, `CloseTrace`).

mod classes;
mod clock;
mod current;
mod header;
mod logfile;
mod open;
mod process;
mod query;
mod raw_buffers;
mod record;
mod stream;
mod system_values;

pub use classes::*;
pub use open::*;
pub use process::ProcessTrace;
pub use query::QueryTraceProcessingHandle;
pub use raw_buffers::{ProcessTraceBufferDecrementReference, ProcessTraceBufferIncrementReference};
pub use stream::ProcessTraceAddBufferToBufferStream;

pub(crate) use current::{during, with_event};
pub(crate) use open::code_of;
pub(crate) use record::{event_record, rebuild};
pub(crate) use system_values::is_of_system;
