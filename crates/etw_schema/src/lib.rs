//! What payloads mean, as TDH tells it on Windows: schemas from every source, layouts, values and their text.
//!
//! A source (an instrumentation manifest, a WEVT_TEMPLATE resource, a MOF class, TraceLogging metadata, …) is read
//! into [`Provider`]s and [`EventSchema`]s, whatever it was written in; everything behind that knows only these.

pub mod builtin;
mod compiled;
mod layout;
pub mod manifest;
pub mod model;
mod properties;
mod tables;
pub mod text;
mod value;
pub mod wevt;

pub use compiled::{CompiledSchema, EventLabel};
pub use layout::{
    Format, Layout, LayoutDefect, LocateError, LocateErrorKind, Located, MAX_DEPTH, MAX_EMPTY_VALUES,
};
pub use model::{
    ChannelName, Count, Decoding, EventSchema, InType, KeywordName, Length, MapEntry, MapKind, MessageStyle,
    OpcodeName, OutType, Property, PropertyType, Provider, ProviderInfo, TaskName, ValueMap, ValueName,
};
pub use properties::{
    Array, Members, PayloadError, Properties, PropertyError, PropertyIndex, PropertyValue, Struct,
};
pub use value::{FromValue, SystemTime, Value};
