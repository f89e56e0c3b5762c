//! `xperf`: records kernel events by flags and groups, and user sessions beside them, merges them into one file, and
//! analyses traces.

mod actions;
mod command;
mod show;
mod table;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use etw_app::providers::Known;
use etw_app::status::usage;
use openetw::relog::{Compression, Relogger};
use openetw::session::{Controller, SessionUpdate};

use self::command::{Act, Segment};
use crate::options::Options;
use crate::run::{refuse, run_options};
use crate::session::KERNEL_LOGGER;
use crate::{host, marks, session};

/// Runs the tool.
pub(super) fn run(words: &[OsString]) -> Result<ExitCode> {
    if actions::are_asked_for(words) {
        return actions::run(words).map(|()| ExitCode::SUCCESS);
    }
    let options = Options::read(words, table::TABLE)?;
    run_options(&options, table::help, |out| act(&options, out))
}

fn act(options: &Options, out: &mut Vec<u8>) -> Result<()> {
    refuse(table::refusal(options))?;
    let known = Known::load()?;
    // All of the command line is checked before anything is done.
    let mut acts = command::acts(options, &known)?;
    let merged = command::merged(options)?;
    if merged.is_some() && !acts.iter().any(|act| matches!(act, Act::Stop(_))) {
        acts.push(Act::Stop(KERNEL_LOGGER.to_owned()));
    }
    let mut started: Vec<String> = Vec::new();
    let mut stopped: Vec<PathBuf> = Vec::new();
    for act in acts {
        let done = match act {
            Act::Start(segment) => start(*segment, &mut started),
            Act::Update(segment) => update(*segment),
            Act::Stop(name) => stop(&name, &known, &mut stopped),
            Act::Flush(name, file) => {
                with_session(&name, |controller| session::flush(&name, file.as_deref(), controller).map(drop))
            }
            Act::CaptureState(name, providers) => with_session(&name, |controller| {
                providers.iter().try_for_each(|enable| {
                    let (guid, enable) = enable.build()?;
                    Ok(controller.capture_state(&name, guid, enable.level, enable.any)?)
                })
            }),
            Act::Interval(units) => with_session(KERNEL_LOGGER, |controller| {
                let update = SessionUpdate { sample_interval: Some(units), ..SessionUpdate::default() };
                Ok(controller.update(KERNEL_LOGGER, update).map(drop)?)
            }),
            Act::Mark(text) => marks::mark(&text),
            Act::Loggers => show::loggers(&known, out),
            Act::Providers(what) => show::providers(&what, &known, out),
            Act::Merge(files, file) => merge(&files, &file, options, &known, out),
        };
        if let Err(error) = done {
            // After a failure, the sessions started by this command are stopped.
            if let (false, Ok(Some(mut controller))) = (started.is_empty(), host::running()) {
                started.iter().for_each(|name| drop(controller.stop(name)));
            }
            return Err(error);
        }
    }
    match merged {
        Some(file) => merge(&stopped, &file, options, &known, out),
        None => Ok(()),
    }
}

fn start(segment: Segment, started: &mut Vec<String>) -> Result<()> {
    let name = segment.name.clone();
    let plan = segment.plan()?;
    let mut controller = host::connect()?;
    plan.start(&mut controller)?;
    started.push(name);
    Ok(())
}

fn update(segment: Segment) -> Result<()> {
    with_session(&segment.name, |controller| {
        let update = segment.update()?;
        if update != SessionUpdate::default() {
            controller.update(&segment.name, update)?;
        }
        segment.enables.iter().try_for_each(|enable| Ok(controller.enable(&segment.name, enable)?))
    })
}

/// Stops a session; its file is added to the files to merge.
fn stop(name: &str, known: &Known, stopped: &mut Vec<PathBuf>) -> Result<()> {
    with_session(name, |controller| {
        let status = session::stop(name, controller, &known.schemas)?;
        let file = &status.properties.log_file_name;
        if !file.is_empty() {
            stopped.push(PathBuf::from(file));
        }
        Ok(())
    })
}

/// Merges files into one. As on Windows, an existing file is replaced.
fn merge(
    files: &[PathBuf],
    merged: &Path,
    options: &Options,
    known: &Known,
    out: &mut Vec<u8>,
) -> Result<()> {
    if files.is_empty() {
        return Err(usage("none of the stopped sessions has a file to merge"));
    }
    let compression =
        if options.last("compress").is_some() { Compression::Compressed } else { Compression::Keep };
    let relogger = Relogger::new().compression(compression).overwrite(true);
    let merged = session::merge(files, merged, &relogger, &known.schemas)?;
    Ok(writeln!(out, "Merged Etl: {}", merged.path.display())?)
}

fn with_session(name: &str, act: impl FnOnce(&mut Controller) -> Result<()>) -> Result<()> {
    session::with(name, "xperf -loggers", act)
}
