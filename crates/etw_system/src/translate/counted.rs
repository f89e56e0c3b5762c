//! Where the records of an event go.

use etw_kernel::classes::{KernelEvent, RecordBuffer, Stamp};
use etw_kernel::providers::ManifestEvent;

use super::audience::Audience;

/// A buffer, and how many records were put.
pub(super) struct Counted<'r> {
    records: &'r mut RecordBuffer,
    pub(super) count: usize,
    /// For whom events are put as those of manifest providers.
    manifest: Option<Audience<'r>>,
}

impl<'r> Counted<'r> {
    pub(super) fn new(records: &'r mut RecordBuffer) -> Counted<'r> {
        Counted { records, count: 0, manifest: None }
    }

    /// Puts classic events as those manifest events that have the same fields.
    pub(super) fn of_manifest(records: &'r mut RecordBuffer, audience: Audience<'r>) -> Counted<'r> {
        Counted { records, count: 0, manifest: Some(audience) }
    }

    pub(super) fn put(&mut self, stamp: &Stamp, event: &impl KernelEvent) {
        let is_put = match &self.manifest {
            None => self.records.put(stamp, event),
            Some(audience) => audience.put_same(stamp, event, self.records),
        };
        self.count += usize::from(is_put);
    }

    /// Puts an event of a manifest provider that stands for no classic one, where events are put as such.
    pub(super) fn put_manifest(&mut self, stamp: &Stamp, event: &impl ManifestEvent) {
        let put = |audience: &Audience<'_>| audience.put(stamp, stamp.process_id, event, self.records);
        self.count += usize::from(self.manifest.as_ref().is_some_and(put));
    }
}
