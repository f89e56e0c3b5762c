//! `etw watch`: what happens, as it happens.
//!
//! One thread takes in what a session sends and puts it into the [`model`]; another one draws what of it is in view.
//! They share the model for as long as it takes to copy what is drawn, so that neither waits for the terminal but the
//! one that draws.

mod app;
mod batch;
mod draw;
mod feed;
mod input;
mod model;
mod save;
mod session;

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use etw_sys::EventFd;
use etw_sys::signals::{Signal, watch};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event;

use crate::args::FilterArgs;
use crate::args::watch::WatchArgs;
use crate::commands::record::embed;
use crate::schemas::Schemas;
use crate::text::grouped;
use crate::{UsageError, input as inputs, output};
use app::App;
pub(crate) use app::View;
use draw::Screen;
use feed::Feed;
use model::filter::Base;
use save::Saving;
use session::Session;

/// How long the terminal is left as it is while no key is pressed.
const FRAME: Duration = Duration::from_millis(200);
/// How long a period of rates is.
const PERIOD: Duration = Duration::from_secs(1);

/// Runs the command.
pub(crate) fn run(args: &WatchArgs) -> Result<()> {
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if args.batch.is_none() && !is_terminal {
        bail!(UsageError(
            "`etw watch` needs a terminal; `etw watch --batch N` prints its tables as text, `etw dump -s SESSION` events"
                .to_owned()
        ));
    }
    let schemas = Schemas::load(&args.schemas)?;
    let providers = if args.session.is_some() { args.provider.clone() } else { Vec::new() };
    let filter = FilterArgs {
        provider: providers,
        event: args.event.clone(),
        pid: args.pid.clone(),
        tid: args.tid.clone(),
        process: args.process.clone(),
        condition: args.condition.clone(),
        ..FilterArgs::default()
    };
    let filter = inputs::compile(&filter, &schemas)?;
    let is_quiet = args.session.is_none() && args.kernel.is_none();
    let base = Base::new(&filter, is_quiet);
    let signals = watch(&[Signal::Interrupt, Signal::Terminate, Signal::Hangup]);
    let signals = signals.context("cannot wait for signals")?;
    let mut session = Session::begin(args, &schemas)?;
    let watched = watch_session(args, &mut session, &schemas, base, &signals);
    let ended = session.end();
    let completed = session.file().map_or(Ok(()), |path| complete(path, &schemas, &session.processes()));
    session.serve_others()?;
    watched.and(ended).and(completed)
}

fn watch_session(
    args: &WatchArgs,
    session: &mut Session,
    schemas: &Schemas,
    base: Base,
    signals: &EventFd,
) -> Result<()> {
    let mut feed = Feed::start(&session.name, &schemas.sources(), args.keep, base)?;
    if session.file().is_none()
        && let Some(path) = &args.output
    {
        begin_saving(&feed, path)?;
    }
    let shown = match args.batch {
        Some(times) => batch::run(&feed, times, args, signals),
        None => in_terminal(&feed, session, schemas, args.view, signals),
    };
    feed.stop();
    let saving = feed.shared.lock().saving.take();
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

/// Draws until the user has seen enough. The terminal is as it was afterwards, also after a panic.
fn in_terminal(
    feed: &Feed,
    session: &mut Session,
    schemas: &Schemas,
    view: View,
    signals: &EventFd,
) -> Result<()> {
    let terminal = ratatui::try_init();
    let shown = terminal.context("cannot use the terminal").and_then(|mut terminal| {
        Watching { feed, session, schemas, app: App::new(view), signals }.run(&mut terminal)
    });
    ratatui::restore();
    shown
}

/// What the thread that draws has.
struct Watching<'w> {
    feed: &'w Feed,
    session: &'w mut Session,
    schemas: &'w Schemas,
    app: App,
    signals: &'w EventFd,
}

impl Watching<'_> {
    fn run(&mut self, terminal: &mut DefaultTerminal) -> Result<()> {
        let mut period = Instant::now();
        let mut trouble = None;
        loop {
            if period.elapsed() >= PERIOD {
                if self.app.paused.is_none() {
                    self.feed.shared.lock().model.roll(period.elapsed().as_secs_f64());
                }
                trouble = self.session.trouble();
                period = Instant::now();
            }
            let size = terminal.size()?;
            let screen = self.screen(draw::body_rows(size.height, &self.app), trouble.as_deref());
            terminal.draw(|frame| draw::draw(frame, &self.app, &screen))?;
            let wait = if self.app.is_searching() { Duration::ZERO } else { FRAME };
            // One drawing is enough for all keys that are pressed already.
            let mut is_pressed = event::poll(wait)?;
            while is_pressed {
                if let event::Event::Key(key) = event::read()? {
                    self.press(key);
                }
                is_pressed = event::poll(Duration::ZERO)?;
            }
            if self.app.is_searching() {
                let mut inner = self.feed.shared.lock();
                self.app.go_on(&mut inner.model);
            }
            if self.app.is_over || self.signals.drain() > 0 {
                return Ok(());
            }
            if self.feed.is_broken() {
                bail!("the thread that takes in events has ended");
            }
        }
    }

    fn press(&mut self, key: event::KeyEvent) {
        let is_saving = self.feed.shared.lock().saving.is_some();
        let is_end = is_saving && self.app.prompt.is_none() && key.code == event::KeyCode::Char('s');
        if is_end {
            let saving = self.feed.shared.lock().saving.take();
            self.app.message = saving.map(|mut saving| {
                let processes = self.session.processes();
                let done =
                    saving.finish().and_then(|()| make_readable(&saving.path, self.schemas, &processes));
                done.unwrap_or_else(|error| format!("{error:#}"))
            });
            return;
        }
        input::press(key, &mut self.app, &mut self.feed.shared.lock().model);
        if let Some(path) = self.app.save.take() {
            let begun = begin_saving(self.feed, Path::new(&path));
            self.app.message = begun.err().map(|error| format!("{error:#}"));
        }
    }

    /// What there is to see now.
    fn screen(&mut self, rows: usize, trouble: Option<&str>) -> Screen {
        let mut inner = self.feed.shared.lock();
        let body = self.app.body(&mut inner.model, rows);
        let mut status = self.app.status(&inner.model.counts);
        status.extend(inner.saving.as_ref().map(saving_text));
        status.extend(self.session.file().map(|path| (format!("writing {}", path.display()), false)));
        status.extend(trouble.map(|text| (text.to_owned(), true)));
        match &inner.ended {
            Some(Ok(())) => status.push(("the session has ended".to_owned(), true)),
            Some(Err(error)) => status.push((error.to_string(), true)),
            None => {}
        }
        let note = self.app.view.needs(inner.model.state.seen);
        Screen { body, status, note, title: self.session.title.clone() }
    }
}

fn saving_text(saving: &Saving) -> (String, bool) {
    let failed =
        saving.failed.as_ref().map(|(count, why)| format!(", {count} not: {why}")).unwrap_or_default();
    let text = format!("saving to {}: {} events{failed}", saving.path.display(), grouped(saving.events));
    (text, saving.failed.is_some())
}

/// Begins a file with what is kept; what comes goes into it from now on.
fn begin_saving(feed: &Feed, path: &Path) -> Result<()> {
    let mut saving = Saving::begin(path, &feed.header)?;
    let mut inner = feed.shared.lock();
    inner.model.for_each_kept(|record| saving.write(record));
    inner.saving = Some(saving);
    Ok(())
}

/// Adds to a file what is needed to read it elsewhere, and says what is in it.
fn complete(path: &Path, schemas: &Schemas, processes: &embed::Processes) -> Result<()> {
    eprintln!("etw: {}", make_readable(path, schemas, processes)?);
    Ok(())
}

/// Adds to a file what is needed to read it elsewhere; answers what is in it.
fn make_readable(path: &Path, schemas: &Schemas, processes: &embed::Processes) -> Result<String> {
    let contents = embed::look_through(path, schemas)?;
    let added = embed::append(path, &contents, processes);
    let missing = added.err().map(|error| format!("; without schemas and processes: {error:#}"));
    let (events, verdict) = (grouped(contents.events), contents.verdict());
    Ok(format!("{}: {events} events, {verdict}{}", path.display(), missing.unwrap_or_default()))
}
