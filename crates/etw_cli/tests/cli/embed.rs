//! `etw merge --embed-symbols`: names in a trace of Windows, read without its PDB.

use std::fs::File;

use etw_kernel_events::classes::{
    BuildId, Image, ImageDebugId, ImageEvent, KernelEvent, Process, ProcessEvent, RecordBuffer, STILL_ACTIVE,
    SampledProfile, StackWalk, Stamp, Thread, ThreadEvent,
};
use etw_testkit::data::workspace_root;
use openetw::etl::encode::RecordBuilder;
use openetw::etl::{EtlWriter, WriterOptions};
use openetw::{Clock, ClockType, EventDescriptor, FileTime, Guid, Origin, PointerSize, Record, Ticks};
use serde_json::Value;

use crate::{Etw, json_lines};

const BASE: u64 = 0x7FF6_0000_0000;
const PROCESS: u32 = 10;
/// GUID and age of `shapes.pdb` in memory order; `etw_symbols` has the source, and tests of each address.
const SHAPES: [u8; 20] = [
    0xAD, 0x8E, 0xCA, 0x10, 0x51, 0xB3, 0xE5, 0x1A, 0x4C, 0x4C, 0x44, 0x20, 0x50, 0x44, 0x42, 0x2E, 1, 0, 0,
    0,
];

/// Writes a trace of Windows: samples with stacks in `shapes.exe`, whose PDB clang and lld made, and in a library
/// without symbols, and an event of a program with its stack.
fn write(path: &str) {
    let clock = Clock::new(ClockType::Qpc, Ticks(0), FileTime(133_000_000_000_000_000), 10_000_000);
    let mut writer =
        EtlWriter::new(File::create(path).unwrap(), WriterOptions::new(clock, 0x10000, 1)).unwrap();
    fn put(writer: &mut EtlWriter<File>, millis: i64, event: &impl KernelEvent) {
        let mut buffer = RecordBuffer::new();
        assert!(buffer.put(&Stamp::new(Ticks(millis * 10_000), PROCESS, PROCESS), event));
        let bytes: Vec<u8> = buffer.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        let origin = Origin::default();
        writer.write(0, Record::parse(&bytes, &origin, Ticks(0)).unwrap().as_bytes()).unwrap();
    }
    let process = Process {
        event: ProcessEvent::DcStart,
        key: 1,
        process_id: PROCESS,
        parent_id: 1,
        session_id: 0,
        exit_status: STILL_ACTIVE,
        uid: 0,
        image_file_name: b"shapes.exe",
        command_line: b"shapes.exe",
    };
    put(&mut writer, 0, &process);
    let thread = Thread {
        event: ThreadEvent::DcStart,
        process_id: PROCESS,
        thread_id: PROCESS,
        user_stack_base: 0,
        affinity: 0,
        start_address: 0,
        base_priority: 8,
        name: b"",
    };
    put(&mut writer, 0, &thread);
    for (base, file_name) in
        [(BASE, &br"\Device\HarddiskVolume3\bin\shapes.exe"[..]), (2 * BASE, br"\Windows\System32\other.dll")]
    {
        let (event, len_bytes, process_id) = (ImageEvent::Load, 0x5000, PROCESS);
        put(&mut writer, 1, &Image { event, base, len_bytes, process_id, build_id: None, file_name });
    }
    let build_id = BuildId::new(&SHAPES).unwrap();
    let file_name = br"D:\build\shapes.pdb";
    put(&mut writer, 1, &ImageDebugId { base: BASE, process_id: PROCESS, build_id, file_name });
    // Inlined functions, plain ones, code without debug information, padding, and another module.
    for (number, offset) in [0x1000_u64, 0x1006, 0x1010, 0x1019, 0x1094, 0x10E0].into_iter().enumerate() {
        let millis = 100 + number as i64;
        let instruction_pointer = BASE + offset;
        let sample =
            SampledProfile { instruction_pointer, thread_id: PROCESS, count: 1, ..SampledProfile::default() };
        put(&mut writer, millis, &sample);
        let frames = [instruction_pointer, BASE + 0x1035, 2 * BASE + 0x100, BASE + 0x1099];
        let event_time = Ticks(millis * 10_000);
        put(
            &mut writer,
            millis,
            &StackWalk { event_time, process_id: PROCESS, thread_id: PROCESS, frames: &frames },
        );
    }
    let provider = Guid::from_provider_name("Contoso-Shapes");
    let descriptor = EventDescriptor { id: 7, ..EventDescriptor::default() };
    let event = RecordBuilder::event(PointerSize::Eight, provider, &descriptor)
        .time(Ticks(2_000_000))
        .process(PROCESS, PROCESS)
        .stack(0, &[BASE + 0x10D2, BASE + 0x1063]);
    writer.write(0, &event.build().unwrap()).unwrap();
    writer.finish(clock.to_filetime(Ticks(3_000_000))).unwrap();
}

/// Returns what commands show that have names, of a trace with further arguments.
fn shown(etw: &Etw, trace: &str, symbols: &[&str]) -> Vec<String> {
    let commands: [&[&str]; 5] = [
        &["report", "--format", "folded"],
        &["report", "--table", "functions"],
        &["report", "--stacks", "events", "--format", "json", "--table", "functions"],
        &["report", "--tree", "top-down", "--min-percent", "0"],
        &["dump", "--stacks", "--format", "json"],
    ];
    let of = |command: &&[&str]| etw.ok(&[&command[..1], &[trace], &command[1..], symbols].concat());
    // The names are events too, in the file that has them; files have their own names, headers and numbers of events.
    let own = ["OpenETW.Symbols", "EventTrace/Header", ".etl: "];
    let is_other = |line: &&str| !own.iter().any(|own| line.contains(own));
    let of = |command: &&[&str]| of(command).lines().filter(is_other).collect::<Vec<_>>().join("\n");
    let mut shown: Vec<String> = commands.iter().map(of).collect();
    let report: Value = serde_json::from_str(&shown[2]).unwrap();
    shown[2] = report["tables"].to_string();
    let profile = format!("{trace}.{}.json", symbols.len());
    etw.ok(&[&["export", trace, "--format", "speedscope", "-o", &profile], symbols].concat());
    let profile = std::fs::read_to_string(etw.path(&profile)).unwrap();
    let profile: Value = serde_json::from_str(&profile).unwrap();
    shown.push(profile["shared"]["frames"].to_string());
    shown
}

#[test]
fn names_are_read_without_the_pdb() {
    let etw = Etw::new();
    write(&etw.path("plain.etl"));
    std::fs::create_dir(etw.path("symbols")).unwrap();
    let pdb = workspace_root().join("fuzz/seeds/pdb_symbols/shapes.pdb");
    std::fs::copy(pdb, etw.path("symbols/shapes.pdb")).unwrap();
    let with_pdb = shown(&etw, "plain.etl", &["--symbols", "symbols"]);
    let without = shown(&etw, "plain.etl", &[]);
    let output =
        etw.run(&["merge", "plain.etl", "-o", "named.etl", "--embed-symbols", "--symbols", "symbols"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("names of 9 addresses in 1 module embedded"), "{said}");
    assert!(said.contains("1 module without symbols"), "{said}");
    let embedded = shown(&etw, "named.etl", &[]);
    for ((with_pdb, without), embedded) in with_pdb.iter().zip(&without).zip(&embedded) {
        assert_eq!(embedded, with_pdb);
        assert_ne!(embedded, without);
        assert!(embedded.contains("shapes::run"), "{embedded}");
    }
    assert!(
        embedded[4].contains("shapes::Counter::bump") && embedded[4].contains("shapes.cpp"),
        "{}",
        embedded[4]
    );

    // Where the names are from, in the list and in the events, which any reader of TraceLogging decodes.
    let list = etw.ok(&["symbols", "named.etl"]);
    assert!(list.contains("shapes.exe  in the trace, from shapes.pdb"), "{list}");
    assert!(list.contains("Symbols of 1 of 2 modules are missing"), "{list}");
    let list: Value = serde_json::from_str(&etw.ok(&["symbols", "named.etl", "--format", "json"])).unwrap();
    let shapes = &list["modules"][0];
    assert_eq!(
        (&shapes["name"], &shapes["named_from"]),
        (&Value::from("shapes.exe"), &Value::from("shapes.pdb"))
    );
    assert_eq!(shapes["named_addresses"], shapes["addresses"]);
    let events =
        json_lines(&etw.ok(&["dump", "named.etl", "--provider", "OpenETW.Symbols", "--format", "json"]));
    let [event] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(event["EventData"]["Source"], "shapes.pdb");
    assert_eq!(event["EventData"]["ImagePath"], r"\Device\HarddiskVolume3\bin\shapes.exe");
    let texts = event["EventData"]["Texts"].as_array().unwrap();
    assert!(texts.contains(&Value::from("shapes::both")), "{texts:?}");

    // A filtered, compressed copy of a copy has them too.
    etw.ok(&["relog", "named.etl", "-o", "part.etl", "--where", "event == SampleProfile", "--compress"]);
    let folded = etw.ok(&["report", "part.etl", "--format", "folded"]);
    assert_eq!(folded.trim_end(), embedded[0]);
}

#[test]
fn nothing_is_embedded_without_symbols() {
    let etw = Etw::new();
    write(&etw.path("plain.etl"));
    let output = etw.run(&["merge", "plain.etl", "-o", "named.etl", "--embed-symbols"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("names of 0 addresses in 0 modules"), "{said}");
    assert!(said.contains("2 modules without symbols: `etw symbols` shows which"), "{said}");
}
