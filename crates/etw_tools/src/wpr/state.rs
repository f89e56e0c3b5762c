//! The state of a recording between `-start` and `-stop`, in addition to the sessions themselves.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use openetw::profile::LoggingMode;
use openetw::{Guid, Keyword, Level};
use serde_json::{Value, json};

/// A started recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    /// Ids of the profiles.
    pub(super) profiles: Vec<String>,
    pub(super) mode: LoggingMode,
    /// Directory of its files until it is saved.
    pub(super) folder: PathBuf,
    /// Whether the file is to be compressed.
    pub(super) compresses: bool,
    /// Its sessions and their files.
    pub(super) sessions: Vec<(String, PathBuf)>,
    /// Providers whose state is captured when the recording is saved, or on request.
    pub(super) on_save: Vec<Capture>,
    pub(super) on_demand: Vec<Capture>,
}

/// A provider whose state is captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Capture {
    pub(super) session: String,
    pub(super) provider: Guid,
    pub(super) level: Level,
    pub(super) keywords: Keyword,
    /// Whether the session has no other events of the provider.
    pub(super) is_only: bool,
}

/// Returns the file with the state of a recording, next to the socket of the host that runs its sessions.
#[cfg(target_os = "linux")]
pub(super) fn file(instance_name: &str) -> PathBuf {
    openetw::session::Instance::default_of_user().directory().join(format!("wpr-{instance_name}.json"))
}

/// Returns the file with the state of a recording, in the directory that the user alone may write to.
#[cfg(windows)]
pub(super) fn file(instance_name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("openetw-wpr-{instance_name}.json"))
}

impl State {
    /// Loads the state from a file, if it exists.
    pub(super) fn load(file: &Path) -> Result<Option<State>> {
        match fs::read_to_string(file) {
            Ok(text) => Ok(serde_json::from_str(&text).ok().as_ref().and_then(State::read)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{}: cannot be read", file.display())),
        }
    }

    /// Saves the state atomically.
    pub(super) fn save(&self, file: &Path) -> Result<()> {
        let part = file.with_extension("part");
        let write = || {
            // Others can read the directory of the system's instance.
            etw_sys::output::create(&part)?.write_all(self.to_json().to_string().as_bytes())?;
            fs::rename(&part, file)
        };
        write().with_context(|| format!("{}: cannot be written", file.display()))
    }

    fn to_json(&self) -> Value {
        let captures = |captures: &[Capture]| captures.iter().map(Capture::to_json).collect::<Value>();
        let sessions = self.sessions.iter().map(|(name, file)| json!([name, file.to_string_lossy()]));
        json!({
            "profiles": self.profiles,
            "mode": self.mode.name(),
            "folder": self.folder.to_string_lossy(),
            "compresses": self.compresses,
            "sessions": sessions.collect::<Value>(),
            "on_save": captures(&self.on_save),
            "on_demand": captures(&self.on_demand),
        })
    }

    fn read(value: &Value) -> Option<State> {
        let texts = |value: &Value| -> Option<Vec<String>> {
            value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let captures =
            |value: &Value| value.as_array()?.iter().map(Capture::read).collect::<Option<Vec<_>>>();
        let sessions = value["sessions"].as_array()?.iter();
        Some(State {
            profiles: texts(&value["profiles"])?,
            mode: if value["mode"] == "File" { LoggingMode::File } else { LoggingMode::Memory },
            folder: value["folder"].as_str()?.into(),
            compresses: value["compresses"].as_bool()?,
            sessions: sessions
                .map(|session| Some((session[0].as_str()?.to_owned(), session[1].as_str()?.into())))
                .collect::<Option<_>>()?,
            on_save: captures(&value["on_save"])?,
            on_demand: captures(&value["on_demand"])?,
        })
    }
}

impl Capture {
    fn to_json(&self) -> Value {
        json!({
            "session": self.session,
            "provider": self.provider.to_string(),
            "level": self.level.0,
            "keywords": self.keywords.0,
            "is_only": self.is_only,
        })
    }

    fn read(value: &Value) -> Option<Capture> {
        Some(Capture {
            session: value["session"].as_str()?.to_owned(),
            provider: value["provider"].as_str()?.parse().ok()?,
            level: Level(u8::try_from(value["level"].as_u64()?).ok()?),
            keywords: Keyword(value["keywords"].as_u64()?),
            is_only: value["is_only"].as_bool()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("wpr-x.json");
        assert_eq!(State::load(&file).unwrap(), None);
        let capture = Capture {
            session: "S".to_owned(),
            provider: Guid::from_u128(7),
            level: Level(5),
            keywords: Keyword(u64::MAX),
            is_only: true,
        };
        let state = State {
            profiles: vec!["CPU.Verbose.Memory".to_owned()],
            mode: LoggingMode::Memory,
            folder: "/tmp/x".into(),
            compresses: true,
            sessions: vec![("S".to_owned(), "/tmp/x/S.etl".into())],
            on_save: vec![capture.clone()],
            on_demand: vec![capture],
        };
        state.save(&file).unwrap();
        assert_eq!(State::load(&file).unwrap(), Some(state));
        std::fs::write(&file, "{").unwrap();
        assert_eq!(State::load(&file).unwrap(), None);
    }
}
