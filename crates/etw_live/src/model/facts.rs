//! Facts stated by kernel events, independent of the version of their class.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use openetw::kernel_events::ids::{self, Class, EventId};
use openetw::kernel_events::read;
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
    pub(crate) fn from_event(hook: HookId, properties: &Properties<'a>) -> Fact<'a> {
        let fields = Fields(properties);
        let Some(id) = EventId::from_hook(hook) else { return Fact::Other };
        match id {
            ids::Process::START | ids::Process::DC_START => {
                // `user` is the field's display text, a SID.
                let user = properties.find("UserSID").map(|sid| sid.text().to_string()).unwrap_or_default();
                let (process_id, image) = (fields.u32("ProcessId"), fields.text("ImageFileName"));
                let (parent_id, starts) = (fields.u32("ParentId"), id == ids::Process::START);
                Fact::Process { process_id, parent_id, image, user, starts }
            }
            id if read::ImageInfo::reads(id) => Fact::Image {
                process_id: fields.u32("ProcessId"),
                base: fields.u64("ImageBase"),
                len_bytes: fields.u64("ImageSize"),
                path: fields.text("FileName"),
                change: match id {
                    ids::Image::UNLOAD => ImageChange::Unload,
                    ids::Image::LOAD => ImageChange::Load,
                    ids::Image::DC_START => ImageChange::There,
                    _ => ImageChange::AtEnd,
                },
            },
            ids::Process::END => Fact::ProcessEnd { process_id: fields.u32("ProcessId") },
            ids::Thread::START | ids::Thread::DC_START => {
                let (process_id, thread_id) = (fields.u32("ProcessId"), fields.u32("TThreadId"));
                Fact::Thread { process_id, thread_id, starts: id == ids::Thread::START }
            }
            ids::Thread::END => {
                Fact::ThreadEnd { process_id: fields.u32("ProcessId"), thread_id: fields.u32("TThreadId") }
            }
            ids::Thread::C_SWITCH => {
                Fact::Switch { old_thread: fields.u32("OldThreadId"), new_thread: fields.u32("NewThreadId") }
            }
            ids::Thread::READY_THREAD => Fact::OfThread { thread_id: fields.u32("TThreadId"), file_key: 0 },
            ids::PerfInfo::SAMPLE_PROFILE => {
                Fact::Sample { thread_id: fields.u32("ThreadId"), count: fields.u64("Count").max(1) }
            }
            ids::PerfInfo::SET_INTERVAL | ids::PerfInfo::COLLECTION_START => {
                Fact::SampleInterval { hundred_nanos: fields.u64("NewInterval") }
            }
            ids::PerfInfo::ISR_67 | ids::PerfInfo::ISR_50 => {
                Fact::Interrupt { begun: fields.get("InitialTime").unwrap_or(FileTime(i64::MAX)) }
            }
            ids::PerfInfo::THREAD_DPC | ids::PerfInfo::DPC | ids::PerfInfo::TIMER_DPC => {
                Fact::Dpc { begun: fields.get("InitialTime").unwrap_or(FileTime(i64::MAX)) }
            }
            ids::PerfInfo::SYS_CL_ENTER | ids::PerfInfo::SYS_CL_EXIT => Fact::OfRunningThread,
            id if read::SoftFault::reads(id) => Fact::OfRunningThread,
            ids::PageFault::HARD_FAULT => {
                Fact::OfThread { thread_id: fields.u32("TThreadId"), file_key: fields.u64("FileObject") }
            }
            id if read::VirtualAlloc::reads(id) || read::MapFile::reads(id) => {
                Fact::OfProcess { process_id: fields.u32("ProcessId"), file_key: fields.u64("FileObject") }
            }
            id if id.class() == Class::FileIo => Fact::of_file(id, &fields),
            ids::DiskIo::READ | ids::DiskIo::WRITE | ids::DiskIo::FLUSH_BUFFERS => Fact::Disk {
                disk: fields.u32("DiskNumber"),
                operation: match id {
                    ids::DiskIo::READ => DiskOperation::Read,
                    ids::DiskIo::WRITE => DiskOperation::Write,
                    _ => DiskOperation::Flush,
                },
                bytes: fields.u64("TransferSize"),
                ticks: fields.u64("HighResResponseTime"),
                thread_id: fields.u32("IssuingThreadId"),
                file_key: fields.u64("FileObject"),
            },
            id if read::DiskInit::reads(id) => {
                Fact::OfThread { thread_id: fields.u32("IssuingThreadId"), file_key: 0 }
            }
            ids::SystemConfig::PHY_DISK => {
                Fact::DiskName { disk: fields.u32("DiskNumber"), name: fields.text("Manufacturer") }
            }
            id if id.class() == Class::TcpIp => Fact::of_socket(Protocol::Tcp, id, &fields),
            id if id.class() == Class::UdpIp => Fact::of_socket(Protocol::Udp, id, &fields),
            ids::StackWalk::STACK => {
                let (process_id, thread_id) = (fields.u32("StackProcess"), fields.u32("StackThread"));
                Fact::Stack { process_id, thread_id }
            }
            _ => Fact::Other,
        }
    }

    fn of_file(id: EventId, fields: &Fields<'_, 'a>) -> Fact<'a> {
        let (irp, object, thread_id) = (fields.u64("IrpPtr"), fields.u64("FileObject"), fields.u32("TTID"));
        let operation = match id {
            id if read::FileName::reads(id) => {
                return Fact::FileName { key: object, name: fields.text("FileName") };
            }
            ids::FileIo::CREATE => {
                return Fact::FileOpen { irp, object, thread_id, path: fields.text("OpenPath") };
            }
            ids::FileIo::OPERATION_END => {
                let (result, status) = (fields.u64("ExtraInfo"), fields.u32("NtStatus"));
                return Fact::FileEnd { irp, result, status };
            }
            ids::FileIo::READ => FileOperation::Read,
            ids::FileIo::WRITE => FileOperation::Write,
            id if read::FileOperation::reads(id) => FileOperation::Other,
            _ => return Fact::Other,
        };
        let (key, bytes) = (fields.u64("FileKey"), fields.u64("IoSize"));
        Fact::FileOperation { operation, irp, object, key, thread_id, bytes }
    }

    fn of_socket(protocol: Protocol, id: EventId, fields: &Fields<'_, 'a>) -> Fact<'a> {
        use ids::{TcpIp, UdpIp};
        let action = match id {
            TcpIp::SEND_IPV4 | TcpIp::SEND_IPV6 | UdpIp::SEND_IPV4 | UdpIp::SEND_IPV6 => NetworkAction::Send,
            TcpIp::RECV_IPV4 | TcpIp::RECV_IPV6 | UdpIp::RECV_IPV4 | UdpIp::RECV_IPV6 => {
                NetworkAction::Receive
            }
            TcpIp::CONNECT_IPV4 | TcpIp::CONNECT_IPV6 => NetworkAction::Connect,
            TcpIp::DISCONNECT_IPV4 | TcpIp::DISCONNECT_IPV6 => NetworkAction::Disconnect,
            TcpIp::RETRANSMIT_IPV4 | TcpIp::RETRANSMIT_IPV6 => NetworkAction::Retransmit,
            TcpIp::ACCEPT_IPV4 | TcpIp::ACCEPT_IPV6 => NetworkAction::Accept,
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
