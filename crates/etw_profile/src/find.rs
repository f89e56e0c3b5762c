//! Profiles by the names that users give.

use crate::{Definition, DetailLevel, LoggingMode, ProfileFile};

/// Why there is no such profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// No profile has the name.
    #[error("there is no profile '{name}'; there are {}", listed(.known))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// None is named, and there are several, or none.
    #[error("one of these profiles has to be named: {}", listed(.known))]
    NoneNamed {
        /// The names that there are.
        known: Vec<String>,
    },
    /// The profile has not this detail level.
    #[error("profile '{name}' is not defined for the detail level {}", level.name())]
    NoDetail {
        /// The profile.
        name: String,
        /// What was asked for.
        level: DetailLevel,
    },
    /// The profile has not this logging mode.
    #[error("profile '{name}' is not defined for recording {}", mode.words())]
    NoMode {
        /// The profile.
        name: String,
        /// What was asked for.
        mode: LoggingMode,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl DetailLevel {
    /// `Light` or `Verbose`.
    pub fn name(self) -> &'static str {
        match self {
            DetailLevel::Light => "Light",
            DetailLevel::Verbose => "Verbose",
        }
    }
}

impl LoggingMode {
    /// `File` or `Memory`.
    pub fn name(self) -> &'static str {
        match self {
            LoggingMode::File => "File",
            LoggingMode::Memory => "Memory",
        }
    }

    fn words(self) -> &'static str {
        match self {
            LoggingMode::File => "to a file",
            LoggingMode::Memory => "in memory",
        }
    }
}

impl ProfileFile<'_> {
    /// The profile that `Name[.Light|.Verbose]` stands for, in any case; without a detail level the verbose one, or the
    /// light one if there is no other. An empty name is that of the default profile, or of the only one.
    ///
    /// # Errors
    /// There is none of this name, detail level and mode.
    pub fn find(&self, text: &str, mode: LoggingMode) -> Result<&Definition, FindError> {
        let (name, level) = split(text);
        let name = if name.is_empty() { self.only_name()? } else { name.to_owned() };
        let named = || self.profiles().iter().filter(|profile| profile.name.eq_ignore_ascii_case(&name));
        if named().next().is_none() {
            return Err(FindError::Unknown { name, known: self.names() });
        }
        let levels = level.map_or(vec![DetailLevel::Verbose, DetailLevel::Light], |level| vec![level]);
        if let Some(level) = level
            && !named().any(|profile| profile.detail_level == level)
        {
            return Err(FindError::NoDetail { name, level });
        }
        let found = levels.iter().find_map(|level| {
            named().find(|profile| profile.detail_level == *level && profile.logging_mode == mode)
        });
        found.ok_or_else(|| FindError::NoMode { name: text.to_owned(), mode })
    }

    /// The names of the profiles that are not internal, each once, in the order of the file.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for profile in self.profiles().iter().filter(|profile| !profile.is_internal) {
            if !names.iter().any(|name| name.eq_ignore_ascii_case(&profile.name)) {
                names.push(profile.name.clone());
            }
        }
        names
    }

    fn only_name(&self) -> Result<String, FindError> {
        if let Some(default) = self.profiles().iter().find(|profile| profile.is_default) {
            return Ok(default.name.clone());
        }
        match <[String; 1]>::try_from(self.names()) {
            Ok([name]) => Ok(name),
            Err(known) => Err(FindError::NoneNamed { known }),
        }
    }
}

/// `Name.Verbose` to its parts.
fn split(text: &str) -> (&str, Option<DetailLevel>) {
    let level = |word: &str| match word.to_ascii_lowercase().as_str() {
        "light" => Some(DetailLevel::Light),
        "verbose" => Some(DetailLevel::Verbose),
        _ => None,
    };
    let parts = text.rsplit_once('.').and_then(|(name, word)| Some((name, level(word)?)));
    parts.map_or((text, None), |(name, level)| (name, Some(level)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(profiles: &[(&str, &str, &str)]) -> String {
        let profiles: String = profiles
            .iter()
            .map(|(name, level, mode)| {
                format!("<Profile Id='{name}.{level}.{mode}' Name='{name}' DetailLevel='{level}' LoggingMode='{mode}'/>")
            })
            .collect();
        format!("<WindowsPerformanceRecorder><Profiles>{profiles}</Profiles></WindowsPerformanceRecorder>")
    }

    #[test]
    fn names_stand_for_profiles() {
        let text = text(&[
            ("CPU", "Light", "Memory"),
            ("CPU", "Verbose", "Memory"),
            ("CPU", "Verbose", "File"),
            ("My.Shop", "Light", "File"),
        ]);
        let file = ProfileFile::parse(&text).unwrap();
        let check = |text: &str, mode: LoggingMode, id: &str| {
            assert_eq!(file.find(text, mode).unwrap().id, id, "{text}");
        };
        check("cpu", LoggingMode::Memory, "CPU.Verbose.Memory");
        check("CPU.light", LoggingMode::Memory, "CPU.Light.Memory");
        check("CPU.Verbose", LoggingMode::File, "CPU.Verbose.File");
        check("My.Shop", LoggingMode::File, "My.Shop.Light.File");
        check("my.shop.LIGHT", LoggingMode::File, "My.Shop.Light.File");
        let fails = |text: &str, mode: LoggingMode, said: &str| {
            assert_eq!(file.find(text, mode).unwrap_err().to_string(), said, "{text}");
        };
        fails("Disk", LoggingMode::File, "there is no profile 'Disk'; there are CPU, My.Shop");
        fails("", LoggingMode::File, "one of these profiles has to be named: CPU, My.Shop");
        fails("CPU.Light", LoggingMode::File, "profile 'CPU.Light' is not defined for recording to a file");
        fails("My.Shop", LoggingMode::Memory, "profile 'My.Shop' is not defined for recording in memory");
        fails(
            "My.Shop.Verbose",
            LoggingMode::File,
            "profile 'My.Shop' is not defined for the detail level Verbose",
        );
    }

    #[test]
    fn the_only_profile_needs_no_name() {
        let text = text(&[("Only", "Light", "File"), ("only", "Verbose", "File")]);
        let file = ProfileFile::parse(&text).unwrap();
        assert_eq!(file.find("", LoggingMode::File).unwrap().id, "only.Verbose.File");
    }
}
