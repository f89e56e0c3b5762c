//! Draws the screen.

use etw_live::{Line, Table, View};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Block, Borders, Cell, Clear, Paragraph, Row, Table as Widget};

use super::app::{App, Body, PromptKind};

const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);
const ALARM: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// Number of lines around the body, including table headings.
const HEAD_LINES: u16 = 3;
const FOOT_LINES: u16 = 1;

/// Contents of the screen except the user's input.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) body: Body,
    /// Parts of the status line, and whether each is an alarm.
    pub(crate) status: Vec<(String, bool)>,
    /// Hint about missing events.
    pub(crate) note: Option<&'static str>,
    /// The session or the files.
    pub(crate) title: String,
    /// Whether files are shown.
    pub(crate) is_replay: bool,
}

/// Returns the number of rows of the body.
pub(crate) fn body_rows(height: u16, app: &App) -> usize {
    let rows = body_height(height, app);
    match app.view {
        // Two tables; the second one has a heading.
        View::Machine => usize::from(rows.saturating_sub(2) / 2),
        _ => usize::from(rows),
    }
}

fn body_height(height: u16, app: &App) -> u16 {
    let rows = height.saturating_sub(HEAD_LINES + FOOT_LINES);
    if app.details.is_some() { rows / 2 } else { rows }
}

/// Draws the screen.
pub(crate) fn draw(frame: &mut Frame<'_>, app: &App, screen: &Screen) {
    let area = frame.area();
    let rows = body_height(area.height, app) + 1;
    let layout = [
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(rows),
        Constraint::Min(0),
        Constraint::Length(FOOT_LINES),
    ];
    let [tabs, status, body, details, foot] = Layout::vertical(layout).areas(area);
    draw_tabs(frame, tabs, app, &screen.title);
    draw_status(frame, status, screen);
    match &screen.body {
        Body::Events { lines, selected } => draw_events(frame, body, lines, *selected),
        Body::Tables(tables) => {
            let each = u16::try_from(tables.len().max(1)).unwrap_or(1);
            let areas =
                Layout::vertical(vec![Constraint::Length(rows.div_ceil(each)); tables.len()]).split(body);
            for (table, area) in tables.iter().zip(areas.iter()) {
                draw_table(frame, *area, table);
            }
        }
    }
    if let Some((lines, top)) = &app.details {
        let lines: Vec<Text<'_>> = lines.iter().skip(*top).map(|line| Text::raw(line.as_str())).collect();
        let block = Block::new().borders(Borders::TOP).title(" details: PgUp PgDn scroll, Esc closes ");
        frame.render_widget(Paragraph::new(lines).block(block), details);
    }
    draw_foot(frame, foot, app, screen);
    if app.is_help {
        draw_help(frame, area);
    }
}

fn draw_tabs(frame: &mut Frame<'_>, area: Rect, app: &App, title: &str) {
    let mut spans = Vec::new();
    for (view, number) in View::ALL.into_iter().zip(1..) {
        let style = if view == app.view { SELECTED } else { Style::new() };
        spans.push(Span::styled(format!(" {number} {} ", view.name()), style));
    }
    spans.push(Span::styled(format!("  {title}"), DIM));
    frame.render_widget(Text::from(spans), area);
}

fn draw_status(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let mut spans = Vec::new();
    for (text, is_grave) in &screen.status {
        spans.push(Span::styled(format!(" {text} "), if *is_grave { ALARM } else { Style::new() }));
        spans.push(Span::raw(" "));
    }
    if let Some(note) = screen.note {
        spans.push(Span::styled(note, Style::new().fg(Color::Yellow)));
    }
    frame.render_widget(Text::from(spans), area);
}

fn draw_events(frame: &mut Frame<'_>, area: Rect, lines: &[Line], selected: Option<usize>) {
    let widths = [
        Constraint::Length(15),
        Constraint::Length(15),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(24),
        Constraint::Fill(1),
        Constraint::Length(16),
        Constraint::Length(8),
    ];
    let names = ["Time (UTC)", "Process", "PID", "TID", "Operation", "Detail", "Result", "Duration"];
    let rows = lines.iter().enumerate().map(|(place, line)| {
        let style = match line.level {
            _ if Some(place) == selected => SELECTED,
            1 | 2 => Style::new().fg(Color::Red),
            3 => Style::new().fg(Color::Yellow),
            _ => Style::new(),
        };
        let cells = [
            Text::raw(line.time.as_str()),
            Text::raw(line.process.as_str()),
            Text::raw(line.process_id.as_str()).right_aligned(),
            Text::raw(line.thread_id.as_str()).right_aligned(),
            Text::raw(line.operation.as_str()),
            Text::raw(line.detail.as_str()),
            Text::raw(line.result.as_str()),
            Text::raw(line.duration.as_str()).right_aligned(),
        ];
        Row::new(cells).style(style)
    });
    frame.render_widget(Widget::new(rows, widths).header(Row::new(names).style(BOLD)), area);
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, table: &Table) {
    let widths = table.columns.iter().map(|column| match column.width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(width),
    });
    let is_number = |column: usize| table.is_number.get(column).copied().unwrap_or(false);
    let aligned = |text: Text<'static>, column| if is_number(column) { text.right_aligned() } else { text };
    let names = table.columns.iter().enumerate().map(|(number, column)| {
        let is_sorted = table.sorted.0 == number;
        let style = if is_sorted { BOLD.add_modifier(Modifier::UNDERLINED) } else { BOLD };
        Cell::from(aligned(Text::raw(column.name), number)).style(style)
    });
    let rows = table.rows.iter().enumerate().map(|(place, row)| {
        let cells =
            row.iter().enumerate().map(|(number, text)| Cell::from(aligned(Text::raw(text.clone()), number)));
        Row::new(cells).style(if Some(place) == table.selected { SELECTED } else { Style::new() })
    });
    frame.render_widget(Widget::new(rows, widths).header(Row::new(names)), area);
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, app: &App, screen: &Screen) {
    let line = match (&app.prompt, &app.message) {
        (Some(prompt), _) => {
            let name = match prompt.kind {
                PromptKind::Search => "search",
                PromptKind::Filter => "filter (an expression, or ~TEXT)",
                PromptKind::Save => "save from now on to",
            };
            let mut spans = vec![Span::styled(format!("{name}: "), BOLD), Span::raw(prompt.text.clone())];
            spans.push(Span::styled(" ", SELECTED));
            if let Some(error) = &prompt.error {
                spans.push(Span::styled(format!("  {error}"), Style::new().fg(Color::Red)));
            }
            Text::from(spans)
        }
        (None, Some(message)) => Text::styled(message.clone(), Style::new().fg(Color::Yellow)),
        (None, None) => {
            let left = match &screen.body {
                Body::Tables(tables) => {
                    let rows: usize = tables.iter().map(|table| table.len).sum();
                    let forgotten: u64 = tables.iter().map(|table| table.forgotten).sum();
                    match forgotten {
                        0 => format!("{rows} rows  "),
                        _ => format!("{rows} rows, {forgotten} older rows dropped"),
                    }
                }
                Body::Events { .. } => String::new(),
            };
            let keys = match app.view {
                View::Events => "Space pause  / search  f filter  Enter details",
                _ => "< > sort by  r reverse  / search  f filter  Enter its events",
            };
            let more = if screen.is_replay { "+ - speed" } else { "s save" };
            Text::styled(format!("{left}{keys}  {more}  ? help  q quit"), DIM)
        }
    };
    frame.render_widget(line, area);
}

/// Keys and their actions.
pub(crate) const HELP: &[(&str, &str)] = &[
    ("1 … 7, Tab", "views: events, processes, files, network, disks and processors, threads, images"),
    ("Up Down PgUp PgDn", "move; Home or g: first; End or G: last, and follow the newest events"),
    ("Space", "pause or resume the view"),
    ("/  n  N", "search a text; next match, previous match"),
    ("f", "filter: an expression of `etw dump --where`, or ~TEXT for lines and rows that contain a text"),
    ("F", "remove the filter"),
    ("Enter", "details and stack of an event; events of a process, file or connection"),
    ("<  >  r", "sort tables by the previous or next column; reverse the order"),
    ("s", "save kept and new events of a session to a file; s again stops saving"),
    ("+  -", "double or halve the speed of a file"),
    ("q  Ctrl-C", "quit"),
];

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let lines: Vec<Text<'_>> = HELP
        .iter()
        .map(|(keys, what)| Text::from(vec![Span::styled(format!(" {keys:18}"), BOLD), Span::raw(*what)]))
        .collect();
    let height = (lines.len() as u16 + 2).min(area.height);
    let width = 120.min(area.width);
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    frame.render_widget(Clear, place);
    let block = Block::new().borders(Borders::ALL).title(" keys ");
    frame.render_widget(Paragraph::new(lines).block(block), place);
}

#[cfg(test)]
mod tests {
    use etw_kernel_events::classes::{CSwitch, DiskIo, DiskTransfer, ReadWriteEvent, TcpEvent, TcpIp};
    use etw_live::testing::{Filled, MS, endpoints};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::super::input::press;
    use super::*;

    /// A terminal of 120 columns and 12 lines with its contents.
    struct TestScreen {
        filled: Filled,
        app: App,
        terminal: Terminal<TestBackend>,
    }

    impl TestScreen {
        fn new(filled: Filled, view: View) -> TestScreen {
            TestScreen {
                filled,
                app: App::new(view),
                terminal: Terminal::new(TestBackend::new(120, 12)).unwrap(),
            }
        }

        fn press(&mut self, codes: &[KeyCode]) {
            for code in codes {
                press(KeyEvent::new(*code, KeyModifiers::NONE), &mut self.app, &mut self.filled.model);
            }
        }

        fn type_text(&mut self, text: &str) {
            text.chars().for_each(|character| self.press(&[KeyCode::Char(character)]));
        }

        /// Returns the lines of the terminal without trailing blanks.
        fn lines(&mut self) -> Vec<String> {
            let (app, model) = (&mut self.app, &mut self.filled.model);
            let body = app.body(model, body_rows(12, app));
            let (status, note) = (app.status(&model.counts), app.view.needs(model));
            let screen = Screen { body, status, note, title: "TITLE".to_owned(), is_replay: false };
            self.terminal.draw(|frame| draw(frame, app, &screen)).unwrap();
            let buffer = self.terminal.backend().buffer();
            let row =
                |y: u16| (0..120).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
            (0..12).map(row).collect()
        }

        /// Returns the selected line.
        fn selected(&mut self) -> String {
            let lines = self.lines();
            let buffer = self.terminal.backend().buffer();
            let is_selected = |y: &u16| buffer[(0, *y)].modifier.contains(Modifier::REVERSED);
            lines[usize::from((3..11).find(is_selected).unwrap())].clone()
        }
    }

    /// Splits a line into words.
    fn words(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    /// Ten processes; the first one reads ten files, the others run.
    fn filled() -> Filled {
        let mut filled = Filled::empty();
        for id in 1..=10 {
            filled.process(id, &format!("app{id}"));
        }
        for file in 0..10 {
            filled.name(0xF00 + file * 16, &format!("/file{file}"));
            filled.transfer(ReadWriteEvent::Read, 0xF00 + file * 16, 1, 100 + file as u32, 0);
        }
        filled
    }

    #[test]
    fn events_follow_the_newest() {
        let mut seen = TestScreen::new(filled(), View::Events);
        let lines = seen.lines();
        assert!(
            lines[0].starts_with(" 1 Events  2 Processes  3 Files  4 Network  5 Disks, CPUs")
                && lines[0].ends_with("TITLE")
        );
        assert_eq!(lines[1], " 0 events/s   50 events   0 lost");
        assert_eq!(
            words(&lines[2]),
            ["Time", "(UTC)", "Process", "PID", "TID", "Operation", "Detail", "Result", "Duration"]
        );
        assert_eq!(
            words(&lines[10]),
            [
                "21:20:00.009000",
                "app1",
                "1",
                "1",
                "FileIo/Read",
                "/file9",
                "Offset=0",
                "IoSiz",
                "SUCCESS",
                "1.0ms"
            ]
        );
        assert!(seen.selected().contains("/file9"));
        seen.filled.name(1, "/newest");
        assert!(seen.lines()[10].contains("/newest"));
        // After moving up, new events do not move the selection.
        seen.press(&[KeyCode::Up, KeyCode::Up]);
        let before = seen.lines();
        assert!(seen.selected().contains("/file9") && before[1].contains("not following"));
        seen.filled.name(2, "/later");
        assert_eq!(seen.lines()[3..11], before[3..11]);
        seen.press(&[KeyCode::End]);
        assert!(seen.lines()[10].contains("/later"));
        seen.press(&[KeyCode::Home]);
        assert!(seen.selected().contains("Process/Start") && seen.lines()[3].contains("app1 "));
    }

    #[test]
    fn space_lets_events_stand_still() {
        let mut seen = TestScreen::new(filled(), View::Events);
        seen.press(&[KeyCode::Char(' ')]);
        seen.filled.name(1, "/newest");
        assert!(seen.lines()[10].contains("/file9") && seen.lines()[1].contains("PAUSED"));
        seen.press(&[KeyCode::Up, KeyCode::End, KeyCode::Char(' ')]);
        assert!(seen.lines()[10].contains("/newest") && !seen.lines()[1].contains("PAUSED"));
    }

    #[test]
    fn texts_are_searched_and_filtered() {
        let mut seen = TestScreen::new(filled(), View::Events);
        seen.press(&[KeyCode::Char('/')]);
        seen.type_text("APP7");
        assert!(seen.lines()[11].starts_with("search: APP7"));
        seen.press(&[KeyCode::Enter]);
        assert!(seen.selected().contains("app7") && seen.selected().contains("Process/Start"));
        seen.press(&[KeyCode::Char('n')]);
        assert!(seen.selected().contains("Thread/Start"));
        seen.press(&[KeyCode::Char('n')]);
        assert!(seen.lines()[11].contains("'app7' is not found") && seen.selected().contains("Thread/Start"));
        seen.press(&[KeyCode::Char('N')]);
        assert!(seen.selected().contains("Process/Start"));

        seen.press(&[KeyCode::Char('f')]);
        seen.type_text("pid ==");
        assert!(seen.lines()[11].contains("column"), "{:?}", seen.lines());
        seen.press(&[KeyCode::Enter]);
        assert!(seen.app.prompt.is_some(), "an invalid filter is rejected");
        seen.type_text(" 7");
        assert!(!seen.lines()[11].contains("column"));
        seen.press(&[KeyCode::Enter]);
        let lines = seen.lines();
        assert!(lines[1].contains("filter: pid == 7"));
        assert!(lines[3].contains("app7") && lines[4].contains("app7") && lines[5].is_empty());
        seen.press(&[KeyCode::Char('F')]);
        assert!(seen.lines()[10].contains("/file9"));
        seen.press(&[KeyCode::Char('f')]);
        seen.type_text("x");
        seen.press(&[KeyCode::Backspace, KeyCode::Esc]);
        assert!(seen.lines()[10].contains("/file9"));
    }

    #[test]
    fn details_tell_all_fields() {
        let mut seen = TestScreen::new(filled(), View::Events);
        seen.press(&[KeyCode::Enter]);
        let lines = seen.lines();
        assert!(lines[6].contains("/file9") && lines[7].contains("details"), "{lines:?}");
        assert!(lines[8].starts_with("FileIo/Read  2024-01-17T21:20:00.0090000Z"), "{lines:?}");
        seen.press(&[KeyCode::PageDown]);
        let lines = seen.lines();
        assert!(lines[8].contains("file /file9") || lines[8].contains("ended: SUCCESS"), "{lines:?}");
        // Selecting another event shows its details.
        seen.press(&[KeyCode::Up]);
        assert!(seen.lines()[8].starts_with("FileIo/FileCreate"), "{:?}", seen.lines());
        seen.press(&[KeyCode::Esc]);
        assert!(seen.lines()[10].contains("/file9"));
    }

    #[test]
    fn processes_are_sorted_and_lead_to_their_events() {
        let mut filled = filled();
        filled.now = 0;
        filled.switch(0, 0, 5);
        filled.now = 600 * MS;
        filled.switch(0, 5, 3);
        filled.now = 1000 * MS;
        filled.on(0, &CSwitch { old_thread_id: 3, ..CSwitch::default() });
        filled.model.roll(1.0);
        let mut seen = TestScreen::new(filled, View::Processes);
        let lines = seen.lines();
        assert_eq!(words(&lines[2])[..5], ["PID", "Process", "User", "CPU", "%"]);
        assert_eq!(words(&lines[3])[..4], ["5", "app5", "1000", "60.0"]);
        assert_eq!(words(&lines[4])[..4], ["3", "app3", "1000", "40.0"]);
        assert!(lines[11].starts_with("10 rows"));
        // The next column is that of reads; the selected row stays the same when the order changes.
        seen.press(&[KeyCode::Down]);
        assert!(seen.selected().contains("app5"));
        seen.press(&[KeyCode::Char('>')]);
        let lines = seen.lines();
        assert_eq!(words(&lines[3])[..2], ["1", "app1"]);
        assert!(seen.selected().contains("app5"));
        seen.press(&[KeyCode::Char('<'), KeyCode::Char('<'), KeyCode::Char('<'), KeyCode::Char('r')]);
        assert_eq!(words(&seen.lines()[3])[..2], ["1", "app1"]);
        seen.press(&[KeyCode::Char('<'), KeyCode::Char('<')]);
        assert_eq!(words(&seen.lines()[3])[..2], ["1", "app1"], "{:?}", seen.lines());
        seen.press(&[KeyCode::Char('/')]);
        seen.type_text("app4");
        seen.press(&[KeyCode::Enter]);
        assert!(seen.selected().contains("app4"));
        seen.press(&[KeyCode::Enter]);
        let lines = seen.lines();
        assert!(lines[1].contains("filter: pid == 4"), "{lines:?}");
        assert!(lines[3].contains("app4") && lines[4].contains("app4") && lines[5].is_empty());
    }

    #[test]
    fn files_network_and_disks_are_tables() {
        let mut filled = filled();
        let (process_id, sequence_number, connection_id) = (2, 0, 1);
        for port in [5000, 5001] {
            let (event, len_bytes, endpoints) = (TcpEvent::Receive, u32::from(port), endpoints(port));
            filled.on(0, &TcpIp { event, process_id, len_bytes, endpoints, sequence_number, connection_id });
        }
        let done = DiskIo {
            transfer: DiskTransfer::Read,
            disk_number: 8 << 20,
            irp_flags: 0,
            transfer_size: 4096,
            byte_offset: 0,
            file_object: 0,
            irp: 1,
            response_time: 20_000,
            issuing_thread_id: 1,
        };
        filled.on(0, &done);
        filled.switch(0, 0, 1);
        filled.now += 500 * MS;
        filled.switch(0, 1, 0);
        filled.model.roll(1.0);
        let mut seen = TestScreen::new(filled, View::Files);
        let lines = seen.lines();
        assert_eq!(words(&lines[2])[..3], ["Path", "Reads", "Bytes"]);
        // The first read was counted with its requested size, twice the bytes read.
        assert_eq!(
            words(&lines[3]),
            ["/file0", "1", "200", "200", "0", "-", "-", "0", "1.0ms", "1.0ms", "app1"]
        );
        assert_eq!(words(&lines[4])[..3], ["/file9", "1", "109"]);
        seen.press(&[KeyCode::Char('f')]);
        seen.type_text("~file3");
        seen.press(&[KeyCode::Enter]);
        let lines = seen.lines();
        assert!(lines[3].starts_with("/file3") && lines[4].is_empty());
        seen.press(&[KeyCode::Char('F'), KeyCode::Tab]);
        let lines = seen.lines();
        assert_eq!(words(&lines[2])[..4], ["PID", "Process", "Local", "Remote"]);
        assert_eq!(words(&lines[3])[..5], ["2", "app2", "TCP", "10.0.0.1:5001", "10.0.0.2:80"]);
        assert_eq!(words(&lines[4])[3], "10.0.0.1:5000");
        seen.press(&[KeyCode::Char('5')]);
        let lines = seen.lines();
        assert_eq!(words(&lines[2])[..2], ["Disk", "Reads/s"]);
        assert_eq!(words(&lines[3])[..3], ["8:0", "1", "4K"]);
        let processors = lines.iter().position(|line| line.trim_start().starts_with("CPU ")).unwrap();
        assert_eq!(words(&lines[processors + 1])[..2], ["0", "50.0"]);
    }

    #[test]
    fn what_is_missing_is_said() {
        let mut seen = TestScreen::new(Filled::empty(), View::Files);
        assert!(seen.lines()[1].contains("-k FILE_IO+FILE_IO_INIT"));
        seen.press(&[KeyCode::Char('4')]);
        assert!(seen.lines()[1].contains("-k NETWORKTRACE"));
        seen.press(&[KeyCode::Char('5')]);
        assert!(seen.lines()[1].contains("DISK_IO"));
        seen.press(&[KeyCode::Char('2')]);
        assert!(seen.lines()[1].contains("CSWITCH or PROFILE"));
        // Keys are harmless in an empty view.
        seen.press(&[KeyCode::Enter, KeyCode::Up, KeyCode::End, KeyCode::Char('n'), KeyCode::Char('r')]);
        seen.press(&[KeyCode::Char('1'), KeyCode::Enter, KeyCode::Up, KeyCode::PageDown, KeyCode::Char('N')]);
        assert_eq!(seen.lines()[1], " 0 events/s   0 events   0 lost");
    }

    #[test]
    fn losses_are_red() {
        let mut filled = filled();
        filled.model.counts.lost = 1234;
        let mut seen = TestScreen::new(filled, View::Events);
        let at = seen.lines()[1].find("1,234 lost").unwrap() as u16;
        assert_eq!(seen.terminal.backend().buffer()[(at, 1)].fg, Color::Red);
    }

    #[test]
    fn help_and_end() {
        let mut seen = TestScreen::new(filled(), View::Events);
        seen.press(&[KeyCode::Char('?')]);
        let lines = seen.lines();
        assert!(lines.iter().any(|line| line.contains("search a text")), "{lines:?}");
        seen.press(&[KeyCode::Char('?')]);
        assert!(seen.lines()[10].contains("/file9"));
        seen.press(&[KeyCode::Char('s')]);
        seen.type_text("x");
        seen.press(&[KeyCode::Enter]);
        assert_eq!(seen.app.save.take().as_deref(), Some("watch.etlx"));
        assert!(!seen.app.is_over);
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        press(key, &mut seen.app, &mut seen.filled.model);
        assert!(seen.app.is_over);
    }

    #[test]
    fn no_terminal_is_too_small() {
        let mut filled = filled();
        for (width, height) in [(1, 1), (5, 3), (20, 4), (300, 5)] {
            for view in View::ALL {
                let mut app = App::new(view);
                app.act(super::super::app::Command::Open, &mut filled.model);
                app.is_help = true;
                let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
                let body = app.body(&mut filled.model, body_rows(height, &app));
                let screen =
                    Screen { body, status: Vec::new(), note: None, title: String::new(), is_replay: true };
                terminal.draw(|frame| draw(frame, &app, &screen)).unwrap();
            }
        }
    }
}
