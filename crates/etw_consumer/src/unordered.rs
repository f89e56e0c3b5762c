//! Passes over the records of files without an order, on several threads: for counts and the metadata scan.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use etw_etl::{BufferRef, Damage, EtlFile, Records};
use etw_event::{Position, Record};

use crate::intact;

/// Number of buffers that a thread takes at a time.
const BATCH: usize = 16;
/// Files with a smaller total size are read by one thread.
const PARALLEL_FROM_BYTES: usize = 4 << 20;
/// Limit for the decompressed buffers of all threads together.
const MEMORY_BYTES: usize = 32 << 20;

/// An item of a file, as [`Trace::survey`](crate::Trace::survey) finds it.
#[derive(Debug, Clone, Copy)]
pub enum FileItem<'r> {
    /// A buffer, before its records.
    Buffer(&'r BufferRef<'r>),
    /// An intact record and its place: the number of its buffer, and its number in it.
    Record(&'r Record<'r>, (u32, u32)),
    /// Damage of the file, of a buffer, or among records.
    Damage(Damage),
}

/// Calls `visit` with every item of the files and the number of the file.
///
/// Uses as many threads as there are states and work for them; each thread uses one state. When a call breaks, all
/// threads stop.
pub(crate) fn for_each<S: Send>(
    files: &[EtlFile<'_>],
    states: &mut [S],
    visit: impl Fn(&mut S, u32, FileItem<'_>) -> ControlFlow<()> + Sync,
) {
    let buffers =
        files.iter().zip(0..).flat_map(|(file, source)| file.buffers().map(move |item| (file, source, item)));
    for_each_of(files, buffers, states, visit);
}

/// As [`for_each`], for some buffers of the files, each with its file and the number of the file.
pub(crate) fn for_each_of<'f, 'a: 'f, S: Send>(
    files: &[EtlFile<'_>],
    buffers: impl Iterator<Item = (&'f EtlFile<'a>, u32, Result<BufferRef<'a>, Damage>)> + Send,
    states: &mut [S],
    visit: impl Fn(&mut S, u32, FileItem<'_>) -> ControlFlow<()> + Sync,
) {
    let buffers = Mutex::new(buffers.fuse());
    let ended = AtomicBool::new(false);
    let work = |state: &mut S| {
        let mut scratch = Vec::new();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            batch.extend(buffers.lock().unwrap_or_else(PoisonError::into_inner).by_ref().take(BATCH));
            if batch.is_empty() {
                return;
            }
            for (file, source, item) in batch.drain(..) {
                let flow = match item {
                    Ok(buffer) => read(file, source, &buffer, &mut scratch, |met| visit(state, source, met)),
                    Err(damage) => visit(state, source, FileItem::Damage(damage)),
                };
                if flow.is_break() {
                    ended.store(true, Ordering::Relaxed);
                }
                if ended.load(Ordering::Relaxed) {
                    return;
                }
            }
        }
    };
    let count = threads(files).min(states.len());
    let Some((own, others)) = states.get_mut(..count).and_then(<[S]>::split_first_mut) else { return };
    thread::scope(|scope| {
        let work = &work;
        for state in others {
            // If the thread cannot be started, the others do its work.
            let _ = thread::Builder::new().name("read".into()).spawn_scoped(scope, move || work(state));
        }
        work(own);
    });
}

fn read(
    file: &EtlFile<'_>,
    source: u32,
    buffer: &BufferRef<'_>,
    scratch: &mut Vec<u8>,
    mut visit: impl FnMut(FileItem<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    visit(FileItem::Buffer(buffer))?;
    let data = buffer.data(scratch);
    if let Some(damage) = data.damage {
        visit(FileItem::Damage(damage))?;
    }
    let origin = buffer.origin(file.clock(), source);
    let mut cursor = Records::new(data.bytes, &origin, buffer.place()).cursor();
    let mut number = 0;
    let mut position = |at: usize| {
        number += 1;
        Position { at: at as u32, number }
    };
    let mut visit = |item: Result<&Record<'_>, Damage>| match item {
        Ok(record) => {
            let number = record.position().number;
            visit(FileItem::Record(record, (buffer.index, number)))
        }
        Err(damage) => visit(FileItem::Damage(damage)),
    };
    loop {
        intact::for_each(data.bytes, &mut cursor, |outline, at, bytes| {
            match outline.record(bytes, &origin) {
                Some(intact) => visit(Ok(&intact.at(position(at)))),
                None => ControlFlow::Continue(()),
            }
        })?;
        let mut rest = Records::resume(data.bytes, &origin, buffer.place(), cursor);
        match rest.next() {
            Some(Ok(unusual)) => visit(Ok(&unusual.at(position(rest.cursor().last))))?,
            Some(Err(damage)) => visit(Err(damage))?,
            None => return ControlFlow::Continue(()),
        }
        cursor = rest.cursor();
    }
}

/// Returns the number of threads that are worth starting.
pub(crate) fn threads(files: &[EtlFile<'_>]) -> usize {
    if files.iter().map(|file| file.bytes().len()).sum::<usize>() < PARALLEL_FROM_BYTES {
        return 1;
    }
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let buffer = files.iter().map(|file| file.header().buffer_size as usize).max().unwrap_or(0).max(1);
    processors.min(16).min((MEMORY_BYTES / buffer).max(1))
}
