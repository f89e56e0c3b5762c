//! Sessions that start with the host: one TOML file each.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use etw_etl::LogFileMode;
use etw_event::{Guid, Keyword};
use etw_protocol::{Enable, EnableProperties, Filter, SessionClock, SessionProperties};
use etw_schema::ProviderSpec;

use super::HostError;
use super::error::toml_text;

/// A session that starts with the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autologger {
    /// Its properties.
    pub properties: SessionProperties,
    /// The providers to enable.
    pub enables: Vec<(Guid, Enable)>,
}

/// The file. Keys are named like the options of `etw session start`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    name: Option<String>,
    #[serde(default = "yes")]
    enabled: bool,
    #[serde(default)]
    file: String,
    #[serde(default)]
    mode: Vec<String>,
    buffer_size_kib: Option<u32>,
    minimum_buffers: Option<u32>,
    maximum_buffers: Option<u32>,
    maximum_file_size_mib: Option<u32>,
    flush_timer_millis: Option<u32>,
    clock: Option<Clock>,
    #[serde(default)]
    provider: Vec<AutologgerProvider>,
}

/// A provider in the file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct AutologgerProvider {
    /// `(Name|{GUID})[:Level[:[!]EventIDs[:MatchAnyKeyword[:MatchAllKeyword]]]]`.
    spec: String,
    /// Whether to add stacks.
    #[serde(default)]
    stacks: bool,
    /// Process ids.
    #[serde(default)]
    pids: Vec<u32>,
    /// File names of programs.
    #[serde(default)]
    executables: Vec<String>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Clock {
    Qpc,
    System,
    Cycle,
}

fn yes() -> bool {
    true
}

impl Autologger {
    /// Reads the text of a file; `stem` is the name of the session unless the file has another one. Returns `None` if it is
    /// disabled.
    ///
    /// # Errors
    ///
    /// Returns the reason, with the position in the text, if it is invalid.
    pub fn from_text(text: &str, stem: &str) -> Result<Option<Autologger>, String> {
        parse(text, stem)
    }
}

/// Reads the files `*.toml` of a directory in the order of their names. Disabled files are ignored; a missing directory
/// has no files.
///
/// # Errors
///
/// Fails if a file cannot be read, or is invalid.
pub fn read_autologgers(directory: &Path) -> Result<Vec<(PathBuf, Autologger)>, HostError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| HostError::file(directory, error))?,
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).map_err(|error| HostError::file(&path, error))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match parse(&text, &stem) {
            Ok(Some(autologger)) => found.push((path, autologger)),
            Ok(None) => {}
            Err(what) => return Err(HostError::Configuration { path, what }),
        }
    }
    Ok(found)
}

fn parse(text: &str, stem: &str) -> Result<Option<Autologger>, String> {
    let file: File = toml::from_str(text).map_err(|error| toml_text(text, &error))?;
    if !file.enabled {
        return Ok(None);
    }
    let mut mode = LogFileMode::empty();
    for name in &file.mode {
        mode |= LogFileMode::of_name(name).ok_or_else(|| unknown_mode(name))?;
    }
    let default = SessionProperties::default();
    let properties = SessionProperties {
        logger_name: file.name.unwrap_or_else(|| stem.to_owned()),
        buffer_size: file.buffer_size_kib.unwrap_or(default.buffer_size),
        minimum_buffers: file.minimum_buffers.unwrap_or(0),
        maximum_buffers: file.maximum_buffers.unwrap_or(0),
        maximum_file_size: file.maximum_file_size_mib.unwrap_or(0),
        flush_timer_millis: file.flush_timer_millis.unwrap_or(0),
        log_file_mode: mode,
        log_file_name: file.file,
        clock: match file.clock {
            None | Some(Clock::Qpc) => SessionClock::Qpc,
            Some(Clock::System) => SessionClock::SystemTime,
            Some(Clock::Cycle) => SessionClock::CpuCycle,
        },
        ..default
    };
    let enables = file.provider.into_iter().map(enable_of).collect::<Result<_, _>>()?;
    Ok(Some(Autologger { properties, enables }))
}

fn enable_of(provider: AutologgerProvider) -> Result<(Guid, Enable), String> {
    let spec: ProviderSpec = provider.spec.parse().map_err(|error| format!("{error}"))?;
    let guid = spec.provider.guid();
    if let Some(name) = spec.any.names.iter().chain(&spec.all.names).next() {
        return Err(format!("keyword '{name}' of {}: only numbers are known here", provider.spec));
    }
    let mut filters = Vec::new();
    if let Some(ids) = spec.ids.list() {
        filters.push(Filter::EventIds { include: !spec.ids.is_exclusion(), ids });
    }
    if !provider.pids.is_empty() {
        filters.push(Filter::Pids(provider.pids));
    }
    if !provider.executables.is_empty() {
        filters.push(Filter::ExecutableNames(provider.executables));
    }
    let properties = match provider.stacks {
        true => EnableProperties::STACK_TRACE,
        false => EnableProperties::empty(),
    };
    let (any, all) = (Keyword(spec.any.mask), Keyword(spec.all.mask));
    Ok((guid, Enable { level: spec.level, any, all, properties, filters, source: Guid::ZERO }))
}

fn unknown_mode(name: &str) -> String {
    let known = LogFileMode::all().iter_names().map(|(name, _)| name.to_ascii_lowercase().replace('_', "-"));
    let known: Vec<String> = known.collect();
    format!("unknown mode '{name}'; expected one of {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_session() {
        let text = r#"
            file = "/var/log/openetw/boot.etl"
            mode = ["circular"]
            maximum-file-size-mib = 64
            flush-timer-millis = 500
            clock = "system"

            [[provider]]
            spec = "Shop:Warning:1,2:0x10"
            stacks = true
            executables = ["shop"]
        "#;
        let found = parse(text, "boot").unwrap().unwrap();
        let p = &found.properties;
        assert_eq!((p.logger_name.as_str(), p.maximum_file_size, p.buffer_size), ("boot", 64, 64));
        assert_eq!((p.log_file_mode, p.clock), (LogFileMode::CIRCULAR, SessionClock::SystemTime));
        let (guid, enable) = &found.enables[0];
        assert_eq!(*guid, Guid::from_provider_name("Shop"));
        assert_eq!((enable.level.0, enable.any.0, enable.properties.0), (3, 0x10, 4));
        assert_eq!(enable.filters.len(), 2);
        assert_eq!(parse("enabled = false", "x"), Ok(None));
    }

    #[test]
    fn files_shipped_with_the_project_are_valid() {
        let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
        assert_eq!(read_autologgers(&packaging.join("autologgers")).unwrap(), []);
        let text = fs::read_to_string(packaging.join("autologgers/example.toml")).unwrap();
        let found = parse(&text.replace("enabled = false", ""), "example").unwrap().unwrap();
        assert_eq!((found.properties.logger_name.as_str(), found.enables.len()), ("Boot", 1));
        let list = fs::read_to_string(packaging.join("access.toml")).unwrap();
        assert!(super::super::Access::from_list(&list).is_ok());
        // Its example rules are valid as well.
        let rules: String = list
            .lines()
            .filter_map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with([' ', '#'])))
            .map(|line| format!("{line}\n"))
            .collect();
        assert!(rules.contains("[[allow]]"));
        assert!(super::super::Access::from_list(&rules).is_ok(), "{rules}");
    }

    #[test]
    fn wrong_files_are_refused() {
        for (text, expected) in [
            ("colour = 1", "colour"),
            ("mode = [\"round\"]", "unknown mode 'round'; expected one of sequential, circular"),
            ("[[provider]]\nspec = \":1\"", "names no provider"),
            ("[[provider]]\nspec = \"A:::Image\"", "keyword 'Image'"),
        ] {
            let error = parse(text, "x").unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
        assert_eq!(read_autologgers(Path::new("/nowhere")).unwrap(), []);
    }
}
