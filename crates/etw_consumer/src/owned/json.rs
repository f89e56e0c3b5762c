//! Owned events as JSON, and as `Serialize`.

use etw_export::{JsonWriter, Options};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::OwnedEvent;

impl OwnedEvent {
    /// Returns the event as JSON.
    ///
    /// The text is that of `etw dump --format json`, but without the computer's name, which belongs to the trace. To
    /// write many events, pass each to one [`JsonWriter`] with [`OwnedEvent::with_event`]: the writer keeps what
    /// events of one schema share, and its options add the computer's name and select fields.
    pub fn to_json(&self) -> String {
        String::from_utf8_lossy(&self.json_bytes()).into_owned()
    }

    fn json_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.with_event(|event| JsonWriter::new(&Options::default()).put(&mut out, event));
        out
    }
}

/// Serializes the same structure as [`OwnedEvent::to_json`] to any format. It is made from that text; for JSON itself
/// `to_json` is faster.
impl Serialize for OwnedEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value: Value = serde_json::from_slice(&self.json_bytes()).map_err(serde::ser::Error::custom)?;
        Plain(&value).serialize(serializer)
    }
}

/// A JSON value with plain numbers in every format; `serde_json` may represent its own numbers as texts.
struct Plain<'a>(&'a Value);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => serializer.serialize_u64(number),
                (None, Some(number)) => serializer.serialize_i64(number),
                (None, None) => serializer.serialize_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => serializer.serialize_str(text),
            Value::Array(elements) => serializer.collect_seq(elements.iter().map(Plain)),
            Value::Object(members) => {
                serializer.collect_map(members.iter().map(|(name, value)| (name, Plain(value))))
            }
        }
    }
}
