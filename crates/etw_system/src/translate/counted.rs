//! The destination of an event's records.

use etw_kernel_events::classes::{KernelEvent, RecordBuffer, Stamp};
use etw_kernel_events::providers::ManifestEvent;

use super::audience::Audience;
use super::processes::Processes;

/// A buffer, and the number of records written to it.
pub(super) struct Counted<'r> {
    records: &'r mut RecordBuffer,
    pub(super) count: usize,
    /// The audience, if events are written as those of manifest providers.
    manifest: Option<Audience<'r>>,
}

impl<'r> Counted<'r> {
    pub(super) fn new(records: &'r mut RecordBuffer) -> Counted<'r> {
        Counted { records, count: 0, manifest: None }
    }

    /// Writes classic events as the manifest events with the same fields.
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

    /// Writes the control group of a process, which only the classic form has.
    pub(super) fn put_group(&mut self, process_id: u32, stamp: &Stamp, processes: &Processes) {
        if self.manifest.is_none() {
            self.count += processes.put_group(process_id, stamp.time, self.records);
        }
    }

    /// Writes an event that says more in its classic form than in that of a manifest provider.
    pub(super) fn put_either(&mut self, stamp: &Stamp, classic: &impl KernelEvent, same: &impl KernelEvent) {
        match &self.manifest {
            None => self.put(stamp, classic),
            Some(_) => self.put(stamp, same),
        }
    }

    /// Writes a manifest event without a classic counterpart; does nothing in the classic form.
    pub(super) fn put_manifest(&mut self, stamp: &Stamp, event: &impl ManifestEvent) {
        let put = |audience: &Audience<'_>| audience.put(stamp, stamp.process_id, event, self.records);
        self.count += usize::from(self.manifest.as_ref().is_some_and(put));
    }
}
