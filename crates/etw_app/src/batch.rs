//! Parallel decoding in time order: one thread merges, several decode, one writes. With one worker, one thread does all.
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
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, anyhow};
use openetw::{Origin, Outline, Position, Record, Trace};

use crate::progress::Progress;

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
    position: Position,
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
        let position = record.position();
        self.places.push(Place { start: start as u32, origin: origin as u32, outline, position });
    }

    /// Returns the records as they were in the trace.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.places.iter().filter_map(|place| {
            let bytes = self.bytes.get(place.start as usize..)?;
            let record = place.outline.record(bytes, self.origins.get(place.origin as usize)?)?;
            Some(record.at(place.position))
        })
    }
}

/// The work that a worker does on a batch.
pub trait Work: Send {
    /// The result of a batch.
    type Output: Send;

    /// A batch is passed on when it has this many bytes or [`Work::BATCH_RECORDS`].
    const BATCH_BYTES: usize = 256 << 10;
    /// A batch is passed on when it has this many records or [`Work::BATCH_BYTES`].
    const BATCH_RECORDS: usize = 4096;

    /// Converts a batch to output.
    fn work(&mut self, batch: &Batch) -> Self::Output;
}

/// Output texts of workers, kept for reuse of their memory. Clones share the texts.
#[derive(Debug, Clone, Default)]
pub struct SpareTexts(Arc<Mutex<Vec<Vec<u8>>>>);

impl SpareTexts {
    /// Returns an empty text, with the memory of an earlier one if there is any.
    pub fn take(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Keeps a written text.
    pub fn put(&self, mut text: Vec<u8>) {
        text.clear();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }
}

/// Processes the records of `trace` on a thread for each worker; `take` receives the output in time order and may stop
/// early. A single worker works on the caller's thread.
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
    if let [worker] = workers {
        return run_alone(trace, worker, progress, take);
    }
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
        let merge = std::thread::Builder::new().name("merge".into()).spawn_scoped(scope, move || {
            merge::<W>(trace, progress, |batch| {
                let (result_in, result_out) = sync_channel(1);
                let next = spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
                let full = std::mem::replace(batch, next);
                match order_in.send(result_out).is_ok() && work_in.send((full, result_in)).is_ok() {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            })
        })?;
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

fn run_alone<W: Work>(
    trace: &mut Trace,
    worker: &mut W,
    progress: &Progress,
    mut take: impl FnMut(W::Output) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let mut result = Ok(());
    merge::<W>(trace, progress, |batch| {
        let flow = take(worker.work(batch)).unwrap_or_else(|error| {
            result = Err(error);
            ControlFlow::Break(())
        });
        batch.clear();
        flow
    })
    .and(result)
}

/// Collects the records in batches and calls `full` with each, which leaves an empty one.
fn merge<W: Work>(
    trace: &mut Trace,
    progress: &Progress,
    mut full: impl FnMut(&mut Batch) -> ControlFlow<()>,
) -> Result<()> {
    let mut batch = Batch::default();
    // The first events are passed on at once so that they are shown without waiting for a full batch.
    let mut enough = 64;
    let mut flow = ControlFlow::Continue(());
    trace.for_each_record(|record| {
        batch.push(record);
        if batch.bytes.len() >= W::BATCH_BYTES || batch.places.len() >= enough {
            enough = W::BATCH_RECORDS;
            progress.reach(record.time());
            flow = full(&mut batch);
        }
        flow
    })?;
    if flow.is_continue() && !batch.places.is_empty() {
        let _ = full(&mut batch);
    }
    Ok(())
}
