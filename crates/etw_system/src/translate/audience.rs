//! The recipients of an event of the kernel's manifest providers.

use etw_kernel_events::classes::{KernelEvent, RecordBuffer, Stamp};
use etw_kernel_events::providers::{ManifestEvent, SameFields};

use super::processes::Processes;
use crate::wants::{Doer, Enabled};

/// The enabled providers of a session, and what is needed to filter their events.
#[derive(Clone, Copy)]
pub(super) struct Audience<'a> {
    pub(super) processes: &'a Processes,
    pub(super) enabled: &'a [Enabled],
    /// Whether the known programs of processes are those at the time of the event.
    pub(super) is_in_order: bool,
}

impl<'a> Audience<'a> {
    /// Creates an audience for events that are in the order of all processors.
    pub(super) fn new(processes: &'a Processes, enabled: &'a [Enabled]) -> Audience<'a> {
        Audience { processes, enabled, is_in_order: true }
    }

    /// Writes a process's event if it is wanted, and returns whether it is.
    pub(super) fn put(
        &self,
        stamp: &Stamp,
        process_id: u32,
        event: &impl ManifestEvent,
        records: &mut RecordBuffer,
    ) -> bool {
        let image = || self.processes.get(process_id).map_or(&b""[..], |known| &known.image);
        let program = self.is_in_order.then(image);
        let by = event.is_of_process().then_some(Doer { process_id, program });
        let (provider, descriptor) = (event.provider(), event.descriptor());
        let wants = |enabled: &&Enabled| enabled.wants(provider, &descriptor, by);
        let mut wanting = self.enabled.iter().filter(wants).peekable();
        let start = records.words().len();
        if wanting.peek().is_none() || !records.put_manifest(stamp, event) {
            return false;
        }
        let record = records.words().get(start..).unwrap_or_default();
        let is_wanted = wanting.any(|enabled| enabled.lets_payload_pass(&descriptor, record));
        if !is_wanted {
            records.truncate(start);
        }
        is_wanted
    }

    /// Writes the event that has the fields of a classic one if it is wanted, and returns whether it is.
    pub(super) fn put_same(
        &self,
        stamp: &Stamp,
        event: &impl KernelEvent,
        records: &mut RecordBuffer,
    ) -> bool {
        SameFields::from_event(event).is_some_and(|same| self.put(stamp, stamp.process_id, &same, records))
    }
}
