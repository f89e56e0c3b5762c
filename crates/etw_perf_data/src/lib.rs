//! Files of Linux's `perf record` (`perf.data`): attributes, records, samples, formats of tracepoints and what the header
//! says of the machine, read from borrowed bytes.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! Files and streams (`perf record -o -`) of both byte orders are read. Source: `perf.data-file-format.txt` of the
//! kernel's `tools/perf/Documentation`, and `include/uapi/linux/perf_event.h`.
//!
//! The crate does no I/O, does not sort, and does not decompress: records of [`kind::COMPRESSED`] are returned as they
//! are.
//!
//! ```no_run
//! use etw_perf_data::{PerfData, Record};
//!
//! let bytes = std::fs::read("perf.data")?;
//! let file = PerfData::open(&bytes)?;
//! for raw in file.records() {
//!     match file.parse(&raw?) {
//!         Some(Record::Sample(sample)) => println!("{:?} {:?}", sample.time, sample.ip),
//!         Some(_) => {}
//!         None => eprintln!("a record is damaged"),
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
// The bytes that are read here are untrusted: no cast and no index may depend on them unchecked.
#![warn(clippy::cast_possible_truncation, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation, clippy::indexing_slicing))]

mod attribute;
mod cursor;
mod error;
mod features;
mod file;
pub mod kind;
mod record;
mod sample;
mod tracepoint;

pub use attribute::{Attribute, AttributeFlags, EventType, SampleFormat};
pub use cursor::{ByteOrder, Words};
pub use error::{Damage, OpenError};
pub use features::{BuildIdEntry, ClockData, Features};
pub use file::{PerfData, RawRecord, Records, is_perf_data};
pub use record::{Comm, Mapping, Record, SampleId, Switch, Task};
pub use sample::{Registers, Sample, context};
pub use tracepoint::{FieldKind, Tracepoint, TracepointField, Tracepoints};
