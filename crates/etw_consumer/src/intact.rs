//! Records one behind the other, at the speed of memory, as long as nothing is unusual about them.

use std::ops::ControlFlow;

use etw_etl::RecordCursor;
use etw_event::{HeaderKind, Outline};
use etw_sys::prefetch;

/// How far ahead of the record bytes are asked for. The processor's own prediction stops at the end of a page and loses
/// a stream whenever another takes its turn (example `levels`).
const PREFETCH_BYTES: usize = 4096;
/// How many lines of a record are asked for: the headers, and most payloads.
const PREFETCH_LINES: usize = 4;
/// Bytes of a line of the caches.
const LINE_BYTES: usize = 64;

/// Calls `each` with the outlines of records, their offsets, and the bytes from there on, until it breaks or something
/// stands there that wants a closer look: damage, a rare kind of record, or the end. The cursor is then behind the last
/// record that `each` was called with.
#[inline(always)]
pub(crate) fn for_each(
    data: &[u8],
    cursor: &mut RecordCursor,
    mut each: impl FnMut(Outline, usize, &[u8]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    // What the next record waits for is where this one ends, so that stays in registers.
    let RecordCursor { mut at, mut last, mut previous, .. } = *cursor;
    let mut flow = ControlFlow::Continue(());
    while let Some(rest) = data.get(at..)
        && let Ok(outline) = Outline::parse(rest, previous)
        && outline.is_intact()
        // What few bits mark as a record is looked at more closely, as damage.
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

/// Kinds whose headers have little that bytes of other meaning would not have; `Records` tells them apart.
#[inline]
fn is_rare(kind: HeaderKind) -> bool {
    matches!(kind, HeaderKind::Wnode | HeaderKind::Timed | HeaderKind::Message)
}
