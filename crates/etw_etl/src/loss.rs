//! Records that tell of losses.

use etw_event::{HeaderKind, Record, classes};

/// What a record of class Lost_Event tells: that something was lost before it.
///
/// Source: the MOF class `RT_LostEvent`; a real-time consumer receives such records, and a file recorded from one
/// may hold them.
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

/// The loss that a record tells of; `None` for every other record.
#[inline]
pub fn loss_of(record: &Record<'_>) -> Option<Loss> {
    if !matches!(record.kind(), HeaderKind::Full32 | HeaderKind::Full64) {
        return None;
    }
    if record.provider_id() != classes::LOST_EVENT {
        return None;
    }
    match record.descriptor().opcode.0 {
        32 => Some(Loss::Events),
        33 => Some(Loss::Buffers),
        34 => Some(Loss::File),
        _ => None,
    }
}
