//! Names of processes in sources that are not scanned: live sessions, and files read without the scan.
//!
//! The names of ended processes are removed a while after their ends, and the number of all names is limited.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use etw_event::{FileTime, Record};
use etw_schema::{Located, Resolver};
use etw_sys::{is_of_wine, program_name};

use super::ProcessName;
use super::process_events::{ProcessEvent, process_event, read, same_process};

/// How long the name of an ended process is kept: events that the kernel or a late session delivers after the end may
/// have its id.
const KEPT_AFTER_END_100NS: i64 = 10 * FileTime::PER_SECOND;

/// Limits for names and their bytes.
const MAX_NAMES: usize = 1 << 17;
const MAX_BYTES: usize = 8 << 20;
/// Limit for ended processes whose names are still kept.
const MAX_ENDED: usize = 1 << 16;

/// The time before the trace.
const BEFORE: FileTime = FileTime(i64::MIN);

/// Names by machine and process id, each with the time from which it is valid.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    names: BTreeMap<(u32, u32, FileTime), Name>,
    /// Bytes of all names.
    bytes: usize,
    /// Machine, id and end of ended processes whose names are still kept, in the order of their ends.
    ended: VecDeque<(u32, u32, FileTime)>,
    dropped: u64,
}

#[derive(Debug, Clone)]
struct Name {
    /// Empty if it was looked up in vain.
    text: Box<str>,
    is_looked_up: bool,
}

impl Observed {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the number of names dropped because of the limit.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = ProcessName<'_>> {
        let named = self.names.iter().filter(|(_, name)| name.is_known());
        named.map(|((machine, id, from), name)| {
            let (machine, id, from) = (*machine, *id, *from);
            ProcessName { machine, id, from, name: &name.text }
        })
    }

    /// Returns the name of a process at a time, and the time from which it is valid.
    pub(super) fn find(&self, machine: u32, id: u32, time: FileTime) -> Option<(FileTime, &str)> {
        let until = self.names.range((machine, id, BEFORE)..=(machine, id, time)).next_back();
        let after = || self.names.range((machine, id, time)..=(machine, id, FileTime(i64::MAX))).next();
        let (key, name) = until.filter(|(_, name)| name.is_known()).or_else(after)?;
        name.is_known().then_some((key.2, &*name.text))
    }

    /// Looks up an unknown process on this machine, once for each id.
    #[inline]
    pub(super) fn look_up(&mut self, machine: u32, id: u32) {
        let all = (machine, id, BEFORE)..=(machine, id, FileTime(i64::MAX));
        if self.names.range(all).next().is_none() {
            self.look_up_now(machine, id);
        }
    }

    #[cold]
    fn look_up_now(&mut self, machine: u32, id: u32) {
        let directory = Path::new("/proc").join(id.to_string());
        // A failed lookup is not repeated; a start event can still name the process.
        let text = match program_name(&directory).unwrap_or_default() {
            // Wine names the process after its program.
            loader if is_of_wine(id, loader.as_bytes()) => {
                std::fs::read_to_string(directory.join("comm")).unwrap_or_default().trim_end().into()
            }
            name => name.into(),
        };
        self.insert((machine, id, BEFORE), Name { text, is_looked_up: true });
    }

    /// Adds a record about a process; records come in time order.
    pub(super) fn add(
        &mut self,
        machine: u32,
        record: &Record<'_>,
        resolver: &mut Resolver,
        located: &mut Located,
    ) {
        let Some(told) = process_event(record) else { return };
        let time = record.time();
        self.release(time);
        let Ok(schema) = resolver.resolve(record) else { return };
        read(record, schema, located, |id, name| self.tell((machine, id, time), told, name));
    }

    fn tell(&mut self, (machine, id, time): (u32, u32, FileTime), told: ProcessEvent, name: &str) {
        let last = self.names.range((machine, id, BEFORE)..=(machine, id, FileTime(i64::MAX))).next_back();
        let from = match (told, last.filter(|(_, last)| last.is_known())) {
            (ProcessEvent::Known | ProcessEvent::End, Some((_, last))) if same_process(&last.text, name) => {
                None
            }
            (ProcessEvent::Known | ProcessEvent::End, None) => Some(BEFORE),
            _ => Some(time),
        };
        if let Some(from) = from {
            self.insert((machine, id, from), Name { text: name.into(), is_looked_up: false });
        }
        if told == ProcessEvent::End {
            self.ended.push_back((machine, id, time));
            if self.ended.len() > MAX_ENDED {
                self.release_first();
            }
        }
    }

    fn insert(&mut self, key: (u32, u32, FileTime), name: Name) {
        if self.names.len() >= MAX_NAMES || self.bytes + name.text.len() > MAX_BYTES {
            self.make_room();
        }
        self.bytes += name.text.len();
        if let Some(before) = self.names.insert(key, name) {
            self.bytes -= before.text.len();
        }
    }

    /// Removes the names that can be looked up again; if that is not half of them, removes all.
    #[cold]
    fn make_room(&mut self) {
        self.names.retain(|_, name| !name.is_looked_up);
        self.bytes = self.names.values().map(|name| name.text.len()).sum();
        if self.names.len() > MAX_NAMES / 2 || self.bytes > MAX_BYTES / 2 {
            self.dropped += self.names.len() as u64;
            self.names.clear();
            self.bytes = 0;
        }
    }

    /// Removes the names of processes that ended long before a time.
    fn release(&mut self, now: FileTime) {
        while let Some((_, _, end)) = self.ended.front()
            && end.0.saturating_add(KEPT_AFTER_END_100NS) < now.0
        {
            self.release_first();
        }
    }

    /// Removes the names of the process that ended first.
    fn release_first(&mut self) {
        let Some((machine, id, end)) = self.ended.pop_front() else { return };
        while let Some((key, _)) = self.names.range((machine, id, BEFORE)..=(machine, id, end)).next() {
            let key = *key;
            self.bytes -= self.names.remove(&key).map_or(0, |name| name.text.len());
        }
    }
}

impl Name {
    fn is_known(&self) -> bool {
        !self.text.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> FileTime {
        FileTime(seconds * FileTime::PER_SECOND)
    }

    #[test]
    fn ended_processes_are_let_go() {
        let mut observed = Observed::default();
        observed.tell((0, 4, at(1)), ProcessEvent::Known, "daemon");
        for id in 10..50_010 {
            let start = i64::from(id);
            observed.release(at(start));
            observed.tell((0, id, at(start)), ProcessEvent::Start, "short");
            observed.tell((0, id, at(start + 1)), ProcessEvent::End, "short");
            assert_eq!(observed.find(0, id, at(start + 1)), Some((at(start), "short")));
            assert!(observed.names.len() < 20, "{} names at {start} s", observed.names.len());
        }
        assert_eq!(observed.find(0, 4, at(60_000)), Some((BEFORE, "daemon")), "it still runs");
        assert_eq!(observed.dropped(), 0);
    }

    #[test]
    fn an_id_that_is_used_again_keeps_its_new_name() {
        let mut observed = Observed::default();
        observed.tell((0, 10, at(1)), ProcessEvent::Start, "first");
        observed.tell((0, 10, at(2)), ProcessEvent::End, "first");
        observed.tell((0, 10, at(3)), ProcessEvent::Start, "second");
        observed.tell((1, 10, at(3)), ProcessEvent::Start, "elsewhere");
        assert_eq!(observed.find(0, 10, at(2)), Some((at(1), "first")));
        observed.release(at(20));
        assert_eq!(observed.find(0, 10, at(20)), Some((at(3), "second")));
        assert_eq!(observed.find(1, 10, at(20)), Some((at(3), "elsewhere")));
        assert_eq!(observed.iter().count(), 2);
    }

    #[test]
    fn the_number_of_names_is_limited() {
        let mut observed = Observed::default();
        for id in 0..3 * MAX_NAMES as u32 {
            observed.insert((0, id, BEFORE), Name { text: "found".into(), is_looked_up: true });
            assert!(observed.names.len() <= MAX_NAMES);
        }
        assert_eq!(observed.dropped(), 0, "they can be looked up again");
        for id in 0..3 * MAX_NAMES as u32 {
            observed.tell((0, id, at(1)), ProcessEvent::Start, "started");
            assert!(observed.names.len() <= MAX_NAMES);
        }
        assert!(observed.dropped() > 0);
        let bytes: usize = observed.names.values().map(|name| name.text.len()).sum();
        assert_eq!(observed.bytes, bytes);
    }
}
