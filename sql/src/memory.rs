//! The memory of the process, which has a limit beyond that of the engine's pool.
//!
//! The pool knows what sorts, groups and joins keep. Batches on their way, results of functions and what traces need are
//! not in it. A thread looks at what the process has: above the limit, its queries fail, and far above it, the process
//! ends, since what takes memory does not look whether it may.

use std::fmt::{Display, Formatter};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use datafusion::common::{DataFusionError, Result, resources_err};
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// Time between looks.
const EVERY: Duration = Duration::from_millis(10);
/// What a process may have besides twice the memory for queries, in bytes.
const BESIDES: u64 = 512 << 20;

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

/// Starts to watch the memory of the process, of which queries may use `bytes` in the pool.
pub(crate) fn watch(bytes: u64) {
    static START: Once = Once::new();
    let limit = bytes.saturating_mul(2).saturating_add(BESIDES);
    // Without the thread, the pool alone counts.
    START.call_once(|| drop(std::thread::Builder::new().name("memory".into()).spawn(move || look(limit))));
}

fn look(limit: u64) {
    while let Some(mut used) = etw_sys::private_memory() {
        if used > limit {
            // What was freed may still be the process's.
            etw_sys::trim_heap();
            used = etw_sys::private_memory().unwrap_or(0);
        }
        IS_EXCEEDED.store(used > limit, Ordering::Relaxed);
        if used > limit.saturating_mul(2) {
            let text = "etw sql: a query takes far more memory than --memory allows\n";
            // A closed standard error is ignored.
            let _ = std::io::stderr().write_all(text.as_bytes());
            std::process::exit(1);
        }
        std::thread::sleep(EVERY);
    }
}

/// A pool that gives nothing more when the process has too much memory.
#[derive(Debug)]
pub(crate) struct WatchedPool<P>(pub(crate) P);

impl<P: MemoryPool> Display for WatchedPool<P> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Display::fmt(&self.0, f)
    }
}

impl<P: MemoryPool> MemoryPool for WatchedPool<P> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.0.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.0.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.0.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.0.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        check()?;
        self.0.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.0.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.0.memory_limit()
    }
}

/// Returns a pool of some bytes, and watches the process.
pub(crate) fn pool(bytes: usize) -> Arc<dyn MemoryPool> {
    watch(bytes as u64);
    Arc::new(WatchedPool(FairSpillPool::new(bytes)))
}
