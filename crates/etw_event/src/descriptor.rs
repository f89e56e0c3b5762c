//! Event descriptors, levels, keywords, opcodes, and the rule that decides whether an event passes an enable.

use std::fmt;

/// An event's identity within its provider (`EVENT_DESCRIPTOR`, `evntprov.h`).
///
/// For classic events `id`, `channel`, `task` and `keyword` are 0; `version`, `level` and `opcode` come from the
/// record's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EventDescriptor {
    /// Event id (manifest providers, EventSource), message number (WPP), 0 otherwise.
    pub id: u16,
    /// Version of the event.
    pub version: u8,
    /// Channel; 11 marks TraceLogging.
    pub channel: u8,
    /// Level.
    pub level: Level,
    /// Opcode; for classic events the event type.
    pub opcode: Opcode,
    /// Task.
    pub task: u16,
    /// Keyword mask.
    pub keyword: Keyword,
}

impl EventDescriptor {
    /// The descriptor with all fields zero, for struct update syntax in constants.
    pub const ZERO: EventDescriptor = EventDescriptor {
        id: 0,
        version: 0,
        channel: 0,
        level: Level(0),
        opcode: Opcode(0),
        task: 0,
        keyword: Keyword(0),
    };
}

macro_rules! named {
    ($(#[$doc:meta])* $type:ident($inner:ty) { $($(#[$item_doc:meta])* $constant:ident = $value:literal, $name:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $type(pub $inner);

        impl $type {
            $($(#[$item_doc])* pub const $constant: $type = $type($value);)*

            /// Returns the name in `winmeta.xml`, without the prefix `win:`.
            pub const fn standard_name(self) -> Option<&'static str> {
                match self.0 { $($value => Some($name),)* _ => None }
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.standard_name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{}({})", stringify!($type), self.0),
                }
            }
        }
    };
}

named! {
    /// Severity of an event: 1 is the most severe; 0 passes every level filter.
    Level(u8) {
        /// Passes every level filter.
        LOG_ALWAYS = 0, "LogAlways";
        /// Abnormal exit or termination.
        CRITICAL = 1, "Critical";
        /// Severe error.
        ERROR = 2, "Error";
        /// Warning, such as an allocation failure.
        WARNING = 3, "Warning";
        /// Neither error nor warning.
        INFORMATION = 4, "Information";
        /// Detailed trace.
        VERBOSE = 5, "Verbose";
    }
}

named! {
    /// What happened within a task; for classic events the event type.
    Opcode(u8) {
        /// Informational.
        INFO = 0, "Info";
        /// An activity starts.
        START = 1, "Start";
        /// An activity stops.
        STOP = 2, "Stop";
        /// Data collection starts (rundown at start).
        DC_START = 3, "DCStart";
        /// Data collection stops (rundown at stop).
        DC_STOP = 4, "DCStop";
        /// Extension.
        EXTENSION = 5, "Extension";
        /// A reply is sent.
        REPLY = 6, "Reply";
        /// An activity is resumed.
        RESUME = 7, "Resume";
        /// An activity is suspended.
        SUSPEND = 8, "Suspend";
        /// Data is sent.
        SEND = 9, "Send";
        /// Data is received.
        RECEIVE = 240, "Receive";
    }
}

/// A mask of keyword bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Keyword(pub u64);

impl fmt::Debug for Keyword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Returns whether an event passes an enable with `level`, `any` and `all`, by the rule of the ETW runtime.
///
/// Level 0 on either side passes. An event without keywords passes every mask; `any` of 0 means all bits.
/// Source: `EventEnabled` in the provider headers of the Windows SDK.
#[inline]
pub const fn passes(event: &EventDescriptor, level: Level, any: Keyword, all: Keyword) -> bool {
    let level_passes = level.0 == 0 || event.level.0 <= level.0;
    let mask = event.keyword.0;
    let any_passes = any.0 == 0 || mask & any.0 != 0;
    level_passes && (mask == 0 || (any_passes && mask & all.0 == all.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_enable_rule() {
        let check = |event: (u8, u64), enable: (u8, u64, u64), expected: bool| {
            let event =
                EventDescriptor { level: Level(event.0), keyword: Keyword(event.1), ..Default::default() };
            let passed = passes(&event, Level(enable.0), Keyword(enable.1), Keyword(enable.2));
            assert_eq!(passed, expected, "{event:?} {enable:?}");
        };
        check((4, 0x10), (4, 0x10, 0), true);
        check((5, 0x10), (4, 0x10, 0), false);
        check((5, 0x10), (0, 0, 0), true);
        check((0, 0x10), (1, 0, 0), true);
        check((4, 0x10), (4, 0x20, 0), false);
        check((4, 0x30), (4, 0x20, 0x30), true);
        check((4, 0x20), (4, 0x20, 0x30), false);
        check((4, 0), (4, 0x20, 0x30), true);
        check((4, 0x8000_0000_0000_0000), (4, 0, 0), true);
    }
}
