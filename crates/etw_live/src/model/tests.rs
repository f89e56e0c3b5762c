//! Tests of the model with kernel events.

use etw_kernel_events::classes::{
    CSwitch, DiskIo, DiskTransfer, Dpc, DpcKind, FileIoCreate, FileIoMap, Image, ImageEvent, Isr, PhyDisk,
    ProcessTerminate, ReadWriteEvent, SampledProfile, StackWalk, SysCallEnter, TcpConnect, TcpConnectEvent,
    TcpEvent, TcpIp, TcpSend, ThreadEvent, UdpEvent, UdpIp,
};
use openetw::etl::encode::{EventMetadata, RecordBuilder};
use openetw::{
    Clock, EventDescriptor, EventFilter, ExtendedType, FileTime, Guid, Origin, PointerSize, Record, Ticks,
};

use super::filter::{Base, Wanted};
use super::rows::{Cell, Row};
use super::tables::Process;
use super::testing::{Filled, MS, START, endpoints, thread};
use super::{Found, MAX_SHOWN_PER_SECOND};

const SECOND: i64 = 1000 * MS;

fn cells<R: Row>(row: &R) -> Vec<String> {
    (0..R::COLUMNS.len()).map(|column| row.cell(column).text()).collect()
}

fn process(filled: &Filled, id: u32) -> &Process {
    filled.model.state.processes.get(id).unwrap()
}

#[test]
fn processors_and_processes_are_charged_by_switches() {
    let mut filled = Filled::empty();
    filled.process(10, "make");
    filled.process(20, "cc1");
    // Processor 0: make for 300 ms, idle for 200 ms, cc1 for 500 ms and still running. Processor 1: cc1's other thread.
    filled.by(0, (20, 21), &thread(ThreadEvent::Start, 20, 21));
    filled.switch(0, 0, 10);
    filled.switch(1, 0, 21);
    filled.now = 300 * MS;
    filled.switch(0, 10, 0);
    filled.now = 500 * MS;
    filled.switch(0, 0, 20);
    filled.now = SECOND;
    filled.switch(1, 21, 0);
    filled.model.roll(1.0);
    let share = |id: u32| process(&filled, id).cell(3);
    assert_eq!((share(10), share(20)), (Cell::Share(0.3), Cell::Share(1.5)));
    let processors: Vec<Vec<String>> = filled.model.state.processors.iter().map(cells).collect();
    assert_eq!(processors[0][..2], ["0", "80.0"]);
    assert_eq!(processors[1][..2], ["1", "100.0"]);
    // A thread that keeps running is charged at the end of each period.
    filled.now = 2 * SECOND;
    filled.switch(1, 0, 0);
    filled.model.roll(1.0);
    assert_eq!(process(&filled, 20).cell(3), Cell::Share(1.0));
    assert_eq!(process(&filled, 10).cell(3), Cell::Share(0.0));
}

#[test]
fn threads_and_images_are_rows_of_their_processes() {
    let mut filled = Filled::empty();
    filled.process(10, "make");
    assert_eq!(process(&filled, 10).cell(15), Cell::Id(1));
    filled.switch(0, 0, 10);
    filled.now = 500 * MS;
    filled.switch(0, 10, 0);
    filled.now = SECOND;
    filled.model.roll(1.0);
    let row = cells(filled.model.state.thread_rows.get(10).unwrap());
    assert_eq!(row, ["10", "10", "make", "50.0", "500.0ms", "1", "21:20:00"]);
    let image = |event, process_id, base| Image {
        event,
        base,
        len_bytes: 0x2000,
        process_id,
        build_id: None,
        file_name: b"/lib/x\x1b",
    };
    filled.by(0, (10, 10), &image(ImageEvent::Load, 10, 0x1000));
    filled.on(0, &image(ImageEvent::DcStart, 10, 0x9000));
    filled.on(0, &image(ImageEvent::DcStart, 0, 0xFFFF_0000));
    // The rundown at the end says what is known.
    filled.on(0, &image(ImageEvent::DcEnd, 10, 0x1000));
    let rows = |filled: &Filled| {
        let mut rows: Vec<Vec<String>> = filled.model.state.images.values().map(cells).collect();
        rows.sort();
        rows
    };
    assert_eq!(
        rows(&filled),
        [
            ["0", "kernel", "/lib/x\u{fffd}", "0xffff0000", "8K", "-"],
            ["10", "make", "/lib/x\u{fffd}", "0x1000", "8K", "21:20:01"],
            ["10", "make", "/lib/x\u{fffd}", "0x9000", "8K", "-"],
        ]
    );
    filled.by(0, (10, 10), &image(ImageEvent::Unload, 10, 0x9000));
    assert_eq!(rows(&filled).len(), 2);
    filled.by(0, (10, 10), &thread(ThreadEvent::End, 10, 10));
    assert!(filled.model.state.thread_rows.get(10).is_none());
    let ended = etw_kernel_events::classes::Process {
        event: etw_kernel_events::classes::ProcessEvent::End,
        key: 1,
        process_id: 10,
        parent_id: 1,
        session_id: 1,
        exit_status: 0,
        uid: 0,
        image_file_name: b"make",
        command_line: b"",
    };
    filled.by(0, (10, 10), &ended);
    filled.model.roll(1.0);
    assert_eq!(rows(&filled).len(), 1);
}

#[test]
fn without_switches_samples_say_who_runs() {
    let mut filled = Filled::empty();
    filled.process(10, "make");
    for tick in 1..=1000 {
        filled.now = tick * MS;
        let thread_id = if tick % 4 == 0 { 10 } else { 0 };
        filled.on(0, &SampledProfile { thread_id, count: 1, ..SampledProfile::default() });
    }
    filled.model.roll(1.0);
    assert_eq!(process(&filled, 10).cell(3), Cell::Share(0.25));
    assert_eq!(filled.model.state.processors[0].cell(1), Cell::Share(0.25));
}

#[test]
fn interrupts_have_their_shares() {
    let mut filled = Filled::empty();
    filled.process(10, "make");
    filled.now = 100 * MS;
    // The first ones may have started before tracing.
    let begun_before = Ticks(START - SECOND);
    filled.on(0, &Dpc { kind: DpcKind::Dpc, initial_time: begun_before, routine: 0 });
    filled.on(0, &Isr { initial_time: begun_before, ..Isr::default() });
    filled.now = 200 * MS;
    // None can have started before the last one ended.
    filled.on(0, &Dpc { kind: DpcKind::Dpc, initial_time: begun_before, routine: 0 });
    filled.now = 500 * MS;
    let initial_time = Ticks(START + 450 * MS);
    filled.on(0, &Isr { initial_time, ..Isr::default() });
    filled.on(0, &Dpc { kind: DpcKind::Timer, initial_time, routine: 0 });
    filled.model.roll(1.0);
    assert_eq!(cells(&filled.model.state.processors[0])[2..], ["15.0", "5.0", "-", "3", "2"]);
}

#[test]
fn operations_on_files_are_one_line_with_their_end() {
    let mut filled = Filled::empty();
    filled.process(10, "make");
    filled.name(0xF00, "/etc/pass\u{1b}wd");
    filled.transfer(ReadWriteEvent::Read, 0xF00, 10, 100, 0);
    filled.transfer(ReadWriteEvent::Write, 0xF00, 10, 50, 0);
    filled.transfer(ReadWriteEvent::Read, 0xF00, 10, 7, 0xC000_0034);
    let create = FileIoCreate {
        irp: 5,
        file_object: 0,
        thread_id: 10,
        create_options: 0,
        file_attributes: 0,
        share_access: 7,
        open_path: b"/nowhere",
    };
    filled.on(0, &create);
    filled.now += 2 * MS;
    let end = etw_kernel_events::classes::FileIoOperationEnd { irp: 5, extra_info: 0, status: 0xC000_0034 };
    filled.on(0, &end);
    let lines = filled.lines();
    let last = |count: usize| &lines[lines.len() - count..];
    assert_eq!(
        last(4),
        [
            "make|FileIo/Read|/etc/pass\u{fffd}wd Offset=0 IoSize=200|SUCCESS|1.0ms",
            "make|FileIo/Write|/etc/pass\u{fffd}wd Offset=0 IoSize=100|SUCCESS|1.0ms",
            "make|FileIo/Read|/etc/pass\u{fffd}wd Offset=0 IoSize=14|OBJECT NAME NOT FOUND|1.0ms",
            "make|FileIo/Create|/nowhere CreateOptions=0 FileAttributes=0 ShareAccess=7|OBJECT NAME NOT FOUND|2.0ms",
        ]
    );
    filled.model.roll(1.0);
    let file = cells(filled.model.state.files.get(0xF00).unwrap());
    // The first read was counted at its start, because no end had been seen yet; the failed one read nothing.
    assert_eq!(file[..6], ["/etc/pass\u{fffd}wd", "2", "200", "200", "1", "50"]);
    assert_eq!(file[8..], ["1.0ms", "1.0ms", "make"]);
    assert_eq!(process(&filled, 10).reads.bytes.total, 200);
    assert_eq!(process(&filled, 10).writes.bytes.total, 50);
}

#[test]
fn names_that_come_late_are_taken_over() {
    let mut filled = Filled::empty();
    filled.transfer(ReadWriteEvent::Read, 0xABC, 10, 1, 0);
    assert_eq!(&*filled.model.state.files.get(0xABC).unwrap().path, "0xabc");
    filled.name(0xABC, "/late");
    assert_eq!(&*filled.model.state.files.get(0xABC).unwrap().path, "/late");
}

#[test]
fn sockets_are_rows_by_their_ends() {
    let mut filled = Filled::empty();
    filled.process(10, "curl");
    let (process_id, endpoints, sequence_number, connection_id) = (10, endpoints(5000), 0, 7);
    let connect = TcpConnect {
        event: TcpConnectEvent::Connect,
        process_id,
        endpoints,
        mss: 1460,
        has_sack: true,
        has_timestamps: true,
        has_window_scale: true,
        receive_window: 65535,
        receive_window_scale: 7,
        send_window_scale: 7,
        sequence_number,
        connection_id,
    };
    filled.on(0, &connect);
    let (start_time, end_time) = (0, 0);
    let send = TcpSend {
        process_id,
        len_bytes: 300,
        endpoints,
        start_time,
        end_time,
        sequence_number,
        connection_id,
    };
    filled.on(0, &send);
    let tcp =
        |event, len_bytes| TcpIp { event, process_id, len_bytes, endpoints, sequence_number, connection_id };
    filled.on(0, &tcp(TcpEvent::Retransmit, 300));
    filled.on(0, &tcp(TcpEvent::Receive, 2000));
    filled.on(0, &tcp(TcpEvent::Receive, 48));
    filled.on(0, &tcp(TcpEvent::Disconnect, 0));
    // UDP data is received from the packet's source.
    let back = etw_kernel_events::classes::Endpoints {
        destination: endpoints.source,
        source: endpoints.destination,
    };
    let udp = |event, endpoints| UdpIp {
        event,
        process_id,
        len_bytes: 9,
        endpoints,
        sequence_number,
        connection_id,
    };
    filled.on(0, &udp(UdpEvent::Send, endpoints));
    filled.on(0, &udp(UdpEvent::Receive, back));
    filled.model.roll(1.0);
    let mut rows: Vec<Vec<String>> = filled.model.state.connections.values().map(cells).collect();
    rows.sort_by_key(|row| row[2].clone());
    let ends = ["10.0.0.1:5000", "10.0.0.2:80"];
    assert_eq!(
        rows[0],
        ["10", "curl", "TCP", ends[0], ends[1], "closed", "1", "300", "300", "2", "2K", "2K", "1"]
    );
    assert_eq!(rows[1], ["10", "curl", "UDP", ends[0], ends[1], "", "1", "9", "9", "1", "9", "9", "0"]);
    let lines = filled.lines();
    assert_eq!(lines[lines.len() - 1], "curl|UdpIp/RecvIPV4|10.0.0.2:80 -> 10.0.0.1:5000 size=9||");
    // A connection's filter selects its events in both directions.
    let filter = filled.model.state.connections.values().find_map(Row::filter).unwrap();
    filled.model.set_wanted(Wanted::parse(&filter).unwrap());
    assert_eq!(filled.model.count(), 8);
}

#[test]
fn disks_have_rates_and_latencies() {
    let mut filled = Filled::empty();
    filled.process(10, "dd");
    for (transfer, transfer_size) in [(DiskTransfer::Read, 4096), (DiskTransfer::Write, 8192)] {
        let done = DiskIo {
            transfer,
            disk_number: 8 << 20 | 1,
            irp_flags: 0,
            transfer_size,
            byte_offset: 0,
            file_object: 0,
            irp: 1,
            response_time: 20_000,
            issuing_thread_id: 10,
        };
        filled.on(0, &done);
    }
    filled.model.roll(2.0);
    let disk = cells(filled.model.state.disks.values().next().unwrap());
    assert_eq!(disk, ["8:1", "0.5", "2K", "0.5", "4K", "-", "2.0ms", "2.0ms", "0.0"]);
    // Without file events, processes are counted by disk events.
    assert_eq!(process(&filled, 10).reads.bytes.total, 4096);
    assert!(filled.lines().last().unwrap().ends_with("||2.0ms"));
    assert!(filled.lines().last().unwrap().contains("DiskNumber=8388609 TransferSize"));
    let name = PhyDisk { disk_number: 8 << 20 | 1, manufacturer: b"sda1", ..PhyDisk::default() };
    filled.on(0, &name);
    let lines = filled.lines();
    assert!(lines.iter().any(|line| line.contains("DiskNumber=8388609 (sda1) TransferSize")), "{lines:?}");
    assert_eq!(cells(filled.model.state.disks.values().next().unwrap())[0], "sda1");
}

#[test]
fn ended_processes_stay_for_some_periods() {
    let mut filled = Filled::empty();
    filled.process(10, "make");
    let ended = etw_kernel_events::classes::Process {
        event: etw_kernel_events::classes::ProcessEvent::End,
        key: 1,
        process_id: 10,
        parent_id: 1,
        session_id: 1,
        exit_status: 0,
        uid: 0,
        image_file_name: b"make",
        command_line: b"make",
    };
    filled.by(0, (10, 10), &ended);
    assert_eq!(process(&filled, 10).cell(1).text(), "make (ended)");
    for _ in 0..5 {
        filled.model.roll(1.0);
        assert!(filled.model.state.processes.get(10).is_some());
    }
    filled.model.roll(1.0);
    assert!(filled.model.state.processes.get(10).is_none());
    // The id is reused.
    filled.process(10, "other");
    assert_eq!(process(&filled, 10).cell(1).text(), "other");
}

#[test]
fn events_without_ids_belong_to_the_thread_that_runs() {
    let mut filled = Filled::empty();
    filled.process(10, "make");
    filled.switch(0, 0, 10);
    filled.on(0, &SysCallEnter { address: 0x1234 });
    filled.on(1, &SysCallEnter { address: 0x1234 });
    let lines = filled.lines();
    assert!(lines[lines.len() - 2].starts_with("make|PerfInfo/SysClEnter"), "{lines:?}");
    assert!(lines[lines.len() - 1].starts_with("-|PerfInfo/SysClEnter"), "{lines:?}");
    // Filters see it too.
    filled.model.set_wanted(Wanted::parse("pid == 10 and process == make and event == PerfInfo").unwrap());
    assert_eq!(filled.lines().len(), 1);
}

#[test]
fn filter_lines_choose_events_that_are_kept_and_that_come() {
    let mut filled = Filled::empty();
    filled.process(10, "make");
    filled.process(20, "cc1");
    filled.name(0xF00, "/tmp/One");
    filled.name(0xF10, "/tmp/two");
    for key in [0xF00, 0xF10] {
        filled.transfer(ReadWriteEvent::Read, key, 10, 1, 0);
        filled.transfer(ReadWriteEvent::Read, key, 20, 1, 0xC000_0022);
    }
    let all = filled.model.count();
    let mut check = |text: &str, count: usize| {
        filled.model.set_wanted(Wanted::parse(text).unwrap());
        assert_eq!(filled.model.count(), count, "{text}");
    };
    check("", all);
    check("event == FileIo and opcode == Read", 4);
    check("process == make and IoSize == 2", 2);
    check("~/tmp/ONE", 3);
    check("~access denied", 2);
    // The end makes the event match, after its start was or was not shown.
    filled.transfer(ReadWriteEvent::Read, 0xF00, 20, 1, 0xC000_0022);
    filled.transfer(ReadWriteEvent::Read, 0xF00, 20, 1, 0);
    assert_eq!(filled.model.count(), 3);
}

#[test]
fn the_command_line_chooses_what_is_kept() {
    let filter = EventFilter { process_ids: vec![10], ..EventFilter::default() };
    let mut filled = Filled::with(Base::new(&filter, true), 1000);
    filled.process(10, "make");
    filled.process(20, "cc1");
    filled.switch(0, 0, 10);
    for thread_id in [10, 20] {
        filled.transfer(ReadWriteEvent::Read, 0xF00, thread_id, 1, 0);
    }
    let operations: Vec<String> =
        filled.lines().iter().map(|line| line.split('|').take(2).collect::<Vec<_>>().join(" ")).collect();
    // Context switches are hidden unless requested; the tables still count them.
    assert_eq!(operations, ["make Process/Start", "make Thread/Start", "make FileIo/Read"]);
    assert!(filled.lines()[2].ends_with("|SUCCESS|1.0ms"));
    assert_eq!(filled.model.state.processors[0].switches.total, 1);
    assert_eq!(filled.model.state.files.get(0xF00).unwrap().reads.count.total, 2);
    assert!(filled.model.has_process(10, "make") && !filled.model.has_process(20, "cc1"));
}

#[test]
fn stacks_stand_with_their_events() {
    let mut filled = Filled::empty();
    filled.process(10, "make");
    let walk = |event_time, thread_id| StackWalk {
        event_time: Ticks(event_time),
        process_id: 10,
        thread_id,
        frames: &[0xFFFF_FFFF_8100_0000, 0x40_1000],
    };
    filled.now = MS;
    filled.on(0, &SampledProfile { thread_id: 10, count: 1, ..SampledProfile::default() });
    filled.on(0, &walk(START + MS, 10));
    filled.on(0, &walk(START + MS, 99));
    filled.on(0, &walk(START, 10));
    let sample = filled.model.number(filled.model.count() - 1).unwrap();
    let details = filled.model.details(sample);
    let stack: Vec<&str> = details.iter().skip_while(|line| *line != "stack").map(String::as_str).collect();
    assert_eq!(stack, ["stack", "  0xffffffff81000000  kernel", "  0x0000000000401000  user"]);
    assert!(details.iter().any(|line| line.contains("ThreadId") && line.ends_with("10")), "{details:?}");
    assert!(filled.lines().iter().all(|line| !line.contains("StackWalk")));
}

#[test]
fn texts_are_found_in_both_directions() {
    let mut filled = Filled::empty();
    for id in 0..100 {
        filled.process(id + 1000, if id % 50 == 30 { "needle" } else { "hay" });
    }
    let model = &mut filled.model;
    // Each process has two events.
    assert_eq!(model.search("needle", 0, true, 1000), Found::At(60));
    assert_eq!(model.search("needle", 62, true, 1000), Found::At(160));
    assert_eq!(model.search("needle", 159, false, 1000), Found::At(61));
    assert_eq!(model.search("needle", 0, true, 10), Found::GoOn(10));
    assert_eq!(model.search("nowhere", 0, true, 1000), Found::Nothing);
    assert_eq!(model.search("nowhere", 199, false, 1000), Found::Nothing);
    assert_eq!(model.search("x", 1000, true, 1000), Found::Nothing);
}

#[test]
fn what_nobody_could_read_is_counted() {
    let mut filled = Filled::with(Base::default(), 1000);
    filled.process(10, "make");
    let too_many = MAX_SHOWN_PER_SECOND + 100;
    for _ in 0..too_many {
        filled.on(0, &ProcessTerminate { process_id: 10 });
    }
    let counts = filled.model.counts;
    // The process and its thread are events too.
    assert_eq!((counts.events.total, counts.skipped), (too_many + 2, 102));
    filled.now = SECOND;
    filled.on(0, &ProcessTerminate { process_id: 10 });
    assert_eq!(filled.model.counts.skipped, 102);
    assert!(filled.model.count() < 3000);
}

#[test]
fn events_of_providers_are_lines() {
    let mut filled = Filled::empty();
    let descriptor = EventDescriptor { channel: 11, ..EventDescriptor::default() };
    let metadata = EventMetadata::new("Numbered").field("number", 8).build();
    let guid = Guid::from_provider_name("Some.Provider");
    let builder =
        RecordBuilder::event(PointerSize::Eight, guid, &descriptor).time(Ticks(START)).process(77, 78);
    let item = builder.item(ExtendedType::EVENT_SCHEMA_TL, &metadata).stack(0, &[0x1234]);
    let bytes = item.payload(&5u32.to_le_bytes()).build().unwrap();
    let origin = Origin { clock: Clock::system_time(), ..Origin::default() };
    filled.model.take(&Record::parse(&bytes, &origin, Ticks(0)).unwrap());
    let lines = filled.lines();
    assert!(lines[0].ends_with("/Numbered|number=5||"), "{lines:?}");
    assert_eq!(process(&filled, 77).events.total, 1);
    let details = filled.model.details(0);
    assert!(
        details.contains(&"  number  5".to_owned()) && details.last().unwrap().contains("0x0000000000001234")
    );
    assert!(details[0].ends_with(&FileTime(START).to_string()));
}

#[test]
fn what_processes_map_is_theirs() {
    let mut filled = Filled::empty();
    filled.process(10, "make");
    filled.name(0xF00, "/lib/x");
    let (event, process_id) = (etw_kernel_events::classes::MapEvent::MapFile, 10);
    filled.on(0, &FileIoMap { event, base: 0x1000, file_object: 0xF00, len_bytes: 0x2000, process_id });
    assert!(filled.lines().pop().unwrap().starts_with("make|FileIo/MapFile|/lib/x "), "{:?}", filled.lines());
}

#[test]
fn a_switch_names_both_processes() {
    let mut filled = Filled::empty();
    filled.process(10, "make");
    filled.process(20, "cc1");
    filled.switch(0, 10, 20);
    let line = filled.lines().pop().unwrap();
    assert!(line.starts_with("cc1|Thread/CSwitch|"), "{line}");
    assert!(line.contains("(cc1)") && line.contains("(make)"), "{line}");
}

#[test]
fn kept_records_come_with_what_they_are_about() {
    let mut filled = Filled::with(Base::default(), 1000);
    filled.process(10, "make");
    filled.process(20, "gone");
    filled.name(0xF00, "/tmp/x");
    let gone = etw_kernel_events::classes::Process {
        event: etw_kernel_events::classes::ProcessEvent::End,
        key: 1,
        process_id: 20,
        parent_id: 1,
        session_id: 1,
        exit_status: 0,
        uid: 0,
        image_file_name: b"gone",
        command_line: b"",
    };
    filled.by(0, (20, 20), &gone);
    for number in 0..5000 {
        filled.now = number;
        filled.on(0, &CSwitch { new_thread_id: 10, ..CSwitch::default() });
    }
    let mut hooks = Vec::new();
    let mut last = i64::MIN;
    filled.model.for_each_kept(|record| {
        assert!(record.raw_time().0 >= last);
        last = record.raw_time().0;
        hooks.push(record.hook_id().unwrap().0);
    });
    // A process, its thread, the other process's thread whose end was not reported, a name.
    hooks.retain(|hook| *hook != 0x0524);
    hooks.sort_unstable();
    assert_eq!(hooks, [0x0301, 0x0420, 0x0501, 0x0501]);
}
