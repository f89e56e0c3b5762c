//! Reading a trace into comparable events: header fields, and the event as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;

use etw_consumer::{Schemas, Trace, TraceBuilder};
use etw_export::{JsonWriter, Options};
use etw_schema::FromValue;
use serde_json::Value;

/// One event of a trace.
pub(crate) struct Event {
    /// Time in UTC, 100 ns units.
    pub(crate) time: i64,
    /// Time from the trace's start in 100 ns units.
    pub(crate) since_start: i64,
    /// Processor.
    pub(crate) processor: u16,
    /// Process of the header.
    pub(crate) pid: Option<u32>,
    /// Thread of the header.
    pub(crate) tid: Option<u32>,
    /// The payload.
    pub(crate) payload: Vec<u8>,
    /// Whether the record is of a classic class.
    pub(crate) classic: bool,
    /// The numbers for which maps give names.
    pub(crate) mapped: BTreeMap<String, i128>,
    /// Provider, and id or opcode: the kind of event.
    pub(crate) kind: String,
    /// The event as `etw dump --format json` writes it.
    pub(crate) json: Value,
}

impl Event {
    /// The decoded fields, if the event was decoded.
    pub(crate) fn data(&self) -> Option<&serde_json::Map<String, Value>> {
        self.json.get("EventData").or(self.json.get("UserData"))?.as_object()
    }
}

/// Returns all events of files read together, decoded with embedded and built-in schemas and those of `schemas`.
pub(crate) fn read(files: &[PathBuf], schemas: &[PathBuf]) -> Vec<Event> {
    let mut sources = Schemas::new();
    for file in sources.add_files(schemas) {
        assert_eq!(file.problems, [""; 0], "{}", file.path.display());
    }
    let trace = files.iter().fold(Trace::builder(), TraceBuilder::file);
    let mut trace = trace.schemas(&sources).open().expect("the trace opens");
    let start = trace.headers()[0].start_time.0;
    let mut writer = JsonWriter::new(&Options::default());
    let (mut line, mut events) = (Vec::new(), Vec::new());
    trace
        .for_each_event(|event| {
            let record = event.record;
            line.clear();
            let mapped = event.properties.iter().flat_map(|properties| properties.iter());
            let mapped = mapped.filter(|property| property.map().is_some()).filter_map(|property| {
                let number = u64::from_value(property.value()).map(i128::from);
                let number = number.or_else(|| i64::from_value(property.value()).map(i128::from));
                Some((property.name().to_owned(), number?))
            });
            let mapped = mapped.collect();
            writer.put(&mut line, event);
            let json: Value = serde_json::from_slice(&line)
                .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&line)));
            let descriptor = record.descriptor();
            let classic = record.kind().is_classic();
            let number = if classic { u16::from(descriptor.opcode.0) } else { descriptor.id };
            let name = json["System"]["EventType"].as_str().filter(|_| descriptor.channel == 11);
            events.push(Event {
                time: record.time().0,
                since_start: record.time().0 - start,
                processor: record.processor(),
                pid: record.process_id(),
                tid: record.thread_id(),
                payload: record.payload().to_vec(),
                classic,
                mapped,
                kind: format!("{} {number} {}", record.provider_id(), name.unwrap_or_default()),
                json,
            });
        })
        .expect("the trace reads");
    events
}
