//! The string tables of a manifest, and references to them.

use std::collections::HashMap;
use std::sync::Arc;

use super::document::Document;
use super::provider::{Problems, number};

/// The texts of a manifest.
pub(super) struct Strings<'a> {
    by_id: HashMap<&'a str, Arc<str>>,
    by_message: HashMap<u32, &'a str>,
    /// Bytes that nested references may still add; a short text may refer to a long string many times.
    budget: usize,
}

impl<'a> Strings<'a> {
    /// Reads all string tables: first those of `en-US`, then the others in order.
    pub(super) fn read(document: &'a Document, text_len: usize) -> Strings<'a> {
        let mut by_id: HashMap<&str, Arc<str>> = HashMap::new();
        let mut by_message = HashMap::new();
        let resources: Vec<_> =
            document.elements.iter().enumerate().filter(|(_, element)| element.name == "resources").collect();
        let english = |at: usize| {
            let culture = document.elements.get(at).and_then(|element| element.attribute("culture"));
            culture.is_some_and(|culture| culture.eq_ignore_ascii_case("en-US"))
        };
        let (first, rest): (Vec<_>, Vec<_>) = resources.into_iter().partition(|(at, _)| english(*at));
        for (at, _) in first.into_iter().chain(rest) {
            for (_, string) in document.listed(at, "stringTable") {
                if let (Some(id), Some(value)) = (string.attribute("id"), string.text("value")) {
                    by_id.entry(id).or_insert_with(|| value.into());
                }
            }
        }
        for (at, _) in document.elements.iter().enumerate().filter(|(_, e)| e.name == "messageTable") {
            for (_, message) in document.children(at) {
                let id = message.attribute("value").and_then(number::<u32>);
                if let (Some(id), Some(text)) = (id, message.text("message")) {
                    by_message.entry(id).or_insert(text);
                }
            }
        }
        Strings { by_id, by_message, budget: 65_536 + 4 * text_len }
    }

    /// Resolves an attribute's text: replaces `$(string.ID)` and `$(mc.N)`, and keeps the rest.
    pub(super) fn resolve(&mut self, at: usize, written: &str, problems: &mut Problems) -> Option<Arc<str>> {
        let written = self.message(written);
        if let Some(id) = written.trim().strip_prefix("$(string.").and_then(|rest| rest.strip_suffix(')'))
            && !id.contains('$')
        {
            let found = self.by_id.get(id).cloned();
            if found.is_none() {
                problems.unknown(at, "string", id);
            }
            return found;
        }
        let mut text = String::new();
        let mut rest = written;
        while let Some((before, reference)) = rest.split_once("$(string.") {
            let Some((id, after)) = reference.split_once(')') else { break };
            text.push_str(before);
            match self.by_id.get(id) {
                Some(value) => {
                    self.budget = self.budget.checked_sub(value.len())?;
                    text.push_str(value);
                }
                None => problems.unknown(at, "string", id),
            }
            rest = after;
        }
        text.push_str(rest);
        Some(text.into())
    }

    /// Resolves `$(mc.N)` in the message table. Returns other text unchanged.
    fn message<'t>(&self, written: &'t str) -> &'t str
    where
        'a: 't,
    {
        let id = written.trim().strip_prefix("$(mc.").and_then(|rest| rest.strip_suffix(')'));
        id.and_then(number::<u32>).and_then(|id| self.by_message.get(&id).copied()).unwrap_or(written)
    }
}
