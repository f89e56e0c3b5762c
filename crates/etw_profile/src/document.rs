//! The XML tree of a file of profiles.

use std::borrow::Cow;

use roxmltree::ParsingOptions;

use crate::{ErrorKind, ProfileError};

/// An element of the tree.
pub(crate) type Node<'d> = roxmltree::Node<'d, 'd>;

/// Maximum size of a file; published ones have up to 70,000 bytes.
const MAX_LEN_BYTES: usize = 4 << 20;
/// Maximum number of attributes of an element, and of namespaces in a file. The parser compares each attribute with
/// those before it, and copies the namespaces of the parent wherever an element declares one.
const MAX_ATTRIBUTES: usize = 64;

/// Decodes the text of a file: UTF-16 with a byte order mark, else UTF-8 with or without one.
///
/// Invalid sequences become U+FFFD.
pub fn decode(bytes: &[u8]) -> Cow<'_, str> {
    encoding_rs::UTF_8.decode(bytes).0
}

/// The tree of a text, with line numbers.
#[derive(Debug)]
pub(crate) struct Document<'t> {
    tree: roxmltree::Document<'t>,
    /// Offsets of the ends of lines.
    line_ends: Vec<usize>,
}

impl<'t> Document<'t> {
    /// Parses a text. Document type definitions, and with them entities, are refused.
    pub(crate) fn parse(text: &'t str) -> Result<Document<'t>, ProfileError> {
        check_size(text)?;
        // Each element has at least one `<`, so the size of the text limits the number of nodes.
        let tree = roxmltree::Document::parse_with_options(text, ParsingOptions::default());
        let tree = tree.map_err(|error| match error {
            roxmltree::Error::NoRootNode => ProfileError { line: 1, kind: ErrorKind::NoProfile },
            error => ProfileError { line: error.pos().row, kind: ErrorKind::Syntax(error.to_string()) },
        })?;
        let line_ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at);
        Ok(Document { tree, line_ends: line_ends.collect() })
    }

    /// The root element.
    pub(crate) fn root(&self) -> Node<'_> {
        self.tree.root_element()
    }

    /// The element of an id that was taken from this tree.
    pub(crate) fn node(&self, id: roxmltree::NodeId) -> Node<'_> {
        self.tree.get_node(id).unwrap_or_else(|| self.tree.root())
    }

    /// The line of the first character of a node that is not white space, from 1.
    pub(crate) fn line(&self, node: Node<'_>) -> u32 {
        let source = self.tree.input_text().get(node.range()).unwrap_or_default();
        let start = node.range().end - source.trim_start().len();
        self.line_ends.partition_point(|end| *end < start) as u32 + 1
    }
}

/// Child elements with a name.
pub(crate) fn named<'d>(parent: Node<'d>, name: &'d str) -> impl Iterator<Item = Node<'d>> {
    parent.children().filter(move |child| child.is_element() && child.tag_name().name() == name)
}

/// Returns the value of an attribute without the white space around it, or `None` if it is absent or empty.
pub(crate) fn attribute<'d>(element: Node<'d>, name: &str) -> Option<&'d str> {
    element.attribute(name).map(str::trim).filter(|value| !value.is_empty())
}

/// Refuses texts on which the parser would take quadratic time or memory.
fn check_size(text: &str) -> Result<(), ProfileError> {
    let too_large = |line, text| Err(ProfileError { line, kind: ErrorKind::TooLarge(text) });
    if text.len() > MAX_LEN_BYTES {
        return too_large(1, "recording profiles have at most 4 MiB");
    }
    if text.matches("xmlns").nth(MAX_ATTRIBUTES).is_some() {
        return too_large(1, "recording profiles have at most 64 namespaces");
    }
    let mut line = 1;
    for tag in text.split('<') {
        // A start tag has no `<` in it, and a `=` for each attribute.
        if !tag.starts_with("!--") && tag.matches('=').nth(MAX_ATTRIBUTES).is_some() {
            return too_large(line, "elements have at most 64 attributes");
        }
        line += tag.matches('\n').count() as u32;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_lines_and_attributes() {
        let document =
            Document::parse("<?xml version='1.0'?>\n<a>\n <b x=' 1 ' y=' '/>\n text\n <c><d/></c>\n</a>")
                .unwrap();
        let elements = document.root().descendants().filter(|node| node.is_element());
        let seen: Vec<_> = elements.map(|node| (node.tag_name().name(), document.line(node))).collect();
        assert_eq!(seen, [("a", 2), ("b", 3), ("c", 5), ("d", 5)]);
        let b = named(document.root(), "b").next().unwrap();
        assert_eq!((attribute(b, "x"), attribute(b, "y"), attribute(b, "z")), (Some("1"), None, None));
        assert_eq!(named(document.root(), "d").count(), 0);
    }

    #[test]
    fn text_is_decoded_by_its_mark() {
        let check = |bytes: &[u8]| assert_eq!(decode(bytes), "<é/>");
        check("<é/>".as_bytes());
        check("\u{feff}<é/>".as_bytes());
        check(&"\u{feff}<é/>".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>());
        check(&"\u{feff}<é/>".encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<_>>());
        assert_eq!(decode(b"\xE9"), "\u{fffd}");
    }

    #[test]
    fn syntax_errors_have_lines() {
        let check = |text: &str, line: u32| {
            let error = Document::parse(text).unwrap_err();
            assert_eq!(error.line, line, "{error}");
            assert!(error.to_string().contains("XML syntax"), "{error}");
        };
        check("<a>\n<b></a>", 2);
        check("<a>\n<b/>", 1);
        check("<a>\n\n<b x=1/></a>", 3);
        check("<a/>\n<b/>", 2);
        check("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", 1);
    }

    #[test]
    fn hostile_sizes_are_refused() {
        let check = |text: &str, line: u32, said: &str| {
            let error = Document::parse(text).unwrap_err();
            assert!(matches!(error.kind, ErrorKind::TooLarge(_)), "{error}");
            assert_eq!((error.line, error.to_string().contains(said)), (line, true), "{error}");
        };
        check(&" ".repeat(MAX_LEN_BYTES + 1), 1, "4 MiB");
        let attributes = |count: usize| (0..count).map(|n| format!(" a{n}=''")).collect::<String>();
        check(&format!("<a>\n<b{}/></a>", attributes(65)), 2, "64 attributes");
        let namespaces: String = (0..65).map(|n| format!(" xmlns:a{n}='u'")).collect();
        check(&format!("<a{namespaces}/>"), 1, "64 namespaces");
        let rule = "=".repeat(100);
        Document::parse(&format!("<!-- {rule} --><a{}/>", attributes(64))).unwrap();
        let depth = 100_000;
        Document::parse(&format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth))).unwrap();
    }
}
