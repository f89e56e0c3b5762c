//! Checks of a manifest that reading does not need, but Windows' message compiler makes.
//!
//! Source: the schema of manifests (`eventman.xsd`) and the types in `winmeta.xml` of the Windows SDK.

use std::collections::{HashMap, HashSet};

use etw_schema::manifest::{
    Document, Element, ProblemKind, Problems, cut, default_out_type, number, winmeta,
};
use etw_schema::{InType, OutType};

/// Adds the problems that reading did not find.
pub(super) fn check(document: &Document, problems: &mut Problems) {
    let mut check = Check { document, problems };
    let mut providers = Unique::default();
    for (at, element) in document.elements.iter().enumerate() {
        let parent = document.elements.get(element.parent).map_or("", |parent| parent.name);
        match element.name {
            "provider" if parent != "counters" => {
                check.unique(
                    &mut providers,
                    "provider",
                    element,
                    element.attribute("guid").map(str::to_lowercase),
                );
                check.provider(at, element);
            }
            "stringTable" => {
                let mut ids = Unique::default();
                for (_, string) in document.children(at) {
                    check.required(string, &["id"]);
                    check.unique(&mut ids, "string", string, string.attribute("id").map(str::to_owned));
                }
            }
            _ => {}
        }
    }
}

/// Keys that were defined.
type Unique = HashSet<String>;

/// The most channels that a provider can have.
const MAX_CHANNELS: usize = 8;

struct Check<'a, 'b> {
    document: &'a Document,
    problems: &'b mut Problems,
}

impl<'a> Check<'a, '_> {
    fn provider(&mut self, at: usize, provider: &'a Element) {
        self.required(provider, &["symbol"]);
        let mut symbols = Unique::default();
        self.symbol(provider, &mut Unique::default());
        let admin = self.channels(at, &mut symbols);
        self.values(at, "levels", ["level", "level value"], "value", 16..=255);
        self.values(at, "tasks", ["task", "task value"], "value", 1..=0xFFFF);
        self.values(at, "opcodes", ["opcode", "opcode value"], "value", 10..=239);
        let tasks: Vec<usize> = self.document.listed(at, "tasks").map(|(task, _)| task).collect();
        for task in tasks {
            self.values(task, "opcodes", ["opcode", "opcode value"], "value", 10..=239);
        }
        self.values(at, "keywords", ["keyword", "keyword mask"], "mask", 1..=0xFFFF_FFFF_FFFF);
        self.maps(at);
        for (template, element) in self.document.listed(at, "templates") {
            if element.name == "template" {
                self.required(element, &["tid"]);
                self.items(template, &HashMap::new());
            }
        }
        for (_, event) in self.document.listed(at, "events").filter(|(_, event)| event.name == "event") {
            self.symbol(event, &mut symbols);
            if event.attribute("channel").is_some_and(|channel| admin.contains(channel)) {
                self.required(event, &["message"]);
                let level = event.attribute("level").and_then(winmeta::level);
                if !level.is_some_and(|level| (1..=4).contains(&level)) {
                    let rule =
                        "events of an Admin channel have a level from win:Critical to win:Informational";
                    self.rule(event, event.attribute("value"), rule);
                }
            }
        }
    }

    /// Checks the channels, and returns the names of those of type Admin.
    fn channels(&mut self, at: usize, symbols: &mut Unique) -> HashSet<&'a str> {
        let mut admin = HashSet::new();
        let (mut names, mut ids, mut values) = (Unique::default(), Unique::default(), Unique::default());
        for (position, (_, channel)) in self.document.listed(at, "channels").enumerate() {
            if position == MAX_CHANNELS {
                self.problems.add(channel.at, ProblemKind::TooMany("channels: a provider can have 8"));
            }
            let name = channel.attribute("name");
            self.unique(&mut names, "channel", channel, name.map(str::to_lowercase));
            self.unique(&mut ids, "channel id", channel, channel.attribute("chid").map(str::to_owned));
            self.unique(&mut values, "channel value", channel, channel.attribute("value").map(normal));
            self.symbol(channel, symbols);
            if channel.name != "channel" {
                continue;
            }
            match channel.attribute("type") {
                Some("Admin") => admin.extend(name.into_iter().chain(channel.attribute("chid"))),
                Some("Operational" | "Analytic" | "Debug") => {}
                Some(other) => {
                    self.range(channel, "type", other, "Admin, Operational, Analytic or Debug".to_owned());
                }
                None => self.required(channel, &["type"]),
            }
        }
        admin
    }

    /// Checks a list of names with values. Names of Windows may have its values.
    fn values(
        &mut self,
        at: usize,
        list: &'static str,
        [what, value_of]: [&'static str; 2],
        attribute: &'static str,
        range: std::ops::RangeInclusive<u64>,
    ) {
        let (mut names, mut values) = (Unique::default(), Unique::default());
        for (_, element) in self.document.listed(at, list).filter(|(_, element)| element.name == what) {
            let name = element.attribute("name");
            self.unique(&mut names, what, element, name.map(str::to_owned));
            self.symbol(element, &mut Unique::default());
            let Some(written) = element.attribute(attribute) else { continue };
            self.unique(&mut values, value_of, element, Some(normal(written)));
            let is_of_windows = name.is_some_and(|name| name.starts_with("win:"));
            if let Some(value) = number::<u64>(written)
                && !range.contains(&value)
                && !is_of_windows
            {
                let expected = match attribute {
                    "mask" => format!(
                        "from {:#x} to {:#x}; the other bits are reserved",
                        range.start(),
                        range.end()
                    ),
                    _ => format!("from {} to {}; the other values are reserved", range.start(), range.end()),
                };
                self.range(element, attribute, written, expected);
            }
        }
    }

    fn maps(&mut self, at: usize) {
        let mut names = Unique::default();
        for (index, map) in self.document.listed(at, "maps") {
            self.unique(&mut names, "map", map, map.attribute("name").map(str::to_owned));
            let mut values = Unique::default();
            for (_, entry) in self.document.children(index).filter(|(_, child)| child.name == "map") {
                self.required(entry, &["message"]);
                let Some(written) = entry.attribute("value") else { continue };
                self.unique(&mut values, "map value", entry, Some(normal(written)));
                if map.name == "bitMap"
                    && number::<u64>(written).is_some_and(|value| !value.is_power_of_two())
                {
                    self.range(entry, "value", written, "a single bit".to_owned());
                }
            }
        }
    }

    /// Checks the items of a template or the members of a struct. `around` has the in-types of the items before it.
    fn items(&mut self, at: usize, around: &HashMap<&'a str, Option<InType>>) {
        let mut known = around.clone();
        let mut names = Unique::default();
        let items =
            self.document.children(at).filter(|(_, item)| matches!(item.name, "data" | "struct" | "binary"));
        for (index, item) in items {
            self.required(item, &["name"]);
            self.unique(&mut names, "item", item, item.attribute("name").map(str::to_owned));
            let in_type = item.attribute("inType").and_then(winmeta::in_type).map(|(in_type, _)| in_type);
            for attribute in ["length", "count"] {
                let Some(by) = item.attribute(attribute).filter(|text| number::<u64>(text).is_none()) else {
                    continue;
                };
                if known.get(by).is_some_and(|by| !by.is_some_and(InType::is_integer)) {
                    self.range(item, attribute, by, "a number or the name of an integer".to_owned());
                }
            }
            if let Some(in_type) = in_type {
                self.item_type(item, in_type);
            }
            if item.name == "struct" {
                self.items(index, &known);
            }
            if let Some(name) = item.attribute("name") {
                known.insert(name, in_type);
            }
        }
    }

    fn item_type(&mut self, item: &Element, in_type: InType) {
        let name = item.attribute("name");
        let has_length = item.attribute("length").is_some_and(|length| !length.is_empty());
        let takes_length = matches!(in_type, InType::UNICODE_STRING | InType::ANSI_STRING | InType::BINARY);
        if has_length && !takes_length {
            self.rule(item, name, "only win:UnicodeString, win:AnsiString and win:Binary take a length");
        }
        if in_type == InType::BINARY && !has_length {
            self.rule(item, name, "win:Binary needs a length");
        }
        if let Some(written) = item.attribute("outType")
            && let Some(out_type) = winmeta::out_type(written)
            && !fits(in_type, out_type)
        {
            self.rule(item, name, "the outType does not fit the inType");
        }
        let takes_map =
            matches!(in_type, InType::UINT8 | InType::UINT16 | InType::UINT32 | InType::HEX_INT32);
        if item.attribute("map").is_some_and(|map| !map.is_empty()) && !takes_map {
            self.rule(item, name, "only win:UInt8, win:UInt16, win:UInt32 and win:HexInt32 take a map");
        }
    }

    fn required(&mut self, element: &Element, attributes: &[&'static str]) {
        for attribute in attributes {
            if element.attribute(attribute).is_none_or(str::is_empty) {
                self.problems.add(element.at, ProblemKind::Missing { element: element.name, attribute });
            }
        }
    }

    fn unique(&mut self, known: &mut Unique, what: &'static str, element: &Element, key: Option<String>) {
        let Some(key) = key else { return };
        if known.contains(&key) {
            self.problems.add(element.at, ProblemKind::Duplicate { what, name: cut(&key) });
        }
        known.insert(key);
    }

    /// Checks that a symbol is an identifier of C and occurs once.
    fn symbol(&mut self, element: &Element, known: &mut Unique) {
        let Some(symbol) = element.attribute("symbol") else { return };
        let is_start = symbol.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !is_start || !symbol.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            self.range(element, "symbol", symbol, "letters, digits and underscores".to_owned());
        }
        self.unique(known, "symbol", element, Some(symbol.to_owned()));
    }

    fn range(&mut self, element: &Element, attribute: &'static str, found: &str, expected: String) {
        let element_name = element.name;
        let kind = ProblemKind::OutOfRange { element: element_name, attribute, found: cut(found), expected };
        self.problems.add(element.at, kind);
    }

    fn rule(&mut self, element: &Element, name: Option<&str>, rule: &'static str) {
        let name = cut(name.unwrap_or_default());
        self.problems.add(element.at, ProblemKind::Rule { element: element.name, name, rule });
    }
}

/// Returns a number in one spelling: `0x10` and `16` are equal.
fn normal(written: &str) -> String {
    number::<u64>(written).map_or_else(|| written.to_owned(), |value| value.to_string())
}

/// Returns whether the message compiler accepts an out-type with an in-type.
fn fits(in_type: InType, out_type: OutType) -> bool {
    if out_type == default_out_type(in_type) || in_type.name().is_none() {
        return true;
    }
    let codes = [OutType::ERROR_CODE, OutType::WIN32_ERROR, OutType::NTSTATUS, OutType::HRESULT];
    match in_type {
        InType::UNICODE_STRING | InType::ANSI_STRING => matches!(
            out_type,
            OutType::STRING | OutType::XML | OutType::JSON | OutType::UTF8 | OutType::DATETIME
        ),
        InType::INT8 => matches!(out_type, OutType::STRING | OutType::HEX_INT8),
        InType::UINT8 => matches!(out_type, OutType::STRING | OutType::HEX_INT8 | OutType::BOOLEAN),
        InType::INT16 => out_type == OutType::HEX_INT16,
        InType::UINT16 => matches!(out_type, OutType::STRING | OutType::HEX_INT16 | OutType::PORT),
        InType::INT32 => out_type == OutType::HEX_INT32 || codes.contains(&out_type),
        InType::UINT32 | InType::HEX_INT32 => {
            let others = [
                OutType::UNSIGNED_INT,
                OutType::HEX_INT32,
                OutType::PID,
                OutType::TID,
                OutType::IPV4,
                OutType::ETW_TIME,
                OutType::CODE_POINTER,
            ];
            others.contains(&out_type) || codes.contains(&out_type)
        }
        InType::INT64 | InType::UINT64 | InType::HEX_INT64 | InType::POINTER => matches!(
            out_type,
            OutType::LONG
                | OutType::UNSIGNED_LONG
                | OutType::HEX_INT64
                | OutType::ETW_TIME
                | OutType::CODE_POINTER
                | OutType::INT
                | OutType::UNSIGNED_INT
                | OutType::HEX_INT32
        ),
        InType::BINARY => {
            matches!(out_type, OutType::IPV6 | OutType::SOCKET_ADDRESS | OutType::PKCS7_WITH_TYPE_INFO)
        }
        InType::FILETIME | InType::SYSTEMTIME => {
            matches!(out_type, OutType::CULTURE_INSENSITIVE_DATETIME | OutType::DATETIME_UTC)
        }
        InType::FLOAT | InType::DOUBLE | InType::BOOLEAN | InType::GUID | InType::SID => false,
        _ => true,
    }
}
