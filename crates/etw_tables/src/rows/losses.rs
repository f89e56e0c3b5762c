//! What traces lack: lost events and buffers, damage, and times without a session.

use etw_consumer::Statistics;

use super::columns::{Count, LongHex, Text, Time};
use super::table::{RowWriter, table};

table! {
    /// One row for each kind of loss of a file or session, and for each damaged place.
    LossRow: "lost_events", "Lost Events";
    /// File or session.
    source: Option<Text>,
    /// `Lost events`, `Lost buffers`, `Not closed`, `Damage`, `Gap`, or `Schema records` and `Process records`: events
    /// about schemas and processes that were too many to be kept, so that others are undecoded or unnamed.
    r#type: Text,
    /// Number of events or buffers; 1 for others.
    count: Count,
    /// Place of damage in the file.
    offset: Option<LongHex>,
    /// What is wrong there.
    description: Option<Text>,
    /// Start of a time without a session.
    start: Option<Time>,
    /// End of that time.
    end: Option<Time>,
}

/// The type of the row with the number of records about processes that were dropped.
pub(super) const PROCESS_RECORDS: &str = "Process records";

/// Adds the rows.
pub(super) fn write(statistics: &Statistics, writer: &mut RowWriter) {
    let name = |source: u32| statistics.sources.get(source as usize).map_or("", |source| &source.name);
    let loss = |source, kind, count| LossRow {
        source,
        r#type: kind,
        count,
        offset: None,
        description: None,
        start: None,
        end: None,
    };
    for source in &statistics.sources {
        let counts = [
            ("Lost events", u64::from(source.events_lost)),
            ("Lost buffers", u64::from(source.buffers_lost)),
            ("Not closed", u64::from(source.unclosed)),
        ];
        for (kind, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            writer.add(loss(Some(&*source.name), kind, count));
        }
    }
    let unkept = [
        ("Schema records", statistics.unkept_schema_records),
        (PROCESS_RECORDS, statistics.unkept_process_records),
    ];
    for (kind, count) in unkept.into_iter().filter(|(_, count)| *count > 0) {
        writer.add(loss(None, kind, count));
    }
    for (source, damage) in &statistics.damage {
        let description = damage.kind.to_string();
        let damaged = loss(Some(name(*source)), "Damage", 1);
        writer.add(LossRow { offset: Some(damage.offset), description: Some(&description), ..damaged });
    }
    for gap in &statistics.gaps {
        let gapped = loss(Some(name(gap.source)), "Gap", 1);
        writer.add(LossRow { start: Some(gap.from), end: Some(gap.to), ..gapped });
    }
}
