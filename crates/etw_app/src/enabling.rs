//! Kernel flags, stacks and providers to enable in a session, parsed from command lines.

use anyhow::Result;
use etw_kernel::providers::refusal;
use openetw::kernel::{EnableFlags, StackWalks};
use openetw::schema::builtin;
use openetw::session::{Controller, EnableBuilder, EnableProperties, Filter, ProviderKey};
use openetw::{Keyword, Level};

use crate::input::provider_spec;
use crate::output;
use crate::schemas::Schemas;

/// Options of providers besides those in their strings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wants {
    /// Add the call stack to each event.
    pub stacks: bool,
    /// Add the user's SID to each event.
    pub sid: bool,
    /// Add the key of the process, which is unique until the machine restarts.
    pub process_start_key: bool,
    /// Leave out events without keywords.
    pub ignore_keyword_0: bool,
    /// The GUID names a group of providers.
    pub group: bool,
    /// Only these processes; empty for all.
    pub pid: Vec<u32>,
    /// Only processes that run a program with one of these file names; empty for all.
    pub exe: Vec<String>,
    /// Only TraceLogging events with these names; empty for all.
    pub event_name: Vec<String>,
}

/// Parses the names of the events to record stacks of, and returns their hook ids.
///
/// # Errors
///
/// Fails if a name is not that of an event.
pub fn stack_tracing(stackwalk: Option<&str>) -> Result<Option<Vec<u16>>> {
    let walks = stackwalk.map(StackWalks::parse).transpose()?;
    Ok(walks.map(|walks| walks.hook_ids().to_vec()))
}

/// Parses kernel flag and group names. Flags of groups that Linux does not support are left out with a warning.
///
/// # Errors
///
/// Fails if a name is not a flag or group, or if Linux does not support the flag.
pub fn kernel_flags(text: &str) -> Result<EnableFlags> {
    let selection = EnableFlags::parse(text)?;
    if !selection.left_out.is_empty() {
        let lines: Vec<String> = selection.left_out.iter().map(ToString::to_string).collect();
        output::warn(&format_args!("left out of -k {text}: {}", lines.join("; ")));
    }
    Ok(selection.flags)
}

/// Returns the enable request for a provider string.
///
/// # Errors
///
/// Fails if the provider string is invalid, or if the schema store cannot be read.
pub fn wanted(
    text: &str,
    wants: &Wants,
    schemas: &Schemas,
    controller: &mut Controller,
) -> Result<EnableBuilder> {
    let spec = resolve(text, schemas, controller)?;
    let guid = spec.provider.guid();
    let known = builtin::providers().find(|entry| entry.guid == guid).map(|entry| entry.name);
    if let Some((name, reason)) = known.and_then(|name| Some((name, refusal(name)?))) {
        // Enable it anyway: a program may register any GUID.
        output::warn(&format_args!("{name} has no events here: {reason}"));
    }
    let mut enable = EnableBuilder::new(spec);
    for (is_set, bits) in [
        (wants.stacks, EnableProperties::STACK_TRACE),
        (wants.sid, EnableProperties::SID),
        (wants.process_start_key, EnableProperties::PROCESS_START_KEY),
        (wants.ignore_keyword_0, EnableProperties::IGNORE_KEYWORD_0),
        (wants.group, EnableProperties::PROVIDER_GROUP),
    ] {
        if is_set {
            enable = enable.properties(bits);
        }
    }
    if !wants.pid.is_empty() {
        enable = enable.filter(Filter::Pids(wants.pid.clone()));
    }
    if !wants.exe.is_empty() {
        enable = enable.filter(Filter::ExecutableNames(wants.exe.clone()));
    }
    if !wants.event_name.is_empty() {
        enable = enable.filter(Filter::EventNames {
            include: true,
            level: Level::LOG_ALWAYS,
            any: Keyword(0),
            all: Keyword(0),
            names: wants.event_name.clone(),
        });
    }
    Ok(enable)
}

/// Parses a provider string and replaces the provider's name by its GUID, if schemas or registered providers have it.
///
/// # Errors
///
/// Fails if the provider string is invalid, or if the schema store cannot be read.
pub fn resolve(text: &str, schemas: &Schemas, controller: &mut Controller) -> Result<openetw::ProviderSpec> {
    let mut spec = provider_spec(text, schemas)?;
    if let ProviderKey::Name(name) = &spec.provider {
        let known = schemas.find(name)?.first().map(|provider| provider.info.guid);
        let registered = || {
            let all = controller.providers().unwrap_or_default();
            all.into_iter()
                .find(|provider| provider.name.eq_ignore_ascii_case(name))
                .map(|provider| provider.guid)
        };
        if let Some(guid) = known.or_else(registered) {
            spec.provider = ProviderKey::Guid(guid);
        }
    }
    Ok(spec)
}
