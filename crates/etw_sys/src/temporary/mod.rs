//! Files without a name: they vanish when the last handle and map are gone, however the process ends.

#[cfg(not(windows))]
#[path = "unix.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A new empty file in the system's directory for temporary files (`TMPDIR` on Unix), open for reading and writing.
pub fn temporary_file() -> io::Result<File> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let directory = std::env::temp_dir();
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..64 {
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!(".openetw-{}-{count}-{nanos:x}", std::process::id()));
        match system::create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            result => return result,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, SeekFrom, Write};

    #[test]
    fn files_are_separate_and_leave_nothing_behind() {
        let mut one = temporary_file().unwrap();
        let mut two = temporary_file().unwrap();
        one.write_all(b"one").unwrap();
        two.write_all(b"two").unwrap();
        let mut text = String::new();
        one.seek(SeekFrom::Start(0)).unwrap();
        one.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one");
        drop((one, two));
        let ours = format!(".openetw-{}-", std::process::id());
        let left = || {
            let entries = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
            entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&ours)).count()
        };
        // Another test of this process may be between creating and unnaming its file; it soon is not.
        assert!((0..100).any(|_| left() == 0));
    }
}
