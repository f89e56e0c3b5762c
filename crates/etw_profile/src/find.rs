//! Finding profiles by the names that users give.

use crate::{Definition, DetailLevel, LoggingMode, ProfileFile};

/// Errors of [`ProfileFile::find`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// No profile has the name.
    #[error("no profile '{name}'; available: {}", listed(.known))]
    Unknown {
        /// The name that was given.
        name: String,
        /// The names of the profiles in the file.
        known: Vec<String>,
    },
    /// No name was given, and the file does not have exactly one name or a default.
    #[error("name one of these profiles: {}", listed(.known))]
    NoneNamed {
        /// The names of the profiles in the file.
        known: Vec<String>,
    },
    /// The profile is not defined for this detail level.
    #[error("profile '{name}' is not defined for the detail level {}", level.name())]
    NoDetail {
        /// The profile.
        name: String,
        /// The level that was given.
        level: DetailLevel,
    },
    /// The profile is not defined for this logging mode.
    #[error("profile '{name}' is not defined for recording {}", mode.words())]
    NoMode {
        /// The profile.
        name: String,
        /// The mode that was given.
        mode: LoggingMode,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl DetailLevel {
    /// Returns `Light` or `Verbose`.
    pub fn name(self) -> &'static str {
        match self {
            DetailLevel::Light => "Light",
            DetailLevel::Verbose => "Verbose",
        }
    }
}

impl LoggingMode {
    /// Returns `File` or `Memory`.
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
    /// Finds the profile that `Name[.Light|.Verbose]` names. Case does not matter.
    ///
    /// Without a detail level, the verbose profile is preferred. An empty name stands for the default profile, or for the
    /// only one.
    ///
    /// # Errors
    /// Fails if no profile has this name, detail level and mode, or if the name is empty and ambiguous.
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

    /// Returns the names of the profiles that are not internal, each once, in the order of the file.
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

/// Splits `Name.Verbose` into its parts.
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
        fails("Disk", LoggingMode::File, "no profile 'Disk'; available: CPU, My.Shop");
        fails("", LoggingMode::File, "name one of these profiles: CPU, My.Shop");
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
