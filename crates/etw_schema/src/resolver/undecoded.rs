//! Why records have no schema.

use std::sync::Arc;

use etw_event::{Guid, HeaderKind, HookId};

use crate::tracelogging::TraceLoggingError;

/// Why a record has no schema. One line of text each.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Undecoded {
    /// No source knows any event of the provider.
    #[error("no schema of provider {}{provider}", named(.name))]
    UnknownProvider {
        /// The provider.
        provider: Guid,
        /// Its name, if that is known.
        name: Option<Arc<str>>,
    },
    /// The provider is known, this event of it is not.
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
        /// Whether the id is known in other versions, which are not guessed from.
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
    /// The class is known, this event type of it is not, or only in later versions.
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
    /// No TMF of the message's GUID.
    #[error("no WPP format of message GUID {message} (message {number})")]
    UnknownMessageGuid {
        /// The message GUID.
        message: Guid,
        /// The message's number.
        number: u16,
    },
    /// The message GUID is known, the number is not.
    #[error("WPP messages of {name} {message} are known, number {number} is not")]
    UnknownMessage {
        /// The message GUID.
        message: Guid,
        /// Name of the source directory.
        name: Arc<str>,
        /// The message's number.
        number: u16,
    },
    /// A WPP message whose header carries no GUID.
    #[error("the WPP message carries no GUID by which to find its format")]
    NamelessMessage,
    /// The TraceLogging metadata of the event is broken.
    #[error("broken TraceLogging metadata: {0}")]
    TraceLogging(TraceLoggingError),
    /// A kind of record that carries no name of its event.
    #[error("records of kind {0:?} do not say what they are")]
    Nameless(HeaderKind),
}

fn named(name: &Option<Arc<str>>) -> String {
    name.as_ref().map_or(String::new(), |name| format!("{} ", on_one_line(name)))
}

/// A name as it stands in a message: traces may give any characters to their providers.
fn on_one_line(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect()
}

fn also(other_versions: &bool) -> &'static str {
    if *other_versions { " (the id is, in other versions)" } else { "" }
}
