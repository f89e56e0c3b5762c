//! What a session wants of a provider (`EnableTraceEx2`).

use serde::{Deserialize, Serialize};

use etw_event::{Guid, Keyword, Level};

use crate::codec::{at_most, text};
use crate::limits::{
    MAX_FILTER_DATA_BYTES, MAX_FILTER_IDS, MAX_FILTER_NAMES, MAX_FILTER_PIDS, MAX_FILTERS, MAX_NAME_BYTES,
    MAX_PREDICATES,
};
use crate::{ProtocolError, wire};

/// What a session wants of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Enable {
    /// Highest level that is wanted; 0 for all.
    #[serde(with = "wire::level")]
    pub level: Level,
    /// Events with one of these keywords are wanted; 0 for all.
    #[serde(with = "wire::keyword")]
    pub any: Keyword,
    /// Of those, the ones with all of these keywords.
    #[serde(with = "wire::keyword")]
    pub all: Keyword,
    /// What is written beside each event, and special rules.
    pub properties: EnableProperties,
    /// Further conditions; an event must meet all.
    pub filters: Vec<Filter>,
    /// Who asks, for the provider's callback (`SourceId`); zero if nobody in particular.
    #[serde(with = "wire::guid")]
    pub source: Guid,
}

/// `EVENT_ENABLE_PROPERTY_*` (`evntrace.h`); unknown bits are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EnableProperties(pub u32);

impl EnableProperties {
    /// The user's SID is added to each event.
    pub const SID: u32 = 0x1;
    /// The terminal session's id is added.
    pub const TS_ID: u32 = 0x2;
    /// The call stack is added.
    pub const STACK_TRACE: u32 = 0x4;
    /// Events without keywords are left out.
    pub const IGNORE_KEYWORD_0: u32 = 0x10;
    /// The GUID names a group of providers.
    pub const PROVIDER_GROUP: u32 = 0x20;
    /// The unique key of the process is added.
    pub const PROCESS_START_KEY: u32 = 0x80;
    /// A unique key of the event is added.
    pub const EVENT_KEY: u32 = 0x100;
    /// The id of the container is added.
    pub const SOURCE_CONTAINER_TRACKING: u32 = 0x800;

    /// Whether all bits of `bits` are set.
    pub const fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }
}

/// A condition beside level and keywords (`EVENT_FILTER_DESCRIPTOR`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Filter {
    /// Events with these ids, or all but these (`EVENT_FILTER_TYPE_EVENT_ID`).
    EventIds {
        /// Whether these are the ones that are wanted.
        include: bool,
        /// The ids.
        ids: Vec<u16>,
    },
    /// TraceLogging events with these names, or all but these (`EVENT_FILTER_TYPE_EVENT_NAME`). Decides only about
    /// events of the level and keywords given here; the others pass.
    EventNames {
        /// Whether these are the ones that are wanted.
        include: bool,
        /// Highest level that is looked at; 0 for all.
        #[serde(with = "wire::level")]
        level: Level,
        /// Keywords that are looked at; 0 for all.
        #[serde(with = "wire::keyword")]
        any: Keyword,
        /// Keywords that must all be set to be looked at.
        #[serde(with = "wire::keyword")]
        all: Keyword,
        /// The names.
        names: Vec<String>,
    },
    /// Events whose payload meets conditions (`EVENT_FILTER_TYPE_PAYLOAD`).
    Payload(PayloadFilter),
    /// Providers in these processes (`EVENT_FILTER_TYPE_PID`). The host decides by it which processes are enabled.
    Pids(Vec<u32>),
    /// Providers in processes that run a program of one of these file names (`EVENT_FILTER_TYPE_EXECUTABLE_NAME`).
    /// The host decides by it which processes are enabled.
    ExecutableNames(Vec<String>),
    /// Stacks are added only to events with these ids, or to all but these (`EVENT_FILTER_TYPE_STACKWALK`).
    StackWalkIds {
        /// Whether these are the ones with stacks.
        include: bool,
        /// The ids.
        ids: Vec<u16>,
    },
    /// Stacks are added only to TraceLogging events with these names, or to all but these
    /// (`EVENT_FILTER_TYPE_STACKWALK_NAME`).
    StackWalkNames {
        /// Whether these are the ones with stacks.
        include: bool,
        /// The names.
        names: Vec<String>,
    },
    /// Stacks are added only to events of a level and keywords, or to all others
    /// (`EVENT_FILTER_TYPE_STACKWALK_LEVEL_KW`).
    StackWalkLevelKeyword {
        /// Whether these are the ones with stacks.
        include: bool,
        /// Highest level; 0 for all.
        #[serde(with = "wire::level")]
        level: Level,
        /// One of these keywords; 0 for all.
        #[serde(with = "wire::keyword")]
        any: Keyword,
        /// All of these keywords.
        #[serde(with = "wire::keyword")]
        all: Keyword,
    },
    /// Data for the provider's own callback (`EVENT_FILTER_TYPE_SCHEMATIZED` and other types).
    Data {
        /// `EVENT_FILTER_DESCRIPTOR.Type`.
        kind: u32,
        /// The bytes.
        data: Vec<u8>,
    },
}

/// Conditions on the payload of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadFilter {
    /// The events that the conditions are about, by id; the others pass. `None` for all events.
    pub event: Option<u16>,
    /// Whether one of the predicates is enough.
    pub any: bool,
    /// The predicates.
    pub predicates: Vec<PayloadPredicate>,
}

/// A condition on one field (`PAYLOAD_FILTER_PREDICATE`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadPredicate {
    /// The field's name.
    pub field: String,
    /// How it is compared.
    pub operator: PayloadOperator,
    /// What it is compared with, as text; a range is `1,10`.
    pub value: String,
}

/// `PAYLOAD_OPERATOR` (`tdh.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PayloadOperator {
    /// Equal (`PAYLOADFIELD_EQ`).
    Equal,
    /// Not equal.
    NotEqual,
    /// Less or equal.
    LessOrEqual,
    /// Greater.
    Greater,
    /// Less.
    Less,
    /// Greater or equal.
    GreaterOrEqual,
    /// Within a range, both ends included.
    Between,
    /// Outside of a range.
    NotBetween,
    /// A number that the value divides (`PAYLOADFIELD_MODULO`).
    Modulo,
    /// Text that contains another, whatever the case.
    Contains,
    /// Text that does not.
    DoesNotContain,
    /// Equal, whatever the case.
    Is,
    /// Not equal, whatever the case.
    IsNot,
}

impl Enable {
    /// Whether everything is within the limits.
    pub(crate) fn check(&self) -> Result<(), ProtocolError> {
        at_most("filters", self.filters.len(), MAX_FILTERS)?;
        self.filters.iter().try_for_each(Filter::check)
    }
}

impl Filter {
    /// Whether the filter lets a process pass that runs a program of this file name. Filters that are not about processes
    /// do.
    pub fn lets_process_pass(&self, process_id: u32, executable: &str) -> bool {
        match self {
            Filter::Pids(pids) => pids.contains(&process_id),
            Filter::ExecutableNames(names) => {
                let mut names = names.iter().flat_map(|names| names.split(';'));
                names.any(|name| same_program(name.trim(), executable))
            }
            _ => true,
        }
    }

    fn check(&self) -> Result<(), ProtocolError> {
        match self {
            Filter::EventIds { ids, .. } | Filter::StackWalkIds { ids, .. } => {
                at_most("event ids of a filter", ids.len(), MAX_FILTER_IDS)
            }
            Filter::EventNames { names, .. } | Filter::StackWalkNames { names, .. } => {
                check_names("event names of a filter", names)
            }
            Filter::ExecutableNames(names) => check_names("program names of a filter", names),
            Filter::Pids(pids) => at_most("process ids of a filter", pids.len(), MAX_FILTER_PIDS),
            Filter::Payload(payload) => {
                at_most("predicates of a filter", payload.predicates.len(), MAX_PREDICATES)?;
                payload.predicates.iter().try_for_each(|predicate| {
                    text("a field of a predicate", &predicate.field, MAX_NAME_BYTES)?;
                    at_most("bytes of a predicate's value", predicate.value.len(), MAX_NAME_BYTES)
                })
            }
            Filter::Data { data, .. } => {
                at_most("bytes of a filter's data", data.len(), MAX_FILTER_DATA_BYTES)
            }
            Filter::StackWalkLevelKeyword { .. } => Ok(()),
        }
    }
}

/// Whether a name of a filter is that of a program, with or without `.exe` and whatever the case.
fn same_program(name: &str, executable: &str) -> bool {
    let bare = |name: &str| {
        let name = name.to_lowercase();
        name.strip_suffix(".exe").map(str::to_owned).unwrap_or(name)
    };
    bare(name) == bare(executable)
}

fn check_names(what: &'static str, names: &[String]) -> Result<(), ProtocolError> {
    at_most(what, names.len(), MAX_FILTER_NAMES)?;
    names.iter().try_for_each(|name| text("a name of a filter", name, MAX_NAME_BYTES))
}
