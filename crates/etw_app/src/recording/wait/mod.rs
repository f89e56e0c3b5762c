//! Events that end a recording (exit of the program, time, Ctrl-C, a trigger) or write a file meanwhile.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

use std::ffi::OsString;
use std::io;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

/// Interval of checks of the session.
const TICK: Duration = Duration::from_millis(500);

/// An event during a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The program exited with this status.
    Exited(u8),
    /// The time is over, or the user pressed Ctrl-C.
    Ended,
    /// An event matched the trigger.
    Triggered,
    /// Request to write the events recorded so far (SIGUSR1).
    Dump,
    /// No event during the check interval.
    Tick,
}

/// A message from the signal thread or another thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Message {
    Event(Event),
    /// Ctrl-C.
    Interrupted,
}

/// A handle to send events from another thread.
pub struct EventSender(Sender<Message>);

impl EventSender {
    /// Sends an event, and returns whether the receiver still waits.
    pub fn send(&self, event: Event) -> bool {
        self.0.send(Message::Event(event)).is_ok()
    }
}

/// The receiver of the events.
pub struct Waiting {
    sender: Sender<Message>,
    receiver: Receiver<Message>,
    end: Option<Instant>,
    has_program: bool,
    /// Whether the user pressed Ctrl-C and the program is about to exit.
    is_interrupted: bool,
}

impl Waiting {
    /// Starts to listen for signals.
    ///
    /// # Errors
    ///
    /// Fails if the signal handler cannot be installed.
    pub fn new() -> Result<Waiting> {
        let (sender, receiver) = channel();
        system::listen(sender.clone())?;
        Ok(Waiting { sender, receiver, end: None, has_program: false, is_interrupted: false })
    }

    /// Returns a handle to send events from other threads.
    pub fn sender(&self) -> EventSender {
        EventSender(self.sender.clone())
    }

    /// Starts the program.
    ///
    /// # Errors
    ///
    /// Fails if the program cannot be started.
    pub fn run(&mut self, command: &[OsString]) -> Result<()> {
        let (program, arguments) = command.split_first().ok_or_else(|| anyhow!("no program"))?;
        let image = program.to_string_lossy().into_owned();
        let mut child = Command::new(program).args(arguments).spawn().map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => "; check the name, or add ./",
                io::ErrorKind::PermissionDenied => "; check its execute permission",
                _ => "",
            };
            anyhow!("'{image}' cannot be started: {error}{hint}")
        })?;
        self.has_program = true;
        let exited = self.sender();
        let wait = move || {
            let status = child.wait().map_or(1, |status| system::status_of(&status));
            exited.send(Event::Exited(status));
        };
        thread::Builder::new().name("program".into()).spawn(wait)?;
        Ok(())
    }

    /// Sets the time at which the recording ends; `None` for no limit.
    pub fn end_at(&mut self, end: Option<Instant>) {
        self.end = end;
    }

    /// Removes the time limit and the program, so that only Ctrl-C ends the waiting.
    pub fn forget_end(&mut self) {
        (self.end, self.has_program) = (None, false);
    }

    /// Waits for the next event; returns [`Event::Tick`] after half a second without one.
    ///
    /// # Errors
    ///
    /// Fails if the signal thread has ended.
    pub fn wait(&mut self) -> Result<Event> {
        loop {
            let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
            return match self.receiver.recv_timeout(left.map_or(TICK, |left| left.min(TICK))) {
                Ok(Message::Event(event)) => Ok(event),
                // The terminal has sent Ctrl-C to the program too; its last events belong to the recording.
                Ok(Message::Interrupted) if self.has_program && !self.is_interrupted => {
                    self.is_interrupted = true;
                    crate::say!("etw: waiting for the program to end; Ctrl-C again stops the recording now");
                    continue;
                }
                Ok(Message::Interrupted) => Ok(Event::Ended),
                Err(RecvTimeoutError::Timeout) if left.is_some_and(|left| left <= TICK) => Ok(Event::Ended),
                Err(RecvTimeoutError::Timeout) => Ok(Event::Tick),
                Err(error) => Err(error.into()),
            };
        }
    }
}
