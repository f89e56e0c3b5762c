//! Kernel flags, stacks and providers to enable in a session, parsed from command lines.

use anyhow::Result;
use etw_kernel_events::providers::refusal;
use openetw::kernel::{EnableFlags, StackWalks};
use openetw::schema::builtin;
use openetw::session::{Controller, EnableBuilder, EnableProperties, Filter, ProviderKey};
use openetw::{Keyword, Level};

use crate::input::provider_spec;
use crate::payload::{Described, PayloadCondition};
use crate::schemas::Schemas;
use crate::{UsageError, output, tracepoints};

/// Separates a provider string from the condition on its events' payloads.
const WHERE: &str = " where ";

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

/// Returns the enable requests for provider strings: one for each, and one for all that name tracepoints of the Linux kernel
/// (`tracepoint:sched:sched_switch`), since these are events of one provider.
///
/// # Errors
///
/// As [`wanted`]; and if this kernel lacks a tracepoint or refuses the condition on its events ([`UsageError`]).
pub fn all_wanted(
    texts: &[String],
    wants: &Wants,
    schemas: &Schemas,
    controller: &mut Controller,
) -> Result<Vec<EnableBuilder>> {
    let (of_tracepoints, texts): (Vec<&String>, Vec<&String>) =
        texts.iter().partition(|text| tracepoints::pattern_text(text).is_some());
    let enables = texts.into_iter().map(|text| wanted(text, wants, schemas, controller));
    let mut enables = enables.collect::<Result<Vec<_>>>()?;
    if !of_tracepoints.is_empty() {
        let parts = of_tracepoints.iter().map(|text| parted(text));
        let patterns =
            parts.filter_map(|(text, condition)| Some((tracepoints::pattern_text(text)?, condition)));
        let enable = tracepoints::wanted(&patterns.collect::<Vec<_>>())?;
        // The names are those of the tracepoints.
        enables.push(with_options(enable, &Wants { event_name: Vec::new(), ..wants.clone() }));
    }
    Ok(enables)
}

/// Returns the enable request for a provider string, which a condition on payloads may follow: `NAME:4 where Size > 10`.
///
/// # Errors
///
/// Fails if the provider string or the condition is invalid, or names an event or field that the provider's schema
/// lacks ([`UsageError`]), or if the schema store cannot be read.
pub fn wanted(
    text: &str,
    wants: &Wants,
    schemas: &Schemas,
    controller: &mut Controller,
) -> Result<EnableBuilder> {
    let (provider, condition) = parted(text);
    let condition = condition.map(PayloadCondition::parse).transpose()?;
    let spec = resolve(provider, schemas, controller)?;
    let guid = spec.provider.guid();
    let mut payload = None;
    if condition.is_some() || !spec.ids.is_all() {
        let described = Described::find(&spec, schemas)?;
        described.check_ids(&spec.ids)?;
        payload = condition.map(|condition| described.filter(condition, &spec.ids)).transpose()?;
    }
    let known = builtin::providers().find(|entry| entry.guid == guid).map(|entry| entry.name);
    if let Some((name, reason)) = known.and_then(|name| Some((name, refusal(name)?))) {
        // Enable it anyway: a program may register any GUID.
        output::warn(&format_args!("{name} has no events here: {reason}"));
    }
    let enable = payload.into_iter().fold(EnableBuilder::new(spec), EnableBuilder::filter);
    Ok(with_options(enable, wants))
}

/// Returns a provider string without its condition, and the condition.
fn parted(text: &str) -> (&str, Option<&str>) {
    text.split_once(WHERE).map_or((text, None), |(provider, condition)| (provider, Some(condition)))
}

/// Adds options to an enable request.
fn with_options(mut enable: EnableBuilder, wants: &Wants) -> EnableBuilder {
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
    enable
}

/// Parses a provider string and replaces the provider's name by its GUID, if schemas or registered providers have it.
///
/// # Errors
///
/// Fails if the provider string is invalid or has a condition ([`UsageError`]), or if the schema store cannot be read.
pub fn resolve(text: &str, schemas: &Schemas, controller: &mut Controller) -> Result<openetw::ProviderSpec> {
    if let Some((provider, _)) = text.split_once(WHERE) {
        let what =
            format!("'{text}' has a condition, which only enabling has; name the provider, {provider}");
        return Err(UsageError(what).into());
    }
    if tracepoints::pattern_text(text).is_some() {
        let what =
            format!("'{text}' names events, which only enabling does; name the provider, Linux-Tracepoint");
        return Err(UsageError(what).into());
    }
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
