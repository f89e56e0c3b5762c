//! Autologgers as files of the daemon.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use etw_app::status::{Failed, code, usage};
use openetw::session::{EnableProperties, Filter, Instance, SessionClock};

use crate::files::config_directory;
use crate::session::Plan;

/// Returns the directory from which the daemon of this user's instance reads autologgers.
fn directory() -> Result<PathBuf> {
    if Instance::default_of_user().is_system() {
        return Ok(PathBuf::from("/etc/openetw/autologgers"));
    }
    Ok(config_directory()?.join("autologgers"))
}

fn file(name: &str) -> Result<PathBuf> {
    if name.contains(['/', '\0']) || name.starts_with('.') {
        return Err(usage(format_args!("'{name}' is not a valid autologger name; it becomes a file name")));
    }
    Ok(directory()?.join(format!("{name}.toml")))
}

/// Writes the file of an autologger, and returns its path.
pub(in crate::tracelog) fn add(name: &str, plan: &Plan) -> Result<PathBuf> {
    let file = file(name)?;
    let text = text(plan)?;
    let write = || {
        std::fs::create_dir_all(file.parent().unwrap_or(&file))?;
        std::fs::write(&file, &text)
    };
    write().with_context(|| format!("{}: cannot be written", file.display()))?;
    Ok(file)
}

/// Removes the file of an autologger.
pub(in crate::tracelog) fn remove(name: &str) -> Result<()> {
    let file = file(name)?;
    match std::fs::remove_file(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Failed::new(
            code::INSTANCE_NOT_FOUND,
            format!("there is no autologger '{name}' in {}", directory()?.display()),
        )
        .into()),
        removed => removed.with_context(|| format!("{}: cannot be removed", file.display())),
    }
}

/// Formats the file for the daemon.
fn text(plan: &Plan) -> Result<String> {
    let p = plan.builder.properties();
    if p.enable_flags != 0 {
        return Err(usage(
            "autologgers cannot have kernel flags; enable the provider Microsoft-Windows-Kernel-Process instead",
        ));
    }
    let quoted = |text: &str| format!("{text:?}");
    let mut out = String::new();
    let _ = writeln!(out, "name = {}", quoted(&p.logger_name));
    if !p.log_file_name.is_empty() {
        let _ = writeln!(out, "file = {}", quoted(&p.log_file_name));
    }
    let modes = p.log_file_mode.iter_names();
    let modes: Vec<String> = modes.map(|(name, _)| quoted(&name.to_lowercase().replace('_', "-"))).collect();
    let _ = writeln!(out, "mode = [{}]", modes.join(", "));
    for (key, value) in [
        ("buffer-size-kib", p.buffer_size),
        ("minimum-buffers", p.minimum_buffers),
        ("maximum-buffers", p.maximum_buffers),
        ("maximum-file-size-mib", p.maximum_file_size),
        ("flush-timer-millis", p.flush_timer_millis),
    ] {
        if value != 0 {
            let _ = writeln!(out, "{key} = {value}");
        }
    }
    let clock = match p.clock {
        SessionClock::Qpc => "qpc",
        SessionClock::SystemTime => "system",
        SessionClock::CpuCycle => "cycle",
    };
    let _ = writeln!(out, "clock = {}", quoted(clock));
    for enable in &plan.enables {
        let (guid, enable) = enable.build()?;
        let mut ids = String::new();
        let mut rest = String::new();
        for filter in &enable.filters {
            match filter {
                Filter::EventIds { include, ids: listed } => {
                    let listed = listed.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
                    ids = format!("{}{listed}", if *include { "" } else { "!" });
                }
                Filter::Pids(pids) => {
                    let _ = writeln!(rest, "pids = {pids:?}");
                }
                Filter::ExecutableNames(names) => {
                    let _ = writeln!(rest, "executables = {names:?}");
                }
                _ => return Err(usage("autologgers can filter only by event id, process and program")),
            }
        }
        let (any, all) = (enable.any.0, enable.all.0);
        let _ = writeln!(out, "\n[[provider]]\nspec = \"{guid}:{}:{ids}:{any:#x}:{all:#x}\"", enable.level.0);
        let stacks = enable.properties.contains(EnableProperties::STACK_TRACE);
        let _ = writeln!(out, "stacks = {stacks}\n{}", rest.trim_end());
    }
    Ok(out)
}
