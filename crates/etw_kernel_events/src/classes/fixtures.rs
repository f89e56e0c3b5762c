//! The events beside those that Windows wrote: header kinds and versions of the real files.

use std::collections::{BTreeMap, BTreeSet};

use etw_etl::{EtlFile, Records};
use etw_event::{HeaderKind, Ticks};
use etw_schema::Resolver;
use etw_testkit::data;

use super::*;
use etw_testkit::decoded::decode;

/// One event of each kind whose header the fixtures show, with the version that they have at most.
fn events(buffer: &mut RecordBuffer) {
    let stamp = Stamp::new(Ticks(1), 2, 3);
    macro_rules! all {
        ($($event:expr),* $(,)?) => {
            $(assert!(buffer.put(&stamp, &$event));)*
        };
    }
    for event in [ProcessEvent::Start, ProcessEvent::End, ProcessEvent::DcStart, ProcessEvent::DcEnd] {
        all!(Process {
            event,
            key: 1,
            process_id: 2,
            parent_id: 3,
            session_id: 4,
            exit_status: 5,
            uid: 6,
            image_file_name: b"x",
            command_line: b"x\0",
        });
    }
    for event in [ThreadEvent::Start, ThreadEvent::End, ThreadEvent::DcStart, ThreadEvent::DcEnd] {
        all!(Thread {
            event,
            process_id: 2,
            thread_id: 3,
            user_stack_base: 0,
            affinity: 1,
            start_address: 0,
            base_priority: 8,
            name: b"x",
        });
    }
    for event in [ImageEvent::Load, ImageEvent::Unload, ImageEvent::DcStart, ImageEvent::DcEnd] {
        for process_id in [0, 2] {
            all!(Image { event, base: 1, len_bytes: 2, process_id, build_id: None, file_name: b"x" });
        }
    }
    for operation in [DiskOperation::Read, DiskOperation::Write, DiskOperation::Flush] {
        all!(DiskIoInit { operation, irp: 1, issuing_thread_id: 2 });
    }
    for transfer in [DiskTransfer::Read, DiskTransfer::Write] {
        all!(DiskIo {
            transfer,
            disk_number: 1,
            irp_flags: 2,
            transfer_size: 3,
            byte_offset: 4,
            file_object: 5,
            irp: 6,
            response_time: 7,
            issuing_thread_id: 8,
        });
    }
    let [v4, v6] =
        [["10.0.0.1:1", "10.0.0.2:2"], ["[fe80::1]:1", "[fe80::2]:2"]].map(|[destination, source]| {
            Endpoints { destination: destination.parse().unwrap(), source: source.parse().unwrap() }
        });
    let (process_id, len_bytes, sequence_number, connection_id) = (1, 2, 3, 4);
    for endpoints in [v4, v6] {
        for event in [UdpEvent::Send, UdpEvent::Receive] {
            all!(UdpIp { event, process_id, len_bytes, endpoints, sequence_number, connection_id });
        }
    }
    let (event, endpoints, start_time, end_time) = (TcpEvent::Receive, v6, 5, 6);
    all!(
        TcpIp { event, process_id, len_bytes, endpoints, sequence_number, connection_id },
        TcpSend { process_id, len_bytes, endpoints, start_time, end_time, sequence_number, connection_id },
    );
    for event in [NameEvent::FileCreate, NameEvent::FileDelete, NameEvent::FileRundown] {
        all!(FileIoName { event, file_object: 1, file_name: b"x" });
    }
    for event in [SampledProfileIntervalEvent::CollectionStart, SampledProfileIntervalEvent::CollectionEnd] {
        all!(SampledProfileInterval {
            event,
            source: 0,
            new_interval: 1,
            old_interval: 2,
            source_name: b"Timer"
        });
    }
    for event in [GroupMasksEvent::Extension, GroupMasksEvent::EndExtension] {
        all!(GroupMasks { event, masks: [0; 8] });
    }
    all!(
        ProcessTerminate { process_id: 2 },
        ThreadSetName { process_id: 2, thread_id: 3, name: b"x" },
        KernelBase { base: 1 },
        ImageDebugId { base: 1, process_id: 2, build_id: BuildId::new(&[1]).unwrap(), file_name: b"x" },
        DiskIoFlush { disk_number: 1, irp_flags: 2, response_time: 3, irp: 4, issuing_thread_id: 5 },
        HardFault {
            initial_time: Ticks(1),
            read_offset: 2,
            virtual_address: 3,
            file_object: 4,
            thread_id: 5,
            byte_count: 6
        },
        SampledProfile::default(),
        StackWalk { event_time: Ticks(1), process_id: 2, thread_id: 3, frames: &[1, 2] },
        RundownComplete,
        Cpu::default(),
        PhyDisk::default(),
        LogDisk::default(),
        Nic::default(),
        Irq::default(),
        Platform::default(),
        Processor::default(),
    );
}

#[test]
fn headers_and_versions_are_those_of_real_files() {
    let Some(traces) = data::traces() else { return };
    let mut real: BTreeMap<String, BTreeSet<(u8, u8)>> = BTreeMap::new();
    for trace in traces {
        let bytes = trace.read().unwrap();
        let file = EtlFile::open(&bytes).unwrap();
        let mut resolver = Resolver::new();
        let mut scratch = Vec::new();
        for buffer in file.buffers() {
            let buffer = buffer.unwrap();
            let data = buffer.data(&mut scratch);
            let origin = buffer.origin(file.clock(), 0);
            for record in Records::new(data.bytes, &origin, buffer.place()) {
                let record = record.unwrap();
                // Of 64-bit Windows, written by the kernel or by the merge step.
                let is_of_the_kernel = matches!(record.kind(), HeaderKind::System64 | HeaderKind::PerfInfo64)
                    || record.kind() == HeaderKind::Full64
                        && record.provider_id() == etw_event::classes::IMAGE_ID;
                if !is_of_the_kernel || record.is_log_file_header() {
                    continue;
                }
                let schema = resolver.resolve(&record).unwrap().schema.clone();
                let task = schema.task_name.as_deref().unwrap_or_default();
                let name = format!("{task}/{}", schema.opcode_name.as_deref().unwrap_or_default());
                real.entry(name).or_default().insert((record.kind() as u8, record.descriptor().version));
            }
        }
    }
    let mut buffer = RecordBuffer::new();
    events(&mut buffer);
    let mut resolver = Resolver::new();
    let mut compared = BTreeSet::new();
    for words in buffer.records() {
        let (kind, name, _) = decode(&mut resolver, words);
        let seen = real.get(&name).unwrap_or_else(|| panic!("no file has {name}"));
        assert!(seen.iter().any(|(real, _)| *real == kind as u8), "{name}: {kind:?} is not among {seen:?}");
        let newest = seen.iter().map(|(_, version)| *version).max().unwrap();
        let version = words[0] as u8;
        // FileIo is at version 2 in the oldest file, the only one that has it; classes of today are at 3.
        let expected = if name.starts_with("FileIo/") { 3 } else { newest };
        let version = if kind == HeaderKind::Full64 { (words[0] >> 48) as u8 } else { version };
        assert_eq!(version, expected, "{name}");
        compared.insert(name);
    }
    println!("{} events compared", compared.len());
    assert!(compared.len() >= 45, "{compared:?}");
}
