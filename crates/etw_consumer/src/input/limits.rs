//! Limits for opening files.

use std::ffi::OsStr;
use std::fs::File;
use std::io;

use etw_sys::FileMap;

/// Limits for opening files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputLimits {
    /// Maximum size in bytes of what one file is unpacked or converted to, all members of an archive together.
    pub decompressed_bytes: u64,
    /// Whether the bytes of files are in memory that may be written, by programs in other languages that get addresses of
    /// events; nothing of it is written to the files. Not of what is in memory already ([`Input::from_bytes`](super::Input::from_bytes)).
    pub is_writable: bool,
}

/// The environment variable with the default of [`InputLimits::decompressed_bytes`], in units of 2^20 bytes.
const MAX_UNPACKED: &str = "OPENETW_MAX_UNPACKED_MB";

impl Default for InputLimits {
    /// 64 GiB, or what the environment variable `OPENETW_MAX_UNPACKED_MB` says, in units of 2^20 bytes. If that is not a
    /// number, nothing is unpacked.
    fn default() -> InputLimits {
        let decompressed_bytes = max_unpacked(std::env::var_os(MAX_UNPACKED).as_deref());
        InputLimits { decompressed_bytes, is_writable: false }
    }
}

impl InputLimits {
    /// Maps a file.
    pub(super) fn map(&self, file: &File) -> io::Result<FileMap> {
        if self.is_writable { FileMap::writable(file) } else { FileMap::new(file) }
    }
}

fn max_unpacked(set: Option<&OsStr>) -> u64 {
    let Some(set) = set else { return 64 << 30 };
    let megabytes = set.to_str().and_then(|set| set.parse::<u64>().ok());
    megabytes.unwrap_or(0).saturating_mul(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_limits_what_is_unpacked() {
        let check = |set: Option<&str>, expected: u64| {
            assert_eq!(max_unpacked(set.map(OsStr::new)), expected);
        };
        check(None, 64 << 30);
        check(Some("2"), 2 << 20);
        check(Some("99999999999999999"), u64::MAX);
        // A limit that is not understood is no reason to have none.
        check(Some("2 GB"), 0);
        check(Some(""), 0);
    }
}
