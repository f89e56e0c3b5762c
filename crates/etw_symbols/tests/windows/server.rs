//! Symbol servers: those that answer, and those that are slow, stop, lie or are not there.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use etw_symbols::{Debuginfod, FetchLimits, FetchStep, Fetched, Module, PdbId, Symbolizer, WindowsImage};

use crate::stores::{GUID, KEY, cabinet, image, pdb};
use crate::{module, symbolizer, text};

pub(crate) const LIMITS: FetchLimits = FetchLimits {
    connect: Duration::from_secs(2),
    stall: Duration::from_secs(2),
    file_bytes: 256 << 20,
    total_bytes: 1 << 30,
    total: Duration::from_secs(60),
};

/// How a server answers for a file.
#[derive(Clone)]
pub(crate) enum Answer {
    File(Vec<u8>),
    /// Closes the connection after this many bytes; with true, each time.
    Cut(Vec<u8>, usize, bool),
    /// Sends the whole file, whatever range is requested.
    WithoutRanges(Vec<u8>),
    /// Sends some bytes, and then nothing.
    Stall(Vec<u8>),
    Error(u16),
    /// Sends some bytes, and then zeros without end.
    Endless(Vec<u8>),
    Redirect(String),
}

/// A server on this machine, which stops with the test's process.
pub(crate) struct Server {
    pub(crate) url: String,
    /// The requests, each with the start of its range.
    requests: Arc<Mutex<Vec<(String, u64)>>>,
}

impl Server {
    pub(crate) fn start(answers: &[(&str, Answer)]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/symbols", listener.local_addr().unwrap());
        let answers: Arc<HashMap<String, Answer>> = Arc::new(
            answers.iter().map(|(path, answer)| (format!("/symbols/{path}"), answer.clone())).collect(),
        );
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, log) = (Arc::clone(&answers), Arc::clone(&log));
                std::thread::spawn(move || serve(stream, &answers, &log));
            }
        });
        Server { url, requests }
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests.iter().map(|(path, _)| path.rsplit('/').next().unwrap().to_owned()).collect()
    }

    fn ranges(&self) -> Vec<u64> {
        self.requests.lock().unwrap().iter().map(|(_, from)| *from).collect()
    }
}

/// Answers one request and closes the connection. Errors are those of clients that went away.
fn serve(mut stream: TcpStream, answers: &HashMap<String, Answer>, log: &Mutex<Vec<(String, u64)>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let path = lines.next().and_then(|line| line.split(' ').nth(1).map(str::to_owned)).unwrap_or_default();
    // A client of a proxy requests a whole URL.
    let path = path.strip_prefix("http://symbols.invalid").map(str::to_owned).unwrap_or(path);
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let range =
        headers.iter().find_map(|line| line.to_lowercase().strip_prefix("range: bytes=").map(str::to_owned));
    let from: usize = range.map_or(0, |range| range.trim_end_matches('-').parse().unwrap());
    log.lock().unwrap().push((path.clone(), from as u64));
    let mut send = |status: u16, bytes: &[u8], len: usize, from: usize| {
        let range = format!("Content-Range: bytes {from}-{}/{}\r\n", len.max(1) - 1, len);
        let range = if status == 206 { range } else { String::new() };
        let head = format!(
            "HTTP/1.1 {status} X\r\n{range}Content-Length: {}\r\nConnection: close\r\n\r\n",
            len - from
        );
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(bytes);
    };
    let status = if from > 0 { 206 } else { 200 };
    match answers.get(&path) {
        None => send(404, b"", 0, 0),
        Some(Answer::Endless(start)) => {
            let _ = stream.write_all(b"HTTP/1.1 200 X\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(start);
            while stream.write_all(&[0; 1 << 16]).is_ok() {}
        }
        Some(Answer::Redirect(url)) => {
            let head = format!("HTTP/1.1 302 X\r\nLocation: {url}\r\nContent-Length: 4\r\n\r\nbody");
            let _ = stream.write_all(head.as_bytes());
        }
        Some(Answer::Error(status)) => send(*status, b"", 0, 0),
        Some(Answer::File(bytes) | Answer::Cut(bytes, ..)) if from >= bytes.len() && from > 0 => {
            send(416, b"", 0, 0);
        }
        Some(Answer::File(bytes)) => send(status, &bytes[from..], bytes.len(), from),
        Some(Answer::WithoutRanges(bytes)) => send(200, bytes, bytes.len(), 0),
        Some(Answer::Cut(bytes, at, always)) => {
            let end = if from == 0 || *always { (from + at).min(bytes.len()) } else { bytes.len() };
            send(status, &bytes[from..end], bytes.len(), from);
        }
        Some(Answer::Stall(bytes)) => {
            send(status, &bytes[from..bytes.len() / 2], bytes.len(), from);
            std::thread::sleep(Duration::from_secs(30));
        }
    }
}

/// Returns false, with a message, without curl.
pub(crate) fn has_curl() -> bool {
    let has = Command::new("curl").arg("--version").output().is_ok();
    if !has {
        etw_testkit::skip!("curl is not installed");
    }
    has
}

/// The place of the PDB in stores and servers.
pub(crate) fn place(name: &str) -> String {
    format!("app.pdb/{KEY}/{name}")
}

/// A symbolizer with a store and this server.
pub(crate) fn through(server: &Server, store: &Path) -> Symbolizer {
    symbolizer(&format!("srv*{}*{}", text(store), server.url))
}

fn fetch(symbolizer: &Symbolizer) -> Fetched {
    symbolizer.fetch(&[module("app.exe", &image())], LIMITS, &|_| ()).remove(0)
}

/// Returns the names of all files below a directory.
pub(crate) fn files(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        match entry.path().is_dir() {
            true => names.extend(files(&entry.path())),
            false => names.push(entry.file_name().into_string().unwrap()),
        }
    }
    names
}

#[test]
fn a_file_is_fetched_once() {
    if !has_curl() {
        return;
    }
    let store = tempfile::tempdir().unwrap();
    let bytes = pdb(GUID, 100_000);
    let server = Server::start(&[(&place("app.pdb"), Answer::File(bytes.clone()))]);
    let symbolizer = through(&server, store.path());
    let error = symbolizer.locate(&module("app.exe", &image())).unwrap_err();
    assert!(error.to_string().ends_with("; `etw symbols fetch` gets it from the server"), "{error}");
    assert!(server.paths().is_empty(), "only fetch uses the network");
    let received = Mutex::new((0, 0));
    let step = |step: FetchStep| {
        let mut received = received.lock().unwrap();
        match step {
            FetchStep::Received(bytes) => received.0 += bytes,
            FetchStep::Done => received.1 += 1,
        }
    };
    let fetched = symbolizer.fetch(&[module("app.exe", &image())], LIMITS, &step).remove(0);
    let path = store.path().join(place("app.pdb"));
    assert_eq!(fetched, Fetched { file: Some(path.clone()), is_new: true, problem: None });
    assert_eq!(*received.lock().unwrap(), (bytes.len() as u64, 1));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert_eq!(files(store.path()), ["app.pdb"]);
    let again = fetch(&symbolizer);
    assert_eq!(again, Fetched { file: Some(path), is_new: false, problem: None });
    assert_eq!(server.paths(), ["app.pdb"]);
}

#[test]
fn compressed_files_and_references() {
    if !has_curl() {
        return;
    }
    let store = tempfile::tempdir().unwrap();
    let bytes = pdb(GUID, 100_000);
    let server = Server::start(&[(&place("app.pd_"), Answer::File(cabinet("app.pdb", &bytes)))]);
    assert!(fetch(&through(&server, store.path())).is_new);
    assert_eq!(std::fs::read(store.path().join(place("app.pdb"))).unwrap(), bytes);
    assert_eq!(files(store.path()), ["app.pdb"]);
    assert_eq!(server.paths(), ["app.pdb", "app.pd_"]);

    let [store, share] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let path = share.path().join("app.pdb");
    std::fs::write(&path, &bytes).unwrap();
    let pointer = format!("PATH:{}", text(&path));
    let server = Server::start(&[(&place("file.ptr"), Answer::File(pointer.into_bytes()))]);
    assert_eq!(fetch(&through(&server, store.path())).file, Some(path));
    let server = Server::start(&[(&place("file.ptr"), Answer::File(b"MSG: Ask the owner".to_vec()))]);
    let problem = fetch(&through(&server, store.path())).problem.unwrap();
    assert!(problem.ends_with(": Ask the owner"), "{problem}");
}

#[test]
fn interrupted_downloads_are_continued() {
    if !has_curl() {
        return;
    }
    let bytes = pdb(GUID, 300_000);
    let store = tempfile::tempdir().unwrap();
    let server = Server::start(&[(&place("app.pdb"), Answer::Cut(bytes.clone(), 100_000, true))]);
    let fetched = fetch(&through(&server, store.path()));
    assert_eq!(fetched.problem, None);
    assert_eq!(std::fs::read(fetched.file.unwrap()).unwrap(), bytes);
    assert_eq!(server.ranges(), [0, 100_000, 200_000, 300_000]);

    // A server that cannot continue starts over.
    let store = tempfile::tempdir().unwrap();
    let part = store.path().join(place("app.pdb.999999999.part"));
    let abandon = |bytes: &[u8]| {
        std::fs::create_dir_all(part.parent().unwrap()).unwrap();
        std::fs::write(&part, bytes).unwrap();
        let before = SystemTime::now() - Duration::from_secs(3600);
        std::fs::File::options().write(true).open(&part).unwrap().set_modified(before).unwrap();
    };
    abandon(&bytes[..5000]);
    let server = Server::start(&[(&place("app.pdb"), Answer::WithoutRanges(bytes.clone()))]);
    assert_eq!(std::fs::read(fetch(&through(&server, store.path())).file.unwrap()).unwrap(), bytes);
    assert_eq!(server.ranges(), [5000, 0]);
    assert_eq!(files(store.path()), ["app.pdb"]);

    // What an earlier run left is continued, and what another process writes is not touched.
    for (age, expected) in [(true, 7000), (false, 0)] {
        let _ = std::fs::remove_file(store.path().join(place("app.pdb")));
        abandon(&bytes[..7000]);
        if !age {
            std::fs::write(&part, &bytes[..7000]).unwrap();
        }
        let server = Server::start(&[(&place("app.pdb"), Answer::File(bytes.clone()))]);
        assert_eq!(std::fs::read(fetch(&through(&server, store.path())).file.unwrap()).unwrap(), bytes);
        assert_eq!(server.ranges(), [expected]);
        assert_eq!(part.is_file(), !age);
    }
}

#[test]
fn servers_that_lie() {
    if !has_curl() {
        return;
    }
    let other = pdb(GUID + 1, 1000);
    let junk = b"<html>Not found</html>".to_vec();
    for answer in [other.clone(), junk.clone(), Vec::new(), pdb(GUID, 0)[..600].to_vec()] {
        let store = tempfile::tempdir().unwrap();
        let server = Server::start(&[(&place("app.pdb"), Answer::File(answer))]);
        let fetched = fetch(&through(&server, store.path()));
        assert!(fetched.file.is_none() && fetched.problem.unwrap().contains(&server.url));
        assert_eq!(files(store.path()), [""; 0]);
    }
    for answer in [cabinet("app.pdb", &other), cabinet("app.pdb", &junk), junk] {
        let store = tempfile::tempdir().unwrap();
        let server = Server::start(&[(&place("app.pd_"), Answer::File(answer))]);
        assert!(fetch(&through(&server, store.path())).file.is_none());
        assert_eq!(files(store.path()), [""; 0]);
    }
    // The next server has the right file.
    let store = tempfile::tempdir().unwrap();
    let liar = Server::start(&[(&place("app.pdb"), Answer::File(other))]);
    let server = Server::start(&[(&place("app.pdb"), Answer::File(pdb(GUID, 0)))]);
    let path = format!("srv*{}*{}*{}", text(store.path()), liar.url, server.url);
    assert!(fetch(&symbolizer(&path)).is_new);
}

#[test]
fn the_rest_goes_on_without_a_server() {
    if !has_curl() {
        return;
    }
    let store = tempfile::tempdir().unwrap();
    let bytes = pdb(GUID, 100_000);
    let files_of = |count: u32| -> Vec<WindowsImage> {
        let id = |index| PdbId::new(&format!("m{index}.pdb"), etw_event::Guid::from_u128(GUID), 1);
        (0..count).map(|index| WindowsImage { pdb: id(index), ..WindowsImage::default() }).collect()
    };
    let images = files_of(20);
    let fetch_all = |symbolizer: &Symbolizer| {
        let modules: Vec<Module<'_>> = images.iter().map(|image| module("m.exe", image)).collect();
        symbolizer.fetch(&modules, LIMITS, &|_| ())
    };
    // Nothing listens on this port.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let started = Instant::now();
    let dead = symbolizer(&format!("srv*{}*http://{closed}", text(store.path())));
    let fetched = fetch_all(&dead);
    assert!(fetched.iter().all(|fetched| fetched.problem.as_ref().unwrap().contains(&closed.to_string())));
    // One module stalls; the others wait for it at most once.
    let stalling = format!("m3.pdb/{KEY}/m3.pdb");
    let server = Server::start(&[(&stalling, Answer::Stall(bytes.clone()))]);
    let fetched = fetch_all(&through(&server, store.path()));
    assert!(fetched.iter().all(|fetched| fetched.file.is_none() && fetched.problem.is_some()));
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    // Images may share a PDB.
    let shared = format!("m1.pdb/{KEY}/m1.pdb");
    let server = Server::start(&[(&shared, Answer::File(bytes.clone()))]);
    let [one] = &images[1..2] else { unreachable!() };
    let modules = [module("a.exe", one), module("b.exe", one), module("c.exe", one), module("d.exe", one)];
    let fetched = through(&server, tempfile::tempdir().unwrap().path()).fetch(&modules, LIMITS, &|_| ());
    assert!(fetched.iter().all(|fetched| fetched.problem.is_none()), "{fetched:?}");
    assert_eq!(server.paths(), ["m1.pdb"]);
    // Errors of one file are not errors of the server.
    let error = format!("m0.pdb/{KEY}/m0.pdb");
    let right = format!("m1.pdb/{KEY}/m1.pdb");
    let server = Server::start(&[(&error, Answer::Error(403)), (&right, Answer::File(bytes))]);
    let fetched = fetch_all(&through(&server, store.path()));
    assert_eq!(fetched.iter().filter(|fetched| fetched.is_new).count(), 1);
    assert!(fetched[0].problem.as_ref().unwrap().contains("403"), "{:?}", fetched[0]);
}

#[test]
fn missing_files_are_asked_for_once() {
    if !has_curl() {
        return;
    }
    let store = tempfile::tempdir().unwrap();
    let server = Server::start(&[]);
    let symbolizer = through(&server, store.path());
    for _ in 0..2 {
        let problem = fetch(&symbolizer).problem.unwrap();
        assert_eq!(problem, format!("{} does not have it", server.url));
    }
    assert_eq!(server.paths(), ["app.pdb", "app.pd_", "file.ptr"]);
    assert_eq!(std::fs::read_dir(store.path()).unwrap().count(), 0);
}

#[test]
fn debug_files_of_elf_by_build_id() {
    if !has_curl() || !cfg!(target_os = "linux") {
        return;
    }
    let own = std::fs::read("/proc/self/exe").unwrap();
    let id = object::Object::build_id(&object::File::parse(&*own).unwrap()).unwrap().map(<[u8]>::to_vec);
    let Some(id) = id.filter(|id| id.len() == 20) else {
        etw_testkit::skip!("this program has no build id");
        return;
    };
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let cache = tempfile::tempdir().unwrap();
    let path = format!("buildid/{hex}/debuginfo");
    let fetch = |server: &Server| {
        let debuginfod = Debuginfod::new(&format!(" {}/ ", server.url), cache.path().to_owned());
        let symbolizer = Symbolizer::new().debuginfod(debuginfod);
        let module = Module { path: "/no/such/file", build_id: &id, ..Module::default() };
        symbolizer.fetch(&[module], LIMITS, &|_| ()).remove(0)
    };
    let liar = Server::start(&[(&path, Answer::File(pdb(GUID, 0)))]);
    assert!(fetch(&liar).problem.unwrap().contains("it is not an ELF file"));
    let other = [&own[..64], &[0; 64]].concat();
    let liar = Server::start(&[(&path, Answer::File(other))]);
    assert!(fetch(&liar).problem.unwrap().contains("build id"));
    let server = Server::start(&[(&path, Answer::File(own))]);
    assert!(fetch(&server).is_new);
    let again = fetch(&server);
    assert_eq!(again.file.unwrap(), cache.path().join(hex).join("debuginfo"));
    assert_eq!(server.paths(), ["debuginfo"]);
}
