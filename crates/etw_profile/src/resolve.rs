//! Resolving the inheritance of profiles.
//!
//! A definition contains its differences from its base. A list replaces the inherited one, is added to it or removed
//! from it (`Operation`); the default is to replace.

use etw_event::Guid;

use crate::document::{Node, attribute, named};
use crate::file::inherited;
use crate::schema::{boolean, number};
use crate::{
    Buffers, CaptureState, Collector, CollectorKind, Definition, ErrorKind, EventFilter, EventProvider,
    FileMode, HardwareCounter, HeapProvider, Profile, ProfileError, ProfileFile, ProviderName, StackFilter,
    SystemProvider, TraceMerge,
};

/// Maximum number of keywords, names and providers of a profile. Bases could multiply them without limit.
const MAX_ITEMS: usize = 1 << 18;

impl ProfileFile<'_> {
    /// Resolves a profile of this file.
    ///
    /// # Errors
    /// Fails if the profile refers to an id that is not defined, if a definition is based on itself, if an event provider
    /// has no name, and if the profile has more than 262,144 items.
    pub fn resolve(&self, profile: &Definition) -> Result<Profile, ProfileError> {
        let mut resolver = Resolver { file: self, left: MAX_ITEMS };
        let chain = self.chain("Profile", self.document.node(profile.element))?;
        let mut collectors = Vec::new();
        for element in &chain {
            for list in named(*element, "Collectors") {
                resolver.collectors(list, &mut collectors)?;
            }
        }
        let strict = inherited(&chain, "Strict").and_then(boolean).unwrap_or(false);
        let trace_merge = resolver.trace_merge(&chain)?;
        Ok(Profile {
            id: profile.id.clone(),
            name: profile.name.clone(),
            description: profile.description.clone(),
            detail_level: profile.detail_level,
            logging_mode: profile.logging_mode,
            strict,
            collectors,
            trace_merge,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Set,
    Add,
    Remove,
}

impl Operation {
    /// Changes a list by items that are compared by `same`.
    fn apply<T>(self, list: &mut Vec<T>, items: Vec<T>, same: impl Fn(&T, &T) -> bool) {
        match self {
            Operation::Set => *list = items,
            Operation::Add => {
                for item in items {
                    if !list.iter().any(|present| same(present, &item)) {
                        list.push(item);
                    }
                }
            }
            Operation::Remove => list.retain(|present| !items.iter().any(|item| same(present, item))),
        }
    }

    /// Changes a list of words, whose case does not matter.
    fn apply_to_words(self, list: &mut Vec<String>, words: Vec<String>) {
        self.apply(list, words, |a, b| a.eq_ignore_ascii_case(b));
    }

    /// Changes a mask.
    fn apply_to_mask(self, mask: u64, bits: u64) -> u64 {
        match self {
            Operation::Set => bits,
            Operation::Add => mask | bits,
            Operation::Remove => mask & !bits,
        }
    }

    /// Changes an amount.
    fn apply_to_amount(self, amount: &mut Option<u64>, value: u64) {
        *amount = match self {
            Operation::Set => Some(value),
            Operation::Add => Some(amount.unwrap_or(0).saturating_add(value)),
            Operation::Remove => amount.map(|amount| amount.saturating_sub(value)),
        }
    }
}

struct Resolver<'f> {
    file: &'f ProfileFile<'f>,
    /// How many items may still be added.
    left: usize,
}

impl<'f> Resolver<'f> {
    /// Counts an item of the profile.
    fn take(&mut self, element: Node<'f>) -> Result<(), ProfileError> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            self.file.error(element, ErrorKind::TooLarge("a profile has at most 262144 items"))
        })?;
        Ok(())
    }

    /// The values of a list's items that have this name.
    fn values(&mut self, list: Node<'f>, name: &str) -> Result<Vec<&'f str>, ProfileError> {
        let mut values = Vec::new();
        for (item, _) in children(list).filter(|(_, child)| *child == name) {
            self.take(item)?;
            values.extend(attribute(item, "Value"));
        }
        Ok(values)
    }

    fn texts(&mut self, list: Node<'f>, name: &str) -> Result<Vec<String>, ProfileError> {
        Ok(self.values(list, name)?.into_iter().map(str::to_owned).collect())
    }

    fn numbers<T: TryFrom<u64>>(&mut self, list: Node<'f>, name: &str) -> Result<Vec<T>, ProfileError> {
        let values = self.values(list, name)?;
        Ok(values.into_iter().filter_map(|value| T::try_from(number(value)?).ok()).collect())
    }

    /// The keywords of a list as one mask.
    fn mask(&mut self, list: Node<'f>) -> Result<u64, ProfileError> {
        let masks: [Vec<u64>; 2] = [self.numbers(list, "Keyword")?, self.numbers(list, "CustomKeyword")?];
        Ok(masks.iter().flatten().fold(0, |mask, bits| mask | bits))
    }

    fn collectors(&mut self, list: Node<'f>, collectors: &mut Vec<Collector>) -> Result<(), ProfileError> {
        let operation = operation(list);
        if operation == Operation::Set {
            collectors.clear();
        }
        for (used, name) in children(list) {
            let (kind, element) = match name {
                "SystemCollectorId" => (CollectorKind::System, "SystemCollector"),
                "EventCollectorId" => (CollectorKind::Event, "EventCollector"),
                "HeapEventCollectorId" => (CollectorKind::Heap, "HeapEventCollector"),
                _ => continue,
            };
            self.take(used)?;
            let id = text(used, "Value");
            let present =
                collectors.iter().position(|collector| (collector.kind, &collector.id) == (kind, &id));
            if operation == Operation::Remove {
                present.map(|index| collectors.remove(index));
                continue;
            }
            let index = match present {
                Some(index) => index,
                None => {
                    let definition = self.file.definition(element, &id, used)?;
                    collectors.push(self.collector(kind, element, definition)?);
                    collectors.len() - 1
                }
            };
            self.use_collector(used, &mut collectors[index])?;
        }
        Ok(())
    }

    /// A collector with its defined settings.
    fn collector(
        &mut self,
        kind: CollectorKind,
        element: &'static str,
        definition: Node<'f>,
    ) -> Result<Collector, ProfileError> {
        let chain = self.file.chain(element, definition)?;
        let of_kind = match kind {
            CollectorKind::System => "NT Kernel Logger",
            CollectorKind::Event => "WPR Event Collector",
            CollectorKind::Heap => "WPR Heap Event Collector",
        };
        let is_set = |name: &&'static str| inherited(&chain, name).and_then(boolean) == Some(true);
        let attributes = ["Secure", "Private", "ProcessPrivate", "HostGuestCorrelation", "Realtime"];
        let mut collector = Collector {
            kind,
            id: text(definition, "Id"),
            name: inherited(&chain, "Name").unwrap_or(of_kind).to_owned(),
            buffer_size_kib: None,
            buffers: None,
            maximum_file_size_mib: None,
            file_mode: None,
            file_max: None,
            caches_stacks: false,
            attributes: attributes.into_iter().filter(is_set).collect(),
            system_providers: Vec::new(),
            event_providers: Vec::new(),
            heap_providers: Vec::new(),
            hardware_counters: Vec::new(),
        };
        chain.iter().for_each(|element| self.settings(*element, &mut collector));
        Ok(collector)
    }

    /// Sizes, of a collector's definition or of its use in a profile.
    fn settings(&self, parent: Node<'f>, collector: &mut Collector) {
        for (child, name) in children(parent) {
            let operation = operation(child);
            let value = number_of(child, "Value");
            match (name, value) {
                ("BufferSize", Some(value)) => {
                    operation.apply_to_amount(&mut collector.buffer_size_kib, value)
                }
                ("FileMax", Some(value)) => operation.apply_to_amount(&mut collector.file_max, value),
                ("MaximumFileSize", Some(value)) => {
                    operation.apply_to_amount(&mut collector.maximum_file_size_mib, value);
                    if let Some(mode) = attribute(child, "FileMode") {
                        let is_circular = mode.eq_ignore_ascii_case("Circular");
                        collector.file_mode =
                            Some(if is_circular { FileMode::Circular } else { FileMode::Sequential });
                    }
                }
                ("StackCaching", _) => collector.caches_stacks = true,
                ("Buffers", _) => self.buffers(child, operation, collector),
                _ => {}
            }
        }
    }

    fn buffers(&self, element: Node<'f>, operation: Operation, collector: &mut Collector) {
        let value = attribute(element, "Value").and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        if is(element, "PercentageOfTotalMemory") == Some(true) {
            let maximum_mib = number_of(element, "MaximumBufferSpace");
            collector.buffers = Some(Buffers::Memory { percent: value, maximum_mib });
            return;
        }
        let mut count = match collector.buffers {
            Some(Buffers::Count(count)) => Some(count),
            _ => None,
        };
        operation.apply_to_amount(&mut count, value as u64);
        collector.buffers = count.map(Buffers::Count);
    }

    /// Applies a profile's use of a collector.
    fn use_collector(&mut self, used: Node<'f>, collector: &mut Collector) -> Result<(), ProfileError> {
        self.settings(used, collector);
        for (child, name) in children(used) {
            match name {
                "SystemProviderId" | "SystemProvider" => {
                    let provider = self.referred("SystemProvider", child)?;
                    let provider = self.system_provider(provider)?;
                    let same = |a: &SystemProvider, b: &SystemProvider| a.id == b.id;
                    Operation::Add.apply(&mut collector.system_providers, vec![provider], same);
                }
                "HardwareCounterId" => {
                    let counter = self.referred("HardwareCounter", child)?;
                    let counter = self.hardware_counter(counter)?;
                    let same = |a: &HardwareCounter, b: &HardwareCounter| a.id == b.id;
                    Operation::Add.apply(&mut collector.hardware_counters, vec![counter], same);
                }
                "EventProviders" => {
                    let mut providers = Vec::new();
                    for (provider, _) in children(child).filter(|(_, name)| name.starts_with("EventProvider"))
                    {
                        providers.push(self.event_provider(provider)?);
                    }
                    let same = |a: &EventProvider, b: &EventProvider| a.id == b.id;
                    operation(child).apply(&mut collector.event_providers, providers, same);
                }
                "HeapEventProviders" => {
                    let mut providers = Vec::new();
                    for (provider, _) in children(child).filter(|(_, name)| name.starts_with("HeapEvent")) {
                        let provider = self.referred("HeapEventProvider", provider)?;
                        providers.push(self.heap_provider(provider)?);
                    }
                    let same = |a: &HeapProvider, b: &HeapProvider| a.id == b.id;
                    operation(child).apply(&mut collector.heap_providers, providers, same);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The definition that an element refers to by its value; without a value, the element itself.
    fn referred(&mut self, element: &'static str, at: Node<'f>) -> Result<Node<'f>, ProfileError> {
        self.take(at)?;
        match attribute(at, "Value") {
            Some(id) => self.file.definition(element, id, at),
            None => Ok(at),
        }
    }

    fn system_provider(&mut self, definition: Node<'f>) -> Result<SystemProvider, ProfileError> {
        let mut provider = SystemProvider { id: text(definition, "Id"), ..SystemProvider::default() };
        for element in self.file.chain("SystemProvider", definition)? {
            for (child, name) in children(element) {
                let operation = operation(child);
                match name {
                    "Keywords" => {
                        operation.apply_to_words(&mut provider.keywords, self.texts(child, "Keyword")?);
                        let custom = self.numbers(child, "CustomKeyword")?;
                        operation.apply(&mut provider.custom_keywords, custom, u32::eq);
                    }
                    "Stacks" => {
                        operation.apply_to_words(&mut provider.stacks, self.texts(child, "Stack")?);
                        let custom = self.numbers(child, "CustomStack")?;
                        operation.apply(&mut provider.custom_stacks, custom, u32::eq);
                    }
                    "PoolTags" => {
                        operation.apply_to_words(&mut provider.pool_tags, self.texts(child, "PoolTag")?);
                    }
                    _ => {
                        if let Some(state) = state_of(&mut provider.capture_state, name) {
                            let keywords = self.texts(child, "Keyword")?;
                            operation.apply_to_words(state.get_or_insert_default(), keywords);
                        }
                    }
                }
            }
        }
        Ok(provider)
    }

    /// A provider that is defined in place, or referred to by its id with changes.
    fn event_provider(&mut self, at: Node<'f>) -> Result<EventProvider, ProfileError> {
        let definition = self.referred("EventProvider", at)?;
        let mut chain = self.file.chain("EventProvider", definition)?;
        let said = |name: &str| inherited(&chain, name);
        let is = |name: &str| said(name).and_then(boolean).unwrap_or(false);
        let missing = ErrorKind::Missing { element: "EventProvider", attribute: "Name" };
        let name = said("Name").ok_or_else(|| self.file.error(definition, missing))?;
        let executables = said("ProcessExeFilter").unwrap_or_default().split([';', ',']).map(str::trim);
        let mut provider = EventProvider {
            id: text(definition, "Id"),
            name: provider_name(name),
            level: said("Level").and_then(number).and_then(|level| u8::try_from(level).ok()),
            keywords: 0,
            stack: is("Stack"),
            event_key: is("EventKey"),
            capture_state_only: is("CaptureStateOnly"),
            strict: is("Strict"),
            non_paged_memory: is("NonPagedMemory"),
            capture_state: CaptureState::default(),
            executables: executables.filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            filters: Vec::new(),
            stack_filters: Vec::new(),
        };
        if at != definition {
            chain.push(at);
        }
        for element in chain {
            for (child, name) in children(element) {
                self.event_provider_part(child, name, &mut provider)?;
            }
        }
        Ok(provider)
    }

    fn event_provider_part(
        &mut self,
        at: Node<'f>,
        name: &str,
        provider: &mut EventProvider,
    ) -> Result<(), ProfileError> {
        let operation = operation(at);
        let include = is(at, "FilterIn").unwrap_or(true);
        match name {
            "Keywords" => provider.keywords = operation.apply_to_mask(provider.keywords, self.mask(at)?),
            // The last filter of a kind replaces those before it.
            "EventFilters" => {
                let ids = self.numbers(at, "EventId")?;
                provider.filters.retain(|filter| !matches!(filter, EventFilter::Ids { .. }));
                provider.filters.push(EventFilter::Ids { include, ids });
            }
            "EventNameFilters" => {
                let names = self.texts(at, "EventName")?;
                provider.filters.retain(|filter| !matches!(filter, EventFilter::Names { .. }));
                provider.filters.push(EventFilter::Names { include, names });
            }
            "StackFilters" => {
                let ids = self.numbers(at, "EventId")?;
                provider.stack_filters.retain(|filter| !matches!(filter, StackFilter::Ids { .. }));
                provider.stack_filters.push(StackFilter::Ids { include, ids });
            }
            "StackEventNameFilters" => {
                let names = self.texts(at, "EventName")?;
                provider.stack_filters.retain(|filter| !matches!(filter, StackFilter::Names { .. }));
                provider.stack_filters.push(StackFilter::Names { include, names });
            }
            "StackKeywordLevelFilter" => {
                let level = number_of(at, "Level").and_then(|level| u8::try_from(level).ok()).unwrap_or(0);
                let keywords = self.mask(at)?;
                provider.stack_filters.retain(|filter| !matches!(filter, StackFilter::KeywordLevel { .. }));
                provider.stack_filters.push(StackFilter::KeywordLevel { include, level, keywords });
            }
            _ => {
                if let Some(state) = state_of(&mut provider.capture_state, name) {
                    *state = Some(operation.apply_to_mask(state.unwrap_or(0), self.mask(at)?));
                }
            }
        }
        Ok(())
    }

    fn heap_provider(&mut self, definition: Node<'f>) -> Result<HeapProvider, ProfileError> {
        let mut provider = HeapProvider { id: text(definition, "Id"), process_ids: Vec::new() };
        for element in self.file.chain("HeapEventProvider", definition)? {
            for (child, _) in children(element).filter(|(_, name)| *name == "HeapProcessIds") {
                let ids = self.numbers(child, "HeapProcessId")?;
                operation(child).apply(&mut provider.process_ids, ids, u32::eq);
            }
        }
        Ok(provider)
    }

    fn hardware_counter(&mut self, definition: Node<'f>) -> Result<HardwareCounter, ProfileError> {
        let mut counter = HardwareCounter { id: text(definition, "Id"), counters: Vec::new() };
        for element in self.file.chain("HardwareCounter", definition)? {
            for (list, name) in children(element) {
                let items = match name {
                    "Counters" => self.texts(list, "Counter")?,
                    "SampledCounters" => self.texts(list, "SampledCounter")?,
                    _ => continue,
                };
                operation(list).apply_to_words(&mut counter.counters, items);
            }
        }
        Ok(counter)
    }

    /// What is done with the recording: first as set for all profiles of the file, then as set for this one.
    fn trace_merge(&mut self, chain: &[Node<'f>]) -> Result<TraceMerge, ProfileError> {
        let mut merge = TraceMerge::default();
        let root = self.file.document.root();
        for parent in std::iter::once(&root).chain(chain) {
            let lists = named(*parent, "TraceMergeProperties");
            for property in lists.flat_map(|list| named(list, "TraceMergeProperty")) {
                for element in self.file.chain("TraceMergeProperty", property)? {
                    self.trace_merge_property(element, &mut merge)?;
                }
            }
        }
        Ok(merge)
    }

    fn trace_merge_property(
        &mut self,
        element: Node<'f>,
        merge: &mut TraceMerge,
    ) -> Result<(), ProfileError> {
        for (child, name) in children(element) {
            let is_set = is(child, "Value").unwrap_or(false);
            match name {
                "FileCompression" => merge.compresses = is_set,
                "SkipMerge" => merge.skips_merge = is_set,
                "CustomEvents" => {
                    let events = self.texts(child, "CustomEvent")?;
                    operation(child).apply_to_words(&mut merge.custom_events, events);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn text(element: Node<'_>, name: &str) -> String {
    attribute(element, name).unwrap_or_default().to_owned()
}

fn is(element: Node<'_>, name: &str) -> Option<bool> {
    attribute(element, name).and_then(boolean)
}

fn number_of(element: Node<'_>, name: &str) -> Option<u64> {
    attribute(element, name).and_then(number)
}

fn operation(element: Node<'_>) -> Operation {
    match attribute(element, "Operation").map(str::to_ascii_lowercase).as_deref() {
        Some("add") => Operation::Add,
        Some("remove") => Operation::Remove,
        _ => Operation::Set,
    }
}

/// The child elements, with their names.
fn children(parent: Node<'_>) -> impl Iterator<Item = (Node<'_>, &str)> {
    parent.children().filter(|child| child.is_element()).map(|child| (child, child.tag_name().name()))
}

fn state_of<'s, T>(state: &'s mut CaptureState<T>, name: &str) -> Option<&'s mut Option<T>> {
    match name {
        "CaptureStateOnStart" => Some(&mut state.on_start),
        "CaptureStateOnSave" => Some(&mut state.on_save),
        "CaptureStateOnDemand" => Some(&mut state.on_demand),
        _ => None,
    }
}

fn provider_name(text: &str) -> ProviderName {
    match (text.parse::<Guid>(), text.strip_prefix('*')) {
        (Ok(guid), _) => ProviderName::Guid(guid),
        (_, Some(name)) => ProviderName::Hashed(name.to_owned()),
        _ => ProviderName::Registered(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LoggingMode;

    fn resolve(profiles: &str, name: &str) -> Result<Profile, ProfileError> {
        let text = format!("<WindowsPerformanceRecorder>{profiles}</WindowsPerformanceRecorder>");
        let file = ProfileFile::parse(&text)?;
        assert_eq!(file.not_understood(), []);
        file.resolve(file.find(name, LoggingMode::File).unwrap())
    }

    const DEFINITIONS: &str = "
        <SystemCollector Id='SC' Name='NT Kernel Logger'><BufferSize Value='1024'/><Buffers Value='8'/></SystemCollector>
        <SystemCollector Id='SC64' Base='SC'><Buffers Value='64'/></SystemCollector>
        <EventCollector Id='EC' Secure='true'>
          <BufferSize Value='64'/><Buffers Value='1.5' PercentageOfTotalMemory='true' MaximumBufferSpace='32'/>
          <MaximumFileSize Value='5' FileMode='Circular'/>
        </EventCollector>
        <SystemProvider Id='SP'><Keywords Operation='Add'><Keyword Value='Loader'/></Keywords></SystemProvider>
        <SystemProvider Id='SP2' Base='SP'>
          <Keywords Operation='Add'><Keyword Value='CSwitch'/><CustomKeyword Value='0x20000200'/></Keywords>
          <Stacks><Stack Value='CSwitch'/></Stacks>
        </SystemProvider>
        <SystemProvider Id='SP3' Base='SP2'><Keywords><Keyword Value='DPC'/></Keywords></SystemProvider>
        <EventProvider Id='P' Name='*Shop' Level='0x4' Stack='true'>
          <Keywords><Keyword Value='0x1'/><Keyword Value='0x10'/></Keywords>
          <CaptureStateOnSave><Keyword Value='0x8'/></CaptureStateOnSave>
          <EventNameFilters FilterIn='true'><EventName Value='Order'/></EventNameFilters>
          <StackFilters FilterIn='false'><EventId Value='403'/></StackFilters>
        </EventProvider>
        <EventProvider Id='P2' Base='P' Name='{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}'>
          <Keywords Operation='Remove'><Keyword Value='0x10'/></Keywords>
        </EventProvider>
        <EventProvider Id='P3' Name='Microsoft-Windows-TCPIP' ProcessExeFilter='a.exe; b'/>";

    fn profiles(rest: &str) -> String {
        format!("<Profiles>{DEFINITIONS}{rest}</Profiles>")
    }

    const BASE: &str = "<Profile Id='Base.Verbose.File' Name='Base' DetailLevel='Verbose' LoggingMode='File'>
        <Collectors>
          <SystemCollectorId Value='SC64'><SystemProviderId Value='SP2'/></SystemCollectorId>
          <EventCollectorId Value='EC'><BufferSize Value='128'/>
            <EventProviders><EventProviderId Value='P'/><EventProvider Id='Q' Name='*Q'/></EventProviders>
          </EventCollectorId>
        </Collectors></Profile>";

    fn derived(collectors: &str) -> Profile {
        let text = profiles(&format!(
            "{BASE}<Profile Id='D' Base='Base.Verbose.File' Name='D' Strict='true'>{collectors}</Profile>"
        ));
        resolve(&text, "D").unwrap()
    }

    #[test]
    fn definitions_inherit() {
        let profile = resolve(&profiles(BASE), "base").unwrap();
        let [system, event] = &profile.collectors[..] else { panic!("{:?}", profile.collectors) };
        assert_eq!((&*system.name, system.buffer_size_kib), ("NT Kernel Logger", Some(1024)));
        assert_eq!(system.buffers, Some(Buffers::Count(64)));
        let [provider] = &system.system_providers[..] else { panic!("{system:?}") };
        assert_eq!(provider.keywords, ["Loader", "CSwitch"]);
        assert_eq!(
            (&provider.custom_keywords[..], &provider.stacks[..]),
            (&[0x2000_0200][..], &["CSwitch".to_owned()][..])
        );
        assert_eq!((&*event.name, event.buffer_size_kib), ("WPR Event Collector", Some(128)));
        assert_eq!(event.buffers, Some(Buffers::Memory { percent: 1.5, maximum_mib: Some(32) }));
        assert_eq!((event.maximum_file_size_mib, event.file_mode), (Some(5), Some(FileMode::Circular)));
        assert_eq!(event.attributes, ["Secure"]);
        let [p, q] = &event.event_providers[..] else { panic!("{event:?}") };
        assert_eq!((&p.name, p.level, p.keywords), (&ProviderName::Hashed("Shop".to_owned()), Some(4), 0x11));
        assert_eq!((p.capture_state.on_save, p.stack), (Some(8), true));
        assert_eq!(p.filters, [EventFilter::Names { include: true, names: vec!["Order".to_owned()] }]);
        assert_eq!(p.stack_filters, [StackFilter::Ids { include: false, ids: vec![403] }]);
        assert_eq!((&q.name, q.level, q.keywords), (&ProviderName::Hashed("Q".to_owned()), None, 0));
    }

    #[test]
    fn lists_are_set_added_to_and_removed_from() {
        let names = |profile: &Profile| {
            let system =
                profile.collectors.iter().flat_map(|c| c.system_providers.iter().map(|p| p.id.clone()));
            let event =
                profile.collectors.iter().flat_map(|c| c.event_providers.iter().map(|p| p.id.clone()));
            system.chain(event).collect::<Vec<_>>().join(" ")
        };
        let check = |collectors: &str, expected: &str| {
            assert_eq!(names(&derived(collectors)), expected, "{collectors}");
        };
        check("", "SP2 P Q");
        let event = |operation: &str| {
            format!(
                "<EventCollectorId Value='EC'><EventProviders {operation}><EventProviderId Value='P'/>
                     <EventProviderId Value='P3'/></EventProviders></EventCollectorId>"
            )
        };
        check(&format!("<Collectors>{}</Collectors>", event("")), "P P3");
        check(&format!("<Collectors Operation='Add'>{}</Collectors>", event("")), "SP2 P P3");
        check(
            &format!("<Collectors Operation='Add'>{}</Collectors>", event("Operation='Add'")),
            "SP2 P Q P3",
        );
        check(&format!("<Collectors Operation='Add'>{}</Collectors>", event("Operation='Remove'")), "SP2 Q");
        check("<Collectors Operation='Remove'><SystemCollectorId Value='SC64'/></Collectors>", "P Q");
        let system =
            "<Collectors Operation='Add'><SystemCollectorId Value='SC64'><SystemProviderId Value='SP3'/>
                      </SystemCollectorId></Collectors>";
        check(system, "SP2 SP3 P Q");
        let profile = derived(system);
        assert_eq!(profile.collectors[0].system_providers[1].keywords, ["DPC"]);
        assert!(profile.strict && profile.logging_mode == LoggingMode::File);
    }

    #[test]
    fn providers_inherit() {
        let profile = derived(
            "<Collectors><EventCollectorId Value='EC'><EventProviders><EventProviderId Value='P2'>
             <CaptureStateOnStart><Keyword Value='0x2'/></CaptureStateOnStart></EventProviderId>
             <EventProviderId Value='P3'/></EventProviders></EventCollectorId></Collectors>",
        );
        let [p2, p3] = &profile.collectors[0].event_providers[..] else { panic!("{profile:?}") };
        assert!(matches!(p2.name, ProviderName::Guid(_)));
        assert_eq!((p2.keywords, p2.level, p2.capture_state.on_start), (1, Some(4), Some(2)));
        assert_eq!(p3.name, ProviderName::Registered("Microsoft-Windows-TCPIP".to_owned()));
        assert_eq!(p3.executables, ["a.exe", "b"]);
    }

    #[test]
    fn merging_is_set_for_the_file_and_for_a_profile() {
        let file = "<TraceMergeProperties><TraceMergeProperty Id='M' Name='M'><FileCompression Value='true'/>
            <CustomEvents><CustomEvent Value='ImageId'/></CustomEvents></TraceMergeProperty></TraceMergeProperties>";
        let own =
            "<TraceMergeProperties><TraceMergeProperty Id='N' Name='N' Base='M'><SkipMerge Value='true'/>
            <CustomEvents Operation='Add'><CustomEvent Value='BuildInfo'/></CustomEvents>
            </TraceMergeProperty></TraceMergeProperties>";
        let profile =
            format!("<Profile Id='A' Name='A' DetailLevel='Light' LoggingMode='File'>{own}</Profile>");
        let profile = resolve(&format!("{}{file}", profiles(&profile)), "A").unwrap();
        let expected = TraceMerge {
            custom_events: vec!["ImageId".to_owned(), "BuildInfo".to_owned()],
            compresses: true,
            skips_merge: true,
        };
        assert_eq!(profile.trace_merge, expected);
    }

    #[test]
    fn what_cannot_be_resolved_is_named() {
        let check = |rest: &str, said: &str| {
            let profile = format!(
                "<Profile Id='A' Name='A' DetailLevel='Light' LoggingMode='File'><Collectors>{rest}</Collectors></Profile>"
            );
            let error = resolve(&profiles(&profile), "A").unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        };
        check("<SystemCollectorId Value='EC'/>", "no <SystemCollector> has the id 'EC'");
        check(
            "<SystemCollectorId Value='SC'><SystemProviderId Value='P'/></SystemCollectorId>",
            "no <SystemProvider> has the id 'P'",
        );
        check(
            "<EventCollectorId Value='EC'><EventProviders><EventProvider Id='n'/></EventProviders></EventCollectorId>",
            "<EventProvider> has no attribute Name",
        );
    }

    #[test]
    fn bases_do_not_multiply() {
        let names: String = (0..2000).map(|n| format!("<EventName Value='{n}'/>")).collect();
        let base = format!(
            "<EventProvider Id='B' Name='*B'><EventNameFilters FilterIn='true'>{names}</EventNameFilters></EventProvider>"
        );
        let derived: String = (0..1000).map(|n| format!("<EventProvider Id='{n}' Base='B'/>")).collect();
        let text = profiles(&format!(
            "{base}<Profile Id='A' Name='A' DetailLevel='Light' LoggingMode='File'><Collectors>
             <EventCollectorId Value='EC'><EventProviders>{derived}</EventProviders></EventCollectorId>
             </Collectors></Profile>"
        ));
        let error = resolve(&text, "A").unwrap_err();
        assert!(matches!(error.kind, ErrorKind::TooLarge(_)), "{error}");
    }

    #[test]
    fn published_profiles_load() {
        let Some(directory) = etw_testkit::data::data_dir() else { return };
        let directory = directory.join("wprp");
        let mut counts = (0, 0, 0);
        for folder in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            for file in std::fs::read_dir(&folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
                let bytes = std::fs::read(&file).unwrap();
                let text = crate::decode(&bytes);
                let read = ProfileFile::parse(&text).unwrap_or_else(|error| panic!("{file:?}: {error}"));
                assert!(!read.profiles().is_empty(), "{file:?}");
                counts.0 += 1;
                for definition in read.profiles() {
                    let profile = read.resolve(definition);
                    let profile =
                        profile.unwrap_or_else(|error| panic!("{file:?} {}: {error}", definition.id));
                    counts.1 += 1;
                    counts.2 += profile.collectors.iter().map(|c| c.event_providers.len()).sum::<usize>();
                }
                assert_eq!(read.not_understood(), [], "{file:?}");
            }
        }
        // Files, profiles, and providers in them.
        assert_eq!(counts, (31, 138, 2102));
    }
}
