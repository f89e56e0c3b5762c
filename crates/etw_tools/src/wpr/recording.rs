//! A recording, from its start to its file.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use etw_app::output;
use etw_app::profiles::{self, enables};
use etw_app::providers::{Known, enable as enabled};
use etw_app::status::{Failed, code, usage};
use openetw::Keyword;
use openetw::profile::{LoggingMode, PlannedSession, Profile, Recording, level};
use openetw::relog::{Compression, Relogger};
use openetw::session::{Controller, ErrorKind, LogFileMode, SessionBuilder, SessionStatus};

use super::state::{self, Capture, State};
use crate::session::{self, Plan};
use crate::{host, marks};

/// Default name of a recording.
const DEFAULT_INSTANCE: &str = "WprApp";
/// Default memory of a collector, in MiB.
const MEMORY_MIB: u64 = 64;
/// Maximum memory of a session, in MiB.
const MAX_MEMORY_MIB: u64 = 16 << 10;
/// Buffer memory in MiB of a session that writes a file, unless its collector sets more; the host's own default.
const FILE_MIB: u64 = 128;
/// Time for providers to write their state.
const STATE_TIME: Duration = Duration::from_millis(300);

/// Recordings with one instance name, of which one runs at a time.
#[derive(Debug)]
pub(super) struct Recorder {
    instance: String,
    file: PathBuf,
}

/// A running recording.
pub(super) struct Running {
    pub(super) state: State,
    pub(super) controller: Controller,
    /// Its running sessions.
    pub(super) sessions: Vec<SessionStatus>,
}

impl Recorder {
    pub(super) fn new(instance: Option<&str>) -> Result<Recorder> {
        let instance = instance.unwrap_or(DEFAULT_INSTANCE);
        let is_allowed = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
        if instance.is_empty() || instance.len() > 128 || !instance.chars().all(is_allowed) {
            return Err(usage(format_args!("-instancename '{instance}': use only letters, digits, - and _")));
        }
        Ok(Recorder { instance: instance.to_owned(), file: state::file(instance) })
    }

    /// Returns the recording, if there is one.
    pub(super) fn running(&self) -> Result<Option<Running>> {
        let Some(state) = State::load(&self.file)? else { return Ok(None) };
        // Sessions stop by themselves when their file is full, and the host exits with its last session.
        let has_files = state.sessions.iter().any(|(_, file)| file.exists());
        let mut controller = match host::running()? {
            Some(controller) => controller,
            None if has_files => host::connect()?,
            None => return Ok(None),
        };
        let is_ours = |status: &SessionStatus| {
            state.sessions.iter().any(|(name, _)| name.eq_ignore_ascii_case(&status.properties.logger_name))
        };
        let sessions: Vec<SessionStatus> = controller.list()?.into_iter().filter(is_ours).collect();
        let runs = !sessions.is_empty() || has_files;
        Ok(runs.then_some(Running { state, controller, sessions }))
    }

    fn needed(&self) -> Result<Running> {
        let text = "there are no trace profiles running; `wpr -start PROFILE` starts one";
        self.running()?.ok_or_else(|| Failed::new(code::NOT_RECORDING, text).into())
    }

    /// Starts the sessions of profiles.
    pub(super) fn start(&self, profiles: &[Profile], mode: LoggingMode, parent: Option<&Path>) -> Result<()> {
        let recording = profiles::recording(profiles)?;
        let already = || {
            let text =
                "the profiles are already running; `wpr -stop FILE` saves them, `wpr -cancel` discards them";
            anyhow::Error::from(Failed::new(code::ALREADY_RECORDING, text))
        };
        if self.running()?.is_some() {
            return Err(already());
        }
        // A recording whose host was killed leaves only its files.
        if let Some(stale) = State::load(&self.file)? {
            let _ = fs::remove_dir_all(stale.folder);
        }
        let known = Known::load()?;
        let mut controller = host::connect()?;
        let folder = self.make_folder(parent)?;
        let state = State {
            profiles: profiles.iter().map(|profile| profile.id.clone()).collect(),
            mode,
            compresses: recording.compresses,
            sessions: recording.sessions.iter().map(|planned| self.place(planned, &folder)).collect(),
            on_save: Vec::new(),
            on_demand: Vec::new(),
            folder,
        };
        let started = self.start_sessions(&recording, state, &known, &mut controller);
        started.map_err(|(error, folder)| {
            let _ = fs::remove_dir_all(folder);
            match code::ALREADY_EXISTS == etw_app::status::code_of(&error) {
                true => already(),
                false => error,
            }
        })
    }

    /// Starts all sessions or none.
    fn start_sessions(
        &self,
        recording: &Recording,
        mut state: State,
        known: &Known,
        controller: &mut Controller,
    ) -> Result<(), (anyhow::Error, PathBuf)> {
        let mut started: Vec<String> = Vec::new();
        let mut start = || {
            let mut on_start = Vec::new();
            for (planned, (name, file)) in recording.sessions.iter().zip(state.sessions.clone()) {
                let plan = plan(planned, &name, &file, state.mode, known, controller)?;
                plan.start(controller)?;
                started.push(name.clone());
                for provider in &planned.providers {
                    let guid = profiles::guid(provider, known, controller)?;
                    let is_only = provider.capture_state_only;
                    let capture = |keywords: u64| {
                        let (level, keywords) = (level(provider), Keyword(keywords));
                        Capture { session: name.clone(), provider: guid, level, keywords, is_only }
                    };
                    let said = &provider.capture_state;
                    on_start.extend(said.on_start.map(capture));
                    state.on_save.extend(said.on_save.map(capture));
                    state.on_demand.extend(said.on_demand.map(capture));
                }
            }
            capture_state(&on_start, controller)?;
            state.save(&self.file)
        };
        match start() {
            Ok(()) => Ok(()),
            Err(error) => {
                started.iter().for_each(|name| drop(controller.stop(name)));
                Err((error, state.folder))
            }
        }
    }

    /// Returns the name of a session and its file.
    fn place(&self, planned: &PlannedSession, folder: &Path) -> (String, PathBuf) {
        let name = format!("WPR_initiated_{}_{}", self.instance, planned.name);
        let file = folder.join(format!("{}.etl", name.replace(['/', '%'], "_")));
        (name, file)
    }

    /// Creates a directory that only the user can read.
    fn make_folder(&self, parent: Option<&Path>) -> Result<PathBuf> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let name = format!("openetw-wpr-{}-{}-{nanos:x}", self.instance, std::process::id());
        let folder = std::path::absolute(parent)?.join(name);
        create_private(&folder).with_context(|| format!("{}: cannot be created", folder.display()))?;
        Ok(folder)
    }

    /// Stops the recording and saves it.
    pub(super) fn stop(
        &self,
        file: &Path,
        description: Option<&str>,
        compresses: bool,
        may_replace: bool,
    ) -> Result<()> {
        let mut running = self.needed()?;
        // Check the name first, so that a wrong one does not lose the recording.
        if !may_replace && file.exists() {
            let text =
                format!("{}: already exists; -force replaces it; the recording continues", file.display());
            return Err(Failed::new(code::FILE_EXISTS, text).into());
        }
        etw_app::recording::check_writable(file)?;
        if let Some(description) = description
            && let Err(error) = running.mark(description)
        {
            output::warn(&format_args!("the description cannot be added to the trace: {error:#}"));
        }
        capture_state(&running.state.on_save, &mut running.controller)?;
        let known = Known::load()?;
        let mut parts = Vec::new();
        for (name, part) in &running.state.sessions {
            if running.sessions.iter().any(|status| status.properties.logger_name == *name) {
                let to = Some(part.as_path()).filter(|_| running.state.mode == LoggingMode::Memory);
                session::stop_to(name, to, &mut running.controller, &known.schemas)?;
            } else {
                output::warn(&format_args!(
                    "session '{name}' has already ended: its file was full, or it was stopped"
                ));
            }
            if part.exists() {
                parts.push(part.clone());
            }
        }
        let compression =
            if compresses || running.state.compresses { Compression::Compressed } else { Compression::Keep };
        let relogger = Relogger::new().compression(compression).overwrite(may_replace);
        let merged = session::merge(&parts, file, &relogger, &known.schemas);
        merged.with_context(|| {
            format!("the recording is not lost: its files are in {}", running.state.folder.display())
        })?;
        self.forget(&running.state)
    }

    /// Stops the recording without saving it.
    pub(super) fn cancel(&self) -> Result<()> {
        let mut running = self.needed()?;
        for status in &running.sessions {
            running.controller.stop(&status.properties.logger_name)?;
        }
        self.forget(&running.state)
    }

    fn forget(&self, state: &State) -> Result<()> {
        for path in [&state.folder, &self.file] {
            let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            if let Err(error) = removed {
                output::warn(&format_args!("{}: cannot be removed: {error}", path.display()));
            }
        }
        Ok(())
    }

    /// Sets a mark; with `flush`, also flushes the events before it.
    pub(super) fn mark(&self, text: &str, flush: bool) -> Result<()> {
        let mut running = self.needed()?;
        running.mark(text)?;
        if flush { running.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&self) -> Result<()> {
        self.needed()?.flush()
    }

    pub(super) fn capture_state_on_demand(&self) -> Result<()> {
        let mut running = self.needed()?;
        if running.state.on_demand.is_empty() {
            return Err(usage("no provider of this recording has CaptureStateOnDemand"));
        }
        capture_state(&running.state.on_demand, &mut running.controller)
    }
}

impl Running {
    /// Sets a mark in the session with system events, or else in the first one.
    fn mark(&mut self, text: &str) -> Result<()> {
        let of_system = self.sessions.iter().find(|status| status.properties.enable_flags != 0);
        let Some(status) = of_system.or(self.sessions.first()) else { return Ok(()) };
        marks::mark_in(text, std::slice::from_ref(&status.properties.logger_name), &mut self.controller)
    }

    fn flush(&mut self) -> Result<()> {
        for status in &self.sessions {
            self.controller.flush(&status.properties.logger_name)?;
        }
        Ok(())
    }
}

/// Requests the state of providers, and waits for them to write it.
fn capture_state(captures: &[Capture], controller: &mut Controller) -> Result<()> {
    for capture in captures {
        let Capture { session, provider, level, keywords, is_only } = capture;
        let enabled = match is_only {
            true => controller.enable(session, &enabled(*provider, *level, keywords.0, 0)),
            false => Ok(()),
        };
        match enabled.and_then(|()| controller.capture_state(session, *provider, *level, *keywords)) {
            // The session may have stopped already.
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => {}
            asked => asked?,
        }
    }
    if !captures.is_empty() {
        sleep(STATE_TIME);
    }
    for capture in captures.iter().filter(|capture| capture.is_only) {
        let _ = controller.disable(&capture.session, capture.provider);
    }
    Ok(())
}

/// Returns the session of a collector.
fn plan(
    planned: &PlannedSession,
    name: &str,
    file: &Path,
    mode: LoggingMode,
    known: &Known,
    controller: &mut Controller,
) -> Result<Plan> {
    let space_mib = planned.buffer_space_mib(memory_mib()).map(|mib| mib.min(MAX_MEMORY_MIB));
    let builder = SessionBuilder::new(name)
        .buffer_size_kib(planned.buffer_size_kib)
        .enable_flags(planned.flags.0)
        .stack_tracing(&planned.stacks);
    let builder = match mode {
        LoggingMode::Memory => {
            let kib = space_mib.unwrap_or(MEMORY_MIB).max(1) * 1024;
            builder.ring(u32::try_from(kib).unwrap_or(u32::MAX))
        }
        LoggingMode::File => {
            let is_circular = planned.is_circular && planned.maximum_file_size_mib > 0;
            let mode = if is_circular { LogFileMode::CIRCULAR } else { LogFileMode::SEQUENTIAL };
            let space_mib = space_mib.filter(|mib| *mib > FILE_MIB).unwrap_or(0);
            let buffers = space_mib * 1024 / u64::from(planned.buffer_size_kib);
            let builder = builder.file(file).mode(mode).maximum_file_size_mib(planned.maximum_file_size_mib);
            builder.buffers(0, u32::try_from(buffers).unwrap_or(u32::MAX))
        }
    };
    Ok(Plan { builder, enables: enables(&planned.providers, known, controller)? })
}

/// Creates a directory that only the user can read.
#[cfg(unix)]
fn create_private(folder: &Path) -> std::io::Result<()> {
    std::os::unix::fs::DirBuilderExt::mode(&mut fs::DirBuilder::new(), 0o700).create(folder)
}

/// Creates a directory with the rights of its parent, which for temporary files is the user's own.
#[cfg(windows)]
fn create_private(folder: &Path) -> std::io::Result<()> {
    fs::create_dir(folder)
}

/// Returns the memory of this machine in MiB.
#[cfg(windows)]
pub(super) fn memory_mib() -> u64 {
    etw_sys::process::physical_memory_bytes() >> 20
}

/// Returns the memory of this machine in MiB.
#[cfg(target_os = "linux")]
pub(super) fn memory_mib() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_have_names() {
        assert!(Recorder::new(None).unwrap().file.ends_with("wpr-WprApp.json"));
        assert!(Recorder::new(Some("perf 1")).is_ok());
        for wrong in ["", "../x", "a/b", "x\n"] {
            assert!(Recorder::new(Some(wrong)).is_err(), "{wrong}");
        }
        assert!(memory_mib() > 0);
    }
}
