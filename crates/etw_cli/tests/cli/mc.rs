//! `etw mc`.

use crate::{Etw, json_lines};

const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/readings.man");
/// The code for it, which an example is built with.
const CODE: &str = include_str!("../../examples/generated/readings.rs");

/// A manifest of one provider whose lists start on line 2.
fn manifest(lists: &str) -> String {
    format!(
        "<instrumentationManifest><instrumentation><events><provider name='P' symbol='P' guid='{{67883bbc-d592-4d02-8e29-66907fcb07d6}}'>\n\
         {lists}\n</provider></events></instrumentation><localization><resources culture='en-US'><stringTable>\
         <string id='a' value='text'/></stringTable></resources></localization></instrumentationManifest>"
    )
}

#[test]
fn every_error_is_reported_with_its_place() {
    let etw = Etw::new();
    let check = |lists: &str, expected: &[&str]| {
        std::fs::write(etw.path("p.man"), manifest(lists)).unwrap();
        let (status, text) = etw.fails(&["mc", "p.man", "--rust", "p.rs"]);
        let mut lines: Vec<&str> = text.lines().collect();
        let last = lines.pop().unwrap();
        let expected: Vec<String> = expected.iter().map(|line| format!("p.man: {line}")).collect();
        assert_eq!((status, lines), (1, expected.iter().map(String::as_str).collect()), "{lists}");
        let plural = if expected.len() == 1 { "" } else { "s" };
        assert!(last.ends_with(&format!("p.man: {} error{plural}", expected.len())), "{last}");
        assert!(!std::path::Path::new(&etw.path("p.rs")).exists());
    };
    check(
        "<tasks><task name='A' value='1'/>\n<task name='A' value='0x1'/>\n<task name='B' value='0'/></tasks>",
        &[
            "line 3, column 1: task A is defined twice",
            "line 3, column 1: task value 1 is defined twice",
            "line 4, column 1: <task value='0'>: must be from 1 to 65535; the other values are reserved",
        ],
    );
    check(
        "<levels><level name='L' value='5'/></levels>\n<opcodes><opcode name='O' value='240'/></opcodes>\n\
         <keywords><keyword name='K' mask='0x1000000000000'/></keywords>",
        &[
            "line 2, column 9: <level value='5'>: must be from 16 to 255; the other values are reserved",
            "line 3, column 10: <opcode value='240'>: must be from 10 to 239; the other values are reserved",
            "line 4, column 11: <keyword mask='0x1000000000000'>: must be from 0x1 to 0xffffffffffff; the other bits are reserved",
        ],
    );
    check(
        "<channels><channel chid='A' name='P/Admin' type='Admin'/>\n<channel chid='A' name='P/Other' type='Public'/>\n\
         <channel chid='B' name='p/admin'/></channels>\n<events><event value='1' channel='P/Admin' level='win:Verbose'/></events>",
        &[
            "line 3, column 1: channel id A is defined twice",
            "line 3, column 1: <channel type='Public'>: must be Admin, Operational, Analytic or Debug",
            "line 4, column 1: channel p/admin is defined twice",
            "line 4, column 1: <channel> has no attribute 'type'",
            "line 5, column 9: <event> has no attribute 'message'",
            "line 5, column 9: <event> 1: events of an Admin channel have a level from win:Critical to win:Informational",
        ],
    );
    check(
        "<templates><template tid='T'>\n<data name='s' inType='win:UnicodeString'/>\n<data name='b' inType='win:Binary' length='s'/>\n\
         <data name='s' inType='win:UInt32' length='4' outType='win:IPv6'/>\n<data name='c' inType='win:Binary' map='M'/>\n\
         <data name='d' inType='win:UInt8' count='e'/>\n<data name='e' inType='win:UInt8'/></template></templates>\n\
         <maps><bitMap name='M'><map value='3' message='$(string.a)'/>\n<map value='3'/></bitMap></maps>",
        &[
            "line 4, column 1: <data length='s'>: must be a number or the name of an integer",
            "line 5, column 1: item s is defined twice",
            "line 5, column 1: <data> s: only win:UnicodeString, win:AnsiString and win:Binary take a length",
            "line 5, column 1: <data> s: the outType does not fit the inType",
            "line 6, column 1: <data> c: win:Binary needs a length",
            "line 6, column 1: <data> c: only win:UInt8, win:UInt16, win:UInt32 and win:HexInt32 take a map",
            "line 7, column 1: <data count='e'>: no earlier item has this name; the template ends here",
            "line 9, column 24: <map value='3'>: must be a single bit",
            "line 10, column 1: <map> has no attribute 'message'",
            "line 10, column 1: map value 3 is defined twice",
            "line 10, column 1: <map value='3'>: must be a single bit",
        ],
    );
    check(
        "<events><event value='1' symbol='A' template='none' task='none' keywords='none' message='$(string.none)'/>\n\
         <event value='1' symbol='A'/>\n<event value='65536' symbol='2x'/></events>",
        &[
            "line 2, column 9: no task named 'none'",
            "line 2, column 9: no keyword named 'none'",
            "line 2, column 9: no string named 'none'",
            "line 2, column 9: no template named 'none'",
            "line 3, column 1: event 1 version 0 is defined twice",
            "line 3, column 1: symbol A is defined twice",
            "line 4, column 1: <event value='65536'>: not a valid value",
            "line 4, column 1: <event symbol='2x'>: must be letters, digits and underscores",
        ],
    );
}

#[test]
fn a_manifest_without_errors_becomes_the_code_of_the_example() {
    let etw = Etw::new();
    let output = etw.run(&["mc", MANIFEST, "-o", "readings.rs"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("Example-Readings: no function for event 3 version 0: it has an array of structs"),
        "{text}"
    );
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .ends_with("readings.man: 1 providers, 3 events, no error\n")
    );
    assert_eq!(std::fs::read_to_string(etw.path("readings.rs")).unwrap(), CODE);
}

#[cfg(target_os = "linux")]
#[test]
fn events_of_the_code_are_decoded_with_the_manifest() {
    let etw = Etw::new();
    let program = crate::record::example("generated_events");
    let output = etw.record(&["-p", "Example-Readings", "--schema", MANIFEST, "-o", "t.etl"], &[&program]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    assert_eq!(output.stdout, b"Written Written 0x20\n");
    let dump = etw.ok(&["dump", "t.etl", "--provider", "Example-Readings", "--format", "json"]);
    let events = json_lines(&dump);
    let [taken, lost] = events.as_slice() else { panic!("{dump}") };
    let system = |event: &serde_json::Value, key: &str| match &event["System"][key] {
        serde_json::Value::Object(named) => named["Value"].clone(),
        plain => plain.clone(),
    };
    assert_eq!(
        (system(taken, "EventID"), system(taken, "Version"), system(taken, "Task")),
        (1.into(), 2.into(), 1.into())
    );
    let data = serde_json::json!({
        "Type": "Light", "SensorName": "north", "Place": "Zürich", "Count": 2, "Values": [20, 21],
        "Weights": [0.5, 0.25], "RawSize": 3, "Raw": "010203", "Serial": "0a0b0c0d", "IsValid": true,
        "SensorID": "{00112233-4455-6677-8899-aabbccddeeff}", "TakenAt": "2019-04-17T18:40:00.0000000Z",
        "Buffer": "0x1000", "Position": {"X": -1, "Y": 7},
    });
    assert_eq!(taken["EventData"], data);
    assert_eq!((system(lost, "EventID"), system(lost, "Level")), (2.into(), 16.into()));
}

#[test]
fn the_options_of_windows_mc_name_the_header_and_its_macros() {
    let etw = Etw::new();
    let header = |args: &[&str], file: &str| {
        let output = etw.run(args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = std::fs::read_to_string(etw.path(file)).unwrap();
        (text, String::from_utf8(output.stderr).unwrap())
    };
    let (text, warnings) = header(&["mc", "-um", MANIFEST], "readings.h");
    assert_eq!(warnings, "");
    for line in [
        "#define EventRegisterExample_Readings() EventRegisterByGuidExample_Readings(READINGS)",
        "#define READING_TAKEN_value 0x1",
        "#define READINGS_KEYWORD_RawData 0x20",
        "#define EventWriteMoved(Count, Position_Len_, Position) (MCGEN_EVENT_ENABLED(Moved) ? \
         EventWriteMoved_AssumeEnabled(Count, Position_Len_, Position) : ERROR_SUCCESS)",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
    }
    let args = [
        "mc", MANIFEST, "-um", "-h", "include", "-z", "Own", "-e", "hpp", "-p", "Write", "-P", "READING_",
        "-r", ".",
    ];
    let (text, warnings) = header(&args, "include/Own.hpp");
    assert!(
        text.contains("\n#define WriteTAKEN(Type, SensorName,") && text.contains("WriteSensorLost()"),
        "{text}"
    );
    assert!(warnings.contains("resources are not written"), "{warnings}");
    let (status, _) = etw.fails(&["mc", MANIFEST, "-z", "Own"]);
    assert_eq!(status, 2);
}
