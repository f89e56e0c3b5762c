//! The search for processes in files, on several threads.
//!
//! A process takes sixteen bytes for each record about it, and its name is stored once. A record whose schema is known
//! before the search is decoded at once; the few others are kept whole until the trace's own schemas are known.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use etw_event::{FileTime, OwnedRecord, Record};
use etw_schema::{Located, Resolver};

use super::machines::Machines;
use super::names::Names;
use super::over_time::OverTime;
use super::process_events::{ProcessEvent, process_event, read, same_process};
use super::{Known, KnownProcess};

/// Limit for the bytes of processes found by all threads: two million records, the start and the end of a million
/// processes, and as many distinct names as fit into the rest.
const MAX_BYTES: usize = 40 << 20;

/// Estimated bytes of a record that is kept whole, in addition to its own.
const RECORD_OVERHEAD: usize = 128;

/// Marks the name of a process that started with the record.
const START: u32 = 1 << 31;

/// A search for processes; each thread has its own [`FoundProcesses`].
#[derive(Debug)]
pub(crate) struct ProcessSearch {
    machines: Machines,
    bytes: AtomicUsize,
    unkept: AtomicU64,
}

/// What a thread has found.
#[derive(Debug, Default)]
pub(crate) struct FoundProcesses {
    gathered: Gathered,
    /// Records whose schemas are not known yet.
    waiting: Vec<OwnedRecord>,
    decoding: Option<Box<(Resolver, Located)>>,
}

#[derive(Debug, Default)]
struct Gathered {
    /// By machine; the names of started processes are marked.
    machines: Vec<Vec<KnownProcess>>,
    names: Names,
}

impl ProcessSearch {
    pub(super) fn new(machines: Machines) -> ProcessSearch {
        ProcessSearch { machines, bytes: AtomicUsize::new(0), unkept: AtomicU64::new(0) }
    }

    /// Adds a record if it is about a process; `resolver` knows no schemas of the trace.
    pub(crate) fn look_at(&self, record: &Record<'_>, resolver: &Resolver, found: &mut FoundProcesses) {
        let Some(told) = process_event(record) else { return };
        let FoundProcesses { gathered, waiting, decoding } = found;
        let decoding = decoding.get_or_insert_with(|| Box::new((resolver.clone(), Located::new())));
        let (resolver, located) = &mut **decoding;
        match resolver.resolve(record) {
            // The trace may have a better schema than that of another version.
            Ok(schema) if schema.schema.descriptor.version == record.descriptor().version => {
                read(record, schema, located, |id, name| self.add(gathered, record, told, id, name));
            }
            _ if self.takes(record.as_bytes().len() + RECORD_OVERHEAD) => waiting.push(record.into()),
            _ => {}
        }
    }

    /// Decodes the records that waited for the trace's schemas. Returns whether all have a schema of their version, so
    /// that no other source of schemas gives other names.
    pub(super) fn complete(&self, found: &mut FoundProcesses, resolver: &mut Resolver) -> bool {
        let (mut located, mut are_exact) = (Located::new(), true);
        for record in std::mem::take(&mut found.waiting) {
            let record = record.record();
            self.bytes.fetch_sub(record.as_bytes().len() + RECORD_OVERHEAD, Ordering::Relaxed);
            let schema = resolver.resolve(&record);
            let version = schema.as_ref().ok().map(|schema| schema.schema.descriptor.version);
            are_exact &= version == Some(record.descriptor().version);
            if let (Some(told), Ok(schema)) = (process_event(&record), schema) {
                let gathered = &mut found.gathered;
                read(&record, schema, &mut located, |id, name| self.add(gathered, &record, told, id, name));
            }
        }
        are_exact
    }

    /// Returns the number of records that exceeded the limit.
    pub(super) fn unkept(&self) -> u64 {
        self.unkept.load(Ordering::Relaxed)
    }

    fn add(&self, gathered: &mut Gathered, record: &Record<'_>, told: ProcessEvent, id: u32, name: &str) {
        let machine = self.machines.of(record.origin().source) as usize;
        let known = gathered.names.find(name);
        let new_bytes = if known.is_some() { 0 } else { Names::cost(name) };
        if !self.takes(size_of::<KnownProcess>() + new_bytes) {
            return;
        }
        let name = known.unwrap_or_else(|| gathered.names.add(name));
        let mark = if told == ProcessEvent::Start { START } else { 0 };
        if gathered.machines.len() <= machine {
            gathered.machines.resize_with(machine + 1, Vec::new);
        }
        if let Some(processes) = gathered.machines.get_mut(machine) {
            processes.push(KnownProcess { from: record.time(), id, name: name | mark });
        }
    }

    /// Whether so many bytes more are within the limit; if not, counts a record as dropped.
    fn takes(&self, bytes: usize) -> bool {
        let is_within = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= MAX_BYTES;
        if !is_within {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.unkept.fetch_add(1, Ordering::Relaxed);
        }
        is_within
    }
}

impl FoundProcesses {
    /// Adds what another thread has found.
    pub(crate) fn append(&mut self, other: FoundProcesses) {
        let Gathered { machines, names } = &mut self.gathered;
        let renumbered: Vec<u32> = other.gathered.names.iter().map(|name| names.add(name)).collect();
        let renumber = |process: KnownProcess| {
            let name = renumbered.get((process.name & !START) as usize).copied().unwrap_or_default();
            KnownProcess { name: name | process.name & START, ..process }
        };
        if machines.len() < other.gathered.machines.len() {
            machines.resize_with(other.gathered.machines.len(), Vec::new);
        }
        for (own, others) in machines.iter_mut().zip(other.gathered.machines) {
            own.extend(others.into_iter().map(renumber));
        }
        self.waiting.extend(other.waiting);
    }

    /// Returns the names of processes over time.
    pub(super) fn into_known(self) -> Known {
        let Gathered { machines, names } = self.gathered;
        let machines =
            machines.into_iter().map(|processes| OverTime::new(sorted(processes, &names))).collect();
        Known { machines, names }
    }
}

/// Sorts the processes of a machine, and removes the records that name a process again.
///
/// The result does not depend on the order in which threads found them.
fn sorted(mut processes: Vec<KnownProcess>, names: &Names) -> Vec<KnownProcess> {
    let key = |process: &KnownProcess| (process.id, process.from, process.name & START);
    let name = |process: &KnownProcess| names.get(process.name & !START);
    processes
        .sort_unstable_by(|one, other| key(one).cmp(&key(other)).then_with(|| name(one).cmp(name(other))));
    let mut last: Option<KnownProcess> = None;
    processes.retain_mut(|process| {
        let is_start = process.name & START != 0;
        process.name &= !START;
        match last.filter(|last| last.id == process.id) {
            Some(last) if !is_start && same_process(name(&last), name(process)) => return false,
            Some(last) if last.from == process.from && last.name == process.name => return false,
            None if !is_start => process.from = FileTime(i64::MIN),
            _ => {}
        }
        last = Some(*process);
        true
    });
    processes.shrink_to_fit();
    processes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProcessTable;
    use etw_event::{Origin, Ticks};

    fn search() -> ProcessSearch {
        ProcessSearch::new(Machines::default())
    }

    /// Passes `(told, id, name, time)` as records of a machine would be.
    fn add(
        search: &ProcessSearch,
        found: &mut FoundProcesses,
        (told, id, name, time): (ProcessEvent, u32, &str, i64),
    ) {
        // A record with the time alone; what it says is given.
        let mut bytes = vec![0; 80];
        bytes[..4].copy_from_slice(&[80, 0, 0x13, 0xC0]);
        bytes[0x10..0x18].copy_from_slice(&time.to_le_bytes());
        let origin = Origin { clock: etw_event::Clock::system_time(), ..Origin::default() };
        let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
        search.add(&mut found.gathered, &record, told, id, name);
    }

    fn table(found: FoundProcesses) -> ProcessTable {
        ProcessTable { known: std::sync::Arc::new(found.into_known()), ..ProcessTable::default() }
    }

    #[test]
    fn names_over_time() {
        let search = search();
        let records = [
            (ProcessEvent::Known, 4, "System", 100),
            (ProcessEvent::Start, 10, "first.exe", 200),
            (ProcessEvent::End, 10, "first.exe", 300),
            (ProcessEvent::Start, 10, "second.exe", 400),
            (ProcessEvent::Known, 10, "second.exe", 500),
            (ProcessEvent::End, 11, "ended.exe", 250),
        ];
        let (mut one, mut other) = (FoundProcesses::default(), FoundProcesses::default());
        for (index, record) in records.into_iter().enumerate().rev() {
            add(&search, if index % 2 == 0 { &mut one } else { &mut other }, record);
        }
        one.append(other);
        let table = table(one);
        let name = |id, time| table.name(0, id, FileTime(time));
        assert_eq!([name(4, 0), name(4, 900)], [Some("System"); 2]);
        assert_eq!([name(10, 0), name(10, 399)], [Some("first.exe"); 2], "also before its start");
        assert_eq!([name(10, 400), name(10, 900)], [Some("second.exe"); 2]);
        assert_eq!([name(11, 900), name(12, 900), name(3, 900)], [Some("ended.exe"), None, None]);
        assert_eq!(table.iter().count(), 4);
    }

    /// A million processes, each with a start and an end, fit the limit, and names come out right.
    #[test]
    fn a_million_processes() {
        let search = search();
        let (mut one, mut other) = (FoundProcesses::default(), FoundProcesses::default());
        for id in 0..1_000_000 {
            let name = format!("worker-{}", id % 5000);
            add(&search, &mut one, (ProcessEvent::Start, id, &name, 1000 + i64::from(id)));
            add(&search, &mut other, (ProcessEvent::End, id, &name, 5000 + i64::from(id)));
        }
        assert_eq!(search.unkept(), 0);
        one.append(other);
        let table = table(one);
        assert_eq!(table.name(0, 777_777, FileTime(800_000)), Some("worker-2777"));
        assert_eq!(table.iter().count(), 1_000_000);
        let held: usize = table.known.machines.iter().map(|of| size_of_val(of.as_slice())).sum();
        assert!(held <= 16 << 20, "{held} bytes");
    }

    #[test]
    fn what_exceeds_the_limit_is_counted() {
        let search = search();
        let mut found = FoundProcesses::default();
        let mut added = 0;
        while search.unkept() == 0 {
            add(&search, &mut found, (ProcessEvent::Start, added, &format!("{added:0>1000}"), 7));
            added += 1;
        }
        assert!(added as usize > MAX_BYTES / 1100 && (added as usize) < MAX_BYTES / 1000, "{added}");
        assert_eq!(table(found).iter().count() as u32, added - 1);
    }
}
