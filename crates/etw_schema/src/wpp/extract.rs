//! The annotations of a PDB file as TMF texts, one for each message GUID.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use etw_event::Guid;

use super::{PdbError, is_format, pdb};

/// The message formats of one message GUID in a PDB file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TmfText {
    /// The message GUID.
    pub guid: Guid,
    /// The line that names it: `GUID NAME // SRC=FILE MJ= MN=`.
    pub head: String,
    /// The messages in the order of the file: each a `#typev` line and its arguments in braces.
    pub messages: Vec<String>,
}

/// Returns the message formats in the annotations of a PDB file, one text for each message GUID, in the order of the
/// file.
///
/// An annotation that several objects have, since a header was compiled into them, is returned once. Annotations that
/// do not start with a GUID are skipped.
///
/// # Errors
///
/// Fails if the bytes are not a valid PDB.
pub fn tmf_texts(bytes: &[u8]) -> Result<Vec<TmfText>, PdbError> {
    let mut texts: Vec<TmfText> = Vec::new();
    let mut by_guid: HashMap<Guid, usize> = HashMap::new();
    let mut known = HashSet::new();
    pdb::for_each_annotation(bytes, |strings| {
        let [kind, head, message @ ..] = strings else { return };
        let guid = head.split_whitespace().next().and_then(|guid| guid.parse::<Guid>().ok());
        let Some(guid) = guid.filter(|_| is_format(kind)) else { return };
        let index = *by_guid.entry(guid).or_insert_with(|| {
            texts.push(TmfText { guid, head: head.to_string(), messages: Vec::new() });
            texts.len() - 1
        });
        let mut text = String::new();
        for line in message {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{line}");
        }
        if !text.is_empty()
            && known.insert((guid, text.clone()))
            && let Some(of_guid) = texts.get_mut(index)
        {
            of_guid.messages.push(text);
        }
    })?;
    Ok(texts)
}
