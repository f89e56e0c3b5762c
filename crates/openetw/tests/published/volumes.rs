//! NT paths as DOS paths, by the volume mapping in a merged trace.

use serde_json::Value;

use super::events::Event;

/// Prefixes of NT paths and their DOS counterparts.
pub(crate) struct Volumes(Vec<(String, String)>);

impl Volumes {
    /// Returns the mapping in the trace.
    pub(crate) fn from_events(events: &[Event]) -> Volumes {
        let mut prefixes = vec![
            (r"\Device\Mup\".to_owned(), r"\\".to_owned()),
            (r"\Windows\".to_owned(), r"C:\Windows\".to_owned()),
        ];
        for event in
            events.iter().filter(|event| event.json["System"]["EventType"] == "SysConfigEx/VolumeMapping")
        {
            let field = |name: &str| event.data()?.get(name)?.as_str().map(str::to_owned);
            if let (Some(nt), Some(dos)) = (field("NtPath"), field("DosPath")) {
                prefixes.push((nt, dos));
            }
        }
        Volumes(prefixes)
    }

    /// Returns whether one of our paths becomes the (cut) path of the other reader.
    pub(crate) fn equal(&self, ours: &Value, theirs: &str) -> bool {
        let Some(path) = ours.as_str() else { return false };
        let mapped =
            self.0.iter().filter_map(|(nt, dos)| Some(format!("{dos}{}", path.strip_prefix(nt.as_str())?)));
        mapped
            .map(Value::from)
            .any(|path| super::compare::with_baseline(&path, theirs) == super::compare::Outcome::Equal)
    }
}
