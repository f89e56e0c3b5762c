//! Output files of systems without sessions.

use std::fs::File;
use std::io;
use std::path::Path;

use super::OutputOptions;

pub(super) fn open(options: OutputOptions, path: &Path) -> io::Result<File> {
    let mut open = File::options();
    open.write(true).read(options.keeps).create(true).truncate(!options.keeps).create_new(options.is_new);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut open, if options.is_public { 0o666 } else { 0o600 });
    open.open(path)
}
