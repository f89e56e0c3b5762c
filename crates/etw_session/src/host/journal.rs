//! The list of running sessions, which the next host reports if this one dies.
//!
//! A file in the instance's directory has a line for each session. A host that exits cleanly removes it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use etw_protocol::Instance;
use etw_sys::rights::keeper;

use super::sessions::Session;

/// A session of a host that died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CutOff {
    name: String,
    file: String,
    uid: String,
    since: String,
}

/// The journal file.
#[derive(Debug)]
pub(super) struct Journal(PathBuf);

impl Journal {
    pub(super) fn new(instance: &Instance) -> Journal {
        Journal(instance.directory().join("etwd.sessions"))
    }

    /// Removes the journal and returns the sessions of the previous host, if it died.
    pub(super) fn take(&self) -> Vec<CutOff> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        let _ = fs::remove_file(&self.0);
        text.lines().filter_map(parse).collect()
    }

    /// Writes the running sessions.
    pub(super) fn write<'a>(&self, sessions: impl Iterator<Item = &'a Session>) -> io::Result<()> {
        let lines: String = sessions.map(line).collect();
        let lines = (!lines.is_empty()).then_some(lines.as_bytes());
        match keeper() {
            Some(keeper) => keeper.keep_journal(lines),
            None => self.replace(lines),
        }
    }

    /// Replaces the contents; `None` removes the file. That is atomic, since a host may die at any instruction.
    pub(super) fn replace(&self, contents: Option<&[u8]>) -> io::Result<()> {
        let Some(contents) = contents else {
            return match fs::remove_file(&self.0) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        };
        let new = self.0.with_extension("sessions.new");
        // Other users must not see what is recorded.
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(contents)?;
        fs::rename(&new, &self.0)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl std::fmt::Display for CutOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let CutOff { name, file, uid, since } = self;
        write!(f, "session '{name}' of user {uid}, since {since}, was cut off when the host died; ")?;
        match file.is_empty() {
            true => write!(f, "it had no file"),
            false => write!(f, "{file} has what had been flushed"),
        }
    }
}

/// Formats a line. Names and paths contain no control characters; the protocol ensures that.
fn line(session: &Session) -> String {
    let p = &session.properties;
    format!("{}\t{}\t{}\t{}\n", p.logger_name, p.log_file_name, session.owner.uid, session.start_time)
}

fn parse(line: &str) -> Option<CutOff> {
    let mut parts = line.split('\t').map(str::to_owned);
    Some(CutOff { name: parts.next()?, file: parts.next()?, uid: parts.next()?, since: parts.next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_formatted() {
        let check = |line: &str, expected: &str| assert_eq!(parse(line).unwrap().to_string(), expected);
        let start = "session 'S' of user 0, since 2026, was cut off when the host died; ";
        check("S\t/tmp/s.etl\t0\t2026", &format!("{start}/tmp/s.etl has what had been flushed"));
        check("S\t\t0\t2026", &format!("{start}it had no file"));
        assert_eq!(parse("S\t/tmp"), None);
    }

    #[test]
    fn no_sessions_leave_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::new(&Instance::at(dir.path()));
        fs::write(journal.path(), "A\t\t0\tnow\nB\t/b\t0\tnow\nhalf a li").unwrap();
        assert_eq!(journal.take().len(), 2);
        assert_eq!(journal.take(), []);
        journal.write(std::iter::empty()).unwrap();
        assert!(!journal.path().exists());
    }
}
