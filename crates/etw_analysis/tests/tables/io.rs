//! Disks, files, network, faults, interrupts and system calls.

use etw_analysis::TableKind;
use etw_etl::encode::RecordBuilder;
use etw_event::{HookId, PointerSize, Ticks};
use etw_kernel_events::classes::{
    CSwitch, DiskIo, DiskIoFlush, DiskTransfer, Dpc, DpcKind, Endpoints, EndpointsFail, FileIoCreate,
    FileIoName, FileIoOperationEnd, FileIoReadWrite, FileIoSimple, HardFault, Isr, NameEvent, NetworkFail,
    PhyDisk, Protocol, ReadWriteEvent, SimpleEvent, SysCallEnter, SysCallExit, TcpConnect, TcpConnectEvent,
    TcpEvent, TcpIp, TcpSend, UdpEvent, UdpIp,
};
use etw_machine::{ProcessFilter, Window};
use etw_tables::{Cell, Summary};

use etw_testkit::mutate::Numbers;

use crate::machine::{Machine, at, check, micros, row, rows, table, text};

pub(crate) fn name(machine: &mut Machine, micros: i64, event: NameEvent, file_object: u64, name: &str) {
    machine.put(micros, 0, &FileIoName { event, file_object, file_name: name.as_bytes() });
}

#[test]
fn disk_io_by_file_and_process() {
    let mut machine = Machine::default();
    machine.there_is(10, "reader");
    let transfer = DiskIo {
        transfer: DiskTransfer::Read,
        disk_number: 3,
        irp_flags: 0,
        transfer_size: 4096,
        byte_offset: 0,
        file_object: 0xF11E,
        irp: 1,
        response_time: 0,
        issuing_thread_id: 10,
    };
    for index in 1..=100_u64 {
        machine.put(index as i64 * 10, 0, &DiskIo { response_time: index * 1000, ..transfer });
    }
    let disk = PhyDisk { disk_number: 3, manufacturer: b"nvme0n1 (Samsung)", ..PhyDisk::default() };
    machine.put(4000, 0, &disk);
    machine.put(5000, 0, &DiskIo { transfer: DiskTransfer::Write, response_time: 70, ..transfer });
    let flush =
        DiskIoFlush { disk_number: 3, irp_flags: 0, response_time: 50, irp: 2, issuing_thread_id: 10 };
    machine.put(6000, 0, &flush);
    // Names of keys may come at the end.
    name(&mut machine, 9000, NameEvent::FileRundown, 0xF11E, "/data/file");
    let report = machine.report(10_000);
    let read = row(&report, TableKind::Summary(Summary::DISK), "operation", &text("Read"));
    let expected = [
        ("disk", Cell::Id(3)),
        ("disk_name", text("nvme0n1 (Samsung)")),
        ("process", text("reader")),
        ("process_id", Cell::Id(10)),
        ("file", text("/data/file")),
        ("count", Cell::Count(100)),
        ("bytes", Cell::Bytes(409_600)),
        ("time_ns", micros(505_000)),
        ("max_ns", micros(10_000)),
    ];
    check(&read, &expected);
    for (column, expected) in [("median_ns", 50_000.0), ("p95_ns", 95_000.0)] {
        let Cell::Duration(found) = read[column] else { panic!("{read:?}") };
        assert!((found.0 as f64 / expected - 1.0).abs() < 0.03, "{column}: {}", found.0);
    }
    check(
        &row(&report, TableKind::Summary(Summary::DISK), "operation", &text("Write")),
        &[("max_ns", micros(7))],
    );
    check(
        &row(&report, TableKind::Summary(Summary::DISK), "operation", &text("Flush")),
        &[("file", Cell::None)],
    );
}

/// Thread 10 opens a file as an object, reads twice (once less than requested), fails once, writes, and closes.
pub(crate) fn file_io(has_ends: bool) -> Machine {
    let mut machine = Machine::default();
    machine.there_is(10, "reader");
    let (file_object, file_key, thread_id) = (0x0B1, 0xFEE, 10);
    let end = |machine: &mut Machine, micros: i64, irp: u64, extra_info: u64, status: u32| {
        if has_ends {
            machine.put(micros, 0, &FileIoOperationEnd { irp, extra_info, status });
        }
    };
    let create = FileIoCreate {
        irp: 1,
        file_object,
        thread_id,
        create_options: 0,
        file_attributes: 0,
        share_access: 0,
        open_path: b"/data/opened",
    };
    machine.put(100, 0, &create);
    end(&mut machine, 150, 1, 0, 0);
    let transfer = |event, irp| FileIoReadWrite {
        event,
        offset: 0,
        irp,
        file_object,
        file_key,
        thread_id,
        io_size: 4096,
        io_flags: 0,
    };
    machine.put(200, 0, &transfer(ReadWriteEvent::Read, 2));
    end(&mut machine, 210, 2, 4096, 0);
    machine.put(300, 0, &transfer(ReadWriteEvent::Read, 3));
    end(&mut machine, 340, 3, 100, 0);
    machine.put(400, 0, &transfer(ReadWriteEvent::Read, 4));
    end(&mut machine, 405, 4, 0, 0xC000_0011);
    machine.put(500, 0, &transfer(ReadWriteEvent::Write, 5));
    end(&mut machine, 530, 5, 4096, 0);
    machine.put(
        600,
        0,
        &FileIoSimple { event: SimpleEvent::Close, irp: 6, file_object, file_key, thread_id },
    );
    end(&mut machine, 601, 6, 0, 0);
    machine
}

#[test]
fn file_io_by_file_and_process() {
    let report = file_io(true).report(1000);
    let file = row(&report, TableKind::Summary(Summary::FILES), "file", &text("/data/opened"));
    let expected = [
        ("process", text("reader")),
        ("creates", Cell::Count(1)),
        ("reads", Cell::Count(3)),
        ("read_bytes", Cell::Bytes(4196)),
        ("writes", Cell::Count(1)),
        ("written_bytes", Cell::Bytes(4096)),
        ("closes", Cell::Count(1)),
        ("failed", Cell::Count(1)),
        ("time_ns", micros(136)),
        ("max_ns", micros(50)),
        ("p95_ns", micros(40)),
    ];
    check(&file, &expected);
    assert_eq!(rows(&report, TableKind::Summary(Summary::FILES)).len(), 1);
    // Without end events, the requested sizes are counted.
    let report = file_io(false).report(1000);
    let file = row(&report, TableKind::Summary(Summary::FILES), "file", &text("/data/opened"));
    let expected = [
        ("read_bytes", Cell::Bytes(3 * 4096)),
        ("written_bytes", Cell::Bytes(4096)),
        ("failed", Cell::None),
        ("time_ns", Cell::None),
    ];
    check(&file, &expected);
    assert!(table(&report, TableKind::Summary(Summary::FILES)).notes[0].contains("OperationEnd"));
}

#[test]
fn keys_of_files_are_reused() {
    let mut machine = Machine::default();
    machine.there_is(10, "writer");
    let write = |irp, io_size| FileIoReadWrite {
        event: ReadWriteEvent::Write,
        offset: 0,
        irp,
        file_object: 0,
        file_key: 0xA,
        thread_id: 10,
        io_size,
        io_flags: 0,
    };
    name(&mut machine, 10, NameEvent::FileCreate, 0xA, "/one");
    machine.put(20, 0, &write(1, 1));
    name(&mut machine, 30, NameEvent::FileCreate, 0xA, "/two");
    machine.put(40, 0, &write(2, 10));
    name(&mut machine, 50, NameEvent::FileDelete, 0xA, "/two");
    machine.put(60, 0, &write(3, 100));
    name(&mut machine, 70, NameEvent::FileRundown, 0xA, "/three");
    let report = machine.report(1000);
    for (file, bytes) in [("/one", 1), ("/two", 10), ("/three", 100)] {
        let file = row(&report, TableKind::Summary(Summary::FILES), "file", &text(file));
        check(&file, &[("written_bytes", Cell::Bytes(bytes))]);
    }
}

#[test]
fn network_by_endpoint() {
    let mut machine = Machine::default();
    machine.there_is(10, "client");
    machine.there_is(20, "server");
    let ends = |destination: &str, source: &str| Endpoints {
        destination: destination.parse().unwrap(),
        source: source.parse().unwrap(),
    };
    let connect = |event, process_id, endpoints| TcpConnect {
        event,
        process_id,
        endpoints,
        mss: 0,
        has_sack: false,
        has_timestamps: false,
        has_window_scale: false,
        receive_window: 0,
        receive_window_scale: 0,
        send_window_scale: 0,
        sequence_number: 0,
        connection_id: 0,
    };
    let tcp = |event, process_id, len_bytes, endpoints| TcpIp {
        event,
        process_id,
        len_bytes,
        endpoints,
        sequence_number: 0,
        connection_id: 0,
    };
    let send = |process_id, len_bytes, endpoints| TcpSend {
        process_id,
        len_bytes,
        endpoints,
        start_time: 0,
        end_time: 0,
        sequence_number: 0,
        connection_id: 0,
    };
    // Three connections from ephemeral ports, of which the service's is higher.
    for (index, port) in ["40001", "40002", "40003"].into_iter().enumerate() {
        let micros = index as i64 * 100;
        let of_client = ends("127.0.0.1:50000", &format!("127.0.0.1:{port}"));
        let of_server = ends(&format!("127.0.0.1:{port}"), "127.0.0.1:50000");
        machine.put(micros, 0, &connect(TcpConnectEvent::Connect, 10, of_client));
        machine.put(micros + 1, 1, &connect(TcpConnectEvent::Accept, 20, of_server));
        machine.put(micros + 2, 0, &send(10, 100, of_client));
        machine.put(micros + 3, 1, &tcp(TcpEvent::Receive, 20, 100, of_server));
        machine.put(micros + 4, 1, &tcp(TcpEvent::Disconnect, 20, 0, of_server));
    }
    machine.put(500, 0, &tcp(TcpEvent::Retransmit, 10, 0, ends("[2001:db8::1]:443", "[2001:db8::2]:50000")));
    let udp = |event, len_bytes, endpoints| UdpIp {
        event,
        process_id: 10,
        len_bytes,
        endpoints,
        sequence_number: 0,
        connection_id: 0,
    };
    // For received packets, the source is the peer.
    machine.put(600, 0, &udp(UdpEvent::Send, 40, ends("10.0.0.1:53", "10.0.0.2:50000")));
    machine.put(700, 0, &udp(UdpEvent::Receive, 200, ends("10.0.0.2:50000", "10.0.0.1:53")));
    let refused = ends("127.0.0.1:81", "127.0.0.1:40004");
    let fail = NetworkFail { protocol: Protocol::Tcp, family: 2, failure_code: 5 };
    let fail = EndpointsFail { fail, process_id: 10, endpoints: refused };
    machine.put(800, 0, &fail);
    let report = machine.report(1000);
    assert_eq!(rows(&report, TableKind::Summary(Summary::NETWORK)).len(), 5);
    let refused = row(&report, TableKind::Summary(Summary::NETWORK), "remote", &text("127.0.0.1:81"));
    check(
        &refused,
        &[("process", text("client")), ("failures", Cell::Count(1)), ("connects", Cell::Count(0))],
    );
    let client = row(&report, TableKind::Summary(Summary::NETWORK), "remote", &text("127.0.0.1:50000"));
    let expected = [
        ("process", text("client")),
        ("protocol", text("TCP")),
        ("local", text("127.0.0.1:*")),
        ("connects", Cell::Count(3)),
        ("sends", Cell::Count(3)),
        ("sent_bytes", Cell::Bytes(300)),
        ("received_bytes", Cell::Bytes(0)),
    ];
    check(&client, &expected);
    let server = row(&report, TableKind::Summary(Summary::NETWORK), "local", &text("127.0.0.1:50000"));
    let expected = [
        ("process", text("server")),
        ("remote", text("127.0.0.1:*")),
        ("accepts", Cell::Count(3)),
        ("disconnects", Cell::Count(3)),
        ("received_bytes", Cell::Bytes(300)),
    ];
    check(&server, &expected);
    let ipv6 = row(&report, TableKind::Summary(Summary::NETWORK), "remote", &text("[2001:db8::1]:443"));
    check(&ipv6, &[("retransmits", Cell::Count(1))]);
    let udp = row(&report, TableKind::Summary(Summary::NETWORK), "protocol", &text("UDP"));
    let expected = [
        ("remote", text("10.0.0.1:53")),
        ("sent_bytes", Cell::Bytes(40)),
        ("receives", Cell::Count(1)),
        ("received_bytes", Cell::Bytes(200)),
    ];
    check(&udp, &expected);
    assert_eq!(
        table(&report, TableKind::Summary(Summary::NETWORK)).notes,
        ["1 connections or transfers failed."]
    );
}

#[test]
fn hard_faults_by_file_and_process() {
    let mut machine = Machine::default();
    machine.there_is(10, "starter");
    name(&mut machine, 0, NameEvent::FileCreate, 0xF, "/bin/starter");
    for (index, took) in [(1, 100), (2, 300)] {
        let fault = HardFault {
            initial_time: Ticks((index * 1000 - took) * 10),
            read_offset: 0,
            virtual_address: 0x1000,
            file_object: 0xF,
            thread_id: 10,
            byte_count: 4096,
        };
        machine.put(index * 1000, 0, &fault);
    }
    let report = machine.report(5000);
    let fault = row(&report, TableKind::Summary(Summary::FAULTS), "file", &text("/bin/starter"));
    let expected = [
        ("process", text("starter")),
        ("count", Cell::Count(2)),
        ("bytes", Cell::Bytes(8192)),
        ("time_ns", micros(400)),
        ("max_ns", micros(300)),
    ];
    check(&fault, &expected);
}

#[test]
fn interrupts_by_routine() {
    let interrupts = || {
        let mut machine = Machine::default();
        let isr =
            Isr { initial_time: Ticks(9900), routine: 0xFFFF_8000_0000_1000, is_handled: true, vector: 36 };
        machine.put(1000, 0, &isr);
        machine.put(2000, 1, &Isr { initial_time: Ticks(19_800), ..isr });
        machine.put(3000, 1, &Dpc { kind: DpcKind::Timer, initial_time: Ticks(29_950), routine: 0 });
        machine
    };
    let report = interrupts().report(5000);
    let isr = row(&report, TableKind::Summary(Summary::DPC_ISR), "kind", &text("ISR"));
    let expected = [
        ("vector", Cell::Id(36)),
        ("routine", text("0xffff800000001000")),
        ("count", Cell::Count(2)),
        ("time_ns", micros(30)),
        ("time_percent", Cell::Percent(0.3)),
        ("max_ns", micros(20)),
    ];
    check(&isr, &expected);
    check(
        &row(&report, TableKind::Summary(Summary::DPC_ISR), "kind", &text("TimerDPC")),
        &[("time_ns", micros(5))],
    );
    // They do not belong to any process.
    let filter = ProcessFilter { ids: vec![10], ..ProcessFilter::default() };
    let report = interrupts().report_of(5000, Window::ALL, |options| options.processes = filter);
    assert!(rows(&report, TableKind::Summary(Summary::DPC_ISR)).is_empty());
}

#[test]
fn system_calls_by_process() {
    const READ: u64 = 0xFFFF_8000_0000_1000;
    const WAIT: u64 = 0xFFFF_8000_0000_2000;
    let mut machine = Machine::default();
    machine.there_is(10, "reader");
    machine.there_is(20, "other");
    let switch = |old, new| CSwitch { old_thread_id: old, new_thread_id: new, ..CSwitch::default() };
    machine.put(0, 0, &switch(20, 10));
    for (index, status) in [(1, 0), (2, 0xC000_0034)] {
        machine.put(index * 100, 0, &SysCallEnter { address: READ });
        machine.put(index * 100 + 10, 0, &SysCallExit { status });
    }
    // A call continues while another thread runs and makes calls.
    machine.put(500, 0, &SysCallEnter { address: WAIT });
    machine.put(510, 0, &switch(10, 20));
    machine.put(520, 0, &SysCallEnter { address: READ });
    machine.put(530, 0, &SysCallExit { status: 0 });
    machine.put(600, 0, &switch(20, 10));
    machine.put(610, 0, &SysCallExit { status: 0 });
    let report = machine.report(1000);
    let calls = rows(&report, TableKind::Summary(Summary::SYSCALLS));
    let find = |id: u64, call: u64| {
        let call = text(&format!("{call:#x}"));
        calls.iter().find(|row| row["process_id"] == Cell::Id(id) && row["call"] == call).unwrap()
    };
    assert_eq!(calls.len(), 3);
    let expected = [("count", Cell::Count(2)), ("failed", Cell::Count(1)), ("time_ns", micros(20))];
    check(find(10, READ), &expected);
    check(find(10, WAIT), &[("count", Cell::Count(1)), ("time_ns", micros(110))]);
    check(find(20, READ), &[("count", Cell::Count(1)), ("time_ns", micros(10))]);
    // Calls after the window do not count, neither their beginnings nor their ends.
    let mut machine = Machine::default();
    machine.there_is(10, "reader");
    machine.put(0, 0, &switch(20, 10));
    for time in [100, 200, 300] {
        machine.put(time, 0, &SysCallEnter { address: READ });
        machine.put(time + 10, 0, &SysCallExit { status: 0xC000_0034 });
    }
    let window = Window { from: at(0), to: at(150) };
    let report = machine.report_of(1000, window, |_| {});
    let expected = [("count", Cell::Count(1)), ("failed", Cell::Count(1)), ("median_ns", micros(10))];
    check(&rows(&report, TableKind::Summary(Summary::SYSCALLS))[0], &expected);
    // Without switches, calls cannot be assigned to threads.
    let mut machine = Machine::default();
    machine.put(100, 0, &SysCallEnter { address: READ });
    machine.put(110, 0, &SysCallExit { status: 0 });
    let report = machine.report(1000);
    check(
        &rows(&report, TableKind::Summary(Summary::SYSCALLS))[0],
        &[("count", Cell::Count(1)), ("time_ns", Cell::None)],
    );
    assert!(table(&report, TableKind::Summary(Summary::SYSCALLS)).notes[0].contains("CSWITCH"));
}

#[test]
fn damaged_events_are_passed_over() {
    let mut numbers = Numbers::new(7);
    let mut machine = Machine::default();
    machine.there_is(10, "worker");
    let groups = [0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x08, 0x0F, 0x14, 0x18];
    for index in 0..20_000 {
        let hook = HookId(groups[numbers.below(groups.len())] << 8 | numbers.below(100) as u16);
        let pointer = [PointerSize::Four, PointerSize::Eight][numbers.below(2)];
        let payload: Vec<u8> = (0..numbers.below(120)).map(|_| numbers.draw() as u8 % 16).collect();
        let record = match numbers.below(2) {
            0 => RecordBuilder::perf_info(pointer, hook, numbers.below(5) as u8),
            _ => RecordBuilder::system(pointer, hook, numbers.below(5) as u8),
        };
        let record = record.time(Ticks(index * 10)).payload(&payload).build().unwrap();
        machine.put_bytes(index, numbers.below(2) as u16, record);
    }
    let report = machine.report_of(30_000, Window::ALL, |options| options.folded_stacks = true);
    assert!(report.tables.iter().any(|table| !table.rows.is_empty()));
}

#[test]
fn flags_options_and_attributes_have_names() {
    let mut machine = Machine::default();
    machine.there_is(10, "reader");
    for (at, irp_flags) in [(100, 0x6_0043), (200, 0x4_0041)] {
        let read = DiskIo {
            transfer: DiskTransfer::Read,
            disk_number: 1,
            irp_flags,
            transfer_size: 512,
            byte_offset: 0,
            file_object: 0,
            irp: 1,
            response_time: 10,
            issuing_thread_id: 10,
        };
        machine.put(at, 0, &read);
    }
    // As on Linux.
    machine.put(
        300,
        0,
        &DiskIoFlush { disk_number: 1, irp_flags: 0, response_time: 5, irp: 2, issuing_thread_id: 10 },
    );
    for (at, create_options, file_attributes, share_access) in
        [(400, 0x0120_0060, 0x80, 7), (500, 0x0500_0020, 0, 1)]
    {
        let create = FileIoCreate {
            irp: at as u64,
            file_object: 1,
            thread_id: 10,
            create_options,
            file_attributes,
            share_access,
            open_path: b"/data/opened",
        };
        machine.put(at, 0, &create);
    }
    name(&mut machine, 600, NameEvent::FileRundown, 2, "/data/only read");
    let read = FileIoReadWrite {
        event: ReadWriteEvent::Read,
        offset: 0,
        irp: 9,
        file_object: 2,
        file_key: 2,
        thread_id: 10,
        io_size: 1,
        io_flags: 0,
    };
    machine.put(700, 0, &read);
    let report = machine.report(1000);
    let expected = [
        ("priority", text("low, normal")),
        ("irp_flags", text("NOCACHE|PAGING_IO|SYNCHRONOUS_PAGING_IO|INPUT_OPERATION")),
    ];
    check(&row(&report, TableKind::Summary(Summary::DISK), "operation", &text("Read")), &expected);
    let none = [("priority", Cell::None), ("irp_flags", Cell::None)];
    check(&row(&report, TableKind::Summary(Summary::DISK), "operation", &text("Flush")), &none);
    let expected = [
        ("dispositions", text("OPEN, OVERWRITE_IF")),
        ("create_options", text("SYNCHRONOUS_IO_NONALERT|NON_DIRECTORY_FILE|OPEN_REPARSE_POINT")),
        ("share_access", text("READ, READ|WRITE|DELETE")),
        ("attributes", text("NORMAL")),
    ];
    check(&row(&report, TableKind::Summary(Summary::FILES), "file", &text("/data/opened")), &expected);
    check(
        &row(&report, TableKind::Summary(Summary::FILES), "file", &text("/data/only read")),
        &[("dispositions", Cell::None)],
    );
}
