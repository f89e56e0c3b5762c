//! Rows of events of a known cause: switches, samples, faults, interrupts, calls, files, connections, images, services.

use etw_columns::Value;
use etw_etl::encode::RecordBuilder;
use etw_event::{EventDescriptor, Guid, HookId, PointerSize, Ticks};
use etw_kernel_events::classes::{
    CSwitch, Dpc, DpcKind, HardFault, Image, ImageEvent, Isr, NameEvent, SysCallEnter, SysCallExit,
};

use crate::machine::Machine;
use crate::parts::{halves, put, shown, tables, two_processes, wide, words};
use crate::samples::{sample, stack};
use crate::{cpu, io};

const KERNEL: u64 = 0xFFFF_8000_0000_0000;

#[test]
fn switches_say_who_ran_and_who_waited() {
    let index = tables(cpu::two_processes());
    let columns = [
        "time",
        "processor",
        "new_thread.thread_id",
        "old_thread.thread_id",
        "ran",
        "waits",
        "ready",
        "new_wait_reason",
        "readied_by",
        "readying_thread.thread_id",
        "old_wait_reason",
    ];
    assert_eq!(
        shown(&index, "cpu_precise", &columns),
        [
            "0 0 10 0 0 - - - - - Executive",
            "0 1 20 0 0 - - - - - Executive",
            // The idle thread, which all processors have, did not wait.
            "1000 0 0 10 1000 - - - - - DelayExecution",
            "3500 0 10 0 2500 2000 500 DelayExecution thread 20 Executive",
            "4000 1 0 20 4000 - - - - - WrQuantumEnd",
            "4100 1 20 0 100 0 100 WrQuantumEnd nobody - Executive",
        ]
    );
}

#[test]
fn samples_have_a_weight_and_a_stack() {
    let mut machine = two_processes();
    // Every 0.5 ms, and then every 2 ms.
    put(&mut machine, 10, 10, 0x0F49, 2, &[&halves(&[0, 5000, 10_000])]);
    sample(&mut machine, 1000, 10, 0x7010);
    stack(&mut machine, [1000, 1000], 10, &[0x7010, 0x7021]);
    put(&mut machine, 1500, 10, 0x0F49, 2, &[&halves(&[0, 20_000, 5000])]);
    sample(&mut machine, 2000, 11, KERNEL + 0x10);
    let index = tables(machine);
    let columns = ["time", "thread.process.name", "weight", "count", "frame.address"];
    assert_eq!(
        shown(&index, "cpu_sampled", &columns),
        ["1000 a.exe 500 1 28688", "2000 b.exe 2000 1 18446603336221196304"]
    );
    // The frames of the first one; a caller's is the last byte of its call.
    let samples = index.table("cpu_sampled").unwrap();
    let column = samples.schema().column("stack").unwrap();
    let Value::Code(code) = samples.value(0, column).unwrap() else { panic!("no stack") };
    let frames: Vec<u64> = index.stacks().unwrap().frames(code).collect();
    let addresses = shown(&index, "frames", &["address", "process.name", "module"]);
    let found: Vec<&str> = frames.iter().map(|frame| addresses[*frame as usize].as_str()).collect();
    assert_eq!(found, ["28688 a.exe -", "28704 a.exe -"]);
}

#[test]
fn faults_interrupts_and_calls_have_durations() {
    let mut machine = two_processes();
    io::name(&mut machine, 0, NameEvent::FileCreate, 0xF, "/bin/starter");
    let fault = HardFault {
        initial_time: Ticks(7000),
        read_offset: 0x2000,
        virtual_address: 0x1000,
        file_object: 0xF,
        thread_id: 10,
        byte_count: 4096,
    };
    machine.put(1000, 0, &fault);
    let isr = Isr { initial_time: Ticks(19_900), routine: KERNEL + 0x10, is_handled: true, vector: 36 };
    machine.put(2000, 0, &isr);
    machine.put(3000, 1, &Dpc { kind: DpcKind::Timer, initial_time: Ticks(29_950), routine: KERNEL + 0x20 });
    let switch = |old, new| CSwitch { old_thread_id: old, new_thread_id: new, ..CSwitch::default() };
    machine.put(4000, 0, &switch(11, 10));
    machine.put(4100, 0, &SysCallEnter { address: KERNEL + 0x30 });
    // Another thread runs and calls meanwhile.
    machine.put(4200, 0, &switch(10, 11));
    machine.put(4300, 0, &SysCallEnter { address: KERNEL + 0x40 });
    machine.put(4350, 0, &SysCallExit { status: 0 });
    machine.put(4400, 0, &switch(11, 10));
    machine.put(4500, 0, &SysCallExit { status: 0xC000_0034 });
    // The start of this one is not in the trace.
    machine.put(4600, 0, &SysCallExit { status: 1 });
    let index = tables(machine);
    let columns = ["time", "thread.process.name", "path", "size", "duration", "address", "offset"];
    assert_eq!(shown(&index, "hard_faults", &columns), ["1000 a.exe /bin/starter 4096 300 4096 8192"]);
    let columns = ["time", "processor", "type", "routine.address", "vector", "duration"];
    let [isr, dpc] = [KERNEL + 0x10, KERNEL + 0x20];
    assert_eq!(
        shown(&index, "dpc_isr", &columns),
        [format!("2000 0 ISR {isr} 36 10"), format!("3000 1 TimerDPC {dpc} - 5")]
    );
    let columns = ["time", "thread.process.name", "duration", "status"];
    assert_eq!(shown(&index, "syscalls", &columns), ["4350 b.exe 50 0", "4500 a.exe 400 3221225524"]);
}

#[test]
fn operations_on_files_have_ends() {
    let index = tables(io::file_io(true));
    let columns =
        ["time", "end_time", "thread.process.name", "operation", "path", "size", "duration", "status"];
    assert_eq!(
        shown(&index, "file_io", &columns),
        [
            "100 150 reader Create /data/opened 0 50 0",
            "200 210 reader Read /data/opened 4096 10 0",
            "300 340 reader Read /data/opened 100 40 0",
            "400 405 reader Read /data/opened 0 5 3221225489",
            "500 530 reader Write /data/opened 4096 30 0",
            "600 601 reader Close /data/opened 0 1 0",
        ]
    );
    // Without ends, the requested sizes count.
    let index = tables(io::file_io(false));
    assert_eq!(
        shown(&index, "file_io", &["time", "end_time", "operation", "size"]),
        [
            "100 - Create 0",
            "200 - Read 4096",
            "300 - Read 4096",
            "400 - Read 4096",
            "500 - Write 4096",
            "600 - Close 0"
        ]
    );
}

/// Adds an event of class TcpIp or UdpIp of a process, between port 50000 here and 443 there.
fn transfer(machine: &mut Machine, micros: i64, hook: u16, process: u32, bytes: u32, rest: usize) {
    let [here, there] = [[10_u8, 0, 0, 1], [10, 0, 0, 2]];
    let [here_port, there_port] = [50_000_u16, 443].map(u16::to_be_bytes);
    let rest = vec![0; rest];
    put(
        machine,
        micros,
        process,
        hook,
        2,
        &[&halves(&[process, bytes]), &there, &here, &there_port, &here_port, &rest],
    );
}

#[test]
fn connections_have_a_start_an_end_and_transfers() {
    let mut machine = two_processes();
    transfer(&mut machine, 100, 0x060C, 10, 0, 28);
    transfer(&mut machine, 200, 0x060A, 10, 1000, 20);
    transfer(&mut machine, 300, 0x060B, 10, 70, 12);
    transfer(&mut machine, 310, 0x060B, 10, 30, 12);
    transfer(&mut machine, 320, 0x060E, 10, 0, 12);
    transfer(&mut machine, 400, 0x060D, 10, 0, 12);
    // The same endpoints again, without an end; another process has a connection that was there before.
    transfer(&mut machine, 500, 0x060C, 10, 0, 28);
    transfer(&mut machine, 600, 0x060A, 11, 5, 20);
    transfer(&mut machine, 700, 0x080A, 10, 40, 12);
    let index = tables(machine);
    let columns = ["time", "process.name", "protocol", "operation", "local_port", "remote_address", "size"];
    assert_eq!(
        shown(&index, "network", &columns),
        [
            "100 a.exe TCP Connect 50000 10.0.0.2 0",
            "200 a.exe TCP Send 50000 10.0.0.2 1000",
            "300 a.exe TCP Receive 50000 10.0.0.2 70",
            "310 a.exe TCP Receive 50000 10.0.0.2 30",
            "320 a.exe TCP Retransmit 50000 10.0.0.2 0",
            "400 a.exe TCP Disconnect 50000 10.0.0.2 0",
            "500 a.exe TCP Connect 50000 10.0.0.2 0",
            "600 b.exe TCP Send 50000 10.0.0.2 5",
            "700 a.exe UDP Send 50000 10.0.0.2 40",
        ]
    );
    let columns = [
        "connection_start_time",
        "connection_end_time",
        "duration",
        "connection_id",
        "process.name",
        "protocol",
        "started_by",
        "remote_port",
        "bytes_sent",
        "bytes_received",
        "sends",
        "receives",
        "retransmits",
    ];
    assert_eq!(
        shown(&index, "connections", &columns),
        [
            "100 400 300 1 a.exe TCP Connect 443 1000 100 1 2 1",
            "500 - - 2 a.exe TCP Connect 443 0 0 0 0 0",
            "600 - - 3 b.exe TCP - 443 5 0 1 0 0",
            "700 - - 4 a.exe UDP - 443 40 0 1 0 0",
        ]
    );
}

#[test]
fn images_files_and_services_are_listed() {
    let mut machine = two_processes();
    let image = |machine: &mut Machine, micros, event, process_id, base| {
        let file_name = b"c:\\lib\\a.dll";
        machine.put(
            micros,
            0,
            &Image { event, base, len_bytes: 0x3000, process_id, build_id: None, file_name },
        );
    };
    image(&mut machine, 0, ImageEvent::DcStart, 0, KERNEL);
    image(&mut machine, 100, ImageEvent::Load, 10, 0x7000);
    image(&mut machine, 400, ImageEvent::Unload, 10, 0x7000);
    io::name(&mut machine, 500, NameEvent::FileRundown, 0xF, "/data/named");
    let service = |process: u32, state: u32, name: &str| {
        let names = [name, "A service", "host.exe", "", "group"].map(wide).concat();
        [halves(&[process, state, 7]), names].concat()
    };
    put(&mut machine, 600, 4, 0x0B0F, 3, &[&service(11, 4, "Runs")]);
    put(&mut machine, 601, 4, 0x0B0F, 3, &[&service(0, 1, "Stopped")]);
    let index = tables(machine);
    let columns = ["process.name", "path", "image", "base", "size", "load_time", "unload_time"];
    assert_eq!(
        shown(&index, "images", &columns),
        [
            format!("- c:\\lib\\a.dll a.dll {KERNEL} 12288 - -"),
            "a.exe c:\\lib\\a.dll a.dll 28672 12288 100 400".to_owned(),
        ]
    );
    assert_eq!(shown(&index, "files", &["path"]), ["/data/named"]);
    let columns =
        ["time", "service_name", "display_name", "process.name", "state", "sub_process_tag", "host_group"];
    assert_eq!(
        shown(&index, "services", &columns),
        ["600 Runs A service b.exe 4 7 group", "601 Stopped A service - 1 7 group"]
    );
}

/// Adds an event of a provider by a thread of the process of the same id.
fn put_event(machine: &mut Machine, micros: i64, thread: u32, provider: u128, id: u16, payload: &[&[u8]]) {
    let descriptor = EventDescriptor { id, ..EventDescriptor::default() };
    let record = RecordBuilder::event(PointerSize::Eight, Guid::from_u128(provider), &descriptor);
    let record = record.process(thread, thread).time(Ticks(micros * 10)).payload(&payload.concat());
    machine.put_bytes(micros, 0, record.build().unwrap());
}

/// The schemas are those of the pack.
#[test]
fn events_of_providers_of_windows() {
    const WIN32K: u128 = 0x8c416c79_d49b_4f01_a467_e56d3aa8234c;
    const WININET: u128 = 0x43d1a55c_76d6_4f7e_995c_64c711e5cafe;
    const PROCESSOR_POWER: u128 = 0x0f67e49f_fe51_4e9f_b490_6f2948cc6027;
    let mut machine = two_processes();
    // The focus goes from thread 10 to 11 and back.
    put_event(&mut machine, 1000, 4, WIN32K, 2, &[&halves(&[10, 11])]);
    put_event(&mut machine, 4000, 4, WIN32K, 2, &[&halves(&[11, 10])]);
    // A thread that did not look at its messages for 20 ms, and one that did not take input.
    let names = [wide("Button"), wide("Window"), wide("C:\\a.exe")].concat();
    let message = [halves(&[0x201]), words(&[5])].concat();
    put_event(&mut machine, 30_000, 10, WIN32K, 38, &[&halves(&[1, 20, 7, 9]), &names, &message]);
    put_event(&mut machine, 40_000, 11, WIN32K, 37, &[&halves(&[1, 7, 9]), &names, &message]);
    // Two requests at once, of which one has no response.
    put_event(&mut machine, 50_000, 10, WININET, 1007, &[&words(&[0xA]), b"a.example\0"]);
    put_event(&mut machine, 50_500, 10, WININET, 1007, &[&words(&[0xB]), b"b.example\0"]);
    put_event(&mut machine, 53_000, 10, WININET, 1008, &[&words(&[0xA]), &halves(&[6]), b"200 OK"]);
    put_event(&mut machine, 60_000, 4, PROCESSOR_POWER, 10, &[&halves(&[2, 2400]), &[1, 0], &[3]]);
    let index = tables(machine);
    let check = |table: &str, columns: &[&str], expected: &[&str]| {
        assert_eq!(shown(&index, table, columns), expected, "{table}");
    };
    check(
        "window_in_focus",
        &["start_time", "end_time", "duration", "thread.thread_id", "previous_thread.thread_id"],
        &["1000 4000 3000 11 10", "4000 - - 10 11"],
    );
    check(
        "ui_delays",
        &[
            "start_time",
            "end_time",
            "duration",
            "process.name",
            "delay_type",
            "since_input_remove",
            "class_name",
        ],
        &["10000 30000 20000 a.exe MessageCheckDelay 7000 Button", "- 40000 - b.exe InputDelay 7000 Button"],
    );
    check("ui_delays", &["since_oldest_input", "message_id", "wparam"], &["9000 513 5", "9000 513 5"]);
    check(
        "wininet_requests",
        &["start_time", "end_time", "duration", "process.name", "request", "address_name", "status_line"],
        &["50000 53000 3000 a.exe 10 a.example 200 OK", "50500 - - a.exe 11 b.example -"],
    );
    check("cpu_frequency", &["time", "group", "processor", "frequency", "state"], &["60000 1 3 2400 2"]);
}

#[test]
fn traces_and_buffers_say_what_they_have() {
    let mut machine = two_processes();
    for micros in 1000..1100 {
        put(&mut machine, micros, 10, 0x020B, 2, &[&words(&[0x5000, 0x4010])]);
    }
    // On another processor, in a buffer of its own.
    let record = RecordBuilder::perf_info(PointerSize::Eight, HookId(0x020B), 2);
    let record = record.time(Ticks(20_000)).payload(&words(&[0x5000, 0x4010])).build().unwrap();
    let len = record.len();
    machine.put_bytes(2000, 1, record);
    let index = tables(machine);
    assert_eq!(
        shown(&index, "traces", &["trace", "start_time", "end_time", "processors", "events_lost"]),
        ["made 0 100000 2 0"]
    );
    let buffers = shown(
        &index,
        "buffers",
        &["processor", "start_time", "end_time", "events", "event_bytes", "has_damage"],
    );
    assert_eq!(buffers.last().unwrap(), &format!("1 2000 2000 1 {len} false"), "{buffers:?}");
    assert!(buffers.iter().any(|buffer| buffer.starts_with("0 0 1099 104 ")), "{buffers:?}");
}
