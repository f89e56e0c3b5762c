//! The records that the programs in the kernel write. `bpf/` has the same layouts.
//!
//! Records are parsed by [`Capture::read`](crate::capture::Capture::read), which delivers them as [`Event`]s.
//!
//! ```
//! use etw_capture::records::{Body, Event};
//!
//! fn describe(event: &Event<'_>) -> String {
//!     match event.body {
//!         Body::Exec(exec) => format!("{} runs {}", event.process_id, String::from_utf8_lossy(exec.path)),
//!         Body::Sample { instruction } => format!("{} at {instruction:#x}", event.thread_id),
//!         _ => String::new(),
//!     }
//! }
//! ```

mod file;

pub use file::{File, FileAct, FileBegin, FileEnd, FileName, FilePaths};

mod image;
mod memory;
mod network;
mod python;
mod stack;
mod tracepoint;

pub use image::{FileIdentity, ImageChange, Mapping};
pub(crate) use image::{lost_of_ring, of_mapping_ring};
pub use memory::{Memory, MemoryAct, PageFault};
pub use network::{ConnectionOptions, Network, NetworkAct, Protocol};
pub use python::{PythonCode, PythonFrame, PythonText};
pub use stack::{Following, Registers, Space, Stack};
#[cfg(test)]
pub(crate) use stack::{StackParts, stack_for_tests};
pub use tracepoint::Tracepoint;
pub(crate) use tracepoint::of_tracepoint_ring;

/// An event of the kernel.
///
/// It borrows from the bytes that came from the kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event<'a> {
    /// Time in nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The processor where it happened.
    pub processor: u32,
    /// The process that was running on the processor. It need not be the cause: interrupts arrive in any process.
    pub process_id: u32,
    /// The thread that was running on the processor; 0 if it was idle.
    pub thread_id: u32,
    /// What happened.
    pub body: Body<'a>,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Body<'a> {
    /// A process or a thread started. The event's thread created it.
    Fork(Fork<'a>),
    /// The process runs another program from now on.
    Exec(Exec<'a>),
    /// A thread gets another name: one that is set, or before [`Body::Exec`] that of the program.
    ThreadName(ThreadName<'a>),
    /// A process moves to another control group.
    Move(Move<'a>),
    /// The event's thread ends.
    Exit {
        /// The thread's wait status: `0x300` for `exit(3)`, the number of a signal that ended it.
        code: u32,
        /// The wait status of the process if it ends with this thread.
        process_code: Option<u32>,
        /// The thread's CPU time in the kernel, in nanoseconds.
        kernel_nanos: u64,
        /// The thread's CPU time in user mode, in nanoseconds.
        user_nanos: u64,
    },
    /// The processor switches from the event's thread to another one.
    ContextSwitch(ContextSwitch),
    /// The event's thread, or an interrupt during it, makes a thread ready.
    ReadyThread {
        /// The process of the thread that is made ready.
        process_id: u32,
        /// The thread that is made ready.
        thread_id: u32,
        /// Its priority in the kernel's numbers: 0 to 99 for real time, 100 to 139 for the others.
        priority: u32,
        /// Whether it was an interrupt (of a device or a timer, or deferred work) and not the thread.
        by_interrupt: bool,
    },
    /// The sampling timer fired.
    Sample {
        /// Address of the next instruction, in the kernel or in the event's process.
        instruction: u64,
    },
    /// The stack of the event before it.
    Stack(Stack<'a>),
    /// Code of Python's interpreter that a stack after it leads through for the first time.
    PythonCode(PythonCode<'a>),
    /// A system call starts.
    SystemCallEnter {
        /// Its number on this architecture. Bit 31 is set for 32-bit programs, which have other numbers.
        number: u32,
    },
    /// A system call ends.
    SystemCallExit {
        /// Its number, as at its start.
        number: u32,
        /// The value that it returns; -1 to -4095 are errors.
        result: i64,
    },
    /// The handler of an interrupt has ended.
    Interrupt {
        /// The interrupt's number.
        vector: u32,
        /// Time when the handler started.
        begun: u64,
        /// The handler's address in the kernel.
        routine: u64,
        /// Whether the handler's device caused the interrupt.
        handled: bool,
    },
    /// Work deferred by interrupts (a softirq) has ended.
    Dpc {
        /// The softirq's number: 1 timer, 2 and 3 network, 4 block devices, 7 scheduler, 9 RCU.
        vector: u32,
        /// Time when it started.
        begun: u64,
    },
    /// A request for a disk is queued, or sent at once.
    DiskIssue(Disk),
    /// A disk has completed a request, or a part of it.
    DiskComplete {
        /// The request.
        disk: Disk,
        /// Time when it was queued or sent; `None` if that was before the capture.
        issued: Option<u64>,
        /// The kernel's status; 0 is success.
        error: u32,
    },
    /// A file operation, or the name of a file.
    File(File<'a>),
    /// A program allocates or frees memory, or maps a file.
    Memory(Memory),
    /// The event's thread accessed memory that was not present.
    PageFault(PageFault),
    /// An operation on a connection or a datagram.
    Network(Network),
    /// The event's process maps or unmaps executable memory.
    Image(ImageChange<'a>),
    /// A tracepoint fired in the event's thread, or in an interrupt during it.
    Tracepoint(Tracepoint<'a>),
}

/// The start of a process or a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fork<'a> {
    /// The new process, or the process of the new thread.
    pub process_id: u32,
    /// The new thread. The first thread of a process has the process's id.
    pub thread_id: u32,
    /// The parent of the process.
    pub parent_id: u32,
    /// The user that created it.
    pub user_id: u32,
    /// The session (`setsid`) of the process.
    pub session_id: u32,
    /// Its priority in the kernel's numbers: 0 to 99 for real time, 100 to 139 for the others.
    pub priority: u32,
    /// Its short name, without its NUL.
    pub name: &'a [u8],
    /// When the thread was created, in nanoseconds since the system started, with the time for which it slept.
    pub since_boot_nanos: u64,
    /// The id of its control group of version 2, which is the number of the group's directory; 0 if the kernel has none.
    pub control_group: u64,
}

impl Fork<'_> {
    /// Returns whether this is a process, and not another thread of one.
    pub const fn is_process(&self) -> bool {
        self.process_id == self.thread_id
    }
}

/// A program that a process starts to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exec<'a> {
    /// The parent of the process.
    pub parent_id: u32,
    /// The user that it runs as.
    pub user_id: u32,
    /// The session (`setsid`) of the process.
    pub session_id: u32,
    /// The previous id of the thread, which differs if another than the first thread called `exec`.
    pub old_thread_id: u32,
    /// The path passed to `exec`, without its NUL. It may be relative to the directory of the process.
    pub path: &'a [u8],
    /// The arguments one after the other, each with its NUL.
    pub arguments: &'a [u8],
    /// Length in bytes of all arguments. A record holds up to 24,576 of them; `/proc` has the others.
    pub arguments_all_bytes: u32,
    /// When the process was created, as [`Fork::since_boot_nanos`].
    pub since_boot_nanos: u64,
}

/// A process that moves to another control group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move<'a> {
    /// The process, which need not be the event's: others may move it.
    pub process_id: u32,
    /// The number of the hierarchy; 0 is that of version 2.
    pub hierarchy: u32,
    /// The id of the group, which is the number of its directory.
    pub control_group: u64,
    /// The path of the group in its hierarchy, without its NUL.
    pub path: &'a [u8],
}

/// A thread's new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadName<'a> {
    /// The process of the thread.
    pub process_id: u32,
    /// The thread, which need not be the event's: others may name it.
    pub thread_id: u32,
    /// The name without its NUL, up to 15 bytes.
    pub name: &'a [u8],
}

impl<'a> Exec<'a> {
    /// Returns the arguments, the program's own name first.
    pub fn argv(&self) -> impl Iterator<Item = &'a [u8]> {
        let text = self.arguments.strip_suffix(&[0]).unwrap_or(self.arguments);
        let some = !self.arguments.is_empty();
        text.split(|byte| *byte == 0).filter(move |_| some)
    }
}

/// A switch from the event's thread to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextSwitch {
    /// The process of the thread that runs next.
    pub new_process_id: u32,
    /// The thread that runs next; 0 is the processor's idle thread.
    pub new_thread_id: u32,
    /// The priority of the old thread in the kernel's numbers: 0 to 99 for real time, 100 to 139 for the others.
    pub old_priority: u16,
    /// The priority of the new thread.
    pub new_priority: u16,
    /// The state of the old thread in the kernel's bits: 0 runnable, bit 0 waits interruptibly, bit 1 waits
    /// uninterruptibly, bits 2 and 3 stopped, bits 4 to 7 ending. Higher bits qualify a wait and differ between
    /// kernels.
    pub old_state: u32,
    /// Whether the old thread was preempted although it could run.
    pub preempted: bool,
    /// Whether the old thread waits for I/O.
    pub waits_for_io: bool,
    /// The number of the system call that the old thread is in; `None` outside of system calls, and before Linux 5.15.
    pub old_system_call: Option<u32>,
}

/// A request to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// Identifies the request among those in progress.
    pub request: u64,
    /// Position on the disk in sectors of 512 bytes; all ones for requests without a position, such as a flush.
    pub sector: u64,
    /// Number of bytes.
    pub bytes: u32,
    /// The disk's device number in the kernel's form: 12 bits major, 20 bits minor.
    pub device: u32,
    /// The operation in the lowest 8 bits (0 read, 1 write, 2 flush, 3 discard), and flags of the kernel above.
    pub operation: u32,
    /// The process that requested it; 0 if unknown. Writes of cached data are requested by kernel threads.
    pub issuer_process_id: u32,
    /// The thread that requested it.
    pub issuer_thread_id: u32,
    /// The key of the file whose cached data the request starts with; its name is delivered earlier. 0 if the data is
    /// not from a file, or bypasses the cache.
    pub file: u64,
}

/// The kind of stacks.
const STACK: u32 = 63;

/// Size of a record's header in bytes.
const HEADER: usize = 24;
/// Offset of the path in the fields of a record of a program.
const EXEC_TEXTS: usize = 32;

/// Offset of the path in the fields of a record of a move to a control group.
const MOVE_PATH: usize = 16;

/// Returns the time of a record.
pub(crate) fn time_of(record: &[u8]) -> Option<u64> {
    Fields(record).u64(0)
}

impl<'a> Event<'a> {
    /// Parses a record; `None` if its kind is unknown or it is too short.
    pub(crate) fn parse(record: &'a [u8], processor: u32) -> Option<Event<'a>> {
        let header = Fields(record);
        let (kind, number) = (header.u32(8)?, header.u32(20)?);
        let (process_id, thread_id) = (header.u32(12)?, header.u32(16)?);
        let (time, fields) = (header.u64(0)?, Fields(record.get(HEADER..)?));
        let body = match kind {
            STACK => stack::body(time, number, fields)?,
            _ => body(kind, number, (process_id, thread_id), fields)?,
        };
        Some(Event { time, processor, process_id, thread_id, body })
    }
}

fn body<'a>(kind: u32, number: u32, current: (u32, u32), fields: Fields<'a>) -> Option<Body<'a>> {
    Some(match kind {
        1 => Body::Fork(Fork {
            process_id: fields.u32(0)?,
            thread_id: fields.u32(4)?,
            parent_id: fields.u32(8)?,
            user_id: fields.u32(12)?,
            session_id: fields.u32(16)?,
            priority: fields.u32(20)?,
            name: until_nul(fields.bytes(24, 16)?),
            since_boot_nanos: fields.u64(40)?,
            control_group: fields.u64(48)?,
        }),
        2 => {
            let (path_bytes, arguments_bytes) = (fields.u32(12)? as usize, fields.u32(16)? as usize);
            Body::Exec(Exec {
                parent_id: fields.u32(0)?,
                user_id: fields.u32(4)?,
                session_id: fields.u32(8)?,
                old_thread_id: number,
                path: until_nul(fields.bytes(EXEC_TEXTS, path_bytes)?),
                arguments: fields.bytes(EXEC_TEXTS + path_bytes, arguments_bytes)?,
                arguments_all_bytes: fields.u32(20)?,
                since_boot_nanos: fields.u64(24)?,
            })
        }
        3 => {
            let process_code = fields.u32(4)?;
            Body::Exit {
                code: fields.u32(0)?,
                process_code: (number != 0).then_some(process_code),
                kernel_nanos: fields.u64(8)?,
                user_nanos: fields.u64(16)?,
            }
        }
        4 => Body::ContextSwitch(ContextSwitch {
            new_process_id: fields.u32(0)?,
            new_thread_id: fields.u32(4)?,
            old_priority: fields.u16(8)?,
            new_priority: fields.u16(10)?,
            old_state: number,
            preempted: fields.bytes(12, 1)? != [0],
            waits_for_io: fields.bytes(13, 1)? != [0],
            old_system_call: Some(fields.u32(16)?).filter(|number| *number != u32::MAX),
        }),
        5 => Body::ReadyThread {
            process_id: fields.u32(0)?,
            thread_id: fields.u32(4)?,
            priority: number,
            by_interrupt: fields.u32(8)? != 0,
        },
        6 => Body::Sample { instruction: fields.u64(0)? },
        7 => Body::SystemCallEnter { number },
        8 => Body::SystemCallExit { number, result: fields.u64(0)?.cast_signed() },
        9 => Body::Interrupt {
            vector: number,
            begun: fields.u64(0)?,
            routine: fields.u64(8)?,
            handled: fields.u64(16)? != 0,
        },
        10 => Body::Dpc { vector: number, begun: fields.u64(0)? },
        11 => Body::DiskIssue(disk(number, fields, current)?),
        12 => {
            let issued = fields.u64(24)?;
            Body::DiskComplete {
                disk: disk(number, fields, (fields.u32(32)?, fields.u32(36)?))?,
                issued: (issued != 0).then_some(issued),
                error: fields.u32(40)?,
            }
        }
        13 => Body::PageFault(memory::page_fault(number, fields)?),
        14 => Body::ThreadName(ThreadName {
            process_id: fields.u32(0)?,
            thread_id: fields.u32(4)?,
            name: until_nul(fields.bytes(8, 16)?),
        }),
        15 => Body::Move(Move {
            process_id: fields.u32(0)?,
            hierarchy: number,
            control_group: fields.u64(8)?,
            path: until_nul(fields.bytes(MOVE_PATH, fields.u32(4)? as usize)?),
        }),
        20 => Body::File(file::name(number != 0, fields)?),
        21 => Body::File(file::begin(number, fields)?),
        22 => Body::File(file::paths(number, fields)?),
        23 => Body::File(file::end(number, fields)?),
        40 => Body::Network(network::network(number, fields)?),
        41 => Body::Memory(memory::memory(number, fields)?),
        42 => python::body(fields)?,
        tracepoint::TRACEPOINT => return tracepoint::body(number, fields),
        image::MAPPED | image::REPLACED | image::UNMAPPED => return image::body(kind, number, fields),
        _ => return None,
    })
}

fn disk(operation: u32, fields: Fields<'_>, issuer: (u32, u32)) -> Option<Disk> {
    Some(Disk {
        request: fields.u64(0)?,
        sector: fields.u64(8)?,
        bytes: fields.u32(16)?,
        device: fields.u32(20)?,
        operation,
        issuer_process_id: issuer.0,
        issuer_thread_id: issuer.1,
        file: fields.u64(48)?,
    })
}

/// Reads fields at offsets, within bounds.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(self, at: usize, count: usize) -> Option<&'a [u8]> {
        self.0.get(at..at.checked_add(count)?)
    }

    fn u16(self, at: usize) -> Option<u16> {
        Some(u16::from_ne_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    fn u32(self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    fn u64(self, at: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(*self.0.get(at..)?.first_chunk()?))
    }
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, number: u32, fields: &[u32]) -> Vec<u8> {
        let header = [7, 0, kind, 10, 11, number];
        header.iter().chain(fields).flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn records_are_read_and_shorter_ones_refused() {
        let check = |kind: u32, number: u32, fields: &[u32], expected: Body<'_>| {
            let record = record(kind, number, fields);
            let event = Event::parse(&record, 3).expect("a whole record");
            assert_eq!((event.time, event.processor), (7, 3));
            assert_eq!((event.process_id, event.thread_id), (10, 11));
            assert_eq!(event.body, expected);
            for end in 0..record.len() {
                assert_eq!(Event::parse(&record[..end], 3), None, "kind {kind} cut at {end}");
            }
        };
        let exit =
            |code, process_code| Body::Exit { code, process_code, kernel_nanos: 5, user_nanos: 6 << 32 };
        check(3, 1, &[0x300, 0x900, 5, 0, 0, 6], exit(0x300, Some(0x900)));
        check(3, 0, &[9, 0x900, 5, 0, 0, 6], exit(9, None));
        let ready =
            |by_interrupt| Body::ReadyThread { process_id: 1, thread_id: 2, priority: 120, by_interrupt };
        check(5, 120, &[1, 2, 0], ready(false));
        check(5, 120, &[1, 2, 4], ready(true));
        check(6, 0, &[1, 2], Body::Sample { instruction: 1 | 2 << 32 });
        check(7, 39, &[], Body::SystemCallEnter { number: 39 });
        check(8, 0, &[u32::MAX - 3, u32::MAX], Body::SystemCallExit { number: 0, result: -4 });
        check(10, 1, &[5, 0], Body::Dpc { vector: 1, begun: 5 });
        let named = ThreadName { process_id: 1, thread_id: 2, name: b"abcdefgh" };
        let [abcd, efgh] = [*b"abcd", *b"efgh"].map(u32::from_ne_bytes);
        check(14, 0, &[1, 2, abcd, efgh, 0, 0], Body::ThreadName(named));
        let fork = Fork {
            process_id: 1,
            thread_id: 2,
            parent_id: 3,
            user_id: 4,
            session_id: 5,
            priority: 120,
            name: b"abcd",
            since_boot_nanos: 7 << 32 | 6,
            control_group: 9 << 32 | 8,
        };
        check(1, 0, &[1, 2, 3, 4, 5, 120, abcd, 0, 0, 0, 6, 7, 8, 9], Body::Fork(fork));
        let moved = Move { process_id: 1, hierarchy: 4, control_group: 9 << 32 | 8, path: b"abcdefgh" };
        check(15, 4, &[1, 12, 8, 9, abcd, efgh, 0], Body::Move(moved));
    }

    #[test]
    fn lengths_from_a_record_are_checked() {
        let exec = |path: u32, arguments: u32| record(2, 0, &[1, 2, 3, path, arguments, 0, 8, 9, u32::MAX]);
        let parsed = exec(2, 2);
        let Some(Event { body: Body::Exec(exec_event), .. }) = Event::parse(&parsed, 0) else { panic!() };
        assert_eq!((exec_event.path, exec_event.arguments), (&[0xff, 0xff][..], &[0xff, 0xff][..]));
        assert_eq!(exec_event.since_boot_nanos, 9 << 32 | 8);
        assert_eq!(Event::parse(&exec(2, 3), 0), None);
        assert_eq!(Event::parse(&exec(u32::MAX, u32::MAX), 0), None);
        assert_eq!(Event::parse(&record(15, 0, &[1, 5, 8, 9, 0]), 0), None);
        assert_eq!(Event::parse(&record(99, 0, &[0; 32]), 0), None);
    }

    #[test]
    fn arguments_are_parted() {
        let check = |arguments: &[u8], expected: &[&[u8]]| {
            let (path, parent_id, user_id, session_id) = (&b""[..], 0, 0, 0);
            let exec = Exec {
                parent_id,
                user_id,
                session_id,
                old_thread_id: 0,
                path,
                arguments,
                arguments_all_bytes: 0,
                since_boot_nanos: 0,
            };
            assert_eq!(exec.argv().collect::<Vec<_>>(), expected);
        };
        check(b"", &[]);
        check(b"sh\0-c\0\0", &[b"sh", b"-c", b""]);
        check(b"cut of", &[b"cut of"]);
    }
}
