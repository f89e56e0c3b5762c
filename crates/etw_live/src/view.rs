//! Views of the model: tables with a sort order, a selection and a position.

use crate::model::Model;
use crate::model::rows::{Cell, Column, Row};
use crate::model::tables::{Connection, Disk, File, Image, Process, Processor, Thread};

/// A view of what is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Events as they arrive.
    Events,
    /// Processes, as in top.
    Processes,
    /// File reads and writes.
    Files,
    /// Connections and datagrams.
    Network,
    /// Disks and processors.
    Machine,
    /// Threads, with their processor time.
    Threads,
    /// Programs and libraries of processes.
    Images,
}

impl View {
    /// All views, in their order.
    pub const ALL: [View; 7] = [
        View::Events,
        View::Processes,
        View::Files,
        View::Network,
        View::Machine,
        View::Threads,
        View::Images,
    ];

    /// Returns the title of the view.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            View::Events => "Events",
            View::Processes => "Processes",
            View::Files => "Files",
            View::Network => "Network",
            View::Machine => "Disks, CPUs",
            View::Threads => "Threads",
            View::Images => "Images",
        }
    }

    /// Returns a hint if the view lacks events; `None` otherwise.
    #[must_use]
    pub fn needs(self, model: &Model) -> Option<&'static str> {
        let seen = model.state.seen;
        match self {
            View::Files if !seen.files => Some("no file events yet; -k FILE_IO+FILE_IO_INIT records them"),
            View::Network if !seen.network => Some("no network events yet; -k NETWORKTRACE records them"),
            View::Machine if !seen.disks && !seen.switches && !seen.samples && !seen.interrupts => {
                Some("-k DISK_IO records disks, CSWITCH or PROFILE processor time, DPC+INTERRUPT the rest")
            }
            View::Images if !seen.images => Some("no images yet; -k LOADER records them"),
            View::Processes | View::Threads if !seen.switches && !seen.samples => {
                Some("CPU % needs -k CSWITCH or PROFILE")
            }
            _ => None,
        }
    }

    /// Returns the number of columns of the view's first table.
    #[must_use]
    pub fn columns(self) -> usize {
        match self {
            View::Events => 1,
            View::Processes => Process::COLUMNS.len(),
            View::Files => File::COLUMNS.len(),
            View::Network => Connection::COLUMNS.len(),
            View::Machine => Disk::COLUMNS.len(),
            View::Threads => Thread::COLUMNS.len(),
            View::Images => Image::COLUMNS.len(),
        }
    }

    /// Returns the tables of a view: the rows at the cursor, at most `height`, of those that contain a text in lower case.
    ///
    /// Events are no table.
    pub fn tables(self, model: &Model, cursor: &mut Cursor, text: Option<&str>, height: usize) -> Vec<Table> {
        let state = &model.state;
        let mut shape = Shape { cursor, text, height };
        match self {
            View::Events => Vec::new(),
            View::Machine => {
                let disks = shape.table::<Disk>(state.disks.values().collect(), state.disks.forgotten());
                let is_used = |processor: &&Processor| {
                    processor.running.is_some()
                        || processor.busy.total > 0
                        || processor.interrupts.total > 0
                        || processor.dpcs.total > 0
                };
                let processors = state.processors.iter().filter(is_used).collect();
                vec![disks, shape.table::<Processor>(processors, 0)]
            }
            View::Processes => {
                let rows = state.processes.values();
                let rows = rows.filter(|process| model.has_process(process.id, &process.name)).collect();
                vec![shape.table::<Process>(rows, state.processes.forgotten())]
            }
            View::Threads => {
                let rows = state.thread_rows.values();
                let rows = rows.filter(|thread| model.has_process(thread.process_id, &thread.process));
                vec![shape.table::<Thread>(rows.collect(), state.thread_rows.forgotten())]
            }
            View::Images => {
                let rows = state.images.values();
                let rows = rows.filter(|image| model.has_process(image.process_id, &image.process)).collect();
                vec![shape.table::<Image>(rows, state.images.forgotten())]
            }
            View::Files => {
                vec![shape.table::<File>(state.files.values().collect(), state.files.forgotten())]
            }
            View::Network => {
                let name = |row: &Connection| row.process.as_deref().unwrap_or_default().to_owned();
                let rows = state.connections.values();
                let rows = rows.filter(|row| model.has_process(row.ends.process_id, &name(row))).collect();
                vec![shape.table::<Connection>(rows, state.connections.forgotten())]
            }
        }
    }

    /// Returns the filter line that selects the events of a row, if there is one; the key is that of [`Cursor::selected`].
    #[must_use]
    pub fn filter_of(self, model: &Model, key: u64) -> Option<String> {
        let state = &model.state;
        match self {
            View::Processes => filter_of(state.processes.values(), key),
            View::Threads => filter_of(state.thread_rows.values(), key),
            View::Images => filter_of(state.images.values(), key),
            View::Files => filter_of(state.files.values(), key),
            View::Network => filter_of(state.connections.values(), key),
            View::Machine | View::Events => None,
        }
    }
}

/// Sort order, selection and position of a view's tables.
#[derive(Debug, Clone)]
pub struct Cursor {
    /// Number of the column by which rows are sorted.
    pub column: usize,
    /// Whether the largest values come first.
    pub is_descending: bool,
    /// Key and index of the selected row. A key that no row has selects by the index.
    pub selected: Option<(u64, usize)>,
    /// Index of the first visible row.
    pub top: usize,
}

impl Cursor {
    /// Creates a cursor with the order in which a view is shown first.
    #[must_use]
    pub fn new(view: View) -> Cursor {
        let (column, is_descending) = match view {
            View::Events => (0, false),
            View::Processes => (Process::SORTED_BY, true),
            View::Files => (File::SORTED_BY, true),
            View::Network => (Connection::SORTED_BY, true),
            View::Machine => (Disk::SORTED_BY, false),
            View::Threads => (Thread::SORTED_BY, true),
            View::Images => (Image::SORTED_BY, true),
        };
        Cursor { column, is_descending, selected: None, top: 0 }
    }
}

/// Visible part of a table, ready to be drawn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// The columns.
    pub columns: &'static [Column],
    /// The texts of the cells of each visible row.
    pub rows: Vec<Vec<String>>,
    /// Whether the cells of each column are numbers.
    pub is_number: Vec<bool>,
    /// Index of the selected row.
    pub selected: Option<usize>,
    /// Sort column, and whether the largest values come first.
    pub sorted: (usize, bool),
    /// Number of all rows, including those not visible.
    pub len: usize,
    /// Number of rows dropped to make room for others.
    pub forgotten: u64,
}

/// What a table shows of its rows.
struct Shape<'s> {
    cursor: &'s mut Cursor,
    text: Option<&'s str>,
    height: usize,
}

impl Shape<'_> {
    fn table<R: Row>(&mut self, mut rows: Vec<&R>, forgotten: u64) -> Table {
        let Shape { cursor, text, height } = self;
        let height = *height;
        rows.retain(|row| text.is_none_or(|text| has_text(*row, text)));
        let column = cursor.column.min(R::COLUMNS.len() - 1);
        rows.sort_by(|one, other| {
            let order = one.cell(column).compare(&other.cell(column));
            let order = if cursor.is_descending { order.reverse() } else { order };
            order.then_with(|| one.key().cmp(&other.key()))
        });
        let selected = cursor.selected.map(|(key, place)| {
            let found = rows.iter().position(|row| row.key() == key);
            found.unwrap_or(place).min(rows.len().saturating_sub(1))
        });
        let selected = selected.filter(|_| !rows.is_empty());
        if let Some((place, row)) = selected.and_then(|place| Some((place, rows.get(place)?))) {
            cursor.selected = Some((row.key(), place));
            cursor.top = cursor.top.clamp((place + 1).saturating_sub(height), place);
        }
        cursor.top = cursor.top.min(rows.len().saturating_sub(height));
        let top = cursor.top;
        let in_view = rows.iter().skip(top).take(height);
        let texts = in_view.map(|row| (0..R::COLUMNS.len()).map(|column| row.cell(column).text()).collect());
        let is_number = rows.first().map_or_else(Vec::new, |row| {
            (0..R::COLUMNS.len()).map(|column| row.cell(column).is_number()).collect()
        });
        Table {
            columns: R::COLUMNS,
            rows: texts.collect(),
            is_number,
            selected: selected.map(|place| place - top),
            sorted: (column, cursor.is_descending),
            len: rows.len(),
            forgotten,
        }
    }
}

fn has_text<R: Row>(row: &R, text: &str) -> bool {
    (0..R::COLUMNS.len()).any(|column| match row.cell(column) {
        cell @ (Cell::Text(_) | Cell::Owned(_) | Cell::Id(_)) => cell.text().to_lowercase().contains(text),
        _ => false,
    })
}

fn filter_of<'r, R: Row + 'r>(mut rows: impl Iterator<Item = &'r R>, key: u64) -> Option<String> {
    rows.find(|row| row.key() == key)?.filter()
}
