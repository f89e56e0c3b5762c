//! Recording by commands: their options, what ends a recording, and what is printed of it.

pub mod wait;

use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail};
use etw_sys::output::OutputOptions;
use openetw::recording::{Contents, start};
use openetw::session::{Controller, ControllerError, EnableBuilder, Runtime, SessionBuilder};

use crate::text::grouped;
use crate::{UsageError, output};
use wait::{Event, Waiting};

/// Starts a session and enables the providers, as [`openetw::recording::start`] does; prints a warning if the session runs
/// without events of the system.
///
/// # Errors
///
/// Fails if the session cannot be started, or if a provider cannot be enabled.
pub fn begin(
    builder: SessionBuilder,
    name: &str,
    enables: &[EnableBuilder],
    controller: &mut Controller,
) -> Result<(), ControllerError> {
    if let Some(missing) = start(builder, name, enables, controller)? {
        output::warn(&format_args!("missing: {missing}"));
    }
    Ok(())
}

/// Returns `complete`, or what a recording has lost.
pub fn verdict(contents: &Contents) -> String {
    let mut lost = Vec::new();
    if contents.events_lost > 0 {
        lost.push(format!("{} events lost", grouped(contents.events_lost)));
    }
    if contents.buffers_lost > 0 {
        lost.push(format!("{} buffers not written", grouped(contents.buffers_lost)));
    }
    match lost.is_empty() {
        true => "complete".to_owned(),
        false => format!("INCOMPLETE: {} (see docs/recording.md)", lost.join(", ")),
    }
}

/// Keeps hosting the sessions of other programs until they stop or Ctrl-C is pressed.
///
/// # Errors
///
/// Fails if the signal handler cannot be installed.
pub fn serve_others(runtime: &mut Runtime) -> Result<()> {
    serve(runtime.controller(), &mut Waiting::new()?);
    Ok(())
}

/// Keeps hosting the sessions of other programs until they stop or `waiting` receives Ctrl-C.
pub fn serve(controller: &mut Controller, waiting: &mut Waiting) {
    waiting.forget_end();
    let mut is_told = false;
    while let Ok(others) = controller.list()
        && !others.is_empty()
    {
        if !is_told {
            let names: Vec<_> = others.iter().map(|other| other.properties.logger_name.as_str()).collect();
            let names = names.join(", ");
            crate::say!("etw: still hosting sessions of other programs ({names}); Ctrl-C stops them");
            is_told = true;
        }
        if matches!(waiting.wait(), Ok(Event::Ended) | Err(_)) {
            return;
        }
    }
}

/// Checks the value of `--buffer-size` and returns it in KiB.
///
/// # Errors
///
/// Fails if the size is not a multiple of 1 KiB from 4 KiB to 16 MiB ([`UsageError`]).
pub fn buffer_size_kib(bytes: u64) -> Result<u32> {
    let kibibytes = u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
    if !bytes.is_multiple_of(1024) || !(4..=16 * 1024).contains(&kibibytes) {
        bail!(UsageError("--buffer-size must be a multiple of 1KB from 4KB to 16MB".to_owned()));
    }
    Ok(kibibytes)
}

/// Checks that a file can be written, so that a recording fails at its start rather than at its end.
///
/// # Errors
///
/// Fails if the file cannot be written; the error names it.
pub fn check_writable(path: &Path) -> Result<()> {
    let options = OutputOptions::new();
    let checked = match options.create_new().open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.keep(true).open(path).map(drop),
        created => created.and_then(|_| std::fs::remove_file(path)),
    };
    checked
        .with_context(|| format!("{}: cannot be written; check the directory and its rights", path.display()))
}
