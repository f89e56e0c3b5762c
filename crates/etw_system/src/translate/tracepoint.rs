//! The kernel's tracepoints as events that describe themselves.

use etw_capture::records::{Event, Tracepoint};
use etw_event::{EventDescriptor, ExtendedType, Guid, Level};
use etw_kernel_events::classes::{MAX_FRAMES, Payload, RecordBuffer, Stamp};
use etw_kernel_events::providers::{ManifestEvent, TRACEPOINT_PROVIDER};

use crate::tracepoints::TracepointLayouts;
use crate::wants::{Doer, Enabled};

/// The channel of events that describe themselves (`WINEVENT_CHANNEL_TRACELOGGING`).
const TRACELOGGING_CHANNEL: u8 = 11;

/// The descriptor of all events of tracepoints.
const DESCRIPTOR: EventDescriptor =
    EventDescriptor { channel: TRACELOGGING_CHANNEL, level: Level::INFORMATION, ..EventDescriptor::ZERO };

/// An event while it is written.
struct TracepointEvent<'a>(&'a [u8]);

impl ManifestEvent for TracepointEvent<'_> {
    fn provider(&self) -> Guid {
        TRACEPOINT_PROVIDER
    }

    fn descriptor(&self) -> EventDescriptor {
        DESCRIPTOR
    }

    fn put_payload(&self, to: &mut Payload<'_>) {
        to.put_bytes(self.0);
    }
}

/// Writes an event of a tracepoint for a session that has enabled these providers and has these layouts, and returns the
/// number of records. Events of the tracing itself are left out where they would cause more of them.
pub(crate) fn put_tracepoint(
    event: &Event<'_>,
    tracepoint: &Tracepoint<'_>,
    (enabled, layouts): (&[Enabled], &TracepointLayouts),
    tracing_processes: [Option<u32>; 2],
    stamp: &Stamp,
    records: &mut RecordBuffer,
) -> usize {
    let Some(layout) = layouts.get(tracepoint.id) else { return 0 };
    let process_id = event.process_id;
    let by = Some(Doer { process_id, program: None });
    let is_own = layout.is_of_thread && tracing_processes.contains(&Some(process_id));
    if is_own || !enabled.iter().any(|enabled| enabled.wants(TRACEPOINT_PROVIDER, &DESCRIPTOR, by)) {
        return 0;
    }
    let mut payload = Vec::new();
    layout.format.put_payload(tracepoint.record, &mut payload);
    let start = records.words().len();
    let is_put = records.put_manifest(stamp, &TracepointEvent(&payload))
        && records.add_bytes_item(start, ExtendedType::PROVIDER_TRAITS, &layout.traits)
        && records.add_bytes_item(start, ExtendedType::EVENT_SCHEMA_TL, &layout.metadata)
        && put_stack(tracepoint, start, records);
    if !is_put {
        records.truncate(start);
    }
    usize::from(is_put)
}

/// Adds the stack of an event, if it has one, to the last record, which starts at `word`. Returns `false` if the record
/// would be too long.
fn put_stack(tracepoint: &Tracepoint<'_>, word: usize, records: &mut RecordBuffer) -> bool {
    // The two halves of the stack are in one item.
    let data: Vec<u64> = [0].into_iter().chain(tracepoint.frames().take(MAX_FRAMES)).collect();
    let len = size_of_val(&data[..]) as u16;
    data.len() == 1 || records.add_item(word, ExtendedType::STACK_TRACE64, &data, len)
}
