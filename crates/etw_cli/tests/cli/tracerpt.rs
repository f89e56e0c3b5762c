//! `tracerpt`.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::generated::write_trace;
use crate::tools::{User, wait_until};
use crate::{Etw, csv_rows, xml_events};

const HTTP: &str = "microsoft-Tx/HTTP_Server.etl";
/// The columns of tracerpt's CSV before the payload.
const COLUMNS: [&str; 20] = [
    "Event Name",
    "Type",
    "Event ID",
    "Version",
    "Channel",
    "Level",
    "Opcode",
    "Task",
    "Keyword",
    "PID",
    "TID",
    "Processor Number",
    "Instance ID",
    "Parent Instance ID",
    "Activity ID",
    "Related Activity ID",
    "Clock-Time",
    "Kernel(ms)",
    "User(ms)",
    "User Data",
];

/// The records of an event log, as the crate `evtx` reads them: each as its XML.
fn event_log(path: &str) -> Vec<String> {
    let settings = evtx::ParserSettings::default().num_threads(1).validate_checksums(true);
    let mut parser = evtx::EvtxParser::from_path(path).unwrap().with_configuration(settings);
    parser.records().map(|record| record.unwrap().data).collect()
}

/// Names and texts of the elements of an event's payload, in their order: of `Data`, or of elements with names of their
/// own.
fn fields(event: &str) -> Vec<(String, String)> {
    use quick_xml::{XmlVersion, events::Event};
    let mut reader = quick_xml::Reader::from_str(event);
    let (mut found, mut within, mut open) = (Vec::new(), false, Vec::new());
    loop {
        match reader.read_event().unwrap() {
            Event::Start(element) => {
                let tag = element.name().as_ref().to_owned();
                let name = element.try_get_attribute("Name").unwrap();
                let name =
                    name.map(|name| name.normalized_value(XmlVersion::Implicit1_0).unwrap().into_owned());
                if tag == "EventData" || tag == "UserData" {
                    within = true;
                } else if within {
                    open.push((name.unwrap_or(tag), String::new()));
                }
            }
            Event::Empty(element) if within => {
                let name = element.try_get_attribute("Name").unwrap();
                let name =
                    name.map(|name| name.normalized_value(XmlVersion::Implicit1_0).unwrap().into_owned());
                let tag = element.name().as_ref().to_owned();
                found.push((name.unwrap_or(tag), String::new()));
            }
            Event::Text(text) => {
                if let Some((_, value)) = open.last_mut() {
                    value.push_str(&text);
                }
            }
            Event::GeneralRef(reference) => {
                if let Some((_, value)) = open.last_mut() {
                    let character = reference.resolve_char_ref().unwrap();
                    let named = match &*reference {
                        "lt" => '<',
                        "gt" => '>',
                        "amp" => '&',
                        "quot" => '"',
                        "apos" => '\'',
                        _ => '?',
                    };
                    value.push(character.unwrap_or(named));
                }
            }
            Event::End(element) => {
                if matches!(element.name().as_ref(), "EventData" | "UserData") {
                    within = false;
                } else if let Some(done) = open.pop() {
                    found.push(done);
                }
            }
            Event::Eof => return found,
            _ => {}
        }
    }
}

/// The texts of an XML dump's events.
fn events_of(xml: &str) -> Vec<&str> {
    xml.split_inclusive("</Event>").filter_map(|part| part.find("<Event ").map(|at| &part[at..])).collect()
}

/// A value without what formats differ in: case, `0x`, braces, white space at the ends.
fn plain(value: &str) -> String {
    let value = value.trim().trim_start_matches('{').trim_end_matches('}').to_lowercase();
    value.trim_start_matches("0x").to_owned()
}

/// The attribute of an element in an event.
fn attribute<'e>(event: &'e str, element: &str, name: &str) -> Option<&'e str> {
    let element = event.split_once(&format!("<{element} "))?.1.split_once('>')?.0;
    element.split_once(&format!("{name}=\""))?.1.split_once('"').map(|(value, _)| value)
}

/// The text of an element in an event.
fn text<'e>(event: &'e str, element: &str) -> Option<&'e str> {
    event.split_once(&format!("<{element}>"))?.1.split_once('<').map(|(text, _)| text)
}

fn read(etw: &Etw, name: &str) -> String {
    std::fs::read_to_string(etw.path(name)).unwrap()
}

#[test]
fn without_options_it_writes_a_dump_and_a_summary() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 1000, 3);
    let shown = etw.ok(&["tracerpt", "a.etl"]);
    assert!(shown.contains("DumpFile:           dumpfile.xml\nSummary:            summary.txt\n"), "{shown}");
    assert!(shown.ends_with("\nThe command completed successfully.\n"), "{shown}");
    let dump = read(&etw, "dumpfile.xml");
    assert!(dump.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n<Events>\r\n<Event "), "{dump}");
    let records = xml_events(&dump);
    let summary = read(&etw, "summary.txt");
    assert!(summary.contains(&format!("Total Events  Processed {records}\r\n")), "{summary}");
    assert!(summary.contains("Total Events  Lost      3\r\n"), "{summary}");
    assert!(
        summary.contains("|       1000   Contoso/Tick         0               0               {"),
        "{summary}"
    );
    assert!(shown.contains("Events lost:        3\n"), "{shown}");
    // Existing files are not overwritten without -y.
    let (status, error) = etw.run_fails(&["tracerpt", "a.etl"]);
    assert_eq!((status, &*error), (80, "tracerpt: dumpfile.xml already exists; -y overwrites it (0x50)\n"));
    etw.ok(&["tracerpt", "a.etl", "-y"]);
}

#[test]
fn csv_has_the_columns_of_tracerpt() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 500, 0);
    etw.ok(&["tracerpt", "a.etl", "–o", "a.csv", "–of", "CSV"]);
    let rows = csv_rows(&read(&etw, "a.csv"));
    let trimmed: Vec<Vec<&str>> =
        rows.iter().map(|row| row.iter().map(|column| column.trim_start()).collect()).collect();
    assert_eq!(trimmed[0], COLUMNS);
    assert_eq!(trimmed[1][..3], ["EventTrace", "Header", "0"]);
    let events: Vec<_> = trimmed.iter().filter(|row| row[0] == "Contoso/Tick").collect();
    assert_eq!(events.len(), 500);
    for (number, row) in events.iter().enumerate() {
        assert_eq!(row[8], "0x0000000000000010");
        assert_eq!(row[9], format!("0x{:08X}", 100 + number % 3));
        assert_eq!(row[14], "{00000000-0000-0000-0000-000000000000}");
        assert_eq!(row[19..], [number.to_string(), format!("text \"{number}\" <{}>", "x".repeat(80))]);
    }
    // The clock's own readings; UTF-16.
    etw.ok(&["tracerpt", "a.etl", "-o", "raw.csv", "-of", "CSV", "-rts", "-en", "Unicode"]);
    let bytes = std::fs::read(etw.path("raw.csv")).unwrap();
    let units: Vec<u16> = bytes.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    assert_eq!(units[0], 0xFEFF);
    let raw = csv_rows(&String::from_utf16(&units[1..]).unwrap());
    let event = raw.iter().find(|row| row[0].trim() == "Contoso/Tick").unwrap();
    assert_eq!(event[16].trim(), "11000");
}

/// Every event of the trace that its publishers converted to an event log on Windows, beside what they have.
#[test]
fn the_published_event_log_has_the_same_events() {
    let Some(trace) = etw_testkit::data::trace(HTTP) else { return };
    let expected = std::fs::read_to_string(trace.path.with_extension("evtx.jsonl")).unwrap();
    let expected: Vec<Value> = expected.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let manifests = etw_testkit::data::data_dir().unwrap().join("manifests/microsoft-Tx/HTTP_Server.man");
    let etw = Etw::new();
    let (path, manifest) = (trace.path.to_str().unwrap(), manifests.to_str().unwrap());
    for (format, file) in [("XML", "a.xml"), ("EVTX", "a.evtx")] {
        etw.ok(&["tracerpt", path, "-import", manifest, "-o", file, "-of", format]);
    }
    let xml = read(&etw, "a.xml");
    // The log has no record for the file's own header.
    let (of_xml, of_evtx) = (events_of(&xml), event_log(&etw.path("a.evtx")));
    assert_eq!((of_xml.len() - 1, of_evtx.len()), (expected.len(), expected.len()));
    let mut compared = 0;
    for ((wanted, xml), evtx) in expected.iter().zip(&of_xml[1..]).zip(&of_evtx) {
        for event in [*xml, evtx] {
            let system = &wanted["System"];
            for (element, name) in [("Provider", "Name"), ("Provider", "Guid")] {
                assert_eq!(
                    attribute(event, element, name),
                    system[element]["#attributes"][name].as_str(),
                    "{event}"
                );
            }
            for name in ["EventID", "Version", "Level", "Task", "Opcode"] {
                assert_eq!(text(event, name), Some(&*system[name].to_string()), "{name}: {event}");
            }
            assert_eq!(text(event, "Keywords"), system["Keywords"].as_str());
            let time = system["TimeCreated"]["#attributes"]["SystemTime"].as_str().unwrap();
            let found = attribute(event, "TimeCreated", "SystemTime").unwrap();
            assert!(found.starts_with(time.trim_end_matches('Z')), "{found} is not {time}");
            let activity = system["Correlation"]["#attributes"]["ActivityID"].as_str().map(plain);
            let found = attribute(event, "Correlation", "ActivityID").map(plain);
            let found = found.filter(|found| !found.trim_matches(['0', '-']).is_empty());
            assert_eq!(found, activity, "{event}");
            for name in ["ProcessID", "ThreadID", "ProcessorID", "KernelTime", "UserTime"] {
                let wanted = system["Execution"]["#attributes"][name].to_string();
                assert_eq!(attribute(event, "Execution", name), Some(&*wanted), "{name}: {event}");
            }
            // Texts that end with the payload, without a zero, were errors there.
            let Some(data) = wanted["EventData"].as_object() else { continue };
            let found = fields(event);
            let names: Vec<&String> = found.iter().map(|(name, _)| name).collect();
            assert_eq!(names, data.keys().collect::<Vec<_>>(), "{event}");
            for ((name, found), wanted) in found.iter().zip(data.values()) {
                compared += usize::from(same_value(found, wanted, name));
            }
        }
    }
    assert!(compared > 10_000, "{compared} values compared");
}

/// Whether a value has been compared; names that a map has in place of a number have not, nor addresses in place of bytes.
fn same_value(found: &str, wanted: &Value, name: &str) -> bool {
    let number = |text: &str| match text.to_lowercase().strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    match wanted {
        Value::Number(wanted) => match number(found) {
            Some(found) => assert_eq!(Some(found), wanted.as_u64(), "{name}"),
            None => return false,
        },
        Value::String(wanted) if found.starts_with('[') && wanted.starts_with("17") => return false,
        Value::String(wanted) => assert_eq!(plain(found), plain(wanted), "{name}"),
        other => assert_eq!(found, "", "{name}: {other}"),
    }
    true
}

#[test]
fn every_format_has_every_event_and_field_of_real_traces() {
    let Some(traces) = etw_testkit::data::traces() else { return };
    let etw = Etw::new();
    let mut values = 0;
    for trace in traces.iter().filter(|trace| trace.records < 30_000) {
        let path = trace.path.to_str().unwrap();
        for (format, file) in [("XML", "a.xml"), ("CSV", "a.csv"), ("EVTX", "a.evtx")] {
            etw.ok(&["tracerpt", path, "-o", file, "-of", format, "-y", "-lr"]);
        }
        let xml = read(&etw, "a.xml");
        let records = trace.records as usize;
        assert_eq!(xml_events(&xml), records, "{}", trace.name);
        let rows = csv_rows(&read(&etw, "a.csv"));
        assert_eq!(rows.len(), records + 1, "{}", trace.name);
        assert!(rows.iter().all(|row| row.len() >= 19), "{}", trace.name);
        let of_xml = events_of(&xml);
        let is_header = |event: &&&str| {
            event.contains("<EventGuid>{68fdd900-4a3e-11d1-84f4-0000f80464e3}")
                && text(event, "Opcode") == Some("0")
        };
        let of_xml: Vec<&&str> = of_xml.iter().filter(|event| !is_header(event)).collect();
        let of_evtx = event_log(&etw.path("a.evtx"));
        assert_eq!(of_evtx.len(), of_xml.len(), "{}", trace.name);
        for (xml, evtx) in of_xml.iter().zip(&of_evtx) {
            let (xml, evtx) = (fields(xml), fields(evtx));
            let names =
                |fields: &[(String, String)]| fields.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
            assert_eq!(names(&xml), names(&evtx), "{}", trace.name);
            for ((name, xml), (_, evtx)) in xml.iter().zip(&evtx) {
                // The log has socket addresses as the bytes that they are.
                let is_address = xml.contains(':') && !evtx.contains(':');
                assert!(
                    is_address || plain(xml) == plain(evtx),
                    "{}: {name}: {xml} is not {evtx}",
                    trace.name
                );
                values += 1;
            }
        }
    }
    assert!(values > 100_000, "{values} values");
}

#[test]
fn what_is_exported_decodes_the_trace_again() {
    let Some(trace) = etw_testkit::data::trace(HTTP) else { return };
    let manifest = etw_testkit::data::data_dir().unwrap().join("manifests/microsoft-Tx/HTTP_Server.man");
    let etw = Etw::new();
    let path = trace.path.to_str().unwrap();
    etw.ok(&[
        "tracerpt",
        path,
        "-import",
        manifest.to_str().unwrap(),
        "-o",
        "a.csv",
        "-of",
        "CSV",
        "-export",
    ]);
    assert!(read(&etw, "schema.man").contains("<!-- EventTrace "), "classic events have no manifest");
    etw.ok(&["tracerpt", path, "-import", "schema.man", "-o", "b.csv", "-of", "CSV", "-int", "events.txt"]);
    assert_eq!(read(&etw, "a.csv"), read(&etw, "b.csv"));
    let text = read(&etw, "events.txt");
    assert!(text.contains("Microsoft-Windows-HttpService {dd5ef90a"), "{text}");
}

#[test]
fn a_report_is_one_page_that_nothing_in_a_trace_breaks_out_of() {
    let etw = Etw::new();
    crate::generated::write_trace_of(&etw.path("a.etl"), "<script>alert('\"&x')</script>", 300);
    etw.ok(&["tracerpt", "a.etl", "-report", "a.html", "-f", "HTML", "-summary"]);
    etw.ok(&["tracerpt", "a.etl", "-report", "a.xml", "-f", "XML"]);
    let page = read(&etw, "a.html");
    check_page(&page);
    assert!(page.contains("&lt;script&gt;alert('&quot;&amp;x')&lt;/script&gt;"), "{page}");
    assert!(page.contains("<div class=\"verdict good\">Complete"), "{page}");
    let report = read(&etw, "a.xml");
    xml_events(&report);
    assert!(
        report.contains("<event>&lt;script&gt;") || report.contains("<provider>&lt;script&gt;"),
        "{report}"
    );
    assert_eq!(etw.ok(&["report", "a.etl", "--format", "html"]), page);
}

#[test]
fn a_report_of_a_real_trace_has_charts_and_tables() {
    let Some(trace) = etw_testkit::data::trace("microsoft-perfview/net.4.5.2.x64.etl") else { return };
    let etw = Etw::new();
    etw.ok(&["report", trace.path.to_str().unwrap(), "--format", "html", "-o", "a.html"]);
    let page = read(&etw, "a.html");
    check_page(&page);
    for part in [
        "<section id=\"cpu-over-time\">",
        "<section id=\"events-over-time\">",
        "<section id=\"cpu\">",
        "<section id=\"events\">",
        "<dt>Session</dt>",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

/// Checks that a page has only allowed elements and attributes, that elements are closed, and that it loads nothing.
fn check_page(page: &str) {
    const TAGS: &[&str] = &[
        "html",
        "head",
        "title",
        "style",
        "body",
        "main",
        "h1",
        "h2",
        "p",
        "div",
        "span",
        "nav",
        "a",
        "section",
        "dl",
        "dt",
        "dd",
        "figure",
        "figcaption",
        "svg",
        "g",
        "line",
        "rect",
        "text",
        "ul",
        "li",
        "i",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "footer",
        "script",
        "noscript",
        "label",
        "button",
        "output",
        "details",
        "summary",
        "code",
    ];
    const EMPTY: &[&str] = &["!DOCTYPE", "meta", "input"];
    let mut open = Vec::new();
    let mut rest = page;
    while let Some((_, from)) = rest.split_once('<') {
        let (tag, behind) = from.split_once('>').unwrap();
        rest = behind;
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else if !EMPTY.contains(&name) {
            assert!(TAGS.contains(&name), "{tag}");
            open.push(name);
        }
        if tag.starts_with("script") {
            // A script ends at the next end tag, whatever it contains.
            rest = &rest[rest.find("</script>").unwrap()..];
        }
        for attribute in tag.split(' ').skip(1).filter_map(|part| part.split_once('=').map(|(name, _)| name))
        {
            assert!(!attribute.starts_with("on") && attribute != "src", "{tag}");
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(!page.contains("://"), "nothing comes from elsewhere");
}

#[test]
fn a_live_session_until_it_ends() {
    let user = User::new();
    user.ok(&["logman", "start", "S", "-p", "Tracerpt.Test", "-rt", "-ets"]);
    let mut words = vec!["tracerpt", "-rt", "S", "-o", "live.csv", "-of", "CSV", "-summary", "-report"];
    words.extend(["-f", "HTML"]);
    let mut child = user.command(&words).stdout(std::process::Stdio::null()).spawn().unwrap();
    wait_until("the file is there", || Path::new(&user.etw.path("live.csv")).exists());
    std::thread::sleep(Duration::from_millis(500));
    for number in 0..5 {
        user.write("Tracerpt.Test", number);
    }
    user.ok(&["logman", "stop", "S", "-ets"]);
    assert!(child.wait().unwrap().success());
    let rows = csv_rows(&read(&user.etw, "live.csv"));
    let numbers: Vec<&str> =
        rows.iter().filter(|row| row[0].trim() == "Tracerpt.Test/Number").map(|row| row[19].trim()).collect();
    assert_eq!(numbers, ["0", "1", "2", "3", "4"]);
    assert!(read(&user.etw, "summary.txt").contains("|          5   Tracerpt.Test/Number"));
    let page = read(&user.etw, "workload.html");
    check_page(&page);
    // The viewer opens files, not sessions.
    assert!(!page.contains("etw view"), "{page}");
}

#[test]
fn what_cannot_be_done_is_told_in_one_line() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 10, 0);
    std::fs::write(etw.path("no.etl"), "this is no trace").unwrap();
    std::fs::create_dir(etw.path("dir")).unwrap();
    let check = |words: &[&str], status: i32, expected: &str| {
        let mut all = vec!["tracerpt"];
        all.extend(words);
        let (found, error) = etw.run_fails(&all);
        let error: Vec<&str> = error.lines().filter(|line| !line.starts_with("etw: warning: ")).collect();
        assert_eq!((found, error.len()), (status, 1), "{words:?}: {error:?}");
        assert!(error[0].starts_with("tracerpt: ") && error[0].contains(expected), "{words:?}: {error:?}");
    };
    check(&["-wrong"], 87, "unknown option -wrong");
    check(&[], 87, "no trace is named");
    check(&["a.etl", "-of", "JSON"], 87, "expected CSV, EVTX or XML");
    check(&["a.etl", "-of"], 87, "-of needs CSV|EVTX|XML");
    check(&["missing.etl"], 2, "missing.etl: ");
    check(&["a.etl", "missing.etl", "-o", "x.xml"], 2, "missing.etl: ");
    check(&["a.etl", "-o", "a.etl", "-y"], 87, "a.etl is an input");
    check(&["a.etl", "-o", "x", "-summary", "x"], 87, "x would be written twice");
    check(&["a.etl", "-o", "dir", "-y"], 5, "dir is not a file");
    check(&["a.etl", "-o", "none/x.xml"], 2, "none/x.xml: cannot be written");
    check(&["a.etl", "-df", "schema.xml"], 50, "performance counter schemas");
    check(&["c.blg"], 50, "performance counter logs");
    check(&["C:\\traces\\a.etl"], 3, "is a Windows path");
    assert!(!Path::new(&etw.path("x.xml")).exists(), "nothing is written before it is clear that it can be");
    // A file that is no trace, and a session that is not there.
    let (_, error) = etw.run_fails(&["tracerpt", "no.etl", "-o", "y.xml"]);
    assert!(error.contains("no.etl"), "{error}");
    let user = User::new();
    let (status, error) = user.fails(&["tracerpt", "-rt", "Nothing", "-o", "z.xml"]);
    assert!(status == 105 && error.starts_with("tracerpt: session 'Nothing': "), "{error}");
    let (status, error) = user.fails(&["tracefmt", "-rt", "Nothing", "-o", "z.txt"]);
    assert!(status == 105 && error.starts_with("tracefmt: session 'Nothing': "), "{error}");
    assert!(!Path::new(&user.etw.path("z.txt")).exists());
}

#[test]
fn damaged_traces_give_valid_files() {
    let Some(trace) = etw_testkit::data::trace("microsoft-demikernel/PktMon.etl") else { return };
    let etw = Etw::new();
    let mut read_back = 0;
    etw_testkit::mutate::each(&trace.read().unwrap(), 8, |damaged| {
        std::fs::write(etw.path("a.etl"), damaged).unwrap();
        let output = etw.run(&[
            "tracerpt", "a.etl", "-o", "a.evtx", "-of", "EVTX", "-report", "a.html", "-f", "HTML", "-y",
        ]);
        if !output.status.success() {
            return;
        }
        read_back += usize::from(!event_log(&etw.path("a.evtx")).is_empty());
        check_page(&read(&etw, "a.html"));
    });
    assert!(read_back > 3, "{read_back}");
}
