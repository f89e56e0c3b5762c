//! Decodes kept records again when they are shown.

use std::sync::Arc;

use openetw::schema::{Located, Resolver};
use openetw::{Event, FileTime, HeaderKind, Record};

use super::store::Known;

/// Decoder of kept records.
#[derive(Debug)]
pub(crate) struct Decoder {
    pub(crate) resolver: Resolver,
    pub(crate) located: Located,
    /// Start time of the session.
    pub(crate) start: FileTime,
    bytes: Vec<u8>,
}

impl Decoder {
    pub(crate) fn new(resolver: Resolver, start: FileTime) -> Decoder {
        Decoder { resolver, located: Located::new(), start, bytes: Vec::new() }
    }

    /// Calls `look` with the decoded event.
    ///
    /// If the header lacks process and thread ids, they are added for filters and details.
    pub(crate) fn event<R>(
        &mut self,
        record: &Record<'_>,
        known: &Known,
        look: impl FnOnce(&Event<'_>) -> R,
    ) -> Option<R> {
        let Decoder { resolver, located, start, bytes } = self;
        let origin = record.origin();
        let told = match record.kind() {
            HeaderKind::PerfInfo64 => {
                with_ids(bytes, record.as_bytes(), known);
                Record::parse(bytes, origin, record.raw_time()).ok()?
            }
            _ => *record,
        };
        let process: Option<&str> = known.process.as_ref().map(Arc::as_ref);
        Some(look(&Event { process, start: *start, ..resolver.decode(&told, located) }))
    }
}

/// Rewrites a record with `PERFINFO_TRACE_HEADER` as one with a `COMPACT` header, which adds process and thread ids.
fn with_ids(to: &mut Vec<u8>, record: &[u8], known: &Known) {
    const OF_IDS: usize = 8;
    to.clear();
    let (first, rest) = record.split_at(record.len().min(8));
    to.extend_from_slice(first);
    to.extend_from_slice(&known.thread_id.unwrap_or(u32::MAX).to_le_bytes());
    to.extend_from_slice(&known.process_id.unwrap_or(u32::MAX).to_le_bytes());
    to.extend_from_slice(rest);
    if let Some(head) = to.first_chunk_mut::<8>() {
        head[2] = HeaderKind::Compact64 as u8;
        let size = u16::from_le_bytes([head[4], head[5]]).saturating_add(OF_IDS as u16);
        [head[4], head[5]] = size.to_le_bytes();
    }
}
