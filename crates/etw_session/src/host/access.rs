//! Access rights at a host.

use std::path::Path;

use serde::Deserialize;

use etw_event::Guid;
use etw_protocol::session_name_eq;
use etw_sys::credentials::{Peer, effective_uid, group_id};

use super::HostError;
use super::error::toml_text;

/// The access list of a host. Root and the host's own user may do everything; other users only what the rules allow, by
/// default nothing.
///
/// Users control and read the sessions that they were allowed to start, and these receive events of the user's own
/// processes; anything else is a [`Right`] of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    rules: Vec<Rule>,
    /// Whether users other than root and the host's own may connect.
    is_open: bool,
    /// The group that may read the files of sessions.
    file_group: Option<u32>,
}

/// A right that a rule can grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Right {
    /// Start sessions, and control one's own.
    Start,
    /// Stop, update and flush other users' sessions.
    Control,
    /// Query other users' sessions, and list the providers.
    Query,
    /// Enable providers in one's own sessions, and together with `control` in other users' sessions.
    Enable,
    /// Read other users' sessions in real time.
    Read,
    /// Write to sessions of mode SECURE.
    Write,
    /// Receive events of other users' processes in one's own sessions.
    Collect,
}

/// Rights of some users.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// User ids; with `gids` the rule is for users of either.
    #[serde(default)]
    uids: Vec<u32>,
    /// Group ids.
    #[serde(default)]
    gids: Vec<u32>,
    may: Vec<Right>,
    /// Names of sessions, where a trailing `*` matches anything; all if empty.
    #[serde(default)]
    sessions: Vec<String>,
    /// Providers, by GUID, or by a name from which the GUID is derived; all if empty.
    #[serde(default)]
    providers: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Name or number of the group that may read the files of sessions.
    #[serde(default, rename = "file-group")]
    file_group: Option<String>,
    #[serde(default)]
    allow: Vec<Rule>,
}

impl Access {
    /// Parses a list of rules in TOML. Users other than root and the host's own may then connect and register
    /// providers, and otherwise do only what the rules allow.
    ///
    /// # Errors
    ///
    /// Fails if the list is invalid; the message gives the position.
    pub fn from_list(list: &str) -> Result<Access, String> {
        let file: File = toml::from_str(list).map_err(|error| toml_text(list, &error))?;
        for provider in file.allow.iter().flat_map(|rule| &rule.providers) {
            if provider.starts_with('{') && provider.parse::<Guid>().is_err() {
                return Err(format!("'{provider}' is not a GUID"));
            }
        }
        let file_group = file.file_group.as_deref().map(group_of).transpose()?;
        Ok(Access { rules: file.allow, is_open: true, file_group })
    }

    /// Lets a group read the files that the host makes for sessions, which otherwise only their owner can read.
    #[must_use]
    pub fn with_file_group(self, file_group: u32) -> Access {
        Access { file_group: Some(file_group), ..self }
    }

    /// Reads a list of rules from a file; a missing file has no rules.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or is invalid.
    pub fn from_file(path: &Path) -> Result<Access, HostError> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            text => text.map_err(|error| HostError::file(path, error))?,
        };
        Access::from_list(&text).map_err(|what| HostError::Configuration { path: path.to_owned(), what })
    }

    pub(crate) fn file_group(&self) -> Option<u32> {
        self.file_group
    }

    /// Whether users other than root and the host's own may connect.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether a process may connect.
    pub(crate) fn admits(&self, peer: &Peer) -> bool {
        self.is_open || is_privileged(peer.uid)
    }

    /// Whether a process may send files at all: only if some session could write to them. Closing the file of a hostile
    /// program may block forever, so the host accepts none from others.
    pub(crate) fn may_send_files(&self, peer: &Peer) -> bool {
        let lets = |rule: &Rule| {
            [Right::Start, Right::Control].iter().any(|right| rule.allows(peer, *right, None, None))
        };
        is_privileged(peer.uid) || self.rules.iter().any(lets)
    }

    /// Whether a process has a right over a session and a provider, by a rule or by its user.
    pub(crate) fn allows(
        &self,
        peer: &Peer,
        right: Right,
        session: Option<&str>,
        provider: Option<Guid>,
    ) -> bool {
        is_privileged(peer.uid) || self.rules.iter().any(|rule| rule.allows(peer, right, session, provider))
    }
}

/// Whether a user has all rights.
pub(crate) fn is_privileged(uid: u32) -> bool {
    uid == 0 || uid == effective_uid()
}

impl Rule {
    fn allows(&self, peer: &Peer, right: Right, session: Option<&str>, provider: Option<Guid>) -> bool {
        let is_one = self.uids.contains(&peer.uid) || self.gids.contains(&peer.gid);
        let of_session = session.is_none_or(|name| {
            self.sessions.is_empty() || self.sessions.iter().any(|pattern| matches(pattern, name))
        });
        let of_provider = provider.is_none_or(|guid| {
            self.providers.is_empty() || self.providers.iter().any(|text| guid_of(text) == guid)
        });
        is_one && self.may.contains(&right) && of_session && of_provider
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    let Some(start) = pattern.strip_suffix('*') else { return session_name_eq(pattern, name) };
    let mut rest = name.chars().flat_map(char::to_lowercase);
    start.chars().flat_map(char::to_lowercase).all(|expected| rest.next() == Some(expected))
}

fn group_of(name: &str) -> Result<u32, String> {
    group_id(name).ok_or_else(|| format!("there is no group '{name}'"))
}

fn guid_of(text: &str) -> Guid {
    text.parse().unwrap_or_else(|_| Guid::from_provider_name(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
        [[allow]]
        uids = [65001]
        may = ["start", "enable"]
        sessions = ["web-*"]
        providers = ["Shop", "{9e814aad-3204-11d2-9a82-006008a86939}"]

        [[allow]]
        gids = [65100]
        may = ["read"]
        sessions = ["Metrics"]
    "#;

    #[test]
    fn rules_allow_nothing_else() {
        let access = Access::from_list(LIST).unwrap();
        let shop = Some(Guid::from_provider_name("Shop"));
        let check =
            |uid: u32, gid: u32, right: Right, session: &str, provider: Option<Guid>, expected: bool| {
                let peer = Peer { pid: 1, uid, gid };
                assert_eq!(
                    access.allows(&peer, right, Some(session), provider),
                    expected,
                    "{uid} {gid} {right:?} {session}"
                );
            };
        check(65001, 1, Right::Start, "WEB-1", None, true);
        check(65001, 1, Right::Start, "db-1", None, false);
        check(65001, 1, Right::Enable, "web-1", shop, true);
        check(65001, 1, Right::Enable, "web-1", Some(Guid::from_provider_name("Other")), false);
        check(65001, 1, Right::Read, "web-1", None, false);
        check(65002, 65100, Right::Read, "metrics", None, true);
        check(65002, 65100, Right::Read, "metrics2", None, false);
        check(65002, 65101, Right::Read, "metrics", None, false);
        check(0, 0, Right::Control, "anything", shop, true);
        assert!(access.admits(&Peer { pid: 1, uid: 65003, gid: 1 }));
        assert!(!Access::default().admits(&Peer { pid: 1, uid: 65003, gid: 1 }));
    }

    #[test]
    fn wrong_lists_are_refused() {
        for (list, expected) in [
            ("[[allow]]\nuids = [1]\nmay = [\"everything\"]", "everything"),
            ("[[allow]]\nuid = [1]\nmay = []", "uid"),
            ("file-group = \"no such group\"", "there is no group 'no such group'"),
            ("[[allow]]\nmay = [\"start\"]\nproviders = [\"{1}\"]", "'{1}' is not a GUID"),
        ] {
            let error = Access::from_list(list).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }
}
