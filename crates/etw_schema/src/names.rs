//! The names in an event's header: provider, event type, channel, level, opcode, task, keywords.
//!
//! Filters compare these names and exports write them, so a filter finds whatever an output shows.

use std::borrow::Cow;
use std::sync::Arc;

use etw_event::{EventDescriptor, Guid, Record, classes};

use crate::{Decoding, EventNames, EventSchema, OpcodeName, ProviderInfo};

/// Name of the provider of the kernel's classic events.
pub const KERNEL_PROVIDER: &str = "Windows Kernel Trace";

/// The names of one event's header fields, looked up on access without allocating.
///
/// A name is `None` if neither the schema, nor the provider, nor `winmeta.xml` has one. Names from `winmeta.xml` are
/// given without their `win:` prefix.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    record: Record<'a>,
    schema: Option<&'a EventSchema>,
    info: Option<&'a ProviderInfo>,
}

impl<'a> Names<'a> {
    /// Creates the names for a record. `schema` is the event's schema, if any; `provider` is used for an event without
    /// one.
    #[inline]
    pub fn new(
        record: &Record<'a>,
        schema: Option<&'a EventSchema>,
        provider: Option<&'a ProviderInfo>,
    ) -> Names<'a> {
        let info = schema.map(|schema| &*schema.provider).or(provider);
        Names { record: *record, schema, info }
    }

    /// Returns the schema.
    pub fn schema(&self) -> Option<&'a EventSchema> {
        self.schema
    }

    /// Returns the known names of the provider.
    pub fn provider_info(&self) -> Option<&'a ProviderInfo> {
        self.info
    }

    /// Returns whether the event is a classic one, which belongs to a class.
    pub fn is_classic(&self) -> bool {
        self.record.kind().is_classic()
    }

    /// Returns the provider's GUID; for a class the GUID of the provider it belongs to.
    pub fn provider_guid(&self) -> Guid {
        match self.class_of() {
            Some((guid, _)) => guid,
            None => self.record.provider_id(),
        }
    }

    /// Returns the provider's name.
    pub fn provider(&self) -> Option<&'a str> {
        self.class_of().map(|(_, name)| name).or_else(|| self.own_name())
    }

    /// Returns the name for the GUID in the header: the class of a classic event, otherwise the provider.
    pub fn own_name(&self) -> Option<&'a str> {
        self.info.map(|info| &*info.name).filter(|name| !name.is_empty())
    }

    /// Returns the class GUID of a classic event, or the task's GUID of a manifest event.
    pub fn event_guid(&self) -> Option<Guid> {
        let guid = match self.is_classic() {
            true => Some(self.record.provider_id()),
            false => {
                let task = self.record.descriptor().task;
                let found = self.info?.tasks.iter().find(|entry| entry.value == task && entry.value != 0);
                found?.event_guid
            }
        };
        guid.filter(|guid| !guid.is_zero())
    }

    /// Returns `Class/Opcode` for a classic event, otherwise the event's own name.
    pub fn event_type(&self) -> Option<Cow<'a, str>> {
        self.event_type_parts().map(|parts| match parts {
            [name, "", ""] => Cow::Borrowed(name),
            parts => Cow::Owned(parts.concat()),
        })
    }

    /// Returns the parts whose concatenation is [`Names::event_type`].
    pub fn event_type_parts(&self) -> Option<[&'a str; 3]> {
        match self.is_classic() {
            true => {
                let opcode = self.opcode().unwrap_or_else(|| decimal(self.record.descriptor().opcode.0));
                self.task().map(|class| [class, "/", opcode])
            }
            false => self.schema?.name.as_deref().map(|name| [name, "", ""]),
        }
    }

    /// Returns the channel's name, or its number if it has no name; `None` for channel 0.
    pub fn channel(&self) -> Option<&'a str> {
        let channel = self.record.descriptor().channel;
        // Source: the channels of `winmeta.xml`.
        let standard = match channel {
            0 => return None,
            8 => Some("System"),
            9 => Some("Application"),
            10 => Some("Security"),
            11 => Some("TraceLogging"),
            12 => Some("ProviderMetadata"),
            _ => None,
        };
        let own =
            || self.schema.filter(|schema| schema.descriptor.channel == channel)?.channel_name.as_deref();
        let listed = || self.info?.channels.iter().find(|entry| entry.value == channel);
        let name = standard.or_else(|| own().and_then(plain)).or_else(|| listed().map(|entry| &*entry.name));
        Some(name.unwrap_or_else(|| decimal(channel)))
    }

    /// Returns the level's name.
    pub fn level(&self) -> Option<&'a str> {
        let level = self.record.descriptor().level;
        let own = || self.schema.filter(|schema| schema.descriptor.level == level)?.level_name.as_deref();
        let listed = || self.info?.levels.iter().find(|entry| entry.value == u16::from(level.0));
        level
            .standard_name()
            .or_else(|| own().and_then(plain))
            .or_else(|| listed().and_then(|entry| shown(&entry.name, &entry.message)))
    }

    /// Returns the opcode's name.
    pub fn opcode(&self) -> Option<&'a str> {
        let EventDescriptor { opcode, task, .. } = self.record.descriptor();
        let own = || self.schema.filter(|schema| schema.descriptor.opcode == opcode)?.opcode_name.as_deref();
        let listed = || {
            let opcodes = &self.info?.opcodes;
            let of_task =
                |task: Option<u16>| move |entry: &&OpcodeName| entry.value == opcode.0 && entry.task == task;
            opcodes.iter().find(of_task(Some(task))).or_else(|| opcodes.iter().find(of_task(None)))
        };
        own()
            .and_then(plain)
            .or_else(|| listed().and_then(|entry| shown(&entry.name, &entry.message)))
            .or_else(|| match self.schema {
                Some(schema) if schema.decoding == Decoding::Wpp => None,
                _ => opcode.standard_name(),
            })
    }

    /// Returns the task's name; for a classic event the class.
    pub fn task(&self) -> Option<&'a str> {
        let own = || self.schema?.task_name.as_deref();
        let listed = || {
            let tasks = self.info.map(|info| &info.tasks).filter(|tasks| !tasks.is_empty())?;
            let task = self.record.descriptor().task;
            tasks.iter().find(|entry| entry.value == task && entry.value != 0)
        };
        let class = || self.own_name().filter(|_| self.is_classic());
        own()
            .and_then(plain)
            .or_else(|| listed().and_then(|entry| shown(&entry.name, &entry.message)))
            .or_else(class)
    }

    /// Returns the names of the keywords in the mask: those of the schema, or else of the provider and `winmeta.xml`.
    pub fn keywords(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mask = self.record.descriptor().keyword.0;
        let own = match self.schema {
            Some(schema) if mask != 0 && schema.descriptor.keyword.0 == mask => &schema.keyword_names[..],
            _ => &[],
        };
        let (listed, standard) = match (own.is_empty(), self.info) {
            (false, _) => (&[][..], &[][..]),
            (true, None) => (&[][..], &STANDARD_KEYWORDS[..]),
            (true, Some(info)) => (&info.keywords[..], &STANDARD_KEYWORDS[..]),
        };
        let listed = listed.iter().map(|entry| (entry.mask, &*entry.name)).chain(standard.iter().copied());
        let listed = listed.filter(move |(bits, _)| *bits != 0 && mask & bits == *bits);
        own.iter().filter_map(|name| plain(name)).chain(listed.map(|(_, name)| name))
    }

    /// Returns the provider's name, or its GUID: the same for every description of the event.
    pub fn provider_text(&self) -> Cow<'a, str> {
        let shown = self.descriptions().first().and_then(|names| names.provider.as_deref());
        let name = shown.or_else(|| self.provider());
        name.map_or_else(|| self.provider_guid().to_string().into(), Cow::Borrowed)
    }

    /// Returns one name for the event, the same for every description and version of it: its type or name, or else task
    /// and opcode, or else its id; for a classic event without a type its class and opcode.
    pub fn event(&self) -> Cow<'a, str> {
        let (name, task, opcode) = match self.descriptions().first() {
            Some(names) if !self.is_classic() => {
                (names.event.as_deref().map(Cow::Borrowed), names.task.as_deref(), names.opcode.as_deref())
            }
            Some(EventNames { task: Some(class), opcode: Some(opcode), .. }) => {
                (Some(format!("{class}/{opcode}").into()), None, None)
            }
            _ => (self.event_type(), self.task(), self.opcode()),
        };
        let EventDescriptor { id, opcode: number, .. } = self.record.descriptor();
        match (name, task, opcode) {
            // A self-describing event has no id: its whole name distinguishes it.
            (Some(name), ..) if id == 0 && !self.is_classic() => name,
            (Some(Cow::Borrowed(name)), ..) => without_version(name).into(),
            (Some(Cow::Owned(name)), ..) => without_version(&name).to_owned().into(),
            _ if self.is_classic() => format!("{}/{}", self.record.provider_id(), number.0).into(),
            (None, Some(task), Some(opcode)) if opcode != "Info" => format!("{task}/{opcode}").into(),
            (None, Some(task), _) => task.into(),
            (None, None, _) => format!("Event({id})").into(),
        }
    }

    /// Returns what the descriptions of the event call it, the one first whose name is shown; empty if there is one only.
    pub fn descriptions(&self) -> &'a [EventNames] {
        self.schema.map_or(&[], |schema| &schema.names)
    }

    /// Returns the event name that tracerpt shows: the class of a classic event, otherwise the provider. The event's
    /// own name is appended if the provider's events have no tasks.
    pub fn column_name(&self) -> String {
        let provider = || self.provider().map_or_else(|| self.provider_guid().to_string(), str::to_owned);
        match (self.event_type(), self.task()) {
            (_, Some(class)) if self.event_guid().is_some() => class.to_owned(),
            (Some(name), None) => format!("{}/{name}", provider()),
            _ => provider(),
        }
    }

    /// Returns the provider that the class of a classic event belongs to.
    fn class_of(&self) -> Option<(Guid, &'a str)> {
        if !self.is_classic() {
            return None;
        }
        match self.info.and_then(|info| info.class_of.as_ref()) {
            Some((guid, name)) => Some((*guid, name)),
            None => self.record.is_kernel_classic().then_some((classes::SYSTEM_TRACE, KERNEL_PROVIDER)),
        }
    }
}

/// Source: the keywords of `winmeta.xml`.
const STANDARD_KEYWORDS: [(u64, &str); 8] = [
    (0x0001_0000_0000_0000, "ResponseTime"),
    (0x0002_0000_0000_0000, "WDIContext"),
    (0x0004_0000_0000_0000, "WDIDiag"),
    (0x0008_0000_0000_0000, "SQM"),
    (0x0010_0000_0000_0000, "AuditFailure"),
    (0x0020_0000_0000_0000, "AuditSuccess"),
    (0x0040_0000_0000_0000, "CorrelationHint"),
    (0x0080_0000_0000_0000, "EventlogClassic"),
];

/// Returns the name without the version that names of some events end in.
pub fn without_version(name: &str) -> &str {
    match name.rsplit_once("_V") {
        Some((rest, digits)) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            rest
        }
        _ => name,
    }
}

/// Removes the `win:` prefix that manifests put before the names of `winmeta.xml`.
fn plain(name: &str) -> Option<&str> {
    Some(name.strip_prefix("win:").unwrap_or(name)).filter(|name| !name.is_empty())
}

/// Returns the localized text of a name, or else the name.
fn shown<'a>(name: &'a Arc<str>, message: &'a Option<Arc<str>>) -> Option<&'a str> {
    plain(message.as_deref().map(str::trim).filter(|text| !text.is_empty()).unwrap_or(name))
}

/// The digits of all 8-bit numbers, with leading zeros.
#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "numbers are below 256, the length of the table, and digits below 10"
)]
static DIGITS: [[u8; 3]; 256] = {
    let mut digits = [[0; 3]; 256];
    let mut number = 0;
    while number < 256 {
        let [hundreds, tens, ones] = [number / 100, number / 10 % 10, number % 10];
        digits[number] = [b'0' + hundreds as u8, b'0' + tens as u8, b'0' + ones as u8];
        number += 1;
    }
    digits
};

/// Returns a number in decimal.
#[expect(clippy::indexing_slicing, reason = "the table has all numbers of 8 bits, with three digits each")]
fn decimal(number: u8) -> &'static str {
    let leading = match number {
        0..10 => 2,
        10..100 => 1,
        _ => 0,
    };
    str::from_utf8(&DIGITS[usize::from(number)][leading..]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_no_part_of_names() {
        let plain = ["GCStart_V1", "GCStart_V", "GCStart", "Start_V2x", "_V12"].map(without_version);
        assert_eq!(plain, ["GCStart", "GCStart_V", "GCStart", "Start_V2x", ""]);
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        for number in 0..=u8::MAX {
            assert_eq!(decimal(number), number.to_string());
        }
    }
}
