//! Makes the names of the kernel's events, and their typed readers, of the tables.
#![expect(clippy::expect_used, reason = "a mistake in a table ends the build")]

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

/// The tables, in the order of the numbers that classes get.
const TABLES: [&str; 2] = ["tables/kernel.txt", "tables/merge.txt"];

/// A class of events.
struct Class<'a> {
    name: &'a str,
    guid: &'a str,
    layouts: Vec<Layout<'a>>,
    /// The readers: their names, and the opcodes of their events.
    readers: Vec<(&'a str, Vec<u8>)>,
}

/// A line of a table: the events of a version with equal fields.
struct Layout<'a> {
    version: u8,
    events: Vec<(u8, &'a str)>,
    fields: Vec<(&'a str, &'a str)>,
}

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("Cargo sets it");
    let mut texts = Vec::new();
    for table in TABLES {
        println!("cargo::rerun-if-changed={table}");
        texts.push(fs::read_to_string(Path::new(&root).join(table)).expect("the table can be read"));
    }
    let classes: Vec<Class<'_>> = texts.iter().flat_map(|text| classes(text)).collect();
    let out = env::var("OUT_DIR").expect("Cargo sets it");
    let write = |name: &str, text: String| fs::write(Path::new(&out).join(name), text).expect("a file");
    write("ids.rs", ids(&classes));
    write("read.rs", readers(&classes));
}

/// Parses a table. Its notation is that of the built-in schemas, with lines `reader NAME OPCODE…`.
fn classes(text: &str) -> Vec<Class<'_>> {
    let mut classes: Vec<Class<'_>> = Vec::new();
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or_default();
        let class = classes.last_mut();
        match (word, class) {
            ("class", _) => {
                let (name, guid) = rest.rsplit_once(' ').expect("a class has a GUID");
                classes.push(Class { name, guid, layouts: Vec::new(), readers: Vec::new() });
            }
            ("reader", Some(class)) => {
                let (name, opcodes) = rest.split_once(' ').expect("a reader has events");
                let opcodes = opcodes.split(' ').map(|opcode| opcode.parse().expect("an opcode"));
                class.readers.push((name, opcodes.collect()));
            }
            (version, Some(class)) if version.parse::<u8>().is_ok() => {
                let mut columns = rest.split('|').map(str::trim);
                let (Some(_), Some(events)) = (columns.next(), columns.next()) else { continue };
                let events = events.split(", ").map(|event| {
                    let (opcode, name) = event.split_once(' ').expect("an event has a name");
                    (opcode.parse().expect("an opcode"), name)
                });
                let version = version.parse().expect("a version");
                let fields = fields(rest.splitn(3, '|').nth(2).unwrap_or_default());
                class.layouts.push(Layout { version, events: events.collect(), fields });
            }
            _ => {}
        }
    }
    classes
}

/// Splits the fields of a layout into names and types, without maps and forms of text.
fn fields(text: &str) -> Vec<(&str, &str)> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ';' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    let parts = parts.into_iter().map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, rest) = part.split_once(' ').expect("a field has a type");
            let plain = rest.split_once(" =").map_or(rest, |(plain, _)| plain);
            (name, plain.split_once(':').map_or(plain, |(plain, _)| plain))
        })
        .collect()
}

/// Returns a name in lower case, with underscores between its words: `DCStart` is `dc_start`.
fn snake(name: &str) -> String {
    let characters: Vec<char> = name.chars().collect();
    let mut snake = String::new();
    for (index, character) in characters.iter().enumerate() {
        let before = index.checked_sub(1).map(|index| characters[index]);
        let is_word = character.is_uppercase()
            && (before.is_some_and(|before| before.is_lowercase() || before.is_ascii_digit())
                || before.is_some_and(char::is_uppercase)
                    && characters.get(index + 1).is_some_and(|after| after.is_lowercase()));
        if is_word && !snake.ends_with('_') {
            snake.push('_');
        }
        snake.extend(character.to_lowercase());
    }
    snake
}

/// Returns the name of a type: `Lost_Event` is `LostEvent`.
fn camel(name: &str) -> String {
    name.split('_').collect()
}

/// Writes `Class`, and a type for each class with the ids of its events.
fn ids(classes: &[Class<'_>]) -> String {
    let mut out = String::new();
    let mut put = |line: String| out.extend([line.as_str(), "\n"]);
    put("/// A class of the kernel's events.".into());
    put("#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]\n#[repr(u8)]".into());
    put("pub enum Class {".into());
    for class in classes {
        put(format!("    /// {}.\n    {},", class.name, camel(class.name)));
    }
    put("}\nimpl Class {".into());
    put(format!("    /// All classes.\n    pub const ALL: [Class; {}] = [", classes.len()));
    for class in classes {
        put(format!("        Class::{},", camel(class.name)));
    }
    put("    ];\n    const GUIDS: [Guid; Class::ALL.len()] = [".into());
    for class in classes {
        put(format!("        Guid::from_u128(0x{}),", class.guid.replace('-', "_")));
    }
    put("    ];\n    /// The number of the class whose GUID begins with a number, if one does.".into());
    put("    const fn number_of(first: u32) -> u8 {\n        match first {".into());
    for (number, class) in classes.iter().enumerate() {
        put(format!("            0x{} => {number},", &class.guid[..8]));
    }
    put("            _ => NO_CLASS,\n        }\n    }\n}".into());
    for class in classes {
        let type_name = camel(class.name);
        put(format!("/// The events of class {}.\n#[derive(Debug)]\npub struct {type_name};", class.name));
        put(format!("impl {type_name} {{"));
        let mut names: BTreeMap<String, BTreeMap<u8, &str>> = BTreeMap::new();
        for (opcode, name) in class.layouts.iter().flat_map(|layout| &layout.events) {
            names.entry(snake(name).to_uppercase()).or_default().insert(*opcode, name);
        }
        for (name, opcodes) in names {
            let is_shared = opcodes.len() > 1;
            for (opcode, event) in opcodes {
                // Two events have one name: `ISR_50` and `ISR_67`.
                let constant = if is_shared { format!("{name}_{opcode}") } else { name.clone() };
                put(format!("    /// {}/{event}, opcode {opcode}.", class.name));
                put(format!(
                    "    pub const {constant}: EventId = EventId::new(Class::{type_name}, {opcode});"
                ));
            }
        }
        put("}".into());
    }
    out
}

/// What a reader's method returns for a type of the tables, and the kind of value that it reads.
fn kind(of: &str) -> Option<(&'static str, &'static str, &'static str)> {
    Some(match of {
        "u8" | "u8x" | "bool8" => ("U8", "u8", "u8"),
        "i8" => ("U8", "i8", "i8"),
        "u16" | "u16x" => ("U16", "u16", "u16"),
        "i16" => ("U16", "i16", "i16"),
        "u32" | "u32x" | "x32" => ("U32", "u32", "u32"),
        "i32" | "i32x" => ("U32", "i32", "i32"),
        "u64" | "u64x" | "x64" | "ft" => ("U64", "u64", "u64"),
        "i64" | "time" => ("U64", "i64", "i64"),
        "ptr" | "size" => ("Pointer", "u64", "u64"),
        "port" => ("Port", "u16", "port"),
        "ip4" => ("Ip4", "IpAddr", "address"),
        "ip6" => ("Ip6", "IpAddr", "address"),
        "guid" => ("Guid", "Guid", "guid"),
        "ptr[]" => ("Pointers", "impl Iterator<Item = u64> + 'a", "pointers"),
        "astr" => ("Narrow", "&'a [u8]", "narrow"),
        "wstr" => ("Wide", "&'a [u8]", "wide"),
        "usersid" => ("UserSid", "&'a [u8]", "user_sid"),
        _ => return None,
    })
}

/// Writes the typed readers.
fn readers(classes: &[Class<'_>]) -> String {
    let mut out = String::new();
    for class in classes {
        for (name, opcodes) in &class.readers {
            reader(&mut out, class, name, opcodes);
        }
    }
    out
}

fn reader(out: &mut String, class: &Class<'_>, name: &str, opcodes: &[u8]) {
    let mut put = |line: String| out.extend([line.as_str(), "\n"]);
    let is_own = |layout: &&Layout<'_>| layout.events.iter().any(|(opcode, _)| opcodes.contains(opcode));
    let mut layouts: Vec<&Layout<'_>> = class.layouts.iter().filter(is_own).collect();
    assert!(!layouts.is_empty(), "{}: {name} has no events", class.name);
    layouts.sort_by_key(|layout| std::cmp::Reverse(layout.version));
    // The fields of all layouts, by their newest types.
    let mut fields: Vec<(&str, &str)> = Vec::new();
    for (field, of) in layouts.iter().flat_map(|layout| &layout.fields) {
        if kind(of).is_some() && !fields.iter().any(|(known, _)| known == field) {
            fields.push((field, of));
        }
    }
    let mut events: Vec<(u8, &str)> =
        layouts.iter().flat_map(|layout| layout.events.iter().copied()).collect();
    events.retain(|(opcode, _)| opcodes.contains(opcode));
    events.sort_by_key(|(opcode, _)| *opcode);
    events.dedup_by_key(|(opcode, _)| *opcode);
    let listed: Vec<String> = events.iter().map(|(_, event)| format!("{}/{event}", class.name)).collect();
    let constant = format!("{}_LAYOUTS", snake(name).to_uppercase());
    put(format!(
        "/// {}.\n#[derive(Debug, Clone, Copy)]\npub struct {name}<'a>(Fields<'a>);",
        listed.join(", ")
    ));
    put(format!("impl<'a> {name}<'a> {{"));
    put("    /// Returns the reader of a record's fields; also of an event of a manifest provider that repeats one.\n    #[inline]"
        .into());
    put(format!(
        "    pub fn new(record: &Record<'a>) -> {name}<'a> {{\n        {name}(Fields::new(record, &{constant}))\n    }}"
    ));
    let numbers: Vec<String> = opcodes
        .iter()
        .map(|opcode| format!("EventId::new(Class::{}, {opcode}).0", camel(class.name)))
        .collect();
    put("    /// Returns whether an event is one of those that this reads.\n    #[inline]".into());
    put("    pub fn reads(id: EventId) -> bool {".into());
    put(format!("        const NUMBERS: [u16; {}] = [{}];", numbers.len(), numbers.join(", ")));
    put("        NUMBERS.contains(&id.0)\n    }".into());
    for (index, (field, of)) in fields.iter().enumerate() {
        let (_, returned, method) = kind(of).expect("it has a kind");
        let (method, returned) = match method {
            "i8" | "i16" | "i32" => (format!("{}({index})? as {method}", method.replace('i', "u")), returned),
            "i64" => (format!("u64({index})? as i64"), returned),
            _ => (format!("{method}({index})"), returned),
        };
        let body =
            if method.contains('?') { format!("Some(self.0.{method})") } else { format!("self.0.{method}") };
        let function = match snake(field).as_str() {
            "type" => "type_".to_owned(),
            function => function.to_owned(),
        };
        put(format!("    /// `{field}`; `None` if the event has none.\n    #[inline]"));
        put(format!("    pub fn {function}(&self) -> Option<{returned}> {{\n        {body}\n    }}"));
    }
    put("}".into());
    put(format!("static {constant}: [Layout; {}] = [", layouts.len()));
    for layout in &layouts {
        let own: Vec<String> = layout
            .events
            .iter()
            .filter(|(opcode, _)| opcodes.contains(opcode))
            .map(|(opcode, _)| opcode.to_string())
            .collect();
        put(format!("    Layout {{ version: {}, opcodes: &[{}], places: &[", layout.version, own.join(", ")));
        for (field, _) in &fields {
            put(format!("        {},", place(layout, field)));
        }
        let sequence: Vec<String> = layout
            .fields
            .iter()
            .map_while(|(_, of)| kind(of))
            .map(|(kind, _, _)| format!("Kind::{kind}"))
            .collect();
        put(format!("    ], sequence: &[{}] }},", sequence.join(", ")));
    }
    put("];".into());
}

/// Returns where a layout has a field: its kind, and its offset with pointers of 4 and of 8 bytes.
fn place(layout: &Layout<'_>, field: &str) -> String {
    let (mut short, mut long, mut is_fixed) = (0u16, 0u16, true);
    for (order, (name, of)) in layout.fields.iter().enumerate() {
        let Some((kind, _, _)) = kind(of) else { break };
        if *name == field {
            let (short, long) = if is_fixed { (short, long) } else { (u16::MAX, u16::MAX) };
            return format!("Place {{ kind: Kind::{kind}, at: [{short}, {long}], order: {order} }}");
        }
        let size = match kind {
            "U8" => Some((1, 1)),
            "U16" | "Port" => Some((2, 2)),
            "U32" | "Ip4" => Some((4, 4)),
            "U64" => Some((8, 8)),
            "Ip6" | "Guid" => Some((16, 16)),
            "Pointer" => Some((4, 8)),
            _ => None,
        };
        match size {
            Some(size) => {
                short += size.0;
                long += size.1;
            }
            None => is_fixed = false,
        }
    }
    "Place::ABSENT".to_owned()
}
