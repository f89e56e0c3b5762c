//! What traces lack: lost events and buffers, damage, and times without a session.

use etw_columns::{Column, ColumnType, ColumnsError, IndexWriter, TableId, TableSchema, Unit};
use etw_consumer::Statistics;

use super::columns::{count, text};

pub(super) static LOSSES: TableSchema = TableSchema::new(
    "lost_events",
    "Lost Events",
    "One row for each kind of loss of a file or session, and for each damaged place.",
    columns![
        text("source", "File or session."),
        text(
            "type",
            "`Lost events`, `Lost buffers`, `Not closed`, `Damage`, `Gap`, or `Schema records` and `Process records`: events \
             about schemas and processes that were too many to be kept, so that others are undecoded or unnamed.",
        ),
        count("count", "Number of events or buffers; 1 for others."),
        Column::new("offset", ColumnType::U64, "Place of damage in the file.").unit(Unit::Hex),
        text("description", "What is wrong there."),
        Column::new("start", ColumnType::Time, "Start of a time without a session."),
        Column::new("end", ColumnType::Time, "End of that time."),
    ],
);

/// The type of the row with the number of records about processes that were dropped.
pub(super) const PROCESS_RECORDS: &str = "Process records";

/// Writes the rows.
pub(super) fn write(
    statistics: &Statistics,
    table: TableId,
    writer: &mut IndexWriter,
) -> Result<(), ColumnsError> {
    let name = |source: u32| statistics.sources.get(source as usize).map_or("", |source| &source.name);
    for source in &statistics.sources {
        let counts = [
            ("Lost events", u64::from(source.events_lost)),
            ("Lost buffers", u64::from(source.buffers_lost)),
            ("Not closed", u64::from(source.unclosed)),
        ];
        for (kind, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            writer.row(table)?.text(0, &source.name).text(1, kind).u64(2, count).end()?;
        }
    }
    let unkept = [
        ("Schema records", statistics.unkept_schema_records),
        (PROCESS_RECORDS, statistics.unkept_process_records),
    ];
    for (kind, count) in unkept.into_iter().filter(|(_, count)| *count > 0) {
        writer.row(table)?.text(1, kind).u64(2, count).end()?;
    }
    for (source, damage) in &statistics.damage {
        let mut row = writer.row(table)?;
        row.text(0, name(*source)).text(1, "Damage").u64(2, 1).u64(3, damage.offset);
        row.text(4, &damage.kind.to_string()).end()?;
    }
    for gap in &statistics.gaps {
        let mut row = writer.row(table)?;
        row.text(0, name(gap.source)).text(1, "Gap").u64(2, 1).time(5, gap.from).time(6, gap.to).end()?;
    }
    Ok(())
}
