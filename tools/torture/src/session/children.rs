//! Processes of a round.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use etw_provider::{Outcome, provider};
use etw_sys::SharedWords;
use openetw::session::{Host, HostOptions, Instance};
use openetw::{EventDescriptor, Guid, Level, Trace};

use super::super::ledger::{Attempt, Entry};
use shell::process::{MINUTES_2, Process};

provider!(static TORTURE: "OpenETW.Torture");

/// Name of the provider.
pub(super) const PROVIDER: &str = "OpenETW.Torture";

const EVENT: EventDescriptor = EventDescriptor { id: 1, level: Level::INFORMATION, ..EventDescriptor::ZERO };
/// Text, of which events contain parts, so that record sizes differ.
const TEXT: &str = "a text, of which events have different parts";

/// The provider's process.
#[derive(Args)]
pub(crate) struct Writer {
    /// File of the ledger; its first word counts the started processes.
    ledger: String,
    /// Number of the first thread.
    first: usize,
    threads: usize,
}

impl Writer {
    pub(crate) fn run(&self) -> Result<()> {
        let file = File::options().read(true).write(true).open(&self.ledger)?;
        let ledger = SharedWords::map(file)?;
        TORTURE.register();
        ensure!(TORTURE.is_enabled(), "no session has enabled the provider");
        thread::scope(|scope| {
            for thread in self.first..self.first + self.threads {
                let entry = Entry::new(&ledger[1..], thread);
                scope.spawn(move || {
                    loop {
                        entry.record(|number| {
                            let text = &TEXT[..number as usize % TEXT.len()];
                            match TORTURE.write(&EVENT, &(thread as u64, number, text)) {
                                Outcome::Written => Attempt::Taken,
                                Outcome::NotEnabled => Attempt::Unwanted,
                                _ => Attempt::Refused,
                            }
                        });
                    }
                });
            }
            ledger[0].fetch_add(1, SeqCst);
        });
        Ok(())
    }
}

/// The consumer's process.
#[derive(Args)]
pub(crate) struct Consumer {
    session: String,
    /// File for the events.
    out: PathBuf,
    #[arg(long)]
    slow: bool,
}

impl Consumer {
    pub(crate) fn run(&self) -> Result<()> {
        let mut trace = Trace::open_session(&self.session)?;
        println!("begun");
        let mut out = BufWriter::new(File::create(&self.out)?);
        let mut result = Ok(());
        let mut count = 0u64;
        take_events(&mut trace, |thread, number| {
            count += 1;
            if self.slow && count.is_multiple_of(1000) {
                thread::sleep(Duration::from_millis(1));
            }
            let mut bytes = [0; 12];
            bytes[..4].copy_from_slice(&thread.to_le_bytes());
            bytes[4..].copy_from_slice(&number.to_le_bytes());
            if let Err(error) = out.write_all(&bytes) {
                result = Err(error);
            }
        })?;
        result?;
        ensure!(trace.statistics().inversions == 0, "events out of order");
        Ok(out.flush()?)
    }
}

/// Serves the environment's instance until standard input closes.
pub(crate) fn host() -> Result<()> {
    let host = Host::bind(HostOptions::new(Instance::default_of_user()), |_| {})?.spawn()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    host.stop();
    Ok(())
}

/// Returns the provider's events in a trace: thread and number.
pub(super) fn take_events(trace: &mut Trace, mut take: impl FnMut(u32, u64)) -> Result<()> {
    let provider = Guid::from_provider_name(PROVIDER);
    trace.for_each_record(|record| {
        if record.provider_id() == provider
            && let Some((thread, rest)) = record.payload().split_first_chunk()
            && let Some(number) = rest.first_chunk()
        {
            take(u64::from_le_bytes(*thread) as u32, u64::from_le_bytes(*number));
        }
    })?;
    Ok(())
}

/// A process of a round, which is killed when the value is dropped.
pub(super) struct Running {
    process: Process,
    out: PathBuf,
}

impl Running {
    /// Lets the process exit by itself.
    pub(super) fn end(mut self) {
        drop(self.process.take_stdin());
        let _ = self.process.wait();
    }

    /// Returns the events that a consumer received, after its session has stopped.
    pub(super) fn events(mut self) -> Result<Vec<(u32, u64)>> {
        let status = self.process.wait()?;
        ensure!(status.success(), "the consumer ended with {status}");
        let bytes = std::fs::read(&self.out)?;
        let (events, _) = bytes.as_chunks::<12>();
        let event = |bytes: &[u8; 12]| {
            let (thread, number) = bytes.split_first_chunk().unwrap_or((&[0; 4], &[]));
            let number = number.first_chunk().copied().unwrap_or_default();
            (u32::from_le_bytes(*thread), u64::from_le_bytes(number))
        };
        Ok(events.iter().map(event).collect())
    }
}

fn spawn(directory: &Path, args: &[&str]) -> Result<Running> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(args).env("OPENETW_RUNTIME_DIR", directory);
    let process = Process::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()), MINUTES_2)?;
    Ok(Running { process, out: directory.join("delivered") })
}

pub(super) fn spawn_writer(directory: &Path, ledger: &str, first: usize, threads: usize) -> Result<Running> {
    spawn(directory, &["writer", ledger, &first.to_string(), &threads.to_string()])
}

pub(super) fn spawn_host(directory: &Path) -> Result<Running> {
    spawn(directory, &["host"])
}

/// Starts a consumer and waits until it listens.
pub(super) fn spawn_consumer(directory: &Path, session: &str, slow: bool) -> Result<Running> {
    let out = directory.join("delivered");
    let mut args = vec!["consumer", session, out.to_str().context("a path that is no text")?];
    if slow {
        args.push("--slow");
    }
    let mut running = spawn(directory, &args)?;
    let output = running.process.take_stdout().context("a consumer's output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    ensure!(line.trim() == "begun", "the consumer does not begin");
    Ok(running)
}
