//! `--batch`: prints the tables as text repeatedly.

use std::fmt::Write as _;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::Result;
use etw_app::output;
use etw_live::{Feed, FeedState, Model, PERIOD, Saving, Table, View};

use super::app::{App, Body};
use super::saving_text;
use super::signals::Signals;
use crate::Options;

/// Prints the tables `times` times, or until Ctrl-C for 0.
pub(super) fn run(feed: &Feed, times: u64, options: &Options, signals: &Signals) -> Result<()> {
    let mut printer = Printer::new(options)?;
    let mut number = 0;
    let mut begun = Instant::now();
    while times == 0 || number < times {
        number += 1;
        let left = PERIOD.saturating_sub(begun.elapsed());
        if signals.wait(left.max(Duration::from_millis(1))) {
            return Ok(());
        }
        let mut state = feed.lock();
        state.model.roll(begun.elapsed().as_secs_f64());
        begun = Instant::now();
        let FeedState { model, saving, ended } = &mut *state;
        let (text, has_ended) = (printer.text(model, saving.as_ref()), ended.is_some());
        drop(state);
        printer.write(&text)?;
        if has_ended {
            return Ok(());
        }
    }
    Ok(())
}

/// Prints tables to standard output.
pub(super) struct Printer {
    apps: Vec<App>,
    /// Maximum number of rows per table.
    rows: usize,
    out: Box<dyn Write + Send>,
}

impl Printer {
    pub(super) fn new(options: &Options) -> Result<Printer> {
        let views: &[View] = match options.view {
            View::Events => &View::ALL[1..],
            ref view => std::slice::from_ref(view),
        };
        let apps = views.iter().map(|view| App::new(*view)).collect();
        Ok(Printer { apps, rows: options.rows, out: output::open(None)? })
    }

    /// Returns the status and the tables.
    pub(super) fn text(&mut self, model: &mut Model, saving: Option<&Saving>) -> String {
        let mut text = String::new();
        let status = self.apps.first().map(|app| app.status(&model.counts)).unwrap_or_default();
        let status = status.into_iter().chain(saving.map(saving_text));
        let status: Vec<String> = status.map(|(text, _)| text).collect();
        let _ = writeln!(text, "{}", status.join("  "));
        for app in &mut self.apps {
            if let Body::Tables(tables) = app.body(model, self.rows) {
                put(&mut text, app.view, app.view.needs(model), &tables);
            }
        }
        text.push('\n');
        text
    }

    pub(super) fn write(&mut self, text: &str) -> Result<()> {
        self.out.write_all(text.as_bytes())?;
        Ok(self.out.flush()?)
    }
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
