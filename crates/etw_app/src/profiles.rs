//! Recording profiles by name: `[FILE.wprp!]NAME[.Light|.Verbose]`.

use std::path::Path;

use anyhow::{Context, Result};
use openetw::Guid;
use openetw::kernel::EnableFlags;
use openetw::profile::{
    EventProvider, FindError, LoggingMode, Profile, ProfileFile, ProviderName, Recording, built_in, decode,
    enable, refusal,
};
use openetw::session::{Controller, EnableBuilder};

use crate::output;
use crate::paths::path;
use crate::providers::Known;
use crate::status::{Failed, code};

/// Omissions listed in a warning; further ones are only counted.
const MAX_LISTED: usize = 6;

/// Calls `then` with the profiles of a file, or with the built-in ones.
///
/// # Errors
///
/// Fails if the file cannot be read or is not a recording profile, or if `then` fails.
pub fn with_file<T>(name: Option<&str>, then: impl FnOnce(&ProfileFile<'_>) -> Result<T>) -> Result<T> {
    let Some(name) = name else { return then(&built_in()?) };
    let file = path(name)?;
    let file = Path::new(&file);
    let bytes = std::fs::read(file).with_context(|| format!("{}: cannot be read", file.display()))?;
    let text = decode(&bytes);
    let read = ProfileFile::parse(&text);
    let read =
        read.map_err(|error| Failed::new(code::PROFILE_SCHEMA, format!("{}: {error}", file.display())))?;
    if let Some(first) = read.not_understood().first() {
        let more = read.not_understood().len() - 1;
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        output::warn(&format_args!("{}: not understood: {first}{more}", file.display()));
    }
    then(&read)
}

/// Returns the profile with a name. With `mode` it must have that mode; otherwise file mode is tried first.
///
/// # Errors
///
/// Fails if the profile does not exist, or if its file cannot be read.
pub fn load(text: &str, mode: Option<LoggingMode>) -> Result<Profile> {
    let (in_file, name) = match text.rsplit_once('!') {
        Some((file, name)) => (Some(file), name),
        None if text.to_ascii_lowercase().ends_with(".wprp") => (Some(text), ""),
        None => (None, text),
    };
    with_file(in_file, |profiles| find(profiles, name, mode, in_file.is_none()))
}

/// Returns the profile with a name of the text of a file, or of the built-in ones.
///
/// # Errors
///
/// Fails if the text is not a recording profile, or if it has no such profile.
pub fn of_text(text: Option<&str>, name: &str) -> Result<Profile> {
    match text {
        Some(text) => find(&ProfileFile::parse(text)?, name, None, false),
        None => find(&built_in()?, name, None, true),
    }
}

fn find(
    profiles: &ProfileFile<'_>,
    name: &str,
    mode: Option<LoggingMode>,
    is_built_in: bool,
) -> Result<Profile> {
    let found = match mode {
        Some(mode) => profiles.find(name, mode),
        None => profiles.find(name, LoggingMode::File).or_else(|error| match error {
            FindError::NoMode { .. } => profiles.find(name, LoggingMode::Memory),
            other => Err(other),
        }),
    };
    let found = found.map_err(|error| not_found(&error, is_built_in, name))?;
    let resolved = profiles.resolve(found);
    Ok(resolved.map_err(|error| Failed::new(code::PROFILE_SCHEMA, format!("{name}: {error}")))?)
}

fn not_found(error: &FindError, is_built_in: bool, name: &str) -> anyhow::Error {
    let bare = name.split('.').next().unwrap_or_default();
    let failed = match (refusal(bare), error) {
        (Some(reason), FindError::Unknown { .. }) if is_built_in => {
            Failed::new(code::NOT_SUPPORTED, format!("profile {bare}: {reason}"))
        }
        (_, FindError::NoMode { mode, .. }) => {
            let hint = match mode {
                LoggingMode::Memory => "; -filemode records it to a file",
                LoggingMode::File => "; without -filemode it is recorded in memory",
            };
            Failed::new(code::NOT_FOUND, format!("{error}{hint}"))
        }
        (_, FindError::Unknown { .. }) if is_built_in => {
            Failed::new(code::NOT_FOUND, format!("{error}; use FILE.wprp!NAME for a profile in a file"))
        }
        _ => Failed::new(code::NOT_FOUND, error.to_string()),
    };
    failed.into()
}

/// Combines profiles into one recording, and prints a warning about the parts that are left out.
///
/// # Errors
///
/// Fails if none of the profiles has events that can be recorded.
pub fn recording(profiles: &[Profile]) -> Result<Recording> {
    let recording = Recording::new(profiles);
    let left_out: Vec<String> = recording.left_out.iter().map(ToString::to_string).collect();
    if recording.sessions.is_empty() {
        let reasons =
            if left_out.is_empty() { "they request no events".to_owned() } else { left_out.join("; ") };
        let text = format!("nothing in these profiles can be recorded: {reasons}");
        return Err(Failed::new(code::NO_PROVIDERS, text).into());
    }
    if !left_out.is_empty() {
        let listed = left_out.iter().take(MAX_LISTED).map(String::as_str).collect::<Vec<_>>().join("; ");
        let more = left_out.len().saturating_sub(MAX_LISTED);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        output::warn(&format_args!("left out of the profile: {listed}{more}"));
    }
    Ok(recording)
}

/// The kernel flags, stacks and providers of recording profiles, combined for one session.
#[derive(Debug, Clone, Default)]
pub struct Combined {
    /// The flags of system events.
    pub flags: EnableFlags,
    /// Hook ids of the events with stacks.
    pub stacks: Vec<u16>,
    /// The providers.
    pub providers: Vec<EventProvider>,
}

impl Combined {
    /// Combines the sessions of profiles, and prints a warning about the parts that are left out.
    ///
    /// # Errors
    ///
    /// Fails if none of the profiles has events that can be recorded.
    pub fn from_profiles(profiles: &[Profile]) -> Result<Combined> {
        let mut all = Combined::default();
        for session in recording(profiles)?.sessions {
            all.flags |= session.flags;
            all.stacks.extend(session.stacks);
            all.providers.extend(session.providers);
        }
        Ok(all)
    }
}

/// Returns the GUID of a provider in a profile.
///
/// # Errors
///
/// Fails if the provider is unknown and its name is invalid, or if the host cannot be reached.
pub fn guid(provider: &EventProvider, known: &Known, controller: &mut Controller) -> Result<Guid> {
    match &provider.name {
        ProviderName::Guid(guid) => Ok(*guid),
        ProviderName::Hashed(name) => Ok(Guid::from_provider_name(name)),
        // Kernel providers that Linux lacks are reported among the omissions.
        ProviderName::Registered(name) if etw_kernel_events::providers::refusal(name).is_some() => {
            let listed = known.schemas.find(name)?;
            Ok(listed.first().map_or_else(|| Guid::from_provider_name(name), |provider| provider.info.guid))
        }
        ProviderName::Registered(name) => Ok(known.find(name, Some(controller))?.guid),
    }
}

/// Returns the enable requests for providers, except those that only capture state.
///
/// # Errors
///
/// Fails if [`guid`] fails.
pub fn enables(
    providers: &[EventProvider],
    known: &Known,
    controller: &mut Controller,
) -> Result<Vec<EnableBuilder>> {
    let recorded = providers.iter().filter(|provider| !provider.capture_state_only);
    recorded.map(|provider| Ok(enable(provider, guid(provider, known, controller)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_profiles() {
        let cpu = load("cpu.light", Some(LoggingMode::Memory)).unwrap();
        assert_eq!(cpu.id, "CPU.Light.Memory");
        assert_eq!(load("GeneralProfile", None).unwrap().id, "GeneralProfile.Verbose.File");
        let check = |text: &str, mode: Option<LoggingMode>, said: &str| {
            let error = load(text, mode).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        };
        check("Registry.Light", None, "profile Registry: Linux has no registry");
        check("Nothing", None, "no profile 'Nothing'; available: GeneralProfile, CPU, ");
        check(r"C:\x.wprp!Shop", None, "is a Windows path");
        check("/nowhere/x.wprp", None, "/nowhere/x.wprp: cannot be read");
    }

    #[test]
    fn profiles_of_files_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("shop.WPRP");
        let text = "<WindowsPerformanceRecorder><Profiles><EventCollector Id='C'/>
            <EventProvider Id='P' Name='*Shop'/>
            <Profile Id='A' Name='Shop' DetailLevel='Light' LoggingMode='File'><Collectors><EventCollectorId Value='C'>
            <EventProviders><EventProviderId Value='P'/></EventProviders></EventCollectorId></Collectors></Profile>
            <Profile Id='B' Name='Empty' DetailLevel='Light' LoggingMode='Memory'/>
            </Profiles></WindowsPerformanceRecorder>";
        std::fs::write(&file, text).unwrap();
        let of = |name: &str| format!("{}{name}", file.display());
        assert_eq!(load(&of("!shop"), Some(LoggingMode::File)).unwrap().id, "A");
        assert_eq!(load(&of("!Empty"), None).unwrap().id, "B");
        let error = load(&of("!Shop"), Some(LoggingMode::Memory)).unwrap_err().to_string();
        assert!(error.contains("not defined for recording in memory; -filemode records it"), "{error}");
        let error = load(&of(""), None).unwrap_err().to_string();
        assert!(error.contains("name one of these profiles: Shop, Empty"), "{error}");
        let error = recording(&[load(&of("!Empty"), None).unwrap()]).unwrap_err().to_string();
        assert!(error.contains("they request no events"), "{error}");
        std::fs::write(&file, "<a/>").unwrap();
        let error = load(&of("!Shop"), None).unwrap_err();
        assert_eq!(crate::status::code_of(&error), 0xC558_0701, "{error}");
    }
}
