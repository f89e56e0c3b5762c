//! What payloads mean, as TDH tells it on Windows: schemas from every source, layouts, values and their text.
//!
//! A source (an instrumentation manifest, a WEVT_TEMPLATE resource, a MOF class, TraceLogging metadata, …) is read
//! into [`Provider`]s and [`EventSchema`]s, whatever it was written in; everything behind that knows only these.

pub mod builtin;
pub mod model;

pub use model::{
    ChannelName, Count, Decoding, EventSchema, InType, KeywordName, Length, MapEntry, MapKind, MessageStyle,
    OpcodeName, OutType, Property, PropertyType, Provider, ProviderInfo, TaskName, ValueMap, ValueName,
};
