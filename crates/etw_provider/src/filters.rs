//! Filters of a session beside level and keywords.

use crate::payload::Payload;
use crate::write::Subject;

/// What a session does not want of a provider, or wants stacks of.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters {}

impl Filters {
    /// The properties that ask for extended items of this event; `None` if the session does not want it.
    pub(crate) fn look<P: Payload + ?Sized>(
        &self,
        _subject: &Subject<'_>,
        _schema: &[u64],
        properties: u32,
        _payload: &P,
        _len_bytes: usize,
    ) -> Option<u32> {
        Some(properties)
    }
}
