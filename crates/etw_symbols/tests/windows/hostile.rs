//! Symbol servers that attack: endless files, bombs, and redirections into this machine.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use etw_symbols::{FetchLimits, Fetched, Module, PdbId, Symbolizer, WindowsImage};

use crate::server::{Answer, LIMITS, Server, files, has_curl, place, through};
use crate::stores::{GUID, cabinet, image, pdb};
use crate::{module, symbolizer, text};

/// The environment variable with the symbol path of a process that only fetches.
const FETCH: &str = "OPENETW_TEST_FETCH";

fn fetch(symbolizer: &Symbolizer, limits: FetchLimits) -> Fetched {
    symbolizer.fetch(&[module("app.exe", &image())], limits, &|_| ()).remove(0)
}

/// Fetches from a server that has one file, and returns why it is refused. The store stays empty.
fn refused(name: &str, answer: Answer) -> String {
    let store = tempfile::tempdir().unwrap();
    let server = Server::start(&[(&place(name), answer)]);
    let start = Instant::now();
    let fetched = fetch(&through(&server, store.path()), LIMITS);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(fetched.file.is_none());
    assert_eq!(files(store.path()), [""; 0]);
    fetched.problem.unwrap()
}

/// A PDB whose header states another number of blocks.
fn stating(blocks: u32) -> Vec<u8> {
    let mut bytes = pdb(GUID, 0);
    bytes[40..44].copy_from_slice(&blocks.to_le_bytes());
    bytes
}

#[test]
fn endless_files_are_cut_off() {
    if !has_curl() {
        return;
    }
    let check = |name: &str, start: Vec<u8>, expected: &str| {
        let problem = refused(name, Answer::Endless(start));
        assert!(problem.ends_with(expected), "{problem}");
    };
    check("app.pdb", Vec::new(), "it is not a PDB");
    check("app.pdb", pdb(GUID, 0), "it is longer than the 4096 bytes that it should have");
    check("app.pdb", stating(u32::MAX), "it is longer than 268435456 bytes");
    check("app.pdb", b"BSJB".to_vec(), "it is longer than the 268435456 bytes that it should have");
    check("app.pd_", Vec::new(), "it is not a compressed file");
    check("app.pd_", cabinet("app.pdb", &pdb(GUID, 0)), "bytes that it should have");
    check("file.ptr", b"MSG:".to_vec(), "it is longer than the 4096 bytes that it should have");
}

#[test]
fn a_small_cabinet_stays_small() {
    if !has_curl() {
        return;
    }
    let bomb = |blocks: u32| {
        let mut bytes = stating(blocks);
        bytes.resize(100 << 20, 0);
        refused("app.pd_", Answer::File(cabinet("app.pdb", &bytes)))
    };
    let problem = bomb(8);
    assert!(problem.ends_with("it unpacks to more than 4096 bytes"), "{problem}");
    let problem = bomb((100 << 20) / 512);
    assert!(problem.contains("it unpacks to more than 7"), "{problem}");
}

#[test]
fn a_run_has_limits() {
    if !has_curl() {
        return;
    }
    let bytes = pdb(GUID, 1_000_000);
    let names: Vec<String> = (0..8).map(|index| format!("m{index}.pdb")).collect();
    let places: Vec<String> =
        names.iter().map(|name| format!("{name}/{}/{name}", crate::stores::KEY)).collect();
    let id = |name: &String| PdbId::new(name, etw_event::Guid::from_u128(GUID), 1);
    let images: Vec<WindowsImage> =
        names.iter().map(|name| WindowsImage { pdb: id(name), ..WindowsImage::default() }).collect();
    let modules: Vec<Module<'_>> = images.iter().map(|image| module("m.exe", image)).collect();
    let fetch_all = |answer: Answer, limits: FetchLimits| {
        let answers: Vec<_> = places.iter().map(|place| (place.as_str(), answer.clone())).collect();
        let store = tempfile::tempdir().unwrap();
        through(&Server::start(&answers), store.path()).fetch(&modules, limits, &|_| ())
    };
    let limits = FetchLimits { total_bytes: 3_500_000, ..LIMITS };
    let fetched = fetch_all(Answer::File(bytes.clone()), limits);
    let new = fetched.iter().filter(|fetched| fetched.is_new).count();
    assert!((1..=3).contains(&new), "{fetched:?}");
    let problems: Vec<_> = fetched.iter().filter_map(|fetched| fetched.problem.as_ref()).collect();
    assert!(problems.iter().any(|problem| problem.ends_with("bytes for all files are used up")));

    let limits = FetchLimits { total: Duration::from_secs(2), stall: Duration::from_secs(60), ..LIMITS };
    let start = Instant::now();
    let fetched = fetch_all(Answer::Stall(bytes.clone()), limits);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert!(fetched.iter().all(|fetched| fetched.file.is_none()), "{fetched:?}");

    let store = tempfile::tempdir().unwrap();
    let server = Server::start(&[(&place("app.pdb"), Answer::File(bytes))]);
    let limits = FetchLimits { file_bytes: 999_999, ..LIMITS };
    let problem = fetch(&through(&server, store.path()), limits).problem.unwrap();
    assert!(problem.ends_with("the file is too large"), "{problem}");
}

#[test]
fn redirections_stay_in_the_internet() {
    if let Ok(path) = std::env::var(FETCH) {
        println!("{:?}", fetch(&symbolizer(&path), LIMITS));
        return;
    }
    if !has_curl() {
        return;
    }
    // A server of this machine may redirect to this machine.
    let [store, public] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let inside = Server::start(&[(&place("app.pdb"), Answer::File(pdb(GUID, 0)))]);
    let target = format!("{}/{}", inside.url, place("app.pdb"));
    let server = Server::start(&[(&place("app.pdb"), Answer::Redirect(target.clone()))]);
    assert!(fetch(&through(&server, store.path()), LIMITS).is_new);
    let circle = Server::start(&[(&place("app.pdb"), Answer::Redirect("app.pdb".to_owned()))]);
    let store = tempfile::tempdir().unwrap();
    let problem = fetch(&through(&circle, store.path()), LIMITS).problem.unwrap();
    assert!(problem.ends_with("it redirects more than 5 times"), "{problem}");

    // A server of the internet, which a proxy on this machine plays, may not.
    let asked = inside.paths().len();
    let url = "http://symbols.invalid/symbols";
    let proxy = Server::start(&[(&place("app.pdb"), Answer::Redirect(target))]);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hostile::redirections_stay_in_the_internet", "--nocapture"])
        .env(FETCH, format!("srv*{}*{url}", text(public.path())))
        .env("http_proxy", proxy.url.trim_end_matches("/symbols"))
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.contains("an address of this machine or of its network"), "{output}");
    assert_eq!(inside.paths().len(), asked);
}

#[test]
#[cfg(target_os = "linux")]
fn curl_ends_with_its_parent() {
    if !has_curl() {
        return;
    }
    let store = tempfile::tempdir().unwrap();
    let server = Server::start(&[(&place("app.pdb"), Answer::Stall(pdb(GUID, 100_000)))]);
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hostile::redirections_stay_in_the_internet", "--nocapture"])
        .env(FETCH, format!("srv*{}*{}", text(store.path()), server.url))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let curl = wait(|| child_named(parent.id(), "curl"));
    parent.kill().unwrap();
    parent.wait().unwrap();
    // It is gone, or waits to be collected.
    wait(|| {
        let mut status = String::new();
        let opened = std::fs::File::open(curl.join("status"));
        opened
            .and_then(|mut file| file.read_to_string(&mut status))
            .map_or(Some(()), |_| status.contains("State:\tZ").then_some(()))
    });
}

/// Waits for at most a second, which is less than the stall that ends curl by itself.
fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(1), "timeout");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the directory in `/proc` of a child process.
fn child_named(parent: u32, name: &str) -> Option<std::path::PathBuf> {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).ok()?.flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<String> = children.collect();
    children
        .iter()
        .flat_map(|list| list.split_whitespace())
        .map(|id| Path::new("/proc").join(id))
        .find(|process| std::fs::read_to_string(process.join("comm")).is_ok_and(|comm| comm.trim() == name))
}
