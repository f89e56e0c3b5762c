//! Autologgers in the registry.

use std::path::PathBuf;

use anyhow::Result;
use openetw::session::Autologger;

use crate::session::Plan;

/// Writes an autologger, and returns its key.
pub(in crate::tracelog) fn add(name: &str, plan: &Plan) -> Result<PathBuf> {
    let mut properties = plan.builder.properties().clone();
    name.clone_into(&mut properties.logger_name);
    let enables = plan.enables.iter().map(|enable| enable.build()).collect::<Result<_, _>>()?;
    Autologger { properties, enables }.save()?;
    Ok(PathBuf::from(r"HKLM\SYSTEM\CurrentControlSet\Control\WMI\Autologger").join(name))
}

/// Removes an autologger.
pub(in crate::tracelog) fn remove(name: &str) -> Result<()> {
    Ok(Autologger::remove(name)?)
}
