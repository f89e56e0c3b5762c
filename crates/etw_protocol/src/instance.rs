//! Instances: directories with the socket of a host.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use etw_sys::credentials::{effective_uid, gains_rights, unknown_uid};
use etw_sys::socket::Connection;

use crate::ProtocolError;

/// The variable with the directory of the only instance, if set.
const VARIABLE: &str = "OPENETW_RUNTIME_DIR";
/// Directory of the system instance.
const SYSTEM: &str = "/run/openetw";

/// A directory with the socket of a host.
///
/// | instance | directory |
/// |---|---|
/// | the only one, if `OPENETW_RUNTIME_DIR` is set | that directory |
/// | the system instance | `/run/openetw` |
/// | a user's instance | `$XDG_RUNTIME_DIR/openetw`, else `/tmp/openetw-UID` |
///
/// A program that gains rights when it is executed (set-user-id and the like) ignores both variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    directory: PathBuf,
    scope: Scope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Named by the user.
    Named,
    System,
    User,
}

impl Instance {
    /// Returns the instance in this directory.
    pub fn at(directory: impl Into<PathBuf>) -> Instance {
        Instance { directory: directory.into(), scope: Scope::Named }
    }

    /// Returns the system instance.
    pub fn system() -> Instance {
        Instance { directory: SYSTEM.into(), scope: Scope::System }
    }

    /// Returns the instance of this process's user.
    pub fn user() -> Instance {
        let runtime = variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
        let directory = match runtime {
            Some(runtime) => runtime.join("openetw"),
            None => PathBuf::from(format!("/tmp/openetw-{}", effective_uid())),
        };
        Instance { directory, scope: Scope::User }
    }

    /// Returns the only instance, if `OPENETW_RUNTIME_DIR` names one.
    pub fn named() -> Option<Instance> {
        variable(VARIABLE).filter(|value| !value.is_empty()).map(Instance::at)
    }

    /// Returns the default instance for controllers, consumers and hosts of this process: the named one, else for root
    /// the system's, else the user's.
    pub fn default_of_user() -> Instance {
        Instance::named()
            .unwrap_or_else(|| if effective_uid() == 0 { Instance::system() } else { Instance::user() })
    }

    /// Returns the instances for a process's providers: the named one, or the system's and the user's.
    pub fn all_for_providers() -> Vec<Instance> {
        match Instance::named() {
            Some(named) => vec![named],
            None => vec![Instance::system(), Instance::user()],
        }
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of the host's socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("etwd.sock")
    }

    /// Returns the path of the lock that the host holds.
    pub fn lock(&self) -> PathBuf {
        self.directory.join("etwd.lock")
    }

    /// Returns whether this is the system instance, to which any user may connect.
    pub fn is_system(&self) -> bool {
        self.scope == Scope::System
    }

    /// Creates the directory for the host: a user's with mode 0700, the system's with 0755.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be created, or if it exists and [`Instance::check_directory`] fails.
    pub fn create_directory(&self) -> Result<(), ProtocolError> {
        let mode = if self.is_system() { 0o755 } else { 0o700 };
        match fs::DirBuilder::new().mode(mode).create(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        self.check_directory()
    }

    /// Checks that only root and, except in the system instance, the user of this process could have created the directory
    /// or a socket in it. For root, it must be root's. In a container that does not know the machine's root, only the
    /// container's root.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Untrusted`] if other users could have; [`ProtocolError::Io`] if the directory cannot be
    /// examined.
    pub fn check_directory(&self) -> Result<(), ProtocolError> {
        let found = match self.scope {
            // The user may name it by a link.
            Scope::Named => fs::metadata(&self.directory)?,
            Scope::System | Scope::User => fs::symlink_metadata(&self.directory)?,
        };
        let distrust = |why: String| {
            let path = self.directory.display().to_string();
            Err(ProtocolError::Untrusted { path, why })
        };
        if !found.is_dir() {
            return distrust("it is no directory".to_owned());
        }
        if !self.trusts(found.uid()) {
            return distrust(format!("it belongs to user {}", found.uid()));
        }
        if found.mode() & 0o022 != 0 {
            return distrust(format!("others may write to it (mode {:o})", found.mode() & 0o7777));
        }
        Ok(())
    }

    /// Checks that the host at the other end is root's or, except in the system instance, the user's own.
    pub(crate) fn check_host(&self, connection: &Connection) -> Result<(), ProtocolError> {
        let uid = connection.peer()?.uid;
        if self.trusts(uid) {
            return Ok(());
        }
        let path = self.socket().display().to_string();
        Err(ProtocolError::Untrusted { path, why: format!("the host runs as user {uid}") })
    }

    fn trusts(&self, uid: u32) -> bool {
        uid == 0 || self.scope != Scope::System && uid == effective_uid() || self.is_given(uid)
    }

    /// Whether the directory belongs to a user that the container of this process does not know, as the machine's root is, at
    /// a place where only the container's root could have put it.
    fn is_given(&self, uid: u32) -> bool {
        let is_closed = |directory: &Path| {
            let found = fs::symlink_metadata(directory);
            found.is_ok_and(|found| {
                found.is_dir() && found.mode() & 0o022 == 0 && [0, uid].contains(&found.uid())
            })
        };
        self.scope != Scope::User
            && unknown_uid() == Some(uid)
            && self.directory.is_absolute()
            && self.directory.ancestors().all(is_closed)
    }
}

/// Returns a variable, unless who started this program has fewer rights than the program: it would choose the host.
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|_| !gains_rights())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn directories_of_others_are_not_trusted() {
        let directory = env::temp_dir().join(format!("etw_protocol-{}", std::process::id()));
        let instance = Instance { directory: directory.clone(), scope: Scope::User };
        assert!(matches!(instance.check_directory(), Err(ProtocolError::Io(_))));
        instance.create_directory().unwrap();
        instance.create_directory().unwrap();
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
        assert_eq!(instance.socket(), directory.join("etwd.sock"));
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
        let error = instance.check_directory().unwrap_err().to_string();
        assert!(error.contains("others may write to it (mode 777)"), "{error}");
        fs::remove_dir(&directory).unwrap();
        fs::write(&directory, b"").unwrap();
        assert!(instance.check_directory().unwrap_err().to_string().contains("no directory"));
        fs::remove_file(&directory).unwrap();
    }
}
