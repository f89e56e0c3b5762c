//! The manifests of the providers that are registered on a machine with Windows, as its own decoder (TDH) has them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use etw_event::{EventDescriptor, Fields, Guid};
use etw_schema::event_metadata::{parse_event, parse_map};
use etw_schema::model::{Decoding, EventSchema, Provider, ProviderInfo, ValueMap};
use etw_schema::{Found, SchemaSource};
use etw_sys::{bytes_of, tdh};

/// Bytes of `TRACE_EVENT_INFO` before the properties, of which each has 24.
const HEADER_BYTES: usize = 0x70;
const PROPERTY_BYTES: usize = 24;
/// `PropertyStruct`: the property has no map.
const IS_STRUCT: u32 = 1;

/// The schemas that TDH has of the registered providers. They decode what nothing else describes, such as the events of
/// programs that are installed on the machine.
#[derive(Debug, Default)]
pub(crate) struct Registered {
    /// The names, read when they are first needed.
    providers: OnceLock<HashMap<Guid, Arc<Provider>>>,
}

impl Registered {
    fn providers(&self) -> &HashMap<Guid, Arc<Provider>> {
        self.providers.get_or_init(|| {
            let with_manifest =
                tdh::providers().unwrap_or_default().into_iter().filter(|one| one.has_manifest);
            let named = with_manifest.map(|one| {
                let info = ProviderInfo::new(one.guid, &one.name, Decoding::Manifest, "registered here");
                (one.guid, Arc::new(Provider { info: Arc::new(info), events: Vec::new() }))
            });
            named.collect()
        })
    }
}

impl SchemaSource for Registered {
    fn provider(&self, guid: &Guid) -> Option<Arc<Provider>> {
        self.providers().get(guid).cloned()
    }

    fn event_of_build(&self, guid: &Guid, id: u16, version: u8, _build: u32) -> Found {
        if !self.providers().contains_key(guid) {
            return Found::NoProvider;
        }
        let descriptor = EventDescriptor { id, version, ..EventDescriptor::ZERO };
        match event(guid, &descriptor) {
            Some(schema) => Found::Event(Arc::new(schema)),
            None => Found::NoEvent { other_versions: false },
        }
    }
}

fn event(provider: &Guid, descriptor: &EventDescriptor) -> Option<EventSchema> {
    let words = tdh::manifest_event(provider, descriptor).ok()?;
    let blob = bytes_of(&words);
    let mut maps: HashMap<Arc<str>, Arc<ValueMap>> = HashMap::new();
    for name in map_names(blob) {
        let map = tdh::map(provider, descriptor, &name).ok();
        if let Some(map) = map.and_then(|words| parse_map(bytes_of(&words)).ok()) {
            maps.insert(name.into(), Arc::new(map));
        }
    }
    let schema = parse_event(blob, &maps).ok()?;
    Some(EventSchema { decoding: Decoding::Manifest, ..schema })
}

/// Returns the names of the maps that the properties of a `TRACE_EVENT_INFO` use.
fn map_names(blob: &[u8]) -> Vec<String> {
    let count = blob.u32_at(0x64).unwrap_or(0) as usize;
    let properties = blob.get(HEADER_BYTES..).unwrap_or_default().chunks_exact(PROPERTY_BYTES);
    let mut names: Vec<String> = properties
        .take(count)
        .filter(|property| property.u32_at(0).is_some_and(|flags| flags & IS_STRUCT == 0))
        .filter_map(|property| property.u32_at(12).filter(|offset| *offset != 0))
        .filter_map(|offset| blob.get(offset as usize..))
        .map(|text| {
            let units = text.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
            String::from_utf16_lossy(&units.take_while(|unit| *unit != 0).collect::<Vec<_>>())
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_maps_are_found() {
        let mut blob = vec![0; HEADER_BYTES + 2 * PROPERTY_BYTES];
        blob[0x64] = 2;
        let end = blob.len() as u8;
        blob[HEADER_BYTES + 12] = end;
        blob[HEADER_BYTES + PROPERTY_BYTES] = IS_STRUCT as u8;
        blob[HEADER_BYTES + PROPERTY_BYTES + 12] = end;
        blob.extend("Map\0".encode_utf16().flat_map(u16::to_le_bytes));
        assert_eq!(map_names(&blob), ["Map"]);
        for end in 0..blob.len() {
            assert!(map_names(&blob[..end]).len() <= 1);
        }
    }
}
