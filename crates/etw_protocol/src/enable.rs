//! Enable parameters of a provider (`EnableTraceEx2`).

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

use etw_event::{Guid, Keyword, Level};

use crate::codec::{at_most, text};
use crate::limits::{
    MAX_ALTERNATIVES, MAX_FILTER_DATA_BYTES, MAX_FILTER_IDS, MAX_FILTER_NAMES, MAX_FILTER_PIDS, MAX_FILTERS,
    MAX_LAYOUT_FIELDS, MAX_LAYOUTS, MAX_NAME_BYTES, MAX_PREDICATES,
};
use crate::{ProtocolError, wire};

/// The parameters with which a session enables a provider.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Enable {
    /// Maximum level; 0 for all.
    #[serde(with = "wire::level")]
    pub level: Level,
    /// Only events with at least one of these keywords; 0 for all.
    #[serde(with = "wire::keyword")]
    pub any: Keyword,
    /// Of those, only events with all of these keywords.
    #[serde(with = "wire::keyword")]
    pub all: Keyword,
    /// Extended data to add to each event, and special rules.
    pub properties: EnableProperties,
    /// Further filters; an event must pass all.
    pub filters: Vec<Filter>,
    /// Source of the enable, for the provider's callback (`SourceId`); zero if unspecified.
    #[serde(with = "wire::guid")]
    pub source: Guid,
}

/// `EVENT_ENABLE_PROPERTY_*` (`evntrace.h`); unknown bits are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EnableProperties(pub u32);

bitflags! {
    impl EnableProperties: u32 {
        /// Adds the user's SID to each event.
        const SID = 0x1;
        /// Adds the terminal session's id.
        const TS_ID = 0x2;
        /// Adds the call stack.
        const STACK_TRACE = 0x4;
        /// Drops events without keywords.
        const IGNORE_KEYWORD_0 = 0x10;
        /// The GUID names a group of providers.
        const PROVIDER_GROUP = 0x20;
        /// Adds the unique key of the process.
        const PROCESS_START_KEY = 0x80;
        /// Adds a unique key of the event.
        const EVENT_KEY = 0x100;
        /// Adds the id of the container.
        const SOURCE_CONTAINER_TRACKING = 0x800;
        const _ = !0;
    }
}

/// A filter in addition to level and keywords (`EVENT_FILTER_DESCRIPTOR`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Filter {
    /// Events with these ids, or all but these (`EVENT_FILTER_TYPE_EVENT_ID`).
    EventIds {
        /// Whether to include these events, or to exclude them.
        include: bool,
        /// The ids.
        ids: Vec<u16>,
    },
    /// TraceLogging events with these names, or all but these (`EVENT_FILTER_TYPE_EVENT_NAME`). Applies only to events
    /// of the level and keywords given here; others pass.
    EventNames {
        /// Whether to include these events, or to exclude them.
        include: bool,
        /// Maximum level to which the filter applies; 0 for all.
        #[serde(with = "wire::level")]
        level: Level,
        /// Keywords of which an event must have one for the filter to apply; 0 for all.
        #[serde(with = "wire::keyword")]
        any: Keyword,
        /// Keywords that an event must all have for the filter to apply.
        #[serde(with = "wire::keyword")]
        all: Keyword,
        /// The names.
        names: Vec<String>,
    },
    /// Events whose payload matches conditions (`EVENT_FILTER_TYPE_PAYLOAD`).
    Payload(PayloadFilter),
    /// Providers in these processes (`EVENT_FILTER_TYPE_PID`). The host enables only these processes.
    Pids(Vec<u32>),
    /// Providers in processes that run a program with one of these file names (`EVENT_FILTER_TYPE_EXECUTABLE_NAME`).
    /// The host enables only these processes.
    ExecutableNames(Vec<String>),
    /// Stacks are added only to events with these ids, or to all but these (`EVENT_FILTER_TYPE_STACKWALK`).
    StackWalkIds {
        /// Whether these events have stacks, or all others.
        include: bool,
        /// The ids.
        ids: Vec<u16>,
    },
    /// Stacks are added only to TraceLogging events with these names, or to all but these
    /// (`EVENT_FILTER_TYPE_STACKWALK_NAME`).
    StackWalkNames {
        /// Whether these events have stacks, or all others.
        include: bool,
        /// The names.
        names: Vec<String>,
    },
    /// Stacks are added only to events of a level and keywords, or to all others
    /// (`EVENT_FILTER_TYPE_STACKWALK_LEVEL_KW`).
    StackWalkLevelKeyword {
        /// Whether these events have stacks, or all others.
        include: bool,
        /// Maximum level; 0 for all.
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
    /// Events whose payload matches one of several sets of conditions.
    AnyPayload(Vec<PayloadFilter>),
}

/// Conditions on the payload of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadFilter {
    /// Id of the events to which the conditions apply; others pass. `None` for all events.
    pub event: Option<u16>,
    /// Whether one matching predicate suffices.
    pub any: bool,
    /// The predicates.
    pub predicates: Vec<PayloadPredicate>,
    /// The fields of events that do not describe themselves. Without layouts such events pass; otherwise those without
    /// a layout do not.
    pub layouts: Vec<PayloadLayout>,
}

/// The fields at the start of an event's payload, for a payload filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadLayout {
    /// The event's id.
    pub id: u16,
    /// The event's version.
    pub version: u8,
    /// The fields, each a single value, in the order of the payload.
    pub fields: Vec<LayoutField>,
}

/// A field of a [`PayloadLayout`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutField {
    /// The field's name; empty if no predicate names it.
    pub name: String,
    /// The encoding (`_TDH_IN_TYPE`, `tdh.h`).
    pub in_type: u8,
}

/// A condition on one field (`PAYLOAD_FILTER_PREDICATE`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadPredicate {
    /// The field's name.
    pub field: String,
    /// How it is compared.
    pub operator: PayloadOperator,
    /// The value to compare with, as text; a range is `1,10`.
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
    /// Outside a range.
    NotBetween,
    /// A multiple of the value (`PAYLOADFIELD_MODULO`).
    Modulo,
    /// Text that contains another, ignoring case.
    Contains,
    /// Text that does not contain another, ignoring case.
    DoesNotContain,
    /// Equal, ignoring case.
    Is,
    /// Not equal, ignoring case.
    IsNot,
}

impl Enable {
    /// Checks that everything is within the limits.
    pub(crate) fn check(&self) -> Result<(), ProtocolError> {
        at_most("filters", self.filters.len(), MAX_FILTERS)?;
        self.filters.iter().try_for_each(Filter::check)
    }
}

impl Filter {
    /// Returns whether a process that runs a program with this file name passes the filter. Filters on other properties
    /// pass every process.
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
            Filter::Payload(payload) => payload.check(),
            Filter::AnyPayload(alternatives) => {
                at_most("alternatives of a filter", alternatives.len(), MAX_ALTERNATIVES)?;
                alternatives.iter().try_for_each(PayloadFilter::check)
            }
            Filter::Data { data, .. } => {
                at_most("bytes of a filter's data", data.len(), MAX_FILTER_DATA_BYTES)
            }
            Filter::StackWalkLevelKeyword { .. } => Ok(()),
        }
    }
}

impl PayloadFilter {
    fn check(&self) -> Result<(), ProtocolError> {
        at_most("predicates of a filter", self.predicates.len(), MAX_PREDICATES)?;
        self.predicates.iter().try_for_each(|predicate| {
            text("a field of a predicate", &predicate.field, MAX_NAME_BYTES)?;
            at_most("bytes of a predicate's value", predicate.value.len(), MAX_NAME_BYTES)
        })?;
        at_most("layouts of a filter", self.layouts.len(), MAX_LAYOUTS)?;
        self.layouts.iter().try_for_each(|layout| {
            at_most("fields of a layout", layout.fields.len(), MAX_LAYOUT_FIELDS)?;
            let mut names = layout.fields.iter().map(|field| &field.name);
            names.try_for_each(|name| text("a field of a layout", name, MAX_NAME_BYTES))
        })
    }
}

/// Whether a name in a filter matches a program, with or without `.exe` and ignoring case.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_a_number_on_the_wire_and_keep_unknown_bits() {
        let properties = EnableProperties::STACK_TRACE | EnableProperties(0x8000_0000);
        let bytes = postcard::to_allocvec(&properties).unwrap();
        assert_eq!(bytes, postcard::to_allocvec(&0x8000_0004_u32).unwrap());
        assert_eq!(postcard::from_bytes(&bytes), Ok(properties));
    }
}
