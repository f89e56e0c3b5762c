//! Rust code that writes the events of a manifest.

use std::collections::HashSet;
use std::sync::Arc;

use etw_schema::text::is_disruptive;
use etw_schema::{Count, EventSchema, InType, Length, Property, PropertyType, Provider};

/// Rust code that writes events, and the events that it cannot write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RustCode {
    /// The code.
    pub text: String,
    /// The events that are left out.
    pub left_out: Vec<LeftOut>,
}

/// An event without a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Name of the provider.
    pub provider: Arc<str>,
    /// Id of the event.
    pub id: u16,
    /// Version of the event.
    pub version: u8,
    /// Why there is no function.
    pub reason: &'static str,
}

/// Writes Rust code for providers: each provider as a static, constants for its keywords and levels, and one function
/// for each event. Several providers have a module each. The code uses `openetw::provider`.
///
/// A field that is the length or count of others is no parameter: it is the length of their slices, which are cut to the
/// shortest. A single struct becomes one parameter for each member.
///
/// ```
/// use etw_schema::manifest;
///
/// let text = r#"<provider name="MyCompany-MyApp" guid="{11223344-5566-7788-99aa-bbccddeeff00}">
///   <templates><template tid="T"><data name="ItemCount" inType="win:UInt32"/></template></templates>
///   <events><event value="7" symbol="Started" template="T"/></events></provider>"#;
/// let code = etw_mc::rust_code(&manifest::read(text.as_bytes(), "myapp.man").providers);
/// assert!(code.text.contains("pub fn started(item_count: u32) -> etw::Outcome {"));
/// ```
pub fn rust_code(providers: &[Provider]) -> RustCode {
    let mut code = RustCode::default();
    let mut modules = Names::default();
    for provider in providers {
        if providers.len() > 1 {
            let module = modules.variable(&provider.info.name);
            code.text +=
                &format!("\n/// Events of {}.\npub mod {module} {{\n", one_line(&provider.info.name));
        } else {
            code.text += &format!("//! Events of {}.\n\n", one_line(&provider.info.name));
        }
        put_provider(&mut code, provider);
        if providers.len() > 1 {
            code.text += "}\n";
        }
    }
    code
}

fn put_provider(code: &mut RustCode, provider: &Provider) {
    let info = &provider.info;
    let mut names = Names::default();
    let own = names.constant(&info.name);
    let digits: String = info.guid.to_string().chars().filter(char::is_ascii_hexdigit).collect();
    code.text += &format!(
        "use openetw::provider as etw;\n\n\
         etw::provider! {{\n    /// The provider {}.\n    pub static {own}: {:?}, guid: etw::Guid::from_u128(0x{digits});\n}}\n",
        one_line(&info.name),
        &*info.name
    );
    let mut constant = |prefix: &str, name: &str, value: String, kind: &str| {
        let constant = names.constant(&format!("{prefix}_{name}"));
        code.text += &format!(
            "\n/// {}.\npub const {constant}: etw::{kind} = etw::{kind}({value});\n",
            one_line(name)
        );
    };
    for keyword in &info.keywords {
        constant("KEYWORD", &keyword.name, format!("{:#x}", keyword.mask), "Keyword");
    }
    for level in info.levels.iter().filter(|level| level.value >= 16) {
        constant("LEVEL", &level.name, level.value.to_string(), "Level");
    }
    for event in &provider.events {
        match Function::new(event) {
            Ok(function) => function.put(&mut code.text, event, &own, &mut names),
            Err(reason) => code.left_out.push(LeftOut {
                provider: info.name.clone(),
                id: event.descriptor.id,
                version: event.descriptor.version,
                reason,
            }),
        }
    }
}

/// Returns a text without the characters that would end a comment's line, or show it in another place.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_disruptive(c) { ' ' } else { c }).collect()
}

/// The parts of a function.
#[derive(Default)]
struct Function {
    /// Name and type.
    parameters: Vec<(String, String)>,
    /// Lines before the event is written.
    statements: Vec<String>,
    /// The parts of the payload.
    payload: Vec<String>,
    names: Names,
}

/// The properties whose length or count one property holds.
struct Counted {
    by: usize,
    variable: String,
    of: Vec<String>,
}

impl Function {
    fn new(event: &EventSchema) -> Result<Function, &'static str> {
        let mut function = Function::default();
        let mut counted = Vec::new();
        for property in &event.properties {
            let references = [
                if let Length::Property(by) = property.length { Some(by) } else { None },
                if let Count::Property(by) = property.count { Some(by) } else { None },
            ];
            for by in references.into_iter().flatten().map(usize::from) {
                if !counted.iter().any(|known: &Counted| known.by == by) {
                    let name = event.properties.get(by).filter(|by| is_plain_integer(by));
                    let name = name.ok_or("a length or count is not a single integer")?.name.clone();
                    counted.push(Counted { by, variable: function.names.variable(&name), of: Vec::new() });
                }
            }
            if let PropertyType::Struct { .. } = property.kind
                && property.count != Count::One
            {
                return Err("it has an array of structs");
            }
        }
        let top_level: Vec<usize> = (0..usize::from(event.top_level)).collect();
        function.properties(event, &top_level, "", &mut counted, 0)?;
        for Counted { by, variable, of } in &counted {
            if of.is_empty() {
                return Err("a field that has its own length also has a length");
            }
            let kind = event.properties.get(*by).map(|property| &property.kind);
            let (integer, limit) = match kind {
                Some(PropertyType::Value { in_type, .. }) => integer(*in_type).unwrap_or(("u16", 0xFFFF)),
                _ => ("u16", 0xFFFF),
            };
            let lengths: String = of.iter().map(|slice| format!("{slice}.len().min(")).collect();
            let close = ")".repeat(of.len());
            function.statements.push(format!("let {variable} = {lengths}{limit}{close};"));
            for slice in of {
                function
                    .statements
                    .push(format!("let {slice} = {slice}.get(..{variable}).unwrap_or_default();"));
            }
            function.statements.push(format!("let {variable} = {variable} as {integer};"));
        }
        Ok(function)
    }

    fn properties(
        &mut self,
        event: &EventSchema,
        indices: &[usize],
        prefix: &str,
        counted: &mut [Counted],
        depth: usize,
    ) -> Result<(), &'static str> {
        for index in indices {
            let Some(property) = event.properties.get(*index) else { continue };
            if let Some(known) = counted.iter().find(|known| known.by == *index) {
                self.payload.push(known.variable.clone());
                continue;
            }
            match &property.kind {
                PropertyType::Value { in_type, .. } => {
                    let name = self.names.variable(&format!("{prefix}{}", property.name));
                    self.value(&name, *in_type, property, counted)?;
                }
                PropertyType::Struct { first, members } => {
                    if depth > 8 {
                        return Err("its structs are nested too deeply");
                    }
                    let first = usize::from(*first);
                    let members: Vec<usize> = (first..first + usize::from(*members)).collect();
                    self.properties(
                        event,
                        &members,
                        &format!("{prefix}{}_", property.name),
                        counted,
                        depth + 1,
                    )?;
                }
            }
        }
        Ok(())
    }

    fn value(
        &mut self,
        name: &str,
        in_type: InType,
        property: &Property,
        counted: &mut [Counted],
    ) -> Result<(), &'static str> {
        // Text and bytes of a given length are slices of their units; anything else has its own length.
        let unit = match in_type {
            InType::UNICODE_STRING => Some("u16"),
            InType::ANSI_STRING | InType::BINARY => Some("u8"),
            _ => None,
        };
        let (element, wrap) = match (unit, property.length, property.count) {
            (Some(unit), Length::Fixed(length), Count::One) => {
                return self.parameter(name, format!("&[{unit}; {length}]"), name.to_owned());
            }
            (Some(unit), Length::Property(by), Count::One) => {
                count(counted, by, name);
                return self.parameter(name, format!("&[{unit}]"), name.to_owned());
            }
            (Some(_), Length::Fixed(_) | Length::Property(_), _) => {
                return Err("it has an array of texts or bytes with a length");
            }
            _ => element(in_type)?,
        };
        match property.count {
            Count::One => {
                let value = wrap.replace("{}", name);
                self.parameter(name, element.to_owned(), value)
            }
            Count::Fixed(_) | Count::Property(_)
                if in_type == InType::BINARY_TO_END || in_type == InType::SID =>
            {
                Err("it has an array of values without a fixed size")
            }
            Count::Fixed(count) => {
                let element = array_element(in_type, element);
                self.parameter(name, format!("&[{element}; {count}]"), name.to_owned())
            }
            Count::Property(by) => {
                count(counted, by, name);
                let element = array_element(in_type, element);
                self.parameter(name, format!("&[{element}]"), name.to_owned())
            }
            Count::Prefixed | Count::ToEnd => Err("manifests do not have its kind of array"),
        }
    }

    fn parameter(&mut self, name: &str, kind: String, value: String) -> Result<(), &'static str> {
        self.parameters.push((name.to_owned(), kind));
        self.payload.push(value);
        Ok(())
    }

    fn put(&self, text: &mut String, event: &EventSchema, provider: &str, names: &mut Names) {
        let d = &event.descriptor;
        let label = [&event.name, &event.task_name, &event.opcode_name].into_iter().flatten();
        let label = one_line(&label.map(|part| &**part).collect::<Vec<&str>>().join(" "));
        let function = match label.is_empty() {
            true => names.variable(&format!("event_{}", d.id)),
            false => names.variable(event.name.as_deref().unwrap_or(&label)),
        };
        let parameters: Vec<String> =
            self.parameters.iter().map(|(name, kind)| format!("{name}: {kind}")).collect();
        let mut lines = vec![format!(
            "/// Event {} version {}{}{label}.",
            d.id,
            d.version,
            if label.is_empty() { "" } else { ": " }
        )];
        if parameters.len() > 7 {
            lines.push(
                "#[allow(clippy::too_many_arguments, reason = \"the event has as many fields\")]".to_owned(),
            );
        }
        lines.push(format!("pub fn {function}({}) -> etw::Outcome {{", parameters.join(", ")));
        lines.push("    const EVENT: etw::EventDescriptor = etw::EventDescriptor {".to_owned());
        lines.push(format!(
            "        id: {},\n        version: {},\n        channel: {},",
            d.id, d.version, d.channel
        ));
        lines.push(format!(
            "        level: etw::Level({}),\n        opcode: etw::Opcode({}),",
            d.level.0, d.opcode.0
        ));
        lines.push(format!(
            "        task: {},\n        keyword: etw::Keyword({:#x}),\n    }};",
            d.task, d.keyword.0
        ));
        lines.extend(self.statements.iter().map(|statement| format!("    {statement}")));
        lines.push(format!("    {provider}.write(&EVENT, &{})\n}}", tuple(&self.payload)));
        *text += &format!("\n{}\n", lines.join("\n"));
    }
}

/// Notes that the property with index `by` holds the length of a slice.
fn count(counted: &mut [Counted], by: u16, slice: &str) {
    if let Some(known) = counted.iter_mut().find(|known| known.by == usize::from(by)) {
        known.of.push(slice.to_owned());
    }
}

/// Returns a tuple of the parts. Payloads are tuples of at most twelve, so longer ones are nested.
fn tuple(parts: &[String]) -> String {
    const MAX: usize = 12;
    if parts.len() > MAX {
        let chunks: Vec<String> = parts.chunks(MAX).map(tuple).collect();
        return tuple(&chunks);
    }
    let trailing = if parts.len() == 1 { "," } else { "" };
    format!("({}{trailing})", parts.join(", "))
}

fn is_plain_integer(property: &Property) -> bool {
    let is_integer = match property.kind {
        PropertyType::Value { in_type, .. } => integer(in_type).is_some(),
        PropertyType::Struct { .. } => false,
    };
    is_integer && property.count == Count::One
}

/// Returns the Rust type of an integer, and the largest length that it can hold and a record can have.
fn integer(in_type: InType) -> Option<(&'static str, u32)> {
    Some(match in_type {
        InType::INT8 => ("i8", 0x7F),
        InType::UINT8 => ("u8", 0xFF),
        InType::INT16 => ("i16", 0x7FFF),
        InType::UINT16 => ("u16", 0xFFFF),
        InType::INT32 => ("i32", 0xFFFF),
        InType::UINT32 | InType::HEX_INT32 => ("u32", 0xFFFF),
        InType::INT64 => ("i64", 0xFFFF),
        InType::UINT64 | InType::HEX_INT64 | InType::POINTER | InType::SIZE_T => ("u64", 0xFFFF),
        _ => return None,
    })
}

/// Returns the type of a parameter and the form of its value in the payload, with `{}` for the parameter.
fn element(in_type: InType) -> Result<(&'static str, &'static str), &'static str> {
    if let Some((integer, _)) = integer(in_type) {
        return Ok((integer, "{}"));
    }
    Ok(match in_type {
        InType::UNICODE_STRING => ("&str", "{}"),
        InType::ANSI_STRING => ("&str", "etw::payload::Nul8({})"),
        InType::COUNTED_UNICODE_STRING => ("&str", "etw::payload::Counted16({})"),
        InType::COUNTED_ANSI_STRING => ("&str", "etw::payload::Counted8({})"),
        InType::COUNTED_BINARY => ("&[u8]", "etw::payload::CountedBytes({})"),
        InType::BINARY_TO_END | InType::SID => ("&[u8]", "{}"),
        InType::FLOAT => ("f32", "{}"),
        InType::DOUBLE => ("f64", "{}"),
        InType::BOOLEAN => ("bool", "u32::from({})"),
        InType::GUID => ("&etw::Guid", "{}"),
        InType::FILETIME => ("u64", "{}"),
        InType::SYSTEMTIME => ("&[u16; 8]", "{}"),
        _ => return Err("it has a field of a type that is not supported"),
    })
}

/// Returns the type of an array's elements, which are written as they are.
fn array_element(in_type: InType, element: &'static str) -> &'static str {
    match in_type {
        InType::ANSI_STRING => "etw::payload::Nul8<&str>",
        InType::COUNTED_UNICODE_STRING => "etw::payload::Counted16<&str>",
        InType::COUNTED_ANSI_STRING => "etw::payload::Counted8<&str>",
        InType::COUNTED_BINARY => "etw::payload::CountedBytes<'_>",
        InType::BOOLEAN => "u32",
        InType::GUID => "etw::Guid",
        InType::SYSTEMTIME => "[u16; 8]",
        _ => element,
    }
}

/// Names that are taken.
#[derive(Default)]
struct Names(HashSet<String>);

impl Names {
    /// Returns a new name like `READ_FILE`.
    fn constant(&mut self, name: &str) -> String {
        let name = snake(name).to_uppercase();
        self.unique(name)
    }

    /// Returns a new name like `read_file`.
    fn variable(&mut self, name: &str) -> String {
        let mut name = snake(name);
        if KEYWORDS.contains(&name.as_str()) {
            name.push('_');
        }
        self.unique(name)
    }

    fn unique(&mut self, name: String) -> String {
        let mut unique = name.clone();
        let mut number = 2;
        while !self.0.insert(unique.clone()) {
            unique = format!("{name}_{number}");
            number += 1;
        }
        unique
    }
}

/// Converts a name to snake case: `ImageFileName` and `IMAGE_FILE_NAME` to `image_file_name`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    let mut before = ' ';
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        let is_start = c.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || before.is_ascii_uppercase() && rest.peek().is_some_and(char::is_ascii_lowercase));
        let is_part = c.is_ascii_alphanumeric();
        if (is_start || !is_part) && !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
        if is_part {
            out.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    let out = out.trim_end_matches('_');
    if out.starts_with(|c: char| c.is_ascii_alphabetic()) { out.to_owned() } else { format!("n{out}") }
}

/// Words that are no names in Rust 2024, and the names that the code uses itself.
const KEYWORDS: [&str; 52] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "etw", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_rust() {
        let check = |name: &str, expected: &str| assert_eq!(Names::default().variable(name), expected);
        check("ImageFileName", "image_file_name");
        check("ProcessID", "process_id");
        check("IPAddress", "ip_address");
        check("MY_EVENT", "my_event");
        check("win:Start", "win_start");
        check("Type", "type_");
        check("2nd", "n2nd");
        check("größe", "gr_e");
        check("", "n");
        let mut names = Names::default();
        assert_eq!([names.variable("A"), names.variable("a")], ["a", "a_2"]);
    }

    #[test]
    fn long_payloads_are_nested() {
        let parts: Vec<String> = (0..13).map(|number| number.to_string()).collect();
        assert_eq!(tuple(&parts), "((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), (12,))");
        assert_eq!(tuple(&[]), "()");
    }
}
