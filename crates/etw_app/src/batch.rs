//! Parallel decoding in time order: one thread merges, several decode, one writes.
//!
//! ```text
//! merge ──batches──▶ workers ──output──▶ writer
//!   └────── one place for each batch, in order ────▲
//! ```
//!
//! The merge thread copies records into batches and passes each to the next free worker, together with the channel on
//! which the writer waits for its result. The output therefore has the order of the merge, however fast each worker is.
//! All channels are bounded, which bounds memory.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, anyhow};
use openetw::{Origin, Outline, Record, Trace};

use crate::progress::Progress;

/// A batch is passed on when it has this many bytes or records.
const BATCH_BYTES: usize = 256 << 10;
const BATCH_RECORDS: usize = 4096;

/// Records in time order, with the data that they borrow from the trace.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    places: Vec<Place>,
    origins: Vec<Origin>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    start: u32,
    /// Index into the origins.
    origin: u32,
    outline: Outline,
}

impl Batch {
    fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
        self.origins.clear();
    }

    fn push(&mut self, record: &Record<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(record.as_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let origin = record.origin();
        let last = self.places.last().map_or(0, |place| place.origin as usize);
        let origin = match self.origins.get(last) {
            Some(known) if known == origin => last,
            _ => self.origins.iter().position(|known| known == origin).unwrap_or_else(|| {
                self.origins.push(*origin);
                self.origins.len() - 1
            }),
        };
        let outline = record.outline();
        self.places.push(Place { start: start as u32, origin: origin as u32, outline });
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES || self.places.len() >= BATCH_RECORDS
    }

    /// Returns the records as they were in the trace.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.places.iter().filter_map(|place| {
            let bytes = self.bytes.get(place.start as usize..)?;
            place.outline.record(bytes, self.origins.get(place.origin as usize)?)
        })
    }
}

/// The work that a worker does on a batch.
pub trait Work: Send {
    /// The result of a batch.
    type Output: Send;

    /// Converts a batch to output.
    fn work(&mut self, batch: &Batch) -> Self::Output;
}

/// Processes the records of `trace` on worker threads; `take` receives the output in time order and may stop early.
///
/// # Errors
///
/// Fails if `take` or reading the trace fails, or if a thread cannot be started.
pub fn run<W: Work>(
    trace: &mut Trace,
    workers: &mut [W],
    progress: &Progress,
    mut take: impl FnMut(W::Output) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let ahead = 2 * workers.len() + 1;
    let (work_in, work_out) = sync_channel::<(Batch, SyncSender<W::Output>)>(ahead);
    let (order_in, order_out) = sync_channel::<Receiver<W::Output>>(ahead);
    let work_out = Mutex::new(work_out);
    // Finished batches, kept for their allocations.
    let spare = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let (work_out, spare) = (&work_out, &spare);
        for worker in workers {
            let body = move || {
                loop {
                    let next = work_out.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((mut batch, place)) = next else { return };
                    // This fails only if the writer has stopped.
                    let _ = place.send(worker.work(&batch));
                    batch.clear();
                    spare.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
                }
            };
            std::thread::Builder::new().name("decode".into()).spawn_scoped(scope, body)?;
        }
        let merge = std::thread::Builder::new()
            .name("merge".into())
            .spawn_scoped(scope, move || merge(trace, &work_in, &order_in, spare, progress))?;
        let mut result = Ok(());
        for place in &order_out {
            let Ok(output) = place.recv() else { break };
            match take(output) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        // Closing the writer's end stops the merge, and then the workers.
        drop(order_out);
        let merged = merge.join().map_err(|_| anyhow!("the merge thread panicked"))?;
        result.and(merged)
    })
}

fn merge<O>(
    trace: &mut Trace,
    work: &SyncSender<(Batch, SyncSender<O>)>,
    order: &SyncSender<Receiver<O>>,
    spare: &Mutex<Vec<Batch>>,
    progress: &Progress,
) -> Result<()> {
    let mut batch = Batch::default();
    let hand_over = |batch: &mut Batch| {
        let (result_in, result_out) = sync_channel(1);
        let next = spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let full = std::mem::replace(batch, next);
        order.send(result_out).is_ok() && work.send((full, result_in)).is_ok()
    };
    // The first events are passed on at once so that they are shown without waiting for a full batch.
    let mut handed_over = false;
    trace.for_each_record(|record| {
        batch.push(record);
        let enough = batch.is_full() || (!handed_over && batch.places.len() >= 64);
        if enough {
            handed_over = true;
            progress.reach(record.time());
            if !hand_over(&mut batch) {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    if !batch.places.is_empty() {
        hand_over(&mut batch);
    }
    Ok(())
}
