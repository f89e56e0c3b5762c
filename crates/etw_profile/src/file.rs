//! A file of recording profiles: validation, and its definitions by id.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use roxmltree::NodeId;

use crate::document::{Document, Node, attribute, named};
use crate::schema::{Kind, ROOT, ROOT_NAME, boolean};
use crate::{DetailLevel, ErrorKind, LoggingMode, ProfileError};

/// Maximum length of a chain of definitions that are based on each other; published ones have up to three.
const MAX_BASES: usize = 32;
/// Maximum length of [`ProfileFile::not_understood`].
const MAX_NOT_UNDERSTOOD: usize = 1000;

/// Elements that define something by id.
const DEFINED: &[&str] = &[
    "SystemCollector",
    "EventCollector",
    "HeapEventCollector",
    "SystemProvider",
    "EventProvider",
    "HeapEventProvider",
    "HardwareCounter",
    "Profile",
    "TraceMergeProperty",
];

/// A parsed file of recording profiles, which borrows the file's text.
#[derive(Debug)]
pub struct ProfileFile<'t> {
    pub(crate) document: Document<'t>,
    definitions: Definitions,
    profiles: Vec<Definition>,
    not_understood: Vec<NotUnderstood>,
}

/// Definitions by element name and id.
type Definitions = HashMap<(&'static str, Box<str>), NodeId>;

/// The definition of a profile, before its collectors are resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    pub(crate) element: NodeId,
    /// The id.
    pub id: String,
    /// The name by which it is started.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The detail level.
    pub detail_level: DetailLevel,
    /// The logging mode.
    pub logging_mode: LoggingMode,
    /// Whether [`ProfileFile::names`] leaves it out.
    pub is_internal: bool,
    /// Whether [`ProfileFile::find`] returns it if no name is given.
    pub is_default: bool,
    /// The line in the file, from 1.
    pub line: u32,
}

/// Something in a file that the schema of profiles does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotUnderstood {
    /// The line, from 1.
    pub line: u32,
    /// What was found.
    pub what: String,
}

impl fmt::Display for NotUnderstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl<'t> ProfileFile<'t> {
    /// Parses and validates the text of a file; see [`decode`](crate::decode).
    ///
    /// # Errors
    /// Fails at the first XML syntax error, at a root element other than `<WindowsPerformanceRecorder>`, at a required
    /// attribute that is missing, at an attribute value that is out of range, and if a profile's base is not defined.
    /// Fails also if the text is longer than 4 MiB, if an element has more than 64 attributes, and if the text declares
    /// more than 64 namespaces or a document type.
    pub fn parse(text: &'t str) -> Result<ProfileFile<'t>, ProfileError> {
        let document = Document::parse(text)?;
        let root = document.root();
        if root.tag_name().name() != ROOT_NAME {
            return Err(ProfileError { line: document.line(root), kind: ErrorKind::NoProfile });
        }
        let mut check =
            Check { document: &document, definitions: HashMap::new(), not_understood: Vec::new() };
        check.element(root, ROOT_NAME, &ROOT)?;
        let Check { definitions, not_understood, .. } = check;
        let mut file = ProfileFile { document, definitions, profiles: Vec::new(), not_understood };
        file.profiles = file.find_profiles()?;
        Ok(file)
    }

    /// The profiles, in the order of the file.
    pub fn profiles(&self) -> &[Definition] {
        &self.profiles
    }

    /// Elements, attributes and texts that the schema does not have, and repeated ids, in the order of the file.
    ///
    /// At most 1000.
    pub fn not_understood(&self) -> &[NotUnderstood] {
        &self.not_understood
    }

    /// The definition of an id that `named_in` refers to.
    pub(crate) fn definition(
        &self,
        element: &'static str,
        id: &str,
        named_in: Node<'_>,
    ) -> Result<Node<'_>, ProfileError> {
        let found = self.definitions.get(&(element, id.into()));
        let unknown = || self.error(named_in, ErrorKind::Unknown { element, id: clipped(id) });
        Ok(self.document.node(*found.ok_or_else(unknown)?))
    }

    /// A definition and those that it is based on, the first base first.
    pub(crate) fn chain<'f>(
        &'f self,
        element: &'static str,
        definition: Node<'f>,
    ) -> Result<Vec<Node<'f>>, ProfileError> {
        let mut chain = vec![definition];
        let mut last = definition;
        while let Some(base) = attribute(last, "Base") {
            last = self.definition(element, base, last)?;
            if chain.len() == MAX_BASES || chain.contains(&last) {
                let id = clipped(attribute(definition, "Id").unwrap_or_default());
                return Err(self.error(definition, ErrorKind::Circular { element, id, max: MAX_BASES }));
            }
            chain.push(last);
        }
        chain.reverse();
        Ok(chain)
    }

    pub(crate) fn error(&self, element: Node<'_>, kind: ErrorKind) -> ProfileError {
        ProfileError { line: self.document.line(element), kind }
    }

    fn find_profiles(&self) -> Result<Vec<Definition>, ProfileError> {
        let lists = named(self.document.root(), "Profiles");
        lists.flat_map(|list| named(list, "Profile")).map(|element| self.profile(element)).collect()
    }

    fn profile(&self, element: Node<'_>) -> Result<Definition, ProfileError> {
        let element = self.document.node(element.id());
        let chain = self.chain("Profile", element)?;
        let needed = |attribute| {
            let missing = || self.error(element, ErrorKind::Missing { element: "Profile", attribute });
            inherited(&chain, attribute).ok_or_else(missing)
        };
        let is_set = |name| attribute(element, name).and_then(boolean).unwrap_or(false);
        let is = |text: &str, word: &str| text.eq_ignore_ascii_case(word);
        Ok(Definition {
            element: element.id(),
            id: attribute(element, "Id").unwrap_or_default().to_owned(),
            name: needed("Name")?.to_owned(),
            description: inherited(&chain, "Description").unwrap_or_default().to_owned(),
            detail_level: match is(needed("DetailLevel")?, "Light") {
                true => DetailLevel::Light,
                false => DetailLevel::Verbose,
            },
            logging_mode: match is(needed("LoggingMode")?, "Memory") {
                true => LoggingMode::Memory,
                false => LoggingMode::File,
            },
            is_internal: is_set("Internal"),
            is_default: is_set("Default"),
            line: self.document.line(element),
        })
    }
}

/// The value of an attribute in the last definition of a chain that has it.
pub(crate) fn inherited<'d>(chain: &[Node<'d>], name: &str) -> Option<&'d str> {
    chain.iter().rev().find_map(|element| attribute(*element, name))
}

/// Compares the elements of a file with the schema, and collects its definitions.
struct Check<'d> {
    document: &'d Document<'d>,
    definitions: Definitions,
    not_understood: Vec<NotUnderstood>,
}

impl Check<'_> {
    /// Checks an element that the schema has, and all in it. The depth of recursion is that of the schema.
    fn element(
        &mut self,
        element: Node<'_>,
        name: &'static str,
        kind: &'static Kind,
    ) -> Result<(), ProfileError> {
        self.attributes(element, name, kind)?;
        self.define(element, name);
        for child in element.children() {
            if child.is_text() && !child.text().unwrap_or_default().trim().is_empty() {
                self.note(child, "text between elements".to_owned());
            }
            if !child.is_element() {
                continue;
            }
            let child_name = child.tag_name().name();
            match kind.children.iter().find(|(known, _)| *known == child_name) {
                Some((child_name, kind)) => self.element(child, child_name, kind)?,
                None => self.note(child, format!("<{}> in <{name}>", clipped(child_name))),
            }
        }
        Ok(())
    }

    fn attributes(&mut self, element: Node<'_>, name: &'static str, kind: &Kind) -> Result<(), ProfileError> {
        let error = |kind| Err(ProfileError { line: self.document.line(element), kind });
        for known in kind.attributes {
            match attribute(element, known.name) {
                None if known.is_required => {
                    return error(ErrorKind::Missing { element: name, attribute: known.name });
                }
                Some(found) => {
                    if let Some(expected) = known.value.refusal(found) {
                        let (found, attribute) = (clipped(found), known.name);
                        return error(ErrorKind::Invalid { element: name, attribute, found, expected });
                    }
                }
                None => {}
            }
        }
        // Attributes of other namespaces are those of the XML schema.
        for found in element.attributes().filter(|found| found.namespace().is_none()) {
            if !kind.attributes.iter().any(|known| known.name == found.name()) {
                let (key, value) = (clipped(found.name()), clipped(found.value()));
                self.note(element, format!("<{name} {key}=\"{value}\">"));
            }
        }
        Ok(())
    }

    fn define(&mut self, element: Node<'_>, name: &'static str) {
        let Some(id) = attribute(element, "Id").filter(|_| DEFINED.contains(&name)) else { return };
        match self.definitions.entry((name, id.into())) {
            Entry::Vacant(place) => drop(place.insert(element.id())),
            Entry::Occupied(_) => {
                self.note(
                    element,
                    format!("another <{name}> with id '{}'; the first one is used", clipped(id)),
                );
            }
        }
    }

    fn note(&mut self, node: Node<'_>, what: String) {
        if self.not_understood.len() < MAX_NOT_UNDERSTOOD {
            self.not_understood.push(NotUnderstood { line: self.document.line(node), what });
        }
    }
}

/// The start of a text that may be long, for messages.
fn clipped(text: &str) -> String {
    text.chars().take(128).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(profiles: &str) -> String {
        format!(
            "<WindowsPerformanceRecorder Version='1'>\n<Profiles>\n{profiles}\n</Profiles></WindowsPerformanceRecorder>"
        )
    }

    #[test]
    fn errors_name_line_and_what() {
        let check = |profiles: &str, said: &str| {
            let error = ProfileFile::parse(&text(profiles)).unwrap_err().to_string();
            assert_eq!(error, said, "{profiles}");
        };
        check("\n<EventProvider Name='x'/>", "line 4: <EventProvider> has no attribute Id");
        check(
            "<EventProvider Id='x' Level='300'/>",
            "line 3: <EventProvider Level=\"300\">: a number from 0 to 255 is expected",
        );
        check(
            "<SystemCollector Id='x'>\n<Buffers Value='many'/></SystemCollector>",
            "line 4: <Buffers Value=\"many\">: a number is expected",
        );
        check(
            "<EventProvider Id='x'><Keywords><Keyword Value='CSwitch'/></Keywords></EventProvider>",
            "line 3: <Keyword Value=\"CSwitch\">: a number is expected",
        );
        check(
            "<Profile Id='x' Name='x' LoggingMode='File'/>",
            "line 3: <Profile> has no attribute DetailLevel",
        );
        check("<Profile Id='x' Base='y'/>", "line 3: no <Profile> has the id 'y'");
        let circle = "<Profile Id='x' Base='y'/>\n<Profile Id='y' Base='x'/>";
        check(circle, "line 3: <Profile> 'x' is based on itself, or on more than 32 others");
        for text in ["", "<a/>"] {
            assert_eq!(ProfileFile::parse(text).unwrap_err().kind, ErrorKind::NoProfile, "{text}");
        }
    }

    #[test]
    fn unknown_elements_and_attributes_are_listed() {
        let text = text(
            "<EventProvider Id='x' Color='red'><Paint><Brush/></Paint></EventProvider>\n\
             <Easel/>\n<EventProvider Id='x'/>",
        );
        let file = ProfileFile::parse(&text).unwrap();
        let told: Vec<String> = file.not_understood().iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "line 3: <EventProvider Color=\"red\">",
                "line 3: <Paint> in <EventProvider>",
                "line 4: <Easel> in <Profiles>",
                "line 5: another <EventProvider> with id 'x'; the first one is used",
            ]
        );
    }

    #[test]
    fn profiles_inherit_attributes() {
        let text = text(
            "<Profile Id='A' Name='N' Description='D' DetailLevel='Light' LoggingMode='File' Internal='true'/>\n\
             <Profile Id='B' Base='A' LoggingMode='Memory' Default='true'/>",
        );
        let file = ProfileFile::parse(&text).unwrap();
        let [a, b] = file.profiles() else { panic!("{:?}", file.profiles()) };
        assert_eq!((&*b.name, &*b.description, b.detail_level), ("N", "D", DetailLevel::Light));
        assert_eq!((a.logging_mode, b.logging_mode), (LoggingMode::File, LoggingMode::Memory));
        assert_eq!((a.is_internal, a.is_default, b.is_internal, b.is_default), (true, false, false, true));
        assert_eq!(b.line, 4);
    }
}
