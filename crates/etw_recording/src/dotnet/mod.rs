//! Events of .NET programs in a recording: sessions of EventPipe in their runtimes, whose traces are merged into the file
//! at the end.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use etw_recording::dotnet::{DotNet, Target};
//!
//! let path = Path::new("/tmp/app.etl");
//! // A session records to the file meanwhile.
//! let runtimes = DotNet::start(&[Target::All], &[], path, |warning| eprintln!("{warning}"))?;
//! // After the session has stopped:
//! runtimes.finish(path)?;
//! # Ok::<(), etw_recording::dotnet::DotNetError>(())
//! ```

mod connection;
mod merge;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use etw_nettrace::ipc::{self, ProviderConfig, ProviderConfigError};
use etw_sys::clock::ClockSource;
use tempfile::NamedTempFile;

use self::connection::Socket;

/// The providers that are recorded unless others are named: the runtime with the keywords GC, Loader, Jit, Contention,
/// Exception, Threading, JittedMethodILToNativeMap and Compilation, and the samples of its threads.
pub const DEFAULT_PROVIDERS: [&str; 2] =
    ["Microsoft-Windows-DotNETRuntime:0x100003C019:5", "Microsoft-DotNETCore-SampleProfiler:0:4"];
/// Size in MiB of the buffer in each runtime, as in `dotnet-trace`.
const BUFFER_MIB: u32 = 256;
/// Time for which a stopped runtime may send nothing before its trace counts as cut off.
const IDLE_TIME: Duration = Duration::from_secs(10);
/// Bytes read at a time.
const CHUNK: usize = 64 << 10;

/// The reason why programs of .NET are not recorded, or why their events are not in the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DotNetError {
    /// A provider is not valid.
    #[error(transparent)]
    Provider(#[from] ProviderConfigError),
    /// A request to a runtime cannot name so many providers.
    #[error("too many providers of .NET")]
    TooManyProviders,
    /// The traces of the runtimes could not be merged into the file.
    #[error("cannot merge the events of .NET: {reason}; they are in {}", paths(files))]
    Merge {
        /// Why.
        reason: String,
        /// The files that have the traces.
        files: Vec<PathBuf>,
    },
}

fn paths(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// A function that is called with what a recording lacks.
type Warn = fn(&dyn fmt::Display);

/// Programs of .NET to record: a process id, or `all`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// All programs, those too that start during the recording.
    All,
    /// The program with this process id.
    Process(u32),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        match text {
            "all" => Ok(Target::All),
            _ => text.parse().map(Target::Process).map_err(|_| "expected a process id, or 'all'".to_owned()),
        }
    }
}

/// The sessions in the runtimes of .NET programs.
#[derive(Debug)]
pub struct DotNet {
    targets: Vec<Target>,
    warn: Warn,
    request: Vec<u8>,
    /// Where runtimes have their sockets, and where their traces are kept meanwhile.
    sockets: PathBuf,
    directory: PathBuf,
    sessions: Vec<Session>,
    /// Sockets that were connected to, or cannot be.
    known: BTreeSet<PathBuf>,
    /// Readings of the performance counter and of the runtimes' clock at the start.
    start: (u64, u64),
}

/// A session in a runtime.
#[derive(Debug)]
struct Session {
    socket: Socket,
    number: u64,
    stream: UnixStream,
    /// Copies the trace into the file.
    reader: Option<JoinHandle<io::Result<()>>>,
    received: Arc<AtomicU64>,
    file: NamedTempFile,
}

impl DotNet {
    /// Starts sessions in the runtimes of programs. `warn` is called for each program that cannot be recorded, and later for
    /// each trace that is not complete.
    ///
    /// The traces are kept next to the file `path` until they are merged into it.
    ///
    /// # Errors
    ///
    /// Fails if a provider is not valid, or if there are too many.
    pub fn start(
        targets: &[Target],
        providers: &[String],
        path: &Path,
        warn: Warn,
    ) -> Result<DotNet, DotNetError> {
        let providers: Vec<&str> = match providers {
            [] => DEFAULT_PROVIDERS.to_vec(),
            named => named.iter().map(String::as_str).collect(),
        };
        let configs = providers.into_iter().map(|text| text.parse::<ProviderConfig>());
        let configs: Vec<ProviderConfig> = configs.collect::<Result<_, _>>()?;
        let request = ipc::collect_tracing(BUFFER_MIB, &configs);
        let request = request.ok_or(DotNetError::TooManyProviders)?;
        let mut sessions = DotNet {
            targets: targets.to_vec(),
            warn,
            request,
            sockets: connection::directory(),
            directory: path.parent().map_or_else(PathBuf::new, Path::to_owned),
            sessions: Vec::new(),
            known: BTreeSet::new(),
            start: clocks(),
        };
        let found = sessions.look();
        for target in targets {
            if let Target::Process(id) = target
                && !found.iter().any(|socket| socket.process_id == *id)
            {
                let directory = sessions.sockets.display();
                warn(&format_args!(
                    "process {id}: no .NET runtime: {directory} has no socket of it, or the process belongs to \
                     another user (TMPDIR must be that of the process)"
                ));
            }
        }
        Ok(sessions)
    }

    /// Starts sessions in programs that are new. Returns the sockets of all wanted programs.
    fn look(&mut self) -> Vec<Socket> {
        if self.targets.is_empty() {
            return Vec::new();
        }
        let mut sockets = connection::sockets(&self.sockets).unwrap_or_default();
        let is_wanted = |socket: &Socket| {
            self.targets.iter().any(|target| match target {
                Target::All => true,
                Target::Process(id) => *id == socket.process_id,
            })
        };
        sockets.retain(is_wanted);
        for socket in &sockets {
            if self.known.insert(socket.path.clone())
                && let Err(error) = self.begin(socket)
            {
                (self.warn)(&format_args!("process {}: no events of .NET: {error}", socket.process_id));
            }
        }
        sockets
    }

    /// Starts sessions in programs that started meanwhile, if all are wanted.
    pub fn look_for_new(&mut self) {
        if self.targets.contains(&Target::All) {
            self.look();
        }
    }

    fn begin(&mut self, socket: &Socket) -> Result<(), String> {
        let (stream, number) = connection::request(&socket.path, &self.request)?;
        let text = |error: io::Error| error.to_string();
        let file = tempfile::Builder::new()
            .prefix(".etw-dotnet-")
            .suffix(".nettrace")
            .tempfile_in(&self.directory)
            .map_err(text)?;
        let (from, to) = (stream.try_clone().map_err(text)?, file.reopen().map_err(text)?);
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        let reader = thread::Builder::new().name("dotnet".to_owned()).spawn(move || copy(from, to, &count));
        let reader = Some(reader.map_err(text)?);
        self.sessions.push(Session { socket: socket.clone(), number, stream, reader, received, file });
        Ok(())
    }

    /// Stops the sessions, and merges their traces into the file that was recorded meanwhile.
    ///
    /// # Errors
    ///
    /// Fails if the traces cannot be merged. The recorded file stays as it is; the error names the files with the traces.
    pub fn finish(self, path: &Path) -> Result<(), DotNetError> {
        let warn = self.warn;
        for session in &self.sessions {
            // A program that has ended has sent all.
            if !session.is_complete()
                && let Err(error) =
                    connection::request(&session.socket.path, &ipc::stop_tracing(session.number))
            {
                session.warn(warn, &format_args!("cannot stop its session: {error}"));
            }
        }
        let mut traces = Vec::new();
        for mut session in self.sessions {
            session.join(warn);
            if session.received.load(Ordering::Relaxed) == 0 {
                session.warn(warn, &"it sent no events");
                continue;
            }
            traces.push((session.socket.process_id, session.into_file()));
        }
        match traces.is_empty() {
            true => Ok(()),
            false => merge::into_file(path, traces, [self.start, clocks()], warn),
        }
    }
}

impl Session {
    fn is_complete(&self) -> bool {
        self.reader.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end of the trace, as long as bytes arrive.
    fn join(&mut self, warn: Warn) {
        let (mut last, mut since) = (0, Instant::now());
        while !self.is_complete() {
            let received = self.received.load(Ordering::Relaxed);
            if received != last {
                (last, since) = (received, Instant::now());
            } else if since.elapsed() > IDLE_TIME {
                self.warn(warn, &format_args!("its trace has no end after {} s", IDLE_TIME.as_secs()));
                let _ = self.stream.shutdown(Shutdown::Both);
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        match self.reader.take().map(JoinHandle::join) {
            Some(Ok(Err(error))) => self.warn(warn, &format_args!("its trace is cut off: {error}")),
            Some(Err(_)) => self.warn(warn, &"its trace is cut off"),
            Some(Ok(Ok(()))) | None => {}
        }
    }

    fn into_file(self) -> NamedTempFile {
        self.file
    }

    fn warn(&self, warn: Warn, what: &dyn fmt::Display) {
        warn(&format_args!("process {}: {what}", self.socket.process_id));
    }
}

/// Copies a trace to a file.
fn copy(mut from: UnixStream, mut to: File, received: &AtomicU64) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(len) => {
                to.write_all(&chunk[..len])?;
                received.fetch_add(len as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads the clock of sessions and that of the runtimes, in nanoseconds, at once.
fn clocks() -> (u64, u64) {
    ClockSource::of_performance_counter().beside_monotonic()
}
