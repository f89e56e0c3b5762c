//! Output of `xperf -loggers` and `xperf -providers`.

use std::io::Write;

use anyhow::Result;
use etw_app::providers::Known;
use etw_app::status::usage;
use openetw::kernel::{EnableFlags, Support};
use openetw::session::Controller;

use crate::{host, logger};

/// Shows the running sessions.
pub(super) fn loggers(known: &Known, out: &mut Vec<u8>) -> Result<()> {
    let Some(mut controller) = host::running()? else { return Ok(()) };
    let mut sessions = controller.list()?;
    sessions.sort_by_key(|session| session.logger_id);
    for status in &sessions {
        for (name, value) in logger::rows(status) {
            writeln!(out, "{name:<22}: {value}")?;
        }
        let mut flags = logger::providers(&controller.enables(&status.properties.logger_name)?, known);
        if status.properties.enable_flags != 0 {
            flags.insert(0, logger::flags(status.properties.enable_flags));
        }
        writeln!(out, "{:<22}: {}\n", "Trace Flags", flags.join("+"))?;
    }
    Ok(())
}

/// Shows providers of the requested kinds, given by their first letters.
pub(super) fn providers(kinds: &[String], known: &Known, out: &mut Vec<u8>) -> Result<()> {
    let default = ["i".to_owned(), "k".to_owned()];
    for kind in if kinds.is_empty() { &default } else { kinds } {
        match kind.to_lowercase().as_str() {
            "i" | "installed" => installed(known, out)?,
            "r" | "registered" => registered(known, out)?,
            "k" | "kernel" => {
                flags(out)?;
                groups(out)?;
            }
            "kf" | "kernelflags" => flags(out)?,
            "kg" | "kernelgroups" => groups(out)?,
            _ => return Err(usage(format_args!("-providers {kind}: expected I, R, K, KF or KG"))),
        }
    }
    Ok(())
}

fn installed(known: &Known, out: &mut Vec<u8>) -> Result<()> {
    for listed in known.schemas.list()? {
        writeln!(out, "       {}: {}", listed.guid, listed.name)?;
    }
    Ok(writeln!(out)?)
}

fn registered(known: &Known, out: &mut Vec<u8>) -> Result<()> {
    let registered = host::running()?.as_mut().map(Controller::providers).transpose()?.unwrap_or_default();
    for status in registered {
        let name = Some(status.name).filter(|name| !name.is_empty()).or_else(|| known.name_of(status.guid));
        writeln!(out, "       {}: {}", status.guid, name.unwrap_or_default())?;
    }
    Ok(writeln!(out)?)
}

fn flags(out: &mut Vec<u8>) -> Result<()> {
    writeln!(out, "Kernel Flags:")?;
    let known = EnableFlags::KNOWN;
    for (index, flag) in known.iter().enumerate().filter(|(_, flag)| !flag.xperf.is_empty()) {
        // One name may mean several flags.
        if known[..index].iter().any(|earlier| earlier.xperf == flag.xperf) {
            continue;
        }
        let same = known.iter().filter(|other| other.xperf == flag.xperf).map(|other| other.name);
        let names = same.collect::<Vec<_>>().join(", ");
        match flag.support {
            Support::Refused(reason) => {
                writeln!(out, "       {:<16}: {names} (not here: {reason})", flag.xperf)?
            }
            _ => writeln!(out, "       {:<16}: {names}", flag.xperf)?,
        }
    }
    Ok(writeln!(out)?)
}

fn groups(out: &mut Vec<u8>) -> Result<()> {
    writeln!(out, "Kernel Groups:")?;
    for (name, members) in EnableFlags::GROUPS {
        writeln!(out, "       {name:<16}: {members}")?;
    }
    Ok(writeln!(out)?)
}
