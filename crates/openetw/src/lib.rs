//! Event Tracing for Windows as an open system: the crate that programs depend on.
//!
//! | module | what |
//! |---|---|
//! | the crate itself | reading traces: files merged in time order, filters, and the vocabulary of events |
//! | [`schema`] | what payloads mean: schemas of every source, values, text |
//! | [`etl`] | the bytes of trace files, reading and writing |
//! | [`export`] | events as JSON, CSV, XML, Windows event logs and text |
//! | [`analysis`] | tables over the kernel's events: CPU, waits, I/O, network |
//! | [`symbols`] | addresses to the names of functions |
//! | `provider` | on Linux: writing events, with the macros `provider!` and `event!` |
//! | `session` | on Linux: hosts, sessions, and enabling providers in them |
//! | `kernel` | on Linux: the system's own events, as the NT kernel logger has them |
//! | `profile` | on Linux: recording profiles (`.wprp`), and what of them can be recorded |
//! | `bridges` | on Linux, with the features `tracing` and `log`: what programs log by these, as events |
//! | [`testing`] | events made by hand, for tests of filters and callbacks |

#[cfg(all(target_os = "linux", any(feature = "log", feature = "tracing")))]
pub mod bridges;
#[cfg(target_os = "linux")]
pub mod kernel;
#[cfg(target_os = "linux")]
pub mod profile;
#[cfg(target_os = "linux")]
pub mod session;

pub use etw_consumer::*;
pub use etw_event::{
    Clock, ClockType, EventDescriptor, ExtendedItem, ExtendedType, FileTime, Guid, HeaderKind, HookId,
    Keyword, Level, Opcode, Origin, Outline, PointerSize, Record, Sid, StackTrace, SystemTime, Ticks,
    classes,
};
#[cfg(target_os = "linux")]
pub use etw_provider::{event, provider};

/// What payloads mean, as TDH tells it on Windows.
pub mod schema {
    pub use etw_schema::*;
}

/// Writing events: providers, TraceLogging, activities.
#[cfg(target_os = "linux")]
pub mod provider {
    pub use etw_provider::*;
}

/// The bytes of trace files.
pub mod etl {
    pub use etw_etl::*;
}

/// Events as JSON, CSV, XML, Windows event logs and text.
pub mod export {
    pub use etw_export::*;
}

/// Tables over the kernel's events.
pub mod analysis {
    pub use etw_analysis::*;
}

/// Addresses to the names of functions.
pub mod symbols {
    pub use etw_symbols::*;
}

/// The examples of `docs/library.md` compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
pub struct LibraryPage;

/// The examples of `docs/providers.md` compile.
#[cfg(all(doctest, target_os = "linux"))]
#[doc = include_str!("../../../docs/providers.md")]
pub struct ProvidersPage;

/// The examples of `docs/recording.md` compile.
#[cfg(all(doctest, target_os = "linux"))]
#[doc = include_str!("../../../docs/recording.md")]
pub struct RecordingPage;

/// The examples of `docs/sessions.md` compile.
#[cfg(all(doctest, target_os = "linux"))]
#[doc = include_str!("../../../docs/sessions.md")]
pub struct SessionsPage;
