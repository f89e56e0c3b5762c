//! Checks of one event: reads all values, and writes all output formats, which must be well formed.

use std::fmt::Write;
use std::hint::black_box;

use etw_export::{
    CsvWriter, EvtxWriter, JsonWriter, Options, PcapngWriter, Source, TextWriter, TracerptCsvWriter,
    XmlWriter, csv::COLUMNS, xml::XML_HEADER,
};
use etw_schema::{Array, Event, Properties, Struct, Value};

/// Maximum output of one event in characters: a byte of payload gives a few characters, but schema names repeat for
/// each element of an array, and a map may have many names for one value.
const MAX_OUTPUT: usize = 64 << 20;

/// Writers of all formats.
pub(crate) struct Writers {
    json: JsonWriter,
    csv: CsvWriter,
    tracerpt: TracerptCsvWriter,
    xml: XmlWriter,
    lines: XmlWriter,
    options: Options,
    text: TextWriter,
    packets: Option<PcapngWriter<std::io::Sink>>,
    out: Vec<u8>,
}

impl Writers {
    pub(crate) fn new() -> Writers {
        let source = Source {
            name: "fuzz.etl".to_owned(),
            computer: Some("FUZZ".to_owned()),
            timer_resolution: 156_250,
        };
        let options = Options { sources: vec![source], ..Options::default() };
        Writers {
            json: JsonWriter::new(&options),
            csv: CsvWriter::new(&options),
            tracerpt: TracerptCsvWriter::new(&options),
            xml: XmlWriter::new(&options),
            lines: XmlWriter::new(&Options { lines: true, strict: true, ..options.clone() }),
            text: TextWriter::new(&options),
            packets: PcapngWriter::new(std::io::sink()).ok(),
            out: Vec::new(),
            options,
        }
    }

    /// Writes an event in every format, and reads all its values.
    pub(crate) fn show(&mut self, event: &Event<'_>) {
        if let Ok(properties) = &event.properties {
            values(properties);
        }
        if let Some(packets) = &mut self.packets {
            black_box(packets.put(event)).ok();
        }
        let out = &mut self.out;
        out.clear();
        self.json.put(out, event);
        check_size(out);
        if let Err(error) = serde_json::from_slice::<serde_json::Value>(out) {
            panic!("no JSON: {error}: {}", String::from_utf8_lossy(out));
        }
        out.clear();
        self.csv.put_header(out);
        self.csv.put(out, event);
        check_size(out);
        assert_eq!(csv_columns(out), [COLUMNS.len() + 1; 2], "{}", String::from_utf8_lossy(out));
        out.clear();
        self.tracerpt.put(out, event);
        check_size(out);
        assert!(matches!(*csv_columns(out), [columns] if columns >= COLUMNS.len()));
        out.clear();
        self.text.put(out, event);
        check_size(out);
        let line = text(out);
        assert_eq!(line.find(char::is_control), Some(line.len() - 1), "one line without control characters");
        out.clear();
        out.extend_from_slice(XML_HEADER.as_bytes());
        self.xml.put(out, event);
        out.extend_from_slice(etw_export::xml::XML_FOOTER.as_bytes());
        check_size(out);
        check_xml(text(out));
        out.clear();
        out.extend_from_slice(XML_HEADER.as_bytes());
        self.lines.put(out, event);
        out.extend_from_slice(etw_export::xml::XML_FOOTER.as_bytes());
        check_xml(text(out));
        let log = EvtxWriter::new(std::io::Cursor::new(Vec::new()), &self.options);
        let written = log.and_then(|mut log| log.put(event).and_then(|()| log.finish()));
        assert!(matches!(&written, Ok(log) if log.records == 1), "{written:?}");
    }
}

fn check_size(out: &[u8]) {
    assert!(out.len() < MAX_OUTPUT, "{} bytes of output for one event", out.len());
}

fn text(out: &[u8]) -> &str {
    std::str::from_utf8(out).unwrap_or_else(|error| panic!("no UTF-8: {error}"))
}

/// Reads every value with every accessor.
fn values(properties: &Properties<'_>) {
    let mut text = String::new();
    for property in properties.iter() {
        text.clear();
        let _ = write!(text, "{} = {}", property.name(), property.text());
        check_size(text.as_bytes());
        black_box((property.map(), property.format(), property.value().as_text(), property.is_hidden()));
        value(&property.value());
    }
    black_box((properties.rest(), properties.compiled().label().to_string()));
    black_box(properties.error().map(|error| error.to_string()));
    text.clear();
    properties.write_message(&mut text);
    check_size(text.as_bytes());
}

fn value(value: &Value<'_>) {
    match value {
        Value::Struct(members) => members_of(members),
        Value::Array(array) => elements_of(array),
        other => {
            black_box((other.as_text(), other.as_integer()));
        }
    }
}

fn members_of(members: &Struct<'_>) {
    members.iter().for_each(|member| value(&member.value()));
}

fn elements_of(array: &Array<'_>) {
    assert_eq!(array.iter().count(), array.len());
    black_box((array.get(array.len()), array.as_bytes()));
    for element in array.iter().take(64) {
        value(&element);
    }
}

/// Returns the number of columns in each line of a CSV text, by RFC 4180.
fn csv_columns(bytes: &[u8]) -> Vec<usize> {
    let (mut lines, mut columns, mut quoted) = (Vec::new(), 1, false);
    let mut bytes = bytes.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => quoted = !quoted,
            b',' if !quoted => columns += 1,
            b'\r' if !quoted => {
                assert_eq!(bytes.next(), Some(b'\n'), "a line ends with two characters");
                lines.push(columns);
                columns = 1;
            }
            b'\n' if !quoted => panic!("a line break that no quotes enclose"),
            _ => {}
        }
    }
    assert!(!quoted && columns == 1, "the last line does not end");
    lines
}

/// Checks that elements are closed, attributes quoted, references known, and all characters valid in XML 1.0.
fn check_xml(text: &str) {
    let allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..);
    assert!(text.chars().all(allowed), "a character that XML does not have");
    let mut reader = quick_xml::Reader::from_str(text);
    loop {
        match reader.read_event() {
            Ok(quick_xml::events::Event::Eof) => return,
            Ok(quick_xml::events::Event::Start(element) | quick_xml::events::Event::Empty(element)) => {
                for attribute in element.attributes() {
                    assert!(attribute.is_ok(), "{attribute:?}");
                }
            }
            Ok(quick_xml::events::Event::GeneralRef(reference)) => {
                let known = matches!(&*reference, "lt" | "gt" | "amp" | "quot" | "apos");
                assert!(known || reference.is_char_ref(), "{reference:?}");
            }
            Ok(_) => {}
            Err(error) => panic!("no XML: {error}: {text}"),
        }
    }
}
