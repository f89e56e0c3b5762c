//! Why an image has no symbols.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why an image has no symbols. Each says which file it means.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolError {
    /// The image is no file of this machine: its name is no absolute path.
    #[error("{name} is no file of this machine")]
    NoFile {
        /// The image's name.
        name: String,
    },
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is not the one that ran.
    #[error("{}: its build id is {found}, that of the trace {wanted}", path.display())]
    OtherBuildId {
        /// The file.
        path: PathBuf,
        /// The file's build id.
        found: BuildIdText,
        /// What the trace has of the id.
        wanted: BuildIdText,
    },
    /// The file is no ELF file, or a damaged one.
    #[error("{}: no ELF file: {reason}", path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The kernel hides its addresses from this user.
    #[error("{}: addresses are hidden from this user (kernel.kptr_restrict)", path.display())]
    Hidden {
        /// The file.
        path: PathBuf,
    },
}

/// A build id as people read it.
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
