//! Support for crates that turn the records of other logging libraries into events, such as `tracing-openetw` and
//! `openetw-logger`.
//!
//! Such libraries know the fields of an event only at run time. An [`EventTemplate`] describes the event once for each
//! logging statement; [`with_values`] collects the values of one event in memory that the thread reuses.
//!
//! ```
//! use etw_provider::bridge::{EventTemplate, FieldKind, Options, Values, with_values};
//! use etw_provider::{Keyword, Level, provider};
//!
//! provider!(static APP: "MyCompany.MyApp");
//!
//! let template = EventTemplate::new("Logged", [("count", FieldKind::U64.field()), ("text", FieldKind::Text.field())]);
//! let wanted = APP.wanted(Level::INFORMATION, Keyword(0));
//! if wanted != 0 {
//!     with_values(|values| {
//!         values.add("count", FieldKind::U64, 7u64.to_le_bytes());
//!         values.add_text("text", "some text");
//!         let options = Options::DEFAULT.level(Level::INFORMATION);
//!         template.write(&APP, wanted, options, None, None, values.bytes.as_slice());
//!     });
//! }
//! ```

mod values;

pub use self::values::{FieldKind, NamedField, Values, put_text, with_values};
pub use crate::builder::EventTemplate;
pub use crate::macros::Options;
