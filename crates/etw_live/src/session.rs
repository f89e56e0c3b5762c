//! The watched session: a running one, or one of this process.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use etw_app::UsageError;
use etw_app::enabling::{all_wanted, kernel_flags};
use etw_app::profiles;
use etw_app::providers::Known;
use etw_app::recording::{self, begin};
use etw_app::schemas::Schemas;
use openetw::kernel::{EnableFlags, Support};
use openetw::profile::ProviderName;
use openetw::recording::Processes;
use openetw::session::{ControllerError, ErrorKind, LogFileMode, Runtime, SessionBuilder, SessionState};

use crate::Options;

/// Flags that are off by default, because their events are too frequent or repeat those of other flags.
const TOO_MUCH: EnableFlags = EnableFlags::SYSTEMCALL
    .union(EnableFlags::DISPATCHER)
    .union(EnableFlags::MEMORY_PAGE_FAULTS)
    .union(EnableFlags::PROFILE)
    .union(EnableFlags::DISK_IO_INIT)
    .union(EnableFlags::VIRTUAL_ALLOC)
    .union(EnableFlags::VAMAP);

/// Returns the kernel flags of a session without any option: all supported ones except the most frequent, joined by `+`.
#[must_use]
pub fn default_kernel_flags() -> String {
    default_flags().to_string()
}

fn default_flags() -> EnableFlags {
    let captured = EnableFlags::KNOWN.iter().filter(|flag| matches!(flag.support, Support::Captured(_)));
    EnableFlags(captured.fold(0, |flags, flag| flags | flag.bit)) - TOO_MUCH
}

/// The watched session: a running one, or one of this process, which stops with it.
pub struct Session {
    pub(crate) name: String,
    title: String,
    own: Option<Own>,
}

/// A session of this process.
struct Own {
    runtime: Runtime,
    /// File that the session writes.
    file: Option<PathBuf>,
    /// Processes that have written to the session.
    processes: Processes,
}

impl Session {
    /// Returns the stand-in for files, which have no session.
    #[must_use]
    pub fn of_files(files: &[PathBuf]) -> Session {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        Session { name: String::new(), title: names.join(" "), own: None }
    }

    /// Starts the requested session, or connects to a running one.
    ///
    /// # Errors
    ///
    /// Fails if an option is wrong, or if the session cannot be started.
    pub fn begin(options: &Options, schemas: &Schemas) -> Result<Session> {
        if let Some(name) = &options.session {
            return Ok(Session { name: name.clone(), title: format!("session {name}"), own: None });
        }
        let flags = match &options.kernel {
            Some(flags) => kernel_flags(flags)?,
            None if options.provider.is_empty() && options.profile.is_none() => default_flags(),
            None => EnableFlags::empty(),
        };
        let profile = options.profile.clone().unwrap_or_default();
        let flags = flags | profile.flags;
        let mut runtime = Runtime::connect_or_host()?;
        let controller = runtime.controller();
        let name = format!("etw-watch-{}", std::process::id());
        let size = recording::buffer_size_kib(options.buffer_size)?;
        let builder = SessionBuilder::new(&name).real_time().leased().enable_flags(flags.0);
        let builder = builder.stack_tracing(&profile.stacks);
        let mut builder = builder.buffer_size_kib(size).buffers(0, options.buffers.unwrap_or(0));
        let path = options.output.as_deref().map(std::path::absolute).transpose()?;
        if let Some(path) = &path {
            recording::check_writable(path)?;
            path.to_str().ok_or_else(|| UsageError("the name of the output file is not UTF-8".to_owned()))?;
            builder = builder.mode(LogFileMode::SEQUENTIAL).file(path);
        }
        let mut enables = all_wanted(&options.provider, &options.wants, schemas, controller)?;
        if !profile.providers.is_empty() {
            enables.extend(profiles::enables(&profile.providers, &Known::load()?, controller)?);
        }
        begin(builder, &name, &enables, controller).map_err(|error| told(error, options))?;
        let flags = (!flags.is_empty()).then(|| flags.to_string());
        let of_profile = profile.providers.iter().map(|provider| match &provider.name {
            ProviderName::Guid(guid) => guid.to_string(),
            ProviderName::Registered(name) | ProviderName::Hashed(name) => name.clone(),
        });
        let asked = flags.into_iter().chain(options.provider.iter().cloned()).chain(of_profile);
        let asked: Vec<String> = asked.collect();
        let title = asked.join(" ");
        let own = Own { runtime, file: path, processes: Processes::new() };
        Ok(Session { name, title, own: Some(own) })
    }

    /// Returns a description of the session for display.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns the file that the session writes itself.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.own.as_ref()?.file.as_deref()
    }

    /// Returns the processes that have written to a session of this process.
    #[must_use]
    pub fn processes(&self) -> Processes {
        self.own.as_ref().map(|own| own.processes.clone()).unwrap_or_default()
    }

    /// Returns the error of the session, if any.
    pub fn trouble(&mut self) -> Option<String> {
        let own = self.own.as_mut()?;
        let controller = own.runtime.controller();
        if let Ok(found) = controller.processes(&self.name) {
            // Once the session stops by itself, its processes cannot be queried.
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

    /// Stops a session of this process after its file is complete.
    ///
    /// # Errors
    ///
    /// Fails if the session cannot be stopped.
    pub fn end(&mut self) -> Result<()> {
        self.trouble();
        let Some(own) = &mut self.own else { return Ok(()) };
        match own.runtime.controller().stop(&self.name) {
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => Ok(()),
            ended => Ok(ended.map(drop)?),
        }
    }

    /// Keeps hosting the sessions of other programs, if there are any.
    ///
    /// # Errors
    ///
    /// Fails if Ctrl-C cannot be waited for.
    pub fn serve_others(self) -> Result<()> {
        match self.own {
            Some(Own { mut runtime, .. }) if runtime.is_host() => recording::serve_others(&mut runtime),
            _ => Ok(()),
        }
    }
}

/// Adds a hint for users who may not trace the kernel.
fn told(error: ControllerError, options: &Options) -> anyhow::Error {
    let is_default = options.kernel.is_none() && options.provider.is_empty() && options.profile.is_none();
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
        assert!(flags.contains(base) && flags.hooks().is_ok());
        assert!(!flags.intersects(TOO_MUCH | EnableFlags::NO_SYSCONFIG));
    }
}
