//! The diagnostics sockets of .NET programs.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use etw_nettrace::ipc::{self, HEADER_LEN_BYTES};

/// Time limit for a request and its answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// The socket of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Socket {
    pub(super) process_id: u32,
    pub(super) path: PathBuf,
}

/// Returns the directory in which runtimes create their sockets.
pub(super) fn directory() -> PathBuf {
    std::env::var_os("TMPDIR").filter(|path| !path.is_empty()).map_or("/tmp".into(), PathBuf::from)
}

/// Returns the sockets of running programs, the newest one of each, by process id.
///
/// # Errors
///
/// Fails if the directory cannot be read.
pub(super) fn sockets(directory: &Path) -> io::Result<Vec<Socket>> {
    let mut found: Vec<(u32, SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(directory)?.filter_map(Result::ok) {
        let Some(process_id) = entry.file_name().to_str().and_then(process_of) else { continue };
        let Ok(metadata) = entry.metadata() else { continue };
        // A socket stays when its program is killed, and every user can create one with any name.
        let owner = fs::metadata(format!("/proc/{process_id}")).map(|process| process.uid());
        if metadata.file_type().is_socket() && owner.is_ok_and(|owner| owner == metadata.uid()) {
            let created = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            found.push((process_id, created, entry.path()));
        }
    }
    found.sort_by(|one, other| (one.0, other.1).cmp(&(other.0, one.1)));
    found.dedup_by_key(|(process_id, ..)| *process_id);
    Ok(found.into_iter().map(|(process_id, _, path)| Socket { process_id, path }).collect())
}

/// Returns the process of a socket by its name, `dotnet-diagnostic-PID-KEY-socket`.
fn process_of(name: &str) -> Option<u32> {
    let rest = name.strip_prefix("dotnet-diagnostic-")?.strip_suffix("-socket")?;
    rest.split_once('-')?.0.parse().ok()
}

/// Sends a request; returns the connection and the number of the session that the answer is about.
///
/// # Errors
///
/// Returns the reason if there is no answer, or another one.
pub(super) fn request(socket: &Path, request: &[u8]) -> Result<(UnixStream, u64), String> {
    let mut stream = UnixStream::connect(socket).map_err(|error| format!("cannot connect: {error}"))?;
    let exchange = |stream: &mut UnixStream| {
        stream.set_read_timeout(Some(ANSWER_TIME))?;
        stream.set_write_timeout(Some(ANSWER_TIME))?;
        stream.write_all(request)?;
        let mut header = [0; HEADER_LEN_BYTES];
        stream.read_exact(&mut header)?;
        let mut payload = vec![0; ipc::payload_len(&header).map_err(io::Error::other)?];
        stream.read_exact(&mut payload)?;
        let session = ipc::session(&header, &payload).map_err(io::Error::other)?;
        stream.set_read_timeout(None)?;
        Ok::<u64, io::Error>(session)
    };
    match exchange(&mut stream) {
        Ok(session) => Ok((stream, session)),
        Err(error) => Err(match error.kind() {
            io::ErrorKind::UnexpectedEof => "the connection ended before the answer".to_owned(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("no answer within {} s", ANSWER_TIME.as_secs())
            }
            _ => error.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn names_of_sockets() {
        assert_eq!(process_of("dotnet-diagnostic-12-345-socket"), Some(12));
        for name in
            ["dotnet-diagnostic-12-socket", "dotnet-diagnostic--1-socket", "dotnet-diagnostic-1-2", "x"]
        {
            assert_eq!(process_of(name), None, "{name}");
        }
    }

    #[test]
    fn the_newest_socket_of_a_running_program() {
        let directory = tempfile::tempdir().unwrap();
        let own = std::process::id();
        let path = |name: String| directory.path().join(name);
        let old = UnixListener::bind(path(format!("dotnet-diagnostic-{own}-1-socket"))).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let newest = path(format!("dotnet-diagnostic-{own}-2-socket"));
        let new = UnixListener::bind(&newest).unwrap();
        // A process that is not there, and a file that is not a socket.
        let _gone = UnixListener::bind(path("dotnet-diagnostic-4000000000-1-socket".to_owned())).unwrap();
        fs::write(path(format!("dotnet-diagnostic-{own}-3-socket")), "").unwrap();
        let found = sockets(directory.path()).unwrap();
        assert_eq!(found, [Socket { process_id: own, path: newest }]);
        drop((old, new));
        let error = request(&found[0].path, b"").unwrap_err();
        assert!(error.starts_with("cannot connect"), "{error}");
    }
}
