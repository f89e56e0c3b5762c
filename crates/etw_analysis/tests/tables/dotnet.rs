//! Events of .NET: names of methods, and its tables.

use std::path::Path;

use etw_analysis::{Analysis, StackNode, TableKind, Timeline};
use etw_consumer::TraceBuilder;
use etw_etl::encode::RecordBuilder;
use etw_event::{EventDescriptor, Guid, Opcode, PointerSize, Ticks};
use etw_kernel_events::classes::{BuildId, Image, ImageDebugId, ImageEvent};
use etw_machine::Window;
use etw_symbols::{PdbId, SymbolPath, Symbolizer};
use etw_tables::Cell;
use etw_testkit::portable_pdb::{self, IlPoint};

use crate::embedding::embedded;
use crate::machine::{Machine, check, micros, row, rows, text};
use crate::parts::{shown, tables};
use crate::samples::{sample, stack};

const RUNTIME: Guid = Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4);
const RUNDOWN: Guid = Guid::from_u128(0xa669021c_c450_4609_a035_5af59af4df18);
const IMAGE_ID: Guid = Guid::from_u128(0xb3e675d7_2554_4f18_830b_2762732560de);
const PROCESS: u32 = 10;
const INSTANCE: [u8; 2] = 9_u16.to_le_bytes();

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

/// Writes events of a process with the threads 10 and 11.
struct Clr(Machine);

impl Clr {
    fn new() -> Clr {
        let mut machine = Machine::default();
        machine.there_is(PROCESS, "app.exe");
        machine.thread(0, etw_kernel_events::classes::ThreadEvent::DcStart, 11, PROCESS, "");
        Clr(machine)
    }

    fn put(&mut self, micros: i64, thread: u32, provider: Guid, id: u16, version: u8, payload: &[&[u8]]) {
        let descriptor = EventDescriptor { id, version, ..EventDescriptor::default() };
        let record = RecordBuilder::event(PointerSize::Eight, provider, &descriptor).process(PROCESS, thread);
        let record = record.time(Ticks(micros * 10)).payload(&payload.concat());
        self.0.put_bytes(micros, 0, record.build().unwrap());
    }

    /// Adds an event with 32-bit fields and the runtime's number.
    fn numbers(&mut self, micros: i64, thread: u32, id: u16, version: u8, numbers: &[u32]) {
        let numbers: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.put(micros, thread, RUNTIME, id, version, &[&numbers, &INSTANCE]);
    }

    fn module(&mut self, micros: i64, provider: Guid, id: u16) {
        let ids = [7_u64.to_le_bytes(), 1_u64.to_le_bytes(), [0; 8]].concat();
        let path = wide(r"C:\bin\App.Core.dll");
        self.put(micros, 10, provider, id, 1, &[&ids, &path, &wide(""), &INSTANCE]);
    }

    /// Adds an event about a method of 256 bytes.
    fn method(&mut self, micros: i64, event: (Guid, u16), start: u64, name: &str, tier: u32) {
        let ids = [start / 3, 7, start].map(u64::to_le_bytes).concat();
        let numbers = [0x100_u32, 0x600_0001, 8 | tier << 7].map(u32::to_le_bytes).concat();
        let [space, name, signature] =
            ["My.Type", name, "instance void  (class System.String,int32)"].map(wide);
        let payload: [&[u8]; 6] = [&ids, &numbers, &space, &name, &signature, &INSTANCE];
        self.put(micros, 10, event.0, event.1, 1, &payload);
    }

    fn stack_walk(&mut self, micros: i64, thread: u32, addresses: &[u64]) {
        let count = (addresses.len() as u32).to_le_bytes();
        let addresses: Vec<u8> = addresses.iter().flat_map(|address| address.to_le_bytes()).collect();
        self.put(micros, thread, RUNTIME, 82, 0, &[&INSTANCE, &[0, 0], &count, &addresses]);
    }

    fn folded(self, tiers: bool) -> Vec<(String, u64)> {
        let report = self.0.report_of(100_000, Window::ALL, |options| {
            options.folded_stacks = true;
            options.tiers = tiers;
        });
        report.folded_stacks
    }
}

const LOAD: (Guid, u16) = (RUNTIME, 143);
const UNLOAD: (Guid, u16) = (RUNTIME, 144);
const AT_END: (Guid, u16) = (RUNDOWN, 144);

#[test]
fn code_has_the_name_of_the_method_that_was_there() {
    let mut clr = Clr::new();
    clr.module(100, RUNTIME, 152);
    clr.method(200, LOAD, 0x7000, "First", 3);
    let at = |clr: &mut Clr, micros: i64, frames: &[u64]| {
        sample(&mut clr.0, micros, 10, frames[0]);
        stack(&mut clr.0, [micros, micros], 10, frames);
    };
    // From before the trace; the return address after a call that ends the method is that of the next one.
    at(&mut clr, 1000, &[0x7010, 0x9100]);
    clr.method(2000, UNLOAD, 0x7000, "First", 3);
    clr.method(2500, LOAD, 0x7080, "Second", 4);
    at(&mut clr, 3000, &[0x7090, 0x9020]);
    at(&mut clr, 3100, &[0x7010]);
    // Removed without an event.
    clr.method(4000, LOAD, 0x7000, "Third", 0);
    at(&mut clr, 5000, &[0x7090]);
    clr.method(9000, AT_END, 0x9000, "Old", 0);
    clr.method(9001, AT_END, 0x7000, "Third", 0);
    let [first, second, third, old] = ["First", "Second", "Third", "Old"]
        .map(|name| format!("App.Core!My.Type.{name}(class System.String,int32)"));
    let single = |frames: &[&str]| frames.iter().map(|frame| (*frame).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        clr.0.clone().stacks("id == 0"),
        [
            (1000, single(&[&format!("{first}+0x10"), &format!("{old}+0x100")])),
            (3000, single(&[&format!("{second}+0x10"), &format!("{old}+0x20")])),
            (3100, single(&["0x7010"])),
            (5000, single(&[&format!("{third}+0x90")])),
        ]
    );
    let mut expected = vec![
        (format!("app.exe;{old};{first}"), 1),
        (format!("app.exe;{old};{second}"), 1),
        ("app.exe;0x7010".to_owned(), 1),
        (format!("app.exe;{third}"), 1),
    ];
    expected.sort();
    assert_eq!(clr.folded(false), expected);
}

#[test]
fn modules_and_tiers_can_come_later() {
    let mut clr = Clr::new();
    sample(&mut clr.0, 1000, 10, 0x9010);
    sample(&mut clr.0, 1100, 10, 0x7010);
    clr.method(9000, AT_END, 0x9000, "Old", 4);
    clr.method(9000, AT_END, 0x7000, "Jitted", 0);
    clr.module(9001, RUNDOWN, 154);
    let expected = [
        ("app.exe;App.Core!My.Type.Jitted(class System.String,int32)".to_owned(), 1),
        ("app.exe;App.Core![OptimizedTier1]My.Type.Old(class System.String,int32)".to_owned(), 1),
    ];
    let mut expected = expected.to_vec();
    expected.sort();
    assert_eq!(clr.folded(true), expected);
}

/// The PDB of `App.Core.dll`: rows 1 and 2 are methods.
fn pdb(guid: Guid) -> Vec<u8> {
    let point = |offset, line| IlPoint { offset, document: 1, line };
    let first = [point(0, Some(10)), point(5, None), point(9, Some(300))];
    let second = [point(0, Some(40)), point(3, Some(41))];
    portable_pdb::file(guid, &["/_/src/Core.cs"], &[&first, &second])
}

/// A source file and line, by address.
type Line = (u64, Option<String>, Option<u32>);

/// Returns the lines of the samples' functions. Those that are embedded in the trace must be the same.
fn lines_of(clr: Clr, symbols: &Path) -> Vec<Line> {
    let traces = clr.0.builder(100_000);
    let path: SymbolPath = symbols.to_str().unwrap().parse().unwrap();
    let symbolizer = Symbolizer::new().search(path);
    let lines = lines_in(&traces, &symbolizer);
    let (named, embedding) = embedded(traces.clone(), &symbolizer);
    assert_eq!(embedding.modules(), 1);
    assert_eq!(lines_in(&named, &Symbolizer::new()), lines);
    lines
}

fn lines_in(traces: &TraceBuilder, symbolizer: &Symbolizer) -> Vec<Line> {
    let mut trace = traces.clone().open().unwrap();
    let mut timeline = Timeline::first();
    trace.for_each_event(|event| _ = timeline.add(event, true)).unwrap();
    let survey = timeline.survey(symbolizer);
    let line = |node: StackNode<'_>| {
        let frame = node.frames.last().unwrap();
        (node.address, frame.file.clone(), frame.line)
    };
    let mut lines: Vec<_> = survey.stacks().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn lines_of_methods_by_maps_and_portable_pdbs() {
    const MODULE: u64 = 7;
    let guid = Guid::from_u128(0x1234);
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("App.Core.pdb"), pdb(guid)).unwrap();
    let of_module = |clr: &mut Clr, micros, provider, id, path: &str| {
        let ids = [MODULE.to_le_bytes(), 1_u64.to_le_bytes(), [0; 8]].concat();
        let pdb = [&guid.to_bytes()[..], &1_u32.to_le_bytes(), &wide("/_/obj/App.Core.pdb")].concat();
        let none = [&[0; 20][..], &wide("")].concat();
        clr.put(micros, 10, provider, id, 2, &[&ids, &wide(path), &wide(""), &INSTANCE, &pdb, &none]);
    };
    let method = |clr: &mut Clr, micros, event: (Guid, u16), start: u64, token: u32, tier: u32| {
        let ids = [u64::from(token), MODULE, start].map(u64::to_le_bytes).concat();
        let numbers = [0x100, token, 8 | tier << 7].map(u32::to_le_bytes).concat();
        let payload: [&[u8]; 6] =
            [&ids, &numbers, &wide("My.Type"), &wide("M"), &wide("void  ()"), &INSTANCE];
        clr.put(micros, 10, event.0, event.1, 1, &payload);
    };
    let map = |clr: &mut Clr, micros, event: (Guid, u16), token: u32, entries: &[(i32, u32)]| {
        let ids = [u64::from(token), 0].map(u64::to_le_bytes).concat();
        let count = (entries.len() as u16).to_le_bytes();
        let il: Vec<u8> = entries.iter().flat_map(|(il, _)| il.to_le_bytes()).collect();
        let native: Vec<u8> = entries.iter().flat_map(|(_, native)| native.to_le_bytes()).collect();
        clr.put(micros, 10, event.0, event.1, 0, &[&ids, &[0], &count, &il, &native, &INSTANCE]);
    };
    let (loaded, at_end) = ((RUNTIME, 190), (RUNDOWN, 150));
    let mut clr = Clr::new();
    of_module(&mut clr, 100, RUNTIME, 152, r"C:\bin\App.Core.dll");
    // Two versions of the code of one method, each with its own map; entries in no order.
    method(&mut clr, 200, LOAD, 0x7000, 0x600_0001, 3);
    map(&mut clr, 201, loaded, 0x600_0001, &[(-2, 0), (9, 0x40), (0, 8), (5, 0x20), (-3, 0x80)]);
    method(&mut clr, 300, LOAD, 0x8000, 0x600_0001, 4);
    map(&mut clr, 301, loaded, 0x600_0001, &[(0, 0), (9, 4)]);
    // One without a map, and one of another thread's.
    method(&mut clr, 400, LOAD, 0x9000, 0x600_0002, 0);
    for address in [0x7004, 0x7010, 0x7028, 0x7050, 0x7090, 0x8003, 0x8004, 0x9010, 0xA010] {
        sample(&mut clr.0, 1000 + address / 0x10, 10, address as u64);
    }
    // The module's later event has no PDB; the rundown describes the map before the method.
    clr.module(9000, RUNDOWN, 154);
    map(&mut clr, 9001, at_end, 0x600_0002, &[(0, 0), (3, 0x10)]);
    method(&mut clr, 9002, AT_END, 0xA000, 0x600_0002, 0);
    let source = Some("/_/src/Core.cs".to_owned());
    let line = |address, line| (address, source.clone(), Some(line));
    let expected = [
        line(0x7004, 10),
        line(0x7010, 10),
        // Hidden code.
        line(0x7028, 10),
        line(0x7050, 300),
        line(0x7090, 300),
        line(0x8003, 10),
        line(0x8004, 300),
        (0x9010, None, None),
        line(0xA010, 41),
    ];
    assert_eq!(lines_of(clr, directory.path()), expected);
}

#[test]
fn assemblies_whose_pdbs_are_needed() {
    let guid = Guid::from_u128(0x77);
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("Core.pdb"), pdb(guid)).unwrap();
    let made = || {
        let mut clr = Clr::new();
        // The runtime's event does not say which PDB the module has, but the image of its file does, and that it is a
        // portable one.
        let base = 0x50_0000;
        let image = Image {
            event: ImageEvent::Load,
            base,
            len_bytes: 0x8000,
            process_id: PROCESS,
            build_id: None,
            file_name: br"\Device\HarddiskVolume3\bin\App.Core.dll",
        };
        clr.0.put(10, 0, &image);
        let build_id = [&guid.to_bytes()[..], &1_u32.to_le_bytes()].concat();
        let build_id = BuildId::new(&build_id).unwrap();
        clr.0.put(11, 0, &ImageDebugId { base, process_id: PROCESS, build_id, file_name: b"Core.pdb" });
        let descriptor = EventDescriptor { opcode: Opcode(38), version: 2, ..EventDescriptor::default() };
        let portable = RecordBuilder::full(PointerSize::Eight, IMAGE_ID, &descriptor);
        let payload = [&base.to_le_bytes()[..], &PROCESS.to_le_bytes(), &[0; 4], &[0, 1], b"MP"].concat();
        let portable = portable.time(Ticks(120)).payload(&payload).build().unwrap();
        clr.0.put_bytes(12, 0, portable);
        clr.module(100, RUNTIME, 152);
        clr.method(200, LOAD, 0x7000, "M", 0);
        let ids = [0x7000_u64 / 3, 0].map(u64::to_le_bytes).concat();
        let map = [&[0, 1, 0][..], &[0; 4], &[0; 4]].concat();
        clr.put(201, 10, RUNTIME, 190, 0, &[&ids, &map, &INSTANCE]);
        sample(&mut clr.0, 1000, 10, 0x7010);
        clr
    };
    let mut analysis = Analysis::new(Window::ALL);
    made().0.trace(100_000).for_each_event(|event| analysis.add(event)).unwrap();
    let modules = analysis.modules();
    let [module] = modules.as_slice() else { panic!("{modules:?}") };
    assert!(module.is_managed && module.name() == "App.Core.dll", "{module:?}");
    assert_eq!((module.samples, module.stacks), (1, 1));
    let pdb = module.windows.as_ref().unwrap().pdb.as_ref().unwrap();
    assert_eq!((pdb.name(), pdb.guid, pdb.age), ("Core.pdb", guid, PdbId::PORTABLE));
    let expected = (0x7010, Some("/_/src/Core.cs".to_owned()), Some(10));
    assert_eq!(lines_of(made(), directory.path()), [expected]);
}

#[test]
fn pauses_of_collections() {
    let mut clr = Clr::new();
    // A blocking collection, whose start is logged in two versions.
    clr.numbers(1000, 10, 9, 1, &[1, 0]);
    clr.numbers(1100, 10, 8, 1, &[]);
    clr.numbers(1200, 10, 1, 1, &[1, 0, 0, 0]);
    clr.numbers(1300, 10, 1, 1, &[1, 0, 0, 0]);
    clr.numbers(1900, 10, 2, 1, &[1, 1]);
    clr.numbers(2000, 10, 3, 1, &[]);
    // A background one, with a young one in its first pause.
    clr.numbers(3000, 10, 9, 1, &[1, 1]);
    clr.numbers(3050, 10, 8, 1, &[]);
    clr.numbers(3100, 10, 1, 1, &[2, 2, 4, 1]);
    clr.numbers(3200, 10, 1, 1, &[3, 0, 4, 0]);
    clr.numbers(3300, 10, 2, 1, &[3, 0]);
    clr.numbers(3400, 10, 3, 1, &[]);
    // Its second pause, on its own thread; the restart of another thread does not end it.
    clr.numbers(4000, 11, 9, 1, &[6, 2]);
    clr.numbers(4010, 11, 8, 1, &[]);
    clr.numbers(4020, 10, 3, 1, &[]);
    clr.numbers(4070, 11, 3, 1, &[]);
    clr.numbers(5000, 11, 2, 1, &[2, 2]);
    let sizes = [100_u64, 10, 200, 20, 300, 30, 400, 40, 0, 0].map(u64::to_le_bytes).concat();
    clr.put(5001, 11, RUNTIME, 4, 1, &[&sizes, &[0; 12], &INSTANCE]);
    // A suspension for something else.
    clr.numbers(6000, 10, 9, 1, &[4, 2]);
    clr.numbers(7000, 10, 3, 1, &[]);
    let report = clr.0.report(10_000);
    let gc = |number| row(&report, TableKind::Gc, "number", &Cell::Id(number));
    check(
        &gc(1),
        &[("generation", Cell::Id(1)), ("type", text("NonConcurrentGC")), ("reason", text("AllocSmall"))],
    );
    check(
        &gc(1),
        &[("pause_ns", micros(1000)), ("suspension_ns", micros(100)), ("duration_ns", micros(700))],
    );
    check(
        &gc(2),
        &[
            ("pause_ns", micros(200 + 70)),
            ("suspension_ns", micros(50 + 10)),
            ("after_bytes", Cell::Bytes(1000)),
        ],
    );
    check(
        &gc(2),
        &[
            ("promoted_bytes", Cell::Bytes(100)),
            ("loh_after_bytes", Cell::Bytes(400)),
            ("poh_after_bytes", Cell::None),
        ],
    );
    check(&gc(2), &[("type", text("BackgroundGC")), ("before_bytes", Cell::None)]);
    check(&gc(3), &[("pause_ns", micros(200)), ("suspension_ns", micros(0)), ("after_bytes", Cell::None)]);
    let all = row(&report, TableKind::GcProcesses, "process_id", &Cell::Id(10));
    check(&all, &[("count", Cell::Count(3)), ("gen0", Cell::Count(1)), ("gen2", Cell::Count(1))]);
    check(
        &all,
        &[("pause_ns", micros(1470)), ("max_pause_ns", micros(1000)), ("mean_pause_ns", micros(490))],
    );
    let Cell::Percent(percent) = all["pause_percent"] else { panic!("{all:?}") };
    assert!((percent - 14.7).abs() < 0.01, "{percent}");
}

#[test]
fn stacks_belong_to_the_event_before_of_their_thread() {
    let mut clr = Clr::new();
    clr.method(100, LOAD, 0x7000, "Caller", 0);
    let tick = |clr: &mut Clr, micros, thread, bytes: u64, name: &str| {
        let amount = [bytes as u32, 0].map(u32::to_le_bytes).concat();
        let rest = [bytes, 0].map(u64::to_le_bytes).concat();
        let payload: [&[u8]; 5] = [&amount, &INSTANCE, &rest, &wide(name), &[0; 12]];
        clr.put(micros, thread, RUNTIME, 10, 3, &payload);
    };
    let stack = [0x500_0000, 0x7011, 0x7021];
    tick(&mut clr, 1000, 10, 100_000, "System.String");
    tick(&mut clr, 1001, 11, 5, "System.Object");
    clr.stack_walk(1002, 10, &stack);
    tick(&mut clr, 2000, 10, 200_000, "System.String");
    clr.stack_walk(2001, 10, &stack);
    // The stack of the first of two events is missing.
    tick(&mut clr, 3000, 10, 7, "System.Byte[]");
    let exception =
        [wide("System.IO.IOException"), wide("disk full"), vec![0; 8 + 4 + 2], INSTANCE.to_vec()].concat();
    clr.put(3001, 10, RUNTIME, 80, 1, &[&exception]);
    clr.stack_walk(3002, 10, &[0x7011]);
    let report = clr.0.report(10_000);
    let caller = "?!My.Type.Caller(class System.String,int32)";
    let string = row(&report, TableKind::Allocations, "type", &text("System.String"));
    check(&string, &[("count", Cell::Count(2)), ("bytes", Cell::Bytes(300_000)), ("heap", text("Small"))]);
    check(&string, &[("method", text(caller)), ("stack", text(&format!("{caller};{caller};0x4ffffff")))]);
    for name in ["System.Object", "System.Byte[]"] {
        let other = row(&report, TableKind::Allocations, "type", &text(name));
        check(&other, &[("count", Cell::Count(1)), ("method", Cell::None), ("stack", Cell::None)]);
    }
    let thrown = row(&report, TableKind::Exceptions, "type", &text("System.IO.IOException"));
    check(&thrown, &[("message", text("disk full")), ("method", text(caller)), ("count", Cell::Count(1))]);
}

#[test]
fn compilations_locks_and_thread_pools() {
    let mut clr = Clr::new();
    let begin = |clr: &mut Clr, micros, start: u64| {
        let ids = [start / 3, 7].map(u64::to_le_bytes).concat();
        let numbers = [0x600_0001_u32, 40].map(u32::to_le_bytes).concat();
        let names = [wide("My.Type"), wide("M"), wide("void ()")].concat();
        clr.put(micros, 10, RUNTIME, 145, 1, &[&ids, &numbers, &names, &INSTANCE]);
    };
    // One method is compiled while another one is.
    begin(&mut clr, 1000, 0x7000);
    begin(&mut clr, 1100, 0x8000);
    clr.method(1300, LOAD, 0x8000, "Inner", 0);
    clr.method(1500, LOAD, 0x7000, "Outer", 3);
    clr.put(2000, 10, RUNTIME, 283, 0, &[&INSTANCE, &[0; 4]]);
    begin(&mut clr, 2100, 0x9000);
    clr.method(2200, LOAD, 0x9000, "Hot", 4);
    clr.put(2300, 10, RUNTIME, 284, 0, &[&INSTANCE, &[0; 8]]);
    clr.method(2400, LOAD, 0xA000, "Unbegun", 0);
    // A wait of each thread, and one that does not end.
    for (time, thread, id) in [(3000, 10, 81), (3100, 11, 81), (3300, 10, 91), (3700, 11, 91), (3800, 10, 81)]
    {
        clr.put(time, thread, RUNTIME, id, u8::from(id == 81), &[&[0], &INSTANCE]);
    }
    clr.numbers(4000, 10, 50, 0, &[3, 0]);
    clr.put(4100, 10, RUNTIME, 61, 0, &[&5_u64.to_le_bytes(), &INSTANCE]);
    clr.put(4350, 11, RUNTIME, 62, 0, &[&5_u64.to_le_bytes(), &INSTANCE]);
    clr.put(4400, 10, RUNTIME, 55, 0, &[&[0; 8], &8_u32.to_le_bytes(), &6_u32.to_le_bytes(), &INSTANCE]);
    let report = clr.0.report(10_000);
    let compiled = |name: &str| {
        let name = format!("?!My.Type.{name}(class System.String,int32)");
        row(&report, TableKind::Jit, "method", &text(&name))
    };
    check(
        &compiled("Inner"),
        &[("time_ns", micros(200)), ("il_bytes", Cell::Bytes(40)), ("tier", Cell::None)],
    );
    check(
        &compiled("Outer"),
        &[("time_ns", micros(500)), ("native_bytes", Cell::Bytes(256)), ("background", text("no"))],
    );
    check(&compiled("Outer"), &[("tier", text("QuickJitted")), ("thread_id", Cell::Id(10))]);
    check(
        &compiled("Hot"),
        &[("time_ns", micros(100)), ("background", text("yes")), ("tier", text("OptimizedTier1"))],
    );
    check(
        &compiled("Unbegun"),
        &[("time_ns", Cell::None), ("il_bytes", Cell::None), ("background", text("no"))],
    );
    let locks = rows(&report, TableKind::Contention);
    check(
        &locks[0],
        &[
            ("kind", text("Managed")),
            ("count", Cell::Count(3)),
            ("time_ns", micros(900)),
            ("max_ns", micros(600)),
        ],
    );
    let pool = row(&report, TableKind::ThreadPool, "process_id", &Cell::Id(10));
    check(
        &pool,
        &[
            ("thread_starts", Cell::Count(1)),
            ("most_threads", Cell::Count(8)),
            ("starvations", Cell::Count(1)),
        ],
    );
    check(&pool, &[("enqueued", Cell::Count(1)), ("dequeued", Cell::Count(1)), ("max_ns", micros(250))]);
}

#[test]
fn events_of_a_runtime_are_rows() {
    let mut clr = Clr::new();
    // A collection whose start is logged in two versions.
    clr.numbers(1000, 10, 9, 1, &[1, 0]);
    clr.numbers(1100, 10, 8, 1, &[]);
    clr.numbers(1200, 10, 1, 1, &[1, 0, 0, 0]);
    clr.numbers(1300, 10, 1, 1, &[1, 0, 0, 0]);
    clr.numbers(1900, 10, 2, 1, &[1, 1]);
    let sizes = [100_u64, 10, 200, 20, 300, 30, 400, 40, 0, 0].map(u64::to_le_bytes).concat();
    clr.put(1901, 10, RUNTIME, 4, 1, &[&sizes, &[0; 12], &INSTANCE]);
    clr.numbers(2000, 10, 3, 1, &[]);
    // One method is compiled while another one is; a third one is not in the end.
    for (micros, start) in [(3000, 0x7000_u64), (3100, 0x8000), (3900, 0x9000)] {
        let ids = [start / 3, 7].map(u64::to_le_bytes).concat();
        let numbers = [0x600_0001_u32, 40].map(u32::to_le_bytes).concat();
        let names = [wide("My.Type"), wide("M"), wide("void ()")].concat();
        clr.put(micros, 10, RUNTIME, 145, 1, &[&ids, &numbers, &names, &INSTANCE]);
    }
    clr.method(3300, LOAD, 0x8000, "Inner", 0);
    clr.method(3500, LOAD, 0x7000, "Outer", 0);
    let amount = [100_000_u32, 0].map(u32::to_le_bytes).concat();
    let rest = [100_000_u64, 0].map(u64::to_le_bytes).concat();
    clr.put(4000, 11, RUNTIME, 10, 3, &[&amount, &INSTANCE, &rest, &wide("System.String"), &[0; 12]]);
    let thrown = [wide("System.IO.IOException"), wide("full"), vec![0; 8]].concat();
    clr.put(5000, 10, RUNTIME, 80, 1, &[&thrown, &0x8007_0070_u32.to_le_bytes(), &[0; 2], &INSTANCE]);
    for (micros, thread, id) in [(6000, 10, 81), (6100, 11, 81), (6300, 10, 91), (6800, 10, 81)] {
        clr.put(micros, thread, RUNTIME, id, u8::from(id == 81), &[&[0], &INSTANCE]);
    }
    clr.numbers(7000, 10, 50, 0, &[3, 0]);
    clr.put(7100, 10, RUNTIME, 55, 0, &[&2.5_f64.to_le_bytes(), &[8, 0, 0, 0, 0, 0, 0, 0], &INSTANCE]);
    clr.module(8000, RUNTIME, 152);
    clr.module(8100, RUNDOWN, 154);
    let index = tables(clr.0);
    let check = |table: &str, columns: &[&str], expected: &[&str]| {
        assert_eq!(shown(&index, table, columns), expected, "{table}");
    };
    check(
        "gc",
        &["start_time", "end_time", "duration", "process.name", "number", "generation", "type", "reason"],
        &["1200 1900 700 app.exe 1 1 NonConcurrentGC AllocSmall"],
    );
    check("gc", &["pause", "suspension", "size_after", "promoted"], &["1000 100 1000 100"]);
    check(
        "jit",
        &["start_time", "end_time", "duration", "type", "method", "il_size", "native_size", "address"],
        &[
            "3100 3300 200 My.Type M 40 256 32768",
            "3000 3500 500 My.Type M 40 256 28672",
            "3900 - - My.Type M 40 - -",
        ],
    );
    check(
        "allocations",
        &["time", "thread.thread_id", "type", "heap", "size"],
        &["4000 11 System.String Small 100000"],
    );
    check(
        "exceptions",
        &["time", "process.name", "type", "message", "hresult"],
        &["5000 app.exe System.IO.IOException full 2147942512"],
    );
    check(
        "contention",
        &["start_time", "end_time", "duration", "thread.thread_id", "lock"],
        &["6000 6300 300 10 Managed", "6100 - - 11 Managed", "6800 - - 10 Managed"],
    );
    check(
        "threadpool",
        &["time", "operation", "active_threads", "new_threads", "throughput"],
        &["7000 ThreadStart 3 - -", "7100 Adjustment - 8 2.5"],
    );
    check(
        "dotnet_modules",
        &["time", "operation", "path", "runtime"],
        &[r"8000 Load C:\bin\App.Core.dll 9", r"8100 Rundown C:\bin\App.Core.dll 9"],
    );
}

#[test]
fn damaged_events_are_ignored() {
    for id in [
        1, 2, 3, 4, 8, 9, 10, 50, 55, 61, 62, 80, 81, 82, 91, 142, 143, 144, 145, 149, 150, 152, 190, 204,
        283, 284,
    ] {
        for version in 0..4 {
            let mut clr = Clr::new();
            clr.numbers(500, 10, 9, 1, &[1, 0]);
            for len in [0, 1, 7, 13, 40] {
                clr.put(1000 + i64::from(len), 10, RUNTIME, id, version, &[&vec![0xFF; len as usize]]);
                clr.put(2000 + i64::from(len), 10, RUNDOWN, id, version, &[&vec![0xFF; len as usize]]);
            }
            sample(&mut clr.0, 3000, 10, 0x7010);
            assert_eq!(clr.folded(true), [("app.exe;0x7010".to_owned(), 1)]);
        }
    }
}
