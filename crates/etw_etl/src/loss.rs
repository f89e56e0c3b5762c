//! Records that report losses.

use etw_event::{Fields, HeaderKind, Record, classes};
use etw_kernel_events::ids::{self, Class, EventId};

/// The loss reported by a record of class Lost_Event, which occurred before it.
///
/// Source: the MOF class `RT_LostEvent`; a real-time consumer receives such records, and a file recorded by one may
/// contain them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// One or more events (opcode 32).
    Events,
    /// One or more buffers (opcode 33).
    Buffers,
    /// The backup file of a real-time session (opcode 34).
    File,
}

/// Returns the loss that a record reports; `None` for every other record.
#[inline]
pub fn loss_of(record: &Record<'_>) -> Option<Loss> {
    if !matches!(record.kind(), HeaderKind::Full32 | HeaderKind::Full64) {
        return None;
    }
    if record.provider_id() != classes::LOST_EVENT {
        return None;
    }
    match EventId::new(Class::LostEvent, record.descriptor().opcode.0) {
        ids::LostEvent::RT_LOST_EVENT => Some(Loss::Events),
        ids::LostEvent::RT_LOST_BUFFER => Some(Loss::Buffers),
        ids::LostEvent::RT_LOST_FILE => Some(Loss::File),
        _ => None,
    }
}

/// Returns the number lost according to a record that [`loss_of`] recognises: the `u64` of its payload, or 1 without a
/// payload.
///
/// On Windows these records have no payload; sessions of this project write the number
/// ([`encode::RecordBuilder::lost_events`](crate::encode::RecordBuilder::lost_events)).
pub fn lost_count(record: &Record<'_>) -> u64 {
    record.payload().u64_at(0).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::RecordBuilder;
    use etw_event::{EventDescriptor, Opcode, Origin, PointerSize, Ticks};

    #[test]
    fn losses_and_their_numbers() {
        let check = |builder: RecordBuilder, expected: Option<(Loss, u64)>| {
            let (bytes, origin) = (builder.build().unwrap(), Origin::default());
            let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
            assert_eq!(loss_of(&record).map(|loss| (loss, lost_count(&record))), expected);
        };
        let class = |opcode| EventDescriptor { opcode: Opcode(opcode), ..EventDescriptor::default() };
        let plain = |opcode| RecordBuilder::full(PointerSize::Four, classes::LOST_EVENT, &class(opcode));
        check(RecordBuilder::lost_events(70_000_000_000), Some((Loss::Events, 70_000_000_000)));
        check(plain(32), Some((Loss::Events, 1)));
        check(plain(33), Some((Loss::Buffers, 1)));
        check(plain(34), Some((Loss::File, 1)));
        check(plain(35), None);
        check(RecordBuilder::full(PointerSize::Eight, classes::PROCESS, &class(32)), None);
    }
}
