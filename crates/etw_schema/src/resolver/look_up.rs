//! Searches the sources for a record's schema, in the order given by the kind of its header.

use std::sync::{Arc, LazyLock};

use etw_event::{EventDescriptor, HookId, MessageFlags, Record};

use super::cache::{Key, KeyKind, Outcome};
use super::carried::Carried;
use super::key::{PARTITION_INFO, partition_info_version};
use super::{Resolver, Undecoded};
use crate::event_source::is_manifest_chunk;
use crate::tracelogging::{self, ProviderTraits};
use crate::{
    CompiledSchema, Decoding, EventNames, EventSchema, Found, InType, Names, OutType, Property, Provider,
    ProviderInfo,
};

/// What the names of the .NET runtimes' providers start with. A new version of one of their events appends fields to the
/// one before. Source: the comments of the runtime's manifest, ClrEtwAll.man.
const DOTNET_RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";

/// Returns the latest known version of an event before the wanted one, whose fields are the first ones of that.
fn with_prefix(providers: &[Arc<Provider>], id: u16, version: u8) -> Option<EventSchema> {
    let known = providers.iter().flat_map(|provider| &provider.events);
    let earlier = known.filter(|event| event.descriptor.id == id && event.descriptor.version < version);
    let mut schema = EventSchema::clone(earlier.max_by_key(|event| event.descriptor.version)?);
    schema.descriptor.version = version;
    Some(schema)
}

/// Returns what descriptions of a record's event call it, those first that have a name for the event; nothing if there is
/// one name only.
fn names_of<'s>(record: &Record<'_>, schemas: impl Iterator<Item = &'s Arc<EventSchema>>) -> Vec<EventNames> {
    let mut all: Vec<EventNames> = Vec::new();
    for schema in schemas {
        let names = Names::new(record, Some(schema), None);
        let called = EventNames {
            provider: names.provider().map(Into::into),
            event: schema.name.clone().filter(|_| !names.is_classic()),
            task: names.task().map(Into::into),
            opcode: names.opcode().map(Into::into),
        };
        if !all.contains(&called) {
            all.push(called);
        }
    }
    all.sort_by_key(|names| names.event.is_none());
    if all.len() < 2 { Vec::new() } else { all }
}

impl Resolver {
    /// Finds the schema of a record that is not in the cache.
    pub(super) fn look_up(&mut self, key: &Key<'_>, record: &Record<'_>) -> Outcome {
        match key.kind {
            KeyKind::TraceLogging => self.trace_logging(key, record, 0),
            KeyKind::TraceLoggingInPayload => match self.trace_logging(key, record, key.blob.len()) {
                Ok(found) => Ok(found),
                // The channel alone does not make it TraceLogging.
                Err(error) => self.manifest(record).map_err(|_| error),
            },
            KeyKind::StringOnly => Ok(self.one_string(record, "Message", OutType::STRING)),
            KeyKind::Xml => Ok(self.one_string(record, "Xml", OutType::XML)),
            KeyKind::Manifest => self.manifest(record),
            KeyKind::Classic | KeyKind::Hook => self.classic(record),
            KeyKind::Message => self.message(record),
            KeyKind::Header => Err(Undecoded::Nameless(record.kind())),
        }
    }

    fn trace_logging(&mut self, key: &Key<'_>, record: &Record<'_>, skip: usize) -> Outcome {
        let traits = ProviderTraits::parse(key.traits).ok();
        let known = self.info_for(record, &key.guid);
        let name = match (&traits, &known) {
            (Some(traits), _) => String::from_utf8_lossy(traits.name),
            (None, Some(known)) => (&*known.name).into(),
            (None, None) => key.guid.to_string().into(),
        };
        let provider = ProviderInfo::new(key.guid, &name, Decoding::TraceLogging, "the event itself");
        let schema = tracelogging::parse_event(key.blob, Arc::new(provider), record.descriptor())
            .map_err(Undecoded::TraceLogging)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it is the size of metadata, which is stored as a u16"
        )]
        Ok(CompiledSchema::with_skip(Arc::new(schema), skip as u32))
    }

    /// Returns the schema of an event whose payload is one string.
    fn one_string(&mut self, record: &Record<'_>, name: &str, out_type: OutType) -> Arc<CompiledSchema> {
        let guid = record.provider_id();
        let provider = self.info_for(record, &guid).unwrap_or_else(|| {
            let name = ProviderTraits::name_of(record).unwrap_or_else(|| guid.to_string());
            Arc::new(ProviderInfo::new(guid, &name, Decoding::BuiltIn, "the record's header"))
        });
        let mut schema = EventSchema::new(provider, record.descriptor());
        schema.properties = vec![Property::scalar(name, InType::UNICODE_STRING, out_type)];
        schema.top_level = 1;
        CompiledSchema::new(Arc::new(schema))
    }

    fn manifest(&mut self, record: &Record<'_>) -> Outcome {
        let EventDescriptor { id, version, .. } = record.descriptor();
        let guid = record.provider_id();
        let build = self.build_of(record);
        let decode = ProviderTraits::from_record(record).and_then(|traits| traits.decode);
        let mut other_in_source = None;
        for guid in [Some(guid), decode].into_iter().flatten() {
            let is_it =
                |event: &&Arc<EventSchema>| event.descriptor.id == id && event.descriptor.version == version;
            let exact = |providers: &[Arc<Provider>]| -> Vec<Arc<EventSchema>> {
                providers.iter().filter_map(|provider| provider.events.iter().find(is_it)).cloned().collect()
            };
            let known = self.known(&guid, build);
            let (user, mut built_in) = (exact(&known.user), exact(&known.built_in));
            if built_in.is_empty() {
                for source in &self.built_in {
                    match source.event_of_build(&guid, id, version, build) {
                        Found::Event(schema) => {
                            built_in.push(schema);
                            break;
                        }
                        Found::NoEvent { other_versions } => other_in_source = Some(other_versions),
                        Found::NoProvider => {}
                    }
                }
            }
            let carried = self.carried_by(record);
            let metadata = carried.metadata.layouts(&guid, id, version);
            let sent = |carried: &Carried| -> Vec<Arc<EventSchema>> {
                let manifests = carried.manifests(record, &guid);
                manifests.filter_map(|manifest| manifest.event(id, version)).cloned().collect()
            };
            let own = sent(carried);
            let called = [&built_in, &user, &metadata, &own].into_iter().flatten();
            let names = names_of(record, called);
            // Which of several descriptions in a merged trace is the event's is not known.
            if let Some(found) = self.with_other_layouts(&metadata, names.clone(), build, metadata.len() < 2)
            {
                return Ok(found);
            }
            let mut is_certain = carried.tells_manifest(record, &guid);
            let mut layouts: Vec<_> = own.into_iter().chain(user).chain(built_in).collect();
            let is_only_beside = layouts.is_empty();
            for beside in self.carried_beside(record) {
                let mut described = beside.metadata.layouts(&guid, id, version);
                // Of several descriptions in other traces it is not known which one is the event's.
                is_certain &= !is_only_beside || described.len() < 2 && beside.tells_manifest(record, &guid);
                described.extend(sent(beside));
                is_certain &= !is_only_beside || layouts.is_empty() || described.is_empty();
                layouts.extend(described);
            }
            if let Some(found) = self.with_other_layouts(&layouts, names, build, is_certain) {
                return Ok(found);
            }
        }
        // EVENT_HEADER_PROPERTY_LEGACY_EVENTLOG: the event is described by MOF.
        if record.event_property() & 4 != 0
            && let Ok(found) = self.classic(record)
        {
            return Ok(found);
        }
        if is_manifest_chunk(record) {
            return Ok(self.manifest_chunk(record));
        }
        let providers = self.providers(record, &guid);
        let carried = self.carried_by(record);
        let in_metadata = || {
            let mut all = [carried].into_iter().chain(self.carried_beside(record));
            all.find_map(|carried| carried.metadata.provider_name(&guid))
        };
        let mut names = providers.iter().map(|provider| &provider.info.name).chain(in_metadata());
        let name = names.next().cloned().or_else(|| ProviderTraits::name_of(record).map(Arc::from));
        let knows_events =
            other_in_source.is_some() || providers.iter().any(|provider| !provider.events.is_empty());
        let name = match name {
            Some(name) if knows_events || in_metadata().is_some() => name,
            name => return Err(Undecoded::UnknownProvider { provider: guid, name }),
        };
        if name.starts_with(DOTNET_RUNTIME)
            && let Some(schema) = with_prefix(&providers, id, version)
        {
            return Ok(CompiledSchema::new(Arc::new(schema)));
        }
        let has_id = |provider: &Arc<Provider>| provider.events.iter().any(|event| event.descriptor.id == id);
        let other_versions = other_in_source == Some(true)
            || carried.manifests(record, &guid).any(|manifest| manifest.has_id(id))
            || carried.metadata.has_id(&guid, id)
            || self.known(&guid, build).all().any(has_id);
        Err(Undecoded::UnknownEvent { provider: guid, name, id, version, other_versions })
    }

    /// Compiles the first of several layouts of one event, with the rest of them, and those of other releases, as others.
    /// `is_certain` says whether the first one is known to be that of the event, `names` what descriptions call it.
    fn with_other_layouts(
        &self,
        layouts: &[Arc<EventSchema>],
        names: Vec<EventNames>,
        build: u32,
        mut is_certain: bool,
    ) -> Option<Arc<CompiledSchema>> {
        let (first, rest) = layouts.split_first()?;
        let mut others = rest.to_vec();
        for source in &self.built_in {
            let found = source.other_layouts(first, build);
            others.extend(found.layouts);
            is_certain &= found.is_certain;
        }
        let first = match names.is_empty() {
            true => first.clone(),
            false => Arc::new(EventSchema { names, ..EventSchema::clone(first) }),
        };
        Some(CompiledSchema::with_others(first, &others, is_certain))
    }

    /// Returns the schema of a chunk of an EventSource manifest, which is itself an event.
    fn manifest_chunk(&mut self, record: &Record<'_>) -> Arc<CompiledSchema> {
        static PROPERTIES: LazyLock<Vec<Property>> = LazyLock::new(|| {
            let number = |name| Property::scalar(name, InType::UINT8, OutType::NULL);
            let word = |name| Property::scalar(name, InType::UINT16, OutType::NULL);
            vec![
                number("Format"),
                number("MajorVersion"),
                number("MinorVersion"),
                number("Magic"),
                word("TotalChunks"),
                word("ChunkNumber"),
                Property::scalar("Manifest", InType::NON_NULL_TERMINATED_ANSI_STRING, OutType::UTF8),
            ]
        });
        let guid = record.provider_id();
        let provider = self.info_for(record, &guid).unwrap_or_else(|| {
            let name = ProviderTraits::name_of(record).unwrap_or_else(|| guid.to_string());
            Arc::new(ProviderInfo::new(guid, &name, Decoding::BuiltIn, "EventSource"))
        });
        let mut schema = EventSchema::new(provider, record.descriptor());
        schema.decoding = Decoding::BuiltIn;
        schema.name = Some("ManifestData".into());
        schema.properties = PROPERTIES.clone();
        schema.top_level = u16::try_from(schema.properties.len()).unwrap_or(u16::MAX);
        CompiledSchema::new(Arc::new(schema))
    }

    fn classic(&mut self, record: &Record<'_>) -> Outcome {
        let class = record.provider_id();
        let descriptor = record.descriptor();
        let opcode = descriptor.opcode.0;
        let version = match record.hook_id() {
            Some(HookId(PARTITION_INFO)) => partition_info_version(record),
            _ => descriptor.version,
        };
        if class.is_zero()
            && let Some(hook) = record.hook_id()
        {
            return Err(Undecoded::UnknownHook { hook, version });
        }
        let build = self.build_of(record);
        let providers = self.providers(record, &class);
        // Published MOF files describe the same versions of built-in classes with fewer fields
        // (Observed: SampleProfile in perfview's kerneltraceeventparser.mof).
        let is_built_in = |provider: &&Arc<Provider>| provider.info.decoding == Decoding::BuiltIn;
        let built_in = || providers.iter().filter(is_built_in);
        let others = || providers.iter().filter(|provider| !is_built_in(provider));
        let of_type = || built_in().chain(others()).flat_map(|provider| &provider.events);
        let mut best: Option<&Arc<EventSchema>> = None;
        for event in of_type().filter(|event| event.descriptor.opcode.0 == opcode && event.descriptor.id == 0)
        {
            let found = event.descriptor.version;
            if found <= version && best.is_none_or(|best| best.descriptor.version < found) {
                best = Some(event);
            }
        }
        let metadata = self.carried_by(record).metadata.classic_layouts(&class, opcode, version);
        let names = names_of(record, best.into_iter().chain(&metadata));
        if let Some(found) = self.with_other_layouts(&metadata, names.clone(), build, metadata.len() < 2) {
            return Ok(found);
        }
        if let Some(best) = best {
            let is_same = |event: &&Arc<EventSchema>| {
                let descriptor = event.descriptor;
                descriptor.id == 0
                    && descriptor.opcode.0 == opcode
                    && descriptor.version == best.descriptor.version
                    && !Arc::ptr_eq(event, best)
            };
            let layouts: Vec<_> = [best].into_iter().chain(of_type().filter(is_same)).cloned().collect();
            if let Some(found) = self.with_other_layouts(&layouts, names, build, true) {
                return Ok(found);
            }
        }
        let beside = self.carried_beside(record);
        let beside: Vec<_> =
            beside.flat_map(|carried| carried.metadata.classic_layouts(&class, opcode, version)).collect();
        if let Some(found) = self.with_other_layouts(&beside, Vec::new(), build, beside.len() < 2) {
            return Ok(found);
        }
        match providers.first() {
            Some(provider) => {
                Err(Undecoded::UnknownType { class, name: provider.info.name.clone(), opcode, version })
            }
            None => Err(Undecoded::UnknownClass { class, opcode, version }),
        }
    }

    fn message(&mut self, record: &Record<'_>) -> Outcome {
        if !record.message_flags().contains(MessageFlags::GUID) {
            return Err(Undecoded::NamelessMessage);
        }
        let message = record.provider_id();
        let number = record.descriptor().id;
        let providers = self.providers(record, &message);
        let mut events = providers.iter().flat_map(|provider| &provider.events);
        if let Some(schema) = events.find(|event| event.descriptor.id == number) {
            return Ok(CompiledSchema::new(schema.clone()));
        }
        match providers.first() {
            Some(provider) => {
                Err(Undecoded::UnknownMessage { message, name: provider.info.name.clone(), number })
            }
            None => Err(Undecoded::UnknownMessageGuid { message, number }),
        }
    }
}
