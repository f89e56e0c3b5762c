//! Lengths and counts that a source does not state, from the names of the integers before a property.

use openetw::schema::{Count, InType, Inference, Inferred, Length, OutType, Property, PropertyType};

/// Endings and beginnings of the names of lengths.
const LENGTHS: [&str; 9] = [
    "lengthincharacters",
    "lengthinchars",
    "lengthinbytes",
    "length",
    "size",
    "bytecount",
    "bytes",
    "len",
    "count",
];
const COUNTS: [&str; 5] = ["arraycount", "arraysize", "count", "num", "number"];
const LENGTH_BEGINNINGS: [&str; 4] = ["cch", "cb", "sizeof", "lengthof"];
const COUNT_BEGINNINGS: [&str; 6] = ["numberof", "numof", "countof", "num", "number", "c"];

/// Derives lengths and counts where names say so. Binary of unknown length becomes the rest of the payload if it is
/// last, and an unknown extent otherwise.
pub(super) fn derive(properties: &mut [Property]) -> Option<Inferred> {
    let mut first = None;
    for at in 0..properties.len() {
        let (before, rest) = properties.split_at_mut(at);
        let Some((property, after)) = rest.split_first_mut() else { break };
        let PropertyType::Value { in_type, .. } = &mut property.kind else { continue };
        if property.length != Length::Natural || property.count != Count::One {
            continue;
        }
        let sized = matches!(*in_type, InType::UNICODE_STRING | InType::ANSI_STRING | InType::BINARY);
        let is_binary = *in_type == InType::BINARY;
        if sized && let Some(index) = length_of(&property.name, is_binary, before) {
            property.length = Length::Property(index);
            first = first.or(Some(at));
        } else if is_binary && plain(&property.name).contains("macaddr") {
            property.length = Length::Fixed(6);
            first = first.or(Some(at));
        } else if !sized && let Some(index) = count_of(&property.name, before) {
            property.count = Count::Property(index);
            first = first.or(Some(at));
        } else if is_binary {
            *in_type = if after.is_empty() { InType::BINARY_TO_END } else { InType::UNKNOWN_EXTENT };
        }
    }
    first.map(|at| Inferred { from: at as u16, what: Inference::Length })
}

/// Completes binary without a length in a manifest, which states all lengths that there are: it is the rest of the
/// payload if it is last, and an unknown extent otherwise.
pub(super) fn complete_binary(properties: &mut [Property]) {
    let last = properties.len().saturating_sub(1);
    for (at, property) in properties.iter_mut().enumerate() {
        let PropertyType::Value { in_type: in_type @ InType::BINARY, out_type, .. } = &mut property.kind
        else {
            continue;
        };
        if property.length == Length::Natural && *out_type != OutType::IPV6 {
            *in_type = if at == last { InType::BINARY_TO_END } else { InType::UNKNOWN_EXTENT };
        }
    }
}

/// Makes the rest of the payload an unknown extent in a layout that is inferred: since every payload ends where the rest
/// ends, that would prove nothing.
pub(super) fn close(properties: &mut [Property]) {
    for property in properties {
        if let PropertyType::Value { in_type: in_type @ InType::BINARY_TO_END, .. } = &mut property.kind {
            *in_type = InType::UNKNOWN_EXTENT;
        }
    }
}

/// Returns the index of the integer with the length of a property in its name.
fn length_of(name: &str, is_binary: bool, before: &[Property]) -> Option<u16> {
    let name = plain(name);
    let by_name = position(before, |known| {
        LENGTHS.iter().any(|end| known.strip_suffix(end) == Some(&name))
            || LENGTH_BEGINNINGS.iter().any(|start| known.strip_prefix(start) == Some(&name))
    });
    by_name.or_else(|| {
        // Binary always has a length, usually in the integer before it, under a similar name.
        let (last, at) = (before.last()?, before.len() - 1);
        let known = plain(&last.name);
        let says_so = LENGTHS.iter().any(|end| known.ends_with(end)) || known.starts_with("cb");
        (is_binary && is_integer(last) && says_so).then_some(at as u16)
    })
}

/// Returns the index of the integer with the count of an array in its name.
fn count_of(name: &str, before: &[Property]) -> Option<u16> {
    let name = plain(name);
    let singular = name.strip_suffix('s').unwrap_or(&name);
    let names = [name.as_str(), singular];
    let is_it = |rest: Option<&str>| rest.is_some_and(|rest| !rest.is_empty() && names.contains(&rest));
    position(before, |known| {
        COUNTS.iter().any(|end| is_it(known.strip_suffix(end)))
            || COUNT_BEGINNINGS.iter().any(|start| is_it(known.strip_prefix(start)))
    })
}

/// Returns the last integer before with such a name.
fn position(before: &[Property], is_it: impl Fn(&str) -> bool) -> Option<u16> {
    let at = before.iter().rposition(|known| is_integer(known) && is_it(&plain(&known.name)))?;
    u16::try_from(at).ok()
}

fn is_integer(property: &Property) -> bool {
    let PropertyType::Value { in_type, .. } = property.kind else { return false };
    in_type.is_integer() && in_type != InType::POINTER && property.count == Count::One
}

/// Returns a name in lower case without separators.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_which_integer_is_the_length() {
        let check = |fields: &[(&str, InType)], expected: &[(Length, Count)], from: Option<u16>| {
            let mut properties: Vec<Property> = fields
                .iter()
                .map(|(name, in_type)| Property::scalar(name, *in_type, OutType::NULL))
                .collect();
            let inferred = derive(&mut properties);
            let found: Vec<_> = properties.iter().map(|property| (property.length, property.count)).collect();
            assert_eq!(found, expected, "{fields:?}");
            assert_eq!(inferred.map(|inferred| inferred.from), from, "{fields:?}");
        };
        let one = (Length::Natural, Count::One);
        let (int, binary, wide) = (InType::UINT32, InType::BINARY, InType::UNICODE_STRING);
        check(
            &[("AddressLength", int), ("Address", binary)],
            &[one, (Length::Property(0), Count::One)],
            Some(1),
        );
        check(&[("cbData", int), ("Data", binary)], &[one, (Length::Property(0), Count::One)], Some(1));
        check(
            &[("DlAddrLength", int), ("DLAddress", binary)],
            &[one, (Length::Property(0), Count::One)],
            Some(1),
        );
        check(&[("NameLength", int), ("Name", wide)], &[one, (Length::Property(0), Count::One)], Some(1));
        check(&[("Length", int), ("Name", wide)], &[one, one], None);
        check(
            &[("StateCount", int), ("States", int)],
            &[one, (Length::Natural, Count::Property(0))],
            Some(1),
        );
        check(&[("Count", int), ("Total", int)], &[one, one], None);
        check(&[("Id", int), ("Data", binary)], &[one, one], None);
        check(&[("MacAddress1", binary), ("Id", int)], &[(Length::Fixed(6), Count::One), one], Some(0));
    }

    #[test]
    fn binary_of_unknown_length_ends_what_is_known() {
        let kinds = |fields: &[(&str, InType)]| {
            let mut properties: Vec<Property> = fields
                .iter()
                .map(|(name, in_type)| Property::scalar(name, *in_type, OutType::NULL))
                .collect();
            assert_eq!(derive(&mut properties), None);
            let kind = |property: &Property| match property.kind {
                PropertyType::Value { in_type, .. } => in_type,
                PropertyType::Struct { .. } => InType::STRUCT,
            };
            properties.iter().map(kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(&[("Blob", InType::BINARY)]), [InType::BINARY_TO_END]);
        assert_eq!(
            kinds(&[("Blob", InType::BINARY), ("Id", InType::UINT32)]),
            [InType::UNKNOWN_EXTENT, InType::UINT32]
        );
    }
}
