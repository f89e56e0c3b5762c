//! Definitions of regions, from the regions of interest files of Windows Performance Analyzer.
//!
//! The elements are those that Microsoft documents under "Creating a Regions of Interest File" of the Windows Performance
//! Toolkit. Names and opcodes of events, and regular expressions, are not documented, but in published files.

use encoding_rs::UTF_8;
use etw_event::Guid;
use regex_lite::Regex;
use roxmltree::{Document, Node, ParsingOptions};

/// Maximum size of a file; published ones have up to 300,000 bytes.
const MAX_LEN_BYTES: usize = 4 << 20;
/// Maximum number of attributes of an element, and of namespaces in a file: the parser compares each with the others.
const MAX_ATTRIBUTES: usize = 64;
/// Maximum number of regions in all files.
const MAX_REGIONS: usize = 1 << 13;
/// Maximum number of regions around a region.
const MAX_DEPTH: u32 = 64;

/// The error of a file of regions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct RegionsError {
    /// Line, from 1.
    pub line: u32,
    /// What is wrong there.
    pub reason: String,
}

/// Definitions of regions of interest: intervals between events.
///
/// A region starts and stops with an event, or at the start or stop of another region, or lasts as long as a property of
/// an event says. A region without start and stop is a container: it lasts from the first start of the regions in it to
/// their last stop.
///
/// ```
/// use etw_tables::Regions;
///
/// let file = r#"<InstrumentationManifest><Instrumentation><Regions>
///   <RegionRoot Guid="{8d638ab9-1a3d-4b32-9bd8-0a2f3ac0b0a1}" Name="Processes">
///     <Region Guid="{8d638ab9-1a3d-4b32-9bd8-0a2f3ac0b0a2}" Name="Life">
///       <Start><Event Provider="{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}" Id="1" /></Start>
///       <Stop><Event Provider="{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}" Id="2" /></Stop>
///       <Match><Event><Payload FieldName="ProcessID" /></Event></Match>
///     </Region>
///   </RegionRoot>
/// </Regions></Instrumentation></InstrumentationManifest>"#;
/// let mut regions = Regions::default();
/// regions.add_file("processes.xml", file.as_bytes())?;
/// assert_eq!(regions.len(), 2);
/// # Ok::<(), etw_tables::RegionsError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Regions {
    pub(super) all: Vec<Definition>,
}

#[derive(Debug, Clone)]
pub(super) struct Definition {
    pub(super) guid: Option<Guid>,
    pub(super) name: String,
    pub(super) friendly_name: Option<String>,
    /// Friendly names from the outermost region, separated by `/`.
    pub(super) path: String,
    pub(super) file: String,
    /// Elements and their texts: `Origin=Kernel`.
    pub(super) metadata: String,
    /// The region that this one is in.
    pub(super) around: Option<usize>,
    pub(super) depth: u32,
    pub(super) start: Option<Point>,
    pub(super) stop: Option<Point>,
    /// What the events of start and stop have in common.
    pub(super) common: Criteria,
    /// What the region has in common with its parent.
    pub(super) with_parent: Criteria,
    /// What it has in common with an instance of itself that it is in, if it may be in one.
    pub(super) with_self: Option<Criteria>,
    pub(super) naming: Option<Naming>,
    pub(super) filters: Vec<Filter>,
}

impl Definition {
    pub(super) fn is_container(&self) -> bool {
        self.start.is_none() && self.stop.is_none()
    }
}

/// One end of a region.
#[derive(Debug, Clone)]
pub(super) enum Point {
    Event(Pattern),
    /// As far from the other end as a property of an event says.
    Duration {
        event: Pattern,
        field: String,
        nanos: f64,
    },
    /// An end of another region; `None` for the one that is next to this region.
    Region(Guid, Option<End>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum End {
    Start,
    Stop,
}

/// Which events are meant.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    pub(super) provider: Guid,
    pub(super) id: Option<u16>,
    pub(super) version: Option<u8>,
    pub(super) opcode: Option<u8>,
    pub(super) name: Option<String>,
    /// A further start before the stop is not a start.
    pub(super) ignores_repetition: bool,
    pub(super) fields: Vec<(String, Test)>,
}

/// What the text of a property must be.
#[derive(Debug, Clone)]
pub(super) enum Test {
    Equal(String),
    Contains(String),
    ContainsNot(String),
    Matches(Regex),
}

impl Test {
    pub(super) fn holds(&self, text: &str) -> bool {
        match self {
            Test::Equal(other) => text == other,
            Test::Contains(part) => text.contains(part),
            Test::ContainsNot(part) => !text.contains(part),
            Test::Matches(pattern) => pattern.is_match(text),
        }
    }
}

/// What two events, or two regions, have in common.
#[derive(Debug, Clone, Default)]
pub(super) struct Criteria {
    pub(super) thread: bool,
    pub(super) process: bool,
    pub(super) activity: bool,
    /// A property of the start, and the one of the stop that is equal. Of regions: of the inner and the outer one.
    pub(super) fields: Vec<[Part; 2]>,
}

/// A property, or the part of it that the first group of a pattern matches.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) field: String,
    pub(super) pattern: Option<Regex>,
}

impl Part {
    pub(super) fn of<'t>(&self, text: &'t str) -> Option<&'t str> {
        match &self.pattern {
            None => Some(text),
            Some(pattern) => {
                let found = pattern.captures(text)?;
                found.get(1).or(found.get(0)).map(|found| found.as_str())
            }
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum Naming {
    /// By a property of the start, or else of the stop.
    Field(String, Option<End>),
    /// By whether a region is in the trace.
    Presence { region: Guid, present: String, absent: String },
}

/// Whether regions count by what else is in the trace.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    pub(super) trigger: Trigger,
    pub(super) excludes: bool,
    pub(super) when: When,
}

#[derive(Debug, Clone)]
pub(super) enum Trigger {
    Event(Pattern),
    Region(Guid),
}

/// Where the trigger must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Anywhere,
    /// Before the region.
    Before,
    /// Only after the region.
    After,
}

impl Regions {
    /// Adds the regions of a file: XML in UTF-8 or UTF-16. `name` is shown with its regions.
    ///
    /// # Errors
    ///
    /// Fails if the file is not well-formed XML, has no regions, says something that is not understood, or exceeds the
    /// limits; nothing is added then.
    pub fn add_file(&mut self, name: &str, bytes: &[u8]) -> Result<(), RegionsError> {
        let text = UTF_8.decode(bytes).0;
        check_size(&text)?;
        let document = Document::parse_with_options(&text, ParsingOptions::default());
        let document = document.map_err(|error| failure(error.pos().row, error.to_string()))?;
        let mut all = self.all.clone();
        // The last one is taken first.
        let mut work: Vec<(Node<'_, '_>, Option<usize>)> = document
            .descendants()
            .filter(|node| node.has_tag_name_of("RegionRoot"))
            .map(|root| (root, None))
            .collect();
        work.reverse();
        if work.is_empty() {
            return Err(failure(1, "no element `RegionRoot`".to_owned()));
        }
        while let Some((element, around)) = work.pop() {
            let line = || document.text_pos_at(element.range().start).row;
            let outer = around.and_then(|number: usize| all.get(number));
            let definition =
                definition(element, name, around, outer).map_err(|reason| failure(line(), reason))?;
            if all.len() >= MAX_REGIONS {
                return Err(failure(line(), format!("more than {MAX_REGIONS} regions")));
            }
            all.push(definition);
            let number = all.len() - 1;
            let inner: Vec<_> = children(element, "Region").collect();
            work.extend(inner.into_iter().rev().map(|child| (child, Some(number))));
        }
        self.all = all;
        Ok(())
    }

    /// Returns the number of regions that are defined, including containers.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns true if no region is defined.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// Names of elements in any namespace.
trait Named {
    fn has_tag_name_of(&self, name: &str) -> bool;
}

impl Named for Node<'_, '_> {
    fn has_tag_name_of(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }
}

fn children<'d, 'i>(element: Node<'d, 'i>, name: &'static str) -> impl Iterator<Item = Node<'d, 'i>> {
    element.children().filter(move |child| child.has_tag_name_of(name))
}

fn child<'d, 'i>(element: Node<'d, 'i>, name: &'static str) -> Option<Node<'d, 'i>> {
    children(element, name).next()
}

fn definition(
    element: Node<'_, '_>,
    file: &str,
    around: Option<usize>,
    outer: Option<&Definition>,
) -> Result<Definition, String> {
    let depth = outer.map_or(0, |outer| outer.depth + 1);
    if depth > MAX_DEPTH {
        return Err(format!("regions in more than {MAX_DEPTH} others"));
    }
    let name = element.attribute("Name").unwrap_or_default().trim().to_owned();
    let friendly_name = element.attribute("FriendlyName").map(|name| name.trim().to_owned());
    let shown = friendly_name.as_deref().unwrap_or(&name);
    let path = outer.map_or_else(|| shown.to_owned(), |outer| format!("{}/{shown}", outer.path));
    let point = |name| child(element, name).map(point).transpose();
    let (start, stop) = (point("Start")?.flatten(), point("Stop")?.flatten());
    match (&start, &stop) {
        (Some(_), None) | (None, Some(_)) => return Err(format!("region '{name}' lacks `Start` or `Stop`")),
        (Some(Point::Duration { .. }), Some(Point::Duration { .. })) => {
            return Err(format!("both ends of region '{name}' are durations"));
        }
        _ => {}
    }
    let matching = child(element, "Match");
    let criteria_of = |name| matching.and_then(|node| child(node, name)).map(criteria).transpose();
    let (with_parent, with_self) = (criteria_of("Parent")?.unwrap_or_default(), criteria_of("SelfNest")?);
    let mut of_regions =
        with_parent.fields.iter().chain(with_self.iter().flat_map(|it| &it.fields)).flatten();
    if of_regions.any(|part| part.pattern.is_some()) {
        return Err("`FieldValueRegEx` is known in `Event` only".to_owned());
    }
    let metadata = child(element, "Metadata").map(metadata).unwrap_or_default();
    Ok(Definition {
        guid: guid(element, "Guid")?,
        friendly_name,
        path,
        file: file.to_owned(),
        metadata,
        around,
        depth,
        start,
        stop,
        common: criteria_of("Event")?.unwrap_or_default(),
        with_parent,
        with_self,
        naming: child(element, "Naming").map(naming).transpose()?.flatten(),
        filters: children(element, "Filter").map(filters).collect::<Result<Vec<_>, _>>()?.concat(),
        name,
    })
}

fn guid(element: Node<'_, '_>, name: &str) -> Result<Option<Guid>, String> {
    let Some(text) = element.attribute(name) else { return Ok(None) };
    let text = text.trim().trim_start_matches('{').trim_end_matches('}');
    text.parse().map(Some).map_err(|_| format!("`{name}` is not a GUID: {text}"))
}

fn needed(element: Node<'_, '_>, name: &str) -> Result<Guid, String> {
    guid(element, name)?.ok_or_else(|| format!("`{}` lacks `{name}`", element.tag_name().name()))
}

/// Returns the number of the first of some attributes that the element has.
fn number<T: std::str::FromStr>(element: Node<'_, '_>, names: &[&str]) -> Result<Option<T>, String> {
    let found = names.iter().find_map(|name| Some((name, element.attribute(*name)?)));
    let Some((name, text)) = found else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| format!("`{name}` is not a number in range: {text}"))
}

fn is_true(element: Node<'_, '_>, name: &str) -> bool {
    element.attribute(name).is_some_and(|text| text.trim().eq_ignore_ascii_case("true"))
}

fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| format!("regular expression {text}: {error}"))
}

fn point(element: Node<'_, '_>) -> Result<Option<Point>, String> {
    let mut fields = Vec::new();
    for test in children(element, "PayloadIdentifier") {
        let value = test.attribute("FieldValue").unwrap_or_default();
        let value = match test.attribute("FieldValueRelationship").map(str::trim) {
            None | Some("IsEqual" | "Equal") => Test::Equal(value.to_owned()),
            Some("Contains") => Test::Contains(value.to_owned()),
            Some("DoesNotContain") => Test::ContainsNot(value.to_owned()),
            Some("RegEx") => Test::Matches(regex(value)?),
            Some(other) => return Err(format!("`FieldValueRelationship` is not known: {other}")),
        };
        fields.push((test.attribute("FieldName").unwrap_or_default().to_owned(), value));
    }
    if let Some(event) = child(element, "Event") {
        return Ok(Some(Point::Event(pattern(event, "Provider", fields)?)));
    }
    if let Some(duration) = child(element, "Duration") {
        let field = duration.attribute("Duration").ok_or("`Duration` lacks `Duration`")?.to_owned();
        let nanos = number(duration, &["Multiplier"])?.unwrap_or(1.0);
        return Ok(Some(Point::Duration { event: pattern(duration, "Provider", fields)?, field, nanos }));
    }
    match child(element, "Region") {
        Some(region) => {
            let end = region.attribute("Endpoint").map(end).transpose()?;
            Ok(Some(Point::Region(needed(region, "RegionGuid")?, end)))
        }
        None => Ok(None),
    }
}

fn end(text: &str) -> Result<End, String> {
    match text.trim() {
        "Start" => Ok(End::Start),
        "Stop" => Ok(End::Stop),
        other => Err(format!("neither `Start` nor `Stop`: {other}")),
    }
}

fn pattern(element: Node<'_, '_>, provider: &str, fields: Vec<(String, Test)>) -> Result<Pattern, String> {
    Ok(Pattern {
        provider: needed(element, provider)?,
        id: number(element, &["Id"])?,
        version: number(element, &["Version"])?,
        opcode: number(element, &["Opcode", "OpCode"])?,
        name: element.attribute("Name").map(|name| name.trim().to_owned()),
        ignores_repetition: is_true(element, "IgnoreRepetition"),
        fields,
    })
}

fn criteria(element: Node<'_, '_>) -> Result<Criteria, String> {
    let mut fields = Vec::new();
    for payload in children(element, "Payload") {
        let part = |name: &str, pattern: &str| -> Result<Option<Part>, String> {
            let Some(field) = payload.attribute(name) else { return Ok(None) };
            Ok(Some(Part {
                field: field.to_owned(),
                pattern: payload.attribute(pattern).map(regex).transpose()?,
            }))
        };
        let start = part("FieldName", "FieldValueRegEx")?.ok_or("`Payload` lacks `FieldName`")?;
        let stop = part("TargetFieldName", "TargetFieldValueRegEx")?.unwrap_or_else(|| start.clone());
        fields.push([start, stop]);
    }
    Ok(Criteria {
        thread: is_true(element, "TID"),
        process: is_true(element, "PID"),
        activity: is_true(element, "AID"),
        fields,
    })
}

fn naming(element: Node<'_, '_>) -> Result<Option<Naming>, String> {
    if let Some(payload) = child(element, "PayloadBased") {
        let field = payload.attribute("NameField").ok_or("`PayloadBased` lacks `NameField`")?;
        let end = payload.attribute("InstanceEndpoint").map(end).transpose()?;
        return Ok(Some(Naming::Field(field.to_owned(), end)));
    }
    let Some(region) = child(element, "RegionBased") else { return Ok(None) };
    let text = |name: &str| region.attribute(name).unwrap_or_default().to_owned();
    Ok(Some(Naming::Presence {
        region: needed(region, "RegionGuid")?,
        present: text("IfRelationTrue"),
        absent: text("IfRelationFalse"),
    }))
}

fn filters(element: Node<'_, '_>) -> Result<Vec<Filter>, String> {
    let mut filters = Vec::new();
    for trigger in element.children().filter(Node::is_element) {
        let kind = trigger.attribute("Type").or(element.attribute("Type")).unwrap_or("Out").trim();
        let (excludes, when) = match kind {
            "Out" => (true, When::Anywhere),
            "OutPost" => (true, When::Before),
            "OutPrev" => (true, When::After),
            "In" => (false, When::Anywhere),
            "InPost" => (false, When::Before),
            "InPrev" => (false, When::After),
            other => return Err(format!("type of filter is not known: {other}")),
        };
        let trigger = match trigger.tag_name().name() {
            "Region" => Trigger::Region(needed(trigger, "RegionGuid")?),
            "Event" if trigger.has_attribute("ProviderId") => {
                Trigger::Event(pattern(trigger, "ProviderId", Vec::new())?)
            }
            "Event" => Trigger::Event(pattern(trigger, "Provider", Vec::new())?),
            other => return Err(format!("`Filter` with `{other}`")),
        };
        filters.push(Filter { trigger, excludes, when });
    }
    Ok(filters)
}

fn metadata(element: Node<'_, '_>) -> String {
    let entries = element.children().filter(Node::is_element);
    let entries = entries
        .map(|entry| format!("{}={}", entry.tag_name().name(), entry.text().unwrap_or_default().trim()));
    entries.collect::<Vec<_>>().join("; ")
}

fn failure(line: u32, reason: String) -> RegionsError {
    RegionsError { line, reason }
}

/// Refuses texts on which the parser would take quadratic time or memory.
fn check_size(text: &str) -> Result<(), RegionsError> {
    if text.len() > MAX_LEN_BYTES {
        return Err(failure(1, "files of regions have at most 4 MiB".to_owned()));
    }
    if text.matches("xmlns").nth(MAX_ATTRIBUTES).is_some() {
        return Err(failure(1, "files of regions have at most 64 namespaces".to_owned()));
    }
    let mut line = 1;
    for tag in text.split('<') {
        // A start tag has no `<` in it, and a `=` for each attribute.
        if !tag.starts_with("!--") && tag.matches('=').nth(MAX_ATTRIBUTES).is_some() {
            return Err(failure(line, "elements have at most 64 attributes".to_owned()));
        }
        line += tag.matches('\n').count() as u32;
    }
    Ok(())
}
