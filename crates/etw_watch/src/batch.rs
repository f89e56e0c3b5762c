//! `--batch`: prints the tables as text repeatedly.

use std::fmt::Write as _;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::Result;
use etw_app::output;
use etw_sys::EventFd;
use etw_sys::poll::wait_readable;
use std::os::fd::AsFd;

use super::app::{App, Body, Table, View};
use super::feed::Feed;
use super::{PERIOD, saving_text};
use crate::Options;

/// Prints the tables `times` times, or until Ctrl-C for 0.
pub(super) fn run(feed: &Feed, times: u64, options: &Options, signals: &EventFd) -> Result<()> {
    let views: &[View] = match options.view {
        View::Events => &View::ALL[1..],
        ref view => std::slice::from_ref(view),
    };
    let mut out = output::open(None)?;
    let mut apps: Vec<App> = views.iter().map(|view| App::new(*view)).collect();
    let mut number = 0;
    let mut begun = Instant::now();
    while times == 0 || number < times {
        number += 1;
        let left = PERIOD.saturating_sub(begun.elapsed());
        if let Ok([true]) = wait_readable([signals.as_fd()], Some(left.max(Duration::from_millis(1)))) {
            return Ok(());
        }
        let mut inner = feed.shared.lock();
        inner.model.roll(begun.elapsed().as_secs_f64());
        begun = Instant::now();
        let mut text = String::new();
        let status = apps.first().map(|app| app.status(&inner.model.counts)).unwrap_or_default();
        let status = status.into_iter().chain(inner.saving.as_ref().map(saving_text));
        let status: Vec<String> = status.map(|(text, _)| text).collect();
        let _ = writeln!(text, "{}", status.join("  "));
        for app in &mut apps {
            let seen = inner.model.state.seen;
            if let Body::Tables(tables) = app.body(&mut inner.model, options.rows) {
                put(&mut text, app.view, app.view.needs(seen), &tables);
            }
        }
        let has_ended = inner.ended.is_some();
        drop(inner);
        text.push('\n');
        out.write_all(text.as_bytes())?;
        out.flush()?;
        if has_ended {
            return Ok(());
        }
    }
    Ok(())
}

/// Appends the tables of a view as text.
fn put(text: &mut String, view: View, note: Option<&str>, tables: &[Table]) {
    let _ = writeln!(text, "\n{}", view.name());
    if let Some(note) = note {
        let _ = writeln!(text, "({note})");
    }
    for table in tables.iter().filter(|table| !table.rows.is_empty()) {
        let widths: Vec<usize> = (0..table.columns.len())
            .map(|column| {
                let cells =
                    table.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
                cells.chain([table.columns[column].name.chars().count()]).max().unwrap_or(0)
            })
            .collect();
        let names: Vec<String> = table.columns.iter().map(|column| column.name.to_owned()).collect();
        for row in [&names].into_iter().chain(&table.rows) {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths.get(column).copied().unwrap_or(0);
                let _ = match table.is_number.get(column) {
                    Some(true) => write!(line, "{cell:>width$}  "),
                    _ => write!(line, "{cell:width$}  "),
                };
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        if table.len > table.rows.len() {
            let _ = writeln!(text, "… {} more", table.len - table.rows.len());
        }
    }
}
