//! The macros that define providers and write TraceLogging events.

use etw_event::{EventDescriptor, Keyword, Level, Opcode};

/// Defines providers as statics.
///
/// ```
/// use etw_provider::{Guid, provider};
///
/// provider! {
///     /// The GUID is derived from the name, as in EventSource and TraceLogging.
///     pub static APP: "MyCompany.MyApp";
///     /// With an explicit GUID and a group.
///     static OTHER: "MyCompany.Other",
///         guid: Guid::from_u128(0x5b2c2bd2_4f4e_4d3c_9d9c_0a1b2c3d4e5f),
///         group: Guid::from_u128(0x4f50731a_89cf_4782_b3e0_dce8c90476ba);
/// }
/// assert_eq!(APP.guid(), Guid::from_provider_name("MyCompany.MyApp"));
/// assert_eq!(OTHER.name(), "MyCompany.Other");
/// ```
#[macro_export]
macro_rules! provider {
    () => {};
    (
        $(#[$meta:meta])* $vis:vis static $name:ident : $text:expr, guid: $guid:expr, group: $group:expr
        $(; $($rest:tt)*)?
    ) => {
        $crate::__provider!([$(#[$meta])* $vis] $name, $text, $guid, ::core::option::Option::Some($group));
        $($crate::provider! { $($rest)* })?
    };
    ($(#[$meta:meta])* $vis:vis static $name:ident : $text:expr, guid: $guid:expr $(; $($rest:tt)*)?) => {
        $crate::__provider!([$(#[$meta])* $vis] $name, $text, $guid, ::core::option::Option::None);
        $($crate::provider! { $($rest)* })?
    };
    ($(#[$meta:meta])* $vis:vis static $name:ident : $text:expr, group: $group:expr $(; $($rest:tt)*)?) => {
        $crate::__provider!(
            [$(#[$meta])* $vis] $name, $text, $crate::guid_from_name($text), ::core::option::Option::Some($group)
        );
        $($crate::provider! { $($rest)* })?
    };
    ($(#[$meta:meta])* $vis:vis static $name:ident : $text:expr $(; $($rest:tt)*)?) => {
        $crate::__provider!(
            [$(#[$meta])* $vis] $name, $text, $crate::guid_from_name($text), ::core::option::Option::None
        );
        $($crate::provider! { $($rest)* })?
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __provider {
    ([$(#[$meta:meta])* $vis:vis] $name:ident, $text:expr, $guid:expr, $group:expr) => {
        $(#[$meta])*
        $vis static $name: $crate::Provider = {
            const __ETW_NAME: &str = $text;
            const __ETW_GUID: $crate::Guid = $guid;
            const __ETW_GROUP: ::core::option::Option<$crate::Guid> = $group;
            const __ETW_LEN: usize = $crate::metadata::traits_len(__ETW_NAME, __ETW_GROUP);
            static __ETW_TRAITS: [u64; $crate::metadata::item_words(__ETW_LEN)] = $crate::metadata::item(
                $crate::__private::ExtendedType::PROVIDER_TRAITS,
                &$crate::metadata::traits::<__ETW_LEN>(__ETW_NAME, __ETW_GROUP),
            );
            $crate::Provider::from_parts(__ETW_NAME, __ETW_GUID, __ETW_GROUP, &__ETW_TRAITS)
        };
    };
}

/// Writes a self-describing TraceLogging event, which any consumer decodes without a manifest.
///
/// `event!(PROVIDER, "EventName", options…, fields…)` returns an [`Outcome`](crate::Outcome). The description is
/// computed at compile time. The values are evaluated only if a session wants the event.
///
/// ```
/// use std::net::Ipv4Addr;
/// use etw_provider::{Keyword, Level, event, provider};
///
/// provider!(static APP: "MyCompany.MyApp");
///
/// let (path, size) = ("/tmp/x", 512u32);
/// event!(APP, "FileRead", level: Level::VERBOSE, keyword: Keyword(0x10), str8("path", path), u32("size", size));
/// event!(APP, "Plain");
/// event!(
///     APP,
///     "Request",
///     str8("url", "http://example.com", tag: 1),
///     u16("status", 404),
///     u32("flags", 0x1F, format: Hex),
///     f64_slice("times", &[0.5, 1.5]),
///     u8_array("digest", 4, [1, 2, 3, 4]),
///     structure("client", { ipv4("address", Ipv4Addr::LOCALHOST), port("port", 80) }),
/// );
/// ```
///
/// Options come before the fields:
///
/// | option | type | default |
/// |---|---|---|
/// | `level:` | [`Level`](crate::Level), a constant | `Level::VERBOSE` |
/// | `keyword:` | [`Keyword`](crate::Keyword), a constant | 0 |
/// | `opcode:` | [`Opcode`](crate::Opcode), a constant | `Opcode::INFO` |
/// | `task:` | `u16`, a constant | 0 |
/// | `id:`, `version:` | `u16` and `u8`, constants | 0 |
/// | `channel:` | `u8`, a constant | 11 |
/// | `tags:` | 28 bits, a constant | 0 |
/// | `activity:` | `&Guid` | the thread's |
/// | `related:` | `&Guid` | none |
///
/// A field is `type("name", value)`, optionally with `format:` (a [`metadata::Format`](crate::metadata::Format)) and
/// `tag:` (28 bits) after the value. The types are the modules of [`fields`](crate::fields): `u32`, `str8`, `guid` and
/// so on. `type_slice` takes a slice of any length, and `type_array("name", COUNT, value)` an array of fixed length.
/// `structure("name", { fields… })` groups fields.
#[macro_export]
macro_rules! event {
    ($provider:expr, $name:expr $(, $($rest:tt)*)?) => {
        $crate::__event!(($provider) ($name) {} (::core::option::Option::None) (::core::option::Option::None) $($($rest)*)?)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __event {
    ($p:tt $n:tt {$($o:tt)*} $a:tt $r:tt activity: $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($p $n {$($o)*} (::core::option::Option::Some($value)) $r $($($rest)*)?)
    };
    ($p:tt $n:tt {$($o:tt)*} $a:tt $r:tt related: $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($p $n {$($o)*} $a (::core::option::Option::Some($value)) $($($rest)*)?)
    };
    ($p:tt $n:tt {$($o:tt)*} $a:tt $r:tt $option:ident: $value:expr $(, $($rest:tt)*)?) => {
        $crate::__event!($p $n {$($o)* .$option($value)} $a $r $($($rest)*)?)
    };
    (
        ($provider:expr) ($name:expr) {$($option:tt)*} ($activity:expr) ($related:expr)
        $($kind:ident($($field:tt)*)),* $(,)?
    ) => {{
        const __ETW_OPTIONS: $crate::__private::Options = $crate::__private::Options::DEFAULT $($option)*;
        let provider: &$crate::Provider = &$provider;
        match provider.wanted(__ETW_OPTIONS.descriptor.level, __ETW_OPTIONS.descriptor.keyword) {
            0 => $crate::Outcome::NotEnabled,
            wanted => {
                const __ETW_NAME: &str = $name;
                const __ETW_FIELDS: &[$crate::metadata::Field<'static>] = &[$($crate::__field!($kind $($field)*)),*];
                const __ETW_LEN: usize = $crate::metadata::metadata_len(__ETW_NAME, __ETW_OPTIONS.tags, __ETW_FIELDS);
                static __ETW_SCHEMA: [u64; $crate::metadata::item_words(__ETW_LEN)] = $crate::metadata::item(
                    $crate::__private::ExtendedType::EVENT_SCHEMA_TL,
                    &$crate::metadata::metadata::<__ETW_LEN>(__ETW_NAME, __ETW_OPTIONS.tags, __ETW_FIELDS),
                );
                static __ETW_EVENT: $crate::EventMetadata<'static> =
                    $crate::EventMetadata::from_parts(__ETW_OPTIONS.descriptor, __ETW_NAME, &__ETW_SCHEMA);
                // One expression, so that values borrowed by the payload live long enough.
                provider.write_event(
                    wanted,
                    &__ETW_EVENT,
                    $activity,
                    $related,
                    &$crate::payload::Chain::EMPTY $(.and($crate::__value!($kind $($field)*)))*,
                )
            }
        }
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __field {
    (structure $name:expr, { $($kind:ident($($field:tt)*)),* $(,)? } $(, tag: $tag:expr)? $(,)?) => {
        $crate::metadata::Field::structure($name, &[$($crate::__field!($kind $($field)*)),*]) $(.tags($tag))?
    };
    ($kind:ident $name:expr, $value:expr $(, format: $format:ident)? $(, tag: $tag:expr)? $(,)?) => {
        $crate::fields::$kind::FIELD.named($name) $(.format($crate::metadata::Format::$format))? $(.tags($tag))?
    };
    ($kind:ident $name:expr, $count:expr, $value:expr $(, format: $format:ident)? $(, tag: $tag:expr)? $(,)?) => {
        $crate::fields::$kind::FIELD
            .named($name)
            .arity($crate::metadata::Arity::Fixed($count))
            $(.format($crate::metadata::Format::$format))?
            $(.tags($tag))?
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __value {
    (structure $name:expr, { $($kind:ident($($field:tt)*)),* $(,)? } $(, tag: $tag:expr)? $(,)?) => {
        $crate::payload::Chain::EMPTY $(.and($crate::__value!($kind $($field)*)))*
    };
    ($kind:ident $name:expr, $value:expr $(, format: $format:ident)? $(, tag: $tag:expr)? $(,)?) => {
        $crate::fields::$kind::value($value)
    };
    ($kind:ident $name:expr, $count:expr, $value:expr $(, format: $format:ident)? $(, tag: $tag:expr)? $(,)?) => {
        $crate::fields::$kind::value::<{ $count as usize }>(&$value)
    };
}

/// The options of [`event!`](crate::event!).
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The event's descriptor.
    pub descriptor: EventDescriptor,
    /// The event's tags.
    pub tags: u32,
}

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
        impl Options {
            $($(#[$doc])*
            pub const fn $name(mut self, $name: $type) -> Options {
                self.descriptor.$name = $name;
                self
            })*
        }
    };
}

options! {
    /// `level:`
    level: Level;
    /// `keyword:`
    keyword: Keyword;
    /// `opcode:`
    opcode: Opcode;
    /// `task:`
    task: u16;
    /// `id:`
    id: u16;
    /// `version:`
    version: u8;
    /// `channel:`
    channel: u8;
}

impl Options {
    /// The defaults; channel 11 marks TraceLogging.
    pub const DEFAULT: Options = Options {
        descriptor: EventDescriptor { channel: 11, level: Level::VERBOSE, ..EventDescriptor::ZERO },
        tags: 0,
    };

    /// `tags:`
    pub const fn tags(mut self, tags: u32) -> Options {
        self.tags = tags;
        self
    }
}
