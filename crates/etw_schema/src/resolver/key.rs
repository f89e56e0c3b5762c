//! The key that identifies a record's schema.

use etw_event::{EventDescriptor, ExtendedType, Fields, Guid, HeaderKind, Record};

use super::cache::{Key, KeyKind};
use crate::tracelogging;

/// Hook id of PartitionInfoExtension.
pub(super) const PARTITION_INFO: u16 = 0x0050;

/// Reads the version of a PartitionInfoExtension from its start. The header says 2 even if it is 0 (Observed: every
/// session file of Windows 10 and 11, as powershell).
#[cold]
pub(super) fn partition_info_version(record: &Record<'_>) -> u8 {
    record.payload().u16_at(0).map_or(0, |version| version.min(0xFF) as u8)
}

/// Returns the key of a record's schema.
#[inline]
pub(super) fn key_of<'a>(record: &Record<'a>) -> Key<'a> {
    let key = |kind, guid, number| Key { kind, guid, number, scope: 0, blob: &[], traits: &[] };
    let kind = record.kind();
    if kind.has_hook_id() {
        let bytes = record.as_bytes();
        let hook = record.hook_id().map_or(0, |hook| hook.0);
        let version = match hook {
            PARTITION_INFO => partition_info_version(record),
            _ => bytes.u8_at(0).unwrap_or(0),
        };
        return key(KeyKind::Hook, Guid::ZERO, u64::from(version) << 16 | u64::from(hook));
    }
    let guid = record.provider_id();
    let descriptor = record.descriptor();
    if kind.is_event_header() {
        if record.flags() & 1 != 0 {
            let mut blob: &[u8] = &[];
            let mut traits: &[u8] = &[];
            for item in record.extended_items() {
                match item.ext_type {
                    ExtendedType::EVENT_SCHEMA_TL => blob = item.data,
                    ExtendedType::PROVIDER_TRAITS => traits = item.data,
                    _ => {}
                }
            }
            if !blob.is_empty() {
                return Key { kind: KeyKind::TraceLogging, guid, number: 0, scope: 0, blob, traits };
            }
        }
        return special_key(record, guid, &descriptor).unwrap_or_else(|| {
            key(KeyKind::Manifest, guid, u64::from(descriptor.version) << 16 | u64::from(descriptor.id))
        });
    }
    match kind {
        HeaderKind::Message => key(KeyKind::Message, guid, descriptor.id.into()),
        HeaderKind::Timed => key(KeyKind::Header, Guid::ZERO, kind as u64),
        _ => {
            let number = u64::from(descriptor.version) << 8 | u64::from(descriptor.opcode.0);
            key(KeyKind::Classic, guid, number)
        }
    }
}

/// Returns the key for the rarer forms of an `EVENT_HEADER`.
#[inline]
fn special_key<'a>(record: &Record<'a>, guid: Guid, descriptor: &EventDescriptor) -> Option<Key<'a>> {
    let key = |kind, blob| Some(Key { kind, guid, number: 0, scope: 0, blob, traits: &[] });
    if record.is_string_only() {
        return key(KeyKind::StringOnly, &[]);
    }
    // EVENT_HEADER_PROPERTY_FORWARDED_XML.
    if record.event_property() & 2 != 0 {
        return key(KeyKind::Xml, &[]);
    }
    if descriptor.channel == 11
        && let Ok(blob) = tracelogging::sized(record.payload())
    {
        return key(KeyKind::TraceLoggingInPayload, blob);
    }
    None
}
