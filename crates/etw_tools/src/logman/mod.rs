//! `logman`: trace sessions, and saved definitions of them (data collector sets).

mod collector;
mod create;
mod query;
mod store;
mod table;
mod xml;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use etw_app::output;
use etw_app::paths::path;
use etw_app::providers::Known;
use etw_app::status::{Failed, code, usage};
use openetw::session::{Controller, ErrorKind, SessionUpdate};

use self::collector::Set;
use self::store::Store;
use crate::options::Options;
use crate::run::refuse;
use crate::{host, session};

/// The command that lists running sessions.
const LISTER: &str = "logman query -ets";

/// Runs the tool.
pub(super) fn run(words: &[OsString]) -> Result<ExitCode> {
    let options = Options::read(words, table::TABLE)?;
    let mut out = Vec::new();
    let mut words = options.words.iter().map(|word| word.to_lowercase());
    let verb = words.next();
    if options.asks_for_help || verb.is_none() {
        out.extend_from_slice(table::help(verb.as_deref()).as_bytes());
    } else {
        refuse(table::refusal(&options))?;
        let result = act(&verb.unwrap_or_default(), &options, &mut out);
        // Output from before a failure is still printed.
        if result.is_ok() {
            writeln!(out, "The command completed successfully.")?;
        }
        output::open(None)?.write_all(&out)?;
        return result.map(|()| ExitCode::SUCCESS);
    }
    output::open(None)?.write_all(&out)?;
    Ok(ExitCode::SUCCESS)
}

fn act(verb: &str, options: &Options, out: &mut Vec<u8>) -> Result<()> {
    let command =
        Command { options, is_ets: options.is_set("ets").unwrap_or(false), store: Store::of_user()? };
    let rest = options.words.get(1..).unwrap_or_default();
    match verb {
        "create" => command.create(rest),
        "query" => command.query(rest, out),
        "start" => command.start(rest),
        "stop" => command.stop(rest),
        "update" => command.update(rest),
        "delete" => command.delete(rest),
        "import" => command.import(rest),
        "export" => command.export(rest),
        _ => Err(usage(format_args!(
            "unknown verb '{verb}'; expected create, query, start, stop, delete, update, import or export"
        ))),
    }
}

/// A parsed command line.
struct Command<'o> {
    options: &'o Options,
    /// Whether it applies to sessions directly, not to saved sets.
    is_ets: bool,
    store: Store,
}

impl Command<'_> {
    /// Returns the only name that a verb takes: the value of `-n`, or a word.
    fn name(&self, rest: &[String]) -> Result<String> {
        let name = match (self.options.value("n"), rest) {
            (Some(name), []) => name.to_owned(),
            (None, [name]) => name.clone(),
            (_, []) => return Err(usage("a name is needed")),
            (Some(_), [more, ..]) | (None, [_, more, ..]) => {
                return Err(usage(format_args!("unexpected second name '{more}'")));
            }
        };
        if name.trim().is_empty() { Err(usage("a name is needed")) } else { Ok(name) }
    }

    fn create(&self, rest: &[String]) -> Result<()> {
        let rest = trace_only("create", rest)?;
        let name = self.name(rest)?;
        let known = Known::load()?;
        if self.is_ets {
            return self.start_session(&name, &known);
        }
        if self.store.load(&name)?.is_some() {
            let text =
                format!("data collector set '{name}' already exists; `logman update {name} …` changes it");
            return Err(Failed::new(code::SET_EXISTS, text).into());
        }
        let mut controller = host::running()?;
        let mut collector = create::collector(&name, self.options, &known, controller.as_mut())?;
        create::save_defaults(&mut collector, self.options)?;
        self.store.save(&Set::new(&name, collector))
    }

    fn start(&self, rest: &[String]) -> Result<()> {
        let name = self.name(rest)?;
        let known = Known::load()?;
        if self.is_ets {
            return self.start_session(&name, &known);
        }
        if let Some(set) = self.store.load(&name)? {
            return self.start_set(set);
        }
        // Documents omit -ets from commands that describe a session in full.
        if ["p", "pf", "o", "rt"].iter().any(|option| self.options.last(option).is_some()) {
            return self.start_session(&name, &known);
        }
        let text = format!(
            "there is no data collector set '{name}'; `logman create trace {name} -p PROVIDER -o FILE` makes one, \
             `logman start {name} -p PROVIDER -o FILE -ets` starts a session without a set"
        );
        Err(Failed::new(code::SET_NOT_FOUND, text).into())
    }

    fn start_session(&self, name: &str, known: &Known) -> Result<()> {
        // Options are checked before a host is started.
        let mut running = host::running()?;
        let collector = create::collector(name, self.options, known, running.as_mut())?;
        let file = collector.file_for_session()?;
        let plan = collector.plan(file.as_deref())?;
        let mut controller = running.map_or_else(host::connect, Ok)?;
        plan.start(&mut controller).map(drop)
    }

    fn start_set(&self, mut set: Set) -> Result<()> {
        let mut controller = host::connect()?;
        let mut plans = Vec::new();
        for collector in &mut set.collectors {
            if is_running(&mut controller, &collector.session)? {
                let text = format!("data collector set '{}' is already running", set.name);
                return Err(Failed::new(code::SET_IN_USE, text).into());
            }
            let file = collector.file_of_run(set.serial)?;
            plans.push((collector.session.clone(), collector.plan(file.as_deref())?));
        }
        let mut started: Vec<String> = Vec::new();
        for (session, plan) in plans {
            if let Err(error) = plan.start(&mut controller) {
                // A set starts completely or not at all.
                started.iter().for_each(|session| drop(controller.stop(session)));
                return Err(error);
            }
            started.push(session);
        }
        set.serial = set.serial.saturating_add(1);
        self.store.save(&set)
    }

    fn stop(&self, rest: &[String]) -> Result<()> {
        let name = self.name(rest)?;
        let set = if self.is_ets { None } else { self.store.load(&name)? };
        let known = Known::load()?;
        let Some(set) = set else {
            let stop = |controller: &mut Controller| session::stop(&name, controller, &known.schemas);
            return session::with(&name, LISTER, stop).map(drop);
        };
        let mut count = 0;
        if let Some(mut controller) = host::running()? {
            for collector in &set.collectors {
                match session::stop(&collector.session, &mut controller, &known.schemas) {
                    Err(error) if is_not_found(&error) => {}
                    stopped => {
                        stopped?;
                        count += 1;
                    }
                }
            }
        }
        if count == 0 {
            let text = format!("data collector set '{name}' is not running");
            return Err(Failed::new(code::SET_NOT_RUNNING, text).into());
        }
        Ok(())
    }

    fn update(&self, rest: &[String]) -> Result<()> {
        let rest = match rest {
            [kind, ..]
                if kind.eq_ignore_ascii_case("trace")
                    && (rest.len() > 1 || self.options.value("n").is_some()) =>
            {
                trace_only("update", rest)?
            }
            rest => rest,
        };
        let name = self.name(rest)?;
        let known = Known::load()?;
        if !self.is_ets {
            let Some(mut set) = self.store.load(&name)? else {
                let text = format!("there is no data collector set '{name}'; use -ets for a running session");
                return Err(Failed::new(code::SET_NOT_FOUND, text).into());
            };
            let mut controller = host::running()?;
            let Some(collector) = set.collectors.first_mut() else {
                return Err(usage(format_args!("data collector set '{name}' has no trace data collector")));
            };
            create::apply(collector, self.options, &known, controller.as_mut())?;
            return self.store.save(&set);
        }
        session::with(&name, LISTER, |controller| {
            let changes = create::changes(self.options, &known, controller)?;
            if changes.update != SessionUpdate::default() {
                controller.update(&name, changes.update)?;
            } else if changes.enables.is_empty() && changes.disables.is_empty() {
                return Err(usage(
                    "nothing to change: -p, --p, -nb, -ft, -o and -rt can be changed in a running session",
                ));
            }
            for enable in &changes.enables {
                controller.enable(&name, enable)?;
            }
            for provider in changes.disables {
                controller.disable(&name, provider)?;
            }
            Ok(())
        })
    }

    fn delete(&self, rest: &[String]) -> Result<()> {
        let name = self.name(rest)?;
        if self.is_ets {
            return Err(usage(format_args!(
                "sessions cannot be deleted; `logman stop {name} -ets` stops one"
            )));
        }
        let Some(set) = self.store.load(&name)? else {
            return Err(
                Failed::new(code::SET_NOT_FOUND, format!("there is no data collector set '{name}'")).into()
            );
        };
        if let Some(mut controller) = host::running()? {
            for collector in &set.collectors {
                if is_running(&mut controller, &collector.session)? {
                    let text =
                        format!("data collector set '{name}' is running; `logman stop {name}` stops it");
                    return Err(Failed::new(code::SET_IN_USE, text).into());
                }
            }
        }
        self.store.delete(&name)
    }

    fn import(&self, rest: &[String]) -> Result<()> {
        let name = self.name(rest)?;
        let file =
            self.options.value("xml").ok_or_else(|| usage("name the file to import with -xml FILE"))?;
        let file = path(file)?;
        let text = read_text(Path::new(&file))?;
        let mut set = xml::read(&text).map_err(|what| usage(format_args!("{}: {what}", file.display())))?;
        if self.store.load(&name)?.is_some() && self.options.is_set("y") != Some(true) {
            let text = format!("data collector set '{name}' already exists; -y replaces it");
            return Err(Failed::new(code::SET_EXISTS, text).into());
        }
        for what in &set.left_out {
            output::warn(&format_args!("{}: left out: {what}", file.display()));
        }
        set.rename(&name);
        self.store.save(&set)
    }

    fn export(&self, rest: &[String]) -> Result<()> {
        let name = self.name(rest)?;
        let file = self.options.value("xml").ok_or_else(|| usage("name the output file with -xml FILE"))?;
        let file = path(file)?;
        let Some(set) = self.store.load(&name)? else {
            return Err(
                Failed::new(code::SET_NOT_FOUND, format!("there is no data collector set '{name}'")).into()
            );
        };
        if Path::new(&file).exists() && self.options.is_set("y") != Some(true) {
            let text = format!("{}: already exists; -y replaces it", file.display());
            return Err(Failed::new(code::FILE_EXISTS, text).into());
        }
        output::write_public(file.as_ref(), xml::write(&set).as_bytes())
            .with_context(|| format!("{}: cannot be written", file.display()))
    }
}

/// Reads a text file from Windows: UTF-16 with a byte order mark, else UTF-8.
fn read_text(file: &Path) -> Result<String> {
    let bytes = std::fs::read(file).with_context(|| format!("{}: cannot be read", file.display()))?;
    Ok(encoding_rs::UTF_8.decode(&bytes).0.into_owned())
}

/// Returns the words after `create trace`; other kinds of collectors are not supported.
fn trace_only<'w>(verb: &str, rest: &'w [String]) -> Result<&'w [String]> {
    let kind = rest.first().map(|kind| kind.to_lowercase()).unwrap_or_default();
    let alternative = match kind.as_str() {
        "trace" => return Ok(&rest[1..]),
        "counter" => {
            "performance counters are not collected; `etw report` shows the CPU, disks and network of a trace"
        }
        "alert" => {
            "counters are not watched; `etw record --ring SIZE --trigger EXPR` writes a file when an event occurs"
        }
        "cfg" => "this system has no registry and no WMI to collect from",
        "api" => "function calls are not traced; `logman create trace` traces providers",
        other => {
            return Err(usage(format_args!(
                "expected `logman {verb} trace NAME`{}",
                if other.is_empty() { String::new() } else { format!(", not '{other}'") }
            )));
        }
    };
    Err(Failed::new(code::NOT_SUPPORTED, format!("{verb} {kind}: {alternative}")).into())
}

fn is_running(controller: &mut Controller, session: &str) -> Result<bool> {
    match controller.query(session) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == Some(ErrorKind::NotFound) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn is_not_found(error: &anyhow::Error) -> bool {
    super::status::code_of(error) == code::INSTANCE_NOT_FOUND
}
