//! Ids of processes and threads: events have those of Linux, and Windows programs know others.
//!
//! Each Windows process that registers a provider writes its ids to a file, which the processes of the same prefix read
//! when they deliver events.

// UNSAFETY: asks the loader where this library is.
#![expect(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::system;

/// Most bytes that are read of a file.
const MAX_BYTES: u64 = 1 << 20;
/// Most processes whose ids are kept, and threads of one.
const MAX_PROCESSES: usize = 4096;
const MAX_THREADS: usize = 1 << 17;
/// How long a process counts as one of Linux before it is looked up again.
const FRESH: Duration = Duration::from_secs(1);

/// Bytes of a file before its threads: the process's ids on Linux and on Windows, and its start time.
const HEADER: usize = 16;

static OWN: OnceLock<Option<File>> = OnceLock::new();

thread_local! {
    static IS_PUBLISHED: Cell<bool> = const { Cell::new(false) };
    static KNOWN: RefCell<HashMap<u32, Known>> = RefCell::new(HashMap::new());
    static THREADS: RefCell<Threads> = RefCell::default();
}

/// What is known of a process.
struct Known {
    looked_up: Instant,
    windows: Option<Windows>,
}

/// The threads of all processes.
#[derive(Default)]
struct Threads {
    looked_up: Option<Instant>,
    known: HashMap<u32, u32>,
}

/// A Windows process.
struct Windows {
    id: u32,
    threads: HashMap<u32, u32>,
}

/// Makes this process and thread known to the other processes of the prefix. Only for threads of Wine.
pub(crate) fn publish() {
    if IS_PUBLISHED.replace(true) {
        return;
    }
    let (process, thread) = system::own_ids();
    if let Some(mut file) = OWN.get_or_init(|| create(process)).as_ref() {
        // SAFETY: the call has no arguments.
        let own = unsafe { libc::gettid() } as u32;
        // Appended by one call, so that threads do not mix their ids.
        let _ = file.write_all(&[own.to_le_bytes(), thread.to_le_bytes()].concat());
    }
}

/// Creates the file of this process. Without it, other processes see its Linux ids.
fn create(process: u32) -> Option<File> {
    let directory = directory()?;
    remove_old(&directory);
    let own = std::process::id();
    let path = directory.join(own.to_string());
    let _ = fs::remove_file(&path);
    let mut options = OpenOptions::new();
    let mut file = options.append(true).create_new(true).mode(0o600).open(path).ok()?;
    let start = start_time(own).unwrap_or(0);
    let header = [own.to_le_bytes(), process.to_le_bytes()].concat();
    file.write_all(&[header, start.to_le_bytes().to_vec()].concat()).ok()?;
    Some(file)
}

/// Removes the files of processes that ended more than a day ago.
fn remove_old(directory: &Path) {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let is_old = entry.metadata().ok().and_then(|data| data.modified().ok()?.elapsed().ok());
        let has_ended = !Path::new("/proc").join(entry.file_name()).exists();
        if has_ended && is_old.is_some_and(|age| age > DAY) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns the ids of a process and a thread as Windows programs know them; those of Linux processes stay.
pub(crate) fn of_windows(process: u32, thread: u32) -> (u32, u32) {
    KNOWN.with_borrow_mut(|all| {
        if all.len() >= MAX_PROCESSES && !all.contains_key(&process) {
            all.clear();
        }
        let known = all
            .entry(process)
            .or_insert_with(|| Known { looked_up: Instant::now(), windows: look_up(process) });
        if known.windows.is_none() && known.looked_up.elapsed() > FRESH {
            *known = Known { looked_up: Instant::now(), windows: look_up(process) };
        }
        let Some(windows) = &mut known.windows else { return (process, thread) };
        // A thread that has written its first event since.
        if !windows.threads.contains_key(&thread)
            && windows.threads.len() < MAX_THREADS
            && let Some(again) = look_up(process)
        {
            windows.threads.extend(again.threads);
            windows.threads.entry(thread).or_insert(thread);
        }
        (windows.id, windows.threads.get(&thread).copied().unwrap_or(thread))
    })
}

/// Returns the id of a thread as Windows programs know it, whose process is unknown; those of Linux processes stay.
pub(crate) fn thread_of_windows(thread: u32) -> u32 {
    THREADS.with_borrow_mut(|all| {
        let is_old = || all.looked_up.is_none_or(|then| then.elapsed() > FRESH);
        if !all.known.contains_key(&thread) && is_old() {
            let processes = processes().filter_map(look_up);
            all.known = processes.flat_map(|process| process.threads).take(MAX_THREADS).collect();
            all.looked_up = Some(Instant::now());
        }
        all.known.get(&thread).copied().unwrap_or(thread)
    })
}

/// Returns the Linux id of a process that a Windows program names; ids that are unknown stay.
pub(crate) fn of_linux(id: u32) -> u32 {
    let found = processes().find(|process| {
        start_time(*process).is_some() && look_up(*process).is_some_and(|windows| windows.id == id)
    });
    found.unwrap_or(id)
}

/// Returns the Linux ids of the processes that have written theirs.
fn processes() -> impl Iterator<Item = u32> {
    let entries = directory().and_then(|directory| fs::read_dir(directory).ok());
    entries.into_iter().flatten().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Reads the file of a process. Returns `None` if it is not a Windows process of this prefix.
fn look_up(process: u32) -> Option<Windows> {
    let file = File::open(directory()?.join(process.to_string())).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    let (header, threads) = bytes.split_at_checked(HEADER)?;
    let (ids, start) = header.split_first_chunk::<8>()?;
    let id = pair(ids).1;
    let start = u64::from_le_bytes(*start.first_chunk()?);
    // The system may have given the id to another process since.
    if start_time(process).is_some_and(|now| now != start) {
        return None;
    }
    let threads = threads.as_chunks::<8>().0.iter().map(pair).collect();
    Some(Windows { id, threads })
}

fn pair(bytes: &[u8; 8]) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = *bytes;
    (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
}

/// Returns when a process started, in ticks since the system started; `None` if there is no such process.
fn start_time(process: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may contain anything; the time is the twentieth field after it.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Returns the directory of this prefix's files, which only its user can write to.
fn directory() -> Option<PathBuf> {
    static DIRECTORY: OnceLock<Option<PathBuf>> = OnceLock::new();
    DIRECTORY.get_or_init(find_directory).clone()
}

fn find_directory() -> Option<PathBuf> {
    // SAFETY: the call has no arguments.
    let user = unsafe { libc::geteuid() };
    let base = match std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty()) {
        Some(runtime) => PathBuf::from(runtime).join("openetw-wine"),
        None => PathBuf::from(format!("/tmp/openetw-wine-{user}")),
    };
    let prefix = fs::metadata(library()?.parent()?).ok()?;
    let directory = base.join(format!("{:x}-{:x}", prefix.dev(), prefix.ino()));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).ok()?;
    let is_own = |path: &Path| {
        fs::symlink_metadata(path)
            .is_ok_and(|data| data.is_dir() && data.uid() == user && data.mode() & 0o022 == 0)
    };
    (is_own(&base) && is_own(&directory)).then_some(directory)
}

/// Returns the path of this library, which is in the prefix's system directory.
pub(crate) fn library() -> Option<PathBuf> {
    // SAFETY: zeros are valid for all members; the address is of this library, and the name ends with a zero.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let address = library as fn() -> Option<PathBuf>;
        if libc::dladdr(address as *const libc::c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        Some(PathBuf::from(OsStr::from_bytes(CStr::from_ptr(info.dli_fname).to_bytes())))
    }
}
