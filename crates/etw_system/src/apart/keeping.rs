//! The process that keeps the rights: what it does for the host.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope};

use etw_controller::{ErrorKind, Failure};
use etw_etl::EtlFile;
use etw_event::{Guid, Keyword, Level};
use etw_protocol::{Channel, PacketBuffer};
use etw_session::host::{KeptInstance, SystemProvider, writable_file};
use etw_session::logger::{SystemRegion, SystemRegionParts};
use etw_sys::output::OutputOptions;

use super::Lanes;
use super::messages::{Reply, Request};
use crate::provider::{Descriptions, Kernel};

/// The links of a process that a host needs.
const LINKS: [&str; 2] = ["exe", "ns/pid"];
/// What was seen of processes and is not yet written.
const MAX_LOOKED: usize = 4096;
const MAX_LOOKED_BYTES: usize = 256 << 20;

/// What the threads of the lanes share.
struct Keeping<'a, R> {
    kernel: Kernel,
    kept: &'a KeptInstance,
    ready: Mutex<Option<R>>,
    looked: Mutex<Looked>,
}

#[derive(Default)]
struct Looked {
    next: u64,
    bytes: usize,
    processes: BTreeMap<u64, Arc<Descriptions>>,
}

/// Starts the threads that serve the lanes. They end with the host.
pub(super) fn keep<'scope, 'env, R: FnOnce() + Send + 'env>(
    scope: &'scope Scope<'scope, 'env>,
    lanes: Lanes,
    kept: &'env KeptInstance,
    host: u32,
    ready: R,
) -> io::Result<()> {
    let Lanes { files, system, looks, descriptions } = lanes;
    let keeping = Arc::new(Keeping {
        kernel: Kernel::for_host(host),
        kept,
        ready: Mutex::new(Some(ready)),
        looked: Mutex::default(),
    });
    let lanes =
        [("etw-files", files), ("etw-system", system), ("etw-looks", looks), ("etw-describe", descriptions)];
    for (name, lane) in lanes {
        let keeping = keeping.clone();
        let serve = move || keeping.serve(&lane);
        thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, serve)?;
    }
    Ok(())
}

impl<R: FnOnce() + Send> Keeping<'_, R> {
    /// Serves one lane until the host has closed it, or sends what is no request.
    fn serve(&self, lane: &Channel) {
        let mut buffer = PacketBuffer::default();
        while let Ok(Some((request, files))) = lane.receive::<Request>(&mut buffer) {
            let (reply, file) = self.obey(request, files);
            let files: Vec<_> = file.iter().map(AsFd::as_fd).collect();
            if lane.send(&reply, &files).is_err() {
                return;
            }
        }
    }

    fn obey(&self, request: Request, files: Vec<OwnedFd>) -> (Reply, Option<File>) {
        let reply = match request {
            Request::Open { path, options, group } => {
                let options = OutputOptions::from_parts(options, group);
                match open(Path::new(&OsString::from_vec(path)), options, files.into_iter().next()) {
                    Ok(file) => return (Reply::Opened, Some(file)),
                    Err(error) => Reply::from_error(&error),
                }
            }
            Request::Link { process_id, name } => match link(process_id, &name) {
                Ok(path) => Reply::Link(path.as_os_str().as_bytes().to_vec()),
                Err(error) => Reply::from_error(&error),
            },
            Request::Journal(contents) => match self.kept.keep_journal(contents.as_deref()) {
                Ok(()) => Reply::Done,
                Err(error) => Reply::from_error(&error),
            },
            Request::Ready => {
                if let Some(ready) = self.ready.lock().unwrap_or_else(PoisonError::into_inner).take() {
                    ready();
                }
                Reply::Done
            }
            Request::Want { session, wants } => match self.kernel.want(session, wants.into()) {
                Ok(missing) => Reply::Lines(missing),
                Err(failure) => Reply::Refused(failure),
            },
            Request::Begin { session, region } => {
                with_region(region, files, |region| self.kernel.begin(session, region))
            }
            Request::CaptureState { session, provider, level, any } => {
                let provider = Guid::from_bytes(provider);
                self.kernel.capture_state(session, provider, Level(level), Keyword(any));
                Reply::Done
            }
            Request::Detach { session } => Reply::Lines(self.kernel.detach(session)),
            Request::Look { process_ids, at_end } => self.look(&process_ids, at_end),
            Request::Describe { number, region } => {
                let looked = self.looked().processes.get(&number).cloned();
                with_region(region, files, |region| {
                    if let Some(looked) = looked {
                        looked.write(&region);
                    }
                })
            }
            Request::Forget { number } => {
                let mut looked = self.looked();
                if let Some(processes) = looked.processes.remove(&number) {
                    looked.bytes -= processes.len_bytes();
                }
                Reply::Done
            }
        };
        (reply, None)
    }

    fn looked(&self) -> std::sync::MutexGuard<'_, Looked> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, process_ids: &[u32], at_end: bool) -> Reply {
        let full = |looked: &Looked| looked.processes.len() >= MAX_LOOKED || looked.bytes >= MAX_LOOKED_BYTES;
        if full(&self.looked()) {
            let text = "too many processes wait for their description";
            return Reply::Refused(Failure::new(ErrorKind::NoSystemResources, text));
        }
        let processes = Descriptions::look(process_ids, at_end);
        let mut looked = self.looked();
        looked.next += 1;
        looked.bytes += processes.len_bytes();
        let number = looked.next;
        looked.processes.insert(number, Arc::new(processes));
        Reply::Looked { number }
    }
}

fn with_region(region: SystemRegionParts, files: Vec<OwnedFd>, then: impl FnOnce(SystemRegion)) -> Reply {
    let files: Result<[OwnedFd; 3], _> = files.try_into();
    let Ok(files) = files else {
        return Reply::from_error(&io::Error::new(io::ErrorKind::InvalidInput, "a region without its files"));
    };
    match SystemRegion::attach(region, files) {
        Ok(region) => {
            then(region);
            Reply::Done
        }
        Err(error) => Reply::from_error(&io::Error::other(error.to_string())),
    }
}

fn link(process_id: u32, name: &str) -> io::Result<std::path::PathBuf> {
    match LINKS.contains(&name) {
        true => std::fs::read_link(format!("/proc/{process_id}/{name}")),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Opens a file for a host: one that a client has opened for writing, a trace, an empty file, or a new one that is called
/// `*.etl`. So a host that was taken over can overwrite no other file, and create none that another program acts upon.
fn open(path: &Path, options: OutputOptions, own: Option<OwnedFd>) -> io::Result<File> {
    if let Some(own) = own {
        let own = writable_file(own).map_err(|failure| denied(failure.text))?;
        return options.open(Path::new(&format!("/proc/self/fd/{}", own.as_raw_fd())));
    }
    match etw_sys::open_regular(path) {
        Ok(file) if is_trace(&file)? => options.open(path),
        Ok(_) => Err(denied("it exists and is no trace; remove it or name another file".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("etl")) {
                true => options.open(path),
                false => Err(denied("this host creates only files that are called *.etl".to_owned())),
            }
        }
        Err(error) => Err(error),
    }
}

fn is_trace(file: &File) -> io::Result<bool> {
    /// More than the header of any trace.
    const START_BYTES: u64 = 64 << 10;
    let mut start = Vec::new();
    file.take(START_BYTES).read_to_end(&mut start)?;
    Ok(start.is_empty() || EtlFile::open(&start).is_ok())
}

fn denied(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_event::{Clock, ClockType, FileTime, Ticks};
    use std::fs;

    /// Whether a host gets a file at a path, and if so what is in it afterwards.
    fn opened(path: &Path, options: OutputOptions) -> Result<Vec<u8>, io::ErrorKind> {
        open(path, options, None).map(|_| fs::read(path).unwrap()).map_err(|error| error.kind())
    }

    #[test]
    fn a_host_gets_traces_and_new_ones() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let clock = Clock::new(ClockType::SystemTime, Ticks(0), FileTime(0), 10_000_000);
        let options = etw_etl::WriterOptions::new(clock, 0x1000, 1);
        etw_etl::EtlWriter::new(File::create(at("trace.bin")).unwrap(), options).unwrap();
        fs::write(at("empty"), b"").unwrap();
        let kept = OutputOptions::new().keep(true);
        assert_eq!(opened(&at("trace.bin"), kept).unwrap(), fs::read(at("trace.bin")).unwrap());
        for name in ["trace.bin", "new.etl", "NEW.ETL", "empty"] {
            assert_eq!(opened(&at(name), OutputOptions::new()), Ok(Vec::new()), "{name}");
        }
    }

    #[test]
    fn a_host_gets_nothing_that_others_act_upon() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let text = b"root:x:0:0::/root:/bin/sh\n";
        fs::write(at("passwd"), text).unwrap();
        fs::write(at("passwd.etl"), text).unwrap();
        fs::create_dir(at("folder.etl")).unwrap();
        std::os::unix::fs::symlink("passwd", at("link.etl")).unwrap();
        for name in ["passwd", "passwd.etl", "link.etl", "authorized_keys", "folder.etl"] {
            for options in [OutputOptions::new(), OutputOptions::new().keep(true)] {
                let refused = opened(&at(name), options).unwrap_err();
                let kinds = [io::ErrorKind::PermissionDenied, io::ErrorKind::InvalidInput];
                assert!(kinds.contains(&refused), "{name}: {refused}");
            }
        }
        assert_eq!(fs::read(at("passwd")).unwrap(), text);
        assert!(!at("authorized_keys").exists());
        // Not even one that it sent itself, unless it is open for writing.
        let own = File::open(at("passwd")).unwrap();
        let refused = open(&at("passwd"), OutputOptions::new(), Some(own.into())).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_host_reads_no_other_links_of_processes() {
        let this = std::process::id();
        assert_eq!(link(this, "exe").unwrap(), std::env::current_exe().unwrap());
        assert_eq!(link(this, "ns/pid").unwrap(), std::fs::read_link("/proc/self/ns/pid").unwrap());
        for name in ["cwd", "root", "fd/0", "../1/exe", "exe/../cwd", ""] {
            assert_eq!(link(this, name).unwrap_err().kind(), io::ErrorKind::PermissionDenied, "{name}");
        }
    }
}
