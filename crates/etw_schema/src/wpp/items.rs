//! The types of trace message arguments.
//!
//! Source: Microsoft Learn, "What are the WPP extended format specification strings", and published TMF files.

use std::sync::Arc;

use crate::{InType, Length, MapEntry, MapKind, OutType, PropertyType, ValueMap};

/// Items without parameters, with their encoding and text form.
const ITEMS: &[(&str, InType, OutType)] = &[
    ("ItemChar", InType::INT8, OutType::NULL),
    ("ItemUChar", InType::UINT8, OutType::NULL),
    ("ItemCharShort", InType::INT8, OutType::NULL),
    ("ItemCharSign", InType::INT16, OutType::NULL),
    ("ItemShort", InType::INT16, OutType::NULL),
    ("ItemUShort", InType::UINT16, OutType::NULL),
    ("ItemLong", InType::INT32, OutType::NULL),
    ("ItemULong", InType::UINT32, OutType::NULL),
    ("ItemULongX", InType::UINT32, OutType::HEX_INT32),
    ("ItemLongX", InType::UINT32, OutType::HEX_INT32),
    ("ItemLongLong", InType::INT64, OutType::NULL),
    ("ItemULongLong", InType::UINT64, OutType::NULL),
    ("ItemLongLongX", InType::UINT64, OutType::HEX_INT64),
    ("ItemLongLongXX", InType::UINT64, OutType::HEX_INT64),
    ("ItemLongLongO", InType::UINT64, OutType::NULL),
    ("ItemPtr", InType::POINTER, OutType::NULL),
    ("ItemDouble", InType::DOUBLE, OutType::NULL),
    ("ItemString", InType::ANSI_STRING, OutType::NULL),
    ("ItemWString", InType::UNICODE_STRING, OutType::NULL),
    ("ItemPString", InType::COUNTED_ANSI_STRING, OutType::NULL),
    ("ItemPWString", InType::COUNTED_UNICODE_STRING, OutType::NULL),
    ("ItemNString", InType::COUNTED_ANSI_STRING, OutType::NULL),
    ("ItemNWString", InType::COUNTED_UNICODE_STRING, OutType::NULL),
    ("ItemRString", InType::ANSI_STRING, OutType::REDUCED_STRING),
    ("ItemRWString", InType::UNICODE_STRING, OutType::REDUCED_STRING),
    ("ItemMLString", InType::ANSI_STRING, OutType::REDUCED_STRING),
    ("ItemGuid", InType::GUID, OutType::NULL),
    ("ItemCLSID", InType::GUID, OutType::NULL),
    ("ItemIID", InType::GUID, OutType::NULL),
    ("ItemLIBID", InType::GUID, OutType::NULL),
    ("ItemNTSTATUS", InType::UINT32, OutType::NTSTATUS),
    ("ItemNTerror", InType::UINT32, OutType::NTSTATUS),
    ("ItemWINERROR", InType::UINT32, OutType::WIN32_ERROR),
    ("ItemHRESULT", InType::INT32, OutType::HRESULT),
    ("ItemNDIS_STATUS", InType::UINT32, OutType::HEX_INT32),
    ("ItemTimestamp", InType::FILETIME, OutType::NULL),
    ("ItemTimeDelta", InType::INT64, OutType::TIME_DELTA),
    ("ItemWaitTime", InType::INT64, OutType::TIME_DELTA),
    ("ItemIPAddr", InType::UINT32, OutType::IPV4),
    ("ItemIPV6Addr", InType::BINARY, OutType::IPV6),
    ("ItemMACAddr", InType::BINARY, OutType::MAC_ADDRESS),
    ("ItemPort", InType::UINT16, OutType::PORT),
    ("ItemSid", InType::SID, OutType::NULL),
    ("ItemHexDump", InType::WPP_HEX_DUMP, OutType::NULL),
    ("ItemChar4", InType::UINT32, OutType::CHAR4),
    ("ItemEnum", InType::UINT32, OutType::NULL),
];

/// Items with names for their values: lists by position, sets by bit.
const LISTS: &[(&str, InType, MapKind)] = &[
    ("ItemListByte", InType::UINT8, MapKind::Value),
    ("ItemListShort", InType::UINT16, MapKind::Value),
    ("ItemListLong", InType::UINT32, MapKind::Value),
    ("ItemSetByte", InType::UINT8, MapKind::BitPositions),
    ("ItemSetShort", InType::UINT16, MapKind::BitPositions),
    ("ItemSetLong", InType::UINT32, MapKind::BitPositions),
    ("ItemSetLongLong", InType::UINT64, MapKind::BitPositions),
];

/// Parses an item's type, such as `ItemListByte(Low,APC,DPC)`. Returns `None` if it is unknown; arguments after one of
/// unknown type cannot be located.
pub(super) fn item(text: &str, enums: &[Arc<ValueMap>]) -> Option<(PropertyType, Length)> {
    let (name, parameters) = match text.split_once('(') {
        Some((name, rest)) => (name.trim(), Some(rest.trim_end().strip_suffix(')')?)),
        None => (text.trim(), None),
    };
    if let Some((_, in_type, kind)) = LISTS.iter().find(|(list, ..)| *list == name) {
        let texts = parameters?.split(',').enumerate();
        let entries =
            texts.map(|(at, text)| MapEntry { value: at as u64, text: text.trim().into() }).collect();
        let map = Some(Arc::new(ValueMap { name: name.into(), kind: *kind, entries }));
        let kind = PropertyType::Value { in_type: *in_type, out_type: OutType::NULL, map };
        return Some((kind, Length::Natural));
    }
    let (_, in_type, out_type) = *ITEMS.iter().find(|(item, ..)| *item == name)?;
    let map = match (name, parameters) {
        ("ItemEnum", Some(wanted)) => enums.iter().find(|map| &*map.name == wanted.trim()).cloned(),
        _ => None,
    };
    let length = match name {
        "ItemIPV6Addr" => Length::Fixed(16),
        "ItemMACAddr" => Length::Fixed(6),
        _ => Length::Natural,
    };
    Some((PropertyType::Value { in_type, out_type, map }, length))
}
