//! Which processes there were while a session recorded.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Processes by their ids.
pub(super) type Processes = BTreeMap<u32, Process>;

/// How often is looked for new processes.
const INTERVAL: Duration = Duration::from_millis(50);

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Process {
    pub(super) id: u32,
    pub(super) parent: u32,
    /// Path of its image, or its name where the path cannot be read.
    pub(super) image: String,
    pub(super) command_line: String,
}

/// Looks for processes while a session records.
pub(super) struct Watcher {
    known: Arc<Mutex<Processes>>,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Watcher {
    /// Begins to look.
    pub(super) fn start() -> std::io::Result<Watcher> {
        let known = Arc::new(Mutex::new(BTreeMap::new()));
        let ends = Arc::new(AtomicBool::new(false));
        let (found, end) = (known.clone(), ends.clone());
        let watch = move || {
            let own_image = std::env::current_exe().ok();
            while !end.load(Ordering::Relaxed) {
                look(&found, own_image.as_deref());
                thread::park_timeout(INTERVAL);
            }
            look(&found, own_image.as_deref());
        };
        let thread = thread::Builder::new().name("processes".into()).spawn(watch)?;
        Ok(Watcher { known, ends, thread })
    }

    /// Adds a process that this one has started; it need not live until it is seen.
    pub(super) fn add(&self, process: Process) {
        lock(&self.known).entry(process.id).or_insert(process);
    }

    /// The processes that are known so far.
    pub(super) fn known(&self) -> Processes {
        lock(&self.known).clone()
    }

    /// Ends looking.
    pub(super) fn finish(self) -> Processes {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let _ = self.thread.join();
        std::mem::take(&mut *lock(&self.known))
    }
}

/// Takes in the processes that are new.
fn look(known: &Mutex<Processes>, own_image: Option<&Path>) {
    let Ok(entries) = fs::read_dir("/proc") else { return };
    for entry in entries.flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if lock(known).contains_key(&id) {
            continue;
        }
        let Some(process) = read(id) else { continue };
        // A child of this process has this image until it becomes the program that is recorded.
        if process.parent != std::process::id() || Some(Path::new(&process.image)) != own_image {
            lock(known).entry(id).or_insert(process);
        }
    }
}

fn lock(known: &Mutex<Processes>) -> MutexGuard<'_, Processes> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the system says of a process; `None` if it is gone, or a thread of the kernel.
fn read(id: u32) -> Option<Process> {
    let command_line = fs::read(format!("/proc/{id}/cmdline")).ok()?;
    let words: Vec<_> = command_line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    let command_line = words.join(" ").trim_end().to_owned();
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name stands in parentheses and may hold any character; the state and the parent come behind it.
    let (before, behind) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1;
    let parent = behind.split_whitespace().nth(1)?.parse().ok()?;
    let image = match fs::read_link(format!("/proc/{id}/exe")) {
        Ok(path) => path.to_string_lossy().into_owned(),
        Err(_) if command_line.is_empty() => return None,
        Err(_) => name.to_owned(),
    };
    Some(Process { id, parent, image, command_line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found() {
        let watcher = Watcher::start().unwrap();
        let processes = watcher.finish();
        let this = &processes[&std::process::id()];
        assert_eq!(this.image, std::env::current_exe().unwrap().to_str().unwrap());
        assert_eq!(this.parent, std::os::unix::process::parent_id());
        assert!(this.command_line.contains("etw"));
    }
}
