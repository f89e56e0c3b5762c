//! A file of recording profiles: checked, and its definitions found by their ids.

use std::collections::HashMap;
use std::fmt;

use crate::document::Document;
use crate::schema::{Kind, ROOT, ROOT_NAME, boolean};
use crate::{DetailLevel, ErrorKind, LoggingMode, ProfileError};

/// The longest chain of definitions that are based on each other; published ones have up to three.
const MAX_BASES: usize = 32;
/// What is not understood is listed up to here.
const MAX_NOT_UNDERSTOOD: usize = 1000;

/// What can be defined.
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

/// A file of recording profiles.
#[derive(Debug)]
pub struct ProfileFile {
    pub(crate) document: Document,
    /// Definitions by what they define and its id.
    definitions: HashMap<(&'static str, Box<str>), usize>,
    profiles: Vec<Definition>,
    not_understood: Vec<NotUnderstood>,
}

/// A profile as it is defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    pub(crate) element: usize,
    /// Its id.
    pub id: String,
    /// The name by which it is started.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// How much it records.
    pub detail_level: DetailLevel,
    /// Where to.
    pub logging_mode: LoggingMode,
    /// Whether lists leave it out.
    pub is_internal: bool,
    /// Whether it is the one that is meant where none is named.
    pub is_default: bool,
    /// Its line in the file, from 1.
    pub line: u32,
}

/// Something in a file that profiles do not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotUnderstood {
    /// The line, from 1.
    pub line: u32,
    /// What it is.
    pub what: String,
}

impl fmt::Display for NotUnderstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl ProfileFile {
    /// Reads a file, in UTF-8 or UTF-16, and checks it.
    ///
    /// # Errors
    /// The first thing that is no XML or no profile, with its line.
    pub fn parse(bytes: &[u8]) -> Result<ProfileFile, ProfileError> {
        let document = Document::read(bytes)?;
        match document.elements.first() {
            Some(root) if &*root.name == ROOT_NAME && root.end == document.elements.len() => {}
            root => {
                let line = root.map_or(1, |root| root.line);
                return Err(ProfileError { line, kind: ErrorKind::NoProfile });
            }
        }
        let mut file = ProfileFile {
            document,
            definitions: HashMap::new(),
            profiles: Vec::new(),
            not_understood: Vec::new(),
        };
        file.check()?;
        file.find_profiles()?;
        file.not_understood.sort_by_key(|what| what.line);
        Ok(file)
    }

    /// The profiles, in the order of the file.
    pub fn profiles(&self) -> &[Definition] {
        &self.profiles
    }

    /// Elements and attributes that profiles do not have, and second definitions of one id, in the order of the file; at
    /// most a thousand.
    pub fn not_understood(&self) -> &[NotUnderstood] {
        &self.not_understood
    }

    /// The definition of an id.
    pub(crate) fn definition(
        &self,
        element: &'static str,
        id: &str,
        named_in: usize,
    ) -> Result<usize, ProfileError> {
        let found = self.definitions.get(&(element, id.into())).copied();
        found.ok_or_else(|| self.error(named_in, ErrorKind::Unknown { element, id: id.to_owned() }))
    }

    /// A definition and those that it is based on, the first one first.
    pub(crate) fn chain(&self, element: &'static str, definition: usize) -> Result<Vec<usize>, ProfileError> {
        let mut chain = vec![definition];
        let mut last = definition;
        while let Some(base) = self.document.attribute(last, "Base") {
            last = self.definition(element, base, last)?;
            if chain.len() == MAX_BASES || chain.contains(&last) {
                let id = self.document.attribute(definition, "Id").unwrap_or_default().to_owned();
                return Err(self.error(definition, ErrorKind::Circular { element, id, max: MAX_BASES }));
            }
            chain.push(last);
        }
        chain.reverse();
        Ok(chain)
    }

    /// What the last one of a chain that says it says of an attribute.
    pub(crate) fn inherited(&self, chain: &[usize], attribute: &str) -> Option<&str> {
        chain.iter().rev().find_map(|element| self.document.attribute(*element, attribute))
    }

    pub(crate) fn error(&self, element: usize, kind: ErrorKind) -> ProfileError {
        ProfileError { line: self.document.elements[element].line, kind }
    }

    /// Compares all elements with the schema, and finds definitions.
    fn check(&mut self) -> Result<(), ProfileError> {
        // Elements that are open, with their end and what they may have.
        let mut open: Vec<(usize, &'static str, &'static Kind)> = Vec::new();
        let mut at = 0;
        for line in std::mem::take(&mut self.document.texts) {
            self.note(line, "text between elements".to_owned());
        }
        while let Some(element) = self.document.elements.get(at) {
            while open.last().is_some_and(|(end, ..)| *end <= at) {
                open.pop();
            }
            let known = match open.last() {
                None => Some((ROOT_NAME, &ROOT)),
                Some((_, _, parent)) => {
                    let child = parent.children.iter().find(|(name, _)| *name == &*element.name);
                    child.map(|(name, kind)| (*name, *kind))
                }
            };
            let Some((name, kind)) = known else {
                let parent = open.last().map_or("", |(_, name, _)| name);
                let (line, end) = (element.line, element.end);
                let what = format!("<{}> in <{parent}>", clipped(&element.name));
                self.note(line, what);
                // What is in it cannot be understood either.
                at = end;
                continue;
            };
            open.push((element.end, name, kind));
            self.check_attributes(at, name, kind)?;
            self.define(at, name);
            at += 1;
        }
        Ok(())
    }

    fn check_attributes(&mut self, at: usize, name: &'static str, kind: &Kind) -> Result<(), ProfileError> {
        let element = &self.document.elements[at];
        let error = |kind| Err(ProfileError { line: element.line, kind });
        for attribute in kind.attributes {
            match element.attribute(attribute.name) {
                None if attribute.is_required => {
                    return error(ErrorKind::Missing { element: name, attribute: attribute.name });
                }
                Some(found) => {
                    if let Some(expected) = attribute.value.refusal(found) {
                        let found = clipped(found);
                        let attribute = attribute.name;
                        return error(ErrorKind::Invalid { element: name, attribute, found, expected });
                    }
                }
                None => {}
            }
        }
        let is_known = |key: &str| {
            kind.attributes.iter().any(|attribute| attribute.name == key)
                || key.starts_with("xmlns")
                || key.contains(':')
        };
        let unknown = element.attributes.iter().filter(|(key, _)| !is_known(key));
        let unknown: Vec<String> =
            unknown.map(|(key, value)| format!("<{name} {}=\"{}\">", clipped(key), clipped(value))).collect();
        let line = element.line;
        unknown.into_iter().for_each(|what| self.note(line, what));
        Ok(())
    }

    fn define(&mut self, at: usize, name: &'static str) {
        let Some(id) = self.document.attribute(at, "Id").filter(|_| DEFINED.contains(&name)) else { return };
        let (id, key): (String, Box<str>) = (clipped(id), id.into());
        match self.definitions.entry((name, key)) {
            std::collections::hash_map::Entry::Vacant(place) => drop(place.insert(at)),
            std::collections::hash_map::Entry::Occupied(_) => {
                let line = self.document.elements[at].line;
                self.note(line, format!("a second <{name}> of id '{id}'; the first one counts"));
            }
        }
    }

    fn find_profiles(&mut self) -> Result<(), ProfileError> {
        let lists: Vec<usize> = self.document.named(0, "Profiles").collect();
        for element in lists.iter().flat_map(|list| self.document.named(*list, "Profile")) {
            let chain = self.chain("Profile", element)?;
            let text = |name| self.inherited(&chain, name).unwrap_or_default().to_owned();
            let needed = |attribute| {
                let missing = || self.error(element, ErrorKind::Missing { element: "Profile", attribute });
                self.inherited(&chain, attribute).ok_or_else(missing)
            };
            let own = |name| self.document.attribute(element, name).and_then(boolean).unwrap_or(false);
            let profile = Definition {
                element,
                id: self.document.attribute(element, "Id").unwrap_or_default().to_owned(),
                name: needed("Name")?.to_owned(),
                description: text("Description"),
                detail_level: match needed("DetailLevel")? {
                    light if light.eq_ignore_ascii_case("Light") => DetailLevel::Light,
                    _ => DetailLevel::Verbose,
                },
                logging_mode: match needed("LoggingMode")? {
                    memory if memory.eq_ignore_ascii_case("Memory") => LoggingMode::Memory,
                    _ => LoggingMode::File,
                },
                is_internal: own("Internal"),
                is_default: own("Default"),
                line: self.document.elements[element].line,
            };
            self.profiles.push(profile);
        }
        Ok(())
    }

    fn note(&mut self, line: u32, what: String) {
        if self.not_understood.len() < MAX_NOT_UNDERSTOOD {
            self.not_understood.push(NotUnderstood { line, what });
        }
    }
}

/// What is shown of a text that may be long.
fn clipped(text: &str) -> String {
    text.chars().take(128).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(profiles: &str) -> Result<ProfileFile, ProfileError> {
        let text = format!(
            "<WindowsPerformanceRecorder Version='1'>\n<Profiles>\n{profiles}\n</Profiles></WindowsPerformanceRecorder>"
        );
        ProfileFile::parse(text.as_bytes())
    }

    #[test]
    fn errors_name_line_and_what() {
        let check = |profiles: &str, said: &str| {
            let error = parse(profiles).unwrap_err().to_string();
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
        check("<Profile Id='x' Base='y'/>", "line 3: there is no <Profile> of id 'y'");
        let circle = "<Profile Id='x' Base='y'/>\n<Profile Id='y' Base='x'/>";
        check(circle, "line 3: <Profile> 'x' is based on itself, or on more than 32 others");
        for text in ["", "<a/>", "<WindowsPerformanceRecorder/><WindowsPerformanceRecorder/>"] {
            assert_eq!(ProfileFile::parse(text.as_bytes()).unwrap_err().kind, ErrorKind::NoProfile, "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_told() {
        let file = parse(
            "<EventProvider Id='x' Color='red'><Paint><Brush/></Paint></EventProvider>\n\
             <Easel/>\n<EventProvider Id='x'/>",
        );
        let file = file.unwrap();
        let told: Vec<String> = file.not_understood().iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "line 3: <EventProvider Color=\"red\">",
                "line 3: <Paint> in <EventProvider>",
                "line 4: <Easel> in <Profiles>",
                "line 5: a second <EventProvider> of id 'x'; the first one counts",
            ]
        );
    }

    #[test]
    fn profiles_inherit_what_they_do_not_say() {
        let file = parse(
            "<Profile Id='A' Name='N' Description='D' DetailLevel='Light' LoggingMode='File' Internal='true'/>\n\
             <Profile Id='B' Base='A' LoggingMode='Memory' Default='true'/>",
        );
        let file = file.unwrap();
        let [a, b] = file.profiles() else { panic!("{:?}", file.profiles()) };
        assert_eq!((&*b.name, &*b.description, b.detail_level), ("N", "D", DetailLevel::Light));
        assert_eq!((a.logging_mode, b.logging_mode), (LoggingMode::File, LoggingMode::Memory));
        assert_eq!((a.is_internal, a.is_default, b.is_internal, b.is_default), (true, false, false, true));
        assert_eq!(b.line, 4);
    }
}
