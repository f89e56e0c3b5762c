//! The contents of `winmeta.xml`, which any provider may use without defining them, and the names of types.
//!
//! ```
//! use etw_schema::manifest::winmeta;
//!
//! assert_eq!(winmeta::level("win:Warning"), Some(3));
//! assert_eq!(winmeta::shown_level(4, "win:Informational"), "Information");
//! ```

use crate::{InType, OutType};
use etw_event::{Level, Opcode};

/// Returns the value of a level by name, with or without `win:`. Exported manifests contain `win:Always`.
pub fn level(name: &str) -> Option<u8> {
    Some(match name.strip_prefix("win:")? {
        "LogAlways" | "Always" => 0,
        "Critical" => 1,
        "Error" => 2,
        "Warning" => 3,
        "Informational" => 4,
        "Verbose" => 5,
        reserved => {
            return reserved
                .strip_prefix("ReservedLevel")?
                .parse()
                .ok()
                .filter(|value| (6..16).contains(value));
        }
    })
}

/// Returns the level's name for events: the standard text for a standard value, otherwise the source's name.
pub fn shown_level(value: u8, name: &str) -> &str {
    if name.starts_with("win:")
        && let Some(standard) = Level(value).standard_name()
    {
        return standard;
    }
    name
}

/// Returns the name in manifests of a level that [`shown_level`] renames.
pub fn written_level(value: u8, shown: &str) -> Option<&'static str> {
    if Level(value).standard_name() != Some(shown) {
        return None;
    }
    ["win:LogAlways", "win:Critical", "win:Error", "win:Warning", "win:Informational", "win:Verbose"]
        .get(usize::from(value))
        .copied()
}

const OPCODES: [(&str, u8); 11] = [
    ("win:Info", 0),
    ("win:Start", 1),
    ("win:Stop", 2),
    ("win:DC_Start", 3),
    ("win:DC_Stop", 4),
    ("win:Extension", 5),
    ("win:Reply", 6),
    ("win:Resume", 7),
    ("win:Suspend", 8),
    ("win:Send", 9),
    ("win:Receive", 240),
];

/// Returns the value of an opcode by name.
pub fn opcode(name: &str) -> Option<u8> {
    OPCODES.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// Returns the opcode's name for events: the standard text for a standard name, otherwise the source's name.
pub fn shown_opcode(value: u8, name: &str) -> &str {
    if opcode(name) == Some(value)
        && let Some(standard) = Opcode(value).standard_name()
    {
        return standard;
    }
    name
}

/// Returns the name in manifests of an opcode that [`shown_opcode`] renames.
pub fn written_opcode(value: u8, shown: &str) -> Option<&'static str> {
    if Opcode(value).standard_name() != Some(shown) {
        return None;
    }
    OPCODES.iter().find(|(_, known)| *known == value).map(|(name, _)| *name)
}

/// The keywords, with their masks.
pub const KEYWORDS: [(&str, u64); 9] = [
    ("win:ResponseTime", 0x0001_0000_0000_0000),
    ("win:WDIContext", 0x0002_0000_0000_0000),
    ("win:WDIDiag", 0x0004_0000_0000_0000),
    ("win:SQM", 0x0008_0000_0000_0000),
    ("win:AuditFailure", 0x0010_0000_0000_0000),
    ("win:AuditSuccess", 0x0020_0000_0000_0000),
    ("win:CorrelationHint", 0x0040_0000_0000_0000),
    ("win:EventlogClassic", 0x0080_0000_0000_0000),
    ("win:AnyKeyword", 0),
];

/// Returns the mask of a keyword by name.
pub fn keyword(name: &str) -> Option<u64> {
    KEYWORDS.iter().find(|(known, _)| *known == name).map(|(_, mask)| *mask)
}

const CHANNELS: [(&str, u8); 6] = [
    ("TraceClassic", 0),
    ("System", 8),
    ("Application", 9),
    ("Security", 10),
    ("TraceLogging", 11),
    ("ProviderMetadata", 12),
];

/// Returns the value of a channel by name.
pub fn channel(name: &str) -> Option<u8> {
    let name = name.strip_prefix("win:").unwrap_or(name);
    CHANNELS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
}

/// Returns an in-type by name, with any prefix. The flag says whether the type is known. Types without a name are
/// exported from Windows by number, `win:28`.
pub fn in_type(name: &str) -> Option<(InType, bool)> {
    let local = local(name);
    if let Ok(number) = local.parse::<u16>() {
        let in_type = InType(number);
        return Some((in_type, in_type.name().is_some()));
    }
    let found = match local {
        "string" => InType::UNICODE_STRING,
        "BinaryToEnd" => InType::BINARY_TO_END,
        _ => (1..=25)
            .map(InType)
            .chain((300..=310).map(InType))
            .find(|in_type| in_type.name().is_some_and(|known| known.eq_ignore_ascii_case(local)))?,
    };
    Some((found, true))
}

/// Returns an out-type by name, ignoring prefix and case: manifests contain both `xs:HexInt32` and `win:HexInt32`.
pub fn out_type(name: &str) -> Option<OutType> {
    let wanted = local(name);
    if let Ok(number) = wanted.parse::<u16>() {
        return Some(OutType(number));
    }
    let known =
        |out_type: &OutType| out_type.name().is_some_and(|name| local(name).eq_ignore_ascii_case(wanted));
    (0..=38).chain(300..=301).map(OutType).find(known)
}

fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values() {
        assert_eq!(level("win:Informational"), Some(4));
        assert_eq!(level("win:ReservedLevel7"), Some(7));
        assert_eq!(level("win:ReservedLevel16"), None);
        assert_eq!(level("Mine"), None);
        assert_eq!(shown_level(4, "win:Informational"), "Information");
        assert_eq!(written_level(4, "Information"), Some("win:Informational"));
        assert_eq!(shown_level(17, "Mine"), "Mine");
        assert_eq!(opcode("win:Receive"), Some(240));
        assert_eq!(shown_opcode(3, "win:DC_Start"), "DCStart");
        assert_eq!(written_opcode(3, "DCStart"), Some("win:DC_Start"));
        assert_eq!(written_opcode(3, "Start"), None);
        assert_eq!(channel("system"), Some(8));
        assert_eq!(keyword("win:SQM"), Some(1 << 51));
    }

    #[test]
    fn types() {
        assert_eq!(in_type("win:UnicodeString"), Some((InType::UNICODE_STRING, true)));
        assert_eq!(in_type("xs:string"), Some((InType::UNICODE_STRING, true)));
        assert_eq!(in_type("trace:UInt32"), Some((InType::UINT32, true)));
        assert_eq!(in_type("win:28"), Some((InType(28), false)));
        assert_eq!(in_type("win:Nonsense"), None);
        assert_eq!(out_type("xs:HexInt32"), Some(OutType::HEX_INT32));
        assert_eq!(out_type("win:SocketAddress"), Some(OutType::SOCKET_ADDRESS));
        assert_eq!(out_type("xs:nonsense"), None);
    }
}
