//! The honest program and the honest consumer.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use etw_provider::{Outcome, provider};
use openetw::{EventDescriptor, Guid, Level, Trace};

use shell::process::Process;

use super::PROVIDER;

provider!(static NEIGHBOURS: "OpenETW.Torture.Neighbours");

const EVENT: EventDescriptor = EventDescriptor { id: 1, level: Level::INFORMATION, ..EventDescriptor::ZERO };
/// Ten events each millisecond.
const PAUSE: Duration = Duration::from_millis(1);
const AT_ONCE: u64 = 10;

/// Writes 10,000 numbered events a second from the line `begin` on its input to the line `end`, then prints their number.
#[derive(Args)]
pub(crate) struct Writer {}

impl Writer {
    pub(crate) fn run(&self) -> Result<()> {
        NEIGHBOURS.register();
        let mut line = String::new();
        std::io::stdin().read_line(&mut line)?;
        ensure!(line.trim() == "begin", "not begun");
        ensure!(NEIGHBOURS.is_enabled(), "no session has enabled the provider");
        let end = thread::spawn(|| std::io::stdin().read_line(&mut String::new()).is_ok());
        let (mut number, begun) = (0u64, Instant::now());
        while !end.is_finished() {
            let due = begun.elapsed().as_millis() as u64 * AT_ONCE;
            while number < due {
                // A lost one is not written again: the sessions must have counted it.
                ensure!(
                    NEIGHBOURS.write(&EVENT, &number) == Outcome::Written,
                    "event {number} was not written"
                );
                number += 1;
            }
            thread::sleep(PAUSE);
        }
        println!("{number}");
        Ok(())
    }
}

/// Prints `begun`, and at the end of a session how many of the honest program's events it delivered, if none is missing.
#[derive(Args)]
pub(crate) struct Consumer {
    session: String,
}

impl Consumer {
    pub(crate) fn run(&self) -> Result<()> {
        let mut trace = Trace::open_session(&self.session)?;
        println!("begun");
        let (provider, mut next) = (Guid::from_provider_name(PROVIDER), 0u64);
        let mut wrong = None;
        trace.for_each_record(|record| {
            if record.provider_id() == provider {
                let number = record.payload().first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
                if number != Some(next) {
                    wrong.get_or_insert((number, next));
                }
                next += 1;
            }
        })?;
        ensure!(wrong.is_none(), "another event than expected: {wrong:?}");
        println!("{next}");
        Ok(())
    }
}

/// An honest process, and the pipes to it.
pub(super) struct Honest {
    process: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Honest {
    pub(super) fn new(mut process: Process) -> Result<Honest> {
        let input = process.take_stdin().context("the process has no input")?;
        let output = BufReader::new(process.take_stdout().context("the process has no output")?);
        Ok(Honest { process, input, output })
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Writes a line to it.
    pub(super) fn tell(&mut self, line: &str) -> Result<()> {
        Ok(writeln!(self.input, "{line}")?)
    }

    /// Waits until it prints a line.
    pub(super) fn hear(&mut self, expected: &str) -> Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(line.trim() == expected, "'{}' instead of {expected}", line.trim());
        Ok(())
    }

    /// Waits for its end; it prints a number.
    pub(super) fn number(mut self) -> Result<u64> {
        let mut text = String::new();
        self.output.read_to_string(&mut text)?;
        let status = self.process.wait()?;
        ensure!(status.success(), "an honest process ended with {status}");
        Ok(text.trim().parse()?)
    }
}

/// Asks a process to end (SIGTERM).
pub(super) fn terminate(process: &Process) -> Result<()> {
    let id = process.id().to_string();
    let status = std::process::Command::new("kill").args(["-TERM", &id]).status()?;
    ensure!(status.success(), "kill: {status}");
    Ok(())
}
