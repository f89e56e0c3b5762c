//! Recording profiles (`.wprp`), and the parts of them that this system can record.
//!
//! A [`Recording`] is planned from profiles: it has the sessions to start, and the parts left out with the reasons.
//!
//! ```
//! use etw_profile::LoggingMode;
//! use etw_system::profile::{Recording, built_in};
//!
//! let profiles = built_in()?;
//! let profile = profiles.resolve(profiles.find("CPU.Light", LoggingMode::File)?)?;
//! let recording = Recording::new(&[profile]);
//! assert!(recording.left_out.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod plan;

use etw_profile::{ProfileError, ProfileFile};

pub use plan::{LeftOut, PlannedSession, Recording, enable, level};

/// Returns the built-in profiles: those of `wpr` whose events exist on Linux.
///
/// # Errors
///
/// Never fails in practice; a test parses the file.
pub fn built_in() -> Result<ProfileFile<'static>, ProfileError> {
    ProfileFile::parse(include_str!("built_in.wprp"))
}

/// Returns the reason why a built-in profile of Windows' own `wpr` is unavailable.
pub fn refusal(name: &str) -> Option<&'static str> {
    let (_, reason) = REFUSED.iter().find(|(refused, _)| refused.eq_ignore_ascii_case(name))?;
    if cfg!(windows) {
        return Some(
            "it is not built in here; export it from Windows' own wpr, and name it as FILE.wprp!NAME",
        );
    }
    Some(reason)
}

const OF_WINDOWS: &str = "it records graphics, audio and applications of Windows";

const REFUSED: &[(&str, &str)] = &[
    ("Registry", "Linux has no registry"),
    ("Heap", "Linux reports no heap allocations; VirtualAllocation records memory that programs reserve"),
    (
        "HeapSnapshot",
        "Linux reports no heap allocations; VirtualAllocation records memory that programs reserve",
    ),
    ("Pool", "Linux has no pools"),
    ("Handle", "Linux has no handles to objects of the kernel"),
    ("Minifilter", "Linux has no filter drivers between programs and file systems"),
    ("ResidentSet", "Linux does not report page list changes; VirtualAllocation records page faults"),
    ("ReferenceSet", "Linux does not report page list changes; VirtualAllocation records page faults"),
    ("Power", "its events are not captured on Linux yet"),
    ("DotNET", ".NET programs write to LTTng and EventPipe on Linux, not to ETW"),
    ("GPU", OF_WINDOWS),
    ("Audio", OF_WINDOWS),
    ("Video", OF_WINDOWS),
    ("InternetExplorer", OF_WINDOWS),
    ("EdgeBrowser", OF_WINDOWS),
    ("DesktopComposition", OF_WINDOWS),
    ("HTMLActivity", OF_WINDOWS),
    ("HTMLResponsiveness", OF_WINDOWS),
    ("XAMLActivity", OF_WINDOWS),
    ("XAMLAppResponsiveness", OF_WINDOWS),
];

#[cfg(test)]
mod tests {
    use etw_profile::LoggingMode;

    use super::*;

    #[test]
    fn what_is_built_in_can_all_be_recorded() {
        let file = built_in().unwrap();
        assert_eq!(file.not_understood(), []);
        for name in file.names() {
            assert_eq!(refusal(&name), None);
            for mode in [LoggingMode::File, LoggingMode::Memory] {
                for level in ["Light", "Verbose"] {
                    let found = file.find(&format!("{name}.{level}"), mode).unwrap();
                    assert_eq!(found.id, format!("{name}.{level}.{}", mode.name()));
                    let recording = Recording::new(&[file.resolve(found).unwrap()]);
                    assert_eq!(recording.left_out, [], "{name}");
                    assert!(recording.sessions.iter().any(|session| session.flags.0 != 0), "{name}");
                }
            }
        }
        assert!(refusal("registry").is_some());
    }
}
