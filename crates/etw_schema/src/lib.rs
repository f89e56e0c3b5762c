//! Decodes event payloads, as TDH does on Windows: schemas from every source, layouts, values and their text.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! Every source (an instrumentation manifest, a WEVT_TEMPLATE resource, a MOF class, TraceLogging metadata, …) is read
//! into the same [`Provider`]s and [`EventSchema`]s. Later stages see only these.
//!
//! ```
//! use etw_event::Record;
//! use etw_schema::{Located, Resolver};
//!
//! /// Prints a record with its properties.
//! fn print(resolver: &mut Resolver, record: &Record<'_>) {
//!     let mut located = Located::default();
//!     let event = resolver.decode(record, &mut located);
//!     match &event.properties {
//!         Ok(properties) => println!("{:?}: {:?}", event.names().provider(), properties.get::<u32>("ProcessID").ok()),
//!         Err(undecoded) => println!("not decoded: {undecoded}"),
//!     }
//! }
//! ```

#![forbid(unsafe_code)]
// The bytes that are read here are untrusted: no cast and no index may depend on them unchecked.
#![warn(clippy::cast_possible_truncation, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation, clippy::indexing_slicing))]

pub mod builtin;
mod compiled;
mod event;
pub mod event_metadata;
pub mod event_source;
mod header;
pub mod kinds;
mod layout;
pub mod manifest;
pub mod message;
pub mod model;
pub mod mof;
mod names;
mod properties;
mod provider_spec;
pub mod publishers;
mod resolver;
mod socket_address;
mod source;
mod source_text;
pub mod store;
mod strings;
mod tables;
pub mod text;
pub mod tracelogging;
mod undecoded;
mod value;
mod value_text;
pub mod wevt;
pub mod wpp;

pub use compiled::{CompiledSchema, EventLabel};
pub use event::{Event, EventError};
pub use header::{
    HeaderField, HeaderObject, HeaderOrigin, HeaderPath, HeaderType, HeaderValue, HeaderVisitor, Source,
};
pub use layout::{
    Format, Layout, LayoutDefect, LocateError, LocateErrorKind, Located, MAX_DEPTH, MAX_EMPTY_VALUES,
};
pub use model::{
    ChannelName, Count, Decoding, EventNames, EventSchema, InType, Inference, Inferred, KeywordName, Length,
    MapEntry, MapKind, MessageStyle, OpcodeName, OutType, Property, PropertyType, Provider, ProviderInfo,
    TaskName, ValueMap, ValueName,
};
pub use names::{KERNEL_PROVIDER, Names};
pub use properties::{
    Array, Members, PayloadError, Properties, PropertyError, PropertyIndex, PropertyValue, Struct,
};
pub use provider_spec::{
    IdSet, KeywordSpec, ProviderKey, ProviderSpec, ProviderSpecError, level_by_name, parse_number,
};
pub use resolver::{Observed, Resolver};
pub use source::{Found, OtherLayouts, Providers, SchemaSource};
pub use undecoded::Undecoded;
pub use value::{FromValue, Value};
