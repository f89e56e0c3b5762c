//! A saved session: which traces were opened, and what the page showed of them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// What files of sessions say first.
const FORMAT: &str = "etw view session";
/// Maximum size of a file.
const MAX_LEN_BYTES: u64 = 1 << 20;

/// A session of the viewer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    format: String,
    version: u32,
    /// The files that were opened.
    #[serde(flatten)]
    pub paths: SessionPaths,
    /// What the page shows: the part of its URL after `#`.
    #[serde(default)]
    pub state: String,
}

/// The files of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPaths {
    /// The traces.
    pub files: Vec<PathBuf>,
    /// Traces to compare with.
    #[serde(default)]
    pub compare: Vec<PathBuf>,
    /// Files of regions of interest.
    #[serde(default)]
    pub regions: Vec<PathBuf>,
    /// Files of stack tags.
    #[serde(default)]
    pub stack_tags: Vec<PathBuf>,
}

impl SessionPaths {
    /// Returns these paths, each changed.
    fn map(self, change: impl Fn(PathBuf) -> PathBuf) -> SessionPaths {
        let all = |paths: Vec<PathBuf>| paths.into_iter().map(&change).collect();
        SessionPaths {
            files: all(self.files),
            compare: all(self.compare),
            regions: all(self.regions),
            stack_tags: all(self.stack_tags),
        }
    }
}

impl Session {
    /// Whether a path is that of a session and not of a trace.
    #[must_use]
    pub fn is_session(path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("etwsession"))
    }

    /// Reads a session. A trace that is not where it was is looked for beside the file of the session.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or is no session.
    pub fn read(path: &Path) -> Result<Session> {
        let shown = path.display();
        let len = std::fs::metadata(path).with_context(|| format!("cannot read {shown}"))?.len();
        if len > MAX_LEN_BYTES {
            bail!("{shown}: larger than {MAX_LEN_BYTES} bytes");
        }
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        let session: Session =
            serde_json::from_str(&text).with_context(|| format!("{shown}: not a session of etw view"))?;
        if session.format != FORMAT || session.version != 1 {
            bail!("{shown}: a session has `\"format\": \"{FORMAT}\"` and `\"version\": 1`");
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        Ok(Session { paths: session.paths.map(|path| beside(folder, path)), ..session })
    }

    /// Returns the text of a session of these files.
    ///
    /// # Errors
    ///
    /// Fails if a path is not text.
    pub(crate) fn text(paths: &SessionPaths, state: &str) -> Result<String> {
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let session = Session {
            format: FORMAT.to_owned(),
            version: 1,
            paths: paths.clone().map(absolute),
            state: state.to_owned(),
        };
        Ok(serde_json::to_string_pretty(&session)? + "\n")
    }
}

/// Returns a path as it is if there is something, else that of a file of its name in a folder if there is one.
fn beside(folder: &Path, path: PathBuf) -> PathBuf {
    // A session of Windows has other separators.
    let text = path.to_string_lossy();
    let name = text.rsplit(['/', '\\']).next().unwrap_or_default();
    let near = folder.join(name);
    let relative = folder.join(&path);
    match (path.exists(), relative.exists(), near.exists()) {
        (true, ..) => path,
        (_, true, _) => relative,
        (_, _, true) if !name.is_empty() => near,
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_move_with_their_traces() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("a.etl");
        std::fs::write(&trace, "").unwrap();
        let session = folder.path().join("x.etwsession");
        assert!(Session::is_session(&session) && !Session::is_session(&trace));
        let paths = SessionPaths { files: vec![trace.clone()], ..SessionPaths::default() };
        let text = Session::text(&paths, "table=%22disk%22").unwrap();
        std::fs::write(&session, &text).unwrap();
        let read = Session::read(&session).unwrap();
        assert_eq!((read.paths.files[0].clone(), read.state.as_str()), (trace, "table=%22disk%22"));
        // In another folder, and from another system.
        let moved = tempfile::tempdir().unwrap();
        std::fs::write(moved.path().join("a.etl"), "").unwrap();
        let session = moved.path().join("y.etwsession");
        std::fs::write(&session, text.replace(&*folder.path().to_string_lossy(), "C:\\\\none")).unwrap();
        assert_eq!(Session::read(&session).unwrap().paths.files, [moved.path().join("a.etl")]);
        for wrong in ["", "{}", "{\"format\":\"x\",\"version\":1,\"files\":[]}"] {
            std::fs::write(&session, wrong).unwrap();
            assert!(format!("{:#}", Session::read(&session).unwrap_err()).contains("y.etwsession"));
        }
    }
}
