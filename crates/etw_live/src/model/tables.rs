//! Rows of the tables: processes, threads, images, files, connections, disks, processors.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;

use openetw::FileTime;
use openetw::analysis::disk_label;

use super::meter::{Latency, Meter, Transfers};
use super::rows::{Cell, Column, Row};

/// A process.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) id: u32,
    /// Id of the process that started it; 0 if it is unknown.
    pub(crate) parent_id: u32,
    pub(crate) name: Arc<str>,
    pub(crate) user: Arc<str>,
    pub(crate) started: Option<FileTime>,
    pub(crate) has_ended: bool,
    /// Number of periods since its exit.
    pub(crate) periods_ended: u32,
    pub(crate) threads: u64,
    /// Processor time in units of 100 ns.
    pub(crate) cpu: Meter,
    pub(crate) reads: Transfers,
    pub(crate) writes: Transfers,
    pub(crate) sends: Transfers,
    pub(crate) receives: Transfers,
    pub(crate) events: Meter,
}

const fn column(name: &'static str, width: u16, summary: &'static str) -> Column {
    Column { name, width, summary }
}

impl Process {
    pub(crate) fn roll(&mut self, seconds: f64, seconds_of_times: f64) {
        self.cpu.roll(seconds_of_times);
        self.events.roll(seconds);
        for transfers in [&mut self.reads, &mut self.writes, &mut self.sends, &mut self.receives] {
            transfers.roll(seconds);
        }
        self.periods_ended += u32::from(self.has_ended);
    }
}

/// Converts rates of times in units of 100 ns to fractions of one processor.
pub(crate) fn share(meter: &Meter) -> f64 {
    meter.rate / FileTime::PER_SECOND as f64
}

impl Row for Process {
    const COLUMNS: &'static [Column] = &[
        column("PID", 7, "Process id."),
        column("Process", 0, "Image name of the process."),
        column("User", 10, "User who runs it."),
        column("CPU %", 6, "Processor time in the last second, in percent of one processor."),
        column("Read/s", 6, "Reads in the last second."),
        column("B/s", 5, "Bytes in the last second, of the operations in the column before."),
        column("Write/s", 7, "Writes in the last second."),
        column("B/s", 5, "Bytes in the last second, of the operations in the column before."),
        column("Send/s", 6, "Sends in the last second."),
        column("B/s", 5, "Bytes in the last second, of the operations in the column before."),
        column("Recv/s", 6, "Receives in the last second."),
        column("B/s", 5, "Bytes in the last second, of the operations in the column before."),
        column("Thr", 4, "Number of threads, as far as events told."),
        column("Events/s", 8, "Events of the process in the last second."),
        column("Started", 8, "When it started, in UTC."),
        column("Parent", 7, "Process id of the one that started it."),
    ];
    const SORTED_BY: usize = 3;

    fn cell(&self, column: usize) -> Cell<'_> {
        match column {
            0 => Cell::Id(self.id),
            1 if self.has_ended => Cell::Owned(format!("{} (ended)", self.name)),
            1 => Cell::Text(&self.name),
            2 => Cell::Text(&self.user),
            3 => Cell::Share(share(&self.cpu)),
            4 => Cell::Rate(self.reads.count.rate),
            5 => Cell::Bytes(self.reads.bytes.rate),
            6 => Cell::Rate(self.writes.count.rate),
            7 => Cell::Bytes(self.writes.bytes.rate),
            8 => Cell::Rate(self.sends.count.rate),
            9 => Cell::Bytes(self.sends.bytes.rate),
            10 => Cell::Rate(self.receives.count.rate),
            11 => Cell::Bytes(self.receives.bytes.rate),
            12 => Cell::Rate(self.threads as f64),
            13 => Cell::Rate(self.events.rate),
            14 => Cell::Time(self.started),
            _ => Cell::Id(self.parent_id),
        }
    }

    fn key(&self) -> u64 {
        self.id.into()
    }

    fn filter(&self) -> Option<String> {
        Some(format!("pid == {}", self.id))
    }
}

/// A thread.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    pub(crate) id: u32,
    pub(crate) process_id: u32,
    pub(crate) process: Arc<str>,
    /// Processor time in units of 100 ns.
    pub(crate) cpu: Meter,
    /// Switches to it.
    pub(crate) switches: Meter,
    pub(crate) started: Option<FileTime>,
}

impl Row for Thread {
    const COLUMNS: &'static [Column] = &[
        column("TID", 7, "Thread id."),
        column("PID", 7, "Process id."),
        column("Process", 0, "Image name of the process."),
        column("CPU %", 6, "Processor time in the last second, in percent of one processor."),
        column("CPU time", 9, "Processor time since the session started."),
        column("Switches/s", 10, "Switches of threads in the last second."),
        column("Started", 8, "When it started, in UTC."),
    ];
    const SORTED_BY: usize = 3;

    fn cell(&self, column: usize) -> Cell<'_> {
        match column {
            0 => Cell::Id(self.id),
            1 => Cell::Id(self.process_id),
            2 => Cell::Text(&self.process),
            3 => Cell::Share(share(&self.cpu)),
            4 => Cell::Span(self.cpu.total as f64),
            5 => Cell::Rate(self.switches.rate),
            _ => Cell::Time(self.started),
        }
    }

    fn key(&self) -> u64 {
        self.id.into()
    }

    fn filter(&self) -> Option<String> {
        Some(format!("tid == {}", self.id))
    }
}

/// An image of a process: its program, or a library.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) process_id: u32,
    pub(crate) process: Arc<str>,
    pub(crate) path: Arc<str>,
    pub(crate) base: u64,
    pub(crate) len_bytes: u64,
    /// When it was loaded, unless that was before the events.
    pub(crate) loaded: Option<FileTime>,
}

impl Row for Image {
    const COLUMNS: &'static [Column] = &[
        column("PID", 7, "Process id."),
        column("Process", 15, "Image name of the process."),
        column("Path", 0, "Path of the file."),
        column("Base", 18, "Lowest address in memory."),
        column("Size", 6, "Bytes from its lowest to its highest address."),
        column("Loaded", 8, "When it was loaded, in UTC; nothing if that was before the session."),
    ];
    const SORTED_BY: usize = 5;

    fn cell(&self, column: usize) -> Cell<'_> {
        match column {
            0 => Cell::Id(self.process_id),
            1 => Cell::Text(&self.process),
            2 => Cell::Text(&self.path),
            3 => Cell::Owned(format!("{:#x}", self.base)),
            4 => Cell::Bytes(self.len_bytes as f64),
            _ => Cell::Time(self.loaded),
        }
    }

    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.process_id, self.base).hash(&mut hasher);
        hasher.finish()
    }

    fn filter(&self) -> Option<String> {
        Some(format!("~{}", self.path))
    }
}

/// A file.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) key: u64,
    pub(crate) path: Arc<str>,
    pub(crate) reads: Transfers,
    pub(crate) writes: Transfers,
    /// Operations other than reads and writes.
    pub(crate) others: Meter,
    pub(crate) latency: Latency,
    /// Last process that used the file.
    pub(crate) process: Option<Arc<str>>,
}

impl Row for File {
    const COLUMNS: &'static [Column] = &[
        column("Path", 0, "Path of the file."),
        column("Reads", 8, "Reads since the session started."),
        column("Bytes", 6, "Bytes since the session started, of the operations in the column before."),
        column("B/s", 5, "Bytes in the last second, of the operations in the column before."),
        column("Writes", 8, "Writes since the session started."),
        column("Bytes", 6, "Bytes since the session started, of the operations in the column before."),
        column("B/s", 5, "Bytes in the last second, of the operations in the column before."),
        column("Other", 7, "Operations other than reads and writes."),
        column("Mean", 8, "Mean duration of an operation."),
        column("Longest", 8, "Longest duration of an operation."),
        column("Process", 15, "Image name of the process."),
    ];
    const SORTED_BY: usize = 2;

    fn cell(&self, column: usize) -> Cell<'_> {
        match column {
            0 => Cell::Text(&self.path),
            1 => Cell::Count(self.reads.count.total),
            2 => Cell::Bytes(self.reads.bytes.total as f64),
            3 => Cell::Bytes(self.reads.bytes.rate),
            4 => Cell::Count(self.writes.count.total),
            5 => Cell::Bytes(self.writes.bytes.total as f64),
            6 => Cell::Bytes(self.writes.bytes.rate),
            7 => Cell::Count(self.others.total),
            8 => Cell::Span(self.latency.mean()),
            9 => Cell::Span(self.latency.longest as f64),
            _ => Cell::Text(self.process.as_deref().unwrap_or("-")),
        }
    }

    fn key(&self) -> u64 {
        self.key
    }

    fn filter(&self) -> Option<String> {
        Some(format!("~{}", self.path))
    }
}

/// Two endpoints of a socket, as used by one process.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub(crate) ends: Ends,
    pub(crate) process: Option<Arc<str>>,
    pub(crate) state: &'static str,
    pub(crate) sends: Transfers,
    pub(crate) receives: Transfers,
    pub(crate) retransmits: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    pub(crate) is_udp: bool,
    pub(crate) process_id: u32,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

impl Row for Connection {
    const COLUMNS: &'static [Column] = &[
        column("PID", 7, "Process id."),
        column("Process", 15, "Image name of the process."),
        column("", 3, "TCP or UDP."),
        column("Local", 0, "Address and port on this machine."),
        column("Remote", 0, "Address and port of the other end."),
        column("State", 9, "State of the connection, from the events."),
        column("Sends", 7, "Sends since the session started."),
        column("Bytes", 6, "Bytes since the session started, of the operations in the column before."),
        column("B/s", 5, "Bytes in the last second, of the operations in the column before."),
        column("Recvs", 7, "Receives since the session started."),
        column("Bytes", 6, "Bytes since the session started, of the operations in the column before."),
        column("B/s", 5, "Bytes in the last second, of the operations in the column before."),
        column("Again", 5, "Segments that were sent again."),
    ];
    const SORTED_BY: usize = 11;

    fn cell(&self, column: usize) -> Cell<'_> {
        match column {
            0 => Cell::Id(self.ends.process_id),
            1 => Cell::Text(self.process.as_deref().unwrap_or("-")),
            2 => Cell::Text(if self.ends.is_udp { "UDP" } else { "TCP" }),
            3 => Cell::Owned(self.ends.local.to_string()),
            4 => Cell::Owned(self.ends.remote.to_string()),
            5 => Cell::Text(self.state),
            6 => Cell::Count(self.sends.count.total),
            7 => Cell::Bytes(self.sends.bytes.total as f64),
            8 => Cell::Bytes(self.sends.bytes.rate),
            9 => Cell::Count(self.receives.count.total),
            10 => Cell::Bytes(self.receives.bytes.total as f64),
            11 => Cell::Bytes(self.receives.bytes.rate),
            _ => Cell::Count(self.retransmits),
        }
    }

    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.ends.hash(&mut hasher);
        hasher.finish()
    }

    fn filter(&self) -> Option<String> {
        let Ends { process_id, local, remote, .. } = self.ends;
        let is = |here: &str, there: &str| {
            format!("({here}port == {} and {there}port == {})", local.port(), remote.port())
        };
        Some(format!("PID == {process_id} and ({} or {})", is("s", "d"), is("d", "s")))
    }
}

/// A disk.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    pub(crate) number: u32,
    pub(crate) name: Option<String>,
    pub(crate) reads: Transfers,
    pub(crate) writes: Transfers,
    pub(crate) flushes: Meter,
    pub(crate) latency: Latency,
    /// Wait time in units of 100 ns, summed over all requests.
    pub(crate) busy: Meter,
}

impl Row for Disk {
    const COLUMNS: &'static [Column] = &[
        column("Disk", 0, "Name of the disk, or its number."),
        column("Reads/s", 8, "Reads in the last second."),
        column("B/s", 6, "Bytes in the last second, of the operations in the column before."),
        column("Writes/s", 8, "Writes in the last second."),
        column("B/s", 6, "Bytes in the last second, of the operations in the column before."),
        column("Flushes/s", 9, "Flushes in the last second."),
        column("Mean", 8, "Mean duration of an operation."),
        column("Longest", 8, "Longest duration of an operation."),
        column("In flight", 9, "Mean number of requests at once."),
    ];
    const SORTED_BY: usize = 0;

    fn cell(&self, column: usize) -> Cell<'_> {
        match column {
            0 => match &self.name {
                Some(name) => Cell::Text(name),
                None => Cell::Owned(disk_label(self.number)),
            },
            1 => Cell::Rate(self.reads.count.rate),
            2 => Cell::Bytes(self.reads.bytes.rate),
            3 => Cell::Rate(self.writes.count.rate),
            4 => Cell::Bytes(self.writes.bytes.rate),
            5 => Cell::Rate(self.flushes.rate),
            6 => Cell::Span(self.latency.mean()),
            7 => Cell::Span(self.latency.longest as f64),
            _ => Cell::Rate(share(&self.busy)),
        }
    }

    fn key(&self) -> u64 {
        self.number.into()
    }
}

/// A processor. Times are in units of 100 ns.
#[derive(Debug, Clone)]
pub(crate) struct Processor {
    pub(crate) number: u16,
    pub(crate) busy: Meter,
    pub(crate) interrupts: Meter,
    pub(crate) interrupt_time: Meter,
    pub(crate) dpcs: Meter,
    pub(crate) dpc_time: Meter,
    /// End of the last ones; the next one cannot have started earlier, whatever its event states.
    pub(crate) interrupt_ended: Option<FileTime>,
    pub(crate) dpc_ended: Option<FileTime>,
    pub(crate) switches: Meter,
    /// Running thread, and its start time on the processor.
    pub(crate) running: Option<(u32, FileTime)>,
}

impl Row for Processor {
    const COLUMNS: &'static [Column] = &[
        column("CPU", 5, "Number of the processor."),
        column("Busy %", 7, "Part of the last second in which it ran a thread."),
        column("DPC %", 7, "Part of the last second in deferred calls (softirqs)."),
        column("ISR %", 7, "Part of the last second in interrupts."),
        column("Switches/s", 10, "Switches of threads in the last second."),
        column("DPCs/s", 8, "Deferred calls in the last second."),
        column("ISRs/s", 8, "Interrupts in the last second."),
    ];
    const SORTED_BY: usize = 0;

    fn cell(&self, column: usize) -> Cell<'_> {
        match column {
            0 => Cell::Id(self.number.into()),
            1 => Cell::Share(share(&self.busy)),
            2 => Cell::Share(share(&self.dpc_time)),
            3 => Cell::Share(share(&self.interrupt_time)),
            4 => Cell::Rate(self.switches.rate),
            5 => Cell::Rate(self.dpcs.rate),
            _ => Cell::Rate(self.interrupts.rate),
        }
    }

    fn key(&self) -> u64 {
        self.number.into()
    }
}

impl Processor {
    pub(crate) fn new(number: u16) -> Processor {
        let none = Meter::default();
        Processor {
            number,
            busy: none,
            interrupts: none,
            interrupt_time: none,
            dpcs: none,
            dpc_time: none,
            interrupt_ended: None,
            dpc_ended: None,
            switches: none,
            running: None,
        }
    }

    pub(crate) fn roll(&mut self, seconds: f64, seconds_of_times: f64) {
        for meter in [&mut self.interrupts, &mut self.dpcs, &mut self.switches] {
            meter.roll(seconds);
        }
        for meter in [&mut self.busy, &mut self.interrupt_time, &mut self.dpc_time] {
            meter.roll(seconds_of_times);
        }
    }
}
