//! Registered providers, and what sessions have enabled.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use etw_event::{Guid, Keyword, Level};
use etw_protocol::{Enable, EnableProperties, EnableStatus, ProcessStatus, ProviderEnable, ProviderStatus};
use etw_sys::registered::{Enabled, Instance};
use etw_sys::{process, registered, tdh};

use super::error::refused;
use crate::ControllerError;

/// Returns all registered providers.
pub(super) fn providers() -> Result<Vec<ProviderStatus>, ControllerError> {
    let names = names();
    let name = |guid: &Guid| names.get(guid).cloned().unwrap_or_default();
    Ok(all()?.into_iter().map(|(guid, instances)| status(guid, name(&guid), &instances)).collect())
}

/// Returns what a session has enabled.
pub(super) fn enables(logger_id: u16) -> Result<Vec<EnableStatus>, ControllerError> {
    let names = names();
    let mut enables = Vec::new();
    for (provider, instances) in all()? {
        let of_session =
            |instance: &Instance| instance.enables.iter().find(|one| one.logger_id == logger_id).copied();
        let Some(enabled) = instances.iter().find_map(of_session) else { continue };
        let has_process = |instance: &&Instance| instance.pid != 0 && of_session(instance).is_some();
        enables.push(EnableStatus {
            provider,
            name: names.get(&provider).cloned().unwrap_or_default(),
            enable: Enable {
                level: Level(enabled.level),
                any: Keyword(enabled.any),
                all: Keyword(enabled.all),
                properties: EnableProperties(enabled.properties),
                filters: Vec::new(),
                source: Guid::ZERO,
            },
            processes: instances.iter().filter(has_process).count() as u32,
        });
    }
    Ok(enables)
}

/// Returns the running processes with providers that a session has enabled.
pub(super) fn processes(logger_id: u16) -> Result<Vec<ProcessStatus>, ControllerError> {
    let mut pids = BTreeSet::new();
    for (_, instances) in all()? {
        let writes = |instance: &&Instance| instance.enables.iter().any(|one| one.logger_id == logger_id);
        pids.extend(instances.iter().filter(writes).map(|instance| instance.pid));
    }
    // 0 stands for a provider that is enabled but not registered.
    pids.remove(&0);
    let status = |pid| ProcessStatus {
        pid,
        parent_pid: 0,
        image: process::image(pid).unwrap_or_default(),
        command_line: String::new(),
    };
    Ok(pids.into_iter().map(status).collect())
}

fn all() -> Result<Vec<(Guid, Vec<Instance>)>, ControllerError> {
    let failed = |error: io::Error| refused("the registered providers", "cannot be listed", &error);
    let guids = registered::providers().map_err(failed)?;
    // A provider may disappear meanwhile.
    let instances = |guid: Guid| registered::instances(&guid).ok().map(|instances| (guid, instances));
    Ok(guids.into_iter().filter_map(instances).collect())
}

/// Returns the names of the providers that are registered on the machine; others have none here.
fn names() -> HashMap<Guid, String> {
    let known = tdh::providers().unwrap_or_default();
    known.into_iter().map(|provider| (provider.guid, provider.name)).collect()
}

fn status(guid: Guid, name: String, instances: &[Instance]) -> ProviderStatus {
    let mut enables: BTreeMap<u16, (Enabled, Vec<u32>)> = BTreeMap::new();
    for instance in instances {
        for enabled in &instance.enables {
            let (_, pids) = enables.entry(enabled.logger_id).or_insert((*enabled, Vec::new()));
            pids.extend(Some(instance.pid).filter(|pid| *pid != 0));
        }
    }
    ProviderStatus {
        guid,
        name,
        group: Guid::ZERO,
        pids: instances.iter().map(|instance| instance.pid).filter(|pid| *pid != 0).collect(),
        sessions: enables.keys().copied().collect(),
        enables: enables
            .into_iter()
            .map(|(logger_id, (enabled, pids))| ProviderEnable {
                logger_id,
                level: Level(enabled.level),
                any: Keyword(enabled.any),
                all: Keyword(enabled.all),
                properties: EnableProperties(enabled.properties),
                pids,
            })
            .collect(),
    }
}
