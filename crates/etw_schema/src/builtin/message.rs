//! Messages in the notation of the built-in schemas.

use std::sync::Arc;

use etw_event::EventDescriptor;

use crate::EventSchema;

/// The line of a message: `ID[.VERSION] TEXT`.
#[derive(Debug, Clone, Copy)]
pub(super) struct MessageLine<'a> {
    id: u16,
    /// `None` for the versions without a line of their own.
    version: Option<u8>,
    text: &'a str,
}

impl<'a> MessageLine<'a> {
    /// Parses a line. Returns `None` if it does not start with an event.
    pub(super) fn parse(line: &'a str) -> Option<MessageLine<'a>> {
        let (key, text) = line.split_once(' ')?;
        let (id, version) = match key.split_once('.') {
            Some((id, version)) => (id, Some(version.parse().ok()?)),
            None => (key, None),
        };
        Some(MessageLine { id: id.parse().ok()?, version, text: text.trim() })
    }

    /// Returns the line of an event.
    pub(super) fn find(lines: &[MessageLine<'a>], event: &EventDescriptor) -> Option<MessageLine<'a>> {
        let of = |wanted| lines.iter().find(|line| (line.id, line.version) == (event.id, wanted));
        of(Some(event.version)).or_else(|| of(None)).copied()
    }

    /// Returns the text with numbers for the names of fields: `{ProcessID} started` becomes `%1 started`.
    ///
    /// # Errors
    ///
    /// Fails with the reason if an insert names no top-level field of the event, is not closed, or precedes a character
    /// that would be read as part of its number or format.
    pub(super) fn numbered(&self, event: &EventSchema) -> Result<Arc<str>, &'static str> {
        let fields = event.properties.iter().take(usize::from(event.top_level));
        let mut out = String::new();
        let mut pieces = self.text.split('{');
        out.push_str(&pieces.next().unwrap_or_default().replace('%', "%%"));
        for piece in pieces {
            let (name, rest) = piece.split_once('}').ok_or("unterminated insert")?;
            let field = fields.clone().position(|field| &*field.name == name);
            let field = field.ok_or("no such field in the event")?;
            if rest.starts_with(|next: char| next.is_ascii_digit() || next == '!') {
                return Err("a digit after an insert");
            }
            out.push_str(&format!("%{}{}", field + 1, rest.replace('%', "%%")));
        }
        Ok(out.into())
    }
}

#[cfg(test)]
mod tests {
    use crate::builtin::table::blocks;

    /// A provider with two versions of an event; the second lacks the first one's first field.
    const HEAD: &str = "provider P 00000000-0000-0000-0000-000000000001
7.0 E | task 0 | A u32; B u32
7.1 E | task 0 | B u32
";

    /// Returns the messages of the two versions, or the error's text.
    fn messages(lines: &str) -> Result<Vec<Option<String>>, String> {
        let text: &'static str = Box::leak(format!("{HEAD}{lines}").into_boxed_str());
        let provider = blocks(text).remove(0).parse().map_err(|error| error.to_string())?;
        let messages = provider.events.iter().map(|event| event.message.as_deref().map(str::to_owned));
        Ok(messages.collect())
    }

    #[test]
    fn inserts_have_the_numbers_of_the_events_fields() {
        let check = |lines: &str, expected: [Option<&str>; 2]| {
            assert_eq!(messages(lines).unwrap(), expected.map(|text| text.map(str::to_owned)), "{lines}");
        };
        check("", [None, None]);
        check("message 7 100% of {B}", [Some("100%% of %2"), Some("100%% of %1")]);
        check("message 7.1 {B}{B}", [None, Some("%1%1")]);
        check("message 7 no field\nmessage 7.0 {A}, {B}", [Some("%1, %2"), Some("no field")]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let check = |line: &str, expected: &str| {
            assert_eq!(messages(line).unwrap_err().split(" in \"").next(), Some(expected), "{line}");
        };
        check("message 7 {A}", "no such field in the event");
        check("message 7 {B", "unterminated insert");
        check("message 7 {B}0", "a digit after an insert");
        check("message seven {B}", "no event");
    }
}
