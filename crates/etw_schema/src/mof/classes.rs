//! Converts MOF classes to providers: versions, event types, and properties with their types and maps.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use etw_event::{EventDescriptor, Guid, Level, Opcode};

use super::syntax::{Class, Member, Qualified, Value};
use super::{MofProblem, report};
use crate::{
    Count, Decoding, EventSchema, InType, KeywordName, Length, MapEntry, MapKind, OutType, Property,
    PropertyType, Provider, ProviderInfo, ValueMap, ValueName,
};

/// Limits for hostile texts. The kernel's 250 classes have at most 192 properties and a depth of at most 4.
const MAX_DEPTH: usize = 32;
const MAX_PROPERTIES: usize = 1024;
const MAX_TOTAL_PROPERTIES: usize = 4_000_000;

/// Returns the providers of a list of classes.
pub(super) fn providers(classes: &[Class], origin: &str, problems: &mut Vec<MofProblem>) -> Vec<Provider> {
    let tree = Tree::new(classes);
    let mut found: Vec<Draft> = Vec::new();
    let mut by_guid: HashMap<Guid, usize> = HashMap::new();
    let mut total = 0usize;
    'classes: for class in classes {
        let Some(types) = class.values("eventtype") else { continue };
        let line = class.line;
        let chain = tree.chain(class);
        let Some(at) = chain.iter().position(|ancestor| ancestor.has("guid")) else {
            report(problems, line, format!("neither {} nor a base class has a Guid", class.name));
            continue;
        };
        let (below, above) = chain.split_at(at);
        let [event_class, above @ ..] = above else { continue };
        let Some(guid) = guid_of(event_class) else {
            report(problems, event_class.line, format!("the Guid of {} is invalid", event_class.name));
            continue;
        };
        let draft = *by_guid.entry(guid).or_insert_with(|| {
            found.push(Draft::new(guid));
            found.len() - 1
        });
        let Some(draft) = found.get_mut(draft) else { continue };
        let version = chain.iter().find_map(|class| class.number("eventversion"));
        let version = version.and_then(|version| u8::try_from(version).ok());
        if draft
            .newest
            .is_none_or(|(newest, _)| version.is_none() || newest.is_some_and(|n| Some(n) < version))
        {
            draft.newest = Some((version, event_class));
        }
        if draft.owner.is_none() {
            draft.owner = above.iter().find(|class| class.has("guid")).copied();
        }
        let properties = properties(below, event_class, problems);
        let names = class.values("eventtypename").unwrap_or_default();
        let level = class.number("eventlevel").and_then(|level| u8::try_from(level).ok()).unwrap_or(0);
        for (position, value) in types.iter().enumerate() {
            let Some(opcode) = value.number().and_then(|value| u8::try_from(value).ok()) else {
                report(
                    problems,
                    line,
                    format!("an EventType of {} is not a number from 0 to 255", class.name),
                );
                continue;
            };
            if !draft.seen.insert((version, opcode)) {
                report(problems, line, format!("{} lists event type {opcode} twice", class.name));
                continue;
            }
            total += properties.len();
            if total > MAX_TOTAL_PROPERTIES {
                report(problems, line, "more properties than are read of one text");
                break 'classes;
            }
            let name = names.get(position).and_then(Value::text).map(Arc::from);
            let class_name = Arc::from(&*class.name);
            draft.types.push(EventType {
                version,
                opcode,
                level,
                name,
                class_name,
                properties: properties.clone(),
            });
        }
    }
    found.into_iter().map(|draft| draft.finish(origin)).collect()
}

/// A provider under construction.
struct Draft<'a> {
    guid: Guid,
    /// The event class of the highest version, which names the provider. A class without a version is the newest.
    newest: Option<(Option<u8>, &'a Class)>,
    owner: Option<&'a Class>,
    types: Vec<EventType>,
    seen: HashSet<(Option<u8>, u8)>,
}

struct EventType {
    version: Option<u8>,
    opcode: u8,
    level: u8,
    name: Option<Arc<str>>,
    class_name: Arc<str>,
    properties: Vec<Property>,
}

impl<'a> Draft<'a> {
    fn new(guid: Guid) -> Draft<'a> {
        Draft { guid, newest: None, owner: None, types: Vec::new(), seen: HashSet::new() }
    }

    fn finish(self, origin: &str) -> Provider {
        let display_name = self.newest.and_then(|(_, class)| class.text("displayname"));
        let class_name = || self.newest.map_or("", |(_, class)| without_version(&class.name));
        let name = display_name.unwrap_or_else(class_name);
        let mut info = ProviderInfo::new(self.guid, name, Decoding::Mof, origin);
        if let Some(owner) = self.owner {
            let guid = guid_of(owner).unwrap_or_default();
            let known = crate::builtin::providers().find(|entry| entry.guid == guid).map(|entry| entry.name);
            let name = owner.text("description").or(known).unwrap_or(&owner.name);
            info.class_of = Some((guid, name.into()));
            info.keywords =
                named_values(owner, "flags", |mask, name| Some(KeywordName { mask, name, message: None }));
            info.levels = named_values(owner, "level", |value, name| {
                Some(ValueName { value: u16::try_from(value).ok()?, name, message: None })
            });
        }
        let info = Arc::new(info);
        // In old texts the newest class has no version number: it follows the highest one.
        let next =
            self.types.iter().filter_map(|event| event.version).max().map_or(0, |top| top.saturating_add(1));
        let events = self.types.into_iter().map(|event| {
            let descriptor = EventDescriptor {
                version: event.version.unwrap_or(next),
                opcode: Opcode(event.opcode),
                level: Level(event.level),
                ..EventDescriptor::default()
            };
            Arc::new(EventSchema {
                name: Some(event.class_name),
                // On Windows, only the display name is that of a task.
                task_name: display_name.map(Into::into),
                opcode_name: event.name,
                // There are at most MAX_PROPERTIES.
                top_level: u16::try_from(event.properties.len()).unwrap_or(u16::MAX),
                properties: event.properties,
                ..EventSchema::new(info.clone(), descriptor)
            })
        });
        Provider { events: events.collect(), info: info.clone() }
    }
}

fn guid_of(class: &Class) -> Option<Guid> {
    class.text("guid")?.parse().ok()
}

/// Removes the version suffix: `Thread_V1` and `Thread` have the same display name.
fn without_version(name: &str) -> &str {
    match name.rsplit_once(['_']) {
        Some((stem, version))
            if version.strip_prefix(['V', 'v']).is_some_and(|digits| {
                !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
            }) =>
        {
            stem
        }
        _ => name,
    }
}

/// Returns the names that a provider class gives to the values of `Flags` or `Level`.
fn named_values<T>(class: &Class, member: &str, make: impl Fn(u64, Arc<str>) -> Option<T>) -> Vec<T> {
    let member = class.properties.iter().find(|property| property.name.eq_ignore_ascii_case(member));
    let map = member.and_then(value_map);
    map.map_or(Vec::new(), |map| {
        map.entries.iter().filter_map(|entry| make(entry.value, entry.text.clone())).collect()
    })
}

struct Tree<'a> {
    by_name: HashMap<(&'a str, String), &'a Class>,
}

impl<'a> Tree<'a> {
    fn new(classes: &'a [Class]) -> Tree<'a> {
        let key = |class: &'a Class| ((&*class.namespace, class.name.to_ascii_lowercase()), class);
        Tree { by_name: classes.iter().map(key).collect() }
    }

    /// Returns the class and its ancestors, nearest first, as far as the text contains them.
    fn chain(&self, class: &'a Class) -> Vec<&'a Class> {
        let mut chain = vec![class];
        let mut last = class;
        while let Some(parent) = &last.parent
            && let Some(next) = self.by_name.get(&(&*class.namespace, parent.to_ascii_lowercase()))
            && chain.len() < MAX_DEPTH
            && !chain.iter().any(|seen| std::ptr::eq(*seen, *next))
        {
            chain.push(next);
            last = next;
        }
        chain
    }
}

/// Returns the properties of an event type, ordered by `WmiDataId`: those of the type class and of the classes between
/// it and the event class.
fn properties(below: &[&Class], event_class: &Class, problems: &mut Vec<MofProblem>) -> Vec<Property> {
    let mut by_name: HashMap<&str, (i64, usize, &Member)> = HashMap::new();
    for class in std::iter::once(event_class).chain(below.iter().rev().copied()) {
        for member in &class.properties {
            let Some(id) = member.number("wmidataid") else { continue };
            if by_name.len() == MAX_PROPERTIES {
                report(problems, member.line, format!("more than {MAX_PROPERTIES} properties"));
                break;
            }
            by_name.insert(&member.name, (id, by_name.len(), member));
        }
    }
    let mut members: Vec<_> = by_name.into_values().collect();
    members.sort_by_key(|(id, order, _)| (*id, *order));
    let mut properties: Vec<Property> = Vec::with_capacity(members.len());
    for (_, _, member) in members {
        match property(member, &properties) {
            Ok(property) => properties.push(property),
            Err(what) => {
                // Later properties cannot be located without it.
                report(problems, member.line, format!("{}: {what}", member.name));
                break;
            }
        }
    }
    properties
}

fn property(member: &Member, before: &[Property]) -> Result<Property, String> {
    let (in_type, mut out_type, length) = data_type(member)?;
    if member.text("extension").is_some_and(|name| name.eq_ignore_ascii_case("noprint")) {
        out_type = OutType::NO_PRINT;
    }
    let counted_by = |name: &str| {
        let at = before.iter().position(|property| property.name.eq_ignore_ascii_case(name));
        let at = at.ok_or_else(|| format!("no property {name} precedes it"))?;
        u16::try_from(at).map_err(|_| "too many properties".to_owned())
    };
    let is_text = matches!(length, Length::Fixed(_));
    let count = match (member.text("wmisizeis"), fixed_size(member)) {
        _ if in_type == InType::BINARY_TO_END => Count::One,
        (Some(name), _) => Count::Property(counted_by(name)?),
        (None, Some(number)) if !is_text => Count::Fixed(number),
        (None, None) if matches!(member.array, Some(None)) => Count::ToEnd,
        _ => Count::One,
    };
    let kind = PropertyType::Value { in_type, out_type, map: value_map(member).map(Arc::new) };
    Ok(Property { name: (&*member.name).into(), kind, length, count, tags: 0 })
}

/// Returns the size given by `MAX(n)` or `[n]`.
fn fixed_size(member: &Member) -> Option<u16> {
    member.number("max").and_then(|max| u16::try_from(max).ok()).or(member.array.flatten())
}

/// Returns in-type, out-type, and the length of fixed character arrays, which are text.
fn data_type(member: &Member) -> Result<(InType, OutType, Length), String> {
    let format = member.text("format").unwrap_or_default().to_ascii_lowercase();
    let is_hex = format == "x";
    let natural = |in_type, out_type| Ok((in_type, out_type, Length::Natural));
    let integer = |in_type, hex| natural(in_type, if is_hex { hex } else { OutType::NULL });
    if member.has("pointer") || member.has("pointertype") {
        return natural(InType::POINTER, OutType::NULL);
    }
    let fixed_text = |in_type| match fixed_size(member) {
        Some(length) => (in_type, OutType::NULL, Length::Fixed(length)),
        None => (in_type, OutType::NULL, Length::Natural),
    };
    match &*member.cim_type {
        "uint8" | "sint8" if format == "s" && fixed_size(member).is_some() => {
            Ok(fixed_text(InType::ANSI_STRING))
        }
        "uint8" | "sint8" if format == "c" => natural(InType::ANSI_CHAR, OutType::NULL),
        "uint8" => integer(InType::UINT8, OutType::HEX_INT8),
        "sint8" => integer(InType::INT8, OutType::HEX_INT8),
        "uint16" => integer(InType::UINT16, OutType::HEX_INT16),
        "sint16" => integer(InType::INT16, OutType::HEX_INT16),
        "uint32" => integer(InType::UINT32, OutType::HEX_INT32),
        "sint32" => integer(InType::INT32, OutType::HEX_INT32),
        "uint64" => integer(InType::UINT64, OutType::HEX_INT64),
        "sint64" => integer(InType::INT64, OutType::HEX_INT64),
        "real32" => natural(InType::FLOAT, OutType::NULL),
        "real64" => natural(InType::DOUBLE, OutType::NULL),
        "boolean" => natural(InType::UINT8, OutType::BOOLEAN),
        "char16" if fixed_size(member).is_some() => Ok(fixed_text(InType::UNICODE_STRING)),
        "char16" => natural(InType::UNICODE_CHAR, OutType::NULL),
        // A time in CIM text form has 25 characters.
        "datetime" => Ok((InType::UNICODE_STRING, OutType::CIM_DATETIME, Length::Fixed(25))),
        "string" => string_type(member, format == "w"),
        "object" => object_type(member),
        other => Err(format!("type {other} cannot occur in a payload")),
    }
}

fn string_type(member: &Member, is_wide: bool) -> Result<(InType, OutType, Length), String> {
    let termination = member.text("stringtermination").unwrap_or("NullTerminated").to_ascii_lowercase();
    let (wide, narrow) = match &*termination {
        "nullterminated" => (InType::UNICODE_STRING, InType::ANSI_STRING),
        "counted" => (InType::COUNTED_STRING, InType::COUNTED_STRING_ANSI),
        "reversecounted" => (InType::REVERSED_COUNTED_STRING, InType::REVERSED_COUNTED_ANSI_STRING),
        "notcounted" => (InType::NON_NULL_TERMINATED_STRING, InType::NON_NULL_TERMINATED_ANSI_STRING),
        other => return Err(format!("unknown StringTermination {other}")),
    };
    let extension = member.text("extension").unwrap_or_default().to_ascii_lowercase();
    let (is_wide, out_type) = match &*extension {
        "rstring" => (false, OutType::REDUCED_STRING),
        "rwstring" => (true, OutType::REDUCED_STRING),
        _ if member.has("xmlfragment") => (is_wide, OutType::XML),
        _ => (is_wide, OutType::NULL),
    };
    let length = match member.number("max").and_then(|max| u16::try_from(max).ok()) {
        Some(max) if termination == "nullterminated" => Length::Fixed(max),
        _ => Length::Natural,
    };
    Ok((if is_wide { wide } else { narrow }, out_type, length))
}

fn object_type(member: &Member) -> Result<(InType, OutType, Length), String> {
    let extension = member.text("extension").unwrap_or_default().to_ascii_lowercase();
    let (in_type, out_type, length) = match &*extension {
        "port" => (InType::UINT16, OutType::PORT, Length::Natural),
        "ipaddr" | "ipaddrv4" => (InType::UINT32, OutType::IPV4, Length::Natural),
        "ipaddrv6" => (InType::BINARY, OutType::IPV6, Length::Fixed(16)),
        "sid" => (InType::WBEM_SID, OutType::NULL, Length::Natural),
        "guid" => (InType::GUID, OutType::NULL, Length::Natural),
        "sizet" => (InType::SIZE_T, OutType::NULL, Length::Natural),
        "wmitime" => (InType::WMI_TIME, OutType::NULL, Length::Natural),
        "variant" => (InType::HEX_DUMP, OutType::NULL, Length::Natural),
        "rstring" => (InType::ANSI_STRING, OutType::REDUCED_STRING, Length::Natural),
        "rwstring" => (InType::UNICODE_STRING, OutType::REDUCED_STRING, Length::Natural),
        // An object of unknown form: the rest of the payload.
        "" => (InType::BINARY_TO_END, OutType::NULL, Length::Natural),
        other => return Err(format!("unknown extension {other}")),
    };
    Ok((in_type, out_type, length))
}

/// Returns the names of a property's values: `ValueMap` with `Values`, or `BitMap` with `BitValues`.
fn value_map(member: &Member) -> Option<ValueMap> {
    let texts = |names: &[&str]| names.iter().find_map(|name| member.values(name));
    let is_flag = member.text("valuetype").is_some_and(|kind| kind.eq_ignore_ascii_case("flag"));
    let (kind, numbers, texts) = match texts(&["bitvalues"]) {
        Some(bits) => (MapKind::BitPositions, member.values("bitmap"), bits),
        None => {
            let kind = if is_flag { MapKind::Bits } else { MapKind::Value };
            (kind, member.values("valuemap"), texts(&["values", "definevalues", "valuedescriptions"])?)
        }
    };
    let entries = texts.iter().enumerate().filter_map(|(at, text)| {
        let value = match numbers {
            Some(numbers) => numbers.get(at)?.number()? as u64,
            None => at as u64,
        };
        Some(MapEntry { value, text: text.text()?.into() })
    });
    let entries: Vec<_> = entries.collect();
    Some(ValueMap { name: (&*member.name).into(), kind, entries }).filter(|map| !map.entries.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        [Dynamic, Description("My Provider") : amended, Guid("{00000000-0000-0000-0000-000000000001}")]
        class Root : EventTrace {
            [DefineValues{"FLAG_A", "FLAG_B"}, Values{"a", "b"}, ValueMap{"0x1", "0x2"}] uint32 Flags;
            [Values{"Loud"}, ValueMap{"5"}, ValueType("index")] uint32 Level;
        };
        [Dynamic, Guid("{00000000-0000-0000-0000-000000000002}"), EventVersion(0)] class Thing_V0 : Root {};
        [EventType(1), EventTypeName("Start")] class Thing_V0_Start : Thing_V0 { [WmiDataId(1)] uint32 Old; };
        [Dynamic, Guid("{00000000-0000-0000-0000-000000000002}"), DisplayName("Thing")] class Thing : Root {};
        class Thing_Base : Thing { [WmiDataId(1), pointer] uint32 Key; };
        [EventType{1, 2}, EventTypeName{"Start", "End"}, EventLevel(4)] class Thing_Type : thing_base {
            [WmiDataId(9), StringTermination("NotCounted"), format("w")] string Tail;
            [WmiDataId(2)] uint16 Count;
            [WmiDataId(3), WmiSizeIs("Count"), extension("Guid")] object Ids;
            [WmiDataId(4), format("s"), MAX(16)] char16 Name;
            [WmiDataId(5), extension("Port")] object Port;
            [WmiDataId(6), BitMap{"0", "4"}, BitValues{"Zero", "Four"}, format("x")] uint32 Bits;
            [WmiDataId(7), ValueType("flag"), ValueMap{"1", "2"}, Values{"One", "Two"}] uint8 Mask;
            [WmiDataId(8)] uint8 Bytes[4];
            uint32 NoData;
        };
    "#;

    #[test]
    fn three_levels_of_classes_become_one_provider() {
        let mof = super::super::parse(TEXT, "test.mof");
        assert_eq!(mof.problems, []);
        let [thing] = &*mof.providers else { panic!("one event class GUID") };
        assert_eq!((&*thing.info.name, thing.info.guid), ("Thing", Guid::from_u128(2)));
        let (owner, name) = thing.info.class_of.clone().unwrap();
        assert_eq!((owner, &*name), (Guid::from_u128(1), "My Provider"));
        assert_eq!(thing.info.keywords[1].mask, 2);
        assert_eq!((thing.info.levels[0].value, &*thing.info.levels[0].name), (5, "Loud"));
        let keys: Vec<_> = thing
            .events
            .iter()
            .map(|event| (event.descriptor.version, event.descriptor.opcode.0, event.descriptor.level.0))
            .collect();
        assert_eq!(keys, [(0, 1, 0), (1, 1, 4), (1, 2, 4)], "a class without a version is the newest");
        let end = &thing.events[2];
        assert_eq!((end.task_name.as_deref(), end.opcode_name.as_deref()), (Some("Thing"), Some("End")));
        let shape: Vec<_> = end
            .properties
            .iter()
            .map(|property| match &property.kind {
                PropertyType::Value { in_type, out_type, map } => {
                    let map = map.as_ref().map(|map| map.kind);
                    (&*property.name, *in_type, *out_type, property.length, property.count, map)
                }
                PropertyType::Struct { .. } => panic!("no structs in MOF"),
            })
            .collect();
        let (natural, one, plain) = (Length::Natural, Count::One, OutType::NULL);
        assert_eq!(
            shape,
            [
                ("Key", InType::POINTER, plain, natural, one, None),
                ("Count", InType::UINT16, plain, natural, one, None),
                ("Ids", InType::GUID, plain, natural, Count::Property(1), None),
                ("Name", InType::UNICODE_STRING, plain, Length::Fixed(16), one, None),
                ("Port", InType::UINT16, OutType::PORT, natural, one, None),
                ("Bits", InType::UINT32, OutType::HEX_INT32, natural, one, Some(MapKind::BitPositions)),
                ("Mask", InType::UINT8, plain, natural, one, Some(MapKind::Bits)),
                ("Bytes", InType::UINT8, plain, natural, Count::Fixed(4), None),
                ("Tail", InType::NON_NULL_TERMINATED_STRING, plain, natural, one, None),
            ]
        );
    }

    #[test]
    fn values_that_no_level_has_name_none() {
        let level = |value| TEXT.replace("ValueMap{\"5\"}", &format!("ValueMap{{\"{value}\"}}"));
        let levels = |value| super::super::parse(&level(value), "test.mof").providers[0].info.levels.len();
        assert_eq!((levels("0xFFFF"), levels("0x10005"), levels("-1")), (1, 0, 0));
    }

    #[test]
    fn what_does_not_fit_together_is_reported() {
        let check = |text: &str, problem: &str| {
            let mof = super::super::parse(text, "test.mof");
            assert_eq!(mof.problems.first().map(ToString::to_string).as_deref(), Some(problem));
        };
        let class = "[Guid(\"{00000000-0000-0000-0000-000000000002}\")] class T {};\n";
        check("[EventType(1)] class X : Y {};", "line 1: neither X nor a base class has a Guid");
        check("[EventType(1), Guid(\"x\")] class X : Y {};", "line 1: the Guid of X is invalid");
        check(
            &format!("{class}[EventType(256)] class X : T {{}};"),
            "line 2: an EventType of X is not a number from 0 to 255",
        );
        check(&format!("{class}[EventType{{1,1}}] class X : T {{}};"), "line 2: X lists event type 1 twice");
        check(
            &format!("{class}[EventType(1)] class X : T {{\n[WmiDataId(1), WmiSizeIs(\"N\")] uint8 A;\n}};"),
            "line 3: A: no property N precedes it",
        );
        check(
            "[EventType(1)] class X : Y {}; [EventType(1)] class Y : X {};",
            "line 1: neither X nor a base class has a Guid",
        );
    }
}
