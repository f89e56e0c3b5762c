//! A live session for other displays than the terminal, such as a page.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use etw_app::schemas::Schemas;

use crate::feed::Feed;
use crate::model::{Column, Line, Rule, Rules, Wanted};
use crate::save::{Saving, make_readable};
use crate::session::Session;
use crate::view::{Cursor, View};
use crate::{Options, PERIOD};

/// Maximum number of rows of a table.
const MAX_ROWS: usize = 2000;

/// A running session, with its newest events in memory.
pub struct Watch {
    feed: Feed,
    session: Session,
    schemas: Schemas,
    rules: Rules,
    /// Start of the current period of rates.
    period: Instant,
}

/// What a session has delivered.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchStatus {
    /// Number of events since the start.
    pub events: u64,
    /// Events per second.
    pub rate: f64,
    /// Events that the session lost, or that came faster than they were read.
    pub lost: u64,
    /// Events that were counted but not kept, since more than 200,000 came in a second.
    pub not_kept: u64,
    /// Number of events in memory that the rules show.
    pub shown: usize,
    /// Number of the next event.
    pub next: u64,
    /// Set after the session has ended; contains the reason if reading failed.
    pub ended: Option<String>,
    /// What the session could not do.
    pub trouble: Option<String>,
}

/// An event as a line.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchLine {
    /// Its columns.
    pub line: Line,
    /// Whether a rule highlights it.
    pub is_lit: bool,
}

/// A table of what the events of a session tell of the machine.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchTable {
    /// The columns.
    pub columns: &'static [Column],
    /// Whether the cells of each column are numbers.
    pub is_number: Vec<bool>,
    /// The first rows, at most 2,000.
    pub rows: Vec<WatchRow>,
    /// The column by which the rows are sorted, and whether the largest come first; `None` for trees.
    pub sorted: Option<(usize, bool)>,
    /// Number of all rows.
    pub count: usize,
    /// Number of rows dropped to make room for others.
    pub forgotten: u64,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchRow {
    /// The texts of its cells.
    pub cells: Vec<String>,
    /// Its level in a tree.
    pub depth: usize,
}

/// A stopped session. While it is kept, sessions of other programs that this process hosts go on.
pub struct Stopped {
    _session: Session,
}

impl Watch {
    /// Starts the session of these options, with the rights of this process.
    ///
    /// # Errors
    ///
    /// Fails if an option is wrong, or if the session cannot be started.
    pub fn start(options: &Options) -> Result<Watch> {
        let schemas = Schemas::load(&options.schemas)?;
        let filter = options.filter(&schemas)?;
        let mut session = Session::begin(options, &schemas)?;
        let feed = Feed::of_session(&session, options, &schemas, &filter);
        let feed = match feed {
            Ok(feed) => feed,
            Err(error) => {
                session.end()?;
                return Err(error);
            }
        };
        Ok(Watch { feed, session, schemas, rules: Rules::default(), period: Instant::now() })
    }

    /// Returns what the session records.
    pub fn title(&self) -> &str {
        self.session.title()
    }

    /// Returns what the session has delivered until now.
    pub fn status(&mut self) -> WatchStatus {
        let trouble = self.session.trouble();
        let is_broken = self.feed.is_broken();
        let mut state = self.feed.lock();
        if self.period.elapsed() >= PERIOD {
            state.model.roll(self.period.elapsed().as_secs_f64());
            self.period = Instant::now();
        }
        let ended = match &state.ended {
            Some(Ok(())) => Some("the session has stopped".to_owned()),
            Some(Err(error)) => Some(error.to_string()),
            None => is_broken.then(|| "the thread that reads events has exited".to_owned()),
        };
        let counts = state.model.counts;
        WatchStatus {
            events: counts.events.total,
            rate: counts.events.rate,
            lost: counts.lost,
            not_kept: counts.skipped,
            shown: state.model.count(),
            next: state.model.next(),
            ended,
            trouble,
        }
    }

    /// Sets which events are shown and highlighted, of those in memory and of future ones.
    pub fn set_rules(&mut self, rules: Vec<Rule>) {
        self.rules = Rules::new(rules);
        let wanted = (!self.rules.is_open()).then(|| Wanted::Rules(self.rules.clone()));
        self.feed.lock().model.set_wanted(wanted);
    }

    /// Returns the number of shown events, and at most `limit` of them from the index `from` on; only those before the
    /// event with the number `until`, if there is one.
    pub fn lines(&self, from: usize, limit: usize, until: Option<u64>) -> (usize, Vec<WatchLine>) {
        let mut state = self.feed.lock();
        let model = &mut state.model;
        let count = until.map_or(model.count(), |until| model.index_of(until));
        let mut lines = Vec::new();
        for index in from..count.min(from.saturating_add(limit)) {
            let Some(number) = model.number(index) else { break };
            let path = model.path(number).unwrap_or_default();
            let Some(line) = model.line(number) else { continue };
            let is_lit = self.rules.highlights(&line, &path);
            lines.push(WatchLine { line, is_lit });
        }
        (count, lines)
    }

    /// Returns the tables of a view, and what to record if it lacks events: sorted by a column, the largest first if so
    /// wanted, with the rows that contain a text.
    ///
    /// Without an order, processes are a tree: each below the one that started it.
    pub fn tables(
        &self,
        view: View,
        sort: Option<(usize, bool)>,
        text: &str,
    ) -> (Vec<WatchTable>, Option<&'static str>) {
        let state = self.feed.lock();
        let note = view.needs(&state.model);
        let mut cursor = Cursor::new(view);
        if let Some((column, is_descending)) = sort {
            (cursor.column, cursor.is_descending) = (column, is_descending);
        }
        let text = Some(text.trim().to_lowercase()).filter(|text| !text.is_empty());
        let tables = view.tables(&state.model, &mut cursor, text.as_deref(), MAX_ROWS);
        drop(state);
        let is_tree = view == View::Processes && sort.is_none();
        let tables = tables.into_iter().map(|table| WatchTable {
            columns: table.columns,
            is_number: table.is_number,
            rows: match is_tree {
                true => in_tree(table.rows),
                false => table.rows.into_iter().map(|cells| WatchRow { cells, depth: 0 }).collect(),
            },
            sorted: (!is_tree).then_some(table.sorted),
            count: table.len,
            forgotten: table.forgotten,
        });
        (tables.collect(), note)
    }

    /// Returns all details of an event, with its stack, one per line; nothing if the event is not in memory any more.
    pub fn details(&self, number: u64) -> Vec<String> {
        self.feed.lock().model.details(number)
    }

    /// Writes the events in memory to a trace file, or only those that the rules show, with what names their processes,
    /// threads and files. Returns a summary of the file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn save(&self, path: &Path, only_shown: bool) -> Result<String> {
        let mut saving = Saving::begin(path, self.feed.header())?;
        match only_shown {
            true => self.feed.lock().model.for_each_shown(|record| saving.write(record)),
            false => self.feed.lock().model.for_each_kept(|record| saving.write(record)),
        }
        saving.finish()?;
        if let Some((count, why)) = &saving.failed {
            bail!("{count} events could not be saved: {why}");
        }
        make_readable(path, &self.schemas, &self.session.processes())
    }

    /// Stops the session.
    ///
    /// # Errors
    ///
    /// Fails if the session cannot be stopped.
    pub fn stop(mut self) -> Result<Stopped> {
        self.feed.stop();
        self.session.end()?;
        Ok(Stopped { _session: self.session })
    }
}

/// Returns rows of processes, whose first cell is their id and whose last one that of their parent, each before those that
/// it started.
fn in_tree(rows: Vec<Vec<String>>) -> Vec<WatchRow> {
    let places: HashMap<&str, usize> =
        rows.iter().enumerate().filter_map(|(place, row)| Some((row.first()?.as_str(), place))).collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); rows.len()];
    let mut roots = Vec::new();
    for (place, row) in rows.iter().enumerate() {
        let parent = row.last().and_then(|id| places.get(id.as_str())).filter(|parent| **parent != place);
        match parent.and_then(|parent| children.get_mut(*parent)) {
            Some(children) => children.push(place),
            None => roots.push(place),
        }
    }
    let mut order: Vec<(usize, usize)> = Vec::with_capacity(rows.len());
    let mut is_placed = vec![false; rows.len()];
    // Ids that were used again can make circles, which no root leads to.
    for root in roots.into_iter().chain(0..rows.len()) {
        let mut open = vec![(root, 0)];
        while let Some((place, depth)) = open.pop() {
            if std::mem::replace(&mut is_placed[place], true) {
                continue;
            }
            order.push((place, depth));
            open.extend(children[place].iter().rev().map(|child| (*child, depth + 1)));
        }
    }
    let mut rows: Vec<Option<Vec<String>>> = rows.into_iter().map(Some).collect();
    let row = |(place, depth): (usize, usize)| Some(WatchRow { cells: rows[place].take()?, depth });
    order.into_iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(rows: &[[&str; 2]]) -> Vec<String> {
        let rows = rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect();
        in_tree(rows).into_iter().map(|row| format!("{}{}", " ".repeat(row.depth), row.cells[0])).collect()
    }

    #[test]
    fn processes_are_below_those_that_started_them() {
        let rows = [["30", "20"], ["1", "0"], ["20", "1"], ["21", "1"], ["99", "77"]];
        assert_eq!(tree(&rows), ["1", " 20", "  30", " 21", "99"]);
        assert_eq!(tree(&[]), Vec::<String>::new());
        // Circles, and a process that is its own parent.
        assert_eq!(tree(&[["1", "2"], ["2", "1"], ["3", "3"]]), ["3", "1", " 2"]);
        let deep: Vec<[String; 2]> =
            (1..=2000).map(|id: u32| [id.to_string(), (id - 1).to_string()]).collect();
        let deep: Vec<[&str; 2]> = deep.iter().map(|[id, parent]| [id.as_str(), parent.as_str()]).collect();
        assert!(tree(&deep).last().is_some_and(|last| last.ends_with(" 2000")));
    }
}
