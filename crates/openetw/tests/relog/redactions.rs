//! Redacted values do not occur anywhere in the file.

use std::fs;
use std::path::Path;

use openetw::etl::encode::{EventMetadata, RecordBuilder, provider_traits};
use openetw::etl::{EtlFile, EtlWriter, WriterOptions};
use openetw::relog::{Compression, RelogError, Relogger};
use openetw::{
    Clock, ClockType, EventDescriptor, EventFilter, ExtendedType, FileTime, Guid, HookId, PointerSize, Ticks,
    Trace,
};

const SECRET: &str = "correct horse battery staple";

/// In-types of TraceLogging.
const UTF16: u8 = 1;
const ANSI: u8 = 2;
const UINT32: u8 = 8;
const SID: u8 = 19;

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Returns the bytes of a secret in each of the trace's encodings.
fn secrets() -> Vec<Vec<u8>> {
    vec![wide(SECRET), SECRET.as_bytes().to_vec(), 0xC0FF_EE99u32.to_le_bytes().to_vec(), sid()]
}

fn sid() -> Vec<u8> {
    let parts = [21u32, 0x1234_5678, 0x9ABC_DEF0, 1001];
    [&[1, 4, 0, 0, 0, 0, 0, 5][..], &parts.map(u32::to_le_bytes).concat()].concat()
}

/// Returns logins and logouts of one provider, on two processors.
fn write_source(path: &Path) {
    let clock = Clock::new(ClockType::Qpc, Ticks(1000), FileTime(133_000_000_000_000_000), 10_000_000);
    let file = fs::File::create(path).unwrap();
    let mut writer = EtlWriter::new(file, WriterOptions::new(clock, 8192, 2)).unwrap();
    let traits = provider_traits("Contoso");
    for number in 0..200u32 {
        let name = if number % 4 == 3 { "Logout" } else { "Login" };
        let metadata = EventMetadata::new(name)
            .field("Before", UINT32)
            .structure("User", 2)
            .field("Name", UTF16)
            .field("Short", ANSI)
            .field("Pin", UINT32)
            .field("Sid", SID)
            .field("After", UTF16)
            .build();
        let is_login = name == "Login";
        let (text, pin) = if is_login { (SECRET, 0xC0FF_EE99u32) } else { ("nobody", 7) };
        let payload = [
            number.to_le_bytes().to_vec(),
            wide(&format!("{text}\0")),
            format!("{text}\0").into_bytes(),
            pin.to_le_bytes().to_vec(),
            if is_login { sid() } else { vec![1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0] },
            wide(&format!("after {number}\0")),
        ];
        let descriptor = EventDescriptor { channel: 11, ..EventDescriptor::default() };
        let record =
            RecordBuilder::event(PointerSize::Eight, Guid::from_provider_name("Contoso"), &descriptor)
                .time(Ticks(1001 + i64::from(number)))
                .process(4711, 1)
                .item(ExtendedType::EVENT_SCHEMA_TL, &metadata)
                .item(ExtendedType::PROVIDER_TRAITS, &traits)
                .payload(&payload.concat());
        writer.write((number % 2) as u16, &record.build().unwrap()).unwrap();
    }
    writer.finish(FileTime(0)).unwrap();
}

/// Returns all bytes in the file's buffers, decompressed.
fn bytes_of(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    let file = EtlFile::open(&bytes).unwrap();
    let mut all = bytes.clone();
    for buffer in file.buffers() {
        all.extend_from_slice(buffer.unwrap().data(&mut Vec::new()).bytes);
    }
    all
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn redacted_fields_are_nowhere_in_the_file_and_all_else_stays() {
    let directory = tempfile::tempdir().unwrap();
    let (source, output) = (directory.path().join("a.etl"), directory.path().join("b.etl"));
    write_source(&source);
    assert!(secrets().iter().all(|secret| has(&bytes_of(&source), secret)));
    for compression in [Compression::Plain, Compression::Compressed] {
        let fields = ["User.Name", "User.Short", "Pin", "Sid"];
        let relogger = Relogger::new().compression(compression).overwrite(true);
        let relogger = fields.iter().fold(relogger, |relogger, field| {
            relogger.redact(format!("contoso/Login.{field}").parse().unwrap())
        });
        let mut trace = Trace::open_file(&source).unwrap();
        let relogged = relogger.write(&mut trace, &output).unwrap();
        assert_eq!((relogged.redacted, relogged.blanked), (vec![150; 4], 0));
        let bytes = bytes_of(&output);
        secrets().iter().for_each(|secret| assert!(!has(&bytes, secret), "{secret:?}"));
        let mut trace = Trace::open_file(&output).unwrap();
        let mut number = 0;
        trace
            .for_each_event(|event| {
                if event.record.provider_id() != Guid::from_provider_name("Contoso") {
                    return;
                }
                assert_eq!(event.get::<u32>("Before").unwrap(), number);
                assert_eq!(event.get::<String>("After").unwrap(), format!("after {number}"));
                let text = |path: &str| event.find_path(path).unwrap().text().to_string();
                let found = ["User.Name", "User.Short", "Pin", "Sid"].map(text);
                let stars = "*".repeat(SECRET.len());
                let expected = match number % 4 {
                    3 => ["nobody", "nobody", "7", "S-1-5-18"],
                    _ => [stars.as_str(), &stars, "0", "S-1-0-0-0-0-0"],
                };
                assert_eq!(found, expected);
                number += 1;
            })
            .unwrap();
        assert_eq!(number, 200);
    }
}

#[test]
fn classic_events_are_named_by_class_type_or_both() {
    let directory = tempfile::tempdir().unwrap();
    let (source, output) = (directory.path().join("a.etl"), directory.path().join("b.etl"));
    let clock = Clock::new(ClockType::Qpc, Ticks(1000), FileTime(133_000_000_000_000_000), 10_000_000);
    let mut writer =
        EtlWriter::new(fs::File::create(&source).unwrap(), WriterOptions::new(clock, 8192, 1)).unwrap();
    // Process/Start and Process/End: keys and ids, no SID, two names.
    for hook in [0x0301, 0x0302] {
        let payload =
            [&[0; 40][..], b"app\0", &wide(&format!("{SECRET}\0")), &wide("\0"), &wide("\0")].concat();
        let record = RecordBuilder::system(PointerSize::Eight, HookId(hook), 4).time(Ticks(2000));
        writer.write(0, &record.payload(&payload).build().unwrap()).unwrap();
    }
    writer.finish(FileTime(0)).unwrap();
    let redacted = |redaction: &str| {
        let relogger = Relogger::new().overwrite(true).allow_absent(true).redact(redaction.parse().unwrap());
        relogger.write(&mut Trace::open_file(&source).unwrap(), &output).unwrap().redacted
    };
    for (redaction, events) in [
        ("Process/*.CommandLine", 2),
        ("Process/Start.CommandLine", 1),
        ("process/1.CommandLine", 1),
        ("Process/Process/End.CommandLine", 1),
        ("Process/DCEnd.CommandLine", 0),
    ] {
        assert_eq!(redacted(redaction), [events], "{redaction}");
    }
    let named = |expression: &str| {
        let mut count = 0;
        let filter = EventFilter::default().expression(expression).unwrap();
        let mut trace = Trace::builder().file(&source).filter(&filter).open().unwrap();
        trace.for_each_record(|_| count += 1).unwrap();
        count
    };
    for (expression, events) in [
        ("event == Process", 2),
        ("event == start", 1),
        ("event == 'Process/End'", 1),
        ("event startswith 'Process/'", 2),
        ("class == Process and event != Start", 1),
        ("event == 'Thread/Start'", 0),
    ] {
        assert_eq!(named(expression), events, "{expression}");
    }
}

#[test]
fn records_of_the_first_buffer_are_redacted_too() {
    let directory = tempfile::tempdir().unwrap();
    let (source, output) = (directory.path().join("a.etl"), directory.path().join("b.etl"));
    let clock = Clock::new(ClockType::Qpc, Ticks(1000), FileTime(133_000_000_000_000_000), 10_000_000);
    // EventTrace/BuildInfo.
    let build = RecordBuilder::system(PointerSize::Eight, HookId(0x0042), 2).time(Ticks(1000));
    let build = build.payload(format!("{SECRET}\0").as_bytes()).build().unwrap();
    let mut options = WriterOptions::new(clock, 8192, 1);
    options.records.others = vec![build];
    EtlWriter::new(fs::File::create(&source).unwrap(), options).unwrap().finish(FileTime(0)).unwrap();
    assert!(has(&bytes_of(&source), SECRET.as_bytes()));
    let relogger = Relogger::new().redact("EventTrace/BuildInfo.BuildString".parse().unwrap());
    let relogged = relogger.write(&mut Trace::open_file(&source).unwrap(), &output).unwrap();
    assert_eq!(relogged.redacted, [1]);
    let bytes = bytes_of(&output);
    assert!(!has(&bytes, SECRET.as_bytes()) && has(&bytes, "*".repeat(SECRET.len()).as_bytes()));
}

#[test]
fn what_cannot_be_decoded_is_blanked() {
    let directory = tempfile::tempdir().unwrap();
    let (source, output) = (directory.path().join("a.etl"), directory.path().join("b.etl"));
    let provider = Guid::from_u128(0x1234);
    let clock = Clock::new(ClockType::Qpc, Ticks(1000), FileTime(133_000_000_000_000_000), 10_000_000);
    let mut writer =
        EtlWriter::new(fs::File::create(&source).unwrap(), WriterOptions::new(clock, 8192, 1)).unwrap();
    for id in [1, 2] {
        let descriptor = EventDescriptor { id, ..EventDescriptor::default() };
        let record = RecordBuilder::event(PointerSize::Eight, provider, &descriptor).time(Ticks(2000));
        writer.write(0, &record.payload(SECRET.as_bytes()).build().unwrap()).unwrap();
    }
    writer.finish(FileTime(0)).unwrap();
    let mut trace = Trace::open_file(&source).unwrap();
    let redaction = format!("{provider}/1.Anything").parse().unwrap();
    // Fails if no event is known to have the field.
    let relogger = Relogger::new().redact(redaction);
    let refused = relogger.write(&mut trace, &output).unwrap_err();
    assert!(matches!(refused, RelogError::NothingToRedact { .. }), "{refused}");
    assert!(!output.exists());
    let relogged = relogger.allow_absent(true).write(&mut trace, &output).unwrap();
    assert_eq!((relogged.redacted, relogged.blanked), (vec![0], 1));
    let mut payloads = Vec::new();
    let mut trace = Trace::open_file(&output).unwrap();
    trace
        .for_each_record(|record| {
            if record.provider_id() == provider {
                payloads.push(record.payload().to_vec());
            }
        })
        .unwrap();
    assert_eq!(payloads, [vec![0; SECRET.len()], SECRET.as_bytes().to_vec()]);
}
