//! The live view of a machine's events, and the same view of files.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! [`run`] is the command `etw watch`. Live sessions exist on Linux and Windows only; elsewhere this crate is empty.
//!
//! One thread reads the events of a session or of files and adds them to the model; another thread draws the visible part.
//! The drawing thread locks the model only to copy what it draws, so the reading thread never waits for the terminal.

#![forbid(unsafe_code)]
#![cfg(any(target_os = "linux", windows))]

mod app;
mod batch;
mod draw;
mod input;
mod replay;
mod signals;

use std::fs::File;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use etw_app::pipes::is_standard_input;
use etw_app::schemas::Schemas;
use etw_app::text::grouped;
use etw_app::{UsageError, output};
use etw_live::{Feed, PERIOD, Saving, Session, View, make_readable};
use openetw::EventFilter;
use openetw::recording::Processes;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event;

use app::App;
use draw::Screen;
use signals::Signals;

/// Time between screen updates while no key is pressed.
const FRAME: Duration = Duration::from_millis(200);

/// Options of the live view.
#[derive(Debug, Clone)]
pub struct Options {
    /// The session, and which of its events are kept.
    pub live: etw_live::Options,
    /// Trace files to show instead of a session; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// Multiple of the recorded speed at which files are replayed; `None` for as fast as possible.
    pub speed: Option<f64>,
    /// First view; with `batch`, the view to print.
    pub view: View,
    /// Number of times to print the view as text, once per second (of the trace, for files), instead of using the
    /// terminal; 0 means until Ctrl-C or the end of the files.
    pub batch: Option<u64>,
    /// Maximum number of rows per table that `batch` prints.
    pub rows: usize,
}

/// Shows a session or files until the user quits, or until the view has been printed `batch` times.
///
/// # Errors
///
/// Fails without a terminal, for an invalid option or files of several machines ([`UsageError`]), if the session cannot
/// be started or watched, or if a file cannot be read or written.
pub fn run(options: &Options) -> Result<()> {
    if options.batch.is_none() && !has_terminal(&options.files) {
        let dump = if options.files.is_empty() { "-s SESSION" } else { "FILE" };
        bail!(UsageError(format!(
            "`etw watch` needs a terminal; `etw watch --batch N` prints tables as text, `etw dump {dump}` prints events"
        )));
    }
    let schemas = Schemas::load(&options.live.schemas)?;
    let filter = options.live.filter(&schemas)?;
    if !options.files.is_empty() {
        return replay::run(options, &schemas, &filter);
    }
    let signals = Signals::new()?;
    let mut session = Session::begin(&options.live, &schemas)?;
    let watched = watch_session(options, &mut session, &schemas, &filter, &signals);
    let ended = session.end();
    let completed = session.file().map_or(Ok(()), |path| complete(path, &schemas, &session.processes()));
    session.serve_others()?;
    watched.and(ended).and(completed)
}

/// Whether the view can be drawn and keys can be read.
fn has_terminal(files: &[PathBuf]) -> bool {
    let has_keys = match files.iter().any(|file| is_standard_input(file)) {
        // Keys then come from the terminal that controls the process.
        true => File::open("/dev/tty").is_ok(),
        false => std::io::stdin().is_terminal(),
    };
    has_keys && std::io::stdout().is_terminal()
}

fn watch_session(
    options: &Options,
    session: &mut Session,
    schemas: &Schemas,
    filter: &EventFilter,
    signals: &Signals,
) -> Result<()> {
    let mut feed = Feed::of_session(session, &options.live, schemas, filter)?;
    if session.file().is_none()
        && let Some(path) = &options.live.output
    {
        begin_saving(&feed, path)?;
    }
    let shown = match options.batch {
        Some(times) => batch::run(&feed, times, options, signals),
        None => in_terminal(&feed, session, schemas, options.view, signals),
    };
    feed.stop();
    let saving = feed.lock().saving.take();
    let saved = saving.map_or(Ok(()), |mut saving| {
        saving.finish()?;
        if let Some((count, why)) = &saving.failed {
            output::warn(&format_args!(
                "{}: {count} events could not be saved: {why}",
                saving.path.display()
            ));
        }
        complete(&saving.path, schemas, &session.processes())
    });
    shown.and(saved)
}

/// Draws until the user quits. The terminal is restored at the end, even after a panic.
fn in_terminal(
    feed: &Feed,
    session: &mut Session,
    schemas: &Schemas,
    view: View,
    signals: &Signals,
) -> Result<()> {
    let terminal = ratatui::try_init();
    let shown = terminal.context("cannot use the terminal").and_then(|mut terminal| {
        Watching { feed, session, schemas, app: App::new(view), signals }.run(&mut terminal)
    });
    ratatui::restore();
    shown
}

/// State of the drawing thread.
struct Watching<'w> {
    feed: &'w Feed,
    session: &'w mut Session,
    schemas: &'w Schemas,
    app: App,
    signals: &'w Signals,
}

impl Watching<'_> {
    fn run(&mut self, terminal: &mut DefaultTerminal) -> Result<()> {
        let mut period = Instant::now();
        let mut trouble = None;
        loop {
            if period.elapsed() >= PERIOD {
                if self.app.paused.is_none() && self.feed.pace().is_none() {
                    self.feed.lock().model.roll(period.elapsed().as_secs_f64());
                }
                trouble = self.session.trouble();
                period = Instant::now();
            }
            let size = terminal.size()?;
            let screen = self.screen(draw::body_rows(size.height, &self.app), trouble.as_deref());
            terminal.draw(|frame| draw::draw(frame, &self.app, &screen))?;
            let wait = if self.app.is_searching() { Duration::ZERO } else { FRAME };
            // Handle all pending keys before drawing.
            let mut is_pressed = event::poll(wait)?;
            while is_pressed {
                if let event::Event::Key(key) = event::read()? {
                    self.press(key);
                }
                is_pressed = event::poll(Duration::ZERO)?;
            }
            if self.app.is_searching() {
                let mut state = self.feed.lock();
                self.app.go_on(&mut state.model);
            }
            if self.app.is_over || self.signals.have_come() {
                return Ok(());
            }
            if self.feed.is_broken() {
                bail!("the thread that reads events has exited");
            }
        }
    }

    fn press(&mut self, key: event::KeyEvent) {
        let is_save = self.app.prompt.is_none() && key.code == event::KeyCode::Char('s');
        if is_save && self.feed.pace().is_some() {
            self.app.message =
                Some("only events of a session are saved; `etw relog` copies those of files".to_owned());
            return;
        }
        if is_save && self.feed.lock().saving.is_some() {
            let saving = self.feed.lock().saving.take();
            self.app.message = saving.map(|mut saving| {
                let processes = self.session.processes();
                let done =
                    saving.finish().and_then(|()| make_readable(&saving.path, self.schemas, &processes));
                done.unwrap_or_else(|error| format!("{error:#}"))
            });
            return;
        }
        input::press(key, &mut self.app, &mut self.feed.lock().model);
        let is_faster = self.app.is_faster.take();
        match self.feed.pace() {
            Some(pace) => {
                pace.pause(self.app.paused.is_some());
                is_faster.into_iter().for_each(|is_faster| pace.step(is_faster));
            }
            None if is_faster.is_some() => self.app.message = Some("a session has no speed".to_owned()),
            None => {}
        }
        if let Some(path) = self.app.save.take() {
            let begun = begin_saving(self.feed, Path::new(&path));
            self.app.message = begun.err().map(|error| format!("{error:#}"));
        }
    }

    /// Returns the current contents of the screen.
    fn screen(&mut self, rows: usize, trouble: Option<&str>) -> Screen {
        let mut state = self.feed.lock();
        let body = self.app.body(&mut state.model, rows);
        let mut status = self.app.status(&state.model.counts);
        status.extend(state.saving.as_ref().map(saving_text));
        status.extend(self.session.file().map(|path| (format!("writing {}", path.display()), false)));
        status.extend(trouble.map(|text| (text.to_owned(), true)));
        match (&state.ended, self.feed.pace()) {
            (Some(Err(error)), _) => status.push((error.to_string(), true)),
            (Some(Ok(())), Some(_)) => status.push(("end of the trace".to_owned(), false)),
            (Some(Ok(())), None) => status.push(("the session has stopped".to_owned(), true)),
            (None, Some(pace)) => status.push((pace.text(), false)),
            (None, None) => {}
        }
        let note = self.app.view.needs(&state.model);
        let is_replay = self.feed.pace().is_some();
        Screen { body, status, note, title: self.session.title().to_owned(), is_replay }
    }
}

fn saving_text(saving: &Saving) -> (String, bool) {
    let failed =
        saving.failed.as_ref().map(|(count, why)| format!(", {count} not: {why}")).unwrap_or_default();
    let text = format!("saving to {}: {} events{failed}", saving.path.display(), grouped(saving.events));
    (text, saving.failed.is_some())
}

/// Starts saving: writes the kept events to a file, and then all new events.
fn begin_saving(feed: &Feed, path: &Path) -> Result<()> {
    let mut saving = Saving::begin(path, feed.header())?;
    let mut state = feed.lock();
    state.model.for_each_kept(|record| saving.write(record));
    state.saving = Some(saving);
    Ok(())
}

/// Makes a file readable on other machines, and prints what it contains.
fn complete(path: &Path, schemas: &Schemas, processes: &Processes) -> Result<()> {
    etw_app::say!("etw: {}", make_readable(path, schemas, processes)?);
    Ok(())
}
