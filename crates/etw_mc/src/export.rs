//! Export of a provider as an instrumentation manifest.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

use etw_schema::manifest::{MAX_ITEMS, default_out_type, winmeta};
use etw_schema::text::xml_text;
use etw_schema::{
    Count, Decoding, EventSchema, InType, Length, MapKind, OpcodeName, OutType, Property, PropertyType,
    Provider, ProviderInfo, TaskName,
};

/// Writes a provider as an instrumentation manifest in UTF-8, in the form that Windows' message compiler asks for. What
/// providers of Windows themselves do against its rules stays, such as reserved opcodes; [`check`](crate::check())
/// reports it. [`read`](etw_schema::manifest::read) reads it back as an equal provider, except that event names become symbols of C, unique in the
/// provider (`Opened_File`, `Start_V1`), and values without an out-type get the one of their in-type.
///
/// Parts that manifests cannot express are replaced by a comment: items of types that only classic events and
/// TraceLogging have, and the items after them in their template. Names that events use but the provider's lists lack
/// become list entries: `opcode_17`. Returns `None` for classic events and WPP, which manifests cannot describe.
pub fn write(provider: &Provider) -> Option<String> {
    if !is_describable(&provider.info) {
        return None;
    }
    Some(write_all(std::slice::from_ref(provider)))
}

/// Writes providers as one instrumentation manifest, like [`write()`]. A comment names the providers that manifests
/// cannot describe.
pub fn write_all(providers: &[Provider]) -> String {
    let mut text = concat!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
        "<instrumentationManifest xmlns=\"http://schemas.microsoft.com/win/2004/08/events\"",
        " xmlns:win=\"http://manifests.microsoft.com/win/2004/08/windows/events\"",
        " xmlns:xs=\"http://www.w3.org/2001/XMLSchema\">\n",
        " <instrumentation>\n  <events>\n",
    )
    .to_owned();
    let mut strings = String::new();
    for (number, provider) in providers.iter().enumerate() {
        let info = &provider.info;
        if !is_describable(info) {
            let name = xml_text(&info.name).replace("--", "- -");
            let _ = writeln!(text, "   <!-- {name} {}: {} -->", info.guid, info.decoding.name());
            continue;
        }
        // All providers share one string table.
        let prefix = if number == 0 { String::new() } else { format!("p{number}_") };
        let mut writer = Writer { info, out: text, strings, prefix };
        // Writing to a string cannot fail.
        let _ = writer.provider(provider);
        (text, strings) = (writer.out, writer.strings);
    }
    text.push_str("  </events>\n </instrumentation>\n");
    text.push_str(" <localization>\n  <resources culture=\"en-US\">\n   <stringTable>\n");
    text.push_str(&strings);
    text.push_str("   </stringTable>\n  </resources>\n </localization>\n</instrumentationManifest>\n");
    text
}

/// Returns whether manifests can describe such a provider's events.
fn is_describable(info: &ProviderInfo) -> bool {
    !matches!(info.decoding, Decoding::Mof | Decoding::Wpp) && info.class_of.is_none()
}

struct Writer<'a> {
    info: &'a ProviderInfo,
    out: String,
    /// The string table, filled while writing.
    strings: String,
    /// Prefix of string ids.
    prefix: String,
}

/// Entries that events need but the provider's lists lack.
#[derive(Default)]
struct Extra {
    levels: BTreeMap<u8, String>,
    opcodes: BTreeMap<u8, String>,
    channels: BTreeMap<u8, String>,
    keywords: BTreeMap<u64, String>,
}

impl Writer<'_> {
    fn provider(&mut self, provider: &Provider) -> std::fmt::Result {
        let info = self.info;
        let mut extra = Extra::default();
        let mut templates = Templates::default();
        let mut events = String::new();
        let mut symbols = HashSet::new();
        for event in &provider.events {
            let symbol = event.name.as_deref().map(|name| unique_symbol(name, event, &mut symbols));
            self.event(event, symbol.as_deref(), &mut extra, &mut templates, &mut events)?;
        }
        let (name, symbol) = (xml_text(&info.name), symbol(&info.name));
        write!(self.out, "   <provider name=\"{name}\" guid=\"{}\" symbol=\"{symbol}\"", info.guid)?;
        write!(self.out, " resourceFileName=\"{name}\" messageFileName=\"{name}\"")?;
        if let Some(control) = info.control_guid {
            write!(self.out, " controlGuid=\"{control}\"")?;
        }
        self.out.push_str(">\n");
        self.lists(&extra)?;
        self.maps()?;
        wrap(&mut self.out, "templates", &templates.text);
        wrap(&mut self.out, "events", &events);
        self.out.push_str("   </provider>\n");
        Ok(())
    }

    /// Returns a `message` attribute, after adding its text to the string table.
    fn message(&mut self, id: &str, text: Option<&str>) -> Result<String, std::fmt::Error> {
        let Some(text) = text else { return Ok(String::new()) };
        let id = format!("{}{}", self.prefix, xml_text(id));
        writeln!(self.strings, "    <string id=\"{id}\" value=\"{}\"/>", xml_text(text))?;
        Ok(format!(" message=\"$(string.{id})\""))
    }

    fn lists(&mut self, extra: &Extra) -> std::fmt::Result {
        let info = self.info;
        let mut list = String::new();
        for (index, channel) in info.channels.iter().enumerate() {
            let message = self.message(&format!("channel_{index}"), channel.message.as_deref())?;
            let (name, value) = (xml_text(&channel.name), channel.value);
            if winmeta::channel(&channel.name) == Some(value) {
                writeln!(list, "     <importChannel chid=\"{name}\" name=\"{name}\"{message}/>")?;
            } else {
                let kind = if channel.name.ends_with("Operational") { "Operational" } else { "Analytic" };
                write!(
                    list,
                    "     <channel chid=\"{name}\" name=\"{name}\" type=\"{kind}\" value=\"{value}\""
                )?;
                writeln!(list, "{message}/>")?;
            }
        }
        for (value, name) in &extra.channels {
            let name = xml_text(name);
            writeln!(
                list,
                "     <channel chid=\"{name}\" name=\"{name}\" type=\"Analytic\" value=\"{value}\"/>"
            )?;
        }
        wrap(&mut self.out, "channels", &list);
        list.clear();
        for (index, level) in info.levels.iter().enumerate() {
            let message = self.message(&format!("level_{index}"), level.message.as_deref())?;
            writeln!(
                list,
                "     <level name=\"{}\" value=\"{}\"{message}/>",
                xml_text(&level.name),
                level.value
            )?;
        }
        for (value, name) in &extra.levels {
            writeln!(list, "     <level name=\"{}\" value=\"{value}\"/>", xml_text(name))?;
        }
        wrap(&mut self.out, "levels", &list);
        list.clear();
        for (index, task) in info.tasks.iter().enumerate() {
            let message = self.message(&format!("task_{index}"), task.message.as_deref())?;
            write!(list, "     <task name=\"{}\" value=\"{}\"{message}", xml_text(&task.name), task.value)?;
            if let Some(guid) = task.event_guid {
                write!(list, " eventGUID=\"{guid}\"")?;
            }
            // If a task is listed twice, its opcodes are written under the first.
            let first = info.tasks.iter().position(|other| other.value == task.value) == Some(index);
            let opcodes = if first { self.opcodes(Some(task.value))? } else { String::new() };
            if opcodes.is_empty() {
                list.push_str("/>\n");
            } else {
                write!(list, ">\n      <opcodes>\n{opcodes}      </opcodes>\n     </task>\n")?;
            }
        }
        wrap(&mut self.out, "tasks", &list);
        list = self.opcodes(None)?;
        for (value, name) in &extra.opcodes {
            writeln!(list, "     <opcode name=\"{}\" value=\"{value}\"/>", xml_text(name))?;
        }
        wrap(&mut self.out, "opcodes", &list);
        list.clear();
        for (index, keyword) in info.keywords.iter().enumerate() {
            let message = self.message(&format!("keyword_{index}"), keyword.message.as_deref())?;
            writeln!(
                list,
                "     <keyword name=\"{}\" mask=\"{:#x}\"{message}/>",
                xml_text(&keyword.name),
                keyword.mask
            )?;
        }
        for (mask, name) in &extra.keywords {
            writeln!(list, "     <keyword name=\"{}\" mask=\"{mask:#x}\"/>", xml_text(name))?;
        }
        wrap(&mut self.out, "keywords", &list);
        Ok(())
    }

    fn opcodes(&mut self, task: Option<u16>) -> Result<String, std::fmt::Error> {
        let mut list = String::new();
        let listed = |task: u16| self.info.tasks.iter().any(|other| other.value == task);
        for (index, opcode) in self.info.opcodes.iter().enumerate() {
            // Opcodes of an unlisted task are written outside of tasks.
            if opcode.task.filter(|task| listed(*task)) == task {
                let message = self.message(&format!("opcode_{index}"), opcode.message.as_deref())?;
                writeln!(
                    list,
                    "     <opcode name=\"{}\" value=\"{}\"{message}/>",
                    xml_text(&opcode.name),
                    opcode.value
                )?;
            }
        }
        Ok(list)
    }

    fn maps(&mut self) -> std::fmt::Result {
        let mut list = String::new();
        for (index, map) in self.info.maps.iter().enumerate() {
            let element = match map.kind {
                MapKind::Value => "valueMap",
                MapKind::Bits | MapKind::BitPositions => "bitMap",
            };
            writeln!(list, "     <{element} name=\"{}\">", xml_text(&map.name))?;
            for (entry_index, entry) in map.entries.iter().enumerate() {
                let value = match map.kind {
                    MapKind::BitPositions => {
                        u32::try_from(entry.value).ok().and_then(|bit| 1u64.checked_shl(bit))
                    }
                    MapKind::Value | MapKind::Bits => Some(entry.value),
                };
                let Some(value) = value else { continue };
                let message = self.message(&format!("map_{index}_{entry_index}"), Some(&entry.text))?;
                writeln!(list, "      <map value=\"{value:#x}\"{message}/>")?;
            }
            writeln!(list, "     </{element}>")?;
        }
        wrap(&mut self.out, "maps", &list);
        Ok(())
    }

    fn event(
        &mut self,
        event: &EventSchema,
        symbol: Option<&str>,
        extra: &mut Extra,
        templates: &mut Templates,
        out: &mut String,
    ) -> std::fmt::Result {
        let info = self.info;
        let descriptor = &event.descriptor;
        write!(out, "     <event value=\"{}\" version=\"{}\"", descriptor.id, descriptor.version)?;
        if let Some(symbol) = symbol {
            write!(out, " symbol=\"{symbol}\"")?;
        }
        let level = descriptor.level.0;
        if level != 0 || event.level_name.is_some() {
            let shown = event.level_name.as_deref();
            let is_it = |name: &str| shown == Some(winmeta::shown_level(level, name));
            let listed =
                info.levels.iter().find(|known| known.value == u16::from(level) && is_it(&known.name));
            let standard = || winmeta::written_level(level, shown.unwrap_or(level_text(level)));
            let name = match listed.map(|known| &*known.name).or_else(standard) {
                Some(name) => name.to_owned(),
                None => extra.levels.entry(level).or_insert_with(|| named("level", level, shown)).clone(),
            };
            write!(out, " level=\"{}\"", xml_text(&name))?;
        }
        if descriptor.task != 0 || event.task_name.is_some() {
            let same = |known: &&TaskName| {
                known.value == descriptor.task && Some(&known.name) == event.task_name.as_ref()
            };
            match info.tasks.iter().find(same) {
                Some(task) => write!(out, " task=\"{}\"", xml_text(&task.name))?,
                None => write!(out, " task=\"task_{}\"", descriptor.task)?,
            }
        }
        let opcode = descriptor.opcode.0;
        if opcode != 0 || event.opcode_name.is_some() {
            let shown = event.opcode_name.as_deref();
            let same = |known: &&OpcodeName| {
                known.value == opcode
                    && known.task.is_none_or(|task| task == descriptor.task)
                    && shown == Some(winmeta::shown_opcode(opcode, &known.name))
            };
            let text = shown.or(etw_event::Opcode(opcode).standard_name()).unwrap_or_default();
            let standard = || winmeta::written_opcode(opcode, text);
            let name = match info.opcodes.iter().find(same).map(|known| &*known.name).or_else(standard) {
                Some(name) => name.to_owned(),
                None => extra.opcodes.entry(opcode).or_insert_with(|| named("opcode", opcode, shown)).clone(),
            };
            write!(out, " opcode=\"{}\"", xml_text(&name))?;
        }
        let mut rest = descriptor.keyword.0;
        if descriptor.channel != 0 || event.channel_name.is_some() {
            let known = info.channels.iter().position(|known| known.value == descriptor.channel);
            let name = match known.and_then(|place| info.channels.get(place)) {
                Some(channel) => channel.name.to_string(),
                None => {
                    let shown = event.channel_name.as_deref();
                    let name = || named("channel", descriptor.channel, shown);
                    extra.channels.entry(descriptor.channel).or_insert_with(name).clone()
                }
            };
            let place = known.and_then(|place| u32::try_from(place).ok());
            rest &= !place.and_then(|place| (1u64 << 63).checked_shr(place)).unwrap_or(0);
            write!(out, " channel=\"{}\"", xml_text(&name))?;
        }
        let mut keywords = String::new();
        for name in &event.keyword_names {
            let listed = info.keywords.iter().find(|known| known.name == *name).map(|known| known.mask);
            if let Some(mask) = listed.or_else(|| winmeta::keyword(name)) {
                rest &= !mask;
                keywords.push_str(name);
                keywords.push(' ');
            }
        }
        if rest != 0 {
            let name = extra.keywords.entry(rest).or_insert_with(|| format!("keyword_{rest:X}"));
            keywords.push_str(name);
        }
        if !keywords.is_empty() {
            write!(out, " keywords=\"{}\"", xml_text(keywords.trim_end()))?;
        }
        if !event.properties.is_empty() || event.user_data {
            write!(out, " template=\"{}\"", templates.name(event)?)?;
        }
        let id = format!("event_{}_{}", descriptor.id, descriptor.version);
        let message = self.message(&id, event.message.as_deref())?;
        writeln!(out, "{message}/>")
    }
}

/// The templates written so far; events with equal properties share one.
#[derive(Default)]
struct Templates {
    text: String,
    known: HashMap<String, String>,
}

impl Templates {
    fn name(&mut self, event: &EventSchema) -> Result<String, std::fmt::Error> {
        let mut body = String::new();
        let top_level = event.properties.get(..usize::from(event.top_level)).unwrap_or(&event.properties);
        items(&mut body, event, top_level, 0, &mut { MAX_ITEMS })?;
        if event.user_data {
            body.push_str("      <UserData>\n       <EventXML>\n");
            for (index, property) in top_level.iter().enumerate() {
                let name = symbol(&property.name);
                writeln!(body, "        <{name}>%{}</{name}>", index + 1)?;
            }
            body.push_str("       </EventXML>\n      </UserData>\n");
        }
        if let Some(known) = self.known.get(&body) {
            return Ok(known.clone());
        }
        let name = format!("template_{}", self.known.len());
        write!(self.text, "     <template tid=\"{name}\">\n{body}     </template>\n")?;
        self.known.insert(body, name.clone());
        Ok(name)
    }
}

/// Writes items up to the first that a manifest cannot express. `left` is the number of items the template may still
/// have.
fn items(
    out: &mut String,
    event: &EventSchema,
    list: &[Property],
    depth: usize,
    left: &mut usize,
) -> std::fmt::Result {
    // Structs from other sources may contain themselves and share members.
    const MAX_DEPTH: usize = 8;
    for property in list {
        match left.checked_sub(1) {
            Some(less) => *left = less,
            None => return out.write_str("      <!-- more items than a template can have -->\n"),
        }
        let name =
            |index: u16| event.properties.get(usize::from(index)).map(|property| xml_text(&property.name));
        let length = match property.length {
            Length::Natural => Some(String::new()),
            Length::Fixed(length) => Some(format!(" length=\"{length}\"")),
            Length::Property(index) => name(index).map(|name| format!(" length=\"{name}\"")),
        };
        let count = match property.count {
            Count::One => Some(String::new()),
            Count::Fixed(count) => Some(format!(" count=\"{count}\"")),
            Count::Property(index) => name(index).map(|name| format!(" count=\"{name}\"")),
            Count::Prefixed | Count::ToEnd => None,
        };
        let own = xml_text(&property.name);
        let (Some(length), Some(count)) = (length, count) else {
            return writeln!(
                out,
                "      <!-- {}: manifests cannot express the length or count -->",
                symbol(&property.name)
            );
        };
        match &property.kind {
            PropertyType::Value { in_type, out_type, map } => {
                if *in_type == InType::BINARY_TO_END {
                    writeln!(out, "      <binary name=\"{own}\"{count}/>")?;
                    continue;
                }
                let Some(in_name) = type_name(*in_type) else {
                    return writeln!(
                        out,
                        "      <!-- {}: manifests do not have this type -->",
                        symbol(&property.name)
                    );
                };
                write!(out, "      <data name=\"{own}\" inType=\"{in_name}\"")?;
                if *out_type != default_out_type(*in_type) && *out_type != OutType::NULL {
                    match out_type.name().filter(|_| out_type.0 <= 38) {
                        Some(name) => write!(out, " outType=\"{name}\"")?,
                        None => write!(out, " outType=\"win:{}\"", out_type.0)?,
                    }
                }
                if let Some(map) = map {
                    write!(out, " map=\"{}\"", xml_text(&map.name))?;
                }
                writeln!(out, "{length}{count}/>")?;
            }
            PropertyType::Struct { first, members } => {
                let start = usize::from(*first);
                let list = event.properties.get(start..start + usize::from(*members)).unwrap_or_default();
                writeln!(out, "      <struct name=\"{own}\"{count}>")?;
                if depth < MAX_DEPTH {
                    items(out, event, list, depth + 1, left)?;
                }
                out.push_str("      </struct>\n");
            }
        }
    }
    Ok(())
}

/// Returns a type's name in manifests. Windows exports types without a name by number.
fn type_name(in_type: InType) -> Option<String> {
    match (in_type.0, in_type.name()) {
        (0 | 24 | 256.., _) => None,
        (_, Some(name)) => Some(format!("win:{name}")),
        (number, None) => Some(format!("win:{number}")),
    }
}

fn level_text(level: u8) -> &'static str {
    etw_event::Level(level).standard_name().unwrap_or_default()
}

fn named(list: &str, value: u8, name: Option<&str>) -> String {
    name.map_or_else(|| format!("{list}_{value}"), str::to_owned)
}

fn wrap(out: &mut String, list: &str, content: &str) {
    if !content.is_empty() {
        for part in ["    <", list, ">\n", content, "    </", list, ">\n"] {
            out.push_str(part);
        }
    }
}

/// Converts a name to an identifier valid in C and XML.
fn symbol(name: &str) -> String {
    let mut symbol: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if !symbol.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        symbol.insert(0, '_');
    }
    symbol
}

/// Returns an event's symbol, which no earlier event of the provider has.
fn unique_symbol(name: &str, event: &EventSchema, known: &mut HashSet<String>) -> String {
    let first = symbol(name);
    let by_version = || format!("{first}_V{}", event.descriptor.version);
    let by_id = || format!("{first}_{}_V{}", event.descriptor.id, event.descriptor.version);
    let candidates = [first.clone(), by_version(), by_id()];
    let numbered = (2..).map(|number| format!("{}_{number}", by_id()));
    // The numbers do not end, so there is one.
    let unique = candidates.into_iter().chain(numbered).find(|symbol| !known.contains(symbol));
    let unique = unique.unwrap_or_default();
    known.insert(unique.clone());
    unique
}

#[cfg(test)]
mod tests {
    use etw_schema::manifest::read;

    use super::*;

    #[test]
    fn what_manifests_cannot_say_is_left_out() {
        let text = "<provider name='P' guid='{67883bbc-d592-4d02-8e29-66907fcb07d6}'><events><event value='1'/></events>\
                    </provider>";
        let mut provider = read(text.as_bytes(), "test").providers.remove(0);
        let mut event = (*provider.events[0]).clone();
        event.properties = vec![
            Property::scalar("a", InType::UINT8, OutType::NULL),
            Property::scalar("b", InType::WBEM_SID, OutType::NULL),
            Property::scalar("c", InType::UINT8, OutType::NULL),
        ];
        event.top_level = 3;
        provider.events = vec![std::sync::Arc::new(event)];
        let text = write(&provider).unwrap();
        assert!(text.contains("<!-- b: "), "{text}");
        assert_eq!(read(text.as_bytes(), "test").providers[0].events[0].properties.len(), 1);
    }
}
