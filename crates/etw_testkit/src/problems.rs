//! Generated traces of problems with a known cause: a busy processor, a slow disk, a lock convoy, and long garbage
//! collections. The tutorials of the viewer find the causes, and its tests check that they do.
//!
//! All are of one made-up machine with four processors, on which a shop's program of .NET, `Orders.exe`, takes orders.

use std::collections::{BTreeMap, BinaryHeap};
use std::io::Cursor;

use etw_etl::encode::RecordBuilder;
use etw_etl::{EtlWriter, WriteError, WriterOptions};
use etw_event::{Clock, ClockType, EventDescriptor, FileTime, Guid, Origin, PointerSize, Record, Ticks};
use etw_kernel_events::classes::{
    CSwitch, DiskIo, DiskIoInit, DiskOperation, DiskTransfer, FileIoName, Image, ImageEvent, KernelEvent,
    NameEvent, PhyDisk, Process, ProcessEvent, ReadyThread, RecordBuffer, STILL_ACTIVE, SampledProfile,
    SampledProfileInterval, SampledProfileIntervalEvent, StackWalk, Stamp, Thread, ThreadEvent,
};
use etw_kernel_events::classes::{state, wait};

use crate::mutate::Numbers;
use crate::traces::START;

/// A problem with a known cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// `Orders.exe` is busy for a second and a half, since the check of a number compiles a regular expression each time
    /// ([`CPU_CAUSE`]).
    Cpu,
    /// `editor.exe` saves slowly for two seconds, since `backup.exe` reads a large file ([`DISK_CAUSE`]) with many
    /// requests at once.
    Disk,
    /// The threads of `Orders.exe` stand in line for a lock that each holds for 2 ms while it writes a log
    /// ([`LOCK_CAUSE`]).
    LockConvoy,
    /// `Orders.exe` is suspended for long collections of all generations, since an export makes large arrays
    /// ([`GC_CAUSE`]).
    GarbageCollections,
}

/// The method that is the cause of [`Problem::Cpu`].
pub const CPU_CAUSE: &str = "Orders!Orders.Invoices.IsValidNumber(class System.String)";
/// The file that is the cause of [`Problem::Disk`].
pub const DISK_CAUSE: &str = r"C:\Data\archive.vhdx";
/// The method that is the cause of [`Problem::LockConvoy`].
pub const LOCK_CAUSE: &str = "Orders!Orders.Log.Write(class System.String)";
/// The method that is the cause of [`Problem::GarbageCollections`].
pub const GC_CAUSE: &str = "Orders!Orders.Export.Render()";

impl Problem {
    /// The names of all problems.
    pub const ALL: &[(&str, Problem)] = &[
        ("cpu-problem", Problem::Cpu),
        ("disk-problem", Problem::Disk),
        ("lock-convoy", Problem::LockConvoy),
        ("gc-problem", Problem::GarbageCollections),
    ];

    /// Returns the problem with a name.
    pub fn of_name(name: &str) -> Option<Problem> {
        Problem::ALL.iter().find(|(known, _)| *known == name).map(|(_, problem)| *problem)
    }

    /// Returns the file of a trace with the problem. It is always the same.
    ///
    /// # Errors
    ///
    /// Fails if the writer fails.
    pub fn bytes(self) -> Result<Vec<u8>, WriteError> {
        let mut scene = Scene::new();
        match self {
            Problem::Cpu => cpu(&mut scene),
            Problem::Disk => disk(&mut scene),
            Problem::LockConvoy => lock_convoy(&mut scene),
            Problem::GarbageCollections => garbage_collections(&mut scene),
        }
        scene.finish()
    }
}

/// Ticks of the clock in a microsecond.
const PER_MICRO: i64 = 10;
const PROCESSORS: u16 = 4;
/// Length of each trace in microseconds.
const LENGTH: i64 = 5_000_000;

const ORDERS: u32 = 4720;
const BROWSER: u32 = 3100;
const SYSTEM: u32 = 4;

const RUNTIME: Guid = Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4);
const RUNDOWN: Guid = Guid::from_u128(0xa669021c_c450_4609_a035_5af59af4df18);
/// The number of the runtime in its process.
const INSTANCE: [u8; 2] = 9_u16.to_le_bytes();

/// An assembly of the program or of .NET.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Assembly {
    Orders,
    CoreLib,
    Regex,
}

impl Assembly {
    fn path(self) -> &'static str {
        match self {
            Assembly::Orders => r"C:\Shop\Orders.dll",
            Assembly::CoreLib => {
                r"C:\Program Files\dotnet\shared\Microsoft.NETCore.App\8.0.0\System.Private.CoreLib.dll"
            }
            Assembly::Regex => {
                r"C:\Program Files\dotnet\shared\Microsoft.NETCore.App\8.0.0\System.Text.RegularExpressions.dll"
            }
        }
    }
}

/// A method: its assembly, type, name and signature.
type Method = (Assembly, &'static str, &'static str, &'static str);

const MAIN: Method = (Assembly::Orders, "Orders.Program", "Main", "void  ()");
const SERVE: Method = (Assembly::Orders, "Orders.Server", "Serve", "instance void  ()");
const TAKE: Method = (Assembly::Orders, "Orders.Server", "TakeOrder", "instance void  (class Orders.Order)");
const PRICE: Method = (Assembly::Orders, "Orders.Prices", "Sum", "instance int64  (class Orders.Order)");
const CHECK: Method = (Assembly::Orders, "Orders.Invoices", "IsValidNumber", "bool  (class System.String)");
const LOG: Method = (Assembly::Orders, "Orders.Log", "Write", "instance void  (class System.String)");
const EXPORT: Method = (Assembly::Orders, "Orders.Export", "Run", "instance void  ()");
const RENDER: Method = (Assembly::Orders, "Orders.Export", "Render", "instance class System.Byte[]  ()");
const ENTER: Method = (Assembly::CoreLib, "System.Threading.Monitor", "Enter", "void  (class System.Object)");
const EXIT: Method = (Assembly::CoreLib, "System.Threading.Monitor", "Exit", "void  (class System.Object)");
const WAIT_QUEUE: Method = (Assembly::CoreLib, "System.Threading.WaitHandle", "WaitOne", "instance bool  ()");
const FLUSH: Method = (Assembly::CoreLib, "System.IO.FileStream", "Flush", "instance void  (bool)");
const CONCAT: Method = (
    Assembly::CoreLib,
    "System.String",
    "Concat",
    "class System.String  (class System.String,class System.String)",
);
const RESIZE: Method =
    (Assembly::CoreLib, "System.IO.MemoryStream", "set_Capacity", "instance void  (int32)");
const NEW_REGEX: Method = (
    Assembly::Regex,
    "System.Text.RegularExpressions.Regex",
    ".ctor",
    "instance void  (class System.String)",
);
const PARSE: Method = (
    Assembly::Regex,
    "System.Text.RegularExpressions.RegexParser",
    "ScanRegex",
    "instance class System.Text.RegularExpressions.RegexNode  ()",
);
const EMIT: Method =
    (Assembly::Regex, "System.Text.RegularExpressions.RegexCompiler", "EmitTryMatch", "instance void  ()");
const MATCH: Method = (
    Assembly::Regex,
    "System.Text.RegularExpressions.Regex",
    "IsMatch",
    "instance bool  (class System.String)",
);

/// Events to write.
struct Scene {
    records: Vec<(i64, u16, Vec<u8>)>,
    /// The address of each method that occurs.
    methods: BTreeMap<Method, u64>,
}

impl Scene {
    /// A machine with the processes that are always there.
    fn new() -> Scene {
        let mut scene = Scene { records: Vec::new(), methods: BTreeMap::new() };
        let interval = SampledProfileInterval {
            event: SampledProfileIntervalEvent::CollectionStart,
            source: 0,
            new_interval: 10_000,
            old_interval: 10_000,
            source_name: b"Timer",
        };
        scene.put(0, 0, &interval);
        for (id, name) in [(0, "Idle"), (SYSTEM, "System"), (ORDERS, "Orders.exe"), (BROWSER, "browser.exe")]
        {
            scene.process(id, name);
        }
        for thread in 1..=8 {
            scene.thread(ORDERS + 4 * thread, ORDERS);
        }
        let image = |base, name| Image {
            event: ImageEvent::DcStart,
            base,
            len_bytes: 0x10_0000,
            process_id: BROWSER,
            build_id: None,
            file_name: name,
        };
        scene.put(0, 0, &image(0x7FF7_1000_0000, br"C:\Program Files\Browser\browser.exe"));
        scene.put(0, 0, &image(0x7FF7_2000_0000, br"C:\Program Files\Browser\script.dll"));
        scene
    }

    /// Adds an event of the kernel at a time in microseconds.
    fn put(&mut self, micros: i64, processor: u16, event: &impl KernelEvent) {
        self.put_by(micros, processor, (0, 0), event);
    }

    /// Adds an event of the kernel that a process and a thread logged.
    fn put_by(
        &mut self,
        micros: i64,
        processor: u16,
        (process, thread): (u32, u32),
        event: &impl KernelEvent,
    ) {
        let mut buffer = RecordBuffer::new();
        let is_put = buffer.put(&Stamp::new(Ticks(micros * PER_MICRO), process, thread), event);
        assert!(is_put, "the event fits");
        let bytes: Vec<u8> = buffer.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        // Removes the padding of the last word.
        let origin = Origin::default();
        if let Ok(record) = Record::parse(&bytes, &origin, Ticks(0)) {
            self.records.push((micros, processor, record.as_bytes().to_vec()));
        }
    }

    /// Adds an event of .NET.
    fn dotnet(&mut self, micros: i64, thread: u32, event: (Guid, u16, u8), payload: &[&[u8]]) {
        let (provider, id, version) = event;
        let descriptor = EventDescriptor { id, version, ..EventDescriptor::default() };
        let record = RecordBuilder::event(PointerSize::Eight, provider, &descriptor)
            .process(ORDERS, thread)
            .time(Ticks(micros * PER_MICRO))
            .payload(&payload.concat())
            .build();
        if let Ok(record) = record {
            self.records.push((micros, (thread / 4 % 4) as u16, record));
        }
    }

    fn process(&mut self, id: u32, name: &str) {
        let command_line = format!("{name}\0");
        let process = Process {
            event: ProcessEvent::DcStart,
            key: id.into(),
            process_id: id,
            parent_id: SYSTEM,
            session_id: 1,
            exit_status: STILL_ACTIVE,
            uid: 0,
            image_file_name: name.as_bytes(),
            command_line: command_line.as_bytes(),
        };
        self.put(0, 0, &process);
        self.thread(id, id);
    }

    fn thread(&mut self, id: u32, process_id: u32) {
        let thread = Thread {
            event: ThreadEvent::DcStart,
            process_id,
            thread_id: id,
            user_stack_base: 0,
            affinity: 0,
            start_address: 0,
            base_priority: 8,
            name: b"",
        };
        self.put(0, 0, &thread);
    }

    /// Returns addresses in these methods, the innermost first.
    fn addresses(&mut self, methods: &[Method]) -> Vec<u64> {
        let at = |method: &Method| {
            let next = 0x7FFB_0000_0000 + 0x1000 * self.methods.len() as u64;
            *self.methods.entry(*method).or_insert(next) + 0x20
        };
        methods.iter().rev().map(at).collect()
    }

    /// Adds a sample of a thread in these methods, the outermost first.
    fn sample(&mut self, micros: i64, processor: u16, (process_id, thread_id): (u32, u32), frames: &[u64]) {
        let instruction_pointer = frames.first().copied().unwrap_or_default();
        let sample = SampledProfile { instruction_pointer, thread_id, count: 1, ..SampledProfile::default() };
        self.put(micros, processor, &sample);
        self.stack(micros, processor, (process_id, thread_id), frames);
    }

    /// Adds the stack of the event at a time.
    fn stack(&mut self, micros: i64, processor: u16, (process_id, thread_id): (u32, u32), frames: &[u64]) {
        let event_time = Ticks(micros * PER_MICRO);
        self.put(micros, processor, &StackWalk { event_time, process_id, thread_id, frames });
    }

    /// Adds a switch of a processor, with the stack of the thread that runs from then on.
    fn switch(&mut self, micros: i64, processor: u16, [old, new]: [u32; 2], reason: i8, frames: &[u64]) {
        let switch = CSwitch {
            new_thread_id: new,
            old_thread_id: old,
            new_thread_priority: 8,
            old_thread_state: if old == 0 { state::READY } else { state::WAITING },
            old_thread_wait_reason: reason,
            ..CSwitch::default()
        };
        self.put(micros, processor, &switch);
        if !frames.is_empty() {
            self.stack(micros, processor, (ORDERS, new), frames);
        }
    }

    /// Adds some work of other programs, a sample for each millisecond in ten.
    fn background(&mut self) {
        let mut numbers = Numbers::new(7);
        for micros in (0..LENGTH).step_by(1000) {
            if numbers.below(100) < 12 {
                let inner = 0x7FF7_2000_1000 + 0x1000 * numbers.below(30) as u64;
                self.sample(micros + 300, 0, (BROWSER, BROWSER), &[inner, 0x7FF7_1000_2000]);
            }
        }
    }

    /// Adds what the runtime of .NET says of its methods at the end.
    fn rundown(&mut self) {
        let methods = std::mem::take(&mut self.methods);
        let mut modules = BTreeMap::new();
        for (method, start) in &methods {
            let (assembly, space, name, signature) = *method;
            let module = 0x7FFA_0000_0000 + 0x1000 * assembly as u64;
            modules.insert(assembly, module);
            let ids = [*start ^ 0xFF, module, *start].map(u64::to_le_bytes).concat();
            let numbers = [0x800_u32, 0x600_0001, 8].map(u32::to_le_bytes).concat();
            let [space, name, signature] = [space, name, signature].map(wide);
            let payload: [&[u8]; 6] = [&ids, &numbers, &space, &name, &signature, &INSTANCE];
            self.dotnet(LENGTH - 1000, ORDERS, (RUNDOWN, 144, 1), &payload);
        }
        for (assembly, module) in modules {
            let ids = [module, 1, 0].map(u64::to_le_bytes).concat();
            let payload: [&[u8]; 4] = [&ids, &wide(assembly.path()), &wide(""), &INSTANCE];
            self.dotnet(LENGTH - 500, ORDERS, (RUNDOWN, 154, 1), &payload);
        }
    }

    fn finish(mut self) -> Result<Vec<u8>, WriteError> {
        self.rundown();
        self.records.sort_by_key(|(micros, ..)| *micros);
        let clock = Clock::new(ClockType::Qpc, Ticks(0), START, 1_000_000 * PER_MICRO);
        let mut options = WriterOptions::new(clock, 0x10000, PROCESSORS.into());
        options.header.logger_name = "OpenETW generated".to_owned();
        let mut writer = EtlWriter::new(Cursor::new(Vec::new()), options)?;
        for (_, processor, record) in &self.records {
            writer.write(*processor, record)?;
        }
        let end = FileTime(START.0 + LENGTH * PER_MICRO);
        Ok(writer.finish(end)?.out.into_inner())
    }
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

/// Samples of a thread that takes orders, and from 2.0 to 3.5 s checks the numbers of invoices.
fn cpu(scene: &mut Scene) {
    scene.background();
    let thread = (ORDERS, ORDERS + 4);
    let server = [MAIN, SERVE, TAKE];
    let mut numbers = Numbers::new(11);
    for micros in (0..LENGTH).step_by(1000) {
        let is_checking = (2_000_000..3_500_000).contains(&micros);
        if !is_checking && numbers.below(100) >= 15 {
            continue;
        }
        let inner: &[Method] = match numbers.below(100) {
            // What orders always take.
            _ if !is_checking => &[PRICE],
            0..6 => &[PRICE],
            6..9 => &[CHECK, MATCH],
            9..40 => &[CHECK, NEW_REGEX, PARSE],
            40..95 => &[CHECK, NEW_REGEX, EMIT],
            _ => &[CHECK, NEW_REGEX],
        };
        let frames = scene.addresses(&[&server[..], inner].concat());
        scene.sample(micros + 100, 1, thread, &frames);
    }
}

/// A request to the disk, by the time at which it is sent: the first one is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Request {
    sent: i64,
    number: u64,
    file: usize,
}

impl Ord for Request {
    fn cmp(&self, other: &Request) -> std::cmp::Ordering {
        (other.sent, other.number).cmp(&(self.sent, self.number))
    }
}

impl PartialOrd for Request {
    fn partial_cmp(&self, other: &Request) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A disk that serves one request after the other: an editor and the system write now and then; from 1.5 to 3.5 s a
/// backup always has sixteen reads under way.
fn disk(scene: &mut Scene) {
    const EDITOR: u32 = 5200;
    const BACKUP: u32 = 6400;
    /// Key and path of a file, who uses it, in which direction, how many bytes, and how long the disk takes.
    const FILES: [(u64, &str, u32, DiskTransfer, u32, i64); 3] = [
        (0xA000_0010, DISK_CAUSE, BACKUP, DiskTransfer::Read, 1 << 20, 5000),
        (0xA000_0020, r"C:\Users\ann\Documents\Report.docx", EDITOR, DiskTransfer::Write, 64 << 10, 400),
        (0xA000_0030, r"C:\Windows\System32\config\SYSTEM.LOG1", SYSTEM, DiskTransfer::Write, 4096, 150),
    ];
    const STOP: i64 = 3_500_000;
    scene.process(EDITOR, "editor.exe");
    scene.process(BACKUP, "backup.exe");
    scene.put(0, 0, &PhyDisk { disk_number: 0, manufacturer: b"SATA disk", ..PhyDisk::default() });
    for (file_object, path, ..) in FILES {
        let name = FileIoName { event: NameEvent::FileRundown, file_object, file_name: path.as_bytes() };
        scene.put(LENGTH - 100, 0, &name);
    }
    let mut waiting = BinaryHeap::new();
    let mut number = 0;
    let mut send = |waiting: &mut BinaryHeap<Request>, sent, file| {
        number += 1;
        waiting.push(Request { sent, number, file });
    };
    for burst in 0..16_i64 {
        // A document is saved in eight parts.
        (0..8).for_each(|part| send(&mut waiting, 200_000 + burst * 300_000 + part * 300, 1));
    }
    (0..49_i64).for_each(|time| send(&mut waiting, 50_000 + time * 100_000, 2));
    (0..16_i64).for_each(|read| send(&mut waiting, 1_500_000 + read, 0));
    let mut free = 0;
    let mut offset = 0;
    while let Some(Request { sent, number, file }) = waiting.pop() {
        let (file_object, _, process, transfer, transfer_size, service) = FILES[file];
        let done = free.max(sent) + service;
        free = done;
        let operation =
            if transfer == DiskTransfer::Read { DiskOperation::Read } else { DiskOperation::Write };
        let irp = 0xFFFF_8000_0000_0000 | number << 8;
        let processor = (process / 4 % 4) as u16;
        scene.put_by(
            sent,
            processor,
            (process, process),
            &DiskIoInit { operation, irp, issuing_thread_id: process },
        );
        let end = DiskIo {
            transfer,
            disk_number: 0,
            irp_flags: 0,
            transfer_size,
            byte_offset: offset,
            file_object,
            irp,
            response_time: ((done - sent) * PER_MICRO) as u64,
            issuing_thread_id: process,
        };
        scene.put(done, 0, &end);
        offset += u64::from(transfer_size);
        // The backup sends the next read when one is done.
        if file == 0 && done < STOP {
            send(&mut waiting, done + 20, 0);
        }
    }
}

/// Six threads that each hold a lock for 2 ms, work 0.6 ms more, and stand in line again.
fn lock_convoy(scene: &mut Scene) {
    const THREADS: i64 = 6;
    const HOLD: i64 = 2000;
    const WORK: i64 = 600;
    /// Time from when a thread is ready until it runs.
    const LATENCY: i64 = 30;
    scene.background();
    let outer = [MAIN, SERVE, TAKE];
    let entering = scene.addresses(&[&outer[..], &[LOG, ENTER]].concat());
    let leaving = scene.addresses(&[&outer[..], &[LOG, EXIT]].concat());
    let flushing = scene.addresses(&[&outer[..], &[LOG, FLUSH]].concat());
    let working = scene.addresses(&[&outer[..], &[PRICE]].concat());
    let idle = scene.addresses(&[MAIN, SERVE, WAIT_QUEUE]);
    let turns = (LENGTH - 100_000) / HOLD;
    let thread_of = |turn: i64| ORDERS + 4 * (1 + turn % THREADS) as u32;
    let processor_of = |turn: i64| (turn % i64::from(PROCESSORS)) as u16;
    for turn in 0..turns {
        let (thread, processor) = (thread_of(turn), processor_of(turn));
        let begin = 10_000 + turn * HOLD;
        let end = begin + HOLD - LATENCY;
        // The first time each thread comes from waiting for orders.
        let came_from = if turn < THREADS { &idle } else { &entering };
        scene.switch(begin, processor, [0, thread], 0, came_from);
        for (at, frames) in [(300, &flushing), (1300, &flushing), (HOLD + 200, &working)] {
            scene.sample(begin + at, processor, (ORDERS, thread), frames);
        }
        let next = ReadyThread { thread_id: thread_of(turn + 1), adjust_reason: 1, ..ReadyThread::default() };
        scene.put_by(end, processor, (ORDERS, thread), &next);
        scene.stack(end, processor, (ORDERS, thread), &leaving);
        scene.switch(end + WORK, processor, [thread, 0], wait::USER_REQUEST, &[]);
    }
}

/// An export whose large arrays lead to collections of all generations, beside orders with small objects.
fn garbage_collections(scene: &mut Scene) {
    const ALLOC_SMALL: u32 = 0;
    const ALLOC_LARGE: u32 = 4;
    const ORDER_THREAD: u32 = ORDERS + 4;
    const EXPORT_THREAD: u32 = ORDERS + 8;
    scene.background();
    let order = scene.addresses(&[MAIN, SERVE, TAKE, CONCAT]);
    let export = scene.addresses(&[MAIN, EXPORT, RENDER, RESIZE]);
    let mut count = 0;
    let mut collect = |scene: &mut Scene, begin: i64, thread: u32, generation: u32, pause: i64| {
        count += 1;
        let reason = if generation == 2 { ALLOC_LARGE } else { ALLOC_SMALL };
        let mut numbers = |micros: i64, id: u16, numbers: &[u32]| {
            let numbers: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            scene.dotnet(micros, thread, (RUNTIME, id, 1), &[&numbers, &INSTANCE]);
        };
        numbers(begin, 9, &[1, count]);
        numbers(begin + 40, 8, &[]);
        numbers(begin + 60, 1, &[count, generation, reason, 0]);
        numbers(begin + pause - 60, 2, &[count, generation]);
        let large = 40_000_000 + u64::from(count % 7) * 5_000_000;
        let sizes = [2_000_000, 400_000, 3_000_000, 200_000, 20_000_000, 900_000, large, 1_000_000, 0, 0];
        let sizes = sizes.map(u64::to_le_bytes).concat();
        scene.dotnet(begin + pause - 50, thread, (RUNTIME, 4, 1), &[&sizes, &[0; 12], &INSTANCE]);
        scene.dotnet(begin + pause, thread, (RUNTIME, 3, 1), &[&INSTANCE]);
    };
    let mut numbers = Numbers::new(5);
    for round in 0..12_i64 {
        let begin = 100_000 + round * 400_000;
        // Small objects of orders, with a short collection of the youngest.
        for tick in 0..6_i64 {
            let micros = begin + tick * 25_000;
            allocate(scene, micros, ORDER_THREAD, (100_000, "System.String", false), &order);
        }
        collect(scene, begin + 150_000, ORDER_THREAD, 0, 900);
        if (2..10).contains(&round) {
            let size = 8_000_000 + 500_000 * numbers.below(4) as u64;
            allocate(scene, begin + 160_000, EXPORT_THREAD, (size, "System.Byte[]", true), &export);
            collect(scene, begin + 170_000, EXPORT_THREAD, 2, 95_000 + 5000 * (round % 3));
        }
    }
}

/// Adds an allocation of a thread with its stack.
fn allocate(
    scene: &mut Scene,
    micros: i64,
    thread: u32,
    (bytes, name, is_large): (u64, &str, bool),
    frames: &[u64],
) {
    let amount = [bytes as u32, is_large.into()].map(u32::to_le_bytes).concat();
    let rest = [bytes, 0].map(u64::to_le_bytes).concat();
    let payload: [&[u8]; 5] = [&amount, &INSTANCE, &rest, &wide(name), &[0; 12]];
    scene.dotnet(micros, thread, (RUNTIME, 10, 3), &payload);
    let count = (frames.len() as u32).to_le_bytes();
    let addresses: Vec<u8> = frames.iter().flat_map(|address| address.to_le_bytes()).collect();
    scene.dotnet(micros + 1, thread, (RUNTIME, 82, 0), &[&INSTANCE, &[0, 0], &count, &addresses]);
}
