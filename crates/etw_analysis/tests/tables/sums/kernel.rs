//! Tables whose rows are made of several events of the kernel: switches, disks, files, calls, connections.

use std::collections::{BTreeMap, HashMap, HashSet};

use etw_event::{Ticks, classes};

use super::said::{Expected, KERNEL_NETWORK, Part, Said, nanos};

/// Default sampling interval in nanoseconds, for traces without an event that states it.
const INTERVAL: i128 = 1_000_000;
/// States of threads.
const TERMINATED: i128 = 4;
const WAITING: i128 = 5;

/// How a thread is not running.
#[derive(Clone, Copy)]
enum Off {
    Waiting(i64),
    Ready { since: i64, waited: i64 },
}

/// Samples and context switches. Switches that are missing show by two samples of another thread.
#[derive(Default)]
pub(super) struct Processors {
    interval: Option<i128>,
    first: Option<i64>,
    running: HashMap<u16, (i128, i64)>,
    found: HashMap<u16, (i128, i64)>,
    off: HashMap<i128, Off>,
    /// The function and the start of the call of each thread.
    calls: HashMap<i128, i64>,
    /// The processes that run, as far as events name them.
    named: HashSet<i128>,
}

impl Part for Processors {
    fn event(&mut self, said: &Said<'_, '_>, expected: &mut Expected) {
        let processor = said.0.record.processor();
        match said.kind() {
            (classes::PERF_INFO, 46) => {
                let Some(thread) = said.number(&["ThreadId"]) else { return };
                expected.row("cpu_sampled");
                let count = said.number(&["Count"]).unwrap_or(1).max(1);
                expected.add("cpu_sampled", "count", count);
                expected.add("cpu_sampled", "weight", count * self.interval.unwrap_or(INTERVAL));
                self.sampled(processor, thread, said.time());
            }
            (classes::PERF_INFO, 72..=74) if said.number(&["Source"]) == Some(0) => {
                let told = said.number(&["NewInterval"]).filter(|interval| *interval > 0);
                self.interval = told.map(|units| units * 100).or(self.interval);
            }
            (classes::PERF_INFO, 51) if said.number(&["SysCallAddress"]).is_some() => {
                expected.row("syscalls");
                if let Some(thread) = self.thread(said) {
                    self.calls.insert(thread, said.time());
                }
            }
            (classes::PERF_INFO, 52) => {
                let (Some(status), Some(thread)) = (said.number(&["SysCallNtStatus"]), self.thread(said))
                else {
                    return;
                };
                if let Some(start) = self.calls.remove(&thread) {
                    expected.add("syscalls", "duration", nanos(said.time() - start));
                    expected.add("syscalls", "status", status);
                }
            }
            (classes::THREAD, 36) => self.switch(said, expected),
            (classes::PROCESS, kind @ 1..=3) => {
                let Some(process) = said.number(&["ProcessId"]) else { return };
                if kind == 2 {
                    self.named.remove(&process);
                } else if !self.named.insert(process) && kind == 1 && said.process() == process {
                    self.replace_program(said, expected);
                }
            }
            (classes::THREAD, 50) => {
                let Some(thread) = said.number(&["TThreadId"]) else { return };
                if let Some(off) = self.off.get_mut(&thread)
                    && let Off::Waiting(since) = *off
                {
                    *off = Off::Ready { since: said.time(), waited: said.time() - since };
                }
            }
            _ => {}
        }
    }
}

impl Processors {
    /// Returns the thread of the header, or the one that runs on the processor.
    fn thread(&self, said: &Said<'_, '_>) -> Option<i128> {
        let told = said.0.record.thread_id().map(i128::from);
        told.or_else(|| Some(self.running.get(&said.0.record.processor())?.0))
    }

    fn sampled(&mut self, processor: u16, thread: i128, time: i64) {
        let Some((running, _)) = self.running.get(&processor) else { return };
        if *running == thread {
            self.found.remove(&processor);
            return;
        }
        match self.found.get(&processor).copied() {
            Some((found, first)) if found == thread => {
                self.running.insert(processor, (thread, first));
                self.found.remove(&processor);
                self.off.remove(&thread);
            }
            _ => drop(self.found.insert(processor, (thread, time))),
        }
    }

    /// A process starts to run another program, which is another thread's from then on.
    fn replace_program(&mut self, said: &Said<'_, '_>, expected: &mut Expected) {
        let (time, thread) = (said.time(), said.thread());
        if let Some((running, since)) = self.running.get_mut(&said.0.record.processor())
            && *running == thread
        {
            expected.row("cpu_precise");
            expected.add("cpu_precise", "ran", nanos(time - *since));
            *since = time;
            self.found.remove(&said.0.record.processor());
        }
    }

    fn switch(&mut self, said: &Said<'_, '_>, expected: &mut Expected) {
        let numbers = ["NewThreadId", "OldThreadId", "OldThreadState", "NewThreadPriority"];
        let [Some(new), Some(old), Some(state), Some(priority)] = numbers.map(|name| said.number(&[name]))
        else {
            return;
        };
        let (time, processor) = (said.time(), said.0.record.processor());
        expected.row("cpu_precise");
        expected.add("cpu_precise", "new_priority", priority.max(0));
        expected.add("cpu_precise", "old_state", state);
        let first = *self.first.get_or_insert(time);
        let since = match self.running.insert(processor, (new, time)) {
            Some((running, since)) => Some(since).filter(|_| running == old),
            None => Some(first),
        };
        self.found.remove(&processor);
        expected.add("cpu_precise", "ran", since.map_or(0, |since| nanos(time - since)));
        // Each processor has an idle thread, and all of these have the number 0: they neither wait nor are ready.
        match state {
            _ if old == 0 => {}
            WAITING => drop(self.off.insert(old, Off::Waiting(time))),
            TERMINATED => drop(self.off.remove(&old)),
            _ => drop(self.off.insert(old, Off::Ready { since: time, waited: 0 })),
        }
        let (waits, ready) = match self.off.remove(&new) {
            Some(Off::Waiting(since)) => (time - since, 0),
            Some(Off::Ready { since, waited }) => (waited, time - since),
            None => (0, 0),
        };
        expected.add("cpu_precise", "waits", nanos(waits));
        expected.add("cpu_precise", "ready", nanos(ready));
    }
}

/// Requests to disks, by the number of the disk: start and end.
#[derive(Default)]
pub(super) struct Disks {
    requests: BTreeMap<i128, Vec<(i64, i64)>>,
}

impl Part for Disks {
    fn event(&mut self, said: &Said<'_, '_>, expected: &mut Expected) {
        let (classes::DISK_IO, 10 | 11 | 14) = said.kind() else { return };
        let Some(disk) = said.number(&["DiskNumber"]) else { return };
        expected.row("disk");
        expected.add("disk", "size", said.number(&["TransferSize"]).unwrap_or(0));
        expected.add("disk", "offset", said.number(&["ByteOffset"]).unwrap_or(0));
        expected.add("disk", "irp_flags", said.number(&["IrpFlags"]).unwrap_or(0));
        let ticks = said.get::<u64>("HighResResponseTime").unwrap_or(0);
        let took = said.0.record.origin().clock.to_100ns(ticks as i64);
        expected.add("disk", "duration", nanos(took));
        // Each request is in the queue as long as it takes.
        expected.add("disk_queue", "request_time", nanos(took));
        let requests = self.requests.entry(disk).or_default();
        if requests.is_empty() {
            expected.row("disks");
            expected.add("disks", "number", disk);
        }
        requests.push((said.time() - took, said.time()));
    }

    fn finish(&mut self, expected: &mut Expected) {
        for requests in self.requests.values_mut() {
            // The disk works for a request since it was sent, or since the one before it was completed.
            let mut last = i64::MIN;
            for (start, end) in requests.iter() {
                expected.add("disk", "disk_service_time", nanos((end - last.max(*start)).max(0)));
                last = *end;
            }
            // The times with any request.
            requests.sort_unstable();
            let mut until = i64::MIN;
            for (start, end) in requests.iter() {
                expected.add("disk_queue", "duration", nanos((end - until.max(*start)).max(0)));
                until = until.max(*end);
            }
        }
    }
}

/// An operation on a file: bytes, start and type of the event.
type Open = (i128, i64, u16);

/// Operations on files, by their request.
#[derive(Default)]
pub(super) struct Files {
    open: HashMap<i128, Open>,
    has_ends: bool,
}

impl Part for Files {
    fn event(&mut self, said: &Said<'_, '_>, expected: &mut Expected) {
        match said.kind() {
            (classes::FILE_IO, 76) => {
                self.has_ends = true;
                let numbers = ["IrpPtr", "ExtraInfo", "NtStatus"].map(|name| said.number(&[name]));
                let [Some(irp), Some(information), Some(status)] = numbers else { return };
                let Some((bytes, start, _)) = self.open.remove(&irp) else { return };
                expected.add("file_io", "duration", nanos(said.time() - start));
                expected.add("file_io", "status", status);
                let is_failed = status >= 0xC000_0000;
                expected.add("file_io", "size", if is_failed { 0 } else { information.min(bytes) });
            }
            (classes::FILE_IO, kind @ (64 | 66..=75 | 77 | 79..=81)) => {
                let (Some(irp), Some(_)) = (said.number(&["IrpPtr"]), said.number(&["TTID"])) else { return };
                let bytes = if matches!(kind, 67 | 68) { said.number(&["IoSize"]) } else { Some(0) };
                let Some(bytes) = bytes else { return };
                // What deletes and renames has an event with the path and one without.
                let kind = if matches!(kind, 79 | 80) { kind - 9 } else { kind };
                if matches!(kind, 70 | 71) && self.open.get(&irp).is_some_and(|(.., other)| *other == kind) {
                    return;
                }
                expected.row("file_io");
                let create =
                    ["CreateOptions", "ShareAccess", "FileAttributes"].map(|name| said.number(&[name]));
                if let (64, [Some(options), Some(share), Some(attributes)]) = (kind, create) {
                    expected.add("file_io", "create_options", options);
                    expected.add("file_io", "share_access", share);
                    expected.add("file_io", "attributes", attributes);
                }
                if let Some(unended) = self.open.insert(irp, (bytes, said.time(), kind)) {
                    self.give_up(unended, expected);
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, expected: &mut Expected) {
        for unended in std::mem::take(&mut self.open).into_values() {
            self.give_up(unended, expected);
        }
    }
}

impl Files {
    /// Without ends in the trace, the requested sizes count.
    fn give_up(&self, (bytes, ..): Open, expected: &mut Expected) {
        expected.add("file_io", "size", if self.has_ends { 0 } else { bytes });
    }
}

/// Transfers and connections.
#[derive(Default)]
pub(super) struct Network {
    has_classes: bool,
    open: HashSet<(i128, bool, [String; 4])>,
}

impl Part for Network {
    fn event(&mut self, said: &Said<'_, '_>, expected: &mut Expected) {
        let is_class = matches!(said.kind().0, classes::TCP_IP | classes::UDP_IP);
        self.has_classes |= is_class;
        let (is_udp, kind) = match said.kind() {
            // Version 0 of the classes has its fields in another order.
            (classes::TCP_IP, kind) if said.0.record.descriptor().version > 0 => (false, kind),
            (classes::UDP_IP, kind) if said.0.record.descriptor().version > 0 => (true, kind),
            // The events of the provider are those of the classes again.
            (KERNEL_NETWORK, id @ (10..=17 | 26..=32)) if !self.has_classes => (false, id),
            (KERNEL_NETWORK, id @ (42..=49 | 58..=64)) if !self.has_classes => (true, id - 32),
            _ => return,
        };
        let kind = match kind {
            26..=33 => kind - 16,
            _ => kind,
        };
        // Only failures of Linux say what failed.
        if is_class && kind == 17 && said.number(&["PID"]).is_some() {
            expected.row("network");
            return;
        }
        let (Some(process), Some(bytes)) = (said.number(&["PID"]), said.number(&["size"])) else { return };
        if !matches!(kind, 10..=16) {
            return;
        }
        expected.row("network");
        expected.add("network", "size", bytes);
        let [mut local, mut remote] =
            [["saddr", "sport"], ["daddr", "dport"]].map(|names| names.map(|name| said.text(name)));
        if is_udp && kind == 11 {
            std::mem::swap(&mut local, &mut remote);
        }
        let ([local, local_port], [remote, remote_port]) = (local, remote);
        let key = (process, is_udp, [local, local_port, remote, remote_port]);
        if matches!(kind, 12 | 15) {
            self.open.remove(&key);
        }
        if self.open.insert(key.clone()) {
            expected.row("connections");
        }
        let mut sum = |column, value| expected.add("connections", column, value);
        match kind {
            10 => {
                sum("sends", 1);
                sum("bytes_sent", bytes);
            }
            11 => {
                sum("receives", 1);
                sum("bytes_received", bytes);
            }
            13 => drop(self.open.remove(&key)),
            14 => sum("retransmits", 1),
            _ => {}
        }
    }
}

/// Times of operations on the registry.
#[derive(Default)]
pub(super) struct Registry;

impl Part for Registry {
    fn event(&mut self, said: &Said<'_, '_>, expected: &mut Expected) {
        let (classes::REGISTRY, 10..=21 | 26..=29) = said.kind() else { return };
        if let Some(ticks) = said.get::<i64>("InitialTime") {
            let start = said.0.record.origin().clock.to_filetime(Ticks(ticks)).0;
            expected.add("registry", "elapsed_time", nanos((said.time() - start).max(0)));
        }
    }
}
