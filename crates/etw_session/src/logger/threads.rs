//! Thread ids of processes in other PID namespaces, converted to those of this process's namespace.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use etw_sys::credentials::process_link;

/// Minimum interval between reading a process's threads.
const LOOK: Duration = Duration::from_millis(20);
/// Limit for reading threads, as a fraction of the logger's time: one in this many parts, whatever the process does.
const SHARE: u32 = 20;
/// Maximum number of known threads per process.
const MAX_THREADS: usize = 4096;

/// The threads of one process.
#[derive(Debug)]
pub(super) struct Threads {
    process_id: u32,
    /// Ids in this namespace by the ids that the process itself knows.
    outer: HashMap<u32, u32>,
    next_look: Instant,
}

impl Threads {
    /// Returns the threads of a process; `None` if it is in this process's namespace, or not accessible.
    pub(super) fn from_process(process_id: u32) -> Option<Threads> {
        let namespace = |process_id| process_link(process_id, "ns/pid").ok();
        if namespace(std::process::id())? == namespace(process_id)? {
            return None;
        }
        let mut threads = Threads { process_id, outer: HashMap::new(), next_look: Instant::now() };
        threads.look();
        Some(threads)
    }

    /// Replaces the thread ids in records by those of this namespace. The id of a thread that ended before it was read
    /// stays unchanged.
    pub(super) fn translate(&mut self, mut records: &mut [u64]) {
        while let [first, ids, ..] = records {
            // As in `etw_buffer`: the size comes first, except in kernel events.
            let is_kernel = matches!(*first >> 16 & 0xFFFF, 0xC001..=0xC004 | 0xC010 | 0xC011);
            let len_bytes = if is_kernel { *first >> 32 } else { *first } & 0xFFFF;
            let has_ids = !matches!(*first >> 16 & 0xFFFF, 0xC010 | 0xC011);
            if has_ids && let Some(outer) = self.outer_of(*ids as u32) {
                *ids = *ids & !0xFFFF_FFFF | u64::from(outer);
            }
            let len_words = (len_bytes as usize).div_ceil(8).max(1);
            records = records.get_mut(len_words..).unwrap_or_default();
        }
    }

    fn outer_of(&mut self, inner: u32) -> Option<u32> {
        let known = self.outer.get(&inner).copied();
        if known.is_some() || Instant::now() < self.next_look {
            return known;
        }
        self.look();
        self.outer.get(&inner).copied()
    }

    fn look(&mut self) {
        let begun = Instant::now();
        self.outer.clear();
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process_id));
        for task in tasks.into_iter().flatten().flatten().take(MAX_THREADS) {
            if let Some((outer, inner)) = ids_of(&task.path()) {
                self.outer.insert(inner, outer);
            }
        }
        self.next_look = Instant::now() + LOOK.max(begun.elapsed() * SHARE);
    }
}

/// Returns the ids of a thread in this process's namespace and in its own: the first and the last of `NSpid`, which has
/// one for each namespace (`proc_pid_status(5)`).
fn ids_of(task: &Path) -> Option<(u32, u32)> {
    let status = fs::read_to_string(task.join("status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    let mut ids = ids.split_whitespace().map(str::parse);
    let first = ids.next()?.ok()?;
    let last = ids.next_back().unwrap_or(Ok(first)).ok()?;
    Some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_put_into_records_of_every_kind() {
        let later = Instant::now() + Duration::from_secs(60);
        let outer = HashMap::from([(1, 4711), (2, 4712)]);
        let mut threads = Threads { process_id: 0, outer, next_look: later };
        let event = |thread: u64| [0xC013_0018, 7 << 32 | thread, 5];
        let kernel = [0x18_C002_0004, 7 << 32 | 2, 5];
        let counter = [0x10_C011_0002, 1];
        let mut words = [&event(1)[..], &kernel, &counter, &event(9)].concat();
        threads.translate(&mut words);
        let expected = [&event(4711)[..], &[0x18_C002_0004, 7 << 32 | 4712, 5], &counter, &event(9)];
        assert_eq!(words, expected.concat());
        threads.translate(&mut [0, 0, 0]);
        threads.translate(&mut [u64::MAX]);
    }

    #[test]
    fn a_process_of_this_namespace_needs_none() {
        assert!(Threads::from_process(std::process::id()).is_none());
        assert!(Threads::from_process(0).is_none());
        let thread = etw_sys::ids::thread_and_process() as u32;
        let ids = ids_of(Path::new("/proc/thread-self"));
        assert_eq!(ids, Some((thread, thread)));
    }
}
