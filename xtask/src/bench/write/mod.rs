//! Writing events: what one costs its writer, beside LTTng-UST and `tracing` in the same run.

mod lttng;
mod region;
mod tracing;

use anyhow::Result;

use super::{Effort, Row, median};
use lttng::{Kind, Mode};

/// Measures everything.
pub(crate) fn rows(effort: &Effort) -> Result<Vec<Row>> {
    let mut rows = region::rows(effort)?;
    rows.extend(tracing::rows(effort));
    match lttng::missing() {
        None => rows.extend(lttng_rows(effort)?),
        Some(missing) => eprintln!("without LTTng-UST: {missing}"),
    }
    Ok(rows)
}

/// LTTng-UST alone, so that each of its modes can be set beside ours.
fn lttng_rows(effort: &Effort) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (mode, mode_name) in
        [(Mode::Overwrite, "flight recorder"), (Mode::File, "file"), (Mode::Disabled, "disabled")]
    {
        for (kind, kind_name) in [(Kind::Integers, "three integers"), (Kind::Text, "integer and 32 bytes")] {
            for threads in [1, 2] {
                let mut measured = lttng::write(mode, kind, threads, effort.events * 4, effort.rounds)?;
                let threads = if threads == 1 { "1 thread" } else { "2 threads" };
                let name = format!("{}, {mode_name}: {kind_name}, {threads}", lttng::NAME);
                let mut row = Row::new(name, median(&mut measured.nanos), "ns/event");
                row.events_lost = measured.lost;
                rows.push(row);
            }
        }
    }
    Ok(rows)
}
