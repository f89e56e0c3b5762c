//! The session that is watched: one that is there, or one of its own.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use etw_app::UsageError;
use etw_app::enabling::{kernel_flags, wanted};
use etw_app::recording::{self, begin, embed};
use etw_app::schemas::Schemas;
use openetw::kernel::{EnableFlags, Support};
use openetw::session::{ControllerError, ErrorKind, LogFileMode, Runtime, SessionBuilder, SessionState};

use crate::Options;

/// Flags whose events are too many to be watched, or say what others say too. Who wants them asks for them.
const TOO_MUCH: u32 = EnableFlags::SYSTEMCALL.0
    | EnableFlags::DISPATCHER.0
    | EnableFlags::MEMORY_PAGE_FAULTS.0
    | EnableFlags::PROFILE.0
    | EnableFlags::DISK_IO_INIT.0
    // Counters of processes, memory that is reserved, files that are mapped.
    | 0x0000_C008;

/// The flags that are watched if nobody says which: all that this build captures, but for those.
pub(super) fn default_flags() -> EnableFlags {
    let captured = EnableFlags::KNOWN.iter().filter(|flag| matches!(flag.support, Support::Captured(_)));
    EnableFlags(captured.fold(0, |flags, flag| flags | flag.bit) & !TOO_MUCH)
}

/// The session that is watched.
pub(super) struct Session {
    pub(super) name: String,
    /// What is watched, for people.
    pub(super) title: String,
    own: Option<Own>,
}

/// A session of this command's own, which ends with it.
struct Own {
    runtime: Runtime,
    /// The file that the session writes.
    file: Option<PathBuf>,
    /// The processes that have written to it.
    processes: embed::Processes,
}

impl Session {
    /// Begins the session that the arguments ask for.
    pub(super) fn begin(options: &Options, schemas: &Schemas) -> Result<Session> {
        if let Some(name) = &options.session {
            return Ok(Session { name: name.clone(), title: format!("session {name}"), own: None });
        }
        let flags = match &options.kernel {
            Some(flags) => kernel_flags(flags)?,
            None if options.provider.is_empty() => default_flags(),
            None => EnableFlags::NONE,
        };
        let mut runtime = Runtime::connect_or_host()?;
        let controller = runtime.controller();
        let name = format!("etw-watch-{}", std::process::id());
        let size = recording::buffer_size_kib(options.buffer_size)?;
        let builder = SessionBuilder::new(&name).real_time().leased().enable_flags(flags.0);
        let mut builder = builder.buffer_size_kib(size).buffers(0, options.buffers.unwrap_or(0));
        let path = options.output.as_deref().map(std::path::absolute).transpose()?;
        if let Some(path) = &path {
            recording::check_writable(path)?;
            path.to_str().ok_or_else(|| UsageError("the name of the file is not UTF-8".to_owned()))?;
            builder = builder.mode(LogFileMode::SEQUENTIAL).file(path);
        }
        let enables = options.provider.iter().map(|text| wanted(text, &options.wants, schemas, controller));
        let enables = enables.collect::<Result<Vec<_>>>()?;
        begin(builder, &name, &enables, controller).map_err(|error| told(error, options))?;
        let flags = (flags != EnableFlags::NONE).then(|| flags.to_string());
        let asked: Vec<String> = flags.into_iter().chain(options.provider.iter().cloned()).collect();
        let title = asked.join(" ");
        let own = Own { runtime, file: path, processes: embed::Processes::new() };
        Ok(Session { name, title, own: Some(own) })
    }

    /// Whether the session writes a file itself.
    pub(super) fn file(&self) -> Option<&Path> {
        self.own.as_ref()?.file.as_deref()
    }

    /// The processes that have written to a session of this command's own.
    pub(super) fn processes(&self) -> embed::Processes {
        self.own.as_ref().map(|own| own.processes.clone()).unwrap_or_default()
    }

    /// What is wrong with the session, if something is.
    pub(super) fn trouble(&mut self) -> Option<String> {
        let own = self.own.as_mut()?;
        let controller = own.runtime.controller();
        if let Ok(found) = controller.processes(&self.name) {
            // Should the session end by itself, nobody could be asked any more.
            own.processes.extend(found.into_iter().map(|process| (process.pid, process)));
        }
        match controller.query(&self.name) {
            Ok(status) if status.state == SessionState::Failing => Some(status.last_error),
            Ok(status) if status.system_missing.is_empty() => None,
            Ok(status) => Some(format!("missing: {}", status.system_missing.join("; "))),
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => None,
            Err(error) => Some(error.to_string()),
        }
    }

    /// Ends a session of this command's own, when everything is in its file.
    pub(super) fn end(&mut self) -> Result<()> {
        self.trouble();
        let Some(own) = &mut self.own else { return Ok(()) };
        match own.runtime.controller().stop(&self.name) {
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => Ok(()),
            ended => Ok(ended.map(drop)?),
        }
    }

    /// Stays the host of other programs' sessions, if this command has become that.
    pub(super) fn serve_others(self) -> Result<()> {
        match self.own {
            Some(Own { mut runtime, .. }) if runtime.is_host() => recording::serve_others(&mut runtime),
            _ => Ok(()),
        }
    }
}

/// Who may not trace the system is told what can be watched all the same.
fn told(error: ControllerError, options: &Options) -> anyhow::Error {
    let is_default = options.kernel.is_none() && options.provider.is_empty();
    match is_default {
        true => anyhow!("{error}; programs' own events are watched by -p PROVIDER"),
        false => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_watched_without_a_word() {
        let flags = default_flags();
        let base = EnableFlags::PROCESS | EnableFlags::THREAD | EnableFlags::CSWITCH | EnableFlags::DISK_IO;
        assert!(flags.has(base) && flags.hooks().is_ok());
        assert_eq!(flags.0 & (TOO_MUCH | EnableFlags::NO_SYSCONFIG.0), 0);
    }
}
