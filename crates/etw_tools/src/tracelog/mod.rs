//! `tracelog`: the driver kit's tool for sessions and the providers enabled in them.

mod autologger;
mod command;
mod show;
mod table;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use etw_app::providers::Known;
use etw_app::status::usage;
use openetw::session::{Controller, EnableBuilder, SessionStatus};
use openetw::{Keyword, Level, classes};

use crate::options::{Given, Options};
use crate::run::{refuse, run_options};
use crate::session::KERNEL_LOGGER;
use crate::{host, session};

/// Runs the tool.
pub(super) fn run(words: &[OsString]) -> Result<ExitCode> {
    let options = Options::read(words, &[table::ACTIONS, table::OPTIONS].concat())?;
    run_options(&options, table::help, |out| act(&options, out))
}

fn act(options: &Options, out: &mut Vec<u8>) -> Result<()> {
    refuse(table::refusal(options))?;
    if let Some(word) = options.words.first() {
        return Err(usage(format_args!("'{word}' does not belong to an option")));
    }
    let is_action = |given: &&Given| table::ACTIONS.iter().any(|action| action.is(given.name));
    let mut actions = options.given.iter().filter(is_action);
    let action = actions.next().ok_or_else(|| usage("an action is needed, such as -start, -stop or -q"))?;
    if let Some(second) = actions.next() {
        return Err(usage(format_args!("-{} and -{}: one action at a time", action.name, second.name)));
    }
    let known = Known::load()?;
    let name = action.values.first().map_or(KERNEL_LOGGER, String::as_str);
    let shown = match action.name {
        "start" => start(name, options, &known, out)?,
        "stop" => with_session(name, |controller| session::stop(name, controller, &known.schemas))?,
        "update" => {
            let is_kernel = name.eq_ignore_ascii_case(KERNEL_LOGGER);
            let update = command::update(options, is_kernel)?;
            with_session(name, |controller| Ok(controller.update(name, update)?))?
        }
        "flush" => {
            let file = command::file(options)?;
            with_session(name, |controller| session::flush(name, file.as_deref(), controller))?
        }
        "enable" | "enableex" | "disable" | "capturestate" => providers(action, name, options, &known)?,
        "q" => return query(name, options, &known, out),
        "l" => return list(options, &known, out),
        "x" => return stop_all(&known, out),
        "enumguid" | "enumguidex" => {
            return show::registered(action.values.first(), action.name == "enumguidex", out);
        }
        "addautologger" => return add_autologger(name, options, &known, out),
        "remove" => return autologger::remove(name),
        other => return Err(usage(format_args!("-{other} is not an action"))),
    };
    show::succeeded(out)?;
    show::session(&shown, out)
}

fn start(name: &str, options: &Options, known: &Known, out: &mut Vec<u8>) -> Result<SessionStatus> {
    // Options are checked before a host is started.
    let mut running = host::running()?;
    let plan = command::plan(name, options, known, running.as_mut())?;
    let mut controller = running.map_or_else(host::connect, Ok)?;
    let status = plan.start(&mut controller)?;
    writeln!(out, "Logger Started...\nEnabling trace to logger {}", status.logger_id)?;
    Ok(status)
}

/// Enables or disables the providers of `-guid`, or captures their state.
fn providers(action: &Given, name: &str, options: &Options, known: &Known) -> Result<SessionStatus> {
    with_session(name, |controller| {
        let asked = command::asked(options, known, Some(controller))?;
        let enables = command::enables(&asked, options)?;
        if asked.is_empty() && action.name != "capturestate" {
            return Err(usage(format_args!("-{}: name the providers with -guid", action.name)));
        }
        match action.name {
            "disable" => {
                for asked in asked {
                    controller.disable(name, asked.guid)?;
                }
            }
            "capturestate" => capture_state(name, &enables, controller)?,
            _ => {
                if asked.iter().any(|asked| asked.guid == classes::SYSTEM_TRACE) {
                    return Err(usage(
                        "kernel events are enabled by flags: `tracelog -update LOGGER -eflag N FLAG …`",
                    ));
                }
                for enable in &enables {
                    controller.enable(name, enable)?;
                }
            }
        }
        Ok(controller.query(name)?)
    })
}

/// Captures the state of the given providers, or of all enabled in the session.
fn capture_state(name: &str, enables: &[EnableBuilder], controller: &mut Controller) -> Result<()> {
    if enables.is_empty() {
        for enabled in controller.enables(name)? {
            let (level, any): (Level, Keyword) = (enabled.enable.level, enabled.enable.any);
            controller.capture_state(name, enabled.provider, level, any)?;
        }
    }
    for enable in enables {
        let (guid, enable) = enable.build()?;
        controller.capture_state(name, guid, enable.level, enable.any)?;
    }
    Ok(())
}

fn query(name: &str, options: &Options, known: &Known, out: &mut Vec<u8>) -> Result<()> {
    with_session(name, |controller| {
        let status = controller.query(name)?;
        show::succeeded(out)?;
        show::session(&status, out)?;
        match options.last("lp") {
            Some(_) => show::enables(&controller.enables(name)?, known, out),
            None => Ok(()),
        }
    })
}

fn list(options: &Options, known: &Known, out: &mut Vec<u8>) -> Result<()> {
    show::succeeded(out)?;
    let Some(mut controller) = host::running()? else { return Ok(()) };
    let mut sessions = controller.list()?;
    sessions.sort_by_key(|session| session.logger_id);
    for status in &sessions {
        show::session(status, out)?;
        if options.last("lp").is_some() {
            show::enables(&controller.enables(&status.properties.logger_name)?, known, out)?;
        }
    }
    Ok(())
}

fn stop_all(known: &Known, out: &mut Vec<u8>) -> Result<()> {
    if let Some(mut controller) = host::running()? {
        for status in controller.list()? {
            let name = &status.properties.logger_name;
            let stopped = session::stop(name, &mut controller, &known.schemas)?;
            show::session(&stopped, out)?;
        }
    }
    show::succeeded(out)
}

fn add_autologger(name: &str, options: &Options, known: &Known, out: &mut Vec<u8>) -> Result<()> {
    let plan = command::plan(name, options, known, host::running()?.as_mut())?;
    let file = autologger::add(name, &plan)?;
    let when = match cfg!(windows) {
        true => "Windows starts it at the next boot",
        false => "the daemon starts it at its own start (`etw daemon --autologgers DIR`)",
    };
    writeln!(out, "{}: {when}", file.display())?;
    Ok(())
}

fn with_session<T>(name: &str, act: impl FnOnce(&mut Controller) -> Result<T>) -> Result<T> {
    session::with(name, "tracelog -l", act)
}
