//! Encoding of types of lower crates in messages, as numbers and bytes.

/// Defines a module for `#[serde(with = …)]` that serialises a type as another one.
macro_rules! as_plain {
    ($module:ident, $type:ty, $plain:ty, $value:ident => $to:expr, $from:expr) => {
        pub(crate) mod $module {
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            pub(crate) fn serialize<S: Serializer>($value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                let plain: $plain = $to;
                plain.serialize(serializer)
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                <$plain>::deserialize(deserializer).map($from)
            }
        }
    };
}

as_plain!(guid, etw_event::Guid, [u8; 16], value => value.to_bytes(), etw_event::Guid::from_bytes);
as_plain!(level, etw_event::Level, u8, value => value.0, etw_event::Level);
as_plain!(keyword, etw_event::Keyword, u64, value => value.0, etw_event::Keyword);
as_plain!(mode, etw_etl::LogFileMode, u32, value => value.0, etw_etl::LogFileMode);
as_plain!(filetime, etw_event::FileTime, i64, value => value.0, etw_event::FileTime);
