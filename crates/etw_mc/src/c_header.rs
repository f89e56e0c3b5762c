//! The C header of a manifest: descriptors, symbols, and macros that write its events.
//!
//! Source: the documentation of Windows' message compiler (`mc.exe -um`) for the names that programs use, and the SDK's
//! samples for the parameters of the macros.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use etw_schema::manifest::{Document, Element, number};
use etw_schema::text::is_disruptive;
use etw_schema::{Count, EventSchema, InType, Length, OutType, Property, PropertyType, Provider};

use super::LeftOut;

/// A C header, and the events without a macro.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CHeader {
    /// The text of the header.
    pub text: String,
    /// The events that have a descriptor but no macro.
    pub left_out: Vec<LeftOut>,
}

/// Names of the macros of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CNames {
    /// The start of the macros' names (`-p`); the event's symbol follows.
    pub prefix: String,
    /// The start of symbols that the macros' names omit (`-P`).
    pub removed: String,
}

impl Default for CNames {
    fn default() -> CNames {
        CNames { prefix: "EventWrite".to_owned(), removed: String::new() }
    }
}

/// Most parts of a payload (`MAX_EVENT_DATA_DESCRIPTORS`).
const MAX_PARTS: usize = 128;

/// Writes the C header of a manifest, with the names that Windows' message compiler gives. `providers` are those that
/// [`read`](etw_schema::manifest::read) or [`check`](crate::check()) returned for the same bytes.
///
/// ```
/// use etw_schema::manifest;
///
/// let text = br#"<provider name="MyCompany-MyApp" symbol="MY_APP" guid="{11223344-5566-7788-99aa-bbccddeeff00}">
///   <templates><template tid="T"><data name="Items" inType="win:UInt32"/></template></templates>
///   <events><event value="7" symbol="Started" template="T"/></events></provider>"#;
/// let providers = manifest::read(text, "myapp.man").providers;
/// let header = etw_mc::c_header(text, &providers, &etw_mc::CNames::default());
/// assert!(header.text.contains("#define EventRegisterMyCompany_MyApp()"));
/// assert!(header.text.contains("#define EventWriteStarted(Items)"));
/// ```
pub fn c_header(bytes: &[u8], providers: &[Provider], names: &CNames) -> CHeader {
    let document = Document::parse(bytes);
    let mut header = Header { out: CHeader::default(), written: HashSet::new(), names };
    header.out.text += "/* Written by `etw mc` from an instrumentation manifest. */\n#pragma once\n\n#include <openetw_mc.h>\n";
    for provider in providers {
        let is_it = |element: &&Element| {
            let guid = element.attribute("guid").and_then(|guid| guid.parse().ok());
            element.name == "provider" && guid == Some(provider.info.guid)
        };
        if let Some(at) = document.elements.iter().position(|element| is_it(&element)) {
            header.provider(&document, at, provider);
        }
    }
    header.out
}

struct Header<'a> {
    out: CHeader,
    /// Names of the functions and GUIDs written.
    written: HashSet<String>,
    names: &'a CNames,
}

impl Header<'_> {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = self.out.text.write_fmt(line);
        self.out.text.push('\n');
    }

    fn define(&mut self, name: &str, value: u64) {
        self.line(format_args!("#define {name} {value:#x}"));
    }

    fn provider(&mut self, document: &Document, at: usize, provider: &Provider) {
        let info = &provider.info;
        let name = identifier(&info.name);
        let element = document.elements.get(at);
        let symbol = element.and_then(|element| element.attribute("symbol")).map_or(name.clone(), identifier);
        self.line(format_args!("\n/* Provider {} */", one_line(&info.name)));
        self.line(format_args!("MCGEN_CONST GUID {symbol} = {};", guid(&info.guid.to_bytes())));
        for (position, (_, channel)) in document.listed(at, "channels").enumerate() {
            let found = channel.attribute("name").or(channel.attribute("chid")).unwrap_or_default();
            let Some(value) = info.channels.iter().find(|known| &*known.name == found) else { continue };
            let id = channel.attribute("chid").unwrap_or(found);
            let name = own_name(channel, || format!("{symbol}_CHANNEL_{}", identifier(id)));
            self.define(&name, value.value.into());
            let bit = u32::try_from(position).ok().and_then(|position| (1u64 << 63).checked_shr(position));
            self.define(&format!("{name}_KEYWORD"), bit.unwrap_or(0));
        }
        for (list, attribute, kind) in [
            ("levels", "value", "LEVEL"),
            ("opcodes", "value", "OPCODE"),
            ("tasks", "value", "TASK"),
            ("keywords", "mask", "KEYWORD"),
        ] {
            for (index, item) in document.listed(at, list) {
                self.value(item, attribute, &format!("{symbol}_{kind}"));
                for (_, opcode) in document.listed(index, "opcodes") {
                    let task = identifier(item.attribute("name").unwrap_or_default());
                    self.value(opcode, "value", &format!("{symbol}_OPCODE_{task}"));
                }
            }
        }
        self.maps(document, at);
        let mut symbols: Vec<String> = Vec::new();
        let mut named = event_symbols(document, at);
        for event in &provider.events {
            let d = &event.descriptor;
            let event_symbol = named.remove(&(d.id, d.version)).unwrap_or_else(|| match d.version {
                0 => format!("{symbol}_EVENT_{}", d.id),
                version => format!("{symbol}_EVENT_{}_V{version}", d.id),
            });
            self.line(format_args!(
                "MCGEN_CONST EVENT_DESCRIPTOR {event_symbol} = {{{:#x}, {:#x}, {:#x}, {:#x}, {:#x}, {:#x}, {:#x}}};",
                d.id, d.version, d.channel, d.level.0, d.opcode.0, d.task, d.keyword.0
            ));
            self.define(&format!("{event_symbol}_value"), d.id.into());
            symbols.push(event_symbol);
        }
        self.line(format_args!("\n#ifndef MCGEN_DISABLE_PROVIDER_CODE_GENERATION\n"));
        let bits = self.context(&name, &symbol, provider);
        for ((event, bit), event_symbol) in provider.events.iter().zip(bits).zip(&symbols) {
            self.event(event, bit, event_symbol, &name, &symbol);
        }
        self.line(format_args!("\n#endif"));
    }

    /// Defines the symbol of a level, task, opcode or keyword, and the GUID of a task.
    fn value(&mut self, item: &Element, attribute: &str, start: &str) {
        let Some(value) = item.attribute(attribute).and_then(number::<u64>) else { return };
        let name = item.attribute("name").unwrap_or_default();
        if !name.starts_with("win:") {
            self.define(&own_name(item, || format!("{start}_{}", identifier(name))), value);
        }
        if let Some(of_task) =
            item.attribute("eventGUID").and_then(|guid| guid.parse::<etw_event::Guid>().ok())
        {
            let id = own_name(item, || format!("{start}_{}", identifier(name))) + "Id";
            // Providers of one manifest may have tasks of the same symbol.
            if self.written.insert(id.clone()) {
                self.line(format_args!("MCGEN_CONST GUID {id} = {};", guid(&of_task.to_bytes())));
            }
        }
    }

    /// Writes an enumeration for each map with a symbol.
    fn maps(&mut self, document: &Document, at: usize) {
        for (index, map) in document.listed(at, "maps") {
            let Some(symbol) = map.attribute("symbol").map(identifier) else { continue };
            let entries: Vec<(String, u32)> = document
                .children(index)
                .filter_map(|(_, entry)| {
                    let name = identifier(entry.attribute("symbol")?);
                    Some((format!("{symbol}{name}"), number(entry.attribute("value")?)?))
                })
                .collect();
            if !entries.is_empty() {
                self.line(format_args!("typedef enum _{symbol} {{"));
                for (name, value) in entries {
                    // An enumerator of C11 is an int.
                    self.line(format_args!("  {name} = (int){value:#x}u,"));
                }
                self.line(format_args!("}} {symbol};"));
            }
        }
    }

    /// Writes the provider's state and the macros that register it. Returns each event's bit in the state.
    fn context(&mut self, name: &str, symbol: &str, provider: &Provider) -> Vec<usize> {
        let mut kinds: Vec<(u8, u64)> = Vec::new();
        let bits = provider.events.iter().map(|event| {
            let kind = (event.descriptor.level.0, event.descriptor.keyword.0);
            kinds.iter().position(|known| *known == kind).unwrap_or_else(|| {
                kinds.push(kind);
                kinds.len() - 1
            })
        });
        let bits: Vec<usize> = bits.collect();
        let count = kinds.len();
        if kinds.is_empty() {
            kinds.push((0, 0));
        }
        let list = |number: fn(&(u8, u64)) -> u64| {
            kinds.iter().map(|kind| format!("{:#x}", number(kind))).collect::<Vec<_>>().join(", ")
        };
        let (levels, keywords) = (list(|kind| kind.0.into()), list(|kind| kind.1));
        let words = kinds.len().div_ceil(32);
        self.line(format_args!("EXTERN_C_START"));
        self.line(format_args!("MCGEN_CONST ULONGLONG {name}Keywords[{}] = {{{keywords}}};", kinds.len()));
        self.line(format_args!("MCGEN_CONST UCHAR {name}Levels[{}] = {{{levels}}};", kinds.len()));
        self.line(format_args!("MCGEN_GLOBAL ULONG {name}EnableBits[{words}];"));
        self.line(format_args!(
            "MCGEN_GLOBAL MCGEN_TRACE_CONTEXT {symbol}_Context = {{0, 0, 0, 0, 0, 0, 0, 0, {count}, {name}EnableBits, {name}Keywords, {name}Levels}};"
        ));
        self.line(format_args!("EXTERN_C_END\n"));
        self.line(format_args!("#define {name}Handle ({symbol}_Context.RegistrationHandle)"));
        self.line(format_args!("#define EventRegister{name}() EventRegisterByGuid{name}({symbol})"));
        self.line(format_args!(
            "#define EventRegisterByGuid{name}(Guid) McGenEventRegister(&(Guid), McGenControlCallbackV2, &{symbol}_Context, &{name}Handle)"
        ));
        self.line(format_args!("#define EventUnregister{name}() McGenEventUnregister(&{name}Handle)"));
        bits
    }

    fn event(&mut self, event: &EventSchema, bit: usize, symbol: &str, provider: &str, context: &str) {
        let function = match Function::new(event) {
            Ok(function) => function,
            Err(reason) => {
                let d = &event.descriptor;
                let (provider, id, version) = (event.provider.name.clone(), d.id, d.version);
                return self.out.left_out.push(LeftOut { provider, id, version, reason });
            }
        };
        let name = function.put(self);
        let macro_name =
            symbol.strip_prefix(&*self.names.removed).filter(|rest| !rest.is_empty()).unwrap_or(symbol);
        let prefix = &self.names.prefix;
        let arguments = function.arguments.join(", ");
        let all: String = function.arguments.iter().map(|argument| format!(", ({argument})")).collect();
        let text = format!(
            "\n#define EventEnabled{symbol}() MCGEN_EVENT_BIT_SET({provider}EnableBits, {bit})\n\
             #define {prefix}{macro_name}({arguments}) (MCGEN_EVENT_ENABLED({symbol}) ? {prefix}{macro_name}_AssumeEnabled({arguments}) : ERROR_SUCCESS)\n\
             #define {prefix}{macro_name}_AssumeEnabled({arguments}) {name}(&{context}_Context, &{symbol}{all})"
        );
        self.line(format_args!("{text}"));
    }
}

/// The function that writes the events of one shape.
#[derive(Default)]
struct Function {
    /// Letters for the types, with lengths and counts.
    code: String,
    /// The declared parameters, named by number.
    parameters: Vec<String>,
    /// The names of the macro's parameters.
    arguments: Vec<String>,
    /// One for each part of the payload.
    statements: Vec<String>,
}

impl Function {
    fn new(event: &EventSchema) -> Result<Function, &'static str> {
        let mut function = Function::default();
        let mut known = HashSet::new();
        for (index, property) in event.properties.iter().take(event.top_level.into()).enumerate() {
            let mut name = identifier(&property.name);
            while !known.insert(name.clone()) {
                name.push('_');
            }
            function.item(index, property, &name).ok_or("its template has a type without a C parameter")?;
        }
        if function.statements.len() > MAX_PARTS {
            return Err("it has more than 128 items");
        }
        Ok(function)
    }

    fn item(&mut self, index: usize, property: &Property, name: &str) -> Option<()> {
        let of = |index: u16| format!("(ULONG)Arg{index}");
        let (count_code, count) = match property.count {
            Count::One => (String::new(), None),
            Count::Fixed(count) => (format!("C{count}"), Some(count.to_string())),
            Count::Property(by) => (format!("V{by}"), Some(of(by))),
            Count::Prefixed | Count::ToEnd => return None,
        };
        let (length_code, length) = match property.length {
            Length::Natural => (String::new(), None),
            Length::Fixed(length) => (format!("N{length}"), Some(length.to_string())),
            Length::Property(by) => (format!("R{by}"), Some(of(by))),
        };
        let PropertyType::Value { in_type, out_type, .. } = property.kind else {
            return self.sized(index, name, "n", "const VOID *", "EventDataDescCreate");
        };
        let total = match (&length, &count) {
            (Some(length), Some(count)) => Some(format!("({length}) * ({count})")),
            (Some(length), None) => Some(format!("({length})")),
            _ => None,
        };
        let of_length = |letter: &str| format!("{letter}{length_code}{count_code}");
        let by_pointer = |letter: &str, kind: &str| {
            (format!("{letter}{count_code}"), format!("const {kind} *"), kind.to_owned())
        };
        match in_type {
            InType::UNICODE_STRING | InType::ANSI_STRING | InType::BINARY => {
                let (letter, kind, create, terminated) = match in_type {
                    InType::UNICODE_STRING => ("z", "PCWSTR ", "McGenWideUnits", Some("McGenWideString")),
                    InType::ANSI_STRING => ("s", "PCSTR ", "EventDataDescCreate", Some("McGenAnsiString")),
                    _ => ("b", "const BYTE *", "EventDataDescCreate", None),
                };
                match (total, terminated) {
                    (Some(total), _) => self.one(
                        index,
                        name,
                        &of_length(letter),
                        kind,
                        &format!("{create}({{}}, Arg{index}, {total})"),
                    ),
                    (None, Some(create)) if count.is_none() => {
                        self.one(index, name, letter, kind, &format!("{create}({{}}, Arg{index})"))
                    }
                    (None, None) if out_type == OutType::IPV6 && count.is_none() => {
                        self.one(index, name, "b16", kind, &format!("{create}({{}}, Arg{index}, 16)"))
                    }
                    _ => self.sized(index, name, letter, kind, create),
                }
            }
            InType::COUNTED_UNICODE_STRING if count.is_none() => {
                self.sized(index, name, "w", "PCWCH ", "McGenCountedWide")
            }
            InType::COUNTED_ANSI_STRING if count.is_none() => {
                self.sized(index, name, "a", "PCCH ", "McGenCounted")
            }
            InType::COUNTED_BINARY if count.is_none() => {
                self.sized(index, name, "v", "const BYTE *", "McGenCounted")
            }
            InType::COUNTED_UNICODE_STRING => self.sized(index, name, "wA", "const UINT16 *", "McGenUnits16"),
            InType::COUNTED_ANSI_STRING | InType::COUNTED_BINARY | InType::BINARY_TO_END => {
                self.sized(index, name, "n", "const VOID *", "EventDataDescCreate")
            }
            InType::SID if count.is_some() => {
                self.sized(index, name, "n", "const VOID *", "EventDataDescCreate")
            }
            InType::SID => self.one(
                index,
                name,
                "k",
                "const VOID *",
                &format!("EventDataDescCreate({{}}, Arg{index}, MCGEN_GETLENGTHSID(Arg{index}))"),
            ),
            _ => {
                let (code, pointer, kind) = match in_type {
                    InType::INT8 => by_pointer("c", "char"),
                    InType::UINT8 => by_pointer("u", "UCHAR"),
                    InType::INT16 => by_pointer("l", "SHORT"),
                    InType::UINT16 => by_pointer("h", "USHORT"),
                    InType::INT32 => by_pointer("d", "INT"),
                    InType::UINT32 | InType::HEX_INT32 => by_pointer("q", "UINT"),
                    InType::INT64 => by_pointer("i", "INT64"),
                    InType::UINT64 | InType::HEX_INT64 => by_pointer("x", "UINT64"),
                    InType::FLOAT => by_pointer("f", "float"),
                    InType::DOUBLE => by_pointer("g", "double"),
                    InType::BOOLEAN => by_pointer("t", "BOOL"),
                    InType::GUID => by_pointer("j", "GUID"),
                    InType::FILETIME => by_pointer("m", "FILETIME"),
                    InType::SYSTEMTIME => by_pointer("y", "SYSTEMTIME"),
                    InType::POINTER => (
                        format!("p{count_code}"),
                        "const VOID *const *".to_owned(),
                        "const VOID *".to_owned(),
                    ),
                    _ => return None,
                };
                let is_structure = matches!(in_type, InType::GUID | InType::FILETIME | InType::SYSTEMTIME);
                match count {
                    Some(count) => self.one(
                        index,
                        name,
                        &code,
                        &pointer,
                        &format!("EventDataDescCreate({{}}, Arg{index}, ({count}) * (ULONG)sizeof({kind}))"),
                    ),
                    None if is_structure => self.one(
                        index,
                        name,
                        &code,
                        &pointer,
                        &format!("EventDataDescCreate({{}}, Arg{index}, (ULONG)sizeof({kind}))"),
                    ),
                    None => self.one(
                        index,
                        name,
                        &code,
                        &format!("{kind} "),
                        &format!("EventDataDescCreate({{}}, &Arg{index}, (ULONG)sizeof({kind}))"),
                    ),
                }
            }
        }
    }

    /// Adds an item with one parameter. `{}` in the statement stands for the address of its descriptor.
    fn one(&mut self, index: usize, name: &str, code: &str, kind: &str, statement: &str) -> Option<()> {
        self.code += code;
        self.parameters.push(format!("{kind}Arg{index}"));
        self.arguments.push(name.to_owned());
        self.statements.push(statement.replace("{}", &format!("&EventData[{}]", self.statements.len())));
        Some(())
    }

    /// Adds an item whose size is a parameter before it.
    fn sized(&mut self, index: usize, name: &str, code: &str, kind: &str, create: &str) -> Option<()> {
        self.parameters.push(format!("ULONG Arg{index}Len"));
        self.arguments.push(format!("{name}_Len_"));
        // Capital, since its parameters differ from those of the item with a known size.
        let code = format!("L{code}");
        self.one(index, name, &code, kind, &format!("{create}({{}}, Arg{index}, Arg{index}Len)"))
    }

    /// Writes the function unless it was written before, and returns its name.
    fn put(&self, header: &mut Header<'_>) -> String {
        let code = if self.code.is_empty() { "_" } else { &self.code };
        let name = format!("McTemplateU0{code}");
        if header.written.insert(name.clone()) {
            let parameters: String =
                self.parameters.iter().map(|parameter| format!(", {parameter}")).collect();
            let body: String = self.statements.iter().map(|statement| format!("  {statement};\n")).collect();
            let count = self.statements.len();
            let (array, data) = match count {
                0 => (String::new(), "NULL"),
                _ => (format!("  EVENT_DATA_DESCRIPTOR EventData[{count}];\n"), "EventData"),
            };
            // Other headers in the same program may have the function too.
            let text = format!(
                "\n#ifndef {name}_def\n#define {name}_def\n\
                 ETW_INLINE ULONG {name}(PMCGEN_TRACE_CONTEXT Context, PCEVENT_DESCRIPTOR Descriptor{parameters}) {{\n\
                 {array}{body}  return McGenEventWrite(Context, Descriptor, NULL, {count}, {data});\n}}\n#endif"
            );
            header.line(format_args!("{text}"));
        }
        name
    }
}

/// Returns the symbols of a provider's events by id and version.
fn event_symbols(document: &Document, at: usize) -> HashMap<(u16, u8), String> {
    let events = document.listed(at, "events").filter(|(_, element)| element.name == "event");
    let named = events.filter_map(|(_, event)| {
        let version = event.attribute("version").and_then(number).unwrap_or(0);
        Some(((event.attribute("value").and_then(number)?, version), identifier(event.attribute("symbol")?)))
    });
    named.collect()
}

fn own_name(element: &Element, otherwise: impl FnOnce() -> String) -> String {
    element.attribute("symbol").map_or_else(otherwise, identifier)
}

/// Returns a name as an identifier of C.
fn identifier(name: &str) -> String {
    let name = name.strip_prefix("win:").unwrap_or(name);
    let mut out: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, '_');
    }
    out
}

/// Returns a text for a comment of C.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_disruptive(c) || matches!(c, '*' | '/') { ' ' } else { c }).collect()
}

fn guid(bytes: &[u8; 16]) -> String {
    let [a, b, c, d, e, f, g, h, rest @ ..] = *bytes;
    let data4: Vec<String> = rest.iter().map(|byte| format!("{byte:#04x}")).collect();
    format!(
        "{{{:#010x}, {:#06x}, {:#06x}, {{{}}}}}",
        u32::from_le_bytes([a, b, c, d]),
        u16::from_le_bytes([e, f]),
        u16::from_le_bytes([g, h]),
        data4.join(", ")
    )
}
