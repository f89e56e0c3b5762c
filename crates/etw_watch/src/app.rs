//! The state of the user interface: views, selections, prompts. It depends neither on keys nor on terminals.

use etw_app::text::grouped;
use etw_live::{Counts, Cursor, Found, Line, Model, Table, View, Wanted};

/// Number of lines searched at a time, so that a search does not block arriving events for long.
const SEARCH_LINES: usize = 4000;

/// Contents of the body of the screen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    Events { lines: Vec<Line>, selected: Option<usize> },
    Tables(Vec<Table>),
}

/// Prompt with the text being typed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prompt {
    pub(crate) kind: PromptKind,
    pub(crate) text: String,
    /// Error in the text.
    pub(crate) error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptKind {
    Search,
    Filter,
    Save,
}

/// Actions of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Show(View),
    NextView(bool),
    /// Moves by rows, up if negative.
    Move(i64),
    Page(i64),
    First,
    Last,
    Pause,
    Ask(PromptKind),
    ClearFilter,
    FindNext(bool),
    Open,
    Close,
    /// Sorts by the next or previous column.
    SortBy(i64),
    Reverse,
    /// Doubles the speed of a replay, or halves it.
    Speed(bool),
    Help,
    Quit,
}

/// A search in progress.
#[derive(Debug, Clone)]
struct Search {
    from: usize,
    is_forward: bool,
}

/// State of the user interface.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) view: View,
    cursors: [Cursor; View::ALL.len()],
    /// The selected event; `None` follows the newest.
    selected: Option<u64>,
    /// First visible event.
    top: u64,
    /// End of the visible events while the view is paused.
    pub(crate) paused: Option<u64>,
    pub(crate) prompt: Option<Prompt>,
    pub(crate) filter: String,
    search_text: String,
    search: Option<Search>,
    /// Details on screen, and their first visible line.
    pub(crate) details: Option<(Vec<String>, usize)>,
    pub(crate) message: Option<String>,
    pub(crate) is_help: bool,
    pub(crate) is_over: bool,
    /// File to start saving to.
    pub(crate) save: Option<String>,
    /// Whether to double or halve the speed of a replay.
    pub(crate) is_faster: Option<bool>,
    /// Number of rows of the body when last drawn.
    height: usize,
}

impl App {
    pub(crate) fn new(view: View) -> App {
        App {
            view,
            cursors: View::ALL.map(Cursor::new),
            selected: None,
            top: 0,
            paused: None,
            prompt: None,
            filter: String::new(),
            search_text: String::new(),
            search: None,
            details: None,
            message: None,
            is_help: false,
            is_over: false,
            save: None,
            is_faster: None,
            height: 1,
        }
    }

    /// Returns the contents of a body of `rows` rows.
    pub(crate) fn body(&mut self, model: &mut Model, height: usize) -> Body {
        self.height = height.max(1);
        if self.view == View::Events {
            return self.events(model);
        }
        let (text, height) = (self.text_filter(), self.height);
        Body::Tables(self.view.tables(model, self.cursor(), text.as_deref(), height))
    }

    /// Returns the number of events in the view, without those that arrived during a pause.
    fn len(&self, model: &Model) -> usize {
        self.paused.map_or(model.count(), |next| model.index_of(next))
    }

    fn events(&mut self, model: &mut Model) -> Body {
        let len = self.len(model);
        let (mut top, selected) = match self.selected {
            None => (len.saturating_sub(self.height), len.checked_sub(1)),
            Some(number) => {
                let selected = model.index_of(number).min(len.saturating_sub(1));
                let top = model.index_of(self.top);
                // Keep the selection visible, and leave no empty rows below if there are events above.
                let top = top.clamp((selected + 1).saturating_sub(self.height), selected);
                (top.min(len.saturating_sub(self.height)), (len > 0).then_some(selected))
            }
        };
        top = top.min(len);
        self.top = model.number(top).unwrap_or(0);
        let end = (top + self.height).min(len);
        let numbers: Vec<u64> = (top..end).filter_map(|index| model.number(index)).collect();
        let lines = numbers.into_iter().filter_map(|number| model.line(number)).collect();
        Body::Events { lines, selected: selected.map(|selected| selected - top.min(selected)) }
    }

    fn cursor(&mut self) -> &mut Cursor {
        let number = View::ALL.iter().position(|view| *view == self.view).unwrap_or(0);
        &mut self.cursors[number]
    }

    /// Returns the text that table rows must contain; expressions apply only to events.
    fn text_filter(&self) -> Option<String> {
        self.filter.trim().strip_prefix('~').map(str::to_lowercase)
    }

    /// Performs an action of the user.
    pub(crate) fn act(&mut self, command: Command, model: &mut Model) {
        self.message = None;
        match command {
            Command::Show(view) => self.show(view),
            Command::NextView(is_forward) => {
                let number = View::ALL.iter().position(|view| *view == self.view).unwrap_or(0);
                let step = if is_forward { 1 } else { View::ALL.len() - 1 };
                self.show(View::ALL[(number + step) % View::ALL.len()]);
            }
            Command::Move(rows) => self.move_by(rows, model),
            Command::Page(pages) => self.move_by(pages * self.height as i64, model),
            Command::First => self.move_by(i64::MIN / 2, model),
            Command::Last => self.move_by(i64::MAX / 2, model),
            Command::Pause => {
                self.paused = if self.paused.is_some() { None } else { Some(model.next()) };
            }
            Command::Ask(kind) => {
                let text = match kind {
                    PromptKind::Filter => self.filter.clone(),
                    PromptKind::Save => "watch.etl".to_owned(),
                    PromptKind::Search => String::new(),
                };
                self.prompt = Some(Prompt { kind, text, error: None });
            }
            Command::ClearFilter => self.set_filter(String::new(), None, model),
            Command::FindNext(is_forward) => self.find(is_forward, model),
            Command::Open => self.open(model),
            Command::Close => {
                (self.details, self.is_help, self.search) = (None, false, None);
            }
            Command::SortBy(step) => {
                let columns = self.view.columns() as i64;
                let cursor = self.cursor();
                cursor.column = (cursor.column as i64 + step).rem_euclid(columns.max(1)) as usize;
            }
            Command::Reverse => {
                let cursor = self.cursor();
                cursor.is_descending = !cursor.is_descending;
            }
            Command::Speed(is_faster) => self.is_faster = Some(is_faster),
            Command::Help => self.is_help = !self.is_help,
            Command::Quit => self.is_over = true,
        }
    }

    fn show(&mut self, view: View) {
        if self.view != view {
            (self.view, self.details, self.search) = (view, None, None);
        }
    }

    fn move_by(&mut self, rows: i64, model: &mut Model) {
        if let Some((lines, top)) =
            self.details.as_mut().filter(|_| self.view != View::Events || rows.abs() > 1)
        {
            let last = lines.len().saturating_sub(1) as i64;
            *top = (*top as i64).saturating_add(rows).clamp(0, last) as usize;
            return;
        }
        if self.view != View::Events {
            let cursor = self.cursor();
            let place = match cursor.selected {
                // The first key selects a visible row.
                None => cursor.top as i64 + if rows.abs() > 1 { rows } else { 0 },
                Some((_, place)) => (place as i64).saturating_add(rows),
            };
            // Drawing determines the row.
            cursor.selected = Some((u64::MAX, place.clamp(0, u32::MAX.into()) as usize));
            return;
        }
        let len = self.len(model);
        let Some(last) = len.checked_sub(1) else { return };
        let from = self.selected.map_or(last, |number| model.index_of(number).min(last));
        let to = (from as i64).saturating_add(rows).clamp(0, last as i64) as usize;
        // At the end, follow the newest events unless the view is paused.
        self.selected = if to == last && rows > 0 { None } else { model.number(to) };
        if self.details.is_some() {
            self.show_details(model);
        }
    }

    /// Returns the number of the selected event.
    fn selected(&self, model: &Model) -> Option<u64> {
        self.selected.or_else(|| model.number(self.len(model).checked_sub(1)?))
    }

    fn show_details(&mut self, model: &mut Model) {
        if let Some(number) = self.selected(model) {
            self.details = Some((model.details(number), 0));
        }
    }

    /// Shows the selected event in detail, or the events of the selected row.
    fn open(&mut self, model: &mut Model) {
        if self.view == View::Events {
            // Keep the selected event in place.
            self.selected = self.selected(model);
            return self.show_details(model);
        }
        let Some((key, _)) = self.cursor().selected else { return };
        let Some(filter) = self.view.filter_of(model, key) else { return };
        let wanted = Wanted::parse(&filter).unwrap_or_default();
        self.set_filter(filter, wanted, model);
        self.show(View::Events);
    }

    fn set_filter(&mut self, text: String, wanted: Option<Wanted>, model: &mut Model) {
        self.filter = text;
        self.selected = None;
        self.details = None;
        model.set_wanted(wanted);
    }

    /// Changes the typed text, and checks a filter at once.
    pub(crate) fn edit(&mut self, edit: impl FnOnce(&mut String)) {
        if let Some(prompt) = &mut self.prompt {
            edit(&mut prompt.text);
            prompt.error = match prompt.kind {
                PromptKind::Filter => Wanted::parse(&prompt.text).err(),
                _ => None,
            };
        }
    }

    /// Closes the prompt without an action.
    pub(crate) fn cancel(&mut self) {
        self.prompt = None;
    }

    /// Performs the action of the prompt, unless its text has an error.
    pub(crate) fn accept(&mut self, model: &mut Model) {
        let Some(prompt) = self.prompt.take() else { return };
        let text = prompt.text.trim().to_owned();
        match prompt.kind {
            PromptKind::Filter => match Wanted::parse(&text) {
                Ok(wanted) => self.set_filter(text, wanted, model),
                Err(error) => self.prompt = Some(Prompt { error: Some(error), ..prompt }),
            },
            PromptKind::Search => {
                self.search_text = text.to_lowercase();
                self.find(true, model);
            }
            PromptKind::Save => self.save = Some(text).filter(|text| !text.is_empty()),
        }
    }

    fn find(&mut self, is_forward: bool, model: &mut Model) {
        if self.search_text.is_empty() {
            return;
        }
        if self.view != View::Events {
            return self.find_row(is_forward, model);
        }
        let len = self.len(model);
        let Some(last) = len.checked_sub(1) else { return };
        let from = self.selected.map(|number| model.index_of(number));
        let from = match (from, is_forward) {
            (Some(from), true) => from + 1,
            (Some(from), false) => match from.checked_sub(1) {
                Some(from) => from,
                None => return self.message = Some("no earlier match".to_owned()),
            },
            // No events follow the newest one.
            (None, true) => 0,
            (None, false) => last,
        };
        self.search = Some(Search { from, is_forward });
        self.go_on(model);
    }

    /// Whether a search is in progress.
    pub(crate) fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// Continues a search.
    pub(crate) fn go_on(&mut self, model: &mut Model) {
        let Some(Search { from, is_forward }) = self.search.take() else { return };
        match model.search(&self.search_text, from, is_forward, SEARCH_LINES) {
            Found::At(index) if index < self.len(model) => {
                self.selected = model.number(index);
                if self.details.is_some() {
                    self.show_details(model);
                }
            }
            Found::GoOn(from) => {
                self.message = Some("searching".to_owned());
                self.search = Some(Search { from, is_forward });
            }
            _ => self.message = Some(format!("'{}' is not found", self.search_text)),
        }
    }

    fn find_row(&mut self, is_forward: bool, model: &mut Model) {
        let height = std::mem::replace(&mut self.height, usize::MAX / 2);
        let body = self.body(model, usize::MAX / 2);
        self.height = height;
        let Body::Tables(tables) = body else { return };
        let Some(table) = tables.first() else { return };
        let has = |row: &Vec<String>| row.iter().any(|cell| cell.to_lowercase().contains(&self.search_text));
        let places: Vec<usize> =
            table.rows.iter().enumerate().filter(|(_, row)| has(row)).map(|(place, _)| place).collect();
        let from = table.selected;
        let found = match is_forward {
            true => places.iter().find(|place| from.is_none_or(|from| **place > from)).or(places.first()),
            false => {
                places.iter().rev().find(|place| from.is_some_and(|from| **place < from)).or(places.last())
            }
        };
        match found {
            Some(place) => self.cursor().selected = Some((u64::MAX, *place)),
            None => self.message = Some(format!("'{}' is not found", self.search_text)),
        }
    }

    /// Returns the parts of the status line.
    pub(crate) fn status(&self, counts: &Counts) -> Vec<(String, bool)> {
        let mut parts = vec![
            (format!("{} events/s", grouped(counts.events.rate as u64)), false),
            (format!("{} events", grouped(counts.events.total)), false),
            (format!("{} lost", grouped(counts.lost)), counts.lost > 0),
        ];
        if counts.skipped > 0 {
            parts.push((format!("{} not listed", grouped(counts.skipped)), true));
        }
        if self.paused.is_some() {
            parts.push(("PAUSED".to_owned(), true));
        } else if self.view == View::Events && self.selected.is_some() {
            parts.push(("not following (End follows)".to_owned(), false));
        }
        if !self.filter.is_empty() {
            parts.push((format!("filter: {}", self.filter), false));
        }
        parts
    }
}
