//! XML text as a flat list of the elements and attributes that occur in manifests.

use memchr::memchr;
use quick_xml::encoding::{DetectedEncoding, detect_encoding};
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::ProblemKind;

/// An element of a manifest. Children follow their parent.
#[derive(Debug)]
pub struct Element {
    /// The local name if manifests have such an element, otherwise empty.
    pub name: &'static str,
    /// Byte offset in the text.
    pub at: usize,
    /// Index of the first element that is not inside this one.
    pub(super) end: usize,
    /// Index of the enclosing element; its own index for a root.
    pub parent: usize,
    attributes: Vec<(&'static str, Box<str>)>,
}

impl Element {
    /// Returns the value of an attribute, trimmed.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.text(name).map(str::trim)
    }

    /// Returns the unmodified value of an attribute.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| *key == name).map(|(_, value)| &**value)
    }
}

/// The elements of a manifest's text, in order, and the problems of the text.
#[derive(Debug)]
pub struct Document {
    /// The elements.
    pub elements: Vec<Element>,
    pub(super) problems: Vec<(usize, ProblemKind)>,
}

/// Limit of the nesting depth; manifests have about ten levels.
const MAX_DEPTH: usize = 64;
/// Limit of syntax errors, after which the rest of the text is skipped.
const MAX_SYNTAX_ERRORS: usize = 32;
/// Limit of attributes per element, above that of any manifest.
const MAX_ATTRIBUTES: usize = 64;

impl Document {
    /// Parses a file in any of the encodings that manifests have.
    pub fn parse(bytes: &[u8]) -> Document {
        Document::read(&decode(bytes).0)
    }

    /// Parses a text. After a syntax error, parsing continues at the next `<`.
    pub(super) fn read(text: &str) -> Document {
        let mut document = Document { elements: Vec::new(), problems: Vec::new() };
        let mut open = Vec::new();
        let mut from = 0;
        while let Some(rest) = text.get(from..) {
            let mut reader = Reader::from_str(rest);
            let config = reader.config_mut();
            config.check_end_names = false;
            config.allow_unmatched_ends = true;
            config.allow_dangling_amp = true;
            let error = loop {
                let at = from + usize::try_from(reader.buffer_position()).unwrap_or(0);
                match reader.read_event() {
                    Ok(Event::Start(start)) => {
                        document.push(&start, at, &open);
                        open.push(document.elements.len() - 1);
                    }
                    Ok(Event::Empty(start)) => document.push(&start, at, &open),
                    Ok(Event::End(end)) => document.close(end.local_name().as_ref(), &mut open),
                    Ok(Event::Eof) => break None,
                    Ok(_) => {}
                    Err(error) => break Some(error),
                }
                if open.len() > MAX_DEPTH {
                    document.problems.push((at, ProblemKind::TooDeep));
                    from = text.len();
                    break None;
                }
            };
            let Some(error) = error else { break };
            let at = from + usize::try_from(reader.error_position()).unwrap_or(0);
            document.problems.push((at, ProblemKind::Syntax(error.to_string())));
            let next = text.as_bytes().get(at + 1..).and_then(|rest| memchr(b'<', rest));
            match next {
                Some(next) if document.problems.len() < MAX_SYNTAX_ERRORS => from = at + 1 + next,
                _ => break,
            }
        }
        let end = document.elements.len();
        for index in open {
            if let Some(element) = document.elements.get_mut(index) {
                element.end = end;
            }
        }
        document
    }

    /// Returns the direct children of an element, with their indices.
    pub fn children(&self, parent: usize) -> impl Iterator<Item = (usize, &Element)> {
        let end = self.elements.get(parent).map_or(0, |element| element.end);
        let mut at = parent + 1;
        std::iter::from_fn(move || {
            let element = self.elements.get(at).filter(|_| at < end)?;
            let index = at;
            at = element.end.max(at + 1);
            Some((index, element))
        })
    }

    /// Returns the direct children of all direct children named `list`: `<tasks><task/></tasks>`.
    pub fn listed(&self, parent: usize, list: &'static str) -> impl Iterator<Item = (usize, &Element)> {
        self.children(parent)
            .filter(move |(_, child)| child.name == list)
            .flat_map(|(index, _)| self.children(index))
    }

    fn push(&mut self, start: &BytesStart<'_>, at: usize, open: &[usize]) {
        let mut attributes = Vec::new();
        for attribute in start.attributes().with_checks(false).take(MAX_ATTRIBUTES) {
            match attribute {
                Ok(attribute) => {
                    let Some(name) = known(ATTRIBUTES, attribute.key.as_ref()) else { continue };
                    match attribute.normalized_value(XmlVersion::Implicit1_0) {
                        Ok(value) => attributes.push((name, value.as_ref().into())),
                        Err(error) => self.problems.push((at, ProblemKind::Syntax(error.to_string()))),
                    }
                }
                Err(error) => {
                    self.problems.push((at, ProblemKind::Syntax(error.to_string())));
                    break;
                }
            }
        }
        let name = known(ELEMENTS, start.local_name().as_ref()).unwrap_or_default();
        let index = self.elements.len();
        let parent = open.last().copied().unwrap_or(index);
        self.elements.push(Element { name, at, end: index + 1, parent, attributes });
    }

    /// Closes the innermost open element of this name, and all open elements inside it.
    fn close(&mut self, name: &str, open: &mut Vec<usize>) {
        let name = known(ELEMENTS, name).unwrap_or_default();
        let matching = open.iter().rposition(|&at| self.elements.get(at).is_some_and(|e| e.name == name));
        let Some(depth) = matching else { return };
        let end = self.elements.len();
        for index in open.drain(depth..) {
            if let Some(element) = self.elements.get_mut(index) {
                element.end = end;
            }
        }
    }
}

/// Decodes a file to text, by its byte order mark, by detecting UTF-16, or by the encoding in the prolog. The flag is
/// set if bytes had to be replaced.
pub(super) fn decode(bytes: &[u8]) -> (std::borrow::Cow<'_, str>, bool) {
    let detected = detect_encoding(bytes);
    let mut encoding =
        detected.as_ref().map_or(DetectedEncoding::Utf8Bom.encoding(), |found| found.encoding());
    if matches!(detected, Some(DetectedEncoding::AsciiCompatible))
        && let Ok(Event::Decl(declaration)) = Reader::from_reader(bytes).read_event()
        && let Some(named) = declaration.encoder()
        // A prolog in single bytes that claims UTF-16: an editor saved the file in another encoding.
        && !named.name().starts_with("UTF-16")
    {
        encoding = named;
    }
    let (text, _, replaced) = encoding.decode(bytes);
    (text, replaced)
}

fn known(names: &'static [&'static str], name: &str) -> Option<&'static str> {
    names.iter().find(|known| **known == name).copied()
}

const ELEMENTS: &[&str] = &[
    "data",
    "event",
    "map",
    "string",
    "task",
    "template",
    "opcode",
    "keyword",
    "struct",
    "binary",
    "UserData",
    "valueMap",
    "bitMap",
    "patternMap",
    "channel",
    "importChannel",
    "level",
    "provider",
    "events",
    "maps",
    "tasks",
    "templates",
    "opcodes",
    "keywords",
    "channels",
    "levels",
    "counters",
    "instrumentation",
    "localization",
    "resources",
    "stringTable",
    "messageTable",
    "message",
];

const ATTRIBUTES: &[&str] = &[
    "name",
    "inType",
    "outType",
    "value",
    "id",
    "message",
    "length",
    "count",
    "map",
    "tid",
    "template",
    "symbol",
    "version",
    "level",
    "task",
    "opcode",
    "keywords",
    "channel",
    "mask",
    "guid",
    "eventGUID",
    "chid",
    "type",
    "controlGuid",
    "controlGUID",
    "culture",
    "mid",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings() {
        let check = |bytes: &[u8], expected: &str, replaced: bool| {
            let (text, flag) = decode(bytes);
            assert_eq!((text.as_ref(), flag), (expected, replaced));
        };
        let wide: Vec<u8> = "\u{feff}<é/>".encode_utf16().flat_map(u16::to_le_bytes).collect();
        check(&wide, "<é/>", false);
        let wide: Vec<u8> = "\u{feff}<é/>".encode_utf16().flat_map(u16::to_be_bytes).collect();
        check(&wide, "<é/>", false);
        let wide: Vec<u8> = "<?xml?>".encode_utf16().flat_map(u16::to_le_bytes).collect();
        check(&wide, "<?xml?>", false);
        check("\u{feff}<é/>".as_bytes(), "<é/>", false);
        check("<é/>".as_bytes(), "<é/>", false);
        check(b"<\xe9/>", "<\u{fffd}/>", true);
        let latin = b"<?xml version='1.0' encoding='windows-1252'?><\xe9/>";
        check(latin, "<?xml version='1.0' encoding='windows-1252'?><é/>", false);
        let wrong = b"<?xml version='1.0' encoding='utf-16'?><a/>";
        check(wrong, "<?xml version='1.0' encoding='utf-16'?><a/>", false);
    }

    #[test]
    fn a_broken_tag_does_not_lose_the_others() {
        let check = |text: &str, names: &[&str], problems: usize| {
            let document = Document::read(text);
            let found: Vec<_> = document.elements.iter().map(|element| element.name).collect();
            assert_eq!(found, names, "{text}");
            assert_eq!(document.problems.len(), problems, "{text}: {:?}", document.problems);
        };
        check("<events><event value='1'/><data/></events>", &["events", "event", "data"], 0);
        check("<events><event value=1/><data/></events>", &["events", "event", "data"], 1);
        check("<x:events xmlns:x='u'><x:event/>", &["events", "event"], 0);
        check("<events><event></events><task/>", &["events", "event", "task"], 0);
        check("<events><!x y><event/>", &["events", "event"], 1);
        check("", &[], 0);
        let deep = "<event>".repeat(1000);
        assert_eq!(Document::read(&deep).elements.len(), MAX_DEPTH + 1);
    }

    #[test]
    fn children_are_direct() {
        let document = Document::read("<events><event><data/><data/></event><task/></events><map/>");
        let names = |at| document.children(at).map(|(_, element)| element.name).collect::<Vec<_>>();
        assert_eq!(names(0), ["event", "task"]);
        assert_eq!(names(1), ["data", "data"]);
        assert_eq!(names(4), Vec::<&str>::new());
    }
}
