//! Kinds of records (`PERF_RECORD_*`).
//!
//! ```
//! assert!(etw_perf_data::kind::is_of_kernel(etw_perf_data::kind::SAMPLE));
//! ```

/// A mapping of an older kernel, and of the kernel itself.
pub const MMAP: u32 = 1;
/// Records were lost.
pub const LOST: u32 = 2;
/// A thread has a name.
pub const COMM: u32 = 3;
/// A thread has ended.
pub const EXIT: u32 = 4;
/// An event was sampled too often, and is not sampled for a while.
pub const THROTTLE: u32 = 5;
/// An event is sampled again.
pub const UNTHROTTLE: u32 = 6;
/// A thread was created.
pub const FORK: u32 = 7;
/// A sample.
pub const SAMPLE: u32 = 9;
/// A mapping.
pub const MMAP2: u32 = 10;
/// Samples were lost.
pub const LOST_SAMPLES: u32 = 13;
/// A thread of the recorded ones is switched in or out.
pub const SWITCH: u32 = 14;
/// A processor switches from one thread to another.
pub const SWITCH_CPU_WIDE: u32 = 15;

/// The first kind of records that perf writes itself.
const FIRST_OF_PERF: u32 = 64;
/// The first number that no kind has, with room for future ones.
pub(crate) const END: u32 = 128;

/// An attribute, in streams.
pub const HEADER_ATTR: u32 = 64;
/// The formats of tracepoints, in streams.
pub const HEADER_TRACING_DATA: u32 = 66;
/// A build id, in streams.
pub const HEADER_BUILD_ID: u32 = 67;
/// All earlier records than the latest of the round before are complete.
pub const FINISHED_ROUND: u32 = 68;
/// Data of a processor's own tracer follows.
pub const AUXTRACE: u32 = 71;
/// The name of an event, in streams.
pub const EVENT_UPDATE: u32 = 78;
/// A feature of the header, in streams.
pub const HEADER_FEATURE: u32 = 80;
/// Compressed records.
pub const COMPRESSED: u32 = 81;
/// Compressed records, with their size.
pub const COMPRESSED2: u32 = 83;

/// Returns whether the kernel writes records of a kind; others are of perf itself.
pub fn is_of_kernel(kind: u32) -> bool {
    kind < FIRST_OF_PERF
}
