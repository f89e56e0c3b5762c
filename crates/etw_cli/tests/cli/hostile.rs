//! A trace whose every text tries to act on the terminal: no command passes it on.

use std::fs::File;
use std::io::Read;
use std::process::{Output, Stdio};

use etw_kernel_events::classes::{
    FileIoName, Image, ImageEvent, NameEvent, Process, ProcessEvent, STILL_ACTIVE, SampledProfile, Thread,
    ThreadEvent,
};
use openetw::etl::encode::{EventMetadata, RecordBuilder, provider_traits};
use openetw::etl::{EtlWriter, WriterOptions};
use openetw::schema::text::is_disruptive;
use openetw::{Clock, ClockType, EventDescriptor, ExtendedType, FileTime, Guid, Level, PointerSize, Ticks};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::machines::Put;
use crate::{Etw, csv_rows, json_lines};

/// Sets the title, clears the screen by C0 and C1, and turns the text around; the last character is in no font.
const HOSTILE: &str =
    "x\u{1b}]0;t\u{7}\u{1b}[2J\u{7f}\u{9b}2J\u{85}\r\u{202e}\u{2066}\u{200e}\u{200f}\u{61c}\u{2028}\u{2029}y";

/// What a name of a file can have.
const FILE: &str = "f\u{1b}[2J\u{7f}\u{9b}2J\r\u{202e}\u{61c}\u{2028}";

fn write(path: &str) {
    let clock = Clock::new(ClockType::Qpc, Ticks(0), FileTime(133_000_000_000_000_000), 10_000_000);
    let mut options = WriterOptions::new(clock, 0x10000, 2);
    options.header.logger_name = HOSTILE.to_owned();
    options.header.log_file_name = HOSTILE.to_owned();
    let mut writer = EtlWriter::new(File::create(path).unwrap(), options).unwrap();
    let text = HOSTILE.as_bytes();
    let kernel: [&dyn Put; 5] = [
        &Process {
            event: ProcessEvent::DcStart,
            key: 1,
            process_id: 10,
            parent_id: 1,
            session_id: 0,
            exit_status: STILL_ACTIVE,
            uid: 0,
            image_file_name: text,
            command_line: text,
        },
        &Thread {
            event: ThreadEvent::DcStart,
            process_id: 10,
            thread_id: 10,
            user_stack_base: 0,
            affinity: 0,
            start_address: 0,
            base_priority: 8,
            name: text,
        },
        &Image {
            event: ImageEvent::DcStart,
            base: 0x1000,
            len_bytes: 0x1000,
            process_id: 10,
            build_id: None,
            file_name: text,
        },
        &FileIoName { event: NameEvent::FileCreate, file_object: 0xF00, file_name: text },
        &SampledProfile { instruction_pointer: 0x1800, thread_id: 10, count: 1, ..SampledProfile::default() },
    ];
    kernel.iter().zip(1..).for_each(|(event, millis)| crate::machines::put(&mut writer, millis, *event));
    let wide: Vec<u8> = HOSTILE.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
    let metadata = EventMetadata::new(HOSTILE).field(HOSTILE, 1).field("Bytes", 2).build();
    let descriptor = EventDescriptor { channel: 11, level: Level(4), ..EventDescriptor::default() };
    let record = RecordBuilder::event(PointerSize::Eight, Guid::from_provider_name("Hostile"), &descriptor)
        .time(Ticks(100_000))
        .process(10, 10)
        .item(ExtendedType::EVENT_SCHEMA_TL, &metadata)
        .item(ExtendedType::PROVIDER_TRAITS, &provider_traits(HOSTILE))
        .payload(&[&wide, text, &[0]].concat())
        .build()
        .unwrap();
    writer.write(0, &record).unwrap();
    writer.finish(clock.to_filetime(Ticks(1_000_000))).unwrap();
}

/// A manifest, in which XML allows all but C0.
fn manifest() -> String {
    let allowed: String = HOSTILE.chars().filter(|c| !matches!(c, '\0'..='\u{1f}')).collect();
    let text: String = allowed.chars().map(|c| format!("&#{};", u32::from(c))).collect();
    format!(
        "<instrumentationManifest><instrumentation><events><provider name='{text}' symbol='P' \
         guid='{{67883bbc-d592-4d02-8e29-66907fcb07d6}}' message='$(string.a)'>\
         <tasks><task name='{text}' value='1' message='$(string.a)'/></tasks>\
         <maps><valueMap name='{text}'><map value='1' message='$(string.a)'/></valueMap></maps>\
         <templates><template tid='t'><data name='{text}' inType='win:UInt32' map='{text}'/></template></templates>\
         <events><event value='1' task='{text}' template='t' symbol='E' message='$(string.a)'/></events>\
         </provider></events></instrumentation><localization><resources culture='en-US'><stringTable>\
         <string id='a' value='{text}'/></stringTable></resources></localization></instrumentationManifest>"
    )
}

/// Checks that a terminal shows no more than text.
fn check(args: &[&str], output: &[u8]) {
    let text = std::str::from_utf8(output).unwrap_or_else(|_| panic!("{args:?}: no UTF-8"));
    let found = text.replace("\r\n", "\n").chars().find(|c| is_disruptive(*c) && !matches!(c, '\n' | '\t'));
    assert_eq!(found, None, "{args:?}: {}", text.escape_debug());
}

struct Hostile {
    etw: Etw,
    trace: String,
}

impl Hostile {
    fn new() -> Hostile {
        let etw = Etw::new();
        let trace = etw.path(&format!("{FILE}.etl"));
        write(&trace);
        std::fs::write(etw.path(&format!("{FILE}.man")), manifest()).unwrap();
        Hostile { etw, trace }
    }

    fn run(&self, args: &[&str]) -> Output {
        let output = self.etw.run(args);
        check(args, &output.stdout);
        check(args, &output.stderr);
        output
    }

    /// Runs what succeeds and says something.
    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!text.is_empty(), "{args:?}");
        text
    }

    /// Runs what fails and says why.
    fn fails(&self, args: &[&str]) {
        let output = self.run(args);
        assert!(!output.status.success() && !output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn readers_of_traces() {
    let hostile = Hostile::new();
    let trace = hostile.trace.as_str();
    let shown = r"x\u001b]0;t\u0007\u001b[2J\u007f\u009b2J\u0085\r\u202e";
    assert!(hostile.ok(&["dump", trace]).contains(shown));
    assert!(hostile.ok(&["info", trace]).contains(r"x\u001b]0;t"));
    for args in [
        &["info", "--all"][..],
        &["info", "--format", "json"],
        &["dump", "--stacks"],
        &["dump", "--format", "xml"],
        &["stats"],
        &["stats", "--by", "provider,event,process", "--format", "json"],
        &["report"],
        &["report", "--format", "json"],
        &["report", "--format", "xml"],
        &["report", "--format", "html"],
        &["report", "--stacks", "samples"],
        &["report", "--tree", "top-down"],
        &["report", "--table", "processes", "--columns", "name,command_line"],
        &["report", "--table", "images", "--columns", "path,image", "--format", "json"],
        &["report", "--table", "traces", "--columns", "trace"],
        &["symbols"],
        &["symbols", "--format", "json"],
        &["watch", "--batch", "1"],
        &["tracefmt", "-displayonly"],
        &["tracefmt", "-displayonly", "-v"],
    ] {
        let (verb, rest) = args.split_first().unwrap();
        hostile.ok(&[&[*verb, trace], rest].concat());
    }
    hostile.run(&["report", trace, "--format", "folded"]);
    hostile.ok(&["compare", trace, trace]);
    hostile.ok(&["compare", trace, trace, "--format", "json"]);
    for action in ["dumper", "process", "profile", "sysconfig", "tracestats"] {
        hostile.ok(&["xperf", "-i", trace, "-tle", "-a", action]);
    }
    for words in
        [&["-summary", "/dev/stdout"][..], &["-o", "/dev/stdout", "-of", "XML"], &["-report", "/dev/stdout"]]
    {
        hostile.run(&[&["tracerpt", trace, "-y"], words].concat());
    }
    for name in ["chrome.json", "firefox.json", "speedscope.json"] {
        let path = hostile.etw.path(name);
        hostile.run(&["export", trace, "-o", &path, "--format", name.strip_suffix(".json").unwrap()]);
        check(&["export", name], &std::fs::read(&path).unwrap());
    }
    hostile.ok(&["index", trace]);
}

#[test]
fn json_has_the_same_texts_and_csv_too() {
    let hostile = Hostile::new();
    let events = json_lines(&hostile.ok(&["dump", &hostile.trace, "--format", "json"]));
    let event = events.last().unwrap();
    assert_eq!(event["EventData"][HOSTILE], HOSTILE);
    assert_eq!(event["System"]["Provider"]["Name"], HOSTILE);
    let table = ["--table", "images", "--columns", "path", "--format", "json"];
    let report = hostile.ok(&[&["report", &hostile.trace], &table[..]].concat());
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert!(report.to_string().contains(&serde_json::to_string(HOSTILE).unwrap()), "{report}");
    let csv = ["dump", &hostile.trace, "--format", "csv", "--fields", HOSTILE];
    let rows = csv_rows(&String::from_utf8(hostile.etw.run(&csv).stdout).unwrap());
    assert!(rows.iter().any(|row| row.iter().any(|field| field == HOSTILE)), "a pipe gets the data");
    check(&csv, &on_terminal(&hostile.etw, &csv));
    let stats = ["stats", &hostile.trace, "--by", "provider", "--format", "csv"];
    check(&stats, &on_terminal(&hostile.etw, &stats));
}

/// Returns what a command writes to a terminal.
fn on_terminal(etw: &Etw, args: &[&str]) -> Vec<u8> {
    let line = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&line).unwrap();
    unlockpt(&line).unwrap();
    let name = ptsname(&line, Vec::new()).unwrap();
    let terminal = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut child =
        etw.command(args).stdin(Stdio::null()).stdout(terminal).stderr(Stdio::null()).spawn().unwrap();
    let (mut shown, mut line) = (Vec::new(), File::from(line));
    // The end is an error, once no process has the other side.
    let _ = line.read_to_end(&mut shown);
    assert!(child.wait().unwrap().success() && !shown.is_empty());
    // The terminal puts a carriage return before each line feed.
    String::from_utf8(shown).unwrap().replace("\r\n", "\n").into_bytes()
}

#[test]
fn schemas_and_code() {
    let hostile = Hostile::new();
    let manifest = format!("{FILE}.man");
    hostile.ok(&["schema", "add", &manifest]);
    hostile.ok(&["schema", "list"]);
    hostile.ok(&["schema", "list", "--format", "json"]);
    let guid = "{67883bbc-d592-4d02-8e29-66907fcb07d6}";
    hostile.ok(&["schema", "show", guid]);
    hostile.ok(&["schema", "show", guid, "--format", "json"]);
    hostile.ok(&["schema", "export", guid]);
    hostile.ok(&["provider", "show", guid]);
    hostile.ok(&["provider", "search", "x", "--format", "json"]);
    hostile.ok(&["mc", &manifest]);
    hostile.run(&["mc", &manifest, "--rust", "p.rs"]);
}

#[test]
fn messages() {
    let hostile = Hostile::new();
    let trace = hostile.trace.as_str();
    let run = |args: &[&str]| assert!(!hostile.run(args).stderr.is_empty(), "{args:?}");
    run(&["relog", trace, "-o", &format!("{FILE}.out.etl")]);
    run(&["merge", trace, "-o", &format!("{FILE}.merged.etl")]);
    run(&["split", trace, "--by", "process", "-o", &format!("{FILE}.part.etl")]);
    run(&["dump", trace, "--where", &format!("\"{HOSTILE}\" == 1")]);
    hostile.fails(&["relog", trace, "-o", trace]);
    hostile.fails(&["dump", FILE]);
    hostile.fails(&["info", FILE]);
    hostile.fails(&["schema", "add", FILE]);
    hostile.fails(&["schema", "show", HOSTILE]);
    hostile.fails(&["mc", FILE]);
    hostile.fails(&["report", trace, "--table", HOSTILE]);
    hostile.fails(&["xperf", "-i", trace, "-a", HOSTILE]);
    hostile.fails(&["tracerpt", FILE]);
    hostile.fails(&["tracefmt", FILE]);
    hostile.fails(&["logman", "query", HOSTILE]);
    hostile.fails(&["session", "query", HOSTILE]);
    std::fs::write(hostile.etw.path(&format!("{FILE}.damaged")), &std::fs::read(trace).unwrap()[..3000])
        .unwrap();
    hostile.run(&["info", &format!("{FILE}.damaged")]);
    hostile.run(&["dump", &format!("{FILE}.damaged")]);
}
