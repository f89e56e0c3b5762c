//! Output of `wpr`: recordings, profiles and providers.

use std::io::Write;
use std::time::SystemTime;

use anyhow::Result;
use etw_app::profiles;
use etw_app::providers::Known;
use openetw::kernel::{EnableFlags, StackWalks, Support};
use openetw::profile::{Definition, LoggingMode, Profile, ProviderName, Recording, level};
use openetw::session::{EnableProperties, EnableStatus, SessionStatus};

use super::recording::Recorder;
use crate::host;

/// Parts of a recording shown in addition to the summary.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shown {
    pub(super) profiles: bool,
    pub(super) collectors: bool,
    pub(super) details: bool,
}

/// Runs `wpr -status`.
pub(super) fn status(recorder: &Recorder, shown: Shown, out: &mut Vec<u8>) -> Result<()> {
    let Some(mut running) = recorder.running()? else {
        return Ok(writeln!(out, "WPR is not recording")?);
    };
    let start = running.sessions.iter().map(|status| status.start_time.unix_nanos()).min();
    let Some(start) = start else {
        writeln!(
            out,
            "WPR recording has ended but is not saved yet: `wpr -stop FILE` saves it, `wpr -cancel` discards it\n"
        )?;
        row(out, "Logging mode", running.state.mode.name())?;
        return row(out, "Temp Folder", running.state.folder.display());
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as i128;
    let seconds = (now - start).max(0) / 1_000_000_000;
    let dropped: u64 = running.sessions.iter().map(lost).sum();
    writeln!(out, "WPR recording is in progress...\n")?;
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    row(out, "Time since start", clock)?;
    row(out, "Dropped event", dropped)?;
    row(out, "Logging mode", running.state.mode.name())?;
    if running.state.mode == LoggingMode::File {
        row(out, "Temp Folder", running.state.folder.display())?;
    }
    if shown.profiles {
        writeln!(out, "\nRecording system activity using the following set of profiles:\n")?;
        row(out, "Profile", running.state.profiles.join(", "))?;
    }
    if shown.collectors {
        writeln!(out, "\nActively recording collectors:")?;
        let known = Known::load()?;
        for status in &running.sessions {
            let enables = running.controller.enables(&status.properties.logger_name)?;
            collector(status, &enables, shown.details, &known, out)?;
        }
    }
    Ok(())
}

fn lost(status: &SessionStatus) -> u64 {
    status.events_lost + status.log_events_lost
}

fn row(out: &mut Vec<u8>, name: &str, value: impl std::fmt::Display) -> Result<()> {
    Ok(writeln!(out, "{name:<24}: {value}")?)
}

fn list(out: &mut Vec<u8>, title: &str, lines: &[String]) -> Result<()> {
    if !lines.is_empty() {
        writeln!(out, "{title}")?;
    }
    lines.iter().try_for_each(|line| Ok(writeln!(out, "        {line}")?))
}

fn collector(
    status: &SessionStatus,
    enables: &[EnableStatus],
    details: bool,
    known: &Known,
    out: &mut Vec<u8>,
) -> Result<()> {
    let p = &status.properties;
    writeln!(out)?;
    row(out, "Collector Name", &p.logger_name)?;
    row(out, "Buffer Size (KB)", p.buffer_size)?;
    row(out, "Events Lost", lost(status))?;
    if details {
        row(out, "Buffers", format_args!("{} ({} free)", status.number_of_buffers, status.free_buffers))?;
        row(out, "Maximum Buffers", p.maximum_buffers)?;
        row(out, "Events", status.events_written)?;
        row(out, "Buffers Written", status.buffers_written)?;
        row(out, "Processes", status.processes)?;
    }
    list(out, "System Keywords", &keywords(EnableFlags(p.enable_flags)))?;
    if p.enable_flags != 0 {
        list(out, "System Stacks", &stacks(&p.stack_tracing))?;
    }
    let provider = |enabled: &EnableStatus| {
        let registered = Some(enabled.name.clone()).filter(|name| !name.is_empty());
        let name = registered.or_else(|| known.name_of(enabled.provider));
        let name = name.unwrap_or_else(|| enabled.provider.to_string());
        let stack =
            if enabled.enable.properties.contains(EnableProperties::STACK_TRACE) { ": Stack" } else { "" };
        format!("{name}: {:#x}: {:#04x}{stack}", enabled.enable.any.0, enabled.enable.level.0)
    };
    list(out, "Providers", &enables.iter().map(provider).collect::<Vec<_>>())
}

/// Returns the keywords of flags, without duplicates.
fn keywords(flags: EnableFlags) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for flag in EnableFlags::KNOWN.iter().filter(|flag| flags.0 & flag.bit != 0) {
        if !flag.wpr.is_empty() && !names.iter().any(|name| name == flag.wpr) {
            names.push(flag.wpr.to_owned());
        }
    }
    names
}

fn stacks(hook_ids: &[u16]) -> Vec<String> {
    let Ok(walks) = StackWalks::from_hook_ids(hook_ids) else { return Vec::new() };
    let of_profiles =
        |name: &str| if name == "Profile" { "SampledProfile".to_owned() } else { name.to_owned() };
    walks.to_string().split('+').map(of_profiles).collect()
}

/// Runs `wpr -profiles`.
pub(super) fn profiles(file: Option<&str>, out: &mut Vec<u8>) -> Result<()> {
    profiles::with_file(file, |file| {
        for name in file.names() {
            let named = |profile: &&Definition| profile.name.eq_ignore_ascii_case(&name);
            // As on Windows, the last profile with the name provides the description.
            let last = file.profiles().iter().rfind(named);
            let description = last.map_or("", |profile| profile.description.as_str());
            writeln!(out, "\t{name:<27} {description}")?;
        }
        Ok(())
    })
}

/// Runs `wpr -profiledetails`.
pub(super) fn profile_details(all: &[Profile], out: &mut Vec<u8>) -> Result<()> {
    let ids: Vec<&str> = all.iter().map(|profile| profile.id.as_str()).collect();
    row(out, "Profile", ids.join(", "))?;
    let recording = Recording::new(all);
    for session in &recording.sessions {
        writeln!(out)?;
        row(out, "Collector Name", &session.name)?;
        row(out, "Buffer Size (KB)", session.buffer_size_kib)?;
        if let Some(mib) = session.buffer_space_mib(super::recording::memory_mib()) {
            row(out, "Buffers (MB)", mib)?;
        }
        if session.maximum_file_size_mib > 0 {
            let mode = if session.is_circular { "circular" } else { "sequential" };
            row(out, "File Size (MB)", format_args!("{}, {mode}", session.maximum_file_size_mib))?;
        }
        list(out, "System Keywords", &keywords(session.flags))?;
        if !session.flags.is_empty() {
            list(out, "System Stacks", &stacks(&session.stacks))?;
        }
        let lines = |only: bool| -> Vec<String> {
            let those = session.providers.iter().filter(|provider| provider.capture_state_only == only);
            those
                .map(|provider| {
                    let name = match &provider.name {
                        ProviderName::Guid(guid) => guid.to_string(),
                        ProviderName::Registered(name) => name.clone(),
                        ProviderName::Hashed(name) => format!("*{name}"),
                    };
                    let stack = if provider.stack { ": Stack" } else { "" };
                    format!("{name}: {:#x}: {:#04x}{stack}", provider.keywords, level(provider).0)
                })
                .collect()
        };
        list(out, "Providers", &lines(false))?;
        list(out, "CaptureState Providers", &lines(true))?;
    }
    if !recording.left_out.is_empty() {
        writeln!(out)?;
        let lines: Vec<String> = recording.left_out.iter().map(ToString::to_string).collect();
        list(out, "Not recorded here", &lines)?;
    }
    Ok(())
}

/// Runs `wpr -providers`.
pub(super) fn providers(known: &Known, out: &mut Vec<u8>) -> Result<()> {
    let mut names: Vec<String> = Vec::new();
    for flag in EnableFlags::KNOWN.iter().filter(|flag| !flag.wpr.is_empty()) {
        let line = match flag.support {
            Support::Refused(reason) => format!("{} (not here: {reason})", flag.wpr),
            Support::Captured(_) | Support::Control => flag.wpr.to_owned(),
        };
        if !names.contains(&line) {
            names.push(line);
        }
    }
    list(out, "System Keywords", &names)?;
    let mut listed: Vec<String> = known
        .schemas
        .list()?
        .iter()
        .map(|provider| format!("{}: {}", provider.guid, provider.name))
        .collect();
    listed.sort_by_key(|line| line.to_lowercase());
    writeln!(out)?;
    list(out, "Known Providers", &listed)?;
    if let Some(mut controller) = host::running()? {
        let registered = controller.providers()?;
        let lines: Vec<String> =
            registered.iter().map(|provider| format!("{}: {}", provider.guid, provider.name)).collect();
        writeln!(out)?;
        list(out, "Registered Providers", &lines)?;
    }
    Ok(())
}
