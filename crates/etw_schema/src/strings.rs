//! Strings of which a source says only that they are strings.
//!
//! CIM has one type of string. Its qualifiers say how events store it, but lists of fields leave these out. Nearly all
//! are null-terminated, in UTF-16 or in 8-bit characters (Observed: Netlogon's events, whose two strings in UTF-16 and
//! two numbers fill each payload).

use crate::{EventSchema, InType, Inference, Inferred, PropertyType};

/// The encodings that are tried.
const ENCODINGS: [InType; 2] = [InType::UNICODE_STRING, InType::ANSI_STRING];

/// Returns the layout with each encoding of its unknown strings; nothing if it has none, or properties of unknown
/// extent, too.
pub(crate) fn variants(schema: &EventSchema) -> Vec<EventSchema> {
    let in_type = |kind: &PropertyType| match kind {
        PropertyType::Value { in_type, .. } => *in_type,
        PropertyType::Struct { .. } => InType::STRUCT,
    };
    let types = || schema.properties.iter().map(|property| in_type(&property.kind));
    let Some(first) = types().position(|in_type| in_type == InType::UNKNOWN_STRING) else {
        return Vec::new();
    };
    if types().any(|in_type| in_type == InType::UNKNOWN_EXTENT) {
        return Vec::new();
    }
    let from = schema.inferred.map_or(usize::MAX, |inferred| inferred.from.into()).min(first);
    let variant = |encoding: InType| {
        let mut variant = schema.clone();
        for property in &mut variant.properties {
            if let PropertyType::Value { in_type: in_type @ InType::UNKNOWN_STRING, .. } = &mut property.kind
            {
                *in_type = encoding;
            }
        }
        let from = u16::try_from(from).unwrap_or(u16::MAX);
        variant.inferred = Some(Inferred { from, what: Inference::Text });
        variant
    };
    ENCODINGS.map(variant).into()
}
