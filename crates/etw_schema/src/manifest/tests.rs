//! Tests of small manifests.

use etw_event::{Keyword, Level, Opcode};

use super::*;
use crate::{Count, EventSchema, InType, Length, OutType, PropertyType};

/// Builds a manifest of one provider with these lists.
fn manifest(lists: &str) -> Manifest {
    let text = format!(
        "<m:instrumentationManifest xmlns:m='http://schemas.microsoft.com/win/2004/08/events'><m:instrumentation>\n\
         <m:events><m:provider guid='{{67883bbc-d592-4d02-8e29-66907fcb07d6}}' name='P'>{lists}</m:provider>\n\
         </m:events></m:instrumentation><m:localization>\n\
         <m:resources culture='de-DE'><m:stringTable><m:string id='a' value='deutsch'/><m:string id='b' \
         value='nur deutsch'/></m:stringTable></m:resources>\n\
         <m:resources culture='en-US'><m:stringTable><m:string id='a' value='english%n%1'/></m:stringTable>\
         </m:resources></m:localization></m:instrumentationManifest>"
    );
    read(text.as_bytes(), "test")
}

/// Returns the only event of a provider with these lists, and the problems.
fn event(lists: &str) -> (EventSchema, Vec<String>) {
    let manifest = manifest(lists);
    let problems = manifest.problems.iter().map(|problem| problem.kind.to_string()).collect();
    ((*manifest.providers[0].events[0]).clone(), problems)
}

#[test]
fn descriptors() {
    let lists = "<channels><importChannel chid='S' name='System'/><channel chid='O' name='P/Operational'/>\
                 <channel chid='A' name='P/Analytic'/></channels><levels><level name='L' value='16'/></levels>\
                 <tasks><task name='T' value='7'><opcodes><opcode name='Go' value='0x0B'/></opcodes></task></tasks>\
                 <opcodes><opcode name='Go' value='12'/></opcodes><keywords><keyword name='K' mask='0x4'/></keywords>";
    let check = |attributes: &str, expected: (u8, u8, u16, u8, u64)| {
        let (event, problems) = event(&format!("{lists}<events><event value='1' {attributes}/></events>"));
        let d = event.descriptor;
        assert_eq!((d.channel, d.level.0, d.task, d.opcode.0, d.keyword.0), expected, "{attributes}");
        assert_eq!(problems, Vec::<String>::new(), "{attributes}");
    };
    check("", (0, 0, 0, 0, 0));
    check("level='win:Warning' opcode='win:DC_Stop'", (0, 3, 0, 4, 0));
    check("level='L' task='T' opcode='Go'", (0, 16, 7, 11, 0));
    check("opcode='Go' keywords=' K win:SQM\n'", (0, 0, 0, 12, 0x0008_0000_0000_0004));
    check("channel='S'", (8, 0, 0, 0, 1 << 63));
    check("channel='P/Operational' keywords='K'", (16, 0, 0, 0, (1 << 62) | 4));
    check("channel='A'", (17, 0, 0, 0, 1 << 61));
    // As written in exported manifests.
    check("level='win:Always' task='task_7' opcode='win:Start_7_1'", (0, 0, 7, 1, 0));
}

#[test]
fn names_and_texts() {
    let (event, problems) = event(
        "<events><event value='0x10' version='2' symbol='E' message='$(string.a)' level='win:Informational' \
         opcode='win:Start' task='T'/></events><tasks><task name='T' value='1' message='x $(string.b)!'/></tasks>",
    );
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!((event.descriptor.id, event.descriptor.version), (16, 2));
    assert_eq!((event.descriptor.level, event.descriptor.opcode), (Level::INFORMATION, Opcode::START));
    assert_eq!(event.descriptor.keyword, Keyword(0));
    assert_eq!(event.name.as_deref(), Some("E"));
    assert_eq!(event.level_name.as_deref(), Some("Information"));
    assert_eq!(event.opcode_name.as_deref(), Some("Start"));
    assert_eq!(event.message.as_deref(), Some("english%n%1"));
    assert_eq!(event.provider.tasks[0].message.as_deref(), Some("x nur deutsch!"));
}

#[test]
fn templates() {
    let check = |items: &str, expected: &[(&str, Length, Count)], top_level: u16, problems: usize| {
        let (event, found) = event(&format!(
            "<templates><template tid='t'>{items}</template></templates>\
             <events><event value='1' template='t'/></events>"
        ));
        let properties: Vec<_> =
            event.properties.iter().map(|item| (&*item.name, item.length, item.count)).collect();
        assert_eq!(properties, expected, "{items}");
        assert_eq!((event.top_level, found.len()), (top_level, problems), "{items}: {found:?}");
    };
    let n = "<data name='n' inType='win:UInt16'/>";
    let plain = ("n", Length::Natural, Count::One);
    check(n, &[plain], 1, 0);
    check(
        &format!("{n}<data name='b' inType='win:Binary' length='n'/>"),
        &[plain, ("b", Length::Property(0), Count::One)],
        2,
        0,
    );
    check(
        "<data name='s' inType='win:UnicodeString' length='8' count='3'/>",
        &[("s", Length::Fixed(8), Count::Fixed(3))],
        1,
        0,
    );
    check(
        "<data name='s' inType='win:UInt8' length='0' count='0'/>",
        &[("s", Length::Natural, Count::One)],
        1,
        1,
    );
    check("<binary name='b'/>", &[("b", Length::Natural, Count::One)], 1, 0);
    // An item after it cannot be located, so the template ends before it.
    check(
        &format!(
            "{n}<data name='b' inType='win:Binary' length='later'/><data name='later' inType='win:UInt8'/>"
        ),
        &[plain],
        1,
        1,
    );
    check(&format!("{n}<data name='b' inType='win:Nonsense'/>{n}"), &[plain], 1, 1);
    check(
        &format!("{n}<data name='b' outType='xs:nonsense' inType='win:UInt8' map='no'/>"),
        &[plain, ("b", Length::Natural, Count::One)],
        2,
        2,
    );
    // Members follow the top-level items, and may refer to items before their struct.
    check(
        &format!(
            "{n}<struct name='v' count='n'><data name='m' inType='win:UInt8'/><data name='c' inType='win:AnsiString' length='m'/><data name='d' inType='win:UInt8' count='n'/></struct><data name='z' inType='win:UInt8'/>"
        ),
        &[
            plain,
            ("v", Length::Natural, Count::Property(0)),
            ("z", Length::Natural, Count::One),
            ("m", Length::Natural, Count::One),
            ("c", Length::Property(3), Count::One),
            ("d", Length::Natural, Count::Property(0)),
        ],
        3,
        0,
    );
    check(
        &format!(
            "{n}<struct name='v'><data name='m' inType='win:UInt8' count='z'/></struct><data name='z' inType='win:UInt8'/>"
        ),
        &[plain],
        1,
        1,
    );
}

#[test]
fn types() {
    let check = |attributes: &str, expected: (InType, OutType)| {
        let (event, _) = event(&format!(
            "<templates><template tid='t'><data name='a' {attributes}/></template></templates>\
             <events><event value='1' template='t'/></events>"
        ));
        let PropertyType::Value { in_type, out_type, .. } = event.properties[0].kind else { panic!() };
        assert_eq!((in_type, out_type), expected, "{attributes}");
    };
    check("inType='win:UInt32'", (InType::UINT32, OutType::UNSIGNED_INT));
    check("inType='win:UInt32' outType='win:IPv4'", (InType::UINT32, OutType::IPV4));
    check("inType='win:Pointer'", (InType::POINTER, OutType::HEX_INT64));
    check("inType='trace:AnsiString' outType='win:Utf8'", (InType::ANSI_STRING, OutType::UTF8));
}

#[test]
fn what_is_wrong_is_said_and_the_rest_is_read() {
    let check = |lists: &str, events: usize, expected: &[&str]| {
        let manifest = manifest(lists);
        let problems: Vec<_> = manifest.problems.iter().map(|problem| problem.kind.to_string()).collect();
        assert_eq!(problems, expected, "{lists}");
        assert_eq!(manifest.providers[0].events.len(), events, "{lists}");
    };
    let good = "<event value='9'/>";
    check(&format!("<events><event/>{good}</events>"), 1, &["<event> has no attribute 'value'"]);
    check(
        &format!("<events><event value='65536'/>{good}</events>"),
        1,
        &["<event value='65536'>: not a valid value"],
    );
    check(&format!("<events>{good}{good}</events>"), 1, &["event 9 version 0 is defined twice"]);
    check(
        "<events><event value='1' level='a' task='b' opcode='c' channel='d' keywords='e' message='$(string.f)' \
         template='g'/></events>",
        1,
        &[
            "no level named 'a'",
            "no task named 'b'",
            "no opcode named 'c'",
            "no channel named 'd'",
            "no keyword named 'e'",
            "no string named 'f'",
            "no template named 'g'",
        ],
    );
    check(
        &format!("<tasks><task name='x' value='y'/></tasks><events>{good}</events>"),
        1,
        &["<task value='y'>: not a valid value"],
    );
}

#[test]
fn positions_are_lines_and_columns() {
    let text = "<instrumentation>\n <events>\n  <provider name='p' guid='x'/></events></instrumentation>";
    let problems = read(text.as_bytes(), "test").problems;
    assert_eq!(problems[0].to_string(), "line 3, column 3: <provider guid='x'>: not a valid value");
}
