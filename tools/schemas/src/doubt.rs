//! Structs that a source took for values.
//!
//! `EVENT_PROPERTY_INFO` keeps the number of a struct's first member where a value keeps its type. Exports that do not
//! look at the flag show a struct as a value whose type is that number: with seven properties, the members of the first
//! struct start at number 7, and the struct looks like an Int32 (Observed: `fid_USBPORT_HC` of USB-USBPORT). Members
//! are not listed.

use openetw::schema::{Count, InType, Inference, Inferred, Property, PropertyType};

/// Marks what may be a struct: unknown types are, and so is the property whose type equals the number of properties
/// where there are unknown types. Without any, such a property is only doubtful.
pub(super) fn mark(properties: &mut [Property]) -> Option<Inferred> {
    let first_member = u16::try_from(properties.len()).ok()?;
    let number = |property: &Property| match property.kind {
        PropertyType::Value { in_type, .. } => Some(in_type.0),
        PropertyType::Struct { .. } => None,
    };
    let is_unknown = |number: u16| number == InType::STRUCT.0 || (26..300).contains(&number);
    let has_unknown = properties.iter().filter_map(number).any(is_unknown);
    let at = properties.iter().position(|property| {
        number(property).is_some_and(|number| number == first_member || has_unknown && is_unknown(number))
    })?;
    let property = properties.get_mut(at)?;
    let PropertyType::Value { in_type, .. } = &mut property.kind else { return None };
    // Almost any bytes are strings, so that even an exact end would prove nothing.
    let is_text =
        matches!(*in_type, InType::UNICODE_STRING | InType::ANSI_STRING) && property.count != Count::One;
    if has_unknown || is_text {
        *in_type = InType::UNKNOWN_EXTENT;
        property.count = Count::One;
        return None;
    }
    Some(Inferred { from: at as u16, what: Inference::Type })
}

#[cfg(test)]
mod tests {
    use super::*;
    use openetw::schema::OutType;

    #[test]
    fn types_that_equal_the_number_of_properties_are_doubted() {
        let check = |types: &[u16], unknown: Option<usize>, from: Option<u16>| {
            let mut properties: Vec<Property> =
                types.iter().map(|number| Property::scalar("x", InType(*number), OutType::NULL)).collect();
            let inferred = mark(&mut properties);
            let extent = Property::scalar("x", InType::UNKNOWN_EXTENT, OutType::NULL);
            assert_eq!(properties.iter().position(|property| *property == extent), unknown, "{types:?}");
            assert_eq!(inferred.map(|inferred| inferred.from), from, "{types:?}");
        };
        check(&[7, 13, 20, 23, 16, 16, 29], Some(0), None);
        check(&[8, 1, 29], Some(2), None);
        check(&[1, 2, 8], None, None);
        check(&[1, 3, 8], None, Some(1));
        check(&[8, 1], None, None);
        check(&[], None, None);
    }
}
