//! Machines with random events: starts without stops, stops without starts, ids and addresses that are used again.

use etw_etl::encode::RecordBuilder;
use etw_event::{EventDescriptor, Guid, HookId, Opcode, PointerSize, Ticks};
use etw_kernel_events::classes::{
    CSwitch, Dpc, DpcKind, Isr, ProcessEvent, ReadyThread, SampledProfile, StackWalk, SysCallEnter,
    SysCallExit, ThreadEvent,
};
use etw_testkit::mutate::Numbers;

use super::said::{CLR, CLR_RUNDOWN};
use crate::machine::Machine;

/// Number of events of a machine.
pub(crate) const EVENTS: usize = 1500;
/// Length of a trace in microseconds.
pub(crate) const MICROS: i64 = 1_000_000;
/// Threads, of which the last is one more of the first's process.
const THREADS: [u32; 3] = [10, 11, 12];
/// The numbers of the runtime's last property.
const INSTANCE: [u8; 2] = 9_u16.to_le_bytes();
const KERNEL: u64 = 0xFFFF_8000_0000_0000;

/// The tables that have rows of random events.
pub(super) const TABLES: [&str; 42] = [
    "events",
    "event_kinds",
    "processes",
    "threads",
    "images",
    "files",
    "frames",
    "cpu_sampled",
    "cpu_precise",
    "disk",
    "disk_queue",
    "disks",
    "file_io",
    "hard_faults",
    "dpc_isr",
    "syscalls",
    "network",
    "connections",
    "registry",
    "registry_keys",
    "virtual_alloc",
    "virtual_memory_snapshots",
    "heap",
    "object_types",
    "activities",
    "gc",
    "traces",
    "buffers",
    "page_faults",
    "pool",
    "process_counters",
    "memory_utilization",
    "handles",
    "services",
    "marks",
    "cpu_idle_states",
    "power",
    "mini_filters",
    "loader",
    "jit",
    "allocations",
    "contention",
];

/// Returns the machine of a seed with so many events.
pub(crate) fn machine(seed: u64, events: usize) -> Machine {
    let mut random = Random { numbers: Numbers::new(seed), machine: Machine::default(), micros: 10 };
    random.machine.there_is(0, "Idle");
    random.machine.there_is(10, "a.exe");
    random.machine.there_is(11, "b.exe");
    random.machine.thread(0, ThreadEvent::DcStart, 12, 10, "");
    let (mut process, mut thread) = (None, None);
    for _ in 0..events {
        random.micros += 1 + random.below(400) as i64;
        match random.below(40) {
            0 => random.switch(&mut process, &mut thread),
            choice => random.event(choice),
        }
    }
    let end = random.micros + 1;
    random.machine.process(end, ProcessEvent::End, 11, 1, "b.exe");
    random.machine
}

struct Random {
    numbers: Numbers,
    machine: Machine,
    micros: i64,
}

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.numbers.below(limit as usize) as u64
    }

    fn half(&mut self, limit: u64) -> Vec<u8> {
        (self.below(limit) as u32).to_le_bytes().to_vec()
    }

    fn word(&mut self, limit: u64) -> Vec<u8> {
        self.below(limit).to_le_bytes().to_vec()
    }

    fn words(&mut self, count: usize, limit: u64) -> Vec<u8> {
        (0..count).flat_map(|_| self.word(limit)).collect()
    }

    /// Returns a time in the past in ticks.
    fn before(&mut self) -> Vec<u8> {
        let ago = self.below(self.micros.min(3000).unsigned_abs()) as i64;
        ((self.micros - ago) * 10).to_le_bytes().to_vec()
    }

    fn name(&mut self, prefix: &str, count: u64) -> Vec<u8> {
        wide(&format!("{prefix}{}", self.below(count)))
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.numbers.below(all.len())]
    }

    fn thread(&mut self) -> u32 {
        self.one_of(&THREADS)
    }

    /// Adds an event of a class with process and thread in its header.
    fn put(&mut self, group: u16, kind: u16, version: u8, payload: &[Vec<u8>]) {
        let thread = self.thread();
        let hook = HookId(group << 8 | kind);
        let record = RecordBuilder::system(PointerSize::Eight, hook, version).process(of(thread), thread);
        let record = record.time(Ticks(self.micros * 10)).payload(&payload.concat());
        let processor = self.below(2) as u16;
        self.machine.put_bytes(self.micros, processor, record.build().unwrap());
        if self.below(4) == 0 {
            self.stack(processor, thread);
        }
    }

    /// Adds the stack of the last event.
    fn stack(&mut self, processor: u16, thread_id: u32) {
        let frames: Vec<u64> = (0..1 + self.below(5))
            .map(|depth| self.below(6) * 16 + if depth < 2 { KERNEL } else { 0x7000 })
            .collect();
        let event_time = Ticks(self.micros * 10);
        let walk = StackWalk { event_time, process_id: of(thread_id), thread_id, frames: &frames };
        self.machine.put(self.micros, processor, &walk);
    }

    fn put_event(&mut self, provider: Guid, id: u16, version: u8, payload: &[Vec<u8>]) {
        let descriptor = EventDescriptor { id, version, ..EventDescriptor::default() };
        self.put_described(provider, &descriptor, None, payload);
    }

    fn put_described(
        &mut self,
        provider: Guid,
        descriptor: &EventDescriptor,
        activity: Option<Guid>,
        payload: &[Vec<u8>],
    ) {
        let thread = self.thread();
        let record = RecordBuilder::event(PointerSize::Eight, provider, descriptor);
        let mut record = record.process(of(thread), thread).time(Ticks(self.micros * 10));
        if let Some(activity) = activity {
            record = record.activity_id(activity);
        }
        let record = record.payload(&payload.concat()).build().unwrap();
        self.machine.put_bytes(self.micros, 0, record);
    }

    /// Starts or ends a process and a thread, whose ids are used again.
    fn switch(&mut self, process: &mut Option<u32>, thread: &mut Option<u32>) {
        let micros = self.micros;
        match (*process, *thread) {
            (None, _) => {
                *process = Some(20 + self.below(2) as u32);
                let name = format!("c{}.exe", self.below(3));
                self.machine.process(micros, ProcessEvent::Start, process.unwrap_or(0), 10, &name);
            }
            (Some(process), None) => {
                *thread = Some(30 + self.below(2) as u32);
                self.machine.thread(micros, ThreadEvent::Start, thread.unwrap_or(0), process, "");
            }
            (Some(of), Some(id)) => {
                self.machine.thread(micros, ThreadEvent::End, id, of, "");
                self.machine.process(micros + 1, ProcessEvent::End, of, 10, "");
                self.micros += 1;
                (*process, *thread) = (None, None);
            }
        }
    }

    fn event(&mut self, choice: u64) {
        match choice {
            1..=5 => self.processors(),
            6..=8 => self.disks(),
            9..=14 => self.files(),
            15..=17 => self.memory(),
            18..=20 => self.network(),
            21..=23 => self.registry(),
            24..=28 => self.objects(),
            29 | 30 => self.system(),
            31 => self.images(),
            32 => self.activities(),
            _ => self.clr(),
        }
    }

    fn processors(&mut self) {
        let (micros, processor) = (self.micros, self.below(2) as u16);
        let (thread_id, initial_time) =
            (self.thread(), i64::from_le_bytes(self.before().try_into().unwrap()));
        let initial_time = Ticks(initial_time);
        let routine = KERNEL + 16 * self.below(4);
        let all = [0, 10, 11, 12];
        match self.below(8) {
            0 | 1 => {
                let state = self.one_of(&[1, 1, 4, 5, 5, 5]);
                let switch = CSwitch {
                    new_thread_id: self.one_of(&all),
                    old_thread_id: self.one_of(&all),
                    old_thread_state: state,
                    old_thread_wait_reason: self.below(39) as i8,
                    ..CSwitch::default()
                };
                self.machine.put(micros, processor, &switch);
            }
            2 => {
                let ready = ReadyThread { thread_id: self.one_of(&all), ..ReadyThread::default() };
                self.machine.put_by(micros, processor, thread_id, &ready);
            }
            3 => {
                let count = self.below(3) as u16;
                let instruction_pointer = 0x7000 + 16 * self.below(8);
                let sample =
                    SampledProfile { instruction_pointer, thread_id, count, ..SampledProfile::default() };
                self.machine.put(micros, processor, &sample);
                self.stack(processor, thread_id);
            }
            4 => {
                let isr = Isr { initial_time, routine, is_handled: true, vector: self.below(200) as u16 };
                self.machine.put(micros, processor, &isr);
            }
            5 => self.machine.put(micros, processor, &Dpc { kind: DpcKind::Timer, initial_time, routine }),
            6 => self.machine.put(micros, processor, &SysCallEnter { address: routine }),
            _ => {
                let status = self.below(1 << 32) as u32;
                self.machine.put(micros, processor, &SysCallExit { status });
            }
        }
        if self.below(20) == 0 {
            // The length of a sampling interval.
            let payload = [self.half(2), self.half(20_000), self.half(20_000)];
            self.put(0x0F, 73, 2, &payload);
        }
    }

    fn disks(&mut self) {
        let (disk, flags, irp, took) = (self.half(2), self.half(1 << 20), self.word(4), self.word(20_000));
        let thread = self.thread().to_le_bytes().to_vec();
        match self.below(4) {
            0 => self.put(0x01, 12, 3, &[irp, thread]),
            1 => self.put(0x01, 14, 3, &[disk, flags, took, irp, thread]),
            _ => {
                let kind = self.one_of(&[10, 11]);
                let rest = [self.half(1 << 20), vec![0; 4], self.word(1 << 40), self.word(4)].concat();
                self.put(0x01, kind, 3, &[disk, flags, rest, irp, took, thread]);
            }
        }
    }

    fn files(&mut self) {
        let (irp, object, key) = (self.word(5), self.word(4), self.word(4));
        let thread = self.thread().to_le_bytes().to_vec();
        match self.below(10) {
            0 => {
                let kind = self.one_of(&[0, 32, 35, 36]);
                let name = self.name(r"\Device\HarddiskVolume2\file", 5);
                self.put(0x04, kind, 3, &[key, name]);
            }
            1 => {
                let options = [self.half(1 << 30), self.half(1 << 10), self.half(8)].concat();
                let name = self.name(r"\Device\HarddiskVolume2\opened", 5);
                self.put(0x04, 64, 3, &[irp, object, thread, options, name]);
            }
            2 => {
                let kind = self.one_of(&[65, 66, 73]);
                self.put(0x04, kind, 3, &[irp, object, key, thread]);
            }
            3 | 4 => {
                let (kind, size, offset) = (self.one_of(&[67, 68]), self.half(1 << 16), self.word(1 << 40));
                self.put(0x04, kind, 3, &[offset, irp, object, key, thread, size, vec![0; 4]]);
            }
            5 => {
                let (kind, extra) = (self.one_of(&[69, 70, 71, 74, 75, 79, 80, 81]), self.word(100));
                let path = if kind < 79 { Vec::new() } else { self.name(r"\Device\HarddiskVolume2\file", 5) };
                self.put(0x04, kind, 3, &[irp, object, key, extra, thread, vec![0; 4], path]);
            }
            6 => {
                let (kind, name) = (self.one_of(&[72, 77]), self.name("*", 2));
                self.put(0x04, kind, 3, &[irp, object, key, thread, vec![0; 12], name]);
            }
            7 | 8 => {
                let (information, status) = (self.word(1 << 16), self.one_of(&[0, 0x103, 0xC000_0022_u32]));
                self.put(0x04, 76, 3, &[irp, information, status.to_le_bytes().to_vec()]);
            }
            _ => {
                let (begun, major, status) = (self.before(), self.half(30), self.half(1 << 32));
                let addresses = [(KERNEL + 16).to_le_bytes().to_vec(), object, vec![0; 24]].concat();
                match self.below(2) {
                    0 => self.put(0x04, 98, 3, &[begun, addresses, major]),
                    _ => self.put(0x04, 100, 3, &[addresses, major, status]),
                }
            }
        }
    }

    fn memory(&mut self) {
        let process = self.one_of(&[10_u32, 11]).to_le_bytes().to_vec();
        match self.below(8) {
            0 => {
                let (kind, addresses) = (10 + self.below(6) as u16, self.words(2, 1 << 47));
                self.put(0x02, kind, 2, &[addresses]);
            }
            1 => {
                let (begun, place) = (self.before(), self.words(3, 1 << 40));
                let (thread, size) = (self.thread().to_le_bytes().to_vec(), self.half(1 << 16));
                self.put(0x02, 32, 2, &[begun, place, thread, size]);
            }
            2..=5 => {
                let [base, size] = [32, 16].map(|limit| (self.below(limit) << 12).to_le_bytes().to_vec());
                match self.below(5) {
                    0 => {
                        let committed = (self.below(16) << 12).to_le_bytes().to_vec();
                        self.put(0x02, 128, 2, &[base, size, process, vec![0; 4], committed]);
                    }
                    kind => {
                        let flags = match kind {
                            1 => self.one_of(&[0x4000_u32, 0x8000]),
                            _ => self.one_of(&[0x1000, 0x2000, 0x3000]),
                        };
                        let flags = flags.to_le_bytes().to_vec();
                        self.put(0x02, if kind == 1 { 99 } else { 98 }, 2, &[base, size, process, flags]);
                    }
                }
            }
            6 => {
                let pages = self.words(26, 1 << 20);
                self.put(0x02, 112, 0, &[pages]);
            }
            _ => {
                let count = self.below(4) as u32;
                let counted = (0..count).flat_map(|_| [process.clone(), self.words(8, 1 << 20)].concat());
                let counted = counted.collect();
                self.put(0x02, 125, 0, &[count.to_le_bytes().to_vec(), counted]);
            }
        }
    }

    fn network(&mut self) {
        let is_udp = self.below(3) == 0;
        let process = self.one_of(&[10_u32, 11]).to_le_bytes().to_vec();
        let addresses = [self.half(2), self.half(2)].concat();
        let ports = [self.below(3) as u16, self.below(3) as u16].map(u16::to_be_bytes).concat();
        let transfer = [process, self.half(1 << 16), addresses, ports];
        let with = |rest: usize| [&transfer[..], &[vec![0; rest]]].concat();
        match self.below(6) {
            kind @ 0..=1 if is_udp => self.put(0x08, 10 + kind as u16, 2, &with(12)),
            0 | 1 => self.put(0x06, 10, 2, &with(20)),
            2 => self.put(0x06, 11, 2, &with(12)),
            3 => {
                let kind = self.one_of(&[13, 14, 16]);
                self.put(0x06, kind, 2, &with(12));
            }
            4 => {
                let kind = self.one_of(&[12, 15]);
                self.put(0x06, kind, 2, &with(28));
            }
            _ => self.put(0x06, 17, 2, &[vec![0; 4]]),
        }
    }

    fn registry(&mut self) {
        let kind = 10 + self.below(20) as u16;
        let (begun, status, number) = (self.before(), self.half(1 << 32), self.half(5));
        let (handle, name) = (self.word(4), self.name("name", 4));
        self.put(0x09, kind, 2, &[begun, status, number, handle, name]);
    }

    fn objects(&mut self) {
        let (object, handle) = (self.word(4), self.half(4));
        let kind = (self.below(3) as u16).to_le_bytes().to_vec();
        let process = self.one_of(&[10_u32, 11]).to_le_bytes().to_vec();
        let name = self.name("Object", 3);
        match self.below(12) {
            0 => self.put(0x11, 32, 2, &[object, handle, kind, name]),
            1 => self.put(0x11, 33, 2, &[object, handle, kind, name]),
            2 => {
                let target = self.half(4);
                self.put(0x11, 34, 3, &[object, handle, target, process, kind]);
            }
            3 => self.put(0x11, 38, 2, &[object, process, handle, kind, name]),
            4 => self.put(0x11, 37, 2, &[kind, vec![0; 2], name]),
            5 | 6 => {
                let kind = self.one_of(&[32, 34]);
                let (tag, size, entry) = (self.half(1 << 32), self.word(4096), self.word(8));
                self.put(0x0E, kind, 2, &[vec![0; 4], tag, size, entry]);
            }
            7 => {
                let kind = self.one_of(&[33, 35]);
                let (size, entry) = (self.word(4096), self.word(8));
                self.put(0x0E, kind, 2, &[vec![0; 8], size, entry, vec![0; 4]]);
            }
            8 | 9 => {
                let (size, address, source) = (self.word(4096), self.word(6), self.half(8));
                self.put(0x10, 33, 0, &[vec![1; 8], size, address, source]);
            }
            10 => {
                let (moved, sizes, source) = (self.words(2, 6), self.words(2, 4096), self.half(8));
                self.put(0x10, 34, 0, &[vec![1; 8], moved, sizes, source]);
            }
            _ => {
                let (address, source) = (self.word(6), self.half(8));
                self.put(0x10, 36, 0, &[vec![1; 8], address, source]);
            }
        }
    }

    fn system(&mut self) {
        let (number, other) = (self.half(8), self.half(1 << 32));
        match self.below(8) {
            0 | 1 => self.put(0x12, 57, 0, &[number, other, vec![0; 8]]),
            2 | 3 => self.put(0x12, 58, 0, &[number, other]),
            4 => self.put(0x12, 34, 0, &[vec![0; 8], number, other]),
            5 => self.put(0x0F, 34, 0, &[b"mark\0".to_vec()]),
            6 => {
                let kind = self.one_of(&[32, 33]);
                let (counts, sizes) = ([self.half(99), self.half(99)].concat(), self.words(11, 1 << 40));
                let process = self.one_of(&[10_u32, 11]).to_le_bytes().to_vec();
                self.put(0x03, kind, 2, &[process, counts, vec![0; 4], sizes]);
            }
            _ => {
                let process = self.one_of(&[0_u32, 10]).to_le_bytes().to_vec();
                let names = ["Service", "A service", "svchost.exe", "", "group"].map(wide).concat();
                self.put(0x0B, 15, 3, &[process, number, other, names]);
            }
        }
    }

    fn images(&mut self) {
        let [base, size] = [8, 3].map(|limit| (self.below(limit) << 12).to_le_bytes().to_vec());
        let process = self.one_of(&[0_u32, 10, 11]).to_le_bytes().to_vec();
        let name = self.name(r"\Device\HarddiskVolume2\image", 3);
        match self.below(6) {
            0 => {
                let (parent, reason) = (self.word(1 << 40), self.half(9));
                self.put(0x14, 176, 3, &[base, parent, reason, name]);
            }
            kind => {
                let (group, kind) =
                    [(0x03, 10), (0x03, 10), (0x14, 2), (0x14, 3), (0x14, 4)][kind as usize - 1];
                let rest = [vec![0; 8], vec![0; 4], vec![0; 24]].concat();
                self.put(group, kind, 3, &[base, size, process, rest, name]);
            }
        }
    }

    fn activities(&mut self) {
        let descriptor = EventDescriptor {
            id: 1,
            task: self.below(2) as u16,
            opcode: Opcode(1 + self.below(2) as u8),
            ..EventDescriptor::default()
        };
        let activity = match self.below(3) {
            0 => None,
            number => Some(Guid::from_u128(number.into())),
        };
        self.put_described(Guid::from_u128(0x1234), &descriptor, activity, &[]);
    }

    fn clr(&mut self) {
        let instance = || INSTANCE.to_vec();
        let number = self.half(5);
        match self.below(14) {
            0 | 1 => {
                let reason = self.one_of(&[1_u32, 4, 6]).to_le_bytes().to_vec();
                self.put_event(CLR, 9, 1, &[reason, number, instance()]);
            }
            2 => self.put_event(CLR, 3, 1, &[instance()]),
            3 | 4 => {
                let rest = [self.half(3), self.half(3), self.half(2)].concat();
                self.put_event(CLR, 1, 1, &[number, rest, instance()]);
            }
            5 => {
                let generation = self.half(3);
                self.put_event(CLR, 2, 1, &[number, generation, instance()]);
            }
            6 => {
                let sizes = self.words(10, 1 << 30);
                self.put_event(CLR, 4, 1, &[sizes, vec![0; 12], instance()]);
            }
            7 => {
                let amount = self.half(1 << 20);
                self.put_event(CLR, 10, 1, &[amount, vec![0; 4], instance()]);
            }
            8 => {
                let numbers = [self.half(9), self.half(9)].concat();
                let id = self.one_of(&[50, 51, 57]);
                self.put_event(CLR, id, 0, &[numbers, instance()]);
            }
            9 => {
                let names = [wide("System.Exception"), wide("no")].concat();
                let hresult = self.half(1 << 32);
                self.put_event(CLR, 80, 1, &[names, vec![0; 8], hresult, vec![0; 2], instance()]);
            }
            10 => self.put_event(CLR, 81, 1, &[vec![0], instance()]),
            11 => self.put_event(CLR, 91, 0, &[vec![0], instance()]),
            12 => {
                let names = [wide("A"), wide("B"), wide("void ()")].concat();
                let (id, size) = (self.word(3), self.half(4096));
                match self.below(2) {
                    0 => self.put_event(CLR, 145, 1, &[id, vec![0; 12], size, names, instance()]),
                    _ => {
                        let rest = [vec![0; 8], self.word(1 << 40), size, vec![0; 8]].concat();
                        self.put_event(CLR, 143, 1, &[id, rest, names, instance()]);
                    }
                }
            }
            _ => {
                let paths = [wide(r"C:\a.dll"), wide("")].concat();
                let (provider, id) = self.one_of(&[(CLR, 152), (CLR, 153), (CLR_RUNDOWN, 154)]);
                self.put_event(provider, id, 1, &[vec![0; 24], paths, instance()]);
            }
        }
    }
}

/// Returns the process of a thread.
fn of(thread: u32) -> u32 {
    if thread == 12 { 10 } else { thread }
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}
