//! The reasons why a record has no schema.

use std::sync::Arc;

use etw_event::{Guid, HeaderKind, HookId};

use crate::text::is_disruptive;
use crate::tracelogging::TraceLoggingError;

/// Why a record has no schema. Each reason displays as one line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Undecoded {
    /// No source knows the provider.
    #[error("no schema of provider {}{provider}", named(.name))]
    UnknownProvider {
        /// The provider.
        provider: Guid,
        /// Its name, if known.
        name: Option<Arc<str>>,
    },
    /// The provider is known, but not this event.
    #[error("provider {} {provider} is known, event id {id} version {version} is not{}", on_one_line(.name), also(.other_versions))]
    UnknownEvent {
        /// The provider.
        provider: Guid,
        /// Its name.
        name: Arc<str>,
        /// The event's id.
        id: u16,
        /// Its version.
        version: u8,
        /// Whether other versions of the id are known.
        other_versions: bool,
    },
    /// No source knows the class of a classic event.
    #[error("no schema of class {class} (event type {opcode}, version {version})")]
    UnknownClass {
        /// The class.
        class: Guid,
        /// The event type.
        opcode: u8,
        /// The version.
        version: u8,
    },
    /// The class is known, but not this event type, or only in later versions.
    #[error("class {} {class} is known, event type {opcode} version {version} is not", on_one_line(.name))]
    UnknownType {
        /// The class.
        class: Guid,
        /// Its name.
        name: Arc<str>,
        /// The event type.
        opcode: u8,
        /// The version.
        version: u8,
    },
    /// A kernel event in a group without a class.
    #[error("kernel event {:#06x} version {version} belongs to no known class", .hook.0)]
    UnknownHook {
        /// The hook id.
        hook: HookId,
        /// The version.
        version: u8,
    },
    /// No TMF with the message's GUID.
    #[error("no WPP format of message GUID {message} (message {number})")]
    UnknownMessageGuid {
        /// The message GUID.
        message: Guid,
        /// The message's number.
        number: u16,
    },
    /// The message GUID is known, but not the number.
    #[error("WPP messages of {name} {message} are known, number {number} is not")]
    UnknownMessage {
        /// The message GUID.
        message: Guid,
        /// Name of the source directory.
        name: Arc<str>,
        /// The message's number.
        number: u16,
    },
    /// A WPP message without a GUID in its header.
    #[error("the WPP message carries no GUID by which to find its format")]
    NamelessMessage,
    /// The event's TraceLogging metadata is invalid.
    #[error("broken TraceLogging metadata: {0}")]
    TraceLogging(TraceLoggingError),
    /// A kind of record that does not identify its event.
    #[error("records of kind {0:?} do not identify their event")]
    Nameless(HeaderKind),
}

fn named(name: &Option<Arc<str>>) -> String {
    name.as_ref().map_or(String::new(), |name| format!("{} ", on_one_line(name)))
}

/// Replaces control characters in a name, since traces may contain any characters in provider names.
fn on_one_line(name: &str) -> String {
    name.chars().map(|c| if is_disruptive(c) { '\u{FFFD}' } else { c }).collect()
}

fn also(other_versions: &bool) -> &'static str {
    if *other_versions { " (the id is, in other versions)" } else { "" }
}
