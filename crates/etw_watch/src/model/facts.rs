//! Facts stated by kernel events, independent of the version of their class.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use openetw::schema::{FromValue, Properties};
use openetw::{FileTime, HookId};

/// A fact stated by a kernel event.
#[derive(Debug)]
pub(crate) enum Fact<'a> {
    /// A process exists, and whether it starts now.
    Process {
        process_id: u32,
        parent_id: u32,
        image: Cow<'a, str>,
        user: String,
        starts: bool,
    },
    ProcessEnd {
        process_id: u32,
    },
    /// A thread exists, and whether it starts now.
    Thread {
        process_id: u32,
        thread_id: u32,
        starts: bool,
    },
    ThreadEnd {
        process_id: u32,
        thread_id: u32,
    },
    /// A process has an image, or has it no more.
    Image {
        process_id: u32,
        base: u64,
        len_bytes: u64,
        path: Cow<'a, str>,
        change: ImageChange,
    },
    Switch {
        old_thread: u32,
        new_thread: u32,
    },
    /// An event about a thread that no table counts.
    OfThread {
        thread_id: u32,
        file_key: u64,
    },
    /// An event about the address space of a process.
    OfProcess {
        process_id: u32,
        file_key: u64,
    },
    /// A sample of a processor.
    Sample {
        thread_id: u32,
        count: u64,
    },
    /// Sampling interval in units of 100 ns.
    SampleInterval {
        hundred_nanos: u64,
    },
    Interrupt {
        begun: FileTime,
    },
    Dpc {
        begun: FileTime,
    },
    /// A system call or another event of the running thread.
    OfRunningThread,
    /// The name of a file or of an open file.
    FileName {
        key: u64,
        name: Cow<'a, str>,
    },
    FileOpen {
        irp: u64,
        object: u64,
        thread_id: u32,
        path: Cow<'a, str>,
    },
    FileOperation {
        operation: FileOperation,
        irp: u64,
        object: u64,
        key: u64,
        thread_id: u32,
        bytes: u64,
    },
    FileEnd {
        irp: u64,
        result: u64,
        status: u32,
    },
    Disk {
        disk: u32,
        operation: DiskOperation,
        bytes: u64,
        ticks: u64,
        thread_id: u32,
        file_key: u64,
    },
    DiskName {
        disk: u32,
        name: Cow<'a, str>,
    },
    Network(Network),
    /// The stack of an event of a thread.
    Stack {
        process_id: u32,
        thread_id: u32,
    },
    Other,
}

/// What is said of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageChange {
    Load,
    Unload,
    /// It was loaded before the events.
    There,
    /// It is loaded at the end of the events.
    AtEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileOperation {
    Read,
    Write,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskOperation {
    Read,
    Write,
    Flush,
}

/// An operation of a socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network {
    pub(crate) protocol: Protocol,
    pub(crate) action: NetworkAction,
    pub(crate) process_id: u32,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetworkAction {
    Send,
    Receive,
    Connect,
    Accept,
    Disconnect,
    Retransmit,
    Other,
}

/// Access to properties by name; missing properties are zero or empty.
struct Fields<'p, 'a>(&'p Properties<'a>);

impl<'a> Fields<'_, 'a> {
    fn get<T: FromValue<'a>>(&self, name: &str) -> Option<T> {
        self.0.try_get(name)
    }

    fn u32(&self, name: &str) -> u32 {
        self.get(name).unwrap_or(0)
    }

    fn u64(&self, name: &str) -> u64 {
        self.get(name).unwrap_or(0)
    }

    fn text(&self, name: &str) -> Cow<'a, str> {
        self.get(name).unwrap_or_default()
    }

    fn end(&self, address: &str, port: &str) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.get::<IpAddr>(address)?, self.get(port)?))
    }
}

impl<'a> Fact<'a> {
    /// Returns the fact that an event states; `hook` identifies the event.
    pub(crate) fn of(hook: HookId, properties: &Properties<'a>) -> Fact<'a> {
        let fields = Fields(properties);
        match (hook.group(), hook.event_type()) {
            (0x03, 1 | 3) => {
                // `user` is the field's display text, a SID.
                let user = properties.find("UserSID").map(|sid| sid.text().to_string()).unwrap_or_default();
                let (process_id, image) = (fields.u32("ProcessId"), fields.text("ImageFileName"));
                let (parent_id, starts) = (fields.u32("ParentId"), hook.event_type() == 1);
                Fact::Process { process_id, parent_id, image, user, starts }
            }
            // Loads are in the group of processes.
            (0x03, 10) | (0x14, 2..=4) => Fact::Image {
                process_id: fields.u32("ProcessId"),
                base: fields.u64("ImageBase"),
                len_bytes: fields.u64("ImageSize"),
                path: fields.text("FileName"),
                change: match hook.event_type() {
                    2 => ImageChange::Unload,
                    10 => ImageChange::Load,
                    3 => ImageChange::There,
                    _ => ImageChange::AtEnd,
                },
            },
            (0x03, 2) => Fact::ProcessEnd { process_id: fields.u32("ProcessId") },
            (0x05, 1 | 3) => {
                let (process_id, thread_id) = (fields.u32("ProcessId"), fields.u32("TThreadId"));
                Fact::Thread { process_id, thread_id, starts: hook.event_type() == 1 }
            }
            (0x05, 2) => {
                Fact::ThreadEnd { process_id: fields.u32("ProcessId"), thread_id: fields.u32("TThreadId") }
            }
            (0x05, 0x24) => {
                Fact::Switch { old_thread: fields.u32("OldThreadId"), new_thread: fields.u32("NewThreadId") }
            }
            (0x05, 0x32) => Fact::OfThread { thread_id: fields.u32("TThreadId"), file_key: 0 },
            (0x0F, 0x2E) => {
                Fact::Sample { thread_id: fields.u32("ThreadId"), count: fields.u64("Count").max(1) }
            }
            (0x0F, 0x48 | 0x49) => Fact::SampleInterval { hundred_nanos: fields.u64("NewInterval") },
            (0x0F, 0x43 | 0x32) => {
                Fact::Interrupt { begun: fields.get("InitialTime").unwrap_or(FileTime(i64::MAX)) }
            }
            (0x0F, 0x42 | 0x44 | 0x45) => {
                Fact::Dpc { begun: fields.get("InitialTime").unwrap_or(FileTime(i64::MAX)) }
            }
            (0x0F, 0x33 | 0x34) | (0x02, 10..=15) => Fact::OfRunningThread,
            (0x02, 0x20) => {
                Fact::OfThread { thread_id: fields.u32("TThreadId"), file_key: fields.u64("FileObject") }
            }
            (0x02, 0x62 | 0x63 | 0x80 | 0x81) | (0x04, 37..=40) => {
                Fact::OfProcess { process_id: fields.u32("ProcessId"), file_key: fields.u64("FileObject") }
            }
            (0x04, operation) => Fact::of_file(operation, &fields),
            (0x01, operation @ (0x0A | 0x0B | 0x0E)) => Fact::Disk {
                disk: fields.u32("DiskNumber"),
                operation: match operation {
                    0x0A => DiskOperation::Read,
                    0x0B => DiskOperation::Write,
                    _ => DiskOperation::Flush,
                },
                bytes: fields.u64("TransferSize"),
                ticks: fields.u64("HighResResponseTime"),
                thread_id: fields.u32("IssuingThreadId"),
                file_key: fields.u64("FileObject"),
            },
            (0x01, 0x0C | 0x0D | 0x0F) => {
                Fact::OfThread { thread_id: fields.u32("IssuingThreadId"), file_key: 0 }
            }
            (0x0B, 0x0B) => {
                Fact::DiskName { disk: fields.u32("DiskNumber"), name: fields.text("Manufacturer") }
            }
            (0x06, action) => Fact::of_socket(Protocol::Tcp, action, &fields),
            (0x08, action) => Fact::of_socket(Protocol::Udp, action, &fields),
            (0x18, 0x20) => {
                let (process_id, thread_id) = (fields.u32("StackProcess"), fields.u32("StackThread"));
                Fact::Stack { process_id, thread_id }
            }
            _ => Fact::Other,
        }
    }

    fn of_file(operation: u8, fields: &Fields<'_, 'a>) -> Fact<'a> {
        let (irp, object, thread_id) = (fields.u64("IrpPtr"), fields.u64("FileObject"), fields.u32("TTID"));
        let operation = match operation {
            0 | 32 | 35 | 36 => return Fact::FileName { key: object, name: fields.text("FileName") },
            64 => return Fact::FileOpen { irp, object, thread_id, path: fields.text("OpenPath") },
            76 => {
                let (result, status) = (fields.u64("ExtraInfo"), fields.u32("NtStatus"));
                return Fact::FileEnd { irp, result, status };
            }
            67 => FileOperation::Read,
            68 => FileOperation::Write,
            65..=81 => FileOperation::Other,
            _ => return Fact::Other,
        };
        let (key, bytes) = (fields.u64("FileKey"), fields.u64("IoSize"));
        Fact::FileOperation { operation, irp, object, key, thread_id, bytes }
    }

    fn of_socket(protocol: Protocol, event: u8, fields: &Fields<'_, 'a>) -> Fact<'a> {
        // The opcodes of IPv6 are those of IPv4 plus 16.
        let action = match event {
            10 | 26 => NetworkAction::Send,
            11 | 27 => NetworkAction::Receive,
            12 | 28 => NetworkAction::Connect,
            13 | 29 => NetworkAction::Disconnect,
            14 | 30 => NetworkAction::Retransmit,
            15 | 31 => NetworkAction::Accept,
            _ => NetworkAction::Other,
        };
        let ends = (fields.end("daddr", "dport"), fields.end("saddr", "sport"));
        let (Some(destination), Some(source)) = ends else { return Fact::Other };
        // TCP events name the peer as the destination in both directions; UDP events name the packet's addresses.
        let (local, remote) = match (protocol, action) {
            (Protocol::Udp, NetworkAction::Receive) => (destination, source),
            _ => (source, destination),
        };
        let (process_id, bytes) = (fields.u32("PID"), fields.u64("size"));
        Fact::Network(Network { protocol, action, process_id, local, remote, bytes })
    }
}
