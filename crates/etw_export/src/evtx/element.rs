//! Elements and templates as binary XML.

use super::chunk::{Chunk, Full};
use super::kind::Kind;

/// Tokens of binary XML. Source: MS-EVEN6, 2.2.12.
mod token {
    pub(super) const END: u8 = 0x00;
    pub(super) const OPEN: u8 = 0x01;
    pub(super) const CLOSE_START: u8 = 0x02;
    pub(super) const CLOSE_EMPTY: u8 = 0x03;
    pub(super) const END_ELEMENT: u8 = 0x04;
    pub(super) const VALUE: u8 = 0x05;
    pub(super) const ATTRIBUTE: u8 = 0x06;
    pub(super) const INSTANCE: u8 = 0x0C;
    pub(super) const OPTIONAL: u8 = 0x0E;
    pub(super) const FRAGMENT: u8 = 0x0F;
    /// Flag of an element with attributes, or of an attribute followed by another.
    pub(super) const MORE: u8 = 0x40;
}

/// An element.
#[derive(Debug, Clone)]
pub(super) struct Element {
    name: String,
    attributes: Vec<(String, Content)>,
    content: Vec<Content>,
}

/// The content of an element or attribute.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Text(String),
    Substitution(u16, Kind),
    Element(Element),
}

impl Element {
    pub(super) fn new(name: &str) -> Element {
        Element { name: name.to_owned(), attributes: Vec::new(), content: Vec::new() }
    }

    pub(super) fn attribute(mut self, attribute: (String, Content)) -> Element {
        self.attributes.push(attribute);
        self
    }

    pub(super) fn with(mut self, content: Content) -> Element {
        self.content.push(content);
        self
    }

    pub(super) fn push(&mut self, content: Content) {
        self.content.push(content);
    }

    /// Writes the element.
    pub(super) fn put(&self, chunk: &mut Chunk) -> Result<(), Full> {
        let open = Open::put(chunk, &self.name, &self.attributes)?;
        if self.content.is_empty() {
            return open.close_empty(chunk);
        }
        open.begin_content(chunk)?;
        for content in &self.content {
            content.put(chunk)?;
        }
        open.end(chunk)
    }

    /// Appends the bytes that identify the element.
    fn describe(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.name.as_bytes());
        for (name, content) in &self.attributes {
            out.push(1);
            out.extend_from_slice(name.as_bytes());
            content.describe(out);
        }
        out.push(2);
        self.content.iter().for_each(|content| content.describe(out));
        out.push(3);
    }
}

impl Content {
    fn put(&self, chunk: &mut Chunk) -> Result<(), Full> {
        match self {
            Content::Text(text) => put_text(chunk, text),
            Content::Substitution(index, kind) => {
                chunk.put(&[token::OPTIONAL])?;
                chunk.put_u16(*index)?;
                chunk.put(&[kind.0])
            }
            Content::Element(element) => element.put(chunk),
        }
    }

    fn describe(&self, out: &mut Vec<u8>) {
        match self {
            Content::Text(text) => {
                out.push(4);
                out.extend_from_slice(text.as_bytes());
            }
            Content::Substitution(index, kind) => {
                out.push(5);
                out.extend_from_slice(&index.to_le_bytes());
                out.push(kind.0);
            }
            Content::Element(element) => {
                out.push(6);
                element.describe(out);
            }
        }
    }
}

/// Creates an attribute.
pub(super) fn attribute(name: &str, content: Content) -> (String, Content) {
    (name.to_owned(), content)
}

/// Creates literal text.
pub(super) fn text(text: &str) -> Content {
    Content::Text(text.to_owned())
}

/// Creates a substitution by the value with this index; empty if the instance has no such value.
pub(super) fn substitution(index: u16, kind: Kind) -> Content {
    Content::Substitution(index, kind)
}

/// Creates a child element.
pub(super) fn child(element: Element) -> Content {
    Content::Element(element)
}

/// An open element. Its size is filled in when it ends.
pub(super) struct Open {
    size_at: u32,
}

impl Open {
    pub(super) fn put(chunk: &mut Chunk, name: &str, attributes: &[(String, Content)]) -> Result<Open, Full> {
        let more = if attributes.is_empty() { 0 } else { token::MORE };
        chunk.put(&[token::OPEN | more])?;
        // The element does not depend on a substitution.
        chunk.put_u16(u16::MAX)?;
        let size_at = chunk.position();
        chunk.put_u32(0)?;
        chunk.put_name(name)?;
        if !attributes.is_empty() {
            let list_at = chunk.position();
            chunk.put_u32(0)?;
            for (index, (name, content)) in attributes.iter().enumerate() {
                let more = if index + 1 < attributes.len() { token::MORE } else { 0 };
                chunk.put(&[token::ATTRIBUTE | more])?;
                chunk.put_name(name)?;
                content.put(chunk)?;
            }
            let size = chunk.position() - list_at - 4;
            chunk.patch(list_at, &size.to_le_bytes());
        }
        Ok(Open { size_at })
    }

    pub(super) fn begin_content(&self, chunk: &mut Chunk) -> Result<(), Full> {
        chunk.put(&[token::CLOSE_START])
    }

    pub(super) fn end(self, chunk: &mut Chunk) -> Result<(), Full> {
        chunk.put(&[token::END_ELEMENT])?;
        self.patch(chunk)
    }

    fn close_empty(self, chunk: &mut Chunk) -> Result<(), Full> {
        chunk.put(&[token::CLOSE_EMPTY])?;
        self.patch(chunk)
    }

    fn patch(self, chunk: &mut Chunk) -> Result<(), Full> {
        let size = chunk.position() - self.size_at - 4;
        chunk.patch(self.size_at, &size.to_le_bytes());
        Ok(())
    }
}

/// Writes text in an element or attribute.
pub(super) fn put_text(chunk: &mut Chunk, text: &str) -> Result<(), Full> {
    let units = u16::try_from(text.encode_utf16().count()).map_err(|_| Full)?;
    chunk.put(&[token::VALUE, Kind::STRING.0])?;
    chunk.put_u16(units)?;
    chunk.put_utf16(text)
}

/// Writes the start of a fragment: version 1.1, no flags.
fn put_fragment(chunk: &mut Chunk) -> Result<(), Full> {
    chunk.put(&[token::FRAGMENT, 1, 1, 0])
}

/// Writes the end of a fragment.
pub(super) fn put_end(chunk: &mut Chunk) -> Result<(), Full> {
    chunk.put(&[token::END])
}

/// An element with substitutions, whose values are given by instances.
#[derive(Debug)]
pub(super) struct Template {
    id: [u8; 16],
    element: Element,
}

impl Template {
    pub(super) fn new(element: Element) -> Template {
        let mut described = Vec::new();
        element.describe(&mut described);
        // FNV-1a twice: ids only have to be unique.
        let hash = |start: u64| {
            described
                .iter()
                .fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
        };
        let (low, high) = (hash(0xCBF2_9CE4_8422_2325), hash(0x8422_2325_CBF2_9CE4));
        let mut id = [0; 16];
        id[..8].copy_from_slice(&low.to_le_bytes());
        id[8..].copy_from_slice(&high.to_le_bytes());
        Template { id, element }
    }

    /// Writes a fragment up to the values of an instance.
    pub(super) fn put_instance(&self, chunk: &mut Chunk) -> Result<(), Full> {
        put_instance(chunk, &self.id, |chunk| self.element.put(chunk))
    }
}

/// Writes elements used by no other record as a fragment: an instance, without values, of a template of their own.
/// Readers expect elements only in templates, since Windows writes no others.
pub(super) fn put_alone(
    chunk: &mut Chunk,
    write: impl FnOnce(&mut Chunk) -> Result<(), Full>,
) -> Result<(), Full> {
    let mut id = [0; 16];
    id[..4].copy_from_slice(&chunk.position().to_le_bytes());
    id[8..].copy_from_slice(&chunk.last_number().to_le_bytes());
    put_instance(chunk, &id, write)?;
    chunk.put_u32(0)?;
    put_end(chunk)
}

/// Writes a fragment up to the values of a template instance. `define` writes the template if the chunk lacks it.
fn put_instance(
    chunk: &mut Chunk,
    id: &[u8; 16],
    define: impl FnOnce(&mut Chunk) -> Result<(), Full>,
) -> Result<(), Full> {
    put_fragment(chunk)?;
    let [a, b, c, d, ..] = *id;
    chunk.put(&[token::INSTANCE, 1, a, b, c, d])?;
    if let Some(at) = chunk.template(id) {
        return chunk.put_u32(at);
    }
    chunk.put_u32(chunk.position() + 4)?;
    chunk.put_template_head(id)?;
    let size_at = chunk.position();
    chunk.put_u32(0)?;
    put_fragment(chunk)?;
    define(chunk)?;
    put_end(chunk)?;
    let size = chunk.position() - size_at - 4;
    chunk.patch(size_at, &size.to_le_bytes());
    Ok(())
}
