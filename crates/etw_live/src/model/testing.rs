//! Models filled with kernel events, for tests of displays.

use etw_kernel_events::classes::{
    CSwitch, Endpoints, FileIoName, FileIoOperationEnd, FileIoReadWrite, KernelEvent, NameEvent, Process,
    ProcessEvent, ReadWriteEvent, RecordBuffer, STILL_ACTIVE, Stamp, Thread, ThreadEvent,
};
use openetw::schema::Resolver;
use openetw::{Clock, FileTime, Origin, Record, Ticks};

use super::filter::Base;
use super::{Line, Lookup, Model};

/// 2024-01-17T21:20:00Z.
pub const START: i64 = 133_500_000_000_000_000;

/// Units of 100 ns in a millisecond.
pub const MS: i64 = 10_000;

/// A model and the clock of its events.
#[derive(Debug)]
pub struct Filled {
    /// The model.
    pub model: Model,
    /// Time of the next event since the start.
    pub now: i64,
}

impl Filled {
    /// Creates an empty model.
    #[must_use]
    pub fn empty() -> Filled {
        Filled::with(Base::default(), 100_000)
    }

    pub(crate) fn with(base: Base, keep: usize) -> Filled {
        Filled { model: Model::new(Resolver::new(), FileTime(START), keep, base, Lookup::default()), now: 0 }
    }

    /// Adds an event of a processor.
    pub fn on(&mut self, processor: u16, event: &impl KernelEvent) {
        self.by(processor, (0, 0), event);
    }

    /// Adds an event of a process and a thread.
    pub fn by(&mut self, processor: u16, ids: (u32, u32), event: &impl KernelEvent) {
        let mut buffer = RecordBuffer::new();
        assert!(buffer.put(&Stamp::new(Ticks(START + self.now), ids.0, ids.1), event));
        let bytes: Vec<u8> = buffer.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        let origin = Origin { clock: Clock::system_time(), processor, ..Origin::default() };
        let record = Record::parse(&bytes, &origin, Ticks(0));
        self.model.take(&record.unwrap_or_else(|error| panic!("{error}")));
    }

    /// Adds a process with one thread of the same id.
    pub fn process(&mut self, id: u32, name: &str) {
        let process = Process {
            event: ProcessEvent::Start,
            key: 1,
            process_id: id,
            parent_id: 1,
            session_id: 1,
            exit_status: STILL_ACTIVE,
            uid: 1000,
            image_file_name: name.as_bytes(),
            command_line: name.as_bytes(),
        };
        self.by(0, (id, id), &process);
        self.by(0, (id, id), &thread(ThreadEvent::Start, id, id));
    }

    /// Adds a context switch.
    pub fn switch(&mut self, processor: u16, old_thread_id: u32, new_thread_id: u32) {
        self.on(processor, &CSwitch { old_thread_id, new_thread_id, ..CSwitch::default() });
    }

    /// Adds the name of a file.
    pub fn name(&mut self, file_object: u64, name: &str) {
        self.on(0, &FileIoName { event: NameEvent::FileCreate, file_object, file_name: name.as_bytes() });
    }

    /// Adds a read or write that takes a millisecond.
    pub fn transfer(&mut self, event: ReadWriteEvent, key: u64, thread_id: u32, len_bytes: u32, status: u32) {
        let irp = 0x1000 + u64::from(thread_id);
        let begin = FileIoReadWrite {
            event,
            offset: 0,
            irp,
            file_object: key + 1,
            file_key: key,
            thread_id,
            io_size: len_bytes * 2,
            io_flags: 0,
        };
        self.on(0, &begin);
        self.now += MS;
        self.on(1, &FileIoOperationEnd { irp, extra_info: len_bytes.into(), status });
    }

    /// Returns the lines of the shown events: process, operation, detail, result, duration.
    pub fn lines(&mut self) -> Vec<String> {
        let numbers: Vec<u64> =
            (0..self.model.count()).filter_map(|index| self.model.number(index)).collect();
        let lines = numbers.into_iter().filter_map(|number| self.model.line(number));
        let text = |line: Line| {
            let columns = [line.process, line.operation, line.detail, line.result, line.duration];
            columns.join("|")
        };
        lines.map(text).collect()
    }
}

/// Returns an event of a thread.
#[must_use]
pub fn thread(event: ThreadEvent, process_id: u32, thread_id: u32) -> Thread<'static> {
    Thread {
        event,
        process_id,
        thread_id,
        user_stack_base: 0,
        affinity: 0,
        start_address: 0,
        base_priority: 8,
        name: b"",
    }
}

/// Returns endpoints from a local port to port 80 of another machine.
#[must_use]
pub fn endpoints(port: u16) -> Endpoints {
    Endpoints { destination: ([10, 0, 0, 2], 80).into(), source: ([10, 0, 0, 1], port).into() }
}
