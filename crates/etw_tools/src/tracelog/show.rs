//! Output of `tracelog`.

use std::io::Write;

use anyhow::Result;
use etw_app::providers::Known;
use etw_app::status::{Failed, code, usage};
use openetw::Guid;
use openetw::session::{Controller, EnableStatus, ProviderStatus, SessionStatus};

use crate::{host, logger};

/// Reports success.
pub(super) fn succeeded(out: &mut Vec<u8>) -> Result<()> {
    Ok(writeln!(out, "Operation Status:       0L      The operation completed successfully.\n")?)
}

/// Shows a session.
pub(super) fn session(status: &SessionStatus, out: &mut Vec<u8>) -> Result<()> {
    for (name, value) in logger::rows(status) {
        writeln!(out, "{:<23} {value}", format!("{name}:"))?;
    }
    if status.properties.enable_flags != 0 {
        writeln!(out, "{:<23} {}", "Enabled tracing:", logger::flags(status.properties.enable_flags))?;
    }
    for missing in &status.system_missing {
        writeln!(out, "{:<23} {missing}", "Missing:")?;
    }
    Ok(writeln!(out)?)
}

/// Shows the providers of a session.
pub(super) fn enables(enables: &[EnableStatus], known: &Known, out: &mut Vec<u8>) -> Result<()> {
    writeln!(out, "Enabled Providers:")?;
    for line in logger::providers(enables, known) {
        writeln!(out, "    {line}")?;
    }
    Ok(writeln!(out)?)
}

/// Shows the providers that programs have registered, or one of them.
pub(super) fn registered(wanted: Option<&String>, with_processes: bool, out: &mut Vec<u8>) -> Result<()> {
    let wanted = wanted.map(|text| text.trim_start_matches('#').parse::<Guid>()).transpose();
    let wanted = wanted.map_err(|error| usage(format_args!("-enumguidex: {error}")))?;
    let mut registered =
        host::running()?.as_mut().map(Controller::providers).transpose()?.unwrap_or_default();
    registered.retain(|status| wanted.is_none_or(|guid| guid == status.guid));
    if let (Some(guid), true) = (wanted, registered.is_empty()) {
        return Err(Failed::new(code::GUID_NOT_FOUND, format!("no program has registered {guid}")).into());
    }
    writeln!(out, "{:<38}  Enabled  LoggerId  Level  Flags", "Guid")?;
    writeln!(out, "{}", "-".repeat(74))?;
    for status in &registered {
        put_provider(status, with_processes, out)?;
    }
    Ok(())
}

fn put_provider(status: &ProviderStatus, with_processes: bool, out: &mut Vec<u8>) -> Result<()> {
    if status.enables.is_empty() {
        writeln!(out, "{:<38}  FALSE    0         0      0", status.guid.to_string())?;
    }
    for enable in &status.enables {
        let guid = status.guid.to_string();
        writeln!(
            out,
            "{guid:<38}  TRUE     {:<8}  {:<5}  {:#x}",
            enable.logger_id, enable.level.0, enable.any.0
        )?;
    }
    if with_processes {
        for pid in &status.pids {
            writeln!(out, "    PID: {pid} {}", status.name)?;
        }
    }
    Ok(())
}
