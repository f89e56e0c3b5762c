//! The schemas of the reference events.

use std::sync::Arc;

use etw_schema::builtin::BuiltIn;
use etw_schema::{Decoding, EventSchema, InType, OutType, Property, ProviderInfo};
use etw_testkit::reference::{RPC, ReferenceEvent};
use openetw::EventDescriptor;

/// Returns the schema of a reference event.
///
/// # Panics
///
/// Panics if the built-in tables lack it.
pub(crate) fn schema(event: &ReferenceEvent) -> Arc<EventSchema> {
    if event.provider == RPC { rpc_schema(event) } else { built_in(event) }
}

fn built_in(event: &ReferenceEvent) -> Arc<EventSchema> {
    let provider = BuiltIn.provider(&event.provider);
    let provider = provider.unwrap_or_else(|| panic!("no built-in provider {}", event.provider));
    let key = |descriptor: EventDescriptor| (descriptor.id, descriptor.version, descriptor.opcode);
    let found = provider.events.iter().find(|schema| key(schema.descriptor) == key(event.descriptor));
    found.unwrap_or_else(|| panic!("no built-in schema of {}", event.name)).clone()
}

/// Returns the schema of `RpcClientCallStart` version 1, which is not built in.
fn rpc_schema(event: &ReferenceEvent) -> Arc<EventSchema> {
    let info = ProviderInfo::new(RPC, "Microsoft-Windows-RPC", Decoding::Manifest, "the bench");
    let mut schema = EventSchema::new(Arc::new(info), event.descriptor);
    schema.name = Some("RpcClientCallStart_V1".into());
    schema.properties = [
        ("InterfaceUuid", InType::GUID),
        ("ProcNum", InType::UINT32),
        ("Protocol", InType::UINT32),
        ("NetworkAddress", InType::UNICODE_STRING),
        ("Endpoint", InType::UNICODE_STRING),
        ("Options", InType::UNICODE_STRING),
        ("AuthenticationLevel", InType::UINT32),
        ("AuthenticationService", InType::UINT32),
        ("ImpersonationLevel", InType::UINT32),
    ]
    .map(|(name, in_type)| Property::scalar(name, in_type, OutType::NULL))
    .into();
    schema.top_level = schema.properties.len() as u16;
    Arc::new(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_schema::{CompiledSchema, Located};
    use etw_testkit::reference::events;
    use openetw::{Origin, Record, Ticks};

    #[test]
    fn each_has_as_many_fields_as_its_name_says_and_its_payload_fits() {
        for event in events() {
            let schema = schema(&event);
            let origin = Origin::default();
            let record = Record::parse(&event.record, &origin, Ticks(0)).unwrap();
            assert_eq!(record.payload(), event.payload, "{}", event.name);
            assert_eq!(record.provider_id(), schema.provider.guid, "{}", event.name);
            assert_eq!(event.descriptor, schema.descriptor, "{}", event.name);
            let compiled = CompiledSchema::new(schema.clone());
            let mut located = Located::new();
            let properties = compiled.locate(&record, &mut located);
            assert!(properties.error().is_none() && properties.rest().is_empty(), "{}", event.name);
            let fields = properties.iter().count();
            assert!(event.name.ends_with(&format!(", {fields} fields")), "{} has {fields}", event.name);
            assert_eq!(fields, schema.properties.len(), "{}", event.name);
        }
    }
}
