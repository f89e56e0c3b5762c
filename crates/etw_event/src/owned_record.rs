//! A record that owns its bytes.

use crate::{Origin, Outline, Position, Record};

/// A record that owns its bytes, to be kept after its buffer is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedRecord {
    bytes: Box<[u8]>,
    outline: Outline,
    origin: Origin,
    position: Position,
}

impl OwnedRecord {
    /// The record as a view. It is not parsed again.
    #[inline]
    pub fn record(&self) -> Record<'_> {
        Record::new(&self.bytes, &self.origin, self.outline).at(self.position)
    }
}

impl From<&Record<'_>> for OwnedRecord {
    #[inline]
    fn from(record: &Record<'_>) -> OwnedRecord {
        OwnedRecord {
            bytes: record.as_bytes().into(),
            outline: record.outline(),
            origin: *record.origin(),
            position: record.position(),
        }
    }
}
