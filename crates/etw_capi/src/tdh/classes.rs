//! Classic events as TDH of Windows describes them.
//!
//! Here, arrays of characters are texts, stacks have one property, and numbers have names that the classes of Windows lack.
//! Programs know them as the classes have them (Observed: the WMI classes below `MSNT_SystemTrace`; the tests of krabsetw).

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use etw_event::Guid;
use etw_event::classes::{EVENT_TRACE, STACK_WALK};
use etw_schema::{
    CompiledSchema, Count, Decoding, Event, EventSchema, InType, Length, Located, OutType, Property,
    PropertyType,
};

use crate::consume::is_of_system;

/// The name of the kernel's provider in descriptions of its events.
pub(super) const SYSTEM_PROVIDER: &str = "MSNT_SystemTrace";

/// Bytes of the member `TimeZoneInformation` of a session's description.
const TIME_ZONE_BYTES: u16 = 176;
/// Frames of a stack that its class has.
const FRAMES: usize = 192;
/// Maximum number of schemas whose forms are kept.
const MAX_KNOWN: usize = 4096;

/// A schema, which its address in the table stands for, and its form; `None` if Windows has it as it is.
type Known = (Arc<EventSchema>, Option<Arc<CompiledSchema>>);

static KNOWN: LazyLock<Mutex<HashMap<usize, Known>>> = LazyLock::new(Mutex::default);

/// Calls `work` with an event, described as on Windows.
pub(super) fn as_on_windows<R>(event: &Event<'_>, work: impl FnOnce(&Event<'_>) -> R) -> R {
    let Some(form) = event.schema().and_then(form_of) else { return work(event) };
    let mut located = Located::new();
    let properties = Ok(form.locate(event.record, &mut located));
    work(&Event {
        provider: event.provider,
        process: event.process,
        start: event.start,
        ..Event::new(event.record, properties)
    })
}

/// Returns the form of a schema that Windows has, if it is another one.
fn form_of(schema: &Arc<EventSchema>) -> Option<Arc<CompiledSchema>> {
    if schema.provider.class_of.is_none() && schema.decoding != Decoding::Mof {
        return None;
    }
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= MAX_KNOWN {
        known.clear();
    }
    let address = Arc::as_ptr(schema).addr();
    let (_, form) = known.entry(address).or_insert_with(|| {
        let mut form = EventSchema::clone(schema);
        change(&mut form);
        let is_other = form.properties != schema.properties;
        (schema.clone(), is_other.then(|| CompiledSchema::new(Arc::new(form))))
    });
    form.clone()
}

fn change(schema: &mut EventSchema) {
    let (class, is_of_system) = (schema.provider.guid, is_of_system(schema));
    for property in &mut schema.properties {
        change_property(property, class, is_of_system);
    }
    let has_structs =
        schema.properties.iter().any(|property| matches!(property.kind, PropertyType::Struct { .. }));
    if !has_structs {
        schema.properties.truncate(schema.top_level.into());
    }
    if class == STACK_WALK
        && let Some(stack) =
            schema.properties.pop_if(|last| &*last.name == "Stack" && last.count == Count::ToEnd)
    {
        let frame = |number: usize| Property {
            name: format!("Stack{number}").into(),
            count: Count::One,
            ..stack.clone()
        };
        schema.properties.extend((1..=FRAMES).map(frame));
        schema.top_level = schema.properties.len() as u16;
    }
}

fn change_property(property: &mut Property, class: Guid, is_of_system: bool) {
    let is_time_zone = class == EVENT_TRACE && &*property.name == "TimeZoneInformation";
    if is_time_zone && matches!(property.kind, PropertyType::Struct { .. }) {
        property.kind = PropertyType::Value { in_type: InType::UINT8, out_type: OutType::NULL, map: None };
        property.count = Count::Fixed(TIME_ZONE_BYTES);
    }
    let PropertyType::Value { in_type, map, .. } = &mut property.kind else { return };
    if is_of_system {
        *map = None;
        if class == EVENT_TRACE && *in_type == InType::FILETIME {
            *in_type = InType::UINT64;
        }
    }
    let character = match *in_type {
        InType::UNICODE_STRING => InType::UNICODE_CHAR,
        InType::ANSI_STRING => InType::ANSI_CHAR,
        _ => return,
    };
    if let (Length::Fixed(count), Count::One) = (property.length, property.count) {
        *in_type = character;
        (property.length, property.count) = (Length::Natural, Count::Fixed(count));
    }
}

#[cfg(test)]
mod tests {
    use etw_event::{Origin, Record, Ticks};
    use etw_schema::{Resolver, Value};

    use super::*;

    /// Returns names, types and numbers of elements of a kernel event's properties, as TDH of Windows has them, and calls
    /// `look` with it.
    fn described(
        hook: u16,
        version: u8,
        payload: &[u8],
        look: impl FnOnce(&Event<'_>),
    ) -> Vec<(String, InType, Count, bool)> {
        let mut bytes = vec![version, 0, 0x11, 0xC0];
        bytes.extend((16 + payload.len() as u16).to_le_bytes());
        bytes.extend(hook.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(payload);
        let origin = Origin::default();
        let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
        let (mut resolver, mut located) = (Resolver::new(), Located::new());
        let event = resolver.decode(&record, &mut located);
        as_on_windows(&event, |event| {
            look(event);
            let schema = event.schema().unwrap();
            assert!(is_of_system(schema));
            let of_value = |property: &Property| match &property.kind {
                PropertyType::Value { in_type, map, .. } => (*in_type, map.is_some()),
                PropertyType::Struct { .. } => panic!("a struct"),
            };
            let all = schema.properties.iter().map(|property| {
                let (in_type, has_map) = of_value(property);
                (property.name.to_string(), in_type, property.count, has_map)
            });
            all.collect()
        })
    }

    #[test]
    fn stacks_have_a_property_for_each_frame() {
        let payload: Vec<u8> = [7u64, 0x0000_0002_0000_0001, 0x11, 0x22, 0x33].map(u64::to_le_bytes).concat();
        let found = described(0x1820, 2, &payload, |event| {
            let properties = event.properties.as_ref().unwrap();
            let frame = |name: &str| properties.find(name).map(|found| found.stored_value());
            assert!(matches!(frame("Stack2"), Some(Value::Pointer(0x22, _))), "{:?}", frame("Stack2"));
            assert!(frame("Stack4").is_none());
        });
        assert_eq!(found.len(), 3 + FRAMES);
        assert_eq!(found[3], ("Stack1".to_owned(), InType::POINTER, Count::One, false));
        assert_eq!(found[194].0, "Stack192");
    }

    #[test]
    fn arrays_of_characters_are_arrays_and_numbers_have_no_names() {
        // SystemConfig/Services version 2: nothing of the payload is needed for the description.
        let computer = described(0x0B0A, 3, &[0; 900], |_| {});
        let name = computer.iter().find(|property| property.0 == "ComputerName").unwrap();
        assert_eq!((name.1, name.2), (InType::UNICODE_CHAR, Count::Fixed(256)));
        let switch = described(0x0524, 4, &[0; 24], |_| {});
        assert!(switch.iter().any(|property| property.0 == "OldThreadState"));
        assert!(switch.iter().all(|property| !property.3), "{switch:?}");
        let header = described(0x0000, 2, &[0; 300], |_| {});
        let zone = header.iter().find(|property| property.0 == "TimeZoneInformation").unwrap();
        assert_eq!((zone.1, zone.2), (InType::UINT8, Count::Fixed(176)));
        assert_eq!(header[4], ("EndTime".to_owned(), InType::UINT64, Count::One, false));
    }
}
