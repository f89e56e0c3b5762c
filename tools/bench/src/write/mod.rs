//! The write suite: the cost of an event for its writer, compared with LTTng-UST and `tracing` in the same run.

pub(crate) mod instructions;
pub(crate) mod lttng;
pub(crate) mod ours;
mod region;
mod tracing;

use anyhow::Result;

use super::{Effort, Row, median};
use lttng::{Kind, Measured, Mode};
use ours::Form;

/// Measures everything.
pub(crate) fn rows(effort: &Effort) -> Result<Vec<Row>> {
    let mut rows = region::rows(effort)?;
    let missing = lttng::missing();
    if let Some(missing) = missing {
        eprintln!("without LTTng-UST: {missing}");
    }
    for (mode, mode_name) in
        [(Mode::Overwrite, "flight recorder"), (Mode::File, "file"), (Mode::Disabled, "disabled")]
    {
        for (kind, kind_name) in [(Kind::Integers, "three integers"), (Kind::Text, "integer and 32 bytes")] {
            for (threads, threads_name) in [(1, "1 thread"), (2, "2 threads")] {
                let name = format!("{mode_name}: {kind_name}, {threads_name}");
                rows.extend(compared(effort, mode, kind, threads, &name, missing.is_none())?);
            }
        }
    }
    rows.extend(instructions::rows(effort)?);
    rows.extend(tracing::rows(effort)?);
    Ok(rows)
}

/// Our events of both forms, beside LTTng-UST's. All take turns, so that what else the machine does hits them alike.
fn compared(
    effort: &Effort,
    mode: Mode,
    kind: Kind,
    threads: usize,
    name: &str,
    with_peer: bool,
) -> Result<Vec<Row>> {
    let (mut by_id, mut described, mut theirs) =
        (Measured::default(), Measured::default(), Measured::default());
    for _ in 0..effort.rounds {
        let ours = |form| ours::write(mode, form, kind, threads, effort.events, 2);
        by_id.add(ours(Form::Id)?);
        described.add(ours(Form::Described)?);
        if with_peer {
            theirs.add(lttng::write(mode, kind, threads, effort.events * 4, 1)?);
        }
    }
    let peer = with_peer.then(|| (lttng::NAME, median(&mut theirs.nanos)));
    let row = |form: &str, mut measured: Measured| Row {
        peer,
        events_lost: measured.lost,
        ..Row::new(format!("{name}{form}"), median(&mut measured.nanos), "ns/event")
    };
    if theirs.lost > 0 {
        eprintln!("{}, {name}: {} events lost", lttng::NAME, theirs.lost);
    }
    Ok(vec![row("", by_id), row(", self-describing", described)])
}
