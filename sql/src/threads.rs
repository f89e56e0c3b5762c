//! The threads that run queries.

use std::num::NonZeroUsize;

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

/// Size of the stacks of threads that plan statements.
pub(crate) const STACK_BYTES: usize = 64 << 20;

/// Returns the number of threads, one for each processor by default.
pub(crate) fn threads(wanted: Option<NonZeroUsize>) -> usize {
    wanted.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
}

/// Starts the threads that run queries.
pub(crate) fn runtime(wanted: Option<NonZeroUsize>) -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    // One more than compute at a time, so that connections are served.
    builder.worker_threads(threads(wanted) + 1).enable_all();
    // Plans of long expressions are deep.
    builder.thread_stack_size(STACK_BYTES).build().context("cannot start threads")
}
