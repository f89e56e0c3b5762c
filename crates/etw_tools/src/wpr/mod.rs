//! `wpr`: records the events selected by recording profiles.

mod recording;
mod show;
mod state;
mod table;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use etw_app::output;
use etw_app::paths::path;
use etw_app::profiles;
use etw_app::providers::Known;
use etw_app::status::{Failed, code, usage};
use openetw::profile::{LoggingMode, Profile, write};
use openetw::relog::{Compression, Relogger};

use self::recording::Recorder;
use crate::options::Options;
use crate::run::{refuse, run_options};
use crate::session;

/// Maximum profiles in one command, as on Windows.
const MAX_PROFILES: usize = 64;

/// Runs the tool.
pub(super) fn run(words: &[OsString]) -> Result<ExitCode> {
    let options = Options::read(words, &table::table())?;
    let topic = words.iter().skip_while(|word| !word.to_string_lossy().ends_with("help")).nth(1);
    let help = || table::help(topic.and_then(|topic| topic.to_str()));
    run_options(&options, help, |out| act(&options, out))
}

fn act(options: &Options, out: &mut Vec<u8>) -> Result<()> {
    refuse(table::refusal(options))?;
    let verb =
        table::verb(options).ok_or_else(|| usage("no verb: -start, -stop, -status, … (`wpr -help`)"))?;
    if let Some(word) = options.words.first() {
        return Err(usage(format_args!("'{word}' does not belong to an option")));
    }
    let recorder = || Recorder::new(options.value("instancename"));
    match verb {
        "start" => start(options, &recorder()?),
        "stop" => stop(options, &recorder()?, out),
        "cancel" => recorder()?.cancel(),
        "status" => status(options, &recorder()?, out),
        "profiles" => show::profiles(options.value("profiles"), out),
        "profiledetails" => {
            let named = options.value("profiledetails").unwrap_or_default();
            show::profile_details(&joined(named, mode(options))?, out)
        }
        "exportprofile" => export(options),
        "providers" => show::providers(&Known::load()?, out),
        "marker" => recorder()?.mark(options.value("marker").unwrap_or_default(), false),
        "markerflush" => recorder()?.mark(options.value("markerflush").unwrap_or_default(), true),
        "flush" => recorder()?.flush(),
        "merge" => merge(options, out),
        _ => recorder()?.capture_state_on_demand(),
    }
}

fn mode(options: &Options) -> LoggingMode {
    if options.last("filemode").is_some() { LoggingMode::File } else { LoggingMode::Memory }
}

fn start(options: &Options, recorder: &Recorder) -> Result<()> {
    let mode = mode(options);
    if let Some(file) = options.value("filemode") {
        // Documents also name the file here, but -stop writes it.
        path(file)?;
    }
    let named: Vec<&String> = options.all("start").flat_map(|given| &given.values).collect();
    if named.len() > MAX_PROFILES {
        return Err(usage(format_args!(
            "{} profiles are too many; at most {MAX_PROFILES} can be started",
            named.len()
        )));
    }
    let profiles: Vec<Profile> =
        named.iter().map(|name| profiles::load(name, Some(mode))).collect::<Result<_>>()?;
    let folder = options.value("recordtempto").map(path).transpose()?.map(PathBuf::from);
    recorder.start(&profiles, mode, folder.as_deref())
}

fn stop(options: &Options, recorder: &Recorder, out: &mut Vec<u8>) -> Result<()> {
    let given = options.last("stop").map(|given| &given.values[..]).unwrap_or_default();
    let [file, description @ ..] = given else { return Err(usage("-stop needs FILE")) };
    let file = std::path::absolute(path(file)?)?;
    let may_replace = options.last("force").is_some();
    let compresses = options.last("compress").is_some();
    recorder.stop(&file, description.first().map(String::as_str), compresses, may_replace)?;
    Ok(writeln!(out, "The trace was successfully saved.\n{}", file.display())?)
}

fn status(options: &Options, recorder: &Recorder, out: &mut Vec<u8>) -> Result<()> {
    let mut shown = show::Shown::default();
    let words = options.last("status").map(|given| &given.values[..]).unwrap_or_default();
    for word in words {
        match word.to_lowercase().as_str() {
            "profiles" => shown.profiles = true,
            "collectors" => shown.collectors = true,
            "details" => shown.details = true,
            _ => {
                return Err(usage(format_args!(
                    "-status: unknown '{word}'; expected profiles, collectors or details"
                )));
            }
        }
    }
    shown.details |= options.last("details").is_some();
    show::status(recorder, shown, out)
}

fn export(options: &Options) -> Result<()> {
    let given = options.last("exportprofile").map(|given| &given.values[..]).unwrap_or_default();
    let [named, file] = given else { return Err(usage("-exportprofile needs PROFILE FILE")) };
    let profiles = joined(named, mode(options))?;
    let file = path(file)?;
    let file = Path::new(&file);
    if file.exists() {
        let text = format!("{}: already exists", file.display());
        return Err(Failed::new(code::FILE_EXISTS, text).into());
    }
    output::write_public(file, write(&profiles).as_bytes())
        .with_context(|| format!("{}: cannot be written", file.display()))
}

/// Returns the profiles with names joined by `+`.
fn joined(names: &str, mode: LoggingMode) -> Result<Vec<Profile>> {
    names.split('+').map(|name| profiles::load(name.trim(), Some(mode))).collect()
}

fn merge(options: &Options, out: &mut Vec<u8>) -> Result<()> {
    let files = options.last("merge").map(|given| &given.values[..]).unwrap_or_default();
    let files: Vec<PathBuf> = files.iter().map(|file| Ok(path(file)?.into())).collect::<Result<_>>()?;
    let Some((merged, files)) = files.split_last() else { return Err(usage("-merge needs FILE … MERGED")) };
    let compression =
        if options.last("compress").is_some() { Compression::Compressed } else { Compression::Keep };
    let known = Known::load()?;
    let relogger = Relogger::new().compression(compression).overwrite(true);
    let relogger = relogger.embed_schemas(options.last("mergeonly").is_none());
    session::merge(files, merged, &relogger, &known.schemas)?;
    Ok(writeln!(out, "The trace was successfully merged.\n{}", merged.display())?)
}
