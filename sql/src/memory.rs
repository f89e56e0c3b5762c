//! The memory of the process, which `--memory` bounds.
//!
//! The pool knows what sorts, groups and joins keep, and has a part of it. Batches on their way, results of functions and
//! what traces need are not in it. A thread looks at what the process has: pages of files are given back as soon as there
//! is too much; above one and a half times the limit, its queries fail, and far above it, the process ends, since what takes
//! memory does not look whether it may.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use datafusion::common::{DataFusionError, Result, resources_err};
use datafusion::execution::memory_pool::MemoryPool;
use etw_sys::Memory;

use crate::pool::SharedPool;

/// Time between looks.
const EVERY: Duration = Duration::from_millis(2);
/// Time between two times that the heap is trimmed.
const BETWEEN_TRIMS: Duration = Duration::from_millis(10);
/// What a process has without a query, and what is on its way in one, in bytes.
const BESIDES: usize = 24 << 20;
/// The same in one that writes temporary files.
const BESIDES_FILES: usize = 46 << 20;

static IS_EXCEEDED: AtomicBool = AtomicBool::new(false);

/// Fails if the process has too much memory.
///
/// # Errors
///
/// Fails as a query does that needs too much.
pub(crate) fn check() -> Result<()> {
    match IS_EXCEEDED.load(Ordering::Relaxed) {
        true => resources_err!("the queries take more memory than --memory allows"),
        false => Ok(()),
    }
}

/// Waits until the process has too much memory, and returns the error of its queries.
pub(crate) async fn exceeded() -> DataFusionError {
    loop {
        if let Err(error) = check() {
            return error;
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Starts to watch the memory of the process, which may have some bytes.
pub(crate) fn watch(bytes: u64) {
    static START: Once = Once::new();
    // Without the thread, the pool alone counts.
    START.call_once(|| drop(std::thread::Builder::new().name("memory".into()).spawn(move || look(bytes))));
}

fn look(bytes: u64) {
    let limit = bytes.saturating_mul(3) / 2;
    let mut trimmed = Instant::now();
    while let Some(mut now) = Memory::now() {
        if now.resident > bytes {
            etw_sys::release_file_maps();
        }
        // What was freed may still be the process's.
        if now.resident > bytes && trimmed.elapsed() > BETWEEN_TRIMS || now.private > limit {
            etw_sys::trim_heap();
            trimmed = Instant::now();
            now = Memory::now().unwrap_or(now);
        }
        IS_EXCEEDED.store(now.private > limit, Ordering::Relaxed);
        if now.private > limit.saturating_mul(2) {
            let text = "etw sql: a query takes far more memory than --memory allows\n";
            // A closed standard error is ignored.
            let _ = std::io::stderr().write_all(text.as_bytes());
            std::process::exit(1);
        }
        std::thread::sleep(EVERY);
    }
}

/// Returns a pool for a process that may have some bytes, and watches it.
pub(crate) fn pool(bytes: usize) -> Arc<dyn MemoryPool> {
    watch(bytes as u64);
    let without = |besides| (bytes / 8 * 7).saturating_sub(besides);
    Arc::new(SharedPool::new(without(BESIDES), without(BESIDES_FILES)))
}
