//! What is written is read back: real files copied, and generated files of the kinds that no real file has.

use std::io::Cursor;

use crate::common::{Contents, Owned, read};
use etw_etl::encode::{EventMetadata, RecordBuilder, provider_traits};
use etw_etl::{
    BufferFlags, BufferHeader, ContextSwitches, EtlFile, EtlWriter, GroupMasks, HeaderRecords, LogFileMode,
    Loss, Records, WriteError, WriterOptions, loss_of,
};
use etw_event::{
    Clock, ClockType, EventDescriptor, ExtendedType, FileTime, Guid, HeaderKind, HookId, Instance, Keyword,
    Level, Opcode, Origin, PointerSize, Record, Ticks, classes,
};

const START: FileTime = FileTime(133_000_000_000_000_000);
const PROVIDER: Guid = Guid::from_u128(0x11223344_5566_7788_99aa_bbccddeeff00);

fn clock() -> Clock {
    Clock::new(ClockType::Qpc, Ticks(1_000_000), START, 10_000_000)
}

fn options(buffer_size: u32, mode: u32, maximum_kib: u32) -> WriterOptions {
    let mut options = WriterOptions::new(clock(), buffer_size, 4);
    options.header.log_file_mode = LogFileMode(mode).union(LogFileMode::KBYTES_FOR_SIZE);
    options.header.maximum_file_size = maximum_kib;
    options.header.logger_name = "Session".to_owned();
    options.header.log_file_name = "C:\\trace.etl".to_owned();
    options
}

fn event(time: i64, payload: &[u8]) -> Vec<u8> {
    let descriptor = EventDescriptor { id: 1, level: Level(4), keyword: Keyword(1), ..Default::default() };
    let builder = RecordBuilder::event(PointerSize::Eight, PROVIDER, &descriptor);
    builder.time(Ticks(time)).process(4, 8).payload(payload).build().unwrap()
}

fn writer(options: WriterOptions) -> EtlWriter<Cursor<Vec<u8>>> {
    EtlWriter::new(Cursor::new(Vec::new()), options).unwrap()
}

fn finish(writer: EtlWriter<Cursor<Vec<u8>>>) -> Vec<u8> {
    let written = writer.finish(FileTime(0)).unwrap();
    let mut bytes = written.out.into_inner();
    bytes.truncate(usize::try_from(written.len_bytes).unwrap());
    let header = EtlFile::open(&bytes).unwrap().header().clone();
    assert!(header.is_closed());
    assert_eq!(header.buffers_written, written.buffers);
    bytes
}

fn check_no_damage(contents: &Contents) {
    assert_eq!(contents.damages, []);
}

#[test]
fn real_files_are_copied_record_by_record() {
    let Some(traces) = etw_testkit::data::traces() else { return };
    for trace in traces {
        let bytes = trace.read().unwrap();
        let source = read(&bytes);
        let header = EtlFile::open(&bytes).unwrap().header().clone();
        for compressed in [false, true] {
            let mut options = WriterOptions::relog(&header);
            options.records.others = source.first[1..].iter().map(|record| record.bytes.clone()).collect();
            if compressed {
                options = options.compressed();
            }
            let mut writer = writer(options);
            for record in &source.records {
                writer
                    .write(record.processor, &record.bytes)
                    .unwrap_or_else(|error| panic!("{}: {error}", trace.name));
            }
            let copy_bytes = finish(writer);
            let copy = read(&copy_bytes);
            check_no_damage(&copy);
            assert!(copy.first[1..] == source.first[1..], "{}", trace.name);
            assert_eq!(copy.records.len(), source.records.len(), "{}", trace.name);
            for processor in 0..header.number_of_processors as u16 {
                assert!(
                    copy.of_processor(processor) == source.of_processor(processor),
                    "{} processor {processor}",
                    trace.name
                );
            }
            let copied = EtlFile::open(&copy_bytes).unwrap();
            assert_eq!(copied.clock(), EtlFile::open(&bytes).unwrap().clock());
            assert_eq!(
                (&copied.header().logger_name, copied.header().events_lost, copied.header().time_zone),
                (&header.logger_name, header.events_lost, header.time_zone)
            );
            if compressed && trace.records > 1000 {
                assert!(copy_bytes.len() < source.records.iter().map(|record| record.bytes.len()).sum());
            }
        }
    }
}

#[test]
fn every_kind_of_record_in_one_file() {
    let hook = HookId(0x0524);
    let class = EventDescriptor { version: 2, opcode: Opcode(10), ..Default::default() };
    let instance = Instance { id: 1, parent_id: 2, parent_guid: PROVIDER };
    let metadata = EventMetadata::new("Started").field("count", 8).build();
    let mut kinds = Vec::new();
    for size in [PointerSize::Four, PointerSize::Eight] {
        kinds.extend([
            RecordBuilder::system(size, hook, 2),
            RecordBuilder::compact(size, hook, 2),
            RecordBuilder::perf_info(size, hook, 2),
            RecordBuilder::perf_info(size, hook, 2).counters(&[1, 2, 3]),
            RecordBuilder::full(size, PROVIDER, &class),
            RecordBuilder::instance(size, PROVIDER, &class, instance),
            RecordBuilder::event(size, PROVIDER, &class).related_activity_id(PROVIDER).stack(0, &[1, 2, 3]),
            RecordBuilder::event(size, PROVIDER, &EventDescriptor { channel: 11, ..class })
                .item(ExtendedType::PROVIDER_TRAITS, &provider_traits("My"))
                .item(ExtendedType::EVENT_SCHEMA_TL, &metadata),
            RecordBuilder::message(7, size).message_sequence(1).message_guid(PROVIDER),
            RecordBuilder::message(8, size).message_component_id(5),
        ]);
    }
    kinds.extend([
        RecordBuilder::timed(5),
        RecordBuilder::error(PROVIDER, &class),
        RecordBuilder::wnode(PROVIDER),
    ]);
    for options in [options(0x1000, 1, 0), options(0x1000, 1, 0).compressed()] {
        let mut expected = Vec::new();
        let mut writer = writer(options);
        for round in 0..50 {
            for (index, kind) in kinds.iter().enumerate() {
                let raw_time = Ticks(1_000_000 + round * 100 + index as i64);
                let payload = vec![index as u8; (round as usize * 7 + index) % 60];
                let bytes = kind.clone().time(raw_time).process(4, 8).payload(&payload).build().unwrap();
                let processor = (round % 3) as u16;
                writer.write(processor, &bytes).unwrap();
                expected.push(Owned { processor, time: clock().to_filetime(raw_time), raw_time, bytes });
            }
        }
        let bytes = finish(writer);
        let contents = read(&bytes);
        check_no_damage(&contents);
        let expected = Contents { records: expected, ..Contents::default() };
        for processor in 0..4 {
            assert_eq!(contents.of_processor(processor), expected.of_processor(processor));
        }
        let origin = Origin::default();
        for kind in HeaderKind::ALL {
            let has = |owned: &Owned| Record::parse(&owned.bytes, &origin, Ticks(0)).unwrap().kind() == kind;
            assert!(contents.records.iter().any(has), "{kind:?}");
        }
    }
}

#[test]
fn the_first_buffer() {
    let mut options = options(0x1000, 1, 0);
    let masks = GroupMasks { masks: [1, 2, 3, 4, 5, 6, 7, 8], kernel_event_version: 0x46 };
    options.records = HeaderRecords { group_masks: Some(masks), partition_info: true, others: Vec::new() };
    let bytes = finish(writer(options));
    assert_eq!(bytes.len(), 0x1000);
    let contents = read(&bytes);
    check_no_damage(&contents);
    let hooks: Vec<_> = contents.first.iter().map(|record| (record.bytes[6], record.bytes.len())).collect();
    assert_eq!(hooks, [(0, 0x20 + 0x118 + 2 * (8 + 13)), (5, 0x44), (0x50, 0x50)]);
    let file = EtlFile::open(&bytes).unwrap();
    let buffer = file.buffers().next().unwrap().unwrap();
    assert_eq!(buffer.header.buffer_flag, BufferFlags(0x21));
    assert!(bytes[buffer.header.offset as usize..].iter().all(|byte| *byte == 0xFF));
    let header = file.header();
    assert_eq!((&*header.logger_name, &*header.log_file_name), ("Session", "C:\\trace.etl"));
}

#[test]
fn all_clocks_give_the_same_utc() {
    let check = |clock: Clock, layout: PointerSize| {
        let mut options = WriterOptions::new(clock, 0x2000, 1);
        options.header.layout = layout;
        options.header.pointer_size = layout.bytes() as u32;
        let mut writer = writer(options);
        let times: Vec<FileTime> =
            [0, 1, 7, 12_345_678, 36_000_000_000].map(|step| FileTime(START.0 + step)).into();
        for time in &times {
            writer.write(0, &event(clock.to_ticks(*time).0, b"")).unwrap();
        }
        let bytes = finish(writer);
        let contents = read(&bytes);
        check_no_damage(&contents);
        assert_eq!(contents.records.iter().map(|record| record.time).collect::<Vec<_>>(), times);
        let header = EtlFile::open(&bytes).unwrap().header().clone();
        assert_eq!((header.clock(), header.layout), (clock, layout));
        assert_eq!(header.end_time, *times.last().unwrap());
    };
    for layout in [PointerSize::Four, PointerSize::Eight] {
        check(Clock::new(ClockType::Qpc, Ticks(77), START, 10_000_000), layout);
        check(Clock::new(ClockType::Qpc, Ticks(77_000_000_000), START, 24_000_000), layout);
        check(Clock::new(ClockType::SystemTime, Ticks(START.0), START, 0), layout);
        check(Clock::new(ClockType::CpuCycle, Ticks(5), START, 2_400_000_000), layout);
    }
}

#[test]
fn circular_files_keep_the_newest_buffers() {
    // Eight buffers of 4 KiB, seven of them for events.
    let mut writer = writer(options(0x1000, 2, 32));
    for number in 0..2000 {
        writer.write((number % 2) as u16, &event(1_000_000 + number, &[number as u8; 100])).unwrap();
    }
    let bytes = finish(writer);
    assert_eq!(bytes.len(), 32 << 10);
    let contents = read(&bytes);
    check_no_damage(&contents);
    let sequence: Vec<i64> = contents.buffers.iter().skip(1).map(|buffer| buffer.0).collect();
    assert_eq!(sequence.len(), 7);
    assert!(!sequence.is_sorted(), "the file has wrapped: {sequence:?}");
    let mut sorted = sequence.clone();
    sorted.sort_unstable();
    assert!(sorted.windows(2).all(|pair| pair[1] == pair[0] + 1), "no gap: {sorted:?}");
    // In the order of their sequence numbers the buffers hold the newest records without a gap.
    let mut by_sequence = Vec::new();
    let mut rest = &contents.records[..];
    for (number, count) in contents.buffers.iter().skip(1) {
        let (records, behind) = rest.split_at(*count);
        by_sequence.push((number, records));
        rest = behind;
    }
    by_sequence.sort_unstable_by_key(|buffer| buffer.0);
    for processor in 0..2 {
        let records = by_sequence.iter().flat_map(|buffer| buffer.1).filter(|r| r.processor == processor);
        let times: Vec<i64> = records.map(|record| record.raw_time.0).collect();
        assert!(times.windows(2).all(|pair| pair[1] == pair[0] + 2));
        assert_eq!(times.last(), Some(&(1_000_000 + 1998 + i64::from(processor))));
    }
}

#[test]
fn sequential_files_stop_at_their_size_and_lose_nothing_that_was_taken() {
    for mode in [0x1, 0x21] {
        let mut writer = writer(options(0x1000, mode, 16));
        let mut taken = 0;
        let error = loop {
            match writer.write((taken % 3) as u16, &event(1_000_000 + taken, &[0; 400])) {
                Ok(()) => taken += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, WriteError::FileFull { .. }), "{error}");
        let bytes = finish(writer);
        assert_eq!(bytes.len(), 16 << 10);
        let contents = read(&bytes);
        check_no_damage(&contents);
        assert_eq!(contents.records.len() as i64, taken);
    }
}

#[test]
fn preallocated_files_end_at_their_zeros() {
    let mut writer = writer(options(0x1000, 0x21, 64));
    for number in 0..40 {
        writer.write(0, &event(1_000_000 + number, &[0; 100])).unwrap();
    }
    writer.flush().unwrap();
    let written = writer.finish(FileTime(0)).unwrap();
    let whole = written.out.into_inner();
    assert_eq!(whole.len(), 64 << 10);
    assert!(written.len_bytes < 64 << 10);
    for bytes in [&whole[..], &whole[..written.len_bytes as usize], &whole[..60_001]] {
        let contents = read(bytes);
        check_no_damage(&contents);
        assert_eq!(contents.records.len(), 40);
    }
}

#[test]
fn a_writer_that_is_dropped_leaves_what_it_has_written() {
    for options in [options(0x1000, 1, 0), options(0x1000, 1, 0).compressed()] {
        let mut out = Cursor::new(Vec::new());
        let mut writer = EtlWriter::new(&mut out, options).unwrap();
        for number in 0..100 {
            writer.write(0, &event(1_000_000 + number, &[0; 100])).unwrap();
        }
        writer.flush().unwrap();
        writer.write(0, &event(2_000_000, b"lost")).unwrap();
        drop(writer);
        let bytes = out.into_inner();
        let header = EtlFile::open(&bytes).unwrap().header().clone();
        assert_eq!((header.is_closed(), header.buffers_written), (false, 1));
        let contents = read(&bytes);
        check_no_damage(&contents);
        assert_eq!(contents.records.len(), 100);
    }
}

#[test]
fn sessions_are_appended() {
    let system = Clock::new(ClockType::SystemTime, Ticks(START.0), START, 0);
    let mut first = writer(WriterOptions::new(system, 0x1000, 2));
    first.write(1, &event(START.0 + 5, b"one")).unwrap();
    let mut bytes = finish(first);
    bytes.extend([0xFF; 100]);
    let mut second = EtlWriter::append(Cursor::new(bytes), 9).unwrap();
    second.write(1, &event(START.0 + 50, b"two")).unwrap();
    second.lose_events(1, 3).unwrap();
    let bytes = finish(second);
    let contents = read(&bytes);
    check_no_damage(&contents);
    assert_eq!(contents.buffers, [(0, 2), (1, 1), (1, 1)]);
    assert_eq!(contents.records.iter().map(|r| r.raw_time.0 - START.0).collect::<Vec<_>>(), [5, 50]);
    let file = EtlFile::open(&bytes).unwrap();
    assert!(file.header().log_file_mode.contains(LogFileMode::APPEND));
    assert_eq!((file.header().events_lost, file.header().end_time), (3, FileTime(START.0 + 50)));
    let loggers: Vec<_> = file.buffers().map(|buffer| buffer.unwrap().header.logger_id).collect();
    assert_eq!(loggers, [1, 1, 9]);

    let qpc = finish(writer(options(0x1000, 1, 0)));
    let refused = EtlWriter::append(Cursor::new(qpc), 9);
    assert!(matches!(refused, Err(WriteError::AppendClock { .. })));
    let refused = EtlWriter::append(Cursor::new(b"text".to_vec()), 9);
    assert!(matches!(refused, Err(WriteError::Open(_))));
}

#[test]
fn losses_are_told() {
    let mut writer = writer(options(0x1000, 1, 0));
    writer.write(0, &event(1_000_001, b"")).unwrap();
    writer.lose_events(0, 7).unwrap();
    writer.lose_buffers(1, 2).unwrap();
    writer.write(0, &event(1_000_002, b"")).unwrap();
    writer.flush().unwrap();
    for opcode in 32..36 {
        let class = EventDescriptor { opcode: Opcode(opcode), ..Default::default() };
        let lost = RecordBuilder::full(PointerSize::Eight, classes::LOST_EVENT, &class);
        writer.write(0, &lost.time(Ticks(1_000_003)).build().unwrap()).unwrap();
    }
    writer.write(1, &event(1_000_004, b"")).unwrap();
    let bytes = finish(writer);
    let file = EtlFile::open(&bytes).unwrap();
    assert_eq!((file.header().events_lost, file.header().buffers_lost), (7, 2));
    let flags: Vec<_> = file.buffers().map(|buffer| buffer.unwrap().header.buffer_flag).collect();
    assert_eq!(flags, [0x21, 0x21, 0x22, 0x25].map(BufferFlags));
    let origin = Origin::default();
    let losses: Vec<_> = read(&bytes)
        .records
        .iter()
        .map(|owned| loss_of(&Record::parse(&owned.bytes, &origin, Ticks(0)).unwrap()))
        .collect();
    let (events, buffers, lost_file) = (Some(Loss::Events), Some(Loss::Buffers), Some(Loss::File));
    assert_eq!(losses, [None, None, events, buffers, lost_file, None, None]);
}

#[test]
fn what_windows_would_refuse_is_refused() {
    let mut writer = writer(options(0x1000, 1, 0));
    let room = 0x1000 - 0x48 - 0x50;
    writer.write(0, &event(1_000_100, &vec![0; room])).unwrap();
    let mut check = |processor, record: &[u8], text: &str| {
        assert_eq!(writer.write(processor, record).unwrap_err().to_string(), text);
    };
    let too_large = event(1_000_100, &vec![0; room + 1]);
    check(0, &too_large, "a record of 4025 bytes does not fit in a buffer, which has room for 4024");
    let early = event(1_000_099, b"");
    check(0, &early, "time inversion on processor 0: a record of 1000099 follows one of 1000100");
    check(4, &early, "processor 4 is out of range: the log file header has 4 processors");
    check(0, &[&event(1_000_200, b"")[..], b"more"].concat(), {
        "the record's size of 80 bytes does not fit: its header takes 80, the buffer has 84"
    });
    let mut broken = event(1_000_200, &[0; 16]);
    broken[4] = 1;
    check(0, &broken, "the record's extended data does not fit in its 96 bytes");
    assert_eq!(read(&finish(writer)).records.len(), 1);

    let refused = |options: WriterOptions| EtlWriter::new(Cursor::new(Vec::new()), options).unwrap_err();
    assert!(matches!(refused(options(1000, 1, 0)), WriteError::BufferSize { size: 1000 }));
    assert!(matches!(refused(options(0x1000, 2, 0)), WriteError::NoMaximumSize));
    assert!(matches!(refused(options(0x1000, 2, 16).compressed()), WriteError::Mode { .. }));
    let mut large = options(0x400, 1, 0);
    large.header.logger_name = "x".repeat(1000);
    assert!(matches!(refused(large), WriteError::BufferTooLarge { .. }));
}

#[test]
fn incompressible_buffers_stay_plain() {
    let mut numbers = etw_testkit::mutate::Numbers::new(1);
    let mut writer = writer(options(0x1000, 1, 0).compressed());
    let noise: Vec<u8> = (0..3800).map(|_| numbers.draw() as u8).collect();
    writer.write(0, &event(1_000_000, &noise)).unwrap();
    writer.write(0, &event(1_000_001, &[0; 3800])).unwrap();
    let bytes = finish(writer);
    let contents = read(&bytes);
    check_no_damage(&contents);
    assert_eq!(contents.records.len(), 2);
    let file = EtlFile::open(&bytes).unwrap();
    for buffer in file.buffers() {
        let header = buffer.unwrap().header;
        assert!(!header.is_compressed() || header.buffer_size < header.offset);
        assert!(header.buffer_size <= 0x1000);
    }
    assert_eq!(file.buffers().filter(|buffer| buffer.unwrap().header.is_compressed()).count(), 1);
}

#[test]
fn packed_context_switches_are_one_record() {
    let mut body = 1_000_500i64.to_le_bytes().to_vec();
    (0..16u32).for_each(|index| body.extend((100 + index).to_le_bytes()));
    body.extend([8; 16]);
    body.extend((5u16 << 2).to_le_bytes());
    body.extend((2 | 3u32 << 2 | 2 << 6 | 33 << 9 | 9 << 15).to_le_bytes());
    body.extend([0; 2]);
    let mut writer = writer(options(0x1000, 1, 0));
    let header = etw_etl::BufferHeader {
        buffer_type: etw_etl::BufferType::CONTEXT_SWAP,
        buffer_flag: BufferFlags::PROC_INDEX,
        processor_index: 2,
        sequence_number: 1,
        ..Default::default()
    };
    writer.write_buffer(&header, &body).unwrap();
    let bytes = finish(writer);
    let file = EtlFile::open(&bytes).unwrap();
    let buffer = file.buffers().nth(1).unwrap().unwrap();
    let origin = buffer.origin(file.clock(), 0);
    let mut scratch = Vec::new();
    let data = buffer.data(&mut scratch).bytes;
    let records: Vec<_> = Records::new(data, &origin, buffer.place()).map(Result::unwrap).collect();
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].hook_id(), records[0].processor()), (Some(HookId(0x0525)), 2));
    assert_eq!(records[0].raw_time(), Ticks(1_000_500));
    let switches: Vec<_> = ContextSwitches::new(records[0].payload()).collect();
    assert_eq!(switches[1].time, Ticks(1_000_514));
    assert_eq!(switches[1].switched_out.unwrap().thread_id, 103);
}

#[test]
fn records_and_buffers_of_another_file_go_in_as_they_are() {
    let timeless = RecordBuilder::message(10, PointerSize::Eight).message_sequence(7).process(4, 8);
    let timeless = timeless.payload(b"arguments").build().unwrap();
    let mut source = writer(options(4096, 1, 0));
    source.write(1, &event(2_000_000, b"first")).unwrap();
    source.write(1, &timeless).unwrap();
    // What lies before it in time would be refused in a new file.
    let (late, early) = (event(3_000_000, &[1; 1500]), event(2_500_000, &[2; 1500]));
    source.write(1, &late).unwrap();
    let bytes = finish(source);
    let file = EtlFile::open(&bytes).unwrap();
    let mut out = writer(WriterOptions::relog(file.header()));
    let (mut scratch, mut seen) = (Vec::new(), Vec::new());
    for buffer in file.buffers().skip(1) {
        let buffer = buffer.unwrap();
        let origin = buffer.origin(file.clock(), 0);
        for record in Records::new(buffer.data(&mut scratch).bytes, &origin, buffer.place()) {
            let record = record.unwrap();
            out.relog(&record).unwrap();
            seen.push((record.raw_time(), record.payload().to_vec()));
        }
        let record = Record::parse(&early, &origin, Ticks(0)).unwrap();
        out.relog(&record).unwrap();
        seen.push((record.raw_time(), record.payload().to_vec()));
        // A whole buffer, which has no room beside the others; then a small one, which has; then one of nothing.
        let lossy = |flag| BufferHeader { buffer_flag: BufferFlags::PROC_INDEX | flag, ..buffer.header };
        let large = [event(4_000_000, &[3; 3000])].concat();
        out.relog_buffer(&lossy(BufferFlags::EVENTS_LOST), &large, Ticks(4_000_000)).unwrap();
        let small = event(5_000_000, &[4; 40]);
        out.relog_buffer(&lossy(BufferFlags::default()), &small, Ticks(5_000_000)).unwrap();
        out.relog_buffer(&lossy(BufferFlags::BUFFER_LOST), &[], Ticks(5_000_000)).unwrap();
        out.relog_buffer(&lossy(BufferFlags::default()), &small, Ticks(5_000_000)).unwrap();
        let too_large = out.relog_buffer(&buffer.header, &[0; 4096], Ticks(6_000_000));
        assert!(matches!(too_large, Err(WriteError::BufferTooLarge { .. })));
    }
    seen.push((Ticks(4_000_000), vec![3; 3000]));
    seen.extend([(Ticks(5_000_000), vec![4; 40]), (Ticks(5_000_000), vec![4; 40])]);
    let written = finish(out);
    let contents = read(&written);
    check_no_damage(&contents);
    let file = EtlFile::open(&written).unwrap();
    let origin = Origin { clock: file.clock(), ..Origin::default() };
    let found = contents.records.iter().map(|owned| {
        let record = Record::parse(&owned.bytes, &origin, Ticks(0)).unwrap();
        assert_eq!(owned.processor, 1);
        (record.raw_time(), record.payload().to_vec())
    });
    assert_eq!(found.collect::<Vec<_>>(), seen);
    let flags: Vec<_> = file.buffers().skip(1).map(|buffer| buffer.unwrap().header.buffer_flag).collect();
    let lost = |flag: BufferFlags| flags.iter().filter(|flags| flags.contains(flag)).count();
    assert_eq!((lost(BufferFlags::EVENTS_LOST), contents.buffers.len()), (1, 4), "{flags:?}");
}

#[test]
fn records_in_one_piece_fill_buffers_as_one_by_one() {
    let records: Vec<Vec<u8>> =
        (0..40).map(|n| event(2_000_000 + n, &[1; 300][..200 + n as usize])).collect();
    let (mut alone, mut together) = (writer(options(4096, 1, 0)), writer(options(4096, 1, 0)));
    let mut piece = Vec::new();
    for record in &records {
        alone.write(1, record).unwrap();
        piece.extend_from_slice(record);
        piece.resize(piece.len().next_multiple_of(8), 0);
    }
    let (start, end) = piece.split_at(records[0].len().next_multiple_of(8));
    together.relog_records(1, start, Ticks(2_000_000)).unwrap();
    // The last one has no padding.
    together.relog_records(1, end.get(..end.len() - 1).unwrap(), Ticks(2_000_039)).unwrap();
    together.relog_records(1, &[], Ticks(2_000_039)).unwrap();
    let too_large = together.relog_records(1, &event(3_000_000, &[2; 5000]), Ticks(3_000_000));
    assert!(matches!(too_large, Err(WriteError::RecordTooLarge { .. })));
    let [alone, together] = [alone, together].map(|writer| read(&finish(writer)));
    check_no_damage(&together);
    assert_eq!(together.records, alone.records);
    assert_eq!(together.buffers.len(), alone.buffers.len());
}

#[test]
fn a_file_of_what_nobody_closed_is_not_closed() {
    let mut out = writer(options(4096, 1, 0));
    out.write(0, &event(2_000_000, b"one")).unwrap();
    let written = out.finish_unclosed().unwrap();
    let bytes = written.out.into_inner();
    let header = EtlFile::open(&bytes).unwrap().header().clone();
    assert_eq!((header.is_closed(), header.buffers_written), (false, 2));
    assert_eq!(read(&bytes).records.len(), 1);
}
