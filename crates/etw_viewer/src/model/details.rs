//! One event with everything that is known of it, read from the trace again.

use anyhow::{Context, Result};
use etw_app::input;
use openetw::export::{JsonWriter, Options};
use openetw::tables::Value;
use openetw::{FileTime, TimePoint, classes};
use serde_json::{Value as Json, json};

use super::Model;

/// Maximum number of bytes of a record that are shown.
const MAX_BYTES: usize = 64 << 10;

impl Model {
    /// Returns the event of a row of the table of events: its names, fields, bytes and stack.
    ///
    /// # Errors
    ///
    /// Fails if there is no such event, or if the trace cannot be read any more.
    pub(crate) fn event(&self, row: u64) -> Result<Json> {
        self.opened.check()?;
        let table = self.index().table("events").context("no table of events")?;
        let column = |name: &str| table.schema().column(name).context("events have this column");
        let time_column = column("time")?;
        let Value::Time(time) = table.value(row, time_column)? else {
            anyhow::bail!("the event has no time")
        };
        // Events of one time are in the order of their rows.
        let mut before = 0_usize;
        while let Some(earlier) = row.checked_sub(before as u64 + 1) {
            if table.value(earlier, time_column)? != Value::Time(time) {
                break;
            }
            before += 1;
        }
        let end = FileTime(time.0.saturating_add(1));
        let builder = input::builder(&self.files)?.skip_unreadable(true).overview(self.tables.overview());
        let mut trace = builder.from(TimePoint::At(time)).to(TimePoint::At(end)).open()?;
        let mut writer = JsonWriter::new(&Options::default());
        let mut found = None;
        let mut place = 0;
        trace.for_each_event(|event| {
            let record = event.record;
            // Stacks are no rows.
            if record.provider_id() == classes::STACK_WALK || record.time() != time {
                return;
            }
            if place == before {
                let mut text = Vec::new();
                writer.put(&mut text, event);
                let bytes = record.as_bytes();
                let payload = bytes.len().saturating_sub(record.payload().len());
                let shown = &bytes[..bytes.len().min(MAX_BYTES)];
                let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
                found = Some((text, hex, payload, bytes.len()));
            }
            place += 1;
        })?;
        let (text, hex, payload, size) = found.context("the event is not in the trace any more")?;
        let event: Json = serde_json::from_slice(&text)?;
        let mut frames = Vec::new();
        if let Value::Code(stack) = table.value(row, column("stack")?)? {
            let names = self.index().table("frames").context("no table of frames")?;
            let function = names.schema().column("function").context("frames have functions")?;
            let address = names.schema().column("address").context("frames have addresses")?;
            let texts = self.index().texts()?;
            for frame in self.index().stacks()?.frames(stack) {
                let name = match names.value(frame, function)? {
                    Value::Code(code) => texts.get(code).map(str::to_owned),
                    _ => None,
                };
                let at = match names.value(frame, address)? {
                    Value::Integer(address) => format!("{address:#x}"),
                    _ => String::new(),
                };
                frames.push(json!({ "function": name, "address": at }));
            }
        }
        Ok(json!({ "event": event, "hex": hex, "payload": payload, "size": size, "stack": frames }))
    }
}
