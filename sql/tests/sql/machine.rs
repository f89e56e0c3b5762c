//! Traces of a small made-up machine: processes, threads, switches, samples with stacks, requests of disks and files.

use std::fs::File;
use std::path::Path;

use etw_etl::encode::RecordBuilder;
use etw_etl::{EtlWriter, WriterOptions};
use etw_event::{Clock, ClockType, EventDescriptor, FileTime, Guid, Origin, PointerSize, Record, Ticks};
use etw_kernel_events::classes::{
    CSwitch, Cpu, DiskIo, DiskIoInit, DiskOperation, DiskTransfer, FileIoName, Image, ImageEvent,
    KernelEvent, NameEvent, Process, ProcessEvent, RecordBuffer, STILL_ACTIVE, SampledProfile, StackWalk,
    Stamp, Thread, ThreadEvent,
};

use crate::START;

/// Ticks of the clock in a microsecond.
const PER_MICRO: i64 = 10;
const RUNDOWN: Guid = Guid::from_u128(0xa669021c_c450_4609_a035_5af59af4df18);
const INSTANCE: [u8; 2] = 9_u16.to_le_bytes();
const PROGRAM: u32 = 4720;
const METHODS: [&str; 4] = ["Main", "Serve", "TakeOrder", "CheckNumber"];

struct Machine {
    records: Vec<(i64, u16, Vec<u8>)>,
}

/// Writes a trace of a second with so many rounds of work. Traces of different seeds differ.
pub(crate) fn write(path: &Path, seed: u32, rounds: u32) {
    let mut machine = Machine { records: Vec::new() };
    for (id, name) in [(0, "Idle"), (4, "System"), (PROGRAM, "Orders.exe"), (6400 + seed, "backup.exe")] {
        machine.process(id, name);
    }
    for (number, file) in
        [r"C:\Data\archive.vhdx", r"C:\Windows\System32\config\SYSTEM.LOG1"].iter().enumerate()
    {
        let file_object = 0xA000_0010 + number as u64;
        let name = FileIoName { event: NameEvent::FileRundown, file_object, file_name: file.as_bytes() };
        machine.put(990_000, 0, (4, 4), &name);
    }
    for round in 0..rounds {
        let micros = 1000 + i64::from(round) * (900_000 / i64::from(rounds));
        let pick = (round * 7 + seed * 3) % 11;
        machine.switch(micros, [0, PROGRAM], pick);
        machine.sample(micros + 100, pick);
        machine.request(micros + 200, u64::from(round) + 1, pick, seed);
        machine.switch(micros + 300, [PROGRAM, 0], pick);
    }
    machine.rundown();
    machine.records.sort_by_key(|(micros, ..)| *micros);
    machine.finish(path);
}

/// Writes a trace of a machine that tells its name in the middle, as merged traces do.
pub(crate) fn write_named(path: &Path, name: &str) {
    let mut machine = Machine { records: Vec::new() };
    machine.process(4, "System");
    (1..100).for_each(|round| machine.switch(1000 * round, [0, PROGRAM], 0));
    let cpu = Cpu { processors: 4, computer_name: name.as_bytes(), ..Cpu::default() };
    machine.put(50_500, 0, (4, 4), &cpu);
    machine.records.sort_by_key(|(micros, ..)| *micros);
    machine.finish(path);
}

impl Machine {
    /// Writes what the machine has done.
    fn finish(&self, path: &Path) {
        let clock = Clock::new(ClockType::Qpc, Ticks(0), START, 1_000_000 * PER_MICRO);
        let mut writer =
            EtlWriter::new(File::create(path).unwrap(), WriterOptions::new(clock, 0x4000, 4)).unwrap();
        for (_, processor, record) in &self.records {
            writer.write(*processor, record).unwrap();
        }
        writer.finish(FileTime(START.0 + 1_000_000 * PER_MICRO)).unwrap();
    }

    fn put(&mut self, micros: i64, processor: u16, (process, thread): (u32, u32), event: &impl KernelEvent) {
        let mut buffer = RecordBuffer::new();
        assert!(buffer.put(&Stamp::new(Ticks(micros * PER_MICRO), process, thread), event));
        let bytes: Vec<u8> = buffer.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        // Removes the padding of the last word.
        let origin = Origin::default();
        let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap().as_bytes().to_vec();
        self.records.push((micros, processor, record));
    }

    fn process(&mut self, id: u32, name: &str) {
        let command_line = format!("{name} -run\0");
        let process = Process {
            event: ProcessEvent::DcStart,
            key: id.into(),
            process_id: id,
            parent_id: 4,
            session_id: 1,
            exit_status: STILL_ACTIVE,
            uid: 0,
            image_file_name: name.as_bytes(),
            command_line: command_line.as_bytes(),
        };
        self.put(0, 0, (id, id), &process);
        let thread = Thread {
            event: ThreadEvent::DcStart,
            process_id: id,
            thread_id: id,
            user_stack_base: 0,
            affinity: 0,
            start_address: 0,
            base_priority: 8,
            name: b"",
        };
        self.put(0, 0, (id, id), &thread);
        let image = Image {
            event: ImageEvent::DcStart,
            base: 0x7FF7_1000_0000,
            len_bytes: 0x10_0000,
            process_id: id,
            build_id: None,
            file_name: br"C:\Shop\program.dll",
        };
        self.put(0, 0, (id, id), &image);
    }

    fn switch(&mut self, micros: i64, [old, new]: [u32; 2], pick: u32) {
        let switch = CSwitch {
            new_thread_id: new,
            old_thread_id: old,
            new_thread_priority: 8 + (pick % 3) as i8,
            old_thread_state: if old == 0 { 1 } else { 5 },
            old_thread_wait_reason: (pick % 5) as i8,
            ..CSwitch::default()
        };
        self.put(micros, 1, (new, new), &switch);
    }

    /// A sample in one of the methods, called by those before it.
    fn sample(&mut self, micros: i64, pick: u32) {
        let depth = 1 + pick as usize % METHODS.len();
        let frames: Vec<u64> = (0..depth).rev().map(|number| address(number) + 0x20).collect();
        let sample = SampledProfile {
            instruction_pointer: frames[0],
            thread_id: PROGRAM,
            count: 1,
            ..SampledProfile::default()
        };
        self.put(micros, 1, (PROGRAM, PROGRAM), &sample);
        let event_time = Ticks(micros * PER_MICRO);
        let walk = StackWalk { event_time, process_id: PROGRAM, thread_id: PROGRAM, frames: &frames };
        self.put(micros, 1, (PROGRAM, PROGRAM), &walk);
    }

    fn request(&mut self, micros: i64, number: u64, pick: u32, seed: u32) {
        let thread = if pick.is_multiple_of(2) { PROGRAM } else { 6400 + seed };
        let irp = 0xFFFF_8000_0000_0000 | number << 8;
        let init = DiskIoInit { operation: DiskOperation::Read, irp, issuing_thread_id: thread };
        self.put(micros, 2, (thread, thread), &init);
        let end = DiskIo {
            transfer: DiskTransfer::Read,
            disk_number: 0,
            irp_flags: 0,
            transfer_size: 4096 * (1 + pick),
            byte_offset: number << 12,
            file_object: 0xA000_0010 + u64::from(pick % 2),
            irp,
            response_time: u64::from(50 + pick) * PER_MICRO as u64,
            issuing_thread_id: thread,
        };
        self.put(micros + 50 + i64::from(pick), 2, (thread, thread), &end);
    }

    /// What the runtime of .NET says of its methods at the end.
    fn rundown(&mut self) {
        let module = 0x7FFA_0000_0000_u64;
        for (number, name) in METHODS.iter().enumerate() {
            let start = address(number);
            let ids = [start ^ 0xFF, module, start].map(u64::to_le_bytes).concat();
            let numbers = [0x800_u32, 0x600_0001, 8].map(u32::to_le_bytes).concat();
            let [space, name, signature] = ["Orders.Server", name, "void  ()"].map(wide);
            self.dotnet(998_000, 144, &[&ids, &numbers, &space, &name, &signature, &INSTANCE]);
        }
        let ids = [module, 1, 0].map(u64::to_le_bytes).concat();
        self.dotnet(999_000, 154, &[&ids, &wide(r"C:\Shop\Orders.dll"), &wide(""), &INSTANCE]);
    }

    fn dotnet(&mut self, micros: i64, id: u16, payload: &[&[u8]]) {
        let descriptor = EventDescriptor { id, version: 1, ..EventDescriptor::default() };
        let record = RecordBuilder::event(PointerSize::Eight, RUNDOWN, &descriptor)
            .process(PROGRAM, PROGRAM)
            .time(Ticks(micros * PER_MICRO))
            .payload(&payload.concat())
            .build();
        self.records.push((micros, 0, record.unwrap()));
    }
}

fn address(method: usize) -> u64 {
    0x7FFB_0000_0000 + 0x1000 * method as u64
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}
