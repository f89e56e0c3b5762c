//! Records of a stream that are dropped for their times.

use etw_etl::{Damage, DamageKind, Place};

/// A sequence of records of one stream that are outside of the time limits.
///
/// Records after the limits are expected at the end of a stream, and records before them at its start. Elsewhere their
/// times are out of order, which is known only when a later record is read. A stream may also start with one record of
/// a wrong time, since time steps back there; this is not detected.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    /// Place of the first record, and its offset in its buffer's events.
    first: (Place, usize),
    records: u32,
    /// Number of records up to the last one that is out of order for certain.
    out_of_order: u32,
    /// Whether the sequence includes all records of the open buffer.
    whole_buffer: bool,
    /// Number of records in the open buffer.
    in_buffer: u32,
}

/// The side of the time limits on which a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

impl Dropped {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Adds a record at offset `at` of its buffer's events.
    #[cold]
    pub(super) fn add(&mut self, place: Place, at: usize, side: Side) {
        if self.is_empty() {
            self.first = (place, at);
            self.whole_buffer = at == 0;
        }
        self.records = self.records.saturating_add(1);
        self.in_buffer = self.in_buffer.saturating_add(1);
        // The stream has reached the limits already.
        if side == Side::Before {
            self.out_of_order = self.records;
        }
    }

    /// Starts another buffer.
    pub(super) fn open_buffer(&mut self) {
        self.whole_buffer = !self.is_empty();
        self.in_buffer = 0;
    }

    /// Whether a whole buffer is after the limits. One time stamp is not enough to end a stream: it may be damaged.
    pub(super) fn is_past_end(&self) -> bool {
        self.whole_buffer && self.in_buffer > 0 && self.out_of_order == 0
    }

    /// Ends the sequence before a record inside of the limits; all of it is out of order.
    #[cold]
    pub(super) fn before_record(&mut self) -> Option<Damage> {
        self.out_of_order = self.records;
        self.at_end()
    }

    /// Ends the sequence at the end of the stream.
    pub(super) fn at_end(&mut self) -> Option<Damage> {
        let Dropped { first: (place, at), out_of_order: records, .. } = std::mem::take(self);
        (records > 0).then(|| place.damage(at, DamageKind::TimeOrder { records }))
    }
}
