//! Kinds of events: what makes one, what it is called, and the columns of a table with its events.
//!
//! ```
//! use etw_schema::Event;
//! use etw_schema::kinds::{KindKey, KindName};
//!
//! /// Whether an event is of the kind with a name: `Microsoft-Windows-Kernel-Process/ProcessStart`.
//! fn is_called(event: &Event<'_>, name: &str) -> bool {
//!     let (key, known) = (KindKey::new(event), KindName::new(event));
//!     assert!(key.has(event) && known.is(&known.to_string()));
//!     known.is(name)
//! }
//! ```

mod columns;
mod names;

use etw_event::{Guid, Record};

use crate::Event;

pub use crate::names::without_version;
pub use columns::{ColumnUnit, FieldType, KindColumn, KindColumns, MAX_COLUMNS, column_names};
pub use names::{KindName, make_unique};

/// What makes a kind of events, of any version: the provider, and the id, the type of a classic event, or the name of a
/// self-describing one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KindKey {
    /// GUID of the provider, or of the class of a classic event.
    pub provider: Guid,
    /// Whether the event is a classic one.
    pub is_classic: bool,
    /// Id of the event, or the type of a classic one.
    pub id: u16,
    /// Name of a self-describing event, whose id is 0.
    pub name: Option<String>,
}

impl KindKey {
    /// Returns the kind of an event.
    pub fn new(event: &Event<'_>) -> KindKey {
        let (is_classic, id) = classic_and_id(event.record);
        let name = (id == 0 && !is_classic).then(|| event.names().event().into_owned());
        KindKey { provider: event.record.provider_id(), is_classic, id, name }
    }

    /// Whether an event is of the kind.
    pub fn has(&self, event: &Event<'_>) -> bool {
        self.provider == event.record.provider_id() && *self == KindKey::new(event)
    }

    /// Whether an event may be of the kind, by its header; a cheap check before [`KindKey::has`].
    pub fn may_have(&self, record: &Record<'_>) -> bool {
        (self.is_classic, self.id) == classic_and_id(record) && self.provider == record.provider_id()
    }

    /// Whether [`KindKey::may_have`] suffices: no other kind of events has such headers.
    pub fn is_told_by_header(&self) -> bool {
        self.name.is_none()
    }
}

/// Returns whether an event is a classic one, and its id or type.
#[inline]
fn classic_and_id(record: &Record<'_>) -> (bool, u16) {
    let descriptor = record.descriptor();
    match record.kind().is_classic() {
        true => (true, descriptor.opcode.0.into()),
        false => (false, descriptor.id),
    }
}
