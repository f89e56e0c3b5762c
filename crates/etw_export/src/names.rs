//! The names that go into an event's header: provider, event type, channel, level, opcode, task, keywords.

use std::borrow::Cow;
use std::sync::Arc;

use etw_event::{EventDescriptor, Guid, Record, classes};
use etw_schema::{Decoding, EventSchema, ProviderInfo};

/// Name of the provider of the kernel's classic events.
pub const KERNEL_PROVIDER: &str = "Windows Kernel Trace";

/// The names of one event's header fields, each `None` where neither the schema nor `winmeta.xml` knows one.
#[derive(Debug, Clone, PartialEq)]
pub struct Names<'a> {
    /// The provider's GUID; for classes of the kernel the kernel provider's.
    pub provider_guid: Guid,
    /// The provider's name.
    pub provider: Option<Cow<'a, str>>,
    /// The class GUID of classic events, the task's GUID of manifest events.
    pub event_guid: Option<Guid>,
    /// `Class/Opcode` of classic events; the event's own name otherwise.
    pub event_type: Option<Cow<'a, str>>,
    /// The channel; its number where it has no name; `None` for channel 0.
    pub channel: Option<Cow<'a, str>>,
    /// The level.
    pub level: Option<&'a str>,
    /// The opcode.
    pub opcode: Option<&'a str>,
    /// The task; the class of classic events.
    pub task: Option<&'a str>,
    /// The keywords in the mask.
    pub keywords: Vec<&'a str>,
}

impl<'a> Names<'a> {
    /// The names for a record. `schema` is the event's schema, where it has one; `provider` what is known of its
    /// provider all the same.
    pub fn of(
        record: &Record<'_>,
        schema: Option<&'a EventSchema>,
        provider: Option<&'a ProviderInfo>,
    ) -> Names<'a> {
        let descriptor = record.descriptor();
        let id = record.provider_id();
        let info = schema.map(|schema| &*schema.provider).or(provider);
        let task = task(&descriptor, schema, info);
        let opcode = opcode(&descriptor, schema, info);
        let mut names = Names {
            provider_guid: id,
            provider: info.map(|info| Cow::Borrowed(&*info.name)).filter(|name| !name.is_empty()),
            event_guid: None,
            event_type: schema.and_then(|schema| schema.name.as_deref()).map(Cow::Borrowed),
            channel: channel(&descriptor, schema, info),
            level: level(&descriptor, schema, info),
            opcode,
            task,
            keywords: keywords(&descriptor, schema, info),
        };
        if record.kind().is_classic() {
            names.event_guid = Some(id).filter(|id| !id.is_zero());
            let class = task.or(info.map(|info| &*info.name)).filter(|name| !name.is_empty());
            names.task = class;
            names.event_type = class.map(|class| match opcode {
                Some(opcode) => format!("{class}/{opcode}").into(),
                None => format!("{class}/{}", descriptor.opcode.0).into(),
            });
            match info.and_then(|info| info.class_of.as_ref()) {
                Some((guid, name)) => {
                    names.provider_guid = *guid;
                    names.provider = Some(Cow::Borrowed(name));
                }
                None if record.is_kernel_classic() => {
                    names.provider_guid = classes::SYSTEM_TRACE;
                    names.provider = Some(Cow::Borrowed(KERNEL_PROVIDER));
                }
                None => {}
            }
        } else if let Some(task) = info
            .and_then(|info| info.tasks.iter().find(|task| task.value == descriptor.task && task.value != 0))
        {
            names.event_guid = task.event_guid.filter(|guid| !guid.is_zero());
        }
        names
    }

    /// One name for the event: its type, else task and opcode, else its id.
    pub fn event(&self, descriptor: &EventDescriptor) -> String {
        match (&self.event_type, self.task, self.opcode) {
            (Some(name), ..) => name.to_string(),
            (None, Some(task), Some(opcode)) if opcode != "Info" => format!("{task}/{opcode}"),
            (None, Some(task), _) => task.to_string(),
            (None, None, _) => format!("Event({})", descriptor.id),
        }
    }
}

impl Names<'_> {
    /// tracerpt's event name: the class of classic events, the provider of others, with the event's own name where
    /// only that tells it from the provider's others.
    pub fn column_name(&self) -> String {
        let provider = match &self.provider {
            Some(name) => name.to_string(),
            None => self.provider_guid.to_string(),
        };
        match (&self.event_type, self.task) {
            (_, Some(class)) if self.event_guid.is_some() => class.to_owned(),
            (Some(name), None) => format!("{provider}/{name}"),
            _ => provider,
        }
    }
}

/// Leaves out the prefix that manifests put before the names of `winmeta.xml`.
fn plain(name: &str) -> Option<&str> {
    Some(name.strip_prefix("win:").unwrap_or(name)).filter(|name| !name.is_empty())
}

/// The localised text of a name, else the name.
fn shown<'a>(name: &'a Arc<str>, message: &'a Option<Arc<str>>) -> Option<&'a str> {
    plain(message.as_deref().map(str::trim).filter(|text| !text.is_empty()).unwrap_or(name))
}

fn level<'a>(
    descriptor: &EventDescriptor,
    schema: Option<&'a EventSchema>,
    info: Option<&'a ProviderInfo>,
) -> Option<&'a str> {
    let level = descriptor.level;
    level
        .standard_name()
        .or_else(|| {
            schema.filter(|schema| schema.descriptor.level == level)?.level_name.as_deref().and_then(plain)
        })
        .or_else(|| {
            let found = info?.levels.iter().find(|entry| entry.value == u16::from(level.0))?;
            shown(&found.name, &found.message)
        })
}

fn opcode<'a>(
    descriptor: &EventDescriptor,
    schema: Option<&'a EventSchema>,
    info: Option<&'a ProviderInfo>,
) -> Option<&'a str> {
    let opcode = descriptor.opcode;
    let from_schema = schema.filter(|schema| schema.descriptor.opcode == opcode);
    from_schema
        .and_then(|schema| plain(schema.opcode_name.as_deref()?))
        .or_else(|| {
            let of_task =
                |task| move |entry: &&etw_schema::OpcodeName| entry.value == opcode.0 && entry.task == task;
            let opcodes = &info?.opcodes;
            let found = opcodes.iter().find(of_task(Some(descriptor.task)));
            let found = found.or_else(|| opcodes.iter().find(of_task(None)))?;
            shown(&found.name, &found.message)
        })
        .or_else(|| match schema {
            Some(schema) if schema.decoding == Decoding::Wpp => None,
            _ => opcode.standard_name(),
        })
}

fn task<'a>(
    descriptor: &EventDescriptor,
    schema: Option<&'a EventSchema>,
    info: Option<&'a ProviderInfo>,
) -> Option<&'a str> {
    schema.and_then(|schema| plain(schema.task_name.as_deref()?)).or_else(|| {
        let found = info?.tasks.iter().find(|task| task.value == descriptor.task && task.value != 0)?;
        shown(&found.name, &found.message)
    })
}

fn channel<'a>(
    descriptor: &EventDescriptor,
    schema: Option<&'a EventSchema>,
    info: Option<&'a ProviderInfo>,
) -> Option<Cow<'a, str>> {
    let channel = descriptor.channel;
    if channel == 0 {
        return None;
    }
    // Source: the channels of `winmeta.xml`.
    let standard = match channel {
        8 => Some("System"),
        9 => Some("Application"),
        10 => Some("Security"),
        11 => Some("TraceLogging"),
        12 => Some("ProviderMetadata"),
        _ => None,
    };
    let name = standard
        .or_else(|| {
            plain(schema.filter(|schema| schema.descriptor.channel == channel)?.channel_name.as_deref()?)
        })
        .or_else(|| Some(&*info?.channels.iter().find(|entry| entry.value == channel)?.name));
    Some(name.map_or_else(|| Cow::Owned(channel.to_string()), Cow::Borrowed))
}

fn keywords<'a>(
    descriptor: &EventDescriptor,
    schema: Option<&'a EventSchema>,
    info: Option<&'a ProviderInfo>,
) -> Vec<&'a str> {
    // Source: the keywords of `winmeta.xml`.
    const STANDARD: [(u64, &str); 8] = [
        (0x0001_0000_0000_0000, "ResponseTime"),
        (0x0002_0000_0000_0000, "WDIContext"),
        (0x0004_0000_0000_0000, "WDIDiag"),
        (0x0008_0000_0000_0000, "SQM"),
        (0x0010_0000_0000_0000, "AuditFailure"),
        (0x0020_0000_0000_0000, "AuditSuccess"),
        (0x0040_0000_0000_0000, "CorrelationHint"),
        (0x0080_0000_0000_0000, "EventlogClassic"),
    ];
    let mask = descriptor.keyword.0;
    if mask == 0 {
        return Vec::new();
    }
    if let Some(schema) = schema
        && schema.descriptor.keyword.0 == mask
        && !schema.keyword_names.is_empty()
    {
        return schema.keyword_names.iter().filter_map(|name| plain(name)).collect();
    }
    let standard = STANDARD.iter().copied();
    let own = info.into_iter().flat_map(|info| info.keywords.iter().map(|entry| (entry.mask, &*entry.name)));
    own.chain(standard).filter(|(bits, _)| *bits != 0 && mask & bits == *bits).map(|(_, name)| name).collect()
}
