//! An XML text as a flat list of its elements.

use std::borrow::Cow;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use crate::{ErrorKind, ProfileError};

/// More bytes than any file of profiles has; published ones have up to 70,000.
const MAX_LEN_BYTES: usize = 4 << 20;
/// The deepest nesting; profiles have about eight levels.
const MAX_DEPTH: usize = 32;
/// More attributes than any element of a profile has.
const MAX_ATTRIBUTES: usize = 64;

/// One element. Children follow their parent; `end` is the index behind the last of them.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) name: Box<str>,
    /// From 1.
    pub(crate) line: u32,
    pub(crate) end: usize,
    pub(crate) attributes: Vec<(Box<str>, Box<str>)>,
}

impl Element {
    /// The value of an attribute, without white space around it; an empty one is none.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let value = self.attributes.iter().find(|(key, _)| &**key == name)?.1.trim();
        Some(value).filter(|value| !value.is_empty())
    }
}

/// The elements of a text, in its order.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) elements: Vec<Element>,
    /// Lines with text between elements, where profiles have none.
    pub(crate) texts: Vec<u32>,
}

impl Document {
    /// Reads a text of UTF-8, or of UTF-16 with its mark.
    pub(crate) fn read(bytes: &[u8]) -> Result<Document, ProfileError> {
        if bytes.len() > MAX_LEN_BYTES {
            return Err(too_large(1, "a file of more than 4 MiB is no recording profile"));
        }
        let text = decode(bytes);
        let mut lines = Lines { text: &text, at: 0, line: 1 };
        let mut document = Document { elements: Vec::new(), texts: Vec::new() };
        let mut open: Vec<usize> = Vec::new();
        let mut reader = Reader::from_str(&text);
        loop {
            let line = lines.at(reader.buffer_position());
            match reader.read_event() {
                Ok(Event::Start(start)) => {
                    open.push(document.elements.len());
                    document.push(&start, line)?;
                    if open.len() > MAX_DEPTH {
                        return Err(too_large(line, "elements are nested deeper than in any profile"));
                    }
                }
                Ok(Event::Empty(start)) => document.push(&start, line)?,
                Ok(Event::End(_)) => {
                    let end = document.elements.len();
                    if let Some(element) = open.pop().and_then(|index| document.elements.get_mut(index)) {
                        element.end = end;
                    }
                }
                Ok(Event::Text(text)) if !text.trim_ascii().is_empty() => document.texts.push(line),
                Ok(Event::CData(_) | Event::GeneralRef(_)) => document.texts.push(line),
                Ok(Event::Eof) => break,
                Ok(_) => {}
                Err(error) => {
                    return Err(syntax(lines.at(reader.error_position()), &error));
                }
            }
        }
        match open.first().and_then(|index| document.elements.get(*index)) {
            Some(element) => {
                Err(ProfileError { line: element.line, kind: ErrorKind::Open(element.name.to_string()) })
            }
            None => Ok(document),
        }
    }

    /// The indices of the direct children of an element.
    pub(crate) fn children(&self, parent: usize) -> impl Iterator<Item = usize> {
        let end = self.elements[parent].end;
        let mut at = parent + 1;
        std::iter::from_fn(move || {
            let index = Some(at).filter(|at| *at < end)?;
            at = self.elements[index].end;
            Some(index)
        })
    }

    /// The direct children of a name.
    pub(crate) fn named<'d>(&'d self, parent: usize, name: &'d str) -> impl Iterator<Item = usize> {
        self.children(parent).filter(move |child| &*self.elements[*child].name == name)
    }

    /// An attribute of an element.
    pub(crate) fn attribute(&self, element: usize, name: &str) -> Option<&str> {
        self.elements[element].attribute(name)
    }

    fn push(&mut self, start: &BytesStart<'_>, line: u32) -> Result<(), ProfileError> {
        let mut attributes = Vec::new();
        for attribute in start.attributes().take(MAX_ATTRIBUTES) {
            let attribute = attribute.map_err(|error| syntax(line, &error))?;
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            let value = value.map_err(|error| syntax(line, &error))?;
            attributes.push((attribute.key.as_ref().into(), value.as_ref().into()));
        }
        let end = self.elements.len() + 1;
        self.elements.push(Element { name: start.local_name().as_ref().into(), line, end, attributes });
        Ok(())
    }
}

/// Counts lines as far as they are asked for.
struct Lines<'t> {
    text: &'t str,
    at: usize,
    line: u32,
}

impl Lines<'_> {
    /// The line of a place that is not before the last one.
    fn at(&mut self, offset: u64) -> u32 {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(self.text.len()).max(self.at);
        let newlines = self.text.as_bytes()[self.at..offset].iter().filter(|byte| **byte == b'\n').count();
        (self.at, self.line) = (offset, self.line + newlines as u32);
        self.line
    }
}

fn decode(bytes: &[u8]) -> Cow<'_, str> {
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.as_chunks::<2>().0.iter().map(|pair| unit(*pair)).collect();
        Cow::Owned(String::from_utf16_lossy(&units))
    };
    match bytes {
        [0xFF, 0xFE, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] => String::from_utf8_lossy(rest),
        _ => String::from_utf8_lossy(bytes),
    }
}

fn syntax(line: u32, error: &dyn std::fmt::Display) -> ProfileError {
    ProfileError { line, kind: ErrorKind::Syntax(error.to_string()) }
}

fn too_large(line: u32, text: &'static str) -> ProfileError {
    ProfileError { line, kind: ErrorKind::TooLarge(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_lines_and_children() {
        let document =
            Document::read(b"<?xml version='1.0'?>\n<a>\n <b x=' 1 '/>\n text\n <c><d/></c>\n</a>").unwrap();
        let seen: Vec<_> = document.elements.iter().map(|e| (&*e.name, e.line, e.end)).collect();
        assert_eq!(seen, [("a", 2, 4), ("b", 3, 2), ("c", 5, 4), ("d", 5, 4)]);
        assert_eq!(document.children(0).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(document.named(0, "c").collect::<Vec<_>>(), [2]);
        assert_eq!((document.attribute(1, "x"), document.attribute(1, "y")), (Some("1"), None));
        assert_eq!(document.texts.len(), 1);
        let wide: Vec<u8> = "\u{feff}<é/>".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(&*Document::read(&wide).unwrap().elements[0].name, "é");
    }

    #[test]
    fn what_is_no_xml_is_told_with_its_line() {
        let check = |text: &str, line: u32, said: &str| {
            let error = Document::read(text.as_bytes()).unwrap_err();
            assert_eq!(error.line, line, "{error}");
            assert!(error.to_string().contains(said), "{error}");
        };
        check("<a>\n<b></a>", 2, "XML syntax");
        check("\n<a>\n<b/>", 2, "<a> is not closed");
        check("<a>\n\n<b x=1/></a>", 3, "XML syntax");
        check(&"<a>".repeat(100), 1, "nested deeper");
        let large = vec![b' '; MAX_LEN_BYTES + 1];
        assert!(matches!(Document::read(&large).unwrap_err().kind, ErrorKind::TooLarge(_)));
    }
}
