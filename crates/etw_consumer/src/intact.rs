//! A fast path over intact records of the usual kinds.

use std::ops::ControlFlow;

use etw_etl::RecordCursor;
use etw_event::{HeaderKind, Outline};
use etw_sys::prefetch;

/// Prefetch distance in bytes. The hardware prefetcher stops at the end of a page and loses a stream whenever another
/// one is read in between (example `levels`).
const PREFETCH_BYTES: usize = 4096;
/// Cache lines to prefetch for a record: the headers, and most payloads.
const PREFETCH_LINES: usize = 4;
/// Size of a cache line in bytes.
const LINE_BYTES: usize = 64;

/// Calls `each` with the outlines of records, their offsets, and the bytes from there on.
///
/// Stops when `each` breaks, and before anything that needs a closer check: damage, a rare kind of record, or the end.
/// The cursor is then after the last record passed to `each`.
#[inline(always)]
pub fn for_each(
    data: &[u8],
    cursor: &mut RecordCursor,
    mut each: impl FnMut(Outline, usize, &[u8]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    // The next record depends on the end of this one, so the position stays in registers.
    let RecordCursor { mut at, mut last, mut previous, .. } = *cursor;
    let mut flow = ControlFlow::Continue(());
    while let Some(rest) = data.get(at..)
        && let Ok(outline) = Outline::parse(rest, previous)
        && outline.is_intact()
        // Kinds that only a few bits mark need a closer check, like damage.
        && !is_rare(outline.kind())
    {
        for line in (0..outline.stride_bytes()).step_by(LINE_BYTES).take(PREFETCH_LINES) {
            prefetch(rest, PREFETCH_BYTES + line);
        }
        (last, previous) = (at, outline.raw_time());
        at += outline.stride_bytes();
        flow = each(outline, last, rest);
        if flow.is_break() {
            break;
        }
    }
    (cursor.at, cursor.last, cursor.previous) = (at, last, previous);
    flow
}

/// Kinds whose headers other bytes could resemble; `Records` distinguishes them.
#[inline]
fn is_rare(kind: HeaderKind) -> bool {
    matches!(kind, HeaderKind::Wnode | HeaderKind::Timed | HeaderKind::Message)
}
