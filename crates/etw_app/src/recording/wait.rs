//! What ends a recording: the program's end, time, Ctrl-C, a trigger; and what has a file written meanwhile.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use etw_sys::poll::wait_readable;
use etw_sys::signals::{Signal, watch};

/// How often is looked how the session is.
const TICK: Duration = Duration::from_millis(500);

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The program ended with this exit status.
    Exited(u8),
    /// The time is over, or the user wants no more.
    Ended,
    /// An event met the trigger.
    Triggered,
    /// What there is, is to be written (SIGUSR1).
    Dump,
    /// Nothing for a while.
    Tick,
}

/// What signals and threads tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Event(Event),
    /// Ctrl-C.
    Interrupted,
}

/// Where an event can be sent from another thread.
pub struct EventSender(Sender<Told>);

impl EventSender {
    /// Sends it; whether somebody still waits.
    pub fn send(&self, event: Event) -> bool {
        self.0.send(Told::Event(event)).is_ok()
    }
}

/// Waits for events.
pub struct Waiting {
    sender: Sender<Told>,
    receiver: Receiver<Told>,
    end: Option<Instant>,
    has_program: bool,
    /// Whether the user has pressed Ctrl-C and the program's end is waited for.
    is_interrupted: bool,
}

impl Waiting {
    /// Begins to look for signals.
    ///
    /// # Errors
    /// Signals cannot be waited for.
    pub fn new() -> Result<Waiting> {
        let (sender, receiver) = channel();
        let of = |signals| watch(signals).context("cannot wait for signals");
        let told = [
            (of(&[Signal::Interrupt])?, Told::Interrupted),
            (of(&[Signal::Terminate, Signal::Hangup])?, Told::Event(Event::Ended)),
            (of(&[Signal::User1])?, Told::Event(Event::Dump)),
        ];
        let signals = sender.clone();
        let look = move || {
            let [(a, _), (b, _), (c, _)] = &told;
            while let Ok(ready) = wait_readable([a.as_fd(), b.as_fd(), c.as_fd()], None) {
                for ((event, told), _) in told.iter().zip(ready).filter(|(_, is_ready)| *is_ready) {
                    if event.drain() > 0 && signals.send(*told).is_err() {
                        return;
                    }
                }
            }
        };
        thread::Builder::new().name("signals".into()).spawn(look)?;
        Ok(Waiting { sender, receiver, end: None, has_program: false, is_interrupted: false })
    }

    /// Where events can be sent from elsewhere.
    pub fn sender(&self) -> EventSender {
        EventSender(self.sender.clone())
    }

    /// Starts the program.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn run(&mut self, command: &[OsString]) -> Result<()> {
        let (program, arguments) = command.split_first().ok_or_else(|| anyhow!("no program"))?;
        let image = program.to_string_lossy().into_owned();
        let mut child = Command::new(program).args(arguments).spawn().map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => "; is its name right, or is ./ missing?",
                io::ErrorKind::PermissionDenied => "; may it be executed?",
                _ => "",
            };
            anyhow!("'{image}' cannot be started: {error}{hint}")
        })?;
        self.has_program = true;
        let exited = self.sender();
        let wait = move || {
            // A program that a signal ended has the status that shells give it.
            let status = child
                .wait()
                .map_or(1, |status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
            exited.send(Event::Exited(status as u8));
        };
        thread::Builder::new().name("program".into()).spawn(wait)?;
        Ok(())
    }

    /// Waits until then at most.
    pub fn end_at(&mut self, end: Option<Instant>) {
        self.end = end;
    }

    /// Waits no longer than until Ctrl-C from now on.
    pub fn forget_end(&mut self) {
        (self.end, self.has_program) = (None, false);
    }

    /// Waits for the next event; [`Event::Tick`] if nothing happens for half a second.
    ///
    /// # Errors
    /// The thread that looks for signals has ended.
    pub fn wait(&mut self) -> Result<Event> {
        loop {
            let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
            return match self.receiver.recv_timeout(left.map_or(TICK, |left| left.min(TICK))) {
                Ok(Told::Event(event)) => Ok(event),
                // The terminal has told the program too, whose last events belong to the recording.
                Ok(Told::Interrupted) if self.has_program && !self.is_interrupted => {
                    self.is_interrupted = true;
                    eprintln!("etw: waiting for the program to end; Ctrl-C again ends the recording at once");
                    continue;
                }
                Ok(Told::Interrupted) => Ok(Event::Ended),
                Err(RecvTimeoutError::Timeout) if left.is_some_and(|left| left <= TICK) => Ok(Event::Ended),
                Err(RecvTimeoutError::Timeout) => Ok(Event::Tick),
                Err(error) => Err(error.into()),
            };
        }
    }
}
