//! Message tables: a provider's localized texts by number.

use std::collections::HashMap;
use std::sync::Arc;

use etw_event::Fields;

/// The texts of message table resources (`RT_MESSAGETABLE`).
///
/// | bytes | what |
/// |---|---|
/// | u32 | number of blocks |
/// | 12 each | block: u32 lowest id, u32 highest id, u32 offset of its first entry |
/// | at the offset | for each id: u16 length with this header, u16 flags (1: UTF-16, else 8-bit), text |
///
/// Source: `MESSAGE_RESOURCE_DATA` in `winnt.h`.
#[derive(Debug, Default)]
pub(super) struct MessageTable<'a> {
    entries: HashMap<u32, &'a [u8]>,
    texts: HashMap<u32, Arc<str>>,
}

impl<'a> MessageTable<'a> {
    /// Adds the texts of a resource. Existing texts are kept.
    pub(super) fn add(&mut self, resource: &'a [u8]) {
        // Entries do not overlap, so together they are no longer than the table.
        let mut budget = resource.len();
        let Some(blocks) = resource.u32_at(0) else { return };
        for block in 0..blocks as usize {
            let at = 4 + 12 * block;
            let (Some(low), Some(high), Some(mut entry)) =
                (resource.u32_at(at), resource.u32_at(at + 4), resource.u32_at(at + 8).map(|at| at as usize))
            else {
                return;
            };
            for id in low..=high {
                let Some(len) = resource.u16_at(entry).map(usize::from) else { break };
                let Some(bytes) = entry.checked_add(len).and_then(|end| resource.get(entry..end)) else {
                    break;
                };
                let Some(left) = budget.checked_sub(len.max(4)) else { return };
                budget = left;
                if len < 4 {
                    break;
                }
                self.entries.entry(id).or_insert(bytes);
                entry += len;
            }
        }
    }

    /// Returns the text of a message, without the line break that the message compiler appends to every text.
    pub(super) fn text(&mut self, id: u32) -> Option<Arc<str>> {
        if let Some(text) = self.texts.get(&id) {
            return Some(text.clone());
        }
        let entry = self.entries.get(&id)?;
        let body = entry.get(4..)?;
        let text = if entry.u16_at(2)? & 1 == 1 {
            super::utf16(body)
        } else {
            body.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect()
        };
        let text: Arc<str> = text.trim_end_matches(['\r', '\n']).into();
        self.texts.insert(id, text.clone());
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_by_number() {
        let mut table = vec![1, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 16, 0, 0, 0];
        table.extend([8, 0, 0, 0, b'h', b'i', b'\r', b'\n']);
        table.extend([10, 0, 1, 0, b'%', 0, b'1', 0, 0, 0]);
        let mut messages = MessageTable::default();
        messages.add(&table);
        assert_eq!(messages.text(5).as_deref(), Some("hi"));
        assert_eq!(messages.text(6).as_deref(), Some("%1"));
        assert_eq!(messages.text(7), None);
        for cut in 0..table.len() {
            MessageTable::default().add(&table[..cut]);
        }
    }
}
