//! Writing profiles without bases.

use std::fmt::Write;

use crate::{
    Buffers, CaptureState, Collector, CollectorKind, EventFilter, EventProvider, FileMode, HardwareCounter,
    HeapProvider, Profile, ProviderName, StackFilter, SystemProvider, TraceMerge,
};

/// Writes profiles as the text of a file (`.wprp`) that resolves to the same profiles.
///
/// Shared definitions are written once. Different definitions with the same id get different ids.
pub fn write(profiles: &[Profile]) -> String {
    let mut out = Definitions::default();
    let profiles: Vec<String> = profiles.iter().map(|profile| out.profile(profile)).collect();
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<WindowsPerformanceRecorder Version=\"1.0\">\n  <Profiles>\n",
    );
    // The schema requires this order.
    for element in [
        "SystemCollector",
        "EventCollector",
        "HeapEventCollector",
        "HardwareCounter",
        "SystemProvider",
        "EventProvider",
        "HeapEventProvider",
    ] {
        for definition in out.all.iter().filter(|definition| definition.element == element) {
            let _ = writeln!(text, "    <{element} Id=\"{}\"{}", escaped(&definition.id), definition.rest);
        }
    }
    profiles.iter().for_each(|profile| text.push_str(profile));
    text.push_str("  </Profiles>\n</WindowsPerformanceRecorder>\n");
    text
}

#[derive(Default)]
struct Definitions {
    all: Vec<Definition>,
}

struct Definition {
    element: &'static str,
    id: String,
    /// The text after the id.
    rest: String,
}

impl Definitions {
    /// Adds a definition unless it is present. Returns its id.
    fn define(&mut self, element: &'static str, id: &str, rest: String) -> String {
        let of_id = |all: &[Definition], id: &str| {
            all.iter().position(|definition| (definition.element, &*definition.id) == (element, id))
        };
        let mut free = id.to_owned();
        let mut number = 2;
        while let Some(index) = of_id(&self.all, &free) {
            if self.all[index].rest == rest {
                return free;
            }
            free = format!("{id}_{number}");
            number += 1;
        }
        self.all.push(Definition { element, id: free.clone(), rest });
        free
    }

    fn profile(&mut self, profile: &Profile) -> String {
        let collectors: String =
            profile.collectors.iter().map(|collector| self.collector(collector)).collect();
        let strict = if profile.strict { " Strict=\"true\"" } else { "" };
        format!(
            "    <Profile Id=\"{}\" Name=\"{}\" Description=\"{}\" LoggingMode=\"{}\" DetailLevel=\"{}\"{strict}>\n      \
             <Collectors>\n{collectors}      </Collectors>\n{}    </Profile>\n",
            escaped(&profile.id),
            escaped(&profile.name),
            escaped(&profile.description),
            profile.logging_mode.name(),
            profile.detail_level.name(),
            trace_merge(&profile.trace_merge),
        )
    }

    /// Adds the definition of a collector. Returns the element that refers to it.
    fn collector(&mut self, collector: &Collector) -> String {
        let (definition, used) = match collector.kind {
            CollectorKind::System => ("SystemCollector", "SystemCollectorId"),
            CollectorKind::Event => ("EventCollector", "EventCollectorId"),
            CollectorKind::Heap => ("HeapEventCollector", "HeapEventCollectorId"),
        };
        let id = self.define(definition, &collector.id, settings(collector, definition));
        let mut text = format!("        <{used} Value=\"{}\">\n", escaped(&id));
        for provider in &collector.system_providers {
            let id = self.define("SystemProvider", &provider.id, system_provider(provider));
            let _ = writeln!(text, "          <SystemProviderId Value=\"{}\"/>", escaped(&id));
        }
        for counter in &collector.hardware_counters {
            let id = self.define("HardwareCounter", &counter.id, hardware_counter(counter));
            let _ = writeln!(text, "          <HardwareCounterId Value=\"{}\"/>", escaped(&id));
        }
        let providers = collector.event_providers.iter();
        let ids =
            providers.map(|p| self.define("EventProvider", &p.id, event_provider(p))).collect::<Vec<_>>();
        text.push_str(&used_providers("EventProvider", &ids));
        let providers = collector.heap_providers.iter();
        let ids =
            providers.map(|p| self.define("HeapEventProvider", &p.id, heap_provider(p))).collect::<Vec<_>>();
        text.push_str(&used_providers("HeapEventProvider", &ids));
        let _ = writeln!(text, "        </{used}>");
        text
    }
}

fn used_providers(element: &str, ids: &[String]) -> String {
    if ids.is_empty() {
        return String::new();
    }
    let used = |id: &String| format!("            <{element}Id Value=\"{}\"/>\n", escaped(id));
    let ids: String = ids.iter().map(used).collect();
    format!("          <{element}s>\n{ids}          </{element}s>\n")
}

fn settings(collector: &Collector, element: &str) -> String {
    let mut text = format!(" Name=\"{}\"", escaped(&collector.name));
    for attribute in &collector.attributes {
        let _ = write!(text, " {attribute}=\"true\"");
    }
    text.push_str(">\n");
    let mut put = |name: &str, rest: String| {
        let _ = writeln!(text, "      <{name} {rest}/>");
    };
    if let Some(kib) = collector.buffer_size_kib {
        put("BufferSize", format!("Value=\"{kib}\""));
    }
    match collector.buffers {
        Some(Buffers::Count(count)) => put("Buffers", format!("Value=\"{count}\"")),
        Some(Buffers::Memory { percent, maximum_mib }) => {
            let maximum = maximum_mib.map(|mib| format!(" MaximumBufferSpace=\"{mib}\"")).unwrap_or_default();
            put("Buffers", format!("Value=\"{percent}\" PercentageOfTotalMemory=\"true\"{maximum}"));
        }
        None => {}
    }
    if collector.caches_stacks {
        put("StackCaching", "BucketCount=\"256\" CacheSize=\"3072\"".to_owned());
    }
    if let Some(mib) = collector.maximum_file_size_mib {
        let mode = match collector.file_mode {
            Some(FileMode::Circular) => " FileMode=\"Circular\"",
            Some(FileMode::Sequential) => " FileMode=\"Sequential\"",
            None => "",
        };
        put("MaximumFileSize", format!("Value=\"{mib}\"{mode}"));
    }
    if let Some(count) = collector.file_max {
        put("FileMax", format!("Value=\"{count}\""));
    }
    let _ = write!(text, "    </{element}>");
    text
}

/// An element with a list of values.
fn list<T: ToString>(name: &str, attributes: &str, item: &str, values: &[T]) -> String {
    let items =
        values.iter().map(|value| format!("        <{item} Value=\"{}\"/>\n", escaped(&value.to_string())));
    let items: String = items.collect();
    format!("      <{name}{attributes}>\n{items}      </{name}>\n")
}

fn unless_empty<T: ToString>(name: &str, item: &str, values: &[T]) -> String {
    if values.is_empty() { String::new() } else { list(name, "", item, values) }
}

/// An element with a list of names and a list of masks; empty if both are.
fn names_and_masks(name: &str, item: &str, names: &[String], custom: &str, masks: &[u32]) -> String {
    if names.is_empty() && masks.is_empty() {
        return String::new();
    }
    let names: String =
        names.iter().map(|name| format!("        <{item} Value=\"{}\"/>\n", escaped(name))).collect();
    let masks: String =
        masks.iter().map(|mask| format!("        <{custom} Value=\"{mask:#x}\"/>\n")).collect();
    format!("      <{name}>\n{names}{masks}      </{name}>\n")
}

fn system_provider(provider: &SystemProvider) -> String {
    let mut text = String::from(">\n");
    text += &names_and_masks(
        "Keywords",
        "Keyword",
        &provider.keywords,
        "CustomKeyword",
        &provider.custom_keywords,
    );
    text += &names_and_masks("Stacks", "Stack", &provider.stacks, "CustomStack", &provider.custom_stacks);
    text += &unless_empty("PoolTags", "PoolTag", &provider.pool_tags);
    text += &capture_state(&provider.capture_state, |name, keywords| list(name, "", "Keyword", keywords));
    text + "    </SystemProvider>"
}

fn capture_state<T>(state: &CaptureState<T>, put: impl Fn(&str, &T) -> String) -> String {
    let states = [
        ("CaptureStateOnStart", &state.on_start),
        ("CaptureStateOnSave", &state.on_save),
        ("CaptureStateOnDemand", &state.on_demand),
    ];
    states.iter().filter_map(|(name, state)| Some(put(name, state.as_ref()?))).collect()
}

fn event_provider(provider: &EventProvider) -> String {
    let name = match &provider.name {
        ProviderName::Guid(guid) => guid.to_string().trim_matches(['{', '}']).to_owned(),
        ProviderName::Registered(name) => name.clone(),
        ProviderName::Hashed(name) => format!("*{name}"),
    };
    let mut text = format!(" Name=\"{}\"", escaped(&name));
    if let Some(level) = provider.level {
        let _ = write!(text, " Level=\"{level}\"");
    }
    for (is_set, attribute) in [
        (provider.stack, "Stack"),
        (provider.event_key, "EventKey"),
        (provider.capture_state_only, "CaptureStateOnly"),
        (provider.strict, "Strict"),
        (provider.non_paged_memory, "NonPagedMemory"),
    ] {
        if is_set {
            let _ = write!(text, " {attribute}=\"true\"");
        }
    }
    if !provider.executables.is_empty() {
        let _ = write!(text, " ProcessExeFilter=\"{}\"", escaped(&provider.executables.join(";")));
    }
    text.push_str(">\n");
    let mask = |name: &str, attributes: &str, keywords: u64| {
        list(name, attributes, "Keyword", &[format!("{keywords:#x}")])
    };
    if provider.keywords != 0 {
        text += &mask("Keywords", "", provider.keywords);
    }
    text += &capture_state(&provider.capture_state, |name, keywords| mask(name, "", *keywords));
    let filter_in = |include: &bool| format!(" FilterIn=\"{include}\"");
    for filter in &provider.filters {
        text += &match filter {
            EventFilter::Ids { include, ids } => list("EventFilters", &filter_in(include), "EventId", ids),
            EventFilter::Names { include, names } => {
                list("EventNameFilters", &filter_in(include), "EventName", names)
            }
        };
    }
    for filter in &provider.stack_filters {
        text += &match filter {
            StackFilter::Ids { include, ids } => list("StackFilters", &filter_in(include), "EventId", ids),
            StackFilter::Names { include, names } => {
                list("StackEventNameFilters", &filter_in(include), "EventName", names)
            }
            StackFilter::KeywordLevel { include, level, keywords } => {
                let attributes = format!("{} Level=\"{level}\"", filter_in(include));
                mask("StackKeywordLevelFilter", &attributes, *keywords)
            }
        };
    }
    text + "    </EventProvider>"
}

fn heap_provider(provider: &HeapProvider) -> String {
    format!(
        ">\n{}    </HeapEventProvider>",
        unless_empty("HeapProcessIds", "HeapProcessId", &provider.process_ids)
    )
}

fn hardware_counter(counter: &HardwareCounter) -> String {
    format!(">\n{}    </HardwareCounter>", unless_empty("Counters", "Counter", &counter.counters))
}

fn trace_merge(merge: &TraceMerge) -> String {
    if *merge == TraceMerge::default() {
        return String::new();
    }
    let flag = |is_set: bool, name: &str| match is_set {
        true => format!("      <{name} Value=\"true\"/>\n"),
        false => String::new(),
    };
    format!(
        "      <TraceMergeProperties>\n      <TraceMergeProperty Id=\"TraceMerge_Default\" \
         Name=\"TraceMerge_Default\">\n{}{}{}      </TraceMergeProperty>\n      </TraceMergeProperties>\n",
        flag(merge.compresses, "FileCompression"),
        flag(merge.skips_merge, "SkipMerge"),
        unless_empty("CustomEvents", "CustomEvent", &merge.custom_events),
    )
}

/// Escapes the value of an attribute.
fn escaped(text: &str) -> String {
    quick_xml::escape::escape(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProfileFile;

    fn round_trip(bytes: &[u8], what: &str) {
        let text = crate::decode(bytes);
        let file = ProfileFile::parse(&text).unwrap();
        for definition in file.profiles() {
            let Ok(profile) = file.resolve(definition) else { continue };
            let text = write(std::slice::from_ref(&profile));
            let written = ProfileFile::parse(&text).unwrap_or_else(|error| panic!("{what}: {error}\n{text}"));
            assert_eq!(written.not_understood(), [], "{what}");
            let again = written.resolve(&written.profiles()[0]).unwrap();
            assert_eq!(again, profile, "{what} {}\n{text}", definition.id);
        }
    }

    #[test]
    fn written_profiles_resolve_to_the_same() {
        round_trip(include_bytes!("../../etw_fuzz/src/seeds/profile.wprp"), "seed");
        let Some(directory) = etw_testkit::data::data_dir() else { return };
        for folder in std::fs::read_dir(directory.join("wprp")).unwrap().map(|entry| entry.unwrap().path()) {
            for file in std::fs::read_dir(&folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
                round_trip(&std::fs::read(&file).unwrap(), &file.display().to_string());
            }
        }
    }

    #[test]
    fn different_definitions_get_different_ids() {
        let text = |kib: u32| {
            format!(
                "<WindowsPerformanceRecorder><Profiles><EventCollector Id='C'><BufferSize Value='{kib}'/></EventCollector>\
                 <EventProvider Id='P' Name='a &lt; b'/><Profile Id='A{kib}' Name='A' DetailLevel='Light' \
                 LoggingMode='File'><Collectors><EventCollectorId Value='C'><EventProviders><EventProviderId \
                 Value='P'/></EventProviders></EventCollectorId></Collectors></Profile></Profiles></WindowsPerformanceRecorder>"
            )
        };
        let resolved = |kib| {
            let text = text(kib);
            let file = ProfileFile::parse(&text).unwrap();
            file.resolve(&file.profiles()[0]).unwrap()
        };
        let written = write(&[resolved(64), resolved(128)]);
        let file = ProfileFile::parse(&written).unwrap();
        let both: Vec<_> = file.profiles().iter().map(|profile| file.resolve(profile).unwrap()).collect();
        let sizes: Vec<_> = both.iter().map(|profile| profile.collectors[0].buffer_size_kib).collect();
        assert_eq!(sizes, [Some(64), Some(128)]);
        assert_eq!(both[0].collectors[0].event_providers, both[1].collectors[0].event_providers);
        assert_eq!(written.matches("<EventProvider ").count(), 1, "{written}");
    }
}
