//! Data collector sets as XML, in the format of `logman export` and `logman import` on Windows.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use openetw::session::{LogFileMode, SessionClock};
use openetw::{Guid, Level};
use quick_xml::Reader;
use quick_xml::escape::{escape, resolve_predefined_entity};
use quick_xml::events::Event;

use super::collector::{Collector, Set, Version, Wanted};
use etw_app::text::wide_number;

/// `AutoPathFormat` of `pla.h`.
const SERIAL_NUMBER: u64 = 0x200;
const MONTH_DAY_HOUR_MINUTE: u64 = 0x4000;

/// Maximum nesting and number of elements; real sets have five levels and about a hundred elements.
const MAX_DEPTH: usize = 32;
const MAX_ELEMENTS: usize = 1 << 20;

/// An element with its text.
#[derive(Debug, Default)]
struct Element {
    name: String,
    text: String,
    children: Vec<Element>,
}

impl Element {
    fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    fn text(&self, name: &str) -> &str {
        self.child(name).map_or("", |child| child.text.trim())
    }

    /// Parses a number; booleans are 0 and -1.
    fn number(&self, name: &str) -> Result<u64, String> {
        match self.text(name) {
            "" => Ok(0),
            "-1" => Ok(1),
            text => wide_number(text).ok_or_else(|| format!("{name}: '{text}' is not a number")),
        }
    }

    fn small(&self, name: &str) -> Result<u32, String> {
        let number = self.number(name)?;
        u32::try_from(number).map_err(|_| format!("{name}: {number} is too large"))
    }
}

/// Parses a set; errors describe the problem.
pub(super) fn read(text: &str) -> Result<Set, String> {
    let root = elements(text)?;
    if root.name != "DataCollectorSet" {
        return Err(format!("the file is not a data collector set: it starts with <{}>", root.name));
    }
    let mut set = Set {
        name: root.text("Name").to_owned(),
        serial: root.small("SerialNumber")?.max(1),
        ..Set::default()
    };
    let directory = root.text("OutputLocation");
    for child in &root.children {
        match child.name.as_str() {
            "TraceDataCollector" => set.collectors.push(collector(&root, child, directory)?),
            kind if kind.ends_with("DataCollector") => {
                set.left_out.push(format!(
                    "{kind} '{}': only trace data collectors are supported",
                    child.text("Name")
                ));
            }
            _ => {}
        }
    }
    if set.collectors.is_empty() {
        return Err("the set has no trace data collector, the only supported kind".to_owned());
    }
    for (name, why) in [("Duration", "sets run until they are stopped"), ("Task", "tasks are not run")] {
        if !matches!(root.text(name), "" | "0") {
            set.left_out.push(format!("{name}: {why}"));
        }
    }
    Ok(set)
}

fn collector(root: &Element, element: &Element, directory: &str) -> Result<Collector, String> {
    let name = Some(element.text("FileName")).filter(|name| !name.is_empty()).unwrap_or(element.text("Name"));
    let mut mode = LogFileMode(element.small("ExtendedModes")?);
    let stream = element.number("StreamMode")?;
    for (is_on, bit) in [
        (element.number("LogCircular")? != 0, LogFileMode::CIRCULAR),
        (element.number("LogAppend")? != 0, LogFileMode::APPEND),
        (element.number("PreallocateFile")? != 0, LogFileMode::PREALLOCATE),
        (matches!(stream, 2 | 3), LogFileMode::REAL_TIME),
        (stream == 4, LogFileMode::BUFFERING),
    ] {
        if is_on {
            mode |= bit;
        }
    }
    let file = (!matches!(stream, 2 | 4)).then(|| file_of(directory, name)).transpose()?;
    Ok(Collector {
        session: element.text("SessionName").to_owned(),
        file,
        version: match element.number("FileNameFormat")? {
            format if format & SERIAL_NUMBER != 0 => Version::Serial,
            format if format & MONTH_DAY_HOUR_MINUTE != 0 => Version::MonthDayHourMinute,
            _ => Version::None,
        },
        mode,
        overwrites: element.number("LogOverwrite")? != 0,
        changes_files: root.number("Segment")? != 0,
        maximum_mib: root.small("SegmentMaxSize")?,
        buffer_size: element.small("BufferSize")?,
        minimum_buffers: element.small("MinimumBuffers")?,
        maximum_buffers: element.small("MaximumBuffers")?,
        flush_timer_millis: millis(element.text("FlushTimer"))?,
        clock: match element.number("ClockType")? {
            1 => Some(SessionClock::Qpc),
            2 => Some(SessionClock::SystemTime),
            3 => Some(SessionClock::CpuCycle),
            _ => None,
        },
        providers: element
            .children
            .iter()
            .filter(|child| child.name == "TraceDataProvider")
            .map(provider)
            .collect::<Result<_, _>>()?,
    })
}

/// Returns the output file. For a set from Windows, only the file name is used.
fn file_of(directory: &str, name: &str) -> Result<PathBuf, String> {
    let name = name.rsplit('\\').next().unwrap_or_default();
    let name = if name.contains('.') { name.to_owned() } else { format!("{name}.etl") };
    match Path::new(directory).is_absolute() {
        true => Ok(PathBuf::from(directory).join(name)),
        false => std::path::absolute(&name).map_err(|error| error.to_string()),
    }
}

/// Parses seconds and returns milliseconds.
fn millis(text: &str) -> Result<u32, String> {
    let seconds: f64 =
        if text.is_empty() { 0.0 } else { text.parse().map_err(|_| format!("FlushTimer: '{text}'"))? };
    let millis = (seconds * 1000.0).round();
    match (0.0..=f64::from(u32::MAX)).contains(&millis) {
        true => Ok(millis as u32),
        false => Err(format!("FlushTimer: {text} is out of range")),
    }
}

fn provider(element: &Element) -> Result<Wanted, String> {
    let guid = element.text("Guid");
    let mask = |name: &str| element.child(name).map_or(Ok(0), |child| child.number("Value"));
    let level = mask("Level")?;
    Ok(Wanted {
        name: element.text("DisplayName").to_owned(),
        guid: guid.parse::<Guid>().map_err(|error| format!("TraceDataProvider: {error}"))?,
        level: Level(u8::try_from(level).map_err(|_| format!("Level: {level} is more than 255"))?),
        any: mask("KeywordsAny")?,
        all: mask("KeywordsAll")?,
        properties: mask("Properties")? as u32,
    })
}

/// Parses XML text to a tree.
fn elements(text: &str) -> Result<Element, String> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut open = vec![Element::default()];
    let mut count = 0;
    loop {
        let at = reader.buffer_position();
        let event =
            reader.read_event().map_err(|error| format!("offset {}: {error}", reader.error_position()))?;
        let (depth, last) = (open.len(), open.last_mut());
        match (event, last) {
            (Event::Start(start), _) => {
                count += 1;
                if depth > MAX_DEPTH || count > MAX_ELEMENTS {
                    return Err(format!("offset {at}: too many or too deeply nested elements"));
                }
                open.push(Element { name: start.local_name().as_ref().to_owned(), ..Element::default() });
            }
            (Event::Text(more), Some(last)) => last.text += more.as_ref(),
            (Event::CData(more), Some(last)) => last.text += more.as_ref(),
            (Event::GeneralRef(entity), Some(last)) => match entity.resolve_char_ref() {
                Ok(Some(letter)) => last.text.push(letter),
                _ => last.text += resolve_predefined_entity(entity.as_ref()).unwrap_or_default(),
            },
            (Event::End(_), _) => {
                let (ended, around) = (open.pop(), open.last_mut());
                if let (Some(ended), Some(around)) = (ended, around) {
                    around.children.push(ended);
                }
            }
            (Event::Eof, _) => break,
            _ => {}
        }
    }
    match open.pop().filter(|_| open.is_empty()).and_then(|mut top| top.children.pop()) {
        Some(root) => Ok(root),
        None => Err("the text is incomplete or has no element".to_owned()),
    }
}

/// Formats a set as XML.
pub(super) fn write(set: &Set) -> String {
    let mut out = Writer { text: "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned(), depth: 0 };
    let first = set.collectors.first();
    let directory =
        first.and_then(|collector| collector.file.as_ref()?.parent()).map(|path| path.to_string_lossy());
    out.element("DataCollectorSet", |out| {
        for (name, value) in [("Status", "0"), ("Duration", "0"), ("Description", ""), ("DisplayName", "")] {
            out.leaf(name, value);
        }
        out.leaf("Name", &set.name);
        out.leaf("OutputLocation", directory.as_deref().unwrap_or_default());
        out.leaf("RootPath", directory.as_deref().unwrap_or_default());
        out.boolean("Segment", first.is_some_and(|collector| collector.changes_files));
        out.leaf("SegmentMaxDuration", "0");
        out.leaf("SegmentMaxSize", &first.map_or(0, |collector| collector.maximum_mib).to_string());
        out.leaf("SerialNumber", &set.serial.to_string());
        set.collectors.iter().for_each(|collector| write_collector(out, collector));
    });
    out.text
}

fn write_collector(out: &mut Writer, collector: &Collector) {
    let mode = collector.mode;
    let has = |bit| mode.contains(bit);
    let file =
        collector.file.as_ref().and_then(|file| file.file_name()).unwrap_or_default().to_string_lossy();
    // Modes with an element of their own.
    let own = LogFileMode::CIRCULAR
        | LogFileMode::APPEND
        | LogFileMode::PREALLOCATE
        | LogFileMode::REAL_TIME
        | LogFileMode::BUFFERING;
    out.element("TraceDataCollector", |out| {
        out.leaf("DataCollectorType", "1");
        out.leaf("Name", &collector.session);
        out.leaf("FileName", &file);
        let format = match collector.version {
            Version::None => 0,
            Version::Serial => SERIAL_NUMBER,
            Version::MonthDayHourMinute => MONTH_DAY_HOUR_MINUTE,
        };
        out.leaf("FileNameFormat", &format.to_string());
        out.leaf("FileNameFormatPattern", "");
        out.boolean("LogAppend", has(LogFileMode::APPEND));
        out.boolean("LogCircular", has(LogFileMode::CIRCULAR));
        out.boolean("LogOverwrite", collector.overwrites);
        out.leaf("BufferSize", &collector.buffer_size.to_string());
        let clock = collector.clock.map_or(0, |clock| clock as u32);
        out.leaf("ClockType", &clock.to_string());
        out.leaf("ExtendedModes", &(mode - own).0.to_string());
        out.leaf("FlushTimer", &(f64::from(collector.flush_timer_millis) / 1000.0).to_string());
        out.leaf("MaximumBuffers", &collector.maximum_buffers.to_string());
        out.leaf("MinimumBuffers", &collector.minimum_buffers.to_string());
        out.boolean("PreallocateFile", has(LogFileMode::PREALLOCATE));
        out.leaf("SessionName", &collector.session);
        let stream = match (has(LogFileMode::BUFFERING), has(LogFileMode::REAL_TIME), &collector.file) {
            (true, ..) => "4",
            (_, true, Some(_)) => "3",
            (_, true, None) => "2",
            _ => "1",
        };
        out.leaf("StreamMode", stream);
        collector.providers.iter().for_each(|provider| write_provider(out, provider));
    });
}

fn write_provider(out: &mut Writer, provider: &Wanted) {
    out.element("TraceDataProvider", |out| {
        out.leaf("DisplayName", &provider.name);
        out.leaf("FilterEnabled", "0");
        out.leaf("FilterType", "0");
        // 1 is a number, 2 a mask (`ValueMapType` of pla.h).
        let mut map = |name: &str, kind: &str, value: String| {
            out.element(name, |out| {
                out.leaf("ValueMapType", kind);
                out.leaf("Value", &value);
            });
        };
        map("Level", "1", provider.level.0.to_string());
        map("KeywordsAny", "2", format!("{:#x}", provider.any));
        map("KeywordsAll", "2", format!("{:#x}", provider.all));
        map("Properties", "2", format!("{:#x}", provider.properties));
        out.leaf("Guid", &provider.guid.to_string());
    });
}

/// An XML writer with one element per line.
struct Writer {
    text: String,
    depth: usize,
}

impl Writer {
    fn element(&mut self, name: &str, content: impl FnOnce(&mut Writer)) {
        let indent = "\t".repeat(self.depth);
        let _ = writeln!(self.text, "{indent}<{name}>");
        self.depth += 1;
        content(self);
        self.depth -= 1;
        let _ = writeln!(self.text, "{indent}</{name}>");
    }

    fn leaf(&mut self, name: &str, value: &str) {
        let indent = "\t".repeat(self.depth);
        let _ = writeln!(self.text, "{indent}<{name}>{}</{name}>", escape(value));
    }

    fn boolean(&mut self, name: &str, is_so: bool) {
        self.leaf(name, if is_so { "-1" } else { "0" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> Set {
        let provider = |name: &str, any| Wanted {
            name: name.to_owned(),
            guid: Guid::from_provider_name(name),
            level: Level(5),
            any,
            all: 3,
            properties: 4,
        };
        let collector = Collector {
            session: "S & <Co>".to_owned(),
            file: Some("/tmp/a b/t.etl".into()),
            version: Version::Serial,
            mode: LogFileMode::CIRCULAR.union(LogFileMode::GLOBAL_SEQUENCE).union(LogFileMode::REAL_TIME),
            overwrites: true,
            changes_files: false,
            maximum_mib: 100,
            buffer_size: 128,
            minimum_buffers: 4,
            maximum_buffers: 64,
            flush_timer_millis: 1500,
            clock: Some(SessionClock::SystemTime),
            providers: vec![provider("A", u64::MAX), provider("B", 0)],
        };
        Set { serial: 12, ..Set::new("S & <Co>", collector) }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(read(&write(&set())), Ok(set()));
        let live = Collector {
            session: "L".to_owned(),
            mode: LogFileMode::REAL_TIME,
            flush_timer_millis: 1,
            ..Collector::default()
        };
        let live = Set::new("L", live);
        assert_eq!(read(&write(&live)), Ok(live));
    }

    #[test]
    fn sets_of_windows_are_read() {
        let text = r#"<?xml version="1.0" encoding="UTF-16"?>
            <?Copyright (c) Microsoft Corporation. All rights reserved.?>
            <DataCollectorSet><Status>0</Status><Duration>60</Duration><Name>Shop</Name>
            <OutputLocation>C:\PerfLogs\Admin\Shop</OutputLocation><Segment>-1</Segment><SegmentMaxSize>20</SegmentMaxSize>
            <PerformanceCounterDataCollector><Name>Counters</Name></PerformanceCounterDataCollector>
            <TraceDataCollector><Name>Shop</Name><FileName>shop</FileName><BufferSize>8</BufferSize>
              <ClockType>1</ClockType><StreamMode>1</StreamMode><SessionName>Shop&#32;&amp; Co</SessionName>
              <TraceDataProvider><DisplayName>P</DisplayName>
                <Level><Description/><ValueMapType>1</ValueMapType><Value>0x5</Value>
                  <ValueMapItem><Key>x</Key><Value>0xffff</Value></ValueMapItem></Level>
                <KeywordsAny><Value>0x8000000000000010</Value></KeywordsAny>
                <Guid>{22FB2CD6-0E7B-422B-A0C7-2FAD1FD0E716}</Guid></TraceDataProvider>
            </TraceDataCollector></DataCollectorSet>"#;
        let set = read(text).unwrap();
        let collector = &set.collectors[0];
        assert_eq!((set.name.as_str(), collector.session.as_str()), ("Shop", "Shop & Co"));
        assert_eq!((collector.buffer_size, collector.maximum_mib, collector.changes_files), (8, 20, true));
        assert!(collector.file.as_ref().unwrap().ends_with("shop.etl"));
        assert_eq!(
            (collector.providers[0].any, collector.providers[0].level),
            (0x8000_0000_0000_0010, Level(5))
        );
        assert_eq!(set.left_out.len(), 2, "{:?}", set.left_out);
    }

    #[test]
    fn wrong_texts_are_refused() {
        let check = |text: &str, expected: &str| {
            let error = read(text).expect_err(text);
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        };
        check("", "has no element");
        check("no xml", "has no element");
        check("<Other/>", "starts with <Other>");
        check("<DataCollectorSet>", "is incomplete");
        check("<DataCollectorSet></x>", "offset");
        check("<DataCollectorSet/>", "no trace data collector");
        let collector = |inside: &str| {
            format!("<DataCollectorSet><TraceDataCollector>{inside}</TraceDataCollector></DataCollectorSet>")
        };
        check(&collector("<BufferSize>big</BufferSize>"), "BufferSize: 'big' is not a number");
        check(&collector("<BufferSize>0x100000000</BufferSize>"), "too large");
        check(&collector("<TraceDataProvider><Guid>x</Guid></TraceDataProvider>"), "TraceDataProvider");
        check(
            &collector(
                "<TraceDataProvider><Level><Value>300</Value></Level><Guid>{22FB2CD6-0E7B-422B-A0C7-2FAD1FD0E716}</Guid></TraceDataProvider>",
            ),
            "more than 255",
        );
        check(&"<a>".repeat(1000), "too many or too deeply nested elements");
        // Truncated input is rejected or parsed, without a panic.
        let whole = write(&set());
        for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            let _ = read(&whole[..end]);
        }
    }
}
