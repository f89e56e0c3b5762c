//! What crates need that write files anew: passes that decide on each record by themselves, and the buffers of files.
//!
//! ```no_run
//! use etw_consumer::Trace;
//! use etw_consumer::raw::Verdict;
//!
//! let mut trace = Trace::open_file("trace.etl")?;
//! let mut left_out = 0;
//! trace.pass(|pass, record| match pass.wants(record) {
//!     true => Verdict::Delivered,
//!     false => {
//!         left_out += 1;
//!         Verdict::Passed
//!     }
//! })?;
//! println!("{left_out} records do not match the filter");
//! # Ok::<(), etw_consumer::TraceError>(())
//! ```

pub use crate::intact::for_each as for_each_intact;
pub use crate::merge::offsets::Offsets;
pub use crate::merge::plan::streams;
pub use crate::trace::{Bounds, Pass, Verdict};
pub use crate::unordered::FileItem;
