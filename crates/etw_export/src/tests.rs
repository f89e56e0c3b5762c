//! Golden output of every writer for a decoded event, a truncated one, and one without a schema.

use std::sync::Arc;

use etw_event::StackFrame;
use etw_schema::{CompiledSchema, Event, EventSchema};

use crate::{
    CsvWriter, FieldSelection, JsonWriter, Options, Source, TextWriter, TracerptCsvWriter, XmlWriter,
};
use etw_testkit::events::{message, rich, with_event};

fn options() -> Options {
    let source = Source { name: "x.etl".into(), computer: Some("PC".into()), timer_resolution: 156_250 };
    Options { sources: vec![source], ..Options::default() }
}

fn written(payload: &[u8], decode: bool, put: impl FnOnce(&mut Vec<u8>, &Event<'_>)) -> String {
    let (schema, _) = rich();
    let mut out = Vec::new();
    with_event(payload, decode.then_some(&schema), |event| put(&mut out, event));
    String::from_utf8(out).unwrap()
}

fn json(payload: &[u8], decode: bool, options: &Options) -> String {
    written(payload, decode, |out, event| JsonWriter::new(options).put(out, event))
}

const SYSTEM: &str = concat!(
    r#""System":{"Computer":"PC","Channel":"16","EventID":1,"Version":4,"#,
    r#""Correlation":{"ActivityID":"{a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1}","#,
    r#""RelatedActivityID":"{b2b2b2b2-b2b2-b2b2-b2b2-b2b2b2b2b2b2}"},"#,
    r#""Execution":{"ProcessID":4,"ThreadID":8,"ProcessorID":3,"KernelTime":5,"UserTime":6},"#,
    r#""Keywords":{"Mask":"0x8000000000000010","Name":["WINEVENT_KEYWORD_PROCESS"]},"#,
    r#""Level":{"Value":4,"Name":"Information"},"Opcode":{"Value":1,"Name":"Start"},"#,
    r#""Task":{"Value":2,"Name":"ProcessStart"},"#,
    r#""Provider":{"Guid":"{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}","Name":"Contoso \"Quoted\""},"#,
    r#""TimeCreated":{"SystemTime":"2026-01-02T03:04:05.1234567Z"}}"#,
);
const STACK: &str = r#""ExtendedData":{"StackTrace":["0x7ffe00001234"]}"#;

#[test]
fn json_of_a_decoded_event() {
    let data = concat!(
        r#"{"EventData":{"Image":"C:\\x <&\".exe","Id":18446744073709551615,"Id_2":-5,"#,
        r#""Address":"0xffff800000001000","State":"Running","State_2":8,"Ports":[80,443],"Ratio":0.5,"#,
        r#""Who":"{c3c3c3c3-c3c3-c3c3-c3c3-c3c3c3c3c3c3}","Inner":{"Text":"hé, ÿ","Flag":true}}"#,
    );
    assert_eq!(json(&rich().1, true, &options()), format!("{data},{SYSTEM},{STACK}}}"));
}

#[test]
fn json_of_payloads_that_do_not_fit() {
    let (_, payload) = rich();
    let mut long = payload.clone();
    long.extend([1, 2, 0xFF]);
    assert!(json(&long, true, &options()).ends_with(r#","ExtraPayload":"0102ff"}"#));
    let short = json(&payload[..30], true, &options());
    assert!(short.starts_with(r#"{"EventData":{"Image":"C:\\x <&\".exe"},"#), "{short}");
    assert!(short.contains(r#","DecodeError":"property 'Id' at payload offset 26: "#), "{short}");
    assert!(short.ends_with(r#","ExtraPayload":"ffffffff"}"#), "{short}");
    let none = json(&payload[..2], false, &options());
    let start = r#"{"EventData":null,"System":{"Computer":"PC","Channel":"16","EventID":1,"#;
    assert!(none.starts_with(start), "{none}");
    assert!(none.ends_with(r#","Undecoded":{"Reason":"the WPP message carries no GUID by which to find its format","Payload":"4300"}}"#), "{none}");
}

#[test]
fn the_place_of_an_event_is_written_on_request() {
    let place = |options: &Options| {
        let mut csv = CsvWriter::new(options);
        let mut lines = Vec::new();
        csv.put_header(&mut lines);
        with_event(&rich().1, Some(&rich().0), |event| csv.put(&mut lines, event));
        let lines = String::from_utf8(lines).unwrap();
        lines.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let options = Options { source: true, ..options() };
    let text = written(&rich().1, true, |out, event| TextWriter::new(&options).put(out, event));
    assert!(text.starts_with("x.etl:65536+96#2 2026-01-02T03:04:05.1234567Z cpu3 "), "{text}");
    let source = r#""Source":{"File":"x.etl","Offset":65536,"Within":96,"Buffer":65536,"Record":2}"#;
    let json = json(&rich().1, true, &options);
    assert!(
        json.contains(&format!(r#""SystemTime":"2026-01-02T03:04:05.1234567Z"}},{source}}},"#)),
        "{json}"
    );
    let lines = place(&options);
    let names = ["File", "Offset", "Within", "Buffer", "Record"].map(|name| format!("System.Source.{name}"));
    assert!(lines[0].ends_with(&format!(",User Data,{}", names.join(","))), "{lines:?}");
    assert!(
        lines[1].ends_with(r#"}",x.etl,65536,96,65536,2"#)
            || lines[1].ends_with(r#"}","x.etl",65536,96,65536,2"#),
        "{lines:?}"
    );
    let fields = FieldSelection::from_names(["System.Source.Record", "System.EventID", "System.Source"]);
    let chosen = Options { fields, source: false, ..options };
    assert!(chosen.needs_places());
    assert_eq!(place(&chosen)[1], r#"2,1,"x.etl""#);
}

#[test]
fn json_of_some_fields() {
    let fields = FieldSelection::from_names(["inner.flag", "Nothing", "IMAGE"]);
    let some = json(&rich().1, true, &Options { fields, raw_time: true, ..Options::default() });
    assert!(
        some.starts_with(r#"{"EventData":{"inner.flag":true,"IMAGE":"C:\\x <&\".exe"},"System":{"Channel"#),
        "{some}"
    );
    assert!(
        some.contains(r#""SystemTime":"2026-01-02T03:04:05.1234567Z","RawTime":134117966451234567}}"#),
        "{some}"
    );
}

#[test]
fn csv() {
    let line = |decode, options: &Options| {
        written(&rich().1, decode, |out, event| CsvWriter::new(options).put(out, event))
    };
    let head = concat!(
        r#""Contoso ""Quoted""","Start",1,4,16,4,1,2,0x8000000000000010,0x4,0x8,3,,,"#,
        "{a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1},{b2b2b2b2-b2b2-b2b2-b2b2-b2b2b2b2b2b2},",
        "134117966451234567,78,93,",
    );
    let whole = line(true, &options());
    assert!(whole.starts_with(head), "{whole}");
    assert!(whole[head.len()..].starts_with(r#""{""Image"":""C:\\x <&\"".exe"",""Id"":184"#), "{whole}");
    let fields = FieldSelection::from_names(["Inner.Text", "Nothing", "Image"]);
    let some = line(true, &Options { fields, ..options() });
    assert_eq!(some, format!("{head}\"hé, ÿ\",,\"C:\\x <&\"\".exe\"\r\n"));
    assert!(
        line(false, &options()).contains(r#""{""Undecoded"":{""Reason"":""the WPP message carries no GUID"#)
    );
    let mut header = Vec::new();
    CsvWriter::new(&options()).put_header(&mut header);
    let header = String::from_utf8(header).unwrap();
    assert!(header.starts_with("Event Name,Type,Event ID,") && header.ends_with(",User(ms),User Data\r\n"));
}

#[test]
fn csv_of_tracerpt() {
    let line = |payload: &[u8], decode, options: &Options| {
        written(payload, decode, |out, event| TracerptCsvWriter::new(options).put(out, event))
    };
    let head = concat!(
        r#""Contoso ""Quoted""",      Start,          1,          4,         16,          4,          1,          2, "#,
        "0x8000000000000010, 0x00000004, 0x00000008,                3,             ,                    , ",
        "{a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1}, {b2b2b2b2-b2b2-b2b2-b2b2-b2b2b2b2b2b2},   ",
        "134117966451234567,         78,         93",
    );
    let (_, payload) = rich();
    let whole = line(&payload, true, &options());
    assert!(whole.starts_with(head), "{whole}");
    let fields = concat!(
        r#", "C:\x <&"".exe", 18446744073709551615, -5, 0xFFFF800000001000, Running, 8, 80, 443, 0.5, "#,
        "{c3c3c3c3-c3c3-c3c3-c3c3-c3c3c3c3c3c3}, \"hé, ÿ\", true\r\n",
    );
    assert_eq!(&whole[head.len()..], fields.replace("\\\\", "\\"));
    let none = line(&payload[..4], false, &options());
    assert!(none.ends_with("93, 0x43003a00\r\n"), "{none}");
    let strict = Options { strict: true, ..options() };
    let (lenient, strict) = (line(&payload[..30], true, &options()), line(&payload[..30], true, &strict));
    assert!(lenient.ends_with(".exe\", 0xffffffff\r\n"), "{lenient}");
    assert!(
        strict.ends_with(
            "93, 0x43003a005c0078002000\
3c00260022002e006500780065000000ffffffff\r\n"
        ),
        "{strict}"
    );
    let mut header = Vec::new();
    TracerptCsvWriter::new(&options()).put_header(&mut header);
    let header = String::from_utf8(header).unwrap();
    let columns: Vec<&str> = header.trim_end().split(',').map(str::trim).collect();
    assert_eq!(columns[..19], crate::csv::COLUMNS);
    assert_eq!(columns[19..], ["User Data"]);
}

#[test]
fn xml_in_the_lines_of_tracerpt() {
    let element = |payload: &[u8], options: &Options| {
        written(payload, true, |out, event| XmlWriter::new(options).put(out, event))
    };
    let (_, payload) = rich();
    let lines = Options { lines: true, ..options() };
    let whole = element(&payload, &lines);
    let begin = "<Event xmlns=\"http://schemas.microsoft.com/win/2004/08/events/event\">\r\n\t<System>\r\n\t\t<Provider ";
    assert!(whole.starts_with(begin), "{whole}");
    assert!(
        whole.contains("\r\n\t\t<TimeCreated SystemTime=\"2026-01-02T03:04:05.123456700Z\"/>\r\n"),
        "{whole}"
    );
    assert!(whole.contains("\r\n\t<EventData>\r\n\t\t<Data Name=\"Image\">C:"), "{whole}");
    assert!(whole.contains("\r\n\t\t<ComplexData Name=\"Inner\">\r\n\t\t\t<Data Name=\"Text\">"), "{whole}");
    assert!(whole.ends_with("\r\n</Event>\r\n"), "{whole}");
    // The same elements as in the one-line form.
    let one = element(&payload, &options()).replace("4567Z", "456700Z");
    assert_eq!(whole.replace(['\r', '\n', '\t'], ""), one.trim_end());
    let strict = element(&payload[..30], &Options { strict: true, ..options() });
    assert!(strict.contains("<DataItemName>Id</DataItemName><EventPayload>43003a"), "{strict}");
    assert!(!strict.contains("<EventData>"), "{strict}");
}

#[test]
fn xml() {
    let element =
        |decode| written(&rich().1, decode, |out, event| XmlWriter::new(&options()).put(out, event));
    let whole = element(true);
    assert!(whole.contains(
        r#"<Provider Name="Contoso &quot;Quoted&quot;" Guid="{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}"/>"#
    ));
    assert!(whole.contains(r#"<Data Name="Image">C:\x &lt;&amp;&quot;.exe</Data>"#), "{whole}");
    assert!(whole.contains(r#"<Data Name="Ports">80</Data><Data Name="Ports">443</Data>"#), "{whole}");
    assert!(whole.contains(r#"<ComplexData Name="Inner"><Data Name="Text">hé, ÿ</Data>"#), "{whole}");
    assert!(whole.contains("<Stack><Address>0x7ffe00001234</Address></Stack>"), "{whole}");
    let (schema, payload) = rich();
    let mut schema = EventSchema::clone(&schema.schema);
    schema.user_data = true;
    let schema = CompiledSchema::new(Arc::new(schema));
    let mut user_data = String::new();
    with_event(&payload, Some(&schema), |event| {
        let mut out = Vec::new();
        XmlWriter::new(&options()).put(&mut out, event);
        user_data = String::from_utf8(out).unwrap();
    });
    assert!(
        user_data.contains("<UserData><EventXML xmlns=\"Event_NS\"><Image>C:\\x &lt;&amp;&quot;.exe</Image>"),
        "{user_data}"
    );
    assert!(user_data.contains("<Ports>80</Ports><Ports>443</Ports>"), "{user_data}");
    assert!(user_data.contains("<Inner><Text>hé, ÿ</Text>"), "{user_data}");
    assert!(user_data.contains("</EventXML></UserData><RenderingInfo"), "{user_data}");
    let none = element(false);
    assert!(none.contains("<DataItemName>the WPP message carries no GUID by which to find its format</DataItemName><EventPayload>43003a00"), "{none}");
}

#[test]
fn text() {
    let line = |decode, options: &Options| {
        written(&rich().1, decode, |out, event| TextWriter::new(options).put(out, event))
    };
    let start = "2026-01-02T03:04:05.1234567Z cpu3 4:8 x y.exe Contoso \"Quoted\"/ProcessStart/Start";
    let whole = line(true, &options());
    assert!(
        whole.starts_with(&format!(r#"{start} Image="C:\x <&\".exe" Id=18446744073709551615 Id=-5 "#)),
        "{whole}"
    );
    assert!(whole.contains(" State=Running State=8 Ports=[80, 443] Ratio=0.5 "), "{whole}");
    assert!(
        line(false, &options())
            .contains(" (the WPP message carries no GUID by which to find its format) 0x43003a00")
    );
    let fields = FieldSelection::from_names(["Inner.Flag"]);
    assert_eq!(line(true, &Options { fields, ..options() }), format!("{start} Inner.Flag=true\n"));
    assert!(line(true, &Options { color: true, ..options() }).contains("\x1b[1mContoso"));
}

#[test]
fn stacks_with_names() {
    let inner = StackFrame {
        address: 0x7FFE_0000_1234,
        module: Some("a\"b.dll"),
        function: Some("f<a;b>"),
        file: Some("C:\\x.c"),
        line: Some(7),
        is_inlined: true,
        ..StackFrame::default()
    };
    let outer = StackFrame { file: None, line: None, offset: Some(0x1B), is_inlined: false, ..inner };
    let image = StackFrame { function: None, ..outer };
    let stack = [inner, outer, image, StackFrame { address: 5, ..StackFrame::default() }];
    let (options, payload) = (options(), rich().1);
    let json = written(&payload, true, |out, event| {
        JsonWriter::new(&options).put_with_stack(out, event, &stack);
        out.push(b'\n');
        JsonWriter::new(&options).put_with_stack(out, event, &[]);
    });
    let without = written(&payload, true, |out, event| JsonWriter::new(&options).put(out, event));
    let stack_of = concat!(
        r#","Stack":[{"Address":"0x7ffe00001234","Module":"a\"b.dll","Function":"f<a;b>","#,
        r#""File":"C:\\x.c","Line":7,"Inlined":true},"#,
        r#"{"Address":"0x7ffe00001234","Module":"a\"b.dll","Function":"f<a;b>","Offset":27},"#,
        r#"{"Address":"0x7ffe00001234","Module":"a\"b.dll","Offset":27},{"Address":"0x5"}]}"#,
    );
    assert_eq!(json, format!("{}{stack_of}\n{without}", &without[..without.len() - 1]));
    let text = written(&payload, true, |out, event| {
        TextWriter::new(&options).put_with_stack(out, event, &stack);
    });
    let frames: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(
        frames,
        [
            r#"    a"b!f<a;b> (C:\x.c:7) [inlined]"#,
            r#"    a"b!f<a;b>+0x1b"#,
            r#"    a"b.dll+0x1b"#,
            "    0x5",
        ]
    );
    let mut header = Vec::new();
    CsvWriter::new(&options).put_header_with_stack(&mut header);
    assert!(header.ends_with(b",User Data,Stack\r\n"));
    let csv = written(&payload, true, |out, event| {
        CsvWriter::new(&options).put_with_stack(out, event, &stack);
        CsvWriter::new(&options).put_with_stack(out, event, &[]);
    });
    let column = r#","a""b!f<a:b> (C:\x.c:7);a""b!f<a:b>+0x1b;a""b.dll+0x1b;0x5""#;
    let (with, none) = csv.split_once("\r\n").unwrap();
    assert!(with.ends_with(column) && none.ends_with(",\r\n"), "{csv}");
    assert_eq!(with.len() - column.len(), none.len() - 3);
}

#[test]
fn messages() {
    let check = |wpp, put: &dyn Fn(&mut Vec<u8>, &Event<'_>), expected: &str| {
        let (schema, payload) = message(wpp);
        let mut out = Vec::new();
        with_event(&payload, Some(&schema), |event| put(&mut out, event));
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains(expected), "{out}");
    };
    let options = options();
    let json: &dyn Fn(&mut Vec<u8>, &Event<'_>) = &|out, event| JsonWriter::new(&options).put(out, event);
    check(false, json, r#"{"EventData":{"Message":7,"Name":"x<y"},"System""#);
    check(false, json, r#","Message":"7 is \"x<y\"\n"}"#);
    check(true, json, r#"{"EventData":{"Message":"7 is \"x<y\"","Message_2":7,"Name":"x<y"},"System""#);
    let xml: &dyn Fn(&mut Vec<u8>, &Event<'_>) = &|out, event| XmlWriter::new(&options).put(out, event);
    check(false, xml, r#"<RenderingInfo Culture="en-US"><Message>7 is &quot;x&lt;y&quot;&#10;</Message>"#);
    check(
        false,
        &|out, event| TextWriter::new(&options).put(out, event),
        r#"/ProcessStart/Start: 7 is "x<y""#,
    );
}

#[test]
fn one_writer_serves_changing_events() {
    let (schema, payload) = rich();
    let options = options();
    let mut writer = JsonWriter::new(&options);
    for decode in [true, false, true, true, false] {
        let mut out = Vec::new();
        with_event(&payload, decode.then_some(&schema), |event| writer.put(&mut out, event));
        assert_eq!(String::from_utf8(out).unwrap(), {
            let mut fresh = Vec::new();
            with_event(&payload, decode.then_some(&schema), |event| {
                JsonWriter::new(&options).put(&mut fresh, event);
            });
            String::from_utf8(fresh).unwrap()
        });
    }
}
