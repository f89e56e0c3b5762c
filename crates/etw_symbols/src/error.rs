//! Errors of finding symbols.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::windows::PdbId;

/// Why an image has no symbols. Each variant names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolError {
    /// The image is not a file on this machine: its name is not an absolute path.
    #[error("{name} is not a file on this machine")]
    NoFile {
        /// The image's name.
        name: String,
    },
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not the one that was traced.
    #[error("{}: its build id is {found}, but the trace has {wanted}", path.display())]
    OtherBuildId {
        /// The file.
        path: PathBuf,
        /// The file's build id.
        found: BuildIdText,
        /// The build id in the trace, which may be cut.
        wanted: BuildIdText,
    },
    /// The file is not an ELF file, or is damaged.
    #[error("{}: not an ELF file: {reason}", path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The trace does not identify the image's PDB, and its file is not on this machine.
    #[error("the trace has no id of the PDB, and the image file is not in the symbol path")]
    NoPdbId,
    /// The PDB is neither in the symbol path nor next to the image.
    #[error("{id} is not in the symbol path{}", hint(*has_server))]
    NoPdb {
        /// The PDB.
        id: PdbId,
        /// Whether the symbol path has a server.
        has_server: bool,
    },
    /// The file is not a PDB or PE file, or is damaged.
    #[error("{}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The kernel hides its addresses from this user.
    #[error("{}: addresses are hidden from this user (kernel.kptr_restrict)", path.display())]
    Hidden {
        /// The file.
        path: PathBuf,
    },
}

fn hint(has_server: bool) -> &'static str {
    match has_server {
        true => "; `etw symbols fetch` gets it from the server",
        false => "",
    }
}

/// A build id, displayed in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildIdText(pub(crate) Vec<u8>);

impl fmt::Display for BuildIdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
