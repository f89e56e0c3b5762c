//! Compression of whole buffers on all processors.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::thread;

use etw_etl::BufferHeader;
use etw_etl::xpress::Compressor;
use etw_event::Ticks;

use super::RelogError;
use super::output::Output;

/// Maximum number of threads.
const MOST_THREADS: usize = 16;
/// Minimum number of buffers per thread, to make up for the cost of starting it.
const BUFFERS_OF_THREAD: usize = 16;
/// Limit for the bytes of waiting events, without the last buffer.
const MOST_BYTES: usize = 32 << 20;

/// Buffers waiting to be compressed and written, in order.
pub(super) struct Pack<'f> {
    waiting: Vec<Waiting<'f>>,
    /// The compressors, one per thread.
    compressors: Vec<Compressor>,
}

struct Waiting<'f> {
    header: BufferHeader,
    events: &'f [u8],
    last: Ticks,
    compressed: Vec<u8>,
}

impl<'f> Pack<'f> {
    pub(super) fn new() -> Pack<'f> {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MOST_THREADS);
        Pack { waiting: Vec::new(), compressors: vec![Compressor::default(); threads] }
    }

    /// Adds a buffer, as [`etw_etl::EtlWriter::relog_buffer`] takes it.
    pub(super) fn push(
        &mut self,
        header: BufferHeader,
        events: &'f [u8],
        last: Ticks,
        output: &mut Output,
    ) -> Result<(), RelogError> {
        self.waiting.push(Waiting { header, events, last, compressed: Vec::new() });
        let bytes: usize = self.waiting.iter().map(|buffer| buffer.events.len()).sum();
        let is_enough = self.waiting.len() >= self.compressors.len() * BUFFERS_OF_THREAD;
        if is_enough || bytes >= MOST_BYTES { self.write(output) } else { Ok(()) }
    }

    /// Writes all waiting buffers.
    pub(super) fn write(&mut self, output: &mut Output) -> Result<(), RelogError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.compress();
        for Waiting { header, events, last, compressed } in self.waiting.drain(..) {
            output.with(|writer| match compressed.len() < events.len() {
                true => writer.relog_compressed_buffer(&header, &compressed, events.len(), last),
                false => writer.relog_buffer(&header, events, last),
            })?;
        }
        Ok(())
    }

    fn compress(&mut self) {
        let buffers = Mutex::new(self.waiting.iter_mut());
        let work = |compressor: &mut Compressor| {
            loop {
                let next = buffers.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(buffer) = next else { return };
                compressor.compress(buffer.events, &mut buffer.compressed);
            }
        };
        let Some((own, others)) = self.compressors.split_first_mut() else { return };
        thread::scope(|scope| {
            let work = &work;
            for compressor in others {
                // If the thread cannot be started, the others do its work.
                let _ =
                    thread::Builder::new().name("pack".into()).spawn_scoped(scope, move || work(compressor));
            }
            work(own);
        });
    }
}
