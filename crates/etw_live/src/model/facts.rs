//! Facts stated by kernel events, independent of the version of their class.

use std::borrow::Cow;

use etw_machine::{DiskOperation, NetworkEvent};
use openetw::kernel_events::ids::{self, Class, EventId};
use openetw::kernel_events::read;
use openetw::schema::Properties;
use openetw::{FileTime, Record, Ticks};

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
    /// The sampling interval changes.
    SampleInterval,
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
    Network(NetworkEvent),
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

impl<'a> Fact<'a> {
    /// Returns the fact that a record states; `properties` decodes it, for its texts.
    pub(crate) fn from_record(
        record: &Record<'_>,
        properties: impl FnOnce() -> Option<Properties<'a>>,
    ) -> Fact<'a> {
        EventId::from_record(record)
            .and_then(|id| Fact::from_id(id, record, properties))
            .unwrap_or(Fact::Other)
    }

    fn from_id(
        id: EventId,
        record: &Record<'_>,
        properties: impl FnOnce() -> Option<Properties<'a>>,
    ) -> Option<Fact<'a>> {
        let text = |properties: Option<Properties<'a>>, name| {
            properties.and_then(|properties| properties.try_get(name)).unwrap_or_default()
        };
        Some(match id {
            ids::Process::START | ids::Process::DC_START => {
                let process = read::ProcessInfo::new(record);
                let properties = properties()?;
                Fact::Process {
                    process_id: process.process_id()?,
                    parent_id: process.parent_id().unwrap_or(0),
                    image: properties.try_get("ImageFileName").unwrap_or_default(),
                    // The text that is shown for the field, a SID.
                    user: properties.find("UserSID").map(|sid| sid.text().to_string()).unwrap_or_default(),
                    starts: id == ids::Process::START,
                }
            }
            ids::Process::END => {
                Fact::ProcessEnd { process_id: read::ProcessInfo::new(record).process_id()? }
            }
            ids::Thread::START | ids::Thread::DC_START => {
                let thread = read::ThreadInfo::new(record);
                let (process_id, thread_id) = (thread.process_id()?, thread.t_thread_id()?);
                Fact::Thread { process_id, thread_id, starts: id == ids::Thread::START }
            }
            ids::Thread::END => {
                let thread = read::ThreadInfo::new(record);
                Fact::ThreadEnd { process_id: thread.process_id()?, thread_id: thread.t_thread_id()? }
            }
            id if read::ImageInfo::reads(id) => {
                let image = read::ImageInfo::new(record);
                Fact::Image {
                    process_id: image.process_id().unwrap_or(0),
                    base: image.image_base().or(image.base_address())?,
                    len_bytes: image.image_size().or(image.module_size().map(u64::from)).unwrap_or(0),
                    path: text(properties(), "FileName"),
                    change: match id {
                        ids::Image::UNLOAD => ImageChange::Unload,
                        ids::Image::LOAD => ImageChange::Load,
                        ids::Image::DC_START => ImageChange::There,
                        _ => ImageChange::AtEnd,
                    },
                }
            }
            ids::Thread::C_SWITCH => {
                let switch = read::CSwitch::new(record);
                Fact::Switch { old_thread: switch.old_thread_id()?, new_thread: switch.new_thread_id()? }
            }
            ids::Thread::READY_THREAD => {
                Fact::OfThread { thread_id: read::ReadyThread::new(record).t_thread_id()?, file_key: 0 }
            }
            ids::PerfInfo::SAMPLE_PROFILE => {
                let sample = read::SampledProfile::new(record);
                let count = sample.count().unwrap_or(1).max(1).into();
                Fact::Sample { thread_id: sample.thread_id()?, count }
            }
            id if read::ProfileInterval::reads(id) => Fact::SampleInterval,
            ids::PerfInfo::ISR_67 | ids::PerfInfo::ISR_50 => Fact::Interrupt { begun: begin(record) },
            ids::PerfInfo::THREAD_DPC | ids::PerfInfo::DPC | ids::PerfInfo::TIMER_DPC => {
                Fact::Dpc { begun: begin(record) }
            }
            ids::PerfInfo::SYS_CL_ENTER | ids::PerfInfo::SYS_CL_EXIT => Fact::OfRunningThread,
            id if read::SoftFault::reads(id) => Fact::OfRunningThread,
            ids::PageFault::HARD_FAULT => {
                let fault = read::HardFault::new(record);
                Fact::OfThread { thread_id: fault.t_thread_id()?, file_key: fault.file_object().unwrap_or(0) }
            }
            id if read::VirtualAlloc::reads(id) => {
                Fact::OfProcess { process_id: read::VirtualAlloc::new(record).process_id()?, file_key: 0 }
            }
            id if read::MapFile::reads(id) => {
                let map = read::MapFile::new(record);
                Fact::OfProcess { process_id: map.process_id()?, file_key: map.file_object().unwrap_or(0) }
            }
            id if read::FileName::reads(id) => Fact::FileName {
                key: read::FileName::new(record).file_object()?,
                name: text(properties(), "FileName"),
            },
            ids::FileIo::CREATE => {
                let create = read::FileOperation::new(record);
                Fact::FileOpen {
                    irp: create.irp_ptr()?,
                    object: create.file_object().unwrap_or(0),
                    thread_id: create.ttid().unwrap_or(0),
                    path: text(properties(), "OpenPath"),
                }
            }
            ids::FileIo::OPERATION_END => {
                let end = read::FileEnd::new(record);
                Fact::FileEnd { irp: end.irp_ptr()?, result: end.extra_info()?, status: end.nt_status()? }
            }
            id if read::FileOperation::reads(id) => {
                let operation = read::FileOperation::new(record);
                Fact::FileOperation {
                    operation: match id {
                        ids::FileIo::READ => FileOperation::Read,
                        ids::FileIo::WRITE => FileOperation::Write,
                        _ => FileOperation::Other,
                    },
                    irp: operation.irp_ptr()?,
                    object: operation.file_object().unwrap_or(0),
                    key: operation.file_key().unwrap_or(0),
                    thread_id: operation.ttid().unwrap_or(0),
                    bytes: operation.io_size().unwrap_or(0).into(),
                }
            }
            id if read::DiskTransfer::reads(id) => {
                let done = read::DiskTransfer::new(record);
                Fact::Disk {
                    disk: done.disk_number()?,
                    operation: match id {
                        ids::DiskIo::READ => DiskOperation::Read,
                        _ => DiskOperation::Write,
                    },
                    bytes: done.transfer_size().unwrap_or(0).into(),
                    ticks: done.high_res_response_time().unwrap_or(0),
                    thread_id: done.issuing_thread_id().unwrap_or(0),
                    file_key: done.file_object().unwrap_or(0),
                }
            }
            ids::DiskIo::FLUSH_BUFFERS => {
                let done = read::DiskFlush::new(record);
                Fact::Disk {
                    disk: done.disk_number()?,
                    operation: DiskOperation::Flush,
                    bytes: 0,
                    ticks: done.high_res_response_time().unwrap_or(0),
                    thread_id: done.issuing_thread_id().unwrap_or(0),
                    file_key: 0,
                }
            }
            id if read::DiskInit::reads(id) => {
                let thread_id = read::DiskInit::new(record).issuing_thread_id().unwrap_or(0);
                Fact::OfThread { thread_id, file_key: 0 }
            }
            ids::SystemConfig::PHY_DISK => {
                let properties = properties()?;
                let name = properties.try_get("Manufacturer").unwrap_or_default();
                Fact::DiskName { disk: properties.try_get("DiskNumber")?, name }
            }
            id if matches!(id.class(), Class::TcpIp | Class::UdpIp) => {
                Fact::Network(NetworkEvent::from_record(id, record)?)
            }
            ids::StackWalk::STACK => {
                let stack = read::StackEvent::new(record);
                Fact::Stack { process_id: stack.stack_process()?, thread_id: stack.stack_thread()? }
            }
            _ => return None,
        })
    }
}

/// Returns when an interrupt or a deferred call began.
fn begin(record: &Record<'_>) -> FileTime {
    let begun = read::Interrupt::new(record).initial_time();
    begun.map_or(FileTime(i64::MAX), |begun| record.origin().clock.to_filetime(Ticks(begun)))
}
