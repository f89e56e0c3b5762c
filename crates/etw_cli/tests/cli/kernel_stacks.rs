//! `etw record --stackwalk`: the stacks of the system's events.

use std::collections::{BTreeMap, HashMap};
use std::process::Command;

use object::{Object, ObjectSegment, ObjectSymbol};
use serde_json::Value;

use crate::kernel::{KERNEL, events, field, kind, record_with};
use crate::kernel_images::{compile, number};
use crate::kernel_providers::{seconds, time};
use crate::{Etw, json_lines};

/// Functions that call each other, the last of which works for a second; some of them through the C library.
const CHAIN: &str = r#"
    #include <stdlib.h>
    #include <time.h>
    #define N __attribute__((noinline))
    volatile long sink;
    static double now(void) {
        struct timespec time;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return time.tv_sec + time.tv_nsec / 1e9;
    }
    N long f12(long count) {
        long sum = 0;
        for (long i = 0; i < count; i++) { sum += i * i; sink = sum; }
        return sum;
    }
    N int f11(const void *one, const void *other) {
        int result = f12(100000);
        sink += result;
        return (*(int *)one > *(int *)other) + (result & 0);
    }
    N long f10(long count) { int numbers[] = {3, 2, 1}; qsort(numbers, 3, sizeof(int), f11); return sink += count; }
    #define F(name, next) N long name(long n) { volatile char room[100]; room[n & 63] = 1; sink += next(n); return sink + room[0]; }
    F(f9, f10) F(f8, f9) F(f7, f8) F(f6, f7) F(f5, f6) F(f4, f5) F(f3, f4) F(f2, f3) F(f1, f2)
    int main(void) {
        for (double end = now() + 0.7; now() < end;) f1(1);
        return sink == 1;
    }"#;

const RUST_CHAIN: &str = r#"
    use std::hint::black_box;
    #[unsafe(no_mangle)] #[inline(never)]
    pub fn f12(count: u64) -> u64 { (0..count).fold(0, |sum, i| black_box(sum + i * i)) }
    #[unsafe(no_mangle)] #[inline(never)]
    pub fn f11(one: &u64, other: &u64) -> std::cmp::Ordering { black_box(f12(black_box(100000))); one.cmp(other) }
    #[unsafe(no_mangle)] #[inline(never)]
    pub fn f10(n: u64) -> u64 { let mut numbers = black_box(vec![3, 2, n]); numbers.sort_by(f11); numbers[0] }
    macro_rules! chain { ($($name:ident $next:ident)*) => { $(
        #[unsafe(no_mangle)] #[inline(never)]
        pub fn $name(n: u64) -> u64 { let room = black_box([n; 20]); $next(n) + black_box(room)[3] }
    )* } }
    chain! { f9 f10 f8 f9 f7 f8 f6 f7 f5 f6 f4 f5 f3 f4 f2 f3 f1 f2 }
    fn main() {
        for _ in 0..3000 { black_box(f1(1)); }
    }"#;

/// The functions of a program, by where they are from its lowest address on.
pub(crate) struct Functions(BTreeMap<u64, (u64, String)>);

impl Functions {
    pub(crate) fn from_program(program: &str) -> Functions {
        let bytes = std::fs::read(program).unwrap();
        let file = object::File::parse(&bytes[..]).unwrap();
        let base = file.segments().map(|segment| segment.address()).min().unwrap() & !0xFFF;
        let symbols = file.symbols().filter(|symbol| symbol.size() > 0);
        let place = |symbol: object::Symbol<'_, '_>| {
            let end = symbol.address() - base + symbol.size();
            (symbol.address() - base, (end, symbol.name().unwrap().to_owned()))
        };
        Functions(symbols.map(place).collect())
    }

    pub(crate) fn at(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.0.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }
}

/// The stacks of a process's events of one kind, each as the functions of its program.
fn stacks(events: &[Value], wanted: &str, program: &str) -> Vec<Vec<String>> {
    let load = events
        .iter()
        .find(|event| kind(event) == "Image/Load" && field(event, "FileName") == program)
        .unwrap();
    let (process, base) = (number(load, "ProcessId"), number(load, "ImageBase"));
    let functions = Functions::from_program(program);
    let mut last: HashMap<u64, &Value> = HashMap::new();
    let mut stacks = Vec::new();
    for event in events {
        let processor = event["System"]["Execution"]["ProcessorID"].as_u64().unwrap();
        if kind(event) != "StackWalk/Stack" {
            last.insert(processor, event);
            continue;
        }
        if kind(last[&processor]) != wanted || number(event, "StackProcess") != process {
            continue;
        }
        let frames = event["EventData"]["Stack"].as_array().unwrap();
        let addresses = frames
            .iter()
            .map(|frame| u64::from_str_radix(frame.as_str().unwrap().trim_start_matches("0x"), 16).unwrap());
        // A return address may be after the end of its function.
        let inside = addresses.enumerate().map(|(depth, address)| address - u64::from(depth > 0));
        let inside = inside.filter_map(|address| functions.at(address.checked_sub(base)?));
        stacks.push(inside.map(str::to_owned).collect());
    }
    stacks
}

/// Checks that of the stacks with the innermost function 99 of 100 have the whole chain.
fn chains_are_whole(stacks: &[Vec<String>], what: &str) {
    let chain: Vec<String> = (1..=12).rev().map(|number| format!("f{number}")).collect();
    let ours: Vec<_> = stacks.iter().filter(|stack| stack.iter().any(|name| name == "f12")).collect();
    let is_whole = |stack: &&&Vec<String>| {
        let start = stack.iter().position(|name| name == "f12").unwrap();
        let named: Vec<_> =
            stack[start..].iter().filter(|name| name.starts_with('f') && name.len() < 4).collect();
        named.iter().copied().eq(&chain) && stack.iter().any(|name| name.contains("main"))
    };
    let whole = ours.iter().filter(is_whole).count();
    println!("{what}: {whole} of {} stacks are whole", ours.len());
    assert!(ours.len() > 50, "{what}: {} samples", ours.len());
    let other = ours.iter().find(|stack| !is_whole(stack));
    assert!(whole * 100 >= ours.len() * 99, "{what}: {whole} of {}; {other:?}", ours.len());
}

fn record_chain(etw: &Etw, program: &str, what: &str) {
    if record_with(etw, &["-k", "PROC_THREAD+LOADER+PROFILE"], &[program]).is_some() {
        chains_are_whole(&stacks(&events(etw), "PerfInfo/SampleProfile", program), what);
    }
}

#[test]
fn stacks_without_frame_pointers_are_whole() {
    let etw = Etw::new();
    for (name, option) in [("without", "-fomit-frame-pointer"), ("with", "-fno-omit-frame-pointer")] {
        let Some(program) = compile(&etw, name, CHAIN, &["-O2", "-fno-optimize-sibling-calls", option])
        else {
            return;
        };
        record_chain(&etw, &program, option);
    }
}

#[test]
fn stacks_of_rust_are_whole() {
    let etw = Etw::new();
    let (source, program) = (etw.path("chain.rs"), etw.path("chain"));
    std::fs::write(&source, RUST_CHAIN).unwrap();
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let Ok(status) = Command::new(rustc).args(["--edition=2024", "-O", "-o", &program, &source]).status()
    else {
        etw_testkit::skip!("there is no rustc");
        return;
    };
    assert!(status.success());
    record_chain(&etw, &program, "Rust");
}

/// Five frames of 20 KB each, and what works inside of them.
const DEEP: &str = r#"
    #include <alloca.h>
    #include <time.h>
    volatile long sink;
    #if defined UNKNOWN && defined __x86_64__
    /* No file has unwind information for it. */
    void work(void);
    __asm__(".text\n.globl work\nwork: mov $1000000000, %rax\n1: dec %rax\njnz 1b\nret\n");
    #else
    __attribute__((noinline)) void work(void) {
        #ifdef ALIGNED
        /* Memory of any size behind an alignment: the frame is found by an expression. */
        _Alignas(64) volatile char aligned[64];
        volatile char *more = alloca(sink + 100);
        sink += aligned[0] = more[0] = 1;
        #endif
        struct timespec time;
        do {
            for (long i = 0; i < 100000; i++) sink += i;
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        } while (time.tv_sec * 1000000000L + time.tv_nsec < 300000000);
    }
    #endif
    __attribute__((noinline)) long deep(int n) {
        volatile char room[20000];
        room[n] = 1;
        if (n) sink += deep(n - 1);
        else work();
        return sink + room[n];
    }
    int main(void) { return deep(4) == 1; }"#;

/// Samples of the program's deep part, and the warning of stacks that were cut, if there is one.
fn record_deep(options: &[&str]) -> Option<(Vec<Vec<String>>, String)> {
    let etw = Etw::new();
    let program = compile(&etw, "deep", DEEP, options)?;
    let output = record_with(&etw, &["-k", "PROC_THREAD+LOADER+PROFILE"], &[&program])?;
    let said = String::from_utf8(output.stderr).unwrap();
    let warning = said.lines().find(|line| line.contains(" stacks of programs are cut"));
    let mut stacks = stacks(&events(&etw), "PerfInfo/SampleProfile", &program);
    stacks.retain(|stack| stack.iter().any(|name| name == "deep"));
    Some((stacks, warning.unwrap_or_default().to_owned()))
}

/// Number of attempts: a processor of a virtual machine may pause for a tenth of a second, and with it the thread that
/// loads unwind rules, but hardly three times in a row.
const ATTEMPTS: usize = 3;

fn has_main(stack: &[String]) -> bool {
    stack.iter().any(|name| name == "main")
}

#[test]
fn stacks_are_whole_however_deep_they_are() {
    for option in ["-DPLAIN", "-DALIGNED"] {
        let mut found = Vec::new();
        let is_good = (0..ATTEMPTS).any(|_| {
            let Some((stacks, _)) = record_deep(&["-O1", "-fomit-frame-pointer", option]) else {
                return true;
            };
            assert!(stacks.len() > 50, "{option}: {stacks:?}");
            // The first ones are what the others are learnt from.
            let whole = stacks.iter().filter(|stack| has_main(stack)).count();
            found.push((whole, stacks.len()));
            whole * 100 >= stacks.len() * 90 || !cfg!(target_arch = "x86_64")
        });
        println!("{option}: whole of all stacks: {found:?}");
        assert!(is_good, "{option}: {found:?}");
    }
}

#[test]
fn stacks_that_are_cut_are_counted() {
    let mut found = Vec::new();
    let is_good = (0..ATTEMPTS).any(|_| {
        let Some((stacks, line)) = record_deep(&["-O1", "-fomit-frame-pointer", "-DUNKNOWN"]) else {
            return true;
        };
        let cut: u64 = line.split_whitespace().find_map(|word| word.parse().ok()).expect(&line);
        let of_program = stacks.iter().filter(|stack| !has_main(stack)).count() as u64;
        assert!(of_program > 20 && cut >= of_program, "{line}: {stacks:?}");
        // Pages of a stack that were never used are no end of it. Where a ring is half full, less is copied than a frame
        // has.
        let is_followed = |stack: &&Vec<String>| stack.iter().filter(|name| *name == "deep").count() >= 2;
        let followed = stacks.iter().filter(is_followed).count() as u64;
        found.push((followed, of_program));
        followed * 100 >= of_program * 90
    });
    assert!(is_good, "{found:?}");
}

#[test]
fn stacks_that_are_deeper_than_what_is_recorded_are_counted() {
    let etw = Etw::new();
    let source = r#"
        #include <time.h>
        volatile long sink;
        __attribute__((noinline)) void work(void) {
            struct timespec time;
            do {
                for (long i = 0; i < 100000; i++) sink += i;
                clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
            } while (time.tv_sec * 1000000000L + time.tv_nsec < 300000000);
        }
        __attribute__((noinline)) long deeper(int n) {
            if (n) sink += deeper(n - 1);
            else work();
            return sink + n;
        }
        int main(void) { return deeper(500) == 1; }"#;
    let Some(program) = compile(&etw, "deeper", source, &["-O1", "-fomit-frame-pointer"]) else { return };
    let Some(output) = record_with(&etw, &["-k", "PROC_THREAD+LOADER+PROFILE"], &[&program]) else { return };
    let said = String::from_utf8(output.stderr).unwrap();
    let line = said
        .lines()
        .find(|line| line.contains(" stacks of programs have more than 192 frames"))
        .expect(&said);
    let counted: u64 = line.split_whitespace().find_map(|word| word.parse().ok()).expect(line);
    let report = etw.ok(&["report", "k.etl", "--table", "functions"]);
    let note = report.lines().find(|line| line.contains("as deep as a trace records")).expect(&report);
    let noted: u64 = note.split_whitespace().find_map(|word| word.parse().ok()).expect(note);
    // Samples while a rule is learnt are cut for another reason.
    assert!(noted > 50 && counted >= noted, "{line}: {note}");
}

#[test]
fn any_event_may_have_its_stack() {
    let etw = Etw::new();
    // Writes to a pipe wake its reader, which waits.
    let source = r#"
        #include <unistd.h>
        #include <time.h>
        #include <sys/wait.h>
        #define N __attribute__((noinline))
        volatile long sink;
        N void waits(void) { struct timespec time = {0, 1000000}; nanosleep(&time, 0); sink++; }
        N void outer(void) { waits(); sink++; }
        int main(void) { for (int i = 0; i < 50; i++) outer(); return 0; }"#;
    let Some(program) = compile(&etw, "waits", source, &["-O2", "-fomit-frame-pointer"]) else { return };
    let args = ["-k", "PROC_THREAD+LOADER+CSWITCH+DISPATCHER", "--stackwalk", "CSwitch+ThreadDelete"];
    let Some(_) = record_with(&etw, &args, &[&program]) else { return };
    let events = events(&etw);
    let waits = stacks(&events, "Thread/CSwitch", &program);
    let is_wait = |stack: &&Vec<String>| stack.starts_with(&["waits".into(), "outer".into(), "main".into()]);
    let count = waits.iter().filter(is_wait).count();
    assert!(count >= 50, "{count} of {waits:?}");
    // Nothing else has one.
    assert!(stacks(&events, "Thread/ReadyThread", &program).is_empty());
    assert_eq!(stacks(&events, "Process/End", &program).len(), 1);
}

#[test]
fn samples_are_taken_as_often_as_is_asked_for() {
    let etw = Etw::new();
    let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let apart = |interval: &str| {
        // Without stacks, which would be much at this rate.
        let args = ["-k", "PROFILE", "--stackwalk", "CSwitch", "--sample-interval", interval];
        record_with(&etw, &args, &["sh", "-c", script])?;
        let events = events(&etw);
        let of = |wanted: &str| events.iter().filter(|event| kind(event) == wanted).collect::<Vec<_>>();
        for interval_event in ["PerfInfo/CollectionStart", "PerfInfo/CollectionEnd"] {
            let said = of(interval_event);
            assert_eq!(said.len(), 1, "{interval_event}");
            let units = if interval == "1ms" { 10_000 } else { 2_000 };
            assert_eq!(said[0]["EventData"]["NewInterval"], units);
        }
        let samples = of("PerfInfo/SampleProfile").into_iter();
        let on_first = samples.filter(|event| event["System"]["Execution"]["ProcessorID"] == 0);
        let times: Vec<f64> = on_first.map(|event| seconds(time(event))).collect();
        let mut apart: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        apart.sort_by(f64::total_cmp);
        Some(apart[apart.len() / 4])
    };
    let (Some(slow), Some(fast)) = (apart("1ms"), apart("200us")) else { return };
    assert!(slow > 0.0005 && fast < 0.0005, "a sample each {slow} s, and {fast} s");
    let (status, text) = etw.fails(&["record", "-k", "PROFILE", "--sample-interval", "50us", "--", "true"]);
    assert!(status == 2 && text.contains("every 100us to 1s"), "{text}");
    let (_, text) = etw.fails(&["record", "-k", "CSWITCH", "--stackwalk", "RegOpenKey", "--", "true"]);
    assert!(text.contains("`RegOpenKey` is not an event that can have a stack here"), "{text}");
}

#[test]
fn single_events_have_stacks_with_names_lines_and_offsets() {
    let etw = Etw::new();
    let options = ["-O1", "-g", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"];
    let Some(program) = compile(&etw, "named", CHAIN, &options) else { return };
    if record_with(&etw, &["-k", "PROC_THREAD+LOADER+PROFILE"], &[&program]).is_none() {
        return;
    }
    let dump = |args: &[&str]| json_lines(&etw.ok(&[&["dump", "k.etl", "--format", "json"], args].concat()));
    let events = dump(&["--provider", KERNEL, "--stacks"]);
    let is_ours = |frame: &&Value| frame["Module"] == "named" && frame["Inlined"].is_null();
    let ours = |event: &Value| -> Vec<String> {
        let frames = event["Stack"].as_array().into_iter().flatten().filter(is_ours);
        frames.filter_map(|frame| frame["Function"].as_str()).map(str::to_owned).collect()
    };
    let samples = events.iter().filter(|event| kind(event) == "PerfInfo/SampleProfile");
    let mut shown: Vec<Vec<String>> = samples.map(ours).filter(|stack| !stack.is_empty()).collect();
    // By the file alone.
    let mut expected = stacks(&events, "PerfInfo/SampleProfile", &program);
    expected.retain(|stack| !stack.is_empty());
    shown.sort();
    expected.sort();
    assert!(shown.len() > 50);
    assert_eq!(shown, expected);
    // Offsets are from the starts of the functions, and lines in the source.
    let is_load = |event: &&Value| kind(event) == "Image/Load" && field(event, "FileName") == program;
    let base = number(events.iter().find(is_load).unwrap(), "ImageBase");
    let functions = Functions::from_program(&program);
    let in_source = |frame: &Value| {
        frame["File"].as_str().is_some_and(|file| file.ends_with("named.c"))
            && frame["Line"].as_u64().is_some_and(|line| (1..40).contains(&line))
    };
    let all = || events.iter().flat_map(|event| event["Stack"].as_array().into_iter().flatten());
    let mut with_line = 0;
    for frame in all().filter(is_ours) {
        let (Some(function), Some(offset)) = (frame["Function"].as_str(), frame["Offset"].as_u64()) else {
            continue;
        };
        let address = frame["Address"].as_str().unwrap().trim_start_matches("0x");
        let start = u64::from_str_radix(address, 16).unwrap() - base - offset;
        assert_eq!(functions.0[&start].1, function, "{frame}");
        with_line += usize::from(in_source(frame));
    }
    assert!(with_line > 500, "{with_line}");
    // The kernel has names too.
    let is_kernel = |frame: &Value| frame["Module"].as_str().is_some_and(|name| name.starts_with("vmlinux"));
    assert!(all().any(|frame| is_kernel(frame) && frame["Function"].is_string() && frame["Offset"].is_u64()));
    let found = dump(&["--where", "stack contains 'named!F12'"]);
    assert_eq!(found.len(), shown.iter().filter(|stack| stack.iter().any(|name| name == "f12")).count());
}
