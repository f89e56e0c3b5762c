//! Redaction of field values in the output file.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use etw_consumer::{Event, Predicate, ProviderSpecError};
use etw_event::Record;
use etw_schema::{Count, EventSchema, Length, Properties, PropertyValue, ProviderKey, ProviderSpec, Value};

use super::RelogError;

/// A field whose values are replaced: `Provider/Event.Field`.
///
/// `Provider` is a name or GUID (for the kernel's classic events the class: `Process`). `Event` is a name, an id (for
/// classic events the opcode), or `*` for all. `Field` is a property, or `Struct.Member`.
///
/// A value is replaced in place, so that the event keeps its size and the other fields keep their offsets. Texts
/// become as many `*`, SIDs become zeros with the same number of parts, socket addresses the zero address of their
/// family, and all other values zero. If an event may have the field but cannot be decoded up to it, its whole payload
/// is zeroed.
///
/// ```
/// use etw_relog::Redaction;
///
/// let redaction: Redaction = "Process/*.CommandLine".parse()?;
/// assert_eq!(redaction.to_string(), "Process/*.CommandLine");
/// # Ok::<(), etw_relog::RedactionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Redaction {
    text: String,
    provider: ProviderKey,
    is_of_provider: Predicate,
    event: EventPart,
    path: Vec<String>,
}

/// The events of a provider that a redaction applies to.
#[derive(Debug, Clone)]
enum EventPart {
    All,
    Number(u16),
    Name(Predicate),
}

/// Error of a text that is not a redaction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedactionError {
    /// A part is missing.
    #[error("'{0}' is not a field to redact; expected Provider/Event.Field, with * for every event")]
    Form(String),
    /// The provider is invalid.
    #[error(transparent)]
    Provider(#[from] ProviderSpecError),
}

impl FromStr for Redaction {
    type Err = RedactionError;

    fn from_str(text: &str) -> Result<Redaction, RedactionError> {
        let form = || RedactionError::Form(text.to_owned());
        let (provider, rest) = text.split_once('/').ok_or_else(form)?;
        let (event, path) = rest.split_once('.').ok_or_else(form)?;
        let path: Vec<String> = path.split('.').map(str::to_owned).collect();
        if provider.is_empty() || event.is_empty() || path.iter().any(String::is_empty) {
            return Err(form());
        }
        // A provider name may contain the separators of provider strings; a GUID may not.
        let key = match provider.parse::<ProviderSpec>() {
            Ok(spec) if matches!(spec.provider, ProviderKey::Guid(_)) => spec.provider,
            Err(error @ ProviderSpecError::Guid(_)) => return Err(error.into()),
            _ => ProviderKey::Name(provider.into()),
        };
        Ok(Redaction {
            text: text.to_owned(),
            is_of_provider: Predicate::provider(ProviderSpec::new(key.clone())),
            provider: key,
            event: match (event, event.parse()) {
                ("*", _) => EventPart::All,
                (_, Ok(number)) => EventPart::Number(number),
                (name, Err(_)) => EventPart::Name(Predicate::event_named(name)),
            },
            path,
        })
    }
}

impl fmt::Display for Redaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Redaction {
    /// Whether the redaction applies to an event; for an event that cannot be decoded, whether it may apply.
    fn concerns(&self, event: &Event<'_>) -> bool {
        let is_named = match (&self.provider, event.provider) {
            (ProviderKey::Name(name), Some(info)) => info.name.eq_ignore_ascii_case(name),
            _ => false,
        };
        if !is_named && !self.is_of_provider.matches(event) {
            return false;
        }
        let record = event.record;
        match &self.event {
            EventPart::All => true,
            EventPart::Number(number) if record.kind().is_classic() => {
                u16::from(record.descriptor().opcode.0) == *number
            }
            EventPart::Number(number) => record.descriptor().id == *number,
            EventPart::Name(name) => event.properties.is_err() || name.matches(event),
        }
    }
}

/// All redactions, with counts.
#[derive(Debug)]
pub(super) struct Redactions {
    redactions: Vec<Redaction>,
    /// Number of events with the field of each redaction.
    pub(super) counts: Vec<u64>,
    /// Number of events whose whole payload was zeroed.
    pub(super) blanked: u64,
    bytes: Vec<u8>,
}

impl Redactions {
    pub(super) fn new(redactions: &[Redaction]) -> Redactions {
        let counts = vec![0; redactions.len()];
        Redactions { redactions: redactions.to_vec(), counts, blanked: 0, bytes: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.redactions.is_empty()
    }

    /// Returns the redacted bytes of an event, or `None` if it stays unchanged.
    pub(super) fn apply(&mut self, event: &Event<'_>) -> Result<Option<&[u8]>, RelogError> {
        let record = event.record;
        let mut is_changed = false;
        for (redaction, count) in self.redactions.iter().zip(&mut self.counts) {
            if !redaction.concerns(event) {
                continue;
            }
            if !is_changed {
                self.bytes.clear();
                self.bytes.extend_from_slice(record.as_bytes());
            }
            let payload_at = record.as_bytes().len() - record.payload().len();
            let Some(payload) = self.bytes.get_mut(payload_at..) else { continue };
            match replace(redaction, event, payload)? {
                Found::Absent => continue,
                Found::Replaced => *count += 1,
                Found::Unknown => {
                    payload.fill(0);
                    self.blanked += 1;
                }
            }
            is_changed = true;
        }
        Ok(is_changed.then_some(&*self.bytes))
    }
}

/// The result for a field.
enum Found {
    /// The event does not have it.
    Absent,
    Replaced,
    /// Its position cannot be determined.
    Unknown,
}

/// Replaces the values of a redaction's field in a copy of the payload.
fn replace(redaction: &Redaction, event: &Event<'_>, payload: &mut [u8]) -> Result<Found, RelogError> {
    let Ok(properties) = &event.properties else { return Ok(Found::Unknown) };
    // The bytes that a schema skips come before the payload of the properties.
    let skipped = payload.len().saturating_sub(properties.payload().len());
    let payload = payload.get_mut(skipped..).unwrap_or_default();
    let Some((first, rest)) = redaction.path.split_first() else { return Ok(Found::Absent) };
    let mut found = Found::Absent;
    let mut refused = None;
    for property in properties.iter().filter(|property| property.name().eq_ignore_ascii_case(first)) {
        for_each_of(property, rest, &mut |property| {
            if let Some(other) = describes(properties.schema(), &property) {
                refused = Some(other.to_owned());
                return;
            }
            property.for_each_plain(&mut |bytes, value| wipe(payload, bytes, value));
            found = Found::Replaced;
        });
    }
    if let Some(other) = refused {
        return Err(RelogError::Redaction { redaction: redaction.text.clone(), other });
    }
    let is_known = |name: &str| properties.schema().properties.iter().any(|property| *property.name == *name);
    if matches!(found, Found::Absent) && is_cut(properties) && is_known(first) {
        return Ok(Found::Unknown);
    }
    Ok(found)
}

/// Whether the payload does not match the schema.
fn is_cut(properties: &Properties<'_>) -> bool {
    properties.error().is_some()
}

/// Calls `each` with the members at a path, in all elements of arrays along it.
fn for_each_of<'a>(property: PropertyValue<'a>, path: &[String], each: &mut dyn FnMut(PropertyValue<'a>)) {
    let Some((first, rest)) = path.split_first() else { return each(property) };
    let mut within = |value: Value<'a>| {
        if let Value::Struct(members) = value {
            let named = members.iter().filter(|member| member.name().eq_ignore_ascii_case(first));
            named.for_each(|member| for_each_of(member, rest, each));
        }
    };
    match property.value() {
        Value::Array(array) => array.iter().for_each(within),
        value => within(value),
    }
}

/// Returns the name of the property whose length or count is this property.
pub(super) fn describes<'s>(schema: &'s EventSchema, property: &PropertyValue<'_>) -> Option<&'s str> {
    let properties = &schema.properties;
    let index = properties.iter().position(|known| std::ptr::eq(known, property.property()))?;
    let described = properties.iter().find(|other| {
        let by_length = matches!(other.length, Length::Property(at) if usize::from(at) == index);
        by_length || matches!(other.count, Count::Property(at) if usize::from(at) == index)
    })?;
    Some(&described.name)
}

/// Overwrites a value in place with one that contains no information.
fn wipe(payload: &mut [u8], bytes: Range<usize>, value: Value<'_>) {
    let Some(bytes) = payload.get_mut(bytes) else { return };
    let kept = match value {
        // Keeps the revision and number of parts of SIDs, and the family of addresses.
        Value::Sid(_) | Value::SocketAddress(_) => 2,
        _ => 0,
    };
    let text_len = match value {
        Value::Utf16(text) | Value::Ansi(text) => text.len(),
        Value::Char16(_) | Value::Char8(_) => bytes.len(),
        _ => 0,
    };
    let is_wide = matches!(value, Value::Utf16(_) | Value::Char16(_));
    for (at, byte) in bytes.iter_mut().enumerate().skip(kept) {
        *byte = if at < text_len && !(is_wide && at % 2 == 1) { b'*' } else { 0 };
    }
}

/// Returns the record of changed bytes.
pub(super) fn record_of<'a>(bytes: &'a [u8], record: &Record<'a>) -> Option<Record<'a>> {
    Record::parse(bytes, record.origin(), record.raw_time()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_redactions() {
        let check = |text: &str, expected: Result<(&str, &str), &str>| {
            let parsed = text.parse::<Redaction>();
            let parsed = parsed.as_ref().map(|it| (it.provider.to_string(), it.path.join(" ")));
            let expected = expected.map(|(provider, path)| (provider.to_owned(), path.to_owned()));
            assert_eq!(parsed.map_err(|error| error.to_string()), expected.map_err(str::to_owned), "{text}");
        };
        check("Process/*.CommandLine", Ok(("Process", "CommandLine")));
        check("A-B:C/Start/Stop.Outer.Inner", Ok(("A-B:C", "Outer Inner")));
        let guid = "{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}";
        check(&format!("{guid}/1.ImageName"), Ok((guid, "ImageName")));
        let form = |text: &str| {
            format!(
                "'{text}' is not a field to redact; expected Provider/Event.Field, with * for every event"
            )
        };
        for text in ["", "Process", "Process/1", "Process/.x", "/1.x", "Process/1.", "Process/1.a..b"] {
            check(text, Err(&form(text)));
        }
    }
}
