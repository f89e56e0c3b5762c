//! Passes over the records of files in no order, on several threads: for counts, and for what a trace carries about
//! itself.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use etw_etl::{BufferRef, EtlFile, Records};
use etw_event::Record;

/// Buffers that a thread takes at once.
const BATCH: usize = 16;
/// Files below this size are read by one thread.
const PARALLEL_FROM_BYTES: usize = 4 << 20;
/// Decompressed buffers of all threads together are not larger than this.
const MEMORY_BYTES: usize = 32 << 20;

/// Calls `visit` with every intact record of a file and its place: the number of its buffer, and its number there.
///
/// Each thread has a state of its own, made by `state`; all states are returned.
pub(crate) fn for_each<S: Send>(
    file: &EtlFile<'_>,
    source: u32,
    state: impl Fn() -> S + Sync,
    visit: impl Fn(&mut S, &Record<'_>, (u32, u32)) + Sync,
) -> Vec<S> {
    let threads = threads(file);
    let buffers = Mutex::new(file.buffers());
    let work = || {
        let (mut state, mut scratch) = (state(), Vec::new());
        let mut batch: Vec<BufferRef<'_>> = Vec::with_capacity(BATCH);
        loop {
            {
                let mut buffers = buffers.lock().unwrap_or_else(PoisonError::into_inner);
                batch.extend(buffers.by_ref().flatten().take(BATCH));
            }
            if batch.is_empty() {
                return state;
            }
            for buffer in batch.drain(..) {
                let data = buffer.data(&mut scratch);
                let origin = buffer.origin(file.clock(), source);
                let records = Records::new(data.bytes, &origin, buffer.place()).flatten();
                for (record, number) in records.zip(0..) {
                    visit(&mut state, &record, (buffer.index, number));
                }
            }
        }
    };
    if threads == 1 {
        return vec![work()];
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| match worker.join() {
                Ok(state) => state,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}

fn threads(file: &EtlFile<'_>) -> usize {
    if file.bytes().len() < PARALLEL_FROM_BYTES {
        return 1;
    }
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let buffer = (file.header().buffer_size as usize).max(1);
    processors.min(16).min((MEMORY_BYTES / buffer).max(1))
}
